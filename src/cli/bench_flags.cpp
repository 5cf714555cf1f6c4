#include "cli/bench_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "cli/command_flags.h"
#include "cli/near_name.h"
#include "cli/run_flags.h"
#include "cli/variant_flags.h"
#include "core/error.h"
#include "core/shortened.h"

namespace pagedinfer {
namespace {

bool is_bench_flag(std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  return std::ranges::any_of(bench_flags(),
                             [&](const BenchFlag& flag) { return flag.flag == name; });
}

}  // namespace

void add_bench_flags(CLI::App& command, BenchConfig& bench) {
  add_own_flags(command, bench_flags(), bench);
  add_flags(command, bench.config, [](const Setting& setting) {
    return takes_setting(setting, unused_in_bench(), bench_flags());
  });
  command.footer(
      "\nWithout --output completions are not kept, and without --stats statistics are not."
      "\nExit codes: those of run.");
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
  const VariantRules rules = {
      .may_differ = can_share_model,
      .why_not =
          "configurations run over one loaded model and differ in flags of cache and "
          "scheduling only; give it to all of them, before --compare",
      .help = "pagedinfer bench --help"};
  std::vector<Variant> variants;
  for (const std::string& text : texts) {
    variants.push_back(read_variant("--compare", text, common, rules));
  }
  return variants;
}

std::string command_text(std::span<const char* const> words) {
  std::string text = "pagedinfer";
  for (const char* const word : words.subspan(1)) text += fmt::format(" {}", shell_word(word));
  return text;
}

}  // namespace pagedinfer
