#include <fmt/format.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "request/line_fields.h"

namespace pagedinfer {

namespace dom = simdjson::dom;

namespace {

// The form that one object of a line asks for. Each field is read once; a second form is refused.
class FormReader {
 public:
  FormReader(RequestFields& fields, AnswerForm& form) : fields_(fields), form_(form) {}

  // A JSON schema: an object, true, or the text of either.
  void schema(const std::string& path, dom::element value) {
    std::string_view text;
    if (value.get(text) == simdjson::SUCCESS) return add(path, FormKind::kJsonSchema, {text});
    if (!value.is_object() && !value.is_bool()) {
      return fields_.refuse_value(path, value, "a JSON schema");
    }
    const std::string json = simdjson::minify(value);
    add(path, FormKind::kJsonSchema, {json});
  }
  void text(const std::string& path, FormKind kind, dom::element value) {
    std::string_view text;
    if (value.get(text) != simdjson::SUCCESS || text.empty()) {
      return fields_.refuse_value(path, value, "a string that is not empty");
    }
    add(path, kind, {text});
  }
  void choices(const std::string& path, dom::element value) {
    dom::array list;
    std::vector<std::string_view> texts;
    if (value.get(list) != simdjson::SUCCESS) {
      return fields_.refuse_value(path, value, "a list of strings");
    }
    for (const dom::element item : list) {
      std::string_view text;
      if (item.get(text) != simdjson::SUCCESS || text.empty()) {
        return fields_.refuse_value(path, value, "a list of strings that are not empty");
      }
      texts.push_back(text);
    }
    if (texts.empty()) return fields_.refuse_value(path, value, "a list that is not empty");
    add(path, FormKind::kChoices, texts);
  }
  // The line explicitly asks for no form.
  void text_without_form() { is_named_ = true; }
  bool is_named() const { return is_named_ || !first_.empty(); }
  void object(const std::string& path) { add(path, FormKind::kJson, {}); }

 private:
  void add(const std::string& path, FormKind kind, const std::vector<std::string_view>& texts) {
    if (fields_.failed()) return;
    if (!first_.empty()) {
      return fields_.refuse_found(path, fmt::format("it beside {}", first_), "one form");
    }
    first_ = path;
    form_.kind = kind;
    form_.texts = std::vector<std::string>(texts.begin(), texts.end());
  }

  RequestFields& fields_;
  AnswerForm& form_;
  std::string first_;
  bool is_named_ = false;
};

// {"type": "text"}, {"type": "json_object"} or {"type": "json_schema", "json_schema": {...}}.
void read_response_format(RequestFields& fields, FormReader& reader) {
  constexpr int kFormat = key("response_format");
  const std::string path = fields.path_of(kFormat);
  dom::object format;
  std::string_view type;
  if (fields.at(kFormat).get(format) != simdjson::SUCCESS ||
      (format.size() > 0 && format["type"].get(type) != simdjson::SUCCESS)) {
    return fields.refuse(kFormat, "an object with a type");
  }
  if (format.size() == 0) return;
  const bool has_schema = type == "json_schema";
  if (!has_schema && type != "text" && type != "json_object") {
    return fields.refuse_unsupported(path + ".type", format["type"]);
  }
  for (const auto [name, value] : format) {
    if (name == "type" || (has_schema && name == "json_schema") || value.is_null()) continue;
    return fields.refuse_unsupported(fmt::format("{}.{}", path, name), value);
  }
  if (type == "text") return reader.text_without_form();
  if (type == "json_object") return reader.object(path);
  dom::object named;
  if (format["json_schema"].get(named) != simdjson::SUCCESS) {
    return fields.refuse(kFormat, "a json_schema beside its type, an object");
  }
  dom::element schema;
  bool found = false;
  for (const auto [name, value] : named) {
    const std::string inner = fmt::format("{}.json_schema.{}", path, name);
    if (name == "schema") {
      schema = value;
      found = true;
    } else if (name == "strict" && !value.is_bool() && !value.is_null()) {
      return fields.refuse_value(inner, value, "true or false");  // either way the form is kept
    } else if (name != "strict" && name != "name" && name != "description") {
      return fields.refuse_unsupported(inner, value);
    }
  }
  if (!found) return fields.refuse(kFormat, "a json_schema with a schema");
  reader.schema(fmt::format("{}.json_schema.schema", path), schema);
}

void read_structured_outputs(RequestFields& fields, FormReader& reader, AnswerForm& form) {
  constexpr int kOutputs = key("structured_outputs");
  dom::object outputs;
  if (!fields.get(kOutputs, outputs, "an object")) return;
  for (const auto [name, value] : outputs) {
    const std::string path = fmt::format("{}.{}", fields.path_of(kOutputs), name);
    bool on = false;
    if (value.is_null()) continue;
    if (name == "json") {
      reader.schema(path, value);
    } else if (name == "regex") {
      reader.text(path, FormKind::kRegex, value);
    } else if (name == "choice") {
      reader.choices(path, value);
    } else if (name == "grammar") {
      reader.text(path, FormKind::kGrammar, value);
    } else if (name == "json_object" && value.get(on) == simdjson::SUCCESS) {
      if (on) reader.object(path);
    } else if (name == "disable_any_whitespace" && value.get(on) == simdjson::SUCCESS) {
      form.whitespace = !on;
    } else {
      fields.refuse_unsupported(path, value);
    }
  }
}

}  // namespace

bool read_form(RequestFields& fields, AnswerForm& form) {
  AnswerForm asked = {.whitespace = form.whitespace};
  FormReader reader(fields, asked);
  if (fields.asks(key("response_format"))) read_response_format(fields, reader);
  const auto read_key = [&](int key, const auto& read) {
    if (fields.asks(key)) read(fields.path_of(key), fields.at(key));
  };
  const auto read_text = [&](FormKind kind) {
    return [&reader, kind](const std::string& path, dom::element value) {
      reader.text(path, kind, value);
    };
  };
  read_key(key("guided_json"), std::bind_front(&FormReader::schema, &reader));
  read_key(key("guided_regex"), read_text(FormKind::kRegex));
  read_key(key("guided_choice"), std::bind_front(&FormReader::choices, &reader));
  read_key(key("guided_grammar"), read_text(FormKind::kGrammar));
  if (fields.asks(key("structured_outputs"))) read_structured_outputs(fields, reader, asked);
  if (reader.is_named()) {
    form = std::move(asked);
  } else {
    form.whitespace = asked.whitespace;
  }
  return reader.is_named();
}

}  // namespace pagedinfer
