"""Writes foreign/, a model in two shards with its index, as the format's description has it and with nothing of Cistern's, and foreign.json, the
values that PyTorch has of each tensor. Run: python3 foreign.py"""

import json
import struct

import torch

torch.manual_seed(0)
TYPES = {
    torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64", torch.int32: "I32",
    torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}


def content(t):
    if t.dtype == torch.bfloat16:
        t = t.view(torch.int16)
    return t.contiguous().numpy().tobytes()


def write(path, tensors, raw=()):
    header, data = {"__metadata__": {"format": "pt", "by": path}}, b""
    for name, kind, shape, blob in [(n, TYPES[t.dtype], list(t.shape), content(t)) for n, t in tensors.items()] + list(raw):
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(blob)]}
        data += blob
    text = json.dumps(header).encode()  # not padded: data lies at any address
    with open("foreign/" + path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


first = {
    "u8": torch.tensor([1, 2, 255], dtype=torch.uint8), "f32": torch.randn(3, 4), "f16": torch.randn(5).half(),
    "bf16": torch.randn(2, 3).bfloat16(), "i16": torch.tensor([-1, 7], dtype=torch.int16),
}
second = {
    "f64": torch.randn(2, 2, dtype=torch.float64), "i64": torch.tensor([-(2**40), 3]), "i32": torch.tensor([[-5], [6]], dtype=torch.int32),
    "bool": torch.tensor([True, False, True]), "scalar": torch.tensor(2.5), "none": torch.zeros(0, 4), "i8": torch.tensor([-3], dtype=torch.int8),
}
one, two = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
write(one, first, [("f8", "F8_E4M3", [2, 2], b"\x01\x02\x03\x04"), ("new", "X3", [5], b"\x01\x02")])
write(two, second)
sizes = {n: t.numel() * t.element_size() for n, t in {**first, **second}.items()}
with open("foreign/model.safetensors.index.json", "w") as f:
    weight_map = {n: one for n in list(first) + ["f8", "new"]} | {n: two for n in second}
    json.dump(dict(metadata=dict(total_size=sum(sizes.values()) + 6), weight_map=weight_map), f, indent=2)
with open("foreign.json", "w") as f:
    values = {n: dict(shape=list(t.shape), values=t.double().flatten().tolist()) for n, t in {**first, **second}.items()}
    json.dump(values, f)
