#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json_extent.h"
#include "request/input_form.h"

namespace pagedinfer {
namespace {

using Verdict = InputForm::Verdict;
using namespace std::literals;

// The verdict on a file of these bytes; "lines" if it may be JSON lines. CHECKs that the verdict
// does not depend on the pieces in which the bytes arrive.
std::string form_of(const std::string& bytes, std::string_view name = "-") {
  const InputForm whole = recognize_form(name, std::string_view(bytes).substr(0, 4 * kFormBytes),
                                         bytes.size() <= 4 * kFormBytes);
  CHECK(whole.verdict != Verdict::kUndecided);
  for (size_t size = 0; size < std::min<size_t>(bytes.size(), 300); ++size) {
    const InputForm part = recognize_form(name, std::string_view(bytes).substr(0, size), false);
    if (part.verdict == Verdict::kUndecided) continue;
    CAPTURE(size);
    CHECK(part.text == whole.text);
    break;
  }
  return whole.verdict == Verdict::kLines ? "lines" : whole.text;
}

bool is(const std::string& bytes, const std::string& what) {
  const std::string found = form_of(bytes);
  CAPTURE(found);
  return found.starts_with("is " + what);
}

std::string wide(std::string_view text, bool big_endian) {
  std::string result;
  for (const char c : text) {
    result += big_endian ? '\0' : c;
    result += big_endian ? c : '\0';
  }
  return result;
}

const std::string kGood = "{\"prompt\": \"a\", \"max_tokens\": 2}\n";

}  // namespace

TEST_CASE("compressed and binary inputs are recognized by their first bytes") {
  CHECK(is("PK\x03\x04...", "a zip archive"));
  CHECK(is("\xFD\x37zXZ\x00..."s, "packed by xz"));
  CHECK(is("BZh91AY&SY...", "packed by bzip2"));
  CHECK(is("BZh11AY&SY...", "packed by bzip2"));
  CHECK(is("7z\xBC\xAF\x27\x1C...", "a 7z archive"));
  CHECK(is("PAR1\x15\x04", "Parquet"));
  CHECK(is("ARROW1\x00\x00...."s, "Arrow"));
  for (const char* text : {"PK", "PKware\n", "BZh\n", "BZh9\n", "PAR1 \n", "7z\n", "ARROW1\n"}) {
    CHECK(form_of(text + kGood) == "lines");
    CHECK(form_of(text) == "lines");
  }
}

TEST_CASE("UTF-16 text is recognized") {
  for (const bool big : {false, true}) {
    CHECK(is(wide(kGood, big), big ? "UTF-16BE text" : "UTF-16LE text"));
    CHECK(is((big ? "\xFE\xFF"s : "\xFF\xFE"s) + wide(kGood, big), "UTF-16 text"));
  }
  for (const std::string& text :
       {"\xFF\xFE\n"s, "\0\0\0\0\n"s, "{\0}\n"s, "\xFF\xFE{}\n"s, "\0"s}) {
    CHECK(form_of(text + kGood) == "lines");
  }
}

TEST_CASE("a name tells what an input is, unless it begins with an object") {
  for (const auto& [name, what] : {std::pair{"c.xlsx", "is an Excel workbook,"},
                                   {"d.parquet", "is Parquet,"},
                                   {"d.parquet.zst", "is Parquet,"}}) {
    CHECK(form_of("id,prompt\n1,a\n", name).starts_with(what));
    CHECK(form_of("\n " + kGood, name) == "lines");
  }
  CHECK(form_of("PK\x03\x04...", "c.xlsx").find("pandas.read_excel(FILE)") != std::string::npos);
  CHECK(form_of("id,prompt\n1,a\n", "a.jsonl") == "lines");
}

TEST_CASE("JSON that is not one object a line is recognized") {
  CHECK(is("[{\"prompt\": \"a\"}, {\"prompt\": \"b\"}]", "a JSON array"));
  CHECK(is("\xEF\xBB\xBF[{\"prompt\": \"a\"}]\n\n", "a JSON array"));
  CHECK(is("[\n  {\n    \"prompt\": \"a\"\n  }\n]\n", "a JSON array"));
  CHECK(is("[{\"prompt\": \"a\"},\n {\"prompt\": \"b\"}]\n", "a JSON array"));
  CHECK(is("[\n{\"prompt\": \"a\"}\n]\n", "a JSON array"));
  CHECK(is("\n {\n  \"prompt\": \"a\"\n}\n", "JSON over many lines"));
  CHECK(is("{\n  \"prompt\": \"a\"\n}\n{\n  \"prompt\": \"b\"\n}\n", "JSON over many lines"));
  CHECK(is("{\n  \"prompt\":\n    \"a\", \"n\": [1,\n 2.5e3, true, null, {}]}",
           "JSON over many lines"));

  const std::string long_text(5 * kFormBytes, 'x');
  CHECK(is("[{\"prompt\": \"" + long_text + "\"}", "a JSON array"));
  CHECK(is("{\n\"prompt\": \"" + long_text + "\"", "JSON over many lines"));
  CHECK(form_of("{\"prompt\": \"" + long_text + "\"}\n") == "lines");
  CHECK(form_of("[\"" + long_text + "\"]\n") == "lines");
}

TEST_CASE("an input is judged by its beginning, however much of it is shown") {
  for (const size_t size : {kFormBytes / 4, kFormBytes / 2, kFormBytes, 2 * kFormBytes}) {
    const std::string words(size, 'x');
    const std::string text = fmt::format("[{{\"prompt\": \"{}\"}}\n{}", words, kGood);
    const InputForm all = recognize_form("-", text, true);
    for (size_t shown = std::min(text.size(), kFormBytes); shown < text.size(); shown += 10000) {
      CHECK(recognize_form("-", std::string_view(text).substr(0, shown), false).text == all.text);
    }
    for (size_t shown = 1; shown < kFormBytes && shown < text.size(); shown += 10000) {
      const InputForm part = recognize_form("-", std::string_view(text).substr(0, shown), false);
      CHECK((part.verdict == Verdict::kUndecided || part.text == all.text));
    }
    CHECK((all.verdict == Verdict::kLines) == (size < kFormBytes));
  }
}

TEST_CASE("JSON lines with bad first lines are JSON lines") {
  for (const std::string bad : {"",
                                "x",
                                "{",
                                "}",
                                "[",
                                "]",
                                "[]",
                                "[1, 2]",
                                "[[]]",
                                "{\"prompt\": \"a\"",
                                "{\"prompt\":",
                                "{\"prompt\": \"a\",",
                                "{\"prompt\": \"a",
                                "[{\"prompt\": \"a\"}]",
                                "[{\"prompt\": \"a\"},",
                                "[{\"prompt\": \"a\"}",
                                "hello, world",
                                "garbage,line",
                                "id,prompt",
                                "a;b;c",
                                "a\tb",
                                "null",
                                "7",
                                "\"text\"",
                                "\"a\",\"b\"",
                                "{} {}",
                                "{}{",
                                "{},",
                                "--",
                                "# comment, with comma",
                                "{'prompt': 'a'}",
                                "{\"prompt\": \"a\"}}",
                                "\x01\x02",
                                "\xFF\xFF",
                                "<html>",
                                "id,prompt\n1,a"}) {
    for (const std::string& more : {kGood, kGood + kGood, "{}\n" + kGood, "\n" + kGood + bad}) {
      CAPTURE(bad);
      CAPTURE(more);
      CHECK(form_of(bad + "\n" + more) == "lines");
    }
    CHECK(form_of(kGood + bad) == "lines");
    CHECK(form_of(bad) == (bad == "[{\"prompt\": \"a\"}]" ? form_of("[{}]") : "lines"));
  }
}

TEST_CASE("the first line of JSON lines suffices") {
  for (const std::string& line : {kGood, "x\n"s, "{}\n"s, "[]\n"s, "{\"a\": 1}}\n"s, "7\n"s}) {
    CHECK(recognize_form("-", line, false).verdict == Verdict::kLines);
    CHECK(recognize_form("-", "\xEF\xBB\xBF\n \r\n" + line, false).verdict == Verdict::kLines);
  }
  for (const std::string& line : {""s, "\n"s, "{"s, "{\"prompt\": 1"s, "[\n"s, "P"s}) {
    CHECK(recognize_form("-", line, false).verdict == Verdict::kUndecided);
  }
}

TEST_CASE("the extent of JSON is that of a value, however it is cut off") {
  using End = JsonExtent::End;
  const std::string value =
      R"({"a": [1, -2.5e+3, "x\"]}\\", {}], "b" : {"c":[[ ] ,null]} ,"d":true})";
  CHECK(scan_json(value + " x").end == End::kWhole);
  CHECK(scan_json(value + " x").size == value.size());
  for (size_t size = 0; size < value.size(); ++size) {
    CHECK(scan_json(value.substr(0, size)).end == End::kCutOff);
  }
  for (const char* broken : {"{1", "{\"a\" 1", "[1 2", "[,", "{\"a\":}", "]", "{]", "[}", "\"a\nb",
                             "{,", "[1,]", "{\"a\":1,}", ":"}) {
    CAPTURE(broken);
    CHECK(scan_json(broken).end == End::kBroken);
  }
  CHECK(scan_json(std::string(100000, '[')).end == End::kBroken);
}

TEST_CASE("any bytes get a verdict") {
  std::mt19937 random(1);
  const std::string_view letters = "{}[]\",:;\t\n\r\\ a1\0\xFF\xFE\xEF\xBB\xBFPK\x03\x04"sv;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (auto left = random() % 40; left > 0; --left) bytes += letters[random() % letters.size()];
    form_of(bytes);
  }
}

}  // namespace pagedinfer
