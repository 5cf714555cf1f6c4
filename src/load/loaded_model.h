#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/profile.h"
#include "grammar/form_compiler.h"
#include "grammar/form_store.h"
#include "intake/chat_prompt.h"
#include "io/watched_file.h"
#include "kv/kv_pool.h"
#include "load/backends.h"
#include "load/run_plan.h"
#include "model/model.h"
#include "model/weights.h"
#include "ops/ops.h"
#include "settings/config.h"
#include "text/tokenizer.h"

namespace pagedinfer {

struct PromptLimits;

// A model on a device, with its words and its defaults: what the runs of a process share.
struct LoadedModel {
  std::string dir = {};
  std::string name = {};  // as records call it
  OpenedModel opened;
  std::unique_ptr<Tokenizer> tokenizer = {};  // null: the directory has none
  int64_t tokenizer_bytes = 0;                // that making it has allocated
  std::unique_ptr<FormCompiler> forms = {};   // null: answers are not kept in a form
  std::string no_forms = {};                  // why
  ChatSettings chat = {};
  SamplingParams defaults = {};         // for lines that do not say otherwise
  std::vector<std::string> notes = {};  // about settings of the model that are not followed
  // Those of `opened` and of its adapter, as they were when they were opened.
  std::vector<WatchedFile> weight_files = {};
  std::optional<WatchedFile> adapter_file = {};

  const BackendRow* backend = nullptr;
  std::string backend_note = {};  // as BackendChoice::note
  DType dtype = {};               // as asked for, or the checkpoint's
  DeviceOptions options = {};     // resolved
  Quantization quantize = Quantization::kNone;
  std::optional<DevicePeaks> peaks = {};  // measured for --profile
  std::unique_ptr<Ops> ops = {};
  Weights weights = {};

  // One plan for each configuration that was passed to plan_model(), in the same order.
  std::vector<RunPlan> plans = {};
  PlannedModel planned() const;
  FormShares form_shares() const { return {.num_tokens = opened.spec.vocab}; }
  WeightBytes weight_bytes() const;
  // Throws Error if what steps read in files has changed since they were opened.
  void check_files();

  // What lines must keep to in a run whose requests have at most so many tokens. REQUIRES: the
  // model stays where it is while they are used.
  PromptLimits prompt_limits(int max_model_len) const;

  // In front of those of `ops`; null: nothing is.
  std::unique_ptr<StepProtocol> steps_in_front = {};
  std::unique_ptr<Arithmetic> arithmetic_in_front = {};
  StepProtocol& steps() { return steps_in_front ? *steps_in_front : *ops; }
  Arithmetic& arithmetic() { return arithmetic_in_front ? *arithmetic_in_front : *ops; }
  // Makes the pool of each run out of the one that its plan asks for; empty: that one is used.
  std::function<std::unique_ptr<KvPool>(std::unique_ptr<KvPool>)> pool_in_front = {};
};

// Opens what the configurations name, which differ in nothing but what RunPlan holds, and plans
// their runs. Reads no weights and takes no memory of the plans. They were validated; `clock` gives
// seconds. Throws Error, also for a run that does not fit.
LoadedModel plan_model(const std::vector<Config>& configs, const std::function<double()>& clock);

// Whether the memory of several runs is touched before the first one, so that none of those that
// are measured pays for being the first.
enum class Touch : bool { kNo, kYes };

// Reserves one cache and one step memory that are large enough for each of the planned runs, and
// loads the weights. REQUIRES: the model is of plan_model(), and was not loaded. Throws Error, also
// if a file of weights has changed since plan_model().
void load_weights(LoadedModel& model, Touch touch = Touch::kYes);

// Both.
LoadedModel load_model(const std::vector<Config>& configs, const std::function<double()>& clock,
                       Touch touch = Touch::kYes);

}  // namespace pagedinfer
