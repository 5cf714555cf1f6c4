"""Draws the plots of a report with matplotlib: the same bytes from the same lines.

Each function returns None where the lines have nothing to show, else a Plot.
"""
import dataclasses
import re

import matplotlib
from matplotlib import ticker
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reporting.figures import figure, number, ratio_with_interval
from reporting.groups import compared, extent, flags_of, median, setting

# Paul Tol's bright colours: told apart by eyes of every kind, on white and on black.
COLOURS = ("#4477aa", "#ee6677", "#228833", "#aa3377", "#ccbb44", "#66ccee")
INK, MUTED, RULE, PAPER = "#1f2328", "#57606a", "#d8dee4", "#fefefe"
WIDTH = 8.6  # inches; 100 dots each are the width of a README
STYLE = {
    "svg.hashsalt": "pagedinfer", "svg.fonttype": "none", "font.family": "DejaVu Sans", "font.size": 9,
    "axes.titlesize": 9.5, "axes.labelsize": 9, "axes.spines.top": False, "axes.spines.right": False,
    "axes.edgecolor": MUTED, "axes.labelcolor": INK, "axes.titlelocation": "left", "axes.grid": True,
    "axes.axisbelow": True, "grid.color": RULE, "grid.linewidth": 0.7, "xtick.color": MUTED,
    "ytick.color": MUTED, "xtick.labelcolor": INK, "ytick.labelcolor": INK, "text.color": INK,
    "figure.facecolor": PAPER, "axes.facecolor": PAPER, "savefig.facecolor": PAPER, "lines.linewidth": 1.8,
    "lines.markersize": 4.5, "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.06, "figure.constrained_layout.w_pad": 0.08,
}
MAX_SERIES = len(COLOURS)
MAX_MARKS = 600  # over time; more are thinned to the longest ones

# What is plotted over which setting: the setting in a result, its flags, the axis, and the figures.
AXES = {
    "max_batch_size": ("max-batch-size", "sequences at once, at most", "log",
                       ("output_throughput", "median_itl_ms", "p99_ttft_ms")),
    "max_step_tokens": ("max-step-tokens", "tokens in a step, at most", "log",
                        ("output_throughput", "p99_itl_ms", "p99_ttft_ms")),
    "prefill_chunk_size": ("prefill-chunk-size", "tokens in a chunk", "log",
                           ("output_throughput", "p99_itl_ms", "p99_ttft_ms")),
    "block_size": ("block-size", "positions in a block", "log",
                   ("output_throughput", "kv_slot_utilization", "median_itl_ms")),
    "admission_reserve": ("admission-reserve", "share of the cache kept free", "linear",
                          ("output_throughput", "preemptions", "p99_ttft_ms")),
    "num_blocks": ("num-blocks", "blocks of the cache", "log",
                   ("hit_rate", "output_throughput", "p99_ttft_ms")),
    "heads": ("heads", "different heads of prompts", "log",
              ("hit_rate", "output_throughput", "p99_ttft_ms")),
}


@dataclasses.dataclass
class Plot:
    name: str
    title: str
    caption: str
    drawn: object


def start(title, rows=1, columns=1, height=2.7, **more):
    drawn = Figure(figsize=(WIDTH, height))
    axes = drawn.subplots(rows, columns, squeeze=False, **more)
    drawn.suptitle(title, x=0.008, ha="left", fontsize=10.5, fontweight="bold")
    return drawn, axes


def slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def grid_of(axis, along="y"):
    axis.grid(False, axis="x" if along == "y" else "y")


def from_zero(axis, highest):
    axis.set_ylim(0, (highest or 1) * 1.08)
    axis.yaxis.set_major_locator(ticker.MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axis.yaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:,.10g}"))


def values_axis(axis, values, scale):
    """An axis with a tick for each value that was measured."""
    if scale == "log" and min(values) > 0:
        axis.set_xscale("log", base=2)
    axis.xaxis.set_major_locator(ticker.FixedLocator(values))
    axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:,.10g}"))
    axis.xaxis.set_minor_locator(ticker.NullLocator())
    if len(values) > 7 or max(values) >= 1000 and len(values) > 4:
        axis.tick_params(axis="x", labelrotation=45)


def label_ends(axis, ends):
    """Writes a word behind the last point of each line, apart from each other: (x, y, word, colour)."""
    low, high = axis.get_ylim()
    gap = (high - low) * 0.085
    place = low - gap
    for x, y, word, colour in sorted(ends, key=lambda end: end[1]):
        place = max(y, place + gap)
        axis.annotate(word, (x, place), xytext=(6, 0), textcoords="offset points", va="center",
                      color=colour, fontsize=8.5, annotation_clip=False)


def colour_words(axis, words):
    """Names lines by words of their colours above the panel, one after the other."""
    before = axis.annotate("", (0, 1.03), xycoords="axes fraction", va="bottom")
    for word, colour in words:
        before = axis.annotate(word + "   ", xy=(1, 0), xycoords=before, va="bottom", color=colour,
                               fontweight="bold", fontsize=9) if before.get_text() else axis.annotate(
            word + "   ", (0, 1.03), xycoords="axes fraction", va="bottom", color=colour,
            fontweight="bold", fontsize=9)


def split_references(series, experiment, flag):
    """Lines over several values, and single results that the setting does not concern."""
    lines = {words: values for words, values in series.items() if len(values) > 1}
    rest = {}
    for words, values in series.items():
        if len(values) == 1 and flag not in flags_of(next(iter(values.values()))[0].line["command"]):
            rest[words] = next(iter(values.values()))
    return lines, rest


def over_setting(experiment, key):
    flag, label, scale, shown = AXES[key]
    series = experiment.series(lambda result: setting(result, key), {flag})
    lines, rest = split_references(series, experiment, flag)
    if not lines:
        return None
    colours = dict(zip([*lines, *rest], COLOURS))
    title = f"{experiment.title}: by {label}"
    drawn, (axes,) = start(title, columns=len(shown), height=2.9)
    for axis, name in zip(axes, shown):
        what, ends, highest, values = figure(name), [], 0, set()
        for words, by_value in list(lines.items())[:MAX_SERIES]:
            points = [(x, median(results, name), extent(results, name)) for x, results in by_value.items()]
            points = [point for point in points if point[1] is not None]
            if not points:
                continue
            xs, ys = [p[0] for p in points], [p[1] * what.scale for p in points]
            axis.vlines(xs, [p[2][0] * what.scale for p in points], [p[2][1] * what.scale for p in points],
                        color=colours[words], linewidth=1, alpha=0.6)
            axis.plot(xs, ys, "o-", color=colours[words])
            highest = max([highest, *(p[2][1] * what.scale for p in points)])
            values.update(xs)
            ends.append((xs[-1], ys[-1], words, colours[words]))
        for words, results in list(rest.items())[:MAX_SERIES - len(lines)]:
            y = median(results, name)
            if y is not None and values:
                axis.axhline(y * what.scale, color=colours[words], linewidth=1.2, linestyle=(0, (4, 2)))
                highest = max(highest, y * what.scale)
        if not values:
            axis.set_axis_off()
            continue
        axis.set_title(what.axis())
        axis.set_xlabel(f"--{flag}")
        values_axis(axis, sorted(values), scale)
        from_zero(axis, highest)
        grid_of(axis)
    if len(lines) + len(rest) > 1:
        drawn.legend(handles=[Line2D([], [], color=colours[words], linestyle="-" if words in lines else "--",
                                         label=words or "as it is by default") for words in list(colours)],
                     loc="outside lower center", ncols=2, frameon=False, fontsize=8.5)
    return Plot(slug(f"{experiment.name}-by-{flag}"), title,
                "Medians, with the least and the largest of the repeats.", drawn)


def over_rate(experiment):
    series = experiment.series(lambda result: setting(result, "load_or_rate"), {"rate", "load"})
    series = {words: values for words, values in series.items() if len(values) > 1}
    if not series:
        return None
    is_load = any(result.workload.get("load") for result in experiment.results)
    label = "load [share of capacity]" if is_load else "rate [requests/s]"
    title = f"{experiment.title}: latency by {'load' if is_load else 'rate'}"
    latencies = (("ttft", "time to first token"), ("itl", "inter-token latency"), ("e2el", "end to end"))
    rows = list(series.items())[:MAX_SERIES]
    drawn, axes = start(title, rows=len(rows), columns=3, height=0.7 + 2.2 * len(rows), sharey="col")
    for row, ((words, by_value), colour) in enumerate(zip(rows, COLOURS)):
        for axis, (key, latency) in zip(axes[row], latencies):
            ends = []
            for percentile, alpha in (("p50", 0.45), ("p90", 0.7), ("p99", 1)):
                points = [(x, median(results, f"{percentile}_{key}_ms")) for x, results in by_value.items()]
                points = [(x, y) for x, y in points if y is not None]
                if points:
                    axis.plot(*zip(*points), "o-", color=colour, alpha=alpha)
                    ends.append((*points[-1], percentile.upper(), INK))
            highest = max((median(results, f"p99_{key}_ms") or 0 for _, values in rows
                           for results in values.values()), default=1)
            from_zero(axis, highest)
            values_axis(axis, sorted(by_value), "linear")
            axis.set_title(f"{latency} [ms]" if row == 0 else "")
            axis.set_xlabel(label if row == len(rows) - 1 else "")
            grid_of(axis)
            label_ends(axis, ends)
        if words:
            axes[row][0].annotate(words, (0.03, 0.97), xycoords="axes fraction", va="top", color=colour,
                                  fontweight="bold", fontsize=8.5)
    return Plot(slug(f"{experiment.name}-by-rate"), title, "Medians of the repeats.", drawn)


def gaps_of(run):
    """When sequences that decoded got a token, how long after the one before, and how many they were."""
    gaps = []
    for before, step in zip(run.steps, run.steps[1:]):
        if step["decode_tokens"]:
            gaps.append((step["end_s"] - run.steps[0]["begin_s"], 1e3 * (step["end_s"] - before["end_s"]),
                         step["decode_tokens"]))
    return gaps


def percentile_of(gaps, share):
    """Nearest-rank, each gap counted for every sequence that had it."""
    wanted = share * sum(count for _, _, count in gaps)
    for _, gap, count in sorted(gaps, key=lambda g: g[1]):
        wanted -= count
        if wanted <= 0:
            return gap
    return 0.0


def thinned(points, key):
    """At most MAX_MARKS points: of equal spans of time the one with the largest key."""
    if len(points) <= MAX_MARKS:
        return points
    begin, end = points[0][0], points[-1][0]
    spans = {}
    for point in points:
        place = int((point[0] - begin) / (end - begin) * (MAX_MARKS - 1)) if end > begin else 0
        if place not in spans or key(point) > key(spans[place]):
            spans[place] = point
    return list(spans.values())


def itl_over_time(runs, names, suffix=""):
    rows = [(name, gaps_of(run)) for name, run in zip(names, runs)]
    rows = [(name, gaps) for name, gaps in rows if gaps]
    if not rows:
        return None
    title = "Inter-token latency over time"
    drawn, axes = start(title, rows=len(rows), height=0.75 + 1.45 * len(rows), sharex=True, sharey=True)
    for (axis,), (name, gaps), colour in zip(axes, rows, COLOURS):
        shown = thinned(gaps, lambda g: g[1])
        axis.vlines([g[0] for g in shown], 0, [g[1] for g in shown], color=colour, linewidth=1.1)
        last = percentile_of(gaps, 0.99)
        axis.axhline(last, color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
        axis.annotate(f"P99 {number(last)} ms\nP50 {number(percentile_of(gaps, 0.5))} ms", (1, last),
                      xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points",
                      va="center", fontsize=8.5, annotation_clip=False)
        axis.set_title(name, color=colour, fontweight="bold")
        axis.set_ylabel("gap [ms]")
        axis.yaxis.set_major_locator(ticker.MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        grid_of(axis)
    axes[0][0].set_ylim(0, 1.08 * max(g[1] for _, gaps in rows for g in gaps))
    axes[-1][0].set_xlabel("time since the first step [s]")
    axes[-1][0].set_xlim(0, max(gaps[-1][0] for _, gaps in rows))
    thin = any(len(gaps) > MAX_MARKS for _, gaps in rows)
    return Plot(f"itl-over-time{suffix}", title,
                "The time between two tokens of the sequences that decode, as steps end."
                + (f" Of each {MAX_MARKS}th of the time the longest one is shown." if thin else ""), drawn)


def cache_over_time(run, name):
    steps = run.steps
    if len(steps) < 2:
        return None
    begin = steps[0]["begin_s"]
    shown = thinned([(s["end_s"] - begin, s) for s in steps], lambda p: p[1]["positions_leased"])
    times = [time for time, _ in shown]
    total = (run.summary or {}).get("kv_positions_total")
    scale, unit = (100 / total, "% of the cache") if total else (1, "positions")
    title = f"The cache and the sequences over time: {name}"
    drawn, axes = start(title, rows=2, height=4.2, sharex=True)
    cache, sequences = axes[0][0], axes[1][0]

    def column(key):
        return [step[key] for _, step in shown]
    held = [scale * v for v in column("tokens_held")]
    leased = [scale * v for v in column("positions_leased")]
    findable = [scale * v + low for v, low in zip(column("positions_reusable"), leased)]
    if max(column("positions_reusable")):
        cache.fill_between(times, leased, findable, step="pre", color=COLOURS[4], alpha=0.35, linewidth=0)
    cache.fill_between(times, 0, leased, step="pre", color=COLOURS[0], alpha=0.3, linewidth=0)
    cache.step(times, held, color=COLOURS[0], linewidth=1.4)
    words = [("tokens held", COLOURS[0]), ("leased (pale)", COLOURS[0])]
    if max(column("positions_reusable")):
        words.append(("can still be found", COLOURS[4]))
    colour_words(cache, words)
    cache.set_ylabel(unit)
    from_zero(cache, max(findable))
    for key, colour in (("running", COLOURS[2]), ("waiting", COLOURS[1])):
        sequences.step(times, column(key), color=colour, linewidth=1.4)
    colour_words(sequences, [("running", COLOURS[2]), ("waiting", COLOURS[1])])
    sequences.set_ylabel("sequences")
    from_zero(sequences, max(column("running") + column("waiting")))
    sequences.set_xlabel("time since the first step [s]")
    sequences.set_xlim(0, times[-1])
    for axis in (cache, sequences):
        grid_of(axis)
    return Plot(slug(f"cache-over-time-{run.source}"), title,
                "Positions leased to sequences; of these, positions that hold a token; and positions that "
                "no sequence holds and prompts can still find. Below, the sequences that run and those that wait in "
                "the scheduler.", drawn)


def share_of_bound(run, name):
    ops = [op for op in run.profile["ops"] if op["share"] >= 0.01]
    parts = [(words, [op for op in ops if op["decode_only"] is only][:10])
             for words, only in (("steps of decodes only", True), ("steps with prompts", False))]
    parts = [(words, members) for words, members in parts if members]
    if not parts:
        return None
    title = f"Time of each operation, and its bound: {name}"
    num_rows = [len(members) for _, members in parts]
    drawn, axes = start(title, rows=len(parts), height=1.1 + 0.27 * sum(num_rows) + 0.35 * len(parts),
                        sharex=True, gridspec_kw={"height_ratios": num_rows})
    for (axis,), (words, members), colour in zip(axes, parts, (COLOURS[0], COLOURS[2])):
        members.sort(key=lambda op: op["share"])
        shares = [100 * op["share"] for op in members]
        names = [op["op"] for op in members]
        axis.barh(names, shares, color=colour, alpha=0.3, height=0.66)
        axis.barh(names, [share * min(1, op["of_bound"]) for share, op in zip(shares, members)],
                  color=colour, height=0.66)
        for place, (share, op) in enumerate(zip(shares, members)):
            axis.annotate(f"{100 * op['of_bound']:.0f} %", (share, place), xytext=(5, 0),
                          textcoords="offset points", va="center", fontsize=8.5)
        axis.set_title(words, color=colour, fontweight="bold")
        axis.tick_params(axis="y", length=0)
        grid_of(axis, along="x")
    axes[-1][0].set_xlabel("share of the time of all operations and gaps [%]")
    return Plot(slug(f"share-of-bound-{run.source}"), title,
                "A bar is an operation's share of the time; its dark part and the number are the share that the "
                "machine needs at least, by its measured bandwidth and product rate. Operations below 1 % are "
                "left out.", drawn)


def ratios(source, results, name):
    rows = [row[1:] for row in compared(results) if row[0] == name]
    if not rows:
        return None
    what = figure(name)
    bounds = [bound for *_, mean in rows for bound in mean if bound is not None] + [row[3] for row in rows]
    is_close = 0.9 < min(bounds) and max(bounds) < 1.1
    better = "more" if what.more_is_better else "less"
    title = f"{what.words[0].upper()}{what.words[1:]}: ratios, {better} is better"
    drawn, ((axis,),) = start(title, height=0.95 + 0.47 * len(rows))
    places = range(len(rows))[::-1]
    for place, (_, _, _, middle, (low, _, high)) in zip(places, rows):
        text = ratio_with_interval(middle, low, high)
        if low is None or high is None:
            low = high = middle
        if is_close:
            middle, low, high = (100 * (v - 1) for v in (middle, low, high))
            axis.plot([low, high], [place, place], color=COLOURS[0], linewidth=2)
            axis.plot([middle], [place], "o", color=COLOURS[0], markersize=6)
            text = f"{middle:+.1f} %" + (f"  ({low:+.1f} to {high:+.1f})" if high > low else "")
        else:
            axis.barh([place], [middle], color=COLOURS[0], height=0.55)
            axis.plot([low, high], [place, place], color=INK, linewidth=1.3)
            if high > low:
                axis.plot([low, high], [place, place], "|", color=INK, markersize=7)
        axis.annotate(text, (max(high, middle), place), xytext=(7, 0),
                      textcoords="offset points", va="center", fontsize=8.5, annotation_clip=False,
                      bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1})
    axis.axvline(0 if is_close else 1, color=INK, linewidth=1)
    axis.set_yticks(list(places), [f"{what_}\n{of} over {to}" for what_, of, to, *_ in rows], fontsize=8)
    axis.set_ylim(-0.6, len(rows) - 0.4)
    axis.tick_params(axis="y", length=0)
    axis.set_xlabel("difference [%]" if is_close else "ratio")
    if not is_close:
        axis.set_xlim(left=0)
    grid_of(axis, along="x")
    return Plot(slug(f"{source}-ratio-of-{what.words}"), title,
                "Medians of the ratios of pairs of runs that took turns, with the 95 % interval of their mean.", drawn)


HEADLINES = ("output_throughput", "p50_ttft_ms", "p99_ttft_ms", "p50_itl_ms", "p99_itl_ms")


def draw(lines, experiments, run_names):
    """All plots that the lines have something for."""
    plots = []
    with matplotlib.rc_context(STYLE):
        for experiment in experiments:
            plots += [over_setting(experiment, key) for key in AXES]
            plots.append(over_rate(experiment))
        for source in dict.fromkeys(result.source for result in lines.comparisons):
            members = [result for result in lines.comparisons if result.source == source]
            plots += [ratios(source, members, name) for name in HEADLINES]
        traced = [(run, name) for run, name in zip(lines.runs.values(), run_names) if run.steps]
        for first in range(0, len(traced), 4):
            part = traced[first:first + 4]
            plots.append(itl_over_time([run for run, _ in part], [name for _, name in part],
                                       f"-{first // 4 + 1}" if len(traced) > 4 else ""))
        plots += [cache_over_time(run, name) for run, name in traced]
        plots += [share_of_bound(run, name) for run, name in zip(lines.runs.values(), run_names) if run.profile]
    plots = [plot for plot in plots if plot]
    used = {}
    for plot in plots:
        used[plot.name] = used.get(plot.name, 0) + 1
        if used[plot.name] > 1:
            plot.name += f"-{used[plot.name]}"
    return plots


def save(plots, folder):
    """Writes NAME.png and NAME.svg of each plot; returns the text of the SVG files."""
    texts = []
    with matplotlib.rc_context(STYLE):
        for plot in plots:
            path = folder / plot.name
            plot.drawn.savefig(path.with_suffix(".png"), dpi=150, metadata={"Software": None})
            plot.drawn.savefig(path.with_suffix(".svg"), metadata={"Date": None, "Creator": None})
            texts.append(path.with_suffix(".svg").read_text(encoding="utf-8"))
    return texts
