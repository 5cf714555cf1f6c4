#!/usr/bin/env python3
"""Plots of known lines show these figures, and no line that is broken ends the report. Needs matplotlib."""
import pathlib
import tempfile
import warnings

from report_lines import (
    broken, comparison, operation, profile, report, request, result, run_cases, step, summary)
from reporting import plots

NAME = "a$b_{$^\\"  # as mathematics it cannot be drawn


def plots_of(*lines, **more):
    return {plot.name: plot for plot in plots.draw(*report(*lines, **more))}


def curves(axis):
    """The points of the curves of an axis that have more than one."""
    return [list(zip(map(float, line.get_xdata()), map(float, line.get_ydata()))) for line in axis.lines
            if len(line.get_xdata()) > 1]


def saved(drawn):
    with tempfile.TemporaryDirectory() as folder:
        return plots.save(list(drawn.values()), pathlib.Path(folder))


def latencies_are_over_the_share_of_requests():
    axes = plots_of(request(1), request(2))["requests-made"].drawn.axes
    assert [axis.get_ylabel() for axis in axes[:3]] == ["share of requests [%]", "", "share of requests [%]"]


def percentiles_over_the_rate_are_those_of_the_summary():
    lines = [result(f"--rate {rate}", workload={"rate": rate}, summary={"p99_ttft_ms": p99})
             for rate, p99 in ((200, 30.0), (400, 60.0))]
    drawn = plots_of(*lines)["made-a-tiny-by-rate"].drawn
    of_ttft, of_itl, _ = drawn.axes
    assert curves(of_ttft) == [[(200, 10), (400, 10)], [(200, 20), (400, 20)], [(200, 30), (400, 60)]], curves(of_ttft)
    assert curves(of_itl) == [[(200, 1), (400, 1)], [(200, 2), (400, 2)], [(200, 3), (400, 3)]], curves(of_itl)
    assert [text.get_text() for text in of_ttft.texts] == ["P50", "P90", "P99"]


def figures_over_a_setting_are_medians_in_their_units():
    lines = [result(f"--block-size {size}", config={"block_size": size}, summary={"kv_slot_utilization": share})
             for size, share in ((8, 0.875), (16, 0.5), (16, 0.75))]
    _, of_share, _ = plots_of(*lines)["made-a-tiny-by-block-size"].drawn.axes
    assert curves(of_share) == [[(8, 87.5), (16, 62.5)]], curves(of_share)


def series_without_a_colour_are_counted():
    for flag, axis, where in (("--max-batch-size", "max_batch_size", "config"), ("--rate", "rate", "workload")):
        lines = [result(f"{flag} {value} --threads {threads}", **{where: {axis: value}})
                 for threads in range(1, 10) for value in (2, 4)]
        plot, = plots_of(*lines).values()
        assert "3 more series are left out." in plot.caption, plot.caption
        plot, = plots_of(*lines[:14]).values()
        assert "1 more series is left out." in plot.caption, plot.caption
        plot, = plots_of(*lines[:12]).values()
        assert "left out" not in plot.caption, plot.caption
        plot, = plots_of(*lines[:5]).values()
        assert "Not drawn: 1 series of a single value." in plot.caption, plot.caption
    # Single results that the setting does not concern get what colours there are.
    alone = [result(f"--threads {threads}") for threads in range(1, 8)]
    varied = [result(f"--max-batch-size {value}", config={"max_batch_size": value}) for value in (2, 4)]
    plot, = plots_of(*varied, *alone).values()
    assert "2 more series are left out." in plot.caption, plot.caption
    operations = [operation(f"op {number}", 0.05) for number in range(13)]
    assert "and 3 more." in plots_of(summary(profile=profile(*operations)))["share-of-bound-made"].caption


def failed_requests_are_marked():
    for flag, axis, where in (("--max-batch-size", "max_batch_size", "config"), ("--rate", "rate", "workload")):
        lines = [result(f"{flag} {value}", **{where: {axis: value}}, summary={"failed": failed})
                 for value, failed in ((2, 0), (4, 3))]
        plot, = plots_of(*lines).values()
        assert "some requests failed" in plot.caption
        hollow = [line for line in plot.drawn.axes[0].lines if line.get_markersize() < 3]
        assert hollow and all(list(line.get_xdata()) == [4] for line in hollow)
    failed = {"run_id": "r", "error": "too_long"}
    for name, plot in plots_of(request(1), request(2), failed, step(0, 1), step(1, 2)).items():
        words = "Some requests failed." if name == "itl-over-time" else "1 of its requests failed"
        assert words in plot.caption, (name, plot.caption)
    labels = plots_of(comparison(to={"failed": 1}))["made-ratio-of-output-throughput"].drawn.axes[0].get_yticklabels()
    assert "some requests failed" in labels[0].get_text()


def requests_of_a_run_are_drawn():
    lines = [request(number) for number in range(3)]
    ttft, e2e, itl, over_time = plots_of(*lines)["requests-made"].drawn.axes
    shares = [100 / 3, 200 / 3, 100.0]
    assert curves(ttft) == [list(zip((10.0, 11.0, 12.0), shares))], curves(ttft)
    assert curves(e2e) == [list(zip(3 * (500.0,), shares))] and curves(itl) == [list(zip(3 * (1.0,), shares))]
    assert curves(over_time) == [[(0.0, 10.0), (1.0, 11.0), (2.0, 12.0)]], curves(over_time)
    assert "requests-made" in plots_of(*lines, summary())
    *_, itl, over_time = plots_of(*(request(n, itl_p50_ms=None, time=None) for n in range(3)))["requests-made"].drawn.axes
    assert not itl.axison and not over_time.axison
    many = plots_of(*(request(n % 60, ttft_ms=n) for n in range(5000)))["requests-made"]
    assert max(len(curve) for axis in many.drawn.axes for curve in curves(axis)) <= 600 and "longest" in many.caption


def names_are_drawn_as_they_are():
    lines = [result(f"--rate {rate} --input '{NAME}'", run=NAME, config={"model": NAME}, workload={"rate": rate})
             for rate in (1, 2)]
    batches = [result(f"--max-batch-size {size} --input '{NAME}{other}'", run=NAME,
                      config={"model": NAME, "max_batch_size": size}) for size in (1, 2) for other in (1, 2)]
    of_a_run = [request(1), request(2), step(0, 1), step(1, 2), summary(profile=profile(operation(NAME, 0.5)))]
    drawn = plots_of(*lines, *batches, comparison(run=NAME, config={"model": NAME}), *of_a_run, name=f"x{NAME[:-1]}")
    texts = saved(drawn)
    assert len(texts) == 7 and all("a$b_{$" in text for text in texts if "ratio" not in text), list(drawn)


def plots_of_one_name_are_files_of_their_own():
    lines = [result(f"--rate {rate}", workload={"rate": rate}, machine={"processor": machine}, run=run)
             for run in ("a", "a-2", "x" * 300) for machine in (1, 2) for rate in (1, 2)]
    drawn = plots_of(*lines)
    assert len(drawn) == 6 and max(map(len, drawn)) < 200, list(drawn)


def what_a_line_may_say_can_be_drawn():
    measured = [result("--rate 1", workload={"rate": 1}, config={"max_batch_size": 1}),
                result("--rate 2", workload={"rate": 2}), comparison()]
    of_a_run = [request(1), request(2, arrival_s=0.5), step(0, 1), step(1, 2), summary(profile=profile(operation("norm", 0.5)))]
    for lines in (measured, of_a_run):
        for place, line in enumerate(lines):
            changed = ([*lines[:place], other, *lines[place + 1:]] for other in broken(line))
            taken = [lines for lines in changed if not report(*lines)[0].faults]
            for number, lines_taken in enumerate(taken[::10]):
                drawn = plots_of(*lines_taken)
                if number % 5 == 0:
                    saved(drawn)


if __name__ == "__main__":
    warnings.simplefilter("error")
    run_cases(globals())
