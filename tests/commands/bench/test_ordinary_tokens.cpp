#include <doctest/doctest.h>

#include <algorithm>

#include "commands/bench/bench_config.h"
#include "tests/support/support.h"
#include "text/files/make_tokenizer.h"

namespace pagedinfer {

TEST_CASE("tokens of text are ordinary; ends, special tokens and what the model lacks are not") {
  for (const auto& [model, special] :
       {std::pair{"story-llama", "<s>"}, std::pair{"story-qwen3", "<|im_start|>"},
        std::pair{"story-gemma3", "<start_of_turn>"}}) {
    CAPTURE(model);
    const auto tokenizer = make_tokenizer(source_dir() + "/datasets/" + model);
    REQUIRE(tokenizer);
    const std::optional<TokenId> not_text = tokenizer->find_token(special);
    REQUIRE(not_text);
    const TokenId end = tokenizer->encode(" a", AddBos::kNo).back();
    const ModelSpec spec = {.vocab = tokenizer->vocab_size() - 5, .eos_tokens = {end}};
    const std::vector<TokenId> ordinary = ordinary_tokens(spec, tokenizer.get());
    const auto has = [&](TokenId token) { return std::ranges::count(ordinary, token) == 1; };
    CHECK(!has(*not_text));
    CHECK(!has(end));
    CHECK(has(tokenizer->encode(" b", AddBos::kNo).back()));
    CHECK(static_cast<int>(ordinary.size()) > spec.vocab / 2);
    CHECK(ordinary.back() < spec.vocab);
    CHECK(std::ranges::all_of(
        ordinary, [&](TokenId token) { return !tokenizer->token_bytes(token).empty(); }));
  }
  CHECK(ordinary_tokens({.vocab = 4, .eos_tokens = {2}}, nullptr) == std::vector<TokenId>{0, 1, 3});
}

}  // namespace pagedinfer
