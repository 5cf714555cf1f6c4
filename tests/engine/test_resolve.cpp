#include <doctest/doctest.h>

#include "core/error.h"
#include "engine/resolve.h"

namespace pagedinfer {
namespace {

Paths paths_of(const std::string& input, const std::string& output, const std::string& stats) {
  Config config;
  config.input = input, config.output = output, config.stats = stats;
  return resolve_paths(config);
}

TEST_CASE("flags: output names stand beside the input") {
  CHECK(paths_of("dir/a.jsonl", "", "").output == "dir/a.completions.jsonl");
  CHECK(paths_of("dir/a.jsonl", "", "").stats == "dir/a.stats.jsonl");
  CHECK(paths_of("a.txt", "", "").output == "a.txt.completions.jsonl");
  CHECK(paths_of("a.jsonl.gz", "", "").output == "a.completions.jsonl");
  CHECK(paths_of("a.txt.gz", "", "").output == "a.txt.completions.jsonl");
  CHECK(paths_of("a.jsonl.b", "", "").stats == "a.jsonl.b.stats.jsonl");
  CHECK(paths_of("a.jsonl", "x", "").stats == "a.stats.jsonl");
  CHECK(paths_of("a.jsonl", "x", "").output == "x");
  CHECK(paths_of("a.jsonl", "", "y").stats == "y");
}

TEST_CASE("flags: outputs of a shard carry its name") {
  Config config;
  config.input = "dir/a.jsonl.gz";
  config.shard = Shard{.index = 2, .count = 10};
  CHECK(resolve_paths(config).output == "dir/a.2-of-10.completions.jsonl");
  CHECK(resolve_paths(config).stats == "dir/a.2-of-10.stats.jsonl");
  config.output = "x";
  CHECK(resolve_paths(config).output == "x");
  config.input = config.output = "-";
  CHECK(resolve_paths(config).stats == "");
}

TEST_CASE("flags: in a pipe statistics are written only where --stats says") {
  CHECK(paths_of("-", "", "").output == "-");
  CHECK(paths_of("-", "", "").stats == "");
  CHECK(paths_of("-", "x", "").output == "x");
  CHECK(paths_of("-", "x", "").stats == "");
  CHECK(paths_of("a.jsonl", "-", "").stats == "");
  CHECK(paths_of("a.jsonl", "-", "y").stats == "y");
}

TEST_CASE("flags: without flags the cache is paged and prefill is chunked") {
  const Resolved resolved = resolve({}, 4096, 2048);
  CHECK(resolved.kv == Config::Kv::kPaged);
  CHECK(resolved.block_size == 16);
  CHECK(resolved.chunked_prefill);
  CHECK(resolved.prefill_chunk_size == 512);
  CHECK(resolved.max_step_tokens == 2048);
  CHECK(resolved.notes.empty());
}

TEST_CASE("flags: static batching alone switches the defaults off that do not fit") {
  Config config;
  config.batching = Config::Batching::kStatic;
  const Resolved resolved = resolve(config, 4096, 2048);
  CHECK(resolved.kv == Config::Kv::kContiguous);
  CHECK_FALSE(resolved.chunked_prefill);
  CHECK(resolved.notes.size() == 2);

  config.kv = Config::Kv::kContiguous;
  config.chunked_prefill = false;
  CHECK(resolve(config, 4096, 2048).notes.empty());
}

TEST_CASE("flags: a step has room for every running sequence and, unchunked, for any prompt") {
  Config config;
  config.max_batch_size = 5000;
  CHECK(resolve(config, 4096, 2048).max_step_tokens == 5000);
  config.max_step_tokens = 6000;
  CHECK(resolve(config, 4096, 2048).max_step_tokens == 6000);

  config.chunked_prefill = false;
  CHECK_THROWS_AS(resolve(config, 4096, 2048), Error);
  config.max_step_tokens = 9096;
  CHECK(resolve(config, 4096, 2048).max_step_tokens == 9096);
  config.max_step_tokens = {};
  CHECK(resolve(config, 4096, 2048).max_step_tokens == 9096);
}

TEST_CASE("flags: a step on a GPU has 8,192 tokens where nothing else is asked for") {
  Config config;
  CHECK(resolve(config, 4096, 8192).max_step_tokens == 8192);
  config.max_batch_size = 9000;
  CHECK(resolve(config, 4096, 8192).max_step_tokens == 9000);
  config.max_step_tokens = 9001;
  CHECK(resolve(config, 4096, 8192).max_step_tokens == 9001);
  config.max_step_tokens = {};
  config.chunked_prefill = false;
  CHECK(resolve(config, 4096, 8192).max_step_tokens == 9000 + 4096);
}

TEST_CASE("flags: a batch size that was not given fits the step that was") {
  Config config;
  CHECK(resolve(config, 4096, 2048).max_batch_size == 256);
  config.max_step_tokens = 100;
  CHECK(resolve(config, 4096, 2048).max_batch_size == 100);
  CHECK(resolve(config, 4096, 2048).notes.size() == 1);
  config.chunked_prefill = false;
  CHECK_THROWS_AS(resolve(config, 100, false), Error);
  CHECK(resolve(config, 99, false).max_batch_size == 1);
  config.max_batch_size = 2;
  CHECK_THROWS_AS(resolve(config, 99, false), Error);
}

}  // namespace
}  // namespace pagedinfer
