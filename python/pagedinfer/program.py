"""The program: where it is, how settings become flags, how its end becomes an exception."""
import collections
import os
import pathlib
import signal
import subprocess
import sys
import threading
from typing import Any, Dict, List, Mapping, Optional

ERROR_RECORDS = 2  # exit code: the run ended, and some lines have error records
LAST_LINES = 50  # of standard error, kept for an exception


class PagedinferError(RuntimeError):
    """The program could not go on. str() is its sentence, `code` its exit code (negative: a signal)."""

    def __init__(self, sentence: str, code: int):
        super().__init__(sentence)
        self.code = code

    def __reduce__(self):  # Ray carries exceptions from node to node
        return type(self), (str(self), self.code)


def binary() -> str:
    """The path of the program: of PAGEDINFER_BINARY if that is set, else the one in the wheel."""
    named = os.environ.get("PAGEDINFER_BINARY")
    path = pathlib.Path(named) if named else pathlib.Path(__file__).parent / "program" / "bin" / "pagedinfer"
    if not path.is_file():
        why = "PAGEDINFER_BINARY names it" if named else "set PAGEDINFER_BINARY or install the wheel"
        raise FileNotFoundError(f"{path}: expected the program pagedinfer; {why}")
    return str(path.resolve())


def version() -> str:
    """The version of the program."""
    told = subprocess.run([binary(), "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return told.split()[1]


def flags_of(settings: Mapping[str, Any]) -> List[str]:
    """Flags of settings: True is the flag alone, False and None are nothing, a list repeats the flag."""
    flags: List[str] = []
    for name, value in settings.items():
        flag = "--" + name.replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is True:
                flags.append(flag)
            elif one is not None and one is not False:
                flags += [flag, str(one)]
    return flags


class Process:
    """The program at work. It has a session of its own, so that an interrupt reaches it once, from here."""

    def __init__(self, arguments: List[str], quiet: bool, **pipes: Any):
        options: Dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **pipes}
        self._quiet = quiet
        self._last: "collections.deque[str]" = collections.deque(maxlen=LAST_LINES)
        quieting = ["--quiet"] if quiet else []
        self.child = subprocess.Popen([binary(), *arguments, *quieting], stderr=subprocess.PIPE,
                                      start_new_session=True, **options)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.child.stderr is not None
        with self.child.stderr as told:
            for line in told:
                text = line.decode(errors="replace")
                self._last.append(text.rstrip())
                if not self._quiet:
                    sys.stderr.write(text)

    def interrupt(self) -> None:
        """Ends the run after its current step; what is finished stays on disk, to be resumed."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGINT)
        self.child.wait()
        self._listener.join()

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()
        self._listener.join()

    def finish(self) -> None:
        """Waits for the end and raises what went wrong; error records are records."""
        try:
            code = self.child.wait()
        except BaseException:
            self.interrupt()
            raise
        self._listener.join()
        if code not in (0, ERROR_RECORDS):
            sentence = next((line for line in reversed(self._last) if line), f"ended with {code}")
            prefix = "pagedinfer: "
            raise PagedinferError(sentence[len(prefix):] if sentence.startswith(prefix) else sentence, code)
