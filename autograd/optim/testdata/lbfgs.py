"""Writes lbfgs.json: losses, parameters and evaluations of six steps of torch.optim.LBFGS, of a valley (Rosenbrock's function) and of a bowl.
Run: python3 lbfgs.py"""

import json

import torch

cases = []


def valley(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def bowl(x):
    k = torch.arange(1, 6, dtype=x.dtype)
    return (k * (x - 1) ** 2 / 2 + x**4 / 4).sum()


def case(name, f, dtype, **settings):
    a = torch.tensor([-1.2, 1.0], dtype=dtype, requires_grad=True)
    b = torch.tensor([[0.5], [-0.7], [1.1]], dtype=dtype, requires_grad=True)
    opt = torch.optim.LBFGS([a, b], **settings)

    def closure():
        opt.zero_grad()
        loss = f(torch.cat([a, b.flatten()]))
        loss.backward()
        return loss

    rows = []
    for _ in range(6):
        loss = float(opt.step(closure))
        rows.append([loss, float(opt.state[a]["func_evals"])] + a.tolist() + b.flatten().tolist())
    cases.append(dict(name=name, dtype=str(dtype).split(".")[1], rows=rows))


f32, f64 = torch.float32, torch.float64
case("valley wolfe", valley, f64, max_iter=5, line_search_fn="strong_wolfe")
case("valley wolfe short history", valley, f64, lr=0.5, max_iter=4, history_size=3, line_search_fn="strong_wolfe")
case("valley", valley, f64, lr=0.05, max_iter=3)
case("bowl", bowl, f64, lr=0.8, max_iter=4)
case("bowl to the end", bowl, f64)
case("bowl few evaluations", bowl, f64, lr=0.5, max_iter=9, max_eval=3)
case("bowl tolerance", bowl, f64, max_iter=3, tolerance_grad=1e-2, tolerance_change=1e-3, line_search_fn="strong_wolfe")
case("bowl", bowl, f32, lr=0.8, max_iter=4)
case("bowl tolerance", bowl, f32, max_iter=3, tolerance_grad=1e-2, tolerance_change=1e-3, line_search_fn="strong_wolfe")

with open("lbfgs.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
