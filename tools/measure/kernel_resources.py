"""What the compiler made of the GPU's kernels: no GPU is needed, and no speed is measured.

Compiles kernels/*.cu and writes one line of JSON for each kernel and architecture: registers, stack
(spills), shared memory, how many blocks and warps fit on a multiprocessor, how wide the loads are, and
for attention and products in int8 how many blocks are planned, and how many bytes of keys and values,
or of the product's operands, a multiprocessor asks for at once.

    python3 tools/measure kernel_resources --only 'attention*.cu' --arch 90a

--save writes results/kernel_resources.jsonl anew.
"""
import json
import pathlib
import re
import subprocess
import tempfile

import runs

SHARED_OF_SM = {"80": 164 << 10, "86": 100 << 10, "89": 100 << 10, "90a": 228 << 10}
WARPS_OF_SM = {"80": 64, "86": 48, "89": 48, "90a": 64}
# The names of kernels, and for each: threads, shared memory, planned blocks, bytes in flight of a block.
SHAPES = """
#include <cstdio>
#include "kernels/attention_tile.cuh"
#include "kernels/int8_product.cu"
using namespace pagedinfer::kernels;
const char* const kBools[] = {"false", "true"};
template <int D, int kRows, int kParts, bool kRestarts, bool kInt8> void print() {
  using S = TileShape<D, kRows, kParts, kRestarts, kInt8>;
  const int row = kInt8 ? D + 4 : 2 * D;
  std::printf("attention_tile_kernel<%d,%d,%d,%s,%s> %d %d %d %d\\n", D, kRows, kParts,
              kBools[kRestarts], kBools[kInt8], S::kThreads, S::kBytes, S::kMinBlocks,
              (S::kStages - 1) * 2 * S::kKeys * row);
}
template <int D> void print_all() {
  constexpr int kRowGroups = D == 96 || D == 128 ? 8 : 4;
  print<D, 1, 4, true, false>(), print<D, kRowGroups, 1, true, false>();
  print<D, 4, 1, false, false>(), print<D, 1, 4, true, true>(), print<D, 4, 1, true, true>();
}
template <int kBands, int kPanels> void print_few() {
  using S = FewShape<kBands, kPanels>;
  std::printf("few_rows_kernel<%d,%d> %d %d %d %d\\n", kBands, kPanels, kFewThreads, S::kBytes,
              S::kMinBlocks, kFewWarps * S::kAhead * 2 * kBands * kInt8PieceBytes);
}
template <int... kSizes> void print_tile() {
  using S = Int8Tile<kSizes...>;
  const int sizes[] = {kSizes...};
  std::printf("tile_kernel<%d,%d,%d,%d> %d %d %d %d\\n", sizes[0], sizes[1], sizes[2], sizes[3],
              S::kThreads, S::kBytes, S::kMinBlocks, (S::kStages - 1) * S::kStageVecs * 16);
}
int main() {
  print_all<64>(), print_all<80>(), print_all<96>(), print_all<128>(), print_all<256>();
  print_few<1, 1>(), print_few<1, 2>(), print_few<1, 4>(), print_few<2, 8>();
  print_tile<4, 4, 2, 4>(), print_tile<2, 4, 2, 2>();
}
"""
# A tag in front of a count, the instructions that it counts.
COUNTED = {
    "mma": r"\b[HI]MMA\b",
    "copies_16": r"\bLDGSTS\.\S*128",
    "loads_16": r"\bLDG\.\S*128",
    "loads_less": r"\bLDG\.(?!\S*128)",
    "local": r"\b(LDL|STL)\b",
}


def add_flags(parser):
    runs.add_save(parser)
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--cuobjdump", default="cuobjdump")
    parser.add_argument("--nvdisasm", default="nvdisasm")
    parser.add_argument("--arch", default="80,90a")
    parser.add_argument("--only", default="*.cu", help="of kernels/")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=runs.ROOT).stdout


def tile_shapes(tools, folder):
    source = folder / "shapes.cu"
    source.write_text(SHAPES)
    run(tools.nvcc, "-std=c++20", "-I.", "-arch=sm_80", "-o", folder / "shapes", source)
    rows = [line.split() for line in run(folder / "shapes").splitlines()]
    return {row[0]: tuple(map(int, row[1:])) for row in rows}


def blocks_that_fit(arch, registers, threads, shared):
    warps = threads // 32
    of_warp = -(-registers * 32 // 256) * 256
    return min(65536 // (of_warp * warps), SHARED_OF_SM[arch] // (shared + 1024),
               WARPS_OF_SM[arch] // warps, 32)


def kernels_of(tools, source, arch, cubin, shapes):
    run(tools.nvcc, "-std=c++20", "-O3", "-I.", f"-arch=sm_{arch}", "-cubin", "-o", cubin, source)
    usage = run(tools.cuobjdump, "--dump-resource-usage", cubin)
    found = re.findall(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)", usage)
    code, name = {}, None
    for line in run(tools.nvdisasm, "-c", cubin).splitlines():
        if match := re.match(r"\.text\.(\S+):", line):
            name = match[1]
            code[name] = []
        elif name:
            code[name].append(line)
    for mangled, registers, stack, static in found:
        short = re.sub(r"pagedinfer::kernels::|\(anonymous namespace\)::|^void |\((int|bool)\)|\(pag.*",
                       "", run("c++filt", mangled).strip())
        # On sm_90, where a block has any, the driver's own 1,024 bytes count too.
        static = max(int(static) - (1024 if arch == "90a" else 0), 0)
        record = {"file": source.name, "kernel": short, "arch": f"sm_{arch}",
                  "registers": int(registers), "stack_bytes": int(stack), "static_shared": static}
        record.update({tag: sum(bool(re.search(p, l)) for l in code[mangled])
                       for tag, p in COUNTED.items()})
        # Without the type, the first argument.
        shape = re.sub(r"<\w+, ", "<", short).replace(" ", "")
        if shape in shapes:
            threads, shared, planned, in_flight = shapes[shape]
            blocks = blocks_that_fit(arch, int(registers), threads, shared)
            record.update(threads=threads, shared=shared, planned_blocks=planned,
                          blocks_per_sm=blocks,
                          warps_per_sm=blocks * threads // 32,
                          bytes_in_flight_per_sm=blocks * in_flight)
        yield record


def measure(args):
    release = re.search(r"release ([\d.]+)", run(args.nvcc, "--version"))[1]
    origin = {"commit": runs.output_of("git", "log", "-1", "--format=%h", "--", "kernels"),
              "machine": runs.machine(), "nvcc": release, "command": runs.command_line()}
    found = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        shapes = tile_shapes(args, folder)
        for source in sorted((runs.ROOT / "kernels").glob(args.only)):
            for arch in args.arch.split(","):
                for record in kernels_of(args, source, arch, folder / "out.cubin", shapes):
                    print(json.dumps(record), flush=True)
                    found.append(origin | record)
    if args.save:
        runs.write_lines(runs.ROOT / "results" / "kernel_resources.jsonl", found)
