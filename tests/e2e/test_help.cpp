// Every flag is in --help, and --help can be read.
#include <doctest/doctest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "settings/table.h"
#include "settings/values.h"
#include "tests/support/e2e.h"
#include "tests/support/paths.h"

namespace pagedinfer {
namespace {

struct Flag {
  std::string name, text;  // all of its text on one line
};

std::vector<Flag> flags_in(const std::string& help) {
  std::vector<Flag> flags;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    line = std::regex_replace(line, std::regex("^  -[io],--"), "  --");
    if (line.starts_with("  --")) {
      flags.push_back({line.substr(2, line.find(' ', 2) - 2), line.substr(2)});
    } else if (line.starts_with("      ") && !flags.empty()) {
      flags.back().text += " " + line.substr(line.find_first_not_of(' '));
    }
  }
  return flags;
}

}  // namespace

TEST_CASE("the help with all flags lists a flag for every setting, and nothing else") {
  const Ended help = run_program(command({"run", "--help-all"}));
  CHECK(help.exit_code == 0);
  CHECK(help.err == "");
  std::set<std::string> expected, found;
  for (const Setting& setting : kSettings) {
    if (setting.is_flag) expected.insert(flag_of(setting));
  }
  for (const Flag& flag : flags_in(help.out)) found.insert(flag.name);
  found.erase("--version");
  found.erase("--help-all");
  CHECK(expected.size() > 35);
  for (const std::string& name : expected) CHECK_MESSAGE(found.count(name) == 1, name);
  for (const std::string& name : found) CHECK_MESSAGE(expected.count(name) == 1, name);
}

TEST_CASE("help lists the usual flags of run, or the own flags of another subcommand") {
  const auto flags_of = [](const Words& words) {
    std::set<std::string> names;
    const Ended help = run_program(command(words));
    CHECK(help.exit_code == 0);
    CHECK(help.out.find("Example:\n  pagedinfer " + words[0] + " ") != std::string::npos);
    for (const Flag& flag : flags_in(help.out)) names.insert(flag.name);
    CHECK(names.erase("--version") == 1);
    CHECK(names.erase("--help-all") == 1);
    return names;
  };
  CHECK(flags_of({"run", "--help"}) ==
        std::set<std::string>{"--input", "--prompt-field", "--prompt-template",
                              "--message-template", "--keep", "--chat", "--limit", "--output",
                              "--resume", "--model", "--json-schema", "--max-tokens",
                              "--temperature"});
  CHECK(flags_of({"plan", "--help"}) == std::set<std::string>{"--expected-tokens", "--json"});
  CHECK(flags_of({"verify", "--help"}).contains("--tolerance"));
  for (const char* name : {"plan", "verify", "bench", "info"}) {
    const std::set<std::string> own = flags_of({name, "--help"}),
                                all = flags_of({name, "--help-all"});
    CHECK(!own.contains("--model"));
    CHECK(all.contains("--model"));
    CHECK(std::ranges::includes(all, own));
    CHECK(run_program(command({name, "--help"})).out.find("flags of run too") != std::string::npos);
  }
}

TEST_CASE("help says of every flag when to change it") {
  const std::regex advice(R"(\b([Tt]ake|[Gg]ive|[Rr]aise|[Ll]ower|[Cc]hange|For [a-z]+)\b)");
  for (const char* name : {"run", "bench", "plan", "verify"}) {
    for (const Flag& flag : flags_in(run_program(command({name, "--help-all"})).out)) {
      if (flag.name == "--version" || flag.name == "--help-all" || flag.name == "--input" ||
          flag.name == "--workload") {
        continue;
      }
      CAPTURE(flag.text);
      CHECK(flag.text.ends_with("."));
      CHECK(std::count(flag.text.begin(), flag.text.end(), ' ') > 6);
      CHECK(std::regex_search(flag.text, advice));
    }
  }
}

TEST_CASE("help fits 100 columns") {
  for (const Words& words :
       {Words{"--help"}, Words{"run", "--help"}, Words{"merge", "--help"}, Words{"bench", "--help"},
        Words{"plan", "--help"}, Words{"verify", "--help"}, Words{"-h"}, Words{"run", "--help-all"},
        Words{"plan", "--help-all"}}) {
    const Ended help = run_program(command(words));
    CHECK(help.exit_code == 0);
    CHECK(help.out.size() > 100);
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);) {
      CHECK_MESSAGE(line.size() <= 100, line);
      CHECK_MESSAGE(!line.ends_with(" "), line);
    }
  }
}

TEST_CASE("the version is on the first line, before what the program was built with") {
  for (const Words& words : {Words{"--version"}, Words{"run", "--version"}}) {
    const Ended ended = run_program(command(words));
    CHECK(ended.exit_code == 0);
    CHECK_MESSAGE(std::regex_match(ended.out, std::regex(R"(pagedinfer \d+\.\d+\.\d+
commit +(unknown|[0-9a-z.-]+)
compiler +[A-Z][A-Za-z]* [0-9.]+
instruction sets +portable avx2 avx512 amx
this processor +portable( avx2( avx512( amx)?)?)?
CUDA +(none|[0-9.]+ for [0-9a-z, -]+)
libraries +([A-Za-z0-9]+ [0-9.]+, )+utf8proc [0-9.]+
)")),
                  ended.out);
  }
}

TEST_CASE("the version is that of the newest section of the changelog") {
  const std::string version = run_program(command({"--version"})).out;
  std::smatch newest;
  const std::string changelog = read_file(source_dir() + "/CHANGELOG.md");
  REQUIRE(std::regex_search(changelog, newest, std::regex("\n## (.+)\n")));
  CHECK(version.starts_with("pagedinfer " + newest[1].str() + "\n"));
}

}  // namespace pagedinfer
