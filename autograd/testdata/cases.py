"""What the scripts beside it share: a list of cases, and the file of it. The gradient is that of the sum of the result times 0.5, 1, 1.5 and so on."""

import json
import math

import torch

cases = []
inf, nan = math.inf, math.nan
ints = torch.tensor


def rand(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def number(x):
    return x if math.isfinite(x) else str(x)


def flat(t):
    return [number(x) for x in t.detach().double().flatten().tolist()]


def case(name, f, *inputs, dtype=torch.float64, grads=True):
    leaves = []
    for i in inputs:
        t = torch.as_tensor(i)
        leaves.append(t.detach().to(dtype).requires_grad_() if t.is_floating_point() else t)
    out = f(*leaves)
    weights = (torch.arange(out.numel(), dtype=torch.float64) * 0.5 + 0.5).reshape(out.shape)
    if out.requires_grad and grads:
        (out * weights).sum().backward()
    cases.append(dict(name=name, dtype=str(dtype).split(".")[1],
                      inputs=[dict(shape=list(t.shape), data=flat(t), int=not t.is_floating_point()) for t in leaves], out=flat(out), shape=list(out.shape),
                      grads=[flat(t.grad) if t.requires_grad and t.grad is not None else None for t in leaves]))
    if out.dtype != dtype or not out.requires_grad:
        cases[-1]["outtype"] = str(out.dtype).split(".")[1]  # and there are no gradients


def write(name):
    with open(name, "w") as f:
        json.dump(cases, f, separators=(",", ":"))
