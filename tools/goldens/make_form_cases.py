#!/usr/bin/env python3
"""Writes tests/data/form_cases.jsonl: schemas and regular expressions of what is supported, with
texts that they allow and texts that they do not, as Python's jsonschema and re decide. And schemas
with keywords that are refused, with texts that would pass if the keyword were ignored.

  make_form_cases.py [--seed N] [--count N] > tests/data/form_cases.jsonl

Texts that are allowed are in the only form that an answer has: without white space between the
parts, properties in their order. Needs jsonschema; exits with 77 without it.
"""

import argparse
import json
import random
import re
import sys

import check_forms
from check_forms import jsonschema

try:
    from re import _constants as codes, _parser as parser
except ImportError:
    import sre_constants as codes, sre_parse as parser

EXAMPLES = {"date": ["2024-02-29", "1999-12-31"], "time": ["12:34:56Z", "00:00:00+01:30"],
            "date-time": ["2024-02-29T12:34:56Z"], "ipv4": ["127.0.0.1", "255.0.25.9"],
            "uuid": ["123e4567-e89b-12d3-a456-426614174000"]}
FORMATS = {"date": r"\d{4}-\d\d-\d\d", "time": r"\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)",
           "date-time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "ipv4": r"\d+(\.\d+){3}",
           "uuid": r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"}
CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER
LETTERS = "abcxyz019 -_.,é€ß語"
MORE = "".join(chr(c) for c in range(32, 127) if chr(c) not in "\"\\") + "üýÿ"
ESCAPED = "\n\t\"\\"  # in JSON

# Two models of pydantic's.
PETS = {"Cat": {"type": "object", "title": "Cat", "properties": {
            "kind": {"const": "cat", "title": "Kind", "type": "string"}, "lives": {"title": "Lives", "type": "integer"}},
            "required": ["kind", "lives"]},
        "Dog": {"type": "object", "title": "Dog", "properties": {
            "kind": {"enum": ["dog", "wolf"], "title": "Kind", "type": "string"}, "name": {"type": "string", "maxLength": 9}},
            "required": ["kind"], "additionalProperties": False}}

# One for each keyword, beside the random ones; each has what an answer may not be.
SCHEMAS = [
    ({"type": "integer", "minimum": -3, "maximum": 12}, [-4, 13, 1.5, "1", None]),
    ({"type": "integer", "exclusiveMinimum": 5, "exclusiveMaximum": 8}, [5, 8, 9]),
    ({"type": "integer", "multipleOf": 7}, [1, 8, -6]),
    ({"type": "number", "minimum": -1.5, "maximum": 2.25}, [-1.6, 2.26, 3]),
    ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.25}, [0, 0.25, 1]),
    ({"type": "string", "minLength": 2, "maxLength": 4}, ["a", "abcde", "", 2]),
    ({"type": "string", "pattern": "^[a-z]+-\\d{2,3}$"}, ["a-1", "-12", "a-1234", "A-12"]),
    ({"type": "string", "format": "date"}, ["2024-1-1", "x"]),
    ({"type": "string", "format": "time"}, ["12:34", "x"]),
    ({"type": "string", "format": "date-time"}, ["2024-02-29", "x"]),
    ({"type": "string", "format": "ipv4"}, ["1.2.3", "1.2.3.4.5"]),
    ({"type": "string", "format": "uuid"}, ["123e4567", "x"]),
    ({"enum": ["a", 1, None, 2.5, {"b": [True]}]}, ["b", 2, False, {"b": [False]}]),
    ({"const": {"title": [1, "x"]}}, [{"title": [1]}, {}, 1]),
    ({"type": "string", "enum": ["a", 2]}, [2, "b"]),
    ({"type": ["string", "null"], "maxLength": 3}, ["abcd", 1]),
    ({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]}, ["ab", None, [1]]),
    ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, [None, 1.5, []]),
    ({"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind", "x"]},
                {"type": "object", "properties": {"kind": {"const": "b"}, "y": {"type": "string"}}, "required": ["kind"]}]},
     [{"kind": "a"}, {"kind": "c"}, {"kind": "b", "y": 1}, {"kind": "a", "x": "1"}]),
    ({"oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}, {"type": "null"}], "$defs": PETS},
     [{"kind": "cat"}, {"kind": "bird"}, {"kind": "dog", "name": 1}, {"kind": "cat", "lives": "9"}, []]),
    ({"type": "object", "properties": {"pets": {"type": "array", "items": {"oneOf": [
        {"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}], "discriminator": {
            "propertyName": "kind", "mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}}}}}, "required": ["pets"],
      "$defs": PETS}, [{"pets": [{"kind": "cat"}]}, {"pets": [{"kind": "dog", "lives": 9}]}, {"pets": [None]}]),
    ({"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "discriminator": {"propertyName": "kind"}, "$defs": {
        "a": {"type": "object", "properties": {"kind": {"const": "a", "default": "a"}, "x": {"type": "integer"}}, "required": ["x"]},
        "b": {"type": "object", "properties": {"x": {"type": "integer"}, "kind": {"const": "b", "default": "b"}}, "required": ["x"]}}},
     [{"x": 1}, {"kind": "c", "x": 1}, {"kind": "a"}]),
    ({"oneOf": [{"properties": {"x": {"type": "integer"}}, "required": ["x"]},
                {"properties": {"y": {"type": "integer"}}, "required": ["y"]}]}, [{}, {"x": "1"}, {"x": 1, "y": 1}]),
    ({"allOf": [{"type": "boolean"}]}, [1, None]),
    ({"$ref": "#/$defs/node", "$defs": {"node": {"properties": {"v": {"type": "integer"}, "next": {"anyOf": [
        {"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"]}}},
     [{"v": 1}, {"v": 1, "next": 2}, {"v": 1, "next": {"v": 1}}, []]),
    ({"properties": {"children": {"type": "array", "items": {"$ref": "#"}}}}, [{"children": 1}, {"children": [1]}, 1]),
    ({"definitions": {"a": {"type": "null"}}, "type": "array", "items": {"$ref": "#/definitions/a"}}, [[1], [None, 1], None]),
    ({"prefixItems": [{"type": "integer"}, {"type": "boolean"}], "items": {"type": "null"}, "minItems": 1},
     [[], ["a"], [1, 2], [1, True, 1]]),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3}, [[], [1, 2, 3, 4], ["1"]]),
    ({"type": "array", "uniqueItems": False, "items": {"type": "integer"}}, [["a"], 1]),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, [{"a": "b"}, {"a": None}, [1]]),
    ({"properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}, [{}, {"a": 1, "b": 1}, {"b": 1}]),
    ({"title": "t", "description": "d", "default": 1, "examples": [1], "$comment": "c", "deprecated": True,
      "readOnly": True, "writeOnly": False, "type": "null"}, [1, "null"]),
]

# Schemas with answers that must be allowed, and answers that must not.
COLOR = {"enum": ["red", "green", 1, 1.0], "title": "Color"}
GIVEN = [
    ({"type": "string", "format": "email"},
     ["a@b.de", "first.last+tag@mail-1.example.com"], ["a", "a@b", "@b.de", "a@-b.de", "a@b..de", ".a@b.de", "a b@c.de"]),
    ({"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083},
     ["https://example.com", "http://a.b:80/c/d%20e?f=g&h"], ["example.com", "https://a b", "http://a/%2", "//a/b"]),
    ({"type": "string", "format": "uri"}, ["mailto:a@b.de", "urn:isbn:0451450523", "http://[::1]/a#b?c"], ["a", ":b", "http://[::1/a"]),
    ({"type": "string", "format": "hostname"}, ["a", "www.example.com"], ["-a", "a-", "a..b", "a_b"]),
    ({"type": "string", "format": "ipv4"}, ["0.0.0.0", "255.255.255.255"], ["256.1.1.1", "023.1.1.1", "1.2.3"]),
    ({"type": "string", "format": "ipv6"}, ["::", "::1", "1:2:3:4:5:6:7:8", "fe80::a:1", "::ffff:1.2.3.4", "1:2:3:4:5:6:7::"],
     [":::", "1:2:3", "1::2::3", "12345::", "1:2:3:4:5:6:7:8:9", "::1.2.3.256"]),
    ({"type": "string", "format": "duration"}, ["P1Y2M3D", "PT1H30M", "P2W", "P1DT12H", "PT0S"], ["P", "PT", "P1H", "P1Y3D", "1D", "P1W2D"]),
    ({"type": "string", "format": "date"}, ["2024-02-29", "2000-02-29", "1999-12-31"],
     ["2023-02-29", "1900-02-29", "2024-06-31", "2024-13-01", "2024-00-10"]),
    ({"type": "string", "format": "date-time"}, ["2024-02-29T23:59:59.5+14:00"], ["2023-02-29T00:00:00Z", "2024-01-01T24:00:00Z"]),
    ({"type": "string", "pattern": "^[a-z]+-\\d{2}$", "minLength": 6, "maxLength": 8}, ["abc-12", "abcde-12"], ["ab-12", "abcdef-12"]),
    ({"type": "string", "pattern": "^a(bc)*d$", "minLength": 3}, ["abcd", "abcbcd"], ["ad"]),
    ({"type": "string", "pattern": "^(yes|no)$", "minLength": 2, "maxLength": 3}, ["yes", "no"], ["y"]),
    ({"type": "string", "pattern": "^x[a-z]*$", "maxLength": 1}, ["x"], ["xa", ""]),
    ({"type": "array", "items": {"$ref": "#/$defs/Color"}, "uniqueItems": True, "$defs": {"Color": COLOR}},
     [[], ["red"], [1, "green", "red"]], [["red", "red"], [1, 1.0], ["blue"], ["red", "green", 1, "red"]]),
    ({"type": "array", "items": {"enum": ["a", "b", "c", "d", "e"]}, "uniqueItems": True, "minItems": 2},
     [["a", "b"], ["e", "d", "c", "b", "a"]], [[], ["a"], ["a", "a"]]),
    ({"type": "array", "items": {"enum": list("abcdefghijklmnopq")}, "uniqueItems": True, "maxItems": 2},
     [["q", "a"], ["h"]], [["a", "a"], ["a", "b", "c"]]),
    ({"properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": True}, [{"a": 1}], [{}, {"a": "1"}]),
    ({"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}}, [{"a": 1}, {}], [{"b": 1}]),
]

# What is refused, with answers that only the keyword forbids.
REFUSED = [
    ({"type": "string", "not": {"const": "a"}}, ["a"]),
    ({"type": "integer", "if": {"minimum": 0}, "then": {"minimum": 5}}, [3]),
    ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "dependentRequired": {"a": ["b"]}},
     [{"a": 1}]),
    ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [[1, 1]]),
    ({"type": "array", "items": {"type": "integer"}, "contains": {"const": 7}}, [[1]]),
    ({"type": "number", "multipleOf": 0.5}, [0.3]),
    ({"allOf": [{"type": "string"}, {"type": "string", "maxLength": 3}]}, ["abcdef"]),
    ({"type": "string", "pattern": "^a+b*$", "maxLength": 3}, ["aaaaa"]),
    ({"anyOf": [{"type": "string"}], "maxLength": 2}, ["abc"]),
    ({"enum": ["a", "abc"], "maxLength": 2}, ["abc"]),
    ({"$ref": "#/$defs/a", "maxLength": 3, "$defs": {"a": {"type": "string"}}}, ["abcd"]),
    ({"type": "object", "properties": {"ab": {"type": "string"}}, "patternProperties": {"^a": {"type": "integer"}}}, [{"ab": "x"}]),
    ({"type": "object", "additionalProperties": {"type": "integer"}, "propertyNames": {"maxLength": 1}}, [{"abc": 1}]),
    ({"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1}, [{"a": 1, "b": 2}]),
    ({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2}, [{"a": 1}]),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, [1]),
    ({"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": {
        "a": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"const": 1}}, "required": ["x"]},
        "b": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"const": 2}}, "required": ["x"]}}}, [{"x": 1}]),
    ({"type": "object", "properties": {"a": {"not": {"const": 1}, "type": "integer"}}, "required": ["a"]}, [{"a": 1}]),
]


def text_of(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def matching(expression, draw):
    """A text that the expression matches as a whole, of ASCII digits and letters."""
    def one_of(items):
        negated = items[0][0] is codes.NEGATE
        ascii_only = negated and (codes.CATEGORY, codes.CATEGORY_DIGIT) in items or (codes.CATEGORY, codes.CATEGORY_WORD) in items
        for letters in (LETTERS, MORE, ESCAPED):
            good = [c for c in letters if any(holds(item, c) for item in items if item[0] is not codes.NEGATE) != negated]
            good = [c for c in good if c.isascii() or not ascii_only]
            if good:
                return draw.choice(good)
        raise ValueError(items)

    def holds(item, c):
        op, value = item
        if op is codes.LITERAL:
            return ord(c) == value
        if op is codes.RANGE:
            return value[0] <= ord(c) <= value[1]
        digit, word, space = c in "0123456789", c.isascii() and (c.isalnum() or c == "_"), c in " \t"
        return {codes.CATEGORY_DIGIT: digit, codes.CATEGORY_NOT_DIGIT: not digit and c.isascii(), codes.CATEGORY_WORD: word,
                codes.CATEGORY_NOT_WORD: not word and c.isascii(), codes.CATEGORY_SPACE: space,
                codes.CATEGORY_NOT_SPACE: not space}[value]

    def walk(parts):
        text = ""
        for op, value in parts:
            if op is codes.LITERAL:
                text += chr(value)
            elif op is codes.NOT_LITERAL:
                text += draw.choice([c for c in LETTERS if ord(c) != value])
            elif op is codes.ANY:
                text += draw.choice(LETTERS)
            elif op is codes.IN:
                text += one_of(value)
            elif op is codes.BRANCH:
                text += walk(draw.choice(value[1]))
            elif op is codes.SUBPATTERN:
                text += walk(value[3])
            elif op in (codes.MAX_REPEAT, codes.MIN_REPEAT):
                low, high, inner = value
                times = draw.randint(low, min(high, low + 2))
                text += "".join(walk(inner) for _ in range(times))
            elif op is not codes.AT:
                raise ValueError(op)
        return text

    return walk(parser.parse(expression))


def instance(schema, draw, root, depth=0):
    """A value that the schema allows, as a rule."""
    if "$ref" in schema:
        target = root
        for name in schema["$ref"].split("/")[1:]:
            target = target[name]
        return instance(target, draw, root, depth + 1)
    if "enum" in schema:
        kind = schema.get("type")
        return draw.choice([value for value in schema["enum"] if kind is None or isinstance(value, str)])
    if "const" in schema:
        return schema["const"]
    for name in ("anyOf", "oneOf", "allOf"):
        if name in schema:
            options = schema[name]
            return instance(options[-1] if depth > 4 else draw.choice(options), draw, root, depth + 1)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = draw.choice(kind)
    if kind is None:
        kind = "object" if "properties" in schema else "array" if "prefixItems" in schema else "string"
    if kind == "null":
        return None
    if kind == "boolean":
        return draw.random() < 0.5
    if kind == "string":
        if "pattern" in schema:
            return matching(schema["pattern"], draw)
        if "format" in schema:
            return draw.choice(EXAMPLES[schema["format"]])
        low = schema.get("minLength", 0)
        length = draw.randint(low, min(schema.get("maxLength", low + 4), low + 8))
        return "".join(draw.choice(LETTERS) for _ in range(length))
    if kind in ("integer", "number"):
        step = schema.get("multipleOf", 1 if kind == "integer" else 0.125)
        low = schema.get("minimum", schema.get("exclusiveMinimum", schema.get("maximum", schema.get("exclusiveMaximum", 30)) - 30))
        high = schema.get("maximum", schema.get("exclusiveMaximum", low + 60))
        value = draw.randint(int(low / step), int(high / step)) * step
        return int(value) if value == int(value) else value
    if kind == "array":
        items = [instance(item, draw, root, depth + 1) for item in schema.get("prefixItems", [])]
        low = schema.get("minItems", 0)
        high = schema.get("maxItems", max(low, len(items)) + 2)
        more = schema.get("items")
        while len(items) < low or (depth < 4 and len(items) < high and isinstance(more, dict) and draw.random() < 0.5):
            items.append(instance(more if isinstance(more, dict) else {}, draw, root, depth + 1))
        return items[:max(low, draw.randint(low, high))] if "prefixItems" in schema else items
    value = {}
    for name, inner in schema.get("properties", {}).items():
        if name in schema.get("required", []) or (depth < 4 and draw.random() < 0.5):
            value[name] = instance(inner, draw, root, depth + 1)
    if "properties" not in schema:
        for name in draw.sample(["a", "b c", "é"], draw.randrange(3)):
            value[name] = instance(schema.get("additionalProperties", {}), draw, root, depth + 1)
    return value


def changed(value, draw):
    """The value with one of its parts changed."""
    if isinstance(value, dict) and value and draw.random() < 0.8:
        name = draw.choice(list(value))
        if draw.random() < 0.3:
            return {key: part for key, part in value.items() if key != name}
        return {key: changed(part, draw) if key == name else part for key, part in value.items()}
    if isinstance(value, list) and value and draw.random() < 0.8:
        place = draw.randrange(len(value))
        if draw.random() < 0.3:
            return value + [value[place]]
        return [changed(part, draw) if i == place else part for i, part in enumerate(value)]
    if isinstance(value, dict) and draw.random() < 0.5:
        return {**value, "other": 1}
    if isinstance(value, str) and draw.random() < 0.6:
        return value + draw.choice("az 9é") if draw.random() < 0.5 else value[:-1]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and draw.random() < 0.6:
        return value + draw.choice([-1000000, -1, 1, 0.5, 1000000])
    return draw.choice([None, True, 3, -2.5, "x", [], {}, [1], {"a": 1}])


def is_valid(schema, value):
    if not jsonschema.Draft202012Validator(schema).is_valid(value):
        return False
    # What jsonschema takes for a note only, or decides in another way.
    if isinstance(value, str) and "format" in schema:
        return bool(re.fullmatch(FORMATS[schema["format"]], value))
    return True


def case_of_schema(schema, draw, wrong):
    valid, invalid = [], []
    for _ in range(8):
        value = instance(schema, draw, schema)
        if is_valid(schema, value):
            valid.append(text_of(value))
        wrong = wrong + [changed(value, draw)]
    for value in wrong:
        if not is_valid(schema, value):
            invalid.append(text_of(value))
    for text in valid[:2]:
        invalid += [text + draw.choice([",", "}", "]", "\"", "x"]), text[:-1] + draw.choice("{[,:x")]
    invalid = [text for text in invalid if text not in valid and not parses(schema, text)]
    return {"schema": schema, "valid": sorted(set(valid))[:6], "invalid": sorted(set(invalid))[:10]}


def parses(schema, text):
    try:
        return is_valid(schema, json.loads(text))
    except ValueError:
        return False


def case_of_regex(regex, draw):
    expression = re.compile(regex)
    valid = sorted({matching(regex, draw) for _ in range(6)})
    valid = [text for text in valid if expression.fullmatch(text)][:4]
    invalid = set()
    for text in valid + [""]:
        for _ in range(4):
            at = draw.randrange(len(text) + 1)
            invalid.add(text[:at] + draw.choice(LETTERS) + text[at + draw.randrange(2):])
    invalid = sorted(text for text in invalid if not expression.fullmatch(text))
    return {"regex": regex, "valid": valid, "invalid": draw.sample(invalid, min(5, len(invalid)))}


def is_refused(part):
    """Some of the random schemas and expressions are: they repeat a group with {n,}, or have no place for prefixItems."""
    if isinstance(part, str):
        return "{2,}" in part
    if isinstance(part, list):
        return any(map(is_refused, part))
    if not isinstance(part, dict):
        return False
    too_few = part.get("maxItems", 99) < len(part.get("prefixItems", []))
    return too_few or any(map(is_refused, part.values()))


def supported(make):
    while is_refused(made := make()):
        pass
    return made


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--count", type=int, default=200)
    args = arguments.parse_args()
    draw = random.Random(args.seed)
    cases = [case_of_schema(schema, draw, wrong) for schema, wrong in SCHEMAS]
    for schema, wrong in REFUSED:
        assert not any(is_valid(schema, value) for value in wrong), schema
        cases.append({"refused": schema, "invalid": [text_of(value) for value in wrong]})
    cases += [case_of_schema(supported(lambda: check_forms.random_schema(draw)), draw, []) for _ in range(args.count)]
    cases += [case_of_regex(regex, draw) for regex in check_forms.REGEXES]
    cases += [case_of_regex(supported(lambda: check_forms.random_regex(draw)), draw) for _ in range(args.count // 2)]
    for schema, valid, wrong in GIVEN:
        assert all(jsonschema.Draft202012Validator(schema, format_checker=CHECKER).is_valid(value) for value in valid), schema
        cases.append({"schema": schema, "valid": [text_of(value) for value in valid], "invalid": [text_of(value) for value in wrong]})
    for case in cases:
        print(json.dumps(case, ensure_ascii=False, separators=(",", ":")))


if __name__ == "__main__":
    sys.exit(main())
