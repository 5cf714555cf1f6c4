// Hostile templates end with a TemplateError.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "text/jinja/from_json.h"
#include "text/jinja/template.h"

using namespace pagedinfer;
using jinja::Template;
using jinja::TemplateError;

namespace {

std::string repeated(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

// Why the template is refused; "" if it is not.
std::string refusal(const std::string& source, const jinja::Limits& limits = {}) {
  try {
    const Template parsed = Template::parse(source);
    const std::string text = parsed.render({}, {}, limits).text;
    CHECK(text.size() <= limits.max_text);
    return "";
  } catch (const TemplateError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a template that would not end, or take all memory, is refused") {
  const std::string loop = "{% for a in range(99999) %}", many = repeated(loop, 4);
  const std::string end = repeated("{% endfor %}", 4);
  jinja::Limits limits;
  limits.max_steps = 200'000;
  limits.max_memory = 1 << 24;
  limits.max_text = 1 << 20;
  for (const std::string& source :
       {many + end,
        many + "x" + end,
        loop + "{{ 'x' * 100000 }}{% endfor %}",
        std::string("{{ 'x' * 10 ** 9 }}"),
        std::string("{{ [1] * 10 ** 12 }}"),
        std::string("{{ 'x'.ljust(10 ** 15) }}"),
        std::string("{{ '%1000000000d' % 1 }}"),
        std::string("{{ '{:1000000000}'.format(1) }}"),
        std::string("{{ 'x'|center(10 ** 10) }}"),
        std::string("{{ 'a\nb'|indent(10 ** 10) }}"),
        std::string("{{ [1]|batch(9, 1) }}"),
        std::string("{{ [1]|batch(10 ** 12, 1)|list }}"),
        std::string("{{ [1]|slice(10 ** 12)|list }}"),
        std::string("{{ {'a': [1]}|tojson(indent=10 ** 10) }}"),
        std::string("{{ '%.999999999f' % 1 }}"),
        std::string("{{ strftime_now('%999999999d') }}"),
        std::string("{{ range(10 ** 9) }}"),
        std::string("{{ '\t'.expandtabs(10 ** 10) }}"),
        "{% set ns = namespace(s='x') %}" + loop + "{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(s='x') %}" + loop +
            "{% set ns.s = ns.s|replace('x', 'xx') %}{% endfor %}",
        "{% set ns = namespace(s=[1]) %}" + loop + "{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(s='x') %}" + loop + "{% set ns.s = [ns.s, ns.s] %}{% endfor %}" +
            "{{ ns.s }}",
        "{% set ns = namespace(s='x') %}" + repeated("{% set ns.s = [ns.s, ns.s] %}", 60) +
            "{{ ns.s|tojson }}",
        "{% set ns = namespace(s=1, t=1) %}" +
            repeated("{% set ns.s = [ns.s, ns.s] %}{% set ns.t = [ns.t, ns.t] %}", 60) +
            "{{ ns.s == ns.t }}",
        "{% set ns = namespace(s=1) %}" + repeated("{% set ns.s = (ns.s, ns.s) %}", 60) +
            "{{ {ns.s: 1} }}",
        std::string("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
        std::string("{% macro m() %}{% call m() %}{% endcall %}{{ caller() }}{% endmacro %}"
                    "{% call m() %}{% endcall %}"),
        std::string("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}")}) {
    CAPTURE(source);
    CHECK(refusal(source, limits) != "");
  }
}

TEST_CASE("templates nested too deep are refused when they are parsed") {
  for (const std::string& source :
       {"{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}",
        "{{ " + repeated("[", 5000) + repeated("]", 5000) + " }}",
        "{{ " + repeated("not ", 5000) + "1 }}", "{{ " + repeated("-", 5000) + "1 }}",
        "{{ 1" + repeated(" + 1", 5000) + " }}", "{{ x" + repeated(".a", 5000) + " }}",
        "{{ x" + repeated("|upper", 5000) + " }}", "{{ x" + repeated("()", 5000) + " }}",
        "{{ 1" + repeated(" if 1 else 1", 5000) + " }}",
        repeated("{% if 1 %}", 5000) + repeated("{% endif %}", 5000),
        repeated("{% for x in y %}", 5000) + repeated("{% endfor %}", 5000),
        std::string(5 << 20, ' ')}) {
    CAPTURE(source.substr(0, 40));
    CHECK(refusal(source) != "");
  }
}

TEST_CASE("values that refer to each other in long chains and circles are let go of") {
  const std::string loop = "{% for i in range(60000) %}";
  const std::string end = "{% endfor %}";
  for (const char* body :
       {"{% set ns.x = namespace(p=ns.x) %}", "{% set ns.x = [ns]|map(attribute='x') %}",
        "{% set ns.x = [ns.x]|map('list') %}", "{% set ns.x = ns.x|map('upper') %}",
        "{% set ns.x = [1]|map('default', ns.x) %}", "{% set ns.x = ns %}",
        "{% set ns.x = [ns.x] %}", "{% set ns.x = cycler(ns.x) %}", "{% set ns.x = joiner(ns.x) %}",
        "{% for j in [1] %}{{ loop.changed(ns.x) }}{% set ns.x = loop %}{% endfor %}",
        "{% for j in [ns]|map(attribute='x') %}{% set ns.x = loop %}{% endfor %}",
        "{% macro m() %}{{ ns.x }}{% endmacro %}{% set ns.x = m %}",
        "{% set ns.x = {'a': ns.x}.get %}",
        "{% set y = [ns, ns]|map(attribute='x')|batch(1) %}{{ y|first|length }}{% set ns.x = y "
        "%}"}) {
    CAPTURE(body);
    refusal("{% set ns = namespace(x=none) %}" + loop + std::string(body) + end +
            "{{ ns.x|list|length }}");
  }
}

TEST_CASE("templates of ordinary size are far from the limits") {
  const std::string messages =
      "{% for m in range(2000) %}<|im_start|>{{ m ~ 'x' * 200 }}\n"
      "{% endfor %}";
  CHECK(refusal(messages) == "");
  std::string sum = "{{ 'a'";
  for (int i = 0; i < 120; ++i) sum += " + 'b'";
  CHECK(refusal(sum + " }}") == "");
  CHECK(refusal("{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}"
                "{{ m(100) }}") == "");
}
