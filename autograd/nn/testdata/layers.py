"""Writes layers.json: values and gradients of PyTorch's layers of two inputs, of pooling and its inverse, and of the adaptive softmax, in float64, with their
descriptions and parameters. The gradient is that of the sum of the results times 0.5, 1, 1.5 and so on. Run: python3 layers.py"""

import json

import torch
from torch import nn

torch.manual_seed(5)
torch.set_default_dtype(torch.float64)
cases = []


def tensor(t):
    return dict(shape=list(t.shape), data=t.detach().double().flatten().tolist(), int=not t.is_floating_point())


def case(name, m, *inputs, f=None, text=None):
    leaves = [i.detach().clone().requires_grad_() if i.is_floating_point() else i for i in inputs]
    out = (f or m)(*leaves)
    out = [o for o in (out if isinstance(out, tuple) else (out,))]
    total = 0
    for o in out:
        if o.requires_grad:
            total = total + (o * (torch.arange(o.numel()) * 0.5 + 0.5).reshape(o.shape)).sum()
    if torch.is_tensor(total):
        total.backward()
    cases.append(dict(name=name, text=text or str(m), inputs=[tensor(i) for i in inputs], outputs=[tensor(o) for o in out],
                      grads=[tensor(i.grad) if i.requires_grad and i.grad is not None else None for i in leaves],
                      state=[dict(name=n, value=tensor(p), grad=tensor(p.grad if p.grad is not None else torch.zeros_like(p))) for n, p in m.named_parameters()]))


case("bilinear", nn.Bilinear(3, 2, 5), torch.randn(4, 3), torch.randn(4, 2))
case("bilinear no bias", nn.Bilinear(3, 2, 5, bias=False), torch.randn(2, 4, 3), torch.randn(2, 4, 2))
case("cosine similarity", nn.CosineSimilarity(), torch.randn(2, 3, 2), torch.randn(2, 3, 2))
case("cosine similarity of rows", nn.CosineSimilarity(dim=-1, eps=1e-3), torch.randn(2, 3), torch.randn(3))
case("pairwise distance", nn.PairwiseDistance(), torch.randn(2, 3), torch.randn(2, 3))
case("pairwise distance kept", nn.PairwiseDistance(p=3, eps=1e-3, keepdim=True), torch.randn(2, 3), torch.randn(2, 3))
case("rrelu", nn.RReLU(0.1, 0.5).eval(), torch.randn(3, 4))
case("lp pool 1d", nn.LPPool1d(3, 2), torch.randn(2, 3, 7).abs())
case("lp pool 2d", nn.LPPool2d(2, (2, 3), stride=(1, 2), ceil_mode=True), torch.randn(1, 2, 4, 6).abs())
image = torch.randperm(2 * 2 * 6 * 7).double().reshape(2, 2, 6, 7)
for name, m in {"max pool": nn.MaxPool2d((3, 2), stride=(2, 1), padding=1, return_indices=True), "max pool ceil": nn.MaxPool2d(2, ceil_mode=True, return_indices=True)}.items():
    case(name, m, image)
case("max pool 1d", nn.MaxPool1d(2, return_indices=True), image[0])
pool, back = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)
values, at = pool(image)
case("max unpool", back, *pool(image[..., :6].contiguous()))
case("max unpool sized", back, values, at, f=lambda x, i: back(x, i, output_size=(6, 7)))
strided = nn.MaxUnpool2d((3, 2), stride=(3, 2), padding=(1, 0))
values, at = nn.MaxPool2d((3, 2), stride=(3, 2), padding=(1, 0), return_indices=True)(image)
case("max unpool padded", strided, values, at, f=lambda x, i: strided(x, i, output_size=(6, 7)))
line = nn.MaxUnpool1d(3, stride=2)
values, at = nn.MaxPool1d(3, stride=2, return_indices=True)(image[0])
case("max unpool 1d", line, values, at)
case("flatten", nn.Flatten(0, 1), torch.randn(2, 3, 2))
case("upsampling nearest", nn.UpsamplingNearest2d(scale_factor=2), torch.randn(1, 2, 2, 3), text="UpsamplingNearest2d(scale_factor=2.0, mode='nearest')")  # as PyTorch 2 writes it
case("upsampling bilinear", nn.UpsamplingBilinear2d(size=(3, 5)), torch.randn(1, 2, 2, 3), text="UpsamplingBilinear2d(size=(3, 5), mode='bilinear')")
adaptive = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2, head_bias=True)
x, target = torch.randn(6, 8), torch.tensor([0, 11, 3, 6, 2, 7])
case("adaptive softmax", adaptive, x, target)
adaptive.zero_grad()
case("adaptive softmax alone", adaptive, x[0], torch.tensor(5))
adaptive.zero_grad()
case("adaptive softmax log prob", adaptive, x, f=adaptive.log_prob)
adaptive.zero_grad()
case("adaptive softmax predict", adaptive, x, f=adaptive.predict)
with open("layers.json", "w") as f:
    json.dump(cases, f, separators=(",", ":"))
