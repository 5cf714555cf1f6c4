"""Makes one HTML page of plots and tables. It needs no network and no script, and follows light and dark."""
import html
import re

# Colours of the plots that the page replaces, and what they are on a dark page.
DARK = {"#1f2328": ("ink", "#e6edf3"), "#57606a": ("muted", "#9aa4ae"), "#d8dee4": ("rule", "#30363d"),
        "#fefefe": ("paper", "#0d1117"), "#4477aa": ("blue", "#6ea8dc"), "#ee6677": ("red", "#f28a97"),
        "#228833": ("green", "#4cb866"), "#aa3377": ("purple", "#d468a4"), "#ccbb44": ("yellow", "#d6c95f"),
        "#66ccee": ("cyan", "#7fd4f0")}
STYLE = """
:root { color-scheme: light dark; LIGHT }
@media (prefers-color-scheme: dark) { :root { DARK } }
body { background: var(--paper); color: var(--ink); margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 62rem;
       font: 15px/1.5 system-ui, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
figure { margin: 2rem 0 0; } figure svg { width: 100%; height: auto; display: block; }
figcaption, .note, details { color: var(--muted); font-size: .87rem; margin: .3rem 0 0; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem .25rem 0; text-align: right; border-bottom: 1px solid var(--rule); }
th { font-weight: 600; vertical-align: bottom; } td span, th span { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: var(--paper); }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
"""


def style():
    light = " ".join(f"--{name}: {colour};" for colour, (name, _) in DARK.items())
    dark = " ".join(f"--{name}: {colour};" for name, colour in DARK.values())
    return STYLE.replace("LIGHT", light).replace("DARK", dark)


def inline(svg, plot):
    """An SVG as a part of the page: ids of its own, the page's colours, a name for those who cannot see it."""
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r'\bid="', f'id="{plot.name}.', svg)
    svg = re.sub(r'href="#', f'href="#{plot.name}.', svg)
    svg = re.sub(r"url\(#", f"url(#{plot.name}.", svg)
    for colour, (name, _) in DARK.items():
        svg = svg.replace(colour, f"var(--{name})")
    return svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(plot.title)}"', 1)


def machine_text(machine):
    """What a line says of its machine. The device names its threads, so they are not said twice."""
    if isinstance(machine, dict):
        return ", ".join(("" if k in ("processor", "device") else f"{k} ")
                         + (" ".join(map(str, v)) if isinstance(v, list) else str(v))
                         for k, v in machine.items() if k != "threads" or "device" not in machine)
    return str(machine)


def cell_html(text):
    """Lines break between flags, not within them."""
    return re.sub(r"--[\w-]+(?: (?!over |--)[^\s<]+)?", r"<span>\g<0></span>", html.escape(text))


MAX_COLUMNS = 8


def table_html(table):
    headers, *rows = [table.headers, *table.rows]
    if len(headers) > MAX_COLUMNS > len(rows):  # a wide table of few rows
        headers, *rows = zip(headers, *rows)
    head = "".join(f"<th>{cell_html(cell)}</th>" for cell in headers)
    rows = "".join("<tr>" + "".join(f"<td>{cell_html(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    note = f'<p class="note">{html.escape(table.note)}</p>' if table.note else ""
    return (f"<h2>{html.escape(table.title)}</h2>\n<div class=\"wide\"><table><thead><tr>{head}</tr></thead>\n"
            f"<tbody>{rows}</tbody></table></div>{note}\n")


def sources_html(lines):
    measured = [result.line for result in lines.results + lines.comparisons]
    machines = dict.fromkeys(machine_text(line.get("machine", "")) for line in measured)
    commands = dict.fromkeys(line["command"] for line in measured)
    parts = [f"Measured on {html.escape(machine)}." for machine in machines if machine]
    devices = dict.fromkeys(run.summary["device"] for run in lines.runs.values()
                            if run.summary and run.summary.get("device"))
    parts += [f"Device: {html.escape(device)}." for device in devices
              if not any(device in machine for machine in machines)]
    text = f'<p class="note">{" ".join(parts)}</p>\n' if parts else ""
    if commands:
        text += ("<details><summary>Commands</summary>"
                 + "".join(f"<p><code>{html.escape(command)}</code></p>" for command in commands) + "</details>\n")
    return text


def make(title, lines, plots, svgs, tables):
    figures = "".join(f"<figure>\n{inline(svg, plot)}<figcaption>{html.escape(plot.caption)}</figcaption>\n</figure>\n"
                      for plot, svg in zip(plots, svgs))
    return (f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{html.escape(title)}</title>\n<style>{style()}</style>\n</head>\n<body>\n"
            f"<h1>{html.escape(title)}</h1>\n{sources_html(lines)}{figures}"
            f"{''.join(table_html(table) for table in tables)}</body>\n</html>\n")
