// What the engine knows about a kind of device. A backend is a folder beside this file, which
// defines one BackendInfo, and a row in load/backends.cpp.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/cpu_isa.h"
#include "core/cpu_list.h"
#include "core/profile.h"
#include "core/tensor.h"
#include "ops/attention_shape.h"
#include "ops/ops.h"

namespace pagedinfer {

// Options for making a device. A backend ignores options that it does not have.
struct DeviceOptions {
  DType compute = DType::kBF16;        // of products
  DType cache = DType::kBF16;          // of keys and values, unless a run asks for another type
  int num_threads = 1;                 // of the host
  CpuList cpus = {};                   // where these threads run; empty: anywhere
  std::optional<CpuIsa> cpu_isa = {};  // unset: the best one, or not applicable
  bool deterministic = false;
  std::string cache_folder = {};  // for what a device measures once; "": nowhere
  bool pack_weights = false;      // copy weights into the order in which products read them fastest
  AttentionShape attention = {};  // of all steps
};

// The share of the available memory that a run takes if no size is given, and words for messages
// about this memory.
struct MemoryRules {
  double usual_share = 1;
  double max_share = 1;  // if the usual share has no room for a short prompt
  std::string_view name = "memory";
  std::string_view place = "";    // "... are available" in it
  std::string_view limit = "";    // "... are available" of which no more than this
  std::string_view way_out = "";  // "a ..., may help"
  bool may_be_raised = false;     // what is available is a share that a flag chooses
};

struct BackendInfo {
  std::string_view name;    // as --device and the statistics say it
  std::string_view device;  // in a sentence: "the GPU"

  // "" if the device can be used, else what is missing.
  std::string (*problem)();
  // Whether there is such a device, usable or not.
  bool (*is_present)();
  // Why the first start on this machine takes longer; "": it does not, or there is a problem().
  std::string (*first_start)() = [] { return std::string(); };
  // Fills in options that were left open and replaces those that the device computes differently.
  // Throws Error for an option that was given and is not available.
  DeviceOptions (*resolve)(const DeviceOptions& asked);
  // REQUIRES: the options are resolved. Throws Error.
  std::unique_ptr<Ops> (*make)(const DeviceOptions& options);

  // Types that the cache can have beside the type of computation.
  std::span<const DType> cache_types = {};
  bool always_deterministic = false;  // even if not asked for
  // The first steps of a process take much longer: code is loaded and algorithms are chosen.
  bool warms_up = false;
  // The device computes while the host does other work, so steps may overlap.
  bool overlaps = false;
  int max_head_dim = 0;      // channels of a head; 0: any number
  int max_vocab = 0;         // tokens; 0: any number
  bool keeps_codes = false;  // DeviceMemory::upload_codes()
  int max_experts = 0;       // of a layer; 0: any number
  // A note for runs of models with experts; "": none.
  std::string_view experts_note = "";
  int usual_step_tokens = 0;  // tokens of a step if no number is given
  MemoryRules memory = {};
  // Measures the highest rates of the device, with kInt8 of products in int8 too. `clock` returns
  // seconds. REQUIRES: the options are resolved. Throws Error.
  DevicePeaks (*peaks)(const DeviceOptions& options, Quantization quantize,
                       const std::function<double()>& clock) = nullptr;
};

}  // namespace pagedinfer
