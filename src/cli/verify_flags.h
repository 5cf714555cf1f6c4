#pragma once

#include "jobs/verify_config.h"

namespace CLI {
class App;
}

namespace pagedinfer {

// Gives `command` the flags of `pagedinfer verify`; parsing fills `verify`, which must stay.
void add_verify_flags(CLI::App& command, VerifyConfig& verify);

// Reads the texts of the two configurations, when all other flags are there. Throws Error.
void read_sides(VerifyConfig& verify);

}  // namespace pagedinfer
