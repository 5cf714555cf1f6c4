#pragma once

#include <span>
#include <string_view>

#include "jinja/runtime.h"

namespace pagedinfer::jinja {

using Method = Value (*)(Runtime& runtime, const Value& self, const Arguments& arguments);

// dict.fromkeys(...).
Value dict_of_keys(Runtime& runtime, const Arguments& arguments);

// A method of str, list, tuple, dict, range; null if there is no such one.
Method find_method(const Value& self, std::string_view name);

// Whether the sandbox keeps templates from calling it, as it would change the value.
bool is_mutating(const Value& self, std::string_view name);

// Whether Python has an attribute of that name which is not supported here.
bool is_unsupported(const Value& self, std::string_view name);

struct NamedMethod {
  std::string_view name;
  Method method;
};

std::span<const NamedMethod> string_methods();

// The arguments of a method that takes none by name.
Bound positional(std::string_view method, const Arguments& arguments,
                 std::initializer_list<std::string_view> parameters, size_t num_required = 0);

}  // namespace pagedinfer::jinja
