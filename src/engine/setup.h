#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/profile.h"
#include "engine/backends.h"
#include "engine/chat_prompt.h"
#include "engine/memory_plan.h"
#include "kv/kv_pool.h"
#include "model/model.h"
#include "model/weights.h"
#include "ops/ops.h"
#include "sched/scheduler.h"
#include "settings/config.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// Everything that a Config names, loaded and sized: what an Engine runs on.
struct Setup {
  std::string model_dir = {};
  std::string model_name = {};  // as records call it
  OpenedModel model;
  std::unique_ptr<Tokenizer> tokenizer = {};  // null: the directory has none
  ChatSettings chat = {};
  SamplingParams defaults = {};         // for lines that do not say otherwise
  std::vector<std::string> notes = {};  // what of the model's wishes is not as its authors know it

  const BackendRow* backend = nullptr;
  std::string backend_note = {};          // as BackendChoice::note
  DeviceOptions options = {};             // resolved
  std::optional<DevicePeaks> peaks = {};  // measured for --profile
  std::unique_ptr<Ops> ops = {};
  // In front of those of `ops`; null: nothing is.
  std::unique_ptr<StepProtocol> steps = {};
  std::unique_ptr<Arithmetic> arithmetic = {};
  Weights weights = {};

  int max_model_len = 0;
  MemoryPlan memory = {};
  SchedulerLimits limits = {};
  std::unique_ptr<KvPool> pool = {};
  std::vector<KvLayer> cache = {};
};

// Loads it. `config` was validated; `clock` gives seconds. Throws Error.
Setup set_up(const Config& config, const std::function<double()>& clock);

}  // namespace pagedinfer
