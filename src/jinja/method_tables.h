// The methods of each type.
#pragma once

#include <span>
#include <string_view>

#include "jinja/methods.h"

namespace pagedinfer::jinja {

struct NamedMethod {
  std::string_view name;
  Method method;
};

std::span<const NamedMethod> string_methods();

// The arguments of a method that takes none by name.
Bound positional(std::string_view method, const Arguments& arguments,
                 std::initializer_list<std::string_view> parameters, size_t num_required = 0);

}  // namespace pagedinfer::jinja
