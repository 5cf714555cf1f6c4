#!/usr/bin/env python3
"""Writes which beams transformers finds, for the tests to compare with.

  make_beam_goldens.py --output tests/data/beams.jsonl
  make_beam_goldens.py --model datasets/story-llama --prompts datasets/prompts.jsonl \
                       --output tests/data/story-llama/beams.jsonl

Needs exactly torch 2.13.0 and transformers 5.23.0, and what the model's tokenizer needs. Every line
but the first of the first form is a search: "prompt", "width", "length_penalty", "early_stopping",
"ends" (the tokens that end a completion), "max_tokens", and "beams", best first: "tokens", and
"score" in float32.

Without a model the logits after a token are that token's row of a table, and "prompt" is a token.
The first line is {"log_probs": [row, ...]}, 9 significant digits each. With a model, in float32,
searches are left out that find something else in float64.
"""

import argparse
import itertools
import json
import pathlib

import torch
import transformers
from transformers.modeling_outputs import CausalLMOutputWithPast

from make_goldens import encoder, load, pinned, read_prompts, rounded

VOCAB = 40
NUM_PROMPTS = 8


class Table(transformers.PreTrainedModel, transformers.GenerationMixin):
    config_class = transformers.PretrainedConfig

    def __init__(self, config, logits):
        super().__init__(config)
        self.table = torch.nn.Parameter(logits, requires_grad=False)

    def forward(self, input_ids, **_):
        return CausalLMOutputWithPast(logits=self.table[input_ids])


def search(model, ids, settings, use_cache):
    """The beams that transformers finds, best first."""
    width = settings["width"]
    config = transformers.GenerationConfig(
        num_beams=width, num_return_sequences=width, length_penalty=settings["length_penalty"],
        early_stopping=settings["early_stopping"], max_new_tokens=settings["max_tokens"],
        pad_token_id=0, eos_token_id=settings["ends"] or None, do_sample=False,
        use_cache=use_cache, return_dict_in_generate=True, output_scores=True, output_logits=True)
    made = model.generate(torch.tensor([ids]), generation_config=config)
    beams = []
    for tokens, score, chosen in zip(made.sequences, made.sequences_scores, made.beam_indices):
        end = len(ids) + int((chosen >= 0).sum())
        beams.append({"tokens": tokens[len(ids):end].tolist(),
                      "score": float(f"{float(score):.9g}")})
    return beams


def tables():
    torch.manual_seed(3)
    logits = 2.5 * torch.randn(VOCAB, VOCAB)
    logits[:, :4] += 1.5  # ends are likely
    config = transformers.PretrainedConfig(vocab_size=VOCAB, is_encoder_decoder=False)
    config.num_hidden_layers = 1
    model = Table(config, logits).eval()
    yield {"log_probs": [rounded(row) for row in torch.log_softmax(logits, dim=-1)]}
    cases = itertools.product((2, 4, 8), (-0.5, 0.6, 1.0, 2.0), (True, False, "never"),
                              ([], [0], [0, 1, 3]), (1, 2, 9, 24))
    for number, (width, penalty, early, ends, max_tokens) in enumerate(cases):
        prompt = 4 + number % (VOCAB - 4)
        settings = {"prompt": prompt, "width": width, "length_penalty": penalty,
                    "early_stopping": early, "ends": ends, "max_tokens": max_tokens}
        yield settings | {"beams": search(model, [prompt], settings, False)}


def models(path, prompts):
    model, encode = load(path, torch.float32), encoder(path)
    exact = load(path, torch.float64)
    eos = json.loads((path / "generation_config.json").read_text())["eos_token_id"]
    eos = eos if isinstance(eos, list) else [eos]
    texts = sorted((p["prompt"] for p in read_prompts(prompts)), key=len)
    texts = texts[:: len(texts) // NUM_PROMPTS][:NUM_PROMPTS]
    # Two more ends, so that beams end early and often: frequent tokens of completions.
    frequent = [t for t in encode("The cat has a red hat. The dog was happy.") if t not in eos]
    cases = itertools.product((2, 4, 8), (0.6, 1.0, 2.0), (True, False, "never"),
                              (eos, eos + frequent[-3:-1]))
    for number, (width, penalty, early, ends) in list(enumerate(cases))[::4]:
        text = texts[number % len(texts)]
        settings = {"prompt": text, "width": width, "length_penalty": penalty,
                    "early_stopping": early, "ends": ends, "max_tokens": (2, 8, 16)[number % 3]}
        ids = encode(text)
        beams = search(model, ids, settings, True)
        certain = search(exact, ids, settings, True)
        if [b["tokens"] for b in beams] == [b["tokens"] for b in certain]:
            yield settings | {"beams": beams}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--prompts", type=pathlib.Path)
    parser.add_argument("--output", required=True)
    args = parser.parse_args()
    pinned("torch"), pinned("transformers")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    with open(args.output, "w", encoding="utf-8") as output:
        for record in models(args.model, args.prompts) if args.model else tables():
            output.write(json.dumps(record, separators=(",", ":")) + "\n")
            output.flush()


if __name__ == "__main__":
    main()
