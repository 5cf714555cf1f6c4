"""The command `pagedinfer`: becomes the program."""
import os
import sys

from .program import binary


def main() -> None:
    program = binary()
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
