// Runs the program as a user does: files and flags in; records, messages and an exit code out.
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

// A line of JSON, whose values are read by JSON pointers such as "/error/code".
class Json {
 public:
  // Fails the test case unless the line is JSON.
  explicit Json(std::string_view line);

  bool has(std::string_view pointer) const;
  // The value as JSON, "absent" if there is none.
  std::string operator[](std::string_view pointer) const;
  // The value; fails the test case unless it has the type.
  std::string text(std::string_view pointer) const;
  int64_t integer(std::string_view pointer) const;
  double number(std::string_view pointer) const;
  std::vector<int64_t> integers(std::string_view pointer) const;
  const std::string& line() const { return line_; }

 private:
  std::string line_;
  std::unique_ptr<simdjson::dom::parser> parser_;  // owns what root_ refers to
  simdjson::dom::element root_ = {};
};

// The lines of a JSONL text or file. Fails the test case unless every line is whole.
std::vector<Json> json_lines(const std::string& text);
std::vector<Json> json_file(const std::string& path);

// The lines of a statistics file whose "kind" is this.
// The file beside the statistics NAME.stats.jsonl, NAME.jsonl or NAME.
Json summary_beside(std::string stats);
std::vector<Json> of_kind(std::vector<Json> lines, std::string_view kind);

// The command line `pagedinfer WORDS`.
Words command(const Words& words);
// Runs `pagedinfer run FLAGS` to its end. CHECKs that it ended by itself.
Ended run(const Words& flags, std::string_view input = "");

// What a run, also a quiet one, prints at its end.
std::string last_line(size_t completed, size_t failed = 0,
                      const std::string& model = "story-llama");

// The results of `pagedinfer run --input - --output - FLAGS` with these lines as input.
struct Answers {
  int exit_code = -1;
  std::string out = {}, err = {};
  std::vector<Json> records = {};
};
Answers answer(std::string_view lines, const Words& flags = {});

// CHECKs that with `flags` completions are the same bytes whatever else a run does, and that the
// flags change them.
void check_same_in_every_configuration(const Words& flags);

// Lines of very different lengths, so that requests do not end in the order of the input.
std::string uneven_lines(int count);
// Lines of uneven length: greedy, sampled, with log probabilities, with several choices.
std::string varied_prompts();
// Lines that need little work and whose records are more than a pipe holds.
std::string lines_with_long_ids(int count);

// The names in a directory.
std::set<std::string> names_in(const std::string& dir);

// Concatenates two lists of words.
Words operator+(Words words, const Words& more);

}  // namespace pagedinfer
