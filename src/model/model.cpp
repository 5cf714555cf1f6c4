#include "model/model.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "core/error.h"
#include "io/json_file.h"
#include "model/families.h"

namespace pagedinfer {
namespace {

void read_eos_tokens(const JsonObject& from, ModelSpec& spec) {
  const std::vector<int64_t> tokens = from.one_or_more("eos_token_id", 0, spec.vocab - 1);
  if (!tokens.empty()) spec.eos_tokens.assign(tokens.begin(), tokens.end());
}

GenerationDefaults read_generation(const JsonObject& from) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const auto number = [&](std::string_view key, double min, double max, float fallback) {
    return static_cast<float>(from.find_number(key, min, max).value_or(fallback));
  };
  GenerationDefaults defaults;
  if (from.find_bool("do_sample").value_or(false))
    defaults.temperature = number("temperature", 0.0, kMost, 1.0f);
  const int64_t top_k = from.find_integer("top_k", -1, std::numeric_limits<int>::max()).value_or(0);
  defaults.top_k = static_cast<int>(std::max<int64_t>(top_k, 0));  // -1 is off too
  defaults.top_p = number("top_p", 1e-6, 1.0, 1.0f);
  defaults.min_p = number("min_p", 0.0, 1.0, 0.0f);
  defaults.repetition_penalty = number("repetition_penalty", 1e-6, kMost, 1.0f);
  return defaults;
}

}  // namespace

LoadedModel open_model(const std::string& dir) {
  if (!std::filesystem::is_directory(dir)) throw Error(dir + ": no such model directory");
  const JsonFile file(dir + "/config.json");
  const JsonObject config = file.root();
  ModelSpec spec;
  TensorNames names;
  if (config.has("quantization_config"))
    config.fail("quantization_config", "is there, and quantized checkpoints are not supported");
  find_family(config)(config, spec, names);
  read_eos_tokens(config, spec);

  GenerationDefaults generation;
  if (const std::string path = dir + "/generation_config.json"; std::filesystem::exists(path)) {
    const JsonFile generation_file(path);
    read_eos_tokens(generation_file.root(), spec);
    generation = read_generation(generation_file.root());
  }
  return {std::move(spec), std::move(names), generation, Checkpoint(dir)};
}

}  // namespace pagedinfer
