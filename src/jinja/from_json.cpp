#include "jinja/from_json.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <string>

namespace pagedinfer::jinja {
namespace {

namespace dom = simdjson::dom;

constexpr int kMaxJsonNesting = 300;

Value value_of(dom::element json, bool marked, int nesting) {
  if (nesting > kMaxJsonNesting) {
    throw TemplateError(fmt::format("JSON is nested more than {} deep", kMaxJsonNesting), 0,
                        TemplateError::Reason::kLimit);
  }
  switch (json.type()) {
    case dom::element_type::OBJECT: {
      Dict result;
      for (const auto [key, item] : dom::object(json)) {
        result.set(key, value_of(item, marked, nesting + 1), marked);
      }
      return Value::dict(std::move(result));
    }
    case dom::element_type::ARRAY: {
      std::vector<Value> items;
      for (const dom::element item : dom::array(json)) {
        items.push_back(value_of(item, marked, nesting + 1));
      }
      return Value::list(std::move(items));
    }
    case dom::element_type::STRING:
      return Value::string(std::string(std::string_view(json)), marked);
    case dom::element_type::INT64: return Value::integer(int64_t(json));
    case dom::element_type::UINT64: return Value::big_integer(std::to_string(uint64_t(json)));
    case dom::element_type::DOUBLE: return Value::real(double(json));
    case dom::element_type::BOOL: return Value::boolean(bool(json));
    case dom::element_type::NULL_VALUE: break;
  }
  return Value::none();
}

}  // namespace

Value from_json(std::string_view json, bool marked) {
  dom::parser parser;
  const auto parsed = parser.parse(json.data(), json.size());
  if (parsed.error() != simdjson::SUCCESS) {
    throw TemplateError(fmt::format("not JSON: {}", simdjson::error_message(parsed.error())));
  }
  return value_of(parsed.value_unsafe(), marked, 0);
}

}  // namespace pagedinfer::jinja
