#!/usr/bin/env python3
"""Makes tables, plots and one HTML page of what was measured.

    scripts/report.py results/paging.jsonl --out report
    scripts/report.py questions.stats.jsonl questions.summary.json steps.jsonl --out report

The files hold lines of `pagedinfer bench --results`, or what a run wrote: its statistics, its summary,
its --trace; report.py tells them apart by what is in them, and puts those of one run together. FILE.gz is read too. Tables are printed, as Markdown. With --out, DIR gets them as
tables.md, each plot as PNG and SVG, and report.html with all of it, which needs neither network nor
scripts. The same lines give the same bytes.

Plots need matplotlib 3.6 or later: apt-get install python3-matplotlib, or python3 -m venv plots &&
plots/bin/pip install matplotlib, and then plots/bin/python scripts/report.py. Without it there are
tables only, in the page too.

Exit code 0; 2 if lines could not be used (they are named, and the report is of the others); 1 if there is
nothing to report, or it cannot be written.
"""
import argparse
import os
import pathlib
import sys

from reporting import groups, page, read, tables


def draw(lines, experiments, names, folder):
    """The plots, saved, and their SVG texts; nothing where matplotlib is missing."""
    try:
        from reporting import plots
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("matplotlib", "numpy"):
            raise
        print("no plots: matplotlib is not installed; apt-get install python3-matplotlib, or pip install matplotlib "
              "in a virtual environment", file=sys.stderr)
        return [], []
    drawn = plots.draw(lines, experiments, names)
    return drawn, plots.save(drawn, folder)


def write_out(text):
    try:
        print(text, end="", flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is not written is dropped at the exit
        raise SystemExit(f"standard output: {error.strerror}") from None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="for plots, tables.md and report.html")
    parser.add_argument("--title", default="What was measured", help="of the page")
    args = parser.parse_args()

    lines = read.read(args.files)
    for fault in lines.faults:
        print(fault, file=sys.stderr)
    if not (lines.results or lines.comparisons or lines.runs):
        raise SystemExit("nothing to report")
    experiments = groups.experiments(lines.results + groups.configurations(lines.comparisons))
    names = groups.names_of(list(lines.runs.values())) if lines.runs else []
    made = tables.make(lines, experiments, names)
    text = "\n".join(table.markdown() for table in made)
    write_out(text)
    if args.out:
        try:
            args.out.mkdir(parents=True, exist_ok=True)
            plots, svgs = draw(lines, experiments, names, args.out)
            (args.out / "tables.md").write_text(text, encoding="utf-8", errors="replace")
            (args.out / "report.html").write_text(page.make(args.title, lines, plots, svgs, made), encoding="utf-8",
                                                  errors="replace")
        except OSError as error:
            raise SystemExit(f"{error.filename or args.out}: {error.strerror}") from None
        print(f"{args.out / 'report.html'}: {len(plots)} plots, {len(made)} tables", file=sys.stderr)
    return 2 if lines.faults else 0


if __name__ == "__main__":
    sys.exit(main())
