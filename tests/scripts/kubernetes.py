#!/usr/bin/env python3
"""The pods of packaging/kubernetes.yaml together give what one run gives.

  kubernetes.py PROGRAM    77: there is no PyYAML
"""
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

try:
    import yaml
except ImportError:
    print("SKIPPED: there is no PyYAML")
    sys.exit(77)

program = os.path.abspath(sys.argv[1])
manifest = pathlib.Path(__file__).resolve().parents[2] / "packaging" / "kubernetes.yaml"
job = yaml.safe_load(manifest.read_text())
spec = job["spec"]
assert (job["apiVersion"], job["kind"], spec["completionMode"]) == ("batch/v1", "Job", "Indexed")
pod = spec["template"]["spec"]
assert pod["restartPolicy"] == "Never"
(container,) = pod["containers"]
(mount,) = container["volumeMounts"]
assert [mount["name"]] == [volume["name"] for volume in pod["volumes"]]
count = spec["completions"]

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    os.symlink(program, folder / "pagedinfer")
    lines = [f'{{"prompt": "Nora has {i} apples", "max_tokens": {i % 7 + 1}}}\n' for i in range(20)]
    data = folder / "data"
    data.mkdir()
    (data / "prompts.jsonl").write_text("".join(lines) + "no JSON\n")
    words = container["command"] + container["args"]
    words = [word.replace(mount["mountPath"] + "/", f"{data}/") for word in words]
    assert any(str(data) in word for word in words)

    def run_pod(index):
        environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}",
                                    "JOB_COMPLETION_INDEX": str(index)}
        ended = subprocess.run(words, env=environment, capture_output=True, text=True)
        assert ended.returncode == 0, f"pod {index}: {shlex.join(words)}: {ended.stderr}"

    for index in range(count):
        run_pod(index)
    run_pod(0)  # as one that is started again
    merged, single = folder / "merged", folder / "single"
    shards = sorted(data.glob(f"prompts.?-of-{count}.completions.jsonl"))
    subprocess.run([program, "merge", "--quiet", "--output", merged, *shards], check=True)
    alone = subprocess.run([program, "run", "--quiet", "--input", data / "prompts.jsonl",
                            "--output", single], capture_output=True)
    assert alone.returncode == 2, "the bad line has no error record"
    assert merged.read_bytes() == single.read_bytes()
