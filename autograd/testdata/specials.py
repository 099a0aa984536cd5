"""Writes specials.json: values, first and second derivatives that PyTorch gives of the operations of internal/elementwise, whose list is ops.json there, at
zeros, ones, infinities, NaN and the ends of the type. Each number is computed alone and among 32 equal ones, for PyTorch's kernels differ; where the two
disagree, the answer is "open". The second derivative is that of the sum of the first ones. Run: python3 specials.py"""

import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F

here = Path(__file__).resolve().parent
ops = json.loads((here / "../../internal/elementwise/ops.json").read_text())
inf, nan = math.inf, math.nan


def numbers(dtype, op):
    f = torch.finfo(dtype)
    some = [0.0, -0.0, 1.0, -1.0, inf, -inf, nan, f.max, f.min, f.tiny]
    if op["inputs"] == 2:
        return some
    return some + [-f.tiny, f.smallest_normal / 2**10, 0.5, -0.5, 2.0, -2.0, 0.75, -0.75, 1.25, -1.25, 3.0, -3.0, 6.0, -6.0, 1e4, -1e4]


def write(x):
    return x if math.isfinite(x) and (x != 0 or math.copysign(1, x) > 0) else str(x)


def same(a, b):
    return a == b or math.isnan(a) and math.isnan(b) or math.isclose(a, b, rel_tol=1e-5)


def derivatives(op, dtype, values, count):
    """Lists of the result, of the first derivative by each input, and of the second ones."""
    leaves = [torch.full((count,), v, dtype=dtype).requires_grad_() for v in values]
    expression = "x.digamma()" if op["torch"] == "digamma" else op["expression"]  # its own formula, not that of elementwise.py
    out = eval(expression, {"torch": torch, "F": F}, dict(zip("xy", leaves)))
    if op["inputs"] == 2 and out.numel() != count:
        out = out.flatten()[:count]
    first = torch.autograd.grad(out.sum(), leaves, create_graph=True, allow_unused=True)
    first = [torch.zeros_like(x) if f is None else f for f, x in zip(first, leaves)]
    total = sum(f.sum() for f in first)
    second = [None] * len(leaves)
    if total.requires_grad:
        second = torch.autograd.grad(total, leaves, allow_unused=True)
    second = [torch.zeros_like(x) if f is None else f for f, x in zip(second, leaves)]
    return [float(t.detach().flatten()[0]) for t in [out, *first, *second]]


cases = []
for op in ops:
    if not op["gradients"] or op["torch"] == "prelu":
        continue
    for dtype in (torch.float64, torch.float32):
        xs = numbers(dtype, op)
        for values in [[x] for x in xs] if op["inputs"] == 1 else [[x, y] for x in xs for y in xs]:
            try:
                alone, among = (derivatives(op, dtype, values, n) for n in (1, 32))
            except NotImplementedError:
                continue
            cases.append(dict(name=op["torch"], dtype=str(dtype).split(".")[1], inputs=[write(v) for v in values],
                              want=[write(a) if same(a, b) else "open" for a, b in zip(alone, among)]))
(here / "specials.json").write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
