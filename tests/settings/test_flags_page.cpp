// docs/flags.md is made of the tables of settings and of the flags of bench, plan, verify and info.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <regex>
#include <string>

#include "commands/bench/bench_config.h"
#include "commands/info/info_job.h"
#include "commands/plan/plan_job.h"
#include "commands/verify/verify_config.h"
#include "settings/help.h"
#include "settings/table.h"
#include "settings/values.h"
#include "tests/support/paths.h"
#include "tests/support/support.h"

namespace pagedinfer {
namespace {

constexpr const char* kBegin = R"(# Flags

This page lists the flags of `pagedinfer run`, and then those of `pagedinfer bench`, `pagedinfer plan`,
`pagedinfer verify` and `pagedinfer info`: what each does, and when to change it. It is made of the tables in
`src/settings/table.h` and of the commands in `src/commands`; a test (`tests/settings/test_flags_page.cpp`) says where they differ.

- The key of a line goes before the flag, the flag before `generation_config.json` of the model, and that
  before the default. "model's" in a default is what that file says.
- Flags that contradict each other are refused before anything is loaded. A default that does not fit what
  was given is switched off, and a note says so.
- The summary of a run tells every setting as it was used, see [statistics](statistics.md).
- A run is [resumed](jobs.md) with the values that it began with of all settings marked with \*.
)";

constexpr const char* kKeys = R"(
## Keys of a line

These settings may stand in a line of the input too, under the name of the flag with `_` for `-`. A value
that is not allowed gives an error record. [Records](records.md) describes the other keys.

| key | value | what it does |
|---|---|---|
)";

constexpr const char* kBench = R"(
## Flags of bench

[Benchmarks](benchmarks.md#the-command) describes the workloads. `bench` takes the flags of `run` above too,
except some that have no use there; a message says what to do instead.

| flag | default | what it does | when to change it |
|---|---|---|---|
)";

constexpr const char* kPlan = R"(
## Flags of plan

[Usage](usage.md#size-a-job-before-it-runs) shows what it prints. `plan` takes all flags of `run` above too.

| flag | default | what it does | when to change it |
|---|---|---|---|
)";

constexpr const char* kVerify = R"(
## Flags of verify

[Usage](usage.md#verify-a-configuration) shows what they are for. `verify` takes the flags of `run` above too,
for both configurations, except some that have no use there; a message says what to do instead.

| flag | default | what it does | when to change it |
|---|---|---|---|
)";

constexpr const char* kInfo = R"(
## Flags of info

[Usage](usage.md#see-what-a-model-is) shows what it prints. `info` takes those flags of `run` above too that say
how the model is read and how prompts are made.

| flag | default | what it does | when to change it |
|---|---|---|---|
)";

std::string cell(std::string text) { return std::regex_replace(text, std::regex("\\|"), "\\|"); }

template <class Options>
std::string row_of(const FlagOf<Options>& flag, std::string_view mark = "") {
  std::string name = flag_of(flag);
  if (flag.letter != 0) name = fmt::format("-{}`, `{}", flag.letter, name);
  const std::string placeholder = placeholder_of(flag);
  return fmt::format(
      "| {} | {} | {} | {} |\n",
      cell(fmt::format("`{}{}{}`{}", name, placeholder.empty() ? "" : " ", placeholder, mark)),
      placeholder.empty() ? "off" : default_of(flag), cell(help_of(flag)),
      cell(std::string(flag.when)));
}

template <class Options>
std::string rows_of(std::span<const FlagOf<Options>> flags) {
  std::string rows;
  for (const FlagOf<Options>& flag : flags) rows += row_of(flag);
  return rows;
}

std::string flags_page() {
  std::string page = kBegin, group;
  for (const Setting& setting : kSettings) {
    if (!setting.is_flag) continue;
    if (group_name(setting.group) != group) {
      group = group_name(setting.group);
      page += fmt::format(
          "\n## {}\n\n| flag | default | what it does | when to change it |\n|---|---|---|---|\n",
          group);
    }
    page += row_of(setting, setting.effect == Effect::kChangesRecords ? " \\*" : "");
  }
  page += kKeys;
  for (const Setting& setting : kSettings) {
    if (!setting.in_line) continue;
    page += fmt::format("| `{}` | {} | {} |\n", setting.key, expected_of(setting),
                        cell(std::string(setting.help)));
  }
  page += kBench + rows_of(bench_flags());
  page += kPlan + rows_of(plan_flags());
  page += kVerify + rows_of(verify_flags());
  page += kInfo + rows_of(info_flags());
  return page;
}

TEST_CASE("docs/flags.md says what the table of settings says") {
  const std::string page = flags_page();
  const bool is_same = read_file(source_dir() + "/docs/flags.md") == page;
  CHECK(is_same);
  if (is_same) return;
  const auto path = std::filesystem::absolute("flags.md");
  write_file(path, page);
  FAIL("the table says something else: cp " << path.string() << " " << source_dir()
                                            << "/docs/flags.md");
}

}  // namespace
}  // namespace pagedinfer
