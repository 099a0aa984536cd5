"""Writes parametrize.json: what layers with weight norm and spectral norm compute in PyTorch in float64, in a pass of training with gradients and
after eval(), their state before and after, and the weight that removing them leaves. Names are those of torch.nn.utils.parametrizations, which
versions before 2.1 do not have for weight norm. Run: python3 parametrize.py"""

import json

import torch
from torch import nn
from torch.nn.utils import remove_weight_norm, weight_norm
from torch.nn.utils.parametrizations import spectral_norm
from torch.nn.utils.parametrize import remove_parametrizations

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
cases = []


def flat(t):
    return dict(shape=list(t.shape), data=[float(x) for x in t.detach().double().flatten()])


def name(n):
    return n.replace("weight_g", "parametrizations.weight.original0").replace("weight_v", "parametrizations.weight.original1")


def state(m):
    return {name(n): flat(t) for n, t in m.state_dict().items()}


def case(label, m, shape, remove):
    for p in m.parameters():
        nn.init.normal_(p)
    x = torch.randn(*shape, requires_grad=True)
    c = dict(name=label, state=state(m), input=flat(x))
    out = m(x)
    out.square().sum().backward()
    c.update(out=flat(out), input_grad=flat(x.grad), grads={name(n): flat(p.grad) for n, p in m.named_parameters()}, after=state(m))
    m.eval()
    c["eval"] = flat(m(x))
    remove(m)
    c["weight"] = flat(m.weight)
    cases.append(c)


def unparametrize(m):
    remove_parametrizations(m, "weight")


case("weight norm linear", weight_norm(nn.Linear(3, 4)), (2, 3), remove_weight_norm)
case("weight norm linear dim 1", weight_norm(nn.Linear(3, 4), dim=1), (2, 3), remove_weight_norm)
case("weight norm linear whole", weight_norm(nn.Linear(3, 4), dim=None), (2, 3), remove_weight_norm)
case("weight norm conv2d", weight_norm(nn.Conv2d(2, 3, 2)), (2, 2, 3, 3), remove_weight_norm)
case("spectral norm linear", spectral_norm(nn.Linear(3, 4)), (2, 3), unparametrize)
case("spectral norm conv2d", spectral_norm(nn.Conv2d(2, 3, 2), n_power_iterations=2), (2, 2, 3, 3), unparametrize)
case("spectral norm convtranspose1d", spectral_norm(nn.ConvTranspose1d(2, 3, 2)), (2, 2, 3), unparametrize)
case("spectral norm layernorm", spectral_norm(nn.LayerNorm(3)), (2, 3), unparametrize)

with open("parametrize.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
