// LoRA adapters as files. Their numbers are those of made-up weights of their names.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "model/dummy.h"
#include "model/model.h"
#include "tests/support/support.h"

namespace pagedinfer {

struct AdapterTensor {
  std::string name = {};
  std::vector<int64_t> shape = {};
  std::string type = "F32";
  float amplitude = 0.5f;
};

inline std::string safetensors_of(const std::vector<AdapterTensor>& tensors) {
  std::string header = "{\"__metadata__\": {\"format\": \"pt\"}", data;
  for (const AdapterTensor& tensor : tensors) {
    const DType type = tensor.type == "F32"   ? DType::kF32
                       : tensor.type == "F16" ? DType::kF16
                                              : DType::kBF16;
    int64_t count = 1;
    for (const int64_t size : tensor.shape) count *= size;
    std::string bytes(static_cast<size_t>(count * size_of(type)), '\0');
    fill_dummy(tensor.name, {0.0f, tensor.amplitude}, {bytes.data(), type, 1, count, count});
    header += fmt::format(R"(, "{}": {{"dtype": "{}", "shape": [{}], "data_offsets": [{}, {}]}})",
                          tensor.name, tensor.type, fmt::join(tensor.shape, ", "), data.size(),
                          data.size() + bytes.size());
    data += bytes;
  }
  header += "}";
  while (header.size() % 8 != 0) header += ' ';
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header + data;
}

inline void write_adapter(const std::string& dir, std::string_view config,
                          const std::vector<AdapterTensor>& tensors) {
  std::filesystem::create_directories(dir);
  write_file(dir + "/adapter_config.json", std::string(config));
  write_file(dir + "/adapter_model.safetensors", safetensors_of(tensors));
}

// Of layers, in most families.
inline const std::vector<std::string> kAllMatrices = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                      "gate_proj", "up_proj", "down_proj"};

struct TinyAdapterOptions {
  std::vector<std::string> targets = {"q_proj", "v_proj", "down_proj"};
  int rank = 4;
  double alpha = 8;
  std::string type = "F32";
  float amplitude = 0.3f;
};

// The tensors of an adapter for a model.
inline std::vector<AdapterTensor> adapter_tensors(const OpenedModel& model,
                                                  const TinyAdapterOptions& options) {
  std::vector<AdapterTensor> tensors;
  const auto targets = adapter_targets(model.spec, model.names, model.known_names);
  for (const AdapterTarget& target : targets.front().matrices) {
    for (const std::string& end : options.targets) {
      if (!target.module.name.ends_with(end)) continue;
      const std::string prefix = "base_model.model." + target.module.name;
      const bool is_embedding = target.module.kind == AdaptedModule::Kind::kEmbedding;
      tensors.push_back({prefix + (is_embedding ? ".lora_embedding_A" : ".lora_A.weight"),
                         {options.rank, is_embedding ? target.rows : target.cols},
                         options.type,
                         options.amplitude});
      tensors.push_back({prefix + (is_embedding ? ".lora_embedding_B" : ".lora_B.weight"),
                         {is_embedding ? target.cols : target.rows, options.rank},
                         options.type,
                         options.amplitude});
    }
  }
  return tensors;
}

// `more`: further fields of adapter_config.json, each behind a comma.
inline std::string adapter_config(const TinyAdapterOptions& options, std::string_view more = "") {
  return fmt::format(
      R"({{"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": {}, "lora_alpha": {}, "target_modules": ["{}"]{}}})",
      options.rank, options.alpha, fmt::join(options.targets, "\", \""), more);
}

inline void write_adapter_for(const std::string& model_dir, const std::string& dir,
                              const TinyAdapterOptions& options = {}) {
  write_adapter(dir, adapter_config(options), adapter_tensors(open_model(model_dir), options));
}

}  // namespace pagedinfer
