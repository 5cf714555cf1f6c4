// Reads the bytes as a form of an answer, checks it as the program does, and compiles what passes
// for a vocabulary of bytes. The first byte chooses the kind.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/utf8.h"
#include "fuzz.h"
#include "grammar/form_check.h"
#include "grammar/form_compiler.h"
#include "grammar/token_matcher.h"

using namespace pagedinfer;

namespace {

std::vector<std::string> bytes_as_tokens() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  return tokens;
}

// Takes the first tokens that are allowed.
void walk(const CompiledForm& form) {
  TokenMatcher matcher(form);
  std::vector<uint32_t> mask(static_cast<size_t>(form.num_words()));
  for (int step = 0; step < 20; ++step) {
    matcher.fill(mask);
    TokenId token = 0;
    while (token < 256 && (mask[static_cast<size_t>(token / 32)] >> (token % 32) & 1) == 0) ++token;
    if (token == 256) return;
    require(matcher.accept(token), "an allowed token is accepted");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static FormCompiler compiler(bytes_as_tokens);
  if (size < 1) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (!is_utf8(text)) return 0;  // as lines are
  constexpr FormKind kKinds[] = {FormKind::kJsonSchema, FormKind::kRegex, FormKind::kChoices,
                                 FormKind::kGrammar};
  const AnswerForm form = {
      .kind = kKinds[data[0] % 4], .whitespace = data[0] >= 128, .texts = {text}};
  const Result<CheckedForm> checked = check_form(form);
  require(checked || !checked.error().message.empty(), "an error has a sentence");
  if (!checked) return 0;
  const std::string& rewritten = checked->schema ? checked->schema->text : checked->rules;
  if (rewritten.size() > 2000) return 0;
  if (const auto compiled = compiler.compile(form)) walk(*compiled);
  return 0;
}
