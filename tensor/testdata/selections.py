"""Makes selections.json, the reference values of what selects elements by values, places and indices, with PyTorch: python3 selections.py

The form is that of programs.json: inputs, operations with their arguments, and what comes out; no "want" is an error."""
import json
import math

import torch

NAMES = {torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.bfloat16: "bfloat16",
         torch.int64: "int64", torch.int32: "int32", torch.uint8: "uint8", torch.bool: "bool"}
REDUCE = ["sum", "prod", "mean", "amax", "amin"]
f32, f64, i64, i32, u8, f16, bf16, boolean = torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.float16, torch.bfloat16, torch.bool
nan, inf = math.nan, math.inf


def number(x):
    x = float(x)
    return repr(x) if math.isnan(x) or math.isinf(x) else x


def pack(t):
    return {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data": [number(x) for x in t.double().flatten().tolist()]}


def at(t, places):
    return tuple(slice(None) if p < 0 else t[p].long() if t[p].dtype == i32 else t[p] for p in places)


def put(t, accumulate, *places):
    if any(p < 0 for p in places):
        out = t[0].clone()
        assert not accumulate
        out[at(t, places)] = t[1]
        return out
    return t[0].clone().index_put_(at(t, places), t[1], bool(accumulate))


def unique(k):
    return lambda t: torch.unique(t[0], return_inverse=True, return_counts=True)[k]


OPS = {
    "Nonzero": lambda t: t[0].nonzero(), "MaskedSelect": lambda t: t[0].masked_select(t[1]), "Unique": unique(0), "Unique inverse": unique(1),
    "Unique counts": unique(2), "BinCount": lambda t, n: torch.bincount(t[0], t[1] if len(t) > 1 else None, n),
    "IsIn": lambda t: torch.isin(t[0], t[1]), "IndexCopy": lambda t, d: t[0].index_copy(d, t[1], t[2]),
    "IndexFill": lambda t, d, v: t[0].index_fill(d, t[1], v), "Index": lambda t, *p: t[0][at(t, p)], "IndexPut": put,
    "ScatterReduce": lambda t, d, how, self: t[0].scatter_reduce(d, t[1], t[2], REDUCE[how], include_self=bool(self)),
    "SearchSorted": lambda t, right: torch.searchsorted(t[0], t[1].contiguous(), right=bool(right)),
    "Bucketize": lambda t, right: torch.bucketize(t[0], t[1], right=bool(right)),
    "MeshGrid": lambda t, xy: torch.meshgrid(*t, indexing="xy" if xy else "ij")[0].contiguous(),
}
programs = []


def case(op, *inputs, args=(), name=""):
    got = OPS[op](inputs, *args)
    programs.append({"name": f"{op} {name}{len(programs)}", "inputs": [pack(t) for t in inputs], "steps": [[op, *args]], "want": pack(got)})


def T(data, dtype=f64):
    return torch.tensor(data, dtype=dtype)


torch.manual_seed(3)
for dtype in NAMES:
    x = T([[0, 1, 2], [3, 0, 0]]).to(dtype)
    case("Nonzero", x)
    case("MaskedSelect", x, T([[1, 0, 1], [0, 1, 1]], boolean))
    if dtype not in (f16, bf16):
        case("Unique", x), case("Unique inverse", x), case("Unique counts", x)
    case("IndexCopy", x, T([2, 0], i64), T([[7, 8], [9, 10]]).to(dtype), args=[1])
    case("IndexFill", x, T([1, -1], i64), args=[1, 1])
    case("Index", x, T([1, 0, -1], i64), T([0, -1, 1], i64), args=[1, 2])
    case("Index", x, T([[2, 0], [1, 1]], i64), args=[-1, 1])
    case("IndexPut", x, T([5, 6]).to(dtype), T([1, 0], i64), T([0, 2], i64), args=[0, 2, 3])
    if dtype != boolean:
        case("SearchSorted", T([0, 1, 1, 3]).to(dtype), x, args=[0])
        case("SearchSorted", T([0, 1, 1, 3]).to(dtype), x, args=[1])
        for how in range(5):
            for self in (0, 1):
                if dtype in (f16, bf16) and how in (0, 2):
                    continue
                case("ScatterReduce", x, T([[1, 1, 0, 1, 0], [2, 2, 2, 2, 2]], i64), T([[2, 3, 4, 1, 5], [1, 2, 1, 4, 2]]).to(dtype), args=[1, how, self])
case("Nonzero", T(3.0)), case("Nonzero", T(0.0)), case("Nonzero", T([], f32)), case("Nonzero", T([nan, 0.0, -0.0, inf]))
case("Nonzero", torch.randint(0, 2, (3, 4, 2)))
case("Nonzero", torch.zeros(2, 0, 3))
case("MaskedSelect", T([1.0, 2.0, 3.0]), T([[True], [False], [True]], boolean)), case("MaskedSelect", T(2.0), T(True, boolean))
case("MaskedSelect", T([[1.0], [2.0]]), T([True, False], boolean)), case("MaskedSelect", torch.zeros(0, 3), torch.zeros(3, dtype=boolean))
for k in ("Unique", "Unique inverse", "Unique counts"):
    case(k, T([3.0, 1.0, 3.0, -inf, 2.0, 1.0, inf, 3.0])), case(k, T([[5, 5], [5, 5]], i64)), case(k, T(4.0))
    case(k, torch.randint(-5, 5, (6, 7))), case(k, T([], i64))
case("Unique", T([nan, 1.0, nan]))
case("BinCount", T([1, 3, 3, 0, 1, 1], i64), args=[0]), case("BinCount", T([1, 3], i32), args=[7]), case("BinCount", T([1, 2, 2], u8), args=[0])
case("BinCount", T([1, 3, 3], i64), T([0.5, 2.0, 1.0], f32), args=[0]), case("BinCount", T([1, 3, 3], i64), T([1, 2, 4], i32), args=[5])
case("BinCount", T([1, 3, 3], i64), T([0.5, nan, 1.0], f64), args=[0]), case("BinCount", T([], i64), args=[3])
case("IsIn", T([[1.0, 2.0, nan], [4.0, -inf, 7.0]]), T([2.0, 7.0, nan, -inf, 9.0])), case("IsIn", T([1, 2, 3], i64), T([], i64)), case("IsIn", T(3, i32), T([[3, 4]], i32))
case("IsIn", T([5, 1, 9, 4], i64), T([4, 4, 5], i64)), case("IsIn", T([1.0, 2.5]), T([1, 2], i64)), case("IsIn", T([], f32), T([1.0], f32))
case("IndexCopy", T(1.0), T([0], i64), T(5.0), args=[0]), case("IndexCopy", torch.zeros(3, 2, 2), T([2, 0], i64), torch.rand(2, 2, 2), args=[0])
case("IndexFill", T([[1.0, 2.0], [3.0, 4.0]]), T([], i64), args=[0, 9.0]), case("IndexFill", T(1.0), T([0], i64), args=[0, 3.5])
big = torch.arange(120.0, dtype=f64).reshape(2, 3, 4, 5)
rows, columns = T([[1, 0], [2, -3]], i64), T([3, -1], i64)
for places in ([1], [-1, 1], [-1, 1, 2], [-1, 1, -1, 2], [-1, -1, 2, 2], [-1, -1, -1, 2], [-1, 1, -1, -1]):
    x = big.transpose(0, 1) if places[0] == 1 else big
    case("Index", x, rows, columns, args=places)
    taken = x[at((x, rows, columns), places)]
    case("IndexPut", x, -torch.rand(taken.shape, dtype=f64), rows, columns, args=[0] + [p + 1 if p >= 0 else -1 for p in places])
mask = torch.rand(2, 3) > 0.5
case("Index", big, mask, args=[1]), case("Index", big, torch.rand(4, 5) > 0.5, args=[-1, -1, 1])
case("Index", big, T([True, False, True], boolean), columns, args=[-1, 1, 2]), case("Index", big, torch.zeros(2, dtype=boolean), args=[1])
case("Index", torch.zeros(3, 0, dtype=f64), T([2, 0], i64), args=[1]), case("Index", T([1.0, 2.0]), T(1, i64), args=[1]), case("Index", T([1.0, 2.0]), T([], i64), args=[1])
case("IndexPut", T([1.0, 2.0, 3.0]), T(9.0), T([True, False, True], boolean), args=[0, 2])
case("IndexPut", T([1.0, 2.0, 3.0]), T([1.0, 10.0, 100.0]), T([0, 2, 0], i64), args=[1, 2]), case("IndexPut", torch.zeros(2, 3, dtype=f16), T([1.0, 2.0, 4.0], f16), T([1, 1], i64), args=[1, 2])
case("IndexPut", T([1, 2, 3], i32), T([1, 10, 100], i32), T([0, 2, 0], i64), args=[1, 2])
case("ScatterReduce", T([1.0, 2.0, 3.0, 4.0]), T([0, 0, 2, 2, 2], i64), T([nan, 5.0, -inf, inf, 1.0]), args=[0, 3, 1])
for how in range(5):
    case("ScatterReduce", T([1.0, -2.0, 3.0, 4.0]), T([0, 0, 2, 2, 2, 1], i64), T([nan, 5.0, -1.5, 6.0, 1.0, 0.0]), args=[0, how, 0])
    case("ScatterReduce", torch.rand(5, 3, dtype=f64), torch.randint(0, 5, (9, 2)), torch.rand(9, 3, dtype=f64), args=[0, how, 1])
    case("ScatterReduce", T(2.0), T(0, i64), T(3.0), args=[0, how, 1])
    case("ScatterReduce", T([1.0, 2.0]), T([], i64), T([3.0]), args=[0, how, 1])
case("SearchSorted", T([1.0, 3.0, 5.0, 7.0]), T([[0.0, 1.0, 2.0], [7.0, 8.0, nan]]), args=[0]), case("SearchSorted", T([1.0, 3.0]), T(2.0), args=[1])
case("SearchSorted", torch.rand(3, 6).sort().values, torch.rand(3, 4), args=[0]), case("SearchSorted", T([]), T([1.0]), args=[1])
case("Bucketize", T([[3, 6, 9], [3, 6, 9]], i64), T([1, 3, 5, 7, 9], i64), args=[0]), case("Bucketize", T([[3, 6, 9], [3, 6, 9]], i64), T([1, 3, 5, 7, 9], i64), args=[1])
case("Bucketize", torch.randn(50, dtype=f64), T([-inf, -1.0, 0.0, 0.5, inf]), args=[1])
case("MeshGrid", T([1.0, 2.0]), T([3.0, 4.0, 5.0]), args=[0]), case("MeshGrid", T([1, 2, 3], i32), T(7, i32), T([5, 6], i32), args=[1])
json.dump(programs, open("selections.json", "w"), separators=(",", ":"))
