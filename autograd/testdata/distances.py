"""Writes distances.json: norms, angles and distances by PyTorch. Run: python3 distances.py"""

import torch
import torch.nn.functional as F

from cases import case, inf, ints, nan, rand, write

torch.manual_seed(12)
case("normalize 2", lambda x: F.normalize(x), rand(3, 4))
case("normalize 2", lambda x: F.normalize(x), torch.tensor([[0.0, 0.0], [nan, 1.0], [inf, 1.0], [1e-200, 0.0], [3.0, 4.0]]))
case("normalize 2", lambda x: F.normalize(x), torch.zeros(2, 0))
case("normalize other", lambda x: F.normalize(x, 3, -2, 0.5), rand(2, 3, 2) * 0.4)
case("cosine 1", lambda x, y: F.cosine_similarity(x, y), rand(3, 4), rand(3, 4))
case("cosine 1", lambda x, y: F.cosine_similarity(x, y), rand(3, 4), rand(1, 4))
case("cosine 1", lambda x, y: F.cosine_similarity(x, y), rand(3, 4), rand(4))
case("cosine 1", lambda x, y: F.cosine_similarity(x, y), torch.tensor([[1e-9, 2e-9], [0.0, 0.0], [nan, 1.0]]), rand(3, 2), grads=False)
case("cosine -2", lambda x, y: F.cosine_similarity(x, y, -2), rand(2, 3, 1), rand(3, 4))
case("cosine 0", lambda x, y: F.cosine_similarity(x, y, 0), rand(3), rand(3))
case("pairwise 2", lambda x, y: F.pairwise_distance(x, y), rand(3, 4), rand(3, 4))
case("pairwise 2", lambda x, y: F.pairwise_distance(x, y), rand(3), rand(2, 3))
case("pairwise 1", lambda x, y: F.pairwise_distance(x, y, 1, 0, True), ints([[1.0, 2.0], [3.0, nan], [inf, 1.0]]), ints([[1.0, 4.0], [3.0, 1.0], [1.0, 1.0]]))
for p in (0, 1, 1.5, 2, inf):
    case(f"cdist {p}", lambda x, y, p=p: torch.cdist(x, y, p), rand(3, 2), rand(4, 2), grads=p != 0)
case("cdist 2", lambda x, y: torch.cdist(x, y), rand(2, 1, 3, 2), rand(2, 4, 2))
case("cdist 2", lambda x, y: torch.cdist(x, y), rand(26, 2), rand(2, 2))
case("cdist 2", lambda x, y: torch.cdist(x, y), rand(0, 2), rand(2, 2))
case("cdist 2", lambda x, y: torch.cdist(x, y), rand(2, 0), rand(3, 0))
x = rand(2, 3)
case("cdist 2", lambda x, y: torch.cdist(x, y), x, x)
ties = torch.tensor([[0.0, 0.0], [1.0, 2.0]]), torch.tensor([[1.0, -1.0], [0.0, 0.0], [1.0, 2.0]])
case("cdist inf", lambda x, y: torch.cdist(x, y, inf), *ties)
case("cdist inf", lambda x, y: torch.cdist(x, y, inf), rand(2, 0), rand(3, 0))
write("distances.json")
