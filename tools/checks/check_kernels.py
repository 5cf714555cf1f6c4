#!/usr/bin/env python3
"""Fails where nvcc made a kernel worse than planned: check_kernels.py NVCC ROOT [ARCH [NAME ...]].

In place of NVCC it takes the folder of objects that a build with PAGEDINFER_KEEP_KERNELS made.
For every kernel of kernels/*.cu, or of the files NAME.cu, of ARCH [sm_90a]:
- it uses no local memory: no stack, nothing spilled. The fallback of attention may keep a few
  registers there around the division of a soft cap, which is a call
- as many blocks as __launch_bounds__ plans fit on a multiprocessor: registers times threads
- attention on tensor cores has as many of their instructions as its tile needs at least, loads its
  operands by ldmatrix and its keys and values by asynchronous copies
- products in int8 have as many as they need for what a warp holds; those of many rows copy
  asynchronously, those of few rows load 16 bytes of weights at a time
- no other kernel has any
Prints a line for each kernel. Needs no GPU."""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

REGISTERS_OF_SM = 65536
MAX_SPILLED_OF_FALLBACK = 32  # bytes
INSTRUCTIONS = {"mma": r"\bmma\.sync\.", "ldmatrix": r"\bldmatrix\.",
                "copies": r"\bcp\.async\.c[ag]\."}
VECTOR_LOAD = r"\bld\.global\S*\.v4\.(?:[usb]32)"


def compile_one(nvcc: str, root: pathlib.Path, source: pathlib.Path, arch: str):
    """The PTX, and what ptxas says of it."""
    if os.path.isdir(nvcc):
        kept = pathlib.Path(nvcc, f"{source.name}.o.kept")
        ptx, text = kept / f"{source.stem}.{arch.replace('sm', 'compute')}.ptx", kept / "ptxas.txt"
        return ptx.read_text(), text.read_text()
    with tempfile.TemporaryDirectory() as name:
        done = subprocess.run(
            [nvcc, "-std=c++20", "-O3", "-I", str(root), f"-arch={arch}", "-Xptxas", "-v", "-keep",
             "-keep-dir", name, "-cubin", "-o", f"{name}/out.cubin", str(source)],
            capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{source.name}: {done.stderr[-2000:]}")
        return "".join(path.read_text() for path in pathlib.Path(name).glob("*.ptx")), done.stderr


def bodies(ptx: str) -> dict[str, str]:
    parts = re.split(r"\.entry (\w+)", ptx)
    return dict(zip(parts[1::2], parts[2::2]))


def usage(text: str, arch: str) -> dict[str, tuple[int, int]]:
    """Registers, and bytes of stack and of spills, by kernel."""
    found = {}
    for entry in re.split(r"Compiling entry function ", text)[1:]:
        name, of_arch = re.match(r"'(\w+)' for '(\w+)'", entry).groups()
        if of_arch != arch:
            continue
        memory = sum(map(int, re.findall(r"(\d+) bytes (?:stack frame|spill)", entry)))
        found[name] = int(re.search(r"Used (\d+) registers", entry)[1]), memory
    return found


def number(pattern: str, text: str, otherwise: int) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else otherwise


def faults_of(name: str, body: str, registers: int, memory: int,
              counts: dict[str, int]) -> list[str]:
    faults = []
    if memory > (MAX_SPILLED_OF_FALLBACK if "slow_attention" in name else 0):
        faults.append(f"{memory} bytes of local memory")
    tile = re.search(r"attention_tile_kernelI.*?Li(\d+)ELi(\d+)ELi(\d+)E", name)
    dim, _, parts = map(int, tile.groups()) if tile else (0, 0, 0)
    threads = number(r"\.maxntid (\d+)", body, 1024)
    blocks = number(r"\.minnctapersm (\d+)", body, 1)
    # A warp takes registers in units of 256.
    of_block = -(-registers * 32 // 256) * 256 * -(-threads // 32)
    if of_block * blocks > REGISTERS_OF_SM:
        faults.append(f"{blocks} blocks of {threads} threads with {registers} registers do not fit")
    product = re.search(r"(tile_kernel|few_rows_kernel)I.*?Li(\d+)ELi(\d+)E.*Int8Product", name)
    if tile is None and product:
        bands, panels = int(product[2]), int(product[3])
        # For two pieces of a panel, or for the four of a group; two instructions for each.
        pieces = 2 if product[1] == "tile_kernel" else 4
        if counts["mma"] != 2 * pieces * bands * panels:
            faults.append(f"{counts['mma']} instructions of tensor cores, planned are "
                          f"{2 * pieces * bands * panels}")
        if product[1] == "tile_kernel" and counts["copies"] == 0:
            faults.append("no copies")
        # Of a group of weights and of input, at least.
        loads = len(re.findall(VECTOR_LOAD, body))
        if product[1] == "few_rows_kernel" and loads < 4 * (2 * bands + panels):
            faults.append(f"{loads} loads of 16 bytes")
    elif tile is None:
        faults += [f"{count} x {what}" for what, count in counts.items() if count > 0]
    else:
        # Products of 16 queries with 8 keys, and of their weights with 8 columns of values. A warp
        # that has queries of its own takes 32 keys at a time, else the warps share them.
        least = dim // 2 if parts == 1 else dim // 16 + dim // 8 // parts
        if counts["mma"] < least:
            faults.append(f"{counts['mma']} instructions of tensor cores, fewer than {least}")
        faults += [f"no {what}" for what in ("ldmatrix", "copies") if counts[what] == 0]
    return faults


def main(nvcc: str, root: str, arch: str = "sm_90a", *names: str) -> int:
    folder = pathlib.Path(root, "kernels")
    sources = [folder / f"{name}.cu" for name in names] or sorted(folder.glob("*.cu"))
    code = num_kernels = num_tiles = 0
    with concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        compiled = pool.map(lambda source: compile_one(nvcc, pathlib.Path(root), source, arch),
                            sources)
        for source, (ptx, text) in zip(sources, compiled):
            used, texts = usage(text, arch), bodies(ptx)
            if used.keys() != texts.keys():
                raise RuntimeError(f"{source.name}: {used.keys() ^ texts.keys()}")
            for name, (registers, memory) in used.items():
                counts = {what: len(re.findall(p, texts[name]))
                          for what, p in INSTRUCTIONS.items()}
                faults = faults_of(name, texts[name], registers, memory, counts)
                num_kernels += 1
                num_tiles += counts["mma"] > 0
                code = 1 if faults else code
                print(f"{source.name}: {name}: {registers} registers, {counts['mma']} mma, "
                      f"{counts['ldmatrix']} ldmatrix, {counts['copies']} copies"
                      + "".join(f"; WRONG: {fault}" for fault in faults), flush=True)
    print(f"{num_kernels} kernels, {num_tiles} on tensor cores")
    return code if names or (num_kernels >= 150 and num_tiles >= 68) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
