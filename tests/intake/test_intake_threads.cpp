// What several threads make of the lines, beside what a loop makes of them.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "tests/support/chat_support.h"
#include "tests/support/intake_support.h"
#include "tests/support/sanitized.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

constexpr PromptLimits kPrompts = {.vocab = 256, .max_model_len = 50000};

void doze(unsigned microseconds) {
  if (microseconds > 0) std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

// A token per byte, after a while that depends on the text.
class SlowTokenizer final : public Tokenizer {
 public:
  explicit SlowTokenizer(unsigned slowness = 0) : slowness_(slowness) {}

  std::vector<TokenId> encode(std::string_view text, AddBos) const override {
    if (slowness_ > 0) doze(static_cast<unsigned>(hash_bytes(0, text) % slowness_));
    if (text.find("hostile") != text.npos) throw EncodeError("too hard");
    if (text.find("fatal") != text.npos) throw Error("the tokenizer is broken");
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    num_encoded += std::ssize(ids);
    return ids;
  }
  std::optional<TokenId> find_token(std::string_view) const override { return {}; }
  std::string_view token_bytes(TokenId) const override { return ""; }
  int vocab_size() const override { return 256; }

  mutable std::atomic<int64_t> num_encoded = 0;

 private:
  const unsigned slowness_;
};

const ChatSettings& chatml() {
  static const ChatSettings settings = {.format = chatml_format(), .system = "Be brief."};
  return settings;
}

std::string describe(const IntakeItem& item) {
  const auto head = [](const RecordHead& h) {
    return fmt::format("{} {} {} {} {} {}", h.index, h.turn, h.line, h.id_json,
                       static_cast<int>(h.form), h.arrival.value_or(-1));
  };
  if (const auto* answer = std::get_if<Completion>(&item)) {
    return fmt::format("{} {} {}: {}", head(answer->head), answer->num_prompt_tokens,
                       answer->error.code.name(), answer->error.message);
  }
  const auto& line = std::get<PreparedLine>(item);
  const Request& request = line.prompts.front();
  return fmt::format("{} {} {} {} {}", head(line.head), request.sampling.max_tokens,
                     fmt::join(request.sampling.stop, ","), request.random_key,
                     fmt::join(request.prompt, " "));
}

std::string random_line(std::mt19937& random) {
  const size_t size = random() % 50 == 0 ? random() % 60000 : random() % 40;
  std::string text;
  while (text.size() < size) text += static_cast<char>('a' + random() % 8);  // no "fatal"
  switch (random() % 14) {
    case 0: return "";
    case 1: return "{\"prompt\": \"" + text;
    case 2: return "\xFF" + text;
    case 3: return fmt::format(R"({{"prompt_token_ids": [1, {}]}})", random() % 300);
    case 4: return R"({"prompt": "hostile"})";
    case 5:
    case 6: return R"({"messages": [{"role": "user", "content": ")" + text + "\"}]}";
    case 7: return fmt::format(R"({{"prompt": "{}", "odd{}": 1}})", text, random() % 8);
    case 8:
    case 9: return fmt::format(R"({{"prompt": "{}", "arrival_s": {}}})", text, random() % 1000);
    default:
      return fmt::format(R"({{"id": {}, "prompt": "{}", "max_tokens": {}, "stop": ["x"]}})",
                         random() % 100, text, 1 + random() % 9);
  }
}

std::string random_input(std::mt19937& random, int num_lines) {
  std::string input;
  for (int i = 0; i < num_lines; ++i) input += random_line(random) + "\n";
  return input;
}

struct Outcome {
  std::vector<std::string> items = {};
  RunMark mark = {};
  RequestParser::UnknownKeys unknown_keys = {};
};

Outcome one_by_one(const std::string& path, const LineChoice& choice,
                   const std::function<bool(int64_t)>& is_done) {
  const SlowTokenizer tokenizer;
  InputLines lines(path, choice);
  RequestParser parser({});
  LineArrivals arrivals;
  Outcome outcome;
  PromptLimits limits = kPrompts;
  limits.max_prompt_bytes = max_prompt_bytes(tokenizer, limits.max_model_len);
  while (const auto line = lines.next()) {
    outcome.mark.add(line->text);
    const LineArrival arrival = arrivals.add(line->text, line->number);
    if (!line->taken || is_done(line->index)) continue;
    ParsedLine parsed = parser.parse(line->text, line->index, line->number);
    parsed.request.head.turn = line->turn;
    parsed.request.head.arrival = arrival.time;
    if (!arrival.fault.empty()) parsed.error = {"invalid_value", arrival.fault};
    outcome.items.push_back(
        describe(prepare_line(std::move(parsed), &tokenizer, chatml(), limits)));
  }
  outcome.unknown_keys = parser.take_unknown_keys();
  return outcome;
}

std::string prompts(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("{{\"prompt\": \"p{}\"}}\n", i);
  return text;
}

// An input that stays open, and what ends it.
struct SilentPipe {
  explicit SilentPipe(const std::string& text) {
    REQUIRE(pipe(fds) == 0);
    REQUIRE(write(fds[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  ~SilentPipe() {
    close(fds[0]);
    close(fds[1]);
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fds[0]); }
  int fds[2];
};

// An intake that counts the lines that it has read.
struct CountedIntake {
  CountedIntake(const std::string& path, const IntakeLimits& limits, unsigned slowness = 0)
      : tokenizer(slowness),
        lines(path, {}),
        intake(counting(intake_parts(lines, &tokenizer, chatml())), limits) {}

  IntakeParts counting(IntakeParts parts) {
    parts.is_done = [this](int64_t) { return ++num_read < 0; };
    return parts;
  }

  const SlowTokenizer tokenizer;
  std::atomic<int64_t> num_read = 0;
  InputLines lines;
  Intake intake;
};

}  // namespace

TEST_CASE("any number of threads makes of the lines what a loop makes of them") {
  const TempDir dir;
  const std::string path = dir / "in";
  std::mt19937 random(1);
  for (int round = 0; round < (kSanitized ? 12 : 60); ++round) {
    write_file(path, random_input(random, static_cast<int>(random() % 400)));
    LineChoice choice;
    if (round % 3 == 0) choice.shard = {.index = 1, .count = 3};
    const unsigned sieve = random() % 4;
    const auto is_done = [&](int64_t index) { return sieve == 3 && index % 5 < 3; };
    const Outcome expected = one_by_one(path, choice, is_done);
    for (const int num_workers : {1, 2, 7}) {
      const SlowTokenizer tokenizer(random() % 2 == 0 ? 0 : 1 + random() % 300);
      InputLines lines(path, choice);
      IntakeParts parts = intake_parts(lines, &tokenizer, chatml());
      parts.is_done = is_done;
      Intake intake(std::move(parts), {.prompt = kPrompts,
                                       .max_items = 1 + static_cast<int>(random() % 300),
                                       .max_tokens = 1 << (random() % 20),
                                       .num_workers = num_workers});
      Outcome found;
      const unsigned haste = random() % 3;
      IntakeItem item;
      for (;;) {
        const Pull pulled = intake.pull(haste != 0, item);
        if (pulled == Pull::kEnded) break;
        if (pulled == Pull::kItem) found.items.push_back(describe(item));
        if (haste == 1 && random() % 8 == 0) doze(random() % 200);
      }
      intake.rethrow_failure();
      REQUIRE(found.items == expected.items);
      CHECK(intake.mark() == expected.mark);
      CHECK(intake.unknown_keys() == expected.unknown_keys);
      REQUIRE(intake.num_lines());
      CHECK(intake.num_lines()->count == std::ssize(expected.items));
      CHECK(!intake.num_lines()->is_estimate);
    }
  }
}

TEST_CASE("no more lines and tokens than the window has are ahead of the engine") {
  const TempDir dir;
  std::mt19937 random(2);
  for (int round = 0; round < 20; ++round) {
    std::string input;
    size_t longest = 0;
    for (int i = 0; i < 300; ++i) {
      const size_t size = 1 + random() % (random() % 8 == 0 ? 3000 : 50);
      longest = std::max(longest, size);
      input += "{\"prompt\": \"" + std::string(size, 'x') + "\"}\n";
    }
    write_file(dir / "in", input);
    const IntakeLimits limits = {.prompt = kPrompts,
                                 .max_items = 1 + static_cast<int>(random() % 100),
                                 .max_tokens = 1 + static_cast<int>(random() % 10000),
                                 .num_workers = 3};
    CountedIntake counted(dir / "in", limits, 50);
    IntakeItem item;
    int64_t num_pulled = 0, tokens_pulled = 0;
    while (counted.intake.pull(true, item) == Pull::kItem) {
      ++num_pulled;
      tokens_pulled += memory_in_tokens(item);
      if (random() % 4 == 0) doze(random() % 300);
      const int64_t bound = std::max(limits.max_tokens, static_cast<int64_t>(longest));
      REQUIRE(counted.num_read <=
              num_pulled + limits.max_items + 1);  // one is in the reader's hand
      REQUIRE(counted.tokenizer.num_encoded <= tokens_pulled + bound);
    }
    CHECK(num_pulled == 300);
  }
}

TEST_CASE("the lists of the lines ahead of the engine count too") {
  const TempDir dir;
  const std::vector<int> ids(500, 7);
  std::string input;
  for (int i = 0; i < 60; ++i) {
    input +=
        fmt::format("{{\"prompt\": \"x\", \"allowed_token_ids\": [{}]}}\n", fmt::join(ids, ","));
  }
  write_file(dir / "in", input);
  constexpr int kMaxLines = 8;
  CountedIntake counted(dir / "in",
                        {.prompt = kPrompts, .max_tokens = kMaxLines * 500, .num_workers = 2});
  IntakeItem item;
  int64_t num_pulled = 0;
  while (counted.intake.pull(true, item) == Pull::kItem) {
    ++num_pulled;
    doze(2000);
    REQUIRE(counted.num_read <= num_pulled + kMaxLines + 1);
  }
  CHECK(num_pulled == 60);
}

TEST_CASE("what a worker throws ends the lines behind those before it") {
  std::mt19937 random(3);
  for (const int num_workers : {1, 2, 7}) {
    for (int round = 0; round < 20; ++round) {
      Interrupt interrupt;
      const int before = static_cast<int>(random() % 150);
      const SilentPipe pipe(prompts(before) + "{\"prompt\": \"fatal\"}\n" + prompts(100));
      const SlowTokenizer tokenizer(100);
      InputLines lines(pipe.path(), {}, interrupt.fd());
      const IntakeLimits limits = {.prompt = kPrompts, .max_items = 64, .num_workers = num_workers};
      Intake intake(intake_parts(lines, &tokenizer, chatml(), &interrupt), limits);
      IntakeItem item;
      for (int i = 0; i < before; ++i) {
        REQUIRE(intake.pull(true, item) == Pull::kItem);
        REQUIRE(std::get<PreparedLine>(item).head.index == i);
      }
      Pull pulled = Pull::kLater;
      while (pulled == Pull::kLater) pulled = intake.pull(round % 2 == 0, item);
      CHECK(pulled == Pull::kEnded);
      CHECK(intake.failed());
      CHECK_THROWS_WITH_AS(intake.rethrow_failure(), "the tokenizer is broken", Error);
      CHECK(intake.pull(true, item) == Pull::kEnded);
      CHECK(intake.mark().lines > before);
    }
  }
}

TEST_CASE("an intake can be let go at any time") {
  std::mt19937 random(4);
  for (int round = 0; round < 60; ++round) {
    Interrupt interrupt;
    const SilentPipe pipe(prompts(static_cast<int>(random() % 300)) + "{\"prompt\": \"half");
    const SlowTokenizer tokenizer(random() % 2 == 0 ? 0 : 200);
    InputLines lines(pipe.path(), {}, interrupt.fd());
    Intake intake(intake_parts(lines, &tokenizer, chatml(), &interrupt),
                  {.prompt = kPrompts,
                   .max_items = 1 + static_cast<int>(random() % 100),
                   .num_workers = 1 + static_cast<int>(random() % 7)});
    IntakeItem item;
    for (auto left = random() % 100; left > 0; --left) intake.pull(false, item);
    doze(random() % 500);
  }
}

TEST_CASE("a line of an input that falls silent does not wait for more lines") {
  Interrupt interrupt;
  const SilentPipe pipe("{\"prompt\": \"one\"}\n\n \n{\"prom");
  const SlowTokenizer tokenizer;
  InputLines lines(pipe.path(), {}, interrupt.fd());
  Intake intake(intake_parts(lines, &tokenizer, chatml(), &interrupt),
                {.prompt = kPrompts, .num_workers = 2});
  IntakeItem item;
  REQUIRE(intake.pull(true, item) == Pull::kItem);
  CHECK(std::get<PreparedLine>(item).prompts.front().prompt.size() == 3);
  CHECK(intake.mark().lines == 1);
}

TEST_CASE("all workers are at work while nothing is ready") {
  constexpr int kWorkers = 3;
  // Encodes when so many texts are there at once.
  struct Gathering final : Tokenizer {
    std::vector<TokenId> encode(std::string_view, AddBos) const override {
      std::unique_lock lock(mutex);
      ++present;
      changed.notify_all();
      changed.wait_for(lock, std::chrono::seconds(20), [&] { return present >= kWorkers; });
      return {present};
    }
    std::optional<TokenId> find_token(std::string_view) const override { return {}; }
    std::string_view token_bytes(TokenId) const override { return ""; }
    int vocab_size() const override { return 256; }
    mutable std::mutex mutex;
    mutable std::condition_variable changed;
    mutable int present = 0;
  };
  const TempDir dir;
  write_file(dir / "in", prompts(48));
  const Gathering tokenizer;
  InputLines lines(dir / "in", {});
  Intake intake(intake_parts(lines, &tokenizer, chatml()),
                {.prompt = kPrompts, .max_items = 64, .num_workers = kWorkers});
  IntakeItem item;
  REQUIRE(intake.pull(true, item) == Pull::kItem);
  CHECK(std::get<PreparedLine>(item).prompts.front().prompt[0] >= kWorkers);
}
