#include <doctest/doctest.h>

#include <string>

#include "commands/run/job.h"
#include "commands/run/run_input.h"
#include "core/error.h"
#include "settings/values.h"
#include "tests/support/support.h"
#include "tests/support/tiny_model.h"

namespace pagedinfer {
namespace {

using Packing = Config::Packing;

// What is decided for an input of these lines.
Packing decision(const std::string& lines, const std::string& max_tokens = "256",
                 Packing asked = Packing::kAuto) {
  const TempDir dir;
  Config config;
  config.input = dir / "in.jsonl";
  config.pack_weights = asked;
  give("max_tokens", max_tokens, config);
  write_file(config.input, lines);
  return with_packing_decided(config).pack_weights;
}

std::string repeated(const std::string& text, int count) {
  std::string all;
  while (count-- > 0) all += text;
  return all;
}

}  // namespace

TEST_CASE("packing: auto packs for long completions, many lines and long prompts only") {
  const std::string line = "{\"prompt\":\"Once\"}\n";
  CHECK(decision(line) == Packing::kOn);
  CHECK(decision(line, "3") == Packing::kOff);
  CHECK(decision(line + "{\"prompt\":\"Once\",\"max_tokens\":100}\n", "3") == Packing::kOn);
  CHECK(decision("{\"prompt\":\"Once\",\"max_tokens\":2}\n") == Packing::kOff);
  CHECK(decision(repeated(line, 5), "3") == Packing::kOff);
  CHECK(decision(repeated(line, 1000), "3") == Packing::kOn);
  CHECK(decision("{\"prompt\":\"" + repeated("Once ", 1000) + "\"}\n", "3") == Packing::kOn);
}

TEST_CASE("packing: lines that are not answered ask for nothing") {
  CHECK(decision("") == Packing::kOff);
  CHECK(decision("{\"prompt\":5}\n{\"prompt\":\n") == Packing::kOff);
}

TEST_CASE("packing: only lines of the shard and up to the limit count") {
  const TempDir dir;
  Config config;
  config.input = dir / "in.jsonl";
  write_file(config.input,
             "{\"prompt\":\"Once\",\"max_tokens\":2}\n{\"prompt\":\"Once\",\"max_tokens\":200}\n");
  CHECK(with_packing_decided(config).pack_weights == Packing::kOn);
  config.limit = 1;
  CHECK(with_packing_decided(config).pack_weights == Packing::kOff);
  config.limit.reset();
  config.shard = Shard{.index = 0, .count = 2};
  CHECK(with_packing_decided(config).pack_weights == Packing::kOff);
  config.shard = Shard{.index = 1, .count = 2};
  CHECK(with_packing_decided(config).pack_weights == Packing::kOn);
}

TEST_CASE("packing: on and off are followed") {
  const std::string line = "{\"prompt\":\"Once\"}\n";
  CHECK(decision(line, "3", Packing::kOn) == Packing::kOn);
  CHECK(decision(line, "256", Packing::kOff) == Packing::kOff);
}

TEST_CASE("packing: an input that can be read only once is not read") {
  Config config;
  config.input = "-";
  CHECK(with_packing_decided(config).pack_weights == Packing::kOn);
  config.input = "/dev/null";
  CHECK(with_packing_decided(config).pack_weights == Packing::kOn);
}

TEST_CASE("first lines: a file that cannot be answered is refused before the weights are loaded") {
  const TempDir dir;
  const TinyModel files({.max_positions = 64});  // without a tokenizer
  Config config = {.input = dir / "in.jsonl", .model = files.dir()};
  config.output = dir / "out.jsonl";
  config.device = Config::Device::kCpu;
  config.num_blocks = 40;
  config.quiet = true;
  bool is_loaded = false;
  const auto load = [&](LoadedModel&) { is_loaded = true; };
  write_file(config.input, repeated("{\"prompt\":\"Once\"}\n", kFirstLines));
  CHECK_THROWS_AS(run_job(config, load), Error);
  CHECK_FALSE(is_loaded);
  write_file(config.input, repeated("{\"prompt\":\"Once\"}\n", kFirstLines - 1));
  CHECK(run_job(config, load) == 2);
  CHECK(is_loaded);
}

}  // namespace pagedinfer
