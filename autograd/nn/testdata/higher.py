"""Writes higher.json: gradients through gradients. MAML's meta-gradient after two inner steps, and WGAN-GP's penalty for a critic with
layer norm, in float64. Run: python3 higher.py"""

import json

import torch
import torch.nn.functional as F

D = torch.float64


def weights(*shape, phase):
    n = 1
    for s in shape:
        n *= s
    return torch.sin(torch.arange(n, dtype=D) * 0.7 + phase).mul(0.5).reshape(shape)


def maml():
    names = {"0.weight": (5, 2), "0.bias": (5,), "2.weight": (1, 5), "2.bias": (1,)}
    p = {k: weights(*s, phase=i + 1.0).requires_grad_() for i, (k, s) in enumerate(names.items())}

    def model(p, x):
        return F.linear(torch.tanh(F.linear(x, p["0.weight"], p["0.bias"])), p["2.weight"], p["2.bias"])

    x, y = weights(4, 2, phase=0.3), weights(4, 1, phase=0.9)
    fast = p
    for _ in range(2):
        loss = F.mse_loss(model(fast, x), y)
        grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
        fast = {k: v - 0.4 * g for (k, v), g in zip(fast.items(), grads)}
    meta = F.mse_loss(model(fast, weights(4, 2, phase=2.3)), weights(4, 1, phase=1.9))
    meta.backward()
    return dict(loss=meta.item(), grads={k: v.grad.flatten().tolist() for k, v in p.items()})


def penalty():
    names = {"0.weight": (6, 3), "0.bias": (6,), "1.weight": (6,), "1.bias": (6,), "3.weight": (1, 6), "3.bias": (1,)}
    p = {k: weights(*s, phase=i + 0.5).requires_grad_() for i, (k, s) in enumerate(names.items())}
    x = weights(4, 3, phase=0.1).requires_grad_()
    h = F.layer_norm(F.linear(x, p["0.weight"], p["0.bias"]), (6,), p["1.weight"], p["1.bias"])
    score = F.linear(F.leaky_relu(h, 0.2), p["3.weight"], p["3.bias"])
    (g,) = torch.autograd.grad(score.sum(), x, create_graph=True)
    loss = ((g.norm(2, dim=1) - 1) ** 2).mean() * 10 + score.mean()
    loss.backward()
    return dict(loss=loss.item(), grads={k: v.grad.flatten().tolist() for k, v in p.items()})


with open("higher.json", "w") as f:
    json.dump(dict(maml=maml(), penalty=penalty()), f, indent=1)
    f.write("\n")
