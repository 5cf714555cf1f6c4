#!/usr/bin/env python3
"""Writes random blocks of GGUF's types, and what the package gguf computes of them.

  make_gguf_goldens.py --output tests/data/gguf_blocks.json

Needs gguf 0.19.0. The file is {type: {"blocks": bytes in hexadecimal digits, "numbers": float32 in
hexadecimal digits, as the package's dequantization has them}}.
"""
import argparse
import json
import pathlib
import random
import struct

import gguf
import numpy

# Where the scales in float16 stand; other bytes are any.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82],
          "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0],
          "MXFP4": []}
BLOCKS = 3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", required=True, type=pathlib.Path)
    args = parser.parse_args()
    draw, golden = random.Random(1), {}
    for name, places in HALVES.items():
        kind = gguf.GGMLQuantizationType[name]
        size = gguf.GGML_QUANT_SIZES[kind][1]
        data = bytearray()
        for _ in range(BLOCKS):
            block = bytearray(draw.randbytes(size))
            for place in places:
                block[place:place + 2] = struct.pack("<e", draw.uniform(-0.1, 0.1))
            if name == "MXFP4":
                block[0] = draw.randrange(2, 255)
            data += block
        numbers = gguf.quants.dequantize(numpy.frombuffer(data, dtype=numpy.uint8).reshape(1, -1), kind)
        golden[name] = {"blocks": data.hex(), "numbers": numbers.astype("<f4").tobytes().hex()}
    args.output.write_text(json.dumps(golden, indent=0) + "\n", encoding="utf-8")


main()
