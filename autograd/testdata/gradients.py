"""Writes gradients.json: values and gradients that PyTorch gives at places where finite differences cannot decide,
because functions have corners, ties or singularities there, and of the losses. Run: python3 gradients.py"""

import json
import math

import torch
import torch.nn.functional as F

cases = []


def number(x):
    return x if math.isfinite(x) else str(x)


def flat(t):
    return [number(x) for x in t.detach().double().flatten().tolist()]


def case(name, f, *inputs, dtype=torch.float64):
    leaves = []
    for i in inputs:
        t = torch.tensor(i)
        leaves.append(t.to(dtype).requires_grad_() if t.is_floating_point() else t)
    out = f(*leaves)
    out.sum().backward()
    cases.append(
        dict(
            name=name,
            dtype=str(dtype).split(".")[1],
            inputs=[dict(shape=list(t.shape), data=flat(t), int=not t.is_floating_point()) for t in leaves],
            out=flat(out),
            grads=[flat(t.grad) if t.requires_grad and t.grad is not None else None for t in leaves],
        )
    )


corner = [-1.0, -0.5, 0.0, 0.5, 1.0]
case("relu", F.relu, corner)
case("leaky_relu", lambda x: F.leaky_relu(x, 0.1), corner)
case("abs", torch.abs, corner)
case("clamp", lambda x: x.clamp(-0.5, 0.5), corner)
case("maximum", torch.maximum, [1.0, 2.0, 3.0], [1.0, 3.0, 2.0])
case("minimum", torch.minimum, [1.0, 2.0, 3.0], [1.0, 3.0, 2.0])
case("amax", lambda x: x.amax((0, 1)), [[1.0, 3.0], [3.0, 2.0]])
case("amin", lambda x: x.amin(1), [[1.0, 3.0], [2.0, 2.0]])
case("pow_scalar 0", lambda x: x.pow(0), [0.0, 1.0, -2.0])
case("pow_scalar 2", lambda x: x.pow(2), [0.0, 1.0, -2.0])
case("pow_scalar 0.5", lambda x: x.pow(0.5), [0.0, 1.0, -2.0])
case("pow", torch.pow, [0.0, 0.0, 2.0, 2.0, -2.0], [0.0, 2.0, 0.0, -1.0, 3.0])
case("sqrt", torch.sqrt, [0.0, 4.0])
case("log", torch.log, [0.0, 4.0])
case("rsqrt", torch.rsqrt, [0.0, 4.0])
case("reciprocal", torch.reciprocal, [0.0, 4.0])
case("div", torch.div, [1.0, 0.0, -3.0], [0.0, 2.0, 4.0])
case("where", lambda c, a, b: torch.where(c > 0, a.log(), b), [0, 1, 1], [-1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
case("std 0", lambda x: x.std(1), [[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]])
case("var 1", lambda x: x.var(1), [[2.0], [3.0]])
case("softplus", lambda x: F.softplus(x, 2, 20), [-30.0, -1.0, 0.0, 1.0, 9.9, 10.1, 50.0])
rows = [[1.0, -2.0], [math.nan, 1.0], [math.inf, 1.0], [100.0, -50.0], [0.0, 0.0]]
weights, bias = [[0.5, 1.0], [-1.0, 0.25], [0.0, 0.0]], [0.0, 1.0, 0.0]
case("linear_bias gelu", lambda x, w, b: F.gelu(F.linear(x, w, b)), rows, weights, bias)
case("linear_bias geluTanh", lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh"), rows[3:], weights, bias)
case("linear_bias relu", lambda x, w, b: F.relu(F.linear(x, w, b)), rows[3:], weights, bias)
case("gelu", F.gelu, [-6.0, -1.0, 0.0, 1.0, 6.0])
case("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), [-6.0, -1.0, 0.0, 1.0, 6.0])
case("silu", F.silu, [-40.0, -1.0, 0.0, 1.0, 40.0])
case("sigmoid", torch.sigmoid, [-800.0, -1.0, 0.0, 1.0, 800.0])
case("softmax", lambda x: F.softmax(x, 0) * torch.arange(3.0), [1000.0, 1001.0, 999.0])
logits = [[1.0, 2.0, 0.5], [0.1, -3.0, 2.0], [900.0, 0.0, -900.0], [0.3, 0.2, 0.1]]
for dtype in (torch.float64, torch.float32):
    suffix = " " + str(dtype).split(".")[1]
    case("cross_entropy mean" + suffix, F.cross_entropy, logits, [2, 0, 0, 1], dtype=dtype)
    case("cross_entropy ignore" + suffix, F.cross_entropy, logits, [2, -100, 0, 1], dtype=dtype)
    case("cross_entropy sum" + suffix, lambda x, y: F.cross_entropy(x, y, reduction="sum"), logits, [2, -100, 0, 1], dtype=dtype)
    case("cross_entropy none" + suffix, lambda x, y: F.cross_entropy(x, y, reduction="none"), logits, [2, -100, 0, 1], dtype=dtype)
case("cross_entropy all ignored", F.cross_entropy, logits, [-100, -100, -100, -100])
case("cross_entropy pixels", F.cross_entropy, [[[1.0, 2.0], [0.5, 0.1], [-3.0, 2.0]], [[9.0, 0.0], [-9.0, 0.3], [0.2, 0.1]]], [[2, -100], [0, 1]])
case("nll_loss mean", F.nll_loss, [[-1.0, -2.0, -0.5], [-0.1, -3.0, -2.0]], [2, 0])
case("mse_loss mean", F.mse_loss, [1.0, 2.0, 3.0], [1.5, 2.0, 0.0])
case("mse_loss sum", lambda a, b: F.mse_loss(a, b, reduction="sum"), [1.0, 2.0, 3.0], [1.5, 2.0, 0.0])
case("l1_loss mean", F.l1_loss, [1.0, 2.0, 3.0], [1.5, 2.0, 0.0])
case("bce mean", F.binary_cross_entropy_with_logits, [-800.0, -1.0, 0.0, 2.0, 800.0], [1.0, 0.25, 0.5, 0.0, 0.0])
case("bce none", lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"), [-50.0, -1.0, 0.0, 2.0, 50.0], [1.0, 0.25, 0.5, 0.0, 1.0])
case("embedding", lambda w, i: F.embedding(i, w), [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [[2, 0], [2, 2]])
torch.manual_seed(0)
case(
    "mlp",
    lambda x, y, w1, b1, w2, b2: F.cross_entropy(F.linear(torch.tanh(F.linear(x, w1, b1)), w2, b2), y),
    torch.randn(4, 3).tolist(), [1, 0, 1, 1], torch.randn(5, 3).tolist(), torch.randn(5).tolist(), torch.randn(2, 5).tolist(), torch.randn(2).tolist(),
    dtype=torch.float32,
)

with open("gradients.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
