#!/usr/bin/env python3
"""Fails where nvcc has cut 16-byte loads or stores into pieces: check_vectors.py NVCC ROOT.
Looks at the PTX of the kernels that are bound by memory, at each kernel of more than one element
per thread: it may load and store single words only where it reads lists of integers, or writes the
scale of numbers in int8."""
import collections
import re
import subprocess
import sys

FILES = ("elementwise", "int8_rows", "kv", "norm", "rope")


def vector_width(kernel: str) -> int:
    """The kVec of a kernel, the first int among its template arguments; 1 if it has none, unless it
    has a bool for vectors."""
    if "quantize_kernel" in kernel:
        return 8 if "Lb1E" in kernel else 1
    found = re.search(r"Li(\d+)E", kernel)
    return int(found.group(1)) if found else 1


def accesses_of(ptx: str) -> dict[str, collections.Counter]:
    result: dict[str, collections.Counter] = {}
    for line in ptx.splitlines():
        if entry := re.search(r"\.entry (\w+)", line):
            counts = result.setdefault(entry.group(1), collections.Counter())
        for access in re.findall(r"\b(?:ld|st)\.global(?:\.\w+)+", line):
            counts[access] += 1
    return result


def main(nvcc: str, root: str) -> int:
    code = checked = 0
    for name in FILES:
        ptx = subprocess.run([nvcc, "-std=c++20", "-arch=sm_90", "-I", root, "-ptx", "-o", "-",
                              f"{root}/kernels/{name}.cu"], check=True, capture_output=True,
                             text=True).stdout
        for kernel, accesses in accesses_of(ptx).items():
            if vector_width(kernel) == 1:
                continue
            checked += 1
            for access, count in accesses.items():
                of_list = access in ("ld.global.s32", "ld.global.u32") and count <= 2
                of_scale = access == "st.global.f32" and count == 1 and "Lb1E" in kernel
                if not of_list and not of_scale and ".v4" not in access:
                    print(f"{name}: {kernel}: {count} x {access}")
                    code = 1
    print(f"{checked} kernels of vectors")
    return code if checked >= 20 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
