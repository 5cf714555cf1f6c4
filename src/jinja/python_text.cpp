#include "jinja/python_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "jinja/characters.h"
#include "jinja/numbers.h"

namespace pagedinfer::jinja {
namespace {

constexpr size_t kFloatSteps = 4;  // of writing one

void append_string_repr(TextBuilder& out, const MarkedText& content) {
  const std::string& text = content.text;
  const bool has_single = text.find('\'') != std::string::npos;
  const bool doubled = has_single && text.find('"') == std::string::npos;
  const char quote = doubled ? '"' : '\'';
  out.add(std::string_view(&quote, 1));
  size_t done = 0;
  for_characters(text, [&](char32_t c, size_t begin, size_t end) {
    std::string escape;
    if (c == '\\' || c == static_cast<char32_t>(quote)) {
      escape = {'\\', static_cast<char>(c)};
    } else if (c == '\n') {
      escape = "\\n";
    } else if (c == '\r') {
      escape = "\\r";
    } else if (c == '\t') {
      escape = "\\t";
    } else if (c < 0x20 || c == 0x7F || (c >= 0x80 && !is_printable(c))) {
      escape = escape_of(c);
    } else {
      return;
    }
    out.add(content, done, begin);
    out.add(escape, content.any_marked(begin, end));
    done = end;
  });
  out.add(content, done, text.size());
  out.add(std::string_view(&quote, 1));
}

// `append(i)` for each i below `count`, with commas between, in brackets.
template <class Append>
void append_list(TextBuilder& out, std::string_view begin, size_t count, std::string_view end,
                 const Append& append) {
  out.add(begin);
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) out.add(", ");
    append(i);
  }
  out.add(end);
}

// Writes JSON as Python's json.dumps() does.
class JsonText {
 public:
  JsonText(const JsonOptions& options, Budget& budget)
      : options_(options), budget_(budget), out_(budget) {}

  MarkedText text_of(const Value& value) {
    add(value, 0);
    return out_.take();
  }

 private:
  void add(const Value& value, int level) {
    budget_.spend_steps();
    switch (value.kind()) {
      case Kind::kNone: return out_.add("null");
      case Kind::kBool: return out_.add(value.as_bool() ? "true" : "false");
      case Kind::kInt: return out_.add(std::to_string(value.as_int()));
      case Kind::kBigInt: return out_.add(value.text());
      case Kind::kFloat:
        budget_.spend_steps(kFloatSteps);
        return out_.add(number(value.as_double()));
      case Kind::kString: return add_string(value.marked());
      case Kind::kList:
      case Kind::kTuple: return add_list(value.items(), level);
      case Kind::kDict: return add_dict(value.entries(), level);
      default: throw TemplateError(fmt::format("{} cannot be written as JSON", type_name(value)));
    }
  }

  static std::string number(double value) {
    std::string text = float_repr(value);
    if (text == "nan") return "NaN";
    if (text == "inf") return "Infinity";
    return text == "-inf" ? "-Infinity" : text;
  }

  void add_string(const MarkedText& content) {
    budget_.spend_reading(content.text.size());
    out_.add("\"");
    size_t done = 0;
    for_characters(content.text, [&](char32_t c, size_t begin, size_t end) {
      if (c >= 0x20 && c != '"' && c != '\\' && (!options_.ensure_ascii || c < 0x7F)) return;
      out_.add(content, done, begin);
      out_.add(escape(c), content.any_marked(begin, end));
      done = end;
    });
    out_.add(content, done, content.text.size());
    out_.add("\"");
  }

  static std::string escape(char32_t c) {
    switch (c) {
      case '"': return "\\\"";
      case '\\': return "\\\\";
      case '\n': return "\\n";
      case '\r': return "\\r";
      case '\t': return "\\t";
      case '\f': return "\\f";
      case '\b': return "\\b";
      default: break;
    }
    const auto code = static_cast<uint32_t>(c);
    if (code < 0x10000) return fmt::format("\\u{:04x}", code);
    const uint32_t rest = code - 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
  }

  void add_line(int level) {
    if (!options_.indented) return;
    out_.add("\n");
    out_.add_repeated(marked_text(options_.indent, false), level);
  }

  void add_list(const std::vector<Value>& items, int level) {
    if (items.empty()) return out_.add("[]");
    out_.add("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.add(options_.item_separator);
      add_line(level + 1);
      add(items[i], level + 1);
    }
    add_line(level);
    out_.add("]");
  }

  void add_key(const Value& key) {
    switch (key.kind()) {
      case Kind::kString: return add_string(key.marked());
      case Kind::kFloat: return out_.add(fmt::format("\"{}\"", number(key.as_double())));
      case Kind::kBool: return out_.add(key.as_bool() ? "\"true\"" : "\"false\"");
      case Kind::kNone: return out_.add("\"null\"");
      case Kind::kInt: return out_.add(fmt::format("\"{}\"", key.as_int()));
      default: throw TemplateError(fmt::format("{} cannot be a key of JSON", type_name(key)));
    }
  }

  void add_dict(const Dict& dict, int level) {
    if (dict.size() == 0) return out_.add("{}");
    budget_.spend_values(dict.size());
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (options_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        return is_less(a->first, b->first, budget_);
      });
    }
    out_.add("{");
    bool first = true;
    for (const Dict::Entry* entry : entries) {
      if (!std::exchange(first, false)) out_.add(options_.item_separator);
      add_line(level + 1);
      add_key(entry->first);
      out_.add(options_.key_separator);
      add(entry->second, level + 1);
    }
    add_line(level);
    out_.add("}");
  }

  const JsonOptions& options_;
  Budget& budget_;
  TextBuilder out_;
};

}  // namespace

void append_repr(TextBuilder& out, const Value& value, Budget& budget) {
  budget.spend_steps();
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined: return out.add("Undefined");
    case Kind::kNone: return out.add("None");
    case Kind::kBool: return out.add(value.as_bool() ? "True" : "False");
    case Kind::kInt: return out.add(std::to_string(value.as_int()));
    case Kind::kBigInt: return out.add(value.text());
    case Kind::kFloat:
      budget.spend_steps(kFloatSteps);
      return out.add(float_repr(value.as_double()));
    case Kind::kString:
      budget.spend_characters(value.text().size());
      if (value.is_safe()) out.add("Markup(");
      append_string_repr(out, value.marked());
      return out.add(value.is_safe() ? ")" : "");
    case Kind::kList:
    case Kind::kTuple: {
      const std::vector<Value>& items = value.items();
      const bool is_list = value.is(Kind::kList);
      return append_list(out, is_list ? "[" : "(", items.size(),
                         is_list             ? "]"
                         : items.size() == 1 ? ",)"
                                             : ")",
                         [&](size_t i) { append_repr(out, items[i], budget); });
    }
    case Kind::kDict:
      return append_list(out, "{", value.entries().size(), "}", [&](size_t i) {
        const auto& [key, item] = value.entries().entries()[i];
        append_repr(out, key, budget);
        out.add(": ");
        append_repr(out, item, budget);
      });
    case Kind::kRange: {
      const RangeObject& range = value.range();
      return out.add(range.step == 1
                         ? fmt::format("range({}, {})", range.start, range.stop)
                         : fmt::format("range({}, {}, {})", range.start, range.stop, range.step));
    }
    case Kind::kView:
      return append_list(out, type_name(value) + "([", value.view().dict.entries().size(), "])",
                         [&](size_t i) { append_repr(out, value.view().at(i), budget); });
    case Kind::kFunction:
      if (value.function().type_name == kReference) return out.add("<TemplateReference None>");
      [[fallthrough]];
    default: throw TemplateError(fmt::format("a {} as text is not supported", type_name(value)));
  }
}

MarkedText to_text(const Value& value, Budget& budget) {
  if (value.is_string()) {
    budget.spend_reading(value.text().size());
    return value.marked();
  }
  if (value.is_undefined()) return {};
  TextBuilder text(budget);
  append_repr(text, value, budget);
  return text.take();
}

MarkedText to_json(const Value& value, const JsonOptions& options, Budget& budget) {
  return JsonText(options, budget).text_of(value);
}

}  // namespace pagedinfer::jinja
