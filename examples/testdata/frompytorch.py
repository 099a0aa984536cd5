"""The training loop that docs/from-pytorch.md shows beside ours, and the names of its table.

Run it with PyTorch: python3 frompytorch.py. It trains for two epochs on the batches of frompytorch_test.go.
"""

import torch
from torch import nn
from torch.nn import functional as F


def training_loop(dev, batches, epochs):
    model = nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Dropout(0.1),
        nn.Linear(256, 10))
    model.to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.StepLR(opt, 10, 0.5)

    def step(x, y):
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1)
        opt.step()
        opt.zero_grad()

    for _ in range(epochs):
        for x, y in batches:
            step(x, y)
        sched.step()


if __name__ == "__main__":
    labels = torch.arange(128) % 10
    images = torch.zeros(128, 784)
    images[torch.arange(128), labels] = 1
    dataset = torch.utils.data.TensorDataset(images, labels)
    training_loop("cpu", torch.utils.data.DataLoader(dataset, 32), 2)
