"""Writes gamma.json: for some concentrations a and values z, the derivative dz/da of the quantile: differences of torch.special.gammainc divided by
the density. Run: python3 gamma.py"""

import json

import torch

rows = []
for a in (0.05, 0.3, 1.0, 2.5, 8.0, 40.0, 300.0):
    for k in (-1.5, -0.5, 0.0, 0.7, 2.0):
        z = a * max(0.2, 1 - 1 / (9 * a) + k / (3 * a**0.5)) ** 3 if a > 1 else a * 3.0**k
        h = 1e-4 * a
        at = lambda b: torch.special.gammainc(torch.tensor(b, dtype=torch.float64), torch.tensor(z, dtype=torch.float64)).item()
        slope = (8 * (at(a + h) - at(a - h)) - (at(a + 2 * h) - at(a - 2 * h))) / (12 * h)
        density = torch.distributions.Gamma(torch.tensor(a, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64)).log_prob(torch.tensor(z, dtype=torch.float64)).exp().item()
        rows.append([a, z, -slope / density])
with open("gamma.json", "w") as f:
    f.write(json.dumps(rows) + "\n")
