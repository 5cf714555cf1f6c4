"""Draws and saves the plots of a report with matplotlib: the same bytes from the same lines."""
import itertools

import matplotlib

from reporting.drawing import STYLE
from reporting.result_plots import AXES, over_rate, over_setting, ratios
from reporting.run_plots import cache_over_time, itl_over_time, requests_of, share_of_bound

MAX_NAME = 120  # letters of a file's name, of 255 that systems allow
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
        plots += [requests_of(run, name) for run, name in zip(lines.runs.values(), run_names)]
        traced = [(run, name) for run, name in zip(lines.runs.values(), run_names) if run.steps]
        for first in range(0, len(traced), 4):
            part = traced[first:first + 4]
            plots.append(itl_over_time([run for run, _ in part], [name for _, name in part],
                                       f"-{first // 4 + 1}" if len(traced) > 4 else ""))
        plots += [cache_over_time(run, name) for run, name in traced]
        plots += [share_of_bound(run, name) for run, name in zip(lines.runs.values(), run_names) if run.profile]
    plots = [plot for plot in plots if plot]
    used = set()
    for plot in plots:
        first = plot.name[:MAX_NAME]
        numbers = (f"{first}-{number}" for number in itertools.count(2))
        plot.name = next(name for name in itertools.chain([first], numbers) if name not in used)
        used.add(plot.name)
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
