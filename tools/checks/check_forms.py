#!/usr/bin/env python3
"""Draws texts of many forms at random and checks them with Python's jsonschema and re.

  check_forms.py [--schemas N] [--seed N] [--suite DIR] [--run PAGEDINFER --model DIR ...] PROGRAM

PROGRAM is build/tests/pagedinfer_walk_form. With --run the models complete each schema too, at
temperatures 0 and 1.5, and what has ended must be valid. The schemas are those of the JSON Schema test suite in
DIR (its folder tests/draft2020-12), if it is given, those of this file, and N [1000] random ones.
Every text that a form allows must be valid, and a schema that is refused must be refused with its
path. Needs jsonschema; exits with 77 without it.
"""

import argparse
import collections
import json
import pathlib
import random
import re
import subprocess
import sys

try:
    import jsonschema
except ImportError:
    print("needs jsonschema")
    sys.exit(77)

OWN = [
    {},
    True,
    {"type": "object"},
    {"type": "array"},
    {"type": "string"},
    {"type": "integer"},
    {"type": "number"},
    {"type": ["string", "null"], "maxLength": 3, "minimum": 3},
    {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["b"]},
    {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
    {
        "properties": {
            "x": {"properties": {"title": {"type": "string"}}, "required": ["title"]},
            "y": {"properties": {"title": {"type": "integer"}}, "required": ["title"]},
        },
        "required": ["x", "y"],
    },
    {"anyOf": [{"const": {"title": 1}}, {"const": {"title": 2}}]},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "array", "items": {"enum": ["a", 1, None, 1.5, {"b": [True]}]}, "minItems": 1, "maxItems": 3},
    {"prefixItems": [{"type": "integer"}, {"type": "boolean"}], "items": {"type": "null"}, "minItems": 1},
    {"prefixItems": [{"type": "integer"}, {"type": "boolean"}]},
    {"type": "string", "minLength": 2, "maxLength": 4},
    {"type": "string", "minLength": 300},
    {"type": "string", "maxLength": 0},
    {"type": "string", "maxLength": 700},
    {"type": "string", "pattern": "^[a-z]+-\\d{2,3}$"},
    {"type": "string", "pattern": "a.c"},
    {"type": "string", "pattern": "^(\\S+ )*[^a-z]{3}\\w?$"},
    {"type": "string", "pattern": "^[é-ü]+€$"},
    {"type": "string", "pattern": "^(a|)(b|c)$"},
    {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    {"oneOf": [{"properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind", "x"], "type": "object"},
               {"properties": {"kind": {"const": "b"}, "y": {"type": "string"}}, "required": ["kind"], "type": "object"}]},
    {"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, {"type": "null"}], "$defs": {
        "a": {"type": "object", "properties": {"kind": {"const": "a"}, "x": {"$ref": "#"}}, "required": ["kind"]},
        "b": {"type": "object", "properties": {"kind": {"enum": ["b", "c"]}, "y": {"type": "string"}}, "required": ["kind"]}}},
    {"oneOf": [{"properties": {"x": {"type": "integer"}}, "required": ["x"]}, {"properties": {"y": {}}, "required": ["y"]}]},
    {"$ref": "#/$defs/node", "$defs": {"node": {"properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"]}}},
    {"properties": {"children": {"type": "array", "items": {"$ref": "#"}}}},
    {"type": "integer", "minimum": -17, "maximum": 123456},
    {"type": "integer", "exclusiveMinimum": 5},
    {"type": "integer", "exclusiveMaximum": -5},
    {"type": "integer", "multipleOf": 7},
    {"type": "number", "minimum": 0, "maximum": 1},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.25},
    {"type": "number", "minimum": -1.5},
    {"type": "number", "maximum": 12.125},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "time"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "ipv4"},
    {"type": "string", "format": "ipv6"},
    {"type": "string", "format": "duration"},
    {"type": "string", "format": "email", "minLength": 1},
    {"type": "string", "format": "hostname"},
    {"type": "string", "format": "uri"},
    {"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083},
    {"type": "string", "format": "uuid"},
    {"type": "string", "pattern": "^[a-z]+-x$", "minLength": 5, "maxLength": 9},
    {"type": "string", "pattern": "^(ab)*c$", "maxLength": 20},
    {"type": "array", "items": {"enum": ["a", "b", 1, 1.0, None, True]}, "uniqueItems": True, "minItems": 1},
    {"properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": True},
    {"type": "string", "enum": ["a", 2]},
    {"enum": ["é\"\\\n/"]},
    {"properties": {"a\"b\\": {"type": "integer"}, "é/~": {"type": "null"}}, "required": ["a\"b\\", "é/~"]},
    {"allOf": [{"type": "boolean"}]},
]

# What must be refused, and the path of the keyword.
REFUSED = [
    ({"not": {"type": "string"}}, "#/not"),
    ({"if": True}, "#/if"),
    ({"properties": {"a": {"dependentRequired": {}}}}, "#/properties/a/dependentRequired"),
    ({"type": "array", "uniqueItems": True}, "#/uniqueItems"),
    ({"type": "array", "contains": {}}, "#/contains"),
    ({"type": "number", "multipleOf": 0.5}, "#/multipleOf"),
    ({"allOf": [{"type": "string"}, {"maxLength": 3}]}, "#/allOf"),
    ({"type": "string", "pattern": "a+b+", "maxLength": 3}, "#/pattern"),
    ({"$ref": "http://example.com/schema"}, "#/$ref"),
    ({"$ref": "#/$defs/a", "maxLength": 3, "$defs": {"a": {"type": "string"}}}, "#/maxLength"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "#/$defs/b/$ref"),
    ({"anyOf": [{"type": "string"}], "maxLength": 2}, "#/maxLength"),
    ({"patternProperties": {"a": {}}}, "#/patternProperties"),
    ({"properties": {}, "additionalProperties": {}}, "#/additionalProperties"),
    ({"properties": {"a": {}}, "required": ["b"]}, "#/required"),
    ({"enum": ["a"], "maxLength": 2}, "#/maxLength"),
    ({"type": "string", "pattern": "(?=a)b"}, "#/pattern"),
    ({"type": "string", "pattern": "a\\b"}, "#/pattern"),
    ({"type": "string", "format": "color"}, "#/format"),
    (False, "#"),
]

# "uri" is checked if rfc3987 is installed.
CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER

REGEXES = [
    "abc", "a|b|", "(?:ab|c)*d", "[^a-z]{2,3}", "\\d+(\\.\\d{1,2})?", "\\w+@\\w+\\.(com|org)", "a{3}", "a{2,}b?",
    "(?P<year>\\d{4})-(?P<month>0[1-9]|1[0-2])", "[\\]\\-^]+", "[-a]+", "\\x41\\u00e9", "^yes|no$", "x*?y", ".+",
    "é[ü-ÿ]*", "\\S\\s\\S", "[^\\s\\d]+", "(a(b(c)?)?)?", "\\(\\[\\{\\}", "[.]{3}", "((a|b)(c|d)){2,5}", "[^^]", "[\\n]",
    "(|a)b(|c)",
]


def random_schema(draw, depth=0):
    """A schema of what is supported."""
    kind = draw.randrange(5 if depth > 3 else 11)
    if kind == 0:
        schema = {"type": "string"}
        if draw.random() < 0.5:
            schema["minLength"] = draw.randrange(4)
        if draw.random() < 0.5:
            schema["maxLength"] = schema.get("minLength", 0) + draw.randrange(200 if draw.random() < 0.1 else 5)
        return schema
    if kind == 1:
        schema = {"type": draw.choice(["integer", "number"])}
        scale = draw.choice([1, 10, 1000, 10**6, 10**9])
        low = draw.randrange(-scale, scale)
        high = low + draw.randrange(1, 2 * scale)
        if schema["type"] == "number":
            divisor = draw.choice([1, 2, 4, 8])
            low, high = low / divisor, high / divisor
        if draw.random() < 0.5:
            schema[draw.choice(["minimum", "exclusiveMinimum"])] = low
        if draw.random() < 0.5:
            schema[draw.choice(["maximum", "exclusiveMaximum"])] = high + 1
        if schema == {"type": "integer"} and draw.random() < 0.3:
            schema["multipleOf"] = draw.randrange(1, 30)
        return schema
    if kind == 2:
        return {"enum": draw.sample(["a", "b\"", 1, 2.5, -3, None, True, [], ["x", {"title": 1}], {"default": 2}], draw.randrange(1, 5))}
    if kind == 3:
        return {"type": draw.sample(["string", "integer", "boolean", "null", "number"], draw.randrange(1, 4))}
    if kind == 4:
        return {"type": "string", "pattern": "^" + random_regex(draw, json_string=True) + "$"}
    if kind <= 7:
        names = draw.sample(["a", "b", "title", "default", "é", "a b", "q\"", "n\\", "type", ""], draw.randrange(5))
        schema = {"type": "object", "properties": {name: random_schema(draw, depth + 1) for name in names}}
        schema["required"] = [name for name in names if draw.random() < 0.6]
        if draw.random() < 0.3:
            schema["additionalProperties"] = False
        return schema
    if kind == 8:
        schema = {"type": "array", "items": random_schema(draw, depth + 1)}
        if draw.random() < 0.5:
            schema["minItems"] = draw.randrange(3)
        if draw.random() < 0.5:
            schema["maxItems"] = schema.get("minItems", 0) + draw.randrange(3)
        if draw.random() < 0.3:
            schema["prefixItems"] = [random_schema(draw, depth + 1) for _ in range(draw.randrange(1, 3))]
        return schema
    if kind == 9:
        return {"anyOf": [random_schema(draw, depth + 1) for _ in range(draw.randrange(1, 4))]}
    return {"type": "object", "additionalProperties": random_schema(draw, depth + 1)}


def random_regex(draw, json_string=False, depth=0):
    kind = draw.randrange(4 if depth > 2 else 8)
    if kind == 0:
        return draw.choice(["a", "b", "é", "\\.", "-", " ", "\\d", "\\w", "\\s", "\\S", "\\D", "\\W", "."])
    if kind == 1:
        return draw.choice(["[a-c]", "[^a-c]", "[\\w-]", "[^\\s]", "[0-9€]", "[^\"x]", "[ -~]"])
    if kind <= 3:
        return draw.choice("abcxyz019")
    if kind == 4:
        return random_regex(draw, json_string, depth + 1) + random_regex(draw, json_string, depth + 1)
    if kind == 5:
        return "(?:" + random_regex(draw, json_string, depth + 1) + "|" + random_regex(draw, json_string, depth + 1) + ")"
    return "(" + random_regex(draw, json_string, depth + 1) + ")" + draw.choice(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"])


def suite_schemas(folder):
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        for group in json.loads(path.read_text(encoding="utf-8")):
            yield group["schema"]


def check_completions(program, model, schemas, counts, wrong):
    """Lets a model complete each schema. An answer that is cut off is only counted."""
    lines = [{"prompt": "Once upon a time ", "guided_json": schema, "temperature": temperature, "max_tokens": 200}
             for schema in schemas for temperature in (0, 1.5)]
    run = subprocess.run([program, "run", "--model", model, "--input", "-", "--output", "-", "--quiet"],
                         input="".join(json.dumps(line) + "\n" for line in lines), capture_output=True, text=True,
                         encoding="utf-8", check=False)
    records = [json.loads(record) for record in run.stdout.splitlines()]
    if len(records) != len(lines):
        sys.exit(f"{program} has written {len(records)} records for {len(lines)} lines: {run.stderr}")
    for line, record in zip(lines, records):
        about = f"{model}: {json.dumps(line['guided_json'])}"
        if "error" in record:
            code = record["error"]["code"]
            counts[f"completions refused, {code}"] += 1
            if code not in ("unsupported_schema", "invalid_value"):
                wrong.append(f"{about}: {record['error']}")
        elif record["finish_reason"] == "length":
            counts["completions cut off"] += 1
        else:
            counts[f"completions valid, {pathlib.Path(model).name}"] += 1
            try:
                jsonschema.Draft202012Validator(line["guided_json"]).validate(json.loads(record["text"]))
            except (ValueError, jsonschema.ValidationError) as error:
                wrong.append(f"{about}: {record['text']!r}: {str(error).splitlines()[0]}")


class Walker:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        encoding="utf-8")

    def texts(self, **request):
        self.process.stdin.write(json.dumps({"seed": 1, "count": 20, **request}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the program has ended with {request}")
        return json.loads(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--suite")
    parser.add_argument("--run")
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("program")
    args = parser.parse_args()
    walker = Walker(args.program)
    counts = collections.Counter()
    wrong = []

    def check_schema(schema, kind):
        for whitespace in (False, True):
            texts = walker.texts(kind="schema", text=json.dumps(schema), whitespace=whitespace)
            if isinstance(texts, dict):
                counts[kind + " refused"] += 1
                return texts
            counts[kind] += 1
            counts[kind + " texts"] += len(texts)
            validator = jsonschema.Draft202012Validator(schema, format_checker=CHECKER)
            for text in texts:
                try:
                    validator.validate(json.loads(text))
                except (ValueError, jsonschema.ValidationError) as error:
                    wrong.append(f"{json.dumps(schema)}: {text!r}: {str(error).splitlines()[0]}")
        return None

    for schema in OWN:
        refused = check_schema(schema, "own schemas")
        if refused is not None:
            wrong.append(f"{json.dumps(schema)}: refused: {refused['message']}")
    for schema, path in REFUSED:
        refused = check_schema(schema, "schemas to refuse")
        if refused is None or refused["code"] != "unsupported_schema" or not refused["message"].startswith(path + ":"):
            wrong.append(f"{json.dumps(schema)}: not refused at {path}: {refused}")
    draw = random.Random(args.seed)
    drawn = [random_schema(draw) for _ in range(args.schemas)]
    for _ in range(args.schemas):
        check_schema({"type": "string", "pattern": f"^(?:{random_regex(draw, json_string=True)})$"}, "patterns")
    suite = list(suite_schemas(args.suite)) if args.suite else []
    for schema in drawn:
        check_schema(schema, "random schemas")
    for schema in suite:
        check_schema(schema, "schemas of the suite")
    for model in args.model:
        check_completions(args.run, model, OWN + suite + drawn, counts, wrong)
    regexes = REGEXES + [random_regex(draw) for _ in range(args.schemas // 2)]
    for regex in regexes:
        texts = walker.texts(kind="regex", text=regex)
        if isinstance(texts, dict):
            counts["expressions refused"] += 1
            if regex in REGEXES:
                wrong.append(f"{regex!r}: refused: {texts['message']}")
            continue
        counts["expressions"] += 1
        counts["expressions texts"] += len(texts)
        expression = re.compile(regex)
        for text in texts:
            matches = expression.fullmatch(text)
            if not matches:
                wrong.append(f"{regex!r}: {text!r} does not match")
    for choices in (["yes", "no"], ["a\"b", "\\", "é\n", "x\ty"], ["a", "ab", "abc"]):
        for text in walker.texts(kind="choices", texts=choices):
            counts["choices texts"] += 1
            if text not in choices:
                wrong.append(f"{choices}: {text!r}")
    for name, count in sorted(counts.items()):
        print(f"{count:7} {name}")
    print(f"{len(wrong)} wrong")
    for line in wrong[:30]:
        print(line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
