#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "tests/support/chat_support.h"
#include "text/chat/end_of_turn.h"

using namespace pagedinfer;

namespace {

// Knows the tokens </a> (1), </b> (2) and <call> (3).
class MarkTokenizer final : public Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view, AddBos) const override { return {}; }
  std::optional<TokenId> find_token(std::string_view) const override { return {}; }
  std::string_view token_bytes(TokenId) const override { return ""; }
  int vocab_size() const override { return 4; }
  std::optional<AddedPrefix> added_prefix(std::string_view text) const override {
    constexpr std::string_view kMarks[] = {"</a>", "</b>", "<call>"};
    for (int i = 0; i < 3; ++i) {
      if (text.starts_with(kMarks[i])) return AddedPrefix{i + 1, kMarks[i].size()};
    }
    return std::nullopt;
  }
};

std::optional<TokenId> end_of(const std::string& source) {
  return probe_end_of_turn(format_of(source), MarkTokenizer());
}

std::string turns(const std::string& turn) {
  return "{% for m in messages %}" + turn + "{% endfor %}";
}

}  // namespace

TEST_CASE("the end of a turn is the token that stands directly behind what an assistant says") {
  CHECK(end_of(turns("{{ m.role }}:{{ m.content }}</a>\n")) == 1);
  CHECK(end_of(turns("{{ m.content | trim }}</b>")) == 2);
  CHECK_FALSE(end_of(turns("{{ m.content }}\n</a>")));
  CHECK_FALSE(end_of(turns("{{ m.content }}")));
  CHECK_FALSE(end_of(turns("{{ m.role }}")));
  CHECK_FALSE(end_of("{{ raise_exception('no') }}"));
}

TEST_CASE("a token that ends some turns only is no end") {
  CHECK_FALSE(end_of(turns("{{ m.content }}{{ '</a>' if loop.last else '</b>' }}")));
  CHECK_FALSE(end_of(turns("{{ m.content }}{% if loop.last %}</a>{% endif %}")));
}

TEST_CASE("a token that the template also writes inside a turn is no end") {
  const std::string calls = "{% for c in m.tool_calls %}<call>{{ c.function.name }}{% endfor %}";
  CHECK(end_of(turns("{{ m.content }}" + calls + "</a>")) == 1);
  CHECK_FALSE(end_of(turns("{{ m.content }}</a>" + calls)));
  CHECK_FALSE(
      end_of(turns("{{ m.content }}</a>{% if m.tool_calls %}"
                   "{{ m.tool_calls[0].function.name }}{% endif %}")));
  const std::string thoughts =
      "{% if m.reasoning_content %}{{ m.reasoning_content }}</a>{% endif %}";
  CHECK_FALSE(end_of(turns(thoughts + "{{ m.content }}</a>")));
  CHECK(end_of(turns(thoughts + "{{ m.content }}</b>")) == 2);
}

TEST_CASE("the ends of known models' turns are found") {
  class Tokens final : public Tokenizer {
   public:
    explicit Tokens(std::string end) : end_(std::move(end)) {}
    std::vector<TokenId> encode(std::string_view, AddBos) const override { return {}; }
    std::optional<TokenId> find_token(std::string_view) const override { return {}; }
    std::string_view token_bytes(TokenId) const override { return ""; }
    int vocab_size() const override { return 2; }
    std::optional<AddedPrefix> added_prefix(std::string_view text) const override {
      if (!text.starts_with(end_)) return std::nullopt;
      return AddedPrefix{1, end_.size()};
    }
    std::string end_;
  };
  const std::pair<const char*, const char*> cases[] = {
      {"Qwen-Qwen3-0.6B", "<|im_end|>"},
      {"Qwen-Qwen2.5-7B-Instruct", "<|im_end|>"},
      {"meta-llama-Llama-3.1-8B-Instruct", "<|eot_id|>"},
      {"google-gemma-2-2b-it", "<end_of_turn>"},
      {"mistralai-Mistral-Nemo-Instruct-2407", "</s>"}};
  for (const auto& [name, end] : cases) {
    const std::string path = shared_data("chat_templates/" + std::string(name) + ".jinja");
    if (!std::filesystem::exists(path)) {
      MESSAGE("SKIPPED: no " << path);
      continue;
    }
    CAPTURE(name);
    CHECK(
        probe_end_of_turn(format_of(read_file(path), {{"bos_token", "<s>"}, {"eos_token", "</s>"}}),
                          Tokens(end)) == 1);
  }
}
