"""Runs over files and over lines."""
import csv
import gzip
import io
import json
import os
import subprocess
import threading
from typing import Any, Dict, Iterable, Iterator, Mapping, Optional, Union

from .program import Process, flags_of

Record = Dict[str, Any]
Line = Union[str, Mapping[str, Any]]
Path = Union[str, "os.PathLike[str]"]


def read(path: Path) -> Iterator[Record]:
    """The records of a file, one after the other: JSON lines, or the rows of a name in .csv.

    A name in .gz or .zst is unpacked. A row has an entry for each column; numbers that every table of
    records has are numbers, or None where the cell is empty, and other cells are strings."""
    name = os.fspath(path)
    with _open_unpacked(name) as file:
        if not name.removesuffix(_packing(name)).endswith(".csv"):
            for line in file:
                yield json.loads(line)
            return
        csv.field_size_limit(max(csv.field_size_limit(), 1 << 30))  # of the interpreter; a text may be long
        rows = csv.DictReader(file, strict=True)
        is_of_records = {"index", "completion", "error_code"} <= set(rows.fieldnames or ())
        for row in rows:
            for count in _COUNTS if is_of_records else ():
                row[count] = int(row[count]) if row[count] else None  # type: ignore[assignment]
            yield row


_COUNTS = ("index", "completion", "prompt_tokens", "completion_tokens")


def _packing(name: str) -> str:
    return next((ending for ending in (".gz", ".zst") if name.endswith(ending)), "")


def _open_unpacked(name: str) -> Any:
    """The text of a file, with the ends of lines as they are."""
    if _packing(name) == ".gz":
        return gzip.open(name, "rt", encoding="utf-8", newline="")
    if _packing(name) != ".zst":
        return open(name, encoding="utf-8", newline="")
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
        return zstd.open(name, "rt", encoding="utf-8", newline="")
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError:
        raise ImportError(f"{name}: reading .zst needs Python 3.14 or the module zstandard") from None
    frames = zstandard.ZstdDecompressor().stream_reader(open(name, "rb"), read_across_frames=True, closefd=True)
    return io.TextIOWrapper(frames, encoding="utf-8", newline="")


class Records:
    """The records of an ended run. Each iteration reads the file `path` anew, a record at a time."""

    def __init__(self, path: str):
        self.path = path

    def __iter__(self) -> Iterator[Record]:
        return read(self.path)

    def __repr__(self) -> str:
        return f"Records({self.path!r})"


class Completions(Iterator[Record]):
    """Records of lines, as they come. The end of the iteration raises what ended the run.

    close(), leaving `with` or dropping the last reference ends the program."""

    def __init__(self, lines: Iterable[Line], settings: Mapping[str, Any], quiet: bool):
        self._failure: Optional[BaseException] = None
        self._ended = False
        self._process = Process(["run", "--input", "-", "--output", "-", *flags_of(settings)], quiet,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # A thread writes: the program stops reading while nobody reads what it writes. It knows
        # nothing of this object, which would otherwise live as long as the thread.
        self._told: Dict[str, BaseException] = {}
        threading.Thread(target=_write, args=(self._process.child, lines, self._told), daemon=True).start()

    def __iter__(self) -> "Completions":
        return self

    def __next__(self) -> Record:
        if self._ended:
            raise StopIteration
        assert self._process.child.stdout is not None
        try:
            line = self._process.child.stdout.readline()
        except BaseException:
            self.close()
            raise
        if line:
            return json.loads(line)
        self._ended = True
        self._process.child.stdout.close()
        if "failure" in self._told:
            self._process.kill()
            raise self._told["failure"]
        self._process.finish()
        raise StopIteration

    def close(self) -> None:
        """Ends the program, whatever it was doing."""
        if not self._ended:
            self._ended = True
            self._process.kill()
            self._process.child.stdout.close()  # type: ignore[union-attr]

    def __enter__(self) -> "Completions":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_told"):
            self.close()


def _write(child: "subprocess.Popen[bytes]", lines: Iterable[Line], told: Dict[str, BaseException]) -> None:
    """Writes the lines. A failure of `lines` itself is told, and ends the program."""
    try:
        with child.stdin as pipe:  # type: ignore[union-attr]
            for line in lines:
                text = line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)
                if "\n" in text.rstrip("\n"):
                    raise ValueError(f"a line of several lines: {text[:80]!r}")
                # Half a pair of UTF-16 is for the program to refuse, in the record of its line.
                pipe.write(text.rstrip("\n").encode(errors="surrogatepass") + b"\n")
                pipe.flush()  # a generator may wait for an answer before its next line
    except (BrokenPipeError, ConnectionResetError):
        pass  # the program has ended, and says why
    except BaseException as failure:
        told["failure"] = failure
        child.kill()


def run(source: Any, *, output: Optional[Path] = None, quiet: bool = True, resume: bool = True,
        **settings: Any) -> Any:
    """Completes prompts; see the flags of `pagedinfer run` for settings (model, max_tokens, ...).

    source  the path of a file (JSON lines, .csv or .tsv): runs it to its end, with --resume unless resume=False or
            overwrite=True, and returns its Records. After an interrupt or a failure the same call
            goes on where the run was.
            an iterable of lines, each a dict or a text of JSON: returns Completions at once, which
            give the records in order as they come.
            a pyarrow table: see run_table.
    quiet   False passes progress and the closing table to sys.stderr.

    Raises PagedinferError with the program's sentence. A line that fails is a record with "error"."""
    if isinstance(source, (str, os.PathLike)):
        return _run_file(os.fspath(source), output, quiet, resume, settings)
    if output is not None:
        raise TypeError("output: lines and tables have none; a file has")
    if hasattr(source, "column_names"):
        from .tables import run_table
        return run_table(source, quiet=quiet, **settings)
    if isinstance(source, (bytes, Mapping)) or hasattr(source, "columns"):  # their elements are no lines
        raise TypeError(f"source: found {type(source).__name__}, expected a path, an iterable of lines or a "
                        "table of pyarrow")
    return Completions(source, settings, quiet)


def default_output(path: str, shard: Optional[str] = None) -> str:
    """Where `pagedinfer run` writes the records of a file."""
    path = path[:len(path) - len(_packing(path))]
    for suffix in (".jsonl", ".csv", ".tsv"):
        path = path[:-len(suffix)] if path.endswith(suffix) else path
    return f"{path}.{shard.replace('/', '-of-')}.completions.jsonl" if shard else f"{path}.completions.jsonl"


def _run_file(path: str, output: Optional[Path], quiet: bool, resume: bool, settings: Mapping[str, Any]) -> Records:
    named = default_output(path, settings.get("shard")) if output is None else os.fspath(output)
    going_on = ["--resume"] if resume and not settings.get("overwrite") else []
    Process(["run", "--input", path, "--output", named, *going_on, *flags_of(settings)], quiet).finish()
    return Records(named)
