#!/usr/bin/env python3
"""Writes a bfloat16 checkpoint of a model's true shapes, to measure loading with.

  make_dummy_checkpoint.py --config datasets/configs/llama-3.2-3b-instruct --output DIR

DIR gets config.json and model.safetensors: 6 GB for the 3B model. The numbers are a megabyte of
random ones over and over, of a size that keeps activations finite; norms multiply by 1. No two
tensors begin at the same place of the megabyte: an engine that keeps equal ones once, as OpenVINO
does, would read them from the processor's cache.
"""

import argparse
import json
import pathlib
import random
import shutil
import struct

BLOCK_BYTES = 1 << 20
ROUND = (1 << 19) - 1  # numbers after which they begin anew: a prime, so tensors begin elsewhere


def shapes(config):
    """The names and shapes of all tensors, as the model families of src/model have them."""
    hidden, inner, vocab = (config[key] for key in ("hidden_size", "intermediate_size", "vocab_size"))
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = config.get("head_dim") or hidden // heads
    kind = config["model_type"]
    biased_qkv = kind == "qwen2" or config.get("attention_bias", kind == "glm4")
    yield "model.embed_tokens.weight", [vocab, hidden]
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        sizes = {"q": heads, "k": kv_heads, "v": kv_heads}
        if kind == "phi3":
            sizes = {"qkv": heads + 2 * kv_heads}
        for name, size in sizes.items():
            yield f"{layer}self_attn.{name}_proj.weight", [size * head_dim, hidden]
            if biased_qkv and kind not in ("phi3", "exaone4", "ministral3"):
                yield f"{layer}self_attn.{name}_proj.bias", [size * head_dim]
        yield f"{layer}self_attn.o_proj.weight", [hidden, heads * head_dim]
        if config.get("attention_bias") and kind not in ("qwen2", "phi3", "exaone4", "glm4",
                                                         "ministral3"):
            yield f"{layer}self_attn.o_proj.bias", [hidden]
        blocks = [f"{layer}mlp."]
        if kind == "qwen3_moe":
            yield f"{layer}mlp.gate.weight", [config["num_experts"], hidden]
            blocks = [f"{layer}mlp.experts.{expert}." for expert in range(config["num_experts"])]
            inner = config["moe_intermediate_size"]
        inners = {"gate_up": 2 * inner} if kind in ("phi3", "glm4") else {"gate": inner, "up": inner}
        for block in blocks:
            for name, size in inners.items():
                yield f"{block}{name}_proj.weight", [size, hidden]
            yield f"{block}down_proj.weight", [hidden, inner]
        if config.get("mlp_bias") and kind in ("llama", "mistral", "ministral", "qwen2", "qwen3",
                                               "smollm3", "granite"):
            for name, size in (inners | {"down": hidden}).items():
                yield f"{layer}mlp.{name}_proj.bias", [size]
        norms = ["input_layernorm", "post_attention_layernorm"]
        if kind in ("gemma2", "gemma3_text"):
            norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        if kind == "glm4":
            norms += ["post_self_attn_layernorm", "post_mlp_layernorm"]
        if kind in ("olmo2", "olmo3", "exaone4"):
            norms = ["post_attention_layernorm", "post_feedforward_layernorm"]
        for norm in norms:
            yield f"{layer}{norm}.weight", [hidden]
        if kind in ("qwen3", "qwen3_moe", "gemma3_text", "olmo2", "olmo3", "exaone4"):
            for name, size in (("q", heads), ("k", kv_heads)):
                width = size * head_dim if kind.startswith("olmo") else head_dim
                yield f"{layer}self_attn.{name}_norm.weight", [width]
    yield "model.norm.weight", [hidden]
    if not config.get("tie_word_embeddings", kind in ("gemma", "gemma2", "gemma3_text", "smollm3")):
        yield "lm_head.weight", [vocab, hidden]


def random_block():
    """bfloat16 numbers from 2^-9 to 2^-6, of both signs."""
    noise = random.Random(0)
    block = bytearray(noise.randbytes(BLOCK_BYTES))
    block[1::2] = block[1::2].translate(bytes((0x3B, 0x3C, 0xBB, 0xBC)[i % 4] for i in range(256)))
    return bytes(block)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", required=True, type=pathlib.Path)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    args = parser.parse_args()
    config = json.loads((args.config / "config.json").read_text(encoding="utf-8"))
    header, end = {"__metadata__": {"format": "pt"}}, 0
    tensors = dict(shapes(config))
    for name, shape in tensors.items():
        begin, end = end, end + 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 64 + 56)  # behind the length of 8 bytes: data at a multiple of 64

    args.output.mkdir(parents=True, exist_ok=True)
    shutil.copy(args.config / "config.json", args.output / "config.json")
    block = random_block()[:2 * ROUND]
    place = 0  # in the block
    one = b"\x00\x00" if config["model_type"] in ("gemma2", "gemma3_text") else b"\x80\x3f"
    with open(args.output / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            left = entry["data_offsets"][1] - entry["data_offsets"][0]
            if name.endswith("norm.weight"):
                out.write(one * (left // 2))
                continue
            while left > 0:
                written = out.write(block[place:place + left])
                left -= written
                place = (place + written) % len(block)
    print(f"{args.output}: {len(tensors)} tensors, {end / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
