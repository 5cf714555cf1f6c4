// Parses the bytes as tokenizer.json. Either that throws, or every text encodes to tokens of the
// vocabulary, the same each time, which decode to valid UTF-8.
#include "text/files/tokenizer_json.h"

#include <simdjson.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "fuzz.h"
#include "io/json_file.h"
#include "text/stop_strings.h"

using namespace pagedinfer;

namespace {

constexpr std::string_view kTexts[] = {
    "",
    " ",
    "It's 12,345  words:\n\n\tnot e\xCC\x81t\xC3\xA9 \xF0\x9F\x98\x80!? a-b_c <x> <s> ab ba",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabababababababababababababababababababab",
    "\xE4\xB8\xAD\xE6\x96\x87\xE1\xA0\x8E\xE2\x96\x81\xF0\xB1\x8D\x90 <0x0A>",
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<std::vector<TokenId>> ids;
  try {
    const JsonFile file("tokenizer.json", {reinterpret_cast<const char*>(bytes), size});
    tokenizer = make_bpe_tokenizer(read_tokenizer_json(file));
    for (const std::string_view text : kTexts) ids.push_back(tokenizer->encode(text));
  } catch (const Error& error) {
    const std::string_view message = error.what();
    require(message.starts_with("tokenizer.json: ") || message.starts_with("the tokenizer's"),
            "an error names the file");
    return 0;
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    require(tokenizer->encode(kTexts[i]) == ids[i], "a text has the same tokens again");
    TextStream stream(*tokenizer, {});
    for (const TokenId id : ids[i]) {
      require(id >= 0 && id < (1 << 24), "a token is one of the vocabulary");
      stream.push(id);
    }
    const std::string text = stream.finish();
    require(simdjson::validate_utf8(text), "the text of tokens is UTF-8");
  }
  return 0;
}
