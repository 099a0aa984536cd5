"""Writes norm.json: what PyTorch gives for normalisations and for operations with an index for each element, as programs of one
step (see make_goldens.py). Run: python3 norm.py"""
import json, math
import torch
import torch.nn.functional as F

NAMES = {torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.bfloat16: "bfloat16",
         torch.int64: "int64", torch.int32: "int32", torch.bool: "bool", torch.uint8: "uint8"}


def number(x):
    x = float(x)
    return repr(x) if math.isnan(x) or math.isinf(x) else x


def pack(t):
    return {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data": [number(x) for x in t.double().flatten().tolist()]}


def rms(x, eps, *shape, w=None):
    y = x * torch.rsqrt(x.pow(2).mean(list(range(-len(shape), 0)), keepdim=True) + eps)
    return y if w is None else y * w


def grad_of(f, g, x):
    x = x.clone().requires_grad_()
    f(x).backward(g)
    return x.grad


def running(x, m, v, eps, momentum):
    m, v = m.clone(), v.clone()
    F.batch_norm(x, m, v, None, None, True, momentum, eps)
    return torch.stack([m, v])


def pad(t, n):
    return list(t) + [None] * (n - len(t))


OPS = {
    "LayerNorm": lambda t, eps, *s: F.layer_norm(t[0], s, *pad(t[1:], 2), eps),
    "RMSNorm": lambda t, eps, *s: rms(t[0], eps, *s, w=t[1] if len(t) > 1 else None),
    "GroupNorm": lambda t, eps, g: F.group_norm(t[0], g, *pad(t[1:], 2), eps),
    "LayerNormGrad": lambda t, eps, *s: grad_of(lambda x: F.layer_norm(x, s, *pad(t[2:], 2), eps), t[0], t[1]),
    "GroupNormGrad": lambda t, eps, g: grad_of(lambda x: F.group_norm(x, g, *pad(t[2:], 2), eps), t[0], t[1]),
    "BatchNorm": lambda t, eps: F.batch_norm(t[0], None, None, *pad(t[1:], 2), True, 0.1, eps),
    "BatchNorm eval": lambda t, eps: F.batch_norm(t[0], t[1], t[2], *pad(t[3:], 2), False, 0.1, eps),
    "BatchNormGrad": lambda t, eps: grad_of(lambda x: F.batch_norm(x, None, None, *pad(t[2:], 2), True, 0.1, eps), t[0], t[1]),
    "BatchMoments running": lambda t, eps, momentum: running(*t, eps, momentum),
    "Gather": lambda t, d: t[0].gather(d, t[1]), "TakeAlongDim": lambda t, d: torch.take_along_dim(t[0], t[1], d),
    "Scatter": lambda t, d: t[0].scatter(d, t[1], t[2]), "ScatterAdd": lambda t, d: t[0].scatter_add(d, t[1], t[2]),
    "ScatterValue": lambda t, d, v: t[0].scatter(d, t[1], v), "MaskedFill": lambda t, v: t[0].masked_fill(t[1], v),
    "EmbeddingBag": lambda t, mode, padding: F.embedding_bag(t[1], t[0], t[2], mode=("sum", "mean", "max")[mode],
                                                             padding_idx=None if padding < 0 else padding),
    "OneHot": lambda t, n: F.one_hot(t[0], n),
}
out = []


def case(name, step, *inputs):
    try:
        want = pack(OPS[step[0]](inputs, *step[1:]))
    except (RuntimeError, ValueError):
        want = None
    out.append(dict(name=name, inputs=[pack(t) for t in inputs], steps=[step], want=want))


torch.manual_seed(1)
r = lambda *s, dtype=torch.float32: (torch.randn(*s, dtype=torch.float64) * 2).to(dtype)
i = lambda hi, *s: torch.randint(0, hi, s)
inf, nan = math.inf, math.nan

for d in (torch.float32, torch.float64, torch.bfloat16):
    case(f"layer norm {d}", ["LayerNorm", 1e-5, 6], r(3, 6, dtype=d), r(6, dtype=d), r(6, dtype=d))
    case(f"layer norm two dims {d}", ["LayerNorm", 1e-3, 2, 4], r(3, 2, 4, dtype=d), r(2, 4, dtype=d))
case("layer norm without weights", ["LayerNorm", 1e-5, 5], r(2, 3, 5))
case("layer norm far from 0", ["LayerNorm", 1e-5, 6], r(3, 6, dtype=torch.float64) + 100)
case("layer norm of equal numbers", ["LayerNorm", 1e-5, 4], torch.full((2, 4), 3.0))
case("layer norm of infinities", ["LayerNorm", 1e-5, 3], torch.tensor([[1.0, inf, 2.0], [nan, 1.0, 2.0], [1.0, 2.0, 3.0]]))
case("layer norm of nothing", ["LayerNorm", 1e-5, 3], r(0, 3))
case("layer norm of another shape", ["LayerNorm", 1e-5, 4], r(2, 3))
case("rms norm", ["RMSNorm", 1e-6, 5], r(3, 5), r(5))
case("rms norm of zeros", ["RMSNorm", 1e-6, 5], torch.zeros(3, 5))
case("layer norm gradient", ["LayerNormGrad", 1e-5, 6], r(3, 6), r(3, 6), r(6))
case("layer norm gradient of equal numbers", ["LayerNormGrad", 1e-5, 4], r(2, 4), torch.full((2, 4), 3.0))
case("group norm", ["GroupNorm", 1e-5, 2], r(2, 6, 3), r(6), r(6))
case("group norm of pixels", ["GroupNorm", 1e-5, 3], r(2, 6, 2, 3), r(6))
case("group norm of vectors", ["GroupNorm", 1e-5, 2], r(3, 6))
case("group norm, unequal groups", ["GroupNorm", 1e-5, 4], r(3, 6))
case("group norm gradient", ["GroupNormGrad", 1e-5, 3], r(2, 6, 5), r(2, 6, 5), r(6))
for shape in ((4, 3), (4, 3, 5), (2, 3, 2, 3)):
    case(f"batch norm {shape}", ["BatchNorm", 1e-5], r(*shape), r(3), r(3))
    case(f"batch norm, evaluation {shape}", ["BatchNorm eval", 1e-5], r(*shape), r(3), r(3).abs(), r(3), r(3))
    case(f"batch norm gradient {shape}", ["BatchNormGrad", 1e-5], r(*shape), r(*shape), r(3))
    case(f"running statistics {shape}", ["BatchMoments running", 1e-5, 0.1], r(*shape), r(3), r(3).abs())
case("batch norm of one value", ["BatchNorm", 1e-5], r(1, 3))
case("batch norm of NaN", ["BatchNorm", 1e-5], torch.tensor([[nan, 1.0], [2.0, 3.0]]))

case("gather", ["Gather", 1], r(3, 4), i(4, 3, 6))
case("gather first dim", ["Gather", 0], r(3, 4), i(3, 5, 2))
case("gather of bools", ["Gather", -1], torch.tensor([[True, False], [False, True]]), i(2, 2, 3))
case("gather of scalars", ["Gather", 0], torch.tensor(2.5), torch.tensor(0))
case("gather nothing", ["Gather", 0], r(3, 4), i(3, 0, 4))
case("gather too wide", ["Gather", 0], r(3, 4), i(3, 2, 5))
case("take along dim", ["TakeAlongDim", 1], r(3, 4), i(4, 1, 6))
case("take along dim of a row", ["TakeAlongDim", 0], r(5, 1), i(5, 3, 4))
case("scatter", ["Scatter", 1], r(3, 4), torch.tensor([[0, 2], [3, 1], [1, 0]]), r(3, 3))
case("scatter of int32", ["Scatter", 0], torch.zeros(3, 2, dtype=torch.int32), torch.tensor([[2, 0]]), torch.tensor([[7, 8]], dtype=torch.int32))
case("scatter value", ["ScatterValue", 1, 2.5], r(3, 4), torch.tensor([[0, 2], [3, 3], [1, 0]]))
case("scatter add", ["ScatterAdd", 1], r(3, 4), i(4, 3, 9), r(3, 9))
case("scatter add of a part", ["ScatterAdd", 0], r(3, 4), i(3, 2, 3), r(5, 4))
case("scatter add of two types", ["ScatterAdd", 0], r(3, 4), i(3, 2, 3), r(5, 4, dtype=torch.float64))
case("masked fill", ["MaskedFill", -1.5], r(3, 4), r(3, 4) > 0)
case("masked fill, broadcast", ["MaskedFill", -1e30], r(3, 4), torch.tensor([True, False, False, True]))
case("masked fill of integers", ["MaskedFill", 7], i(5, 3, 4), torch.tensor([[True], [False], [True]]))
case("one hot", ["OneHot", 4], torch.tensor([[0, 3], [1, 1]]))
case("one hot, as many as there are", ["OneHot", -1], torch.tensor([0, 2, 1]))
case("one hot of nothing", ["OneHot", 3], torch.zeros(0, dtype=torch.int64))

for mode in range(3):
    for padding in (-1, 1):
        case(f"embedding bag {mode} {padding}", ["EmbeddingBag", mode, padding], r(4, 3), torch.tensor([1, 3, 0, 1, 2, 2, 1]), torch.tensor([0, 3, 3, 6]))

with open("norm.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in out) + "\n]\n")
