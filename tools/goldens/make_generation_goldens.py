#!/usr/bin/env python3
"""Writes what transformers generates by what a generation_config.json says, for the tests to
compare with.

  make_generation_goldens.py --model datasets/story-llama --prompts datasets/prompts.jsonl \
                             --output tests/data/story-llama/generation.jsonl

Needs exactly torch 2.13.0 and transformers 5.23.0, and what the model's tokenizer needs. Greedy, in
float32. One record a line: "generation_config" is the whole file, "completions" a list of "prompt",
"prompt_tokens", "max_tokens" and "token_ids". Completions in which two logits were nearly the same
are left out.
"""

import json

import torch
import transformers

from make_goldens import begin, encoder, load, read_prompts

MAX_TOKENS = (1, 24)
NUM_PROMPTS = 6
MIN_MARGIN = 1e-2


def settings(usual):
    """What a model's authors may write. `usual` are tokens that completions have: the first tokens,
    and others."""
    first, others = usual
    yield {}
    yield {"suppress_tokens": others[:3] + [-1, 1 << 40]}
    yield {"begin_suppress_tokens": first[:4]}
    yield {"suppress_tokens": others[:2], "begin_suppress_tokens": first[:2]}
    yield {"min_new_tokens": 12}
    yield {"min_length": 24}
    yield {"min_length": 200, "min_new_tokens": 5}
    yield {"forced_eos_token_id": 2}
    yield {"forced_eos_token_id": [others[0], 2], "min_new_tokens": 24}
    yield {"forced_eos_token_id": others[1]}
    yield {"bad_words_ids": [[others[0]], [others[4]], [2]]}
    yield {"bad_words_ids": [[others[2]]], "suppress_tokens": [others[1]], "repetition_penalty": 1.3}
    yield {"stop_strings": ["the", ". "]}
    yield {"stop_strings": "was"}
    yield {"min_new_tokens": 20, "stop_strings": ["the", ". "]}
    yield {"min_length": 40, "stop_strings": [" "], "forced_eos_token_id": 2}


def generate(model, tokenizer, config, ids, max_tokens):
    """Token ids, and the least lead of the best logit where it decides."""
    made = model.generate(torch.tensor([ids]), generation_config=config, max_new_tokens=max_tokens,
                          output_scores=True, return_dict_in_generate=True, tokenizer=tokenizer)
    margin = min((float(best[0, 0] - best[0, 1])
                  for best in (scores.topk(2).values for scores in made.scores)
                  if best[0, 0] != 0),  # which all forced ends have
                 default=float("inf"))
    return made.sequences[0, len(ids):].tolist(), margin


def main():
    args = begin(__doc__)

    model, encode = load(args.model, torch.float32), encoder(args.model)
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    own = json.loads((args.model / "generation_config.json").read_text())
    prompts = [p["prompt"] for p in read_prompts(args.prompts)[:NUM_PROMPTS]]
    plain = transformers.GenerationConfig(**own)
    made = [generate(model, tokenizer, plain, encode(p), 24)[0] for p in prompts]
    first = sorted({ids[0] for ids in made})
    others = sorted({token for ids in made for token in ids[1:]} - set(first) - {2},
                    key=lambda token: -sum(ids.count(token) for ids in made))
    with open(args.output, "w", encoding="utf-8") as output:
        for more in settings((first, others)):
            # An id that no int32 holds is not for the reference.
            known = {key: [i for i in value if i < 1 << 31] if key == "suppress_tokens" else value
                     for key, value in more.items()}
            config = transformers.GenerationConfig(**own | known)
            completions = []
            for prompt in prompts:
                ids = encode(prompt)
                for max_tokens in MAX_TOKENS:
                    token_ids, margin = generate(model, tokenizer, config, ids, max_tokens)
                    if margin < MIN_MARGIN:
                        continue
                    completions.append({"prompt": prompt, "prompt_tokens": len(ids),
                                        "max_tokens": max_tokens, "token_ids": token_ids})
            record = {"generation_config": own | more, "completions": completions}
            output.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
