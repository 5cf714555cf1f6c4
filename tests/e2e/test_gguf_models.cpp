// GGUF files made of bundled models give the bytes that the folders give.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/float16.h"
#include "io/json_file.h"
#include "io/safetensors.h"
#include "tests/support/e2e.h"
#include "tests/support/gguf_tokenizer.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_adapter.h"

namespace pagedinfer {
namespace {

constexpr uint32_t kF32 = 0, kQ4 = 2, kQ8 = 8, kQ6K = 14, kBF16 = 30;

std::string model_dir(const std::string& model) { return source_dir() + "/datasets/" + model; }

// A tensor's name without layers, in GGUF.
const std::map<std::string, std::string> kNames = {
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

std::string gguf_name(const std::string& name) {
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  const std::string rest = name.substr(std::string("model.layers.").size());
  const size_t dot = rest.find('.'), end = rest.rfind('.');
  return fmt::format("blk.{}.{}.weight", rest.substr(0, dot),
                     kNames.at(rest.substr(dot + 1, end - dot - 1)));
}

std::vector<float> floats_of(const StoredTensor& tensor) {
  std::vector<float> numbers(tensor.bytes.size() / 2);
  for (size_t i = 0; i < numbers.size(); ++i) {
    uint32_t bits = 0;
    std::memcpy(reinterpret_cast<char*>(&bits) + 2, tensor.bytes.data() + 2 * i, 2);
    std::memcpy(&numbers[i], &bits, sizeof bits);
  }
  return numbers;
}

// Rows of heads of 32 as the converter of llama models has them.
std::string turned(const std::string& rows, size_t row_bytes) {
  std::string result;
  for (size_t i = 0; i < rows.size() / row_bytes; ++i) {
    const size_t in_head = i % 32, from = i - in_head + in_head / 2 + in_head % 2 * 16;
    result += rows.substr(from * row_bytes, row_bytes);
  }
  return result;
}

// The number that is largest without its sign.
float largest(const float* x, size_t count) {
  return *std::max_element(x, x + count,
                           [](float a, float b) { return std::abs(a) < std::abs(b); });
}
int rounded(float x, int min, int max) {
  return std::clamp(static_cast<int>(std::lround(x)), min, max);
}

// 256 numbers, all of whose sub-scales are 64.
std::string to_q6_k(const float* x) {
  const uint16_t half = to_f16(largest(x, 256) / -32 / 64);
  const float scale = from_f16(half) * 64;
  std::string low(128, '\0'), high(64, '\0');
  for (size_t i = 0; i < 256; ++i) {
    const int code = rounded(x[i] / scale, -32, 31) + 32;
    const size_t half_at = i / 128, quarter = i % 128 / 32, place = i % 32;
    low[half_at * 64 + quarter % 2 * 32 + place] |=
        static_cast<char>((code & 15) << quarter / 2 * 4);
    high[half_at * 32 + place] |= static_cast<char>(code >> 4 << 2 * quarter);
  }
  std::string bytes = low + high + std::string(16, '\x40');
  GgufWriter::append(bytes, half);
  return bytes;
}
std::string to_q4_0(const float* x) {
  std::string bytes;
  const uint16_t half = to_f16(largest(x, 32) / -8);
  const float scale = from_f16(half);
  GgufWriter::append(bytes, half);
  for (size_t i = 0; i < 16; ++i) {
    bytes += static_cast<char>((rounded(x[i] / scale, -8, 7) + 8) |
                               (rounded(x[i + 16] / scale, -8, 7) + 8) << 4);
  }
  return bytes;
}
std::string to_q8_0(const float* x) {
  std::string bytes;
  const uint16_t half = to_f16(std::abs(largest(x, 32)) / 127);
  const float scale = from_f16(half);
  GgufWriter::append(bytes, half);
  for (size_t i = 0; i < 32; ++i) bytes += static_cast<char>(rounded(x[i] / scale, -127, 127));
  return bytes;
}

// The model as a GGUF file. `type`: of matrices; beside those in kQ4 there are others, as in usual
// files.
GgufWriter gguf_of(const std::string& model, const std::string& architecture, uint32_t type) {
  const JsonFile file(model_dir(model) + "/config.json");
  const JsonObject config = file.root();
  GgufWriter writer;
  writer.text("general.architecture", architecture);
  const auto copy = [&](const char* field, const char* key) {
    writer.number(fmt::format("{}.{}", architecture, key),
                  static_cast<uint32_t>(config.integer(field, 0, 1 << 20)));
  };
  copy("num_hidden_layers", "block_count");
  copy("hidden_size", "embedding_length");
  copy("intermediate_size", "feed_forward_length");
  copy("num_attention_heads", "attention.head_count");
  copy("num_key_value_heads", "attention.head_count_kv");
  copy("max_position_embeddings", "context_length");
  writer.number(architecture + ".attention.key_length", 32);
  writer.real(architecture + ".attention.layer_norm_rms_epsilon",
              static_cast<float>(config.number("rms_norm_eps", 0, 1)));
  const Checkpoint tensors(model_dir(model));
  for (const auto& [name, tensor] : tensors.tensors()) {
    std::string bytes(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    if (tensor.shape.size() == 1) {
      const std::vector<float> numbers = floats_of(tensor);
      bytes.assign(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
      writer.tensor(gguf_name(name), kF32, tensor.shape, bytes);
      continue;
    }
    const auto columns = static_cast<size_t>(tensor.shape[1]);
    if (architecture != "qwen3" &&
        (name.find("q_proj") != name.npos || name.find("k_proj") != name.npos)) {
      bytes = turned(bytes, 2 * columns);
    }
    if (type == kBF16) {
      writer.tensor(gguf_name(name), type, tensor.shape, bytes);
      continue;
    }
    const bool is_down = name.find("down_proj") != name.npos;
    const uint32_t used = is_down ? kQ6K : name.find("self_attn") != name.npos ? kQ8 : type;
    const std::vector<float> numbers =
        floats_of({"BF16", tensor.shape, std::as_bytes(std::span(bytes)), ""});
    std::string blocks;
    for (size_t at = 0; at < numbers.size(); at += is_down ? 256 : 32) {
      const float* const x = &numbers[at];
      blocks += used == kQ6K ? to_q6_k(x) : used == kQ8 ? to_q8_0(x) : to_q4_0(x);
    }
    writer.tensor(gguf_name(name), used, tensor.shape, blocks);
  }
  return writer;
}

// The tokenizer of story-qwen3.
void add_tokenizer(const std::string& model, GgufWriter& writer) {
  write_bpe_tokenizer(model_dir(model), "qwen2", writer);
  writer.number("tokenizer.ggml.eos_token_id", 2).number("tokenizer.ggml.eot_token_id", 0);
  writer.number("tokenizer.ggml.padding_token_id", 0).flag("tokenizer.ggml.add_bos_token", false);
  const JsonFile settings(model_dir(model) + "/tokenizer_config.json");
  writer.text("tokenizer.chat_template", settings.root().string("chat_template"));
}

std::string gguf_completed(const std::string& model, const std::string& input,
                           const Words& more = {}) {
  const TempDir dir;
  const Ended ended = run(Words{"--model", model, "--served-model-name", "m", "--input", input,
                                "--output", dir / "out.jsonl", "--quiet", "--token-ids"} +
                          more);
  REQUIRE_MESSAGE(ended.exit_code == 0, ended.err);
  return read_file(dir / "out.jsonl");
}

// The tokens of completions: a file without a tokenizer gives no text.
std::string ids_of(const std::string& records) {
  std::string all;
  for (const Json& record : json_lines(records)) all += record["/token_ids"] + "\n";
  return all;
}

std::string lines_of_ids() {
  std::string lines;
  for (int i = 0; i < 12; ++i) {
    std::string ids = "1";
    for (int j = 0; j <= i * 5; ++j) ids += fmt::format(", {}", 3 + (i * 97 + j * 31) % 1000);
    lines += fmt::format("{{\"prompt_token_ids\": [{}], \"max_tokens\": 24}}\n", ids);
  }
  return lines;
}

}  // namespace

TEST_CASE("a GGUF file of a bundled model gives the bytes of its folder, text and chats too") {
  const TempDir dir;
  GgufWriter writer = gguf_of("story-qwen3", "qwen3", kBF16);
  add_tokenizer("story-qwen3", writer);
  write_file(dir / "m.gguf", writer.file());
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    lines += fmt::format(
        "{{\"prompt\": \"One day {} cats ran caf\\u00e9 {}\\n\", \"max_tokens\": {}}}\n", i,
        std::string(static_cast<size_t>(i), 'x'), 4 + i);
    lines += fmt::format(
        "{{\"messages\": [{{\"role\": \"user\", \"content\": \"What is {} + {}?\"}}], "
        "\"max_tokens\": 12}}\n",
        i, 2 * i);
  }
  write_file(dir / "in.jsonl", lines);
  CHECK(gguf_completed(dir / "m.gguf", dir / "in.jsonl") ==
        gguf_completed(model_dir("story-qwen3"), dir / "in.jsonl"));
  // The folder that has the file stands for it.
  CHECK(gguf_completed(dir.path(), dir / "in.jsonl") ==
        gguf_completed(dir / "m.gguf", dir / "in.jsonl"));
}

TEST_CASE("heads that a GGUF file has turned are turned back") {
  const TempDir dir;
  write_file(dir / "in.jsonl", lines_of_ids());
  write_file(dir / "m.gguf", gguf_of("story-llama", "llama", kBF16).file());
  const std::string folder = gguf_completed(model_dir("story-llama"), dir / "in.jsonl");
  const std::string file = gguf_completed(dir / "m.gguf", dir / "in.jsonl");
  CHECK(ids_of(file) == ids_of(folder));
  CHECK(ids_of(file).size() > 100);
  // Factors of rope without a number are none.
  GgufWriter writer = gguf_of("story-llama", "llama", kBF16);
  write_file(dir / "m.gguf", writer.tensor("rope_freqs.weight", kF32, {0}, "").file());
  CHECK(ids_of(gguf_completed(dir / "m.gguf", dir / "in.jsonl")) == ids_of(folder));
}

TEST_CASE("the old key for a factor of rope stands for linear scaling") {
  const TempDir dir;
  write_file(dir / "in.jsonl", lines_of_ids());
  const GgufWriter plain = gguf_of("story-llama", "llama", kBF16);
  const auto completed = [&](const GgufWriter& writer) {
    write_file(dir / "m.gguf", writer.file());
    return ids_of(gguf_completed(dir / "m.gguf", dir / "in.jsonl"));
  };
  const std::string scaled = completed(GgufWriter(plain)
                                           .text("llama.rope.scaling.type", "linear")
                                           .real("llama.rope.scaling.factor", 4));
  CHECK(completed(GgufWriter(plain).real("llama.rope.scale_linear", 4)) == scaled);
  CHECK(completed(GgufWriter(plain).real("llama.rope.scaling.factor", 4)) == scaled);
  const std::string usual = completed(plain);
  CHECK(usual != scaled);
  CHECK(completed(GgufWriter(plain).real("llama.rope.scale_linear", 1)) == usual);
  CHECK(completed(GgufWriter(plain)
                      .text("llama.rope.scaling.type", "none")
                      .real("llama.rope.scaling.factor", 4)) == usual);
}

TEST_CASE("an adapter changes the heads of a GGUF file as it changes those of the folder") {
  const TempDir dir;
  write_file(dir / "in.jsonl", lines_of_ids());
  write_file(dir / "m.gguf", gguf_of("story-llama", "llama", kBF16).file());
  write_adapter_for(model_dir("story-llama"), dir / "lora", {.targets = kAllMatrices});
  const Words lora = {"--lora", dir / "lora"};
  const auto completed = [&](const std::string& model, const Words& more) {
    return ids_of(gguf_completed(model, dir / "in.jsonl", more));
  };
  const std::string folder = completed(model_dir("story-llama"), lora);
  CHECK(completed(dir / "m.gguf", lora) == folder);
  CHECK(completed(dir / "m.gguf", {}) != folder);
}

TEST_CASE("a GGUF file's layers without rope have turned heads too") {
  const TempDir dir;
  write_file(dir / "in.jsonl", lines_of_ids());
  // Its fourth layer has no rope.
  write_file(dir / "m.gguf", gguf_of("story-llama", "smollm3", kBF16).file());
  std::filesystem::create_directories(dir / "folder");
  std::string config = read_file(model_dir("story-llama") + "/config.json");
  const auto replace = [&](const std::string& from, const std::string& to) {
    config.replace(config.find(from), from.size(), to);
  };
  replace("LlamaForCausalLM", "SmolLM3ForCausalLM");
  replace("\"llama\"", "\"smollm3\"");
  write_file(dir / "folder/config.json", config);
  std::filesystem::copy(model_dir("story-llama") + "/model.safetensors", dir / "folder");
  write_adapter_for(dir / "folder", dir / "lora", {.targets = {"q_proj", "k_proj"}});
  for (const Words& more : {Words{"--ignore-eos"}, Words{"--ignore-eos", "--lora", dir / "lora"}}) {
    CHECK(gguf_completed(dir / "m.gguf", dir / "in.jsonl", more) ==
          gguf_completed(dir / "folder", dir / "in.jsonl", more));
  }
}

TEST_CASE("an adapter for a GGUF file of 4 bits gives the same bytes in every batch") {
  const TempDir dir;
  write_file(dir / "in.jsonl", lines_of_ids());
  write_file(dir / "m.gguf", gguf_of("story-llama", "llama", kQ4).file());
  write_adapter_for(model_dir("story-llama"), dir / "lora");
  write_adapter_for(model_dir("story-llama"), dir / "zero", {.targets = kAllMatrices, .alpha = 0});
  const Words lora = {"--lora", dir / "lora"};
  const std::string usual = gguf_completed(dir / "m.gguf", dir / "in.jsonl", lora);
  CHECK(gguf_completed(dir / "m.gguf", dir / "in.jsonl",
                       lora + Words{"--max-step-tokens", "7", "--cpu-isa", "portable"}) == usual);
  CHECK(gguf_completed(dir / "m.gguf", dir / "in.jsonl") != usual);
  // All matrices of layers are dequantized, and the output with --quantize none too.
  const Words none = {"--quantize", "none"};
  CHECK(gguf_completed(dir / "m.gguf", dir / "in.jsonl", Words{"--lora", dir / "zero"} + none) ==
        gguf_completed(dir / "m.gguf", dir / "in.jsonl", none));
  const Ended info = run_program(command(Words{"info", "--model", dir / "m.gguf"} + lora));
  CHECK(info.out.find(", but 18 matrices of the adapter in bfloat16") != std::string::npos);
}

TEST_CASE("the blocks of a GGUF file stay what they are, and give the same bytes in every batch") {
  const TempDir dir;
  write_file(dir / "in.jsonl", lines_of_ids());
  write_file(dir / "m.gguf", gguf_of("story-llama", "llama", kQ4).file());
  const std::string usual = gguf_completed(dir / "m.gguf", dir / "in.jsonl");
  for (const Words& flags : {Words{"--max-batch-size", "1"},
                             {"--max-step-tokens", "7", "--threads", "2"},
                             {"--cpu-isa", "portable"},
                             {"--quantize", "int4", "--threads", "1"}}) {
    CHECK(gguf_completed(dir / "m.gguf", dir / "in.jsonl", flags) == usual);
  }
  for (const char* const other : {"none", "int8"}) {
    CHECK(gguf_completed(dir / "m.gguf", dir / "in.jsonl", {"--quantize", other}) != usual);
  }
  const Ended info = run_program(command({"info", "--model", dir / "m.gguf"}));
  CHECK(info.out.find("gguf, Q4_0, Q6_K, Q8_0; 43 of 43 matrices") != std::string::npos);
  CHECK(info.out.find("bfloat16 on cpu, weights in the checkpoint's codes") != std::string::npos);
}

TEST_CASE("what a GGUF file lacks or has that is not known is named") {
  const TempDir dir;
  write_file(dir / "in.jsonl", lines_of_ids());
  const auto error = [&](const GgufWriter& writer) {
    write_file(dir / "m.gguf", writer.file());
    const Ended ended = run({"--model", dir / "m.gguf", "--input", dir / "in.jsonl", "--output",
                             dir / "out.jsonl", "--quiet"});
    CHECK(ended.exit_code == 1);
    return ended.err;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(error(GgufWriter()), "general.architecture: found nothing, expected one of llama");
  has(error(GgufWriter().text("general.architecture", "mamba")), "found mamba, expected one of");
  has(error(GgufWriter().text("general.architecture", "llama")),
      "llama.block_count: found nothing, expected a positive integer");
  GgufWriter other = gguf_of("story-llama", "llama", kBF16);
  has(error(GgufWriter(other).real("llama.rope.freq_base", INFINITY)),
      "llama.rope.freq_base: found no finite number");
  has(error(GgufWriter(other).real("llama.logit_scale", NAN)),
      "llama.logit_scale: found no finite number");
  has(error(GgufWriter(other).tensor("model.norm.weight", kF32, {1}, "abcd")),
      "two tensors are 'model.norm.weight', expected one");
  has(error(GgufWriter(other).tensor("blk.0.ffn_up_exps.weight", kF32, {16384, 0}, "")),
      "has shape [16384, 0], expected numbers of 1 to 16384 experts");
  has(error(GgufWriter(other).tensor("odd", 16, {256}, std::string(66, '\0'))), "IQ2_XXS");
  has(error(other.text("tokenizer.ggml.model", "bert")
                .texts("tokenizer.ggml.tokens", std::vector<std::string>{"a"})),
      "tokenizer.ggml.model: found bert, expected gpt2 or llama");
  GgufWriter unknown = gguf_of("story-qwen3", "qwen3", kBF16);
  unknown.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "odd");
  has(error(unknown.texts("tokenizer.ggml.tokens", std::vector<std::string>{"a"})),
      "tokenizer.ggml.pre: found odd, expected one of gpt-2");
}

TEST_CASE("tokens that are spelled as an end of turns end completions of a GGUF file") {
  const TempDir dir;
  const GgufWriter plain = gguf_of("story-qwen3", "qwen3", kBF16);
  const auto ends = [&](std::vector<std::string> tokens, uint32_t eos) {
    GgufWriter writer(plain);
    writer.number("tokenizer.ggml.eos_token_id", eos);
    if (tokens.empty()) {
      writer.number("tokenizer.ggml.eot_token_id", 7).number("tokenizer.ggml.eom_token_id", 8);
    }
    write_file(dir / "m.gguf", writer.texts("tokenizer.ggml.tokens", tokens).file());
    const std::string told = run_program(command({"info", "--model", dir / "m.gguf"})).out;
    const size_t at = told.find("\nends ");
    return at == told.npos ? told : told.substr(at + 17, told.find('\n', at + 1) - at - 17);
  };
  CHECK(ends({"<pad>", "<eos>", "<start_of_turn>", "<end_of_turn>"}, 1) == "1, 3");
  CHECK(ends({"<|endoftext|>", "<|assistant|>", "<|end|>"}, 0) == "0, 2");
  // Its <|end|> ends a message, behind which others follow.
  CHECK(ends({"<|end|>", "<|return|>", "<|call|>"}, 1) == "1, 2");
  // The embedding has no row for it.
  std::vector<std::string> more(2000, "x");
  more.back() = "<|im_end|>";
  CHECK(ends(more, 5) == "5");
  CHECK(ends({}, 6) == "6, 7, 8");
}

TEST_CASE("a folder with several GGUF models names them") {
  const TempDir dir;
  write_file(dir / "a.gguf", "GGUF");
  write_file(dir / "b-00001-of-00002.gguf", "GGUF");
  write_file(dir / "b-00002-of-00002.gguf", "GGUF");
  const Ended ended = run_program(command({"info", "--model", dir.path()}));
  CHECK(ended.exit_code == 1);
  CHECK(ended.err.find("has 2 GGUF models, expected one of them: a.gguf, b-00001-of-00002.gguf") !=
        std::string::npos);
}

}  // namespace pagedinfer
