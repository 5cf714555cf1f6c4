"""Reads lines of `pagedinfer bench --results`, of statistics, traces and profiles, and tells them apart.

Knows the lines' fields, nothing of tables or plots.
"""
import dataclasses
import gzip
import json
import numbers
import pathlib

NUMBER = (numbers.Number, type(None))  # percentiles of nothing are null
KINDS = {int: "a number", str: "a text", list: "a list", dict: "an object", bool: "true or false",
         type(None): "null", float: "a number", NUMBER: "a number"}

# What a line of each kind must have, as far as the report reads it.
FIELDS = {
    "request": {"run_id": str, "ttft_ms": NUMBER, "e2e_ms": NUMBER},
    "step": {"run_id": str, **{name: NUMBER for name in (
        "begin_s", "end_s", "prefill_tokens", "decode_tokens", "running", "waiting",
        "positions_leased", "positions_reusable", "tokens_held")}},
    "profile": {"run_id": str, "ops": list, "peak_gb_per_s": NUMBER, "peak_tflop_per_s": NUMBER},
    "summary": {"run_id": str, "config": dict, "output_throughput": NUMBER},
    "result": {"commit": str, "command": str, "config": dict, "summary": dict},
    "comparison": {"commit": str, "command": str, "workload": dict, "configurations": list,
                   "ratios": list},
}
OP_FIELDS = {"op": str, "decode_only": bool, "time_s": NUMBER, "share": NUMBER, "of_bound": NUMBER}
RATIO_FIELDS = {"of": NUMBER, "to": NUMBER, "figure": str, "median": NUMBER, "mean_95": list}
SUMMARY_FIELDS = {"output_throughput": NUMBER}
CONFIGURATION_FIELDS = {"flags": str, "summary": dict}


class BadLine(Exception):
    """Says what was found in a line and what was expected."""


@dataclasses.dataclass
class Result:
    """A line of bench --results: of one configuration, or of several that took turns."""
    source: str  # the file's name without its endings
    line: dict

    @property
    def workload(self):
        return self.line.get("workload") or {"name": self.source}


@dataclasses.dataclass
class Run:
    """The lines of one run, from its statistics and its trace."""
    source: str
    requests: list = dataclasses.field(default_factory=list)
    steps: list = dataclasses.field(default_factory=list)
    profile: dict | None = None
    summary: dict | None = None


@dataclasses.dataclass
class Lines:
    results: list = dataclasses.field(default_factory=list)
    comparisons: list = dataclasses.field(default_factory=list)
    runs: dict = dataclasses.field(default_factory=dict)  # run_id to Run
    faults: list = dataclasses.field(default_factory=list)


def kind_of(line):
    if not isinstance(line, dict):
        raise BadLine(f"found {KINDS.get(type(line), 'something else')}, expected an object")
    if line.get("kind") in FIELDS and line["kind"] not in ("result", "comparison"):
        return line["kind"]
    if "kind" in line:
        raise BadLine(f"found the kind {json.dumps(line['kind'])}, expected request, step, profile or summary")
    if "configurations" in line:
        return "comparison"
    if "summary" in line:
        return "result"
    raise BadLine(f"found the keys {', '.join(list(line)[:6]) or 'none'}, expected a line of bench --results, "
                  "or of the statistics or the trace of a run")


def check(fields, line, where=""):
    for name, kind in fields.items():
        if name not in line:
            raise BadLine(f"found no {where}{name}, expected {KINDS[kind]}")
        is_bool = isinstance(line[name], bool)
        if not isinstance(line[name], kind) or (kind is NUMBER and is_bool):
            raise BadLine(f"found {json.dumps(line[name])[:40]} as {where}{name}, expected {KINDS[kind]}")


def check_parts(kind, line):
    def each(name, fields):
        for number, part in enumerate(line[name]):
            if not isinstance(part, dict):
                raise BadLine(f"found {json.dumps(part)[:40]} as {name}[{number}], expected an object")
            check(fields, part, f"{name}[{number}].")

    if kind == "profile":
        each("ops", OP_FIELDS)
    elif kind == "result":
        check(SUMMARY_FIELDS, line["summary"], "summary.")
        if not line["config"] or not isinstance(line.get("workload", {}), dict):
            raise BadLine("found no config or workload, expected objects")
    elif kind == "comparison":
        each("configurations", CONFIGURATION_FIELDS)
        each("ratios", RATIO_FIELDS)
        for number, ratio in enumerate(line["ratios"]):
            places = range(len(line["configurations"]))
            if ratio["of"] not in places or ratio["to"] not in places:
                raise BadLine(f"found no configuration of ratios[{number}], expected 0 to {len(places) - 1}")
            bounds = ratio["mean_95"]  # null: there was one pair only
            if len(bounds) != 3 or not all(isinstance(b, NUMBER) for b in bounds):
                raise BadLine(f"found {json.dumps(bounds)[:40]} as ratios[{number}].mean_95, expected three numbers or nulls")


def name_of(path):
    """The file's name without what all such files end in."""
    name = path.name
    for ending in (".gz", ".jsonl", ".json", ".stats", ".trace"):
        name = name.removesuffix(ending)
    return name


def add(lines, path, text):
    try:
        line = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadLine(f"found {text[:40].strip()!r}, expected JSON ({error.msg})") from None
    kind = kind_of(line)
    if kind == "result" and "config" not in line:  # results/demo.jsonl and others keep it in the summary
        line["config"] = line["summary"].get("config", {}) if isinstance(line["summary"], dict) else {}
    if kind == "request" and line.get("error"):
        line = {"ttft_ms": None, "e2e_ms": None, **line}
    check(FIELDS[kind], line)
    check_parts(kind, line)
    if kind == "result":
        lines.results.append(Result(name_of(path), line))
    elif kind == "comparison":
        lines.comparisons.append(Result(name_of(path), line))
    else:
        run = lines.runs.setdefault(line["run_id"], Run(name_of(path)))
        if kind in ("request", "step"):
            (run.requests if kind == "request" else run.steps).append(line)
        else:
            setattr(run, kind, line)


def read(paths):
    """All lines of the files; those that cannot be used are named in `faults`."""
    lines = Lines()
    for path in map(pathlib.Path, paths):
        opened = gzip.open if path.suffix == ".gz" else open
        try:
            with opened(path, "rt", encoding="utf-8") as file:
                for number, text in enumerate(file, 1):
                    try:
                        if text.strip():
                            add(lines, path, text)
                    except BadLine as error:
                        lines.faults.append(f"{path}:{number}: {error}")
        except (OSError, UnicodeDecodeError, EOFError) as error:
            lines.faults.append(f"{path}: {error}")
    return lines
