#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/cpu_isa.h"
#include "core/cpu_list.h"
#include "core/request.h"
#include "core/shard.h"
#include "core/tensor.h"

namespace pagedinfer {

// A value that knows whether the user gave it. Only values that the user gave can contradict each
// other.
template <class T>
struct OrDefault {
  T value;
  bool is_given = false;

  constexpr explicit OrDefault(T unless_given) : value(unless_given) {}
  OrDefault& operator=(T asked) {
    value = asked;
    is_given = true;
    return *this;
  }
  constexpr operator const T&() const { return value; }
};

// The sampling settings of one source: the flags, or the files of a model.
struct GivenSampling {
  SamplingParams values = {};             // a setting that is not given has its default
  std::set<std::string_view> given = {};  // keys of the table of settings

  bool has(std::string_view key) const { return given.contains(key); }
};

// What `run` was asked to do, with the default of every setting. Each field has a row in
// settings/table.h, which says what it means. An optional has a default that depends on the model
// or the machine.
struct Config {
  // job
  std::string input = {};
  std::string output = {};
  bool keep_jsonl = false;
  std::string stats = {};
  enum class InputFormat : uint8_t { kAuto, kJsonl, kCsv, kTsv };
  InputFormat input_format = InputFormat::kAuto;
  std::string json_columns = {};
  std::string prompt_field = "prompt";
  std::string id_field = "id";
  std::optional<std::string> prompt_template = {};
  std::vector<std::string> message_template = {};
  std::vector<std::string> keep = {};
  bool strict = false;
  std::optional<int64_t> limit = {};
  std::optional<Shard> shard = {};
  std::string trace = {};
  enum class Order : uint8_t { kInput, kCompletion } order = Order::kInput;
  bool overwrite = false;
  bool resume = false;
  bool retry_errors = false;
  std::string errors = {};
  bool exit_zero_on_error_records = false;
  double sync_every = 5;
  bool token_ids = false;
  bool chat = false;
  std::optional<std::string> system = {};
  bool escape_special = false;
  bool record_timing = false;
  bool profile = false;
  bool quiet = false;
  enum class Progress : uint8_t { kAuto, kOn, kOff } progress = Progress::kAuto;

  // model
  std::string model = "story-llama";
  std::optional<std::string> served_model_name = {};
  enum class Weights : uint8_t { kAuto, kDummy } weights = Weights::kAuto;
  std::optional<std::string> lora = {};
  std::optional<DType> dtype = {};
  std::optional<Quantization> quantize = {};  // nullopt: auto
  enum class Packing : uint8_t { kAuto, kOn, kOff } pack_weights = Packing::kAuto;
  std::optional<int> max_model_len = {};
  std::string chat_template = {};
  std::string chat_date = "2024-07-26";

  // device
  enum class Device : uint8_t { kAuto, kCpu, kCuda } device = Device::kAuto;
  OrDefault<double> gpu_memory_utilization{0.9};
  bool deterministic = false;
  std::string gpu_cache = {};
  std::optional<int> threads = {};
  std::optional<CpuList> cpu_list = {};
  std::optional<CpuIsa> cpu_isa = {};

  // cache
  enum class Kv : uint8_t { kPaged, kContiguous };
  OrDefault<Kv> kv{Kv::kPaged};
  std::optional<DType> kv_dtype = {};
  int block_size = 16;
  std::optional<int64_t> num_blocks = {};
  std::optional<int64_t> kv_memory = {};
  OrDefault<bool> prefix_cache{true};

  // scheduling
  enum class Batching : uint8_t { kContinuous, kStatic } batching = Batching::kContinuous;
  OrDefault<int> max_batch_size{256};
  OrDefault<bool> chunked_prefill{true};
  OrDefault<int> prefill_chunk_size{512};
  std::optional<int> max_prefill_chunks = {};
  std::optional<int> max_step_tokens = {};
  OrDefault<double> admission_reserve{0.2};

  // form of the answer
  std::optional<std::string> json_schema = {};
  std::optional<std::string> regex = {};
  std::vector<std::string> choices = {};
  std::optional<std::string> grammar = {};
  bool json_whitespace = false;

  GivenSampling sampling = {};
};

}  // namespace pagedinfer
