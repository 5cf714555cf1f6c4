#!/usr/bin/env python3
"""Writes fragments of chat templates and what Python's jinja2 makes of them, set up as transformers
does: each filter, test, method, operator and statement with random values.

  make_jinja_cases.py [OUTPUT] [--seed N] [--count N]    [tests/data/jinja/cases.jsonl, 1, 3]

Needs transformers 5.23.0. The first line has the variables. Another one is a case: "template" and its
"text", or "refused" if jinja2 fails. --count is how many random cases each kind of fragment has.
"""

import argparse
import copy
import datetime
import json
import pathlib
import random
import re

import transformers.utils.chat_template_utils as chat_template_utils

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOW = datetime.datetime(2024, 7, 26, 0, 0, 0)

VARIABLES = {
    "s": "Hello World", "pad": "  pad ded \n", "uni": "Ünï çødé ßtraße Σας 中文 😀", "none_s": "",
    "csv": "a,b,,c", "lines": "one\ntwo\r\n\nthree\n", "html": "<b>&\"it's\"</b>", "num_s": " 42 ",
    "zero": 0, "i": 7, "neg": -3, "f": 2.5, "big": 1e20, "tiny": 1e-7, "third": 0.1, "yes": True,
    "no": False, "nil": None, "nums": [3, 1, 2, 1], "names": ["b", "A", "c", "a", "B"], "empty": [],
    "mixed": [1, "a", None, 2.5, True, [1], {"k": "v"}],
    "d": {"b": 1, "a": "x", "C": [1, 2], "items": 5}, "none_d": {},
    "nested": {"x": {"y": {"z": [10, 20, {"deep": "é\t\"q\""}]}}},
    "users": [{"name": "Bob", "age": 5, "city": "Rome", "tags": ["x"]},
              {"name": "alice", "age": 30, "city": "rome", "tags": []},
              {"name": "Al", "age": 5, "city": "Oslo"}],
    "messages": [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Hi\n"},
                 {"role": "assistant", "content": "Hello <there>",
                  "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1, "b": "é"}}}]},
                 {"role": "user", "content": [{"type": "text", "text": "part"}, {"type": "image"}]}],
}

TEXTS = ["s", "pad", "uni", "none_s", "csv", "lines", "html", "num_s", "'x'", "'a-b c.d'", "'ﬁß İ'"]
NUMBERS = ["zero", "i", "neg", "f", "big", "tiny", "third", "1.0", "12345.678", "-7", "10", "0.5"]
LISTS = ["nums", "names", "empty", "mixed", "users", "messages", "[[1, 2], [0, 5]]", "(1, 2, 3)",
         "range(4)", "d", "csv", "d.items()", "d.keys()", "none_d"]
DICTS = ["d", "none_d", "nested", "users[0]", "messages[2]"]
OTHERS = ["nil", "yes", "no", "missing", "d.missing", "s.missing"]
ANY = TEXTS + NUMBERS + LISTS + DICTS + OTHERS

NAMES = [value for value in ANY if value.isidentifier()]

FILTER_ARGUMENTS = {
    "abs": [""], "attr": ["('name')", "('items')", "('b')", "('upper')"],
    "batch": ["(2)", "(3, '-')", "(1)"], "capitalize": [""], "center": ["(15)", "(4)", ""],
    "count": [""], "d": ["('x')", ""], "default": ["('x')", "('x', true)", "('x', boolean=true)", ""],
    "dictsort": ["", "(true)", "(by='value')", "(reverse=true)", "(false, 'value', true)"],
    "e": [""], "escape": [""], "first": [""],
    "float": ["", "(1.5)", "(default='x')"], "forceescape": [""],
    "format": ["('a', 2)", "(1)", "()", "(x=1)", "('a')"],
    "groupby": ["('city')", "('age')", "('city', case_sensitive=true)", "('tags', default='-')"],
    "indent": ["", "(2)", "(2, true)", "('> ', true, true)", "(width=3, blank=true)"],
    "int": ["", "(5)", "(0, 16)", "(default=-1)"], "items": [""],
    "join": ["", "(', ')", "('|', 'name')", "(d=1, attribute='age')"], "last": [""], "length": [""],
    "list": [""], "lower": [""],
    "map": ["('upper')", "(attribute='name')", "(attribute='age', default=0)", "('default', 'x')",
            "('replace', 'a', 'b')", "('join', '-')", "()", "('nothing')", "('length')"],
    "max": ["", "(attribute='age')", "(true)"], "min": ["", "(attribute='name')", "(true)"],
    "reject": ["", "('odd')", "('equalto', 1)", "('string')"],
    "rejectattr": ["('tags')", "('age', 'gt', 5)", "('name', 'in', ['Al'])", "()"],
    "replace": ["('l', 'L')", "('', '-')", "('a', '', 1)", "(old='e', new='3', count=2)", "('x')"],
    "reverse": [""], "round": ["", "(1)", "(2, 'floor')", "(1, 'ceil')", "(-1)", "(method='no')"],
    "safe": [""], "select": ["", "('even')", "('ne', 1)", "('number')", "('nothing')"],
    "selectattr": ["('tags')", "('age', '==', 5)", "('tags', 'defined')", "('name', 'lower')"],
    "slice": ["(2)", "(3, '-')"], "sort": ["", "(true)", "(case_sensitive=true)",
                                           "(attribute='age')", "(attribute='city,name')"],
    "string": [""], "sum": ["", "(attribute='age')", "(start=10)", "('age', 1)"], "title": [""],
    "tojson": ["", "(indent=2)", "(indent=1)", "(ensure_ascii=true)", "(separators=(',', ':'))",
               "(sort_keys=true)", "(indent=4, sort_keys=true)", "(indent='->')"],
    "trim": ["", "('x')", "('aH d')"], "truncate": ["(5)", "(6, true)", "(9, false, '~', 0)", "(2)", ""],
    "unique": ["", "(true)", "(attribute='age')"], "upper": [""], "urlencode": [""],
    "wordcount": [""],
}
TEST_ARGUMENTS = {
    "odd": [""], "even": [""], "divisibleby": [" 2", "(3)"], "defined": [""], "undefined": [""],
    "filter": [""], "test": [""], "none": [""], "boolean": [""], "false": [""], "true": [""],
    "integer": [""], "float": [""], "lower": [""], "upper": [""], "string": [""], "mapping": [""],
    "number": [""], "sequence": [""], "iterable": [""], "callable": [""], "sameas": [" none", "(yes)"],
    "escaped": [""], "in": ["(nums)", "('Hello World x')", "(d)", " [none, 7]"], "eq": ["(7)", " s"],
    "equalto": ["('x')"], "ne": ["(1)"], "gt": ["(2)", "('a')"], "greaterthan": ["(0)"], "ge": ["(7)"],
    "lt": ["(3)"], "lessthan": ["(2.5)"], "le": ["(0)"],
}
STRING_METHODS = {
    "capitalize": ["()"], "casefold": ["()"], "center": ["(20)", "(21, '*')"],
    "count": ["('l')", "('')", "('o', 5)"], "endswith": ["('d')", "(('x', ' \\n'))", "('o', 0, 5)"],
    "find": ["('o')", "('o', 5)", "('zz')", "('')"],
    "format": ["(1, a=2)"], "index": ["('o')"], "isalnum": ["()"], "isalpha": ["()"],
    "isascii": ["()"], "isdecimal": ["()"], "isdigit": ["()"], "isidentifier": ["()"],
    "islower": ["()"], "isnumeric": ["()"], "isprintable": ["()"], "isspace": ["()"],
    "istitle": ["()"], "isupper": ["()"], "join": ["(names)", "(nums)", "('abc')"],
    "ljust": ["(14, '.')", "(3)"], "lower": ["()"], "lstrip": ["()", "('H <')"],
    "partition": ["(' ')", "(',')"], "removeprefix": ["('Hello')", "('')"], "removesuffix": ["('d')"],
    "replace": ["('o', '0')", "('', '.')", "('l', 'LL', 2)", "('x')"], "rfind": ["('o')"],
    "rindex": ["('l')"], "rjust": ["(13)"], "rpartition": ["(' ')", "(',')"],
    "rsplit": ["()", "(',', 1)", "(none, 1)"], "rstrip": ["()", "('d\\n >')"],
    "split": ["()", "(',')", "(' ', 1)", "('')", "(sep=',', maxsplit=2)"],
    "splitlines": ["()", "(true)"], "startswith": ["('H')", "(('a', '<'))", "('W', 6)"],
    "strip": ["()", "('Hd <>')"], "swapcase": ["()"], "title": ["()"], "upper": ["()"], "zfill": ["(14)"],
    "nothing": ["()", ""], "encode": [""], "__class__": [""],
}
LIST_METHODS = {"count": ["(1)", "('a')"], "index": ["(1)", "('zz')"], "copy": ["()"],
                "append": ["(1)", ""], "pop": ["()"], "sort": ["()"], "extend": ["([1])"]}
DICT_METHODS = {"get": ["('a')", "('zz')", "('zz', 5)", "()"], "items": ["()"], "keys": ["()"],
                "values": ["()"], "copy": ["()"], "pop": ["('a')"], "update": ["({'a': 1})"],
                "setdefault": ["('a', 1)"], "nothing": ["()", ""]}
FORMATS = ["'%s|%r' % (s, s)", "'%d %i' % (i, f)", "'%5.2f|%-8s|' % (f, s)", "'%05d' % neg",
           "'%x %X %o' % (255, 255, 8)", "'%e %g %G' % (big, tiny, f)", "'%%' % ()", "'%c%c' % (65, 'é')",
           "'%(a)s-%(b)03d' % d", "'%s' % nums", "'%s %s' % (1,)", "'%d' % s", "'%+d % d' % (i, i)",
           "'%*d' % (5, 3)", "'%.2s' % s", "'%#x' % 255", "'x' % 5", "'{}-{}'.format(s, i)",
           "'{1}{0}'.format('a', 'b')", "'{a[x]} {b.z}'.format(a={'x': 1}, b={'z': 2})",
           "'{:>10}|{:<5}|{:^7}|'.format('a', 'b', 'c')", "'{:05.1f}'.format(f)", "'{:,}'.format(1234567)",
           "'{:x} {:#b}'.format(255, 5)", "'{!r:>6}'.format('a')", "'{:{w}}|'.format('a', w=4)",
           "'{} {0}'.format(1)", "'{'.format(1)", "'{{}}'.format()", "'{:.3}'.format(uni)",
           "'{:%}'.format(0.25)", "'{:.1e}'.format(12345)", "'{:+}'.format(3)", "'{x}'.format(y=1)",
           "'{:*^9}'.format(i)", "'{}'.format(none)", "'{}'.format(missing)", "'{:d}'.format('a')",
           "'%a' % uni", "'%5a|%.2a' % ('é', 'é')", "'%a' % [1, 'é']", "'{!a}'.format(uni)",
           "'{:c}|{:>5c}|{:^5c}'.format(233, 65, 65)", "'{:05c}'.format(65)", "'{:+c}'.format(65)",
           "'{:c}'.format('a')", "'{:c}'.format(-1)", "'{:#c}'.format(65)", "'{:,c}'.format(65)"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in",
             "and", "or"]
SLICES = ["[0]", "[-1]", "[1:]", "[:-1]", "[::-1]", "[1:3]", "[::2]", "[5]", "['a']", "['items']", "[-2:]",
          "[:100]", "[yes]", "[none]", "[1.0]", "[4:1:-1]", "[::0]", "[missing]"]
TIMES = ["%d %b %Y", "%Y-%m-%d", "%A %B %-d", "%H:%M:%S", "%j %U %W %u %w", "%c|%x|%X", "%y %e %p %I",
         "%%", "%D %F %T %R", "%G %V %g %C %h %n%t", "%f%z%Z", "", "[%5Z][%-Z][%EZ][%_z][%#Z][%+z]",
         "%é%"]
STATEMENTS = r"""
{% for x in @L %}{{ loop.index }}{{ loop.index0 }}{{ x }}{{ loop.first }}{{ loop.last }},{% endfor %}
{% for x in @L %}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.length }};{% else %}none{% endfor %}
{% for x in @L if x is @T %}{{ x }}{{ loop.length }}{{ loop.last }}{% else %}no{% endfor %}
{% for x in @L %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }}{% endfor %}
{% for a, b in @L %}{{ a }}={{ b }};{% endfor %}
{% for a, b in @D.items() %}{{ a }}={{ b }};{% endfor %}
{% for a, b in @D|dictsort %}{{ a }}={{ b }};{{ loop.cycle('x', 'y') }}{% endfor %}
{% for x in @L %}{% if loop.index == 2 %}{% continue %}{% endif %}{{ x }}{% if loop.index0 == 2 %}{% break %}{% endif %}{% endfor %}
{% for x in @L %}{% break %}{% else %}else{% endfor %}
{% for x in @L %}{% for y in nums %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% for x in names %}{{ loop.changed(x|lower) }}{% endfor %}
{% set y = @A %}{% for x in nums %}{% set y = x %}{{ y }}{% endfor %}{{ y }}
{% set ns = namespace(c=0, s=@A) %}{% for x in nums %}{% set ns.c = ns.c + x %}{% endfor %}{{ ns.c }}{{ ns.s }}
{% set ns = namespace() %}{% set ns.a, b = 1, @A %}{{ ns.a }}{{ b }}{{ ns.missing }}
{% set a, b = @L %}{{ a }}{{ b }}
{% set x %}[{{ @A }}]{% endset %}{{ x|upper }}
{% set x | trim | replace('a', 'b') %}  a{{ @X }}a  {% endset %}<{{ x }}>
{% if @A %}yes{% elif @A %}maybe{% else %}no{% endif %}
{{ @A if @A else @A }}
{{ @A if @A }}
{{ not @A }} {{ @A and @A }} {{ @A or @A }}
{% macro m(a, b='x', c=a) %}({{ a }}|{{ b }}|{{ c }}){% endmacro %}{{ m(@A) }}{{ m(1, @A) }}{{ m(b=2, a=@A) }}{{ m() }}
{% macro m(a) %}{{ varargs }}{{ kwargs }}{{ a }}{% endmacro %}{{ m(1, 2, @X, z=@N) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(q=1) }}
{% macro m(x) %}<{{ caller(x) }}>{% endmacro %}{% call(y) m(@A) %}{{ y }}!{% endcall %}
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
{% macro r(n) %}{{ n }}{% if n > 0 %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(4) }}
{% macro m() %}{{ q }}{% endmacro %}{% set q = @A %}{{ m() }}
{% for x in [[1, [2]], [3]] recursive %}{{ loop.depth }}{% if x is iterable %}{{ loop(x) }}{% else %}{{ x }}{% endif %}{% endfor %}
{% with a = @A, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% filter upper %}{{ @A }}x{% endfilter %}
{% generation %}{{ @A }}{% endgeneration %}
{% raw %}{{ x }}{% if %}{% endraw %}
{% print @A, @N %}
{{ dict(@D, z=1) }}{{ dict(a=@A) }}
{{ range(@N) }}{{ range(2, 9, 3)|list }}{{ range(5, 0, -2)|list }}
{{ {'a': @A, @N: 2}['a'] }}{{ [@A, @A] }}{{ (@A,) }}
{{ cycler('a', 'b').next() }}{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}
{% set j = joiner('; ') %}{% for x in @L %}{{ j() }}{{ x }}{% endfor %}
{{ raise_exception(@A) }}
{{ @A.b.c }}
{{ @A['x'] }}{{ @A.a }}{{ @A.items }}
{{ @X|@F|@F }}
{{ @L|first }}{{ @L|last }}{{ @L|length }}
  {% if true %}  
  a {%- if true %} b {% endif -%}  c
    {% endif %}  d
{%- set x = 1 -%}  {{- x -}}  y {{+ x }} {%+ if x %} z {% endif +%}
x
   {# comment #}
 y {#- c -#} z
{{ 'a\n\t\\\'\"\x41\u00e9\101\q' }}{{ "it's" 'joined' }}
{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1e3 }} {{ 1.5e-3 }} {{ 100000000000000000000.0 }} {{ 1e16 }} {{ 123456789.125 }}
{{ 1 + 2 * 3 ** 2 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ 7 // 2 * 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 1 - 2 - 3 }}
{{ not 1 == 2 }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' ~ 1 + 2 ~ 'b' }} {{ -1|abs }} {{ 1 + -1|abs }} {{ 'x' ~ 'y' | upper }}
{{ 1 if 0 else 2 if 0 else 3 }} {{ 0 or 1 and 0 or 5 }} {{ not 0 and 1 }} {{ 1 in [1] == true }} {{ 3 is odd and 4 is even }}
{{ 2 is not odd }} {{ nums is not none }} {{ s is string and s is not mapping }} {{ 1 is in [1, 2] }}
{{ nums.0 }} {{ d['a']['b'] }} {{ users[0].name.upper()[1:] }} {{ (1, 2)[0] }} {{ {'k': [1]}.k[0] }} {{ 'abc'[1] }}
{{ messages[2].tool_calls[0].function | tojson }}{{ messages[3].content | map(attribute='type') | list }}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ (messages | rejectattr('role', 'in', ['user']) | list)[0].role }}
{% for m in messages %}{{ m.role }}{{ m['content'] is string }}{{ '\n' if not loop.last }}{% endfor %}
{{ '<b>'|safe + '<i>' }}{{ '<b>' + '<i>'|safe }}{{ '<b>'|safe ~ '<i>' }}{{ '<b>'|e|upper }}{{ ('<%s>'|safe) % '<' }}
{{ ns }}{{ ns.x }}
{% set loop = 1 %}{{ loop }}
{% set d.x = 1 %}
{% set ns = namespace() %}{% set ns._x = 1 %}
{% if x %}{% endfor %}
{% unknown %}
{{ }}
{{ 1 +}}
{% for x in %}{% endfor %}
{{ x | nothing }}
{% if false %}{{ x | nothing }}{% endif %}ok
{{ 'a' is nothing }}
{% break %}
{{ [1, 2 }}
{{ 'abc }}
{# open
{% raw %} open
{{ d|items|list }}{{ nil|map('x')|list }}
{% include 'x' %}
{% import 'x' as y %}
{% if false %}{% include 'x' %}{% endif %}ok
{% set x = [] %}{% set _ = x.append(1) %}
{{ x.append is defined }}{{ [].append is defined }}{{ nums.append }}
{{ dict.fromkeys('aba') }}{{ dict.fromkeys([1, 2], 3) }}{{ {}.fromkeys('a') }}{{ dict.fromkeys is defined }}
{{ dict.fromkeys([[]]) }}
{{ self }}{{ self.x is defined }}{% macro m() %}{{ self }}{% endmacro %}{{ m() }}
{% set self = 1 %}{{ self }}
{% macro m(a, b=2) %}{{ varargs }}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.catch_varargs }}
{% macro m() %}{{ kwargs }}{{ caller() }}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.caller }}{{ m.explicit_caller }}{{ m.no is defined }}
{% macro m() %}{{ caller.name }}{{ caller.arguments }}{% endmacro %}{% call(x) m() %}{% endcall %}
{% for a, in [[1]] %}{{ a }}{% endfor %}
{% for a in [1], recursive %}{{ a }}{% endfor %}
{{ -9223372036854775808 }} {{ 18446744073709551616 }} {{ -18446744073709551616 }} {{ 1_000_000_000_000_000_000_000 }}
{{ 18446744073709551616 == 18446744073709551616 }}{{ [18446744073709551616]|tojson }}{{ 18446744073709551616 is integer }}
{{ uni.rfind('ß') }}{{ uni.rfind('') }}{{ uni.find('') }}{{ csv.rsplit(',', 1) }}{{ csv.rsplit(',,') }}{{ uni.rpartition(' ') }}
{{ 'aaaa'.rsplit('aa', 1) }}{{ 'aaaaa'.rsplit('aa') }}{{ 'aaaaa'.split('aa') }}{{ 'aaaaa'.count('aa') }}{{ 'aaaaa'.rfind('aa', 0, 4) }}{{ 'abc'.rfind('c', 0, 2) }}
{{ uni[2:-1:3] }}{{ uni[::-2] }}{{ uni[-1] }}{{ uni[-100] }}{{ uni[100] }}{{ uni[20:5:-4] }}{{ uni|reverse }}{{ '%.7s' % uni }}{{ uni|truncate(9, true, '') }}
""".strip("\n")
SPACES = ["x\n  {%+ if yes %}a{% endif %}", "\n\n  {%- if yes +%}\n b{% endif %}\n\n",
          "  {# c #}\n  x", " x {#+ c +#}\n y", "x \n {{- i -}} \n y", "{% raw -%}\n a {%+ endraw +%}\n",
          "a\r\nb\rc\n", "{% if yes %}\r\n  x{% endif %}\r\n\r\n", "  {% raw %}\n x\n  {% endraw %}\n y",
          "a\n\t{% if yes -%}\n\n  b\n  {%- endif %}\nc", "{{ i }}\n{{ i }}\n", "{%if yes%}{{i}}{%endif%}\n\n",
          " {%- set x = 1 %} a", "\u00a0\u2003{% if yes %}a{% endif %}", "a\n {#- c\n#}\n b", "{{ 'a\n\tb' }}",
          "{% set x %}\n  a\n  {% endset %}[{{ x }}]", "{{- ' a ' -}}\n\n {{+ i }}", "{%- for x in nums -%}\n"
          "  {{ x }}\n  {%- if not loop.last %}, {% endif %}\n{%- endfor +%}\n.", "{", "{ {", "{%", "a }} b %}"]


def statements():
    """The lines of STATEMENTS; some belong to the line before."""
    result = []
    for line in STATEMENTS.split("\n"):
        if result and (line.startswith(("  a {%-", "    {% endif %}  d", "   {# comment", " y {#-"))
                       or line == "x"):
            result[-1] += "\n" + line
        else:
            result.append(line)
    return result


class Cases:
    def __init__(self, seed, count):
        self.random = random.Random(seed)
        self.count = count
        self.templates = []

    def add(self, template):
        if template not in self.templates:
            self.templates.append(template)

    def any_of(self, *values):
        return self.random.choice(self.random.choice(values))

    def filled(self, template):
        kinds = {"A": ANY, "X": TEXTS, "N": NUMBERS, "L": LISTS, "D": DICTS,
                 "T": ["odd", "string", "defined", "none", "mapping"],
                 "F": ["upper", "trim", "length", "title", "capitalize", "tojson", "list", "e"]}
        return re.sub(r"@([AXNLDTF])", lambda m: self.random.choice(kinds[m[1]]), template)

    def calls(self, prefix, table, values, separator):
        for name, arguments in table.items():
            for argument in arguments:
                for _ in range(self.count):
                    value = self.any_of(*values)
                    expr = f"{value}{separator}{name}{argument}"
                    listed = prefix == "filter" and name in (
                        "batch", "items", "map", "reject", "rejectattr", "reverse", "select",
                        "selectattr", "slice", "unique")
                    self.add("{{ " + (f"{expr}|list" if listed else expr) + " }}")

    def make(self):
        for name, arguments in FILTER_ARGUMENTS.items():
            of_lists = name in ("batch", "groupby", "join", "map", "max", "min", "reject", "rejectattr",
                                "select", "selectattr", "slice", "sort", "sum", "unique", "first",
                                "last", "list", "reverse")
            of_dicts = name in ("dictsort", "items")
            of_numbers = name in ("abs", "round", "int", "float")
            likely = LISTS if of_lists else DICTS if of_dicts else NUMBERS if of_numbers else TEXTS
            self.calls("filter", {name: arguments}, [likely, likely, likely, ANY], "|")
        self.calls("test", TEST_ARGUMENTS, [ANY], " is ")
        self.calls("method", STRING_METHODS, [TEXTS], ".")
        self.calls("method", LIST_METHODS, [["nums", "names", "mixed", "(1, 2)", "range(3)"]], ".")
        self.calls("method", DICT_METHODS, [DICTS], ".")
        for template in FORMATS:
            self.add("{{ " + template + " }}")
        for operator in OPERATORS:
            for _ in range(2 * self.count):
                self.add("{{ " + f"{self.any_of(ANY, NUMBERS)} {operator} {self.any_of(ANY, NUMBERS)}"
                         + " }}")
        for part in SLICES:
            for _ in range(self.count):
                self.add("{{ " + self.any_of(LISTS, TEXTS, NAMES) + part + " }}")
        for value in ANY:
            self.add("{{ " + value + " }}")
        for time in TIMES:
            self.add("{{ strftime_now('" + time + "') }}")
        for template in SPACES:
            self.add(template)
        for template in statements():
            for _ in range(self.count if "@" in template else 1):
                self.add(self.filled(template))
        return self.templates


class Programs:
    """Random templates of nested loops, conditions and macros that set and print three names."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.num_macros = 0

    def name(self):
        return self.random.choice(["a", "b", "i"])  # only `i` is a variable

    def expr(self):
        name = self.name()
        return self.random.choice([name, f"{name}|default('-')", "loop is defined", f"{name} ~ 'x'", "7",
                                   f"({name} or 3)", f"{name} is defined"])

    def block(self, depth):
        return "".join(self.statement(depth) for _ in range(self.random.randint(1, 4)))

    def statement(self, depth):
        kind = self.random.randint(0, 3 if depth == 0 else 11)
        inside = self.block(depth - 1) if kind > 3 else ""
        if kind < 2:
            return "{{ " + self.expr() + " }},"
        if kind < 4:
            return "{% set " + self.name() + " = " + self.expr() + " %}"
        if kind == 4:
            return "{% if " + self.expr() + " %}" + inside + "{% endif %}"
        if kind == 5:
            return ("{% if " + self.expr() + " %}" + inside + "{% else %}" + self.block(depth - 1)
                    + "{% endif %}")
        if kind < 8:
            test = self.random.choice(["", "", f" if {self.expr()}"])
            end = self.random.choice(["", "{% else %}" + self.block(depth - 1)])
            leave = self.random.choice(["", "", "{% if " + self.expr() + " %}{% break %}{% endif %}"])
            return ("{% for " + self.name() + " in [1, 0, 2]" + test + " %}" + inside + leave + end
                    + "{% endfor %}")
        if kind == 8:
            return "{% with " + self.name() + " = " + self.expr() + " %}" + inside + "{% endwith %}"
        if kind == 9:
            return "{% set " + self.name() + " %}" + inside + "{% endset %}"
        self.num_macros += 1
        macro = f"m{self.num_macros}"
        call = "{{ " + macro + "(" + self.random.choice(["", self.expr(), "b=" + self.expr()]) + ") }}"
        body = "{% macro " + macro + "(b=" + self.expr() + ") %}" + inside + "{% endmacro %}"
        return body + self.random.choice([call, self.block(0) + call, call + self.block(0) + call])

    def make(self, count):
        return [self.block(3) for _ in range(count)]


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def result(template):
    chat_template_utils.datetime = FixedTime
    try:
        # `indent` of a list changes the list.
        variables = copy.deepcopy(VARIABLES)
        text = chat_template_utils._compile_jinja_template(template).render(**variables)
    except Exception:
        return {"refused": True}
    # Where a value is in memory is of no interest.
    return {"refused": True} if " at 0x" in text or " object at " in text else {"text": text}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output", nargs="?", type=pathlib.Path,
                        default=ROOT / "tests/data/jinja/cases.jsonl")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=3)
    args = parser.parse_args()
    lines = [{"variables": VARIABLES}]
    programs = Programs(args.seed).make(30 * args.count)
    for template in Cases(args.seed, args.count).make() + programs:
        case = {"template": template, **result(template)}
        # Integers beyond 64 bits, complex numbers and sets are refused by pagedinfer alone; jinja2
        # compiles the power of a negative number to the negative of a power.
        if not (re.search(r"(?<![.\d])\d{20,}(?![.\d])|\dj\)", case.get("text", ""))
                or re.search(r"keys\(\) - |-7 \*\*", template)):
            lines.append(case)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    print(f"{len(lines) - 1} cases")


if __name__ == "__main__":
    main()
