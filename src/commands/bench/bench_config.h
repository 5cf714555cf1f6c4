// The command line of `bench`, and the workload that it asks for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "commands/command.h"
#include "commands/variant.h"
#include "core/request.h"
#include "model/spec.h"
#include "settings/config.h"
#include "settings/setting.h"
#include "text/tokenizer.h"
#include "workload/workload.h"

namespace pagedinfer {

// The command line of `bench`. An empty optional means the default of the workload's row.
struct BenchConfig {
  std::string workload = {};
  std::optional<int> requests = {};
  std::optional<IntegerRange> prompt = {}, output = {}, long_prompt = {};
  std::optional<int> heads = {}, head_tokens = {}, long_every = {};
  std::optional<double> rate = {};        // requests per second
  std::optional<double> load = {};        // share of the capacity
  std::optional<double> time_scale = {};  // of a trace
  std::string trace_csv = {};
  std::string emit = {}, results = {};  // files; "" = none
  std::optional<int> pairs = {};

  Config config = {};                 // what all runs have in common
  std::vector<Variant> compare = {};  // none: one run of `config`
  std::string command = {};           // the command line as text, for the results

  uint64_t seed() const { return config.sampling.values.seed; }
};

std::span<const FlagOf<BenchConfig>> bench_flags();

std::span<const UnusedSetting> unused_in_bench();

// Throws Error if the workload does not exist.
void check_workload(const BenchConfig& bench);

// Stores the text of the command line and parses the configurations of --compare. Throws Error.
// REQUIRES: all other flags are parsed.
void read_command_line(const CommandLine& line, BenchConfig& bench);

// The chosen workload: its row, with the given flags in place of the row's values. Throws Error
// naming flags that contradict each other or have no effect on it. REQUIRES: the workload exists.
WorkloadShape shape_of(const BenchConfig& bench);

// The token ids of the model that are plain text: no special tokens and no end tokens. The
// tokenizer may be null; then all ids but the end tokens are returned.
std::vector<TokenId> ordinary_tokens(const ModelSpec& spec, const Tokenizer* tokenizer);

}  // namespace pagedinfer
