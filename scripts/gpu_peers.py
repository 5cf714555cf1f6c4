#!/usr/bin/env python3
"""PyTorch on the shapes of bench/kernel_bench.cpp: scaled_dot_product_attention over contiguous
keys and values, and matrix products. Prints a line of JSON each."""
import json
import statistics
import sys

MODELS = {  # hidden, heads, kv_heads, head_dim, intermediate, window
    "llama-3.2-3b": (3072, 24, 8, 128, 8192, 0),
    "qwen3-4b": (2560, 32, 8, 128, 9728, 0),
    "gemma-3-1b": (1152, 4, 1, 256, 6912, 512),
}
MOST_CACHE_BYTES = 3 << 30


def measure(torch, run) -> float:
    """Microseconds of one call: the median of several runs of many in a row."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def timed(count: int) -> float:
        begin.record()
        for _ in range(count):
            run()
        end.record()
        end.synchronize()
        return 1e3 * begin.elapsed_time(end) / count

    timed(2)
    count = min(max(int(20000 / timed(3)), 3), 200)
    return statistics.median(timed(count) for _ in range(7))


def report(name: str, shape: str, us: float) -> None:
    record = {"kind": "peer", "name": name, "shape": shape, "us": round(us, 2)}
    print(json.dumps(record), flush=True)


def attention(torch, name: str, model: str, seqs: int, context: int, queries: int) -> None:
    _, heads, kv_heads, dim, _, window = MODELS[model]
    if 2 * 2 * seqs * context * kv_heads * dim > MOST_CACHE_BYTES:
        return
    make = lambda h, n: torch.randn(seqs, h, n, dim, device="cuda", dtype=torch.bfloat16)
    # Several sets, so that nothing is found in the cache.
    bytes_of_one = 4 * seqs * context * kv_heads * dim
    sets = [(make(heads, queries), make(kv_heads, context), make(kv_heads, context))
            for _ in range(max(1, min(16, (256 << 20) // bytes_of_one)))]
    mask = None
    if window > 0 or queries not in (1, context):
        at = torch.arange(context - queries, context, device="cuda")[:, None]
        key = torch.arange(context, device="cuda")[None, :]
        mask = key <= at
        if window > 0:
            mask &= key > at - window
    turn = 0

    def run() -> None:
        nonlocal turn
        q, k, v = sets[turn % len(sets)]
        turn += 1
        torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=mask is None and queries > 1,
            enable_gqa=heads != kv_heads)

    report(name, f"{model} seqs={seqs} context={context} queries={queries}", measure(torch, run))
    del sets, mask
    torch.cuda.empty_cache()


def products(torch, model: str, rows: int) -> None:
    hidden, heads, kv_heads, dim, intermediate, _ = MODELS[model]
    for what, n, k in (("qkv", (heads + 2 * kv_heads) * dim, hidden),
                       ("attention_out", hidden, heads * dim),
                       ("gate_up", 2 * intermediate, hidden), ("down", hidden, intermediate)):
        weights = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) * 0.02
                   for _ in range(max(1, min(16, (256 << 20) // (2 * n * k))))]
        x = torch.randn(rows, k, device="cuda", dtype=torch.bfloat16)
        turn = 0

        def run() -> None:
            nonlocal turn
            torch.nn.functional.linear(x, weights[turn % len(weights)])
            turn += 1

        report("product", f"{model} {what} rows={rows} n={n} k={k}", measure(torch, run))
        del weights


def main() -> int:
    try:
        import torch
    except ImportError:
        print("SKIPPED: no PyTorch")
        return 0
    if not torch.cuda.is_available():
        print("SKIPPED: PyTorch finds no GPU")
        return 0
    for model in MODELS:
        for seqs in (1, 8, 64, 256):
            for context in (512, 4096, 32768):
                attention(torch, "attention_decode", model, seqs, context, 1)
        for queries in (512, 2048, 8192):
            attention(torch, "attention_prefill", model, 1, queries, queries)
        attention(torch, "attention_chunk", model, 4, 8192, 512)
        for rows in (1, 16, 64, 256, 2048):
            products(torch, model, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
