// The manual page and the completions of shells name every flag that --help names; the page
// explains it in the same words.
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

constexpr const char* kCommandNames[] = {"run", "merge", "bench", "plan", "info", "verify"};

std::string generated(const std::string& page) {
  const Ended ended = run_program(command({"--generate", page}));
  CHECK(ended.exit_code == 0);
  CHECK(ended.err == "");
  return ended.out;
}

// The flags that --help begins a line with.
std::vector<std::string> flags_of_help(const Words& words) {
  const std::string help = run_program(command(words + Words{"--help"})).out;
  const std::regex flag("\n  (-[a-z],)?(--[a-z-]+)");
  std::vector<std::string> flags;
  for (std::sregex_iterator found(help.begin(), help.end(), flag), end; found != end; ++found) {
    flags.push_back((*found)[2]);
  }
  CHECK(flags.size() > 2);
  return flags;
}

std::set<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// The words of the sentences that say what flags do.
std::set<std::string> explaining_words(const Words& words) {
  const std::string help = run_program(command(words + Words{"--help-all"})).out;
  std::set<std::string> found =
      words_of(help.substr(0, std::min(help.find("\nExample:"), help.find("\nExit codes:"))));
  std::erase_if(found,
                [](const std::string& word) { return word.find_first_of(":[-") != word.npos; });
  CHECK(found.size() > 30);
  return found;
}

// The text from `begin` to the next `end`, both at the beginning of a line.
std::string part_of_page(const std::string& page, const std::string& begin,
                         const std::string& end) {
  const size_t from = page.find("\n" + begin);
  REQUIRE_MESSAGE(from != std::string::npos, begin);
  const size_t behind = from + 1 + begin.size();
  return page.substr(behind, page.find("\n" + end, behind) - behind);
}

bool has_word(const std::string& text, const std::string& word) {
  return std::regex_search(text, std::regex("(^|[^a-z-])" + word + "($|[^a-z-])"));
}

}  // namespace

TEST_CASE("the manual page names and explains every flag of every command") {
  std::string page = generated("man");
  page = std::regex_replace(page, std::regex(R"(\\-)"), "-");
  page = std::regex_replace(page, std::regex(R"(\\f[BIR])"), "");
  page = std::regex_replace(page, std::regex(R"(\\\(aq)"), "'");
  const std::set<std::string> in_page = words_of(page);
  for (const std::string name : kCommandNames) {
    const std::string section = part_of_page(page, ".SH " + name + "\n", ".SH ");
    for (const std::string& flag : flags_of_help({name})) {
      CHECK_MESSAGE(has_word(section, flag), name << " " << flag);
    }
    for (const std::string& word : explaining_words({name})) {
      CHECK_MESSAGE(in_page.contains(word), name << " " << word);
    }
  }
  const std::string options = part_of_page(page, ".SH OPTIONS\n", ".SH ");
  for (const std::string& flag : flags_of_help({})) CHECK_MESSAGE(has_word(options, flag), flag);
  for (const char* const part : {"EXIT STATUS", "FILES", "ENVIRONMENT"}) {
    CHECK(!part_of_page(page, std::string(".SH ") + part, ".SH ").empty());
  }
}

TEST_CASE("completions of every shell name every flag of every command") {
  const std::string bash = generated("bash"), zsh = generated("zsh"), fish = generated("fish");
  for (const std::string name : kCommandNames) {
    const std::string of_bash = part_of_page(bash, "      " + name + ") words=", "      ");
    const std::string of_zsh = part_of_page(zsh, "    " + name + ")\n", "      ;;");
    std::string of_fish;
    std::istringstream lines(fish);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("from " + name + "'") != line.npos) of_fish += line + "\n";
    }
    for (const std::string& flag : flags_of_help({name})) {
      CAPTURE(name);
      CHECK_MESSAGE(has_word(of_bash, flag), flag);
      CHECK_MESSAGE(has_word(of_zsh, flag), flag);
      CHECK_MESSAGE(has_word(of_fish, "-l " + flag.substr(2)), flag);
    }
  }
}

TEST_CASE("a page that is not made is refused by name") {
  const Ended ended = run_program(command({"--generate", "tcsh"}));
  CHECK(ended.exit_code == 1);
  CHECK(ended.err == "pagedinfer: --generate: found tcsh, expected man|bash|zsh|fish\n");
  CHECK(run_program(command({"--generate"})).err == "pagedinfer: --generate: expected a value\n");
}

}  // namespace pagedinfer
