"""Writes fused.json: parameters and scale after each of eight iterations of two of PyTorch's optimizers that share a gradient scaler,
for gradients that follow a fixed formula and overflow now and then. PyTorch's scaler needs a GPU, so what it does is written out here.
Run: python3 fused.py"""

import json
import math

import torch

ITERATIONS, GROWTH, BACKOFF, INTERVAL = 8, 3.0, 1.0 / 3, 2


def gradient(i, k, n):
    """The gradient of parameter k in iteration i, before scaling. fusedgolden_test.go has the same."""
    j = torch.arange(n, dtype=torch.float64)
    return torch.remainder(j * 7 + i * 5 + k * 3, 11) / 4 - 1.2


def overflow(i, k, g):
    if (i, k) in ((0, 0), (5, 0)):
        g[i] = -math.inf
    if (i, k) in ((3, 1), (5, 1)):
        g[2] = math.nan


def train(makes):
    params = [torch.full((n,), k - 0.75, dtype=torch.float32).requires_grad_() for k, n in enumerate((7, 5))]
    opts = [make([p]) for make, p in zip(makes, params)]
    scale, tracker = torch.tensor(100.0), 0
    after = []
    for i in range(ITERATIONS):
        found = False
        for k, (p, opt) in enumerate(zip(params, opts)):
            p.grad = (gradient(i, k, len(p)) * scale.double()).float()
            overflow(i, k, p.grad)
            bad = not torch.isfinite(p.grad).all()
            found |= bad
            p.grad.mul_(scale.double().reciprocal().float())
            if not bad:
                opt.step()
        if found:
            scale, tracker = (scale.double() * BACKOFF).float(), 0
        else:
            tracker += 1
            if tracker == INTERVAL:
                scale, tracker = (scale.double() * GROWTH).float(), 0
        after.append(dict(params=[p.detach().double().tolist() for p in params], scale=scale.item()))
    steps = [int(s["step"]) if "step" in (s := opt.state[p]) else 0 for p, opt in zip(params, opts)]
    return dict(after=after, steps=steps)


SGD, Adam, AdamW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
cases = {
    "sgd and adam": (lambda p: SGD(p, lr=0.1), lambda p: Adam(p, lr=0.1)),
    "momentum and adamw": (lambda p: SGD(p, lr=0.1, momentum=0.9, dampening=0.5), lambda p: AdamW(p, lr=0.1)),
    "amsgrad and nesterov": (lambda p: Adam(p, lr=0.1, amsgrad=True, maximize=True),
                             lambda p: SGD(p, lr=0.1, momentum=0.5, nesterov=True, weight_decay=0.1)),
    "adagrad and rmsprop": (lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.3),
                            lambda p: torch.optim.RMSprop(p, centered=True, momentum=0.5)),
}
with open("fused.json", "w") as f:
    json.dump([dict(name=name, **train(makes)) for name, makes in cases.items()], f, indent=None, separators=(",", ":"))
    f.write("\n")
