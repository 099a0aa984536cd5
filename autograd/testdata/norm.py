"""Writes norm.json, in the form of gradients.json (see gradients.py): normalisations, and operations with an index for each element.
Run: python3 norm.py"""

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


def rms(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def evaluation(x, w, b):
    c = x.shape[1]
    return F.batch_norm(x, torch.full((c,), 0.5, dtype=x.dtype), torch.full((c,), 2.0, dtype=x.dtype), w, b, False, 0.1, 1e-5)


torch.manual_seed(1)
r = lambda *s: torch.randn(*s, dtype=torch.float64)

for dtype in (torch.float64, torch.float32):
    suffix = " " + str(dtype).split(".")[1]
    case("layer_norm" + suffix, lambda x, w, b: F.layer_norm(x, (4,), w, b), r(3, 4), r(4), r(4), dtype=dtype)
    case("layer_norm two" + suffix, lambda x, w: F.layer_norm(x, (2, 4), w), r(3, 2, 4), r(2, 4), dtype=dtype)
    case("rms_norm" + suffix, rms, r(3, 4), r(4), dtype=dtype)
    case("group_norm" + suffix, lambda x, w, b: F.group_norm(x, 2, w, b), r(2, 4, 3), r(4), r(4), dtype=dtype)
    case("instance_norm" + suffix, lambda x, w, b: F.instance_norm(x, weight=w, bias=b), r(2, 3, 4), r(3), r(3), dtype=dtype)
    case("batch_norm" + suffix, lambda x, w, b: F.batch_norm(x, None, None, w, b, True), r(4, 3), r(3), r(3), dtype=dtype)
    case("batch_norm pixels" + suffix, lambda x, w, b: F.batch_norm(x, None, None, w, b, True), r(2, 3, 2, 2), r(3), r(3), dtype=dtype)
    case("batch_norm eval" + suffix, evaluation, r(4, 3, 2), r(3), r(3), dtype=dtype)
case("layer_norm of equal numbers", lambda x, w, b: F.layer_norm(x, (4,), w, b), torch.full((2, 4), 3.0), r(4), r(4))
case("layer_norm of infinities", lambda x, w, b: F.layer_norm(x, (4,), w, b), [[1.0, inf, 2.0, 3.0], [1.0, 2.0, nan, 3.0], [1.0, 2.0, 3.0, 5.0]], r(4), r(4))
case("batch_norm of NaN", lambda x: F.batch_norm(x, None, None, None, None, True), [[nan, 1.0], [2.0, 3.0], [1.0, 7.0]])
case("gather", lambda x, i: x.gather(1, i), r(2, 3), [[0, 2, 2, 1], [1, 1, 1, 0]])
case("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 1), r(2, 3), [[0, 2, 2, 1]])
case("scatter", lambda x, i, s: x.scatter(1, i, s), r(2, 3), [[0, 2], [1, 0]], r(2, 2))
case("scatter_value", lambda x, i: x.scatter(1, i, 2.5), r(2, 3), [[0, 2], [1, 1]])
case("scatter_add", lambda x, i, s: x.scatter_add(1, i, s), r(2, 3), [[0, 2, 0, 0], [1, 1, 2, 1]], r(2, 4))
case("index_add", lambda x, i, s: x.index_add(0, i, s), r(3, 2), [0, 2, 2, 0], r(4, 2))
case("masked_fill low", lambda x, m: x.masked_fill(m.bool(), -1e9), [[1.0, inf], [nan, 2.0]], [[0, 1], [1, 0]])
for mode in ("sum", "mean", "max"):
    case("embedding_bag " + mode, lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, padding_idx=None if mode == "sum" else 1),
         r(4, 3), [0, 3, 1, 1, 2, 3, 0, 1], [0, 2, 2, 7])
case("embedding_padding", lambda w, i: F.embedding(i, w, padding_idx=2), [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [[2, 0], [2, 1], [0, 0]])

with open("norm.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
