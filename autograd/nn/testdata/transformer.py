"""Writes transformer.json: what torch.nn.TransformerEncoderLayer computes in float64, with the gradients of its input and parameters
for the sum of the squares of the result. Run: python3 transformer.py"""

import json

import torch

torch.manual_seed(0)
cases = []


def flat(t):
    return dict(shape=list(t.shape), data=[float(x) for x in t.detach().double().flatten()])


def case(name, shape, causal=False, **options):
    m = torch.nn.TransformerEncoderLayer(4, 2, 6, 0.0, dtype=torch.float64, **options)
    for p in m.parameters():
        torch.nn.init.normal_(p, std=0.5)
    x = torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    n = shape[1 if options.get("batch_first") else 0]
    mask = torch.ones(n, n, dtype=torch.bool).triu(1) if causal else None
    out = m(x, mask)
    out.square().sum().backward()
    cases.append(
        dict(
            name=name, causal=causal, gelu=options.get("activation") == "gelu", norm_first=options.get("norm_first", False),
            batch_first=options.get("batch_first", False), input=flat(x), input_grad=flat(x.grad), out=flat(out),
            parameters={n: flat(p) for n, p in m.named_parameters()}, grads={n: flat(p.grad) for n, p in m.named_parameters()},
        )
    )


case("defaults", (3, 2, 4))
case("norm first, gelu, causal", (2, 3, 4), causal=True, norm_first=True, activation="gelu", batch_first=True)
case("causal", (3, 2, 4), causal=True)

with open("transformer.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
