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


def joined(x, y):
    """Both, weighed differently, in one result."""
    return torch.cat([x.flatten(-2), y.flatten(-2)], -1)


def svd(u, s, vh):
    return torch.cat([((u * s.unsqueeze(-2)) @ (vh / s.unsqueeze(-1))).flatten(-2), (u**2).flatten(-2), (vh**2).flatten(-2), s], -1)


square = numbers(2, 3, 3)
positive = square @ square.mT + torch.eye(3, dtype=torch.float64)
case("Inv", L.inv, square)
case("Solve", L.solve, square, numbers(2, 3, 2, seed=4))
case("Solve", L.solve, square, numbers(4, 1, 3, 1, seed=4))
case("Solve", L.solve, square[1], numbers(3, seed=5))
case("Det", L.det, square)
case("SlogDet", lambda a: L.slogdet(a)[1], square)
case("Cholesky", L.cholesky, positive)
case("LogDet", torch.logdet, positive)
case("Eigvals", lambda a: L.eigh(a)[0], positive)
case("Projectors", lambda a: L.eigh(a)[1] ** 2 + L.eigh(a)[0].unsqueeze(-2), positive)
for m in (square, numbers(2, 4, 3, seed=1), numbers(3, 5, seed=2)):
    case("SVDVals", L.svdvals, m)
case("Trace", lambda a: a.diagonal(0, -2, -1).sum(-1), numbers(2, 4, 3))
square, tall, wide = numbers(2, 3, 3), numbers(2, 4, 3, seed=1), numbers(3, 5, seed=2)
for m in (square, tall, wide):
    case("QR", lambda a: joined(*L.qr(a)), m)
    case("LU", lambda a: joined(*L.lu(a)[1:]), m)
    # Squares of vectors, and their products, do not depend on signs.
    case("SVD", lambda a: svd(*L.svd(a, full_matrices=False)), m)
    case("Pinv", L.pinv, m)
    for order in ("fro", "nuc", 2, -2, 1, -1, float("inf"), -float("inf")):
        case(f"MatrixNorm {order}", lambda a: L.matrix_norm(a, order), m)
for upper in (False, True):
    for left in (False, True):
        for unit in (False, True):
            b = numbers(4, 1, 3, 2, seed=4) if left else numbers(4, 1, 2, 3, seed=4)
            how = " ".join(w for w, on in (("upper", upper), ("right", not left), ("unit", unit)) if on)
            case(f"SolveTriangular {how}".strip(), lambda a, b: L.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit), square, b)
    side = " upper" * upper
    factor = L.cholesky(positive, upper=upper)
    part = torch.triu if upper else torch.tril  # what is read; PyTorch's gradients have the other triangle too
    case("CholeskySolve" + side, lambda b, l: torch.cholesky_solve(b, part(l), upper=upper), numbers(4, 1, 3, 2, seed=4), factor)
    case("CholeskyInverse" + side, lambda l: torch.stack([torch.cholesky_inverse(part(m), upper=upper) for m in l]), factor)
case("Lstsq", lambda a, b: L.lstsq(a, b).solution, tall, numbers(2, 4, 2, seed=3))
case("Lstsq", lambda a, b: L.pinv(a) @ b, tall, numbers(3, 1, 4, 1, seed=3))
case("Lstsq", lambda a, b: L.pinv(a) @ b, wide, numbers(2, 3, 2, seed=3))
case("MatrixExp", L.matrix_exp, square)
case("MatrixExp", L.matrix_exp, 3 * square[0])
for n in (0, 1, 2, 5, -3):
    case(f"MatrixPower {n}", lambda a: L.matrix_power(a, n), square)
dots = [numbers(10, 3, seed=1), numbers(3, 6, seed=2), numbers(6, 2, seed=3), numbers(2, 4, seed=4)]
case("MultiDot", lambda *a: L.multi_dot(a), *dots)
case("MultiDot", lambda *a: L.multi_dot(a), numbers(3), numbers(3, 2, seed=5), numbers(2, seed=6))
case("MultiDot", lambda *a: L.multi_dot(a), numbers(3), numbers(3, 2, seed=5))

with open("matrix.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
