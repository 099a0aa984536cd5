"""Writes integers.json: PyTorch's operations on integers at the ends of their types, where arithmetic in floating point is wrong.
b is a tensor, or one Python number; a missing result is a refusal. Run: OMP_NUM_THREADS=1 python3 integers.py"""

import json

import torch

big = 2**63 - 1
ends = {
    "int64": [0, 1, -1, 2, 3, 7, -3, -2, 10, 2**31, 2**53 + 1, -(2**53) - 1, 2**62 + 3, big, -big - 1],
    "int32": [0, 1, -1, 2, 3, 7, -3, 65537, 2**31 - 1, -(2**31)],
    "uint8": [0, 1, 2, 3, 7, 100, 128, 255],
}
binary = {"Pow": torch.pow, "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Maximum": torch.maximum, "Minimum": torch.minimum,
          "Fmod": torch.fmod, "Remainder": torch.remainder, "Lt": torch.lt, "Eq": torch.eq, "Ge": torch.ge}
scalar = {"PowScalar": torch.pow, "RPowScalar": lambda t, v: torch.pow(v, t), "AddScalar": torch.add, "MulScalar": torch.mul,
          "RemainderScalar": torch.remainder, "FmodScalar": torch.fmod, "EqScalar": torch.eq, "GtScalar": torch.gt}
whole = {"Sum": torch.sum, "Prod": torch.prod, "CumSum": lambda t: t.cumsum(0), "CumProd": lambda t: t.cumprod(0),
         "Max": torch.amax, "Min": torch.amin, "Neg": torch.neg, "Abs": torch.abs, "Sort": lambda t: t.sort()[0], "ArgMax": torch.argmax}
cases = []


def case(op, dtype, a, b, f):
    try:
        r = f()
        want = [int(v) for v in r.flatten().tolist()]
        to = str(r.dtype).removeprefix("torch.")
    except RuntimeError:
        want, to = None, ""
    cases.append(dict(op=op, dtype=dtype, a=a, b=b if isinstance(b, list) else None, v=b if isinstance(b, int) else 0, want=want, to=to))


for name, values in ends.items():
    dt = getattr(torch, name)
    pairs = [(a, b) for a in values for b in values]
    a, b = [p[0] for p in pairs], [p[1] for p in pairs]
    exponents = sorted({-2, -1, 0, 1, 2, 3, 5, 7, 39, 40, 63, 64} & set(range(0 if name == "uint8" else -2, 65)))
    for op, f in binary.items():
        x, y = a, b
        if op in ("Fmod", "Remainder"):  # a processor's error, and undefined, in PyTorch
            x, y = zip(*[p for p in pairs if p[1] not in (0, -1)])
        if op == "Pow":
            x, y = zip(*[(v, n) for v in values for n in exponents])
        case(op, name, list(x), list(y), lambda: f(torch.tensor(x, dtype=dt), torch.tensor(y, dtype=dt)))
    for op, f in scalar.items():
        for v in (2, 3, 7, 39, 64, -1, -2):
            if name == "uint8" and v < 0 or op in ("RPowScalar", "RemainderScalar", "FmodScalar") and v < 0:
                continue
            x = [e for e in values if op != "RPowScalar" or abs(e) < 70]
            case(op, name, x, v, lambda: f(torch.tensor(x, dtype=dt), v))
    for op, f in whole.items():
        for part in (values, values[1:4], values[3:]):
            if op in ("Neg", "Abs") and name == "uint8":
                continue
            case(op, name, part, None, lambda: f(torch.tensor(part, dtype=dt)))

with open("integers.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
