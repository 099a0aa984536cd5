"""Writes ctc.json: the connectionist temporal classification loss by PyTorch, of logits. Run: python3 ctc.py"""

import torch
import torch.nn.functional as F

from cases import case, inf, ints, rand, write

torch.manual_seed(15)


def loss(*a, **k):
    return lambda x, t: F.ctc_loss(x.log_softmax(-1), t, *a, **k)


y = ints([[1, 2, 2], [3, 1, 0], [2, 0, 0]])
for r in ("mean", "sum", "none"):
    case(f"ctc {r}", loss((6, 6, 6), (3, 2, 1), reduction=r), rand(6, 3, 4), y)
case("ctc lengths", loss((6, 4, 3), (3, 0, 1), reduction="none"), rand(6, 3, 4), y)
case("ctc joined", loss((6, 6, 6), (3, 2, 1), reduction="none"), rand(6, 3, 4), ints([1, 2, 2, 3, 1, 2]))
case("ctc blank", loss((6, 6, 6), (3, 2, 1), blank=3, reduction="none"), rand(6, 3, 4), ints([[1, 2, 2], [0, 1, 0], [2, 0, 0]]))
case("ctc zero", loss((6, 3, 2), (3, 3, 3), zero_infinity=True, reduction="mean"), rand(6, 3, 4), ints([[1, 2, 2], [1, 1, 2], [1, 2, 3]]))
case("ctc infinite", loss((6, 3, 2), (3, 3, 3), reduction="none"), rand(6, 3, 4), ints([[1, 2, 2], [1, 1, 2], [1, 2, 3]]), grads=False)
case("ctc one", loss((5,), (2,), reduction="none"), rand(5, 4), ints([1, 3]))
case("ctc empty", loss((1, 1), (0, 0), reduction="mean"), rand(1, 2, 4), ints([[1], [1]]))
case("ctc sum", loss((50, 50, 50), (3, 2, 1), reduction="sum"), rand(50, 3, 4) * 30, y, dtype=torch.float32, grads=False)
write("ctc.json")
