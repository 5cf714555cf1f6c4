#!/usr/bin/env python3
"""Writes a checkpoint of make_dummy_checkpoint.py, of a Llama or a Qwen3 with experts, as a GGUF file without
a vocabulary, for llama.cpp.

    make_gguf.py DIR f16|bf16|q8_0 FILE.gguf

For measuring speed: rows of q and k stay in the checkpoint's order and rope is not scaled, so that the
model's answers are others."""
import json
import pathlib
import re
import sys

import gguf
import numpy

KINDS = {"f16": (gguf.GGMLQuantizationType.F16, gguf.LlamaFileType.MOSTLY_F16),
         "bf16": (gguf.GGMLQuantizationType.BF16, gguf.LlamaFileType.MOSTLY_BF16),
         "q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0)}
NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
LAYER_NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
               "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
               "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
               "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp", "mlp.experts.gate_proj": "ffn_gate_exps",
               "mlp.experts.up_proj": "ffn_up_exps", "mlp.experts.down_proj": "ffn_down_exps",
               "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}


def name_of(tensor):
    """Experts have the name of the tensor of all experts of their layer."""
    stem = re.sub(r"experts\.\d+\.", "experts.", tensor.removesuffix(".weight"))
    if stem.startswith("model.layers."):
        layer, _, rest = stem.removeprefix("model.layers.").partition(".")
        return f"blk.{layer}.{LAYER_NAMES[rest]}.weight"
    return NAMES[stem] + ".weight"


def read_tensors(path):
    """The names of a file of bfloat16 tensors, and functions that read them as float32."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)

    def reader(entry):
        begin, end = entry["data_offsets"]

        def read():
            halves = numpy.fromfile(path, numpy.uint16, (end - begin) // 2, offset=8 + length + begin)
            return (halves.astype(numpy.uint32) << 16).view(numpy.float32).reshape(entry["shape"])
        return read
    return {name: reader(entry) for name, entry in header.items()}


def main():
    folder, kind, output = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    config = json.loads((folder / "config.json").read_text())
    tensor_type, file_type = KINDS[kind]
    writer = gguf.GGUFWriter(output, "qwen3moe" if "num_experts" in config else "llama")
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
    if "num_experts" in config:
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_tokenizer_model("no_vocab")
    matrices = {}
    for tensor, read in read_tensors(folder / "model.safetensors").items():
        matrices.setdefault(name_of(tensor), []).append(read)
    for name, of_name in matrices.items():
        values = [read() for read in of_name]
        if values[0].ndim == 1 or "ffn_gate_inp" in name:
            writer.add_tensor(name, values[0])
            continue
        rows = [gguf.quants.quantize(each, tensor_type) for each in values]
        writer.add_tensor(name, numpy.stack(rows) if "_exps" in name else rows[0], raw_dtype=tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()
