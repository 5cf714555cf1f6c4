#!/usr/bin/env python3
"""Rounds the matrices of a checkpoint's layers to codes of 4 bits, without calibration.

    make_codes.py DIR OUTPUT

OUTPUT is a checkpoint of compressed-tensors: groups of 128 columns, each with a scale in bfloat16."""
import json
import pathlib
import sys

import torch
from safetensors import safe_open
from safetensors.torch import save_file

GROUP = 128
QUANTIZATION = {"quant_method": "compressed-tensors", "format": "pack-quantized",
                "ignore": ["lm_head"],
                "config_groups": {"group_0": {
                    "targets": ["Linear"],
                    "weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group",
                                "group_size": GROUP}}}}


def rounded(matrix):
    """The codes, eight in a number of 32 bits, and the scales."""
    rows, cols = matrix.shape
    groups = matrix.float().reshape(rows, cols // GROUP, GROUP)
    scales = (groups.abs().amax(dim=2, keepdim=True) / 7).to(torch.bfloat16)
    codes = (groups / scales.float()).round().clamp(-8, 7).to(torch.int32) + 8
    eights = codes.reshape(rows, cols // 8, 8) << torch.arange(0, 32, 4, dtype=torch.int32)
    return eights.sum(dim=2, dtype=torch.int32), scales.squeeze(2)


def main():
    source, output = map(pathlib.Path, sys.argv[1:])
    output.mkdir(parents=True, exist_ok=True)
    config = json.loads((source / "config.json").read_text())
    (output / "config.json").write_text(json.dumps(config | {"quantization_config": QUANTIZATION}))
    tensors = {}
    with safe_open(source / "model.safetensors", "pt") as stored:
        for name in stored.keys():
            tensor = stored.get_tensor(name)
            if not name.endswith("_proj.weight"):
                tensors[name] = tensor
                continue
            module = name.removesuffix(".weight")
            tensors[f"{module}.weight_packed"], tensors[f"{module}.weight_scale"] = rounded(tensor)
            tensors[f"{module}.weight_shape"] = torch.tensor(tensor.shape)
    save_file(tensors, output / "model.safetensors", {"format": "pt"})


main()
