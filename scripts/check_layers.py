#!/usr/bin/env python3
"""Fails if a source file includes a folder its own folder may not know about."""
import pathlib
import re
import sys

MAY_INCLUDE = {
    "core": set(),
    "io": {"core"},
    "text": {"core", "io"},
    "ops": {"core"},
    "ops/cpu": {"core", "ops"},
    "kv": {"core"},
    "model": {"core", "io", "ops"},
    "sched": {"core", "kv"},
    "stats": {"core"},
    "engine": {"core", "io", "text", "ops", "ops/cpu", "kv", "model", "sched", "stats"},
    "cli": {"core", "engine"},
    "": {"core", "cli"},  # src/main.cpp
}


def main(root: pathlib.Path) -> int:
    errors = 0
    for base in (root / "src",):
        for path in sorted(p for p in base.rglob("*") if p.suffix in {".h", ".cpp", ".cu", ".cuh"}):
            folder = path.parent.relative_to(base).as_posix()
            folder = "" if folder == "." else folder
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = re.match(r'\s*#include "(.+)/[^/]+"', line)
                if match and match[1] != folder and match[1] not in MAY_INCLUDE[folder]:
                    print(f"{path}:{number}: {folder or 'main'} may not include {match[1]}/")
                    errors += 1
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
