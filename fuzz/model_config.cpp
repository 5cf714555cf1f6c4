// Parses the bytes as config.json, by the family that they name.
#include <simdjson.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "fuzz.h"
#include "io/json_file.h"
#include "io/json_parse.h"
#include "model/families.h"

using namespace pagedinfer;

namespace {

void check(const ModelSpec& spec, const std::vector<TensorNames>& names) {
  require(spec.hidden > 0 && spec.vocab > 0 && spec.intermediate > 0 && spec.max_positions > 0,
          "sizes are positive");
  require(spec.kv_heads > 0 && spec.heads % spec.kv_heads == 0, "KV heads divide heads");
  require(spec.head_dim > 0 && spec.head_dim % 2 == 0, "a head has pairs of dimensions");
  require(std::isfinite(spec.attention_scale) && spec.attention_scale > 0, "scores have a scale");
  require(!spec.layers.empty() && !names.empty(), "there are layers and names");
  for (const TensorNames& candidate : names) {
    require(candidate.layers.size() == spec.layers.size(), "every layer has names");
  }
  for (const LayerSpec& layer : spec.layers) {
    require(layer.window >= 0, "a window is not negative");
    require(layer.rope == kNoRope ||
                (layer.rope >= 0 && static_cast<size_t>(layer.rope) < spec.ropes.size()),
            "a layer's rope is there");
  }
  for (const RopeSpec& rope : spec.ropes) {
    const size_t size = rope.inv_freq.size();
    require(size > 0 && 2 * size <= static_cast<size_t>(spec.head_dim), "a rope is for a head");
    require(std::isfinite(rope.scale), "cosines have a scale");
    require(rope.long_inv_freq.empty() || rope.long_inv_freq.size() == size,
            "short and long runs rotate the same channels");
    for (const std::vector<float>& table : {rope.inv_freq, rope.long_inv_freq}) {
      for (const float frequency : table) {
        require(std::isfinite(frequency) && frequency >= 0, "frequencies are numbers");
      }
    }
  }
  for (const TokenId token : spec.eos_tokens) {
    require(token >= 0 && token < spec.vocab, "the vocabulary has the end of sequence");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  simdjson::dom::parser parser;
  simdjson::dom::object root;
  const simdjson::padded_string text(std::string_view(reinterpret_cast<const char*>(data), size));
  if (parse_model_json(parser, text).get(root) != simdjson::SUCCESS) return 0;
  const JsonObject config("config.json", "", root);
  try {
    ModelSpec spec;
    std::vector<TensorNames> names;
    find_family(config)(config, spec, names);
    read_eos_tokens(config, spec);
    check(spec, names);
  } catch (const Error& error) {
    require(std::string(error.what()).starts_with("config.json: '"), "an error names the field");
  }
  return 0;
}
