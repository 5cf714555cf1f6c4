#!/usr/bin/env python3
"""Writes tiny GGUF files by llama.cpp's converter and quantizer, and the logits of these models.

  make_gguf_models.py --llama llama_cpp_python-0.3.36 --output tests/data/gguf [NAME ...]

--llama is the unpacked source of llama-cpp-python 0.3.36, which has the converter; the package of that
version must be installed. Needs exactly torch 2.13.0 and transformers 5.23.0. Weights are random and of
few values, so that the files compress well. Files, NAME.gguf.gz; converted.json, of architectures, and
quantized.json, of types of blocks, by NAME:

  token_ids, positions
  float32    rows of logits after the positions. Of an architecture those of transformers, in float32,
             from the checkpoint before it was converted. Of a type of blocks, those of llama.cpp, whose
             quantizer has turned the blocks to float32 again.
  llama.cpp  those of llama.cpp from the blocks themselves, for a type of blocks.

A file whose logits llama.cpp does not compute as transformers does is an error: then one of both reads
the checkpoint in another way.
"""

import argparse
import gzip
import json
import math
import pathlib
import random
import sys
import tempfile

import llama_cpp
import torch
import transformers

from make_goldens import logits_of, pinned

VOCAB, LENGTH, POSITIONS = 40, 24, [3, 13, 23]
ROPE = {"rope_type": "default", "rope_theta": 1e3}
# The converter does not write a base for Gemma: it is always this one.
GEMMA_ROPE = {"rope_type": "default", "rope_theta": 1e4}
SLIDE, FULL = "sliding_attention", "full_attention"


def sizes(hidden=16, heads=2, kv_heads=1, intermediate=24, layers=2, **more):
    return {"hidden_size": hidden, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
            "head_dim": hidden // heads, "intermediate_size": intermediate, "vocab_size": VOCAB,
            "num_hidden_layers": layers, "max_position_embeddings": 256, "rope_parameters": ROPE,
            "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None,
            "tie_word_embeddings": True} | more


def yarn(**more):
    return {"rope_type": "yarn", "rope_theta": 1e3, "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
            "original_max_position_embeddings": 64} | more


# One for each architecture of GGUF, or more where its files differ much.
ARCHITECTURES = {
    "llama": ("Llama", sizes(tie_word_embeddings=False, rope_parameters={
        "rope_type": "llama3", "rope_theta": 1e3, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 32})),
    "llama-experts": ("Mixtral", sizes(num_local_experts=4, num_experts_per_tok=2, intermediate=8)),
    "mistral3": ("Ministral3", sizes(rope_parameters=yarn(
        type="yarn", mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1,
        original_max_position_embeddings=16))),
    "smollm3": ("SmolLM3", sizes(layers=4)),
    "granite": ("Granite", sizes(embedding_multiplier=6.0, attention_multiplier=0.2,
                                 residual_multiplier=0.3, logits_scaling=4.0)),
    "granitemoe": ("GraniteMoeShared", sizes(
        embedding_multiplier=6.0, attention_multiplier=0.2, residual_multiplier=0.3,
        logits_scaling=4.0, num_local_experts=4, num_experts_per_tok=2, intermediate=8,
        shared_intermediate_size=12)),
    "qwen2": ("Qwen2", sizes(use_sliding_window=False)),
    "qwen3": ("Qwen3", sizes(use_sliding_window=False)),
    "qwen2moe": ("Qwen2Moe", sizes(
        tie_word_embeddings=False,
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8, norm_topk_prob=False,
        shared_expert_intermediate_size=12, use_sliding_window=False)),
    "qwen3moe": ("Qwen3Moe", sizes(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8,
                                   norm_topk_prob=True, use_sliding_window=False)),
    "olmoe": ("Olmoe", sizes(num_experts=4, num_experts_per_tok=2, intermediate=8, kv_heads=2,
                             tie_word_embeddings=False, norm_topk_prob=False)),
    "gpt-oss": ("GptOss", sizes(
        num_local_experts=4, num_experts_per_tok=2, intermediate=8, sliding_window=8,
        layer_types=[SLIDE, FULL], tie_word_embeddings=False, rope_parameters=yarn(truncate=False))),
    "gemma": ("Gemma", sizes(hidden_act="gelu_pytorch_tanh", rope_parameters=GEMMA_ROPE)),
    "gemma2": ("Gemma2", sizes(sliding_window=8, query_pre_attn_scalar=8, attn_logit_softcapping=5.0,
                               final_logit_softcapping=6.0, layer_types=[SLIDE, FULL],
                               rope_parameters=GEMMA_ROPE)),
    "gemma3": ("Gemma3", sizes(
        layers=6, sliding_window=8, query_pre_attn_scalar=8,
        layer_types=[SLIDE] * 5 + [FULL], rope_parameters={
            FULL: {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e3}, SLIDE: ROPE})),
    "phi3": ("Phi3", sizes(sliding_window=None)),
    "phi3-longrope": ("Phi3", sizes(
        sliding_window=None, max_position_embeddings=1024, original_max_position_embeddings=512,
        rope_parameters={
            "rope_type": "longrope", "rope_theta": 1e3, "original_max_position_embeddings": 512,
            "short_factor": [1 + i / 16 for i in range(4)],
            "long_factor": [1 + i * i / 8 for i in range(4)]})),
    "glm4": ("Glm4", sizes(rope_parameters=ROPE | {"partial_rotary_factor": 0.5}, attention_bias=True)),
    "olmo2": ("Olmo2", sizes(kv_heads=2, tie_word_embeddings=False)),
    "olmo3": ("Olmo3", sizes(kv_heads=2, layers=4, sliding_window=8, tie_word_embeddings=False,
                             layer_types=[SLIDE] * 3 + [FULL], rope_parameters=yarn())),
    "exaone4": ("Exaone4", sizes(sliding_window=None, layer_types=[FULL] * 2)),
    "exaone4-windows": ("Exaone4", sizes(layers=4, sliding_window=8, sliding_window_pattern="LLLG",
                                         layer_types=[SLIDE] * 3 + [FULL])),
}
# llama.cpp has windows in models of 64 layers only.
UNCHECKED = {"exaone4-windows"}
# The number of the file's type in llama.cpp, and what the rows of the matrices consist of.
TYPES = {"Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K": 11, "Q4_K": 14,
         "Q5_K": 16, "Q6_K": 18, "IQ4_NL": 25, "IQ4_XS": 30}
OF_TYPES = ("Llama", sizes(hidden=256, heads=4, intermediate=256, layers=1))
ROWS = 11  # different ones of a matrix of OF_TYPES
# Only experts are of this type, others Q8_0.
EXPERTS_TYPES = {"MXFP4": 38}
OF_EXPERTS_TYPES = ("Qwen3Moe", sizes(hidden=32, num_experts=4, num_experts_per_tok=2, layers=1,
                                      moe_intermediate_size=32, norm_topk_prob=True))


def fill(name, shape, draw, offset_of_norms):
    """Few values, exact in bfloat16 but for the first norm of OF_TYPES."""
    if name.endswith("input_layernorm.weight") and shape[0] == OF_TYPES[1]["hidden_size"]:
        # Quotients of an embedding's values would lie between two integers of 8 bits.
        return 1 + torch.randn(shape, generator=draw) / 4
    if len(shape) == 1:
        center = (1 - offset_of_norms) if name.endswith("norm.weight") else 0
        return center + torch.randint(-1, 2, shape, generator=draw) / 4
    columns = shape[-1]
    scale = 2.0 ** -round(math.log2(math.sqrt(2 * columns)))
    if columns < 256:
        return torch.randint(-2, 3, shape, generator=draw) * scale
    if name.endswith(("q_proj.weight", "k_proj.weight")):  # rows repeat: scores would be large
        scale /= 4
    rows = torch.randn(ROWS, columns, generator=torch.Generator().manual_seed(7)).bfloat16() * scale
    first = int(torch.randint(ROWS, (1,), generator=draw))
    return rows[(torch.arange(shape[0]) + first) % ROWS].float()


def make_model(family, fields):
    config_class = getattr(transformers, family + ("TextConfig" if family == "Gemma3" else "Config"))
    config = config_class(**json.loads(json.dumps(fields)))
    config._attn_implementation = "eager"
    model = getattr(transformers, family + "ForCausalLM")(config).eval()
    draw = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(fill(name, parameter.shape, draw, family.startswith("Gemma")))
    return model


def set_no_vocab(converter):
    """In place of ModelBase.set_vocab()."""
    converter._set_vocab_none()
    writer = converter.gguf_writer
    if not any(f"{writer.arch}.vocab_size" in keys for keys in writer.kv_data):
        writer.add_vocab_size(converter.hparams["vocab_size"])


def classes_of(base):
    return [base] + [found for part in base.__subclasses__() for found in classes_of(part)]


def convert(source, folder, kind, path):
    """By llama.cpp's converter, without a tokenizer."""
    sys.path[:0] = [str(source / "vendor/llama.cpp"), str(source / "vendor/llama.cpp/gguf-py")]
    import conversion
    import gguf
    # The converter of Gemma 3 counts tokens.
    (folder / "tokenizer.json").write_text(json.dumps(
        {"model": {"vocab": list(range(VOCAB))}, "added_tokens": []}), encoding="utf-8")
    hparams = conversion.ModelBase.load_hparams(folder, False)
    name = conversion.get_model_architecture(hparams, conversion.ModelType.TEXT)
    converter = conversion.get_model_class(name)
    for found in classes_of(conversion.ModelBase):
        if "set_vocab" in vars(found):
            found.set_vocab = set_no_vocab
    with torch.inference_mode():
        converter(folder, gguf.LlamaFileType[kind], path, model_name="tiny").write()


def quantize(source, target, kind, pure=True):
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.pure, params.allow_requantize, params.nthread = kind, pure, True, 1
    if code := llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), params):
        raise SystemExit(f"llama_model_quantize: code {code}")


def llama_logits(path, token_ids):
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = 0
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        raise SystemExit(f"{path}: llama.cpp does not load it")
    of_run = llama_cpp.llama_context_default_params()
    of_run.n_ctx = of_run.n_batch = of_run.n_ubatch = 64
    of_run.type_k = of_run.type_v = llama_cpp.GGML_TYPE_F32
    of_run.flash_attn_type = 0
    of_run.n_threads = of_run.n_threads_batch = 1
    context = llama_cpp.llama_init_from_model(model, of_run)
    batch = llama_cpp.llama_batch_init(len(token_ids), 0, 1)
    batch.n_tokens = len(token_ids)
    for i, token in enumerate(token_ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, i, 1
        batch.seq_id[i][0], batch.logits[i] = 0, 1
    if code := llama_cpp.llama_decode(context, batch):
        raise SystemExit(f"llama_decode: code {code}")
    size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    rows = torch.tensor([llama_cpp.llama_get_logits_ith(context, i)[:size]
                         for i in range(len(token_ids))])
    llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    return rows


def difference(rows, others):
    return float(((rows - others).abs().amax(1) / others.abs().amax(1)).max())


def distance(rows, others):
    """The root of the mean square, relative."""
    return float((rows - others).norm() / others.norm())


def short(rows):
    return [[float(f"{x:.6g}") for x in rows[i].tolist()] for i in POSITIONS]


def write(path, output, name):
    packed = gzip.compress(path.read_bytes(), compresslevel=9, mtime=0)
    (output / f"{name}.gguf.gz").write_bytes(packed)
    return len(packed)


def with_whole_bounds(fields):
    """llama.cpp rounds the bounds of yarn's frequencies, also where the checkpoint forbids it."""
    rope = fields["rope_parameters"]
    return fields | {"rope_parameters": rope | {"truncate": True}} if "truncate" in rope else fields


def make_architecture(args, name, folder):
    family, fields = ARCHITECTURES[name]
    model = make_model(family, fields)
    ids = random.Random(name).choices(range(VOCAB), k=LENGTH)
    exact = logits_of(model, ids)
    model.bfloat16().save_pretrained(folder)
    convert(args.llama, folder, "ALL_F32", folder / "f32.gguf")
    convert(args.llama, folder, "MOSTLY_BF16", folder / "bf16.gguf")
    found = difference(llama_logits(folder / "f32.gguf", ids),
                       logits_of(make_model(family, with_whole_bounds(fields)), ids))
    size = write(folder / "bf16.gguf", args.output, name)
    print(f"{name}: {size} bytes, llama.cpp differs by {found:.1e} of the largest logit", flush=True)
    # llama.cpp looks up Gemma's GELU in a table of float16.
    if found > (3e-3 if family.startswith("Gemma") else 1e-5) and name not in UNCHECKED:
        raise SystemExit(f"{name}: too much")
    return {"token_ids": ids, "positions": POSITIONS, "float32": short(exact)}


def make_type(args, name, folder):
    is_usual = name in TYPES
    model = make_model(*(OF_TYPES if is_usual else OF_EXPERTS_TYPES))
    ids = random.Random(name).choices(range(VOCAB), k=LENGTH)
    model.save_pretrained(folder)
    convert(args.llama, folder, "ALL_F32", folder / "f32.gguf")
    quantize(folder / "f32.gguf", folder / "quantized.gguf", (TYPES | EXPERTS_TYPES)[name], is_usual)
    quantize(folder / "quantized.gguf", folder / "back.gguf", 0)
    exact, rows = (llama_logits(folder / file, ids) for file in ("back.gguf", "quantized.gguf"))
    original = llama_logits(folder / "f32.gguf", ids)
    size = write(folder / "quantized.gguf", args.output, name)
    print(f"{name}: {size} bytes, blocks differ by {distance(exact, original):.1e}, "
          f"8 bits by {distance(rows, exact):.1e}", flush=True)
    return {"token_ids": ids, "positions": POSITIONS, "float32": short(exact), "llama.cpp": short(rows)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--llama", required=True, type=pathlib.Path)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    pinned("torch"), pinned("transformers")
    torch.set_num_threads(1)
    silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(silent, None)
    lists = {"converted.json": (ARCHITECTURES, make_architecture),
             "quantized.json": (TYPES | EXPERTS_TYPES, make_type)}
    for file, (known, make) in lists.items():
        path = args.output / file
        golden = json.loads(path.read_text()) if path.exists() else {}
        with torch.no_grad():
            for name in known:
                if name not in (args.names or known):
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    golden[name] = make(args, name, pathlib.Path(folder))
        path.write_text(json.dumps(golden, separators=(",", ":")).replace("},", "},\n") + "\n",
                        encoding="utf-8")


if __name__ == "__main__":
    main()
