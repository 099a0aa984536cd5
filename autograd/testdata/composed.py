"""Writes composed.json: values and gradients that PyTorch gives for operations that are made of others here. The gradient is that of the sum
of the result times 0.5, 1, 1.5 and so on. Run: python3 composed.py"""

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
        t = torch.as_tensor(i)
        leaves.append(t.detach().to(dtype).requires_grad_() if t.is_floating_point() else t)
    out = f(*leaves)
    weights = (torch.arange(out.numel(), dtype=torch.float64) * 0.5 + 0.5).reshape(out.shape)
    if out.requires_grad:
        (out * weights).sum().backward()
    cases.append(dict(name=name, dtype=str(dtype).split(".")[1],
                      inputs=[dict(shape=list(t.shape), data=flat(t), int=not t.is_floating_point()) for t in leaves], out=flat(out), shape=list(out.shape),
                      grads=[flat(t.grad) if t.requires_grad and t.grad is not None else None for t in leaves]))


torch.manual_seed(7)
rand = lambda *s: torch.randn(*s, dtype=torch.float64)
ints = torch.tensor

# Selection.
x = rand(2, 3)
case("masked_select", lambda x, m: x.masked_select(m > 0), x, ints([[1, 0, 1], [0, 1, 1]]))
case("masked_select", lambda x, m: x.masked_select(m > 0), x, ints([[1], [0]]))
case("masked_select", lambda x, m: x.masked_select(m > 0), rand(3, 1), ints([1, 0, 1, 1]))
case("masked_select", lambda x, m: x.masked_select(m > 0), torch.tensor(2.0), ints(1))
case("index_copy", lambda x, i, s: x.index_copy(1, i, s), x, ints([2, 0]), rand(2, 2))
case("index_copy", lambda x, i, s: x.index_copy(1, i, s), torch.tensor([[1.0, nan, 3.0]]), ints([2, 0]), torch.tensor([[inf, 4.0]]))
case("index_fill", lambda x, i: x.index_fill(-1, i, 2.5), x, ints([2, -3, 2]))
case("index 0", lambda x, i: x[i], x, ints([[1, 0], [-1, -1]]))
case("index 1", lambda x, i: x[:, i], x, ints([2, 0, 0]))
case("index 2", lambda x, i, j: x[i, :, j], rand(2, 3, 4), ints([[1], [0]]), ints([3, 0, -1]))
case("index 3", lambda x, m: x[m > 0], rand(2, 3, 2), ints([[1, 0, 1], [0, 1, 1]]))
case("index_put 0", lambda x, v, i, j: x.index_put((i, j), v), x, rand(2), ints([1, 0]), ints([0, 2]))
case("index_put 0", lambda x, v, i, j: x.index_put((i, j), v), x, rand(1), ints([1, 0]), ints([0, -1]))
case("index_put 1", lambda x, v, i: x.index_put((i,), v, accumulate=True), x, rand(3, 3), ints([1, 1, 0]))
case("index_put 2", lambda x, v, m: x.index_put((m > 0,), v), x, torch.tensor(4.0), ints([[1, 0, 1], [0, 1, 1]]))
REDUCE = ["sum", "prod", "mean", "amax", "amin"]
for k, how in enumerate(REDUCE):
    for self in (0, 1):
        f = lambda x, i, s, how=how, self=self: x.scatter_reduce(1, i, s, how, include_self=bool(self))
        case(f"scatter_reduce {k} {self}", f, rand(2, 4), ints([[1, 1, 0, 1, 0, 1], [2, 2, 2, 2, 2, 0]]), rand(2, 6))
        case(f"scatter_reduce {k} {self}", f, torch.tensor([[1.5, -2.0, 3.0]]), ints([[0, 0, 0, 2, 2]]), torch.tensor([[4.0, 0.0, 4.0, 0.0, 3.5]]))
json.dump(cases, open("composed.json", "w"), separators=(",", ":"))
