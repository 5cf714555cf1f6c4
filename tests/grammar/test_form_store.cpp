// Compiled forms within their share of memory.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "grammar/form_store.h"
#include "tests/support/grammar_support.h"

using namespace pagedinfer;

namespace {

constexpr FormShares kShares = {.num_tokens = 256};

AnswerForm choice(int i) {
  return {.kind = FormKind::kChoices, .texts = std::vector<std::string>{fmt::format("x{}", i)}};
}

// Takes some 3 MiB, and more than the quick ones may to compile.
AnswerForm large(int number) {
  std::string properties, required;
  for (int i = 0; i < 1000; ++i) {
    const char* const comma = i > 0 ? "," : "";
    properties += fmt::format(R"({}"{}p{}":{{"type":"integer"}})", comma, number, i);
    required += fmt::format(R"({}"{}p{}")", comma, number, i);
  }
  return {.kind = FormKind::kJsonSchema,
          .texts = std::vector<std::string>{
              fmt::format(R"({{"properties":{{{}}},"required":[{}]}})", properties, required)}};
}

FormStore::Found wait_for(FormStore& store, FormStore::Ticket ticket) {
  for (;;) {
    if (auto found = store.take(ticket)) return *std::move(found);
    store.wait(0.01);
  }
}

FormStore::Found get(FormStore& store, const AnswerForm& form) {
  return wait_for(store, store.ask(form));
}

bool is_there_after(FormStore& store, FormStore::Ticket& ticket, double seconds) {
  for (double waited = 0; waited < seconds; waited += 0.01) {
    if (store.take(ticket)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace

TEST_CASE("threads that ask for one form compile it once") {
  if (is_skipped_without_grammar()) return;
  FormCompiler compiler(byte_tokens);
  FormStore store(compiler, kShares, 3);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int form = 0; form < 20; ++form) {
        CHECK(get(store, choice(form % 5)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(store.num_compiled() == 5);
  CHECK(get(store, {.kind = FormKind::kRegex, .texts = {"("}}).error().code == "invalid_form");
}

TEST_CASE("the kept forms stay within their share, the latest used among them") {
  if (is_skipped_without_grammar()) return;
  FormCompiler compiler(byte_tokens);
  FormStore store(compiler, kShares, 2);
  const auto used = get(store, large(-1));
  constexpr int kMany = 14;
  for (int i = 0; i < kMany; ++i) {
    static_cast<void>(get(store, large(i)));
    CHECK(store.num_bytes() <= kShares.total());
  }
  CHECK(store.num_compiled() == kMany + 1);
  static_cast<void>(get(store, large(-1)));
  static_cast<void>(get(store, large(kMany - 1)));
  CHECK(store.num_compiled() == kMany + 1);
  static_cast<void>(get(store, large(0)));
  CHECK(store.num_compiled() == kMany + 2);
}

TEST_CASE("a form waits until those in use leave it room, and holds up no small one") {
  if (is_skipped_without_grammar()) return;
  FormCompiler compiler(byte_tokens);
  FormStore store(compiler, kShares, 1);
  std::vector<FormStore::Found> used;
  int64_t bytes = 0;
  while (bytes + kShares.slow().max_bytes <= kShares.slow_bytes()) {
    used.push_back(get(store, large(static_cast<int>(used.size()))));
    bytes += (*used.back())->num_bytes();
  }
  REQUIRE(used.size() > 1);
  FormStore::Ticket next = store.ask(large(100));
  CHECK_FALSE(is_there_after(store, next, 0.5));
  static_cast<void>(get(store, choice(1)));
  CHECK_FALSE(is_there_after(store, next, 0.1));
  CHECK(store.num_bytes() <= kShares.total());
  used.clear();
  CHECK(is_there_after(store, next, 60));
}

TEST_CASE("an end of the store does not wait for what is being compiled") {
  if (is_skipped_without_grammar()) return;
  FormCompiler compiler(byte_tokens);
  static_cast<void>(compiler.compile(choice(0)));
  const auto begin = std::chrono::steady_clock::now();
  {
    FormStore store(compiler, kShares, 1);
    std::string rules = "root ::= r0\n";  // some 6 s
    for (int i = 0; i < 2500; ++i) rules += fmt::format("r{} ::= r{} \"a\" | \"b\"\n", i, i + 1);
    FormStore::Ticket slow = store.ask(
        {.kind = FormKind::kGrammar, .texts = std::vector<std::string>{rules + "r2500 ::= \"c\""}});
    CHECK_FALSE(is_there_after(store, slow, 0.3));
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(3));
}

TEST_CASE("what stops a thread is thrown to the one who takes a form") {
  if (is_skipped_without_grammar()) return;
  FormCompiler compiler([]() -> std::vector<std::string> { throw std::bad_alloc(); });
  FormStore store(compiler, kShares, 1);
  FormStore::Ticket ticket = store.ask(choice(1));
  const auto wait_for_it = [&] {
    while (!store.take(ticket)) store.wait(0.01);
  };
  CHECK_THROWS_AS(wait_for_it(), std::bad_alloc);
  ticket.reset();
}
