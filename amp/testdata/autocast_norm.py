"""Writes autocast_norm.json, in the form of autocast.json (see autocast.py): normalisations, and operations with an index for each
element.

    python3 autocast_norm.py >autocast_norm.json

It was made with PyTorch 1.13, which does not have rms_norm: later versions have it in the list of layer_norm (lower_precision_fp32
of aten/src/ATen/autocast_mode.h), so layer_norm stands for it here. batch_norm, instance_norm and embedding_bag do not run on fake tensors; they are
in no list, so they give the type of their argument.
"""
import json

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

mode = FakeTensorMode()
FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
LETTERS = {torch.bool: "?", torch.int64: "i", torch.float32: "f", torch.float16: "h", torch.bfloat16: "b", torch.float64: "d"}


def fake(dtype, *shape):
    return FakeTensor(mode, torch.empty(*shape, dtype=dtype, device="meta"), torch.device("cuda:0"))


index, mask, row = fake(torch.int64, 4, 4), fake(torch.bool, 4, 4), fake(torch.int64, 4)


def norm(f):
    """An operation on [4, 4], with a weight and a bias of [4] as there are arguments."""
    return lambda x, *w: f(x, *w, *[None] * (2 - len(w)))


NORMS = {
    "layer_norm": norm(lambda x, w, b: F.layer_norm(x, (4,), w, b)),
    "rms_norm": norm(lambda x, w, b: F.layer_norm(x, (4,), w, b)),
    "group_norm": norm(lambda x, w, b: F.group_norm(x, 2, w, b)),
    "batch_norm": norm(lambda x, w, b: x),
    "instance_norm": norm(lambda x, w, b: x),
}
ONE = {
    "gather": lambda a: a.gather(1, index), "take_along_dim": lambda a: torch.take_along_dim(a, index, 1),
    "scatter_value": lambda a: a.scatter(1, index, 2.5), "masked_fill": lambda a: a.masked_fill(mask, 1.5),
    "embedding": lambda a: F.embedding(row, a), "embedding_bag": lambda a: a,
}
TWO = {
    "scatter": lambda a, b: a.scatter(1, index, b), "scatter_add": lambda a, b: a.scatter_add(1, index, b),
    "index_add": lambda a, b: a.index_add(0, row, b),
}


def results(f, kinds, other):
    types = {}
    for arguments in kinds:
        tensors = [fake(arguments[0], 4, 4)] + [fake(d, *other) for d in arguments[1:]]
        torch.clear_autocast_cache()
        try:
            types["".join(LETTERS[d] for d in arguments)] = LETTERS[f(*tensors).dtype]
        except RuntimeError:  # scatter_add of the other type of 16 bits
            continue
    return types


rows = []
torch.set_autocast_enabled(True)
for region in (torch.float16, torch.bfloat16):
    torch.set_autocast_gpu_dtype(region)

    def add(name, f, kinds, other=(4, 4)):
        rows.append({"op": name, "region": str(region).split(".")[1], "results": results(f, kinds, other)})

    for name, f in NORMS.items():
        for n, suffix in ((1, ""), (2, "_weight"), (3, "_affine")):
            if (name, n) != ("rms_norm", 3):
                add(name + suffix, f, [[d] * n for d in FLOATS], (4,))
    for name, f in ONE.items():
        add(name, f, [[d] for d in FLOATS])
    for name, f in TWO.items():
        add(name, f, [[d, d] for d in FLOATS])
    rows.append({"op": "one_hot", "region": str(region).split(".")[1], "results": {"f": "i"}})  # of classes: no float is cast
print("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]")
