#!/usr/bin/env python3
"""Writes templates over rows and what Python's jinja2 makes of them, with StrictUndefined and the
block settings of chat templates, to tests/data/jinja/rows.jsonl.

    pip install jinja2
    tools/goldens/make_row_templates.py [OUTPUT]

A line is {"template", "row", "text"}, or "undefined": true in place of the text if jinja2 meets an
undefined value, or "failed": true if it fails otherwise."""
import argparse
import json
import pathlib

import jinja2
import jinja2.sandbox

ROOT = pathlib.Path(__file__).resolve().parents[2]

ROWS = [
    {"id": "gsm-1", "question": "Ada has 3 pens and buys 4. How many?", "answer": "3 + 4 = 7\n#### 7"},
    {"id": 2, "question": "  Wo ist \u00dc\u00df? \U0001f642 ", "answer": None, "n": 3, "price": 1.50, "big": 12345678901234567890},
    {"text": "a\tb\\c \"d\" 'e' <b>&amp;</b>", "tags": ["red", "blue"], "meta": {"lang": "de", "year": 1999, "none": None},
     "ok": True, "zero": 0, "empty": "", "tiny": 1e-7, "huge": 1e22, "Full Name": "Zo\u00eb", "in": "keyword"},
    {"row": "a column of this name", "range": "r", "loop": "l", "choices": ["4", "5", "6"], "label": 1},
]
TEMPLATES = [
    "Q: {{ question }}\nA:",
    "Q: {{ question }}\nA:\n",
    "Q: {{ question | trim }} ({{ id }})",
    "{{ question }}{{ answer }}",
    "{{ n }} {{ price }} {{ big }} {{ answer }}",
    "{{ n + 1 }} {{ price * 2 }} {{ '%.2f' % price }} {{ '%.2f' | format(price) }}",
    "{{ text }}|{{ text | e }}|{{ text | length }}|{{ text | upper }}",
    "{{ tags }} {{ tags | join(', ') }} {{ tags[0] }} {{ tags[-1] }}",
    "{{ tags[5] }}",
    "{{ meta.lang }} {{ meta['year'] }} {{ meta }} {{ meta.none }}",
    "{{ meta.author }}",
    "{{ meta['author'] | default('anyone') }}",
    "{{ ok }} {{ zero }} [{{ empty }}] {{ tiny }} {{ huge }}",
    "{{ row['Full Name'] }} {{ row['in'] }} {{ row.ok }}",
    "{{ row }}",
    "{{ row['loop'] }} {{ loop }} {{ range }}",
    "{{ row['nothing'] }}",
    "{{ nothing }}",
    "{{ nothing | default('-') }}{{ nothing | d('+') }}",
    "{{ nothing | trim | default('-') }}",
    "{% if nothing is defined %}yes{% else %}no{% endif %}",
    "{% if question is not undefined %}yes{% else %}no{% endif %}",
    "{% if nothing %}yes{% else %}no{% endif %}",
    "{% if answer %}yes{% else %}no{% endif %}",
    "{{ answer or 'no answer' }}",
    "{{ nothing or 'no answer' }}",
    "{{ 'x' if nothing else 'y' }}",
    "{{ 'x' if zero }}",
    "{{ 'x' if ok }}",
    "{% for tag in tags %}\n- {{ loop.index }}. {{ tag }}\n{% endfor %}\nend",
    "{% for tag in nothing %}{{ tag }}{% endfor %}",
    "{% for choice in choices %}\n{{ 'ABC'[loop.index0] }}) {{ choice }}\n{% endfor %}\nAnswer: {{ 'ABC'[label] }}",
    "{% for choice in choices if choice != '5' %}{{ choice }}{{ ', ' if not loop.last }}{% endfor %}",
    "{% set words = question.split() %}{{ words | length }} {{ words | first }} {{ words[-1] }}",
    "{% set q = question | replace('pens', 'cups') %}{{ q }}",
    "{{ answer.split('####')[-1].strip() }}",
    "{# a comment #}\n{{ question }}\n{%- if answer %}\n  {{ answer }}\n{%- endif %}",
    "  {% if ok %}\n  {{ text }}\n  {% endif %}\n",
    "{% raw %}{{ question }}{% endraw %} {{ question }}",
    "{{ row | tojson }}",
    "{{ tags | map('upper') | join('/') }} {{ tags | reverse | list }}",
    "{{ [meta] | map(attribute='lang') | join }}",
    "{{ [meta] | map(attribute='author') | join }}",
    "{{ [meta] | map(attribute='author', default='?') | join }}",
    "{{ question[:10] }}...{{ question | truncate(12) }}",
    "{{ 1 // zero }}",
    "{{ question + n }}",
    "{{ question ~ n }}",
    "{{ [] | first }}",
    "{% macro ask(q, a='?') %}Q: {{ q }} A: {{ a }}{% endmacro %}{{ ask(question) }}",
    "{% macro ask(q) %}Q: {{ q }}{% endmacro %}{{ ask() }}",
    "{{ question == 'x' }} {{ id in ['gsm-1', 2] }} {{ 'pens' in question }}",
    "{{ nothing == 'x' }}",
]


def result(environment, template, row):
    try:
        return {"text": environment.from_string(template).render({"row": row, **row})}
    except jinja2.UndefinedError:
        return {"undefined": True}
    except Exception:
        return {"failed": True}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", nargs="?", type=pathlib.Path, default=ROOT / "tests/data/jinja/rows.jsonl")
    output = parser.parse_args().output
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    # As transformers: JSON for people.
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    cases = [{"template": template, "row": row, **result(environment, template, row)}
             for template in TEMPLATES for row in ROWS]
    # Words for values that cannot be printed name places in memory.
    cases = [case for case in cases if "<class" not in case.get("text", "")]
    output.write_text("".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases))
    print(f"{len(cases)} cases")


if __name__ == "__main__":
    main()
