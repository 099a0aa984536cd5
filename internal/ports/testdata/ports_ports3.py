"""Programs of ports.py: super resolution, a LLaMA, a diffusion model."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from ports import place, wave


class SuperResolutionNet(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.relu = nn.ReLU()
        self.conv1 = nn.Conv2d(1, 8, (5, 5), (1, 1), (2, 2))
        self.conv2 = nn.Conv2d(8, 8, (3, 3), (1, 1), (1, 1))
        self.conv3 = nn.Conv2d(8, 4, (3, 3), (1, 1), (1, 1))
        self.conv4 = nn.Conv2d(4, factor ** 2, (3, 3), (1, 1), (1, 1))
        self.pixel_shuffle = nn.PixelShuffle(factor)

    def forward(self, x):
        x = self.relu(self.conv1(x))
        x = self.relu(self.conv2(x))
        x = self.relu(self.conv3(x))
        return self.pixel_shuffle(self.conv4(x))


def superresolution():
    factor, batch, size, batches = 2, 2, 6, 2
    model = place(SuperResolutionNet(factor))
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def images(i):
        target = wave(i, 0.5, batch, 1, factor * size, factor * size) + 0.5
        return F.avg_pool2d(target, factor), target

    for epoch in range(3):
        for i in range(batches):
            optimizer.zero_grad()
            input, target = images(batches * epoch + i)
            loss = criterion(model(input), target)
            loss.backward()
            optimizer.step()
            yield loss.item(),
        psnr = 0
        with torch.no_grad():
            for i in range(batches):
                input, target = images(100 + i)
                psnr += 10 * math.log10(1 / criterion(model(input), target).item())
        yield psnr / batches,


programs = [superresolution]
