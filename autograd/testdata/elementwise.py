"""Writes elementwise.json: values and gradients that PyTorch gives of the operations of internal/elementwise, whose list is ops.json
there: over their ranges in both types, and at infinities and NaN, where the gradient is compared only if it is PyTorch's own formula. Run: python3 elementwise.py"""

import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F

here = Path(__file__).resolve().parent
ops = json.loads((here / "../../internal/elementwise/ops.json").read_text())
cases = []


def flat(t):
    return [x if math.isfinite(x) else str(x) for x in t.detach().double().flatten().tolist()]


def case(op, dtype, *inputs):
    leaves = [torch.tensor(i, dtype=dtype).requires_grad_() for i in inputs]
    out = eval(op["expression"], {"torch": torch, "F": F}, dict(zip("xy", leaves)))
    out.sum().backward()
    cases.append(dict(
        name=op["torch"], dtype=str(dtype).split(".")[1],
        inputs=[dict(shape=list(t.shape), data=flat(t), int=False) for t in leaves],
        out=flat(out), shape=list(out.shape), grads=[flat(t.grad) for t in leaves]))


for op in ops:
    if not op["gradients"]:
        continue
    lo, hi = op["from"], op["to"]
    grid = [round(lo + (hi - lo) * i / 8, 6) for i in range(9)]
    for dtype in (torch.float64, torch.float32):
        if op["inputs"] == 1:
            case(op, dtype, grid)
        else:
            case(op, dtype, [[x] for x in grid[::2]], grid[1::2])
    if op["near"]:
        continue
    far = [0.0, 30.0, -30.0, 1000.0, -1000.0]
    if op["inputs"] == 2:
        case(op, torch.float64, [x for x in far for y in far if x or y], [y for x in far for y in far if x or y])
    elif lo < 0:
        case(op, torch.float64, far)
(here / "elementwise.json").write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
