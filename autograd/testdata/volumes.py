"""Writes volumes.json: convolutions and pooling of volumes by PyTorch. Run: python3 volumes.py"""

import torch
import torch.nn.functional as F

from cases import case, inf, nan, rand, write

torch.manual_seed(17)
case("conv3d plain", lambda x, w: F.conv3d(x, w), rand(2, 2, 3, 3, 4), rand(3, 2, 2, 2, 3))
case("conv3d bias", lambda x, w, b: F.conv3d(x, w, b, stride=2, padding=1), rand(2, 2, 3, 2, 3), rand(2, 2, 3, 2, 2), rand(2))
case("conv3d all", lambda x, w, b: F.conv3d(x, w, b, stride=(2, 1, 2), padding=(1, 2, 0), dilation=(2, 1, 1), groups=2), rand(4, 4, 2, 3), rand(2, 2, 2, 3, 2), rand(2))
case("conv3d same", lambda x, w: F.conv3d(x, w, padding="same"), rand(1, 1, 3, 2, 3), rand(1, 1, 2, 3, 2))
case("max_pool3d plain", lambda x: F.max_pool3d(x, 2), rand(1, 2, 4, 4, 5))
case("max_pool3d all", lambda x: F.max_pool3d(x, (3, 2, 2), (2, 1, 2), (1, 0, 1), (1, 2, 1), ceil_mode=True), rand(1, 2, 4, 4, 5))
case("max_pool3d plain", lambda x: F.max_pool3d(x, 2), torch.tensor([[[[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]], [[[nan, 1.0], [2.0, 1.0]], [[3.0, 1.0], [inf, 1.0]]]]))
case("avg_pool3d plain", lambda x: F.avg_pool3d(x, 2), rand(2, 4, 4, 5))
case("avg_pool3d all", lambda x: F.avg_pool3d(x, (3, 2, 2), (2, 1, 2), (1, 0, 1), ceil_mode=True), rand(1, 2, 4, 4, 5))
case("avg_pool3d without", lambda x: F.avg_pool3d(x, (3, 2, 2), (2, 1, 2), (1, 0, 1), True, False), rand(1, 2, 4, 4, 5))
case("avg_pool3d divisor", lambda x: F.avg_pool3d(x, (3, 2, 2), divisor_override=5), rand(1, 2, 4, 4, 5))
case("adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, (2, 3, 1)), rand(1, 2, 3, 4, 5))
case("adaptive_max_pool3d", lambda x: F.adaptive_max_pool3d(x, 2), rand(1, 2, 3, 4, 5))
case("conv_transpose3d plain", lambda x, w: F.conv_transpose3d(x, w), rand(2, 2, 3, 2, 3), rand(2, 3, 2, 2, 1))
case("conv_transpose3d all", lambda x, w, b: F.conv_transpose3d(x, w, b, stride=(2, 1, 3), padding=(1, 0, 2), output_padding=(1, 0, 2), dilation=(1, 2, 1), groups=2),
     rand(4, 3, 2, 2), rand(4, 2, 3, 2, 2), rand(4))
case("conv_transpose3d dilated", lambda x, w, b: F.conv_transpose3d(x, w, b, padding=1, dilation=3, output_padding=2), rand(2, 1, 2, 2, 1), rand(1, 2, 2, 1, 2), rand(2))
write("volumes.json")
