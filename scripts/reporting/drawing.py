"""What all plots have in common: their style, axes from zero, and words in place of legends."""
import dataclasses
import re

from matplotlib import ticker
from matplotlib.figure import Figure

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
    "text.parse_math": False,  # a $ in a name is a $
    "figure.constrained_layout.h_pad": 0.06, "figure.constrained_layout.w_pad": 0.08,
}
MAX_SERIES = len(COLOURS)


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
