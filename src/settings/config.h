#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/cpu_isa.h"
#include "core/request.h"
#include "core/shard.h"
#include "core/tensor.h"

namespace pagedinfer {

// What `run` was asked to do: every flag, its default, and when to change it. A field that is
// an optional was not given; run_job() derives the value and the summary reports it.
struct Config {
  // job
  std::string input = {};   // a JSONL file, or - for standard input
  std::string output = {};  // "" = NAME.completions.jsonl beside the input; - = standard output
  std::string stats = {};   // "" = NAME.stats.jsonl beside the input; none if that has no name
  std::string prompt_field = "prompt";  // the key of a plain line's prompt
  bool strict = false;                  // a line with an unknown key is an error
  std::optional<int64_t> limit = {};    // the first records only
  std::optional<Shard> shard = {};      // those of its lines only
  std::string trace = {};               // a line of JSON per step; "" = none
  enum class Order : uint8_t { kInput, kCompletion } order = Order::kInput;  // of the records
  bool overwrite = false;
  bool resume = false;        // go on with what a run that did not end has left
  bool retry_errors = false;  // and compute its error records again
  double sync_every = 5;      // seconds after which the disk has what is finished; 0 = at the end
  bool token_ids = false;     // put the completion's token ids into the records
  bool chat = false;          // a plain prompt is one message of the user
  std::optional<std::string> system = {};  // the system's message of conversations without one
  bool record_timing = false;  // put times into the records: they then differ from run to run
  bool profile = false;        // time every operation
  bool quiet = false;          // neither progress nor the closing table
  enum class Progress : uint8_t { kAuto, kOn, kOff } progress = Progress::kAuto;

  // model
  std::string model = "story-llama";  // a directory, or the short name of a bundled model
  std::optional<std::string> served_model_name = {};  // as records call it
  // kDummy makes weights up, for a directory that has none.
  enum class Weights : uint8_t { kAuto, kDummy } weights = Weights::kAuto;
  std::optional<DType> dtype = {};  // of the computation; none = that of the checkpoint
  std::optional<int> max_model_len = {};
  std::string chat_template = {};         // a template's name, none; "" = the model's own
  std::string chat_date = "26 Jul 2024";  // for templates that print one

  // device
  enum class Device : uint8_t { kAuto, kCpu, kCuda } device = Device::kAuto;
  std::optional<double> gpu_memory_utilization = {};  // share of the GPU's memory in use at most
  bool deterministic = false;  // on a GPU too, a request's bits do not depend on its batch
  std::optional<int> threads = {};
  std::optional<CpuIsa> cpu_isa = {};  // none = the fastest one

  // cache
  enum class Kv : uint8_t { kPaged, kContiguous };
  std::optional<Kv> kv = {};  // paged; contiguous with static batching
  std::optional<int> block_size = {};
  std::optional<int64_t> num_blocks = {};
  std::optional<int64_t> kv_memory = {};  // bytes

  // scheduling
  enum class Batching : uint8_t { kContinuous, kStatic } batching = Batching::kContinuous;
  std::optional<int> max_batch_size = {};
  std::optional<bool> chunked_prefill = {};
  std::optional<int> prefill_chunk_size = {};
  std::optional<int> max_prefill_chunks = {};
  std::optional<int> max_step_tokens = {};
  double admission_reserve = 0.2;

  // Sampling defaults: given flags only. A line overrides them, they override
  // generation_config.json.
  struct Sampling {
    std::optional<int> max_tokens = {}, min_tokens = {}, top_k = {};
    std::optional<float> temperature = {}, top_p = {}, min_p = {};
    std::optional<float> repetition_penalty = {}, presence_penalty = {}, frequency_penalty = {};
    std::optional<uint64_t> seed = {};
    std::optional<bool> ignore_eos = {};
    std::vector<std::string> stop = {};
    std::vector<TokenId> stop_token_ids = {};
  } sampling = {};
};

}  // namespace pagedinfer
