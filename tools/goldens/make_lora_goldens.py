#!/usr/bin/env python3
"""Writes what peft makes of tiny models with LoRA adapters, for the tests to compare with.

  make_lora_goldens.py --output tests/data/adapters [NAME ...]

Needs exactly torch 2.13.0, transformers 5.23.0 and peft 0.21.2. An adapter is saved by peft, its
numbers are replaced by those of a rule (as --weights dummy has them, by the names of its tensors), and
it is loaded into the model again and merged by merge_and_unload, in float32. One file per adapter,
NAME.json:

  config          config.json of the model, whose weights are those of --weights dummy
  adapter_config  adapter_config.json
  tensors         [{"name", "type", "shape", "amplitude"}] of adapter_model.safetensors
  sequences       [{"token_ids", "positions", "float32": [row, ...]}]: the logits after some positions
"""

import argparse
import json
import pathlib
import random
import tempfile
import warnings

import peft
import safetensors.torch
import torch

from make_family_goldens import (FULL, GEMMA2, GEMMA3, GLM4, GPT_OSS, GRANITE, GRANITE_MOE_SHARED, LLAMA,
                                 MINISTRAL, MISTRAL, MIXTRAL, OLMO2, PHI3, QWEN2, QWEN2_MOE, QWEN3, QWEN3_MOE,
                                 SLIDE, SMOLLM3, dummy_weights, experts, make_model, sizes)
from make_goldens import logits_of, pinned, rounded

PEFT = "0.21.2"
TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
ALL = "all-linear"
# The model, the settings of LoRA, the type of the adapter's file.
ADAPTERS = {
    "llama-patterns-rslora": (LLAMA | sizes(24, 4, 2, 35, 43), dict(
        target_modules=["q_proj", "v_proj", "mlp.down_proj"], r=4, lora_alpha=9, use_rslora=True,
        rank_pattern={"v_proj": 2, r"layers.1.self_attn.(q|o)_proj": 6},
        alpha_pattern={r"model.layers.[02].mlp.down_proj": 3, "q_proj": 5}), "F32"),
    "llama-embeddings": (LLAMA | sizes(20, 2, 1, 30, 41), dict(
        target_modules=["embed_tokens", "lm_head", "o_proj"], r=5, lora_alpha=10), "F32"),
    "llama-biases-in-layers": (
        LLAMA | sizes(24, 3, 1, 27, 38, layers=4, attention_bias=True, mlp_bias=True), dict(
            target_modules=["k_proj", "o_proj", "up_proj"], layers_to_transform=[0, 2, 3],
            layers_pattern="layers", exclude_modules=r".*layers\.3\.mlp.*", r=2, lora_alpha=7), "F32"),
    "llama-whole-names-and-layers": (
        LLAMA | sizes(24, 3, 1, 28, 37), dict(
            target_modules=["model.layers.1.mlp.up_proj", "model.layers.2.self_attn.q_proj", "v_proj"],
            layers_to_transform=[0], r=3, lora_alpha=5), "F32"),
    "mistral-one-layer": (MISTRAL | sizes(24, 4, 2, 33, 40, sliding_window=7), dict(
        target_modules=["q_proj", "gate_proj"], layers_to_transform=1,
        exclude_modules=["self_attn.q_proj"], r=3, lora_alpha=6, fan_in_fan_out=True), "BF16"),
    "ministral-all": (MINISTRAL | sizes(
        20, 2, 1, 31, 42, head_dim=16, sliding_window=5, layer_types=[SLIDE, FULL, SLIDE]), dict(
            target_modules=ALL, r=2, lora_alpha=4), "F16"),
    "qwen2-all": (QWEN2 | sizes(24, 4, 1, 26, 39), dict(target_modules=ALL, r=3, lora_alpha=8), "F32"),
    "qwen3-regex-tied": (
        QWEN3 | sizes(20, 4, 2, 29, 45, head_dim=14, tie_word_embeddings=True), dict(
            target_modules=r"model\.layers\.(?:0|[2-9])\.(self_attn\.[qk]_proj|(?!.*gate)mlp\..*_proj)",
            r=8, lora_alpha=16, rank_pattern={r".*\.up_proj": 1}), "F32"),
    "smollm3-all-tied": (SMOLLM3 | sizes(27, 3, 1, 37, 43, layers=5, head_dim=24,
                                         tie_word_embeddings=True), dict(
        target_modules=ALL, r=2, lora_alpha=3.5), "F32"),
    "granite-all": (GRANITE | sizes(
        24, 3, 3, 29, 41, embedding_multiplier=2.0, attention_multiplier=0.25,
        residual_multiplier=0.6, logits_scaling=8.0, tie_word_embeddings=False), dict(
            target_modules=ALL, r=3, lora_alpha=6), "F32"),
    "granite-embeddings": (GRANITE | sizes(
        24, 3, 3, 29, 41, embedding_multiplier=12.0, attention_multiplier=0.25,
        residual_multiplier=0.6, logits_scaling=8.0, tie_word_embeddings=False), dict(
            target_modules=["embed_tokens", "v_proj"], r=3, lora_alpha=6), "BF16"),
    "olmo2-all": (OLMO2 | sizes(36, 6, 2, 31, 45, head_dim=24), dict(
        target_modules=ALL, r=4, lora_alpha=8), "F32"),
    "phi3-all": (PHI3 | sizes(48, 3, 1, 37, 47, layers=2), dict(
        target_modules=ALL, r=5, lora_alpha=10, rank_pattern={"qkv_proj": 3}), "F32"),
    "glm4-all": (GLM4 | sizes(30, 3, 1, 27, 37, layers=2, head_dim=16), dict(
        target_modules=ALL, r=3, lora_alpha=6), "F32"),
    "gemma2-all-tied": (GEMMA2 | sizes(
        24, 3, 1, 35, 42, layers=4, head_dim=24, sliding_window=14, query_pre_attn_scalar=5), dict(
            target_modules=ALL, r=2, lora_alpha=4), "F32"),
    "gemma3-all-tied": (GEMMA3 | sizes(
        24, 4, 1, 35, 42, head_dim=8, sliding_window=4, layer_types=[FULL, SLIDE, FULL],
        query_pre_attn_scalar=24), dict(target_modules=ALL, r=2, lora_alpha=4), "F32"),
    "granite-moe-shared-all": (GRANITE_MOE_SHARED | sizes(
        24, 4, 2, 23, 41, embedding_multiplier=2.0, attention_multiplier=0.25, residual_multiplier=0.6,
        logits_scaling=8.0, num_local_experts=6, num_experts_per_tok=2, shared_intermediate_size=29,
        tie_word_embeddings=False), dict(target_modules=ALL, r=3, lora_alpha=6), "F32"),
    "gpt-oss-attention": (GPT_OSS | sizes(
        28, 4, 2, 21, 43, layers=2, head_dim=24, sliding_window=9, num_local_experts=5,
        num_experts_per_tok=3, rope_theta=1e4, rope_scaling={
            "rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
            "truncate": False, "original_max_position_embeddings": 128}), dict(
                target_modules=ALL, r=3, lora_alpha=6), "F32"),
    "qwen2-moe-all": (QWEN2_MOE | sizes(24, 4, 2, 35, 43, layers=3, decoder_sparse_step=2) | experts(
        6, 3, 21, shared_expert_intermediate_size=31), dict(target_modules=ALL, r=3, lora_alpha=6), "F32"),
    "qwen3-moe-experts": (QWEN3_MOE | sizes(24, 4, 2, 35, 43, layers=2, head_dim=14) | experts(
        5, 2, 21, norm_topk_prob=True), dict(target_modules=["q_proj", "o_proj"], r=3, lora_alpha=6), "F32"),
    "mixtral-experts": (MIXTRAL | sizes(
        28, 4, 2, 33, 41, layers=2, head_dim=10, sliding_window=11, num_local_experts=4,
        num_experts_per_tok=2), dict(target_modules=["v_proj"], r=2, lora_alpha=5), "BF16"),
    "qwen3-moe-parameters": (QWEN3_MOE | sizes(24, 4, 2, 35, 43, layers=2, head_dim=14) | experts(
        5, 2, 21, norm_topk_prob=True), dict(
            target_modules=["q_proj"], r=3, lora_alpha=6, rank_pattern={"experts.down_proj": 2},
            target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj", "gate.weight"]), "F32"),
    "mixtral-parameters": (MIXTRAL | sizes(
        28, 4, 2, 33, 41, layers=2, head_dim=10, sliding_window=11, num_local_experts=4,
        num_experts_per_tok=2), dict(
            target_modules=[], target_parameters=["gate_up_proj"], r=2, lora_alpha=5), "BF16"),
    "gpt-oss-parameters": (GPT_OSS | sizes(
        28, 4, 2, 21, 43, layers=2, head_dim=24, sliding_window=9, num_local_experts=5,
        num_experts_per_tok=3, rope_theta=1e4, rope_scaling={
            "rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
            "truncate": False, "original_max_position_embeddings": 128}), dict(
                target_modules=["q_proj"], r=2, lora_alpha=4, target_parameters=[
                    "0.mlp.experts.gate_up_proj", "experts.down_proj", "o_proj.weight"]), "F32"),
    "granite-moe-parameters": (GRANITE_MOE_SHARED | sizes(
        24, 4, 2, 23, 41, embedding_multiplier=2.0, attention_multiplier=0.25, residual_multiplier=0.6,
        logits_scaling=8.0, num_local_experts=6, num_experts_per_tok=2, shared_intermediate_size=29,
        tie_word_embeddings=False), dict(
            target_modules=["v_proj"], r=2, lora_alpha=6, use_rslora=True, target_parameters=[
                "experts.gate_up_proj", "experts.down_proj"]), "F32"),
}
# Of some of them: how many experts a layer has, and what the adapter changes too, as (name, inputs,
# outputs) of the router and of each expert. PEFT reads such adapters, but saves others.
EXPERTS = {
    "qwen3-moe-experts": ("mlp", 5, [("gate", 24, 5), ("experts.{}.gate_proj", 24, 21),
                                     ("experts.{}.up_proj", 24, 21), ("experts.{}.down_proj", 21, 24)]),
    "mixtral-experts": ("block_sparse_moe", 4, [("experts.{}.w1", 28, 33), ("experts.{}.w2", 33, 28),
                                                ("experts.{}.w3", 28, 33)]),
}
LENGTHS = (9, 24)


def amplitude_of(name, shape):
    """So that a sum changes the logits, and keeps their size."""
    if "base_layer" in name:
        return (3.0 / shape[1]) ** 0.5
    return (0.75 / shape[1 if "_A" in name else 0]) ** 0.5


def replace_numbers(path, kind):
    tensors = safetensors.torch.load_file(path)
    listed = []
    for name in sorted(tensors):
        shape = tensors[name].shape
        amplitude = torch.tensor(float(f"{amplitude_of(name, shape):.6g}"))
        tensors[name] = dummy_weights(name, shape, 0.0, amplitude).to(TYPES[kind]).contiguous()
        listed.append({"name": name, "type": kind, "shape": list(shape),
                       "amplitude": float(f"{float(amplitude):.9g}")})
    safetensors.torch.save_file(tensors, path)
    return listed


def saved_config(directory):
    config = json.loads((directory / "adapter_config.json").read_text(encoding="utf-8"))
    for key in ("target_modules", "target_parameters", "exclude_modules"):
        if isinstance(config.get(key), list):
            config[key] = sorted(config[key])  # a set, in any order
    return config


def add_experts(directory, config, rank, block, count, matrices):
    """Adds tensors of routers and of each expert to the adapter, whose numbers are replaced later."""
    path = directory / "adapter_model.safetensors"
    tensors = safetensors.torch.load_file(path)
    for layer in range(config["num_hidden_layers"]):
        for name, inputs, outputs in matrices:
            for expert in range(count):
                module = f"base_model.model.model.layers.{layer}.{block}.{name.format(expert)}"
                tensors[f"{module}.lora_A.weight"] = torch.zeros(rank, inputs)
                tensors[f"{module}.lora_B.weight"] = torch.zeros(outputs, rank)
    safetensors.torch.save_file(tensors, path)
    path = directory / "adapter_config.json"
    saved = json.loads(path.read_text(encoding="utf-8"))
    saved["target_modules"] += [name.split(".")[-1] for name, _, _ in matrices]
    path.write_text(json.dumps(saved), encoding="utf-8")


def golden(config, settings, kind, random_ids, of_experts):
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        tuned = peft.get_peft_model(make_model(config, torch.float32, None),
                                    peft.LoraConfig(task_type="CAUSAL_LM", **settings))
        tuned.save_pretrained(directory)
        if of_experts:
            add_experts(directory, config, settings["r"], *of_experts)
        tensors = replace_numbers(directory / "adapter_model.safetensors", kind)
        loaded = peft.PeftModel.from_pretrained(make_model(config, torch.float32, None), directory)
        adapter = saved_config(directory)
    merged = loaded.merge_and_unload()
    sequences = []
    for length in LENGTHS:
        ids = [random_ids.randrange(config["vocab_size"]) for _ in range(length)]
        positions = sorted({0, length // 2, length - 1})
        rows = logits_of(merged, ids)
        sequences.append({"token_ids": ids, "positions": positions,
                          "float32": [rounded(rows[position]) for position in positions]})
    return {"config": config, "adapter_config": adapter, "tensors": tensors, "sequences": sequences}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    pinned("torch"), pinned("transformers")
    if peft.__version__ != PEFT:
        raise SystemExit(f"peft {peft.__version__}, but the results are those of {PEFT}")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    args.output.mkdir(parents=True, exist_ok=True)
    for name in args.names or ADAPTERS:
        record = golden(*ADAPTERS[name], random.Random(name), EXPERTS.get(name))
        text = json.dumps(record, separators=(",", ":"))
        (args.output / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
