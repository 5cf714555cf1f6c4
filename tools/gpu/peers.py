#!/usr/bin/env python3
"""The same work by others: peers.py PROGRAM [PART ...].

  kernels   PyTorch on the shapes of bench/kernel_bench.cpp: scaled_dot_product_attention over
            contiguous keys and values, by each of its backends, and matrix products
  batching  the same requests by PROGRAM and by transformers' continuous batching, one after the
            other, with made-up weights of Llama-3.2-3B

Prints a line of JSON each. With PAGEDINFER_CHECK_SMALL=1 all of it is tried on the CPU."""
import contextlib
import inspect
import pathlib
import statistics
import sys
import tempfile
import time

from runs import (DEVICE, ROOT, SMALL, OutOfTime, dummy, model_of, random_prompts, report,
                  report_measure, run, seconds_left, write_prompts)

MODELS = {  # hidden, heads, kv_heads, head_dim, intermediate, window
    "llama-3.2-3b": (3072, 24, 8, 128, 8192, 0),
    "qwen3-4b": (2560, 32, 8, 128, 9728, 0),
    "gemma-3-1b": (1152, 4, 1, 256, 6912, 512),
}
SEQS, CONTEXTS, QUERIES = (1, 8, 64, 256), (512, 2048, 4096, 32768), (512, 2048, 4096, 8192, 16384)
CHUNK, ROWS = (4, 8192, 512), (1, 16, 64, 256, 2048)
REQUESTS = (256, 512, 256)
if SMALL:
    MODELS = {"tiny": (64, 4, 2, 16, 96, 0), "tiny-window": (64, 4, 1, 32, 96, 8)}
    SEQS, CONTEXTS, QUERIES, CHUNK, ROWS = (1, 4), (32,), (16, 24), (2, 48, 16), (1, 8)
    REQUESTS = (4, 24, 6)
LLAMA = "llama-3.2-3b-instruct"
MAX_CACHE_BYTES = 3 << 30


def measure(torch, call) -> float:
    """Microseconds of one call: the median of several runs of many in a row."""

    def timed(count: int) -> float:
        if SMALL:
            before = time.perf_counter()
            for _ in range(count):
                call()
            return 1e6 * (time.perf_counter() - before) / count
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        return 1e3 * begin.elapsed_time(end) / count

    timed(2)
    count = min(max(int(20000 / timed(3)), 3), 200)
    return statistics.median(timed(count) for _ in range(7))


def report_peer(name: str, shape: str, us: float, by: str = "") -> None:
    report("peer", name=name, shape=shape, us=round(us, 2), by=by)


def backends_of(torch) -> dict:
    """Those of attention that take part: FlashAttention, cuDNN, and what PyTorch chooses itself."""
    from torch.nn.attention import SDPBackend
    named = {} if SMALL else {"FLASH_ATTENTION": SDPBackend.FLASH_ATTENTION,
                              "CUDNN_ATTENTION": SDPBackend.CUDNN_ATTENTION}
    return {"default": None, **named}


def attention(torch, name: str, model: str, seqs: int, context: int, queries: int) -> None:
    _, heads, kv_heads, dim, _, window = MODELS[model]
    if 2 * 2 * seqs * context * kv_heads * dim > MAX_CACHE_BYTES:
        return
    make = lambda h, n: torch.randn(seqs, h, n, dim, device=DEVICE, dtype=torch.bfloat16)
    # Several sets, so that nothing is found in the cache.
    bytes_of_one = 4 * seqs * context * kv_heads * dim
    sets = [(make(heads, queries), make(kv_heads, context), make(kv_heads, context))
            for _ in range(max(1, min(16, (256 << 20) // bytes_of_one)))]
    mask = None
    if window > 0 or queries not in (1, context):
        at = torch.arange(context - queries, context, device=DEVICE)[:, None]
        key = torch.arange(context, device=DEVICE)[None, :]
        mask = key <= at
        if window > 0:
            mask &= key > at - window
    turn = 0

    def call() -> None:
        nonlocal turn
        q, k, v = sets[turn % len(sets)]
        turn += 1
        torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=mask is None and queries > 1,
            enable_gqa=heads != kv_heads)

    for by, backend in backends_of(torch).items():
        within = contextlib.nullcontext()
        if backend is not None:
            within = torch.nn.attention.sdpa_kernel(backend)
        try:
            with within:
                us = measure(torch, call)
        except RuntimeError as error:  # a backend that has no kernel for it
            if backend is None:
                raise
            report("engine", what=f"{by}: {name} {model}", result=f"SKIPPED: {str(error)[:100]}")
            continue
        report_peer(name, f"{model} seqs={seqs} context={context} queries={queries}", us, by)


def products(torch, model: str, rows: int) -> None:
    hidden, heads, kv_heads, dim, intermediate, _ = MODELS[model]
    for what, n, k in (("qkv", (heads + 2 * kv_heads) * dim, hidden),
                       ("attention_out", hidden, heads * dim),
                       ("gate_up", 2 * intermediate, hidden), ("down", hidden, intermediate)):
        weights = [torch.randn(n, k, device=DEVICE, dtype=torch.bfloat16) * 0.02
                   for _ in range(max(1, min(16, (256 << 20) // (2 * n * k))))]
        x = torch.randn(rows, k, device=DEVICE, dtype=torch.bfloat16)
        turn = 0

        def call() -> None:
            nonlocal turn
            torch.nn.functional.linear(x, weights[turn % len(weights)])
            turn += 1

        report_peer("product", f"{model} {what} rows={rows} n={n} k={k}", measure(torch, call))


def kernels(torch, _program: str) -> None:
    calls = []
    for model in MODELS:
        calls += [(attention, "attention_decode", model, seqs, context, 1)
                  for seqs in SEQS for context in CONTEXTS]
        calls += [(attention, "attention_prefill", model, 1, queries, queries)
                  for queries in QUERIES]
        calls.append((attention, "attention_chunk", model, *CHUNK))
        calls += [(products, model, rows) for rows in ROWS]
    for call, *what in calls:
        if seconds_left() < 60:
            raise OutOfTime
        try:
            call(torch, *what)
        except RuntimeError as error:  # no memory, or no kernel for it
            report("engine", what=f"PyTorch: {what}", result=f"SKIPPED: {str(error)[:120]}")
        if not SMALL:
            torch.cuda.empty_cache()


def make_peer(torch, transformers):
    path = ROOT / "datasets" / (model_of(LLAMA) if SMALL else f"configs/{LLAMA}")
    config = transformers.AutoConfig.from_pretrained(path)
    with torch.device(DEVICE):
        return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()


def generate(transformers, model, prompts: list[list[int]], generated: int) -> float:
    """Seconds of continuous batching."""
    settings = transformers.GenerationConfig(max_new_tokens=generated, do_sample=False,
                                             eos_token_id=-1, pad_token_id=0)
    known = inspect.signature(model.generate_batch).parameters
    more = {"persistent_manager": True} if "persistent_manager" in known else {}
    if SMALL and "continuous_batching_config" in known:
        more["continuous_batching_config"] = transformers.ContinuousBatchingConfig(
            num_blocks=16, max_batch_tokens=64)
    begin = time.monotonic()
    answers = model.generate_batch(inputs=prompts, generation_config=settings, **more)
    seconds = time.monotonic() - begin
    lengths = {len(answer.generated_tokens) for answer in answers.values()}
    if len(answers) != len(prompts) or lengths != {generated}:
        raise RuntimeError(f"transformers gave {len(answers)} answers of {lengths} tokens")
    return seconds


def batching(torch, program: str) -> None:
    try:
        import transformers
    except ImportError:
        report("engine", what="transformers' continuous batching", result="SKIPPED: not installed")
        return
    count, length, generated = REQUESTS
    prompts = random_prompts(count, length)
    what = f"{count} x {length} in, {generated} out, {LLAMA}"
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        path = write_prompts(work / "requests.jsonl", prompts)
        ours = run(program, path, work / "batching.out",
                   dummy(LLAMA, generated, 1024, "--max-batch-size", "512"))["output_throughput"]
    report_measure(f"pagedinfer, {what}", ours, "tokens/s")
    try:
        model = make_peer(torch, transformers)
        seconds = generate(transformers, model, prompts, generated)
        if seconds_left() > seconds + 60:  # without what a first call loads and captures
            seconds = min(seconds, generate(transformers, model, prompts, generated))
        theirs = count * generated / seconds
    except Exception as error:  # of whatever version is there
        report("engine", what=f"continuous batching by transformers {transformers.__version__}",
               result=f"FAILED: {type(error).__name__}: {str(error)[:200]}")
        return
    report_measure(f"transformers {transformers.__version__}, {what}", theirs, "tokens/s")
    report_measure("pagedinfer over transformers' continuous batching", ours / theirs, "")


PARTS = {"batching": batching, "kernels": kernels}


def main() -> int:
    program, names = sys.argv[1], sys.argv[2:] or list(PARTS)
    if unknown := [name for name in names if name not in PARTS]:
        print(f"peers.py: {unknown[0]}: expected one of {', '.join(PARTS)}", file=sys.stderr)
        return 1
    try:
        import torch
    except ImportError:
        report("engine", what="peers", result="SKIPPED: no PyTorch")
        return 0
    if not SMALL and not torch.cuda.is_available():
        report("engine", what="peers", result="SKIPPED: PyTorch finds no GPU")
        return 0
    code = 0
    for name in names:
        try:
            PARTS[name](torch, program)
        except OutOfTime:
            report("engine", what=f"peers: {name}", result="FAILED: the part's time was over")
            code = 1
        except (RuntimeError, OSError, KeyError) as error:
            report("engine", what=f"peers: {name}",
                   result=f"FAILED: {type(error).__name__}: {str(error)[:200]}")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
