#include "text/jinja/text_operations.h"

#include <algorithm>

#include "text/jinja/characters.h"

namespace pagedinfer::jinja {
namespace {

constexpr char32_t kSigma = 0x3A3, kFinalSigma = 0x3C2;

char32_t character_before(std::string_view text, size_t end, size_t& begin) {
  begin = end - 1;
  while ((static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return utf8_character(text.substr(begin, end - begin));
}

// Whether the capital sigma at [begin, end) ends a word.
bool ends_word(std::string_view text, size_t begin, size_t end) {
  bool after_letter = false;
  for (size_t at = begin; at > 0;) {
    const char32_t c = character_before(text, at, at);
    if (is_case_ignorable(c)) continue;
    after_letter = is_cased(c);
    break;
  }
  for (size_t at = end; after_letter && at < text.size(); at += utf8_size(text[at])) {
    const char32_t c = utf8_character(text.substr(at, utf8_size(text[at])));
    if (is_case_ignorable(c)) continue;
    return !is_cased(c);
  }
  return after_letter;
}

void append_lower_in(std::string& out, std::string_view text, char32_t c, size_t begin,
                     size_t end) {
  if (c == kSigma && ends_word(text, begin, end)) {
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

Span stripped(std::string_view text, const std::optional<std::string_view>& chars, bool left,
              bool right) {
  const auto is_stripped = [&](std::string_view bytes, char32_t c) {
    return chars ? chars->find(bytes) != std::string_view::npos : is_python_space(c);
  };
  size_t begin = 0, end = text.size();
  while (left && begin < end) {
    const std::string_view bytes = text.substr(begin, utf8_size(text[begin]));
    if (!is_stripped(bytes, utf8_character(bytes))) break;
    begin += bytes.size();
  }
  while (right && begin < end) {
    size_t last = 0;
    const char32_t c = character_before(text, end, last);
    if (!is_stripped(text.substr(last, end - last), c)) break;
    end = last;
  }
  return {begin, end};
}

MarkedText replaced(const MarkedText& text, const MarkedText& old, const MarkedText& with,
                    int64_t max_count, Budget& budget) {
  budget.spend_steps(text.text.size() / 64);
  MarkedText out;
  size_t done = 0, at = 0;
  const size_t step = old.text.empty() ? 1 : 0;
  for (int64_t count = 0; max_count < 0 || count < max_count; ++count) {
    at = text.text.find(old.text, at);
    if (at == std::string::npos) break;
    if (out.text.size() + with.text.size() > budget.limits().max_text) {
      budget.spend_text(out.text.size() + with.text.size());
    }
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
  return out;
}

MarkedText in_case(const MarkedText& text, Case to, Budget& budget) {
  budget.spend_steps(text.text.size() / 16);
  MarkedText out;
  out.text.reserve(text.text.size());
  std::string mapped;
  bool after_letter = false;
  for_characters(text.text, [&](char32_t c, size_t begin, size_t end) {
    mapped.clear();
    const auto lower = [&] { append_lower_in(mapped, text.text, c, begin, end); };
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
  return out;
}

std::vector<Span> split_words(std::string_view text, int64_t max_splits, bool from_right) {
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
    std::vector<Span> all = split_words(text, -1, false);
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
    words.push_back({at, end});
    at = next(end, true);
  }
  return words;
}

std::vector<Span> split_at(std::string_view text, std::string_view separator, int64_t max_splits,
                           bool from_right) {
  std::vector<Span> parts;
  const auto more = [&] {
    return max_splits < 0 || static_cast<int64_t>(parts.size()) < max_splits;
  };
  if (from_right) {
    size_t end = text.size();
    while (more()) {
      if (end < separator.size()) break;
      const size_t at = text.rfind(separator, end - separator.size());
      if (at == std::string_view::npos) break;
      parts.push_back({at + separator.size(), end});
      end = at;
    }
    parts.push_back({0, end});
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  size_t begin = 0;
  while (more()) {
    const size_t at = text.find(separator, begin);
    if (at == std::string_view::npos) break;
    parts.push_back({begin, at});
    begin = at + separator.size();
  }
  parts.push_back({begin, text.size()});
  return parts;
}

std::vector<Span> split_lines(std::string_view text, bool keep_ends) {
  std::vector<Span> lines;
  size_t begin = 0;
  for_characters(text, [&](char32_t c, size_t at, size_t end) {
    if (!is_line_end(c) || at < begin) return;
    if (c == '\r' && text.substr(end).starts_with('\n')) ++end;
    lines.push_back({begin, keep_ends ? end : at});
    begin = end;
  });
  if (begin < text.size()) lines.push_back({begin, text.size()});
  return lines;
}

MarkedText repeated(const MarkedText& text, int64_t count, Budget& budget) {
  MarkedText out;
  if (count <= 0 || text.text.empty()) return out;
  if (static_cast<uint64_t>(count) > budget.limits().max_text / text.text.size()) {
    budget.spend_text(budget.limits().max_text + 1);
  }
  budget.spend_steps(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) out.add(text);
  return out;
}

MarkedText escape_html(const MarkedText& text, Budget& budget) {
  budget.spend_steps(text.text.size() / 64);
  MarkedText out;
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
  return out;
}

bool is_upper_text(std::string_view text) {
  bool all = true, any = false;
  for_characters(text, [&](char32_t c, size_t, size_t) {
    if (is_lower(c) || is_title(c)) all = false;
    any = any || is_upper(c);
  });
  return all && any;
}
bool is_lower_text(std::string_view text) {
  bool all = true, any = false;
  for_characters(text, [&](char32_t c, size_t, size_t) {
    if (is_upper(c) || is_title(c)) all = false;
    any = any || is_lower(c);
  });
  return all && any;
}

}  // namespace pagedinfer::jinja
