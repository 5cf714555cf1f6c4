#!/usr/bin/env python3
"""Writes what transformers makes of the files beside a tokenizer.json: which tokens they add, with
which ids, and which of them are special. Random ones, of the forms that old and new versions write.

  make_tokenizer_config_cases.py [OUTPUT]    [tests/data/tokenizers/configs.jsonl]

Needs transformers 5.23.0. A line is a case: "tokenizer", a folder of tests/data/tokenizers; "files",
what stands beside its tokenizer.json; "text" and its "ids"; "decoded", the text of ids that
tokenizer.json lacks or calls otherwise.
"""

import json
import logging
import pathlib
import random
import shutil
import sys
import tempfile
import warnings

import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENIZERS = ROOT / "tests/data/tokenizers"
OUTPUT = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else TOKENIZERS / "configs.jsonl"
NUM_CASES = 90
ROLES = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]
NAMES = ["image_token", "boi_token", "eoi_token"]
NEW = ["<p>", "<q>", "<r>", "<x>", "<y y>", "[PAD]", "<unk>", "wordy"]
OLD = {"qwen3": ["<think>", "</think>", "<|im_end|>", "estion"],
       "odd": ["<left>", "<right>", "word", "<a b>", "<|endoftext|>"]}


class Case:
    def __init__(self, draw, name):
        self.draw, self.name, self.new = draw, name, NEW * 2
        state = json.loads((TOKENIZERS / name / "tokenizer.json").read_text())
        self.added = state["added_tokens"]
        self.known = {token["content"]: token["id"] for token in self.added} | state["model"]["vocab"]

    def chance(self, share):
        return self.draw.random() < share

    def spelt(self):
        """A new spelling at most twice: of three that differ the reference takes one or another."""
        known = [c for c in OLD[self.name] if c in self.known]
        content = self.draw.choice(self.new if self.new and self.chance(0.6) else known)
        if content in self.new:
            self.new.remove(content)
        return content

    def token(self, marked):
        """A spelling, or an object."""
        if self.chance(0.7):
            return self.spelt()
        token = {"content": self.spelt()}
        for flag in ("lstrip", "rstrip", "single_word", "normalized", "special"):
            if self.chance(0.4):
                token[flag] = self.chance(0.5)
        return token | ({"__type": "AddedToken"} if marked else {})

    def named(self, marked, share=0.4):
        fields = {key: self.token(marked) for key in ROLES + NAMES if self.chance(share)}
        if self.chance(0.3):
            fields[self.draw.choice(ROLES)] = None
        if self.chance(0.2):
            fields["other_token"] = self.draw.choice([True, 5])
        return fields

    def listed(self, marked):
        if self.chance(0.3):
            return {f"token_{i}": self.spelt() for i in range(self.draw.randint(0, 3))}
        return self.draw.choice([
            None, [], [self.spelt() for _ in range(3)], [self.token(marked) for _ in range(2)]])

    def list_of_added(self):
        listed, entries = [dict(token) for token in self.added if self.chance(0.8)], {}
        new = self.draw.sample(NEW, self.draw.randint(0, 3))
        last = max(self.known.values())
        for token in listed + [{"id": last + 1 + i, "content": c} for i, c in enumerate(new)]:
            id = token.pop("id")
            for flag in ("lstrip", "normalized", "special"):
                if self.chance(0.3) and not token.get("normalized"):
                    token[flag] = self.chance(0.5)
            entries[str(id)] = token
        return entries

    def added_file(self):
        new = [c for c in self.draw.sample(NEW, self.draw.randint(1, 3)) if c not in self.known]
        last = max(self.known.values())
        return ({token["content"]: token["id"] for token in self.added if self.chance(0.5)} |
                {content: last + 1 + i for i, content in enumerate(new)})

    def files(self):
        config = self.named(marked=True)
        if self.chance(0.5):
            config["extra_special_tokens"] = self.listed(marked=True)
        if self.chance(0.3):
            config["additional_special_tokens"] = [self.spelt() for _ in range(2)]
        if self.chance(0.15):
            config["model_specific_special_tokens"] = {"token_m": self.spelt()}
        if self.chance(0.3):
            config["added_tokens_decoder"] = self.list_of_added()
        fields = list(config.items())
        self.draw.shuffle(fields)
        files = {"tokenizer_config.json": dict(fields) | {"model_max_length": 10**30}}
        if self.chance(0.4):
            special = self.named(marked=False, share=0.25)
            if self.chance(0.5):
                special["additional_special_tokens"] = [self.spelt() for _ in range(2)]
            if self.chance(0.2):
                special["extra_special_tokens"] = self.listed(marked=False)
            files["special_tokens_map.json"] = special
        if self.chance(0.2):
            files["added_tokens.json"] = self.added_file()
        return files


def load(name, files):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(TOKENIZERS / name / "tokenizer.json", folder)
        for file, fields in files.items():
            more = {"tokenizer_class": "PreTrainedTokenizerFast"} if "config" in file else {}
            pathlib.Path(folder, file).write_text(json.dumps(fields | more))
        return transformers.AutoTokenizer.from_pretrained(folder)


def case(draw, number):
    name = draw.choice(sorted(OLD))
    files = Case(draw, name).files()
    try:
        tokenizer = load(name, files)
    except (TypeError, ValueError):  # not valid for the reference either
        return None
    spellings = NEW + OLD[name]
    draw.shuffle(spellings)
    text = "".join(draw.choice(["", " ", "a"]) + s + draw.choice(["", " ", "b"]) for s in spellings)
    plain = load(name, {"tokenizer_config.json": {}}).added_tokens_decoder
    changed = [i for i, token in sorted(tokenizer.added_tokens_decoder.items())
               if i not in plain or plain[i].special != token.special]
    return {"tokenizer": name, "files": files, "text": text,
            "ids": tokenizer.encode(text, add_special_tokens=False),
            "decoded": {str(i): tokenizer.decode([i], skip_special_tokens=True) for i in changed}}


def main():
    if transformers.__version__ != "5.23.0":
        sys.exit(f"transformers is {transformers.__version__}, expected 5.23.0")
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    draw, cases = random.Random(1), []
    while len(cases) < NUM_CASES:
        made = case(draw, len(cases))
        if made:
            cases.append(made)
    OUTPUT.write_text("".join(json.dumps(c, separators=(",", ":")) + "\n" for c in cases))


if __name__ == "__main__":
    main()
