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

// The backends in the order in which --device auto tries them. The last one works everywhere.
std::span<const BackendRow> backends();

// REQUIRES: `device` is not kAuto.
const BackendRow& backend_of(Config::Device device);

struct BackendChoice {
  const BackendRow& row;
  // For auto: why a better device of this machine is not used; "" if there is none.
  std::string note = {};
};

// The backend of `device` or, for kAuto, the first of `rows` that works here. REQUIRES: the last
// row works.
BackendChoice choose_backend(Config::Device device, std::span<const BackendRow> rows = backends());

// Throws Error if the backend cannot compute a model of these sizes.
void check_sizes(const BackendInfo& backend, const ModelSpec& spec);

}  // namespace pagedinfer
