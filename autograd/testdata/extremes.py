"""Writes extremes.json: gradients of prod of numbers near the ends of their type. Those of types narrower than float64 are
PyTorch's in float64 of the same numbers, rounded to the type; prod is that of a dimension and has a row with a zero, since PyTorch then
forms the products of the others. Run: OMP_NUM_THREADS=1 python3 extremes.py"""

import json
import math

import torch

cases = []


def texts(t):
    return [x if math.isfinite(x) else str(x) for x in t.double().flatten().tolist()]


def case(name, dtype, f, x):
    x = torch.tensor(x, dtype=getattr(torch, dtype))
    leaf = x.double().requires_grad_()
    f(leaf).sum().backward()
    cases.append(dict(name=name, dtype=dtype, shape=list(x.shape), x=texts(x), grad=texts(leaf.grad.to(x.dtype))))


def prod(dtype, *rows):
    case("prod", dtype, lambda x: x.prod(1), [*rows, [0.0] + [1.0] * (len(rows[0]) - 1)])


prod("float32", [1e30, 1e30], [1e-30, 1e-30], [-1e-20, 1e-38], [1e38, 1e-45], [-3e38, 3e38])
prod("float32", [1e30, 1e30, 1e-30, 1e-30], [1e-30, 1e-30, 1e30, 1e30], [1e20, 1e20, 1e20, 1e-30], [0.0, 1e30, 1e30, 1e30])
prod("float64", [1e200, 1e200], [1e-200, 1e-200], [-1e-200, 1e-300], [2.0, 3.0])
prod("float64", [1e200, 1e200, 1e-200], [1e-200, 1e-200, 1e200], [0.0, 1e200, 1e-200])
prod("bfloat16", [1e30, 1e30], [1e-30, -1e-30], [3.0, 7.0])
prod("float16", [1e3, -1e3], [1e-5, 1e-5], [1.1, 1.3])

with open("extremes.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
