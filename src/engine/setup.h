#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/profile.h"
#include "engine/chat_prompt.h"
#include "engine/memory_plan.h"
#include "kv/kv_pool.h"
#include "model/model.h"
#include "model/weights.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/ops.h"
#include "sched/scheduler.h"
#include "settings/config.h"
#include "text/tokenizer.h"

namespace pagedinfer {

// Everything that a Config names, loaded and sized: what an Engine runs on.
struct Setup {
  std::string model_dir = {};
  std::string model_name = {};  // as records call it
  LoadedModel model;
  std::unique_ptr<Tokenizer> tokenizer = {};  // null: the directory has none
  ChatSettings chat = {};
  SamplingParams defaults = {};         // for lines that do not say otherwise
  std::vector<std::string> notes = {};  // what of the model's wishes is not as its authors know it

  DType compute = DType::kBF16;  // of products and of the cache
  bool on_gpu = false;
  std::string gpu_arithmetic = {};  // CudaOps::arithmetic_name(); "" on the CPU
  std::string gpu_problem = {};  // why the GPU that is there is not used; "" if that was asked for
  CpuOptions cpu = {};           // on a GPU only its threads matter, to the tokenizers
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
