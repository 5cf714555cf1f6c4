#!/usr/bin/env python3
"""Fails if a source file includes a folder, or declares a type of a folder, that its own folder may not
know about."""
import pathlib
import re
import sys

COMMANDS = {f"commands/{name}" for name in ("run", "plan", "verify", "bench", "info", "merge")}
# A folder of src may include itself and these.
MAY_INCLUDE = {
    "core": set(),
    "settings": {"core"},
    "io": {"core"},
    "grammar": {"core"},
    "request": {"core", "settings", "io"},
    "output": {"core", "io", "request"},
    "text": {"core", "text/unicode"},
    "text/unicode": {"core"},
    "text/bpe": {"core", "text", "text/unicode"},
    "text/files": {"core", "io", "text", "text/bpe", "text/unicode"},
    "text/chat": {"core", "io", "jinja", "text", "text/files"},
    "jinja": {"core", "text/unicode"},
    "ops": {"core"},
    "ops/cpu": {"core", "ops"},
    "ops/cuda": {"core", "ops", "kernels"},
    "kv": {"core"},
    "model": {"core", "settings", "io", "ops", "model/gguf", "model/quantized"},
    "model/gguf": {"core", "io", "model/quantized"},
    "model/quantized": {"core", "io", "ops"},
    "sched": {"core", "kv"},
    "stats": {"core"},
    "workload": {"core"},
    "engine": {"core", "grammar", "kv", "model", "ops", "sched", "stats", "text", "text/chat"},
    "intake": {"core", "engine", "grammar", "io", "model", "ops", "output", "request", "settings", "text",
               "text/chat"},
    "load": {"core", "engine", "grammar", "intake", "io", "kv", "model", "ops", "ops/cpu", "ops/cuda",
             "model/gguf", "sched", "settings", "text", "text/files"},
    "commands": {"core", "io", "settings", *COMMANDS},
    "commands/run": {"commands", "core", "engine", "intake", "io", "load", "model", "output", "request",
                     "settings", "stats", "text/chat"},
    "commands/plan": {"commands", "commands/run", "core", "engine", "intake", "io", "load", "model",
                      "output", "request", "sched", "settings", "stats", "text"},
    "commands/verify": {"commands", "commands/run", "core", "engine", "intake", "io", "load", "ops",
                        "output", "settings", "stats"},
    "commands/bench": {"commands", "commands/run", "core", "io", "load", "model", "output", "settings",
                       "stats", "text", "text/files", "workload"},
    "commands/info": {"commands", "core", "intake", "load", "model", "request", "settings", "text",
                      "text/files"},
    "commands/merge": {"commands", "core", "io", "output"},
    "cli": {"core", "io", "load", "settings", "commands"},
    "": {"core", "cli", "io"},  # src/main.cpp
}
ROOMS = set(MAY_INCLUDE) - {""}

# A folder of tests may include what the folder of its name in src may, tests/support, and these.
TESTS_MAY_INCLUDE = {
    "e2e": ROOMS,
    "emulated_cuda": ROOMS | {"kernels"},
    "emulated_cuda/kernels": {"kernels"},
    "commands/run": {"commands/bench", "ops", "ops/cuda"},
    "commands/verify": {"ops"},
    "kernels": {"core", "kernels", "ops", "ops/cpu", "ops/cuda", "tests/emulated_cuda"},
    "intake": {"text/files"},
    "load": {"text/files"},
    "model": {"text/files"},
    "model/quantized": {"model", "ops/cpu"},
    "ops": {"model", "ops/cpu"},
    "ops/cuda": {"kv", "model"},
    "request": {"text/files"},
    "settings": {"commands", "io", "load", "model", "request"} | COMMANDS,
    "support": ROOMS | {"kernels"},
    "text": {"text/files"},
}
OTHERS_MAY_INCLUDE = {
    "kernels": {"kernels"},
    "bench": ROOMS | {"kernels", "bench", "tests/support"},
    "fuzz": ROOMS | {"fuzz", "tests/support"},
}
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
INCLUDE = re.compile(r'\s*#include "(?:(.+)/)?[^/"]+"')
DEFINITION = re.compile(r"^(?:class|struct|enum class) (\w+)(?: final)?(?: :[^;{]*)? \{", re.M)
DECLARATION = re.compile(r"(?:class|struct|enum class) (\w+)(?: : \w+)?;")
LIBRARY_HEADER = re.compile(r"\s*#include <(xgrammar|dlpack)/")
CUDA_HEADER = re.compile(r"\s*#include <cu(da|blas)")
MAY_USE_CUDA = ("kernels", "src/ops/cuda", "tests/emulated_cuda")


def allowed(folder: str) -> set:
    """What a file of `folder`, a path from the top, may include; None if nothing says."""
    base, _, rest = folder.partition("/")
    if base == "src":
        return MAY_INCLUDE.get(rest) if rest not in ROOMS else MAY_INCLUDE[rest] | {rest}
    if base == "tests":
        if rest not in ROOMS and rest not in TESTS_MAY_INCLUDE:
            return None if rest else set()
        of_room = MAY_INCLUDE[rest] | {rest} if rest in ROOMS else set()
        return of_room | TESTS_MAY_INCLUDE.get(rest, set()) | {"tests/support", folder}
    return OTHERS_MAY_INCLUDE.get(base)


def defined_in(root: pathlib.Path) -> dict:
    """The folders of src that define each type."""
    folders = {}
    for path in (p for p in (root / "src").rglob("*") if p.suffix in SUFFIXES):
        for match in DEFINITION.finditer(path.read_text()):
            folders.setdefault(match[1], set()).add(path.parent.relative_to(root / "src").as_posix())
    return folders


def problems(root: pathlib.Path):
    types = defined_in(root)
    for base in ("src", "tests", "bench", "fuzz", "kernels"):
        for path in sorted(p for p in (root / base).rglob("*") if p.suffix in SUFFIXES):
            folder = path.parent.relative_to(root).as_posix()
            may = allowed(folder)
            if may is None:
                yield f"{path}:1: no rule says what {folder}/ may include"
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if match and (match[1] or folder) not in may:
                    yield f"{path}:{number}: {folder}/ may not include {match[1] or 'its own'}/"
                declared = DECLARATION.match(line)
                if declared and not types.get(declared[1], may) & may:
                    yield f"{path}:{number}: {folder}/ may not know {declared[1]} by name"
                if CUDA_HEADER.match(line) and not folder.startswith(MAY_USE_CUDA):
                    yield f"{path}:{number}: {folder}/ may not include CUDA's headers"
                if LIBRARY_HEADER.match(line) and folder != "src/grammar":
                    yield f"{path}:{number}: {folder}/ may not include the grammar library's headers"


if __name__ == "__main__":
    found = list(problems(pathlib.Path(sys.argv[1])))
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)
