#!/usr/bin/env python3
"""Writes tiny quantized checkpoints of every kind, and what transformers computes with their values.

  make_quantized_goldens.py --output tests/data/quantized [NAME ...]
  make_quantized_goldens.py --check tests/data/quantized   compares with the libraries of the formats,
                                                           as far as they can be imported

Needs exactly torch 2.13.0 and transformers 5.23.0. Codes, scales and zero points are random; they are
packed and unpacked here as the formats are defined, not by their libraries. What is not quantized are
the dummy weights of make_family_goldens.py. A model is a directory:

  config.json, model.safetensors
  golden.json    matrices   {name: {"shape", "float32": hash, "bfloat16": hash}} of each quantized
                            matrix as floats, FNV-1a over its numbers as unsigned integers
                 sequences  [{"token_ids", "positions", "float32": [row, ...], "bfloat16": [row, ...]}]:
                            the logits after some positions
"""

import argparse
import json
import math
import pathlib
import random
import re
import struct

import numpy
import torch

import make_family_goldens as families
from code_words import AWQ_ORDER, packed
from make_goldens import logits_of, pinned, rounded

LENGTHS = (9, 30)
TYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int32: "I32",
         torch.int64: "I64", torch.int8: "I8", torch.uint8: "U8", torch.float8_e4m3fn: "F8_E4M3",
         torch.float8_e5m2: "F8_E5M2"}


def fp8(**more):
    return {"quant_method": "fp8", "activation_scheme": "dynamic"} | more


def ct(storage, groups, **more):
    """compressed-tensors; groups: {name: (targets, weights)}."""
    return {"quant_method": "compressed-tensors", "format": storage,
            "quantization_status": "compressed", "ignore": ["lm_head"], "config_groups": {
                name: {"targets": targets, "weights": weights, "input_activations": None}
                for name, (targets, weights) in groups.items()}} | more


def ints(bits, strategy, **more):
    return {"num_bits": bits, "type": "int", "symmetric": True, "strategy": strategy} | more


def floats(strategy, **more):
    return {"num_bits": 8, "type": "float", "symmetric": True, "strategy": strategy} | more


def gptq(bits, group_size, **more):
    return {"quant_method": "gptq", "bits": bits, "group_size": group_size, "sym": False} | more


def awq(group_size):
    return {"quant_method": "awq", "bits": 4, "group_size": group_size, "zero_point": True,
            "version": "gemm"}


def model(family, quantization, hidden=40, heads=4, kv_heads=2, intermediate=56, vocab=43, **more):
    return family | families.sizes(hidden, heads, kv_heads, intermediate, vocab, layers=2, **more) | {
        "quantization_config": quantization}


HALF = {"torch_dtype": "float16"}
GPT_OSS = families.GPT_OSS | {"num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": 9,
                              "rope_theta": 1e4, "rope_scaling": {
                                  "rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0,
                                  "beta_slow": 1.0, "truncate": False,
                                  "original_max_position_embeddings": 128}}
MODELS = {
    "fp8-blocks": model(families.LLAMA, fp8(weight_block_size=[128, 128],
                                            modules_to_not_convert=["lm_head"]),
                        hidden=38, heads=2, kv_heads=1, head_dim=18, intermediate=149),
    "fp8-small-blocks-tied": model(families.QWEN3, fp8(weight_block_size=[4, 8]), head_dim=14,
                                   tie_word_embeddings=True),
    "fp8-tensor-e5m2": model(families.MISTRAL, fp8(activation_scheme="static"), sliding_window=7),
    "fp8-rows-fused": model(families.PHI3, {"quant_method": "fbgemm_fp8"}, heads=4, kv_heads=2),
    "ct-float-rows": model(families.GEMMA2, ct("float-quantized", {"group_0": (["Linear"], floats(
        "channel"))}, ignore=["lm_head", "re:.*\\.1\\.mlp\\.(up|gate)_proj$"]), head_dim=12,
        sliding_window=11, query_pre_attn_scalar=12, hidden=33, heads=3, kv_heads=1),
    "ct-float-blocks": model(families.OLMO2, ct("float-quantized", {"group_0": (["Linear"], floats(
        "block", block_structure=[16, 24]))}), intermediate=59),
    "ct-int-mixed": model(families.QWEN2, ct("int-quantized", {
        "group_0": (["Linear"], ints(8, "channel", symmetric=False)),
        "group_1": (["re:.*self_attn\\.[qk]_proj"], ints(8, "tensor")),
        "group_2": (["model.layers.1.mlp.down_proj"], ints(8, "group", group_size=14))})),
    "ct-packed-4-order-fused": model(families.PHI3, ct("pack-quantized", {"group_0": (
        ["Linear"], ints(4, "group", group_size=8, actorder="group"))})),
    "ct-packed-8-odd": model(families.GEMMA3, ct("pack-quantized", {"group_0": (["Linear"], ints(
        8, "channel", symmetric=False))}), hidden=33, heads=3, kv_heads=1, head_dim=14,
        intermediate=51, sliding_window=9),
    "ct-packed-4-zeros": model(families.GRANITE, ct("pack-quantized", {"group_0": (["Linear"], ints(
        4, "group", group_size=20, symmetric=False))}), hidden=60, heads=3, kv_heads=1,
        intermediate=40, embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.5,
        logits_scaling=2.0),
    "gptq-4-order": model(families.LLAMA, gptq(4, 16, desc_act=True), head_dim=12) | HALF,
    "gptq-8-v2-head": model(families.QWEN2, gptq(8, 32, checkpoint_format="gptq_v2", lm_head=True),
                            hidden=36, heads=3, kv_heads=3, intermediate=52, vocab=44) | HALF,
    "gptq-4-fused": model(families.PHI3, gptq(4, -1, checkpoint_format="gptq")) | HALF,
    "awq-biases": model(families.QWEN2, awq(8), hidden=48) | HALF,
    "awq-fused": model(families.PHI3, awq(-1)) | HALF,
    "awq-layers-without-rope": model(families.SMOLLM3, awq(24), hidden=48, intermediate=72,
                                     no_rope_layers=[1, 0]) | HALF,
    "gptq-4-order-groups": model(families.LLAMA, gptq(4, 32, desc_act=True), hidden=64, heads=2,
                                 kv_heads=1, intermediate=96, head_dim=32) | HALF,
    "awq-groups": model(families.QWEN2, awq(32), hidden=64, heads=2, kv_heads=1,
                        intermediate=96) | HALF,
    "ct-packed-4-groups": model(families.QWEN3, ct("pack-quantized", {"group_0": (["Linear"], ints(
        4, "group", group_size=32, symmetric=False))}), hidden=64, heads=2, kv_heads=1,
        intermediate=96, head_dim=32),
    "mxfp4-experts": model(GPT_OSS, {"quant_method": "mxfp4", "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]},
        hidden=96, intermediate=32, head_dim=24),
    "ct-float-blocks-experts": model(families.OLMOE, ct("float-quantized", {"group_0": (
        ["Linear"], floats("block", block_structure=[16, 24]))}, ignore=[
            "lm_head", "re:.*\\.mlp\\.gate$"]), intermediate=29,
        **{key: value for key, value in families.experts(4, 2, 0).items()
           if key != "moe_intermediate_size"}),
    "fp8-blocks-shared-expert": model(families.QWEN2_MOE, fp8(weight_block_size=[16, 8]),
                                      shared_expert_intermediate_size=27,
                                      **families.experts(4, 2, 19)),
    "gptq-4-experts": model(families.QWEN3_MOE, gptq(4, 32), hidden=64, heads=2, kv_heads=1,
                            head_dim=32, norm_topk_prob=True, **families.experts(6, 2, 32)) | HALF,
    "gptq-4-order-experts": model(families.QWEN2_MOE, gptq(4, 32, desc_act=True), hidden=64, heads=2,
                                  kv_heads=1, shared_expert_intermediate_size=96,
                                  **families.experts(4, 2, 64)) | HALF,
    "awq-experts": model(families.MIXTRAL, awq(32), hidden=64, heads=2, kv_heads=1, intermediate=32,
                         num_local_experts=5, num_experts_per_tok=2) | HALF,
    "awq-fused-neighbouring-pairs": model(families.GLM4, awq(24), hidden=48,
                                          intermediate=72, head_dim=12) | HALF,
}


def words_of(codes, bits, axis, order=None):
    return torch.from_numpy(packed(codes, bits, axis, order))


def unpacked(words, bits, axis, count, order=None):
    words = numpy.moveaxis(words.numpy().view(numpy.uint32), axis, 0)
    per_word = 32 // bits
    order = list(order or range(per_word))
    codes = [words[i // per_word] >> numpy.uint32(bits * order.index(i % per_word)) & (2 ** bits - 1)
             for i in range(count)]
    return numpy.moveaxis(numpy.stack(codes), 0, axis).astype(numpy.int64)


class Draw:
    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)

    def integers(self, low, high, shape):
        return self.random.integers(low, high + 1, shape)

    def scales(self, shape, largest, cols, dtype):
        """So that values of these codes are as large as those of --weights dummy."""
        amplitude = math.sqrt(3 / cols) / largest
        return torch.tensor(self.random.uniform(0.5, 1.0, shape) * amplitude).to(dtype)


def float8(draw, shape, dtype):
    """Every code that is finite."""
    codes = draw.integers(0, 255, shape).astype(numpy.uint8)
    exponent_and_fraction = codes & 0x7F
    worst = 0x7E if dtype == torch.float8_e4m3fn else 0x7B
    codes = numpy.where(exponent_and_fraction > worst, codes & 0x87, codes)
    return torch.from_numpy(codes).view(dtype)


def float8_values(codes, dtype):
    """By the definition of the type: 1 sign, 4 or 5 bits of exponent, 3 or 2 of fraction."""
    bits = codes.view(torch.uint8).numpy().astype(numpy.int64)
    fraction_bits, bias = (3, 7) if dtype == torch.float8_e4m3fn else (2, 15)
    exponent = bits >> fraction_bits & (2 ** (7 - fraction_bits) - 1)
    fraction = (bits & (2 ** fraction_bits - 1)) / 2 ** fraction_bits
    value = numpy.where(exponent == 0, fraction * 2.0 ** (1 - bias),
                        (1 + fraction) * 2.0 ** (exponent - bias))
    return numpy.where(bits >= 128, -value, value)


def blocks_of(count, size):
    return numpy.arange(count) // size


def dequantized(codes, zeros, scales, rows, cols):
    """codes (N, K); zeros and scales of each row block and column block; which block by index."""
    code = codes - (zeros[rows[:, None], cols[None, :]] if zeros is not None else 0)
    scale = scales.float().numpy()[rows[:, None], cols[None, :]]
    return torch.from_numpy((code.astype(numpy.float32) * scale.astype(numpy.float32)))


def make_fp8(draw, module, shape, config, dtype):
    (rows, cols), block = shape, config.get("weight_block_size")
    kind = torch.float8_e4m3fn if block or config["quant_method"] != "fp8" else torch.float8_e5m2
    weight = float8(draw, shape, kind)
    largest = 448 if kind == torch.float8_e4m3fn else 57344
    parts, values = {"weight": weight}, float8_values(weight, kind)
    if block:
        down, across = -(-rows // block[0]), -(-cols // block[1])
        scale_type = torch.float32 if block[0] == 128 else torch.bfloat16
        scales = draw.scales((down, across), largest / 8, cols, scale_type)
        parts["weight_scale_inv"] = scales
        places = blocks_of(rows, block[0]), blocks_of(cols, block[1])
    elif config["quant_method"] == "fp8":
        scales = draw.scales((1, 1), largest / 8, cols, torch.float32)
        parts["weight_scale"] = scales.reshape([1] if "mlp" in module else [])
        parts["input_scale"] = torch.tensor(0.03)
        places = blocks_of(rows, rows), blocks_of(cols, cols)
    else:
        scales = draw.scales((rows, 1), largest / 8, cols, torch.float32)
        parts["weight_scale"] = scales
        places = numpy.arange(rows), blocks_of(cols, cols)
    return parts, dequantized(values, None, scales, *places)


def weights_of(module, config):
    """Those of the config group of a module: names go before expressions, these before classes."""
    groups = config["config_groups"].values()
    for kind in ("name", "re", "class"):
        for group in groups:
            for target in group["targets"]:
                if (kind == "name" and target == module or kind == "class" and target == "Linear"
                        or kind == "re" and target.startswith("re:")
                        and re.match(target[3:], module)):
                    return group["weights"]


def make_ct(draw, module, shape, config, dtype):
    rows, cols = shape
    weights = weights_of(module, config)
    bits, strategy = weights["num_bits"], weights["strategy"]
    block = {"tensor": (rows, cols), "channel": (1, cols), "group": (1, weights.get("group_size")),
             "block": weights.get("block_structure")}[strategy]
    grid = -(-rows // block[0]), -(-cols // block[1])
    places = [blocks_of(rows, block[0]), blocks_of(cols, block[1])]
    parts, zeros = {}, None
    if weights["type"] == "float":
        parts["weight"] = float8(draw, shape, torch.float8_e4m3fn)
        codes, largest = float8_values(parts["weight"], torch.float8_e4m3fn), 448 / 8
    else:
        half = 2 ** (bits - 1)
        codes, largest = draw.integers(-half, half - 1, shape), half
        if not weights["symmetric"]:
            zeros = draw.integers(-half, half - 1, grid)
    scales = draw.scales(grid, largest, cols, dtype)
    parts["weight_scale"] = scales.reshape([1]) if strategy == "tensor" else scales
    if weights.get("actorder") == "group":
        order = draw.random.permutation(places[1])
        parts["weight_g_idx"] = torch.from_numpy(order.astype(numpy.int32))
        places[1] = order
    if config["format"] == "int-quantized":
        parts["weight"] = torch.from_numpy(codes.astype(numpy.int8))
        if zeros is not None:
            parts["weight_zero_point"] = torch.from_numpy(zeros.astype(numpy.int8))
    elif config["format"] == "pack-quantized":
        parts["weight_packed"] = words_of(codes + half, bits, 1)
        parts["weight_shape"] = torch.tensor(shape)
        codes = unpacked(parts["weight_packed"], bits, 1, cols) - half
        if zeros is not None:
            parts["weight_zero_point"] = words_of(zeros + half, bits, 0)
            zeros = unpacked(parts["weight_zero_point"], bits, 0, rows) - half
    return parts, dequantized(codes, zeros, scales, *places)


def make_gptq(draw, module, shape, config, dtype):
    (rows, cols), bits = shape, config["bits"]
    assert rows % (32 // bits) == cols % (32 // bits) == 0, module
    size = config["group_size"] if config["group_size"] > 0 else cols
    groups = -(-cols // size)
    largest = 2 ** bits - 1
    group_of = draw.random.permutation(cols) // size if config.get("desc_act") else blocks_of(cols, size)
    version_2 = config.get("checkpoint_format") == "gptq_v2"
    stored = draw.integers(0, largest - (0 if version_2 else 1), (groups, rows))
    parts = {"qweight": words_of(draw.integers(0, largest, (cols, rows)), bits, 0),
             "qzeros": words_of(stored, bits, 1),
             "scales": draw.scales((groups, rows), largest / 2, cols, dtype)}
    if config.get("desc_act") or version_2:
        parts["g_idx"] = torch.from_numpy(group_of.astype(numpy.int32))
    codes = unpacked(parts["qweight"], bits, 0, cols)
    zeros = unpacked(parts["qzeros"], bits, 1, rows) + (0 if version_2 else 1)
    values = dequantized(codes, zeros, parts["scales"], group_of, numpy.arange(rows))
    return parts, values.T.contiguous()


def make_awq(draw, module, shape, config, dtype):
    rows, cols = shape
    size = config["group_size"] if config["group_size"] > 0 else cols
    assert rows % 8 == cols % size == 0, module
    parts = {"qweight": words_of(draw.integers(0, 15, (cols, rows)), 4, 1, AWQ_ORDER),
             "qzeros": words_of(draw.integers(0, 15, (cols // size, rows)), 4, 1, AWQ_ORDER),
             "scales": draw.scales((cols // size, rows), 8, cols, dtype)}
    codes = unpacked(parts["qweight"], 4, 1, rows, AWQ_ORDER)
    zeros = unpacked(parts["qzeros"], 4, 1, rows, AWQ_ORDER)
    values = dequantized(codes, zeros, parts["scales"], blocks_of(cols, size), numpy.arange(rows))
    return parts, values.T.contiguous()


E2M1 = numpy.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], numpy.float32)


def make_mxfp4(draw, shape):
    """Matrices one below the other; among their powers of two the least that are not 0."""
    count, rows, cols = shape
    codes = draw.integers(0, 15, (count, rows, cols // 32, 32)).astype(numpy.uint8)
    largest = math.frexp(math.sqrt(3 / cols) / 6)[1]
    powers = (draw.integers(-1, 0, codes.shape[:3]) + largest + 127).astype(numpy.uint8)
    powers[0, 0, 0], powers[-1, -1, -1], powers[0, 1, 0] = 0, 1, 2
    parts = {"blocks": torch.from_numpy(codes[..., 0::2] | codes[..., 1::2] << 4),
             "scales": torch.from_numpy(powers)}
    exponent = powers.astype(numpy.int32) - 127
    scale = numpy.where(exponent < -126 + 1, 0, numpy.ldexp(numpy.float32(1), exponent))
    values = (E2M1[codes] * scale[..., None]).astype(numpy.float32)
    return parts, torch.from_numpy(values.reshape(shape))


MAKE = {"fp8": make_fp8, "fbgemm_fp8": make_fp8, "compressed-tensors": make_ct, "gptq": make_gptq,
        "awq": make_awq}


def is_quantized(module, config):
    if config["quant_method"] == "mxfp4" or module.endswith("shared_expert_gate"):
        return False
    if module == "lm_head":
        return config.get("lm_head", False)
    return not any(re.match(entry[3:], module) for entry in config.get("ignore", [])
                   if entry.startswith("re:"))


def fnv(tensor):
    value = 0xCBF29CE484222325
    kind = numpy.uint32 if tensor.dtype == torch.float32 else numpy.uint16
    bits = tensor.contiguous().view(torch.int32 if kind == numpy.uint32 else torch.int16).numpy()
    for word in bits.view(kind).ravel().tolist():
        value = (value ^ word) * 0x100000001B3 & families.MASK
    return str(value)


def write_safetensors(path, tensors):
    """The format's own: a length, a header, the bytes. The order of names is that of the dict."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    types = {name: dtype for dtype, name in TYPES.items()}
    tensors = {}
    for name, entry in json.loads(raw[8:8 + length]).items():
        begin, end = entry["data_offsets"]
        data = torch.frombuffer(bytearray(raw[8 + length + begin:8 + length + end]), dtype=torch.uint8)
        tensors[name] = data.view(types[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def make_experts(draw, name, parameter, quantization, stored_type, published):
    """(parts, {name: values}) of the experts of a layer, whose values the parameter gets; `published` has
    the names of an expert's matrices."""
    if quantization["quant_method"] == "mxfp4":
        parts, values = make_mxfp4(draw, tuple(parameter.transpose(1, 2).shape))
        parameter.copy_(values.transpose(1, 2))
        return {f"{name}_{part}": tensor for part, tensor in parts.items()}, {
            name: values.reshape(-1, values.shape[-1])}
    tensors, matrices = {}, {}
    for expert, rows in enumerate(parameter):
        for module, matrix in zip(published, rows.chunk(len(published))):
            module = name[:name.index("experts.")] + module.format(expert).removesuffix(".weight")
            parts, values = MAKE[quantization["quant_method"]](
                draw, module, tuple(matrix.shape), quantization, stored_type)
            tensors |= {f"{module}.{part}": tensor for part, tensor in parts.items()}
            matrix.copy_(values)
            matrices[module + ".weight"] = values
    return tensors, matrices


def of_matrix(values):
    return {"shape": list(values.shape), "float32": fnv(values), "bfloat16": fnv(values.bfloat16())}


def write_model(directory, name, config):
    quantization = config["quantization_config"]
    plain = {key: value for key, value in config.items() if key != "quantization_config"}
    stored_type = getattr(torch, config["torch_dtype"])
    exact = families.make_model(plain, torch.float32, None)
    draw = Draw([ord(c) for c in name])
    family = config["model_type"]
    names_of = families.PUBLISHED.get(family, families.PUBLISHED["others"])
    block = ".block_sparse_moe." if family == "mixtral" else ".mlp."
    tensors, matrices = {}, {}
    for parameter_name, parameter in exact.named_parameters():
        module = parameter_name.removesuffix(".weight")
        linear = isinstance(exact.get_submodule(module), torch.nn.Linear) if module != parameter_name else False
        if linear and is_quantized(module, quantization):
            parts, values = MAKE[quantization["quant_method"]](
                draw, module, tuple(parameter.shape), quantization, stored_type)
            tensors |= {f"{module}.{part}": tensor for part, tensor in parts.items()}
            parameter.copy_(values)
            matrices[parameter_name] = of_matrix(values)
        elif parameter_name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            published = names_of.get(parameter_name.split(".mlp.")[1]) or names_of.get(
                "mlp." + parameter_name.split(".mlp.")[1], ("",))
            parts, found = make_experts(draw, parameter_name.replace(".mlp.", block), parameter,
                                        quantization, stored_type,
                                        [part.removeprefix("block_sparse_moe.") for part in published])
            tensors |= parts
            matrices |= {key: of_matrix(values) for key, values in found.items()}
        else:
            stored = parameter_name.replace("mlp.gate.", block[1:] + "gate.")
            tensors[stored] = parameter.to(stored_type)
            parameter.copy_(tensors[stored])
    coarse = families.make_model(plain, torch.bfloat16, None)
    for target, source in zip(coarse.parameters(), exact.parameters()):
        target.copy_(source)
    chance, sequences = random.Random(name), []
    for length in LENGTHS:
        ids = [chance.randrange(config["vocab_size"]) for _ in range(length)]
        positions = sorted({0, length // 2, length - 1})
        record = {"token_ids": ids, "positions": positions}
        for kind, reference in (("float32", exact), ("bfloat16", coarse)):
            rows = logits_of(reference, ids)
            record[kind] = [rounded(rows[position]) for position in positions]
        sequences.append(record)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    write_safetensors(directory / "model.safetensors", tensors)
    golden = {"matrices": matrices, "sequences": sequences}
    (directory / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n",
                                           encoding="utf-8")


def by_compressed_tensors(parts, module, shape, config):
    import compressed_tensors
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationScheme
    weights = weights_of(module, config)
    if weights.get("actorder") == "group":
        return None  # the library no longer reads it
    scheme = QuantizationScheme(targets=["Linear"], weights=weights)
    state = {name: part.float() if name == "weight_scale" else part for name, part in parts.items()}
    if "weight_shape" in state:
        state["weight_shape"] = torch.tensor(shape)
    compressor = BaseCompressor.get_value_from_registry(config["format"])
    return compressor.decompress(state, scheme)["weight"].float()


def by_transformers(parts, module, shape, config):
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize
    block = config.get("weight_block_size")
    if block is None or shape[0] % block[0] or shape[1] % block[1]:
        return None  # the library reads blocks that divide the matrix
    return Fp8Dequantize(None)._dequantize_one(parts["weight"], parts["weight_scale_inv"],
                                               torch.float32)


def by_gptqmodel(parts, module, shape, config):
    """Of GPTQModel its two files of unpacking suffice."""
    if config["quant_method"] == "awq":
        from gptqmodel.quantization.awq.utils.packing_utils import dequantize_gemm
        size = config["group_size"] if config["group_size"] > 0 else shape[1]
        return dequantize_gemm(parts["qweight"], parts["qzeros"], parts["scales"].float(), 4, size).T
    from gptqmodel.utils import model_dequant
    bits, zeros = config["bits"], parts["qzeros"]
    if model_dequant._uses_gptq_v1_qzeros(config):
        zeros = model_dequant._correct_gptq_v1_qzeros(zeros, bits)
    size = config["group_size"] if config["group_size"] > 0 else shape[1]
    group = parts["g_idx"].long() if "g_idx" in parts else torch.arange(shape[1]) // size
    codes = model_dequant.unpack_rows(parts["qweight"], bits)
    zeros = model_dequant.unpack_cols(zeros, bits)
    return ((codes - zeros[group]) * parts["scales"].float()[group]).T


def by_transformers_mxfp4(parts, module, shape, config):
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    values = convert_moe_packed_tensors(parts["blocks"], parts["scales"],
                                        dtype=torch.float32).transpose(1, 2)
    values = values + 0.0  # without -0
    tiny = (parts["scales"] < 2)[..., None].expand(-1, -1, -1, 32).reshape(values.shape)
    return torch.where(tiny, 0.0 * values.sign(), values).reshape(shape)


LIBRARIES = {"mxfp4": by_transformers_mxfp4, "compressed-tensors": by_compressed_tensors, "fp8": by_transformers, "gptq": by_gptqmodel,
             "awq": by_gptqmodel}


def check(directory):
    """Compares the library's matrices with the hashes in golden.json."""
    config = json.loads((directory / "config.json").read_text())["quantization_config"]
    tensors = read_safetensors(directory / "model.safetensors")
    matrices = json.loads((directory / "golden.json").read_text())["matrices"]
    equal = unknown = 0
    for name, expected in matrices.items():
        module = name.removesuffix(".weight")
        joints = (module + ".", module + "_")
        parts = {part[len(module) + 1:]: tensor for part, tensor in tensors.items()
                 if part.startswith(joints) and not part.endswith("bias")}
        library = LIBRARIES.get(config["quant_method"])
        values = library(parts, module, tuple(expected["shape"]), config) if library else None
        if values is None:
            unknown += 1
        elif fnv(values.float()) != expected["float32"]:
            raise SystemExit(f"{directory.name}: {name} differs from its library's values")
        else:
            equal += 1
    print(f"{directory.name}: {equal} matrices are the library's, {unknown} it does not read")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--check", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    names = args.names or list(MODELS)
    if args.check:
        for name in names:
            check(args.check / name)
        return
    if args.output is None:
        parser.error("--output or --check is needed")
    pinned("torch"), pinned("transformers")
    for name in names:
        write_model(args.output / name, name, MODELS[name])


if __name__ == "__main__":
    main()
