"""The shapes of the lines that a report reads: what must be in them, and of which type.

A shape is a Kind, a dict of names and shapes, a list of one shape, or Maybe(shape) for what may be left out
or null. Fields that no shape names are not read. Every field that tables or plots use is named here, so that
they need not check it again.
"""
import dataclasses
import datetime
import json
import shlex

from reporting.figures import FIGURES

MAX_NUMBER = 1e15  # of either sign; what a machine measures is below it


class BadLine(Exception):
    """Says what was found in a line and what was expected."""


@dataclasses.dataclass(frozen=True)
class Kind:
    words: str
    accepts: object  # of a value: whether it is of this kind


@dataclasses.dataclass(frozen=True)
class Maybe:
    shape: object


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= MAX_NUMBER


def is_command(value):
    try:
        return isinstance(value, str) and shlex.split(value) is not None
    except ValueError:  # a quote without its other one
        return False


def is_time(value):
    try:
        return datetime.datetime.fromisoformat(value.replace("Z", "+00:00")).tzinfo is not None
    except (AttributeError, ValueError):
        return False


NUMBER = Kind("a number", is_number)
NUMBER_OR_NULL = Kind("a number or null", lambda value: value is None or is_number(value))
PLACE = Kind("a number from 0 on", lambda value: is_number(value) and isinstance(value, int) and value >= 0)
TEXT = Kind("a text", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
COMMAND = Kind("a command", is_command)
TIME = Kind("a time of day with its zone", is_time)

CONFIG = {
    **{name: Maybe(TEXT) for name in ("model", "served_model_name", "batching", "kv", "dtype", "device")},
    **{name: Maybe(FLAG) for name in ("prefix_cache", "chunked_prefill")},
    **{name: Maybe(NUMBER) for name in (
        "threads", "max_batch_size", "block_size", "admission_reserve", "max_step_tokens", "num_blocks",
        "max_model_len", "prefill_chunk_size", "max_prefill_chunks")},
}
SUMMARY = {
    **{name: Maybe(NUMBER) for name in (
        *FIGURES, "cached_tokens", "total_input_tokens", "prefill_tokens", "decode_tokens", "kv_positions_total")},
    "output_throughput": NUMBER_OR_NULL,
}
PROFILE = {
    "peak_gb_per_s": NUMBER, "peak_tflop_per_s": NUMBER,
    "ops": [{"op": TEXT, "decode_only": FLAG, "time_s": NUMBER, "share": NUMBER, "of_bound": NUMBER,
             "gb_per_s": Maybe(NUMBER), "tflop_per_s": Maybe(NUMBER)}],
}
WORKLOAD = {"name": Maybe(TEXT), **{name: Maybe(NUMBER) for name in ("rate", "load", "heads")}}
MEASURED = {"commit": TEXT, "command": COMMAND, "run": Maybe(TEXT), "workload": Maybe(WORKLOAD)}

SHAPES = {
    "request": {
        "run_id": TEXT, "time": Maybe(TIME), "error": Maybe(TEXT),
        **{name: Maybe(NUMBER) for name in ("arrival_s", "itl_p50_ms", "itl_p99_ms")},
    },
    "step": {
        "run_id": TEXT,
        **{name: NUMBER for name in (
            "begin_s", "end_s", "prefill_tokens", "decode_tokens", "running", "waiting", "positions_leased",
            "positions_reusable", "tokens_held")},
    },
    "profile": {"run_id": TEXT, **PROFILE},
    "summary": {"run_id": TEXT, "config": CONFIG, "device": Maybe(TEXT), "profile": Maybe(PROFILE), **SUMMARY},
    "result": {**MEASURED, "config": CONFIG, "summary": SUMMARY},
    "comparison": {
        **MEASURED, "workload": WORKLOAD, "pairs": Maybe(NUMBER), "same_completions": Maybe(FLAG),
        "configurations": [{"flags": COMMAND, "config": Maybe(CONFIG), "summary": SUMMARY}],
        "ratios": [{"of": PLACE, "to": PLACE, "figure": TEXT, "median": NUMBER, "mean_95": [NUMBER_OR_NULL]}],
    },
}
# A request that failed has no times.
COMPLETED = {"ttft_ms": NUMBER_OR_NULL, "e2e_ms": NUMBER_OR_NULL}


def check(value, shape, where=""):
    """Raises BadLine where the value has not this shape."""
    if isinstance(shape, Maybe):
        if value is not None:
            check(value, shape.shape, where)
    elif isinstance(shape, Kind):
        if not shape.accepts(value):
            raise BadLine(f"found {json.dumps(value)[:40]} as {where}, expected {shape.words}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise BadLine(f"found {json.dumps(value)[:40]} as {where}, expected a list")
        for number, part in enumerate(value):
            check(part, shape[0], f"{where}[{number}]")
    else:
        if not isinstance(value, dict):
            raise BadLine(f"found {json.dumps(value)[:40]} as {where}, expected an object")
        for name, of_field in shape.items():
            path = f"{where}.{name}" if where else name
            if name in value:
                check(value[name], of_field, path)
            elif not isinstance(of_field, Maybe):
                raise BadLine(f"found no {path}, expected {words_of(of_field)}")


def words_of(shape):
    if isinstance(shape, Kind):
        return shape.words
    return "a list" if isinstance(shape, list) else "an object"
