#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>

#include "commands/run/validate.h"
#include "core/error.h"
#include "ops/cuda/cuda_ops.h"
#include "tests/support/support.h"

namespace pagedinfer {
namespace {

using Change = std::function<void(Config&)>;

// What is said of a Config with one change, or "" if it passes.
std::string refusal(const Change& change) {
  Config config;
  config.input = "prompts.jsonl";
  change(config);
  try {
    validate(config);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool refused(const std::string& flag, const Change& change) {
  const std::string message = refusal(change);
  INFO(flag, ": ", message);
  CHECK(message.find(flag) != std::string::npos);
  return !message.empty();
}

TEST_CASE("flags: the defaults are valid") {
  CHECK(refusal([](Config&) {}) == "");
}

TEST_CASE("flags: counts below one are refused by name") {
  for (const int value : {0, -1}) {
    CHECK(refused("--block-size", [&](Config& c) { c.block_size = value; }));
    CHECK(refused("--num-blocks", [&](Config& c) { c.num_blocks = value; }));
    CHECK(refused("--kv-memory", [&](Config& c) { c.kv_memory = value; }));
    CHECK(refused("--threads", [&](Config& c) { c.threads = value; }));
    CHECK(refused("--max-model-len", [&](Config& c) { c.max_model_len = value; }));
    CHECK(refused("--max-batch-size", [&](Config& c) { c.max_batch_size = value; }));
    CHECK(refused("--prefill-chunk-size", [&](Config& c) { c.prefill_chunk_size = value; }));
    CHECK(refused("--max-prefill-chunks", [&](Config& c) { c.max_prefill_chunks = value; }));
    CHECK(refused("--max-step-tokens", [&](Config& c) { c.max_step_tokens = value; }));
    CHECK(refused("--max-tokens", [&](Config& c) { c.sampling.values.max_tokens = value; }));
  }
  CHECK(refusal([](Config& c) { c.block_size = 1; }) == "");
  CHECK(refusal([](Config& c) { c.num_blocks = 1; }) == "");
  CHECK(refusal([](Config& c) { c.prefill_chunk_size = 1; }) == "");
  CHECK(refusal([](Config& c) { c.sampling.values.max_tokens = 1; }) == "");
}

TEST_CASE("flags: sampling values out of range are refused by name") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float value : {-0.5f, 20000.0f, nan}) {
    CHECK(refused("--temperature", [&](Config& c) { c.sampling.values.temperature = value; }));
    CHECK(refused("--top-p", [&](Config& c) { c.sampling.values.top_p = value; }));
    CHECK(refused("--min-p", [&](Config& c) { c.sampling.values.min_p = value; }));
    CHECK(refused("--repetition-penalty",
                  [&](Config& c) { c.sampling.values.repetition_penalty = value; }));
    CHECK(refused("--presence-penalty",
                  [&](Config& c) { c.sampling.values.presence_penalty = 5 * value; }));
    CHECK(refused("--frequency-penalty",
                  [&](Config& c) { c.sampling.values.frequency_penalty = 5 * value; }));
    CHECK(refused("--admission-reserve", [&](Config& c) { c.admission_reserve = value; }));
  }
  CHECK(refused("--top-p", [](Config& c) { c.sampling.values.top_p = 0.0f; }));
  CHECK(refused("--admission-reserve", [](Config& c) { c.admission_reserve = 1; }));
  CHECK(refused("--top-k", [](Config& c) { c.sampling.values.top_k = -2; }));
  CHECK(refused("--min-tokens", [](Config& c) { c.sampling.values.min_tokens = -1; }));
  CHECK(refused("--min-tokens", [](Config& c) { c.sampling.values.min_tokens = 257; }));
  CHECK(refused("--stop", [](Config& c) { c.sampling.values.stop = {"a", ""}; }));
  CHECK(refused("--stop-token-ids", [](Config& c) { c.sampling.values.stop_token_ids = {1, -1}; }));
  CHECK(refusal([](Config& c) {
          c.sampling.values.temperature = 0.0f;
          c.sampling.values.top_p = 1.0f;
          c.sampling.values.top_k = 0;
          c.sampling.values.presence_penalty = -2.0f;
          c.sampling.values.min_tokens = c.sampling.values.max_tokens = 300;
          c.admission_reserve = 0;
        }) == "");
}

TEST_CASE("flags: what cannot be resumed is refused with the reason") {
  const auto resumed = [](const char* input, const char* output) {
    return [=](Config& c) {
      c.resume = true;
      c.input = input;
      c.output = output;
    };
  };
  CHECK(refusal(resumed("prompts.jsonl", "out")) == "");
  CHECK(refused("--input - cannot be read a second time", resumed("-", "out")));
  CHECK(refused("--input /dev/null cannot be read", resumed("/dev/null", "out")));
  CHECK(refused("--output - does not keep", resumed("prompts.jsonl", "-")));
  CHECK(refused("--output /dev/null does not keep", resumed("prompts.jsonl", "/dev/null")));
  CHECK(refused("--overwrite", [](Config& c) { c.resume = c.overwrite = true; }));
  CHECK(refused("--retry-errors", [](Config& c) { c.retry_errors = true; }));
  CHECK(refused("--sync-every", [](Config& c) { c.sync_every = -1; }));
  CHECK(refused("--sync-every", [](Config& c) { c.sync_every = std::nan(""); }));
}

TEST_CASE("flags: a device that does not work is refused with the reason") {
  if (const std::string problem = cuda_problem(); !problem.empty()) {
    CHECK(refused(problem.c_str(), [](Config& c) { c.device = Config::Device::kCuda; }));
  }
}

TEST_CASE("flags: given flags that exclude each other are refused, defaults are not") {
  const auto static_and = [](const Change& change) {
    return [change](Config& c) {
      c.batching = Config::Batching::kStatic;
      change(c);
    };
  };
  CHECK(refused("--kv", static_and([](Config& c) { c.kv = Config::Kv::kPaged; })));
  CHECK(refused("--chunked-prefill", static_and([](Config& c) { c.chunked_prefill = true; })));
  CHECK(refused("--prefill-chunk-size", static_and([](Config& c) { c.prefill_chunk_size = 64; })));
  CHECK(refusal(static_and([](Config&) {})) == "");
  CHECK(refusal(static_and([](Config& c) { c.chunked_prefill = false; })) == "");
  CHECK(refusal(static_and([](Config& c) { c.kv = Config::Kv::kContiguous; })) == "");

  CHECK(refused("--prefill-chunk-size", [](Config& c) {
    c.chunked_prefill = false;
    c.prefill_chunk_size = 64;
  }));
  CHECK(refused("--kv-memory", [](Config& c) {
    c.num_blocks = 64;
    c.kv_memory = 1 << 20;
  }));
  CHECK(refused("--max-batch-size", [](Config& c) {
    c.max_step_tokens = 255;
    c.max_batch_size = 256;
  }));
  CHECK(refusal([](Config& c) { c.max_step_tokens = 255; }) == "");
  CHECK(refusal([](Config& c) { c.max_step_tokens = 256; }) == "");
  CHECK(refused("--max-step-tokens", [](Config& c) {
    c.chunked_prefill = false;
    c.max_model_len = 4096;
    c.max_step_tokens = 4096;
  }));
  CHECK(refusal([](Config& c) {
          c.kv = Config::Kv::kContiguous;
          c.block_size = 8;
          c.num_blocks = 64;
        }) == "");
}

TEST_CASE("flags: no file has two roles") {
  const TempDir dir;
  const std::string input = dir / "a.jsonl", link = dir / "b.jsonl";
  write_file(input, "{}\n");
  std::filesystem::create_symlink(input, link);
  const auto with_input = [&](const Change& change) {
    return [&input, change](Config& c) {
      c.input = input;
      change(c);
    };
  };
  CHECK(refusal(with_input([](Config&) {})) == "");
  CHECK(refused("--output", with_input([&](Config& c) { c.output = input; })));
  CHECK(refused("--output", with_input([&](Config& c) { c.output = link; })));
  CHECK(refused("--stats", with_input([&](Config& c) { c.stats = dir / "x/../a.jsonl"; })));
  CHECK(refused("--trace", with_input([&](Config& c) { c.trace = dir / "a.stats.jsonl"; })));
  CHECK(refused("--trace", with_input([&](Config& c) { c.trace = dir / "a.summary.json"; })));
  CHECK(refused("--stats", with_input([&](Config& c) { c.output = c.stats = dir / "new"; })));
  CHECK(refused("--stats", with_input([&](Config& c) { c.output = c.stats = std::string("-"); })));
  CHECK(refusal(with_input([](Config& c) { c.output = c.stats = std::string("/dev/null"); })) ==
        "");
  CHECK(refusal([](Config& c) { c.input = "-"; }) == "");
}

TEST_CASE("flags: no file is what a run makes beside its output, or reads of its model") {
  const TempDir dir;
  const std::string input = dir / "a.jsonl", output = dir / "q";
  write_file(input, "{}\n");
  std::filesystem::create_directory(dir / "model");
  write_file(dir / "model/config.json", "{}");
  const auto with_output = [&](const Change& change) {
    return [&, change](Config& c) {
      c.input = input;
      c.output = output;
      c.model = dir / "model";
      change(c);
    };
  };
  CHECK(refusal(with_output([](Config&) {})) == "");
  for (const char* ending : {".part", ".run"}) {
    write_file(output + ending, "{}\n");
    std::filesystem::remove(dir / "link");
    std::filesystem::create_symlink(output + ending, dir / "link");
    for (const std::string& path : {output + ending, dir / "./q" + ending, dir / "link"}) {
      CHECK(refused("makes beside its file", with_output([&](Config& c) { c.input = path; })));
      CHECK(refused("--stats", with_output([&](Config& c) { c.stats = path; })));
      CHECK(refused("--trace", with_output([&](Config& c) { c.trace = path; })));
    }
    std::filesystem::remove(output + ending);
    CHECK(refused("--stats", with_output([&](Config& c) { c.stats = output + ending; })));
  }
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"}) {
    const std::string path = dir / "model/../model/" + name;
    CHECK(refused("--output", with_output([&](Config& c) { c.output = path; })));
    CHECK(refused("--stats", with_output([&](Config& c) { c.stats = path; })));
  }
  CHECK(refusal(with_output([&](Config& c) {
          c.output = dir / "model/completions";
          c.stats = dir / "model/stats";
        })) == "");
}

TEST_CASE("flags: an input is named") {
  CHECK(refused("--served-model-name", [](Config& c) { c.served_model_name = ""; }));
  CHECK(refused("--lora", [](Config& c) { c.lora = ""; }));
  CHECK(refused("--input", [](Config& c) { c.input = ""; }));
}

}  // namespace
}  // namespace pagedinfer
