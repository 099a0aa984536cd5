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


def prepared(name):
    """The call of a case."""
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
