#!/usr/bin/env python3
"""Prints the results of gpu_check.sh as tables: table.py results.jsonl ..., those of several
calls together."""
import json
import sys

# Kernel, beginning of its shape, member of its record, least value.
KERNEL_GOALS = [
    ("attention_decode", "llama-3.2-3b seqs=64 context=2048 queries=1", "of_copy", 0.90),
    *(("attention_prefill", f"llama-3.2-3b seqs=1 context={n} queries={n}", "tflop_s", goal)
      for n in (4096, 8192, 16384) for goal in (600,)),
]
UNITS = {"of_copy": "of a copy", "tflop_s": "TFLOP/s"}
MAX_PAGED_COST = 0.03


def goals_of_kernels(kernels: list[dict]) -> list[dict]:
    """Measures with goals that are about single kernels."""
    by_name = {(r["name"], r["shape"]): r for r in kernels}
    rows = []
    for name, shape, member, goal in KERNEL_GOALS:
        if kernel := by_name.get((name, shape)):
            rows.append({"what": f"{name} {shape}", "measured": kernel[member], "goal": goal,
                         "unit": UNITS[member], "better": "more",
                         "of_goal": kernel[member] / goal})
    for (name, shape), kernel in by_name.items():
        contiguous = by_name.get((f"{name}_contiguous", shape))
        if contiguous is None:
            continue
        cost = kernel["us"] / contiguous["us"] - 1
        rows.append({"what": f"cost of paging, {name} {shape}", "measured": round(cost, 4),
                     "goal": MAX_PAGED_COST, "unit": "", "better": "less",
                     "of_goal": (1 + MAX_PAGED_COST) / (1 + cost)})
    return rows


def print_measures(rows: list[dict]) -> None:
    print(f"\n{'measure':76} {'goal':>11} {'measured':>10} {'':9} {'of goal':>7}")
    for r in rows:
        goal = reached = ""
        if r["goal"] is not None:
            goal = f"{'>=' if r['better'] == 'more' else '<='} {r['goal']:g}"
        if r["of_goal"] is not None:
            reached = f"{r['of_goal']:7.2f} {'yes' if r['of_goal'] >= 1 else 'NO'}"
        print(f"{r['what']:76} {goal:>11} {r['measured']:10.6g} {r['unit']:9} {reached}")


def print_kernels(kernels: list[dict], peers: dict) -> None:
    print(f"\n{'kernel':27} {'shape':52} {'us':>9} {'GB/s':>6} {'of copy':>8} {'TFLOP/s':>8}"
          f" {'of peak':>8} {'peer us':>9}")
    for r in kernels:
        peer = peers.get((r["name"].replace("_contiguous", "").replace("_deterministic", ""),
                          r["shape"]))
        print(f"{r['name']:27} {r['shape']:52} {r['us']:9.1f} {r['gb_s']:6} {r['of_copy']:8.3f}"
              f" {r['tflop_s']:8.1f} {r['of_peak']:8.3f} {peer['us'] if peer else '':>9}")


def fastest_peers(peers: list[dict]) -> dict:
    fastest: dict = {}
    for r in peers:
        key = r["name"], r["shape"]
        if key not in fastest or r["us"] < fastest[key]["us"]:
            fastest[key] = r
    return fastest


def print_profile(measure: dict) -> None:
    profile = measure["profile"]
    print(f"\n{measure['what']}: {profile['steps']} steps, operations {profile['op_s']:.3f} s,"
          f" gaps {profile['gap_s']:.3f} s")
    for op in sorted(profile["ops"], key=lambda op: -op["time_s"])[:12]:
        kind = "decode" if op["decode_only"] else "other"
        print(f"  {op['op']:24} {kind:7} {op['calls']:7} calls {op['time_s']:9.4f} s"
              f" {op['share']:6.1%} of all, {op['of_bound']:6.1%} of its bound")


def print_probes(probes: list[dict]) -> None:
    """The fastest algorithm beside the first proposal, for each product where they differ."""
    by_shape: dict[str, list[dict]] = {}
    for r in probes:
        by_shape.setdefault(r["shape"], []).append(r)
    print(f"\n{'product':60} {'first us':>9} {'best us':>9} {'rank':>4} {'parts':>5} {'hashes':>6}")
    for shape, rows in by_shape.items():
        first, best = rows[0], min(rows, key=lambda r: r["us"])
        print(f"{shape:60} {first['us']:9.1f} {best['us']:9.1f} {best['rank']:4} {best['parts']:5}"
              f" {len({r['hash'] for r in rows}):6}")


def print_proofs(proofs: list[dict]) -> None:
    print(f"\n{'product with --deterministic':60} {'buckets':>7} {'fallen back':>11}"
          f" {'checked':>7} {'differ':>7}")
    for r in proofs:
        print(f"{r['shape']:60} {r['buckets']:7} {r['fallen_back']:11} {r['counts_of_rows']:7}"
              f" {r['different']:7}")


def records_of(paths: list[str]) -> list[dict]:
    records = []
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                try:
                    records.append(json.loads(line))
                except ValueError:  # cut off, or a rate without a time: inf
                    print(f"{path}: not JSON: {line.strip()[:100]}")
    return records


def main(paths: list[str]) -> None:
    records = records_of(paths)
    of_kind = lambda kind: [r for r in records if r["kind"] == kind]
    for r in records:
        kind = r["kind"]
        if kind == "gpu":
            print(r["gpu"])
        elif kind == "copy":
            print(f"copy, read and written: {r['gb_s']} GB/s")
        elif kind == "peak":
            print(f"bfloat16 product of 8,192 cubed: {r['tflop_s']} TFLOP/s")
        elif kind == "part":
            more = f"  {r['summary']}, {r['skipped']} skipped" if "skipped" in r else ""
            result = f"NOT RUN: {r['not_run']}" if "not_run" in r else "ok" if r["ok"] else "FAILED"
            print(f"{r['part']:10} {result:7} {r['seconds']:5} s{more}")
        elif kind == "engine":
            print(f"{r['what']:80} {r['result']}")
    kernels = of_kind("kernel")
    peers = fastest_peers(of_kind("peer"))
    if rows := of_kind("measure") + goals_of_kernels(kernels):
        print_measures(rows)
    for r in of_kind("measure"):
        if "profile" in r:
            print_profile(r)
    if kernels:
        print_kernels(kernels, peers)
    if probes := of_kind("probe"):
        print_probes(probes)
    if proofs := of_kind("proof"):
        print_proofs(proofs)
    known = {(r["name"], r["shape"]) for r in kernels}
    for key, peer in peers.items():
        if key not in known:
            print(f"{key[0]:27} {key[1]:52} peer {peer['us']:.1f} us")


if __name__ == "__main__":
    main(sys.argv[1:])
