"""Writes processors.json: logits after what Hugging Face's logits processors compute, in PyTorch. The formulas are those that its documentation and
the papers give. Run: python3 processors.py"""

import json
import math

import torch

torch.manual_seed(3)


def top_k(x, k):
    least = torch.topk(x, min(k, x.shape[-1]))[0][..., -1, None]
    return x.masked_fill(x < least, -math.inf)


def top_p(x, p):
    ascending, places = torch.sort(x, descending=False, stable=True)
    total = ascending.softmax(-1).cumsum(-1)
    out = total <= 1 - p
    out[..., -1:] = 0
    return x.masked_fill(out.scatter(-1, places, out), -math.inf)


def penalty(x, tokens, by):
    of = torch.gather(x, -1, tokens)
    return x.scatter(-1, tokens, torch.where(of < 0, of * by, of / by))


def number(x):
    return x if math.isfinite(x) else str(x)


cases = []
rows = torch.randn(3, 12) * 2
rows[1, 4:7] = rows[1, 3]  # equal ones
rows[2, ::2] = -math.inf
tokens = torch.tensor([[0, 5, 5], [11, 3, 4], [1, 3, 7]])
for s in (
    dict(temperature=0.7), dict(temperature=1.5), dict(top_k=1), dict(top_k=4), dict(top_k=100), dict(top_p=0.5), dict(top_p=0.9), dict(top_p=1.0), dict(top_p=1e-9),
    dict(penalty=1.3), dict(penalty=0.8), dict(penalty=1.2, temperature=0.8, top_k=6, top_p=0.8), dict(top_k=3, top_p=0.4), dict(),
):
    x = rows
    if "penalty" in s:
        x = penalty(x, tokens, s["penalty"])
    if "temperature" in s:
        x = x / s["temperature"]
    if "top_k" in s:
        x = top_k(x, s["top_k"])
    if "top_p" in s:
        x = top_p(x, s["top_p"])
    flat = lambda t: [number(v) for v in t.flatten().tolist()]
    cases.append(dict(sampler=s, logits=flat(rows), tokens=tokens.flatten().tolist(), out=flat(x), probabilities=flat(x.softmax(-1))))
with open("processors.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
