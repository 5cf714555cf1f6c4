"""Checkpoints of 4 bits made of a model by rounding to nearest, without calibration. Needs numpy."""
import json
import pathlib
import struct
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "goldens"))
from code_words import AWQ_ORDER, packed

TYPES = {"F32": numpy.dtype("<f4"), "F16": numpy.dtype("<f2"), "BF16": numpy.dtype("<u2")}


def read_tensors(path):
    """{name: (type, shape, bytes)} of a file of safetensors."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    data = memoryview(raw)[8 + length:]
    return {name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
            for name, entry in json.loads(raw[8:8 + length]).items() if name != "__metadata__"}


def write_tensors(path, tensors):
    header, end = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


def floats_of(dtype, shape, data):
    numbers = numpy.frombuffer(data, TYPES[dtype]).reshape(shape)
    if dtype == "BF16":
        return (numbers.astype(numpy.uint32) << 16).view(numpy.float32)
    return numbers.astype(numpy.float32)


def tensor_of(numbers):
    dtype = "F16" if numbers.dtype == numpy.float16 else "I32"
    return dtype, numbers.shape, numbers.tobytes()


def rounded(weight, method, group):
    """The tensors of a matrix (outputs, inputs)."""
    rows, cols = weight.shape
    if rows % 8 or cols % group:
        raise SystemExit(f"groups of {group}: a matrix has the shape {rows} x {cols}")
    groups = weight.reshape(rows, cols // group, group)
    largest, smallest = numpy.maximum(groups.max(2), 0), numpy.minimum(groups.min(2), 0)
    if method == "gptq":  # symmetric
        largest = numpy.maximum(largest, -smallest)
        smallest = -largest
    scales = ((largest - smallest) / 15).astype(numpy.float16)
    steps = numpy.where(scales == 0, 1, scales.astype(numpy.float32))
    zeros = numpy.full(steps.shape, 8.0) if method == "gptq" else numpy.rint(-smallest / steps)
    codes = numpy.clip(numpy.rint(groups / steps[..., None]) + zeros[..., None], 0, 15)
    codes = codes.reshape(rows, cols).T
    stored_zeros = zeros.T - (method == "gptq")  # its first version stores one less
    order = None if method == "gptq" else AWQ_ORDER
    return {"qweight": tensor_of(packed(codes, 4, 0 if method == "gptq" else 1, order)),
            "qzeros": tensor_of(packed(stored_zeros, 4, 1, order)),
            "scales": tensor_of(numpy.ascontiguousarray(scales.T))}


def write_rounded(model, folder, method, group):
    """Writes the model with matrices of layers in 4 bits, by `method`: gptq or awq."""
    model, folder = pathlib.Path(model).resolve(), pathlib.Path(folder)
    folder.mkdir()
    for path in model.iterdir():
        if path.suffix != ".safetensors" and path.name != "config.json":
            (folder / path.name).symlink_to(path)
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    config["quantization_config"] = {"quant_method": method, "bits": 4, "group_size": group} | (
        {"sym": True, "desc_act": False} if method == "gptq" else
        {"zero_point": True, "version": "gemm"})
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for path in model.glob("*.safetensors"):
        tensors = {}
        for name, tensor in read_tensors(path).items():
            if ".layers." in name and name.endswith("_proj.weight"):
                module = name.removesuffix("weight")
                parts = rounded(floats_of(*tensor), method, group)
                tensors |= {module + part: value for part, value in parts.items()}
            else:
                tensors[name] = tensor
        write_tensors(folder / path.name, tensors)
