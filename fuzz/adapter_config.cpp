// Parses the bytes as adapter_config.json, and asks it about the modules of a model.
#include "model/adapter_config.h"

#include <simdjson.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "core/problems.h"
#include "fuzz.h"
#include "io/json_file.h"
#include "io/json_parse.h"

using namespace pagedinfer;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  simdjson::dom::parser parser;
  simdjson::dom::object root;
  const simdjson::padded_string text(std::string_view(reinterpret_cast<const char*>(data), size));
  if (parse_model_json(parser, text).get(root) != simdjson::SUCCESS) return 0;
  using Kind = AdaptedModule::Kind;
  const std::vector<AdaptedModule> modules = {
      {"model.embed_tokens", Kind::kEmbedding},
      {"model.layers.0.self_attn.q_proj", Kind::kLayer},
      {"model.language_model.layers.11.mlp.down_proj", Kind::kLayer},
      {"lm_head", Kind::kOutput},
  };
  const std::vector<std::string> parameters = {"model.layers.0.mlp.experts.gate_up_proj",
                                               "model.layers.11.mlp.gate.weight"};
  Problems problems;
  problems.keep([&] {
    const AdapterConfig config(JsonObject("adapter_config.json", "", root, &problems));
    if (!config.is_known()) return;
    config.check_targets(modules, parameters);
    config.refuse_turned_stacks();
    for (const AdaptedModule& module : modules) {
      if (!config.changes(module)) continue;
      require(config.rank_of(module.name) > 0, "a rank is positive");
      require(std::isfinite(config.scale_of(module.name)), "a scale is finite");
    }
    for (const std::string& parameter : parameters) {
      if (!config.changes_parameter(parameter)) continue;
      require(config.rank_of(parameter) > 0, "a rank is positive");
    }
  });
  for (const std::string& problem : problems.all()) {
    require(problem.starts_with("adapter_config.json: "), "a problem names the file");
  }
  return 0;
}
