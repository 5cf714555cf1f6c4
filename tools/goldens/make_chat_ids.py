#!/usr/bin/env python3
"""Writes tests/data/chat/ids.jsonl: lines with conversations, and the token ids of their prompts.

    make_chat_ids.py > tests/data/chat/ids.jsonl

Each tokenizer of TOKENIZERS, from tests/data/tokenizers, gets the templates of TEMPLATES, from
tests/data/chat. The ids are what apply_chat_template(tokenize=True) returns. Needs transformers 5.23.0.
"""
import json
import pathlib
import random
import shutil
import tempfile

from transformers import AutoTokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests/data"
TOKENIZERS = {
    "qwen3": {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
    "llama3": {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"},
    "gemma3": {"bos_token": "<bos>", "eos_token": "<eos>"},
    "mistral": {"bos_token": "<s>", "eos_token": "</s>"},
}
TEMPLATES = ["chatml", "headers", "model_turns"]
PIECES = ["", " ", "\n\n", "Hello", "tell me of the fox", " 2 + 2 = 4 ", "Füchse", "狐狸", "🦊🏽", "<|im_end|>", "<|eot_id|>",
          "<end_of_turn>", "</s>", "<s>", "<bos>", "<think>", "\u3000x\r\n"]
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "number"}}}}}]
CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "add", "arguments": {"a": 1.5, "b": "é"}}}


def text(rng):
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(0, 4)))


def conversation(rng, template):
    messages = [{"role": "system", "content": text(rng)}] * (rng.random() < 0.4)
    messages.append({"role": "user", "content": text(rng)})
    for _ in range(rng.randint(0, 2)):
        messages.append({"role": "assistant", "content": text(rng)})
        if template == "headers" and rng.random() < 0.5:
            messages[-1]["reasoning"] = text(rng)
        if template == "headers" and rng.random() < 0.4:
            messages[-1] = {"role": "assistant", "content": None, "tool_calls": [CALL]}
            messages.append({"role": "tool", "content": text(rng), "tool_call_id": CALL["id"]})
        messages.append({"role": "user", "content": text(rng)})
    line = {"messages": messages}
    if template == "headers" and rng.random() < 0.5:
        line["tools"] = TOOLS
    if rng.random() < 0.3:
        line["add_generation_prompt"] = False
    elif rng.random() < 0.3:
        messages.append({"role": "assistant", "content": "So " + text(rng)})
        line["continue_final_message"] = True
    return line


def ids_of(tokenizer, line):
    arguments = {"add_generation_prompt": "continue_final_message" not in line} | line
    return tokenizer.apply_chat_template(arguments.pop("messages"), tokenize=True, return_dict=False, **arguments)


def main():
    for name, special in TOKENIZERS.items():
        for template in TEMPLATES:
            rng = random.Random(f"{name} {template}")
            with tempfile.TemporaryDirectory() as folder:
                shutil.copy(ROOT / "tokenizers" / name / "tokenizer.json", folder)
                shutil.copy(ROOT / "chat" / f"{template}.jinja", f"{folder}/chat_template.jinja")
                config = special | {"tokenizer_class": "PreTrainedTokenizerFast"}
                pathlib.Path(folder, "tokenizer_config.json").write_text(json.dumps(config))
                tokenizer = AutoTokenizer.from_pretrained(folder)
                for _ in range(6):
                    line = conversation(rng, template)
                    case = {"tokenizer": name, "special": special, "template": template, "line": line, "ids": ids_of(tokenizer, line)}
                    print(json.dumps(case, ensure_ascii=False, separators=(",", ":")))


if __name__ == "__main__":
    main()
