#pragma once

#include <cstdint>
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
#include "load/backends.h"
#include "load/run_plan.h"
#include "model/model.h"
#include "model/weights.h"
#include "ops/ops.h"
#include "settings/config.h"
#include "text/tokenizer.h"

namespace pagedinfer {

struct PromptLimits;

// What is known of a model and its runs before weights are read: its files, its tokenizer, its
// defaults, its device, and the sizes of the runs.
struct ModelPlan {
  std::string dir = {};   // or the GGUF file
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
  // Plans its own memory. None of that memory is taken yet.
  std::unique_ptr<Ops> ops = {};

  // One plan for each configuration of plan_model(), in the same order.
  std::vector<RunPlan> runs = {};

  PlannedModel planned() const;  // valid as long as the ModelPlan does not move
  FormShares form_shares() const { return {.num_tokens = opened.spec.vocab}; }
  WeightBytes weight_bytes() const { return weight_bytes(quantize); }
  WeightBytes weight_bytes(Quantization quantized) const;

  // The limits on prompts in a run whose requests have at most `max_model_len` tokens. REQUIRES:
  // the ModelPlan does not move while they are used.
  PromptLimits prompt_limits(int max_model_len) const;
};

// Opens the model of the configurations and plans their runs. Reads no weights and takes none of
// the planned memory. `clock` gives seconds. Throws Error, also if a run does not fit. REQUIRES:
// the configurations were validated, and differ only in settings that RunPlan holds.
ModelPlan plan_model(const std::vector<Config>& configs, const std::function<double()>& clock);

}  // namespace pagedinfer
