"""Writes autocast.json: the types of results that PyTorch's autocast gives on CUDA devices. No GPU is needed: fake tensors
have the device and the dispatch of CUDA tensors, and no data.

    python3 autocast.py >autocast.json

It was made with PyTorch 1.13. For each operation and type of the region there are pairs of the types of the arguments and that
of the result, a letter each: f float32, h float16, b bfloat16, d float64, i int64, ? bool, ! an error.
"""
import itertools
import json
import pathlib
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
    "amax": lambda a: a.amax(-1), "amin": lambda a: a.amin(-1), "argmax": lambda a: a.argmax(-1), "argmin": lambda a: a.argmin(-1),
    "contiguous": lambda a: a.contiguous(), "to_memory_format": lambda a: a.view(1, 2, 2, 4).to(memory_format=torch.channels_last), "cross_entropy": lambda a: F.cross_entropy(a, classes), "dropout": lambda a: F.dropout(a, 0.5),
    "expand": lambda a: a.expand(2, 4, 4), "flatten": torch.flatten, "index_select": lambda a: a.index_select(0, index),
    "log_softmax": lambda a: F.log_softmax(a, -1), "mean": lambda a: a.mean(), "narrow": lambda a: a.narrow(0, 1, 2),
    "nll_loss": lambda a: F.nll_loss(a, classes), "permute": lambda a: a.permute(1, 0), "reshape": lambda a: a.reshape(2, 8),
    "select": lambda a: a.select(0, 1), "slice": lambda a: torch.ops.aten.slice(a, 0, 0, 2),
    "softmax": lambda a: F.softmax(a, -1), "squeeze": torch.squeeze,
    "std": lambda a: a.std(), "sub_scalar": lambda a: a - 1.5, "sum": lambda a: a.sum(), "t": lambda a: a.t(),
    "to": lambda a: a.to(torch.float64), "transpose": lambda a: a.transpose(0, 1), "unsqueeze": lambda a: a.unsqueeze(0),
    "var": lambda a: a.var(), "view": lambda a: a.view(16),
    "avg_pool1d": lambda a: F.avg_pool1d(a, 2), "avg_pool2d": lambda a: F.avg_pool2d(a.view(1, 4, 4), 2),
    "adaptive_avg_pool1d": lambda a: F.adaptive_avg_pool1d(a, 2),
    "adaptive_avg_pool2d": lambda a: F.adaptive_avg_pool2d(a.view(1, 4, 4), 2),
    "adaptive_max_pool1d": lambda a: F.adaptive_max_pool1d(a, 2),
    "adaptive_max_pool2d": lambda a: F.adaptive_max_pool2d(a.view(1, 4, 4), 2),
    "max_pool1d": lambda a: F.max_pool1d(a, 2), "max_pool2d": lambda a: F.max_pool2d(a.view(1, 4, 4), 2),
}
# scaled_dot_product_attention is newer than PyTorch 1.13, and made of operations that are not. PyTorch's list has it with the
# matrix products. One argument stands for its operands side by side, or three for themselves.
def attention(q, k, v):
    return torch.softmax(q @ k.t(), -1).to(torch.get_autocast_gpu_dtype() if q.dtype != torch.float64 else q.dtype) @ v


ONE["scaled_dot_product_attention_packed"] = lambda a: attention(a, a, a)
ONE |= {
    "all": lambda a: a.all(), "any": lambda a: a.any(), "eq_scalar": lambda a: a == 1.5, "ge_scalar": lambda a: a >= 1.5,
    "gt_scalar": lambda a: a > 1.5, "le_scalar": lambda a: a <= 1.5, "lt_scalar": lambda a: a < 1.5, "ne_scalar": lambda a: a != 1.5,
    "argsort": lambda a: a.argsort(), "count_nonzero": torch.count_nonzero, "cumprod": lambda a: a.cumprod(0),
    "cumsum": lambda a: a.cumsum(0), "diag_embed": lambda a: a.diag_embed(), "diagonal": lambda a: a.diagonal(),
    "flip": lambda a: a.flip(0), "fmod_scalar": lambda a: a.fmod(1.5),
    "lerp": lambda a: a.lerp(a, a),
    "lerp_scalar": lambda a: a.lerp(a, 0.25), "logsumexp": lambda a: a.logsumexp(-1),
    "masked_fill": lambda a: a.masked_fill(mask, 1.5), "max": lambda a: a.max(0).values, "min": lambda a: a.min(0).values,
    "movedim": lambda a: a.movedim(0, 1), "norm": lambda a: a.norm(2), "pad": lambda a: F.pad(a, (1, 1)), "prod": lambda a: a.prod(),
    "rdiv_scalar": lambda a: 1.5 / a, "remainder_scalar": lambda a: a % 1.5, "repeat": lambda a: a.repeat(2, 2),
    "repeat_interleave": lambda a: a.repeat_interleave(2, 0), "roll": lambda a: a.roll(1, 0),
    "rpow_scalar": lambda a: torch.pow(2.0, a), "rsub_scalar": lambda a: 1.5 - a, "sort": lambda a: a.sort().values,
    "topk": lambda a: a.topk(2).values, "tril": torch.tril, "triu": torch.triu,
    "add_scalar_": lambda a: a.clone().add_(1.5), "clamp_": lambda a: a.clone().clamp_(-1, 1),
    "masked_fill_": lambda a: a.clone().masked_fill_(mask, 1.5), "mul_scalar_": lambda a: a.clone().mul_(1.5),
    "lerp_": lambda a: a.clone().lerp_(a, a), "lerp_scalar_": lambda a: a.clone().lerp_(a, 0.25),
}
# Operations on two arguments [4, 4].
TWO = {
    "addcdiv": lambda a, b: torch.addcdiv(a, b, b), "addcmul": lambda a, b: torch.addcmul(a, b, b), "addmm": lambda a, b: torch.addmm(b, a, b),
    "baddbmm": lambda a, b: torch.baddbmm(a[None], a[None], b[None]), "bmm": lambda a, b: torch.bmm(a[None], b[None]),
    "dot": lambda a, b: torch.dot(a[0], b[0]), "einsum": lambda a, b: torch.einsum("ij,jk->ik", a, b), "mm": torch.mm,
    "mv": lambda a, b: torch.mv(a, b[0]), "outer": lambda a, b: torch.outer(a[0], b[0]),
    "tensordot": lambda a, b: torch.tensordot(a, b, 1),
    "add_": lambda a, b: a.clone().add_(b), "div_": lambda a, b: a.clone().div_(b), "mul_": lambda a, b: a.clone().mul_(b),
    "sub_": lambda a, b: a.clone().sub_(b),
    "add": torch.add, "binary_cross_entropy": F.binary_cross_entropy, "huber_loss": F.huber_loss, "kl_div": F.kl_div,
    "smooth_l1_loss": F.smooth_l1_loss, "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
    "cat": lambda a, b: torch.cat([a, b]), "l1_loss": F.l1_loss,
    "linear": F.linear, "matmul": torch.matmul,
    "mse_loss": F.mse_loss,
    "conv1d": lambda a, b: F.conv1d(a, b.view(4, 4, 1)),
    "conv2d": lambda a, b: F.conv2d(a.view(4, 2, 2), b.view(4, 4, 1, 1)),
    "conv_transpose1d": lambda a, b: F.conv_transpose1d(a, b.view(4, 4, 1)),
    "conv_transpose2d": lambda a, b: F.conv_transpose2d(a.view(4, 2, 2), b.view(4, 4, 1, 1)),
    "stack": lambda a, b: torch.stack([a, b]), "where": lambda a, b: torch.where(mask, a, b),
}
# Operations that autograd does not have: the caster is asked for the types of their arguments.
PEERS = {
    "grid_sampler": lambda a, b: F.grid_sample(a.view(1, 1, 4, 4), b.view(1, 2, 4, 2), align_corners=False), "chain_matmul": torch.chain_matmul, "dist": torch.dist,
}

for op in json.loads((pathlib.Path(__file__).resolve().parent / "../../internal/elementwise/ops.json").read_text()):
    f = eval("lambda x, y=None: " + op["expression"], {"torch": torch, "F": F})
    if op["inputs"] == 1:
        ONE[op["torch"]] = f
    else:
        TWO[op["torch"]] = f
    if op["in_place"]:
        ONE[op["torch"] + "_"] = lambda a, name=op["torch"] + "_": getattr(a.clone(), name)()

ONE["bitwise_not"] = lambda a: a.long().bitwise_not()
for name in ["and", "or", "xor", "left_shift", "right_shift"]:
    TWO["bitwise_" + name] = lambda a, b, f=getattr(torch, "bitwise_" + name): f(a.long(), b.long())
    ONE[f"bitwise_{name}_scalar"] = lambda a, f=getattr(torch, "bitwise_" + name): f(a.long(), 1)

# Convolutions with a bias.
BIASED = [
    ("conv1d_bias", F.conv1d, [(4, 4), (4, 4, 1), (4,)]), ("conv2d_bias", F.conv2d, [(4, 2, 2), (4, 4, 1, 1), (4,)]),
    ("conv_transpose1d_bias", F.conv_transpose1d, [(4, 4), (4, 4, 1), (4,)]),
    ("conv_transpose2d_bias", F.conv_transpose2d, [(4, 2, 2), (4, 4, 1, 1), (4,)]),
]

# Products take one type. Fake tensors do not notice when a double, which is never converted, is mixed with another.
PRODUCTS = {
    "addmm", "baddbmm", "bmm", "chain_matmul", "conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d", "einsum", "linear",
    "linear_bias", "matmul", "mm", "mv", "tensordot",
}
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


def known(name, f, shapes):
    """Some operations of PyTorch 1.13 have no kernel for fake tensors: policy_test.go lists them."""
    try:
        f(*(fake(torch.float32, *shape) for shape in shapes))
    except (AssertionError, NotImplementedError, RuntimeError) as e:
        if "unsafe to autocast" in str(e):
            return True
        print("no fake kernel:", name, file=sys.stderr)
        return False
    return True


def rows():
    torch.set_autocast_enabled(True)
    for region in ["float16", "bfloat16"]:
        torch.set_autocast_gpu_dtype(getattr(torch, region))
        for name, f in sorted(ONE.items()):
            if known(name, f, [(4, 4)]):
                yield name, region, results(name, f, FLOATS, [(4, 4)])
        for name, f in sorted((TWO | PEERS).items()):
            if known(name, f, [(4, 4), (4, 4)]):
                yield name, region, results(name, f, FLOATS, [(4, 4), (4, 4)])
        yield "scaled_dot_product_attention", region, results("scaled_dot_product_attention", attention, FLOATS[:3], [(4, 4)] * 3)
        yield "linear_bias", region, results("linear_bias", F.linear, FLOATS[:3], [(2, 4), (4, 4), (4,)])
        for name, f, shapes in BIASED:
            yield name, region, results(name, f, FLOATS[:3], shapes)


lines = (json.dumps({"op": name, "region": region, "results": pairs}) for name, region, pairs in rows())
sys.stdout.write("[\n" + ",\n".join(lines) + "\n]\n")
