#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "support.h"
#include "text/tokenizer.h"

using namespace pagedinfer;

namespace {

using Ids = std::vector<TokenId>;

// Of the Qwen3-style tokenizer, which puts nothing around a prompt, with another configuration.
std::unique_ptr<Tokenizer> tokenizer_with(const std::string& config) {
  TempDir dir;
  std::filesystem::copy(source_dir() + "/tests/data/tokenizers/qwen3/tokenizer.json",
                        dir / "tokenizer.json");
  write_file(dir / "tokenizer_config.json", config);
  return make_tokenizer(dir.path());
}

}  // namespace

TEST_CASE("tokenizer_config.json decides what stands around a prompt") {
  const auto plain = tokenizer_with("{}");
  const Ids ids = plain->encode("a tree");
  const TokenId start = plain->find_token("<|im_start|>").value();
  const TokenId end = plain->find_token("<|im_end|>").value();
  const std::string names =
      R"("bos_token": "<|im_start|>", "eos_token": {"content": "<|im_end|>"})";
  const auto expect = [&](const std::string& flags, Ids before, const Ids& behind) {
    const auto tokenizer = tokenizer_with("{" + flags + names + "}");
    before.insert(before.end(), ids.begin(), ids.end());
    before.insert(before.end(), behind.begin(), behind.end());
    CHECK(tokenizer->encode("a tree") == before);
    CHECK(tokenizer->encode("a tree", AddBos::kNo) == ids);
  };
  expect("", {}, {});
  expect(R"("add_bos_token": true, )", {start}, {});
  expect(R"("add_bos_token": false, "add_eos_token": true, )", {}, {end});
  expect(R"("add_bos_token": true, "add_eos_token": true, )", {start}, {end});
  CHECK(tokenizer_with(R"({"add_bos_token": true, "bos_token": null})")->encode("a tree") == ids);
}

TEST_CASE("tokenizer_config.json adds tokens and makes them special") {
  const auto plain = tokenizer_with("{}");
  CHECK(plain->token_bytes(plain->find_token("<think>").value()) == "<think>");
  const auto special = tokenizer_with(R"({"eos_token": "<think>", "pad_token": "<pad>"})");
  CHECK(special->token_bytes(special->find_token("<think>").value()).empty());
  const TokenId next = plain->find_token("</think>").value() + 1;
  CHECK(special->find_token("<pad>") == next);
  CHECK(special->encode("<pad>") == Ids{next});
  CHECK(special->vocab_size() == plain->vocab_size());  // the model may not know the new one
  const auto added = tokenizer_with(R"({"added_tokens_decoder": {")" + std::to_string(next) +
                                    R"(": {"content": "<tool>", "special": false}}})");
  CHECK(added->encode("<tool>") == Ids{next});
  CHECK(added->token_bytes(next) == "<tool>");
}

TEST_CASE("a token keeps the id of tokenizer.json, whatever tokenizer_config.json calls it") {
  const auto plain = tokenizer_with("{}");
  const TokenId id = plain->find_token("<think>").value();
  const auto other = tokenizer_with(
      R"({"added_tokens_decoder": {"5000000": {"content": "<think>", "special": true}}})");
  CHECK(other->encode("<think>") == Ids{id});
  CHECK(other->token_bytes(id).empty());
}

TEST_CASE("a tokenizer_config.json that cannot be followed is an error") {
  for (const std::string config :
       {R"({"added_tokens_decoder": {"5000000": {"content": "<far>"}}})",
        R"({"added_tokens_decoder": {"x": {"content": "<far>"}}})",
        R"({"added_tokens_decoder": {"-1": {"content": "<far>"}}})",
        R"({"added_tokens_decoder": {"9223372036854775808": {"content": "<far>"}}})",
        R"({"added_tokens_decoder": {"0": {"content": "<|im_end|>", "special": 3}}})",
        R"({"added_tokens_decoder": {"0": {}}})", R"({"split_special_tokens": true})",
        R"({"add_bos_token": 1})", R"({"bos_token": 1})", "[", ""}) {
    CAPTURE(config);
    CHECK_THROWS_WITH_AS(tokenizer_with(config), doctest::Contains("tokenizer_config.json"), Error);
  }
}
