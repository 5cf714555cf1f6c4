#include <doctest/doctest.h>

#include <string>

#include "jinja/from_json.h"
#include "jinja/template.h"
#include "text/unicode/utf8.h"

using namespace pagedinfer;
using jinja::Rendered;
using jinja::Span;
using jinja::Template;

namespace {

// Text of people is Greek here, text of templates is Latin.
Rendered rendered(const std::string& source) {
  const jinja::Value variables = jinja::from_json(
      R"({"s": "αβ γδ\nε", "q": "\"κ\"", "list": ["μ", "νξ"], "d": {"κλ": "πρ", "στ": ["υ"]},
          "n": 5, "users": [{"name": "φ"}, {"name": "χ"}]})",
      true);
  return Template::parse(source).render(variables.entries(), {});
}

// Whether exactly the Greek letters are inside the marks, other letters outside.
void check_letters(const std::string& source) {
  CAPTURE(source);
  const Rendered result = rendered(source);
  CAPTURE(result.text);
  size_t mark = 0, last_end = 0;
  for (const Span& span : result.from_values) {
    CHECK(span.begin < span.end);
    CHECK(span.end <= result.text.size());
    CHECK((last_end == 0 || span.begin > last_end));
    last_end = span.end;
  }
  for (size_t i = 0; i < result.text.size(); i += utf8_size(result.text[i])) {
    while (mark < result.from_values.size() && result.from_values[mark].end <= i) ++mark;
    const bool marked = mark < result.from_values.size() && result.from_values[mark].begin <= i;
    const char32_t c =
        utf8_character(std::string_view(result.text).substr(i, utf8_size(result.text[i])));
    const bool is_latin = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '<' || c == '>';
    const bool is_greek = c >= 0x370 && c < 0x400;
    const bool is_escape = i > 0 && result.text[i - 1] == '\\';
    CAPTURE(i);
    if (is_latin && !is_escape) CHECK(!marked);
    if (is_greek) CHECK(marked);
  }
}

}  // namespace

TEST_CASE("rendered text remembers what came from marked strings, through all operations") {
  for (const char* expr : {"s",
                           "s|trim",
                           "s|upper",
                           "s|title",
                           "s|capitalize",
                           "s|replace('β', 'ab')",
                           "s|replace('\n', s)",
                           "'x' + s + 'y'",
                           "'x' ~ s ~ n",
                           "s[1:3] ~ 'x'",
                           "s[::-1]",
                           "s[0]",
                           "s.split()|join('x')",
                           "s.split('γ')",
                           "list|join('<x>')",
                           "'<x>'.join(list)",
                           "s|tojson",
                           "d|tojson(indent=2)",
                           "q|tojson",
                           "d",
                           "d.items()|list",
                           "d|dictsort",
                           "d.keys()|list",
                           "'%s<x>%5s' % (s, list[0])",
                           "'{}<x>{a:>4}'.format(s, a=q)",
                           "s|indent(2)",
                           "s|center(30)",
                           "s.ljust(20, 'x')",
                           "s * 2 ~ 'x'",
                           "list|map('upper')|list",
                           "users|map(attribute='name')|join('x')",
                           "s|e",
                           "'<x>'|safe + s",
                           "s|truncate(4, true, 'x')",
                           "s|reverse",
                           "s|list",
                           "s|string",
                           "'x<y>'.replace('<', s)",
                           "'x'.join(s)",
                           "s.partition(' ')",
                           "s|wordcount ~ 'x'",
                           "s|length ~ 'x'",
                           "s.zfill(20)",
                           "(s,)|string",
                           "s.splitlines()|join('x')",
                           "s|format",
                           "s|default('x')",
                           "s.swapcase()",
                           "list|sort|first",
                           "[s, 'x']|max",
                           "dict(a=s)|tojson(sort_keys=true)",
                           "[q]|string",
                           "'x' if s == 'x' else s"}) {
    check_letters("<a>{{ " + std::string(expr) + " }}<b>");
  }
  check_letters("{% set x = s ~ 'a' %}{% for c in x %}<{{ c }}>{% endfor %}");
  check_letters("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(s)|upper ~ m('x') }}");
  check_letters(
      "{% set ns = namespace(t='') %}{% for u in users %}{% set ns.t = ns.t ~ u.name "
      "~ 'x' %}{% endfor %}{{ ns.t }}");
  check_letters("{% filter upper %}a{{ s }}b{% endfilter %}{% set x %}q{{ s }}{% endset %}{{ x }}");
}

TEST_CASE("an escape of a marked character is marked") {
  const Rendered result = rendered("{{ q|tojson }}");
  CHECK(result.text == "\"\\\"κ\\\"\"");
  CHECK(result.from_values == std::vector<Span>{{1, result.text.size() - 1}});
}

TEST_CASE("a time is marked where its format is") {
  const Rendered result = rendered("{{ strftime_now('%Y<x>' ~ q ~ '%d') }}");
  CHECK(result.text == "2024<x>\"κ\"26");
  CHECK(result.from_values == std::vector<Span>{{7, result.text.size() - 2}});
}

TEST_CASE("without marked strings nothing is marked") {
  const jinja::Value variables = jinja::from_json(R"({"s": "text"})", false);
  const Rendered result = Template::parse("<{{ s|upper ~ s }}>").render(variables.entries(), {});
  CHECK(result.text == "<TEXTtext>");
  CHECK(result.from_values.empty());
}
