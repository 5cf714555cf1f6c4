// --kv-dtype: what is the same whatever a run does, and what is refused.
#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "io/open_file.h"
#include "tests/support/e2e.h"
#include "tests/support/tiny_model.h"

namespace pagedinfer {
namespace {

// Multiplies a matrix of a float32 model by a power of two.
void scale_weights(const std::string& file, const std::string& tensor, float by) {
  std::string bytes = read_file(file);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const Json json(bytes.substr(8, header));
  const std::vector<int64_t> range = json.integers("/" + tensor + "/data_offsets");
  for (size_t at = 8 + header + static_cast<size_t>(range[0]);
       at < 8 + header + static_cast<size_t>(range[1]); at += 4) {
    float weight = 0;
    std::memcpy(&weight, &bytes[at], 4);
    weight *= by;
    std::memcpy(&bytes[at], &weight, 4);
  }
  write_file(file, bytes);
}

}  // namespace

TEST_CASE("completions with a cache in int8 are the same bytes in every configuration") {
  check_same_in_every_configuration({"--kv-dtype", "int8"});
}

TEST_CASE("the summary tells the cache's type and its bytes") {
  const TempDir dir;
  write_file(dir / "in.jsonl", "{\"prompt\": \"Hi\", \"max_tokens\": 2}\n");
  const auto summary = [&](const Words& flags) {
    const Ended ended = run(Words{"--input", dir / "in.jsonl", "--overwrite", "--quiet",
                                  "--kv-memory", "3MiB", "--stats", dir / "stats.jsonl"} +
                            flags);
    REQUIRE_MESSAGE(ended.exit_code == 0, ended.err);
    return summary_beside(dir / "stats.jsonl");
  };
  const Json usual = summary({}), eight = summary({"--kv-dtype", "int8"});
  CHECK(usual.text("/config/kv_dtype") == "bfloat16");
  CHECK(eight.text("/config/kv_dtype") == "int8");
  CHECK(summary({"--dtype", "float16"}).text("/config/kv_dtype") == "float16");
  CHECK(summary({"--dtype", "float32"}).text("/config/kv_dtype") == "float32");
  // A number of a byte and the share of a scale, instead of two bytes.
  const double ratio =
      eight.number("/kv_bytes_per_position") / usual.number("/kv_bytes_per_position");
  CHECK(ratio == doctest::Approx((32 + 4) / 64.0));
  CHECK(eight.integer("/config/num_blocks") > usual.integer("/config/num_blocks") * 17 / 10);
}

TEST_CASE("a run goes on with the type of cache that it began with only") {
  const TempDir dir;
  write_file(dir / "in.jsonl", "{\"prompt\": \"Hi\", \"max_tokens\": 2}\n");
  const Words flags = {"--input", dir / "in.jsonl", "--quiet"};
  CHECK(run(flags + Words{"--kv-dtype", "int8"}).exit_code == 0);
  const Ended other = run(flags + Words{"--resume"});
  CHECK(other.exit_code == 1);
  CHECK(other.err.find("began with kv_dtype = int8, found bfloat16;") != std::string::npos);
  CHECK(run(flags + Words{"--resume", "--kv-dtype", "int8"}).exit_code == 0);
}

TEST_CASE("a type that the cache cannot have is refused by name") {
  const Answers answers = answer("{\"prompt\": \"Hi\"}\n", {"--kv-dtype", "fp8"});
  CHECK(answers.exit_code == 1);
  CHECK(answers.err.find("--kv-dtype: found fp8, expected one of auto, int8") != std::string::npos);
}

TEST_CASE("values beyond float16 end their requests, and other types of the cache take them") {
  const TinyModel files({.max_positions = 64});
  scale_weights(files.dir() + "/model.safetensors", "model.layers.0.self_attn.v_proj.weight",
                0x1p20f);
  const std::string line = "{\"prompt_token_ids\": [1, 5, 9], \"max_tokens\": 2}\n";
  const auto code = [&](const Words& flags) {
    const Answers answers = answer(line, Words{"--model", files.dir()} + flags);
    REQUIRE(answers.records.size() == 1);
    return answers.records[0].has("/error") ? answers.records[0].text("/error/code") : "";
  };
  CHECK(code({"--dtype", "float16"}) == "no_finite_logits");
  CHECK(code({"--dtype", "float16", "--kv-dtype", "bfloat16"}) == "");
  CHECK(code({"--dtype", "float16", "--kv-dtype", "int8"}) == "");
  CHECK(code({"--dtype", "float32"}) == "");
}

}  // namespace pagedinfer
