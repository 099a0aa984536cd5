"""Writes schedules.json: learning rates, and momenta where they change, of two groups at the start and after each of 14 steps of
PyTorch's schedules; and what ReduceLROnPlateau does with a list of metrics. Run: python3 schedules.py"""

import json

import torch
from torch.optim import lr_scheduler as S

cases = []
METRICS = [5, 4, 4, 3.9999, 4.2, 3, 3, 3, 3, 2.99, 3.5, float("nan"), 2.5, 2.5, 2.5, 2.5, 2.5, 2.5]


def optimizer():
    a, b = (torch.zeros(1, requires_grad=True) for _ in range(2))
    return torch.optim.SGD([dict(params=[a]), dict(params=[b], lr=0.02)], lr=0.1, momentum=0.9)


def case(name, make, steps=14):
    opt = optimizer()
    schedule = make(opt)
    rows = []
    for step in range(steps + 1):
        rows.append([g["lr"] for g in opt.param_groups] + [g["momentum"] for g in opt.param_groups])
        if step < steps:
            opt.step()
            schedule.step()
    cases.append(dict(name=name, rows=rows))


def plateau(name, **settings):
    opt = optimizer()
    schedule = S.ReduceLROnPlateau(opt, **settings)
    rows = []
    for metric in METRICS:
        schedule.step(metric)
        rows.append([g["lr"] for g in opt.param_groups])
    cases.append(dict(name=name, rows=rows))


case("step", lambda o: S.StepLR(o, 4, 0.3))
case("multistep", lambda o: S.MultiStepLR(o, [3, 7, 7, 11], 0.5))
case("exponential", lambda o: S.ExponentialLR(o, 0.9))
case("constant", lambda o: S.ConstantLR(o, 0.25, 4))
case("linear", lambda o: S.LinearLR(o, 0.1, 0.9, 6))
case("cosine", lambda o: S.CosineAnnealingLR(o, 5, 0.01))
case("warm restarts", lambda o: S.CosineAnnealingWarmRestarts(o, 4, 1, 0.001))
case("warm restarts longer", lambda o: S.CosineAnnealingWarmRestarts(o, 2, 2))
case("lambda", lambda o: S.LambdaLR(o, [lambda e: 0.95**e, lambda e: 1 / (1 + e)]))
case("one cycle", lambda o: S.OneCycleLR(o, 0.5, total_steps=15))
case("one cycle linear", lambda o: S.OneCycleLR(o, [0.5, 0.1], total_steps=15, pct_start=0.4, anneal_strategy="linear",
                                                base_momentum=0.7, max_momentum=0.8, div_factor=10, final_div_factor=100))
case("one cycle three", lambda o: S.OneCycleLR(o, 0.5, total_steps=15, three_phase=True, cycle_momentum=False))
case("sequential", lambda o: S.SequentialLR(o, [S.LinearLR(o, 0.1, 1.0, 4), S.CosineAnnealingLR(o, 6), S.StepLR(o, 1, 0.5)], [4, 10]))
case("polynomial", lambda o: S.PolynomialLR(o, 6, 2.0))
case("multiplicative", lambda o: S.MultiplicativeLR(o, [lambda e: 0.9, lambda e: 1 - 1 / (e + 3)]))
case("cyclic", lambda o: S.CyclicLR(o, 0.01, 0.2, 4))
case("cyclic triangular2", lambda o: S.CyclicLR(o, [0.01, 0.1], [0.2, 0.05], 3, 2, mode="triangular2", base_momentum=0.7, max_momentum=0.95))
case("cyclic range", lambda o: S.CyclicLR(o, 0.01, 0.2, 2, 3, mode="exp_range", gamma=0.9, cycle_momentum=False))
case("cyclic function", lambda o: S.CyclicLR(o, 0.01, 0.2, 2, scale_fn=lambda c: 1 / (c + 1), scale_mode="cycle"))
case("chained", lambda o: S.ChainedScheduler([S.ConstantLR(o, 0.1, 3), S.ExponentialLR(o, 0.9), S.CosineAnnealingLR(o, 20), S.PolynomialLR(o, 30, 0.5)]))
plateau("plateau", factor=0.5, patience=2)
plateau("plateau max", mode="max", factor=0.5, patience=3, cooldown=2, min_lr=[0.03, 0.001])
plateau("plateau absolute", factor=0.1, patience=1, threshold=0.5, threshold_mode="abs", eps=0.005)

with open("schedules.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
