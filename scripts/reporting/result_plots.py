"""Draws the plots of lines of bench --results: figures over a setting or a rate, and ratios.

Each function returns None where the lines have nothing to show, else a Plot.
"""
from matplotlib.lines import Line2D

from reporting.drawing import (
    COLOURS, INK, MAX_SERIES, PAPER, Plot, from_zero, grid_of, label_ends, slug, start, values_axis)
from reporting.figures import figure, ratio_with_interval
from reporting.groups import compared, extent, failed, flags_of, median, setting

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


def split_references(series, experiment, flag):
    """Lines over several values, and single results that the setting does not concern."""
    lines = {words: values for words, values in series.items() if len(values) > 1}
    rest = {}
    for words, values in series.items():
        if len(values) == 1 and flag not in flags_of(next(iter(values.values()))[0].line["command"]):
            rest[words] = next(iter(values.values()))
    return lines, rest


def points_with_failed(by_value, points):
    return [point for point in points if failed(by_value[point[0]])]


def mark_failed(axis, points, scale=1):
    """Makes points hollow."""
    if points:
        axis.plot([p[0] for p in points], [p[1] * scale for p in points], "o", markersize=2.4, color=PAPER, zorder=3)


def words_of_what_is_missing(left_out, single, results):
    """The end of a caption: series without a colour, those of one value, and requests that failed."""
    words = f" {left_out} more series {'is' if left_out == 1 else 'are'} left out." if left_out else ""
    words += f" Not drawn: {single} series of a single value." if single else ""
    if failed(results):
        words += " At hollow points some requests failed, and the figures are of the others."
    return words


def over_setting(experiment, key):
    flag, label, scale, shown = AXES[key]
    series = experiment.series(lambda result: setting(result, key), {flag})
    lines, rest = split_references(series, experiment, flag)
    if not lines:
        return None
    drawn_series = [*lines, *rest][:MAX_SERIES]
    left_out = len(lines) + len(rest) - len(drawn_series)
    single = len(series) - len(lines) - len(rest)
    colours = dict(zip(drawn_series, COLOURS))
    lines, rest = ({words: values for words, values in part.items() if words in colours} for part in (lines, rest))
    title = f"{experiment.title}: by {label}"
    drawn, (axes,) = start(title, columns=len(shown), height=2.9)
    for axis, name in zip(axes, shown):
        what, ends, highest, values = figure(name), [], 0, set()
        for words, by_value in lines.items():
            points = [(x, median(results, name), extent(results, name)) for x, results in by_value.items()]
            points = [point for point in points if point[1] is not None]
            if not points:
                continue
            xs, ys = [p[0] for p in points], [p[1] * what.scale for p in points]
            axis.vlines(xs, [p[2][0] * what.scale for p in points], [p[2][1] * what.scale for p in points],
                        color=colours[words], linewidth=1, alpha=0.6)
            axis.plot(xs, ys, "o-", color=colours[words])
            mark_failed(axis, points_with_failed(by_value, points), what.scale)
            highest = max([highest, *(p[2][1] * what.scale for p in points)])
            values.update(xs)
            ends.append((xs[-1], ys[-1], words, colours[words]))
        for words, results in rest.items():
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
                "Medians, with the least and the largest of the repeats."
                + words_of_what_is_missing(left_out, single, experiment.results), drawn)


def over_rate(experiment):
    series = experiment.series(lambda result: setting(result, "load_or_rate"), {"rate", "load"})
    single = sum(1 for values in series.values() if len(values) == 1)
    series = {words: values for words, values in series.items() if len(values) > 1}
    if not series:
        return None
    is_load = any(result.workload.get("load") for result in experiment.results)
    label = "load [share of capacity]" if is_load else "rate [requests/s]"
    title = f"{experiment.title}: latency by {'load' if is_load else 'rate'}"
    latencies = (("ttft", "time to first token"), ("itl", "inter-token latency"), ("e2el", "end to end"))
    rows = list(series.items())[:MAX_SERIES]
    left_out = len(series) - len(rows)
    drawn, axes = start(title, rows=len(rows), columns=3, height=0.7 + 2.2 * len(rows), sharey="col")
    for row, ((words, by_value), colour) in enumerate(zip(rows, COLOURS)):
        for axis, (key, latency) in zip(axes[row], latencies):
            ends = []
            for percentile, alpha in (("p50", 0.45), ("p90", 0.7), ("p99", 1)):
                points = [(x, median(results, f"{percentile}_{key}_ms")) for x, results in by_value.items()]
                points = [(x, y) for x, y in points if y is not None]
                if points:
                    axis.plot(*zip(*points), "o-", color=colour, alpha=alpha)
                    mark_failed(axis, points_with_failed(by_value, points))
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
    return Plot(slug(f"{experiment.name}-by-rate"), title,
                "Medians of the repeats." + words_of_what_is_missing(left_out, single, experiment.results), drawn)


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
