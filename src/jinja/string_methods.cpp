#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/utf8.h"
#include "jinja/characters.h"
#include "jinja/marked_text.h"
#include "jinja/methods.h"
#include "jinja/python_text.h"
#include "jinja/text_operations.h"

namespace pagedinfer::jinja {
namespace {

Value text_like(Runtime& runtime, const Value& self, MarkedText text) {
  return runtime.text(std::move(text), self.is_safe());
}

// What is added to a safe string is escaped.
MarkedText added_to(Runtime& runtime, const Value& self, const Value& more) {
  if (!self.is_safe() || more.is_safe()) return to_text(more, runtime.budget);
  return escape_html(to_text(more, runtime.budget), runtime.budget);
}

template <Case kTo>
Value to_case(Runtime& runtime, const Value& self, const Arguments& arguments) {
  positional("a method of str", arguments, {});
  return text_like(runtime, self, in_case(self.marked(), kTo, runtime.budget));
}

template <bool kLeft, bool kRight>
Value strip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound = positional("strip", arguments, {"chars"});
  std::optional<std::string_view> chars;
  if (bound.has_value(0)) chars = bound.string(0).text;
  const Span span = stripped(self.text(), chars, kLeft, kRight, runtime.budget);
  return text_like(runtime, self, self.marked().part(span.begin, span.end));
}

Value replace(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound = positional("replace", arguments, {"old", "new", "count"}, 2);
  bound.string(1);
  return text_like(runtime, self,
                   replaced(self.marked(), bound.string(0), added_to(runtime, self, bound[1]),
                            bound.integer(2, -1), runtime.budget));
}

Value parts(Runtime& runtime, const Value& self, const std::vector<Span>& spans) {
  runtime.budget.spend_values(spans.size());
  std::vector<Value> result;
  for (const Span& span : spans) {
    runtime.budget.spend_reading(span.end - span.begin);
    result.push_back(text_like(runtime, self, self.marked().part(span.begin, span.end)));
  }
  return Value::list(std::move(result));
}

template <bool kFromRight>
Value split(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("split", arguments, {"sep", "maxsplit"});
  const int64_t max_splits = bound.integer(1, -1);
  if (!bound.has_value(0)) {
    return parts(runtime, self, split_words(self.text(), max_splits, kFromRight, runtime.budget));
  }
  const std::string& separator = bound.string(0).text;
  if (separator.empty()) throw TemplateError("split() expects a separator that is not empty");
  return parts(runtime, self,
               split_at(self.text(), separator, max_splits, kFromRight, runtime.budget));
}

Value splitlines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("splitlines", arguments, {"keepends"});
  return parts(runtime, self, split_lines(self.text(), bound.truth(0, false), runtime.budget));
}

template <bool kFromRight>
Value partition(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound = positional("partition", arguments, {"sep"}, 1);
  const std::string &text = self.text(), &separator = bound.string(0).text;
  if (separator.empty()) throw TemplateError("partition() expects a separator that is not empty");
  const size_t at =
      kFromRight ? find_last_text(text, separator, runtime.budget) : find_text(text, separator);
  const auto part = [&](size_t begin, size_t end) {
    return text_like(runtime, self, self.marked().part(begin, end));
  };
  if (at == std::string::npos) {
    const Value empty = text_like(runtime, self, {});
    const Value all = text_like(runtime, self, self.marked());
    return kFromRight ? runtime.tuple({empty, empty, all}) : runtime.tuple({all, empty, empty});
  }
  const size_t behind = at + separator.size();
  const Value middle = self.is_safe() ? text_like(runtime, self, bound.string(0)) : bound[0];
  return runtime.tuple({part(0, at), middle, part(behind, text.size())});
}

Value join(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound = positional("join", arguments, {"iterable"}, 1);
  TextBuilder result(runtime.budget);
  Items items(runtime, bound[0]);
  bool first = true;
  for (Value item = items.next(); !item.is_missing(); item = items.next()) {
    if (!item.is_string() && !self.is_safe()) {
      throw TemplateError(fmt::format("join() expects strings, found {}", type_name(item)));
    }
    if (!std::exchange(first, false)) result.add(self.marked());
    result.add(added_to(runtime, self, item));
  }
  return text_like(runtime, self, result.take());
}

// The part of the text between two optional arguments, in bytes; nothing if it lies outside.
std::optional<Span> searched(Runtime& runtime, const Value& self, const Bound& bound,
                             size_t first) {
  const std::string& text = self.text();
  if (!bound.has_value(first) && !bound.has_value(first + 1)) return Span{0, text.size()};
  runtime.budget.spend_reading(2 * text.size());
  const int64_t size = num_characters(text);
  const auto index = [&](size_t i, int64_t otherwise) {
    int64_t at = bound.has_value(i) ? bound.integer(i, 0) : otherwise;
    if (at < 0) at = std::max<int64_t>(at + size, 0);
    return at;
  };
  const int64_t begin = index(first, 0), end = std::min(index(first + 1, size), size);
  if (begin > size || begin > end) return std::nullopt;
  return Span{character_offset(text, static_cast<size_t>(begin)),
              character_offset(text, static_cast<size_t>(end))};
}

template <bool kFromRight>
int64_t find_index(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound = positional("find", arguments, {"sub", "start", "end"}, 1);
  const std::string& sub = bound.string(0).text;
  const std::optional<Span> span = searched(runtime, self, bound, 1);
  if (!span) return -1;
  const std::string_view text = std::string_view(self.text()).substr(0, span->end);
  const size_t at =
      kFromRight ? find_last_text(text, sub, runtime.budget) : find_text(text, sub, span->begin);
  if (at == std::string_view::npos || at < span->begin) return -1;
  return num_characters(text.substr(0, at));
}
template <bool kFromRight>
Value find(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return Value::integer(find_index<kFromRight>(runtime, self, arguments));
}
template <bool kFromRight>
Value index(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const int64_t found = find_index<kFromRight>(runtime, self, arguments);
  if (found < 0) throw TemplateError("index() did not find the substring");
  return Value::integer(found);
}

Value count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound = positional("count", arguments, {"sub", "start", "end"}, 1);
  const std::string& sub = bound.string(0).text;
  const std::optional<Span> span = searched(runtime, self, bound, 1);
  if (!span) return Value::integer(0);
  const std::string_view text =
      std::string_view(self.text()).substr(span->begin, span->end - span->begin);
  if (sub.empty()) return Value::integer(num_characters(text) + 1);
  int64_t found = 0;
  for (size_t at = 0; (at = find_text(text, sub, at)) != std::string_view::npos; at += sub.size()) {
    runtime.budget.spend_steps();
    ++found;
  }
  return Value::integer(found);
}

template <bool kAtEnd>
Value has_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const std::string_view name = kAtEnd ? "endswith" : "startswith";
  const Bound bound = positional(name, arguments, {"affix", "start", "end"}, 1);
  const std::optional<Span> span = searched(runtime, self, bound, 1);
  const auto matches = [&](const std::string& affix) {
    if (!span) return false;
    const std::string_view text =
        std::string_view(self.text()).substr(span->begin, span->end - span->begin);
    return kAtEnd ? text.ends_with(affix) : text.starts_with(affix);
  };
  if (!bound[0].is(Kind::kTuple)) return Value::boolean(matches(bound.string(0).text));
  for (const Value& affix : bound[0].items()) {
    runtime.budget.spend_steps();
    if (!affix.is_string()) throw TemplateError(fmt::format("{}() expects strings", name));
    runtime.budget.spend_reading(affix.text().size());
    if (matches(affix.text())) return Value::boolean(true);
  }
  return Value::boolean(false);
}

template <bool kAtEnd>
Value remove_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound = positional("removeprefix", arguments, {"affix"}, 1);
  const std::string &text = self.text(), &affix = bound.string(0).text;
  Span span{0, text.size()};
  if (kAtEnd && text.ends_with(affix)) span.end -= affix.size();
  if (!kAtEnd && text.starts_with(affix)) span.begin += affix.size();
  return text_like(runtime, self, self.marked().part(span.begin, span.end));
}

enum class Side { kLeft, kRight, kCenter };

template <Side kSide>
Value justify(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound = positional("center", arguments, {"width", "fillchar"}, 1);
  const int64_t width = bound.integer(0, 0), size = num_characters(self.text());
  MarkedText fill = marked_text(" ", false);
  if (bound.has(1)) {
    if (num_characters(bound.string(1).text) != 1) {
      throw TemplateError("the fill is one character");
    }
    fill = added_to(runtime, self, bound[1]);
  }
  const int64_t missing = std::max<int64_t>(width - size, 0);
  // As CPython divides an odd number of characters.
  int64_t left = kSide == Side::kCenter ? missing / 2 + (missing & width & 1) : 0;
  if (kSide == Side::kRight) left = missing;
  TextBuilder result(runtime.budget);
  result.add_repeated(fill, left);
  result.add(self.marked());
  result.add_repeated(fill, missing - left);
  return text_like(runtime, self, result.take());
}

Value zfill(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound = positional("zfill", arguments, {"width"}, 1);
  const std::string& text = self.text();
  const int64_t missing = bound.integer(0, 0) - num_characters(text);
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  TextBuilder result(runtime.budget);
  result.add(self.marked(), 0, sign);
  result.add_repeated(marked_text("0", false), missing);
  result.add(self.marked(), sign, text.size());
  return text_like(runtime, self, result.take());
}

// Whether the text has characters and all of them are of a kind.
template <bool (*kIsOfKind)(char32_t)>
Value is_all(Runtime& runtime, const Value& self, const Arguments& arguments) {
  positional("a method of str", arguments, {});
  runtime.budget.spend_characters(self.text().size());
  bool all = !self.text().empty();
  for_characters(self.text(), [&](char32_t c, size_t, size_t) { all = all && kIsOfKind(c); });
  return Value::boolean(all);
}
bool is_alphanumeric(char32_t c) { return is_letter(c) || is_numeric(c); }

Value isascii(Runtime&, const Value& self, const Arguments& arguments) {
  positional("isascii", arguments, {});
  return Value::boolean(std::ranges::all_of(
      self.text(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
}
Value isprintable(Runtime& runtime, const Value& self, const Arguments& arguments) {
  positional("isprintable", arguments, {});
  runtime.budget.spend_characters(self.text().size());
  bool all = true;
  for_characters(self.text(), [&](char32_t c, size_t, size_t) { all = all && is_printable(c); });
  return Value::boolean(all);
}
Value isidentifier(Runtime& runtime, const Value& self, const Arguments& arguments) {
  positional("isidentifier", arguments, {});
  runtime.budget.spend_characters(self.text().size());
  bool all = !self.text().empty();
  for_characters(self.text(), [&](char32_t c, size_t begin, size_t) {
    all = all && (begin == 0 ? may_start_name(c) : may_continue_name(c));
  });
  return Value::boolean(all);
}

template <Case kCase>
Value is_case(Runtime& runtime, const Value& self, const Arguments& arguments) {
  positional("a method of str", arguments, {});
  return Value::boolean(is_text_in(kCase, self.text(), runtime.budget));
}

Value istitle(Runtime& runtime, const Value& self, const Arguments& arguments) {
  positional("istitle", arguments, {});
  runtime.budget.spend_characters(self.text().size());
  bool after_letter = false, all = true, any = false;
  for_characters(self.text(), [&](char32_t c, size_t, size_t) {
    if (is_upper(c) || is_title(c)) {
      all = all && !after_letter;
      after_letter = any = true;
    } else if (is_lower(c)) {
      all = all && after_letter;
      any = true;
    } else {
      after_letter = false;
    }
  });
  return Value::boolean(all && any);
}

constexpr std::array kMethods = std::to_array<NamedMethod>({
    {"capitalize", to_case<Case::kCapitalized>},
    {"casefold", to_case<Case::kFolded>},
    {"center", justify<Side::kCenter>},
    {"count", count},
    {"endswith", has_affix<true>},
    {"find", find<false>},
    {"format", format_braces},
    {"index", index<false>},
    {"isalnum", is_all<is_alphanumeric>},
    {"isalpha", is_all<is_letter>},
    {"isascii", isascii},
    {"isdecimal", is_all<is_decimal>},
    {"isdigit", is_all<is_digit>},
    {"isidentifier", isidentifier},
    {"islower", is_case<Case::kLower>},
    {"isnumeric", is_all<is_numeric>},
    {"isprintable", isprintable},
    {"isspace", is_all<is_python_space>},
    {"istitle", istitle},
    {"isupper", is_case<Case::kUpper>},
    {"join", join},
    {"ljust", justify<Side::kLeft>},
    {"lower", to_case<Case::kLower>},
    {"lstrip", strip<true, false>},
    {"partition", partition<false>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"replace", replace},
    {"rfind", find<true>},
    {"rindex", index<true>},
    {"rjust", justify<Side::kRight>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"rstrip", strip<false, true>},
    {"split", split<false>},
    {"splitlines", splitlines},
    {"startswith", has_affix<false>},
    {"strip", strip<true, true>},
    {"swapcase", to_case<Case::kSwapped>},
    {"title", to_case<Case::kTitle>},
    {"upper", to_case<Case::kUpper>},
    {"zfill", zfill},
});

}  // namespace

std::span<const NamedMethod> string_methods() { return kMethods; }

}  // namespace pagedinfer::jinja
