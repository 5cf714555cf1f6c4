#!/usr/bin/env python3
"""Prints the results of gpu_check.sh as a table: gpu_table.py results.jsonl."""
import json
import sys


def main(path: str) -> None:
    with open(path, encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    peers = {(r["name"], r["shape"]): r for r in records if r["kind"] == "peer"}
    for r in records:
        kind = r["kind"]
        if kind == "gpu":
            print(r["gpu"])
        elif kind == "copy":
            print(f"copy, read and written: {r['gb_s']} GB/s")
        elif kind == "part":
            more = f"  {r['summary']}, {r['skipped']} skipped" if "skipped" in r else ""
            print(f"{r['part']:10} {'ok' if r['ok'] else 'FAILED':7} {r['seconds']:5} s{more}")
        elif kind == "engine":
            print(f"{r['what']:50} {r['result']}")
    kernels = [r for r in records if r["kind"] == "kernel"]
    if kernels:
        print(f"\n{'kernel':22} {'shape':58} {'us':>9} {'GB/s':>6} {'of copy':>8} {'TFLOP/s':>8}"
              f" {'peer us':>9}")
    for r in kernels:
        peer = peers.get((r["name"], r["shape"]))
        print(f"{r['name']:22} {r['shape']:58} {r['us']:9.1f} {r['gb_s']:6} {r['of_copy']:8.3f}"
              f" {r['tflop_s']:8.1f} {peer['us'] if peer else '':>9}")
    for key, peer in peers.items():
        if not any((r["name"], r["shape"]) == key for r in kernels):
            print(f"{key[0]:22} {key[1]:58} peer {peer['us']:.1f} us")


if __name__ == "__main__":
    main(sys.argv[1])
