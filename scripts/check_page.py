#!/usr/bin/env python3
"""Opens a page of scripts/report.py in a browser without a window, and checks what it shows.

    scripts/check_page.py report/report.html [--figures N]

In light and dark, on a wide and a narrow window: every figure has a size and its lines and words are inside
it, nothing is wider than the window, text stands out from the background, and nothing was fetched. N: how
many figures there must be. Needs Chromium or Chrome; exit code 77 where there is none.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# What a browser runs in a copy of the page; it leaves what it saw in the page's text.
MEASURE = """<script>
const channel = (text) => text.match(/[0-9.]+/g).slice(0, 3).map(Number);
const light = (text) => channel(text).reduce((sum, v, i) => sum + v / 255 * [0.21, 0.72, 0.07][i], 0);
const body = getComputedStyle(document.body);
const seen = {
  width: document.documentElement.scrollWidth, window: innerWidth,
  background: light(body.backgroundColor), ink: light(body.color),
  fetched: performance.getEntriesByType("resource").length,
  tables: document.querySelectorAll("table").length,
  figures: [...document.querySelectorAll("figure svg")].map((svg) => {
    const box = svg.getBoundingClientRect();
    const outside = [...svg.querySelectorAll("text")].filter((text) => {
      const part = text.getBoundingClientRect();
      return part.left < box.left - 3 || part.right > box.right + 3 ||
             part.top < box.top - 3 || part.bottom > box.bottom + 3;
    });
    return {name: svg.getAttribute("aria-label"), width: box.width, height: box.height,
            drawn: svg.querySelectorAll("path, use").length, words: svg.querySelectorAll("text").length,
            ink: light(getComputedStyle(svg.querySelector("text")).fill),
            outside: outside.map((text) => text.textContent)};
  })};
const place = document.createElement("pre");
place.id = "seen";
place.textContent = JSON.stringify(seen);
document.body.append(place);
</script></body>"""


def look(browser, page, width, dark):
    """What the browser sees of the page in a window of that width."""
    with tempfile.TemporaryDirectory(prefix="page-") as folder:
        copy = pathlib.Path(folder) / "page.html"
        copy.write_text(page.replace("</body>", MEASURE), encoding="utf-8")
        command = [browser, "--headless", "--disable-gpu", f"--window-size={width},1200", "--dump-dom",
                   f"--user-data-dir={folder}/user", f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
        if os.geteuid() == 0:
            command.append("--no-sandbox")
        ended = subprocess.run([*command, copy.as_uri()], capture_output=True, text=True, timeout=120)
    found = re.search(r'<pre id="seen">(.*?)</pre>', ended.stdout, re.S)
    if not found:
        raise SystemExit(f"{browser}: did not show the page: {ended.stderr[-500:]}")
    return json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def faults_of(seen, num_figures, dark):
    if num_figures is not None and len(seen["figures"]) != num_figures:
        yield f"has {len(seen['figures'])} figures, expected {num_figures}"
    if seen["tables"] == 0:
        yield "has no table"
    if seen["fetched"]:
        yield f"fetched {seen['fetched']} resources, expected none"
    if seen["width"] > seen["window"]:
        yield f"is {seen['width']} wide, expected at most {seen['window']}"
    if (seen["background"] < 0.5) != dark or abs(seen["background"] - seen["ink"]) < 0.5:
        yield f"has text of lightness {seen['ink']:.2f} on {seen['background']:.2f}"
    for figure in seen["figures"]:
        if min(figure["width"], figure["height"]) < 60 or not figure["drawn"] or not figure["words"]:
            yield f"{figure['name']}: is empty or too small"
        if abs(figure["ink"] - seen["background"]) < 0.5:
            yield f"{figure['name']}: its words do not stand out"
        if figure["outside"]:
            yield f"{figure['name']}: {figure['outside']} are outside of it"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--figures", type=int)
    args = parser.parse_args()
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not browser:
        print(f"SKIPPED: there is no browser ({', '.join(BROWSERS)})")
        return 77
    page = args.page.read_text(encoding="utf-8")
    faults = []
    for dark in (False, True):
        for width in (1280, 600):
            seen = look(browser, page, width, dark)
            where = f"{args.page}, {'dark' if dark else 'light'}, {width} wide"
            faults += [f"{where}: {fault}" for fault in faults_of(seen, args.figures, dark)]
    print("\n".join(faults) or f"{args.page}: {len(seen['figures'])} figures and {seen['tables']} tables are shown")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
