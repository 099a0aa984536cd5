"""Writes nan.json: gradients of PyTorch's operations at NaN and infinities. "nan", "inf" and "-inf" are texts.
Run: OMP_NUM_THREADS=1 python3 nan.py"""

import json
import math

import torch
import torch.nn.functional as F

nan, inf = math.nan, math.inf
torch.set_default_dtype(torch.float64)
rows = [[nan, -2, 2, 0.5], [1, nan, 3, nan], [inf, 2, 3, -1], [3, 1, 3, 1], [0, -inf, 0, 2], [nan, nan, nan, nan]]
limits = {"silu", "gelu", "gelu_tanh"}  # not compared at infinities: ours has the limit for GELU, and PyTorch NaN
products = [[nan, 2, 3], [inf, 2, 3], [0, 2, 3], [0, 0, 3], [inf, 0, 3], [nan, 0, 3], [nan, 0, 0], [inf, inf, 2], [inf, -inf, 2],
            [nan, nan, 2], [inf, 0, 0], [nan, inf, 0], [-1, 2, 3]]
one = {
    "relu": torch.relu, "relu_": lambda x: (x * 1).relu_(), "leaky_relu": F.leaky_relu, "elu": F.elu, "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "softplus": F.softplus,
    "clamp": lambda x: x.clamp(-1, 1), "abs": torch.abs, "sigmoid": torch.sigmoid, "tanh": torch.tanh,
    "amax": lambda x: torch.amax(x, 1), "amin": lambda x: torch.amin(x, 1), "max": lambda x: torch.max(x, 1)[0],
    "min": lambda x: torch.min(x, 1)[0], "norm_inf": lambda x: torch.linalg.vector_norm(x, inf, 1),
    "norm_1": lambda x: torch.linalg.vector_norm(x, 1, 1), "norm_2": lambda x: torch.linalg.vector_norm(x, 2, 1),
    "max_pool1d": lambda x: F.max_pool1d(x[None], 2)[0], "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x[None], 2)[0],
    "div_scalar": lambda x: x / 3, "linear_relu": lambda x: torch.relu(F.linear(x, torch.eye(4), torch.ones(4))),
}
whole = {"median": torch.median, "nanmedian": lambda x: torch.nanmedian(x, 1)[0], "median_dim": lambda x: torch.median(x, 1)[0],
         "kthvalue": lambda x: torch.kthvalue(x, 2, 1)[0], "cummax": lambda x: torch.cummax(x, 1)[0], "cummin": lambda x: torch.cummin(x, 1)[0],
         "quantile": lambda x: torch.quantile(x, 0.3), "norm_inf_all": lambda x: torch.linalg.vector_norm(x, inf)}
among = {"nanmedian", "kthvalue"}  # which of several that are NaN is left open
two = {"maximum": torch.maximum, "minimum": torch.minimum, "smooth_l1": lambda x, y: F.smooth_l1_loss(x, y, reduction="none"),
       "mse": lambda x, y: F.mse_loss(x, y, reduction="none")}


def number(v):
    return str(v) if math.isnan(v) or math.isinf(v) else v


def grads(f, *values):
    leaves = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in values]
    (f(*leaves) * 2).sum().backward()
    return [[number(v) for v in x.grad.flatten().tolist()] for x in leaves]


cases = []
for n, f in one.items():
    part = rows[:2] if n in limits else rows
    cases.append(dict(name=n, x=[[number(v) for v in r] for r in part], grads=grads(f, part)))
cases += [dict(name=n, x=[[number(v) for v in r] for r in rows], grads=grads(f, rows, rows[::-1])) for n, f in two.items()]
cases += [dict(name=n, x=[[number(v) for v in r]], grads=grads(f, [r])) for n, f in whole.items() for r in rows
          if n not in among or r != rows[-1]]
cases += [dict(name="prod", x=[[number(v) for v in r]], grads=grads(lambda x: x.prod(1), [r])) for r in products]

with open("nan.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
