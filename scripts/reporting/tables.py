"""Makes the tables of a report: rows of text, as Markdown."""
import dataclasses
import re
import statistics

from reporting.figures import figure, number, ratio_text, ratio_with_interval
from reporting.groups import compared, failed, failed_of, median, model_of, words_of
from reporting.shapes import is_number

RESULT_COLUMNS = ("request_throughput", "output_throughput", "p50_ttft_ms", "p99_ttft_ms", "p50_itl_ms",
                  "p99_itl_ms", "p99_e2el_ms", "running_mean", "running_peak", "kv_use_peak", "hit_rate", "preemptions")
RUN_COLUMNS = RESULT_COLUMNS[:-2] + ("preemptions",)
OF_THE_OTHERS = "Figures are of requests that completed."


@dataclasses.dataclass
class Table:
    title: str
    headers: list
    rows: list
    note: str = ""

    def markdown(self):
        cells = [[re.sub(r"[\x00-\x1f]", " ", cell).replace("|", "\\|") for cell in row] for row in [self.headers, *self.rows]]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.headers))]
        rows = ["| " + " | ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))]) + " |"
                for row in cells]
        rule = "|" + "|".join(["-" * (widths[0] + 2), *("-" * (w + 1) + ":" for w in widths[1:])]) + "|"
        return "\n".join([f"### {self.title}", "", rows[0], rule, *rows[1:], *(["", self.note] if self.note else []), ""])


def without_empty(headers, rows):
    """Without columns, the first apart, in which no row has anything."""
    kept = [i for i in range(len(headers)) if i == 0 or any(row[i] not in ("", "-") for row in rows)]
    return [headers[i] for i in kept], [[row[i] for i in kept] for row in rows]


def failed_text(number_failed):
    return f"{number_failed:,.0f}" if number_failed else "-"


def shown(value):
    """A value of a workload: [16, 64] is a range."""
    if isinstance(value, list):
        return "-".join(dict.fromkeys(map(str, value)))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def shown_together(values):
    """The different values of a setting in repeats of one command."""
    if len(set(map(str, values))) > 2 and all(is_number(value) for value in values):
        return f"{shown(min(values))} to {shown(max(values))}"
    return " / ".join(dict.fromkeys(map(shown, values)))


def result_table(experiment):
    points = experiment.points()
    workloads = [result.workload for result in experiment.results]
    names = list(dict.fromkeys(name for workload in workloads for name in workload))
    common = [name for name in names if all(workload.get(name) == workloads[0].get(name) for workload in workloads)]
    # What the flags say already is not said again.
    varied = [name for name in names if name not in common and name.replace("_", "-") not in experiment.varied]
    rows = []
    for settings, results in points:
        of_workload = [shown_together([result.workload.get(name, "-") for result in results]) for name in varied]
        rows.append([words_of(settings) or experiment.title, str(len(results)), *of_workload, failed_text(failed(results)),
                     *(figure(name).text(median(results, name)) for name in RESULT_COLUMNS)])
    headers = ["flags", "runs", *(name.replace("_", " ") for name in varied), figure("failed").axis(),
               *(figure(name).axis() for name in RESULT_COLUMNS)]
    words = ", ".join(f"{name} {shown(workloads[0][name])}" for name in common)
    notes = ["Medians of the runs.", *([OF_THE_OTHERS] if failed(experiment.results) else []),
             f"Commit {experiment.results[0].line['commit']}{'; workload: ' if words else ''}{words}."]
    return Table(experiment.title, *without_empty(headers, rows), note=" ".join(notes))


def comparison_table(source, results):
    figures = list(dict.fromkeys(row[0] for row in compared(results)))
    rows = {}
    for name, what, of, to, middle, (low, _, high) in compared(results):
        rows.setdefault((what, f"{of} over {to}"), {})[name] = ratio_with_interval(middle, low, high)
    table = [[f"{what}: {which}", *(cells.get(name, "-") for name in figures)] for (what, which), cells in rows.items()]
    pairs = sorted({str(result.line.get("pairs", "?")) for result in results})
    same = [result.line.get("same_completions") for result in results]
    words = {True: "equal", False: "DIFFERENT", None: "not compared"}
    return Table(f"Comparisons, {source}", ["what over what", *(figure(name).words for name in figures)], table,
                 note=f"Ratios: medians of {' or '.join(pairs)} pairs of runs that took turns, and the 95 % interval of "
                      f"their mean. Completions: {', '.join(dict.fromkeys(words[s] for s in same))}.")


def at_batch(curve, batch):
    """Seconds per decoded token with so many sequences at once, between the measured ones on a line."""
    below = max((b for b in curve if b <= batch), default=min(curve))
    above = min((b for b in curve if b >= batch), default=max(curve))
    if above <= below:
        return curve[below]
    share = (batch - below) / (above - below)
    return curve[below] + share * (curve[above] - curve[below])


def seconds_per(summary, tokens):
    """None where the run had no such tokens."""
    return summary["duration"] / summary[tokens] if summary.get("duration") and summary.get(tokens) else None


def batch_curve(results):
    """Seconds per decoded token over --max-batch-size, of the lines `decode` of a grid."""
    curve = {}
    for result in results:
        batch, seconds = result.line["config"].get("max_batch_size"), seconds_per(result.line["summary"], "decode_tokens")
        if result.line.get("run") == "decode" and batch and seconds:
            curve.setdefault(batch, []).append(seconds)
    return {batch: statistics.median(seconds) for batch, seconds in curve.items()}


def predicted_seconds(summary, prefill, curve):
    """How long a run takes whose tokens take as long as the measured ones; None where it does not say its tokens."""
    figures = [summary.get(name) for name in ("prefill_tokens", "decode_tokens", "running_mean")]
    if None in figures:
        return None
    return prefill * figures[0] + at_batch(curve, figures[2]) * figures[1]


def prediction_table(source, results, comparisons):
    """What a machine's batch curve allows, from the lines `prefill` and `decode` of a grid."""
    rows = []
    for result in comparisons:
        configurations = result.line["configurations"]
        if not configurations:
            continue
        model = model_of(configurations[0]["config"])
        mine = [r for r in results if r.source == source and model_of(r.line["config"]) == model]
        curve = batch_curve(mine)
        prefill = [seconds_per(r.line["summary"], "prefill_tokens") for r in mine if r.line.get("run") == "prefill"]
        prefill = [seconds for seconds in prefill if seconds]
        if not curve or not prefill:
            continue
        for ratio in result.line["ratios"]:
            of, to = (configurations[ratio[key]]["summary"] for key in ("of", "to"))
            seconds = [predicted_seconds(summary, statistics.median(prefill), curve) for summary in (to, of)]
            if ratio["figure"] != "output_throughput" or not all(seconds):
                continue
            predicted = seconds[0] / seconds[1]
            rows.append([result.line.get("run") or result.workload.get("name") or "", number(to["running_mean"]),
                         number(of["running_mean"]), ratio_text(predicted), ratio_text(ratio["median"]),
                         ratio_text(ratio["median"] / predicted)])
    return Table(f"What the batch curve allows, {source}",
                 ["comparison", "at once", "at once, of", "predicted ratio", "measured", "measured over predicted"],
                 rows, note="Predicted: prompt tokens at the speed of prefill, decoded tokens at the speed of decode at a "
                            "--max-batch-size of as many sequences, both measured in the same run of the grid.") if rows else None


def nearest_rank(values, percent):
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else None


def run_table(runs, names):
    rows, notes = [], []
    for run, name in zip(runs, names):
        summary = run.summary
        if summary is None and run.requests:
            completed = [r for r in run.requests if not r.get("error")]
            notes.append(f"{name} has no summary, so it did not end; its figures are of {len(completed)} requests.")
            summary = {f"p{p}_{key}_ms": nearest_rank([r[field] for r in completed if r[field] is not None], p)
                       for key, field in (("ttft", "ttft_ms"), ("e2el", "e2e_ms")) for p in (50, 99)}
        if summary is not None:
            rows.append([name, failed_text(failed_of(run)), *(figure(c).text(summary.get(c)) for c in RUN_COLUMNS)])
    if any(failed_of(run) for run in runs):
        notes.append(OF_THE_OTHERS)
    headers = ["run", figure("failed").axis(), *(figure(column).axis() for column in RUN_COLUMNS)]
    return Table("Runs", *without_empty(headers, rows), note=" ".join(notes)) if rows else None


def profile_table(run, name):
    rows = [[op["op"], "decodes only" if op["decode_only"] else "with prompts", number(1e3 * op["time_s"]),
             f"{100 * op['share']:.1f}", number(op.get("gb_per_s") or 0), number(op.get("tflop_per_s") or 0),
             f"{100 * op['of_bound']:.0f}"] for op in run.profile["ops"] if op["share"] >= 0.01]
    return Table(f"Operations, {name}",
                 ["operation", "steps", "time [ms]", "share of time [%]", "GB/s", "TFLOP/s", "of bound [%]"], rows,
                 note=f"Measured rates of the device: {number(run.profile['peak_gb_per_s'])} GB/s and "
                      f"{number(run.profile['peak_tflop_per_s'])} TFLOP/s. Operations below 1 % are left out.")


def make(lines, experiments, run_names):
    """All tables that the lines have something for."""
    runs = list(lines.runs.values())
    tables = [result_table(experiment) for experiment in experiments]
    for source in dict.fromkeys(result.source for result in lines.comparisons):
        members = [result for result in lines.comparisons if result.source == source]
        tables.append(comparison_table(source, members))
        tables.append(prediction_table(source, lines.results, members))
    tables.append(run_table(runs, run_names))
    tables += [profile_table(run, name) for run, name in zip(runs, run_names) if run.profile]
    return [table for table in tables if table]
