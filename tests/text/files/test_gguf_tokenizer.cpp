// Tokenizers of GGUF files, from metadata to ids.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "io/gguf_file.h"
#include "io/model_store.h"
#include "tests/support/gguf_tokenizer.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/support.h"
#include "tests/support/tokenizer_cases.h"
#include "text/files/gguf_tokenizer.h"
#include "text/files/make_tokenizer.h"

namespace pagedinfer {
namespace {

std::unique_ptr<Tokenizer> tokenizer_of(const GgufWriter& writer) {
  const TempDir dir;
  write_file(dir / "m.gguf", writer.file());
  const auto file = std::make_shared<const GgufFile>(dir / "m.gguf");
  return make_tokenizer(ModelStore("m.gguf", file, gguf_tokenizer_files(file->metadata())));
}

std::string tokenizer_error_of(const GgufWriter& writer) {
  try {
    static_cast<void>(tokenizer_of(writer));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

using Texts = std::vector<std::string>;
using Ids = std::vector<TokenId>;

// "a" and "b" merge before "b" and "c" do.
GgufWriter spm_file(bool with_prefix) {
  Texts tokens = {"<unk>", "<s>", "</s>", "<turn>"};
  std::vector<int32_t> types = {2, 3, 3, 4};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
    types.push_back(6);
  }
  for (const char* piece : {"\u2581", "a", "b", "c", "ab", "bc", "\u2581a"}) {
    tokens.emplace_back(piece);
    types.push_back(1);
  }
  std::vector<float> scores(tokens.size(), -100.0f);
  scores[264] = -1.0f;  // ab
  scores[265] = -2.0f;  // bc
  scores[266] = -3.0f;
  GgufWriter writer;
  writer.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", tokens);
  writer.integers("tokenizer.ggml.token_type", types).reals("tokenizer.ggml.scores", scores);
  writer.number("tokenizer.ggml.bos_token_id", 1).number("tokenizer.ggml.eos_token_id", 2);
  writer.number("tokenizer.ggml.unknown_token_id", 0);
  writer.flag("tokenizer.ggml.add_space_prefix", with_prefix);
  return writer;
}

GgufWriter bpe_file(const Texts& merges, const std::string& pre) {
  const Texts tokens = {"a", "b", "1", "ab", "\u0120", "\u0120a", "<s>", "<unused>"};
  GgufWriter writer;
  writer.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre);
  writer.texts("tokenizer.ggml.tokens", tokens).texts("tokenizer.ggml.merges", merges);
  writer.integers("tokenizer.ggml.token_type", std::vector<int32_t>{1, 1, 1, 1, 1, 1, 3, 5});
  writer.number("tokenizer.ggml.bos_token_id", 6);
  return writer;
}

}  // namespace

TEST_CASE("scores of a GGUF file merge as SentencePiece does") {
  const auto tokenizer = tokenizer_of(spm_file(true));
  CHECK(tokenizer->encode("abc", AddBos::kYes) == Ids{1, 260, 264, 263});
  CHECK(tokenizer->encode("abc<turn>a", AddBos::kNo) == Ids{260, 264, 263, 3, 266});
  // What is no piece is spelled in bytes.
  CHECK(tokenizer->encode("a\n", AddBos::kNo) == Ids{266, 4 + 10});
  const auto plain = tokenizer_of(spm_file(false));
  CHECK(plain->encode("abc a", AddBos::kNo) == Ids{264, 263, 266});
}

TEST_CASE("merges of a GGUF file and its way to cut text give the ids") {
  const Texts merges = {"a b", "\u0120 a"};
  const auto qwen2 = tokenizer_of(bpe_file(merges, "qwen2"));
  CHECK(qwen2->encode("ab a11", AddBos::kYes) == Ids{3, 5, 2, 2});
  CHECK(qwen2->encode("a<s>b", AddBos::kYes) == Ids{0, 6, 1});
  const auto llama3 = tokenizer_of(bpe_file(merges, "llama-bpe"));
  CHECK(llama3->encode("ab", AddBos::kYes) == Ids{6, 3});
  CHECK(tokenizer_of(bpe_file(merges, "llama-bpe").flag("tokenizer.ggml.add_bos_token", false))
            ->encode("ab", AddBos::kYes) == Ids{3});
}

TEST_CASE("random texts have the reference's ids by the tokenizer of a GGUF file") {
  GgufWriter gpt2, llama3, qwen3, spm;
  write_bpe_tokenizer(tokenizer_case("gpt2"), "gpt-2", gpt2);
  write_bpe_tokenizer(tokenizer_case("llama3"), "llama-bpe", llama3);
  llama3.number("tokenizer.ggml.bos_token_id", 1002);
  write_bpe_tokenizer(tokenizer_case("qwen3"), "qwen2", qwen3);
  write_spm_tokenizer(tokenizer_case("spm"), spm);
  for (const auto& [name, writer] : {std::pair<std::string, const GgufWriter&>("gpt2", gpt2),
                                     {"llama3", llama3},
                                     {"qwen3", qwen3},
                                     {"spm", spm}}) {
    CAPTURE(name);
    check_random_texts(*tokenizer_of(writer), name);
  }
}

TEST_CASE("tokenizer metadata that do not fit each other are named") {
  const auto check = [](const GgufWriter& writer, const std::string& message) {
    const std::string error = tokenizer_error_of(writer);
    CAPTURE(error);
    CHECK(error.find(message) != std::string::npos);
  };
  check(GgufWriter().text("tokenizer.ggml.model", "rwkv"), "tokenizer.ggml.tokens: found nothing");
  check(spm_file(true).texts("x", Texts{}).text("tokenizer.ggml.tokens", "a"), "it twice");
  check(bpe_file({"a c"}, "qwen2"), "merges' has 'c' at 0, which is not in");
  check(bpe_file({"a b"}, "other"), "tokenizer.ggml.pre: found other, expected one of gpt-2");
  check(bpe_file({}, "qwen2"), "tokenizer.ggml.merges: found nothing");
  check(bpe_file({"a b"}, "qwen2").number("tokenizer.ggml.eos_token_id", 8),
        "tokenizer.ggml.eos_token_id: found 8");
  GgufWriter types;
  types.text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", Texts{"a", "b"});
  check(GgufWriter(types).integers("tokenizer.ggml.token_type", std::vector<int32_t>{1}),
        "tokenizer.ggml.token_type: found 1 entry, expected 2, as many as tokens");
  check(GgufWriter(types).integers("tokenizer.ggml.token_type", std::vector<int32_t>{1, 7}),
        "tokenizer.ggml.token_type: found 7");
  GgufWriter scores;
  scores.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", Texts{"a", "b"});
  check(scores.reals("tokenizer.ggml.scores", std::vector<float>{1}),
        "tokenizer.ggml.scores: found 1 entry, expected 2");
}

}  // namespace pagedinfer
