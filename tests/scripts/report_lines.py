"""Lines of made-up runs whose tables and plots are known, for the tests of scripts/report.py."""
import copy
import inspect
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from reporting import groups, read, tables  # noqa: E402

SUMMARY = {
    "completed": 8, "failed": 0, "total_input_tokens": 1000, "cached_tokens": 250, "found_tokens": 750,
    "duration": 2.0, "request_throughput": 4.0, "output_throughput": 128.0, "p50_ttft_ms": 10.0,
    "p90_ttft_ms": 20.0, "p99_ttft_ms": 30.0, "p50_itl_ms": 1.0, "p90_itl_ms": 2.0, "p99_itl_ms": 3.0,
    "p50_e2el_ms": 100.0, "p90_e2el_ms": 200.0, "p99_e2el_ms": 300.0, "kv_use_peak": 0.4, "running_mean": 7.5,
    "running_peak": 8, "preemptions": 1, "prefill_tokens": 1000, "decode_tokens": 500}
CONFIG = {"model": "tiny", "max_batch_size": 8, "kv": "paged"}


def result(command="--workload random", run="a", summary=None, config=None, workload=None, **more):
    return {"run": run, "commit": "c0ffee", "machine": {"processor": "one"}, "command": f"pagedinfer bench {command}",
            "workload": {"name": "random", "requests": 8, "prompt_tokens": [4, 16], "rate": 0, **(workload or {})},
            "config": {**CONFIG, **(config or {})}, "summary": {**SUMMARY, **(summary or {})}, **more}


def comparison(of=None, to=None, **more):
    line = result(**more)
    config, summary = line.pop("config"), line.pop("summary")
    line["configurations"] = [
        {"flags": "--kv contiguous", "config": config, "summary": {**summary, **(to or {})}},
        {"flags": "--kv paged", "config": config, "summary": {**summary, **(of or {})}}]
    return {**line, "pairs": 3, "same_completions": True, "ratios": [
        {"of": 1, "to": 0, "figure": "output_throughput", "median": 2.0, "mean_95": [1.5, 2.0, 2.5]}]}


def request(number=0, **more):
    return {"run_id": "r", "time": f"2026-01-01T00:00:{number:02}.500Z", "id": number,
            "ttft_ms": 10.0 + number, "itl_p50_ms": 1.0, "itl_p99_ms": 2.0, "e2e_ms": 500.0, **more}


def step(begin, end, decodes=1, **more):
    return {"run_id": "r", "begin_s": begin, "end_s": end, "prefill_tokens": 0,
            "decode_tokens": decodes, "running": 2, "waiting": 1, "positions_leased": 32, "positions_reusable": 16,
            "tokens_held": 20, **more}


def operation(name, share, **more):
    return {"op": name, "decode_only": True, "time_s": 0.5 * share, "share": share, "of_bound": 0.25,
            "gb_per_s": 40.0, "tflop_per_s": 0.5, **more}


def profile(*operations):
    return {"peak_gb_per_s": 80.0, "peak_tflop_per_s": 2.0, "ops": list(operations)}


def summary(**more):
    return {"run_id": "r", "device": "cpu", "config": CONFIG, **SUMMARY, "kv_positions_total": 64,
            **more}


def lines_of(*lines, name="made"):
    """As the report reads them from NAME.jsonl; a text is a line as it is."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"{name}.jsonl"
        path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        return read.read([path])


def report(*lines, **more):
    """The lines, the experiments and the names that tables and plots are made of."""
    found = lines_of(*lines, **more)
    runs = list(found.runs.values())
    return (found, groups.experiments(found.results + groups.configurations(found.comparisons)),
            groups.names_of(runs) if runs else [])


def tables_of(*lines, **more):
    return tables.make(*report(*lines, **more))


def cells(table):
    """For each row, by its first cell, the other cells by their headers."""
    return {row[0]: dict(zip(table.headers[1:], row[1:])) for row in table.rows}


def broken(line):
    """The line with each of its parts left out, or in the place of it something else."""
    def paths(value, path=()):
        parts = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
        for key, part in parts:
            yield (*path, key)
            yield from paths(part, (*path, key))
    for *parents, last in paths(line):
        for value in (None, "fast", "'", -1, 0, 1.5, [], {}, True, float("nan"), 1e308, 10 ** 400):
            other = copy.deepcopy(line)
            place = other
            for key in parents:
                place = place[key]
            place[last] = value
            yield other
        del place[last]
        yield other


def run_cases(names):
    """Runs the functions of the file that take nothing, and says by their names what has been seen to hold."""
    for name, case in list(names.items()):
        if getattr(case, "__module__", None) == "__main__" and not inspect.signature(case).parameters:
            case()
            print(name.replace("_", " "))
