"""Writes muon.json: matrices after each of twenty steps of Muon, as Keller Jordan's reference and torch.optim.Muon (2.9) have it, but
orthogonalised in the type of the matrix, not in bfloat16; PyTorch 1.13 has none. Run: python3 muon.py"""

import json

import torch

from steps import gradient

A, B, C = 3.4445, -4.7750, 2.0315


def orthogonal(g):
    x = g.T if g.size(0) > g.size(1) else g
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = A * x + (B * gram + C * gram @ gram) @ x
    return x.T if g.size(0) > g.size(1) else x


def case(name, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, match=False):
    for dtype in (torch.float32, torch.float64):
        shapes = ((3, 5), (5, 3), (4, 4))
        params = [(torch.arange(r * c, dtype=torch.float64) / 2 - 0.75 + i).to(dtype).reshape(r, c) for i, (r, c) in enumerate(shapes)]
        buffers = [torch.zeros_like(p) for p in params]
        after = []
        for step in range(1, 21):
            for i, (p, m) in enumerate(zip(params, buffers)):
                g = gradient(step, i, p.numel(), dtype).reshape(p.shape)
                m.lerp_(g, 1 - momentum)
                update = orthogonal(g.lerp(m, momentum) if nesterov else m)
                rows, columns = p.shape
                size = 0.2 * max(rows, columns) ** 0.5 if match else max(1, rows / columns) ** 0.5
                p.mul_(1 - lr * weight_decay).add_(update, alpha=-lr * size)
            after.append([p.double().flatten().tolist() for p in params])
        cases.append(dict(name=name, dtype=str(dtype).split(".")[1], after=after[::5] + after[-1:]))


cases = []
case("muon")
case("muon settings", lr=0.05, weight_decay=0.3, momentum=0.8, match=True)
case("muon plain", lr=0.1, nesterov=False)

with open("muon.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
