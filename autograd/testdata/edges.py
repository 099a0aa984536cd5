"""Writes edges.json, in the form of gradients.json (see gradients.py): gradients where numbers are infinite, NaN or alone, and those of
losses whose targets and weights have one. Run: python3 edges.py"""

import json
import math

import torch
import torch.nn.functional as F

cases = []
inf, nan = math.inf, math.nan


def number(x):
    return x if math.isfinite(x) else str(x)


def flat(t):
    return [number(x) for x in t.detach().double().flatten().tolist()]


def case(name, f, *inputs, dtype="float64"):
    leaves = [torch.tensor(i, dtype=getattr(torch, dtype)).requires_grad_() for i in inputs]
    out = f(*leaves)
    out.sum().backward()
    cases.append(
        dict(
            name=name,
            dtype=dtype,
            inputs=[dict(shape=list(t.shape), data=flat(t), int=False) for t in leaves],
            out=flat(out), shape=list(out.shape),
            grads=[flat(t.grad) if t.grad is not None else None for t in leaves],
        )
    )


exponents = [-2.0, -1.0, -0.5, 0.0, -0.0, 0.5, 1.0, 2.0, inf, -inf, nan]
for base in (0.0, -1.0, 1.0, inf, nan):
    case(f"rpow_scalar {base}", lambda x: torch.pow(base, x), exponents)
for base in (0.0, -1.0, 1.0, inf, nan):
    case("pow", torch.pow, [base] * len(exponents), exponents)
for p in (0.0, -1.0, 0.5, 1.0, 2.0, inf, -inf):
    case(f"pow_scalar {p}", lambda x: torch.pow(x, p), [0.0, -0.0, 1.0, -1.0, 2.0, inf, -inf, nan])

a, b = [nan, 1.0, nan, inf, inf, -inf, 2.0], [1.0, nan, nan, inf, -inf, 1.0, 2.0]
case("l1", lambda x, y: F.l1_loss(x, y, reduction="none"), a, b)
case("smooth_l1", lambda x, y: F.smooth_l1_loss(x, y, reduction="none"), a, b)
case("huber", lambda x, y: F.huber_loss(x, y, reduction="none"), a, b)
case("mse", lambda x, y: F.mse_loss(x, y, reduction="none"), a, b)

logits, p = [[1.0, 2.0, 3.0], [0.5, 0.1, -1.0]], [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]
for r in ("none", "mean", "sum"):
    case(f"probabilities {r}", lambda x, t: F.cross_entropy(x, t, reduction=r), logits, p)
    case(f"probabilities_smoothed {r}", lambda x, t: F.cross_entropy(x, t, reduction=r, label_smoothing=0.1), logits, p)
    case(f"probabilities_weighted {r}", lambda x, t, w: F.cross_entropy(x, t, weight=w, reduction=r, label_smoothing=0.1),
         logits, p, [1.0, 2.0, 3.0])

for correction in (0, 1, 2, 3):
    for x in ([[3.0], [4.0]], [[3.0, 4.0]], [[3.0, 3.0]], [[3.0, inf]], [[3.0, nan]]):
        case(f"var {correction}", lambda x: torch.var(x, dim=1, correction=correction, keepdim=False), x)
        case(f"std {correction}", lambda x: torch.std(x, dim=1, correction=correction, keepdim=False), x)

for v in ([0.0, inf, 2.0], [0.0, 0.0, inf], [0.0, inf, inf], [0.0, nan, 1.0], [inf, 2.0, 3.0], [0.0, 2.0, 3.0], [0.0, 0.0, 2.0],
          [nan, 0.0, 0.0], [inf, 0.0, nan], [0.0, 0.0, 0.0, inf], [inf, 0.0, 0.0, 0.0], [0.0, inf, 0.0], [-inf, 0.0, inf], [nan, 2.0, 3.0]):
    case("prod", torch.prod, v)
    case("prod_dim", lambda x: torch.prod(x, 0), v)

a, b = [5.0, -5.0, 0.0, 5.0, -5.0, inf, -inf, 5.0, nan, 5.0, -7.5], [inf, inf, inf, -inf, -inf, 2.0, inf, 0.0, 1.0, nan, 2.0]
case("remainder", torch.remainder, a, b)
for dtype in ("float64", "float32"):  # quotients that are rounded up to a whole number
    a2, b2 = [1.0, 6.0, 3.0, -1.0, -0.7, 0.7, 5.0, 0.0], [0.1, 0.1, 0.3, 0.1, inf, -inf, -inf, 2.0]
    case("remainder", torch.remainder, a2, b2, dtype=dtype)
    case("fmod", torch.fmod, a2, b2, dtype=dtype)
case("fmod", torch.fmod, a, b)
case("remainder_inf", lambda x: torch.remainder(x, inf), a)
case("remainder_minus_inf", lambda x: torch.remainder(x, -inf), a)
case("fmod_inf", lambda x: torch.fmod(x, inf), a)

case("batchmean", lambda x, y: F.kl_div(x, y, reduction="batchmean"), torch.zeros(0, 3).tolist(), torch.zeros(0, 3).tolist())
case("batchmean", lambda x, y: F.kl_div(x, y, reduction="batchmean"), torch.zeros(2, 0).tolist(), torch.zeros(2, 0).tolist())
case("batchmean", lambda x, y: F.kl_div(x, y, reduction="batchmean"), 1.0, 0.5)
case("batchmean", lambda x, y: F.kl_div(x, y, reduction="batchmean"), [[1.0], [2.0]], [[0.5], [0.25]])

edge = [inf, -inf, nan, 0.0, 800.0, -800.0, 40.0]
case("silu", F.silu, edge)
case("gelu", F.gelu, [nan, 0.0, 800.0, -800.0, 40.0])
case("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), [nan, 0.0, 800.0, -800.0, 40.0])
case("sigmoid", torch.sigmoid, edge)
case("softplus", F.softplus, edge)

with open("edges.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
