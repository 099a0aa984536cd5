"""Makes orderstats.json, the reference values of what is chosen by order, with PyTorch: python3 orderstats.py. The form is that of programs.json."""
import json
import math

import torch

NAMES = {torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.int64: "int64", torch.int32: "int32", torch.uint8: "uint8", torch.bool: "bool"}
nan, inf = math.nan, math.inf


def number(x):
    x = float(x)
    return repr(x) if math.isnan(x) or math.isinf(x) else x


def pack(t):
    return {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data": [number(x) for x in t.double().flatten().tolist()]}


def both(name, f):
    return {name: lambda t, *a: f(t[0], *a)[0], name + " indices": lambda t, *a: f(t[0], *a)[1]}


OPS = {"IsClose": lambda t, rtol, atol, nan: torch.isclose(t[0], t[1], rtol, atol, nan)}
OPS |= both("KthValue", lambda t, k, d, keep: t.kthvalue(k, d, keep))
OPS |= both("MedianDim", lambda t, d, keep: t.median(d, keep))
OPS |= both("NanMedianDim", lambda t, d, keep: t.nanmedian(d, keep))
OPS |= both("ModeDim", lambda t, d, keep: t.mode(d, keep))
OPS |= both("CumMax", lambda t, d: t.cummax(d))
OPS |= both("CumMin", lambda t, d: t.cummin(d))
programs = []


def case(op, *inputs, args=()):
    got = OPS[op](inputs, *args)
    programs.append({"name": f"{op} {len(programs)}", "inputs": [pack(t) for t in inputs], "steps": [[op, *args]], "want": pack(got)})


def pair(op, x, *args):
    case(op, x, args=args)
    case(op + " indices", x, args=args)


torch.manual_seed(5)
x, ints = torch.randn(3, 5, dtype=torch.float64), torch.randint(0, 4, (3, 6))
wild = torch.tensor([[1.0, nan, inf, -inf, nan], [nan, 2.0, 3.0, 3.5, 1.0], [nan] * 5])
for k in (1, 3, 5):
    pair("KthValue", x, k, 1, False)
pair("KthValue", x, 2, 0, True)
pair("KthValue", torch.tensor(3.0), 1, 0, True)
case("KthValue", ints, args=(3, -1, False))
case("KthValue", wild, args=(2, 1, False))
for op in ("MedianDim", "NanMedianDim"):
    pair(op, x, 1, False)
    pair(op, x[:2], 0, True)
    pair(op, torch.tensor(3.0), 0, False)
    case(op, ints, args=(1, False))
    case(op, wild, args=(1, False))
pair("MedianDim", torch.tensor([[1.0, nan, 2.0, nan], [4.0, 3.0, 2.0, 1.0]]), 1, False)
pair("NanMedianDim", wild[1:2], 1, False)
pair("ModeDim", ints, 1, False)
pair("ModeDim", ints, 0, True)
pair("ModeDim", torch.tensor([2.0, 1.0, 1.0, 2.0, 3.0]), 0, False)
pair("ModeDim", torch.tensor(3.0), 0, True)
for op in ("CumMax", "CumMin"):
    pair(op, x, 1)
    pair(op, ints, 1)
    pair(op, ints.to(torch.uint8), 0)
    pair(op, wild, 1)
    pair(op, torch.tensor(3.0), 0)
    pair(op, torch.zeros(0, 2), 0)
a, b = torch.tensor([1.0, 1.0, 1.0, nan, nan, inf, inf, -inf, 1e-9]), torch.tensor([1.0, 1.00001, 1.1, nan, 1.0, inf, -inf, 3.0, 0.0])
for args in ((1e-5, 1e-8, False), (1e-4, 0.0, True), (0.0, 0.2, False)):
    case("IsClose", a, b, args=args)
case("IsClose", ints, torch.tensor([1]), args=(0.0, 1.0, False))
case("IsClose", a.half(), b.half(), args=(1e-3, 1e-3, True))
json.dump(programs, open("orderstats.json", "w"), separators=(",", ":"))
