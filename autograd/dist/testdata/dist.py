"""Writes dist.json: log probabilities, entropies, moments and divergences of torch.distributions, and their gradients for all parameters and
values. Run: python3 dist.py"""

import json

import torch
from torch import distributions as D

cases = []


def numbers(*shape, lo=-1.5, hi=1.5, seed=0):
    n = torch.Size(shape).numel()
    k = torch.arange(n, dtype=torch.float64)
    return (lo + (hi - lo) * torch.remainder(k * 0.37 + seed * 0.211 + 0.05, 1)).reshape(shape)


def flat(t):
    return dict(shape=list(t.shape), data=t.detach().double().flatten().tolist())


def weighted(t):
    """A sum in which every element has another weight."""
    return (t * numbers(*t.shape, lo=0.5, hi=2, seed=3)).sum()


def case(name, make, params, value, entropy=True, other=None):
    params = [p.requires_grad_() for p in params]
    if value.is_floating_point():
        value = value.requires_grad_()
    leaves = params + ([value] if value.requires_grad else [])
    d = make(*params)
    out = dict(name=name, params=[flat(p) for p in params], value=flat(value), whole=not value.is_floating_point())

    def result(key, t, of):
        grads = torch.autograd.grad(weighted(t), of, allow_unused=True, retain_graph=True)
        out[key] = dict(flat(t), grads=[flat(torch.zeros_like(p) if g is None else g) for p, g in zip(of, grads)])

    result("log_prob", d.log_prob(value), leaves)
    if entropy:
        result("entropy", d.entropy(), params)
    if name.split()[0] in ("normal", "bernoulli", "uniform"):
        out["mean"], out["variance"] = flat(d.mean), flat(d.variance)
    if other is not None:
        other = [p.requires_grad_() for p in other]
        out["other"] = [flat(p) for p in other]
        result("kl", D.kl_divergence(d, make(*other)), params + other)
    cases.append(out)


scale = dict(lo=0.3, hi=2)
case("normal", lambda m, s: D.Normal(m, s), [numbers(3, 2), numbers(2, seed=1, **scale)], numbers(4, 3, 2, seed=2),
     other=[numbers(2, seed=4), numbers(3, 1, seed=5, **scale)])
case("normal independent", lambda m, s: D.Independent(D.Normal(m, s), 1), [numbers(3, 2), numbers(3, 2, seed=1, **scale)], numbers(3, 2, seed=2),
     other=[numbers(3, 2, seed=4), numbers(3, 2, seed=5, **scale)])
case("tanh", lambda m, s: D.TransformedDistribution(D.Normal(m, s), [D.TanhTransform()]), [numbers(3), numbers(3, seed=1, **scale)],
     numbers(2, 3, lo=-0.95, hi=0.95, seed=2), entropy=False)
classes = torch.tensor([[0, 3], [1, 2], [3, 0]])
case("categorical", lambda l: D.Categorical(logits=l), [numbers(2, 4)], classes, other=[numbers(2, 4, seed=4)])
case("categorical probs", lambda p: D.Categorical(probs=p), [numbers(4, lo=0.1, hi=2)], classes, other=[numbers(4, seed=4, lo=0.1, hi=1)])
sure = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64)
case("categorical probs sure", lambda p: D.Categorical(probs=p), [sure], classes, other=[numbers(4, seed=4, lo=0.1, hi=1)])
case("bernoulli probs sure", lambda p: D.Bernoulli(probs=p), [sure.clone()], torch.tensor([1.0, 0, 1, 0], dtype=torch.float64),
     other=[numbers(4, seed=4, lo=0.1, hi=0.9)])
ones = torch.tensor([[0.0, 1, 1], [1, 0, 0]], dtype=torch.float64)
case("bernoulli", lambda l: D.Bernoulli(logits=l), [numbers(3, lo=-4, hi=4)], ones, other=[numbers(3, seed=4)])
case("bernoulli probs", lambda p: D.Bernoulli(probs=p), [numbers(3, lo=0.1, hi=0.9)], ones, other=[numbers(3, seed=4, lo=0.1, hi=0.9)])
case("uniform", lambda a, b: D.Uniform(a, b), [numbers(3, lo=-2, hi=-1), numbers(3, lo=0.5, hi=2)], numbers(2, 3, lo=-0.9, hi=0.4),
     other=[numbers(3, lo=-4, hi=-3), numbers(3, lo=2.5, hi=4)])

with open("dist.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
