#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "jobs/bench_config.h"

namespace CLI {
class App;
}

namespace pagedinfer {

// Gives `command` the flags of `pagedinfer bench`; parsing fills `bench`, which must stay.
void add_bench_flags(CLI::App& command, BenchConfig& bench);

// Refuses a workload that does not exist.
void check_workload(const BenchConfig& bench);

// Takes --compare out of a command line, with the words behind it up to the next flag of bench
// alone. nullopt if it is not there.
std::optional<std::vector<std::string>> take_configurations(std::vector<const char*>& words);

// The configurations of these texts, with `common` below each. Throws Error for a text that is not
// of flags in which configurations may differ.
std::vector<Variant> read_variants(const std::vector<std::string>& texts, const Config& common);

// The command line as a shell would take it.
std::string command_text(std::span<const char* const> words);

}  // namespace pagedinfer
