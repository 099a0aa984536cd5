"""Makes ranges.json, what torch.linspace and torch.logspace give: python3 ranges.py. Half precision and float32 are those of float64, rounded
once: PyTorch computes them in their own type. Those of int64 are those of int32: its vector code of version 1.13 does not reach the end."""
import json

import torch

NAMES = {torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.bfloat16: "bfloat16",
         torch.int64: "int64", torch.int32: "int32", torch.uint8: "uint8"}
cases = []
for dtype, name in NAMES.items():
    for start, end, steps in [(0, 1, 5), (-3, 10, 8), (5, -5, 7), (2, 9, 1), (2, 9, 2), (1, 2, 0), (0, 100, 33), (0.3, 7.7, 6)]:
        if name == "uint8" and (start < 0 or end < 0):
            continue
        wide = torch.float64 if dtype.is_floating_point else torch.int32
        cases.append(dict(start=start, end=end, steps=steps, base=0, dtype=name,
                          want=torch.linspace(start, end, steps, dtype=wide).to(dtype).double().tolist()))
    for start, end, steps, base in [(0, 2, 3, 10.0), (0, 5, 6, 2.0), (-1, 1, 3, 2.0)]:
        if not dtype.is_floating_point and start < 0:
            continue
        wide = torch.float64 if dtype.is_floating_point else torch.int32
        cases.append(dict(start=start, end=end, steps=steps, base=base, dtype=name,
                          want=torch.logspace(start, end, steps, base, dtype=wide).to(dtype).double().tolist()))
json.dump(cases, open("ranges.json", "w"), separators=(",", ":"))
