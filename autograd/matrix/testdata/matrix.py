"""Writes matrix.json: gradients of weighted sums of what torch.linalg makes of a few matrices. Run: python3 matrix.py"""

import json

import torch

L = torch.linalg
cases = []


def numbers(*shape, seed=0):
    k = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return (torch.remainder(k * k * 0.37 + k * 0.173 + seed * 0.211 + 0.05, 1) * 3 - 1.5).reshape(shape)


def flat(t):
    return dict(shape=list(t.shape), data=t.detach().flatten().tolist())


def case(op, f, *ins):
    ins = [t.clone().requires_grad_() for t in ins]
    out = f(*ins)
    grads = torch.autograd.grad((out * numbers(*out.shape, seed=3)).sum(), ins)
    cases.append(dict(op=op, ins=[flat(t) for t in ins], out=flat(out), grads=[flat(g) for g in grads]))


square = numbers(2, 3, 3)
positive = square @ square.mT + torch.eye(3, dtype=torch.float64)
case("Inv", L.inv, square)
case("Solve", L.solve, square, numbers(2, 3, 2, seed=4))
case("Solve", L.solve, square, numbers(4, 1, 3, 1, seed=4))
case("Solve", L.solve, square[1], numbers(3, seed=5))
case("Det", L.det, square)
case("SlogDet", lambda a: L.slogdet(a)[1], square)
case("Cholesky", L.cholesky, positive)
case("Eigvals", lambda a: L.eigh(a)[0], positive)
case("Projectors", lambda a: L.eigh(a)[1] ** 2 + L.eigh(a)[0].unsqueeze(-2), positive)
for m in (square, numbers(2, 4, 3, seed=1), numbers(3, 5, seed=2)):
    case("SVDVals", L.svdvals, m)
case("Trace", lambda a: a.diagonal(0, -2, -1).sum(-1), numbers(2, 4, 3))

with open("matrix.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
