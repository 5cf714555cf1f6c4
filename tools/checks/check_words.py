#!/usr/bin/env python3
"""Looks for words and phrases that this project does not use, in code, scripts and documents, and prints
file, line and match.

  check_words.py [ROOT]

Comments, messages and documents say things plainly: subject, verb, object, and the field's own words.
"""

import pathlib
import re
import sys

FOLDERS = ("src", "kernels", "tests", "bench", "fuzz", "scripts", "tools", "docs", "cmake")
SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".md", ".txt", ".toml", ".cmake"}
SKIPPED = {"tests/data", "tools/checks/check_words.py"}

# A pattern and what to write in its place.
WORDS = [
    (r"\b(nobody|somebody|everybody|whoever)\b", "the subject itself: the caller, another program, the reader"),
    (r"\bk(Most|Least)[A-Z]?\w*|\b(most|least)_\w+(?<!most_likely)\b", "kMax, kMin, max_, min_"),
    (r"\bk(Longest|Largest|Smallest|Shortest|Greatest)[A-Z]?\w*", "kMax, kMin"),
    (r"\bgreatest\b", "maximum, max_"),
    (r"\bin vain\b", "unused, discarded"),
    (r"\bbeliev(e|es|ed|ing)\b", "say what is checked"),
    (r"\bsoften\b", "softmax_update"),
    (r"\bsettle[sd]?\b", "commit"),
    (r"\babandon(s|ed|ing)?\b", "abort"),
    (r"\bwish(es|ed)?_?\b", "wanted"),
    (r"\bdrop_ended\b", "erase_finished"),
    (r"\btake_out\b", "extract"),
    (r"\bplace_of\b", "find, offset, entry"),
    (r"\bgives? way\b", "preempts, is preempted"),
    (r"\bis_more_to_come\b", "input_open"),
    (r"\bprint_way_on\b", "print_resume_hint"),
    (r"\bland(s|ed|ing)?\b", "retire"),
    (r"\b(Request|Step)Record\b", "RequestStats, StepStats: a record is a line of the output"),
    (r"\bGraphRecorder\b|\bto record a step\b|recorded as a graph", "capture"),
    (r"\bin the hands of\b", "state, or owned by"),
    (r"\bas far as others\b|\bworth their waking\b", "say what it holds, or when it is used"),
    (r"\bhas its last token by that\b", "is released"),
    (r"\bHow much of everything\b", "sizes of a step's arrays"),
    (r"\bstands for another\b|\bmay stand for one that is being drawn\b", "placeholder token"),
    (r"\bOne to one in each argument\b", "bijective"),
    (r"\bas long as it wants\b|\bMakes the names in the folder\b", "fsync"),
    (r"\bA line to what becomes of it\b|\bWhat went wrong is told by others\b", "say what it does"),
    (r"\bknows what is, whatever the system\b", "the durable state is unknown"),
    (r"\bkeys? that (nobody|no one) knows\b", "unknown keys"),
]


def files(root):
    for name in FOLDERS:
        yield from sorted(path for path in (root / name).rglob("*") if path.suffix in SUFFIXES)
    yield root / "README.md"
    yield root / "CMakeLists.txt"
    yield from sorted((root / "results").glob("*.md"))


def is_skipped(root, path):
    name = path.relative_to(root).as_posix()
    return any(name == skipped or name.startswith(skipped + "/") for skipped in SKIPPED)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    patterns = [(re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in WORDS]
    count = 0
    for path in files(root):
        if is_skipped(root, path):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for pattern, instead in patterns:
                for found in pattern.finditer(line):
                    count += 1
                    print(f"{path.relative_to(root)}:{number}: {found.group(0)!r}; write {instead}")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
