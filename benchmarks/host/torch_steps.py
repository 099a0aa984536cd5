"""Whole steps of PyTorch's side of benchmarks/host, before torch_host.py: the models, optimizers and batches of steps.go."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

vocabulary, length, context = 1024, 128, 512


def attention(q, k, v, later=None, dropout=0.0):
    if hasattr(F, "scaled_dot_product_attention"):  # since PyTorch 2.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=later is not None)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if later is not None:
        scores = scores.masked_fill(later, -math.inf)
    weights = scores.softmax(-1)
    return (F.dropout(weights, dropout) if dropout > 0 else weights) @ v


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.drop = heads, nn.Dropout(dropout)
        self.dropped = dropout  # of attention's weights
        self.norm1, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm2, self.fc1, self.fc2 = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x, later, cache, at):
        n, t, c = x.shape
        q, k, v = (p.view(n, t, self.heads, c // self.heads).transpose(1, 2) for p in self.qkv(x).split(c, 2))
        if cache is not None:
            cache[0][:, :, at : at + t], cache[1][:, :, at : at + t] = k, v
            k, v = cache[0][:, :, : at + t], cache[1][:, :, : at + t]
        return self.drop(self.out(attention(q, k, v, later, self.dropped if self.training else 0.0).transpose(1, 2).reshape(n, t, c)))

    def forward(self, x, later=None, cache=None, at=0):
        x = x + self.attend(self.norm1(x), later, cache, at)
        return x + self.drop(self.fc2(F.gelu(self.fc1(self.norm2(x)))))


class GPT(nn.Module):
    """Its output matrix is the embedding."""

    def __init__(self, dropout, layers=4, width=256, heads=4):
        super().__init__()
        self.tokens, self.drop = nn.Embedding(vocabulary, width), nn.Dropout(dropout)
        self.positions = nn.Parameter(torch.randn(context, width) * 0.02)
        self.layers = nn.ModuleList([Block(width, heads, dropout) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.register_buffer("later", torch.ones(context, context, dtype=torch.bool).triu(1))

    def forward(self, x, caches=None, at=0):
        t = x.shape[1]
        h = self.drop(self.tokens(x) + self.positions[at : at + t])
        later = self.later[:t, :t] if t > 1 else None
        for i, layer in enumerate(self.layers):
            h = layer(h, later, None if caches is None else caches[i], at)
        return F.linear(self.norm(h), self.tokens.weight)


def conv(i, o, size, stride=1):
    return nn.Conv2d(i, o, size, stride, size // 2, bias=False)


class Residual(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.branch = nn.Sequential(conv(i, o, 3, stride), nn.BatchNorm2d(o), nn.ReLU(inplace=True), conv(o, o, 3), nn.BatchNorm2d(o))
        self.shortcut = nn.Sequential(conv(i, o, 1, stride), nn.BatchNorm2d(o)) if i != o or stride != 1 else None

    def forward(self, x):
        past = x if self.shortcut is None else self.shortcut(x)
        y = self.branch(x)
        y += past
        return F.relu(y, inplace=True)


def resnet18():
    layers, i = [conv(3, 64, 3), nn.BatchNorm2d(64), nn.ReLU(inplace=True)], 64
    for stage, o in enumerate((64, 128, 256, 512)):
        for block in range(2):
            layers.append(Residual(i, o, 2 if stage > 0 and block == 0 else 1))
            i = o
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Labeller(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(128, 256, 2, batch_first=True), nn.Linear(256, 64)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


def training(model, classes, x, shape, optimizer=None):
    y = torch.randint(classes, shape).reshape(-1)
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        loss = F.cross_entropy(model(x).reshape(-1, classes), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return step


def mlp():
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return training(model, 10, torch.rand(128, 784), (128,))


def images():
    model = resnet18()
    return training(model, 10, torch.rand(16, 3, 32, 32), (16,), torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9))


def gpt(dropout):
    return training(GPT(dropout), vocabulary, torch.randint(vocabulary, (8, length)), (8, length))


def decoding():
    model, past = GPT(0).eval(), 3 * length
    caches = [[torch.zeros(1, 4, context, 64) for _ in range(2)] for _ in model.layers]
    token = torch.randint(vocabulary, (1, 1))

    def step():
        with torch.no_grad():
            return model(token, caches, past)[:, -1].argmax(-1).item()

    with torch.no_grad():
        model(torch.randint(vocabulary, (1, past)), caches)
    return step


trainings = {
    "step mlp": mlp, "step resnet18": images, "step gpt": lambda: gpt(0.0), "step gpt with dropout": lambda: gpt(0.1), "decode gpt": decoding,
    "step lstm": lambda: training(Labeller(), 64, torch.rand(16, 64, 128), (16, 64)),
}
