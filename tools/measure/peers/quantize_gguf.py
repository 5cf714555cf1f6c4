#!/usr/bin/env python3
"""Quantizes a GGUF file as llama.cpp's own program does.

    quantize_gguf.py FILE.gguf q4_0|q4_k_m OUTPUT"""
import sys

import llama_cpp

KINDS = {"q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0, "q4_k_m": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M}


def main():
    source, kind, output = sys.argv[1:]
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = KINDS[kind]
    if code := llama_cpp.llama_model_quantize(source.encode(), output.encode(), params):
        raise SystemExit(f"llama_model_quantize: code {code}")


main()
