"""Writes updatebn.json: statistics by torch.optim.swa_utils.update_bn, and a Polyak average. Run: python3 updatebn.py"""

import json

import torch
from torch import nn
from torch.optim.swa_utils import update_bn

torch.set_default_dtype(torch.float64)
m = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3, momentum=0.3), nn.ReLU(), nn.BatchNorm1d(3))
with torch.no_grad():
    for k, p in enumerate(m.parameters()):
        p.copy_(torch.arange(p.numel()).reshape(p.shape) * 0.37 % 1 - 0.3 + 0.1 * k)
x = torch.arange(30).reshape(15, 2) * 0.61 % 2 - 1
m.train()
m(x)  # statistics that are forgotten
m[3].eval()
update_bn([x[:6], x[6:12], x[12:]], m)
assert m.training and m[1].momentum == 0.3
flat = lambda t: t.double().flatten().tolist()
out = dict(x=flat(x), parameters={n: flat(p.detach()) for n, p in m.named_parameters()}, buffers={n: flat(b) for n, b in m.named_buffers()})
with open("updatebn.json", "w") as f:
    f.write(json.dumps(out) + "\n")
