// The backends that the engine knows.
#pragma once

#include <span>
#include <string>

#include "model/spec.h"
#include "ops/backend_info.h"
#include "settings/config.h"

namespace pagedinfer {

struct BackendRow {
  Config::Device device;
  const BackendInfo& info;
};

// Those that --device auto prefers come first. The last one works everywhere.
std::span<const BackendRow> backends();

// REQUIRES: `device` is not kAuto.
const BackendRow& backend_of(Config::Device device);

struct BackendChoice {
  const BackendRow& row;
  // For auto: why a better device that is there is not used; "" if there is none.
  std::string note = {};
};

// The backend that is asked for or, for kAuto, the first of `rows` that works here.
// REQUIRES: the last of them does.
BackendChoice choose_backend(Config::Device device, std::span<const BackendRow> rows = backends());

// Throws Error if the backend does not compute a model of such sizes.
void check_sizes(const BackendInfo& backend, const ModelSpec& spec);

}  // namespace pagedinfer
