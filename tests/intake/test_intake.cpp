#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/random_key.h"
#include "tests/support/chat_support.h"
#include "tests/support/gzip.h"
#include "tests/support/intake_support.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

constexpr std::string_view kHostile = "!!!";  // a text that cannot be encoded
constexpr std::string_view kSilent = "...";   // a text without tokens

// A token per byte.
class ByteTokenizer : public Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view text, AddBos) const override {
    if (text == kHostile) throw EncodeError("too hard");
    if (text == kSilent) return {};
    return {text.begin(), text.end()};
  }
  std::optional<TokenId> find_token(std::string_view) const override { return {}; }
  std::string_view token_bytes(TokenId) const override { return ""; }
  int vocab_size() const override { return 128; }
};

ParsedLine line_with(std::string prompt) {
  ParsedLine line;
  line.request.head.line = 3;
  line.request.prompt = std::move(prompt);
  return line;
}

std::string code_of(const IntakeItem& item) {
  const Completion* answer = std::get_if<Completion>(&item);
  return std::string(answer == nullptr ? "" : answer->error.code.name());
}

struct Pipe {
  Pipe() { REQUIRE(pipe(fds) == 0); }
  ~Pipe() {
    close(fds[0]);
    close(fds[1]);
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fds[0]); }
  void write(const std::string& text) const {
    REQUIRE(::write(fds[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  int fds[2];
};

// The request of a line that has one prompt.
const Request& only(const IntakeItem& item) {
  const std::vector<Request>& prompts = std::get<PreparedLine>(item).prompts;
  REQUIRE(prompts.size() == 1);
  return prompts.front();
}

const ChatSettings kNoChat = {.format = {.problem = "there is no template"}};
constexpr PromptLimits kLimits = {.vocab = 128, .max_model_len = 10};
constexpr IntakeLimits kWindow = {.prompt = kLimits, .max_items = 4};

}  // namespace

TEST_CASE("a line becomes a request, or the error that answers it") {
  const ByteTokenizer tokenizer;
  const IntakeItem good = prepare_line(line_with("abc"), &tokenizer, kNoChat, kLimits);
  REQUIRE(std::holds_alternative<PreparedLine>(good));
  CHECK(only(good).prompt == std::vector<TokenId>{'a', 'b', 'c'});
  CHECK(code_of(prepare_line(line_with(""), &tokenizer, kNoChat, kLimits)) == "empty_prompt");
  CHECK(code_of(prepare_line(line_with("abcdefghi"), &tokenizer, kNoChat, kLimits)) == "");
  CHECK(code_of(prepare_line(line_with("abcdefghij"), &tokenizer, kNoChat, kLimits)) ==
        "prompt_too_long");
  CHECK(code_of(prepare_line(line_with("abc"), nullptr, kNoChat, kLimits)) == "no_tokenizer");
  CHECK(code_of(prepare_line(line_with(std::string(kSilent)), &tokenizer, kNoChat, kLimits)) ==
        "empty_prompt");
  CHECK(code_of(prepare_line(line_with(std::string(kHostile)), &tokenizer, kNoChat, kLimits)) ==
        "tokenization_failed");
  ParsedLine broken = line_with("abc");
  broken.error = {"invalid_json", "no"};
  CHECK(code_of(prepare_line(broken, &tokenizer, kNoChat, kLimits)) == "invalid_json");
}

TEST_CASE("token ids outside the vocabulary are errors, in the prompt and in the sampling") {
  ParsedLine line;
  CHECK(code_of(prepare_line(line, nullptr, kNoChat, kLimits)) == "empty_prompt");
  line.request.prompt_token_ids = {0, 127};
  CHECK(code_of(prepare_line(line, nullptr, kNoChat, kLimits)) == "");
  for (TokenId bad : {-1, 128}) {
    ParsedLine wrong = line;
    wrong.request.prompt_token_ids.push_back(bad);
    CHECK(code_of(prepare_line(wrong, nullptr, kNoChat, kLimits)) == "unknown_token_id");
    wrong = line;
    wrong.request.sampling.stop_token_ids = {bad};
    CHECK(code_of(prepare_line(wrong, nullptr, kNoChat, kLimits)) == "unknown_token_id");
    wrong = line;
    wrong.request.sampling.logit_bias = {{bad, 1.0f}};
    const IntakeItem item = prepare_line(wrong, nullptr, kNoChat, kLimits);
    CHECK(code_of(item) == "unknown_token_id");
    CHECK(std::get<Completion>(item).error.message ==
          fmt::format("logit_bias: found token id {}, expected one from 0 to 127", bad));
  }
}

TEST_CASE("completions of a prompt that would all be equal are drawn once") {
  const auto samples = [](float temperature, int top_k) {
    ParsedLine line;
    line.request.prompt_token_ids = {1};
    line.request.sampling = {.temperature = temperature, .top_k = top_k, .n = 3};
    const IntakeItem item = prepare_line(line, nullptr, kNoChat, kLimits);
    const Request& request = only(item);
    CHECK(request.num_returned == 3);
    return request.num_samples;
  };
  CHECK(samples(0.5f, 0) == 3);
  CHECK(samples(0.5f, 2) == 3);
  CHECK(samples(0.0f, 0) == 1);
  CHECK(samples(1e-40f, 0) == 1);  // counts as greedy, see numerics.md
  CHECK(samples(0.5f, 1) == 1);
}

TEST_CASE("the prompts of a line become a request each, with random numbers of its own") {
  const ByteTokenizer tokenizer;
  ParsedLine line = line_with("ab");
  const uint64_t alone = only(prepare_line(line, &tokenizer, kNoChat, kLimits)).random_key;
  line.request.sampling.max_tokens = 4;
  line.request.more = {{.text = "cde"}, {.text = "ab"}};
  const IntakeItem item = prepare_line(line, &tokenizer, kNoChat, kLimits);
  REQUIRE(std::holds_alternative<PreparedLine>(item));
  const std::vector<Request>& prompts = std::get<PreparedLine>(item).prompts;
  REQUIRE(prompts.size() == 3);
  CHECK(prompts[0].prompt.size() == 2);
  CHECK(prompts[1].prompt.size() == 3);
  CHECK(prompts[2].prompt == prompts[0].prompt);
  CHECK(prompts[2].sampling.max_tokens == 4);
  CHECK(prompts[0].random_key == alone);
  CHECK(prompts[2].random_key != alone);
  CHECK(memory_in_tokens(item) == 7);

  line.request.more[1].text = "too long for it";
  const IntakeItem failed = prepare_line(line, &tokenizer, kNoChat, kLimits);
  CHECK(code_of(failed) == "prompt_too_long");
  CHECK(std::get<Completion>(failed).error.message.starts_with("prompt[2]: "));
  CHECK(std::get<Completion>(failed).head.line == 3);
}

TEST_CASE("the prompts of a line share its lists, which count once") {
  const ByteTokenizer tokenizer;
  ParsedLine line = line_with("ab");
  line.request.sampling.allowed_token_ids = std::vector<TokenId>(100, 5);
  line.request.sampling.stop_token_ids = {1, 2};
  line.request.sampling.logit_bias = {{3, 1.0f}};
  line.request.sampling.stop = {std::string(400, 'x')};
  line.request.more = {{.text = "cde"}, {.text = "ab"}};
  const IntakeItem item = prepare_line(line, &tokenizer, kNoChat, kLimits);
  const std::vector<Request>& prompts = std::get<PreparedLine>(item).prompts;
  CHECK(prompts.size() == 3);
  const Request& first = prompts.front();
  for (const Request& request : prompts) {
    CHECK(request.sampling.allowed_token_ids.data() == first.sampling.allowed_token_ids.data());
    CHECK(request.sampling.stop_token_ids.data() == first.sampling.stop_token_ids.data());
    CHECK(request.sampling.logit_bias.data() == first.sampling.logit_bias.data());
    CHECK(request.sampling.stop.data() == first.sampling.stop.data());
  }
  CHECK(memory_in_tokens(item) == 7 + 100 + 2 + 2 + 400 / 4 + sizeof(std::string) / 4);
}

TEST_CASE("a list that is changed leaves its copies as they are") {
  SharedList<TokenId> list = {1, 2};
  const SharedList<TokenId> copy = list;
  list.push_back(3);
  CHECK(list == std::vector<TokenId>{1, 2, 3});
  CHECK(copy == std::vector<TokenId>{1, 2});
  CHECK(SharedList<TokenId>() == std::vector<TokenId>());
}

TEST_CASE("the tokens of a prompt that is given as such begin where their text does") {
  class TextTokenizer final : public ByteTokenizer {
   public:
    std::string_view token_bytes(TokenId token) const override {
      return token == 1 ? "\xC3" : token == 2 ? "\xA9" : "ab";
    }
  };
  const TextTokenizer tokenizer;
  ParsedLine line;
  line.request.prompt_token_ids = {1, 1, 3, 1, 2, 3};
  line.request.num_prompt_log_probs = 0;
  const IntakeItem item = prepare_line(line, &tokenizer, kNoChat, kLimits);
  const Request& request = only(item);
  CHECK(request.prompt_text ==
        "\xEF\xBF\xBD\xEF\xBF\xBD"
        "ab\xC3\xA9"
        "ab");
  CHECK(request.prompt_offsets == std::vector<int>{0, 1, 2, 4, 4, 5});
}

TEST_CASE("a line that repeats its prompt keeps the prompt's text") {
  const ByteTokenizer tokenizer;  // whose tokens have no text
  ParsedLine line = line_with("abc");
  const auto text = [&] {
    const IntakeItem item = prepare_line(line, &tokenizer, kNoChat, kLimits);
    return only(item).prompt_text;
  };
  CHECK(text() == "");
  line.request.echo = true;
  CHECK(text() == "abc");
  line.request.truncate_prompt_tokens = 5;
  CHECK(text() == "abc");
  line.request.truncate_prompt_tokens = 3;
  CHECK(text() == "abc");
  line.request.truncate_prompt_tokens = 2;
  CHECK(text() == "");  // what the tokens that are left say

  line = {};
  line.request.has_messages = true;
  line.request.chat.messages = R"([{"role":"user","content":"Hi"}])";
  line.request.echo = true;
  CHECK(code_of(prepare_line(line, &tokenizer, kNoChat, kLimits)) == "unsupported");
}

TEST_CASE("the end of a turn is a stop token only if the vocabulary has it") {
  const ByteTokenizer tokenizer;
  ParsedLine line;
  line.request.has_messages = true;
  line.request.chat.messages = R"([{"role":"user","content":"Hi"}])";
  for (const TokenId id : {127, 128}) {
    const ChatSettings chat = {.format = chatml_format(), .ends_of_turn = {id}};
    const IntakeItem made =
        prepare_line(line, &tokenizer, chat, {.vocab = 128, .max_model_len = 1000});
    REQUIRE(std::holds_alternative<PreparedLine>(made));
    const std::vector<TokenId> expected = id < 128 ? std::vector{id} : std::vector<TokenId>();
    CHECK(only(made).sampling.stop_token_ids == expected);
  }
}

TEST_CASE("the random key is the id's and the prompt's, or the line's where there is no id") {
  const auto key = [](std::string id, int64_t number, std::string prompt) {
    const ByteTokenizer tokenizer;
    ParsedLine line = line_with(std::move(prompt));
    line.request.head.id_json = std::move(id);
    line.request.head.line = number;
    line.request.head.index = number * 7;
    return only(prepare_line(line, &tokenizer, kNoChat, kLimits)).random_key;
  };
  CHECK(key("\"a\"", 1, "x") == key("\"a\"", 2, "x"));
  CHECK(key("\"a\"", 1, "x") != key("\"b\"", 1, "x"));
  CHECK(key("\"a\"", 1, "x") != key("\"a\"", 1, "y"));
  CHECK(key("", 1, "x") != key("", 2, "x"));
  CHECK(key("", 1, "x") != key("1", 1, "x"));
  CHECK(key("", 1, "x") == random_key(0, "line 1", std::vector<TokenId>{'x'}));
}

TEST_CASE("lines come in order, within the window, and the end is told") {
  Pipe pipe;
  Interrupt interrupt;
  const ByteTokenizer tokenizer;
  InputLines lines(pipe.path(), {}, interrupt.fd());
  Intake intake(intake_parts(lines, &tokenizer, kNoChat, &interrupt), kWindow);
  IntakeItem item;
  CHECK(intake.pull(false, item) == Pull::kLater);
  std::string text;
  for (int i = 0; i < 50; ++i) text += "{\"prompt\": \"p" + std::to_string(i) + "\"}\n\n";
  pipe.write(text);
  for (int i = 0; i < 50; ++i) {
    REQUIRE(intake.pull(true, item) == Pull::kItem);
    const PreparedLine& prepared = std::get<PreparedLine>(item);
    CHECK(prepared.head.index == i);
    CHECK(prepared.head.line == 2 * i + 1);
    CHECK(prepared.prompts.front().prompt.size() == (i < 10 ? 2 : 3));
  }
  CHECK(!intake.num_lines());
  interrupt.raise();
  CHECK(intake.pull(true, item) == Pull::kEnded);
  REQUIRE(intake.num_lines());
  CHECK(intake.num_lines()->count == 50);
  CHECK(!intake.num_lines()->is_estimate);
}

TEST_CASE("a line's time is that of its reading, however long it waits") {
  std::atomic<int> now = 1, num_asked = 0;
  // Tokenizing takes its time.
  class Tokenizer final : public ByteTokenizer {
   public:
    explicit Tokenizer(std::atomic<int>& now) : now_(now) {}
    std::vector<TokenId> encode(std::string_view text, AddBos) const override {
      now_ += 1000;
      return {text.begin(), text.end()};
    }

   private:
    std::atomic<int>& now_;
  } const tokenizer(now);
  const auto clock = [&] {
    ++num_asked;
    return static_cast<double>(now);
  };
  const auto read_of = [](Intake& intake) {
    IntakeItem item;
    REQUIRE(intake.pull(true, item) == Pull::kItem);
    return head_of(item).arrived;
  };
  Pipe pipe;
  Interrupt interrupt;
  InputLines lines(pipe.path(), {}, interrupt.fd());
  IntakeParts parts = intake_parts(lines, &tokenizer, kNoChat, &interrupt);
  parts.clock = clock;
  Intake intake(std::move(parts), {.prompt = kLimits, .max_items = 12});  // in batches of three
  const auto wait_for_lines = [&](int count) {
    while (num_asked < count) std::this_thread::yield();
  };
  pipe.write("{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\nno JSON\n");
  for (int i = 0; i < 3; ++i) CHECK(read_of(intake) == 1);

  now = 5000;
  std::string text;
  for (int i = 0; i < 13; ++i) text += "{\"prompt\": \"c\"}\n";
  pipe.write(text);
  wait_for_lines(3 + 13);  // the last one finds no room
  now = 100000;
  for (int i = 0; i < 3; ++i) CHECK(read_of(intake) >= 5000);
  for (int i = 3; i < 13; ++i) {
    const double read = read_of(intake);
    CHECK(read >= 5000);
    CHECK(read < 100000);
  }
}

TEST_CASE("the lines to answer are estimated while the file is read, those done left out") {
  const TempDir dir;
  std::string text;
  for (int i = 1000; i < 3000; ++i) text += "{\"prompt\": \"p" + std::to_string(i) + "\"}\n";
  write_file(dir / "in", text);
  const ByteTokenizer tokenizer;
  InputLines lines(dir / "in", {});
  IntakeParts parts = intake_parts(lines, &tokenizer, kNoChat);
  parts.is_done = [](int64_t index) { return index < 300; };
  parts.num_done = 300;
  Intake intake(std::move(parts), kWindow);
  IntakeItem item;
  REQUIRE(intake.pull(true, item) == Pull::kItem);
  REQUIRE(intake.num_lines());
  CHECK(intake.num_lines()->count == 1700);
  CHECK(intake.num_lines()->is_estimate);
  while (intake.pull(true, item) == Pull::kItem) {
  }
  CHECK(intake.num_lines()->count == 1700);
  CHECK(!intake.num_lines()->is_estimate);
}

TEST_CASE("an intake can be destroyed while it holds items") {
  Pipe pipe;
  Interrupt interrupt;
  const ByteTokenizer tokenizer;
  for (int i = 0; i < 50; ++i) pipe.write("{\"prompt\": \"p\"}\n");
  InputLines lines(pipe.path(), {}, interrupt.fd());
  Intake intake(intake_parts(lines, &tokenizer, kNoChat, &interrupt), kWindow);
  IntakeItem item;
  CHECK(intake.pull(true, item) == Pull::kItem);
}

TEST_CASE("an input that cannot be read on ends, and says why") {
  const TempDir dir;
  write_file(dir / "in", gzip("[]\n") + "damaged");
  InputLines lines(dir / "in", {});
  Intake intake(intake_parts(lines, nullptr, kNoChat), kWindow);
  IntakeItem item;
  CHECK(intake.pull(true, item) == Pull::kItem);
  CHECK(intake.pull(true, item) == Pull::kEnded);
  CHECK_THROWS_AS(intake.rethrow_failure(), Error);
}
