#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <thread>
#include <vector>

#include "jinja/from_json.h"
#include "jinja/template.h"

using namespace pagedinfer;
using jinja::Dict;
using jinja::Template;
using jinja::TemplateError;
using jinja::Undefined;
using jinja::Value;

namespace {

TemplateError error_of(const std::string& source) {
  try {
    Template::parse(source).render({}, {});
  } catch (const TemplateError& error) {
    return error;
  }
  return TemplateError("not refused");
}

}  // namespace

TEST_CASE("what is not there fails only where that is asked for, unless it is allowed for") {
  const auto rendered = [](const std::string& source, Undefined undefined) -> std::string {
    Dict variables;
    variables.set("a", Value::dict({}));
    try {
      return Template::parse(source).render(variables, {}, {}, undefined).text;
    } catch (const TemplateError& error) {
      CHECK(error.reason == TemplateError::Reason::kUndefined);
      return fmt::format("{}: {}", error.line, error.what());
    }
  };
  for (const std::string source : {"[{{ b }}]", "[{{ a.b }}]", "[{{ a['b'] }}]",
                                   "[{{ [] | first }}]", "[{% for c in b %}{% endfor %}]"}) {
    CAPTURE(source);
    CHECK(rendered(source, Undefined::kEmpty) == "[]");
    CHECK(rendered(source, Undefined::kFails).starts_with("1: "));
  }
  CHECK(rendered("\n{{ b }}", Undefined::kFails) == "2: 'b' is undefined");
  for (const Undefined undefined : {Undefined::kEmpty, Undefined::kFails}) {
    CHECK(rendered("{{ b | default(1) }}{{ a.b | d(2) }}{{ b is defined }}{{ a.b is undefined }}",
                   undefined) == "12FalseTrue");
    CHECK(rendered("[{{ 1 if a }}]", undefined) == "[]");
  }
}

TEST_CASE("an error of a template names its line") {
  CHECK(error_of("a\n{{ 1 + }}").line == 2);
  CHECK(error_of("a\n\n{% if x %}").line == 3);
  CHECK(error_of("{# \n\n #}\n{{ x.y }}").line == 4);
  CHECK(error_of("{% for i in [1] %}\n{{ i }}\n{{ i.j.k }}{% endfor %}").line == 3);
  CHECK(error_of("{{ [1,\n2,\n3]|nothing }}").line == 3);
  CHECK(error_of("{% macro m() %}\n{{ 1 // 0 }}{% endmacro %}\n{{ m() }}").line == 2);
}

TEST_CASE("an exception that a template raises is its message alone") {
  const TemplateError error = error_of("\n{{ raise_exception('roles must ' ~ 'alternate') }}");
  CHECK(std::string(error.what()) == "roles must alternate");
  CHECK(error.reason == TemplateError::Reason::kRaised);
  CHECK(error.line == 2);
}

TEST_CASE("what is not supported is refused by its name when it is reached") {
  for (const char* name : {"include", "import", "extends"}) {
    const std::string tag = std::string("{% ") + name + " 'x' " +
                            (std::string_view(name) == "import" ? "as y " : "") + "%}";
    CHECK(std::string(error_of(tag).what()).find(name) != std::string::npos);
    CHECK(std::string(error_of("{% if false %}" + tag + "{% endif %}").what()) == "not refused");
  }
  CHECK(std::string(error_of("{{ 'x'|pprint }}").what()) == "the filter 'pprint' is not supported");
  CHECK(std::string(error_of("{{ 'x'.encode() }}").what()) ==
        "the attribute 'encode' of str is not supported");
  CHECK(std::string(error_of("{{ lipsum() }}").what()) == "the function 'lipsum' is not supported");
  CHECK(std::string(error_of("{{ 9223372036854775807 + 1 }}").what()) ==
        "integers beyond 64 bits are not supported");
}

TEST_CASE("a variable that a loop's body assigns to begins each time as the outer one") {
  CHECK(Template::parse("{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + i %}{{ x }},"
                        "{% endfor %}{{ x }}")
            .render({}, {})
            .text == "12,13,1");
  CHECK(Template::parse("{% for i in [1, 2] %}{% if i == 2 %}{{ y }}{% else %}{% set y = i %}"
                        "{{ y }}{% endif %},{% endfor %}{{ y is defined }}")
            .render({}, {})
            .text == "1,,False");
}

TEST_CASE("a macro sees what variables outside of it are when it is called") {
  CHECK(Template::parse("{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% set x = 1 %}{{ m() }}"
                        "{% set x = 2 %}{{ m() }}")
            .render({}, {})
            .text == "12");
}

TEST_CASE("strftime_now tells the time that it is given") {
  const Template clock = Template::parse("{{ strftime_now('%d %B %Y %H:%M:%S, %A, %j') }}");
  CHECK(clock.render({}, {}).text == "26 July 2024 00:00:00, Friday, 208");
  const jinja::DateTime leap{.year = 2028, .month = 2, .day = 29, .hour = 23, .minute = 5};
  CHECK(clock.render({}, leap).text == "29 February 2028 23:05:00, Tuesday, 060");
}

TEST_CASE("a template renders the same text in several threads at once") {
  const Template parsed = Template::parse(
      "{% set sep = ', ' %}{% macro m(x) %}[{{ x|upper ~ sep }}]{% endmacro %}"
      "{% for x in list %}{{ m(x) }}{{ loop.index }}{% set sep = x %}{% endfor %}");
  const jinja::Value variables = jinja::from_json(R"({"list": ["a", "b", "c", "d"]})", true);
  const std::string expected = parsed.render(variables.entries(), {}).text;
  CHECK(expected == "[A, ]1[B, ]2[C, ]3[D, ]4");
  std::vector<std::string> texts(8);
  {
    std::vector<std::jthread> threads;
    for (std::string& text : texts) {
      threads.emplace_back([&] {
        for (int i = 0; i < 200; ++i) {
          text = parsed.render(variables.entries(), {}).text;
          if (text != expected) break;
        }
      });
    }
  }
  for (const std::string& text : texts) CHECK(text == expected);
}
