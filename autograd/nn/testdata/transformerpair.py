"""Writes transformerpair.json: what torch.nn.Transformer computes in float64, with the gradients of inputs and parameters for the sum of the squares of
the result. Run: python3 transformerpair.py"""

import json

import torch
from torch import nn

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
cases = []


def flat(t):
    return dict(shape=list(t.shape), data=[float(x) for x in t.detach().double().flatten()], bool=t.dtype == torch.bool)


def case(name, m, call, batch_first=False):
    for p in m.parameters():
        nn.init.normal_(p, std=0.5)
    x = torch.randn(*((2, 5, 4) if batch_first else (5, 2, 4)), requires_grad=True)
    y = torch.randn(*((2, 3, 4) if batch_first else (3, 2, 4)), requires_grad=True)
    out = call(m, x, y)
    out.square().sum().backward()
    cases.append(dict(
        name=name, input=flat(y), memory=flat(x), out=flat(out), input_grad=flat(y.grad), memory_grad=flat(x.grad),
        parameters={n: flat(p) for n, p in m.named_parameters()}, grads={n: flat(p.grad) for n, p in m.named_parameters()},
    ))


causal = torch.ones(3, 3, dtype=torch.bool).triu(1)
padding = torch.tensor([[False, False, True], [False, False, False]])
behind = torch.tensor([[False, False, False, False, False], [False, False, True, True, True]])

case("plain", nn.Transformer(4, 2, 1, 1, 6, 0.0), lambda m, x, y: m(x, y))
case("masked", nn.Transformer(4, 2, 2, 1, 6, 0.0, activation="gelu", batch_first=True, norm_first=True),
     lambda m, x, y: m(x, y, tgt_mask=causal, src_key_padding_mask=behind, tgt_key_padding_mask=padding, memory_key_padding_mask=behind), True)

with open("transformerpair.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
