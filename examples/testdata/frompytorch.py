"""The training loop that docs/from-pytorch.md shows beside ours, and the values of calls in its tables.

Run it with PyTorch 1.13: python3 frompytorch.py. It trains for two epochs on the batches of frompytorch_test.go, and writes
frompytorch.json, with which arguments_test.go compares the calls that stand beside these.
"""

import json
import pathlib

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


CALLS = [
    "x.flatten(1)", "x.transpose(0, 1)", "x.repeat_interleave(2, 0)", "x.chunk(2)", "x.flip(0)", "x.tril()", "x.triu()", "F.pad(x, (1, 1))",
    "x[:, 2]", "x[:, ::2]", "2 - x", "1 / x", "x ** 2", "x % y", "x.round()", "torch.lerp(x, y, 0.5)", "x.add_(y)",
    "F.gelu(x)", "F.silu(x)", "F.softplus(x)", "F.leaky_relu(x, 0.01)", "F.softmax(x, -1)",
    "x.sum()", "x.sum(1)", "x.sum((0, 1), keepdim=True)", "x.std(1)", "x.var(1)", "x.amax(1)", "x.argmax(1)", "x.norm()",
    "x.cumsum(1)", "x.sort(1)", "x.argsort(1)", "x.median()", "x.quantile(0.5, 1)", "torch.histc(x)", "x @ y",
    "F.mse_loss(x, y)", "F.l1_loss(x, y)", "F.smooth_l1_loss(x, y)", "F.huber_loss(x, y)",
    "F.binary_cross_entropy_with_logits(x, y)", "F.kl_div(x, y)",
]


def values():
    """What each call makes of two matrices; of several results the first."""
    a = torch.tensor([[0.5, -1.25, 2.0], [3.5, 0.25, -0.75], [1.5, 2.5, -2.0]])
    b = torch.tensor([[0.25, 0.75, 0.5], [0.125, 0.875, 0.625], [1.0, 0.375, 0.0625]])
    results = {}
    for call in CALLS:
        r = eval(call, {"torch": torch, "F": F, "x": a.clone(), "y": b.clone()})
        r = r[0] if isinstance(r, tuple) else r
        results[call] = {"shape": list(r.shape), "values": r.double().flatten().tolist()}
    return {"x": a.flatten().tolist(), "y": b.flatten().tolist(), "results": results}


if __name__ == "__main__":
    labels = torch.arange(128) % 10
    images = torch.zeros(128, 784)
    images[torch.arange(128), labels] = 1
    dataset = torch.utils.data.TensorDataset(images, labels)
    training_loop("cpu", torch.utils.data.DataLoader(dataset, 32), 2)
    with open(pathlib.Path(__file__).with_suffix(".json"), "w") as f:
        json.dump(values(), f)
        f.write("\n")
