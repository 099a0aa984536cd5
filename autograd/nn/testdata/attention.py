"""Writes attention.json: what torch.nn.MultiheadAttention computes in float64, with the gradients of its operands and parameters
for the sum of the squares of the result. Run: python3 attention.py"""

import json

import torch

torch.manual_seed(0)
cases = []


def flat(t):
    return dict(shape=list(t.shape), data=[float(x) for x in t.detach().double().flatten()])


def case(name, embed, heads, shapes, masks=(), **options):
    m = torch.nn.MultiheadAttention(embed, heads, dtype=torch.float64, **options)
    for p in m.parameters():  # PyTorch starts biases at 0
        torch.nn.init.normal_(p, std=0.5)
    given = [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in shapes]
    q, k, v = given if len(given) == 3 else given * 3
    out, _ = m(q, k, v, need_weights=False, **dict(masks))
    out.square().sum().backward()
    cases.append(
        dict(
            name=name, embed=embed, heads=heads, batch_first=options.get("batch_first", False), bias=options.get("bias", True),
            kdim=options.get("kdim") or embed, vdim=options.get("vdim") or embed,
            masks={n: dict(flat(t), bool=t.dtype == torch.bool) for n, t in dict(masks).items()},
            given=[flat(t) for t in given], given_grads=[flat(t.grad) for t in given], out=flat(out),
            parameters={n: flat(p) for n, p in m.named_parameters()}, grads={n: flat(p.grad) for n, p in m.named_parameters()},
        )
    )


padding = torch.tensor([[False, False, True], [False, False, False]])
causal = torch.ones(3, 3, dtype=torch.bool).triu(1)
case("self", 4, 2, [(3, 2, 4)])
case("self, batch first", 4, 2, [(2, 3, 4)], batch_first=True)
case("self, no batch, no bias", 4, 1, [(3, 4)], bias=False)
case("self, padding", 4, 2, [(3, 2, 4)], dict(key_padding_mask=padding))
case("self, causal and padding", 4, 2, [(2, 3, 4)], dict(attn_mask=causal, key_padding_mask=padding), batch_first=True)
case("self, mask of each head", 4, 2, [(3, 2, 4)], dict(attn_mask=torch.randn(4, 3, 3, dtype=torch.float64)))
case("cross", 4, 2, [(3, 2, 4), (5, 2, 4), (5, 2, 4)])
case("cross, float mask", 4, 2, [(3, 2, 4), (5, 2, 4), (5, 2, 4)], dict(attn_mask=torch.randn(3, 5, dtype=torch.float64)))
case("cross, other widths", 4, 2, [(2, 3, 4), (2, 3, 3), (2, 3, 2)], dict(key_padding_mask=padding), kdim=3, vdim=2, batch_first=True)
case("cross, no batch", 4, 2, [(3, 4), (5, 4), (5, 4)], dict(attn_mask=torch.rand(2, 3, 5) > 0.6))

with open("attention.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
