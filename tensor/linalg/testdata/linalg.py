"""Writes linalg.json: what torch.linalg makes of a few matrices, in float64. Run: python3 linalg.py"""

import itertools
import json

import torch

L = torch.linalg
cases = []


def numbers(*shape, seed=0):
    k = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return (torch.remainder(k * k * 0.37 + k * 0.173 + seed * 0.211 + 0.05, 1) * 3 - 1.5).reshape(shape)


def flat(t):
    return dict(shape=list(t.shape), data=t.double().flatten().tolist())


def case(op, out, *ins, arg=""):
    outs = list(out) if isinstance(out, tuple) else [out]
    cases.append(dict(op=op, arg=arg, ins=[flat(t) for t in ins], outs=[flat(t) for t in outs]))


square, tall, wide = numbers(2, 3, 3), numbers(2, 4, 3, seed=1), numbers(3, 5, seed=2)
singular = torch.tensor([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]], dtype=torch.float64)
positive = square @ square.mT + torch.eye(3, dtype=torch.float64)
case("Inv", L.inv(square), square)
case("Inv", L.inv(numbers(1, 1)), numbers(1, 1))
case("Solve", L.solve(square, numbers(2, 3, 2, seed=4)), square, numbers(2, 3, 2, seed=4))
case("Solve", L.solve(square[0], numbers(4, 3, 1, seed=4)), square[0], numbers(4, 3, 1, seed=4))
case("Solve", L.solve(square[1], numbers(3, seed=5)), square[1], numbers(3, seed=5))
for m in (square, singular, positive, -positive, numbers(5, 5, seed=7)):
    case("Det", L.det(m), m)
for m in (square, positive, -positive, numbers(2, 2, 4, 4, seed=7)):
    case("SlogDet", tuple(L.slogdet(m)), m)
case("Cholesky", L.cholesky(positive), positive)
for m in (square, tall, wide):
    case("QR", tuple(L.qr(m)), m)
for m in (square, tall, wide, singular):
    case("SVDVals", L.svdvals(m), m)
    case("Pinv", L.pinv(m), m)
    for order in ("fro", "nuc", 2, -2, 1, -1, float("inf"), -float("inf")):
        case("MatrixNorm", L.matrix_norm(m, order), m, arg=str(order))
case("Eigvals", L.eigvalsh(positive), positive)
case("Lstsq", L.lstsq(tall, numbers(2, 4, 2, seed=3), driver="gelsd").solution, tall, numbers(2, 4, 2, seed=3))
case("Lstsq", L.lstsq(wide, numbers(3, 1, seed=3), driver="gelsd").solution, wide, numbers(3, 1, seed=3))
case("Lstsq", L.lstsq(singular, numbers(3, 2, seed=3), driver="gelsd").solution, singular, numbers(3, 2, seed=3))
case("Trace", tall.diagonal(0, -2, -1).sum(-1), tall)
for upper, left, unit in itertools.product((False, True), repeat=3):
    how = " ".join(w for w, on in (("upper", upper), ("right", not left), ("unit", unit)) if on)
    b = numbers(4, 1, 3, 2, seed=4) if left else numbers(4, 1, 2, 3, seed=4)
    case("SolveTriangular", L.solve_triangular(square, b, upper=upper, left=left, unitriangular=unit), square, b, arg=how)
for upper in (False, True):
    factor, arg = L.cholesky(positive, upper=upper), "upper" if upper else ""
    case("CholeskySolve", torch.cholesky_solve(numbers(2, 3, 2, seed=4), factor, upper=upper), numbers(2, 3, 2, seed=4), factor, arg=arg)
    case("CholeskyInverse", torch.cholesky_inverse(factor, upper=upper), factor, arg=arg)
for m in (square, 5 * square, numbers(1, 1), numbers(5, 5, seed=7)):
    case("MatrixExp", L.matrix_exp(m), m)
for m in (square, tall, wide, singular, torch.zeros(2, 2)):
    case("MatrixRank", L.matrix_rank(m), m)
    case("LU", tuple(L.lu(m)), m)

with open("linalg.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
