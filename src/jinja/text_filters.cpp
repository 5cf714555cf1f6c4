#include <fmt/format.h>

#include <array>

#include "core/utf8.h"
#include "jinja/characters.h"
#include "jinja/filters.h"
#include "jinja/marked_text.h"
#include "jinja/methods.h"
#include "jinja/python_text.h"
#include "jinja/text_operations.h"

namespace pagedinfer::jinja {
namespace {

// The value as a string, as `safe` as it was.
Value as_string(Runtime& runtime, const Value& value) {
  return value.is_string() ? value : runtime.text(to_text(value, runtime.budget));
}

Value call_method(Runtime& runtime, const Value& value, std::string_view name,
                  Arguments arguments = {}) {
  const Value self = as_string(runtime, value);
  return find_method(self, name)(runtime, self, arguments);
}

// A filter that is a method of str without arguments.
template <const std::string_view& kName>
Value as_method(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound(kName, arguments, {});
  return call_method(runtime, value, kName);
}
constexpr std::string_view kUpper = "upper", kLower = "lower", kCapitalize = "capitalize";

Value trim(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("trim", arguments, {"chars"});
  return call_method(runtime, value, "strip",
                     {.positional = {bound.has(0) ? bound[0] : Value::none()}});
}
Value center(Runtime& runtime, const Value& value, const Arguments& arguments) {
  constexpr int64_t kWidth = 80;
  const Bound bound("center", arguments, {"width"});
  return call_method(runtime, value, "center",
                     {.positional = {Value::integer(bound.integer(0, kWidth))}});
}

Value string(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("string", arguments, {});
  return as_string(runtime, value);
}

Value replace_text(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  Budget& budget = runtime.budget;
  const int64_t count = bound.has_value(2) ? bound.integer(2, -1) : -1;
  return runtime.text(replaced(to_text(value, budget), to_text(bound[0], budget),
                               to_text(bound[1], budget), count, budget));
}

// Capitals at the beginning of words, which white space and -({[< separate.
Value title(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("title", arguments, {});
  const MarkedText text = to_text(value, runtime.budget);
  const auto separates = [](char32_t c) {
    return is_python_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  TextBuilder out(runtime.budget);
  size_t word = 0, word_rest = 0;
  bool in_word = false;
  const auto end_word = [&](size_t end) {
    if (!in_word) return;
    out.add(in_case(text.part(word, word_rest), Case::kUpper, runtime.budget));
    out.add(in_case(text.part(word_rest, end), Case::kLower, runtime.budget));
    in_word = false;
  };
  for_characters(text.text, [&](char32_t c, size_t begin, size_t end) {
    if (separates(c)) {
      end_word(begin);
      out.add(text, begin, end);
    } else if (!in_word) {
      in_word = true;
      word = begin;
      word_rest = end;
    }
  });
  end_word(text.text.size());
  return runtime.text(out.take());
}

Value indent(Runtime& runtime, const Value& value, const Arguments& arguments) {
  constexpr int64_t kWidth = 4;
  const Bound bound("indent", arguments, {"width", "first", "blank"});
  require_defined(value);
  if (!value.is_string()) {
    throw TemplateError(fmt::format("indent expects a string, found {}", type_name(value)));
  }
  MarkedText indention = marked_text(" ", false);
  if (bound.has(0) && bound[0].is_string()) {
    indention = bound.string(0);
  } else {
    indention = repeated(indention, bound.integer(0, kWidth), runtime.budget);
  }
  MarkedText text = value.marked();
  text.add("\n");
  const std::vector<Span> lines = split_lines(text.text, false, runtime.budget);
  TextBuilder out(runtime.budget);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.add("\n");
    const bool empty = lines[i].begin == lines[i].end;
    if (i == 0 ? bound.truth(1, false) : bound.truth(2, false) || !empty) out.add(indention);
    out.add(text, lines[i].begin, lines[i].end);
  }
  return runtime.text(out.take(), value.is_safe());
}

Value truncate(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const int64_t length = bound.integer(0, 255);
  const int64_t leeway = bound.has_value(3) ? bound.integer(3, 0) : 5;
  const MarkedText end = bound.has(2) ? bound.string(2) : marked_text("...", false);
  const int64_t end_size = num_characters(end.text);
  if (length < end_size) throw TemplateError("truncate expects a length of at least the end's");
  if (leeway < 0) throw TemplateError("truncate expects a leeway of at least 0");
  const Value size = length_of(value);
  if (size.is_missing()) throw TemplateError("truncate expects a string");
  if (size.as_int() <= length + leeway) return value;
  if (!value.is_string()) throw TemplateError("truncate expects a string");
  const size_t kept = character_offset(value.text(), static_cast<size_t>(length - end_size));
  size_t cut = kept;
  if (!bound.truth(1, false)) {
    const size_t space = std::string_view(value.text()).substr(0, kept).rfind(' ');
    if (space != std::string_view::npos) cut = space;
  }
  MarkedText out = value.marked().part(0, cut);
  out.add(value.is_safe() ? escape_html(end, runtime.budget) : end);
  return runtime.text(std::move(out), value.is_safe());
}

Value wordcount(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("wordcount", arguments, {});
  int64_t count = 0;
  bool in_word = false;
  const MarkedText text = to_text(value, runtime.budget);
  runtime.budget.spend_characters(text.text.size());
  for_characters(text.text, [&](char32_t c, size_t, size_t) {
    count += is_word(c) && !in_word ? 1 : 0;
    in_word = is_word(c);
  });
  return Value::integer(count);
}

Value format_text(Runtime& runtime, const Value& value, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    throw TemplateError("format takes values by name or by place, not both");
  }
  Value values = Value::tuple(arguments.positional);
  if (!arguments.named.empty()) {
    Dict named;
    for (const auto& [name, argument] : arguments.named) named.set(name, argument);
    values = runtime.dict(std::move(named));
  }
  return format_percent(runtime, as_string(runtime, value), values);
}

Value safe(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("safe", arguments, {});
  return runtime.text(to_text(value, runtime.budget), true);
}
Value escape(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("escape", arguments, {});
  if (value.is_safe()) return value;
  return runtime.text(escape_html(to_text(value, runtime.budget), runtime.budget), true);
}
Value forceescape(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("forceescape", arguments, {});
  return runtime.text(escape_html(to_text(value, runtime.budget), runtime.budget), true);
}

// Text for a URL: of a path, or of a query.
MarkedText quoted(Runtime& runtime, const Value& value, bool query) {
  constexpr char kHex[] = "0123456789ABCDEF";
  const MarkedText text = to_text(value, runtime.budget);
  TextBuilder out(runtime.budget);
  for (size_t i = 0; i < text.text.size(); ++i) {
    const char c = text.text[i];
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !query);
    const char escape[] = {'%', kHex[byte >> 4], kHex[byte & 15]};
    const std::string_view replacement =
        c == ' ' && query ? std::string_view("+") : std::string_view(escape, sizeof escape);
    out.add(plain ? std::string_view(&c, 1) : replacement, text.any_marked(i, i + 1));
  }
  return out.take();
}

Value urlencode(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("urlencode", arguments, {});
  if (value.is_string() || !is_iterable(value)) return runtime.text(quoted(runtime, value, false));
  TextBuilder out(runtime.budget);
  const Value pairs = value.is(Kind::kDict)
                          ? Value::of(Kind::kView, new ViewObject(value, ViewObject::Of::kItems))
                          : value;
  Items items(runtime, pairs);
  for (Value item = items.next(); !item.is_missing(); item = items.next()) {
    const std::vector<Value> pair = all_items(runtime, item);
    if (pair.size() != 2) throw TemplateError("urlencode expects pairs");
    if (!out.empty()) out.add("&");
    out.add(quoted(runtime, pair[0], true));
    out.add("=");
    out.add(quoted(runtime, pair[1], true));
  }
  return runtime.text(out.take());
}

Value tojson(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonOptions options;
  options.ensure_ascii = bound.truth(0, false);
  options.sort_keys = bound.truth(3, false);
  if (bound.has_value(1)) {
    options.indented = true;
    options.item_separator = std::string(",");
    options.indent =
        bound[1].is_string()
            ? bound[1].text()
            : repeated(marked_text(" ", false), bound.integer(1, 0), runtime.budget).text;
  }
  if (bound.has_value(2)) {
    const std::vector<Value> separators = all_items(runtime, bound[2]);
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
      throw TemplateError("tojson expects two separators");
    }
    options.item_separator = separators[0].text();
    options.key_separator = separators[1].text();
  }
  return runtime.text(to_json(value, options, runtime.budget));
}

constexpr std::array kTextFilters = std::to_array<NamedFilter>({
    {kCapitalize, as_method<kCapitalize>},
    {"center", center},
    {"e", escape},
    {"escape", escape},
    {"forceescape", forceescape},
    {"format", format_text},
    {"indent", indent},
    {kLower, as_method<kLower>},
    {"replace", replace_text},
    {"safe", safe},
    {"string", string},
    {"title", title},
    {"tojson", tojson},
    {"trim", trim},
    {"truncate", truncate},
    {kUpper, as_method<kUpper>},
    {"urlencode", urlencode},
    {"wordcount", wordcount},
});

}  // namespace

std::span<const NamedFilter> text_filters() { return kTextFilters; }

}  // namespace pagedinfer::jinja
