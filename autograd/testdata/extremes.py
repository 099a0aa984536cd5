"""Writes extremes.json: gradients of prod, vector_norm and others of numbers near the ends of their type, and of types of two
bytes. Those of types narrower than float64 are
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

for p in (-3.0, -0.5, 0.25, 0.5, 1.5, 2.0, 3.0, 10.0, math.inf):
    norm = lambda x: torch.linalg.vector_norm(x, p, 1)
    wide = [[-1e-45, 1e19], [1e-20, 1e20], [1e30, 1e25]] if abs(p) < 1 or p in (2, math.inf) else []  # others overflow in the sum
    case(f"norm {p}", "float32", norm, [*wide, [1e-3, -1e-2]])
    torch.manual_seed(1)
    for dtype in ("float16", "bfloat16", "float32"):
        case(f"norm {p}", dtype, norm, torch.randn(2, 8).tolist())
case("norm 0.25", "bfloat16", lambda x: torch.linalg.vector_norm(x, 0.25, 1), [[1e-20, 1e20]])
case("norm 1.01", "float32", lambda x: torch.linalg.vector_norm(x, 1.01, 1), [[1e-45, 1e19], [0.0, 1.0]])
case("norm 0.5", "float64", lambda x: torch.linalg.vector_norm(x, 0.5, 1), [[-5e-324, 1e100], [0.0, 2.0]])

torch.manual_seed(1)
for dtype in ("float16", "bfloat16"):
    x = (torch.randn(2, 8) + 4).tolist()
    case("var", dtype, lambda x: torch.var(x, 1), x)
    case("std", dtype, lambda x: torch.std(x, 1), x)
    case("logsumexp", dtype, lambda x: torch.logsumexp(x, 1), (torch.randn(2, 8) + 40).tolist())

with open("extremes.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
