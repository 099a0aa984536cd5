"""PyTorch's side of benchmarks/host: reads lines with the name of a case and a number of calls, and writes what one of them took."""
import json
import sys
import time

import torch
import torch.nn.functional as F

threads, elements, columns = (int(a) for a in sys.argv[1:4])
torch.set_num_threads(threads)
aten = torch.ops.aten


def numbers(low, high, *shape):
    return torch.empty(*(shape or (elements,))).uniform_(low, high)


both = {
    "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "erf": torch.erf,
    "erfc": torch.erfc, "gelu": F.gelu, "gelu tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "mish": F.mish,
    "sin": torch.sin, "cos": torch.cos, "log sigmoid": F.logsigmoid, "selu": F.selu, "elu": F.elu, "softplus": F.softplus,
}
positive = {
    "log": torch.log, "log2": torch.log2, "log10": torch.log10, "log1p": torch.log1p, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal, "pow 2.5": lambda x: x ** 2.5, "pow 3": lambda x: x ** 3, "pow a tensor": lambda x: x ** x,
}
gradient = {
    "gelu gradient": aten.gelu_backward, "gelu tanh gradient": lambda g, x: aten.gelu_backward(g, x, approximate="tanh"),
    "silu gradient": aten.silu_backward, "mish gradient": aten.mish_backward, "tanh gradient": aten.tanh_backward,
    "sigmoid gradient": aten.sigmoid_backward,
}
rows = {"softmax": lambda x: torch.softmax(x, 1), "log softmax": lambda x: torch.log_softmax(x, 1)}
random = {"normal": lambda: torch.randn(elements), "uniform": lambda: torch.rand(elements)}

# Cases on tensors of certain shapes: a name's shapes, and the call.
square, image, width = (1024, 1024), (16, 64, 32, 32), 768
shaped = {}


def case(name, shapes, call):
    shaped[name] = shapes, call


case("transposed copy", [square], lambda x: x.t().contiguous())
case("permuted copy 0231", [image], lambda x: x.permute(0, 2, 3, 1).contiguous())
case("permuted copy 0312", [(16, 32, 32, 64)], lambda x: x.permute(0, 3, 1, 2).contiguous())
case("permuted copy 0213", [image], lambda x: x.permute(0, 2, 1, 3).contiguous())
case("narrow copy", [square], lambda x: x.narrow(1, 100, 512).contiguous())
case("copy", [square], lambda x: x.clone())
case("transposed sum", [square, square], lambda x, y: y + x.t())
case("cat rows", [(512, 1024)] * 2, lambda x, y: torch.cat([x, y], 0))
case("cat columns", [(1024, 512)] * 2, lambda x, y: torch.cat([x, y], 1))
case("sum", [square, square], torch.add)
case("row broadcast", [square, (1, 1024)], torch.add)
case("column broadcast", [square, (1024, 1)], torch.add)
case("channel broadcast", [image, (64, 1, 1)], torch.add)
for label in ("", " on a stream"):
    case("chain of six" + label, [(1 << 22,)], lambda x: ((x * 1.5 + x) * x + 2).sqrt() - x)
for label, kind in {"bfloat16": torch.bfloat16, "float16": torch.float16}.items():
    case("to " + label, [square], lambda x, kind=kind: x.to(kind))
    case("from " + label, [square], lambda x: x.float())
for label, dims in {"all": None, "rows": 1, "columns": 0}.items():
    every = dims is None
    case("sum of " + label, [square], torch.sum if every else lambda x, d=dims: x.sum(d))
    case("max of " + label, [square], torch.amax if every else lambda x, d=dims: x.amax(d))
    case("mean of " + label, [square], torch.mean if every else lambda x, d=dims: x.mean(d))
    if not every:
        case("argmax of " + label, [square], lambda x, d=dims: x.argmax(d))
        case("cumsum of " + label, [square], lambda x, d=dims: x.cumsum(d))
for n in (64, 1024, 4096):
    case(f"sort {n}", [(65536 // n, n)], lambda x: x.sort(1))
case("topk 50 of 4096", [(16, 4096)], lambda x: x.topk(50, 1))

softmax_rows = [(elements // columns, columns)] * 2
case("softmax gradient", softmax_rows, lambda g, y: aten._softmax_backward_data(g, y, 1, torch.float32))
case("log softmax gradient", softmax_rows, lambda g, y: aten._log_softmax_backward_data(g, y, 1, torch.float32))
case("layer norm", [(512, width), (width,), (width,)], lambda x, w, b: F.layer_norm(x, (width,), w, b))
case("layer norm gradient", [(512, width), (width,), (width,), (512, width)],
     lambda x, w, b, g: aten.native_layer_norm_backward(g, x, [width], *moments[0], w, b, [True] * 3))
case("batch norm", [image, (64,), (64,)], lambda x, w, b: F.batch_norm(x, None, None, w, b, True))
case("batch norm gradient", [image, (64,), (64,), image],
     lambda x, w, b, g: aten.native_batch_norm_backward(g, x, w, None, None, *moments[0], True, 1e-5, [True] * 3))
before = {  # what a gradient needs of the operation
    "layer norm gradient": lambda x, w, b, g: torch.native_layer_norm(x, [width], w, b, 1e-5)[1:],
    "batch norm gradient": lambda x, w, b, g: torch.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5)[1:],
}
moments = [None]
for label, p in {"2x2": ([2, 2], [2, 2], [0, 0]), "3x3 stride 2": ([3, 3], [2, 2], [1, 1])}.items():
    case(f"max pool {label}", [image], lambda x, p=p: aten.max_pool2d_with_indices(x, *p))
    case(f"max pool {label} gradient", [image, (16, 64, 16, 16)],
         lambda x, g, p=p: aten.max_pool2d_with_indices_backward(g, x, *p, [1, 1], False, moments[0]))
    before[f"max pool {label} gradient"] = lambda x, g, p=p: aten.max_pool2d_with_indices(x, *p)[1]
    case(f"average pool {label}", [image], lambda x, p=p: F.avg_pool2d(x, *p))
    case(f"average pool {label} gradient", [(16, 64, 16, 16)],
         lambda g, p=p, x=torch.empty(image): aten.avg_pool2d_backward(g, x, *p, False, True, None))
case("global average pool", [image], lambda x: F.adaptive_avg_pool2d(x, 1))
places = torch.randint(10000, (1024,))
case("embedding", [(10000, 256)], lambda x: F.embedding(places, x))
case("embedding gradient", [(1024, 256)], lambda g: aten.embedding_dense_backward(g, places, 10000, -1, False))
for m, k, n in [(16, 16, 16), (64, 64, 64), (128, 128, 128), (512, 512, 512), (1024, 1024, 1024), (1, 1024, 1024), (8, 1024, 1024),
                (64, 1024, 1024), (1024, 1024, 1), (1024, 64, 1024), (1024, 1024, 16)]:
    case(f"product {m}x{k}x{n}", [(m, k), (k, n)], torch.mm)
for m, k, n in [(1, 1024, 1024), (64, 1024, 1024), (512, 512, 512)]:
    case(f"linear {m}x{k}x{n}", [(m, k), (n, k), (n,)], F.linear)
for b, n in [(256, 16), (64, 64), (16, 256)]:
    case(f"{b} products {n}x{n}", [(b, n, n)] * 2, torch.bmm)
for batch, i, size, o, kernel, stride, padding, groups in [
    (8, 64, 32, 64, 3, 1, 1, 1), (8, 128, 16, 128, 3, 1, 1, 1), (8, 256, 8, 256, 3, 1, 1, 1), (8, 512, 4, 512, 3, 1, 1, 1),
    (8, 64, 32, 128, 3, 2, 1, 1), (8, 256, 8, 512, 3, 2, 1, 1), (8, 64, 32, 128, 1, 2, 0, 1),
    (8, 3, 32, 64, 3, 1, 1, 1), (2, 3, 112, 64, 7, 2, 3, 1),
    (8, 256, 16, 64, 1, 1, 0, 1), (8, 64, 16, 256, 1, 1, 0, 1), (8, 128, 16, 128, 3, 1, 1, 128), (8, 32, 28, 64, 5, 1, 2, 1),
]:
    label = f"conv {batch}x{i}x{size}x{size} to {o} by {kernel} stride {stride} padding {padding} groups {groups}"
    result = (size + 2 * padding - kernel) // stride + 1
    shapes = [(batch, i, size, size), (o, i // groups, kernel, kernel), (batch, o, result, result)]
    case(label, shapes, lambda x, w, g, s=stride, p=padding, n=groups: F.conv2d(x, w, None, s, p, 1, n))
    for place, of in enumerate(("input", "weight")):
        case(f"{label}, {of} gradient", shapes, lambda x, w, g, s=stride, p=padding, n=groups, k=place: aten.convolution_backward(
            g, x, w, None, [s, s], [p, p], [1, 1], False, [0, 0], n, [k == 0, k == 1, False])[k])
for batch, heads, queries, keys, size in [(1, 12, 1, 1024, 64), (8, 12, 1, 256, 64), (1, 12, 8, 1024, 64), (4, 8, 128, 128, 32), (1, 12, 512, 512, 64)]:
    case(f"attention {batch}x{heads}x{queries}x{size} of {keys}", [(batch, heads, queries, size)] + [(batch, heads, keys, size)] * 2, attention)

# Cases on tensors of 32x1024 numbers of a type and a range.
small, typed = (32, columns), {}


def operand(words):
    kind, *bounds = words.split()
    if kind == "bool":
        return torch.rand(small) < 0.5
    low, high = map(float, bounds)
    kind = getattr(torch, kind)
    if kind.is_floating_point:
        return torch.empty(small, dtype=kind).uniform_(low, high)
    return torch.randint(int(low), int(high), small, dtype=kind)


def of(words, prefix="", **functions):
    for label, f in functions.items():
        typed[prefix + label.replace("_", " ").strip()] = words, f


of("float32 -3 3", abs=torch.abs, neg=torch.neg, sign=torch.sign, floor=torch.floor, round=torch.round, trunc=torch.trunc, frac=torch.frac, square=torch.square,
   relu=torch.relu, tan=torch.tan, atan=torch.atan, sinh=torch.sinh, cosh=torch.cosh, asinh=torch.asinh, lgamma=torch.lgamma, isnan=torch.isnan,
   isfinite=torch.isfinite, softsign=F.softsign, hardswish=F.hardswish, leaky_relu=F.leaky_relu, gt_a_number=lambda x: x > 0, add_a_number=lambda x: x + 2,
   mul_a_number=lambda x: x * 2, fmod_a_number=lambda x: x.fmod(0.7), clamp=lambda x: x.clamp(-1, 1), clone=torch.clone)
of("float32 0.01 0.99", asin=torch.asin, acos=torch.acos, atanh=torch.atanh, logit=torch.logit, erfinv=torch.erfinv, digamma=torch.digamma)
of("float64 0.1 3", "float64 ", exp=torch.exp, log=torch.log, sqrt=torch.sqrt, tanh=torch.tanh, abs=torch.abs, mul_a_number=lambda x: x * 2)
of("int64 -9 9", "int64 ", abs=torch.abs, neg=torch.neg, add_a_number=lambda x: x + 2, eq_a_number=lambda x: x == 2)
of("bool", "bool ", not_=torch.logical_not)
of("float32 0 1", fill=lambda x: x.fill_(2))
of("int64 0 2", "int64 ", fill=lambda x: x.fill_(2))
of("float32 -3 3, float32 0.5 2", add=torch.add, mul=torch.mul, div=torch.div, maximum=torch.maximum, fmod=torch.fmod, remainder=torch.remainder,
   floor_divide=lambda x, y: torch.div(x, y, rounding_mode="floor"), atan2=torch.atan2, logaddexp=torch.logaddexp, xlogy=torch.xlogy, eq=torch.eq, lt=torch.lt)
of("float64 -3 3, float64 0.5 2", "float64 ", add=torch.add, mul=torch.mul, div=torch.div, maximum=torch.maximum, lt=torch.lt)
of("int64 -99 99, int64 1 9", "int64 ", add=torch.add, mul=torch.mul, maximum=torch.maximum, fmod=torch.fmod, remainder=torch.remainder,
   floor_divide=lambda x, y: torch.div(x, y, rounding_mode="floor"), eq=torch.eq, lt=torch.lt, bitwise_and=torch.bitwise_and)
of("int32 -99 99, int32 1 9", "int32 ", add=torch.add, mul=torch.mul, eq=torch.eq)
of("bool, bool", "bool ", and_=torch.logical_and, xor=torch.logical_xor, eq=torch.eq)
of("bool, float32 -1 1, float32 -1 1", where=torch.where)
of("bool, int64 0 9, int64 0 9", "int64 ", where=torch.where)
of("bool, float32 -1 1", where_a_number=lambda m, x: torch.where(m, x, 0.0))
of("float32 -1 1, bool", masked_fill=lambda x, m: x.masked_fill(m, -1))
of("float32 -1 1, float32 -1 1, float32 0 1", lerp=torch.lerp, addcmul=lambda x, a, b: torch.addcmul(x, a, b, value=0.5))


def both_slopes(f):
    """The gradients of both inputs, by PyTorch's own backward: the graph is made once."""
    saved = {}

    def call(g, x, y):
        if id(x) not in saved:
            saved.clear()
            x, y, key = x.requires_grad_(), y.requires_grad_(), id(x)
            saved[key] = f(x, y)
        return torch.autograd.grad(saved[id(x)], (x, y), g, retain_graph=True)
    return call


for label, f in {"logaddexp": torch.logaddexp, "atan2": torch.atan2, "xlogy": torch.xlogy}.items():
    of("float32 -1 1, float32 0.1 3, float32 0.5 2", **{label + " gradient": both_slopes(f)})
of("float32 -1 1, float32 0.01 0.99", logit_gradient=lambda g, x: aten.logit_backward(g, x, None))
of("float32 -1 1, float32 -1 1", relu_gradient=lambda g, x: aten.threshold_backward(g, x, 0))
for source in ("float32", "float64", "int64", "int32", "uint8", "bool"):
    for target in ("float32", "float64", "int64", "int32", "uint8", "bool", "float16"):
        of(source if source == "bool" else source + " 0 9", **{f"cast {source} to {target}": lambda x, t=getattr(torch, target): x.to(t)})
for dim, along in enumerate((" of 32 columns", " of 32 rows")):
    for words, prefix, folds in [
        ("float32 0.9 1.1", "", {"sum": torch.sum, "max": torch.amax, "prod": torch.prod, "var": torch.var, "std": torch.std, "logsumexp": torch.logsumexp,
                                 "norm": lambda x, d: torch.linalg.vector_norm(x, 2, d), "argmax": torch.argmax, "cumprod": torch.cumprod}),
        ("float32 -1 1", "", {"cumsum": torch.cumsum}),
        ("float64 -1 1", "float64 ", {"sum": torch.sum, "max": torch.amax, "cumsum": torch.cumsum}),
        ("int64 -9 9", "int64 ", {"sum": torch.sum, "max": torch.amax, "argmax": torch.argmax, "cumsum": torch.cumsum}),
        ("bool", "bool ", {"any": torch.any, "all": torch.all, "sum": torch.sum, "cumsum": torch.cumsum}),
    ]:
        of(words, prefix, **{label + along: lambda x, d=dim, f=f: f(x, d) for label, f in folds.items()})


def prepared(name):
    """The call of a case."""
    if name in typed:
        words, call = typed[name]
        x = [operand(w) for w in words.split(", ")]
        return lambda: call(*x)
    if name in trainings:
        return trainings[name]()
    if name in shaped:
        shapes, call = shaped[name]
        x = [numbers(-1, 1, *s) for s in shapes]
        if name in before:
            moments[0] = before[name](*x)
        if name.startswith("from "):
            x[0] = x[0].to(getattr(torch, name[5:]))
        return lambda: call(*x)
    if name in both:
        return lambda f=both[name], x=numbers(-3, 3): f(x)
    if name in positive:
        return lambda f=positive[name], x=numbers(0.01, 3): f(x)
    if name in gradient:
        return lambda f=gradient[name], g=numbers(-1, 1), x=numbers(-3, 3): f(g, x)
    if name in rows:
        return lambda f=rows[name], x=numbers(-3, 3, elements // columns, columns): f(x)
    return random[name]


calls = {"": lambda: None}
for line in sys.stdin:
    name, n = line.rstrip("\n").split("\t")
    n = max(1, int(n))
    if name not in calls:
        calls = {"": calls[""], name: prepared(name)}
        calls[name]()
    f = calls[name]
    processor, begin = time.process_time(), time.perf_counter()
    for _ in range(n):
        f()
    wall, processor = time.perf_counter() - begin, time.process_time() - processor
    print(json.dumps({"Processor": processor / n, "Wall": wall / n}), flush=True)
