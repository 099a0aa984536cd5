"""Writes basic.json, in the form of gradients.json (see gradients.py): arithmetic, products, shapes and the other operations that have no
file of their own. Results are multiplied by 0, 1, 2, ... so that no two gradients are alike. Run: python3 basic.py"""

import json
import math

import torch
import torch.nn.functional as F

torch.manual_seed(0)

cases = []
inf, nan = math.inf, math.nan


def number(x):
    return x if math.isfinite(x) else str(x)


def flat(t):
    return [number(x) for x in t.detach().double().flatten().tolist()]


def case(name, f, *inputs, dtype=torch.float64):
    leaves = []
    for i in inputs:
        t = i.clone() if isinstance(i, torch.Tensor) else torch.tensor(i)
        leaves.append(t.to(dtype).requires_grad_() if t.is_floating_point() else t)
    out = f(*leaves)
    out.sum().backward()
    cases.append(
        dict(
            name=name,
            dtype=str(dtype).split(".")[1],
            inputs=[dict(shape=list(t.shape), data=flat(t), int=not t.is_floating_point()) for t in leaves],
            out=flat(out), shape=list(out.shape),
            grads=[flat(t.grad) if t.requires_grad and t.grad is not None else None for t in leaves],
        )
    )


def arranged(t):
    return t * torch.arange(t.numel(), dtype=t.dtype).reshape(t.shape)


def one(name, f, *shape):
    case(name, lambda x: arranged(f(x)), torch.randn(*(shape or (2, 3)), dtype=torch.float64))


def two(name, f, a=(2, 3), b=(2, 3)):
    case(name, lambda x, y: arranged(f(x, y)), torch.randn(*a, dtype=torch.float64), torch.randn(*b, dtype=torch.float64))


edge = torch.tensor([0.0, -0.0, inf, -inf, nan, 1e300, -1e-300, 2.0], dtype=torch.float64)
for name, f in dict(exp=torch.exp, sin=torch.sin, cos=torch.cos, tanh=torch.tanh, neg=torch.neg).items():
    one(name, f)
    case(name + " edge", f, edge.clone())
one("add_scalar", lambda x: x + 1.5)
one("sub_scalar", lambda x: x - 1.5)
one("mul_scalar", lambda x: x * 1.5)
one("mean", lambda x: x.mean(1))
one("mean all", lambda x: x.mean())
one("sum", lambda x: x.sum(0))
one("log_softmax", lambda x: F.log_softmax(x, 1))
case("log_softmax edge", lambda x: F.log_softmax(x, 0), torch.tensor([1e300, 2.0, -inf], dtype=torch.float64))
two("add", torch.add, (2, 1, 3), (4, 1))
two("sub", torch.sub, (2, 3), (3,))
two("mul", torch.mul, (2, 3), (2, 1))
two("mul empty", torch.mul, (0, 3), (3,))
two("matmul", torch.matmul, (2, 1, 3, 4), (5, 4, 2))
two("matmul vector", torch.matmul, (3, 4), (4,))
two("mm", torch.mm, (2, 3), (3, 4))
two("bmm", torch.bmm, (2, 2, 3), (2, 3, 4))
two("mv", torch.mv, (2, 3), (3,))
two("dot", torch.dot, (3,), (3,))
two("outer", torch.outer, (2,), (3,))
two("linear", F.linear, (2, 3), (4, 3))
two("tensordot", lambda x, y: torch.tensordot(x, y, 1), (2, 3), (3, 2))
case("baddbmm", lambda c, x, y: arranged(torch.baddbmm(c, x, y)), *(torch.randn(*s, dtype=torch.float64) for s in [(2, 2, 4), (2, 2, 3), (2, 3, 4)]))
one("permute", lambda x: x.permute(2, 0, 1), 2, 3, 4)
one("transpose", lambda x: x.transpose(0, 1))
one("t", lambda x: x.t())
one("reshape", lambda x: x.t().reshape(6))
one("view", lambda x: x.view(3, 2))
one("flatten", lambda x: x.flatten(1, 2), 2, 3, 2)
one("squeeze", lambda x: x.squeeze(), 2, 1, 3)
one("unsqueeze", lambda x: x.unsqueeze(1))
one("expand", lambda x: x.expand(4, 2, 3))
one("slice", lambda x: x[:, 0:3:2])
one("narrow", lambda x: x.narrow(1, 1, 2))
one("select", lambda x: x.select(1, 2))
one("flip", lambda x: x.flip(0, 1))
one("movedim", lambda x: x.movedim(0, 2), 2, 3, 4)
one("tril", lambda x: x.tril(), 3, 3)
one("triu", lambda x: x.triu(1), 3, 3)
one("diagonal", lambda x: x.diagonal(), 3, 4)
one("diag_embed", lambda x: x.diag_embed())
two("cat", lambda x, y: torch.cat([x, y], 1), (2, 3), (2, 2))
two("stack", lambda x, y: torch.stack([x, y], 1))
case("index_select", lambda x, i: arranged(x.index_select(1, i)), torch.randn(2, 3, dtype=torch.float64), torch.tensor([2, 0, 2]))

with open("basic.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
