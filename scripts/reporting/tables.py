"""Makes the tables of a report: rows of text, as Markdown."""
import dataclasses
import statistics

from reporting.figures import figure, number, ratio_text, ratio_with_interval
from reporting.groups import compared, median, model_of, words_of

RESULT_COLUMNS = ("request_throughput", "output_throughput", "p50_ttft_ms", "p99_ttft_ms", "p50_itl_ms",
                  "p99_itl_ms", "p99_e2el_ms", "running_mean", "running_peak", "kv_use_peak", "hit_rate", "preemptions")
RUN_COLUMNS = RESULT_COLUMNS[:-2] + ("preemptions",)


@dataclasses.dataclass
class Table:
    title: str
    headers: list
    rows: list
    note: str = ""

    def markdown(self):
        cells = [[cell.replace("|", "\\|") for cell in row] for row in [self.headers, *self.rows]]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.headers))]
        rows = ["| " + " | ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))]) + " |"
                for row in cells]
        rule = "|" + "|".join(["-" * (widths[0] + 2), *("-" * (w + 1) + ":" for w in widths[1:])]) + "|"
        return "\n".join([f"### {self.title}", "", rows[0], rule, *rows[1:], *(["", self.note] if self.note else []), ""])


def without_empty(headers, rows):
    """Without columns, the first apart, in which no row has anything."""
    kept = [i for i in range(len(headers)) if i == 0 or any(row[i] not in ("", "-") for row in rows)]
    return [headers[i] for i in kept], [[row[i] for i in kept] for row in rows]


def result_table(experiment):
    rows = []
    for settings, results in experiment.points():
        rows.append([words_of(settings) or experiment.title, str(len(results)),
                     *(figure(name).text(median(results, name)) for name in RESULT_COLUMNS)])
    headers = ["flags", "runs", *(figure(name).axis() for name in RESULT_COLUMNS)]
    first = experiment.results[0].line
    workload = ", ".join(f"{k} {v}" for k, v in experiment.results[0].workload.items() if not isinstance(v, (dict, list)))
    return Table(experiment.title, *without_empty(headers, rows),
                 note=f"Medians of the runs. Commit {first['commit']}; workload: {workload}.")


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


def prediction_table(source, results, comparisons):
    """What a machine's batch curve allows, from the lines `prefill` and `decode` of a grid."""
    members = [result for result in results if result.source == source]
    rows = []
    for result in comparisons:
        configurations = result.line["configurations"]
        model = model_of(configurations[0].get("config", {}))
        mine = [r for r in members if model_of(r.line["config"]) == model]
        curve, prefill = {}, []
        for r in mine:
            summary = r.line["summary"]
            if r.line.get("run") == "decode":
                curve.setdefault(summary["running_mean"], []).append(summary["duration"] / summary["decode_tokens"])
            elif r.line.get("run") == "prefill":
                prefill.append(summary["duration"] / summary["prefill_tokens"])
        if result.source != source or not curve or not prefill:
            continue
        curve = {batch: statistics.median(seconds) for batch, seconds in curve.items()}
        for ratio in result.line["ratios"]:
            if ratio["figure"] != "output_throughput":
                continue
            of, to = (configurations[ratio[key]]["summary"] for key in ("of", "to"))
            seconds = [statistics.median(prefill) * s["prefill_tokens"]
                       + at_batch(curve, s["running_mean"]) * s["decode_tokens"] for s in (to, of)]
            predicted = seconds[0] / seconds[1]
            rows.append([result.line.get("run") or result.workload.get("name", ""), number(to["running_mean"]),
                         number(of["running_mean"]), ratio_text(predicted), ratio_text(ratio["median"]),
                         ratio_text(ratio["median"] / predicted)])
    return Table(f"What the batch curve allows, {source}",
                 ["comparison", "at once", "at once, of", "predicted ratio", "measured", "measured over predicted"],
                 rows, note="Predicted: prompt tokens at the speed of prefill, decoded tokens at the speed of decode with "
                            "as many sequences at once, both measured in the same run of the grid.") if rows else None


def nearest_rank(values, percent):
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else None


def run_table(runs, names):
    rows, notes = [], []
    for run, name in zip(runs, names):
        summary = run.summary
        if summary is None and run.requests:
            notes.append(f"{name} has no summary, so it did not end; its figures are of {len(run.requests)} requests.")
            summary = {f"p{p}_{key}_ms": nearest_rank([r[field] for r in run.requests if r[field] is not None], p)
                       for key, field in (("ttft", "ttft_ms"), ("e2el", "e2e_ms")) for p in (50, 99)}
        if summary is not None:
            rows.append([name, *(figure(column).text(summary.get(column)) for column in RUN_COLUMNS)])
    headers = ["run", *(figure(column).axis() for column in RUN_COLUMNS)]
    return Table("Runs", *without_empty(headers, rows), note=" ".join(notes)) if rows else None


def profile_table(run, name):
    rows = [[op["op"], "decodes only" if op["decode_only"] else "with prompts", number(1e3 * op["time_s"]),
             f"{100 * op['share']:.1f}", number(op.get("gb_per_s", 0)), number(op.get("tflop_per_s", 0)),
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
