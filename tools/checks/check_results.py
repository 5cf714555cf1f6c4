#!/usr/bin/env python3
"""Fails where a line of results/ does not say which commit, machine and command it came from."""
import json
import pathlib
import sys

NEEDED = ("commit", "machine", "command")


def main(root: pathlib.Path) -> int:
    errors = 0
    for path in sorted((root / "results").glob("*.jsonl")):
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            line = json.loads(text)
            missing = [key for key in NEEDED if not line.get(key)]
            if missing:
                print(f"{path}:{number}: has no {', '.join(missing)}")
                errors += 1
    listed = (root / "results" / "README.md").read_text(encoding="utf-8")
    for path in sorted((root / "results").glob("*.jsonl")):
        if f"`{path.name}`" not in listed:
            print(f"{path}: is not in results/README.md")
            errors += 1
    return 1 if errors else 0


if __name__ == "__main__":
    here = pathlib.Path(__file__).resolve().parents[2]
    sys.exit(main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here))
