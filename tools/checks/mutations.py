#!/usr/bin/env python3
"""Breaks the code on purpose, one place at a time, and says which tests notice.

  mutations.py [--build DIR] [--jobs N] [--save] [WORD ...]   only mutations whose file, group or name holds a WORD
  mutations.py --check                                        only says which no longer fit the code

The mutations stand in tests/mutations/*.toml: a name, a file, the text that is replaced (it must
occur once), the text in its place, and a test case (a doctest pattern, without commas) that must
fail then; also the program that has the test, if it is not pagedinfer_tests. A crash and a test that
does not end count as failing.

The checkout is not touched. A copy of it is broken and built in DIR [build/mutations], which is used
again by the next run; only the program that has the test is built anew. If the checkout was built
with ccache, and CCACHE_BASEDIR holds it and DIR, the first build of DIR comes from there. --save
appends a line for each file of mutations to results/mutations.jsonl. Exit code 1: a mutation survived
or does not build.
"""

import argparse
import datetime
import fnmatch
import itertools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPIED = ["CMakeLists.txt", "bench", "cmake", "kernels", "src", "tests", "scripts", "tools",
          "datasets"]
sys.path.insert(0, str(ROOT / "tools/measure"))
import runs  # noqa: E402


class Mutation:
    def __init__(self, group, entry):
        self.group, self.name, self.label = group, entry["name"], f"{group}: {entry['name']}"
        self.file, self.old, self.new, self.test = (entry[key] for key in ("file", "old", "new", "test"))
        self.program = entry.get("program", "pagedinfer_tests")


def mutations(words):
    """Those of one file of the code follow each other, so that it is compiled once for each."""
    for path in sorted((ROOT / "tests/mutations").glob("*.toml")):
        of_group = [Mutation(path.stem, entry) for entry in tomllib.loads(path.read_text())["mutation"]]
        for mutation in sorted(of_group, key=lambda m: m.file):
            if not words or any(word in text for word in words for text in (mutation.file, mutation.label)):
                yield mutation


def check():
    """Prints which mutations have no place in the code, or no test; returns how many."""
    names = set()
    for path in (ROOT / "tests").rglob("*.cpp"):
        for literals in re.findall(r'TEST_CASE\(\s*((?:"[^"]*"\s*)+)\)', path.read_text()):
            names.add("".join(re.findall(r'"([^"]*)"', literals)))
    faults = []
    for mutation in mutations([]):
        path = ROOT / mutation.file
        places = path.read_text().count(mutation.old) if path.exists() else 0
        if places != 1:
            faults.append(f"{mutation.label}: {places} places in {mutation.file} hold {mutation.old!r}")
        if "," in mutation.test:  # which separates patterns
            faults.append(f"{mutation.label}: found a comma in '{mutation.test}', expected a * in its place")
        if not fnmatch.filter(names, mutation.test):
            faults.append(f"{mutation.label}: no test case is called '{mutation.test}'")
    print("\n".join(faults) or "each mutation has its place and its test")
    return len(faults)


def mirror(source, target):
    """Makes `target` equal to `source`; files that are equal already keep their times."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        wanted = {child.name for child in source.iterdir()}
        for child in target.iterdir():
            if child.name not in wanted:
                shutil.rmtree(child) if child.is_dir() else child.unlink()
        for name in wanted:
            mirror(source / name, target / name)
    elif not target.exists() or target.read_bytes() != source.read_bytes():
        shutil.copyfile(source, target)


class Copy:
    """A copy of the checkout, and its build."""

    def __init__(self, directory, jobs):
        self.source, self.build_dir, self.jobs = directory, directory / "build", jobs
        self.source.mkdir(parents=True, exist_ok=True)
        for name in COPIED:
            mirror(ROOT / name, self.source / name)
        # As scripts/test.sh builds, so that ccache may know the unbroken code. What is broken may leave
        # something unused: MUTATION_FLAGS allow warnings.
        compiler = "ccache " if shutil.which("ccache") else ""
        command = ["cmake", "-G", "Ninja", "-S", self.source, "-B", self.build_dir, "-DPAGEDINFER_CUDA=OFF",
                   f'-DCMAKE_CXX_COMPILER_LAUNCHER=sh;-c;exec {compiler}"$0" "$@" $MUTATION_FLAGS']
        if shutil.which("ld.gold"):  # programs are linked for each mutation
            command.append("-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=gold")
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def build(self, *programs, flags=""):
        """"" or why it does not build."""
        command = ["cmake", "--build", self.build_dir, "-j", str(self.jobs), "--target", *programs]
        done = subprocess.run(command, capture_output=True, text=True,
                              env=os.environ | {"MUTATION_FLAGS": flags})
        return "" if done.returncode == 0 else done.stdout[-3000:]

    def failing(self, program, pattern, limit):
        """The names of the failing test cases, or what else went wrong."""
        command = [self.build_dir / "tests" / program, f"-tc={pattern}", "--abort-after=1"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit,
                                  errors="replace")
        except subprocess.TimeoutExpired:
            return ["does not end"]
        if not re.search(r"test cases: +[1-9]", done.stdout) and done.returncode >= 0:
            return ["no such test"]
        if done.returncode == 0:
            return []
        return sorted(set(re.findall(r"^TEST CASE: +(.*)", done.stdout, re.M))) or ["crash"]

    def try_all(self, broken, limit):
        """Yields each mutation and what failing() says of the broken code, or the text of the compiler.
        REQUIRES: all are of one file."""
        path = self.source / broken[0].file
        original = path.read_text()
        try:
            for mutation in broken:
                path.write_text(original.replace(mutation.old, mutation.new))
                problem = self.build(mutation.program, flags="-w")
                yield mutation, ([f"DOES NOT BUILD\n{problem}"] if problem else
                                 self.failing(mutation.program, mutation.test, limit))
        finally:
            path.write_text(original)
            self.build(*{mutation.program for mutation in broken})  # which ccache knows


def try_unbroken(copy, chosen, limit):
    if problem := copy.build(*sorted({mutation.program for mutation in chosen})):
        sys.exit(f"the unbroken code does not build:\n{problem}")
    for program, pattern in sorted({(mutation.program, mutation.test) for mutation in chosen}):
        if failing := copy.failing(program, pattern, limit):
            sys.exit(f"the unbroken code fails '{pattern}': {', '.join(failing)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/mutations")
    parser.add_argument("--jobs", type=int, default=2, help="of the compiler [2]")
    parser.add_argument("--limit", type=int, default=120, help="seconds for a test [120]")
    parser.add_argument("--check", action="store_true", help="only whether they fit the code")
    parser.add_argument("--save", action="store_true", help="append to results/mutations.jsonl")
    parser.add_argument("words", nargs="*", metavar="WORD")
    args = parser.parse_args()
    if args.check:
        sys.exit(1 if check() else 0)
    if check():
        sys.exit(1)
    args.name = "mutations"
    command = shlex.join(["python3", "tools/checks/mutations.py", *args.words])
    copy, chosen = Copy(args.build.resolve(), args.jobs), list(mutations(args.words))
    try_unbroken(copy, chosen, args.limit)

    num_bad = 0
    for group in sorted({mutation.group for mutation in chosen}):
        begin, killed, survivors, unbuilt = time.monotonic(), 0, [], []
        of_group = [mutation for mutation in chosen if mutation.group == group]
        for _, of_file in itertools.groupby(of_group, key=lambda m: m.file):
            for mutation, failing in copy.try_all(list(of_file), args.limit):
                print(f"{mutation.label:56} {'; '.join(failing) or 'SURVIVES'}", flush=True)
                if not failing:
                    survivors.append(mutation.name)
                elif failing[0].startswith("DOES NOT BUILD"):
                    unbuilt.append(mutation.name)
                else:
                    killed += 1
        num_bad += len(survivors) + len(unbuilt)
        found = {"date": datetime.date.today().isoformat(), "group": group, "killed": killed,
                 "survived": len(survivors), "survivors": survivors, "not_built": unbuilt,
                 "seconds": round(time.monotonic() - begin)}
        print(f"{group}: {killed} killed, {len(survivors)} survive, {len(unbuilt)} do not build, "
              f"{found['seconds']} s", flush=True)
        runs.save(args, found, command)
    sys.exit(1 if num_bad else 0)


if __name__ == "__main__":
    main()
