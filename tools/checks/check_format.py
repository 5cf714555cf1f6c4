#!/usr/bin/env python3
"""Fails if a source file is not as clang-format writes it, or a body on a line of its own has no
braces. clang-format's output differs from version to version: without version 14 the check of the
layout is skipped, and says so (exit 77, if nothing else is wrong)."""
import pathlib
import re
import shutil
import subprocess
import sys

FOLDERS = ("src", "kernels", "tests", "bench", "fuzz")
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
VERSION = 14
SKIPPED = 77
# Comments and literals, in which parentheses count for nothing.
NO_CODE = re.compile(r"""//[^\n]*|/\*.*?\*/|R"(?P<end>[^()\\\s]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|"""
                     r"""(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'""", re.DOTALL)
CONTROL = re.compile(r"(if|if constexpr|for|while|(\} )?else if) ?\(|(\} )?else$")


def clang_format():
    for name in (f"clang-format-{VERSION}", "clang-format"):
        if shutil.which(name):
            said = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
            if f"version {VERSION}." in said:
                return name
    return None


def code_of(text: str):
    """The lines without what is no code; a literal is two quotes."""
    def blank(found):
        start = "" if found[0].startswith("/") else '""'
        return start + "\n" * found[0].count("\n")
    return [line.rstrip() for line in NO_CODE.sub(blank, text).splitlines()]


def without_braces(path: pathlib.Path):
    lines = code_of(path.read_text())
    for number, line in enumerate(lines):
        if not CONTROL.match(line.lstrip()):
            continue
        end, depth = number, 0
        while end < len(lines):
            depth += lines[end].count("(") - lines[end].count(")")
            if depth <= 0:
                break
            end += 1
        else:
            yield f"{path}:{number + 1}: the parentheses of this statement are not closed"
            continue
        if lines[end].endswith((")", "else")) and not lines[end].lstrip().startswith("#"):
            yield f"{path}:{number + 1}: the body of this statement needs braces"


def main(root: pathlib.Path) -> int:
    paths = sorted(p for folder in FOLDERS for p in (root / folder).rglob("*") if p.suffix in SUFFIXES)
    found = [line for path in paths for line in without_braces(path)]
    formatter = clang_format()
    if formatter:
        checked = subprocess.run([formatter, "--dry-run", "-Werror", *map(str, paths)],
                                 capture_output=True, text=True)
        found += [line for line in checked.stderr.splitlines() if "error:" in line]
    print("\n".join(found), end="\n" if found else "")
    if found:
        return 1
    if not formatter:
        print(f"skipped: the layout is checked with clang-format {VERSION}, which is not there")
        return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
