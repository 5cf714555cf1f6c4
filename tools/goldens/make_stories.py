#!/usr/bin/env python3
"""Writes the training text of the bundled model and the demo prompts.

  make_stories.py --train build/stories.jsonl --documents 150000   training documents
  make_stories.py --prompts datasets/prompts.jsonl                 held-out demo prompts

A training line is {"kind", "prompt", "completion"}: the document is prompt + completion, and a story
has an empty prompt. Everything follows from --seed.

Held out by construction: a document's key holds its facts (the operands of a sum, the kind of
question and the word, the numbers to sort, the coloured things, or the opening of a story). Keys
whose CRC-32 is divisible by 8 are never trained on, and the demo prompts use only those.
"""

import argparse
import json
import random
import zlib

from story_grammar import COLOURS, THINGS, filler, pick_people, tell, tidy, words_to_spell

VOWELS, CONSONANTS = "aeiou", "bcdfghjklmnprstvwz"
LIMIT = 25  # of the operands of sums and of both parts of differences


def is_held_out(key):
    return zlib.crc32(key.encode()) % 8 == 0


def question(text):
    return f"Question: {text}\nAnswer:"


def counted(number, thing):
    return f"{number} {thing}" + ("" if number == 1 else "s")


def make_sum(rng):
    a, b = rng.randint(0, LIMIT), rng.randint(0, LIMIT)
    (name, *_), thing = pick_people(rng)[0], rng.choice(THINGS)
    text = rng.choice([f"What is {a} + {b}?"] * 3 + [
        f"What is {a} plus {b}?", f"How much is {a} + {b}?",
        f"{name} has {counted(a, thing)} and finds {b} more. "
        f"How many {thing}s does {name} have now?"])
    return f"sum {min(a, b)} {max(a, b)}", question(text), f" {a + b}"


def make_difference(rng):
    b, rest = rng.randint(0, LIMIT), rng.randint(0, LIMIT)
    a = b + rest
    (name, *_), thing = pick_people(rng)[0], rng.choice(THINGS)
    text = rng.choice([f"What is {a} - {b}?"] * 3 + [
        f"What is {a} minus {b}?", f"How much is {a} - {b}?",
        f"{name} has {counted(a, thing)} and gives away {b}. "
        f"How many {thing}s does {name} have now?"])
    return f"difference {a} {b}", question(text), f" {rest}"


def some_word(rng):
    if rng.random() < 0.5:
        return rng.choice(words_to_spell())
    return "".join(rng.choice(CONSONANTS) + rng.choice(VOWELS) for _ in range(rng.randint(1, 3))) + (
        rng.choice(CONSONANTS) if rng.random() < 0.7 else "")


def spaced(word):
    return " ".join(word)


def make_first(rng):
    word = some_word(rng)
    text = rng.choice([f"What is the first letter of {spaced(word)}?",
                       f"Which letter does {spaced(word)} start with?"])
    return f"first {word}", question(text), f" {word[0]}"


def make_last(rng):
    word = some_word(rng)
    text = rng.choice([f"What is the last letter of {spaced(word)}?",
                       f"Which letter does {spaced(word)} end with?"])
    return f"last {word}", question(text), f" {word[-1]}"


def make_count(rng):
    word = some_word(rng)
    text = rng.choice([f"How many letters are in {spaced(word)}?",
                       f"How many letters does {spaced(word)} have?"])
    return f"count {word}", question(text), f" {len(word)}"


def make_backwards(rng):
    word = some_word(rng)
    while len(word) > 5:
        word = some_word(rng)
    text = rng.choice([f"What is {spaced(word)} backwards?", f"Write {spaced(word)} backwards."])
    return f"backwards {word}", question(text), " " + spaced(word[::-1])


def make_sort(rng):
    numbers = rng.sample(range(1, 21), rng.choice([3, 3, 4]))
    listed = ", ".join(map(str, numbers))
    text = rng.choice([f"Sort these numbers: {listed}.",
                       f"Put {listed} in order, from small to large."])
    return f"sort {listed}", question(text), " " + ", ".join(map(str, sorted(numbers)))


def make_alphabet(rng):
    words = rng.sample(THINGS, 3)
    listed = ", ".join(words)
    text = rng.choice([f"Sort these words by the alphabet: {listed}.",
                       f"Put {listed} in the order of the alphabet."])
    return f"alphabet {listed}", question(text), " " + ", ".join(sorted(words))


def make_colour(rng, num_things=None, num_fillers=None):
    """A story that gives things their colours, and a question about one of them."""
    num_things = num_things or rng.choice([1, 1, 2, 2, 3, 3, 4, 5, 8])
    if num_fillers is None:
        num_fillers = rng.randint(6, 52) if rng.random() < 0.06 else rng.choice([0, 0, 0, 1, 2, 3])
    people = [name for name, _ in pick_people(rng, min(num_things, 4))]
    facts = [(thing, rng.choice(COLOURS)) for thing in rng.sample(THINGS, num_things)]
    sentences = []
    for thing, colour in facts:
        who = rng.choice(people)
        sentences.append(rng.choice([f"{who} has a {thing}, and the {thing} is {colour}.",
                                     f"{who} found a {thing}. The {thing} is {colour}.",
                                     f"The {thing} is {colour}."]))
    for _ in range(num_fillers):
        sentences.insert(rng.randint(0, len(sentences)), filler(rng, rng.choice(people)))
    thing, colour = rng.choice(facts)
    asked = rng.choice([f"What colour is the {thing}?", f"Which colour does the {thing} have?"])
    key = "colours " + ", ".join(sorted(f"{colour} {thing}" for thing, colour in facts))
    return key, tidy(" ".join(sentences)) + "\n" + question(asked), f" The {thing} is {colour}."


def make_story(rng, num_plots=None):
    sentences = tell(rng, num_plots or rng.choice([1, 1, 1, 1, 2, 3]))
    return "story " + sentences[0] + sentences[1], "", " ".join(sentences)


QUESTIONS = {  # kind: (maker, share of the documents, number of demo prompts, max_tokens)
    "sum": (make_sum, 18, 35, 8),
    "difference": (make_difference, 22, 35, 8),
    "first": (make_first, 3, 15, 8),
    "last": (make_last, 2, 15, 8),
    "count": (make_count, 3, 15, 8),
    "backwards": (make_backwards, 10, 15, 24),
    "sort": (make_sort, 9, 25, 24),
    "alphabet": (make_alphabet, 9, 15, 24),
    "colour": (make_colour, 20, 50, 16),
}
STORY_SHARE, NUM_STORY_PROMPTS = 3, 140


def write_training(path, num_documents, rng):
    makers = {kind: maker for kind, (maker, *_) in QUESTIONS.items()} | {"story": make_story}
    shares = [share for _, share, _, _ in QUESTIONS.values()] + [STORY_SHARE]
    kinds = list(makers)
    with open(path, "w", encoding="utf-8") as out:
        while num_documents > 0:
            kind = rng.choices(kinds, shares)[0]
            key, prompt, completion = makers[kind](rng)
            if is_held_out(key):
                continue
            line = {"kind": kind, "prompt": prompt, "completion": completion}
            out.write(json.dumps(line) + "\n")
            num_documents -= 1


def held_out(make, seen):
    while True:
        key, prompt, completion = make()
        if is_held_out(key) and (key, prompt) not in seen:
            seen.add((key, prompt))
            return prompt, completion


def story_prompt(rng, i, seen):
    """The first sentences of a held-out story; a few end inside a sentence, a few are long."""
    num_plots = 3 if i % 10 == 0 else 1
    text = held_out(lambda: make_story(rng, num_plots), seen)[1]
    words = text.split(" ")
    cut = len(words) * 3 // 5 if i % 10 == 0 else rng.choice([3, 5, 8, 12, 20, 30])
    if i % 3:
        while cut < len(words) - 8 and words[cut - 1][-1] not in ".!?":
            cut += 1
    return " ".join(words[:cut])


def write_prompts(path, rng):
    lines, seen = [], set()
    for i in range(NUM_STORY_PROMPTS):
        lines.append({"id": f"story-{i + 1:03}", "prompt": story_prompt(rng, i, seen),
                      "max_tokens": rng.choice([64, 96, 128, 160, 200])})
    for kind, (maker, _, count, max_tokens) in QUESTIONS.items():
        for i in range(count):
            # One coloured thing, half of them in long stories: with more the model has to guess.
            size = () if kind != "colour" else (1, i + 7) if i % 2 else (1, i % 4)
            prompt, completion = held_out(lambda: maker(rng, *size), seen)
            lines.append({"id": f"{kind}-{i + 1:03}", "prompt": prompt, "max_tokens": max_tokens,
                          "answer": completion.strip()})
    rng.shuffle(lines)
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(json.dumps(line) + "\n" for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", metavar="FILE", help="write training documents here")
    parser.add_argument("--documents", type=int, default=150_000, help="how many [150000]")
    parser.add_argument("--prompts", metavar="FILE", help="write the demo prompts here")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.train:
        write_training(args.train, args.documents, random.Random(f"train {args.seed}"))
    if args.prompts:
        write_prompts(args.prompts, random.Random(f"prompts {args.seed}"))


if __name__ == "__main__":
    main()
