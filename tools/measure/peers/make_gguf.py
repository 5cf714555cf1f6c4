#!/usr/bin/env python3
"""Writes a Llama checkpoint without a vocabulary as a GGUF file, for llama.cpp.

    make_gguf.py DIR f16|bf16|q8_0 FILE.gguf

For measuring speed: rows of q and k stay in the checkpoint's order and rope is not scaled, so that the
model's answers are others."""
import json
import pathlib
import sys

import gguf
import numpy
import torch
from safetensors import safe_open

KINDS = {"f16": (gguf.GGMLQuantizationType.F16, gguf.LlamaFileType.MOSTLY_F16),
         "bf16": (gguf.GGMLQuantizationType.BF16, gguf.LlamaFileType.MOSTLY_BF16),
         "q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0)}
NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
LAYER_NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
               "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
               "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
               "post_attention_layernorm": "ffn_norm"}


def name_of(tensor):
    stem = tensor.removesuffix(".weight")
    if stem.startswith("model.layers."):
        layer, _, rest = stem.removeprefix("model.layers.").partition(".")
        return f"blk.{layer}.{LAYER_NAMES[rest]}.weight"
    return NAMES[stem] + ".weight"


def main():
    folder, kind, output = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    config = json.loads((folder / "config.json").read_text())
    tensor_type, file_type = KINDS[kind]
    writer = gguf.GGUFWriter(output, "llama")
    writer.add_file_type(file_type)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    with safe_open(folder / "model.safetensors", "pt") as tensors:
        for tensor in tensors.keys():
            values = tensors.get_tensor(tensor).to(torch.float32).numpy()
            if values.ndim == 1:
                writer.add_tensor(name_of(tensor), values.astype(numpy.float32))
            else:
                writer.add_tensor(name_of(tensor), gguf.quants.quantize(values, tensor_type),
                                  raw_dtype=tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()
