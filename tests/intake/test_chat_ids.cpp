// Lines with conversations to token ids, compared with apply_chat_template(tokenize=True).
#include <doctest/doctest.h>
#include <simdjson.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "intake/intake_item.h"
#include "request/request_parser.h"
#include "tests/support/chat_support.h"
#include "text/files/make_tokenizer.h"

using namespace pagedinfer;
namespace dom = simdjson::dom;

namespace {

// A model directory of a tokenizer and a template of the tests.
struct Words {
  Words(const std::string& name, const std::string& chat_template, const std::string& special) {
    std::filesystem::copy(source_dir() + "/tests/data/tokenizers/" + name + "/tokenizer.json",
                          dir / "tokenizer.json");
    std::filesystem::copy(test_template(chat_template), dir / "chat_template.jinja");
    write_file(dir / "tokenizer_config.json", special);
    tokenizer = make_tokenizer(dir.path());
    chat = make_chat_settings({}, dir.path(), tokenizer.get());
  }
  TempDir dir;
  std::unique_ptr<Tokenizer> tokenizer;
  ChatSettings chat;
};

}  // namespace

TEST_CASE("the prompt of a conversation has the ids of transformers' apply_chat_template") {
  const simdjson::padded_string text(read_file(source_dir() + "/tests/data/chat/ids.jsonl"));
  std::map<std::string, std::unique_ptr<Words>> all;
  dom::parser parser;
  dom::document_stream lines;
  REQUIRE(parser.parse_many(text).get(lines) == simdjson::SUCCESS);
  int count = 0;
  for (const dom::element item : lines) {
    const std::string name{std::string_view(item["tokenizer"])};
    const std::string chat_template{std::string_view(item["template"])};
    auto& words = all[name + " " + chat_template];
    if (!words) {
      words = std::make_unique<Words>(name, chat_template, simdjson::minify(item["special"]));
    }
    std::vector<TokenId> expected;
    for (const int64_t id : dom::array(item["ids"])) expected.push_back(static_cast<TokenId>(id));
    CAPTURE(simdjson::minify(item["line"]));
    const simdjson::padded_string line(simdjson::minify(item["line"]));
    IntakeItem made = prepare_line(RequestParser({}).parse(line, 0, 1), words->tokenizer.get(),
                                   words->chat, {.vocab = 1 << 20, .max_model_len = 1 << 20});
    REQUIRE(std::holds_alternative<PreparedLine>(made));
    CHECK(std::get<PreparedLine>(made).prompts.front().prompt == expected);
    ++count;
  }
  CHECK(count == 72);
}
