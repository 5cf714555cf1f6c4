#include <doctest/doctest.h>

#include "commands/output_paths.h"

namespace pagedinfer {
namespace {

Paths paths_of(const std::string& input, const std::string& output, const std::string& stats) {
  Config config;
  config.input = input, config.output = output, config.stats = stats;
  return resolve_paths(config);
}

TEST_CASE("flags: output names stand beside the input") {
  CHECK(paths_of("dir/a.jsonl", "", "").output == "dir/a.completions.jsonl");
  CHECK(paths_of("dir/a.jsonl", "", "").stats == "dir/a.stats.jsonl");
  CHECK(paths_of("dir/a.jsonl", "", "").summary == "dir/a.summary.json");
  CHECK(paths_of("a.txt", "", "").output == "a.txt.completions.jsonl");
  CHECK(paths_of("a.jsonl.gz", "", "").output == "a.completions.jsonl");
  CHECK(paths_of("a.txt.gz", "", "").output == "a.txt.completions.jsonl");
  CHECK(paths_of("a.jsonl.zst", "", "").output == "a.completions.jsonl");
  CHECK(paths_of("a.csv", "", "").output == "a.completions.jsonl");
  CHECK(paths_of("a.tsv.gz", "", "").output == "a.completions.jsonl");
  CHECK(paths_of("a.jsonl.b", "", "").stats == "a.jsonl.b.stats.jsonl");
  CHECK(paths_of("a.jsonl", "x", "").output == "x");
}

TEST_CASE("flags: statistics stand beside the output, and the summary beside them") {
  const auto check = [](const Paths& paths, const char* stats, const char* summary) {
    CHECK(paths.stats == stats);
    CHECK(paths.summary == summary);
  };
  check(paths_of("a.jsonl", "dir/x.jsonl", ""), "dir/x.stats.jsonl", "dir/x.summary.json");
  check(paths_of("a.jsonl", "x.completions.jsonl", ""), "x.stats.jsonl", "x.summary.json");
  check(paths_of("a.jsonl", "x", ""), "x.stats.jsonl", "x.summary.json");
  check(paths_of("-", "x", ""), "x.stats.jsonl", "x.summary.json");
  check(paths_of("a.jsonl", "x", "dir/y"), "dir/y", "dir/y.summary.json");
  check(paths_of("a.jsonl", "-", "y.stats.jsonl"), "y.stats.jsonl", "y.summary.json");
  check(paths_of("a.jsonl", "x", "y.jsonl"), "y.jsonl", "y.summary.json");
  check(paths_of("a.jsonl", "x", "/dev/null"), "/dev/null", "");
  check(paths_of("a.jsonl", "/dev/null", ""), "", "");
}

TEST_CASE("flags: an output of another form is made of JSON lines beside it") {
  for (const std::string name : {"x.csv", "x.jsonl.gz", "x.zst", "x.completions.csv.zst"}) {
    CAPTURE(name);
    const Paths paths = paths_of("a.jsonl", "dir/" + name, "");
    CHECK(paths.made == "dir/" + name);
    CHECK(paths.output == "dir/" + name + ".jsonl");
    CHECK(paths.stats == "dir/x.stats.jsonl");
    CHECK(paths.summary == "dir/x.summary.json");
  }
  CHECK(paths_of("a.jsonl", "x.jsonl", "").made == "");
  CHECK(paths_of("a.csv", "", "").made == "");
  CHECK(paths_of("a.csv", "-", "").made == "");
}

TEST_CASE("flags: outputs of a shard carry its name") {
  Config config;
  config.input = "dir/a.jsonl.gz";
  config.shard = Shard{.index = 2, .count = 10};
  CHECK(resolve_paths(config).output == "dir/a.2-of-10.completions.jsonl");
  CHECK(resolve_paths(config).stats == "dir/a.2-of-10.stats.jsonl");
  CHECK(resolve_paths(config).summary == "dir/a.2-of-10.summary.json");
  config.output = "x";
  CHECK(resolve_paths(config).output == "x");
  config.input = config.output = "-";
  CHECK(resolve_paths(config).stats == "");
}

TEST_CASE("flags: in a pipe statistics are written only where --stats says") {
  CHECK(paths_of("-", "", "").output == "-");
  CHECK(paths_of("-", "", "").stats == "");
  CHECK(paths_of("-", "x", "").output == "x");
  CHECK(paths_of("a.jsonl", "-", "").stats == "");
  CHECK(paths_of("a.jsonl", "-", "y").stats == "y");
}

}  // namespace
}  // namespace pagedinfer
