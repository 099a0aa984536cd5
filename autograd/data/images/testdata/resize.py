"""Writes resize.json: images made larger and smaller by PyTorch's F.interpolate, in float32 and, as torchvision does, rounded for uint8.
The images are those of the function image in resize_test.go. Run: python3 resize.py"""

import json

import torch
import torch.nn.functional as F


def image(c, h, w):
    i = torch.arange(c * h * w)
    return ((i * 37 + i * i % 101 + i // w * 11) % 256).to(torch.uint8).reshape(c, h, w)


def interpolate(x, size, name):
    if name == "nearest":
        return F.interpolate(x, size=size, mode="nearest")
    return F.interpolate(x, size=size, mode="bilinear", align_corners=False, antialias=name == "antialias")


cases = []
for c, h, w in [(3, 7, 9), (1, 16, 12), (1, 5, 1)]:
    for size in [(7, 9), (3, 4), (14, 5), (1, 1), (20, 31), (8, 6)]:
        for name in ["antialias", "bilinear", "nearest"]:
            x = image(c, h, w)[None].float()
            out = interpolate(x / 255, size, name)
            whole = interpolate(x, size, name).round().clamp(0, 255).to(torch.uint8)
            cases.append(dict(filter=name, image=[c, h, w], size=list(size),
                              float=[round(v, 8) for v in out.flatten().tolist()], uint8=whole.flatten().tolist()))

with open("resize.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
