#!/usr/bin/env python3
"""Writes what transformers computes with tiny models of every family, for the tests to compare with.

  make_family_goldens.py --output tests/data/families [NAME ...]
  make_family_goldens.py --output DIR --random 40      models of random shapes instead; the tests
                                                       take them too while they lie beside the others

Needs exactly torch 2.13.0 and transformers 5.23.0. The weights are those of --weights dummy
(src/model/dummy.h), so that no checkpoint is kept. One file per model, NAME.json:

  config     config.json
  max_model_len  if there: of a run; from it follow the frequencies of rope
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
MINISTRAL = {"architectures": ["MinistralForCausalLM"], "model_type": "ministral"}
SMOLLM3 = {"architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3", "pad_token_id": None}
GRANITE = {"architectures": ["GraniteForCausalLM"], "model_type": "granite"}
OLMO2 = {"architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2"}
PHI3 = {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "pad_token_id": None}
GEMMA2 = {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2",
          "hidden_activation": "gelu_pytorch_tanh"}
GEMMA3 = {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text",
          "hidden_activation": "gelu_pytorch_tanh"}
GEMMA = {"architectures": ["GemmaForCausalLM"], "model_type": "gemma"}
OLMO3 = {"architectures": ["Olmo3ForCausalLM"], "model_type": "olmo3"}
EXAONE4 = {"architectures": ["Exaone4ForCausalLM"], "model_type": "exaone4"}
GLM4 = {"architectures": ["Glm4ForCausalLM"], "model_type": "glm4", "pad_token_id": None}
MINISTRAL3 = {"architectures": ["Ministral3ForCausalLM"], "model_type": "ministral3"}
QWEN2_MOE = {"architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe"}
QWEN3_MOE = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe"}
MIXTRAL = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral"}
OLMOE = {"architectures": ["OlmoeForCausalLM"], "model_type": "olmoe"}
GRANITE_MOE = {"architectures": ["GraniteMoeForCausalLM"], "model_type": "granitemoe"}
GRANITE_MOE_SHARED = {"architectures": ["GraniteMoeSharedForCausalLM"],
                      "model_type": "granitemoeshared"}
GPT_OSS = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss"}
QWEN_VISION = {"depth": 1, "hidden_size": 16, "intermediate_size": 24, "num_heads": 2}
QWEN2_5_VL = {"architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl",
              "torch_dtype": "bfloat16", "vision_config": QWEN_VISION | {"fullatt_block_indexes": [0]}}
QWEN3_VL = {"architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl",
            "vision_config": QWEN_VISION | {"num_position_embeddings": 16,
                                            "deepstack_visual_indexes": []}}
QWEN3_VL_MOE = {"architectures": ["Qwen3VLMoeForConditionalGeneration"],
                "model_type": "qwen3_vl_moe", "vision_config": QWEN_VISION | {
                    "num_position_embeddings": 16, "deepstack_visual_indexes": []}}
MISTRAL3 = {"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3",
            "torch_dtype": "bfloat16", "spatial_merge_size": 2, "vision_feature_layer": -1,
            "vision_config": {"model_type": "pixtral", "hidden_size": 16, "intermediate_size": 24,
                              "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 8,
                              "image_size": 28, "patch_size": 14}}
SLIDE, FULL = "sliding_attention", "full_attention"


def sizes(hidden, heads, kv_heads, intermediate, vocab, layers=3, **more):
    return {"hidden_size": hidden, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
            "intermediate_size": intermediate, "vocab_size": vocab, "num_hidden_layers": layers,
            "max_position_embeddings": 512, "torch_dtype": "bfloat16"} | more


def experts(count, per_token, width, **more):
    return {"num_experts": count, "num_experts_per_tok": per_token,
            "moe_intermediate_size": width} | more


LLAMA3_ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32}


def longrope(pairs, **more):
    return {"type": "longrope", "short_factor": [1 + i / 16 for i in range(pairs)],
            "long_factor": [1 + i * i / 8 for i in range(pairs)]} | more


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
        "vision_config": {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
                          "num_attention_heads": 2, "image_size": 28, "patch_size": 14},
        "text_config": {"model_type": "gemma3_text"} | sizes(
            24, 8, 4, 30, 46, layers=7, head_dim=6, sliding_window=24)},
    "qwen2_5-vl-flat": QWEN2_5_VL | sizes(
        40, 4, 2, 29, 43, rms_norm_eps=1e-6, rope_theta=1e6, use_sliding_window=False,
        sliding_window=5, max_window_layers=1, tie_word_embeddings=False,
        rope_scaling={"type": "mrope", "mrope_section": [1, 2, 2]}),
    "qwen2_5-vl-tied-in-text-config": QWEN2_5_VL | {"text_config": {
        "model_type": "qwen2_5_vl_text"} | sizes(
        48, 3, 1, 31, 41, tie_word_embeddings=True, rope_parameters={
            "type": "yarn", "rope_type": "yarn", "rope_theta": 2e4, "factor": 4.0,
            "original_max_position_embeddings": 128, "mrope_section": [2, 3, 3]})},
    "qwen3-vl-tied": QWEN3_VL | {"tie_word_embeddings": True, "text_config": {
        "model_type": "qwen3_vl_text", "eos_token_id": 7} | sizes(
        24, 4, 2, 37, 45, head_dim=14, rope_theta=5e6, rope_scaling={
            "rope_type": "default", "mrope_interleaved": True, "mrope_section": [3, 2, 2]})},
    "mistral3-pictures": MISTRAL3 | {"tie_word_embeddings": False, "text_config": {
        "model_type": "mistral"} | sizes(32, 4, 2, 33, 42, head_dim=10, rope_theta=1e9,
                                         sliding_window=None, rms_norm_eps=1e-5)},
    "mistral3-ministral3": MISTRAL3 | {"tie_word_embeddings": True, "text_config": {
        "model_type": "ministral3"} | sizes(
        30, 3, 1, 29, 39, layers=2, head_dim=12, rope_parameters={
            "rope_type": "yarn", "type": "yarn", "rope_theta": 1e4, "factor": 16.0,
            "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 16, "llama_4_scaling_beta": 0.1})},
    "llama-biases": LLAMA | sizes(36, 3, 1, 37, 47, head_dim=24, attention_bias=True, mlp_bias=True),
    "mistral-biases": MISTRAL | sizes(35, 5, 1, 29, 43, head_dim=40, sliding_window=12,
                                      attention_bias=True, mlp_bias=True),
    "qwen2-mlp-bias": QWEN2 | sizes(30, 3, 3, 26, 41, mlp_bias=True),
    "qwen3-biases": QWEN3 | sizes(28, 7, 7, 33, 39, head_dim=24) | {"attention_bias": True,
                                                                    "mlp_bias": True},
    "gemma3-bias": GEMMA3 | sizes(24, 3, 1, 26, 38, head_dim=24, sliding_window=9,
                                  attention_bias=True),
    "ministral-model": MINISTRAL | sizes(
        24, 3, 1, 31, 45, head_dim=32, sliding_window=11, layer_types=[FULL, SLIDE, FULL],
        rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "smollm3-tied": SMOLLM3 | sizes(27, 3, 1, 37, 43, layers=5, head_dim=24, rope_theta=5e3),
    "smollm3-windows-biases": SMOLLM3 | sizes(
        30, 5, 5, 26, 39, layers=4, no_rope_layers=[0, 1, 1, 0], use_sliding_window=True,
        sliding_window=13, attention_bias=True, mlp_bias=True, tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 400.0}),
    "smollm3-listed-windows": SMOLLM3 | sizes(
        24, 3, 1, 29, 41, layers=4, head_dim=24, layer_types=[SLIDE, FULL, FULL, SLIDE],
        sliding_window=11, rope_theta=3e3),
    "granite-multipliers": GRANITE | sizes(
        33, 3, 1, 40, 37, head_dim=26, embedding_multiplier=7.3, attention_multiplier=0.11,
        residual_multiplier=0.22, logits_scaling=3.7, rope_theta=1e3),
    "granite-biases-tied": GRANITE | sizes(
        24, 3, 3, 29, 41, embedding_multiplier=12.0, attention_multiplier=0.25,
        residual_multiplier=0.6, logits_scaling=8.0, attention_bias=True, mlp_bias=True,
        tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 600.0}),
    "olmo2-grouped": OLMO2 | sizes(36, 6, 2, 31, 45, head_dim=24, rope_theta=800.0),
    "olmo2-bias-tied": OLMO2 | sizes(
        30, 3, 3, 27, 37, attention_bias=True, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 5e2}),
    "phi3-heads-of-96-window": PHI3 | sizes(288, 3, 1, 37, 47, layers=2, sliding_window=17),
    "phi3-partial-tied": PHI3 | sizes(
        80, 2, 1, 33, 41, partial_rotary_factor=0.75, tie_word_embeddings=True, rope_theta=2e3),
    "phi3-partial-odd-new-config": PHI3 | sizes(
        30, 3, 3, 29, 39,
        rope_parameters={"rope_type": "default", "rope_theta": 700.0, "partial_rotary_factor": 0.5}),
    "phi3-longrope-short-run": PHI3 | sizes(
        96, 3, 1, 26, 43, original_max_position_embeddings=512, rope_scaling=longrope(16)
    ) | {"max_position_embeddings": 2048},
    "phi3-longrope-long-run": PHI3 | sizes(
        96, 3, 1, 26, 43, original_max_position_embeddings=512, rope_scaling=longrope(16)
    ) | {"max_position_embeddings": 2048},
    "phi3-longrope-partial-long-run": PHI3 | sizes(
        96, 2, 2, 28, 37, partial_rotary_factor=0.75, original_max_position_embeddings=256,
        tie_word_embeddings=True, rope_scaling=longrope(
            18, type="su", original_max_position_embeddings=256)),
    "llama-longrope-new-config": LLAMA | sizes(
        24, 3, 1, 27, 38, head_dim=12, rope_parameters=longrope(
            6, rope_type="longrope", rope_theta=1e3, factor=4.0, attention_factor=1.3,
            original_max_position_embeddings=100)),
    "llama-yarn": LLAMA | sizes(24, 3, 1, 27, 38, head_dim=24, rope_theta=5e3, rope_scaling={
        "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}),
    "qwen3-yarn-new-config": QWEN3 | sizes(
        24, 2, 1, 27, 38, head_dim=32, rope_parameters={
            "rope_type": "yarn", "rope_theta": 1e4, "factor": 2.5, "beta_fast": 16, "beta_slow": 2,
            "mscale": 1.3, "mscale_all_dim": 0.6, "truncate": False,
            "original_max_position_embeddings": 200}),
    "llama-dynamic-short-run": LLAMA | sizes(24, 3, 1, 27, 38, head_dim=12, rope_theta=1e3,
                                             rope_scaling={"type": "dynamic", "factor": 2.0}),
    "llama-dynamic-long-run": LLAMA | sizes(
        24, 3, 1, 27, 38, head_dim=12, rope_theta=1e3, rope_scaling={"type": "dynamic", "factor": 2.0}
    ) | {"max_position_embeddings": 160},
    "gemma2-old-config": GEMMA2 | sizes(
        24, 3, 1, 35, 42, layers=4, head_dim=24, sliding_window=14, query_pre_attn_scalar=5,
        attn_logit_softcapping=1.5, final_logit_softcapping=3.0, rope_theta=2e3),
    "gemma2-heads-of-256-untied": GEMMA2 | sizes(
        30, 2, 1, 27, 44, layers=2, head_dim=256, sliding_window=33, query_pre_attn_scalar=200,
        layer_types=[FULL, SLIDE], tie_word_embeddings=False, attn_logit_softcapping=2.0,
        final_logit_softcapping=None,
        rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}),
    "gemma-old-config": GEMMA | sizes(24, 3, 1, 35, 42, head_dim=24, rope_theta=2e3,
                                      hidden_act="gelu", hidden_activation=None),
    "gemma-bias-untied": GEMMA | sizes(
        30, 2, 2, 27, 44, layers=2, head_dim=256, attention_bias=True, tie_word_embeddings=False,
        rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 700.0}),
    "olmo3-old-config": OLMO3 | sizes(
        36, 6, 2, 31, 45, layers=5, head_dim=24, sliding_window=11, rope_theta=5e5, rope_scaling={
            "rope_type": "yarn", "factor": 4.0, "attention_factor": 1.14, "beta_fast": 32.0,
            "beta_slow": 1.0, "original_max_position_embeddings": 128}),
    "olmo3-new-config-bias-tied": OLMO3 | sizes(
        30, 3, 3, 27, 37, attention_bias=True, tie_word_embeddings=True, sliding_window=24,
        layer_types=[FULL, SLIDE, FULL],
        rope_parameters={FULL: {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e2},
                         SLIDE: {"rope_type": "default", "rope_theta": 100.0}}),
    "exaone4-windows": EXAONE4 | sizes(
        36, 6, 2, 31, 45, layers=5, head_dim=24, sliding_window=13, sliding_window_pattern=3,
        rope_theta=500.0, rope_scaling=LLAMA3_ROPE),
    "exaone4-listed-windows": EXAONE4 | sizes(
        24, 3, 3, 29, 41, layers=4, head_dim=10, sliding_window=24, sliding_window_pattern="LLLG",
        layer_types=[SLIDE, FULL, SLIDE, FULL],
        rope_parameters={"rope_type": "default", "rope_theta": 900.0}),
    "exaone4-no-window-tied": EXAONE4 | sizes(
        30, 3, 1, 27, 37, layers=2, sliding_window=None, layer_types=[FULL, FULL],
        tie_word_embeddings=True, rope_theta=2e3),
    "ministral3-yarn": MINISTRAL3 | sizes(24, 3, 1, 31, 45, head_dim=32, rope_parameters={
        "rope_type": "yarn", "type": "yarn", "rope_theta": 1e4, "factor": 16.0, "beta_fast": 32.0,
        "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "max_position_embeddings": 512,
        "original_max_position_embeddings": 32, "llama_4_scaling_beta": 0.1}),
    "ministral3-window-tied": MINISTRAL3 | sizes(
        30, 3, 3, 27, 37, layers=2, head_dim=10, sliding_window=33, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 700.0, "llama_4_scaling_beta": 0.7,
                         "original_max_position_embeddings": 7}),
    "glm4-partial": GLM4 | sizes(36, 6, 2, 31, 45, head_dim=24, rope_theta=1e3),
    "glm4-partial-odd-new-config": GLM4 | sizes(
        33, 3, 3, 29, 39, head_dim=22, attention_bias=True, rope_parameters={
            "rope_type": "default", "rope_theta": 700.0, "partial_rotary_factor": 0.5}),
    "qwen3-moe-normalized": QWEN3_MOE | sizes(
        24, 4, 2, 35, 43, head_dim=14, rope_theta=1e4) | experts(11, 4, 21, norm_topk_prob=True),
    "qwen3-moe-sparse-tied": QWEN3_MOE | sizes(
        28, 2, 1, 33, 41, layers=5, head_dim=10, attention_bias=True, tie_word_embeddings=True,
        rope_theta=700.0) | experts(7, 3, 19, norm_topk_prob=False, decoder_sparse_step=2,
                                    mlp_only_layers=[3]),
    "qwen2-moe-shared": QWEN2_MOE | sizes(
        24, 4, 2, 35, 43, rope_theta=1e4) | experts(
            9, 3, 21, shared_expert_intermediate_size=31, norm_topk_prob=False),
    "qwen2-moe-windows-tied": QWEN2_MOE | sizes(
        30, 3, 1, 37, 39, layers=4, use_sliding_window=True, sliding_window=9, max_window_layers=3,
        tie_word_embeddings=True, qkv_bias=False) | experts(
            6, 2, 19, shared_expert_intermediate_size=17, norm_topk_prob=True, decoder_sparse_step=2),
    "mixtral-window": MIXTRAL | sizes(
        28, 4, 2, 33, 41, head_dim=10, sliding_window=11, rope_theta=1e4, num_local_experts=5,
        num_experts_per_tok=2),
    "olmoe-limited": OLMOE | sizes(
        24, 4, 2, 21, 43, rope_theta=1e4, clip_qkv=0.8, num_experts=10, num_experts_per_tok=4,
        attention_bias=True),
    "olmoe-normalized-tied": OLMOE | sizes(
        30, 3, 3, 19, 37, num_experts=7, num_experts_per_tok=3, norm_topk_prob=True,
        tie_word_embeddings=True),
    "granite-moe-multipliers": GRANITE_MOE | sizes(
        36, 3, 1, 23, 37, embedding_multiplier=7.3, attention_multiplier=0.11,
        residual_multiplier=0.22, logits_scaling=3.7, num_local_experts=9, num_experts_per_tok=4),
    "granite-moe-shared": GRANITE_MOE_SHARED | sizes(
        24, 4, 2, 23, 41, embedding_multiplier=12.0, attention_multiplier=0.25,
        residual_multiplier=0.6, logits_scaling=8.0, num_local_experts=6, num_experts_per_tok=2,
        shared_intermediate_size=29, attention_bias=True, tie_word_embeddings=True),
    "gpt-oss": GPT_OSS | sizes(
        28, 4, 2, 21, 43, head_dim=24, sliding_window=9, num_local_experts=7, num_experts_per_tok=3,
        rope_theta=1e4, swiglu_limit=0.9, rope_scaling={
            "rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
            "truncate": False, "original_max_position_embeddings": 128}),
    "qwen3-vl-moe": QWEN3_VL_MOE | {"tie_word_embeddings": False, "text_config": {
        "model_type": "qwen3_vl_moe_text", "eos_token_id": 7} | sizes(
        24, 4, 2, 37, 45, head_dim=14, rope_theta=5e6, rope_scaling={
            "rope_type": "default", "mrope_interleaved": True, "mrope_section": [3, 2, 2]}
        ) | experts(6, 3, 21)},
    "glm4-yarn-tied": GLM4 | sizes(
        30, 3, 1, 27, 37, layers=2, head_dim=32, attention_bias=False, tie_word_embeddings=True,
        partial_rotary_factor=0.75, rope_theta=1e4, rope_scaling={
            "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}),
}
# What a run is asked for, where its rope depends on that.
RUNS = {"phi3-longrope-short-run": 512, "phi3-longrope-long-run": 513,
        "phi3-longrope-partial-long-run": 512, "llama-longrope-new-config": 512,
        "llama-dynamic-short-run": 512, "llama-dynamic-long-run": 320}
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


# For a class of models: names in memory and in a published checkpoint; the tensors of an expert,
# from a parameter that has the matrices of all experts.
PUBLISHED = {
    "mixtral": {"mlp.gate.": "block_sparse_moe.gate.",
                "mlp.experts.gate_up_proj": ("block_sparse_moe.experts.{}.w1.weight",
                                             "block_sparse_moe.experts.{}.w3.weight"),
                "mlp.experts.down_proj": ("block_sparse_moe.experts.{}.w2.weight",)},
    "granitemoe": {"block_sparse_moe.router.weight": "block_sparse_moe.router.layer.weight",
                   "experts.gate_up_proj": "input_linear.weight",
                   "experts.down_proj": "output_linear.weight"},
    "gpt_oss": {}, "qwen3_vl_moe": {},
    "others": {"experts.gate_up_proj": ("experts.{}.gate_proj.weight", "experts.{}.up_proj.weight"),
               "experts.down_proj": ("experts.{}.down_proj.weight",)},
}
PUBLISHED["granitemoeshared"] = PUBLISHED["granitemoe"]


def fill_published(config, name, parameter):
    """What the experts' forms of families call differently; returns False for all other tensors."""
    family = config["model_type"]
    for inside, published in PUBLISHED.get(family, PUBLISHED["others"]).items():
        if inside not in name:
            continue
        if isinstance(published, tuple):
            for expert, rows in enumerate(parameter):
                for part, matrix in zip(published, rows.chunk(len(published))):
                    tensor = name.replace(inside, part.format(expert))
                    matrix.copy_(dummy_weights(tensor, matrix.shape, 0.0, amplitude_of(matrix.shape[1])))
        else:
            parameter.copy_(dummy_weights(name.replace(inside, published), parameter.shape, 0.0,
                                          amplitude_of(parameter.shape[-1])))
        return True
    if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
        turned = parameter.transpose(1, 2) if family == "qwen3_vl_moe" else parameter
        turned.copy_(dummy_weights(name, turned.shape, 0.0, amplitude_of(turned.shape[1])))
        return True
    if name.endswith((".sinks", "_bias")):
        parameter.copy_(dummy_weights(name, parameter.shape, 0.0, 0.25))
        return True
    return False


def amplitude_of(columns):
    return torch.sqrt(torch.tensor(3.0) / torch.tensor(float(columns)))


def fill(config, model, name_of, center_of_norms):
    """`name_of` a parameter: that of the tensor in a checkpoint; None: it is not of the text model."""
    for parameter_name, parameter in model.named_parameters():
        name = name_of(parameter_name)
        if name is None:
            continue
        if fill_published(config, name, parameter):
            continue
        if name.endswith("norm.weight"):
            center, amplitude = center_of_norms, 0.25
        elif name.endswith(".bias"):
            center, amplitude = 0.0, 0.25
        else:
            center = 0.0
            amplitude = amplitude_of(parameter.shape[1])
        parameter.copy_(dummy_weights(name, parameter.shape, center, amplitude))


def add_biases(model, config):
    """Those that config.json asks for and transformers' class does not have. GLM-4 has its own."""
    if config["model_type"] == "glm4":
        return
    outputs = {"attention_bias": ("q_proj", "k_proj", "v_proj", "o_proj"),
               "mlp_bias": ("gate_proj", "up_proj", "down_proj")}
    for key, names in outputs.items():
        for name, module in model.named_modules():
            if config.get(key) and name.endswith(names) and module.bias is None:
                module.bias = torch.nn.Parameter(module.weight.new_zeros(module.out_features))


def use_long_frequencies(model):
    """Of a run that may be longer than what the model was trained for, for sequences of any length."""
    rope, config = model.model.rotary_emb, model.config
    fields = config.rope_parameters
    length = {"longrope": fields.get("original_max_position_embeddings", 0) + 1,
              "dynamic": int(config.max_position_embeddings * fields.get("factor", 1))}[rope.rope_type]
    rope_init = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS[rope.rope_type]
    rope.inv_freq.copy_(rope_init(config, seq_len=length)[0])
    rope.rope_type = "default"  # never computed anew


def make_wrapped(config, dtype):
    """A model for pictures, whose text model gets the weights that a published checkpoint would name so."""
    beside = ("language_model.model.", "language_model.lm_head.")
    name, root, output = {
        "gemma3": ("Gemma3",) + beside, "mistral3": ("Mistral3",) + beside,
        "qwen2_5_vl": ("Qwen2_5_VL", "model.", "lm_head."),
        "qwen3_vl": ("Qwen3VL", "model.language_model.", "lm_head."),
        "qwen3_vl_moe": ("Qwen3VLMoe", "model.language_model.", "lm_head.")}[config["model_type"]]
    read = getattr(transformers, name + "Config").from_dict(json.loads(json.dumps(config)))
    model = getattr(transformers, name + "ForConditionalGeneration")._from_config(read, dtype=dtype)

    def name_of(parameter):
        for inside, published in (("model.language_model.", root), ("lm_head.", output)):
            if parameter.startswith(inside):
                return published + parameter[len(inside):]
        return None

    if "num_experts_per_tok" in config["text_config"]:
        model.set_experts_implementation("eager")
    fill(config, model, name_of, 0.0 if "Gemma" in name else 1.0)
    return model.eval()


def make_model(config, dtype, max_model_len):
    if "vision_config" in config:
        return make_wrapped(config, dtype)
    classes = {"llama": "Llama", "mistral": "Ministral" if "layer_types" in config else "Mistral",
               "ministral": "Ministral", "qwen2": "Qwen2", "qwen3": "Qwen3", "smollm3": "SmolLM3",
               "granite": "Granite", "olmo2": "Olmo2", "phi3": "Phi3", "gemma2": "Gemma2",
               "gemma3_text": "Gemma3", "gemma": "Gemma", "olmo3": "Olmo3", "exaone4": "Exaone4",
               "glm4": "Glm4", "ministral3": "Ministral3", "qwen2_moe": "Qwen2Moe",
               "qwen3_moe": "Qwen3Moe", "mixtral": "Mixtral", "olmoe": "Olmoe", "gpt_oss": "GptOss",
               "granitemoe": "GraniteMoe", "granitemoeshared": "GraniteMoeShared"}
    name = classes[config["model_type"]]
    config_class = "Gemma3TextConfig" if name == "Gemma3" else name + "Config"
    read = getattr(transformers, config_class).from_dict(json.loads(json.dumps(config)))
    model = getattr(transformers, name + "ForCausalLM")._from_config(read, dtype=dtype).eval()
    if "num_experts_per_tok" in config:
        model.set_experts_implementation("eager")  # the others want rows of 16 bytes
    add_biases(model, config)
    fill(config, model, lambda parameter: parameter, 0.0 if "Gemma" in name else 1.0)
    trained = config.get("original_max_position_embeddings") or (
        (config.get("rope_parameters") or {}).get("original_max_position_embeddings")
        or config["max_position_embeddings"])
    if max_model_len and max_model_len > trained:
        use_long_frequencies(model)
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


def golden(config, random_ids, max_model_len):
    exact, coarse = (make_model(config, dtype, max_model_len)
                     for dtype in (torch.float32, torch.bfloat16))
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
    run = {"max_model_len": max_model_len} if max_model_len else {}
    return {"config": config} | run | {
            "sequences": sequences,
            "greedy": {"prompt": prompt, "token_ids": completion,
                       "min_margin": float(f"{margin:.4g}")}}


def random_experts(draw):
    """A model with experts."""
    family = draw.choice([QWEN2_MOE, QWEN3_MOE, MIXTRAL, OLMOE, GRANITE_MOE, GRANITE_MOE_SHARED, GPT_OSS,
                          QWEN3_VL_MOE])
    kv_heads = draw.choice([1, 2, 3])
    heads = kv_heads * draw.choice([1, 2, 3])
    head_dim = draw.choice([24, 32, 40, 64, 96])
    has_own_dim = family in (QWEN3_MOE, MIXTRAL, GPT_OSS, QWEN3_VL_MOE)
    layers, count = draw.randrange(1, 5), draw.choice([2, 3, 5, 8, 17, 40])
    config = family | sizes(
        heads * draw.randrange(5, 14) if has_own_dim else heads * head_dim, heads, kv_heads,
        draw.randrange(20, 50), draw.randrange(31, 98), layers=layers, rms_norm_eps=1e-5,
        rope_theta=draw.choice([100.0, 1e4, 1e6]), tie_word_embeddings=draw.random() < 0.5)
    if has_own_dim:
        config["head_dim"] = head_dim
    per_token = draw.randrange(1, min(count, 8) + 1)
    width = draw.randrange(5, 40)
    if family in (MIXTRAL, GRANITE_MOE, GRANITE_MOE_SHARED, GPT_OSS):
        config |= {"num_local_experts": count, "num_experts_per_tok": per_token}
    elif family is OLMOE:
        config |= {"num_experts": count, "num_experts_per_tok": per_token}
    else:
        config |= experts(count, per_token, width)
    if family in (QWEN2_MOE, QWEN3_MOE, OLMOE):
        config["norm_topk_prob"] = draw.random() < 0.5
    if family in (QWEN2_MOE, QWEN3_MOE) and draw.random() < 0.5:
        config |= {"decoder_sparse_step": draw.randrange(1, layers + 1),
                   "mlp_only_layers": [draw.randrange(layers)] if layers > 1 else []}
    if family is QWEN2_MOE:
        config |= {"shared_expert_intermediate_size": draw.randrange(5, 40),
                   "qkv_bias": draw.random() < 0.5}
    if family in (QWEN2_MOE, QWEN3_MOE) and draw.random() < 0.4:
        config |= {"use_sliding_window": True, "sliding_window": draw.randrange(1, 40),
                   "max_window_layers": draw.randrange(layers + 1)}
    if family is MIXTRAL:
        config["sliding_window"] = draw.choice([None, draw.randrange(1, 40)])
    if family is OLMOE and draw.random() < 0.5:
        config["clip_qkv"] = draw.uniform(0.3, 2)
    if family in (QWEN3_MOE, OLMOE, GRANITE_MOE, GRANITE_MOE_SHARED):
        config["attention_bias"] = draw.random() < 0.4
    if family in (GRANITE_MOE, GRANITE_MOE_SHARED):
        config |= {"embedding_multiplier": draw.uniform(1, 12), "logits_scaling": draw.uniform(1, 16),
                   "residual_multiplier": draw.uniform(0.1, 1),
                   "attention_multiplier": draw.uniform(0.5, 2) / head_dim ** 0.5}
    if family is GRANITE_MOE_SHARED:
        config["shared_intermediate_size"] = draw.choice([0, draw.randrange(5, 40)])
    if family is GPT_OSS:
        config |= {"sliding_window": draw.randrange(1, 40), "swiglu_limit": draw.uniform(0.3, 7),
                   "rope_scaling": {"rope_type": "yarn", "factor": draw.uniform(1, 8), "beta_fast": 32.0,
                                    "beta_slow": 1.0, "truncate": draw.random() < 0.5,
                                    "original_max_position_embeddings": draw.randrange(30, 500)}}
    if family is QWEN3_VL_MOE:
        third = head_dim // 6
        text = {key: config[key] for key in config if key not in QWEN3_VL_MOE}
        tied = text.pop("tie_word_embeddings")
        config = family | {"tie_word_embeddings": tied, "text_config": text | {
            "model_type": "qwen3_vl_moe_text", "eos_token_id": 7, "rope_scaling": {
                "rope_type": "default", "mrope_interleaved": True,
                "mrope_section": [head_dim // 2 - 2 * third, third, third]}}}
    return config


def random_model(draw):
    if draw.random() < 0.35:
        return random_experts(draw)
    family = draw.choice([LLAMA, MISTRAL, QWEN2, QWEN3, SMOLLM3, GRANITE, OLMO2, PHI3, GEMMA2, GEMMA3,
                          GEMMA, OLMO3, EXAONE4, GLM4, MINISTRAL3])
    kv_heads = draw.choice([1, 2, 3, 5])
    heads = kv_heads * draw.choice([1, 1, 2, 3])
    head_dim = draw.choice([24, 32, 40, 56, 64, 80, 96, 112, 128, 160, 192, 256])
    hidden = heads * (head_dim if family is PHI3 else draw.randrange(5, 14))
    config = family | sizes(hidden, heads, kv_heads, draw.randrange(20, 50), draw.randrange(31, 98),
                            layers=draw.randrange(2, 5), tie_word_embeddings=draw.random() < 0.5,
                            rope_theta=draw.choice([100.0, 1e4, 1e6]))
    if family is PHI3:
        config["partial_rotary_factor"] = draw.choice([0.5, 0.75, 1.0])
    elif family is not QWEN2:
        config["head_dim"] = head_dim
    else:
        config["hidden_size"] = heads * head_dim
    if family in (MISTRAL, PHI3, GEMMA2, GEMMA3, OLMO3, EXAONE4, MINISTRAL3):
        config["sliding_window"] = draw.randrange(1, 40)
    if family in (LLAMA, QWEN3, SMOLLM3, GRANITE, OLMO2, GEMMA2, GEMMA3, GEMMA, OLMO3, GLM4):
        config["attention_bias"] = draw.random() < 0.4
    if family in (LLAMA, SMOLLM3, GRANITE):
        config["mlp_bias"] = draw.random() < 0.4
    if family is GRANITE:
        config |= {"embedding_multiplier": draw.uniform(1, 12), "logits_scaling": draw.uniform(1, 16),
                   "residual_multiplier": draw.uniform(0.1, 1),
                   "attention_multiplier": draw.uniform(0.5, 2) / head_dim ** 0.5}
    if family is GEMMA2:
        config |= {"attn_logit_softcapping": draw.uniform(0.5, 50),
                   "final_logit_softcapping": draw.uniform(0.5, 30)}
    yarn = {"rope_type": "yarn", "factor": draw.uniform(1, 8), "rope_theta": config["rope_theta"],
            "original_max_position_embeddings": draw.randrange(30, 500)}
    if family is MINISTRAL3:
        config["rope_parameters"] = yarn | {"llama_4_scaling_beta": draw.uniform(0.05, 1)}
    elif family is OLMO3:
        config["rope_parameters"] = {FULL: yarn, SLIDE: {
            "rope_type": "default", "rope_theta": draw.choice([100.0, 1e4])}}
    elif family in (LLAMA, QWEN3, MISTRAL, EXAONE4, GLM4) and draw.random() < 0.5:
        config["rope_scaling"] = yarn
    if family is GLM4 and draw.random() < 0.5:
        config["partial_rotary_factor"] = draw.choice([0.25, 0.75, 1.0])
    return config


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("--random", type=int, default=0, metavar="COUNT")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    pinned("torch"), pinned("transformers")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    args.output.mkdir(parents=True, exist_ok=True)
    models = {name: MODELS[name] for name in args.names or MODELS}
    if args.random:
        models = {f"random-{i}": random_model(random.Random(i)) for i in range(args.random)}
    for name, config in models.items():
        record = golden(config, random.Random(name), RUNS.get(name))
        text = json.dumps(record, separators=(",", ":"))
        (args.output / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
