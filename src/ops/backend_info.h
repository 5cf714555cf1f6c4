// What the engine knows of a kind of device. A backend is one folder beside this file, which gives
// one of these, and one row in engine/backends.cpp.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/cpu_isa.h"
#include "core/tensor.h"
#include "ops/ops.h"
#include "ops/peaks.h"

namespace pagedinfer {

// What a device is asked to be. A backend takes what it knows.
struct DeviceOptions {
  DType compute = DType::kBF16;        // of products and of the cache
  int num_threads = 1;                 // of the host
  std::optional<CpuIsa> cpu_isa = {};  // empty: left open, or without a meaning
  bool deterministic = false;
};

// The share of the available memory that a run takes where its size is not given, and how messages
// about it read.
struct MemoryRules {
  double usual_share = 1;
  double max_share = 1;  // where the usual one has no room for a short prompt
  std::string_view name = "memory";
  std::string_view place = "";    // "... are available" in it
  std::string_view limit = "";    // "... are available" of which no more than this
  std::string_view way_out = "";  // "a ..., may help"
};

struct BackendInfo {
  std::string_view name;    // as --device and the statistics say it
  std::string_view device;  // in a sentence: "the GPU"

  // "" if it can be used here, else what is missing.
  std::string (*problem)();
  // Whether there is such a device, usable or not.
  bool (*is_present)();
  // The options as the device has them: what was left open is chosen, and what it does not do is
  // replaced by what it does instead. Throws Error for what was asked for and cannot be had.
  DeviceOptions (*resolve)(const DeviceOptions& asked);
  // REQUIRES: the options are resolved. Throws Error.
  std::unique_ptr<Ops> (*make)(const DeviceOptions& options);

  bool always_deterministic = false;  // whether asked for or not
  // It computes while the host does other work, so steps may overlap.
  bool overlaps = false;
  int usual_step_tokens = 0;  // of a step, where its size is not given
  MemoryRules memory = {};
  PeakProbe probe = {};
};

}  // namespace pagedinfer
