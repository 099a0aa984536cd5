"""PyTorch's examples vae, word_language_model (LSTM, Transformer) and time_sequence_prediction; see ports.py."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from ports import place, wave


class VAE(nn.Module):
    def __init__(self, pixels, hidden, latent):
        super().__init__()
        self.fc1 = nn.Linear(pixels, hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, pixels)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar, eps):
        std = torch.exp(0.5 * logvar)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x, eps):
        mu, logvar = self.encode(x.view(x.size(0), -1))
        return self.decode(self.reparameterize(mu, logvar, eps)), mu, logvar


def vae_loss(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x.view(x.size(0), -1), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce, kld


def vae():
    batch, side, hidden, latent = 5, 4, 12, 3
    model = place(VAE(side * side, hidden, latent))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def images(i):
        return wave(i, 0.5, batch, 1, side, side) + 0.5

    model.train()
    for i in range(5):
        x = images(i)
        optimizer.zero_grad()
        recon, mu, logvar = model(x, wave(20 + i, 1, batch, latent))
        bce, kld = vae_loss(recon, x, mu, logvar)
        loss = bce + kld
        loss.backward()
        optimizer.step()
        yield loss.item(), bce.item(), kld.item()

    model.eval()
    with torch.no_grad():
        x = images(9)
        recon, mu, logvar = model(x, wave(30, 1, batch, latent))
        bce, kld = vae_loss(recon, x, mu, logvar)
        sample = model.decode(wave(40, 1, 8, latent)).view(8, 1, side, side)
        yield (bce + kld).item(), recon[0, 0].item(), sample.std().item(), sample.mean().item()


programs = [vae]
