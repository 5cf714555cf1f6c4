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

// A model on a device, with its tokenizer and its defaults. The runs of a process share it.
struct LoadedModel {
  std::string dir = {};
  std::string name = {};  // the model's name in records
  OpenedModel opened;
  std::unique_ptr<Tokenizer> tokenizer = {};  // null: the directory has none
  int64_t tokenizer_bytes = 0;                // allocated by the tokenizer
  std::unique_ptr<FormCompiler> forms = {};   // null: answers cannot have forms
  std::string no_forms = {};                  // why
  ChatSettings chat = {};
  SamplingParams defaults = {};         // of a line without settings of its own
  std::vector<std::string> notes = {};  // about settings of the model that are ignored
  // The files of `opened` and of its adapter, as they were when they were opened.
  std::vector<WatchedFile> weight_files = {};
  std::optional<WatchedFile> adapter_file = {};

  const BackendRow* backend = nullptr;
  std::string backend_note = {};  // BackendChoice::note or BackendInfo::first_start
  DType dtype = {};               // from --dtype or the checkpoint
  DeviceOptions options = {};     // resolved
  Quantization quantize = Quantization::kNone;
  std::optional<DevicePeaks> peaks = {};  // measured for --profile
  std::unique_ptr<Ops> ops = {};
  Weights weights = {};

  // One plan for each configuration of plan_model(), in the same order.
  std::vector<RunPlan> plans = {};
  PlannedModel planned() const;
  FormShares form_shares() const { return {.num_tokens = opened.spec.vocab}; }
  WeightBytes weight_bytes() const;
  // Throws Error if a file that steps read from has changed since it was opened.
  void check_files();

  // The limits on prompts in a run whose requests have at most `max_model_len` tokens. REQUIRES:
  // the model does not move while they are used.
  PromptLimits prompt_limits(int max_model_len) const;

  // Decorators of `ops`; null: `ops` is used directly.
  std::unique_ptr<StepProtocol> steps_in_front = {};
  std::unique_ptr<Arithmetic> arithmetic_in_front = {};
  StepProtocol& steps() { return steps_in_front ? *steps_in_front : *ops; }
  Arithmetic& arithmetic() { return arithmetic_in_front ? *arithmetic_in_front : *ops; }
  // Decorates the pool of each run; empty: the pool is used directly.
  std::function<std::unique_ptr<KvPool>(std::unique_ptr<KvPool>)> pool_in_front = {};
};

// Opens the model of the configurations and plans their runs. Reads no weights and takes none of
// the planned memory. `clock` gives seconds. Throws Error, also if a run does not fit. REQUIRES:
// the configurations were validated, and differ only in settings that RunPlan holds.
LoadedModel plan_model(const std::vector<Config>& configs, const std::function<double()>& clock);

// Whether the memory of several runs is touched before the first run. Otherwise the first run would
// pay for it, and measurements would differ.
enum class Touch : bool { kNo, kYes };

// Reserves one cache and one step memory that are large enough for every planned run, and loads the
// weights. Throws Error, also if a file of weights has changed since plan_model(). REQUIRES: the
// model comes from plan_model() and was not loaded.
void load_weights(LoadedModel& model, Touch touch = Touch::kYes);

// plan_model(), then load_weights().
LoadedModel load_model(const std::vector<Config>& configs, const std::function<double()>& clock,
                       Touch touch = Touch::kYes);

}  // namespace pagedinfer
