#!/usr/bin/env python3
"""Measures the program on this machine and appends what it finds to results/.

    scripts/benchmark.py demo   [--program build/pagedinfer]   the demo prompts by batch size
    scripts/benchmark.py memory [--program build/pagedinfer]   peak memory by length of the input
    scripts/benchmark.py sync   [--program build/pagedinfer]   what syncing to the disk costs
    scripts/benchmark.py kernels     matrix products and attention against the machine's own bounds;
                                     build pagedinfer_matmul_bench and pagedinfer_ops_bench before

Every line of results/NAME.jsonl has the commit, the machine and the command it came from. Runs
of one measurement take turns, and the median counts: machines are noisy.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def output_of(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def machine():
    fields = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    flags = set(fields.get("flags", "").split())
    sets = [s for s in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16") if s in flags]
    return {"processor": fields.get("model name"), "family": fields.get("cpu family"),
            "model": fields.get("model"), "cores": os.cpu_count(), "sets": sets}


def record(name, command, result):
    line = {"commit": output_of("git", "rev-parse", "--short", "HEAD"),
            "clean": output_of("git", "status", "--porcelain", "--untracked-files=no", "--", ".",
                               ":!results") == "",
            "machine": machine(), "command": command, **result}
    with open(ROOT / "results" / f"{name}.jsonl", "a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")


def run(program, prompts, folder, *flags, accepted=(0,)):
    """Runs once, to end with one of the accepted exit codes; returns the summary and the peak
    resident memory in KiB."""
    stats = pathlib.Path(folder) / "run.stats.jsonl"
    stats.unlink(missing_ok=True)
    command = [program, "run", "--quiet", "--overwrite", "--input", str(prompts),
               "--output", str(pathlib.Path(folder) / "run.jsonl"), "--stats", str(stats), *flags]
    process = subprocess.Popen(command, cwd=ROOT)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in accepted:
        raise SystemExit(f"{' '.join(command)}: exit code {os.waitstatus_to_exitcode(status)}")
    with open(stats, encoding="utf-8") as lines:
        summary = [json.loads(line) for line in lines if '"kind":"summary"' in line][-1]
    return summary, usage.ru_maxrss


def demo(program, repeats):
    sizes = (1, 8, 64, 256)
    runs = {size: [] for size in sizes}
    prompts = ROOT / "datasets" / "prompts.jsonl"
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            for size in sizes:
                runs[size].append(run(program, prompts, folder, "--max-batch-size", str(size))[0])
    print("batch   tokens/s out   tokens/s in + out   requests/s   ITL p50    against batch 1")
    for size in sizes:
        ordered = sorted(runs[size], key=lambda s: s["output_throughput"])
        middle = ordered[len(ordered) // 2]
        base = statistics.median(s["output_throughput"] for s in runs[1])
        ratio = middle["output_throughput"] / base
        print(f"{size:5}   {middle['output_throughput']:12.0f}   {middle['total_throughput']:17.0f}   "
              f"{middle['request_throughput']:10.1f}   {middle['median_itl_ms']:6.2f} ms   {ratio:.2f}")
        record("demo", f"scripts/benchmark.py demo --repeats {repeats}",
               {"max_batch_size": size, "ratio_to_batch_1": round(ratio, 3),
                "output_throughput_all": [round(s["output_throughput"], 1) for s in ordered],
                "summary": middle})


def memory(program, counts):
    with tempfile.TemporaryDirectory() as folder:
        peaks = {}
        for count in counts:
            prompts = pathlib.Path(folder) / "prompts.jsonl"
            with open(prompts, "w", encoding="utf-8") as out:
                slow = {"prompt": "Once upon a time", "max_tokens": 3000, "ignore_eos": True}
                out.write(json.dumps(slow) + "\n")
                for i in range(count - 1):
                    out.write(json.dumps({"id": i, "prompt": "Hi", "max_tokens": 1}) + "\n")
            _, peaks[count] = run(program, prompts, folder)
            above = (peaks[count] - peaks[counts[0]]) / 1024
            print(f"{count:9} lines, the first one slowest: peak {peaks[count] / 1024:.1f} MiB, "
                  f"{above:+.1f} MiB against {counts[0]} lines")
            record("memory", "scripts/benchmark.py memory",
                   {"lines": count, "peak_kib": peaks[count], "above_first_mib": round(above, 2)})


def sync(program, repeats):
    """20,000 short completions, synced at the end, every 5 s (the default) and all the time."""
    runs = {"0": [], "5": [], "0.1": []}
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        prompts = pathlib.Path(folder) / "prompts.jsonl"
        with open(prompts, "w", encoding="utf-8") as out:
            out.writelines(json.dumps({"id": i, "prompt": f"Once {i}", "max_tokens": 4}) + "\n"
                           for i in range(20000))
        for _ in range(repeats):
            for every, done in runs.items():
                done.append(run(program, prompts, folder, "--sync-every", every)[0])
    throughput = {every: statistics.median(s["request_throughput"] for s in done)
                  for every, done in runs.items()}
    for every, value in throughput.items():
        ratio = value / throughput["0"]
        print(f"--sync-every {every}: {value:.0f} requests/s, {ratio:.3f} of syncing at the end only")
        record("sync", f"scripts/benchmark.py sync --repeats {repeats}",
               {"sync_every_s": float(every), "ratio_to_end_only": round(ratio, 4),
                "request_throughput_all": sorted(round(s["request_throughput"], 1)
                                                 for s in runs[every])})


def kernels(threads):
    for count in threads:
        matmul = ["--threads", str(count), "--json"]
        for name, flags in (("matmul", matmul), ("matmul", [*matmul, "--type", "int8"]),
                            ("ops", [str(count)])):
            program = ROOT / "build" / f"pagedinfer_{name}_bench"
            lines = output_of(str(program), *flags).splitlines()
            print("\n".join(lines))
            points = [json.loads(line) if line.startswith("{") else line for line in lines]
            record("kernels", f"build/{program.name} {' '.join(flags)}", {"points": points})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["demo", "memory", "sync", "kernels"])
    parser.add_argument("--program", default=str(ROOT / "build" / "pagedinfer"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--lines", type=int, nargs="+", default=[1000, 100000])
    args = parser.parse_args()
    (ROOT / "results").mkdir(exist_ok=True)
    if args.what == "demo":
        demo(args.program, args.repeats)
    elif args.what == "memory":
        memory(args.program, args.lines)
    elif args.what == "sync":
        sync(args.program, args.repeats)
    else:
        kernels(args.threads)


if __name__ == "__main__":
    main()
