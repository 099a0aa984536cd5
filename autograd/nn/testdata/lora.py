"""Writes lora.json: a linear layer with a low-rank adapter beside it, as PyTorch computes it in float64, with the gradients of the input and the
adapter for the sum of the squares of the result. Run: python3 lora.py"""

import json

import torch
import torch.nn.functional as F

torch.manual_seed(0)
cases = []
for rank, alpha, bias in [(2, 4.0, True), (3, 1.5, False)]:
    x = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    w, a, b = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in [(4, 5), (rank, 5), (4, rank)])
    c = torch.randn(4, dtype=torch.float64) if bias else None
    out = F.linear(x, w, c) + alpha / rank * F.linear(F.linear(x, a), b)
    out.square().sum().backward()
    flat = lambda t: t.detach().flatten().tolist()
    cases.append(dict(rank=rank, alpha=alpha, x=flat(x), weight=flat(w), bias=flat(c) if bias else None, a=flat(a), b=flat(b), out=flat(out),
                      x_grad=flat(x.grad), a_grad=flat(a.grad), b_grad=flat(b.grad)))
with open("lora.json", "w") as f:
    json.dump(cases, f)
