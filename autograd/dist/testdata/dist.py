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
    if name.split()[0] in ("normal", "bernoulli", "uniform", "exponential", "laplace", "lognormal", "geometric", "poisson", "gamma", "dirichlet", "beta", "multivariate", "mixture"):
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

positive = lambda *shape, seed=0: numbers(*shape, lo=0.2, hi=3, seed=seed)
unit = lambda *shape, seed=0: numbers(*shape, lo=0.05, hi=0.95, seed=seed)
counts = torch.tensor([[0.0, 1, 4], [7, 2, 0]], dtype=torch.float64)
case("exponential", lambda r: D.Exponential(r), [positive(3)], positive(2, 3, seed=2), other=[positive(3, seed=4)])
case("laplace", lambda m, s: D.Laplace(m, s), [numbers(3, 2), numbers(2, seed=1, **scale)], numbers(4, 3, 2, seed=2),
     other=[numbers(2, seed=4), numbers(3, 1, seed=5, **scale)])
case("lognormal", lambda m, s: D.LogNormal(m, s), [numbers(3), numbers(3, seed=1, **scale)], positive(2, 3, seed=2),
     other=[numbers(3, seed=4), numbers(3, seed=5, **scale)])
case("geometric", lambda p: D.Geometric(p), [unit(3)], counts, other=[unit(3, seed=4)])
case("poisson", lambda r: D.Poisson(r), [positive(3)], counts, entropy=False, other=[positive(3, seed=4)])
case("gamma", lambda a, b: D.Gamma(a, b), [positive(3, 2), positive(2, seed=1)], positive(4, 3, 2, seed=2), other=[positive(3, 1, seed=4), positive(2, seed=5)])
probs = unit(3, 2, 4, seed=2)
case("dirichlet", lambda a: D.Dirichlet(a), [positive(2, 4)], probs / probs.sum(-1, keepdim=True), other=[positive(2, 4, seed=4)])
case("beta", lambda a, b: D.Beta(a, b), [positive(3, 2), positive(2, seed=1)], unit(4, 3, 2, seed=2), other=[positive(3, 1, seed=4), positive(2, seed=5)])


def factor(*batch, seed):
    a = numbers(*batch, 3, 3, seed=seed).tril(-1)
    return a + torch.diag_embed(numbers(*batch, 3, seed=seed + 1, **scale))


case("multivariate", lambda m, l: D.MultivariateNormal(m, scale_tril=l.tril()), [numbers(2, 1, 3), factor(4, seed=1)], numbers(5, 2, 4, 3, seed=2),
     other=[numbers(4, 3, seed=4), factor(seed=5)])
case("mixture", lambda w, m, s: D.MixtureSameFamily(D.Categorical(logits=w), D.Normal(m, s)), [numbers(2, 3), numbers(2, 3, seed=1), numbers(2, 3, seed=2, **scale)],
     numbers(4, 2, seed=3), entropy=False)
case("mixture of vectors", lambda w, m, s: D.MixtureSameFamily(D.Categorical(logits=w), D.Independent(D.Normal(m, s), 1)),
     [numbers(3), numbers(3, 2, seed=1), numbers(3, 2, seed=2, **scale)], numbers(4, 2, seed=3), entropy=False)

with open("dist.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
