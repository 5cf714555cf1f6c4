#!/usr/bin/env python3
"""Writes tests/data/chat/cases.jsonl: conversations, and what transformers renders of them.

    make_chat_cases.py TEMPLATES > tests/data/chat/cases.jsonl

TEMPLATES is a directory with a file NAME.jinja for each template but chatml and those of OWN, as the
models ship them; they belong to others and are not part of the project. The tests render gemma3's cases
with a template of their own. Those of OWN stand in tests/data/chat, in the form of their models. The conversations are made here from a seed. Needs transformers 5.23.0.
"""
import datetime
import json
import pathlib
import random
import sys

from transformers.utils import chat_template_utils
from transformers.utils.chat_template_utils import render_jinja_template

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WORDS = {
    "llama3": {"bos_token": "<|begin_of_text|>"},
    "gemma2": {"bos_token": "<bos>"},
    "gemma3": {"bos_token": "<bos>"},
    "ministral3": {"bos_token": "<s>", "eos_token": "</s>"},
    "mistral-nemo": {"bos_token": "<s>", "eos_token": "</s>"},
}
OWN = ("exaone4", "glm4", "harmony", "ministral3")
CHAT = pathlib.Path(__file__).resolve().parents[2] / "tests/data/chat"
COUNTS = {"chatml": 8, "harmony": 24, "qwen3": 70}
PIECES = [
    "", " ", "\n", "\n\n", "\t", "\u00a0", "\u3000", "\u200b", "\u2028", "\r\n", "\x1c", "\x85", "\x7f",
    "Hello", "tell me of the fox", "2 + 2 = 4", "Füchse", "狐狸", "🦊🏽", "e\u0301", "\"quoted\" \\ back", "{{ x }}", "{% if %}",
    "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<start_of_turn>", "<end_of_turn>", "<bos>", "<s>", "</s>", "[INST]", "[/INST]",
    "<think>", "</think>", "<think>\nhm\n</think>\n\n", "<tool_response>", "</tool_response>", "<tool_response>\nok\n</tool_response>",
]


# Of functions: their parameters.
SCHEMAS = [
    None, {"type": "object", "properties": {}},
    {"type": "object", "required": ["place"], "properties": {
        "place": {"type": "string", "description": "A town.\n  Or a country. "},
        "unit": {"type": "string", "enum": ["celsius", "狐"], "default": "celsius"},
        "days": {"type": "integer", "default": 3}}},
    {"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "object", "required": ["x"], "properties": {
            "x": {"type": "number"}, "deep": {"type": "object", "properties": {"on": {"type": "boolean"}}}}}},
        "either": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]},
        "some": {"type": ["string", "null"]}, "any": {}, "all": {"type": "array"}}},
]


def text(rng):
    return "".join(rng.choice(PIECES) for _ in range(rng.choice([0, 1, 1, 2, 3, 4])))


def message(rng, role, lists):
    made = {"role": role, "content": text(rng)}
    if lists and rng.random() < 0.3:
        made["content"] = [{"type": "text", "text": text(rng)} for _ in range(1 if role == "system" else rng.randint(1, 3))]
    elif role == "user" and rng.random() < 0.2:
        made["content"] = "<tool_response>" + text(rng) + rng.choice(["", "</tool_response>"])
    if role == "assistant" and rng.random() < 0.2:
        made["reasoning_content"] = text(rng)
    if role == "tool" and rng.random() < 0.8:
        made["tool_call_id"] = rng.choice(["abcdef123", "äöü456789", "short"])
    return made


def conversation(rng, lists):
    if rng.random() < 0.25:  # any roles in any order
        roles = [rng.choice(["system", "user", "assistant", "tool", "developer"]) for _ in range(rng.randint(1, 5))]
    else:
        roles = ["system"] * (rng.random() < 0.4) + ["user"]
        for _ in range(rng.randint(0, 3)):
            roles += ["assistant"] + ["tool"] * rng.choice([0, 0, 0, 1, 2]) + ["user"] * (rng.random() < 0.9)
    return [message(rng, role, lists) for role in roles]


def function(rng, i):
    made = {"name": f"f{i}"}
    if rng.random() < 0.8:
        made["description"] = text(rng)
    schema = rng.choice(SCHEMAS)
    return {"type": "function", "function": made | ({"parameters": schema} if schema else {})}


def call(rng):
    given = rng.choice([{}, {"place": text(rng)}, {"list": [{"x": 1.5, "deep": {"on": True}}], "some": None}])
    if rng.random() < 0.3:
        given = json.dumps(given)
    return {"type": "function", "function": {"name": f"f{rng.randrange(3)}", "arguments": given}}


def conversation_of_channels(rng):
    """With thoughts, calls and their results, mostly in an order that a model has seen."""
    messages = [{"role": rng.choice(["system", "developer"]), "content": text(rng)}] * (rng.random() < 0.5)
    for _ in range(rng.randint(1, 3)):
        messages.append({"role": rng.choice(["user"] * 19 + ["developer"]), "content": text(rng)})
        for _ in range(rng.choice([0, 0, 1, 2])):
            made = {"role": "assistant", "tool_calls": [call(rng) for _ in range(rng.choice([1, 1, 2]))]}
            made |= {key: text(rng) for key in ("thinking", "content") if rng.random() < 0.5}
            messages.append(made)
            messages.append({"role": "tool", "content": rng.choice([text(rng), {"degrees": [1, 2.5], "ok": True}])})
        if rng.random() < 0.7:
            messages.append({"role": "assistant", "content": text(rng)})
            if rng.random() < 0.6:
                messages[-1]["thinking"] = text(rng)
    if rng.random() < 0.1:
        messages.insert(rng.randrange(len(messages) + 1), {"role": "tool", "content": text(rng)})
    if rng.random() < 0.1:
        messages.append({"role": "assistant", "content": "<|channel|>final" + text(rng)})
    return messages


def render(source, case, words):
    kwargs = {key: case[key] for key in ("enable_thinking", "reasoning_effort", "tools") if key in case}
    try:
        rendered, _ = render_jinja_template(
            conversations=[case["messages"]], chat_template=source, add_generation_prompt=case["add_generation_prompt"],
            date_string="26 Jul 2024", **words, **kwargs)
        return {"text": rendered[0]}
    except Exception as error:  # raise_exception of a template
        if type(error).__name__ != "TemplateError":
            raise
        return {"error": str(error)}


def main():
    # Of strftime_now.
    chat_template_utils.datetime = type("Then", (), {"now": lambda: datetime.datetime(2024, 7, 26)})
    templates = {path.stem: path.read_text() for path in pathlib.Path(sys.argv[1]).glob("*.jinja")}
    templates |= {"chatml": CHATML} | {name: (CHAT / f"{name}.jinja").read_text() for name in OWN}
    for name, source in sorted(templates.items()):
        rng = random.Random(name)
        for _ in range(COUNTS.get(name, 20)):
            has_channels = name == "harmony"
            messages = conversation_of_channels(rng) if has_channels else conversation(rng, name == "gemma3")
            case = {"template": name, "messages": messages, "add_generation_prompt": rng.random() < 0.7}
            if has_channels and rng.random() < 0.6:
                case["tools"] = [function(rng, i) for i in range(rng.randint(1, 3))]
            if has_channels and rng.random() < 0.5:
                case["reasoning_effort"] = rng.choice(["low", "high"])
            if name in ("exaone4", "qwen3") and rng.random() < 0.5:
                case["enable_thinking"] = rng.random() < 0.5
            case |= render(source, case, WORDS.get(name, {}))
            print(json.dumps(case, ensure_ascii=False, separators=(",", ":")))


if __name__ == "__main__":
    main()
