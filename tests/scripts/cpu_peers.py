#!/usr/bin/env python3
"""tools/measure/cpu_peers.py goes on without a peer that crashes: stand-ins for the peers, one of which
answers twice and crashes, one of which crashes at once."""
import contextlib
import io
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "measure"))
import cpu_peers

ANSWER = {"first_s": 2.0, "steps_s": [0.5], "tokens": [[1]] * 8}
WORKER = """#!/bin/sh
echo '{"name": "a stand-in"}'
for answer in 1 2; do
  read -r asked
  echo '{"first_s": 4.0, "steps_s": [1.0], "tokens": [[1], [1], [1], [1], [1], [1], [1], [1]]}'
done
read -r asked
kill -SEGV $$
"""


class Ours:
    bits, about = 8, "ours"

    def complete(self, prompts, tokens):
        return ANSWER

    def of_bound(self, prompts, tokens):
        return 0.5, None


def stand_in(folder, name, script):
    python = folder / name / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(script)
    python.chmod(0o755)
    return cpu_peers.Peer(name, folder / name, 1)


time.sleep = lambda seconds: None
with tempfile.TemporaryDirectory() as name, contextlib.redirect_stderr(io.StringIO()):
    folder = pathlib.Path(name)
    engines = {"int8": Ours(), "llama.cpp q8_0": stand_in(folder, "llama.cpp q8_0", WORKER),
               "OpenVINO int8": stand_in(folder, "OpenVINO int8", "#!/bin/sh\nexit 3\n")}
    measured = cpu_peers.measure_in_turn(engines, [8, 16], 2)
    for engine in list(engines.values())[1:]:
        for pipe in (engine.worker.stdin, engine.worker.stdout, engine.log):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
out = io.StringIO()
with contextlib.redirect_stdout(out):
    cpu_peers.print_table(engines, *measured)
print(out.getvalue())
lines = out.getvalue().splitlines()
for expected in ("| int8 | 256.0 | 16.0 | 32.0 | 0 of 8 |", "| llama.cpp q8_0 | 128.0 | - | - | - |",
                 "| OpenVINO int8 | - | - | - | - |", "| int8, of the bound | 0.50 | 0.50 | 0.50 |  |",
                 "| int8 over the best other with 8 bits | 2.00 | - | - |  |"):
    assert expected in lines, expected
assert any(line.startswith("llama.cpp q8_0 crashed at decode 8, round 1: its worker ended with -11")
           for line in lines)
assert any(line.startswith("OpenVINO int8 crashed at prefill, round 1: its worker ended with 3")
           for line in lines)
