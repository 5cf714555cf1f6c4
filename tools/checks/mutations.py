#!/usr/bin/env python3
"""Breaks the code on purpose, one place at a time, and says which tests notice.

  mutations.py [--build DIR] [WORD ...]    only mutations whose folder or name holds a WORD
  mutations.py --check                     breaks nothing: says which no longer fit the code

The mutations stand in tests/mutations/*.toml: a name, a file, the text that is replaced (it must
occur once), what replaces it, and a test case (a doctest pattern, without commas) that must fail
then; also the program that has the test, if it is not pagedinfer_tests. A crash and a test that does not end count as failing. The checkout is not touched: a copy of
it is broken and built in DIR [build/mutations], which is used again by the next run.
"""

import argparse
import fnmatch
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPIED = ["CMakeLists.txt", "bench", "cmake", "kernels", "src", "tests", "scripts", "tools",
          "datasets"]


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
    def __init__(self, directory, jobs, programs):
        self.source, self.build_dir, self.jobs = directory / "source", directory / "build", jobs
        self.programs = programs
        self.source.mkdir(parents=True, exist_ok=True)
        for name in COPIED:
            mirror(ROOT / name, self.source / name)
        command = ["cmake", "-G", "Ninja", "-S", self.source, "-B", self.build_dir,
                   "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -w", "-DPAGEDINFER_CUDA=OFF"]
        if shutil.which("ccache"):
            command.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def build(self):
        command = ["cmake", "--build", self.build_dir, "-j", str(self.jobs), "--target",
                   *self.programs]
        done = subprocess.run(command, capture_output=True, text=True)
        return "" if done.returncode == 0 else done.stdout[-3000:]

    def failing(self, program, pattern, limit):
        """The names of the failing test cases, or what else went wrong."""
        command = [self.build_dir / "tests" / program, f"-tc={pattern}"]
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


def mutations(words):
    for path in sorted((ROOT / "tests/mutations").glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["mutation"]:
            label = f"{path.stem}: {entry['name']}"
            if not words or any(word in label for word in words):
                yield label, entry


def program_of(entry):
    return entry.get("program", "pagedinfer_tests")


def check():
    """Prints which mutations have no place in the code, or no test; returns how many."""
    names = set()
    for path in (ROOT / "tests").rglob("*.cpp"):
        for literals in re.findall(r'TEST_CASE\(\s*((?:"[^"]*"\s*)+)\)', path.read_text()):
            names.add("".join(re.findall(r'"([^"]*)"', literals)))
    faults = []
    for label, entry in mutations([]):
        places = (ROOT / entry["file"]).read_text().count(entry["old"])
        if places != 1:
            faults.append(f"{label}: {places} places in {entry['file']} hold {entry['old']!r}")
        if not fnmatch.filter(names, entry["test"]):
            faults.append(f"{label}: no test case is called '{entry['test']}'")
    print("\n".join(faults) or "each mutation has its place and its test")
    return len(faults)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/mutations")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=120, help="seconds for a test [120]")
    parser.add_argument("--check", action="store_true", help="only whether they fit the code")
    parser.add_argument("words", nargs="*")
    args = parser.parse_args()
    if args.check:
        sys.exit(1 if check() else 0)
    chosen = list(mutations(args.words))
    copy = Copy(args.build.resolve(), args.jobs, sorted({program_of(entry) for _, entry in chosen}))

    problem = copy.build()
    if problem:
        sys.exit(f"the unbroken code does not build:\n{problem}")
    for program, pattern in sorted({(program_of(entry), entry["test"]) for _, entry in chosen}):
        failing = copy.failing(program, pattern, args.limit)
        if failing:
            sys.exit(f"the unbroken code fails '{pattern}': {', '.join(failing)}")

    survivors = 0
    for label, entry in chosen:
        path = copy.source / entry["file"]
        original = path.read_text()
        places = original.count(entry["old"])
        if places != 1:
            sys.exit(f"{label}: {places} places in {entry['file']} hold {entry['old']!r}")
        path.write_text(original.replace(entry["old"], entry["new"]))
        problem = copy.build()
        failing = [] if problem else copy.failing(program_of(entry), entry["test"], args.limit)
        path.write_text(original)
        survivors += not failing
        verdict = f"DOES NOT BUILD\n{problem}" if problem else "; ".join(failing) or "SURVIVES"
        print(f"{label:56} {verdict}", flush=True)
    copy.build()
    print(f"{len(chosen)} mutations, {survivors} survive")
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
