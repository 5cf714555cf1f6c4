#include <doctest/doctest.h>
#include <simdjson.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "io/json_parse.h"
#include "tests/support/support.h"
#include "text/files/make_tokenizer.h"

using namespace pagedinfer;

namespace {

using Ids = std::vector<TokenId>;

// Puts a tokenizer.json of the tests' data into a directory.
void copy_tokenizer(const std::string& name, const TempDir& dir) {
  std::filesystem::copy(source_dir() + "/tests/data/tokenizers/" + name + "/tokenizer.json",
                        dir / "tokenizer.json");
}

// A tokenizer of the tests' data with another configuration. The Qwen3-style one puts nothing
// around a prompt.
std::unique_ptr<Tokenizer> tokenizer_with(const std::string& config,
                                          const std::string& name = "qwen3") {
  TempDir dir;
  copy_tokenizer(name, dir);
  write_file(dir / "tokenizer_config.json", config);
  return make_tokenizer(dir.path());
}

}  // namespace

// Made by tools/goldens/make_tokenizer_config_cases.py.
TEST_CASE("the files beside a tokenizer.json add the reference's tokens") {
  std::istringstream lines(read_file(source_dir() + "/tests/data/tokenizers/configs.jsonl"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    CAPTURE(line);
    simdjson::dom::parser parser;
    simdjson::dom::element made;
    REQUIRE(parse_model_json(parser, simdjson::padded_string(line)).get(made) == simdjson::SUCCESS);
    TempDir dir;
    const std::string name{std::string_view(made["tokenizer"])};
    copy_tokenizer(name, dir);
    for (const auto file : simdjson::dom::object(made["files"])) {
      write_file(dir / file.key, simdjson::minify(file.value));
    }
    const auto tokenizer = make_tokenizer(dir.path());
    Ids ids;
    for (const int64_t id : made["ids"]) ids.push_back(static_cast<TokenId>(id));
    const std::string_view text = made["text"];
    CHECK(tokenizer->encode(text, AddBos::kNo) == ids);
    for (const auto token : simdjson::dom::object(made["decoded"])) {
      const TokenId id = std::stoi(std::string(token.key));
      CAPTURE(id);
      CHECK(tokenizer->token_bytes(id) == std::string_view(token.value));
    }
  }
  CHECK(count >= 80);
}

// As in the reference: the flags were for tokenizers without such a file.
TEST_CASE("only tokenizer.json decides which tokens surround a prompt") {
  for (const std::string name : {"qwen3", "gemma3"}) {
    CAPTURE(name);
    const Ids ids = tokenizer_with("{}", name)->encode("a tree");
    for (const std::string flags : {R"("add_bos_token": true, "bos_token": "!")",
                                    R"("add_eos_token": true, "eos_token": "!")",
                                    R"("add_bos_token": false, "add_eos_token": false)"}) {
      CAPTURE(flags);
      CHECK(tokenizer_with("{" + flags + "}", name)->encode("a tree") == ids);
    }
  }
}

TEST_CASE("special tokens without a role are found too") {
  const auto plain = tokenizer_with("{}");
  const TokenId next = plain->find_token("</think>").value() + 1;
  for (const std::string config :
       {R"({"additional_special_tokens": ["<x>"]})",
        R"({"extra_special_tokens": [{"content": "<x>"}], "additional_special_tokens": ["<y>"]})",
        R"({"extra_special_tokens": [], "additional_special_tokens": ["<x>"]})",
        R"({"extra_special_tokens": {"image": "<x>"}})", R"({"image_token": "<x>"})"}) {
    CAPTURE(config);
    const auto tokenizer = tokenizer_with(config);
    CHECK(tokenizer->encode("<x>") == Ids{next});
    CHECK(tokenizer->token_bytes(next).empty());
    CHECK(tokenizer->encode("<y>") == plain->encode("<y>"));
  }
}

TEST_CASE("a name of its own makes an added token special, and a list does not") {
  const TokenId id = tokenizer_with("{}")->find_token("<think>").value();
  for (const std::string config :
       {R"({"extra_special_tokens": {"thought": "<think>"}})", R"({"image_token": "<think>"})",
        R"({"model_specific_special_tokens": {"thought": "<think>"}})",
        R"({"pad_token": "<think>"})"}) {
    CAPTURE(config);
    CHECK(tokenizer_with(config)->token_bytes(id).empty());
  }
  CHECK(tokenizer_with(R"({"extra_special_tokens": ["<think>"]})")->token_bytes(id) == "<think>");
}

TEST_CASE("new special tokens get ids in the order of their roles, then of the file") {
  const auto tokenizer = tokenizer_with(
      R"({"extra_special_tokens": ["<x>"], "image_token": "<i>", "pad_token": "<pad>",
          "unk_token": "<unk>", "audio_token": "<a>"})");
  const TokenId next = tokenizer->find_token("</think>").value() + 1;
  CHECK(tokenizer->encode("<unk><pad><i><a><x>") ==
        Ids{next, next + 1, next + 2, next + 3, next + 4});
}

TEST_CASE("added_tokens.json adds tokens where tokenizer_config.json lists none") {
  for (const std::string file : {"qwen3/tokenizer.json", "spm/tokenizer.model"}) {
    CAPTURE(file);
    TempDir dir;
    std::filesystem::copy(source_dir() + "/tests/data/tokenizers/" + file,
                          dir / file.substr(file.find('/') + 1));
    const TokenId next = file.starts_with("qwen3") ? 1005 : 1000;
    const auto write = [&](TokenId id) {
      write_file(dir / "added_tokens.json", R"({"<o>": )" + std::to_string(id + 1) +
                                                R"(, "<n>": )" + std::to_string(id) + "}");
    };
    write(next);
    write_file(dir / "tokenizer_config.json", R"({"pad_token": "<n>", "unk_token": "<new>"})");
    const auto tokenizer = make_tokenizer(dir.path());
    CHECK(tokenizer->encode("<n><o><new>", AddBos::kNo) == Ids{next, next + 1, next + 2});
    CHECK(tokenizer->token_bytes(next).empty());
    CHECK(tokenizer->token_bytes(next + 1) == "<o>");
    write_file(dir / "tokenizer_config.json", R"({"added_tokens_decoder": {}})");
    CHECK_FALSE(make_tokenizer(dir.path())->find_token("<n>").has_value());
  }
}

TEST_CASE("ids in added_tokens.json are an order and no more") {
  for (const std::string file : {"qwen3/tokenizer.json", "spm/tokenizer.model"}) {
    CAPTURE(file);
    TempDir dir;
    std::filesystem::copy(source_dir() + "/tests/data/tokenizers/" + file,
                          dir / file.substr(file.find('/') + 1));
    const TokenId next = file.starts_with("qwen3") ? 1005 : 1000;
    write_file(dir / "tokenizer_config.json", R"({"pad_token": "<pad>"})");
    for (const char* added : {R"({"<pad>": 32000, "<n>": 31999})", R"({"<pad>": 10, "<n>": 9})",
                              R"({"<pad>": 1000000000000, "<n>": -1000000000000})",
                              R"({"<gone>": 20000, "<n>": 20000, "<pad>": 20001})"}) {
      CAPTURE(added);
      write_file(dir / "added_tokens.json", added);
      const auto tokenizer = make_tokenizer(dir.path());
      CHECK(tokenizer->encode("<n><pad>", AddBos::kNo) == Ids{next, next + 1});
      CHECK(tokenizer->token_bytes(next) == "<n>");
      CHECK(tokenizer->token_bytes(next + 1).empty());
      CHECK_FALSE(tokenizer->find_token("<gone>").has_value());
    }
  }
  // The id of an added token of tokenizer.json is not given to another.
  TempDir dir;
  copy_tokenizer("qwen3", dir);
  write_file(dir / "added_tokens.json", R"({"<gone>": 1000, "<n>": 5})");
  CHECK_FALSE(make_tokenizer(dir.path())->find_token("<gone>").has_value());
  CHECK(make_tokenizer(dir.path())->find_token("<n>") == 1005);
}

TEST_CASE("special_tokens_map.json counts where tokenizer_config.json lists no added tokens") {
  TempDir dir;
  copy_tokenizer("qwen3", dir);
  write_file(dir / "special_tokens_map.json", R"({"additional_special_tokens": ["<x>"]})");
  CHECK(make_tokenizer(dir.path())->encode("<x>").size() == 1);
  write_file(dir / "tokenizer_config.json",
             R"({"added_tokens_decoder": {"5000000": {"content": "<think>"}}})");
  CHECK(make_tokenizer(dir.path())->encode("<x>").size() > 1);
}

TEST_CASE("a token keeps how it is looked for, whatever else calls it special") {
  for (const std::string role : {"mask_token", "image_token"}) {
    const auto tokenizer = tokenizer_with("{\"" + role + "\": \"<left>\"}", "odd");
    CHECK(tokenizer->encode("a <left>") == tokenizer->encode("a<left>"));
  }
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

TEST_CASE("a tokenizer without a length limit is read") {
  const auto plain = tokenizer_with("{}");
  const auto tokenizer = tokenizer_with(
      R"({"model_max_length": 1000000000000000019884624838656, "pad_token": "<pad>"})");
  CHECK(tokenizer->encode("a tree") == plain->encode("a tree"));
  CHECK(tokenizer->find_token("<pad>").has_value());
}

TEST_CASE("a tokenizer_config.json that cannot be followed is an error") {
  for (const std::string config :
       {R"({"added_tokens_decoder": {"5000000": {"content": "<far>"}}})",
        R"({"added_tokens_decoder": {"x": {"content": "<far>"}}})",
        R"({"added_tokens_decoder": {"-1": {"content": "<far>"}}})",
        R"({"added_tokens_decoder": {"9223372036854775808": {"content": "<far>"}}})",
        R"({"added_tokens_decoder": {"0": {"content": "<|im_end|>", "special": 3}}})",
        R"({"added_tokens_decoder": {"0": {}}})", R"({"split_special_tokens": true})",
        R"({"add_bos_token": 1})", R"({"bos_token": 1})", R"({"extra_special_tokens": "x"})",
        R"({"extra_special_tokens": [1]})", "[", ""}) {
    CAPTURE(config);
    CHECK_THROWS_WITH_AS(tokenizer_with(config), doctest::Contains("tokenizer_config.json"), Error);
  }
}
