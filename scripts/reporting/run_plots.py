"""Draws the plots of the lines of a run: its requests, its steps, its profile.

Each function returns None where the lines have nothing to show, else a Plot.
"""
from matplotlib import ticker

from reporting.drawing import COLOURS, INK, Plot, colour_words, from_zero, grid_of, slug, start
from reporting.figures import number
from reporting.groups import failed_of
from reporting.times import MAX_MARKS, arrivals_of, distribution, gaps_of, percentile_of, thinned


# Fields of a request's line, and what they are called.
LATENCIES = (("ttft_ms", "TTFT", COLOURS[0]), ("e2e_ms", "E2EL", COLOURS[2]), ("itl_p50_ms", "median ITL", COLOURS[3]))


def words_of_failed(run):
    """The end of a caption: how many requests have no figures."""
    number_failed = failed_of(run)
    return f" {number_failed:,} of its requests failed and have no latencies." if number_failed else ""


def requests_of(run, name):
    """How latencies are spread over the requests, and the first tokens over the time of arrival."""
    completed = [request for request in run.requests if request["ttft_ms"] is not None]
    if len(completed) < 2:
        return None
    title = f"Latencies of {len(completed):,} requests: {name}"
    drawn, axes = start(title, rows=2, columns=2, height=5)
    panels = [axes[0][0], axes[0][1], axes[1][0]]
    for axis, (field, words, colour) in zip(panels, LATENCIES):
        values = [request[field] for request in completed if request.get(field) is not None]
        if not values:
            axis.set_axis_off()
            continue
        axis.step(*distribution(values), where="post", color=colour)
        axis.set_title(f"{words} [ms]", color=colour, fontweight="bold")
        axis.set_ylabel("share of requests [%]" if axis is not axes[0][1] else "")
        axis.set_xlim(0, max(values) * 1.04 or 1)
        axis.xaxis.set_major_locator(ticker.MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        from_zero(axis, 100)
    over_time = axes[1][1]
    arrivals = arrivals_of(completed)
    if arrivals:
        points = sorted(zip(arrivals, (request["ttft_ms"] for request in completed)))
        points = thinned(points, lambda point: point[1])
        over_time.plot(*zip(*points), "o", color=COLOURS[0], markersize=2.6, alpha=0.7)
        over_time.set_title("TTFT by arrival [ms]", color=COLOURS[0], fontweight="bold")
        over_time.set_xlabel("time of arrival since the first [s]")
        from_zero(over_time, max(point[1] for point in points))
    else:
        over_time.set_axis_off()
    thin = len(completed) > MAX_MARKS
    return Plot(slug(f"requests-{run.source}"), title,
                "Which share of the requests has a latency of at most so much, and the time to first token by arrival."
                + (f" Of each {MAX_MARKS}th of the time the longest one is shown." if thin else "")
                + words_of_failed(run), drawn)


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
    axes[0][0].set_ylim(0, 1.08 * max(g[1] for _, gaps in rows for g in gaps) or 1)
    axes[-1][0].set_xlabel("time since the first step [s]")
    axes[-1][0].set_xlim(0, max(gaps[-1][0] for _, gaps in rows) or 1)
    thin = any(len(gaps) > MAX_MARKS for _, gaps in rows)
    return Plot(f"itl-over-time{suffix}", title,
                "The time between two tokens of the sequences that decode, as steps end."
                + (f" Of each {MAX_MARKS}th of the time the longest one is shown." if thin else "")
                + (" Some requests failed." if any(failed_of(run) for run in runs) else ""), drawn)


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
    sequences.set_xlim(0, times[-1] or 1)
    for axis in (cache, sequences):
        grid_of(axis)
    return Plot(slug(f"cache-over-time-{run.source}"), title,
                "Positions leased to sequences; of these, positions that hold a token; and positions that "
                "no sequence holds and prompts can still find. Below, the sequences that run and those that wait in "
                "the scheduler." + words_of_failed(run), drawn)


MAX_OPS = 10  # of a kind of steps


def share_of_bound(run, name):
    ops = [op for op in run.profile["ops"] if op["share"] >= 0.01]
    parts = [(words, sorted((op for op in ops if op["decode_only"] is only), key=lambda op: -op["share"])[:MAX_OPS])
             for words, only in (("steps of decodes only", True), ("steps with prompts", False))]
    parts = [(words, members) for words, members in parts if members]
    if not parts:
        return None
    title = f"Time of each operation, and its bound: {name}"
    num_rows = [len(members) for _, members in parts]
    left_out = len(ops) - sum(num_rows)
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
                "left out" + (f", and {left_out} more." if left_out else "."), drawn)
