// The program as its users see it: files and flags in; records, words and an exit code out.
#pragma once

#include <doctest/doctest.h>
#include <simdjson.h>

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/support.h"

namespace pagedinfer {

using Words = std::vector<std::string>;

// A line of JSON. Values are asked for by JSON pointers such as "/error/code".
class Json {
 public:
  // REQUIREs that the line is JSON.
  explicit Json(std::string_view line);

  bool has(std::string_view pointer) const;
  // The value as JSON, "absent" if there is none.
  std::string operator[](std::string_view pointer) const;
  // The value, which must be of that type.
  std::string text(std::string_view pointer) const;
  int64_t integer(std::string_view pointer) const;
  double number(std::string_view pointer) const;
  std::vector<int64_t> integers(std::string_view pointer) const;
  const std::string& line() const { return line_; }

 private:
  std::string line_;
  std::unique_ptr<simdjson::dom::parser> parser_;  // what root_ points into
  simdjson::dom::element root_ = {};
};

// The lines of a file of JSON. REQUIREs that every one is whole.
std::vector<Json> json_lines(const std::string& text);
std::vector<Json> json_file(const std::string& path);

// Of lines of one kind in a statistics file.
std::vector<Json> of_kind(std::vector<Json> lines, std::string_view kind);

// `pagedinfer WORDS`.
Words command(const Words& words);
// `pagedinfer run FLAGS` to its end. CHECKs that it ended by itself.
Ended run(const Words& flags, std::string_view input = "");

// What `pagedinfer run --input - --output - FLAGS` answers to these lines.
struct Answers {
  int exit_code = -1;
  std::string out = {}, err = {};
  std::vector<Json> records = {};
};
Answers answer(std::string_view lines, const Words& flags = {});

// Lines of very different lengths, so that they don't end in the order they come in.
std::string uneven_lines(int count);
// Little work and much output: more than a pipe holds.
std::string lines_with_long_ids(int count);

// The names in a directory.
std::set<std::string> names_in(const std::string& dir);

// The words with one of these after the other.
Words operator+(Words words, const Words& more);

}  // namespace pagedinfer
