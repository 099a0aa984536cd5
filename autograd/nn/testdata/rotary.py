"""Writes rotary.json: rotary embedding of float32 rows as models in PyTorch compute it, with the angles of Hugging Face's LLaMA. Run: python3 rotary.py"""

import json

import torch


def rotated(x, positions, dim, base, interleaved):
    """x is [B, H, L, D], positions [B, L]; the first dim elements of each row are turned."""
    frequencies = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
    angles = positions[:, None, :, None].float() * frequencies
    part, rest = x[..., :dim], x[..., dim:]
    if interleaved:
        turn = torch.polar(torch.ones_like(angles), angles)
        part = torch.view_as_real(torch.view_as_complex(part.reshape(*part.shape[:-1], -1, 2)) * turn).flatten(-2)
    else:
        twice = torch.cat((angles, angles), -1)
        a, b = part.chunk(2, -1)
        part = part * twice.cos() + torch.cat((-b, a), -1) * twice.sin()
    return torch.cat((part, rest), -1)


cases = []
torch.manual_seed(0)
x = torch.randn(2, 2, 3, 8)
for interleaved in (False, True):
    for dim, base in ((8, 10000.0), (4, 500000.0)):
        for positions in ([[0, 1, 2]] * 2, [[900, 901, 902]] * 2, [[5, 6, 7], [0, 17, 1023]]):
            out = rotated(x, torch.tensor(positions), dim, base, interleaved)
            cases.append(dict(dim=dim, base=base, interleaved=interleaved, positions=positions, input=x.flatten().tolist(), out=out.flatten().tolist()))
with open("rotary.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
