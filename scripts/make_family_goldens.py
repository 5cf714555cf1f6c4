#!/usr/bin/env python3
"""Writes what transformers computes with tiny models of every family, for the tests to compare with.

  make_family_goldens.py --output tests/data/families

Needs exactly torch 2.13.0 and transformers 5.23.0. The weights are those of --weights dummy
(src/model/dummy.h), so that no checkpoint is kept. One file per model, NAME.json:

  config     config.json
  sequences  [{"token_ids", "positions", "float32": [row, ...], "bfloat16": [row, ...]}]: the logits
             after some positions, computed with all weights and activations of that type.
  greedy     {"prompt", "token_ids", "min_margin"} in float32. min_margin is the least lead of the
             best logit.
"""

import argparse
import json
import pathlib
import random

import torch
import transformers

from make_goldens import logits_of, pinned, rounded

MASK = (1 << 64) - 1
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu"}
MISTRAL = {"architectures": ["MistralForCausalLM"], "model_type": "mistral"}
QWEN2 = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}
QWEN3 = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": False}
GEMMA3 = {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text",
          "hidden_activation": "gelu_pytorch_tanh"}
SLIDE, FULL = "sliding_attention", "full_attention"


def sizes(hidden, heads, kv_heads, intermediate, vocab, layers=3, **more):
    return {"hidden_size": hidden, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
            "intermediate_size": intermediate, "vocab_size": vocab, "num_hidden_layers": layers,
            "max_position_embeddings": 512, "torch_dtype": "bfloat16"} | more


LLAMA3_ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32}
MODELS = {
    "llama-llama3-rope": LLAMA | sizes(20, 2, 1, 30, 41, rope_scaling=LLAMA3_ROPE, rope_theta=500.0),
    "llama-linear-rope-tied": LLAMA | sizes(
        24, 4, 2, 33, 37, head_dim=10, tie_word_embeddings=True, rms_norm_eps=1e-5,
        rope_scaling={"type": "linear", "factor": 2.5}),
    "mistral-window-7": MISTRAL | sizes(24, 4, 2, 35, 43, sliding_window=7, rope_theta=1e6),
    "mistral-no-window": MISTRAL | sizes(20, 2, 2, 31, 40, sliding_window=None, head_dim=6,
                                         rope_parameters={"rope_type": "default", "rope_theta": 300.0}),
    "ministral-alternating": MISTRAL | sizes(
        20, 2, 1, 33, 42, head_dim=10, sliding_window=5, layer_types=[SLIDE, FULL, SLIDE],
        rope_parameters={"rope_type": "default", "rope_theta": 700.0}),
    "qwen2-bias": QWEN2 | sizes(24, 4, 1, 26, 39, use_sliding_window=False, sliding_window=4,
                                max_window_layers=1, rope_theta=1e6),
    "qwen2-windows-tied": QWEN2 | sizes(
        18, 3, 1, 40, 38, use_sliding_window=True, sliding_window=1, max_window_layers=2,
        layer_types=[SLIDE, FULL, SLIDE], tie_word_embeddings=True),
    "qwen3-tied": QWEN3 | sizes(20, 4, 2, 29, 45, head_dim=14, tie_word_embeddings=True,
                                rope_theta=1e6, use_sliding_window=False),
    "qwen3-upper-windows": QWEN3 | sizes(
        24, 2, 1, 40, 36, head_dim=8, use_sliding_window=True, sliding_window=24,
        max_window_layers=1, rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 5e3}),
    "gemma3-old-config": GEMMA3 | sizes(
        24, 4, 1, 35, 42, head_dim=8, sliding_window=4, sliding_window_pattern=3,
        query_pre_attn_scalar=24, rope_theta=2e3, rope_local_base_freq=50.0,
        rope_scaling={"rope_type": "linear", "factor": 8.0}),
    "gemma3-new-config-untied": GEMMA3 | sizes(
        28, 2, 1, 27, 44, head_dim=10, sliding_window=1, layer_types=[FULL, SLIDE, FULL],
        query_pre_attn_scalar=10, tie_word_embeddings=False,
        rope_parameters={FULL: {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4},
                         SLIDE: {"rope_type": "default", "rope_theta": 100.0}}),
    "gemma3-pictures": {
        "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
        "eos_token_id": [1, 6], "torch_dtype": "bfloat16",
        "text_config": {"model_type": "gemma3_text"} | sizes(
            24, 8, 4, 30, 46, layers=7, head_dim=6, sliding_window=24)},
}
LENGTHS = (1, 9, 24, 290)


def dummy_weights(name, shape, center, amplitude):
    """Element i of 256 equally spaced values, rounded to bfloat16, has one by the i-th random byte."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 & MASK
    count, data = shape.numel(), bytearray()
    while len(data) < count:
        z = seed + (len(data) // 8 + 1) * 0x9E3779B97F4A7C15 & MASK
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        data += (z ^ z >> 31).to_bytes(8, "little")
    unit = (2 * torch.arange(256, dtype=torch.float32) - 255) / 256
    values = (center + unit * amplitude).bfloat16().float()
    return values[torch.tensor(list(data[:count]))].reshape(shape)


def fill(model, prefix, center_of_norms):
    """`prefix` stands before the names that the text model alone would have."""
    for name, parameter in model.named_parameters():
        if name.endswith("norm.weight"):
            center, amplitude = center_of_norms, 0.25
        elif name.endswith(".bias"):
            center, amplitude = 0.0, 0.25
        else:
            center = 0.0
            amplitude = torch.sqrt(torch.tensor(3.0) / torch.tensor(float(parameter.shape[1])))
        parameter.copy_(dummy_weights(prefix + name, parameter.shape, center, amplitude))


def make_model(config, dtype):
    text = config.get("text_config", config)
    classes = {"llama": "Llama", "mistral": "Ministral" if "layer_types" in text else "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3",
               "gemma3_text": "Gemma3"}
    name = classes[text["model_type"]]
    config_class = "Gemma3TextConfig" if name == "Gemma3" else name + "Config"
    read = getattr(transformers, config_class).from_dict(json.loads(json.dumps(text)))
    model = getattr(transformers, name + "ForCausalLM")._from_config(read, dtype=dtype).eval()
    fill(model, "language_model." if text is not config else "", 0.0 if name == "Gemma3" else 1.0)
    return model


def complete(model, ids, count):
    """Greedy, the whole sequence anew for every token (a cache of the reference's own keeps too much
    for a window of 1): the token ids and the least lead met."""
    known, margin = list(ids), float("inf")
    for _ in range(count):
        best = logits_of(model, known)[-1].topk(2)
        margin = min(margin, float(best.values[0] - best.values[1]))
        known.append(int(best.indices[0]))
    return known[len(ids):], margin


def golden(config, random_ids):
    exact, coarse = make_model(config, torch.float32), make_model(config, torch.bfloat16)
    vocab = config.get("text_config", config)["vocab_size"]
    sequences = []
    for length in LENGTHS:
        ids = [random_ids.randrange(vocab) for _ in range(length)]
        count = 2 if length > 100 else 6
        positions = sorted({round(i * (length - 1) / (count - 1)) for i in range(count)})
        record = {"token_ids": ids, "positions": positions}
        for name, model in (("float32", exact), ("bfloat16", coarse)):
            rows = logits_of(model, ids)
            record[name] = [rounded(rows[position]) for position in positions]
        sequences.append(record)
    prompt = sequences[1]["token_ids"]
    completion, margin = complete(exact, prompt, 24)
    return {"config": config, "sequences": sequences,
            "greedy": {"prompt": prompt, "token_ids": completion,
                       "min_margin": float(f"{margin:.4g}")}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", required=True, type=pathlib.Path)
    args = parser.parse_args()
    pinned("torch"), pinned("transformers")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    args.output.mkdir(parents=True, exist_ok=True)
    for name, config in MODELS.items():
        record = golden(config, random.Random(name))
        text = json.dumps(record, separators=(",", ":"))
        (args.output / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
