"""Writes logit.json: what PyTorch makes of logits whose bounds are rounded, and their gradients.

    python3 logit.py >logit.json

It was made with PyTorch 1.13. Rows are eps, the elements, the results and the gradients of float32, and the results of float64.
"""
import json

import torch

xs = [0.0, 1e-7, 9.9999e-7, 1e-6, 2e-6, 0.25, 0.5, 0.9, 0.999998, 0.9999985, 0.9999989, 0.999999, 0.9999995, 1.0] * 3  # enough for vector code
rows = []
for eps in (1e-6, 1e-3, 0.1, 0.25):
    x = torch.tensor(xs, requires_grad=True)
    y = torch.logit(x, eps)
    y.sum().backward()
    wide = torch.logit(torch.tensor(xs, dtype=torch.float64), eps)
    rows.append([eps, x.tolist(), y.tolist(), x.grad.tolist(), xs, wide.tolist()])
print("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]")
