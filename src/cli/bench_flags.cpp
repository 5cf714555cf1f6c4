#include "cli/bench_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "cli/flag_help.h"
#include "cli/near_name.h"
#include "cli/run_flags.h"
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
std::string quoted(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:+%@";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(word);
  }
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
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

std::string command_text(std::span<const char* const> words) {
  std::string text = "pagedinfer";
  for (const char* const word : words.subspan(1)) text += fmt::format(" {}", quoted(word));
  return text;
}

}  // namespace pagedinfer
