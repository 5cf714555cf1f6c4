#!/usr/bin/env python3
"""Checks README.md and docs/*.md against the program and the source.

  check_docs.py [--update] ROOT PROGRAM    exits with 1 and a line for each fault

  commands   The ```sh blocks of a page are run one after the other, in a copy of the repository
             in which PROGRAM is build/pagedinfer. There is nothing else: what a block reads is in
             the repository, or an earlier block of the page makes it. git ignores what they write.
             Comments before a block change that:

               <!-- not run: REASON -->   it is skipped
               <!-- exit code N -->       the block must end with N instead of 0

             A block of another language behind it shows what it prints:

               <!-- printed -->
                 standard output, byte for byte
               <!-- printed, numbers differ -->
                 numbers and their units are not compared
               <!-- printed on standard error, numbers differ -->
                 the same of standard error

             --update writes what was printed into the pages.
  links      Relative links and their anchors lead somewhere.
  flags      Every --flag exists in the help of pagedinfer or is listed below as another program's.
  layers     docs/architecture.md says of each folder what tools/checks/check_layers.py lets it include.
  length     README.md has at most 150 lines.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from check_layers import MAY_INCLUDE

MAX_README_LINES = 150
LIMIT = 120  # seconds for a block
COPIED = (".gitignore", "datasets", "docs", "python", "results", "scripts", "src", "tests", "tools")
LEFT_BY_RUNS = ("*.completions.jsonl", "*.stats.jsonl", "*.summary.json", "*.run", "__pycache__")
# Flags of other programs, and of the scripts, that the pages name.
OTHER_FLAGS = {
    "--long", "--ultra",  # zstd
    "--build", "--check", "--checkpoints", "--generate", "--install", "--cpunodebind", "--cpus", "--dir",
    "--hardware", "--joblog", "--local-dir",
    "--mem", "--membind", "--memory", "--out", "--output-on-failure", "--packed", "--prefix",
    "--foreground", "--preserve-status", "--save", "--shards", "--target", "--test-dir", "--type", "--update", "--wd",
}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)
NOT_RUN = re.compile(r"<!-- not run: (.+?) -->")
EXIT_CODE = re.compile(r"<!-- exit code (\d+) -->")
PROGRESS = re.compile(r"^(\d+ %  )?\d[\d,/~]*  .*tok/s  .*\n", re.M)  # of a run that takes more than some seconds
NUMBER = re.compile(r"\d[\d,.:]*( ?(us|ms|s|%|GiB|MiB|KiB|B)(?![\w/]))?")


class Page:
    def __init__(self, root, path):
        self.path, self.name = path, path.relative_to(root).as_posix()
        self.text = path.read_text(encoding="utf-8")

    def line_of(self, place):
        return self.text.count("\n", 0, place) + 1

    def comment_before(self, place):
        """The comment right above a block, or an empty text."""
        return (re.search(r"(<!--[^>]*-->)\n\Z", self.text[:place]) or [None, ""])[1]

    def prose(self):
        """The text without blocks."""
        return FENCE.sub("", self.text)


def anchors_of(text):
    """The anchors of a page's headings, as GitHub makes them."""
    anchors = set()
    for heading in re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = 0
        while (f"{slug}-{number}" if number else slug) in anchors:
            number += 1
        anchors.add(f"{slug}-{number}" if number else slug)
    return anchors


def check_links(pages):
    for page in pages:
        for match in re.finditer(r"\]\(([^)\s]+)\)", page.prose()):
            link = match[1]
            if re.match(r"[a-z]+:", link):
                continue
            file, _, anchor = link.partition("#")
            target = (page.path.parent / file).resolve() if file else page.path
            if not target.exists():
                yield f"{page.name}: the link {link} leads nowhere"
            elif anchor and anchor not in anchors_of(target.read_text(encoding="utf-8")):
                yield f"{page.name}: {file or 'the page'} has no heading for #{anchor}"


def flags_in(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]", text))


def check_flags(pages, program):
    help_of = {command: subprocess.run([program, command, "--help-all"], capture_output=True, text=True,
                                       check=True).stdout
               for command in ("run", "merge", "bench", "plan", "info", "verify")}
    known = flags_in("".join(help_of.values()))
    for page in pages:
        for flag in sorted(flags_in(page.text) - known - OTHER_FLAGS):
            yield f"{page.name}: {flag} is no flag of pagedinfer"
        if page.name == "docs/flags.md":
            named = flags_in(page.text) | {"--help", "--help-all", "--version"}
            taken = help_of["run"] + help_of["bench"] + help_of["plan"] + help_of["verify"]
            for flag in sorted(flags_in(taken) - named):
                yield f"{page.name}: {flag} is missing"


def check_layers(pages):
    page = next((page.text for page in pages if page.name == "docs/architecture.md"), "")
    listed = {name: set(re.findall(r"[a-z/]+", names))
              for name, names in re.findall(r"^\| `src/([a-z/]+)` \|.*\| ([^|]*) \|$", page, re.M)}
    for folder, names in MAY_INCLUDE.items():
        if folder and listed.get(folder) != names:
            yield (f"docs/architecture.md: src/{folder} may include "
                   f"{', '.join(sorted(names)) or '-'}")
    for folder in sorted(set(listed) - set(MAY_INCLUDE)):
        yield f"docs/architecture.md: tools/checks/check_layers.py does not know src/{folder}"


def first_command(code):
    """The first line of a block without the comment behind it."""
    return re.sub(r"\s+#.*", "", code.splitlines()[0]).strip()


def files_of(folder):
    """The files of a folder but for build/, and when they were written."""
    return {path.relative_to(folder): path.lstat().st_mtime_ns for path in folder.rglob("*")
            if not path.is_dir() and path.relative_to(folder).parts[0] != "build"}


def is_ignored(path, patterns):
    """Whether git ignores a path, by patterns as simple as those of .gitignore."""
    return any(pathlib.PurePosixPath("/", part).match(pattern.rstrip("/"))
               for pattern in patterns for part in (path, *path.parents))


class Scratch:
    """A copy of the repository as scripts/demo.sh leaves it, with what the commands touch."""

    def __init__(self, root, program, folder):
        self.folder = folder
        for path in (root / name for name in COPIED):
            if path.is_file():
                shutil.copy(path, folder)
            else:
                shutil.copytree(path, folder / path.name, symlinks=True,
                                ignore=shutil.ignore_patterns(*LEFT_BY_RUNS))
        (folder / "build").mkdir()
        (folder / "build" / "pagedinfer").symlink_to(program)
        self.files = files_of(folder)

    def left_behind(self):
        """What git status would show: files that are new and not ignored, changed, or gone."""
        patterns = (self.folder / ".gitignore").read_text(encoding="utf-8").split()
        files = files_of(self.folder)
        return sorted(path for path in files.keys() | self.files
                      if files.get(path) != self.files.get(path)
                      and (path in self.files or not is_ignored(path, patterns)))


def run_block(code, folder):
    """Exit code (None: it took too long), standard output, standard error."""
    try:
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", code], cwd=folder, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT,
                              env=os.environ | {"CUDA_VISIBLE_DEVICES": ""})  # the CPU's bytes
        return done.returncode, done.stdout, PROGRESS.sub("", done.stderr)
    except subprocess.TimeoutExpired:
        return None, "", ""


def shape_of(text):
    """A text without its numbers and their units, and with single spaces."""
    return re.sub(r"[ ]+", " ", NUMBER.sub("#", text))


class Commands:
    """Runs the blocks of a page in their order and compares what they print."""

    def __init__(self, root, program, page):
        self.page, self.faults, self.updates = page, [], []
        self.output = self.errors = None
        with tempfile.TemporaryDirectory(prefix="pagedinfer-docs-") as name:
            scratch = Scratch(root, program, pathlib.Path(name))
            for block in FENCE.finditer(page.text):
                comment = page.comment_before(block.start())
                if block[1] == "sh":
                    self.run(block, comment, scratch.folder)
                elif comment.startswith("<!-- printed"):
                    self.compare(block, comment)
            for path in scratch.left_behind():
                self.faults.append(f"{page.name}: a block leaves {path}, which git would show")

    def fault(self, place, text):
        self.faults.append(f"{self.page.name}:{self.page.line_of(place)}: {text}")

    def run(self, block, comment, folder):
        self.output = self.errors = None
        if NOT_RUN.fullmatch(comment):
            return
        expected = EXIT_CODE.fullmatch(comment)
        code, self.output, self.errors = run_block(block[2], folder)
        if code != (int(expected[1]) if expected else 0):
            ended = f"took more than {LIMIT} s" if code is None else f"ended with {code}"
            self.fault(block.start(), f"{first_command(block[2])} {ended}: {self.errors[-600:]}")

    def compare(self, block, comment):
        if self.output is None:
            return self.fault(block.start(), "shows what a block prints that was not run")
        exact = comment == "<!-- printed -->"
        printed = self.errors if "standard error" in comment else self.output
        same = printed == block[2] if exact else shape_of(printed) == shape_of(block[2])
        if not same:
            self.updates.append((block.start(2), block.end(2), printed))
            self.fault(block.start(), f"is not what the block before prints:\n{printed[:2000]}")

    def update(self):
        text = self.page.text
        for begin, end, printed in reversed(self.updates):
            text = text[:begin] + printed + text[end:]
        if self.updates:
            self.page.path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true")
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("program", type=pathlib.Path)
    args = parser.parse_args()
    root, program = args.root.resolve(), args.program.resolve()
    pages = [Page(root, path)
             for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))]]
    others = [Page(root, path) for path in sorted({*root.glob("*/README.md"), *root.glob("results/*.md"),
                                             *root.glob("datasets/*/README.md")})]

    faults = [*check_links(pages + others), *check_flags(pages, program), *check_layers(pages)]
    num_lines = len(pages[0].text.splitlines())
    if num_lines > MAX_README_LINES:
        faults.append(f"README.md: {num_lines} lines, expected at most {MAX_README_LINES}")
    for page in pages:
        commands = Commands(root, program, page)
        faults += commands.faults
        if args.update:
            commands.update()
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
