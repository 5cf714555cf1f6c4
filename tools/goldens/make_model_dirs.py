#!/usr/bin/env python3
"""Makes model directories of every family as versions of transformers write them, old and new, with
fast and slow tokenizers: tiny, complete, and without anything to download.

  make_model_dirs.py DIR          makes DIR/NAME of each NAME in tests/data/model_dirs
  make_model_dirs.py --collect    writes tests/data/model_dirs/NAME-VERSION anew, of the version of
                                  transformers that is installed, or of these: NAME ...

What is kept there is what save_pretrained() writes, without vocabularies and weights: the former
come from tests/data/tokenizers, the latter are made up.
"""

import argparse
import json
import pathlib
import shutil
import struct
import sys
import tempfile

from make_dummy_checkpoint import random_block, shapes

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT, TOKENIZERS = ROOT / "tests/data/model_dirs", ROOT / "tests/data/tokenizers"
LEFT_OUT = {"tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt", "model.safetensors"}
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1152}
LLAMA3_ROPE = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
ENDS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
CHATML = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"


class Family:
    """`tokenizer`: a folder of tests/data/tokenizers and its class. `special`: tokens by their roles.
    `generation`: what generation_config.json says."""

    def __init__(self, model, tokenizer, special, generation=None, template=None, **config):
        self.model, self.tokenizer, self.special = model, tokenizer, special
        self.generation, self.template = generation or {}, template
        self.config = SIZES | config


LLAMA3 = dict(special={"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"},
              generation={"do_sample": True, "temperature": 0.6, "top_p": 0.9,
                          "eos_token_id": [1001, 1003]},
              bos_token_id=1002, eos_token_id=[1001, 1003], rope_theta=500000.0)
QWEN = dict(special={"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}, template=CHATML,
            generation={"do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.8,
                        "repetition_penalty": 1.05, "eos_token_id": [1002, 1000],
                        "pad_token_id": 1000},
            eos_token_id=1002, rope_theta=1000000.0)
GEMMA = dict(special={"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>",
                      "unk_token": "<unk>", "mask_token": "<mask>"},
             generation={"do_sample": True, "top_k": 64, "top_p": 0.95, "eos_token_id": [1, 6]},
             head_dim=16, sliding_window=8, query_pre_attn_scalar=16)
FAMILIES = {
    "llama2-fast": Family("Llama", ("mistral", "LlamaTokenizer"), ENDS, rms_norm_eps=1e-5),
    "llama2-slow": Family("Llama", ("spm", "LlamaTokenizer"), ENDS | {"pad_token": "<pad>"}),
    "llama3-fast": Family("Llama", ("llama3", "PreTrainedTokenizerFast"), **LLAMA3),
    "llama3.2-fast": Family("Llama", ("llama3", "PreTrainedTokenizerFast"), **LLAMA3,
                            tie_word_embeddings=True, head_dim=8, rope_scaling=LLAMA3_ROPE),
    "mistral-fast": Family("Mistral", ("metaspace", "LlamaTokenizer"), ENDS, sliding_window=None),
    "mistral-slow": Family("Mistral", ("spm", "LlamaTokenizer"), ENDS, sliding_window=8),
    "qwen2-fast": Family("Qwen2", ("qwen3", "Qwen2Tokenizer"), **QWEN, use_sliding_window=False),
    "qwen3-fast": Family("Qwen3", ("qwen3", "Qwen2Tokenizer"), **QWEN, head_dim=16),
    "gemma3-text-fast": Family("Gemma3Text", ("gemma3", "GemmaTokenizer"), **GEMMA),
    "gemma3-text-slow": Family("Gemma3Text", ("spm", "GemmaTokenizer"),
                               **GEMMA | {"special": ENDS | {"pad_token": "<pad>"}}),
    "gemma3-fast": Family("Gemma3", ("gemma3", "GemmaTokenizer"), **GEMMA),
}


def architecture(family):
    return {"Gemma3Text": "Gemma3ForCausalLM",
            "Gemma3": "Gemma3ForConditionalGeneration"}.get(family.model, family.model + "ForCausalLM")


def save_config(transformers, family, folder):
    config_class = getattr(transformers, family.model + "Config")
    fields = dict(family.config)
    if family.model == "Gemma3":
        fields = {"text_config": fields, "vision_config": {
            "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
            "num_attention_heads": 2, "image_size": 28, "patch_size": 14}}
    config = config_class(architectures=[architecture(family)], **fields)
    config.torch_dtype = "bfloat16"
    config.save_pretrained(folder)
    transformers.GenerationConfig(**family.generation).save_pretrained(folder)


def merges_as_lines(path):
    """What all versions read."""
    state = json.loads(path.read_text(encoding="utf-8"))
    model = state["model"]
    model["merges"] = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    path.write_text(json.dumps(state))


def save_tokenizer(transformers, name, family, folder):
    kind, class_name = family.tokenizer
    is_slow = name.endswith("-slow")
    with tempfile.TemporaryDirectory() as source:
        file = "tokenizer.model" if is_slow else "tokenizer.json"
        shutil.copy(TOKENIZERS / kind / file, source)
        if not is_slow:
            merges_as_lines(pathlib.Path(source, file))
        pathlib.Path(source, "tokenizer_config.json").write_text(
            json.dumps({"tokenizer_class": class_name} | family.special))
        if is_slow:
            tokenizer = getattr(transformers, class_name).from_pretrained(source)
        else:
            tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    tokenizer.chat_template = family.template
    tokenizer.save_pretrained(folder)
    if family.model == "Gemma3":
        images = transformers.Gemma3ImageProcessor()
        tokenizer.image_token_id = tokenizer.boi_token_id = 0
        tokenizer.image_token = tokenizer.boi_token = tokenizer.eoi_token = "<pad>"
        transformers.Gemma3Processor(images, tokenizer).save_pretrained(folder)


def collect(names):
    import transformers
    version = ".".join(transformers.__version__.split(".")[:2])
    for name in names or FAMILIES:
        if version.startswith("5") and name.endswith("-slow"):
            continue  # this version has fast ones only
        kept = KEPT / f"{name}-{version}"
        with tempfile.TemporaryDirectory() as folder:
            save_config(transformers, FAMILIES[name], folder)
            save_tokenizer(transformers, name, FAMILIES[name], folder)
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(folder, kept, ignore=shutil.ignore_patterns(*LEFT_OUT))


def tensors_of(config):
    """Names and shapes: of the text model, and one of those that only pictures need."""
    if "text_config" not in config:
        yield from shapes(config)
        return
    for name, shape in shapes(config["text_config"]):
        yield "language_model." + name, shape
    yield "vision_tower.vision_model.post_layernorm.weight", [16]


def write_weights(config, path):
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors_of(config):
        begin, end = end, end + 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + random_block()[:end])


def assemble(kept, folder):
    """A complete directory from what is kept of it."""
    shutil.copytree(kept, folder)
    kind, _ = FAMILIES[kept.name.rpartition("-")[0]].tokenizer
    for file in ("tokenizer.json", "tokenizer.model"):
        if (TOKENIZERS / kind / file).exists():
            shutil.copy(TOKENIZERS / kind / file, folder)
    config = json.loads((kept / "config.json").read_text(encoding="utf-8"))
    write_weights(config, folder / "model.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--collect", action="store_true")
    parser.add_argument("words", nargs="*")
    args = parser.parse_args()
    if args.collect:
        collect(args.words)
    elif len(args.words) != 1:
        sys.exit("make_model_dirs.py: expected one directory")
    else:
        output = pathlib.Path(args.words[0])
        output.mkdir(parents=True, exist_ok=True)
        for kept in sorted(KEPT.iterdir()):
            assemble(kept, output / kept.name)


if __name__ == "__main__":
    main()
