#!/usr/bin/env python3
"""Prints the share of right answers in a completions file, per kind of question and in total.

  score_answers.py [PROMPTS] COMPLETIONS [--verbose]

A line of PROMPTS with an "answer" is a question; its completion is the record with the "index" of the
line. Without PROMPTS a record has its line, or the line's id and answer, as "input" (--keep). The completion is right when its text, stripped, equals the answer. An answer that ends in
"#### NUMBER", as in GSM8K, is compared with the last number of the text. The first of several
completions counts. An error record and a missing completion count as wrong. The kind of a question is
its id up to the last dash.
"""

import argparse
import json
import re

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def read_lines(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def text_of(record):
    """The text of a record, or None."""
    body = record["response"]["body"] if record.get("response") else record
    first = body.get("choices", [body])[0]
    return first.get("message", {}).get("content") or first.get("text")


def is_right(text, answer):
    _, mark, number = answer.rpartition("####")
    if not mark:
        return text.strip() == answer
    found = NUMBER.findall(text)
    return bool(found) and float(found[-1].replace(",", "")) == float(number.replace(",", ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prompts", nargs="?")
    parser.add_argument("completions")
    parser.add_argument("--verbose", action="store_true", help="list the wrong answers")
    args = parser.parse_args()

    records = read_lines(args.completions)
    texts = {record["index"]: text_of(record) for record in records}
    prompts = dict(enumerate(read_lines(args.prompts))) if args.prompts else {
        record["index"]: record.get("input", {}) for record in records}
    scores = {}  # kind: [right, asked]
    total = [0, 0]
    for index, prompt in sorted(prompts.items()):
        if "answer" not in prompt:
            continue
        text = texts.get(index)
        right = text is not None and is_right(text, prompt["answer"])
        kind = str(prompt.get("id", "")).rpartition("-")[0]
        for score in [total, *([scores.setdefault(kind, [0, 0])] if kind else [])]:
            score[0] += right
            score[1] += 1
        if args.verbose and not right:
            found = "no completion" if text is None else repr(text.strip())
            print(f"line {index + 1}: expected {prompt['answer']!r}, got {found}")

    for kind, (right, asked) in [*sorted(scores.items()), ("total", total)]:
        print(f"{kind:12} {right:4} of {asked:4}  {right / max(asked, 1):6.1%}")


if __name__ == "__main__":
    main()
