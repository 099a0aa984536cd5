"""Writes result_types.json: the types of results of PyTorch's operations for all pairs of types, of tensors with dimensions, tensors
without, and numbers. "" is a refusal. Run: OMP_NUM_THREADS=1 python3 result_types.py"""

import json

import torch

names = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool"]
operations = {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Pow": torch.pow, "Maximum": torch.maximum,
    "Minimum": torch.minimum, "Fmod": torch.fmod, "Remainder": torch.remainder,
    "Where": lambda a, b: torch.where(torch.ones(2, dtype=torch.bool), a, b),
    "AddCMul": lambda a, b: torch.addcmul(a, b, b), "AddCDiv": lambda a, b: torch.addcdiv(a, b, b),
    "Cat": lambda a, b: torch.cat([a, b]) if a.dim() * b.dim() else None,
    "Stack": lambda a, b: torch.stack([a, b]) if a.dim() == b.dim() else None,
}
in_place = {"AddInPlace": "add_", "SubInPlace": "sub_", "MulInPlace": "mul_", "DivInPlace": "div_"}
scalars = {"AddScalar": torch.add, "MulScalar": torch.mul, "DivScalar": torch.div, "FmodScalar": torch.fmod, "EqScalar": torch.eq}


def one(name, dims):
    return torch.ones([2] * dims, dtype=getattr(torch, name))


def text(dtype):
    return str(dtype).removeprefix("torch.")


def result(f):
    """The type of f's result, or "" if it refuses its types, or None if it lacks a kernel for them."""
    try:
        r = f()
        return None if r is None else text(r.dtype)
    except RuntimeError as e:
        return None if "not implemented for" in str(e) else ""


def rows():
    for a in names:
        for b in names:
            for m, n in ((1, 1), (1, 0), (0, 1), (0, 0)):
                yield ["ResultType", a, m, b, n, text(torch.result_type(one(a, m), one(b, n)))]
                for name, f in operations.items():
                    yield [name, a, m, b, n, result(lambda: f(one(a, m), one(b, n)))]
                if m >= n:
                    for name, f in in_place.items():
                        yield [name, a, m, b, n, result(lambda: getattr(one(a, m), f)(one(b, n)))]
        for m in (0, 1):
            for v in (2, 2.5):
                for name, f in scalars.items():
                    yield [name, a, m, v, -1, result(lambda: f(one(a, m), v))]


with open("result_types.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(r) for r in rows() if r[-1] is not None) + "\n]\n")
