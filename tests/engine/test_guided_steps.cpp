// Steps that draw tokens of a given form, on a tiny model.
#include <doctest/doctest.h>

#include <regex>
#include <stdexcept>

#include "grammar/form_compiler.h"
#include "kv/paged_pool.h"
#include "tests/support/engine_run.h"
#include "tests/support/grammar_support.h"
#include "tests/support/model_runs.h"

namespace pagedinfer {
namespace {

// One letter for each token; the end has none.
std::vector<std::string> letters(int vocab) {
  std::vector<std::string> texts(static_cast<size_t>(vocab));
  for (int id = 0; id < vocab; ++id) {
    if (id != kTinyStop) texts[static_cast<size_t>(id)] = static_cast<char>('a' + id % 26);
  }
  return texts;
}

struct FormScene {
  // Each call of a step: r for run(), s for sample(), c for collect().
  std::string calls;
  std::map<int64_t, std::vector<std::vector<TokenId>>> answers;  // by index and sample
  int num_surplus = 0, num_failures = 0;

  // The device fails once, behind so many calls.
  FormScene(const std::vector<Request>& requests, bool overlaps, int num_blocks = 40,
            int chunk_size = 100, int num_good_calls = -1) {
    const TinyModel files(tiny_shapes()[0]);
    const OpenedModel model = open_model(files.dir());
    Rig rig(model, {.isa = available_isas().back(), .num_threads = 2, .compute = DType::kBF16});
    rig.start();
    rig.ops.around = [&](bool) {
      if (num_good_calls-- == 0) throw std::runtime_error("a call fails");
    };
    rig.ops.on_run = [&] { calls += 'r'; };
    rig.ops.on_sample = [&](Tensor, std::span<const SampleRow>) { calls += 's'; };
    rig.ops.on_collect = [&] { calls += 'c'; };
    FormCompiler compiler([&] { return letters(model.spec.vocab); });
    std::vector<EngineLine> lines;
    for (const Request& request : requests) {
      lines.push_back(
          {line_of(request, std::ssize(lines)), compile_form(request.sampling.form, compiler)});
    }
    PagedPool pool(num_blocks, 4);
    double now = 0;
    Engine engine({.spec = model.spec,
                   .weights = rig.weights,
                   .cache = rig.cache,
                   .pool = pool,
                   .steps = rig.ops,
                   .arithmetic = rig.ops.arithmetic(),
                   .tokenizer = nullptr,
                   .clock = [&] { return now += 1; },
                   .overlaps = overlaps},
                  {.prefill_chunk_size = chunk_size, .max_running = 8, .max_model_len = 64});
    run_requests(
        engine, lines,
        [&](const Completion& completion) {
          REQUIRE(!completion.failed());
          for (const CompletionChoice& choice : completion.choices) {
            answers[completion.head.index].push_back(choice.tokens);
          }
        },
        [&](const StepStats& step) {
          num_surplus += step.num_surplus;
          num_failures += step.failures;
        });
  }
};

Request request_of(int index, bool guided) {
  Request request = make_request(index, 1 + index * 5 % 11, 3 + index * 7 % 13, kTinyVocab);
  request.random_key = static_cast<uint64_t>(index);
  request.sampling.temperature = index % 3 == 0 ? 0.0f : 1.0f;
  if (guided) {
    request.sampling.form = {.kind = FormKind::kRegex,
                             .texts = std::vector<std::string>{"[a-f]{2,3}(x[yz]*)?[kl]{1,4}"}};
  }
  return request;
}

}  // namespace

TEST_CASE("what a form allows is found out between a step's forward pass and its draws") {
  if (is_skipped_without_grammar()) return;
  const auto calls = [](bool guided, bool overlaps) {
    return FormScene({request_of(1, guided)}, overlaps).calls;
  };
  CHECK(std::regex_match(calls(false, true), std::regex("rs(rsc)+c")));
  CHECK(std::regex_match(calls(true, true), std::regex("rs(rcs)+c")));
  CHECK(std::regex_match(calls(true, false), std::regex("(rsc)+")));
}

TEST_CASE("answers with forms among free ones do not depend on overlap, memory or chunks") {
  if (is_skipped_without_grammar()) return;
  std::vector<Request> requests;
  for (int i = 0; i < 24; ++i) {
    requests.push_back(request_of(i, i % 3 != 1));
    if (i % 5 == 2) requests.back().num_samples = requests.back().num_returned = 3;
  }
  const FormScene expected(requests, false);
  REQUIRE(expected.answers.size() == requests.size());
  for (const int num_blocks : {40, 12}) {
    for (const int chunk_size : {100, 3}) {
      const FormScene found(requests, true, num_blocks, chunk_size);
      CHECK(found.answers == expected.answers);
      CHECK(found.num_surplus > 0);
    }
  }
}

TEST_CASE("a step with forms that fails once is made good") {
  if (is_skipped_without_grammar()) return;
  std::vector<Request> requests;
  for (int i = 0; i < 6; ++i) requests.push_back(request_of(i, i % 3 != 1));
  const FormScene expected(requests, false);
  int num_failures = 0;
  for (int num_good_calls = 0;; num_good_calls += 7) {
    CAPTURE(num_good_calls);
    const FormScene found(requests, true, 40, 100, num_good_calls);
    CHECK(found.answers == expected.answers);
    if (found.num_failures == 0) break;
    ++num_failures;
  }
  CHECK(num_failures > 100);
}

}  // namespace pagedinfer
