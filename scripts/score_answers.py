#!/usr/bin/env python3
"""Prints the share of right answers in a completions file, per kind of question and in total.

  score_answers.py datasets/prompts.jsonl datasets/prompts.completions.jsonl [--verbose]

A prompt line with an "answer" is a question, and its kind is its id up to the last dash. The
completion of the same id is right when its text, stripped, equals the answer. An error record and a
missing completion count as wrong.
"""

import argparse
import json


def read_lines(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prompts")
    parser.add_argument("completions")
    parser.add_argument("--verbose", action="store_true", help="list the wrong answers")
    args = parser.parse_args()

    texts = {record["id"]: record.get("text") for record in read_lines(args.completions)}
    scores = {}  # kind: [right, asked]
    for prompt in read_lines(args.prompts):
        if "answer" not in prompt:
            continue
        text = texts.get(prompt["id"])
        right = text is not None and text.strip() == prompt["answer"]
        score = scores.setdefault(prompt["id"].rpartition("-")[0], [0, 0])
        score[0] += right
        score[1] += 1
        if args.verbose and not right:
            question = prompt["prompt"].split("\n")[-2:]
            found = "no completion" if text is None else repr(text.strip())
            print(f"{prompt['id']}: {' '.join(question)} expected {prompt['answer']!r}, got {found}")

    scores = dict(sorted(scores.items()))
    scores["total"] = [sum(column) for column in zip(*scores.values())] or [0, 0]
    for kind, (right, asked) in scores.items():
        print(f"{kind:12} {right:4} of {asked:4}  {right / max(asked, 1):6.1%}")


if __name__ == "__main__":
    main()
