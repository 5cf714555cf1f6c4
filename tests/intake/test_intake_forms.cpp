// The forms of answers that an intake compiles, and how many of them are there at once.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <string>
#include <vector>

#include "grammar/form_compiler.h"
#include "intake/intake.h"
#include "tests/support/grammar_support.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

// A token per byte.
class ByteTokenizer final : public Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view text, AddBos) const override {
    return {text.begin(), text.end()};
  }
  std::optional<TokenId> find_token(std::string_view) const override { return {}; }
  std::string_view token_bytes(TokenId) const override { return ""; }
  int vocab_size() const override { return 128; }
};

std::vector<std::string> letters() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 128; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  return tokens;
}

const ChatSettings kNoChat = {.format = {.problem = "there is no template"}};
constexpr int kWorkers = 3;

// Pulls all items. `pulled` gets their number so far and the item.
template <class F>
void pull_all(const std::string& input, FormCompiler& forms, const F& pulled) {
  const TempDir dir;
  write_file(dir / "in", input);
  const ByteTokenizer tokenizer;
  InputLines lines(dir / "in", {});
  Intake intake(
      {.lines = lines,
       .tokenizer = &tokenizer,
       .chat = kNoChat,
       .clock = [] { return 0.0; },
       .thread_clock = [] { return 0.0; }},
      {.prompt = {.vocab = 128, .max_model_len = 100, .forms = &forms}, .num_workers = kWorkers});
  int count = 0;
  for (IntakeItem item; intake.pull(true, item) == Pull::kItem;) pulled(++count, item);
}

}  // namespace

TEST_CASE("thousands of lines with one schema compile it once, before they are pulled") {
  if (is_skipped_without_grammar()) return;
  std::string input;
  for (int i = 0; i < 3000; ++i) {
    input += R"({"prompt":"a","guided_json":{"properties":{"a":{"type":"integer"}}}})"
             "\n";
  }
  FormCompiler forms(letters, kMaxFormBytes);
  const CompiledForm::Impl* first = nullptr;
  pull_all(input, forms, [&](int, const IntakeItem& item) {
    const Request& request = std::get<Request>(item);
    REQUIRE(request.compiled_form != nullptr);
    if (first == nullptr) first = &request.compiled_form->impl();
    REQUIRE(&request.compiled_form->impl() == first);
  });
  CHECK(forms.num_compiled() == 1);
}

TEST_CASE("forms beyond what is to be kept are compiled when the engine wants their lines") {
  if (is_skipped_without_grammar()) return;
  std::string input;
  for (int i = 0; i < 400; ++i) {
    input += fmt::format(R"({{"prompt":"a","guided_choice":["x{}"]}})", i) + "\n";
  }
  FormCompiler forms(letters, 1);
  int num_pulled = 0;
  pull_all(input, forms, [&](int count, const IntakeItem& item) {
    num_pulled = count;
    REQUIRE(std::get<Request>(item).compiled_form != nullptr);
    constexpr int kBatchLines = 32;
    REQUIRE(forms.num_compiled() <= count + kWorkers * kBatchLines);
  });
  CHECK(num_pulled == 400);
  CHECK(forms.num_compiled() == 400);
}
