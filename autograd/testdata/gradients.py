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


def second_derivatives(f, leaves):
    """Those of the sum of all gradients, element j times cos(j), where PyTorch has them."""
    floats = [t for t in leaves if t.requires_grad]
    try:
        grads = torch.autograd.grad(f(*leaves).sum(), floats, create_graph=True, allow_unused=True)
        grads = torch.cat([g.flatten() for g in grads if g is not None])
        total = (grads * torch.cos(torch.arange(float(len(grads))).to(grads.dtype))).sum()
        if not total.requires_grad:
            return dict(second=[None for _ in leaves])
        found = iter(torch.autograd.grad(total, floats, allow_unused=True))
        seconds = [next(found) if t.requires_grad else None for t in leaves]
        return dict(second=[None if t is None else flat(t) for t in seconds])
    except RuntimeError as e:
        print("no second derivatives:", e)
        return {}


def case(name, f, *inputs, dtype=torch.float64):
    leaves = []
    for i in inputs:
        t = torch.tensor(i)
        leaves.append(t.to(dtype).requires_grad_() if t.is_floating_point() else t)
    out = f(*leaves)
    out.sum().backward()
    second = second_derivatives(f, leaves)
    cases.append(
        dict(
            name=name,
            dtype=str(dtype).split(".")[1],
            inputs=[dict(shape=list(t.shape), data=flat(t), int=not t.is_floating_point()) for t in leaves],
            out=flat(out), shape=list(out.shape),
            grads=[flat(t.grad) if t.requires_grad and t.grad is not None else None for t in leaves],
            **second,
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
case("where_scalar", lambda c, a: torch.where(c > 0, a.log(), 0.5), [0, 1, 1], [0.0, 2.0, 3.0])
case("rwhere_scalar", lambda c, a: torch.where(c > 0, 0.5, a.log()), [0, 1, 1], [2.0, 0.0, 3.0])
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
pairs = [-3.0, -0.5, 0.0, 0.25, 1.0, 4.0], [0.0, 0.0, 0.0, 0.0, 0.0, 4.0]
case("smooth_l1", F.smooth_l1_loss, *pairs)
case("smooth_l1 beta", lambda a, b: F.smooth_l1_loss(a, b, beta=0.5, reduction="none"), *pairs)
case("huber", lambda a, b: F.huber_loss(a, b, delta=0.5, reduction="sum"), *pairs)
logs, shares = [[-0.1, -3.0, -2.0], [-1.0, -1.0, -1.0]], [[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]]
constant = lambda f: lambda x, y, *rest: f(x, y.detach(), *rest)  # of targets whose gradient PyTorch 1.13 does not have
case("kl_div mean", constant(F.kl_div), logs, shares)
case("kl_div batchmean", constant(lambda x, y: F.kl_div(x, y, reduction="batchmean")), logs, shares)
case("kl_div log", constant(lambda x, y: F.kl_div(x, y, log_target=True, reduction="sum")), logs, logs[::-1])
case("probable", constant(F.binary_cross_entropy), [0.0, 0.3, 1.0, 1.0, 0.0], [0.0, 0.5, 1.0, 0.25, 0.75])
case("bce weights", lambda x, y, w, p: F.binary_cross_entropy_with_logits(x, y, w.detach(), pos_weight=p.detach()),
     [[-1.0, 0.0], [2.0, 80.0]], [[1.0, 0.25], [0.5, 0.0]], [[0.5, 2.0], [1.0, 0.0]], [3.0, 0.5])
weights = [0.5, 2.0, 0.0]
case("cross_entropy weights", lambda x, y, w: F.cross_entropy(x, y, w.detach()), logits, [2, 0, -100, 1], weights)
case("cross_entropy smoothed", lambda x, y, w: F.cross_entropy(x, y, w.detach(), label_smoothing=0.1), logits, [1, -100, 0, 1], weights)
case("cross_entropy smoothed none", lambda x, y: F.cross_entropy(x, y, reduction="none", label_smoothing=0.3), logits, [1, -100, 0, 1])
case("cross_entropy probabilities", lambda x, y, w: F.cross_entropy(x, y, w.detach(), label_smoothing=0.2), logits[:2], shares, weights)
case("nll_loss weights", lambda x, y, w: F.nll_loss(x, y, w.detach()), logs, [1, 0], weights)


def attention(q, k, v, mask=None, causal=False, scale=None, last=0):
    """What torch.nn.functional.scaled_dot_product_attention computes since PyTorch 2.5; 1.13 does not have it."""
    scores = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(last)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    weights = torch.softmax(scores, -1)
    empty = (scores == -math.inf).all(-1, keepdim=True)
    return torch.where(empty, torch.zeros_like(weights), weights) @ v


torch.manual_seed(1)
heads = [torch.randn(2, 2, n, 3).tolist() for n in (4, 5, 5)]
hidden = [[0.0, -1.0, -math.inf, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0, 2.0], [-math.inf, 0.0, -math.inf, -math.inf, -math.inf], [1.0, 2.0, 3.0, 4.0, 5.0]]
case("attention", attention, *heads)
case("attention float32", attention, *heads, dtype=torch.float32)
case("attention causal", lambda q, k, v: attention(q, k, v, causal=True), *heads)
case("attention lower right", lambda q, k, v: attention(q, k, v, causal=True, last=1), *heads)
case("attention lower right", lambda q, k, v: attention(q, k, v), [[x[-1:] for x in h] for h in heads[0]], *heads[1:])
case("attention lower right", lambda q, k, v: attention(q, k, v, causal=True), [[x[:4] for x in h] for h in heads[0]], *[[[x[:4] for x in h] for h in t] for t in heads[1:]])
case("attention scaled", lambda q, k, v: attention(q, k, v, scale=2.0), *heads)
case("attention gqa", lambda q, k, v: attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)), heads[0], *[[b[:1] for b in h] for h in heads[1:]])
case("attention float mask", attention, *heads, hidden)
case("attention mask", lambda q, k, v, m: attention(q, k, v, m.bool()), *heads, [[1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 1, 0], [0, 1, 1, 1, 1]])
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
