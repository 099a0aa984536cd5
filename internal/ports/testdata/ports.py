"""Writes ports.json: what the programs of module/ log, written for PyTorch, in float64. Run: python3 ports.py"""

import importlib
import json
import math
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def wave(phase, scale, *shape):
    n = math.prod(shape)
    return torch.tensor([scale * math.sin(phase + 0.7 * i) for i in range(n)]).reshape(shape)


def place(model):
    """Weights as port.go has them."""
    for name, p in model.named_parameters():
        phase = 0.0
        for c in name.encode():
            phase += 0.1 * c
        scale = 0.8 / math.sqrt(math.prod(p.shape[1:])) if p.dim() > 1 else 0.1
        center = 1.0 if p.dim() <= 1 and name.endswith("weight") else 0.0
        with torch.no_grad():
            p.copy_(wave(phase, scale, *p.shape) + center)
    return model


def dcgan():
    batch, latent, features = 4, 6, 4
    generator = place(nn.Sequential(
        nn.ConvTranspose2d(latent, 2 * features, 2, bias=False), nn.BatchNorm2d(2 * features), nn.ReLU(),
        nn.ConvTranspose2d(2 * features, features, 4, 2, 1, bias=False), nn.BatchNorm2d(features), nn.ReLU(),
        nn.ConvTranspose2d(features, 3, 4, 2, 1, bias=False), nn.Tanh()))
    discriminator = place(nn.Sequential(
        nn.Conv2d(3, features, 4, 2, 1, bias=False), nn.LeakyReLU(0.2),
        nn.Conv2d(features, 2 * features, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * features), nn.LeakyReLU(0.2),
        nn.Conv2d(2 * features, 1, 2, bias=False), nn.Sigmoid()))
    opt_d = torch.optim.Adam(discriminator.parameters(), 0.002, (0.5, 0.999))
    opt_g = torch.optim.Adam(generator.parameters(), 0.002, (0.5, 0.999))
    for i in range(4):
        real, fake = torch.ones(batch), torch.zeros(batch)
        discriminator.zero_grad()
        loss_real = F.binary_cross_entropy(discriminator(wave(i, 1, batch, 3, 8, 8)).reshape(-1), real)
        loss_real.backward()
        made = generator(wave(10 + i, 1, batch, latent, 1, 1))
        loss_fake = F.binary_cross_entropy(discriminator(made.detach()).reshape(-1), fake)
        loss_fake.backward()
        opt_d.step()
        generator.zero_grad()
        loss_g = F.binary_cross_entropy(discriminator(made).reshape(-1), real)
        loss_g.backward()
        opt_g.step()
        yield loss_real.item(), loss_fake.item(), loss_g.item()


programs = [dcgan]

if __name__ == "__main__":
    for path in sorted(Path(__file__).parent.glob("ports_*.py")):
        programs.extend(importlib.import_module(path.stem).programs)
    logs = {f.__name__: [x for step in f() for x in step] for f in programs}
    (Path(__file__).resolve().parent / "ports.json").write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in logs.items()) + "\n}\n")
