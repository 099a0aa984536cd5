"""Writes memoryformat.json: what PyTorch says of memory formats, and the strides of results.

    python3 memoryformat.py >memoryformat.json

It was made with PyTorch 1.13. Layouts are shapes and strides with is_contiguous in both formats, and the format of which operations on images make
their results, as seen in the result of interpolate. Results are operations on tensors of given shapes and strides, and the strides of what they make.
Singles are the same of images with dimensions of one element, in which strides leave the order open, and of empty ones.
"""
import itertools
import json
import random

import torch
import torch.nn.functional as F

random.seed(1)
LAST = torch.channels_last


def strided(shape, strides):
    size = 1 + sum(max(n - 1, 0) * s for n, s in zip(shape, strides))
    return torch.arange(max(size, 1), dtype=torch.float32).as_strided(shape, strides)


def some():
    """A shape and strides: of one format or the other, sliced, permuted, or odd where there is one element."""
    shape = [random.choice([1, 1, 2, 3, 4]) for _ in range(4)]
    x = torch.empty([n + random.choice([0, 0, 2]) for n in shape])
    if random.random() < 0.6:
        x = x.to(memory_format=LAST)
    x = x[tuple(slice(0, n) for n in shape)]
    if random.random() < 0.2:
        x = x.permute(random.sample(range(4), 4))
    strides = list(x.stride())
    for d, n in enumerate(x.shape):
        if n == 1 and random.random() < 0.3:
            strides[d] = random.choice([0, 1, 3, 7, 60])
    return list(x.shape), strides


layouts = []
for _ in range(400):
    shape, strides = some()
    x = strided(shape, strides)
    out = F.interpolate(x, scale_factor=2)
    layouts.append([shape, strides, x.is_contiguous(), x.is_contiguous(memory_format=LAST), out.stride()[1] == 1])

ONE = {
    "AddScalar": lambda x: x + 1, "ReLU": torch.relu, "To": lambda x: x.double(), "EmptyLike": torch.empty_like, "ZerosLike": torch.zeros_like,
    "Clone": torch.clone, "MaxPool2d": lambda x: F.max_pool2d(x, 2), "AvgPool2d": lambda x: F.avg_pool2d(x, 2),
    "AdaptiveAvgPool2d": lambda x: F.adaptive_avg_pool2d(x, (2, 3)), "UpsampleNearest2d": lambda x: F.interpolate(x, scale_factor=2),
    "UpsampleBilinear2d": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), "Pad": lambda x: F.pad(x, (1, 2, 0, 1)), "Flip": lambda x: x.flip(2),
    "BatchNorm": lambda x: F.batch_norm(x, None, None, training=True), "Conv2d": lambda x: F.conv2d(x, torch.ones(4, x.shape[1], 3, 3), padding=1),
    "Conv2dLast": lambda x: F.conv2d(x, torch.ones(4, x.shape[1], 3, 3).to(memory_format=LAST), padding=1), "Softmax": lambda x: x.softmax(1),
}
TWO = {"Add": torch.add, "Where": lambda x, y: torch.where(x > 0, x, y), "Cat": lambda x, y: torch.cat([x, y], 1), "Lerp": lambda x, y: torch.lerp(x, y, 0.5)}
FORMS = {
    "first": lambda *s: torch.ones(s), "last": lambda *s: torch.ones(s).to(memory_format=LAST), "cut": lambda *s: torch.ones(s[0], s[1] + 1, *s[2:]).to(memory_format=LAST)[:, :-1],
    "one": lambda *s: torch.ones(1, s[1], 1, 1), "scalar": lambda *s: torch.ones(()), "none": lambda *s: torch.ones(0, *s[1:]).to(memory_format=LAST),
}
results = []
for name, f in ONE.items():
    for form, shape in itertools.product(["first", "last", "cut"], [(2, 3, 4, 5), (1, 4, 6, 4), (2, 8, 3, 3)]):
        x = FORMS[form](*shape)
        out = f(x)
        results.append([name, [[list(x.shape), list(x.stride())]], list(out.stride())])
for name, f in TWO.items():
    for a, b in itertools.product(["first", "last", "cut", "one", "scalar"], repeat=2):
        if name == "Cat" and {"one", "scalar"} & {a, b}:
            continue
        x, y = FORMS[a](2, 3, 4, 5), FORMS[b](2, 3, 4, 5)
        out = f(x, y)
        if out.dim() == 4:
            results.append([name, [[list(v.shape), list(v.stride())] for v in (x, y)], list(out.stride())])

SINGLES = [
    ((2, 1, 4, 5), (20, 1, 5, 1)), ((1, 1, 4, 5), (20, 1, 5, 1)), ((2, 3, 1, 1), (3, 1, 3, 3)), ((2, 3, 1, 1), (3, 1, 1, 1)), ((1, 3, 1, 1), (3, 1, 3, 3)),
    ((2, 1, 1, 1), (1, 1, 1, 1)), ((8, 1, 3, 3), (9, 1, 3, 1)), ((8, 8, 1, 1), (8, 1, 8, 8)), ((2, 3, 1, 5), (15, 1, 15, 3)), ((2, 3, 4, 1), (12, 1, 3, 3)),
    ((1, 3, 4, 5), (7, 1, 15, 3)), ((2, 1, 4, 5), (20, 7, 5, 1)), ((2, 1, 4, 5), (40, 3, 10, 2)), ((2, 3, 4, 5), (120, 1, 30, 6)), ((2, 3, 4, 5), (60, 1, 15, 3)),
    ((2, 3, 4, 5), (60, 20, 5, 1)), ((0, 3, 4, 5), (60, 1, 15, 3)), ((0, 3, 4, 5), (60, 20, 5, 1)), ((2, 1, 2, 3, 4), (24, 1, 12, 4, 1)),
    ((8, 1, 3, 3, 3), (27, 1, 9, 3, 1)), ((2, 3, 1, 1, 1), (3, 1, 3, 3, 3)), ((2, 3, 2, 3, 4), (72, 1, 36, 12, 3)),
    ((2, 3, 1, 1, 4), (12, 1, 12, 3, 3)),
]
UNARY = {
    "Neg": torch.neg, "Exp": torch.exp, "Sqrt": torch.sqrt, "Reciprocal": torch.reciprocal, "Sin": torch.sin, "Abs": torch.abs, "Floor": torch.floor, "Square": torch.square,
    "Sigmoid": torch.sigmoid, "Logit": torch.logit, "ReLU": torch.relu, "GELU": F.gelu, "SiLU": F.silu, "Softplus": F.softplus, "ELU": F.elu, "LeakyReLU": lambda x: F.leaky_relu(x, 0.1),
    "Hardtanh": F.hardtanh, "ReLU6": F.relu6, "Softshrink": F.softshrink, "IsNaN": torch.isnan, "IsFinite": torch.isfinite, "IsFiniteOfIntegers": lambda x: torch.isfinite(x.int()),
    "Not": torch.logical_not, "PowScalar": lambda x: x**3, "Clamp": lambda x: x.clamp(0, 1), "AddScalar": lambda x: x + 1, "SubScalar": lambda x: x - 1,
    "MulScalar": lambda x: x * 2, "DivScalar": lambda x: x / 2, "RSubScalar": lambda x: 1 - x, "RDivScalar": lambda x: 1 / x, "RPowScalar": lambda x: 2**x,
    "FmodScalar": lambda x: torch.fmod(x, 2), "GtScalar": lambda x: x > 0, "AddScalarOfIntegers": lambda x: x.int() + 1.5, "ExpOfIntegers": lambda x: x.int().exp(),
    "FloorOfIntegers": lambda x: x.int().floor(), "To": lambda x: x.double(), "ToHalf": lambda x: x.half(), "ToBool": lambda x: x.bool(), "Clone": torch.clone,
    "EmptyLike": torch.empty_like, "OnesLike": torch.ones_like, "Flip": lambda x: x.flip(2), "FlipNone": lambda x: x.flip(()), "Sort": lambda x: x.sort(1)[0], "ArgSort": lambda x: x.argsort(2),
    "TopK": lambda x: x.topk(1, 1)[0], "AddSelf": lambda x: x + x, "Dropout": lambda x: F.dropout(x, 0.5),
}
singles = []
for name, f in UNARY.items():
    for shape, strides in SINGLES:
        if name == "TopK" and 0 in shape or name in ("IsFinite", "Dropout") and strides in [(40, 3, 10, 2), (7, 1, 15, 3)] or name == "Dropout" and 0 in shape:
            continue  # the latter are made of steps, of which the second finds other strides; dropout of nothing is the tensor itself
        singles.append([name, [[shape, strides]], list(f(strided(shape, strides)).stride())])

empty = []
for shape in [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5), (2, 3, 4, 0), (1, 0, 1, 1), (0, 1, 4, 5), (0, 0, 0, 0)]:
    for x in (torch.empty(shape), torch.empty(shape, memory_format=LAST)):
        empty.append([shape, list(x.stride()), x.is_contiguous(), x.is_contiguous(memory_format=LAST), list(x.to(memory_format=LAST).stride())])

print("{\"layouts\": [")
print(",\n".join(json.dumps(x) for x in layouts))
print("], \"results\": [")
print(",\n".join(json.dumps(x) for x in results))
print("], \"singles\": [")
print(",\n".join(json.dumps(x) for x in singles))
print("], \"empty\": [")
print(",\n".join(json.dumps(x) for x in empty))
print("]}")
