#include "request/input_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <optional>
#include <vector>

#include "io/json_extent.h"

namespace pagedinfer {
namespace {

using Verdict = InputForm::Verdict;
using namespace std::literals;

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kZip = "PK\x03\x04"sv;

InputForm lines() { return {Verdict::kLines}; }
InputForm undecided() { return {Verdict::kUndecided}; }
InputForm other(std::string_view what, std::string_view help) {
  return {Verdict::kOther, fmt::format("is {}, expected a JSON object a line; {}", what, help)};
}

struct Packed {
  std::string_view begin, name, help;
};
constexpr Packed kPacked[] = {
    {"\xFD\x37zXZ\x00"sv, "packed by xz", "xz -dc FILE | pagedinfer run --input - unpacks it"},
    {"\x28\xB5\x2F\xFD"sv, "packed by zstd", "zstd -dc FILE | pagedinfer run --input - unpacks it"},
    {"BZh91AY&SY"sv, "packed by bzip2", "bzip2 -dc FILE | pagedinfer run --input - unpacks it"},
    {"7z\xBC\xAF\x27\x1C"sv, "a 7z archive", "7z x -so FILE | pagedinfer run --input - unpacks it"},
    {"PAR1\x15"sv, "Parquet",
     "pandas.read_parquet(FILE).to_json(OTHER, orient='records', lines=True) makes such a file"},
    {"ARROW1\x00\x00"sv, "Arrow",
     "pandas.read_feather(FILE).to_json(OTHER, orient='records', lines=True) makes such a file"},
};

// Replaces the block size of bzip2 data (the fourth byte, 1 to 9) by 9.
std::string with_usual_size(std::string_view first) {
  std::string begin(first.substr(0, 16));
  if (begin.size() > 3 && begin.starts_with("BZh") && begin[3] >= '1' && begin[3] <= '9') {
    begin[3] = '9';
  }
  return begin;
}

InputForm judge_packed(std::string_view first, bool at_end) {
  const std::string begin = with_usual_size(first);
  for (const Packed& packed : kPacked) {
    if (begin.starts_with(packed.begin)) return other(packed.name, packed.help);
    if (!at_end && packed.begin.starts_with(begin)) return undecided();
  }
  return lines();
}

// The names of a zip archive's entries that are complete in `text`, in order.
std::vector<std::string_view> names_in_zip(std::string_view text) {
  constexpr size_t kNameSizeAt = 26, kNameAt = 30;
  std::vector<std::string_view> names;
  for (size_t at = 0; (at = text.find(kZip, at)) != text.npos; at += kZip.size()) {
    if (text.size() - at < kNameAt) break;
    const auto byte = [&](size_t i) {
      return static_cast<size_t>(static_cast<unsigned char>(text[at + i]));
    };
    const size_t size = byte(kNameSizeAt) + 256 * byte(kNameSizeAt + 1);
    if (text.size() - at - kNameAt < size) break;
    names.push_back(text.substr(at + kNameAt, size));
  }
  return names;
}

InputForm judge_zip(std::string_view first, bool at_end) {
  if (!first.starts_with(kZip)) {
    return !at_end && kZip.starts_with(first) ? undecided() : lines();
  }
  const std::vector<std::string_view> names = names_in_zip(first);
  const auto begins = [](std::string_view name, std::initializer_list<std::string_view> begin) {
    return std::any_of(begin.begin(), begin.end(),
                       [&](std::string_view text) { return name.starts_with(text); });
  };
  // Files of office programs begin with these entries; not all are workbooks.
  const bool may_be_workbook =
      names.empty() || begins(names[0], {"[Content_Types].xml", "_rels/", "docProps/", "xl/"});
  if (may_be_workbook) {
    for (const std::string_view name : names) {
      if (begins(name, {"xl/"})) {
        return other("an Excel workbook",
                     "pandas.read_excel(FILE).to_json(OTHER, orient='records', lines=True) makes "
                     "such a file");
      }
    }
    if (!at_end && first.size() < kFormBytes) return undecided();
  }
  return other("a zip archive", "unzip -p FILE | pagedinfer run --input - reads what is in it");
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

bool is_one_value(std::string_view line) {
  const std::string closed = fmt::format("{}\n", line);  // a newline ends a number
  const JsonExtent extent = scan_json(closed);
  return extent.end == JsonExtent::End::kWhole &&
         closed.find_first_not_of(kSpace, extent.size) == std::string::npos;
}

bool has_json_object(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = first_line(text);
    const size_t begin = line.find_first_not_of(kSpace);
    if (begin != line.npos && line[begin] == '{' && is_one_value(line.substr(begin))) return true;
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return false;
}

// Text in units of two or four bytes.
struct Wide {
  std::string_view name, mark, order;
  size_t unit, letter;  // bytes in a unit, and the index of the byte that holds an ASCII letter
};
constexpr Wide kWide[] = {
    {"UTF-32", "\xFF\xFE\x00\x00"sv, "LE", 4, 0},
    {"UTF-32", "\x00\x00\xFE\xFF"sv, "BE", 4, 3},
    {"UTF-16", "\xFF\xFE"sv, "LE", 2, 0},
    {"UTF-16", "\xFE\xFF"sv, "BE", 2, 1},
};

// Whether the first unit of `text` is an ASCII letter.
bool begins_with_letter(std::string_view text, const Wide& wide) {
  if (text.size() < wide.unit) return false;
  for (size_t i = 0; i < wide.unit; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_letter =
        byte == '\t' || byte == '\r' || byte == '\n' || (byte >= 32 && byte < 127);
    if (i == wide.letter ? !is_letter : byte != 0) return false;
  }
  return true;
}

InputForm wide_text(const std::string& name) {
  return other(fmt::format("{} text", name),
               fmt::format("iconv -f {} -t UTF-8 FILE | pagedinfer run --input - reads it", name));
}

// Judges an input that begins with a byte-order mark; `text` is what follows the mark. It is text
// in UTF-16 or UTF-32 if any code unit of it is printable ASCII. Otherwise, if a line holds a JSON
// object, the "mark" was only part of an invalid first line, and the input is JSON lines.
InputForm judge_marked(std::string_view text, const Wide& wide, bool at_end) {
  for (size_t i = 0; i < text.size(); i += wide.unit) {
    if (begins_with_letter(text.substr(i), wide)) return wide_text(std::string(wide.name));
  }
  if (!at_end && text.size() + wide.mark.size() < kFormBytes) return undecided();
  return has_json_object(text) ? lines() : wide_text(std::string(wide.name));
}

InputForm judge_wide(std::string_view first, bool at_end) {
  // No JSON begins with these bytes.
  const bool may_be_wide = first.find_first_of("\xFF\xFE\x00"sv) < 2;
  if (may_be_wide && first.size() < 12 && !at_end) return undecided();
  for (const Wide& wide : kWide) {
    if (first.starts_with(wide.mark)) {
      return judge_marked(first.substr(wide.mark.size()), wide, at_end);
    }
    if (begins_with_letter(first, wide) && begins_with_letter(first.substr(wide.unit), wide)) {
      return wide_text(fmt::format("{}{}", wide.name, wide.order));
    }
  }
  return lines();
}

InputForm other_json(char bracket) {
  if (bracket == '[') return other("a JSON array", "jq -c '.[]' FILE > OTHER makes such a file");
  return other("JSON over many lines", "jq -c . FILE > OTHER makes such a file");
}

// `text` begins with a bracket.
InputForm judge_json(std::string_view text, bool at_end, bool enough) {
  const char bracket = text[0];
  const JsonExtent extent = scan_json(text);
  if (extent.end == JsonExtent::End::kBroken) return lines();
  const size_t inside = text.find_first_not_of(kSpace, 1);
  const bool lists_objects = bracket == '[' && inside != text.npos && text[inside] == '{';
  if (extent.end == JsonExtent::End::kCutOff) {
    if (at_end) return lines();
    if (!enough) return undecided();
    return text.find('\n') != text.npos || lists_objects ? other_json(bracket) : lines();
  }
  const bool on_one_line = text.substr(0, extent.size).find('\n') == text.npos;
  if (on_one_line && !lists_objects) return lines();
  const size_t next = text.find_first_not_of(kSpace, extent.size);
  if (next == text.npos) {
    if (at_end || (enough && !on_one_line)) return other_json(bracket);
    return enough ? lines() : undecided();
  }
  // More text follows: JSON lines with an invalid first line, or values over many lines.
  if (on_one_line) return lines();
  const std::string_view rest = text.substr(next), line = first_line(rest);
  if (line.size() == rest.size() && !at_end && !enough) return undecided();
  return is_one_value(line) ? lines() : other_json(bracket);
}

// The format of a table.
struct Columns {
  std::string_view name, arguments;  // of the table, and of pandas.read_csv
  char separator;
  bool spaced;  // a field may begin with a space, before its quotes
};
constexpr Columns kColumns[] = {
    {"CSV", "", ',', false},
    {"CSV", ", skipinitialspace=True", ',', true},
    {"TSV", ", sep='\\t'", '\t', false},
    {"CSV with semicolons", ", sep=';'", ';', false},
    {"CSV with semicolons", ", sep=';', skipinitialspace=True", ';', true},
};

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

// Removes a row from the front of `text`, with quotes as in RFC 4180, and returns the number of its
// fields; nullopt if `text` ends inside the row.
std::optional<int> take_row(std::string_view& text, const Columns& columns, bool at_end) {
  int fields = 1;
  bool quoted = false, at_start = true;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' && (quoted || at_start)) {
      quoted = !quoted;
      at_start = quoted ? false : i + 1 < text.size() && text[i + 1] == '"';
    } else if (quoted) {
      continue;
    } else if (c == '\n') {
      text.remove_prefix(i + 1);
      return fields;
    } else {
      fields += c == columns.separator ? 1 : 0;
      at_start = c == columns.separator || (at_start && columns.spaced && c == ' ');
    }
  }
  if (!at_end || quoted) return std::nullopt;
  text = {};
  return fields;
}

// Whether a line may be a header: short words, of which the first may be empty.
bool names_columns(std::string_view line, const Columns& columns) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  bool is_spaced = false;
  for (bool is_first = true;; is_first = false) {
    std::string_view name = line.substr(0, line.find(columns.separator));
    const bool is_last = name.size() == line.size();
    line.remove_prefix(is_last ? name.size() : name.size() + 1);
    is_spaced |= !is_first && name.starts_with(' ');
    name = trimmed(name);
    if (name.size() >= 2 && name.starts_with('"') && name.ends_with('"')) {
      name = trimmed(name.substr(1, name.size() - 2));
    }
    const bool is_word =
        !name.empty() && name.size() <= 100 && std::all_of(name.begin(), name.end(), [](char c) {
          const auto byte = static_cast<unsigned char>(c);
          return byte >= 0x80 || std::isalnum(byte) != 0 ||
                 "_-. ?!()/#%&+*:='@$"sv.find(c) != std::string_view::npos;
        });
    if (!is_word && !(name.empty() && is_first && !is_last)) return false;
    if (is_last) return is_spaced == columns.spaced;
  }
}

// `text` begins with a line that is not a JSON object.
InputForm judge_table(std::string_view text, bool at_end, bool enough) {
  if (text.find('\n') == text.npos && !at_end) return enough ? lines() : undecided();
  for (const Columns& columns : kColumns) {
    std::string_view rest = text;
    if (!names_columns(first_line(text), columns)) continue;
    const int count = take_row(rest, columns, at_end).value_or(1);
    if (count < 2) continue;
    int rows = 0;
    bool is_table = true;
    while (is_table) {
      rest.remove_prefix(std::min(rest.find_first_not_of("\r\n"), rest.size()));
      if (rest.empty()) break;
      const size_t begin = rest.find_first_not_of(columns.separator == '\t' ? " " : " \t");
      const bool is_json = begin != rest.npos && (rest[begin] == '{' || rest[begin] == '[');
      const std::optional<int> fields = take_row(rest, columns, at_end);
      if (!fields && !is_json) break;
      is_table = !is_json && *fields == count;
      ++rows;
    }
    if (!is_table) continue;
    if (!at_end && !enough) return undecided();
    if (rows > 0) {
      return other(fmt::format("{} of {} columns", columns.name, count),
                   fmt::format("pandas.read_csv(FILE{}).to_json(OTHER, orient='records', "
                               "lines=True) makes such a file",
                               columns.arguments));
    }
  }
  return lines();
}

}  // namespace

InputForm recognize_form(std::string_view first, bool at_end) {
  at_end = at_end && first.size() <= kFormBytes;
  first = first.substr(0, kFormBytes);
  const bool enough = first.size() == kFormBytes;
  for (const auto& judge : {judge_packed, judge_zip, judge_wide}) {
    if (InputForm form = judge(first, at_end); form.verdict != Verdict::kLines) return form;
  }
  if (first.starts_with("\xEF\xBB\xBF")) first.remove_prefix(3);
  const size_t begin = first.find_first_not_of(kSpace);
  if (begin == first.npos) return at_end || enough ? lines() : undecided();
  const std::string_view text = first.substr(begin);
  return text[0] == '{' || text[0] == '[' ? judge_json(text, at_end, enough)
                                          : judge_table(text, at_end, enough);
}

}  // namespace pagedinfer
