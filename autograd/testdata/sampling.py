"""Writes sampling.json: images sampled and resampled by PyTorch. Run: python3 sampling.py"""

import torch
import torch.nn.functional as F

from cases import case, rand, write

torch.manual_seed(16)
for mode in ("bilinear", "nearest", "bicubic"):
    for padding in ("zeros", "border", "reflection"):
        for align in (False, True):
            case(f"grid_sample {mode} {padding} {align}", lambda x, g, m=mode, p=padding, a=align: F.grid_sample(x, g if m != "nearest" else g.detach(), m, p, a), rand(2, 2, 3, 4), rand(2, 3, 2, 2) * 1.3)
edges = torch.tensor([[[[-1.0, -1.0], [1.0, 1.0], [0.0, 0.0], [-1.0, 1.0], [-0.5, 0.5]]]])
for align in (False, True):
    case(f"grid_sample bilinear zeros {align}", lambda x, g, a=align: F.grid_sample(x, g, align_corners=a), rand(1, 1, 3, 3), edges)
    case(f"grid_sample nearest border {align}", lambda x, g, a=align: F.grid_sample(x, g.detach(), "nearest", "border", a), rand(1, 1, 3, 3), edges)
    case(f"grid_sample bilinear border {align}", lambda x, g, a=align: F.grid_sample(x, g, "bilinear", "border", a), rand(1, 1, 1, 3), edges)
    case(f"affine_grid {align}", lambda t, a=align: F.affine_grid(t, (2, 1, 3, 4), a), rand(2, 2, 3))
    case(f"affine_grid one {align}", lambda t, a=align: F.affine_grid(t, (1, 1, 1, 2), a), rand(1, 2, 3))
case("grid_sample bilinear zeros False", lambda x, g: F.grid_sample(x, g, align_corners=False), rand(1, 1, 2, 2), torch.tensor([[[[5.0, 0.0], [-1.0, 1e6]]]]))
for align in (False, True):
    case(f"linear1d {align}", lambda x, a=align: F.interpolate(x, 7, mode="linear", align_corners=a), rand(2, 2, 4))
    case(f"bicubic {align}", lambda x, a=align: F.interpolate(x, (5, 3), mode="bicubic", align_corners=a), rand(1, 2, 3, 4))
    case(f"trilinear {align}", lambda x, a=align: F.interpolate(x, (3, 4, 2), mode="trilinear", align_corners=a), rand(1, 2, 2, 3, 3))
case("linear1d scale", lambda x: F.interpolate(x, scale_factor=1.7, mode="linear"), rand(1, 1, 5))
case("linear1d scale", lambda x: F.interpolate(x, scale_factor=1.7, mode="linear"), rand(1, 1, 1))
case("bicubic scale", lambda x: F.interpolate(x, scale_factor=(2, 0.6), mode="bicubic"), rand(1, 1, 3, 5))
case("trilinear scale", lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), rand(1, 1, 2, 1, 3))
case("nearest1d", lambda x: F.interpolate(x, scale_factor=1.7), rand(2, 1, 5))
case("nearest3d", lambda x: F.interpolate(x, (3, 4, 2)), rand(1, 2, 2, 3, 3))
case("bicubic False", lambda x: F.interpolate(x, (5, 3), mode="bicubic", align_corners=False), rand(1, 1, 3, 3), dtype=torch.float32, grads=False)
write("sampling.json")
