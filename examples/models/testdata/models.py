"""Writes models.json: the parameters of the models in PyTorch, and what small ones compute in float64: logits in training, the
gradients of their cross-entropy, and logits in evaluation mode after that. Run: python3 models.py"""

import json
import math

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        )
        if i != o or stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        past = self.shortcut(x) if hasattr(self, "shortcut") else x
        return F.relu(self.branch(x) + past)


class Bottleneck(Residual):
    def __init__(self, i, width, stride):
        nn.Module.__init__(self)
        o = 4 * width
        self.branch = nn.Sequential(
            nn.Conv2d(i, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, o, 1, bias=False), nn.BatchNorm2d(o),
        )
        if i != o or stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))


class ResNet(nn.Module):
    def __init__(self, channels, classes, widths, stages, bottleneck=False):
        super().__init__()
        if bottleneck:  # and for large images
            first = [nn.Conv2d(channels, widths[0], 7, 2, 3, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        else:
            first = [nn.Conv2d(channels, widths[0], 3, 1, 1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU()]
        self.stem = nn.Sequential(*first)
        body, i = [], widths[0]
        for stage, (width, blocks) in enumerate(zip(widths, stages)):
            for block in range(blocks):
                body.append((Bottleneck if bottleneck else Residual)(i, width, 2 if stage > 0 and block == 0 else 1))
                i = 4 * width if bottleneck else width
        self.body = nn.Sequential(*body)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(i, classes))

    def forward(self, x):
        return self.head(self.body(self.stem(x)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm2, self.fc1, self.fc2 = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        n, t, c = x.shape
        q, k, v = (p.view(n, t, self.heads, -1).transpose(1, 2) for p in self.qkv(x).split(c, 2))
        scores = q @ k.transpose(2, 3) / math.sqrt(c // self.heads)
        later = torch.ones(t, t, dtype=torch.bool).triu(1)
        y = scores.masked_fill(later, -math.inf).softmax(3) @ v
        return self.out(y.transpose(1, 2).reshape(n, t, c))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, vocab, context, layers, width, heads, tied=False):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Parameter(torch.empty(context, width))
        self.layers = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        if not tied:
            self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, x):
        h = self.norm(self.layers(self.tokens(x) + self.positions[: x.shape[1]]))
        return self.head(h) if hasattr(self, "head") else F.linear(h, self.tokens.weight)


def wave(n, start=0):
    """Values that both sides can make: see the test."""
    return torch.tensor([math.sin(1 + 0.37 * k + k % 5) for k in range(start, start + n)], dtype=torch.float64)


def describe(model):
    return [dict(name=n, shape=list(p.shape)) for n, p in model.named_parameters()]


def case(name, model, x, classes):
    model, k = model.double(), 0
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(wave(p.numel(), k).view_as(p) / 2)
            k += p.numel()
    train = model(x)
    F.cross_entropy(train.reshape(-1, train.shape[-1]), classes).backward()
    model.eval()
    return dict(
        name=name,
        parameters=describe(model),
        input=x.double().flatten().tolist(),
        shape=list(x.shape),
        classes=classes.tolist(),
        out_shape=list(train.shape),
        train=train.flatten().tolist(),
        gradients={n: p.grad.flatten().tolist() for n, p in model.named_parameters()},
        eval=model(x).flatten().tolist(),
    )


def count(model):
    return sum(p.numel() for p in model.parameters())


small = [
    case("resnet", ResNet(2, 3, [2, 3], [2, 2]), 3 * wave(2 * 2 * 5 * 4).view(2, 2, 5, 4), torch.tensor([2, 0])),
    case("gpt", GPT(7, 5, 2, 4, 2), torch.tensor([[3, 6, 0, 1], [1, 1, 5, 2]]), torch.tensor([6, 0, 1, 4, 1, 5, 2, 3])),
    case("bottleneck", ResNet(2, 3, [2, 3], [2, 1], True), 3 * wave(2 * 2 * 9 * 12).view(2, 2, 9, 12), torch.tensor([2, 0])),
    case("gpt tied", GPT(7, 5, 2, 4, 2, True), torch.tensor([[3, 6, 0, 1], [1, 1, 5, 2]]), torch.tensor([6, 0, 1, 4, 1, 5, 2, 3])),
]
counts = {
    "resnet18": count(ResNet(3, 10, [64, 128, 256, 512], [2, 2, 2, 2])),
    "resnet of three stages": count(ResNet(1, 10, [16, 32, 64], [1, 1, 1])),
    "resnet50": count(ResNet(3, 1000, [64, 128, 256, 512], [3, 4, 6, 3], True)),
    "gpt of the benchmark": count(GPT(8192, 256, 6, 384, 6)),
    "gpt2": count(GPT(50257, 1024, 12, 768, 12, True)),
}
with open("models.json", "w") as f:
    json.dump(dict(cases=small, counts=counts), f)
print(counts)
