"""Writes convolutions.json: values and gradients that PyTorch gives of convolutions, pooling and resampling.
Run: python3 convolutions.py"""

import json
import math

import torch
import torch.nn.functional as F

cases = []
torch.manual_seed(0)


def number(x):
    return x if math.isfinite(x) else str(x)


def flat(t):
    return [number(x) for x in t.detach().double().flatten().tolist()]


def random(*shape):
    return (torch.randn(*shape, dtype=torch.float64) * 100).round() / 100


def case(name, f, *inputs, dtype=torch.float64, gradient=True):
    leaves = [i.detach().clone().to(dtype).requires_grad_() for i in inputs]
    out = f(*leaves)
    # Not the plain sum, whose gradient is the same everywhere.
    (out * torch.arange(1, out.numel() + 1, dtype=dtype).reshape(out.shape)).sum().backward()
    cases.append(
        dict(
            name=name,
            dtype=str(dtype).split(".")[1],
            inputs=[dict(shape=list(t.shape), data=flat(t), int=False) for t in leaves],
            out=flat(out), shape=list(out.shape),
            grads=[flat(t.grad) if gradient else None for t in leaves],
        )
    )


case("conv1d", lambda x, w: F.conv1d(x, w, stride=2, padding=1), random(2, 3, 7), random(4, 3, 3))
case("conv1d same", lambda x, w, b: F.conv1d(x, w, b, padding="same", dilation=2), random(2, 3, 7), random(2, 3, 4), random(2))
case("conv2d", lambda x, w, b: F.conv2d(x, w, b, padding=1), random(2, 3, 5, 4), random(4, 3, 3, 3), random(4))
case("conv2d all", lambda x, w, b: F.conv2d(x, w, b, (2, 1), (2, 3), (1, 3), 2), random(1, 4, 6, 7), random(2, 2, 3, 2), random(2))
case("conv2d same", lambda x, w: F.conv2d(x, w, padding="same"), random(1, 2, 3, 4), random(2, 2, 2, 4))
case("conv2d depthwise", lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=3), random(2, 3, 5, 6), random(6, 1, 3, 3))
case("conv2d one image", lambda x, w: F.conv2d(x, w), random(2, 4, 4), random(3, 2, 1, 1))
case("conv2d no images", lambda x, w, b: F.conv2d(x, w, b), random(0, 2, 4, 4), random(3, 2, 3, 3), random(3))
case("conv_transpose1d", lambda x, w, b: F.conv_transpose1d(x, w, b, 2, 1, 1), random(2, 3, 4), random(3, 2, 3), random(2))
case("conv_transpose2d", lambda x, w, b: F.conv_transpose2d(x, w, b, (2, 3), (1, 0), (1, 2), 2, (2, 1)), random(2, 4, 3, 2), random(4, 2, 3, 2), random(4))
case("conv_transpose2d one image", lambda x, w: F.conv_transpose2d(x, w), random(2, 2, 3), random(2, 1, 2, 2))
plane = random(2, 2, 7, 6)
plane[0, 0, 2, 3], plane[0, 1, 6, 5], plane[1, 0, 0, 0] = math.nan, math.inf, -math.inf
case("max_pool1d", lambda x: F.max_pool1d(x, 3, 2, 1), random(2, 2, 7))
case("max_pool2d", lambda x: F.max_pool2d(x, 2), plane)
case("max_pool2d padded", lambda x: F.max_pool2d(x, 3, 2, 1), plane)
case("max_pool2d ceil", lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), plane)
case("max_pool2d dilated", lambda x: F.max_pool2d(x, (2, 3), (1, 2), (1, 0), (3, 2)), plane)
case("max_pool2d equal", lambda x: F.max_pool2d(x, 3, 1, 1), torch.zeros(1, 1, 4, 4))
case("max_pool2d lowest", lambda x: F.max_pool2d(x, 3, 2, 1), torch.full((1, 1, 4, 4), -math.inf))
case("adaptive_max_pool1d", lambda x: F.adaptive_max_pool1d(x, 3), random(2, 2, 7))
case("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (3, 4)), plane)
case("adaptive_max_pool2d larger", lambda x: F.adaptive_max_pool2d(x, (9, 8)), plane)
plane = random(2, 2, 7, 6)
case("avg_pool1d", lambda x: F.avg_pool1d(x, 3, 2, 1), random(2, 2, 7))
case("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), plane)
case("avg_pool2d excluded", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), plane)
case("avg_pool2d ceil", lambda x: F.avg_pool2d(x, (3, 4), (2, 3), 1, ceil_mode=True), plane)
case("avg_pool2d ceil excluded", lambda x: F.avg_pool2d(x, (3, 4), (2, 3), 1, ceil_mode=True, count_include_pad=False), plane)
case("avg_pool2d divisor", lambda x: F.avg_pool2d(x, 2, divisor_override=3), plane)
case("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 3), random(2, 2, 7))
case("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (3, 4)), plane)
case("adaptive_avg_pool2d global", lambda x: F.adaptive_avg_pool2d(x, 1), plane)
case("adaptive_avg_pool2d larger", lambda x: F.adaptive_avg_pool2d(x, (9, 8)), plane)
small = random(1, 2, 3, 5)
case("upsample_nearest2d", lambda x: F.interpolate(x, scale_factor=2), small)
case("upsample_nearest2d size", lambda x: F.interpolate(x, size=(7, 4)), small)
case("upsample_nearest2d scale", lambda x: F.interpolate(x, scale_factor=(1.7, 0.7)), small)
case("upsample_nearest2d recomputed", lambda x: F.interpolate(x, scale_factor=(1.7, 0.7), recompute_scale_factor=True), small)
# The gradient for the processor treats results of the image's size, or twice that, as if the scale were 1 or 2; the function itself
# does not.
case("upsample_nearest2d nearly", lambda x: F.interpolate(x, scale_factor=1.1), small, gradient=False)
for dtype in (torch.float64, torch.float32):
    suffix = " " + str(dtype).split(".")[1]
    case("upsample_bilinear2d" + suffix, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), small, dtype=dtype)
    case("upsample_bilinear2d aligned" + suffix, lambda x: F.interpolate(x, size=(7, 4), mode="bilinear", align_corners=True), small, dtype=dtype)
case("upsample_bilinear2d size", lambda x: F.interpolate(x, size=(2, 9), mode="bilinear"), small)
case("upsample_bilinear2d scale", lambda x: F.interpolate(x, scale_factor=(1.7, 0.7), mode="bilinear"), small)
case("upsample_bilinear2d recomputed", lambda x: F.interpolate(x, scale_factor=(1.7, 0.7), mode="bilinear", recompute_scale_factor=True), small)
case("upsample_bilinear2d nearly", lambda x: F.interpolate(x, scale_factor=1.1, mode="bilinear"), small)
case("upsample_nearest2d twice", lambda x: F.interpolate(x, scale_factor=2.1), small[:, :, :2, :3], gradient=False)
case("upsample_bilinear2d one", lambda x: F.interpolate(x, size=(1, 1), mode="bilinear", align_corners=True), small)

with open("convolutions.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
