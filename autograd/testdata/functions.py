"""Writes functions.json: values and gradients that PyTorch gives for functions that are made of other operations here. Run: python3 functions.py"""

import torch
import torch.nn.functional as F

from cases import case, inf, ints, nan, rand, write

torch.manual_seed(13)
case("pixel_shuffle 2", lambda x: F.pixel_shuffle(x, 2), rand(2, 8, 2, 3))
case("pixel_shuffle 3", lambda x: F.pixel_shuffle(x, 3), rand(9, 1, 2))
case("pixel_shuffle 2", lambda x: F.pixel_shuffle(x, 2), rand(0, 4, 2, 2), grads=False)
case("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), rand(2, 2, 4, 6))
case("channel_shuffle", lambda x: F.channel_shuffle(x, 3), rand(2, 6, 1, 2), grads=False)
for k in (1, 2, 3, 4, -1):
    case(f"rot90 {k}", lambda x, k=k: torch.rot90(x, k, (0, -1)), rand(2, 3))
case("unflatten", lambda x: x.unflatten(1, (2, -1)), rand(2, 6))
case("windows 2 1", lambda x: x.unfold(1, 2, 1), rand(2, 5))
case("windows 3 2", lambda x: x.unfold(-2, 3, 2), rand(6, 2))
case("take", lambda x, i: torch.take(x, i), rand(2, 3), ints([[5, 0], [-1, 5]]))
case("masked_scatter", lambda x, m, s: x.masked_scatter(m > 0, s), rand(2, 3), ints([[1, 0, 1], [0, 1, 1]]), rand(3, 2))
case("masked_scatter", lambda x, m, s: x.masked_scatter(m > 0, s), rand(2, 3), ints([0, 0, 1]), rand(2))
case("masked_scatter", lambda x, m, s: x.masked_scatter(m > 0, s.detach()), rand(2), ints([0, 0]), torch.zeros(0))
case("unfold 2", lambda x: F.unfold(x, 2), rand(2, 3, 4, 3))
settings = dict(dilation=(2, 1), padding=(1, 2), stride=(1, 2))
case("unfold all", lambda x: F.unfold(x, (3, 2), **settings), rand(1, 2, 4, 3))
case("unfold all", lambda x: F.unfold(x, (3, 2), **settings), rand(2, 4, 3))
case("fold all", lambda x: F.fold(x, (4, 3), (3, 2), **settings), rand(1, 12, 2 * 3))
case("fold all", lambda x: F.fold(x, (4, 3), (3, 2), **settings), rand(12, 2 * 3))
case("glu -1", lambda x: F.glu(x), rand(2, 4))
case("glu 0", lambda x: F.glu(x, 0), torch.tensor([[nan, inf, -inf], [0.0, 800.0, -800.0]]))
case("softmin", lambda x: F.softmin(x, 0), rand(2, 4))
case("clamp_to both", lambda x, a, b: torch.clamp(x, a, b), rand(3, 4), rand(4), rand(3, 1))
case("clamp_to both", lambda x, a, b: torch.clamp(x, a, b), torch.tensor([nan, 1.0, 1.0, 0.0, 1.0, 5.0]), torch.tensor([0.0, nan, 0.0, 1.0, 1.0, 3.0]), torch.tensor([1.0, 1.0, nan, 2.0, 1.0, 2.0]))
case("clamp_to lo", lambda x, a: torch.clamp(x, a), rand(3, 4), rand(4))
case("clamp_to hi", lambda x, a: torch.clamp(x, max=a), rand(3, 4), rand(4))
case("trace", lambda x: torch.trace(x), rand(2, 3))
case("kron", lambda a, b: torch.kron(a, b), rand(2, 1, 3), rand(2, 2))
case("kron", lambda a, b: torch.kron(a, b), rand(2), rand(3))
case("cross -1", lambda a, b: torch.linalg.cross(a, b), rand(2, 3), rand(2, 3))
case("cross 0", lambda a, b: torch.linalg.cross(a, b, dim=0), rand(3, 2), rand(3, 1))
case("nan_to_num", lambda x: x.nan_to_num(0.5, 3, -inf), torch.tensor([[nan, inf, -inf], [0.0, 800.0, -2.0]]))
write("functions.json")
