// What is refused of quantized checkpoints, and how: by its name, before weights are read.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/error.h"
#include "model/inspect.h"
#include "model/model.h"
#include "model/weights.h"
#include "ops/cpu/cpu_ops.h"
#include "tests/support/changed_checkpoint.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

std::string golden_dir(const std::string& name) {
  return source_dir() + "/tests/data/quantized/" + name;
}

// Opens and plans, as a run does before it reads weights. Returns the error, or "".
std::string quantized_refusal(const std::string& dir) {
  try {
    const OpenedModel model = open_model(dir);
    const auto ops = make_cpu_ops({.compute = DType::kF32});
    static_cast<void>(weight_bytes(model, DType::kF32, ops->memory()));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string refusal_of_config(const std::string& quantization) {
  const TempDir dir;  // without weights
  write_file(dir / "config.json", fmt::format(R"({{"architectures": ["LlamaForCausalLM"],
      "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 61,
      "intermediate_size": 40, "max_position_embeddings": 64, "quantization_config": {}}})",
                                              quantization));
  return quantized_refusal(dir.path());
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string ct_weights(const std::string& format, const std::string& weights,
                       const std::string& more = "") {
  return fmt::format(R"({{"quant_method": "compressed-tensors", "format": "{}", {}
      "config_groups": {{"group_0": {{"targets": ["Linear"], "weights": {}}}}}}})",
                     format, more, weights);
}

constexpr const char* kInt8 = R"({"num_bits": 8, "type": "int", "strategy": "channel"})";

}  // namespace

TEST_CASE("methods of quantization that are not supported are refused by name, with what to do") {
  const std::string advice = "; take the checkpoint that is not quantized";
  for (const std::string method :
       {"bitsandbytes", "gguf", "torchao", "hqq", "modelopt", "quark", "aqlm", "vptq", "eetq",
        "higgs", "quanto", "bitnet", "spqr", "fp_quant", "auto-round", "nvfp4"}) {
    const std::string error =
        refusal_of_config(fmt::format(R"({{"quant_method": "{}", "bits": 4}})", method));
    CAPTURE(error);
    CHECK(has(error, fmt::format("config.json: quantization_config.quant_method: found {}, "
                                 "expected a method that can be read",
                                 method)));
    CHECK(has(error, advice));
  }
  const std::string int4 = R"({"num_bits": 4, "type": "int", "strategy": "channel"})";
  const std::string fp4 = R"({"num_bits": 4, "type": "float", "strategy": "tensor_group",
                              "group_size": 16})";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"quant_method": "gptq", "bits": 2})", "bits: found 2, expected 4 or 8"},
      {R"({"quant_method": "gptq", "bits": 3})", "bits: found 3, expected 4 or 8"},
      {R"({"quant_method": "gptq", "bits": 4, "is_marlin_format": true})", "found marlin"},
      {R"({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"})",
       "checkpoint_format: found marlin, expected gptq or gptq_v2"},
      {R"({"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*down.*": {"bits": 8}}})",
       "has settings for '+:.*down.*'"},
      {R"({"quant_method": "awq", "bits": 8})", "bits: found 8, expected 4"},
      {R"({"quant_method": "awq", "w_bit": 3})", "w_bit: found 3, expected 4"},
      {R"({"quant_method": "awq", "bits": 4, "version": "gemv"})",
       "version: found gemv, expected gemm"},
      {R"({"quant_method": "awq", "bits": 4, "version": "marlin"})", "found marlin"},
      {R"({"quant_method": "awq", "bits": 4, "zero_point": false})", "zero_point: found false"},
      {ct_weights("nvfp4-pack-quantized", fp4),
       "quantization_config.format: found nvfp4-pack-quantized, expected pack-quantized"},
      {ct_weights("mxfp4-pack-quantized", fp4),
       "quantization_config.format: found mxfp4-pack-quantized, expected pack-quantized"},
      {ct_weights("marlin-24", int4),
       "quantization_config.format: found marlin-24, expected pack-quantized"},
      {ct_weights("dense", int4),
       "quantization_config.format: found dense, expected pack-quantized"},
      {R"({"quant_method": "compressed-tensors", "format": "mixed-precision", "config_groups":
           {"g": {"format": "nvfp4-pack-quantized", "weights": {"num_bits": 4}}}})",
       "config_groups.g.format: found nvfp4-pack-quantized, expected pack-quantized"},
      {ct_weights("pack-quantized", R"({"num_bits": 2, "type": "int"})"),
       "num_bits' is 2, which is not supported in pack-quantized"},
      {ct_weights("pack-quantized", R"({"num_bits": 3, "type": "int"})"), "num_bits' is 3"},
      {ct_weights("float-quantized", R"({"num_bits": 4, "type": "float"})"), "num_bits' is 4"},
      {ct_weights("int-quantized", kInt8, R"("sparsity_config": {"format": "sparse-24-bitmask"},)"),
       "sparsity_config' has format sparse-24-bitmask"},
      {ct_weights("int-quantized", kInt8,
                  R"("transform_config": {"config_groups": {"u": {"type": "hadamard"}}},)"),
       "transform_config' is there, and rotations are not supported"},
  };
  for (const auto& [quantization, said] : cases) {
    const std::string error = refusal_of_config(quantization);
    CAPTURE(error);
    CAPTURE(said);
    CHECK(has(error, "/config.json: "));
    CHECK(has(error, said));
    CHECK(has(error, advice));
  }
}

TEST_CASE("what quantization_config says wrongly is refused, all of it at once") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"7", "quantization_config: found 7, expected an object"},
      {R"({"quant_method": 4})", "quant_method: found 4"},
      {R"({"quant_method": "gptq"})", "quantization_config.bits: found nothing"},
      {R"({"quant_method": "gptq", "bits": "four"})", "bits: found \"four\""},
      {R"({"quant_method": "gptq", "bits": 4, "group_size": 0})", "group_size: found 0"},
      {R"({"quant_method": "gptq", "bits": 4, "group_size": -2})", "group_size: found -2"},
      {R"({"quant_method": "gptq", "bits": 4, "pack_dtype": "int64"})",
       "pack_dtype: found int64, expected int32"},
      {R"({"quant_method": "awq", "bits": 4, "q_group_size": 0})", "q_group_size: found 0"},
      {R"({"quant_method": "fp8", "weight_block_size": [128]})",
       "weight_block_size: found [128], expected two numbers"},
      {R"({"quant_method": "fp8", "weight_block_size": [0, 128]})", "found 0"},
      {R"({"quant_method": "compressed-tensors"})", "config_groups: found nothing"},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"a": null}})",
       "config_groups.a: found null"},
      {ct_weights("int-quantized", kInt8, R"("ignore": ["re:("],)"),
       "ignore' '(' is no regular expression"},
      {ct_weights("int-quantized", kInt8, R"("ignore": ["re:((a?){300}){300}"],)"),
       "is no regular expression"},
      {ct_weights("float-quantized", R"({"num_bits": 8, "type": "int"})"), "type: found int"},
      {ct_weights("pack-quantized", R"({"num_bits": 8, "type": "float"})"), "type: found float"},
      {ct_weights("int-quantized", R"({"num_bits": 8, "strategy": "group"})"),
       "strategy: found group"},
      {ct_weights("int-quantized", R"({"num_bits": 8, "strategy": "block"})"),
       "strategy: found block"},
      {ct_weights("int-quantized", R"({"num_bits": 8, "strategy": "token"})"),
       "strategy: found token"},
      {ct_weights("int-quantized", R"({"num_bits": 8, "dynamic": true})"), "dynamic' is true"},
      {ct_weights("int-quantized", R"({"num_bits": 8, "actorder": "no"})"),
       "actorder: found \"no\""},
      {ct_weights("float-quantized", R"({"num_bits": 8, "type": "float", "symmetric": false})"),
       "symmetric' is false"},
  };
  for (const auto& [quantization, said] : cases) {
    const std::string error = refusal_of_config(quantization);
    CAPTURE(error);
    CAPTURE(said);
    CHECK(has(error, "/config.json: "));
    CHECK(has(error, said));
  }

  struct Several {
    std::string quantization;
    std::vector<std::string> fields;
  };
  const Several several[] = {
      {R"({"quant_method": "gptq", "bits": 3, "group_size": 0, "checkpoint_format": "marlin",
           "pack_dtype": "int8"})",
       {"bits", "group_size", "checkpoint_format", "pack_dtype"}},
      {ct_weights("pack-quantized", R"({"num_bits": 3, "type": "float", "strategy": "token",
                                        "actorder": "no", "dynamic": true})"),
       {"num_bits", "type", "strategy", "actorder", "dynamic"}},
  };
  for (const auto& [quantization, fields] : several) {
    const TempDir dir;
    write_file(
        dir / "config.json",
        fmt::format(R"({{"architectures": ["LlamaForCausalLM"], "quantization_config": {}}})",
                    quantization));
    Problems problems;
    static_cast<void>(inspect_model(dir.path(), WeightSource::kDummy, problems));
    for (const std::string& field : fields) {
      CAPTURE(field);
      CHECK(std::ranges::any_of(problems.all(), [&](const std::string& problem) {
        return has(problem, "quantization_config.") &&
               (has(problem, field + ": ") || has(problem, field + "' is"));
      }));
    }
  }
}

TEST_CASE("hostile tensors of quantized matrices are refused: the name, the found, the expected") {
  struct Case {
    std::string model;
    std::string tensor;
    std::function<void(Entries&, Entry&)> change;
    std::string said;
  };
  const auto type = [](const std::string& name) {
    return [name](Entries&, Entry& entry) { entry.type = name; };
  };
  const auto shape = [](std::vector<int64_t> sizes) {
    return [sizes](Entries&, Entry& entry) { entry.shape = sizes; };
  };
  const auto first = [](int32_t number) {
    return [number](Entries&, Entry& entry) {
      std::memcpy(entry.bytes.data(), &number, sizeof(number));
    };
  };
  // The first numbers of a tensor of bytes.
  const auto keep = [](std::vector<int64_t> sizes) {
    return [sizes](Entries&, Entry& entry) {
      entry.shape = sizes;
      size_t size = 1;
      for (const int64_t each : sizes) size *= static_cast<size_t>(each);
      REQUIRE(size < entry.bytes.size());
      entry.bytes.resize(size);
    };
  };
  const std::function<void(Entries&, Entry&)> drop = {};
  const std::string layer = "model.layers.1.", mlp = layer + "mlp.", experts = mlp + "experts.";
  const std::string attention = layer + "self_attn.";
  const std::vector<Case> cases = {
      {"fp8-blocks", mlp + "down_proj.weight_scale_inv", shape({2, 1}),
       "has shape [2, 1], expected [1, 2]"},
      {"fp8-blocks", mlp + "down_proj.weight_scale_inv", type("I32"),
       "has type I32, expected F32 or F16 or BF16"},
      {"fp8-blocks", mlp + "down_proj.weight_scale_inv", drop, "weight_scale_inv or weight_scale"},
      {"fp8-blocks", mlp + "down_proj.weight", type("I8"),
       "has type I8, expected F8_E4M3 or F8_E5M2"},
      {"fp8-blocks", mlp + "down_proj.weight", shape({149, 38}),
       "has shape [149, 38], expected [38, 149]"},
      {"fp8-blocks", mlp + "down_proj.weight", drop, "no tensor '" + mlp + "down_proj.weight'"},
      {"fp8-tensor-e5m2", mlp + "down_proj.weight_scale", shape({1, 1, 1}),
       "has shape [1, 1, 1], expected [] or [1] or [1, 1] or [40] or [40, 1]"},
      {"ct-int-mixed", mlp + "down_proj.weight_scale", shape({4, 40}),
       "has shape [4, 40], expected [40, 4]"},
      {"ct-int-mixed", mlp + "up_proj.weight_zero_point", drop, "no tensor"},
      {"ct-int-mixed", mlp + "up_proj.weight_zero_point", type("U8"), "has type U8, expected I8"},
      {"ct-int-mixed", mlp + "down_proj.weight_scale",
       [mlp](Entries& all, Entry&) {
         all[mlp + "down_proj.weight_zero_point"] = {"I8", {40, 4}, std::string(160, '\1')};
       },
       "holds 1, expected 0: config.json calls the weights symmetric"},
      {"ct-packed-4-zeros", mlp + "up_proj.weight_zero_point", shape({3, 5}),
       "has shape [3, 5], expected [5, 3]"},
      {"ct-packed-4-zeros", mlp + "up_proj.weight_packed", shape({8, 40}),
       "has shape [8, 40], expected [40, 8]"},
      {"ct-packed-4-zeros", mlp + "up_proj.weight_shape", first(39),
       "holds [39, 60], expected [40, 60]"},
      {"ct-packed-4-zeros", mlp + "up_proj.weight_scale", drop, "no tensor"},
      {"ct-packed-4-zeros", mlp + "up_proj.weight_packed",
       [mlp](Entries& all, Entry&) {
         all[mlp + "up_proj.weight"] = {"BF16", {40, 60}, std::string(4800, '\1')};
       },
       fmt::format("up_proj.weight' is there, expected is {}up_proj.weight_packed alone", mlp)},
      {"ct-int-mixed", mlp + "up_proj.weight_scale",
       [mlp](Entries& all, Entry&) {
         all[mlp + "up_proj.weight_packed"] = {"I32", {1}, std::string(4, '\1')};
       },
       fmt::format("up_proj.weight_packed' is there, expected is {}up_proj.weight alone", mlp)},
      {"ct-packed-4-order-fused", mlp + "down_proj.weight_g_idx", first(7),
       "has group 7, expected 0 to 6"},
      {"ct-packed-4-order-fused", mlp + "down_proj.weight_g_idx", first(-1), "has group -1"},
      {"ct-packed-4-order-fused", mlp + "down_proj.weight_g_idx", drop, "no tensor"},
      {"gptq-4-order", mlp + "up_proj.g_idx", first(3), "has group 3, expected 0 to 2"},
      {"gptq-4-order", mlp + "up_proj.g_idx", first(INT32_MIN), "has group -2147483648"},
      {"gptq-4-order", mlp + "up_proj.g_idx", drop, "no tensor '" + mlp + "up_proj.g_idx'"},
      {"gptq-4-order", mlp + "up_proj.g_idx", shape({8, 5}), "has shape [8, 5], expected [40]"},
      {"gptq-4-order", mlp + "up_proj.qweight", shape({56, 5}),
       "has shape [56, 5], expected [5, 56]"},
      {"gptq-4-order", mlp + "up_proj.qweight", type("U32"), "has type U32, expected I32"},
      {"gptq-4-order", mlp + "up_proj.qweight", drop, "no tensor '" + mlp + "up_proj.qweight'"},
      {"gptq-4-order", mlp + "up_proj.qzeros", shape({7, 3}), "has shape [7, 3], expected [3, 7]"},
      {"gptq-4-order", mlp + "up_proj.qzeros", drop, "no tensor '" + mlp + "up_proj.qzeros'"},
      {"gptq-4-order", mlp + "up_proj.scales", drop, "no tensor '" + mlp + "up_proj.scales'"},
      {"gptq-4-order", mlp + "up_proj.qweight",
       [mlp](Entries& all, Entry&) {
         all[mlp + "up_proj.weight"] = {"F16", {56, 40}, std::string(56 * 40 * 2, '\0')};
       },
       "tensor '" + mlp + "up_proj.weight' is there, expected is " + mlp + "up_proj.qweight alone"},
      {"awq-biases", attention + "q_proj.qweight", shape({6, 48}),
       "has shape [6, 48], expected [48, 6]"},
      {"awq-biases", attention + "q_proj.qzeros", type("F32"), "has type F32, expected I32"},
      {"awq-biases", attention + "q_proj.scales", shape({48, 6}),
       "has shape [48, 6], expected [6, 48]"},
      // A group less in each row, an expert less, a row less, halves of blocks, rows without
      // groups; as many rows of other experts.
      {"mxfp4-experts", experts + "gate_up_proj_blocks", shape({10, 32, 3, 16}),
       "has shape [10, 32, 3, 16], expected [5, 64, 3, 16]"},
      {"mxfp4-experts", experts + "gate_up_proj_blocks", shape({1, 320, 3, 16}),
       "has shape [1, 320, 3, 16], expected [5, 64, 3, 16]"},
      {"mxfp4-experts", experts + "gate_up_proj_blocks", keep({5, 64, 2, 16}),
       "has shape [5, 64, 2, 16], expected [5, 64, 3, 16]"},
      {"mxfp4-experts", experts + "gate_up_proj_blocks", keep({4, 64, 3, 16}),
       "has shape [4, 64, 3, 16], expected ["},
      {"mxfp4-experts", experts + "gate_up_proj_blocks", keep({5, 63, 3, 16}),
       "has shape [5, 63, 3, 16], expected [5, 64, 3, 16]"},
      {"mxfp4-experts", experts + "gate_up_proj_blocks", shape({5, 64, 6, 8}),
       "has shape [5, 64, 6, 8], expected [5, 64, 3, 16]"},
      {"mxfp4-experts", experts + "down_proj_blocks", shape({5, 96, 16}),
       "has shape [5, 96, 16], expected [5, 96, 1, 16]"},
      {"mxfp4-experts", experts + "down_proj_blocks", keep({}), "has shape [], expected"},
      {"mxfp4-experts", experts + "down_proj_blocks", type("I8"), "has type I8, expected U8"},
      {"mxfp4-experts", experts + "down_proj_blocks", drop, "no tensor"},
      {"mxfp4-experts", experts + "gate_up_proj_scales", keep({5, 64, 2}),
       "has shape [5, 64, 2], expected [5, 64, 3]"},
      {"mxfp4-experts", experts + "gate_up_proj_scales", keep({4, 64, 3}),
       "has shape [4, 64, 3], expected [5, 64, 3]"},
      {"mxfp4-experts", experts + "gate_up_proj_scales", shape({5, 3, 64}),
       "has shape [5, 3, 64], expected [5, 64, 3]"},
      {"mxfp4-experts", experts + "gate_up_proj_scales", shape({320, 3}),
       "has shape [320, 3], expected [5, 64, 3]"},
      {"mxfp4-experts", experts + "gate_up_proj_scales", type("F8_E4M3"),
       "has type F8_E4M3, expected U8 or F8_E8M0"},
      {"mxfp4-experts", experts + "gate_up_proj_scales", drop, "no tensor"},
      {"mxfp4-experts", experts + "gate_up_proj_blocks",
       [experts](Entries& all, Entry&) {
         all[experts + "gate_up_proj"] = {"BF16", {5, 96, 64}, std::string(61440, '\0')};
       },
       "gate_up_proj' is there, expected is " + experts + "gate_up_proj_blocks alone"},
  };
  for (const Case& c : cases) {
    const TempDir dir;
    std::filesystem::copy_file(golden_dir(c.model) + "/config.json", dir / "config.json");
    Entries entries = read_entries(golden_dir(c.model));
    REQUIRE(entries.contains(c.tensor));
    if (c.change) {
      c.change(entries, entries[c.tensor]);
    } else {
      entries.erase(c.tensor);
    }
    write_file(dir / "model.safetensors", safetensors_of(entries));
    const std::string error = quantized_refusal(dir.path());
    CAPTURE(c.model);
    CAPTURE(c.said);
    CAPTURE(error);
    CHECK(has(error, "/model.safetensors: "));
    CHECK(has(error, c.tensor.substr(0, c.tensor.rfind('.'))));
    CHECK(has(error, c.said));
    Problems problems;
    static_cast<void>(inspect_model(dir.path(), WeightSource::kFiles, problems));
    REQUIRE(problems.all().size() == 1);
    CHECK(problems.all().front() == error);
  }
}

TEST_CASE("a weight_block_size of null means that there are no blocks") {
  const TempDir dir;
  copy_changed("fp8-blocks", "\"weight_block_size\": [", "\"weight_block_size\": null, \"_\": [",
               dir.path());
  const std::string error = quantized_refusal(dir.path());
  CAPTURE(error);
  CHECK(has(error, "weight_scale_inv' has shape [2, 1], expected [] or [1] or [1, 1] or [149]"));
}

TEST_CASE("quantized matrices of which config.json does not tell are refused with what to do") {
  const auto check = [](const std::string& model, const std::string& said, const char* file) {
    const TempDir dir;
    copy_changed(model, "quantization_config", "of_old", dir.path());
    if (file != nullptr) write_file(dir / file, R"({"bits": 4, "group_size": 16})");
    const std::string error = quantized_refusal(dir.path());
    CAPTURE(error);
    CHECK(has(error,
              "/config.json: quantization_config: found nothing, expected how tensor 'model."));
    CHECK(has(error, said));
    Problems problems;
    static_cast<void>(inspect_model(dir.path(), WeightSource::kFiles, problems));
    REQUIRE(problems.all().size() == 1);
    CHECK(problems.all().front() == error);
  };
  check("gptq-4-order", "qweight' is quantized; take the checkpoint that is not", nullptr);
  check("fp8-blocks", "weight' is quantized; take the checkpoint that is not", nullptr);
  check("ct-packed-4-zeros", "weight_packed' is quantized; take", nullptr);
  check("gptq-4-order",
        "; quantize_config.json is not read: put what it says into config.json as "
        "quantization_config, with \"quant_method\": \"gptq\"",
        "quantize_config.json");
  check("awq-biases", "; quant_config.json is not read", "quant_config.json");
}

TEST_CASE("groups and words that do not divide a matrix are refused") {
  const std::vector<std::tuple<std::string, std::string, std::string, std::string>> cases = {
      {"awq-biases", "\"group_size\": 8", "\"group_size\": 7",
       "qweight' is of a matrix of 48 columns, expected a multiple of 7"},
      {"ct-packed-4-zeros", "\"group_size\": 20", "\"group_size\": 7",
       "weight_scale' is of a matrix of 60 columns, expected a multiple of 7"},
      {"gptq-4-order", "\"intermediate_size\": 56", "\"intermediate_size\": 57",
       "qweight' is of a matrix of 57 rows, expected a multiple of 8"},
      {"mxfp4-experts", "\"intermediate_size\": 32", "\"intermediate_size\": 33",
       "gate_up_proj_blocks' has shape [5, 64, 3, 16], expected [5, 66, 3, 16]"},
      {"mxfp4-experts", "\"num_local_experts\": 5", "\"num_local_experts\": 4",
       "tensor 'model.layers.0.mlp.router.weight' has shape [5, 96], expected [4, 96]"},
      {"ct-int-mixed", "\"Linear\"", "\"Conv1d\"",
       "'model.layers.0.self_attn.v_proj' is quantized in the checkpoint, but not by"},
      {"ct-int-mixed", "\"Linear\"", "\"Embedding\"",
       "'model.layers.0.self_attn.v_proj' is quantized in the checkpoint, but not by"},
      {"ct-int-mixed", "\"lm_head\"", "\"re:.*[qk]_proj\"",
       "'model.layers.0.self_attn.q_proj' is quantized in the checkpoint, but not by"},
  };
  for (const auto& [model, from, to, said] : cases) {
    const TempDir dir;
    copy_changed(model, from, to, dir.path());
    const std::string error = quantized_refusal(dir.path());
    CAPTURE(error);
    CHECK(has(error, said));
  }
}

TEST_CASE("a mutated quantized checkpoint is an error or valid, and what is valid can be read") {
  const std::string alphabet = "0123456789[]{},:\"-eEIU.F8_qszg \\\0\xFF";
  std::mt19937 random(11);
  int errors = 0, loaded = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir() + "/tests/data/quantized")) {
    const std::string config = read_file(entry.path().string() + "/config.json");
    const std::string valid = read_file(entry.path().string() + "/model.safetensors");
    uint64_t header_size = 0;
    std::memcpy(&header_size, valid.data(), sizeof(header_size));
    const TempDir dir;
    for (int trial = 0; trial < 120; ++trial) {
      const auto mutate = [&](std::string text, size_t begin, size_t size) {
        for (uint32_t i = 0, n = 1 + random() % 2; i < n; ++i) {
          const size_t at = begin + random() % size;
          const char c = alphabet[random() % alphabet.size()];
          switch (random() % 4) {
            case 0: text.insert(at, 1, c); break;
            case 1: text.erase(at, 1); break;
            default: text[at] = c; break;
          }
        }
        return text;
      };
      const size_t quantization = config.find("quantization_config");
      const bool of_config = trial % 3 == 0;
      write_file(dir / "config.json",
                 of_config ? mutate(config, quantization, config.size() - quantization) : config);
      write_file(dir / "model.safetensors", of_config ? valid : mutate(valid, 8, header_size));
      try {
        const OpenedModel model = open_model(dir.path());
        const auto ops = make_cpu_ops({.compute = DType::kBF16});
        static_cast<void>(weight_bytes(model, DType::kBF16, ops->memory()));
        static_cast<void>(load_weights(model, DType::kBF16, ops->memory()));
        ++loaded;
      } catch (const Error&) {
        ++errors;
      }
    }
  }
  CHECK(errors > 1000);
  CHECK(loaded > 50);
}
