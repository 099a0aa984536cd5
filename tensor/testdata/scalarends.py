"""Writes scalarends.json: integers with numbers at the ends of their types and beyond. Arithmetic is PyTorch's, which wraps. Comparisons are
those of PyTorch in int64: its own cast the number to the tensor's type first (in 1.13 a uint8 of 44 equals 300), as docs/parity-ops.md says;
beyond int64 a number is no integer, and compared in float32. Run: OMP_NUM_THREADS=1 python3 scalarends.py"""

import json
import operator

import torch

compare = {"EqScalar": operator.eq, "NeScalar": operator.ne, "LtScalar": operator.lt, "LeScalar": operator.le, "GtScalar": operator.gt,
           "GeScalar": operator.ge}
arithmetic = {"AddScalar": torch.add, "SubScalar": torch.sub, "MulScalar": torch.mul, "RSubScalar": torch.rsub,
              "RemainderScalar": torch.remainder, "FmodScalar": torch.fmod}
# float64, in which a Go program gives numbers, has no 2**63-1.
ends = {"uint8": (0, 255), "int32": (-2**31, 2**31 - 1), "int64": (-2**63, 2**63 - 1)}
rows = []


def row(op, name, values, number, want, to):
    rows.append(dict(op=op, dtype=name, a=values, v=number, want=want, to=to))


for name, (low, high) in ends.items():
    values = sorted({low, low + 1, 0, 1, 44, high - 1, high})
    tensor = torch.tensor(values, dtype=getattr(torch, name))
    numbers = {low - 1, low, high, high + 1, 0, 1, -1, 300} if name != "int64" else {low, high + 1, 0, -1, 2**53, 3 * low}
    for v in sorted(numbers):
        for op, f in compare.items():
            want = f(tensor.to(torch.int64), v if -2**63 <= v < 2**63 else float(v)).tolist()
            row(op, name, values, v, [int(x) for x in want], "bool")
        for op, f in arithmetic.items():
            divides = op in ("RemainderScalar", "FmodScalar")
            if not -2**63 <= v < 2**63 or divides and torch.tensor(v).to(tensor.dtype) in (0, -1):
                continue
            row(op, name, values, v, f(tensor, v).tolist(), name)

with open("scalarends.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
