#include "jinja/filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace pagedinfer::jinja {
namespace {

constexpr std::array<std::string_view, 7> kUnsupported = {
    "filesizeformat", "pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr"};

const NamedFilter* find_filter(std::string_view name) {
  for (const auto filters :
       {text_filters(), number_filters(), sequence_filters(), order_filters()}) {
    const auto found = std::ranges::find(filters, name, &NamedFilter::name);
    if (found != filters.end()) return &*found;
  }
  return nullptr;
}

}  // namespace

bool is_filter(std::string_view name) {
  return find_filter(name) != nullptr ||
         std::ranges::find(kUnsupported, name) != kUnsupported.end();
}

Value apply_filter(Runtime& runtime, std::string_view name, const Value& value,
                   Arguments arguments) {
  spend_operands(runtime.budget, value, arguments);
  if (const NamedFilter* filter = find_filter(name)) {
    return filter->filter(runtime, value, arguments);
  }
  throw TemplateError(is_filter(name) ? fmt::format("the filter '{}' is not supported", name)
                                      : fmt::format("there is no filter '{}'", name));
}

}  // namespace pagedinfer::jinja
