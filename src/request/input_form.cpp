#include "request/input_form.h"

#include <fmt/format.h>

#include "io/json_extent.h"
#include "io/packing.h"

namespace pagedinfer {
namespace {

using Verdict = InputForm::Verdict;
using namespace std::literals;

constexpr std::string_view kSpace = " \t\r\n";

// A format that is recognized by the first bytes of a file or by the end of its name.
struct Format {
  std::string_view begin;   // a question mark is any byte; "": only the name decides
  std::string_view suffix;  // "": only the bytes decide
  std::string_view what;
  std::string_view command, result;  // a command that converts it, and the command's result
};

constexpr std::string_view kPiped = "| pagedinfer run --input - reads it";
constexpr std::string_view kPandas =
    "(FILE).to_json(OTHER, orient='records', lines=True) makes such a file";
constexpr std::string_view kUtf16Le = "iconv -f UTF-16LE -t UTF-8 FILE ";
constexpr std::string_view kUtf16Be = "iconv -f UTF-16BE -t UTF-8 FILE ";

constexpr Format kFormats[] = {
    {"\xFD\x37zXZ\x00"sv, ".xz", "packed by xz", "xz -dc FILE ", kPiped},
    {"BZh?1AY&SY"sv, ".bz2", "packed by bzip2", "bzip2 -dc FILE ", kPiped},
    {"7z\xBC\xAF\x27\x1C"sv, ".7z", "a 7z archive", "7z x -so FILE ", kPiped},
    {""sv, ".xlsx", "an Excel workbook", "pandas.read_excel", kPandas},
    {"PK\x03\x04"sv, ".zip", "a zip archive", "unzip -p FILE ", kPiped},
    {"PAR1\x15"sv, ".parquet", "Parquet", "pandas.read_parquet", kPandas},
    {"ARROW1\x00\x00"sv, ".arrow", "Arrow", "pandas.read_feather", kPandas},
    {"\xFF\xFE?\x00"sv, "", "UTF-16 text", "iconv -f UTF-16 -t UTF-8 FILE ", kPiped},
    {"\xFE\xFF\x00?"sv, "", "UTF-16 text", "iconv -f UTF-16 -t UTF-8 FILE ", kPiped},
    {"{\x00?\x00"sv, "", "UTF-16LE text", kUtf16Le, kPiped},
    {"\x00{\x00?"sv, "", "UTF-16BE text", kUtf16Be, kPiped},
};

InputForm lines() { return {Verdict::kLines}; }
InputForm undecided() { return {Verdict::kUndecided}; }
constexpr std::string_view kJsonLines = "a JSON object a line", kTable = "CSV or TSV";

InputForm other(std::string_view what, std::string_view help,
                std::string_view expected = kJsonLines) {
  return {Verdict::kOther, fmt::format("is {}, expected {}; {}", what, expected, help)};
}

// How many of the first bytes of `text` agree with `begin`.
size_t num_agreeing(std::string_view text, std::string_view begin) {
  size_t same = 0;
  while (same < text.size() && same < begin.size() &&
         (begin[same] == '?' || begin[same] == text[same])) {
    ++same;
  }
  return same;
}

InputForm judge_format(std::string_view name, std::string_view first, bool at_end,
                       std::string_view expected) {
  name = without_packing(name);
  const size_t begin = first.find_first_not_of(kSpace);
  const bool is_judged = at_end || begin != first.npos;
  const bool may_be_json = begin != first.npos && first[begin] == '{';
  for (const Format& format : kFormats) {
    const size_t same = num_agreeing(first, format.begin);
    const bool by_name =
        is_judged && !may_be_json && !format.suffix.empty() && name.ends_with(format.suffix);
    if (by_name || (!format.begin.empty() && same == format.begin.size())) {
      return other(format.what, fmt::format("{}{}", format.command, format.result), expected);
    }
    if (!at_end && same == first.size() && same < format.begin.size()) return undecided();
  }
  return lines();
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

bool is_one_value(std::string_view line) {
  const std::string closed = fmt::format("{}\n", line);  // a newline ends a number
  const JsonExtent extent = scan_json(closed);
  return extent.end == JsonExtent::End::kWhole &&
         closed.find_first_not_of(kSpace, extent.size) == std::string::npos;
}

InputForm other_json(char bracket) {
  if (bracket == '[') return other("a JSON array", "jq -c '.[]' FILE > OTHER makes such a file");
  return other("JSON over many lines", "jq -c . FILE > OTHER makes such a file");
}

// REQUIRES: `text` begins with a bracket.
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

}  // namespace

InputForm recognize_form(std::string_view name, std::string_view first, bool at_end) {
  at_end = at_end && first.size() <= kFormBytes;
  first = first.substr(0, kFormBytes);
  const bool enough = first.size() == kFormBytes;
  if (InputForm form = judge_format(name, first, at_end, kJsonLines);
      form.verdict != Verdict::kLines) {
    return form;
  }
  constexpr std::string_view kMark = "\xEF\xBB\xBF";  // of UTF-8
  if (!at_end && kMark.starts_with(first)) return undecided();
  if (first.starts_with(kMark)) first.remove_prefix(kMark.size());
  const size_t begin = first.find_first_not_of(kSpace);
  if (begin == first.npos) return at_end || enough ? lines() : undecided();
  const std::string_view text = first.substr(begin);
  const bool is_bracket = text[0] == '{' || text[0] == '[';
  return is_bracket ? judge_json(text, at_end, enough) : lines();
}

InputForm recognize_table(std::string_view name, std::string_view first, bool at_end) {
  return judge_format(name, first, at_end, kTable);
}

Config::InputFormat format_of_name(std::string_view name) {
  name = without_packing(name);
  if (name.ends_with(".csv")) return Config::InputFormat::kCsv;
  if (name.ends_with(".tsv")) return Config::InputFormat::kTsv;
  return Config::InputFormat::kJsonl;
}

}  // namespace pagedinfer
