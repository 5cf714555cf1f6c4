// Fragments of templates against Python's jinja2: tools/goldens/make_jinja_cases.py.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <string>

#include "jinja/from_json.h"
#include "jinja/template.h"
#include "tests/support/paths.h"

using namespace pagedinfer;

TEST_CASE("fragments of templates render what jinja2 renders, refusals included") {
  std::ifstream file(source_dir() + "/tests/data/jinja/cases.jsonl");
  std::string line;
  REQUIRE(std::getline(file, line));
  const jinja::Value first = jinja::from_json(line, false);
  const jinja::Dict& variables = first.entries().find("variables")->entries();
  int num_cases = 0;
  for (; std::getline(file, line); ++num_cases) {
    const jinja::Value entry = jinja::from_json(line, false);
    const std::string source = entry.entries().find("template")->text();
    const jinja::Value* expected = entry.entries().find("text");
    CAPTURE(source);
    std::string text, refusal;
    try {
      text = jinja::Template::parse(source).render(variables, {}).text;
    } catch (const jinja::TemplateError& error) {
      refusal = fmt::format("line {}: {}", error.line, error.what());
      CHECK(error.line > 0);
    }
    CAPTURE(refusal);
    if (expected == nullptr) {
      CHECK(!refusal.empty());
    } else {
      CHECK(refusal.empty());
      CHECK(text == expected->text());
    }
  }
  CHECK(num_cases > 1000);
}
