// The gate that lines pass when the forms of their answers are compiled.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "intake/form_gate.h"
#include "tests/support/grammar_support.h"

using namespace pagedinfer;

namespace {

constexpr FormShares kShares = {.num_tokens = 256};

PreparedLine line(int64_t index, AnswerForm form = {}, int num_prompts = 1) {
  Request request = {.prompt = {1, 2}};
  request.sampling.form = std::move(form);
  return {.head = {.index = index}, .prompts = std::vector(num_prompts, request)};
}

AnswerForm regex(const std::string& text) {
  return {.kind = FormKind::kRegex, .texts = std::vector<std::string>{text}};
}

// Takes some tenths of a second.
AnswerForm slow_form() {
  std::string rules = "root ::= r0\n";
  for (int i = 0; i < 700; ++i) rules += fmt::format("r{} ::= r{} \"a\" | \"b\"\n", i, i + 1);
  return {.kind = FormKind::kGrammar, .texts = std::vector<std::string>{rules + "r700 ::= \"c\""}};
}

struct GateScene {
  explicit GateScene(std::deque<IntakeItem> items) : lines(std::move(items)) {}

  Pull next(Wait wait, EngineLine& line) { return gate.next(wait, line); }

  std::deque<IntakeItem> lines;
  Pull at_end = Pull::kEnded;
  int num_waits = 0;
  FormCompiler compiler{byte_tokens};
  FormStore store{compiler, kShares, 2};
  FormGate gate{{.pull =
                     [this](Wait, IntakeItem& item) {
                       if (lines.empty()) return at_end;
                       item = std::move(lines.front());
                       lines.pop_front();
                       return Pull::kItem;
                     },
                 .forms = &store,
                 .before_wait = [this] { ++num_waits; }}};
};

}  // namespace

TEST_CASE("lines pass one that waits for its form, and it follows when the form is there") {
  if (is_skipped_without_grammar()) return;
  // Line 2 is behind line 3, because its form may be there as soon as it is asked for.
  GateScene scene(
      {line(0, slow_form()), line(1), line(3), line(2, regex("a+")), line(4, regex("("))});
  std::vector<int64_t> order;
  EngineLine next;
  for (int i = 0; i < 2; ++i) {
    REQUIRE(scene.next(Wait::kNo, next) == Pull::kItem);
    order.push_back(head_of(next.item).index);
  }
  CHECK(order == std::vector<int64_t>{1, 3});
  CHECK(scene.num_waits == 0);
  for (Pull pull = Pull::kLater; pull != Pull::kEnded;) {
    pull = scene.next(Wait::kForArrival, next);
    if (pull != Pull::kItem) continue;
    order.push_back(head_of(next.item).index);
    if (order.back() == 4) {
      const Completion& failed = std::get<Completion>(next.item);
      CHECK(failed.error.code == "invalid_form");
      CHECK(failed.error.message.starts_with("the form of the answer: "));
      CHECK(failed.num_prompt_tokens == 2);
    } else {
      CHECK(std::holds_alternative<PreparedLine>(next.item));
      CHECK((next.form != nullptr) == (order.back() % 2 == 0));
    }
  }
  CHECK(order.back() == 0);
  std::ranges::sort(order);
  CHECK(order == std::vector<int64_t>{0, 1, 2, 3, 4});
  CHECK(scene.num_waits > 0);
}

TEST_CASE("a line of several prompts gets its form, and its error names the first") {
  if (is_skipped_without_grammar()) return;
  GateScene scene({line(0, regex("a"), 3), line(1, regex("("), 2)});
  int num_lines = 0;
  EngineLine next;
  for (Pull pull = Pull::kLater; pull != Pull::kEnded;) {
    pull = scene.next(Wait::kForArrival, next);
    if (pull != Pull::kItem) continue;
    ++num_lines;
    if (std::holds_alternative<PreparedLine>(next.item)) {
      CHECK(next.form != nullptr);
    } else {
      CHECK(std::get<Completion>(next.item).error.message.starts_with("prompt[0]: the form"));
    }
  }
  CHECK(num_lines == 2);
}

TEST_CASE("the gate holds a bounded number of lines") {
  if (is_skipped_without_grammar()) return;
  std::deque<IntakeItem> lines;
  for (int i = 0; i < 2 * FormGate::kMaxLines; ++i) lines.emplace_back(line(i, slow_form()));
  lines.emplace_back(line(-1));
  GateScene scene(std::move(lines));
  EngineLine next;
  CHECK(scene.next(Wait::kNo, next) == Pull::kNotArrived);
  CHECK(std::ssize(scene.lines) == FormGate::kMaxLines + 1);
}

TEST_CASE("a static batch begins without the lines that wait for their forms") {
  if (is_skipped_without_grammar()) return;
  GateScene scene({line(0, slow_form())});
  EngineLine next;
  CHECK(scene.next(Wait::kForLine, next) == Pull::kNotArrived);
  CHECK(scene.next(Wait::kNo, next) == Pull::kNotArrived);
  scene.at_end = Pull::kLater;
  CHECK(scene.next(Wait::kNo, next) == Pull::kLater);
  CHECK(scene.num_waits == 0);
}
