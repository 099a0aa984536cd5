"""Writes operations.json: values and gradients that PyTorch gives for operations, at corners, zeros, ties and infinities, and
for shapes. Run: python3 operations.py"""

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


def case(name, f, *inputs, dtype=torch.float64):
    leaves = []
    for i in inputs:
        t = torch.tensor(i)
        leaves.append(t.to(dtype).requires_grad_() if t.is_floating_point() else t)
    out = f(*leaves)
    out.sum().backward()
    cases.append(dict(name=name, dtype=str(dtype).split(".")[1],
                      inputs=[dict(shape=list(t.shape), data=flat(t), int=not t.is_floating_point()) for t in leaves], out=flat(out), shape=list(out.shape),
                      grads=[flat(t.grad) if t.requires_grad and t.grad is not None else None for t in leaves]))


corner = [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.5]
for dtype in (torch.float64, torch.float32):
    s = " " + str(dtype).split(".")[1]
    case("log1p" + s, torch.log1p, [-1.0, -0.5, 0.0, 1e-9, 3.0, inf], dtype=dtype)
    case("expm1" + s, torch.expm1, [-inf, -40.0, -1e-9, 0.0, 2.0, 50.0], dtype=dtype)
    case("erf" + s, torch.erf, [-inf, -3.0, -0.5, 0.0, 1e-5, 1.0, 6.0], dtype=dtype)
    case("elu" + s, lambda x: F.elu(x, 0.5), corner + [-inf, 30.0], dtype=dtype)
    case("logsumexp" + s, lambda x: x.logsumexp(1), [[1000.0, 1001.0, 999.0], [-inf, 0.0, 1.0], [-5.0, -5.0, -5.0]], dtype=dtype)
    case("norm 2" + s, lambda x: torch.linalg.vector_norm(x, 2, 1), [[3.0, 4.0], [0.0, 0.0], [1e-3, 2.0]], dtype=dtype)
    case("cumprod" + s, lambda x: x.cumprod(1), [[2.0, 3.0, 0.5], [0.0, 2.0, 3.0], [2.0, 0.0, 0.0], [1.5, 0.0, 4.0]], dtype=dtype)
case("hardtanh", lambda x: F.hardtanh(x, -0.5, 1.0), corner)
case("relu6", F.relu6, [-1.0, 0.0, 3.0, 6.0, 7.0])
for name in ("floor", "ceil", "round", "trunc", "sign"):
    case(name, getattr(torch, name), corner + [1.5, 3.5, -1.5])
case("rsub_scalar", lambda x: 2 - x, corner)
case("rdiv_scalar", lambda x: 2 / x, [-2.0, 0.5, 4.0, inf])
case("rpow_scalar", lambda x: torch.pow(2.0, x), corner)
case("fmod", torch.fmod, [5.5, -5.5, 5.5, -5.5, 3.0], [2.0, 2.0, -2.0, -2.0, inf])
case("remainder", torch.remainder, [5.5, -5.5, 5.5, -5.5, 4.0], [2.0, 2.0, -2.0, -2.0, 2.0])
case("lerp", torch.lerp, [1.0, 2.0, 3.0], [5.0, -1.0, 2.0], [0.0, 0.5, 1.5])
case("addcmul", lambda a, b, c: torch.addcmul(a, b, c, value=-0.5), [[1.0], [2.0]], [3.0, 4.0], [0.0, inf])
case("addcdiv", lambda a, b, c: torch.addcdiv(a, b, c, value=-0.5), [1.0, 2.0], [3.0, 4.0], [-2.0, 0.5])
case("masked_fill", lambda x, m: x.masked_fill(m > 0, 7.0), [1.0, nan, 3.0], [0, 1, 0])
case("norm 1", lambda x: torch.linalg.vector_norm(x, 1), [-1.0, 0.0, 2.0])
case("norm 3", lambda x: torch.linalg.vector_norm(x, 3, 1), [[-1.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
case("norm 1.5", lambda x: torch.linalg.vector_norm(x, 1.5, 1), [[-1.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
case("norm inf", lambda x: torch.linalg.vector_norm(x, inf, 1), [[-2.0, 0.0, 2.0], [1.0, 5.0, 0.0]])
case("norm -inf", lambda x: torch.linalg.vector_norm(x, -inf, 1), [[-2.0, 1.0, -1.0], [1.0, 5.0, 3.0]])
case("norm 0", lambda x: torch.linalg.vector_norm(x, 0), [-2.0, 0.0, -1.0])
case("prod", lambda x: x.prod(1), [[2.0, 3.0, 4.0], [0.0, 3.0, 4.0], [0.0, 0.0, 4.0]])
case("prod all", lambda x: x.prod(), [[2.0, 0.0], [3.0, 4.0]])
case("cumsum", lambda x: x.cumsum(0) * torch.arange(3.0)[:, None], [[1.0, 2.0], [3.0, inf], [5.0, 6.0]])
case("max", lambda x: x.max(1).values, [[1.0, 3.0, 3.0], [nan, 2.0, 5.0]])
case("min", lambda x: x.min(0).values, [[1.0, 3.0, 3.0], [1.0, 2.0, 5.0]])
case("sort", lambda x: torch.sort(x, stable=True, dim=0).values * torch.arange(6.0), [3.0, nan, 1.0, 3.0, -inf, -0.0])
case("topk", lambda x: x.topk(2, 1).values * torch.arange(2.0), [[3.0, 1.0, 2.0], [5.0, 7.0, 6.0]])
case("roll", lambda x: x.roll((1, -1), (0, 1)) * torch.arange(6.0).reshape(2, 3), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def halves(x, angles):
    """Rotary embedding as GPT-NeoX has it: the angles of both halves, and the second half before the first one, negative."""
    twice = torch.cat((angles, angles), -1)
    return x * twice.cos() + rotate_half(x) * twice.sin()


def interleaved(x, angles):
    """As the paper has it: neighbours are the parts of complex numbers, which are multiplied by others of length 1."""
    turn = torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * turn).flatten(-2)


angles = torch.outer(torch.arange(3.0, dtype=torch.float64) + 5, 10000 ** (torch.arange(0, 6, 2, dtype=torch.float64) / -6)).tolist()
rows = (torch.arange(36, dtype=torch.float64).reshape(2, 3, 6) * 0.25 - 3).tolist()
count = lambda t: t * torch.arange(float(t.numel())).reshape(t.shape)
case("rotary halves", lambda x, a: count(halves(x, a.detach())), rows, angles)
case("rotary interleaved", lambda x, a: count(interleaved(x, a.detach())), rows, angles)
case("rotary halves", lambda x, a: count(torch.cat((halves(x[..., :4], a.detach()), x[..., 4:]), -1)), rows, [a[:2] for a in angles])
case("rotary interleaved", lambda x, a: count(torch.cat((interleaved(x[..., :4], a.detach()), x[..., 4:]), -1)), rows, [a[:2] for a in angles])
three = [[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]]]
weigh = lambda t: t * torch.arange(float(t.numel())).reshape(t.shape)
case("pad constant", lambda x: weigh(F.pad(x, (1, 2, 0, 1), value=0.5)), three)
case("pad reflect", lambda x: weigh(F.pad(x[None], (3, 2, 1, 2), mode="reflect")[0]), three)
case("pad replicate", lambda x: weigh(F.pad(x[None], (3, 2, 1, 2), mode="replicate")[0]), three)
case("pad circular", lambda x: weigh(F.pad(x[None], (3, 2, 1, 2), mode="circular")[0]), three)
case("repeat", lambda x: weigh(x.repeat(2, 1, 2)), [[1.0, 2.0], [3.0, 4.0]])
case("repeat_interleave", lambda x: weigh(x.repeat_interleave(3, 0)), [[1.0, 2.0], [3.0, 4.0]])
case("einsum", lambda a, b, c: torch.einsum("bij,bjk,k->bi", a, b, c), [[[1.0, 2.0], [3.0, 4.0]]], [[[1.0, -1.0, 2.0], [0.0, 5.0, 1.0]]], [1.0, 2.0, 3.0])
case("einsum trace", lambda a, b: torch.einsum("ii,...i->...", a, b), [[1.0, 2.0], [3.0, 4.0]], [[1.0, -1.0], [0.0, 5.0]])
case("addmm", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), [1.0, 2.0], [[1.0, 2.0, 3.0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
case("empty", lambda x: x.cumsum(0).flip(0).tril().sum(), [[]])
case("add_", lambda a, b: (a * 1).add_(b, alpha=2), [[1.0, 2.0], [3.0, 4.0]], [5.0, 6.0])
case("mul_", lambda a, b: (a * 1).mul_(b), [[1.0, 2.0], [3.0, 4.0]], [5.0, 0.0])
case("div_", lambda a, b: (a * 1).div_(b), [[1.0, 2.0], [3.0, 4.0]], [5.0, -2.0])
case("lerp_", lambda a, b, w: (a * 1).lerp_(b, w), [[1.0, 2.0], [3.0, 4.0]], [5.0, -2.0], [[0.25], [1.5]])
case("lerp_scalar_", lambda a, b: (a * 1).lerp_(b, 0.3), [[1.0, 2.0], [3.0, 4.0]], [5.0, -2.0])
case("clamp_", lambda a: (a * 1).clamp_(-0.5, 1.0), corner)

with open("operations.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
