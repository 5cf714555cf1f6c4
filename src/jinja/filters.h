// The filters and tests of templates.
#pragma once

#include <span>
#include <string_view>

#include "jinja/runtime.h"

namespace pagedinfer::jinja {

// Whether jinja2 has a filter of that name. Some of them fail when they are used: what they do is
// not supported.
bool is_filter(std::string_view name);

// value | name(arguments)
Value apply_filter(Runtime& runtime, std::string_view name, const Value& value,
                   Arguments arguments);

// Whether there is a test of that name.
bool is_test(std::string_view name);

// value is name(arguments)
bool apply_test(Runtime& runtime, std::string_view name, const Value& value,
                const Arguments& arguments);

struct NamedFilter {
  std::string_view name;
  Value (*filter)(Runtime& runtime, const Value& value, const Arguments& arguments);
};

// By what they work on.
std::span<const NamedFilter> text_filters();
std::span<const NamedFilter> number_filters();
std::span<const NamedFilter> sequence_filters();
std::span<const NamedFilter> order_filters();

// Gets `a.b.0` of a value, part by part; the value itself of a missing or none path. `otherwise`
// stands for what is undefined, unless it is missing or none.
class AttributePath {
 public:
  AttributePath(Runtime& runtime, const Value& path, const Value& otherwise = {});
  Value of(const Value& value) const;

 private:
  Runtime& runtime_;
  std::vector<Value> parts_ = {};
  Value otherwise_;
};

// Strings in lower case, other values as they are.
Value without_case(Runtime& runtime, const Value& value);

}  // namespace pagedinfer::jinja
