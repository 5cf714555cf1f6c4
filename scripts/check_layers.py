#!/usr/bin/env python3
"""Fails if a source file includes a folder its own folder may not know about."""
import pathlib
import re
import sys

MAY_INCLUDE = {
    "core": set(),
    "settings": {"core"},
    "io": {"core"},
    "text": {"core", "io"},
    "ops": {"core"},
    "ops/cpu": {"core", "ops"},
    "ops/cuda": {"core", "ops", "kernels"},
    "kv": {"core"},
    "model": {"core", "io", "ops"},
    "sched": {"core", "kv"},
    "stats": {"core"},
    "engine": {"core", "settings", "io", "text", "ops", "ops/cpu", "ops/cuda", "kv", "model", "sched", "stats"},
    "cli": {"core", "settings", "engine"},
    "": {"core", "cli"},  # src/main.cpp
}
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
CUDA_FOLDER = "ops/cuda"


def main(root: pathlib.Path) -> int:
    errors = 0
    for base in (root / "src",):
        for path in sorted(p for p in base.rglob("*") if p.suffix in SUFFIXES):
            folder = path.parent.relative_to(base).as_posix()
            folder = "" if folder == "." else folder
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = re.match(r'\s*#include "(.+)/[^/]+"', line)
                if match and match[1] != folder and match[1] not in MAY_INCLUDE[folder]:
                    print(f"{path}:{number}: {folder or 'main'} may not include {match[1]}/")
                    errors += 1
                if folder != CUDA_FOLDER and re.match(r"\s*#include <cu(da|blas)", line):
                    print(f"{path}:{number}: only {CUDA_FOLDER} may include CUDA's headers")
                    errors += 1
    for path in sorted(p for p in (root / "kernels").rglob("*") if p.suffix in SUFFIXES):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.match(r'\s*#include "(?!kernels/)', line):
                print(f"{path}:{number}: kernels may include nothing of ours but kernels/")
                errors += 1
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
