#pragma once

#include "jobs/merge_job.h"

namespace CLI {
class App;
}

namespace pagedinfer {

// Gives `command` the flags of `pagedinfer merge`; parsing fills `config`, which must stay.
void add_merge_flags(CLI::App& command, MergeConfig& config);

}  // namespace pagedinfer
