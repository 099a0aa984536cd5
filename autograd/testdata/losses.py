"""Writes losses.json: values and gradients that PyTorch gives for losses that are made of other operations here. Run: python3 losses.py"""

import torch
import torch.nn.functional as F

from cases import case, inf, ints, nan, rand, write

torch.manual_seed(11)
R = ["mean", "sum", "none"]
signs = lambda *s: (torch.randn(*s) > 0).long() * 2 - 1
nothing = torch.zeros(0, dtype=torch.float64)

for r in R:
    case(f"margin_ranking {r}", lambda a, b, t, r=r: F.margin_ranking_loss(a, b, t, 0.3, reduction=r), rand(5), rand(5), signs(5))
    case(f"hinge_embedding {r}", lambda a, t, r=r: F.hinge_embedding_loss(a, t, 0.7, reduction=r), rand(2, 4), ints([[1, -1, 0, 1], [-1, -1, 1, 2]]))
    case(f"cosine_embedding {r}", lambda a, b, t, r=r: F.cosine_embedding_loss(a, b, t, 0.1, reduction=r), rand(5, 3), rand(5, 3), ints([1, -1, -1, 1, 0]))
    case(f"triplet {r}", lambda a, p, n, r=r: F.triplet_margin_loss(a, p, n, reduction=r), rand(5, 3), rand(5, 3), rand(5, 3))
    case(f"poisson {r}", lambda a, t, r=r: F.poisson_nll_loss(a, t, reduction=r), rand(2, 3), rand(2, 3).abs() * 2)
    case(f"gaussian {r}", lambda a, t, v, r=r: F.gaussian_nll_loss(a, t, v, reduction=r), rand(2, 3), rand(2, 3), rand(2, 3).abs())
    case(f"soft_margin {r}", lambda a, t, r=r: F.soft_margin_loss(a, t, reduction=r), rand(2, 3), signs(2, 3))
    case(f"multilabel_soft {r}", lambda a, t, r=r: F.multilabel_soft_margin_loss(a, t, reduction=r), rand(2, 4), ints([[1, 0, 0, 1], [0, 1, 1, 1]]))
    case(f"multi_margin {r}", lambda a, t, r=r: F.multi_margin_loss(a, t, reduction=r), rand(3, 4), ints([3, 0, 1]))
    case(f"multilabel_margin {r}", lambda a, t, r=r: F.multilabel_margin_loss(a, t, reduction=r), rand(3, 4), ints([[3, 0, -1, 1], [-1, 0, 0, 0], [1, 2, 0, 3]]))

# Corners: ties with the margin, NaN, infinities, broadcasting, nothing.
case("margin_ranking tie", lambda a, b, t: F.margin_ranking_loss(a, b, t, 0.5, reduction="none"), torch.tensor([1.0, 2.0, nan, inf]), torch.tensor([0.5, 2.5, 0.0, 1.0]), ints([1, -1, 1, 1]))
case("margin_ranking rows", lambda a, b, t: F.margin_ranking_loss(a, b, t, 0.3), rand(2, 3), rand(2, 3), ints([[1], [-1]]))
case("margin_ranking", lambda a, b, t: F.margin_ranking_loss(a, b, t, 0.3), nothing, nothing, ints([]).long())
case("hinge_embedding none", lambda a, t: F.hinge_embedding_loss(a, t, 0.7, reduction="none"), torch.tensor([0.7, nan, nan, inf, -inf]), ints([-1, 1, -1, -1, -1]))
case("cosine_embedding none", lambda a, b, t: F.cosine_embedding_loss(a, b, t, 0.1, reduction="none"), torch.tensor([[0.0, 0.0], [1.0, 2.0], [nan, 1.0]]), rand(3, 2), ints([1, -1, 1]))
case("cosine_embedding none", lambda a, b, t: F.cosine_embedding_loss(a, b, t, 0.1, reduction="none"), rand(3), rand(3), ints(-1))
case("triplet swap", lambda a, p, n: F.triplet_margin_loss(a, p, n, margin=2.0, p=1.5, eps=1e-3, swap=True, reduction="none"), rand(4, 3), rand(4, 3), rand(4, 3))
x = rand(2, 3)
case("triplet same", lambda a, p, n: F.triplet_margin_loss(a, p, n, reduction="none", eps=0), x, x, x)
case("triplet none", lambda a, p, n: F.triplet_margin_loss(a, p, n, reduction="none"), torch.tensor([[nan, 1.0], [inf, 0.0]]), rand(2, 2), rand(2, 2))
case("triplet none", lambda a, p, n: F.triplet_margin_loss(a, p, n, reduction="none"), rand(3), rand(3), rand(3))
case("poisson rates", lambda a, t: F.poisson_nll_loss(a, t, log_input=False, reduction="none"), torch.tensor([0.0, 1.0, 2.5, nan]), torch.tensor([0.0, 1.0, 3.0, 2.0]))
case("poisson full", lambda a, t: F.poisson_nll_loss(a, t.detach(), full=True, reduction="none"), rand(6), torch.tensor([0.0, 1.0, 1.5, 3.0, 7.0, 100.0]))
case("gaussian full", lambda a, t, v: F.gaussian_nll_loss(a, t, v, full=True, eps=1e-2, reduction="none"), rand(2, 3), rand(2, 3), torch.tensor([[0.0, 1e-3, 1e-2], [0.5, 2.0, inf]]))
case("gaussian rows", lambda a, t, v: F.gaussian_nll_loss(a, t, v), rand(2, 3), rand(2, 3), torch.tensor([0.5, 2.0]))
case("gaussian rows", lambda a, t, v: F.gaussian_nll_loss(a, t, v), rand(2, 3), rand(2, 3), torch.tensor([[0.5], [2.0]]))
case("soft_margin none", lambda a, t: F.soft_margin_loss(a, t, reduction="none"), torch.tensor([0.0, 700.0, 40.5, -3.0]), ints([1, 1, 1, -1]))
case("multilabel_soft weight", lambda a, t, w: F.multilabel_soft_margin_loss(a, t, weight=w.detach(), reduction="none"), torch.tensor([[500.0, -500.0, 0.0], [1.0, nan, 2.0]]), ints([[0, 1, 1], [1, 0, 0]]), rand(3).abs())
case("multi_margin square", lambda a, t, w: F.multi_margin_loss(a, t, p=2, margin=0.5, weight=w.detach(), reduction="none"), rand(3, 4), ints([3, 0, 1]), rand(4).abs())
case("multi_margin none", lambda a, t: F.multi_margin_loss(a, t, reduction="none"), torch.tensor([[1.0, 0.0, 2.0, nan], [1.0, inf, -inf, 0.0]]), ints([0, 3]))
case("multi_margin none", lambda a, t: F.multi_margin_loss(a, t, reduction="none"), rand(4), ints(2))
case("multilabel_margin none", lambda a, t: F.multilabel_margin_loss(a, t, reduction="none"), torch.tensor([[1.0, 0.0, 2.0, nan], [1.0, 0.0, 2.0, 3.0]]), ints([[0, -1, 2, 3], [1, 1, 0, -1]]))
case("multilabel_margin none", lambda a, t: F.multilabel_margin_loss(a, t, reduction="none"), rand(4), ints([2, -1, 0, 0]))
write("losses.json")
