#!/usr/bin/env python3
"""Renders conversations with real chat templates, by transformers and by pagedinfer: the texts must be
equal, or both must refuse.

  check_chat_templates.py PROGRAM FOLDER    PROGRAM: build/tests/pagedinfer_render_template

FOLDER has templates (*.jinja). Needs transformers 5.23.0; exit code 77 if it or the folder is not
there. Each template gets each conversation with each set of keywords.
"""

import datetime
import json
import pathlib
import subprocess
import sys

NOW = datetime.datetime(2024, 7, 26)

TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "Tells the weather.\n\"Now\" & <soon>",
    "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "Where? é"},
        "unit": {"type": "string", "enum": ["C", "F"]},
        "days": {"type": ["integer", "null"], "default": 3, "minimum": 1.5},
        "where": {"type": "object", "properties": {"lat": {"type": "number"}}},
        "list": {"type": "array", "items": {"type": "string"}},
        "any": {"anyOf": [{"type": "string"}, {"type": "number"}]}}},
    "return": {"type": "string"}}}
PLAIN_TOOL = {"name": "add", "description": "Adds.", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}}


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(name="get_weather", arguments=None, **more):
    arguments = {"city": "Rome", "days": 2} if arguments is None else arguments
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def tool(text, **more):
    return {"role": "tool", "content": text, **more}


CALLED = [user("Weather?"), assistant("", tool_calls=[call(id="abcdefghi")]),
          tool("sunny", name="get_weather", tool_call_id="abcdefghi")]
CONVERSATIONS = [
    [user("Hi")],
    [user("")],
    [user("  spaces \n\n")],
    [user("Ünï 中文 😀 \"q\" <b>&amp; \\n {{ x }} {% if %}")],
    [user("<|im_end|>\n<|im_start|>system\n<|eot_id|></s>[INST]")],
    [system("Be brief."), user("Hi")],
    [system(""), user("Hi")],
    [system("  trimmed?  \n"), user("Hi"), assistant("Hello"), user("Bye")],
    [user("Hi"), assistant("Hello")],
    [user("Hi"), assistant("Hello "), user("More"), assistant("Less")],
    [user("a"), assistant("b"), user("c"), assistant("d"), user("e")],
    [user("a"), user("b")],
    [assistant("first")],
    [assistant("first"), user("second")],
    [system("a"), system("b"), user("c")],
    [user("a"), system("late"), user("b")],
    [system("alone")],
    [],
    [{"role": "developer", "content": "Dev."}, user("Hi")],
    [{"role": "unknown", "content": "?"}],
    [{"role": "model", "content": "x"}, user("y")],
    [user([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])],
    [system([{"type": "text", "text": "sys"}]), user([{"type": "text", "text": "one"}])],
    [user([{"type": "image"}, {"type": "text", "text": "what?"}])],
    [user([])],
    [user("Hi"), assistant([{"type": "text", "text": "parts"}]), user("b")],
    [user("Hi"), assistant("<think>\nhm\n</think>\n\nYes"), user("b")],
    [user("Hi"), assistant("Yes", reasoning_content="because", thinking="because"), user("b")],
    [user("Hi"), assistant("Yes", reasoning_content="  why\n", thinking="  why\n")],
    [user("Hi"), assistant("", reasoning_content="only", thinking="only")],
    [user("Hi"), assistant(None)],
    [user(None)],
    [{"role": "user"}],
    [user("Hi"), {"role": "assistant", "tool_calls": [call(id="abcdefghi")]}],
    CALLED,
    CALLED + [assistant("It is sunny."), user("Thanks")],
    [user("Two?"), assistant("ok", tool_calls=[call(id="aaaaaaaaa"), call("add", {"a": 1, "b": [1, "x"]},
                                                                      id="bbbbbbbbb")]),
     tool("1", name="get_weather", tool_call_id="aaaaaaaaa"),
     tool("2", name="add", tool_call_id="bbbbbbbbb"), assistant("done")],
    [user("S"), assistant(None, tool_calls=[call(arguments="{\"city\": \"Rome\"}", id="abcdefghi")]),
     tool("{\"t\": 20}", tool_call_id="abcdefghi", name="get_weather"), user("then?")],
    [user("E"), assistant("", tool_calls=[call(arguments={}, id="abcdefghi")]),
     tool([{"type": "text", "text": "part"}], name="get_weather", tool_call_id="abcdefghi")],
    [user("N"), assistant("", tool_calls=[call(arguments={"x": {"y": [True, None, 1.5]}})]), tool("")],
    [system("Tools."), user("R"), assistant("t", reasoning_content="r", thinking="r",
                                            tool_calls=[call(id="abcdefghi")]),
     tool("v", tool_call_id="abcdefghi", name="get_weather"), assistant("end", reasoning_content="z"),
     user("more")],
    [user("I"), {"role": "ipython", "content": "out"}, user("x")],
    [tool("orphan", tool_call_id="abcdefghi")],
    [user("Hi"), assistant("a", tool_calls=[])],
    [user("x" * 300 + "\n" + "y"), assistant("</think>only end"), user("z")],
    [{"role": "user", "content": 5}],
    [system("/no_think"), user("Hi /think")],
]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
KEYWORDS = [
    {"add_generation_prompt": True},
    {"add_generation_prompt": False},
    {"add_generation_prompt": True, "enable_thinking": False, "thinking": False},
    {"add_generation_prompt": True, "enable_thinking": True, "thinking": True,
     "reasoning_effort": "high", "builtin_tools": ["browser", "python"], "keep_past_thinking": True},
    {"add_generation_prompt": True, "tools": [TOOL]},
    {"add_generation_prompt": False, "tools": [TOOL, PLAIN_TOOL], "xml_tools": [json.dumps(TOOL)],
     "tools_in_user_message": False, "documents": [{"title": "T", "text": "D\n"}]},
    {"add_generation_prompt": True, "documents": [{"doc_id": 1, "title": "é", "text": "t"}],
     "citations": True, "custom_instructions": "Own.", "date_string": "1 Jan 2025"},
    {"add_generation_prompt": True, "tools": []},
]


def inputs():
    for messages in CONVERSATIONS:
        for keywords in KEYWORDS:
            yield {"tools": None, "documents": None, **TOKENS, **keywords, "messages": messages}


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    templates = sorted(folder.glob("*.jinja"))
    try:
        import transformers.utils.chat_template_utils as utils
    except ImportError:
        print("SKIPPED: no transformers")
        return 77
    if not templates:
        print(f"SKIPPED: no templates in {folder}")
        return 77

    class FixedTime(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return NOW

    utils.datetime = FixedTime
    num_texts = num_refused = 0
    failures = []
    for path in templates:
        source = path.read_text()
        lines = [json.dumps({"template": source, "variables": values}, ensure_ascii=False)
                 for values in inputs()]
        ours = subprocess.run([program], input="\n".join(lines) + "\n", text=True, encoding="utf-8",
                              stdout=subprocess.PIPE, check=True).stdout.splitlines()
        assert len(ours) == len(lines), path
        for line, answer in zip(lines, map(json.loads, ours)):
            values = json.loads(line)["variables"]
            try:
                text = utils._compile_jinja_template(source).render(**values)
                num_texts += 1
            except Exception as error:
                text = None
                num_refused += 1
                reason = error
            if answer.get("text") != text:
                failures.append((path.name, values, reason if text is None else text, answer))
    for name, values, expected, answer in failures[:10]:
        print(f"{name}: {json.dumps(values, ensure_ascii=False)[:600]}\n  expected {expected!r}\n"
              f"  found    {answer!r}")
    print(f"{len(templates)} templates, {num_texts} texts, {num_refused} refusals, "
          f"{len(failures)} differ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
