// Hostile templates end with a TemplateError.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <string>

#include "jinja/from_json.h"
#include "jinja/template.h"
#include "tests/support/sanitized.h"

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

// The memory that this process has had at most, in KiB.
int64_t max_memory_kib() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
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

TEST_CASE("whatever reads a long text spends steps for it") {
  jinja::Limits limits;
  limits.max_steps = 500'000;
  const std::string begin =
      "{% set a = 'a' * 900000 %}{% set b = '1' * 900000 %}{% set c = ' ' * 900000 %}"
      "{% for i in range(2000) %}{% set x = ";
  for (const std::string work : {"a.find('b')",
                                 "a.rfind('b')",
                                 "a.count('b')",
                                 "a.replace('b', 'c')",
                                 "a.split('b')",
                                 "a.rsplit('b')",
                                 "a.split()",
                                 "a.rsplit()",
                                 "a.partition('b')",
                                 "a.rpartition('b')",
                                 "a.startswith('b')",
                                 "a.endswith(a)",
                                 "c.strip()",
                                 "a.strip('a')",
                                 "a.lstrip('b')",
                                 "a.rstrip()",
                                 "a.casefold()",
                                 "a.lower()",
                                 "a.upper()",
                                 "a.title()",
                                 "a.swapcase()",
                                 "a.capitalize()",
                                 "a.center(5)",
                                 "a.ljust(5)",
                                 "a.zfill(5)",
                                 "a.splitlines()",
                                 "a.isalnum()",
                                 "a.isalpha()",
                                 "a.isascii()",
                                 "a.isdecimal()",
                                 "a.isidentifier()",
                                 "a.islower()",
                                 "a.isprintable()",
                                 "a.istitle()",
                                 "a.isupper()",
                                 "a.removeprefix('b')",
                                 "a.removesuffix('b')",
                                 "a.join(['b', 'c'])",
                                 "a.format()",
                                 "'b'.join([a])",
                                 "a.find('b', 1, 2)",
                                 "a[5000]",
                                 "a[-1]",
                                 "a[2:3]",
                                 "a[::-1]",
                                 "a|float",
                                 "b|float",
                                 "a|int",
                                 "c|int(0, 16)",
                                 "a|length",
                                 "a|count",
                                 "a|wordcount",
                                 "a|truncate(9)",
                                 "a|trim",
                                 "c|trim",
                                 "a|upper",
                                 "a|capitalize",
                                 "a|title",
                                 "a|escape",
                                 "a|forceescape",
                                 "a|safe",
                                 "a|string",
                                 "a|urlencode",
                                 "a|tojson",
                                 "a|indent",
                                 "a|reverse",
                                 "a|replace('b', 'c')",
                                 "a|list",
                                 "a|last",
                                 "a|center(5)",
                                 "a|format",
                                 "a|default(1)",
                                 "a is lower",
                                 "a is upper",
                                 "a is filter",
                                 "a is test",
                                 "a is string",
                                 "a is eq('b')",
                                 "'b' in a",
                                 "a == a ~ ''",
                                 "a < a ~ 'b'",
                                 "a ~ 'b'",
                                 "a + 'b'",
                                 "a * 2",
                                 "{a: 1}",
                                 "{'b': 1}[a]",
                                 "{'b': 1}.get(a)",
                                 "'%s' % a",
                                 "'%.0s' % a",
                                 "'{}'.format(a)",
                                 "'{:.1}'.format(a)",
                                 "[a, a]|unique|list",
                                 "[a, a ~ '']|max",
                                 "[a]|map('length')|list",
                                 "[1.5] * 9000 ~ ''",
                                 "1.5|round(400)",
                                 "'%.4000f' % 1.5",
                                 "strftime_now('%c' * 30000)",
                                 "[1] * 99999 < [1] * 99999"}) {
    CAPTURE(work);
    CHECK(refusal(begin + work + " %}{% endfor %}", limits).find(" steps") != std::string::npos);
  }
}

TEST_CASE("arguments with names spend steps wherever they are passed on") {
  std::string names;
  for (int i = 0; i < 1'000; ++i) names += fmt::format(", a{}=1", i);
  CHECK(refusal("{{ range(2000)|map('format'" + names + ")|list }}").find(" steps") !=
        std::string::npos);
}

TEST_CASE("searches in text are linear") {
  // The time of comparing at each place would be that of 10^11 steps.
  const std::string begin =
      "{% set a = 'a' * 900000 %}{% set b = 'a' * 450000 ~ 'b' %}{% set c = 'b' ~ 'a' * 450000 %}";
  for (const char* search :
       {"a.find(b) + a.rfind(c)", "(b in a) ~ (c in a)", "a.count(b)", "a.replace(b, '')|length",
        "a|replace(b, '')|length", "a.split(b)|length", "a.rsplit(c)|length",
        "a.partition(b)|length", "a.rpartition(c)|length", "(a * 3).strip(b[1:] ~ c)|length",
        "a.strip('b' * 900000)|length"}) {
    CAPTURE(search);
    CHECK(refusal(begin + "{{ " + search + " }}") == "");
  }
}

TEST_CASE("text is refused before it has grown beyond its limit") {
  jinja::Limits limits;
  limits.max_text = 1 << 20;
  limits.max_memory = 1 << 24;
  const std::string begin =
      "{% set a = 'a' * 10000 %}{% set b = 'a' * 1000000 %}{% set l = [1] * 100000 %}"
      "{% set d = {'a': a} %}";
  const int64_t before = max_memory_kib();
  for (const std::string& growth : {std::string("('%(a)s' * 100000) % d"),
                                    std::string("('%(a)r' * 100000) % d"),
                                    std::string("('%(a).0s' * 1000) % {'a': b}"),
                                    std::string("('%(a)s' * 100000)|format(a=a)"),
                                    std::string("('{a}' * 100000).format(a=a)"),
                                    std::string("a.join('x' * 100000)"),
                                    std::string("('x' * 100000)|join(a)"),
                                    std::string("[b] * 2000 ~ ''"),
                                    std::string("l|tojson(indent=a)"),
                                    std::string("l|tojson(separators=(a, a))"),
                                    std::string("[[[[[[l]]]]]]|tojson(indent=b)"),
                                    std::string("('x\n' * 100000)|indent(a, true, true)"),
                                    std::string("('x' * 100000).replace('x', a)"),
                                    std::string("('x' * 100000)|replace('', a)"),
                                    std::string("b.center(10 ** 12)"),
                                    std::string("('x,' * 500000).split(',')"),
                                    std::string("('x ' * 500000).split()"),
                                    std::string("('\n' * 900000).splitlines()"),
                                    std::string("b|list"),
                                    std::string("b|map('upper')|list"),
                                    std::string("b|map(attribute='upper')|list"),
                                    std::string("b|map(attribute=b)|list"),
                                    std::string("b|batch(1)|list"),
                                    std::string("([[b]] * 10000)|sum(start=[])"),
                                    std::string("l * 1000"),
                                    std::string("([l] * 1000)|sum(start=[])"),
                                    std::string("strftime_now('%c' * 500000)"),
                                    std::string("['\\x00' * 900000]|string"),
                                    "b" + repeated(" ~ b", 150)}) {
    CAPTURE(growth);
    const std::string reason = refusal(begin + "{% set x = " + growth + " %}{{ x }}", limits);
    CHECK(reason.find("more than") != std::string::npos);
  }
  // The address sanitizer holds up to 256 MiB back that have been freed.
  CHECK(max_memory_kib() - before < (kSanitized ? 500 : 200) * 1024);
}

TEST_CASE("a template with too many names and conditions is refused when it is parsed") {
  std::string source;
  for (int i = 0; i < 4'000; ++i) source += fmt::format("{{{{ a{} }}}}", i);
  CHECK(refusal(source) == "");
  const std::string tags = repeated("{% if x %}{% endif %}", 4'000);
  CHECK(refusal(source + tags) != "");
  try {
    (void)jinja::Template::parse(source + "\n" + tags);
  } catch (const jinja::TemplateError& error) {
    CHECK(error.line == 2);
  }
}

TEST_CASE("keys whose hashes share a bucket do not make a dict slow") {
  CHECK(refusal("{{ range(0, 100000 * 126271, 126271)|unique|list|length }}") == "");
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
