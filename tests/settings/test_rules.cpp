#include <doctest/doctest.h>

#include <limits>

#include "core/error.h"
#include "settings/rules.h"

namespace pagedinfer {
namespace {

TEST_CASE("flags: without flags the cache is paged and prefill is chunked") {
  const auto [resolved, notes] = resolve({}, 4096, 2048);
  CHECK(resolved.kv == Config::Kv::kPaged);
  CHECK(resolved.block_size == 16);
  CHECK(resolved.chunked_prefill);
  CHECK(resolved.prefill_chunk_size == 512);
  CHECK(resolved.max_step_tokens == 2048);
  CHECK(notes.empty());
}

TEST_CASE("flags: static batching alone switches the defaults off that do not fit") {
  Config config;
  config.batching = Config::Batching::kStatic;
  const auto [resolved, notes] = resolve(config, 4096, 2048);
  CHECK(resolved.kv == Config::Kv::kContiguous);
  CHECK_FALSE(resolved.chunked_prefill);
  CHECK_FALSE(resolved.prefix_cache);
  CHECK(notes.size() == 3);

  config.kv = Config::Kv::kContiguous;
  config.chunked_prefill = false;
  config.prefix_cache = false;
  CHECK(resolve(config, 4096, 2048).notes.empty());
}

TEST_CASE("flags: a step has room for every running sequence and, unchunked, for any prompt") {
  Config config;
  config.max_batch_size = 5000;
  CHECK(resolve(config, 4096, 2048).config.max_step_tokens == 5000);
  config.max_step_tokens = 6000;
  CHECK(resolve(config, 4096, 2048).config.max_step_tokens == 6000);

  config.chunked_prefill = false;
  CHECK_THROWS_AS(resolve(config, 4096, 2048), Error);
  config.max_step_tokens = 9096;
  CHECK(resolve(config, 4096, 2048).config.max_step_tokens == 9096);
  config.max_step_tokens = {};
  CHECK(resolve(config, 4096, 2048).config.max_step_tokens == 9096);
}

TEST_CASE("flags: a step that would have more tokens than can be counted is refused") {
  constexpr int kMax = std::numeric_limits<int>::max();
  Config config;
  config.max_batch_size = kMax;
  CHECK(resolve(config, 4096, 2048).config.max_step_tokens == kMax);
  config.chunked_prefill = false;
  CHECK_THROWS_AS(resolve(config, 4096, 2048), Error);
  config.max_step_tokens = kMax;
  CHECK_THROWS_AS(resolve(config, 4096, 2048), Error);
  config.max_batch_size = kMax - 4096;
  CHECK(resolve(config, 4096, 2048).config.max_step_tokens == kMax);
  config.max_step_tokens = {};
  CHECK(resolve(config, 4096, 2048).config.max_step_tokens == kMax);
}

TEST_CASE("flags: a step on a GPU has 8,192 tokens where nothing else is asked for") {
  Config config;
  CHECK(resolve(config, 4096, 8192).config.max_step_tokens == 8192);
  config.max_batch_size = 9000;
  CHECK(resolve(config, 4096, 8192).config.max_step_tokens == 9000);
  config.max_step_tokens = 9001;
  CHECK(resolve(config, 4096, 8192).config.max_step_tokens == 9001);
  config.max_step_tokens = {};
  config.chunked_prefill = false;
  CHECK(resolve(config, 4096, 8192).config.max_step_tokens == 9000 + 4096);
}

TEST_CASE("flags: a batch size that was not given fits the step that was") {
  Config config;
  CHECK(resolve(config, 4096, 2048).config.max_batch_size == 256);
  config.max_step_tokens = 100;
  CHECK(resolve(config, 4096, 2048).config.max_batch_size == 100);
  CHECK(resolve(config, 4096, 2048).notes.size() == 1);
  config.chunked_prefill = false;
  CHECK_THROWS_AS(resolve(config, 100, 2048), Error);
  CHECK(resolve(config, 99, 2048).config.max_batch_size == 1);
  config.max_batch_size = 2;
  CHECK_THROWS_AS(resolve(config, 99, 2048), Error);
}

}  // namespace
}  // namespace pagedinfer
