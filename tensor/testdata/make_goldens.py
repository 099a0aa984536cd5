"""Makes the reference values of the tests in package tensor with PyTorch: python3 make_goldens.py

promote.json   result types: of all pairs of types, and of operations on them
programs.json  small programs: inputs, one operation after the other on the first of them, and what comes out
"""
import itertools, json, math, random
import torch
import torch.nn.functional as F

DTYPES = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16,
          "int64": torch.int64, "int32": torch.int32, "uint8": torch.uint8, "bool": torch.bool}
NAMES = {v: k for k, v in DTYPES.items()}


def result_type(f):
    """The type of a result, computed on the device "meta", which has no missing kernels; "" for an error."""
    try:
        return NAMES[f().dtype]
    except RuntimeError:
        return ""


def promotions():
    meta = {n: torch.empty(3, dtype=d, device="meta") for n, d in DTYPES.items()}
    two = {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Pow": torch.pow,
           "Maximum": torch.maximum, "Minimum": torch.minimum, "Eq": torch.eq, "Lt": torch.lt}
    one = {"AddScalar": torch.add, "SubScalar": torch.sub, "MulScalar": torch.mul, "DivScalar": torch.div,
           "EqScalar": torch.eq}
    pairs = [[a, b, NAMES[torch.promote_types(DTYPES[a], DTYPES[b])]] for a, b in itertools.product(DTYPES, DTYPES)]
    binary = [[o, a, b, result_type(lambda: f(meta[a], meta[b]))]
              for o, f in two.items() for a, b in itertools.product(DTYPES, DTYPES)
              if not (o == "Pow" and a == b == "bool")]  # "meta" has a type for it, but no device a kernel
    scalar = [[o, a, v, result_type(lambda: f(meta[a], v))]
              for o, f in one.items() for a in DTYPES for v in (2, 2.5)]
    return {"pairs": pairs, "binary": binary, "scalar": scalar}


def number(x):
    x = float(x)
    return repr(x) if math.isnan(x) or math.isinf(x) else x


def pack(t):
    return {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data": [number(x) for x in t.double().flatten().tolist()]}


def slice_along(t, dim, start, end, step):
    if t.dim() == 0:
        raise IndexError
    index = [slice(None)] * t.dim()
    index[dim] = slice(start, end, step)
    return t[tuple(index)]


OPS = {
    "Reshape": lambda t, i, *a: t[0].reshape(a), "View": lambda t, i, *a: t[0].view(a),
    "Flatten": lambda t, i, *a: t[0].flatten(*a), "Transpose": lambda t, i, *a: t[0].transpose(*a),
    "Permute": lambda t, i, *a: t[0].permute(a), "Slice": lambda t, i, *a: slice_along(t[0], *a),
    "Narrow": lambda t, i, *a: t[0].narrow(*a), "Select": lambda t, i, *a: t[0].select(*a),
    "Squeeze": lambda t, i, *a: t[0].squeeze(*a), "Unsqueeze": lambda t, i, *a: t[0].unsqueeze(*a),
    "Expand": lambda t, i, *a: t[0].expand(a), "Contiguous": lambda t, i: t[0].contiguous(),
    "MatMul": lambda t, i: torch.matmul(t[0], t[1]), "Linear": lambda t, i: F.linear(*t),
    "AddMM": lambda t, i, beta, alpha: torch.addmm(*t, beta=beta, alpha=alpha),
    "Sum": lambda t, i, keep, *d: t[0].sum(list(d), keepdim=keep) if d else t[0].sum(list(range(t[0].dim())), keepdim=keep),
    "Mean": lambda t, i, keep, *d: t[0].mean(list(d) or list(range(t[0].dim())), keepdim=keep),
    "Max": lambda t, i, keep, *d: t[0].amax(d, keepdim=keep), "Min": lambda t, i, keep, *d: t[0].amin(d, keepdim=keep),
    "Var": lambda t, i, c, keep, *d: torch.var(t[0], d or None, correction=c, keepdim=keep),
    "Std": lambda t, i, c, keep, *d: torch.std(t[0], d or None, correction=c, keepdim=keep),
    "ArgMax": lambda t, i, *a: t[0].argmax(*a), "ArgMin": lambda t, i, *a: t[0].argmin(*a),
    "Softmax": lambda t, i, d: t[0].softmax(d), "LogSoftmax": lambda t, i, d: t[0].log_softmax(d),
    "NLL": lambda t, i, ignore: F.nll_loss(t[0], t[1], ignore_index=ignore, reduction="none"),
    "Cat": lambda t, i, d: torch.cat(t, d), "Stack": lambda t, i, d: torch.stack(t, d),
    "IndexSelect": lambda t, i, d: t[0].index_select(d, t[1]),
    "IndexAdd": lambda t, i, d: t[0].clone().index_add_(d, t[1], t[2]),
    "Where": lambda t, i: torch.where(*t), "Clamp": lambda t, i, *a: t[0].clamp(*a),
    "Add": lambda t, i: t[0] + t[1], "AddScaled": lambda t, i, a: torch.add(t[0], t[1], alpha=a),
    "Sub": lambda t, i: t[0] - t[1], "Mul": lambda t, i: t[0] * t[1], "Div": lambda t, i: t[0] / t[1],
    "Pow": lambda t, i: t[0] ** t[1], "PowScalar": lambda t, i, v: t[0] ** v,
    "Maximum": lambda t, i: torch.maximum(*t), "Minimum": lambda t, i: torch.minimum(*t),
    "AddScalar": lambda t, i, v: t[0] + v, "MulScalar": lambda t, i, v: t[0] * v, "DivScalar": lambda t, i, v: t[0] / v,
    "EqScalar": lambda t, i, v: t[0] == v, "LtScalar": lambda t, i, v: t[0] < v,
    "And": lambda t, i: torch.logical_and(*t), "Or": lambda t, i: torch.logical_or(*t),
    "Not": lambda t, i: torch.logical_not(t[0]), "Any": lambda t, i, keep, d: t[0].any(d, keep),
    "All": lambda t, i, keep, d: t[0].all(d, keep), "Prod": lambda t, i: t[0].prod(),
    "ReLU": lambda t, i: t[0].relu(), "LeakyReLU": lambda t, i, s: F.leaky_relu(t[0], s),
    "GELU": lambda t, i: F.gelu(t[0]), "GELUTanh": lambda t, i: F.gelu(t[0], approximate="tanh"),
    "SiLU": lambda t, i: F.silu(t[0]), "Softplus": lambda t, i, b, s: F.softplus(t[0], b, s),
    "Sigmoid": lambda t, i: t[0].sigmoid(), "Tanh": lambda t, i: t[0].tanh(), "Exp": lambda t, i: t[0].exp(),
    "Log": lambda t, i: t[0].log(), "Sqrt": lambda t, i: t[0].sqrt(), "Rsqrt": lambda t, i: t[0].rsqrt(),
    "Reciprocal": lambda t, i: t[0].reciprocal(), "Sin": lambda t, i: t[0].sin(), "Cos": lambda t, i: t[0].cos(),
    "Neg": lambda t, i: -t[0], "Abs": lambda t, i: t[0].abs(), "Sign": lambda t, i: t[0].sign(),
    "To": lambda t, i, d: t[0].to(list(DTYPES.values())[d]),
    # gradients: of the function at the saved input, for the first tensor as the gradient
    **{name + "Grad": (lambda f: lambda t, i, *a: gradient(f, t, a))(f) for name, f in {
        "ReLU": F.relu, "LeakyReLU": F.leaky_relu, "GELU": F.gelu, "GELUTanh": lambda x: F.gelu(x, approximate="tanh"),
        "SiLU": F.silu, "Softplus": F.softplus, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh,
        "Softmax": torch.softmax, "LogSoftmax": torch.log_softmax}.items()},
}


def gradient(f, t, args):
    x = t[1].clone().requires_grad_()
    f(x, *args).backward(t[0])
    return x.grad


def run(name, steps, *inputs):
    """A program: steps are [operation, arguments...]; the result of each is the first input of the next."""
    program = {"name": name, "inputs": [pack(t) for t in inputs], "steps": steps}
    first, rest = inputs[0], list(inputs[1:])
    try:
        for s in steps:
            first = OPS[s[0]]([first] + rest, None, *s[1:])
        program["want"] = pack(first)
        program["strides"] = list(first.stride())
    except (RuntimeError, IndexError, ValueError, TypeError):
        pass  # no "want": an error
    return program


def iota(*shape, dtype=torch.float32):
    n = math.prod(shape)
    return torch.arange(n, dtype=torch.float64).reshape(shape).to(dtype)


def chains(rng, count):
    """Random chains of views, most of them legal."""
    out = []
    for k in range(count):
        t = iota(*rng.choice([(6,), (2, 3), (4, 3), (2, 3, 4), (1, 4, 1), (2, 1, 3), (), (1,), (0, 3), (2, 2, 2, 2)]))
        start, steps = t, []
        for _ in range(rng.randint(1, 4)):
            n, d = t.dim(), lambda: rng.randint(-t.dim() - rng.choice([0, 0, 0, 1]), max(t.dim(), 1) - 1)
            kind = rng.choice(["Reshape", "View", "Flatten", "Transpose", "Permute", "Slice", "Narrow", "Select", "Squeeze",
                               "Unsqueeze", "Expand", "View", "Reshape"])
            dim = d()
            args = {
                "Reshape": lambda: shape_of(rng, t.numel()), "View": lambda: shape_of(rng, t.numel()),
                "Flatten": lambda: [dim, d()], "Transpose": lambda: [dim, d()],
                "Permute": lambda: rng.sample(range(n), n), "Slice": lambda: [dim, rng.randint(-4, 4), rng.randint(-4, 6), rng.randint(1, 3)],
                "Narrow": lambda: [dim, rng.randint(-2, 2), rng.randint(0, 3)], "Select": lambda: [dim, rng.randint(-2, 2)],
                "Squeeze": lambda: rng.choice([[], [dim]]), "Unsqueeze": lambda: [rng.randint(-n - 1, n)],
                "Expand": lambda: rng.choice([[], [2]]) + [rng.choice([s, -1]) if s != 1 else rng.choice([1, 3]) for s in t.shape],
            }[kind]()
            if kind == "Permute" and n == 0 or kind == "Expand" and not args:
                continue
            if kind in ("View", "Reshape") and not args and t.numel() != 1:
                continue
            steps.append([kind] + args)
            try:
                t = OPS[kind]([t], None, *args)
            except (RuntimeError, IndexError, ValueError):
                break
        if steps:
            out.append(run(f"chain {k}", steps, start))
    return out


def shape_of(rng, n):
    shapes = {1: [[1], [1, 1], []], 2: [[2], [1, 2], [2, -1]], 3: [[3], [-1, 1]], 4: [[4], [2, 2], [-1, 2]],
              6: [[6], [2, 3], [3, 2], [-1], [3, -1]], 8: [[8], [2, 4], [2, 2, 2]], 12: [[12], [3, 4], [2, 2, 3], [-1, 6]],
              16: [[16], [4, 4], [2, -1, 2]], 24: [[24], [6, 4], [2, 12], [4, -1], [2, 3, 2, 2]], 0: [[0], [3, 0], [0, -1], [-1]]}
    return rng.choice(shapes.get(n, [[n]]) + [[5]] if rng.random() < .1 else shapes.get(n, [[n]]))


def programs():
    torch.manual_seed(1)
    out = chains(random.Random(7), 260)
    f64 = torch.float64
    r = lambda *s, dtype=f64: (torch.randn(s, dtype=f64) * 16).round().div(16).to(dtype)

    for a, b in [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (3,)),
                 ((3,), (5, 3, 4)), ((2, 3), (5, 3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((2, 0), (0, 3)), ((0, 3), (3, 2)),
                 ((0, 2, 3), (3, 4)), ((2, 3), (4, 5)), ((), (3,)), ((3,), (4,)), ((2, 2, 3), (3, 3, 4)), ((0,), (0,)),
                 ((2, 3, 0), (0, 4))]:
        out.append(run(f"matmul {a} {b}", [["MatMul"]], r(*a), r(*b)))
    out.append(run("matmul of a transpose", [["Transpose", 0, 1], ["MatMul"]], r(3, 2), r(3, 4)))
    out.append(run("matmul of a permuted batch", [["Permute", 1, 0, 2], ["MatMul"]], r(2, 5, 3), r(3, 4)))
    out.append(run("matmul mixed types", [["MatMul"]], r(2, 3), r(3, 2, dtype=torch.float32)))
    out.append(run("matmul float16 rounds", [["To", 0], ["MatMul"]], r(2, 3, dtype=torch.float16), r(3, 2, dtype=torch.float32)))
    for x, bias in [((2, 3), True), ((5, 2, 3), True), ((5, 2, 3), False), ((3,), True), ((0, 3), True)]:
        out.append(run(f"linear {x} {bias}", [["Linear"]], r(*x), r(4, 3), *([r(4)] if bias else [])))
    out.append(run("linear of a transpose", [["Transpose", 0, 1], ["Linear"]], r(3, 2, 5), r(4, 5), r(4)))
    out.append(run("linear wrong width", [["Linear"]], r(2, 3), r(4, 5), r(4)))
    for c in [(2, 4), (4,), (1, 4), (2, 1), (), (3, 4)]:
        out.append(run(f"addmm {c}", [["AddMM", 0.5, 2]], r(*c), r(2, 3), r(3, 4)))
    nan = torch.full((2, 4), math.nan, dtype=f64)
    out.append(run("addmm beta 0 does not read", [["AddMM", 0, 1]], nan, r(2, 3), r(3, 4)))
    out.append(run("addmm of no inner dimension", [["AddMM", 2, 1]], r(2, 4), r(2, 0), r(0, 4)))

    x = r(2, 3, 4)
    for dims in [[], [0], [1], [-1], [0, 2], [0, 1, 2], [1, 1], [3]]:
        for keep in (False, True):
            for o in ("Sum", "Mean", "Max", "Min"):
                out.append(run(f"{o} {dims} {keep}", [[o, keep] + dims], x))
            if dims != [1, 1]:
                for o in ("Var", "Std"):
                    out.append(run(f"{o} {dims} {keep}", [[o, 1, keep] + dims], x))
    for c in (0, 1, 2, 3, 4, 5):
        out.append(run(f"var correction {c}", [["Var", c, False, 2]], x))
    out.append(run("var of one", [["Var", 1, False]], r(1)))
    out.append(run("var of nothing", [["Var", 1, False, 1]], r(2, 0)))
    out.append(run("std of nothing", [["Std", 0, True]], r(0)))
    out.append(run("var of a large mean", [["Var", 1, False, 1]], (r(2, 50) + 1e4).float()))
    out.append(run("var of bfloat16", [["Var", 1, False, 1]], r(2, 50, dtype=torch.bfloat16)))
    for o in ("Sum", "Mean"):
        out.append(run(f"{o} of nothing", [[o, False, 1]], r(2, 0)))
        out.append(run(f"{o} of a scalar", [[o, False, 0]], r()))
        out.append(run(f"{o} of int32", [[o, False, 0]], iota(3, 2, dtype=torch.int32)))
    out.append(run("max of nothing", [["Max", False, 1]], r(2, 0)))
    out.append(run("max of nothing into nothing", [["Max", False, 0]], r(2, 0)))
    out.append(run("max with nan", [["Max", False, 1]], torch.tensor([[1, math.nan, 3], [4, 5, 6]], dtype=f64)))
    out.append(run("sum of bool", [["Sum", False]], torch.tensor([True, False, True])))
    out.append(run("prod of uint8", [["Prod"]], torch.tensor([200, 2, 3], dtype=torch.uint8)))
    out.append(run("prod of bool", [["Prod"]], torch.tensor([True, True])))
    for o in ("ArgMax", "ArgMin"):
        for a in [[0, False], [1, True], [-1, False], [3, False]]:
            out.append(run(f"{o} {a}", [[o] + a], x))
        out.append(run(f"{o} of equals", [[o, 0, False]], torch.tensor([1, 3, 3, 1, 1], dtype=torch.int64)))
        out.append(run(f"{o} of a scalar", [[o, 0, False]], r()))
        out.append(run(f"{o} of nothing", [[o, 1, False]], r(2, 0)))
    for o in ("Any", "All"):
        for d in (0, 1):
            out.append(run(f"{o} {d}", [[o, False, d]], torch.tensor([[True, False], [True, True]])))
        out.append(run(f"{o} of nothing", [[o, False, 1]], torch.zeros(2, 0, dtype=torch.bool)))

    for d in (0, 1, 2, -1):
        for o in ("Softmax", "LogSoftmax"):
            out.append(run(f"{o} {d}", [[o, d]], x))
            out.append(run(f"{o} gradient {d}", [[o + "Grad", d]], r(2, 3, 4), x))
    out.append(run("softmax of a scalar", [["Softmax", 0]], r()))
    out.append(run("softmax of nothing", [["Softmax", 0]], r(0, 2)))
    out.append(run("softmax of a transpose", [["Transpose", 0, 2], ["Softmax", 1]], x))
    out.append(run("softmax of large numbers", [["Softmax", 0]], torch.tensor([1000., 1001., -1000.])))
    out.append(run("softmax of integers", [["Softmax", 0]], iota(3, dtype=torch.int64)))
    target = torch.tensor([1, -100, 3, 0])
    out.append(run("nll", [["LogSoftmax", 1], ["NLL", -100]], r(4, 5), target))
    out.append(run("nll of another batch", [["NLL", -100]], r(3, 5), target))

    out.append(run("cat 0", [["Cat", 0]], r(2, 3), r(1, 3), r(0, 3)))
    out.append(run("cat -1", [["Cat", -1]], r(2, 3), r(2, 1)))
    out.append(run("cat of a transpose", [["Transpose", 0, 1], ["Cat", 1]], r(3, 2), r(2, 2)))
    out.append(run("cat promotes", [["Cat", 0]], iota(2, dtype=torch.int32), r(3, dtype=torch.float32)))
    out.append(run("cat skips [0]", [["Cat", 1]], torch.empty(0, dtype=f64), r(2, 3), torch.empty(0, dtype=f64), r(2, 1)))
    out.append(run("cat of [0]", [["Cat", 0]], r(0), r(0)))
    out.append(run("cat of [0] and [2]", [["Cat", 0]], r(0), r(2)))
    out.append(run("cat of scalars", [["Cat", 0]], r(), r()))
    out.append(run("cat of other shapes", [["Cat", 0]], r(2, 3), r(2, 4)))
    for d in (0, 1, 2, -1, -3, 3):
        out.append(run(f"stack {d}", [["Stack", d]], r(2, 3), r(2, 3)))
    out.append(run("stack of scalars", [["Stack", 0]], r(), r(), r()))
    out.append(run("stack of other shapes", [["Stack", 0]], r(2), r(3)))
    for d in (0, 1, -1):
        out.append(run(f"index_select {d}", [["IndexSelect", d]], r(3, 3), torch.tensor([2, 0, 2, 1])))
    out.append(run("index_select int32", [["IndexSelect", 0]], r(3, 3), torch.tensor([2, 0], dtype=torch.int32)))
    out.append(run("index_select of a scalar index", [["IndexSelect", 1]], r(3, 3), torch.tensor(2)))
    out.append(run("index_select of a scalar", [["IndexSelect", 0]], r(), torch.tensor([0])))
    out.append(run("index_select nothing", [["IndexSelect", 0]], r(3, 2), torch.empty(0, dtype=torch.int64)))
    out.append(run("index_select two dimensions", [["IndexSelect", 0]], r(3, 3), torch.tensor([[0]])))
    out.append(run("index_select float index", [["IndexSelect", 0]], r(3, 3), r(1)))
    out.append(run("index_add", [["IndexAdd", 0]], r(3, 2), torch.tensor([2, 0, 2]), r(3, 2)))
    out.append(run("index_add 1", [["IndexAdd", 1]], r(3, 2), torch.tensor([1, 1, 0]), r(3, 3)))
    out.append(run("index_add wrong", [["IndexAdd", 0]], r(3, 2), torch.tensor([1, 1]), r(3, 2)))

    c = torch.tensor([[True, False, True]])
    out.append(run("where", [["Where"]], c, r(2, 1), r(2, 3)))
    out.append(run("where scalars", [["Where"]], torch.tensor(True), r(), r(3)))
    special = torch.tensor([math.nan, math.inf, -math.inf, -2.5, -0.0, 0.0, 0.3, 7.0], dtype=f64)
    for dt in (f64, torch.float32):
        s = special.to(dt)
        for o in ("ReLU", "GELU", "GELUTanh", "SiLU", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Rsqrt", "Reciprocal", "Sin", "Cos",
                  "Neg", "Abs", "Sign", "Not"):
            # PyTorch computes x*sigmoid(x) in two ways, of which one makes NaN of -inf; the limit is 0
            out.append(run(f"{o} {dt}", [[o]], s[s != -math.inf] if o in ("SiLU", "GELUTanh") else s))
        out.append(run(f"leaky {dt}", [["LeakyReLU", 0.2]], s))
        out.append(run(f"softplus {dt}", [["Softplus", 2, 5]], s))
        out.append(run(f"clamp {dt}", [["Clamp", -1, 0.25]], s))
        out.append(run(f"clamp crossed {dt}", [["Clamp", 1, 0.25]], s))
        out.append(run(f"powscalar {dt}", [["PowScalar", 1.5]], s))
        out.append(run(f"powscalar 3 {dt}", [["PowScalar", 3]], s))
        out.append(run(f"maximum {dt}", [["Maximum"]], s, s.flip(0)))
        out.append(run(f"minimum {dt}", [["Minimum"]], s, s.flip(0)))
        finite = torch.tensor([-2.5, -0.4, 0.3, 1.0, 7.0], dtype=dt)
        g = torch.tensor([1.0, -2.0, 0.5, 3.0, 1.5], dtype=dt)
        for o in ("ReLU", "GELU", "GELUTanh", "SiLU", "Sigmoid", "Tanh"):
            out.append(run(f"{o} gradient {dt}", [[o + "Grad"]], g, finite))
        out.append(run(f"leaky gradient {dt}", [["LeakyReLUGrad", 0.2]], g, finite))
        out.append(run(f"softplus gradient {dt}", [["SoftplusGrad", 2, 5]], g, finite))
    ints = torch.tensor([-3, 0, 2, 5])
    for o in ("Exp", "Sigmoid", "Sqrt", "Neg", "Abs", "Sign", "ReLU", "GELU", "SiLU", "Not", "Reciprocal"):
        out.append(run(f"{o} of int64", [[o]], ints))
    out.append(run("neg of uint8", [["Neg"]], torch.tensor([0, 1, 255], dtype=torch.uint8)))
    for v in (2, -3, 0, 2.5):
        for o in ("AddScalar", "MulScalar", "PowScalar", "EqScalar", "LtScalar"):
            out.append(run(f"{o} {v} of int64", [[o, v]], ints))
    out.append(run("clamp of int64", [["Clamp", -1, 3]], ints))
    out.append(run("clamp of int64 to fractions", [["Clamp", -1.5, 3.5]], ints))
    out.append(run("add scaled", [["AddScaled", 3]], ints, torch.tensor([1, 2, 3, 4])))
    out.append(run("add scaled fraction of integers", [["AddScaled", 0.5]], ints, torch.tensor([1, 2, 3, 4])))
    out.append(run("div of integers", [["Div"]], ints, torch.tensor([2, 0, 4, 3])))
    out.append(run("pow of integers", [["Pow"]], ints, torch.tensor([3, 0, 10, 2])))
    out.append(run("add of bools", [["Add"]], torch.tensor([True, False, True]), torch.tensor([True, False, False])))
    out.append(run("and of numbers", [["And"]], ints, torch.tensor([1., 1., 0., math.nan])))
    out.append(run("or of numbers", [["Or"]], ints, torch.tensor([0., 0., 0., 0.])))
    for a, b in [((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 2)), ((0, 3), (1, 3)), ((2, 3), (2,)), ((0,), (3,)), ((1,), (0,)),
                 ((4, 1, 3), (2, 1))]:
        for o in ("Add", "Sub", "Mul", "Div"):
            out.append(run(f"{o} {a} {b}", [[o]], r(*a), r(*b)))
    halves = torch.tensor([0.1, 65504, 1e-8, -3.14159, 2049], dtype=f64)
    for i, n in enumerate(DTYPES):
        out.append(run(f"to {n}", [["To", i]], torch.tensor([0, 1, 2.75, 100.5], dtype=f64)))
    for i in (2, 3):
        out.append(run(f"to half {i}", [["To", i]], halves))
    return out


def optimizers():
    """Three steps of each optimizer on two parameters; the gradients are the same numbers in each step."""
    out = []
    cases = [("SGD", dict(lr=0.1)), ("SGD", dict(lr=0.1, momentum=0.9)), ("SGD", dict(lr=0.1, momentum=0.9, nesterov=True)),
             ("SGD", dict(lr=0.1, momentum=0.5, dampening=0.3, weight_decay=0.1)), ("SGD", dict(lr=0.1, maximize=True)),
             ("Adam", dict(lr=0.01)), ("Adam", dict(lr=0.01, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.1)),
             ("AdamW", dict(lr=0.01, weight_decay=0.1)), ("AdamW", dict(lr=0.01, weight_decay=0.2, maximize=True))]
    for name, config in cases:
        params = [torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64), torch.tensor([[0.5]], dtype=torch.float64)]
        grads = [torch.tensor([0.3, 0.2, -0.1], dtype=torch.float64), torch.tensor([[1.5]], dtype=torch.float64)]
        for p in params:
            p.requires_grad_()
        o = getattr(torch.optim, name)(params, **config)
        steps = []
        for _ in range(3):
            for p, g in zip(params, grads):
                p.grad = g.clone()
            o.step()
            steps.append([p.detach().flatten().tolist() for p in params])
        out.append({"optimizer": name, "config": config, "params": [[1.0, -2.0, 3.0], [0.5]],
                    "grads": [g.flatten().tolist() for g in grads], "steps": steps})
    return out


for file, make in {"promote.json": promotions, "programs.json": programs, "optimizers.json": optimizers}.items():
    with open(file, "w") as f:
        made = make()
        if isinstance(made, list):
            f.write("[\n" + ",\n".join(json.dumps(m, separators=(",", ":")) for m in made) + "\n]\n")
        else:
            json.dump(made, f, separators=(",", ":"))
            f.write("\n")
