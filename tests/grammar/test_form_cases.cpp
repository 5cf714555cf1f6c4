// Forms against texts that Python's jsonschema and re have judged
// (tools/goldens/make_form_cases.py).
#include <doctest/doctest.h>
#include <simdjson.h>

#include <string>
#include <string_view>
#include <vector>

#include "grammar/form_compiler.h"
#include "grammar/token_matcher.h"
#include "tests/support/grammar_support.h"
#include "tests/support/paths.h"

using namespace pagedinfer;

namespace {

namespace dom = simdjson::dom;

bool allows(const CompiledForm& form, std::string_view text) {
  TokenMatcher matcher(form);
  for (const char c : text) {
    if (!matcher.accept(static_cast<unsigned char>(c))) return false;
  }
  return matcher.is_complete();
}

AnswerForm form_of(dom::element line) {
  std::string_view regex;
  if (line["regex"].get(regex) == simdjson::SUCCESS) {
    return {.kind = FormKind::kRegex, .texts = std::vector<std::string>{std::string(regex)}};
  }
  dom::element schema;
  if (line["schema"].get(schema) != simdjson::SUCCESS) schema = line["refused"];
  return {.kind = FormKind::kJsonSchema,
          .texts = std::vector<std::string>{simdjson::minify(schema)}};
}

}  // namespace

TEST_CASE("a form allows the texts that jsonschema and re find valid, and no other") {
  if (is_skipped_without_grammar()) return;
  FormCompiler compiler(byte_tokens);
  dom::parser parser;
  dom::document_stream lines;
  const std::string path = source_dir() + "/tests/data/form_cases.jsonl";
  simdjson::padded_string file;
  REQUIRE(simdjson::padded_string::load(path).get(file) == simdjson::SUCCESS);
  REQUIRE(parser.parse_many(file).get(lines) == simdjson::SUCCESS);
  int num_forms = 0, num_valid = 0, num_invalid = 0;
  for (const dom::element line : lines) {
    const AnswerForm form = form_of(line);
    CAPTURE(form.texts[0]);
    const auto outcome = compiler.compile(form);
    const bool is_refused = !outcome;
    ++num_forms;
    if (line["refused"].error() == simdjson::SUCCESS) {
      // A keyword that was ignored would let these pass.
      for (const std::string_view text : dom::array(line["invalid"])) {
        CAPTURE(std::string(text));
        CHECK((is_refused || !allows(*outcome, text)));
      }
      CHECK(is_refused);
      continue;
    }
    REQUIRE_FALSE(is_refused);
    const CompiledForm& compiled = *outcome;
    for (const std::string_view text : dom::array(line["valid"])) {
      CAPTURE(std::string(text));
      CHECK(allows(compiled, text));
      ++num_valid;
    }
    for (const std::string_view text : dom::array(line["invalid"])) {
      CAPTURE(std::string(text));
      CHECK_FALSE(allows(compiled, text));
      ++num_invalid;
    }
  }
  CHECK(num_forms > 300);
  CHECK(num_valid > 1000);
  CHECK(num_invalid > 2000);
}
