"""Writes sparse.json: products of torch.sparse, softmax over rows, and their gradients. Run: python3 sparse.py"""

import json

import torch

CROW, COL, ROWS, COLS = [0, 2, 2, 5, 6], [1, 4, 0, 1, 3, 2], 4, 5
ROW = [i for i in range(ROWS) for _ in range(CROW[i + 1] - CROW[i])]
AT = torch.tensor([ROW, COL])
out = dict(crow=CROW, col=COL, row=ROW, rows=ROWS, cols=COLS)


def numbers(*shape, seed=0):
    k = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return (torch.remainder(k * k * 0.37 + k * 0.173 + seed * 0.211 + 0.05, 1) * 3 - 1.5).reshape(shape)


def flat(t):
    return dict(shape=list(t.shape), data=t.detach().flatten().tolist())


def case(name, f, *ins):
    ins = [t.clone().requires_grad_() for t in ins]
    y = f(*ins)
    grads = torch.autograd.grad((y * numbers(*y.shape, seed=3)).sum(), ins)
    out[name] = dict(ins=[flat(t) for t in ins], out=flat(y), grads=[flat(g) for g in grads])


def matrix(v, shape=(ROWS, COLS), at=AT):
    return torch.sparse_coo_tensor(at, v, shape)


v = numbers(6)
case("product", lambda v, x: torch.sparse.mm(matrix(v), x), v, numbers(COLS, 3, seed=1))
case("vector", lambda v, x: torch.sparse.mm(matrix(v), x.unsqueeze(1)).squeeze(1), v, numbers(COLS, seed=1))
case("transposed", lambda v, x: torch.sparse.mm(matrix(v, (COLS, ROWS), AT.flip(0)), x), v, numbers(ROWS, 2, seed=2))
case("softmax", lambda v: torch.sparse.softmax(matrix(v), 1).coalesce().values(), v)
case("dense", lambda v: matrix(v).to_dense(), v)
case("heads", lambda v, x: torch.stack([torch.sparse.mm(matrix(v[:, h].contiguous()), x[:, h].contiguous()) for h in range(2)], 1),
     numbers(6, 2), numbers(COLS, 2, 3, seed=1))

with open("sparse.json", "w") as f:
    json.dump(out, f)
    f.write("\n")
