"""Checkpoints of 4 bits made of a bundled model by llmcompressor, with calibration on its training text.

Needs packages of PyPI: llmcompressor (tried: 0.14.0), torch and transformers. The text is of other
documents than the bundled prompts (tools/goldens/make_stories.py).
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import datasets
import llmcompressor
import transformers
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from llmcompressor.modifiers.quantization import GPTQModifier, QuantizationModifier
from llmcompressor.modifiers.transform.awq import AWQModifier
from llmcompressor.pipelines.cache import IntermediatesCache

# Pinned memory needs the driver of a GPU.
IntermediatesCache.pin_memory = lambda *args, **more: None

MAKE_STORIES = pathlib.Path(__file__).resolve().parents[1] / "goldens" / "make_stories.py"
PIECES, TOKENS, BATCH = 128, 256, 16


def training_text(tokenizer):
    """PIECES of TOKENS tokens of documents, one after another."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "stories.jsonl"
        subprocess.run([sys.executable, MAKE_STORIES, "--train", path, "--documents", "1200"],
                       check=True, stdout=sys.stderr)
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    tokens = tokenizer("\n".join(line["prompt"] + line["completion"] for line in lines))["input_ids"]
    pieces = [tokens[i:i + TOKENS] for i in range(0, len(tokens) - TOKENS, TOKENS)][:PIECES]
    return datasets.Dataset.from_dict({"input_ids": pieces,
                                       "attention_mask": [[1] * TOKENS for _ in pieces]})


def write_calibrated(source, folder, method, group):
    """Writes the model with matrices of layers in 4 bits, by `method`: gptq (symmetric) or awq."""
    model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype="bfloat16")
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    weights = QuantizationArgs(num_bits=4, strategy="group", group_size=group,
                               symmetric=method == "gptq")
    scheme = {"group_0": QuantizationScheme(targets=["Linear"], weights=weights)}
    quantization = {"config_groups": scheme, "ignore": ["lm_head"]}
    recipe = ([GPTQModifier(**quantization)] if method == "gptq" else
              [AWQModifier(), QuantizationModifier(**quantization)])
    llmcompressor.oneshot(model=model, tokenizer=tokenizer, dataset=training_text(tokenizer),
                          recipe=recipe,
                          max_seq_length=TOKENS, num_calibration_samples=PIECES, batch_size=BATCH,
                          shuffle_calibration_samples=False)
    model.save_pretrained(folder, save_compressed=True)
    for path in pathlib.Path(source).iterdir():
        if not (pathlib.Path(folder) / path.name).exists() and path.suffix != ".safetensors":
            (pathlib.Path(folder) / path.name).symlink_to(path.resolve())


if __name__ == "__main__":
    write_calibrated(*sys.argv[1:4], int(sys.argv[4]))
