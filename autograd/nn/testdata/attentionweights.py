"""Writes attentionweights.json: what torch.nn.MultiheadAttention gives with need_weights in float64, with the gradients of its input and parameters
for the sum of the squares of both results. Run: python3 attentionweights.py"""

import json

import torch

torch.manual_seed(0)
cases = []


def flat(t):
    return dict(shape=list(t.shape), data=[float(x) for x in t.detach().double().flatten()], bool=t.dtype == torch.bool)


def case(name, shape, average, key=None, attn=None, padding=None, **options):
    m = torch.nn.MultiheadAttention(4, 2, dtype=torch.float64, **options)
    for p in m.parameters():
        torch.nn.init.normal_(p, std=0.5)
    x = torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    k = torch.randn(*key, dtype=torch.float64) if key else x
    out, weights = m(x, k, k, average_attn_weights=average, attn_mask=attn, key_padding_mask=padding)
    (out.square().sum() + weights.square().sum()).backward()
    cases.append(dict(
        name=name, average=average, batch_first=options.get("batch_first", False), kdim=options.get("kdim", 4), input=flat(x), key=flat(k),
        attn=None if attn is None else flat(attn), padding=None if padding is None else flat(padding), cross=key is not None,
        out=flat(out), weights=flat(weights), input_grad=flat(x.grad), parameters={n: flat(p) for n, p in m.named_parameters()},
        grads={n: flat(p.grad) for n, p in m.named_parameters()},
    ))


causal = torch.ones(3, 3, dtype=torch.bool).triu(1)
padding = torch.tensor([[False, False, True], [False, False, False]])
case("self", (3, 2, 4), True)
case("heads", (3, 2, 4), False, attn=causal, padding=padding)
case("batch first", (2, 3, 4), True, attn=torch.randn(3, 3, dtype=torch.float64), padding=padding, batch_first=True)
case("alone", (3, 4), False, attn=causal)
case("cross", (3, 2, 4), True, key=(5, 2, 6), kdim=6, vdim=6)

with open("attentionweights.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
