#!/usr/bin/env python3
"""Trains a bundled model (a small Llama, Qwen3 or Gemma 3) and its tokenizer on make_stories.py's text.

  train_model.py --family qwen3 --train build/stories.jsonl --prompts datasets/prompts.jsonl \
                 --output datasets/story-qwen3

A step takes documents at random, sorts them by length and cuts them into micro-batches of nearly
equal lengths, so that every document starts at position 0 as in use, and little is padding. Answers
weigh more than stories, and the words of a question hardly anything, for they cannot be guessed.
Needs torch, transformers, tokenizers, sentencepiece, safetensors (versions in make_goldens.py).
"""

import argparse
import json
import math
import pathlib
import random
import shutil
import time

import torch
from torch.nn.functional import cross_entropy
from transformers import GenerationConfig

from small_models import FAMILIES, POSITIONS

TRAINED_LENGTH = 512
QUESTION_WEIGHT, ANSWER_WEIGHT, STORY_WEIGHT = 0.1, 4.0, 1.0


def read_lines(path, limit=None):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for _, line in zip(range(limit or 1 << 60), lines)]


def with_chats(documents, family, rng):
    """Every other question as a chat where the family has one: (prompt, completion, ends as chat)."""
    for d in documents:
        prompt, completion = d["prompt"], d["completion"]
        if family.chat and prompt and rng.random() < 0.5:
            before, after = family.chat(prompt.removesuffix("\nAnswer:").removeprefix("Question: "))
            yield before, completion.strip() + after
        else:
            yield prompt, completion


def encode(tokenizer, family, documents, rng):
    """Each document as (token ids with BOS and EOS, number of tokens of the prompt with BOS)."""
    documents = list(with_chats(documents, family, rng))
    prompts = tokenizer.encode([prompt for prompt, _ in documents])
    texts = tokenizer.encode([prompt + completion for prompt, completion in documents])
    encoded = []
    for prompt, text in zip(prompts, texts):
        assert text[:len(prompt)] == prompt
        ids = family.bos + text + family.eos
        if len(ids) <= TRAINED_LENGTH:
            encoded.append((ids, len(family.bos) + len(prompt)))
    return encoded


def padded(batch):
    """Rows are filled up with token 0, whose weight is 0. Inputs and targets (num_documents, length - 1), and the weight of each target."""
    length = max(len(ids) for ids, _ in batch)
    ids = torch.zeros(len(batch), length, dtype=torch.long)
    weights = torch.zeros(len(batch), length)
    for row, (tokens, num_prompt) in enumerate(batch):
        ids[row, :len(tokens)] = torch.tensor(tokens)
        weights[row, :num_prompt] = QUESTION_WEIGHT
        weights[row, num_prompt:len(tokens)] = ANSWER_WEIGHT if num_prompt > 1 else STORY_WEIGHT
    return ids[:, :-1], ids[:, 1:], weights[:, 1:]


def micro_batches(documents, max_tokens):
    """Documents of nearly equal lengths, at most max_tokens with padding."""
    batch = []
    for document in sorted(documents, key=lambda d: len(d[0])):
        if batch and (len(batch) + 1) * len(document[0]) > max_tokens:
            yield batch
            batch = []
        batch.append(document)
    yield batch


def evaluate(model, documents):
    """Mean loss of story and answer tokens, and the share of answers (and EOS) that greedy gets."""
    loss = count = right = answers = 0
    model.eval()
    with torch.no_grad():
        for batch in micro_batches(documents, 8192):
            inputs, targets, weights = padded(batch)
            logits = model(input_ids=inputs).logits.float()
            told = weights >= STORY_WEIGHT
            loss += cross_entropy(logits[told], targets[told], reduction="sum").item()
            count += int(told.sum())
            wrong = (told & (logits.argmax(-1) != targets)).any(1)
            asked = torch.tensor([num_prompt > 1 for _, num_prompt in batch])
            right += int((asked & ~wrong).sum())
            answers += int(asked.sum())
    model.train()
    return loss / count, right / max(answers, 1)


def make_optimizers(model, args):
    """Muon for the matrices of the layers, AdamW for the rest, each with its peak rate."""
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if all(p is not m for m in matrices)]
    return [(torch.optim.Muon(matrices, weight_decay=0.01), args.muon_lr),
            (torch.optim.AdamW(others, betas=(0.9, 0.98), weight_decay=0.01), args.lr)]


def schedule(step, done, args):
    """Share of the peak rate: a linear rise, then a cosine to nearly nothing at done = 1."""
    rise = min(1.0, (step + 1) / args.warmup)
    return rise * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))


def train(model, documents, checks, args, start):
    rng = random.Random(args.seed)
    optimizers = make_optimizers(model, args)
    model.train()
    for step in range(args.steps + 1):
        done = min(1.0, max(step / args.steps, (time.time() - start) / (60 * args.minutes)))
        if step % args.check_every == 0 or done == 1.0:
            scores = {kind: evaluate(model, some) for kind, some in checks.items()}
            print(f"step {step}  {time.time() - start:.0f} s  " + "  ".join(
                f"{kind} {loss:.3f}" + (f"/{right:.0%}" if kind != "story" else "")
                for kind, (loss, right) in scores.items()), flush=True)
        if done == 1.0:
            break
        chosen, num_tokens = [], 0
        while num_tokens < args.step_tokens:
            chosen.append(rng.choice(documents))
            num_tokens += len(chosen[-1][0])
        batches = [padded(batch) for batch in micro_batches(chosen, args.micro_tokens)]
        total = sum(float(weights.sum()) for _, _, weights in batches)
        for inputs, targets, weights in batches:
            logits = model(input_ids=inputs).logits
            losses = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
            ((losses * weights.flatten()).sum() / total).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, peak in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = peak * schedule(step, done, args)
            optimizer.step()
        model.zero_grad(set_to_none=True)


def save(model, family, directory):
    model.to(torch.bfloat16)
    model.generation_config = GenerationConfig(**family.special)
    model.save_pretrained(directory)
    settings = {**family.settings, "model_max_length": POSITIONS,
                "clean_up_tokenization_spaces": False}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", choices=FAMILIES, default="llama")
    parser.add_argument("--train", required=True, help="documents of make_stories.py --train")
    parser.add_argument("--prompts", required=True, help="held-out prompts, to watch the accuracy")
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("--init", type=pathlib.Path, metavar="DIR",
                        help="go on from this model and tokenizer instead of from nothing")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--minutes", type=float, default=38,
                        help="on a busy machine, end the schedule by then with fewer steps [38]")
    parser.add_argument("--step-tokens", type=int, default=2048)
    parser.add_argument("--micro-tokens", type=int, default=1024)
    parser.add_argument("--lr", type=float, default=4e-3, help="of AdamW [4e-3]")
    parser.add_argument("--muon-lr", type=float, default=2e-2, help="of Muon [2e-2]")
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--check-every", type=int, default=100)
    parser.add_argument("--vocab-size", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    start = time.time()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    args.output.mkdir(parents=True, exist_ok=True)

    family = FAMILIES[args.family]
    documents = read_lines(args.train)
    if args.init is None:
        texts = (d["prompt"] + d["completion"] for d in documents[:40_000])
        family.train_tokenizer(texts, args.output, args.vocab_size)
    else:
        for name in args.init.glob("tokenizer.*"):
            shutil.copy(name, args.output)
    tokenizer = family.load_tokenizer(args.output)
    rng = random.Random(f"chats {args.seed}")
    held_out = [d for d in read_lines(args.prompts) if "answer" in d]
    checks = {}
    for d in held_out:
        kind = d["id"].split("-")[0]
        checks.setdefault(kind, []).append({"prompt": d["prompt"], "completion": " " + d["answer"]})
    checks = {kind: encode(tokenizer, family, some, rng) for kind, some in checks.items()}
    encoded = encode(tokenizer, family, documents, rng)
    stories = [d for d in encoded[:4000] if d[1] == len(family.bos)]
    checks["story"], encoded = stories[:200], encoded[4000:]
    num_tokens = sum(len(ids) for ids, _ in encoded)
    model = family.new_model(args.vocab_size)
    if args.init is not None:
        model = type(model).from_pretrained(args.init, dtype=torch.float32)
    print(f"{len(encoded)} documents, {num_tokens} tokens, {model.num_parameters()} parameters, "
          f"{time.time() - start:.0f} s", flush=True)
    train(model, encoded, checks, args, start)
    save(model, family, args.output)


if __name__ == "__main__":
    main()
