"""Reads lines of `pagedinfer bench --results`, of statistics, traces and summaries, and tells them apart.

Knows the lines' fields, nothing of tables or plots.
"""
import dataclasses
import gzip
import json
import os
import pathlib
import zlib

from reporting.shapes import COMPLETED, SHAPES, BadLine, check

WORDS = {int: "a number", float: "a number", str: "a text", list: "a list", bool: "true or false", type(None): "null"}


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
    """The lines of one run, from its statistics, its trace and its summary."""
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
        raise BadLine(f"found {WORDS[type(line)]}, expected an object")
    if "run_id" in line:  # a profile of its own is of an earlier version
        return next((kind for key, kind in (("ops", "profile"), ("config", "summary"), ("begin_s", "step"))
                     if key in line), "request")
    if "configurations" in line:
        return "comparison"
    if "summary" in line:
        return "result"
    raise BadLine(f"found the keys {', '.join(list(line)[:6]) or 'none'}, expected a line of bench --results, "
                  "or of the statistics, the trace or the summary of a run")


def check_ratios(line):
    places = range(len(line["configurations"]))
    for number, ratio in enumerate(line["ratios"]):
        if ratio["of"] not in places or ratio["to"] not in places:
            raise BadLine(f"found no configuration of ratios[{number}], expected 0 to {len(places) - 1}")
        if len(ratio["mean_95"]) != 3:  # null: there was one pair only
            raise BadLine(f"found {json.dumps(ratio['mean_95'])[:40]} as ratios[{number}].mean_95, "
                          "expected three numbers or nulls")


def name_of(path):
    """The file's name without what all such files end in."""
    name = os.fsencode(path.name).decode("utf-8", "replace")
    for ending in (".gz", ".jsonl", ".json", ".stats", ".trace", ".summary"):
        name = name.removesuffix(ending)
    return name


def parse(text):
    """The line of a text, and its kind. Raises BadLine where the report cannot use it."""
    try:
        text.encode()
        line = json.loads(text)
        if "\\ud" in text.lower():
            json.dumps(line, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadLine("found what is not Unicode, expected UTF-8 without halves of surrogate pairs") from None
    except (ValueError, RecursionError) as error:
        raise BadLine(f"found {text[:40].strip()!r}, expected JSON ({getattr(error, 'msg', error)})") from None
    kind = kind_of(line)
    if kind == "result" and "config" not in line:  # results/demo.jsonl and others keep it in the summary
        line["config"] = line["summary"].get("config") if isinstance(line["summary"], dict) else None
    check(line, SHAPES[kind])
    if kind == "request":
        if not line.get("error"):
            check(line, COMPLETED)
        line = {"ttft_ms": None, "e2e_ms": None, **line}
    if kind == "comparison":
        check_ratios(line)
        for configuration in line["configurations"]:
            configuration["config"] = configuration.get("config") or {}
    return kind, line


def add(lines, path, text):
    kind, line = parse(text)
    if kind == "result":
        lines.results.append(Result(name_of(path), line))
    elif kind == "comparison":
        lines.comparisons.append(Result(name_of(path), line))
    else:
        run = lines.runs.setdefault(line["run_id"], Run(name_of(path)))
        if kind in ("request", "step"):
            (run.requests if kind == "request" else run.steps).append(line)
        elif kind == "profile":
            run.profile = line
        else:
            run.summary, run.profile = line, line.get("profile") or run.profile


def read(paths):
    """All lines of the files; those that cannot be used are named in `faults`."""
    lines = Lines()
    for path in map(pathlib.Path, paths):
        opened = gzip.open if path.suffix == ".gz" else open
        try:
            with opened(path, "rt", encoding="utf-8", errors="surrogateescape") as file:
                for number, text in enumerate(file, 1):
                    try:
                        if text.strip():
                            add(lines, path, text)
                    except BadLine as error:
                        lines.faults.append(f"{path}:{number}: {error}")
        except (OSError, EOFError, zlib.error) as error:
            lines.faults.append(f"{path}: {error}")
    return lines
