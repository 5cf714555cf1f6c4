#include "cli/bench_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "cli/flag_checks.h"
#include "cli/flag_help.h"
#include "cli/near_name.h"
#include "cli/run_flags.h"
#include "cli/split_words.h"
#include "core/error.h"
#include "core/shortened.h"
#include "settings/table.h"
#include "settings/values.h"

namespace pagedinfer {
namespace {

// Whether bench takes it as `run` does.
bool is_of_run(const Setting& setting) {
  const bool is_unused = std::ranges::any_of(
      unused_in_bench(), [&](const UnusedSetting& unused) { return unused.key == setting.key; });
  const bool is_own = std::ranges::any_of(
      bench_flags(), [&](const BenchFlag& flag) { return flag.flag == flag_of(setting); });
  return !is_unused && !is_own;
}

// As it is where a shell takes it for one word, else in quotes.
std::string shell_word(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:+%@";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(word);
  }
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

bool is_bench_flag(std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  return std::ranges::any_of(bench_flags(),
                             [&](const BenchFlag& flag) { return flag.flag == name; });
}

// Refuses flags that all configurations have in common.
void check_may_differ(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const std::string_view name = std::string_view(word).substr(0, word.find('='));
    for (const Setting& setting : kSettings) {
      if (!setting.is_flag || name != flag_of(setting) || may_differ(setting)) continue;
      throw Error(fmt::format(
          "{}: configurations run over one loaded model and differ in flags of cache and "
          "scheduling only; give it to all of them, before --compare",
          name));
    }
  }
}

Config read_variant(const std::vector<std::string>& words, const Config& common) {
  check_may_differ(words);
  Config config = common;
  CLI::App app;
  app.allow_extras();
  add_flags(app, config, may_differ);
  std::vector<const char*> all = {"pagedinfer"};
  for (const std::string& word : words) all.push_back(word.c_str());
  check_values(app, std::span(all).subspan(1));
  try {
    app.parse(static_cast<int>(all.size()), all.data());
  } catch (const CLI::ParseError&) {
    check_repeated(app);
    throw Error("expected flags and their values");
  }
  check_leftovers(app.remaining(), flags_of(app), "pagedinfer bench --help");
  return config;
}

}  // namespace

void add_bench_flags(CLI::App& command, BenchConfig& bench) {
  for (const BenchFlag& flag : bench_flags()) {
    CLI::Option* const option = command.add_option_function<std::string>(
        std::string(flag.flag),
        [&flag, &bench](const std::string& text) { flag.give(flag, text, bench); });
    const std::string value = flag.unless_given.empty()
                                  ? std::string(flag.value)
                                  : fmt::format("{} [{}]", flag.value, flag.unless_given);
    set_help(*option, std::string(flag.group), value, fmt::format("{} {}", flag.help, flag.when));
  }
  add_flags(command, bench.config, is_of_run);
  command.footer(
      "\nWithout --output completions are not kept, and without --stats statistics are not."
      "\nExit codes: those of run.");
}

void check_unused_flags(const std::vector<std::string>& leftovers) {
  if (leftovers.empty()) return;
  const std::string name = leftovers[0].substr(0, leftovers[0].find('='));
  for (const UnusedSetting& unused : unused_in_bench()) {
    const Setting& setting = *find_setting(unused.key);
    const bool is_letter = setting.letter != 0 && name == std::string{'-', setting.letter};
    if (name == flag_of(setting) || is_letter) {
      throw Error(fmt::format("{}: {}", name, unused.instead));
    }
  }
}

void check_workload(const BenchConfig& bench) {
  std::string names;
  std::vector<std::string> known;
  for (const WorkloadShape& shape : kWorkloads) {
    known.emplace_back(shape.name);
    names += fmt::format("{}{}", names.empty() ? "" : ", ", shape.name);
  }
  if (bench.workload.empty()) {
    throw Error(fmt::format("--workload: expected one of {}", names));
  }
  if (find_workload(bench.workload) != nullptr) return;
  if (const std::optional<std::string> meant = near_name(bench.workload, known)) {
    throw Error(fmt::format("--workload {}: unknown; did you mean {}? There are {}",
                            shortened(bench.workload), *meant, names));
  }
  throw Error(
      fmt::format("--workload: found {}, expected one of {}", shortened(bench.workload), names));
}

std::optional<std::vector<std::string>> take_configurations(std::vector<const char*>& words) {
  constexpr std::string_view kFlag = "--compare", kWithText = "--compare=";
  const auto begin = std::ranges::find_if(
      words, [&](std::string_view word) { return word == kFlag || word.starts_with(kWithText); });
  if (begin == words.end()) return std::nullopt;
  std::vector<std::string> texts;
  if (std::string_view(*begin).starts_with(kWithText)) {
    texts.emplace_back(std::string_view(*begin).substr(kWithText.size()));
  }
  const auto end = std::find_if(begin + 1, words.end(), is_bench_flag);
  texts.insert(texts.end(), begin + 1, end);
  words.erase(begin, end);
  return texts;
}

std::vector<Variant> read_variants(const std::vector<std::string>& texts, const Config& common) {
  if (texts.empty()) {
    throw Error("--compare: found no configuration, expected two or more, each in quotes");
  }
  std::vector<Variant> variants;
  for (const std::string& text : texts) {
    try {
      variants.push_back({.flags = text, .config = read_variant(split_words(text), common)});
    } catch (const Error& error) {
      const bool is_word = text.find(' ') == std::string::npos;
      throw Error(fmt::format("--compare {}: {}{}", shell_word(shortened(text)), error.what(),
                              is_word ? "; put the flags of a configuration into quotes" : ""));
    }
  }
  return variants;
}

std::string command_text(std::span<const char* const> words) {
  std::string text = "pagedinfer";
  for (const char* const word : words.subspan(1)) text += fmt::format(" {}", shell_word(word));
  return text;
}

}  // namespace pagedinfer
