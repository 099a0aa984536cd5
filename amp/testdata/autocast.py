"""Writes autocast.json: the types of results that PyTorch's autocast gives on CUDA devices. No GPU is needed: fake tensors
have the device and the dispatch of CUDA tensors, and no data.

    python3 autocast.py >autocast.json

It was made with PyTorch 1.13. For each operation and type of the region there are pairs of the types of the arguments and that
of the result, a letter each: f float32, h float16, b bfloat16, d float64, i int64, ? bool, ! an error.
"""
import itertools
import json
import sys

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

mode = FakeTensorMode()
FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
LETTERS = {torch.bool: "?", torch.int64: "i", torch.float32: "f", torch.float16: "h", torch.bfloat16: "b", torch.float64: "d"}


def fake(dtype, *shape):
    return FakeTensor(mode, torch.empty(*shape, dtype=dtype, device="meta"), torch.device("cuda:0"))


classes, mask = fake(torch.int64, 4), fake(torch.bool, 4, 4)
index = fake(torch.int64, 2)

# Operations of autograd on one argument [4, 4].
ONE = {
    "abs": torch.abs, "add_scalar": lambda a: a + 1.5, "amax": lambda a: a.amax(-1), "amin": lambda a: a.amin(-1),
    "argmax": lambda a: a.argmax(-1), "argmin": lambda a: a.argmin(-1), "clamp": lambda a: a.clamp(-1, 1),
    "contiguous": lambda a: a.contiguous(), "cos": torch.cos, "cross_entropy": lambda a: F.cross_entropy(a, classes),
    "div_scalar": lambda a: a / 1.5, "dropout": lambda a: F.dropout(a, 0.5), "exp": torch.exp,
    "expand": lambda a: a.expand(2, 4, 4), "flatten": torch.flatten, "gelu": F.gelu,
    "gelu_tanh": lambda a: F.gelu(a, approximate="tanh"), "index_select": lambda a: a.index_select(0, index),
    "leaky_relu": F.leaky_relu, "log": torch.log, "log_softmax": lambda a: F.log_softmax(a, -1), "mean": lambda a: a.mean(),
    "mul_scalar": lambda a: a * 1.5, "narrow": lambda a: a.narrow(0, 1, 2), "neg": torch.neg,
    "nll_loss": lambda a: F.nll_loss(a, classes), "permute": lambda a: a.permute(1, 0), "pow_scalar": lambda a: a**3.0,
    "reciprocal": torch.reciprocal, "relu": F.relu, "reshape": lambda a: a.reshape(2, 8), "rsqrt": torch.rsqrt,
    "select": lambda a: a.select(0, 1), "sigmoid": torch.sigmoid, "silu": F.silu, "sin": torch.sin, "slice": lambda a: torch.ops.aten.slice(a, 0, 0, 2),
    "softmax": lambda a: F.softmax(a, -1), "softplus": F.softplus, "sqrt": torch.sqrt, "squeeze": torch.squeeze,
    "std": lambda a: a.std(), "sub_scalar": lambda a: a - 1.5, "sum": lambda a: a.sum(), "t": lambda a: a.t(), "tanh": torch.tanh,
    "to": lambda a: a.to(torch.float64), "transpose": lambda a: a.transpose(0, 1), "unsqueeze": lambda a: a.unsqueeze(0),
    "var": lambda a: a.var(), "view": lambda a: a.view(16),
}
# scaled_dot_product_attention is newer than PyTorch 1.13, and made of operations that are not. PyTorch's list has it with the
# matrix products. One argument stands for its operands side by side, or three for themselves.
def attention(q, k, v):
    return torch.softmax(q @ k.t(), -1).to(torch.get_autocast_gpu_dtype() if q.dtype != torch.float64 else q.dtype) @ v


ONE["scaled_dot_product_attention_packed"] = lambda a: attention(a, a, a)
# Operations on two arguments [4, 4].
TWO = {
    "add": torch.add, "binary_cross_entropy": F.binary_cross_entropy, "huber_loss": F.huber_loss, "kl_div": F.kl_div,
    "smooth_l1_loss": F.smooth_l1_loss, "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
    "cat": lambda a, b: torch.cat([a, b]), "div": torch.div, "eq": torch.eq, "ge": torch.ge, "gt": torch.gt, "l1_loss": F.l1_loss,
    "le": torch.le, "linear": F.linear, "lt": torch.lt, "matmul": torch.matmul, "maximum": torch.maximum,
    "minimum": torch.minimum, "mse_loss": F.mse_loss, "mul": torch.mul, "ne": torch.ne, "pow": torch.pow,
    "stack": lambda a, b: torch.stack([a, b]), "sub": torch.sub, "where": lambda a, b: torch.where(mask, a, b),
}
# Operations that autograd does not have: the caster is asked for the types of their arguments.
PEERS = {
    "addcmul": lambda a, b: torch.addcmul(a, b, b), "atan2": torch.atan2, "dist": torch.dist, "mm": torch.mm,
}


# Products take one type. Fake tensors do not notice when a double, which is never converted, is mixed with another.
PRODUCTS = {"linear", "linear_bias", "matmul", "mm"}
MIXED = PRODUCTS | {"binary_cross_entropy_with_logits"}  # which computes in place in the type of the target


def result(f, args):
    torch.clear_autocast_cache()
    try:
        return LETTERS[f(*args).dtype]
    except RuntimeError:
        return "!"


def results(name, f, choices, shapes):
    pairs = {}
    for types in itertools.product(choices, repeat=len(shapes)):
        if name in MIXED and torch.float64 in types and len(set(types)) > 1:
            continue
        args = [fake(t, *shape) for t, shape in zip(types, shapes)]
        pairs["".join(LETTERS[t] for t in types)] = result(f, args)
    return pairs


def rows():
    torch.set_autocast_enabled(True)
    for region in ["float16", "bfloat16"]:
        torch.set_autocast_gpu_dtype(getattr(torch, region))
        for name, f in sorted(ONE.items()):
            yield name, region, results(name, f, FLOATS, [(4, 4)])
        for name, f in sorted((TWO | PEERS).items()):
            yield name, region, results(name, f, FLOATS, [(4, 4), (4, 4)])
        yield "scaled_dot_product_attention", region, results("scaled_dot_product_attention", attention, FLOATS[:3], [(4, 4)] * 3)
        yield "linear_bias", region, results("linear_bias", F.linear, FLOATS[:3], [(2, 4), (4, 4), (4,)])


lines = (json.dumps({"op": name, "region": region, "results": pairs}) for name, region, pairs in rows())
sys.stdout.write("[\n" + ",\n".join(lines) + "\n]\n")
