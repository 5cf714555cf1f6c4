#include "jinja/text_operations.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/utf8.h"
#include "jinja/characters.h"
#include "jinja/marked_text.h"

namespace pagedinfer::jinja {
namespace {

constexpr char32_t kSigma = 0x3A3, kFinalSigma = 0x3C2;

char32_t character_before(std::string_view text, size_t end, size_t& begin) {
  begin = character_begin(text, end);
  return utf8_character(text.substr(begin, end - begin));
}

// Whether the capital sigma at [begin, end) ends a word.
bool ends_word(std::string_view text, size_t begin, size_t end, Budget& budget) {
  bool after_letter = false;
  for (size_t at = begin; at > 0;) {
    budget.spend_steps();
    const char32_t c = character_before(text, at, at);
    if (is_case_ignorable(c)) continue;
    after_letter = is_cased(c);
    break;
  }
  for (size_t at = end; after_letter && at < text.size(); at += utf8_size(text[at])) {
    budget.spend_steps();
    const char32_t c = utf8_character(text.substr(at, utf8_size(text[at])));
    if (is_case_ignorable(c)) continue;
    return !is_cased(c);
  }
  return after_letter;
}

void append_lower_in(std::string& out, std::string_view text, char32_t c, size_t begin, size_t end,
                     Budget& budget) {
  if (c == kSigma && ends_word(text, begin, end, budget)) {
    append_utf8(out, kFinalSigma);
  } else {
    append_lower(out, c);
  }
}

bool is_line_end(char32_t c) {
  return (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

}  // namespace

size_t find_text(std::string_view text, std::string_view part, size_t begin) {
  if (begin > text.size()) return std::string_view::npos;
  if (part.empty()) return begin;
  // The C library searches in linear time; std::string_view::find() does not.
  const void* const found =
      memmem(text.data() + begin, text.size() - begin, part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t find_last_text(std::string_view text, std::string_view part, Budget& budget) {
  if (part.size() > text.size()) return std::string_view::npos;
  budget.spend_text(text.size() + part.size());
  const std::string reversed_text(text.rbegin(), text.rend());
  const std::string reversed_part(part.rbegin(), part.rend());
  const size_t found = find_text(reversed_text, reversed_part);
  return found == std::string_view::npos ? found : text.size() - found - part.size();
}

Span stripped(std::string_view text, const std::optional<std::string_view>& chars, bool left,
              bool right, Budget& budget) {
  std::vector<char32_t> wanted;
  if (chars) {
    budget.spend_characters(2 * chars->size());
    budget.spend_memory(chars->size() * sizeof(char32_t));
    for_characters(*chars, [&](char32_t c, size_t, size_t) { wanted.push_back(c); });
    std::ranges::sort(wanted);
  }
  const auto is_stripped = [&](char32_t c) {
    budget.spend_steps();
    return chars ? std::ranges::binary_search(wanted, c) : is_python_space(c);
  };
  size_t begin = 0, end = text.size();
  while (left && begin < end) {
    const std::string_view bytes = text.substr(begin, utf8_size(text[begin]));
    if (!is_stripped(utf8_character(bytes))) break;
    begin += bytes.size();
  }
  while (right && begin < end) {
    size_t last = 0;
    const char32_t c = character_before(text, end, last);
    if (!is_stripped(c)) break;
    end = last;
  }
  return {begin, end};
}

MarkedText replaced(const MarkedText& text, const MarkedText& old, const MarkedText& with,
                    int64_t max_count, Budget& budget) {
  budget.spend_reading(text.text.size() + old.text.size());
  TextBuilder out(budget);
  size_t done = 0, at = 0;
  const size_t step = old.text.empty() ? 1 : 0;
  for (int64_t count = 0; max_count < 0 || count < max_count; ++count) {
    at = find_text(text.text, old.text, at);
    if (at == std::string::npos) break;
    out.add(text, done, at);
    out.add(with);
    done = at + old.text.size();
    if (step == 0) {
      at = done;
    } else if (at == text.text.size()) {
      break;
    } else {
      at += utf8_size(text.text[at]);
    }
  }
  out.add(text, done, text.text.size());
  return out.take();
}

MarkedText in_case(const MarkedText& text, Case to, Budget& budget) {
  TextBuilder out(budget);
  std::string mapped;
  bool after_letter = false;
  for_characters(text.text, [&](char32_t c, size_t begin, size_t end) {
    mapped.clear();
    const auto lower = [&] { append_lower_in(mapped, text.text, c, begin, end, budget); };
    switch (to) {
      case Case::kLower: lower(); break;
      case Case::kUpper: append_upper(mapped, c); break;
      case Case::kFolded: append_folded(mapped, c); break;
      case Case::kCapitalized:
        if (begin == 0) {
          append_title(mapped, c);
        } else {
          lower();
        }
        break;
      case Case::kTitle:
        if (after_letter) {
          lower();
        } else {
          append_title(mapped, c);
        }
        after_letter = is_cased(c);
        break;
      case Case::kSwapped:
        if (is_upper(c)) {
          lower();
        } else if (is_lower(c)) {
          append_upper(mapped, c);
        } else {
          append_utf8(mapped, c);
        }
    }
    out.add(mapped, text.any_marked(begin, end));
  });
  return out.take();
}

std::vector<Span> split_words(std::string_view text, int64_t max_splits, bool from_right,
                              Budget& budget) {
  budget.spend_characters(text.size());
  std::vector<Span> words;
  const auto next = [&](size_t begin, bool space) {
    while (begin < text.size()) {
      const size_t size = utf8_size(text[begin]);
      if (is_python_space(utf8_character(text.substr(begin, size))) != space) break;
      begin += size;
    }
    return begin;
  };
  if (from_right && max_splits >= 0) {
    std::vector<Span> all = split_words(text, -1, false, budget);
    const auto num_splits = static_cast<size_t>(max_splits);
    if (all.size() <= num_splits) return all;
    const size_t num_joined = all.size() - num_splits;
    words.push_back({0, all[num_joined - 1].end});
    words.insert(words.end(), all.begin() + static_cast<ptrdiff_t>(num_joined), all.end());
    return words;
  }
  for (size_t at = next(0, true); at < text.size();) {
    if (max_splits >= 0 && static_cast<int64_t>(words.size()) == max_splits) {
      words.push_back({at, text.size()});
      break;
    }
    const size_t end = next(at, false);
    budget.spend_values(1);
    words.push_back({at, end});
    at = next(end, true);
  }
  return words;
}

std::vector<Span> split_at(std::string_view text, std::string_view separator, int64_t max_splits,
                           bool from_right, Budget& budget) {
  std::vector<Span> parts;
  if (from_right) {
    // From the left in the reversed text.
    budget.spend_text(text.size() + separator.size());
    const std::string reversed_text(text.rbegin(), text.rend());
    const std::string reversed_separator(separator.rbegin(), separator.rend());
    parts = split_at(reversed_text, reversed_separator, max_splits, false, budget);
    for (Span& part : parts) part = {text.size() - part.end, text.size() - part.begin};
    std::ranges::reverse(parts);
    return parts;
  }
  budget.spend_reading(text.size() + separator.size());
  const auto more = [&] {
    budget.spend_values(1);
    return max_splits < 0 || static_cast<int64_t>(parts.size()) < max_splits;
  };
  size_t begin = 0;
  while (more()) {
    const size_t at = find_text(text, separator, begin);
    if (at == std::string_view::npos) break;
    parts.push_back({begin, at});
    begin = at + separator.size();
  }
  parts.push_back({begin, text.size()});
  return parts;
}

std::vector<Span> split_lines(std::string_view text, bool keep_ends, Budget& budget) {
  budget.spend_characters(text.size());
  std::vector<Span> lines;
  size_t begin = 0;
  for_characters(text, [&](char32_t c, size_t at, size_t end) {
    if (!is_line_end(c) || at < begin) return;
    if (c == '\r' && text.substr(end).starts_with('\n')) ++end;
    budget.spend_values(1);
    lines.push_back({begin, keep_ends ? end : at});
    begin = end;
  });
  if (begin < text.size()) lines.push_back({begin, text.size()});
  return lines;
}

MarkedText repeated(const MarkedText& text, int64_t count, Budget& budget) {
  TextBuilder out(budget);
  out.add_repeated(text, count);
  return out.take();
}

MarkedText escape_html(const MarkedText& text, Budget& budget) {
  budget.spend_reading(text.text.size());
  TextBuilder out(budget);
  size_t done = 0;
  for (size_t i = 0; i < text.text.size(); ++i) {
    const char c = text.text[i];
    const std::string_view reference = c == '&'    ? "&amp;"
                                       : c == '<'  ? "&lt;"
                                       : c == '>'  ? "&gt;"
                                       : c == '\'' ? "&#39;"
                                       : c == '"'  ? "&#34;"
                                                   : "";
    if (reference.empty()) continue;
    out.add(text, done, i);
    out.add(reference, text.any_marked(i, i + 1));
    done = i + 1;
  }
  out.add(text, done, text.text.size());
  return out.take();
}

bool is_text_in(Case which, std::string_view text, Budget& budget) {
  const auto &is_it = which == Case::kUpper ? is_upper : is_lower,
             &is_other = which == Case::kUpper ? is_lower : is_upper;
  budget.spend_characters(text.size());
  bool all = true, any = false;
  for_characters(text, [&](char32_t c, size_t, size_t) {
    if (is_other(c) || is_title(c)) all = false;
    any = any || is_it(c);
  });
  return all && any;
}

}  // namespace pagedinfer::jinja
