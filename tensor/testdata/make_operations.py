"""Makes operations.json, the reference values of operations of package tensor, with PyTorch: python3 make_operations.py

The form is that of programs.json: inputs, operations with their arguments, and what comes out; no "want" is an error.
"""
import json, math
import torch
import torch.nn.functional as F

NAMES = {torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.bfloat16: "bfloat16",
         torch.int64: "int64", torch.int32: "int32", torch.uint8: "uint8", torch.bool: "bool"}
MODES = ["constant", "reflect", "replicate", "circular"]
f64 = torch.float64


def number(x):
    x = float(x)
    return repr(x) if math.isnan(x) or math.isinf(x) else x


def pack(t):
    return {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data": [number(x) for x in t.double().flatten().tolist()]}


def pad(t, mode, value, *p):
    if mode == 0 or t.dim() in (2, 3) and len(p) == 2:
        return F.pad(t, p, MODES[mode], value) if mode == 0 else F.pad(t, p, MODES[mode])
    return F.pad(t, p, MODES[mode])


OPS = {
    "Log1p": lambda t: t[0].log1p(), "Expm1": lambda t: t[0].expm1(), "Erf": lambda t: t[0].erf(), "Floor": lambda t: t[0].floor(),
    "Ceil": lambda t: t[0].ceil(), "Round": lambda t: t[0].round(), "Trunc": lambda t: t[0].trunc(), "IsNaN": lambda t: t[0].isnan(),
    "IsInf": lambda t: t[0].isinf(), "IsFinite": lambda t: t[0].isfinite(), "ELU": lambda t, a: F.elu(t[0], a),
    "Hardtanh": lambda t, a, b: F.hardtanh(t[0], a, b), "ReLU6": lambda t: F.relu6(t[0]), "Xor": lambda t: torch.logical_xor(*t),
    "Fmod": lambda t: torch.fmod(*t), "Remainder": lambda t: torch.remainder(*t), "FmodScalar": lambda t, v: torch.fmod(t[0], v),
    "RemainderScalar": lambda t, v: torch.remainder(t[0], v), "RSubScalar": lambda t, v: v - t[0], "RDivScalar": lambda t, v: v / t[0],
    "RPowScalar": lambda t, v: v ** t[0], "Lerp": lambda t: torch.lerp(*t), "LerpScalar": lambda t, w: torch.lerp(t[0], t[1], w),
    "AddCMul": lambda t, v: torch.addcmul(*t, value=v), "AddCDiv": lambda t, v: torch.addcdiv(*t, value=v),
    "MaskedFill": lambda t, v: t[0].masked_fill(t[1], v),
    "Norm": lambda t, p, keep, *d: torch.linalg.vector_norm(t[0], float(p), d or None, keep),
    "LogSumExp": lambda t, keep, *d: t[0].logsumexp(d or tuple(range(t[0].dim())), keep), "CountNonzero": lambda t, *d: torch.count_nonzero(t[0], d or None),
    "MaxDim": lambda t, d, keep: t[0].max(d, keep).values, "MinDim": lambda t, d, keep: t[0].min(d, keep).values,
    "MaxDim indices": lambda t, d, keep: t[0].max(d, keep).indices, "CumSum": lambda t, d: t[0].cumsum(d), "CumProd": lambda t, d: t[0].cumprod(d),
    "Sort": lambda t, d, desc: torch.sort(t[0], stable=True, dim=d, descending=desc).values,
    "ArgSort": lambda t, d, desc: torch.sort(t[0], stable=True, dim=d, descending=desc).indices,
    "TopK": lambda t, k, d, largest: t[0].topk(k, d, largest).values, "Gather": lambda t, d: t[0].gather(d, t[1]),
    "ScatterInPlace": lambda t, d: t[0].clone().scatter_(d, t[1], t[2]), "Flip": lambda t, *d: t[0].flip(d),
    "Roll": lambda t, *a: t[0].roll(a) if len(a) == 1 else t[0].roll(a[:len(a) // 2], a[len(a) // 2:]),
    "Split": lambda t, n, d: t[0].split(n, d)[0], "SplitSizes": lambda t, d, *s: t[0].split(s, d)[0], "Chunk": lambda t, n, d: t[0].chunk(n, d)[0],
    "Unbind": lambda t, d: t[0].unbind(d)[0], "MoveDim": lambda t, a, b: t[0].movedim(a, b), "SwapAxes": lambda t, a, b: t[0].swapaxes(a, b),
    "Diagonal": lambda t, *a: t[0].diagonal(*a), "DiagEmbed": lambda t, o: t[0].diag_embed(o), "Diag": lambda t, o: t[0].diag(o),
    "Tril": lambda t, d: t[0].tril(d), "Triu": lambda t, d: t[0].triu(d), "Pad": lambda t, *a: pad(t[0], *a),
    "Repeat": lambda t, *s: t[0].repeat(s), "Tile": lambda t, *s: t[0].tile(s), "RepeatInterleave": lambda t, n, d: t[0].repeat_interleave(n, d),
    "Dot": lambda t: torch.dot(*t), "MV": lambda t: torch.mv(*t), "MM": lambda t: torch.mm(*t), "BMM": lambda t: torch.bmm(*t), "Outer": lambda t: torch.outer(*t),
    "BAddBMM": lambda t, b, a: torch.baddbmm(*t, beta=b, alpha=a), "Einsum": lambda t, e: torch.einsum(e, *t),
    "TensorDot": lambda t, *a: torch.tensordot(*t, dims=(list(a[:len(a) // 2]), list(a[len(a) // 2:]))),
    "SubInPlace": lambda t: t[0].clone().sub_(t[1]), "MulInPlace": lambda t: t[0].clone().mul_(t[1]), "DivInPlace": lambda t: t[0].clone().div_(t[1]),
    "AddScalarInPlace": lambda t, v: t[0].clone().add_(v), "ClampInPlace": lambda t, a, b: t[0].clone().clamp_(a, b), "ReLUInPlace": lambda t: t[0].clone().relu_(),
    "NegInPlace": lambda t: t[0].clone().neg_(), "ExpInPlace": lambda t: t[0].clone().exp_(), "SqrtInPlace": lambda t: t[0].clone().sqrt_(),
    "SigmoidInPlace": lambda t: t[0].clone().sigmoid_(), "TanhInPlace": lambda t: t[0].clone().tanh_(),
    "MaskedFillInPlace": lambda t, v: t[0].clone().masked_fill_(t[1], v), "AddCMulInPlace": lambda t, v: t[0].clone().addcmul_(t[1], t[2], value=v),
    "AddCDivInPlace": lambda t, v: t[0].clone().addcdiv_(t[1], t[2], value=v),
}
made = []


def run(step, *inputs):
    o = step[0]
    program = {"name": f"{len(made)} {' '.join(map(str, step))} {' '.join(NAMES[t.dtype] + str(list(t.shape)) for t in inputs)}",
               "inputs": [pack(t) for t in inputs], "steps": [step]}
    try:
        out = OPS[o](list(inputs), *step[1:])
        program["want"] = pack(out)
        program["strides"] = list(out.stride())
    except (RuntimeError, IndexError, ValueError, TypeError):
        pass
    made.append(program)


torch.manual_seed(7)
r = lambda *s, dtype=f64: torch.randn(s, dtype=f64).to(dtype)
special = torch.tensor([math.nan, math.inf, -math.inf, -2.5, -1.0, -0.5, -0.0, 0.0, 0.3, 0.5, 1.5, 2.5, 7.0], dtype=f64)
ints = torch.tensor([-7, -3, 0, 2, 5])
for dt in (f64, torch.float32):
    s = special.to(dt)
    for o in ("Log1p", "Expm1", "Erf", "Floor", "Ceil", "Round", "Trunc", "IsNaN", "IsInf", "IsFinite", "ReLU6", "ReLUInPlace", "SigmoidInPlace", "TanhInPlace", "NegInPlace"):
        run([o], s)
    run(["ELU", 0.5], s), run(["Hardtanh", -1, 2], s), run(["RDivScalar", 2], s), run(["RPowScalar", 2], s), run(["RSubScalar", 2], s)
    for v in (1.5, -1.5, math.inf):
        run(["FmodScalar", v], s) if v < 9 else run(["Fmod"], s, torch.full_like(s, v))
        run(["RemainderScalar", v], s) if v < 9 else run(["Remainder"], s, torch.full_like(s, v))
    run(["Remainder"], s, s.flip(0)), run(["Fmod"], s, s.flip(0))
    for desc in (False, True):
        run(["Sort", 0, desc], s), run(["ArgSort", 0, desc], s)
    run(["TopK", 4, 0, True], s), run(["TopK", 4, 0, False], s), run(["MaxDim", 0, False], s), run(["MaxDim indices", 0, True], s)
    for p in (0, 1, 2, 3, 0.5, "inf", "-inf"):
        run(["Norm", p, False], s), run(["Norm", p, True, 1], r(3, 4).to(dt)), run(["Norm", p, False, 0], r(0, 2).to(dt))
    run(["LogSumExp", False], s), run(["LogSumExp", False], torch.tensor([-math.inf, -math.inf], dtype=dt)), run(["LogSumExp", False, 0], torch.tensor([[1000., math.inf], [1001., 1.]], dtype=dt))
    run(["CumSum", 0], s), run(["CumProd", 0], s.flip(0)), run(["CountNonzero"], s)
for o in ("Floor", "Round", "Log1p", "IsNaN", "IsFinite", "NegInPlace"):
    run([o], ints)
run(["Floor"], torch.tensor([True])), run(["ELU", 1.0], ints)
for o in ("Fmod", "Remainder"):
    for d in (3, -3):
        run([o], ints, torch.full((5,), d)), run([o + "Scalar", d], ints), run([o + "Scalar", d + 0.5], ints)
    run([o], ints.to(torch.uint8), torch.tensor([3], dtype=torch.uint8)), run([o], ints, r(5)), run([o], r(2, 1), r(3))
run(["Xor"], ints, torch.tensor([0, 1, 1, 0, 1])), run(["RSubScalar", 2], ints), run(["RDivScalar", 2], ints), run(["RSubScalar", 2], torch.tensor([True]))
run(["Lerp"], r(2, 3), r(3), r(2, 1)), run(["Lerp"], r(3), r(3), torch.tensor([0., 1., 0.5], dtype=f64)), run(["LerpScalar", 0.25], r(3), r(3)), run(["LerpScalar", 0.75], r(3), r(2, 1))
run(["AddCMul", 0.5], r(3), r(2, 1), r(3)), run(["AddCMul", 2], ints, ints, ints), run(["AddCDiv", 0.5], r(3), r(2, 1), r(3)), run(["AddCDiv", 1], ints, ints, ints)
run(["MaskedFill", 2.5], r(2, 3), torch.tensor([True, False, True])), run(["MaskedFill", 2], ints, torch.tensor(True))
run(["LogSumExp", False, 0], r(0, 2)), run(["LogSumExp", True, 0, -1], r(2, 3, 4)), run(["CountNonzero", 1], torch.tensor([[0, 1, 2], [0, 0, math.nan]])), run(["CountNonzero"], torch.tensor([True, False]))
for d in (0, 1, -1, 2):
    run(["MaxDim", d, False], r(3, 4)), run(["MinDim", d, True], r(3, 4)), run(["CumSum", d], r(3, 4)), run(["CumProd", d], r(3, 4)), run(["Sort", d, True], r(3, 4)), run(["TopK", 2, d, True], r(3, 4))
equal = torch.tensor([[2, 1, 2, 1, 3], [0, 0, 0, 0, 0]])
run(["Sort", 1, False], equal), run(["ArgSort", 1, True], equal), run(["ArgSort", 1, False], equal), run(["MaxDim indices", 1, False], equal), run(["Sort", 0, False], torch.tensor([True, False, True]))
run(["Sort", 0, False], r()), run(["TopK", 1, 0, True], r()), run(["TopK", 3, 0, True], r(2)), run(["TopK", 0, 0, True], r(2)), run(["MaxDim", 0, False], r()), run(["MaxDim", 0, False], r(0)), run(["CumSum", 0], r())
run(["CumSum", 0], torch.tensor([200, 100], dtype=torch.uint8)), run(["CumProd", 0], torch.tensor([True, True, False])), run(["CumSum", 0], torch.tensor([], dtype=torch.int32))
run(["Gather", 1], r(2, 4), torch.tensor([[0, 3, 3], [1, 0, 2]])), run(["Gather", 0], r(3, 4), torch.tensor([[2, 0]])), run(["Gather", 0], r(3, 4), torch.tensor([2])), run(["ScatterInPlace", 1], r(2, 4), torch.tensor([[0, 3], [1, 0]]), r(2, 2))
for d in ([0], [0, 1], [-1], [], [0, 0], [2]):
    run(["Flip"] + d, r(2, 3))
for a in ([1], [-4], [1, 0], [1, 2, 0, 1], [7, -2, 1, 0], [1, 1, 0, 0], [1, 1, 0]):
    run(["Roll"] + a, r(2, 3))
for n, d in ((2, 0), (5, 0), (1, 1), (0, 0), (2, -1), (2, 2)):
    run(["Split", n, d], r(5, 3)), run(["Chunk", n, d], r(5, 3)), run(["RepeatInterleave", n, d], r(2, 3))
run(["Split", 2, 0], r(0, 2)), run(["Chunk", 3, 0], r(0, 2)), run(["SplitSizes", 0, 2, 3], r(5, 2)), run(["SplitSizes", 0, 2, 2], r(5, 2)), run(["Unbind", 0], r(5, 2)), run(["Unbind", 1], r(5, 2)), run(["Unbind", 0], r())
for a, b in ((0, 2), (2, 0), (-1, 1), (1, 1), (0, 3)):
    run(["MoveDim", a, b], r(2, 3, 4)), run(["SwapAxes", a, b], r(2, 3, 4))
for o in (0, 1, -1, 3, -7):
    run(["Diagonal", o, 0, 1], r(3, 4)), run(["Diagonal", o, 2, 0], r(3, 2, 4)), run(["DiagEmbed", o], r(2, 2)), run(["Diag", o], r(2)), run(["Diag", o], r(3, 2)) if abs(o) < 2 else None, run(["Tril", o], r(3, 4)), run(["Triu", o], r(2, 4, 3))
run(["Diagonal", 0, 1, 1], r(3, 4)), run(["Tril", 0], r(3)), run(["Triu", 0], torch.ones(3, 3, dtype=torch.bool)), run(["Diag", 0], r(2, 2, 2))
run(["Pad", 0, 1.5, 1, 2], r(2, 3)), run(["Pad", 0, -1, 1, 0, 2, 1], r(2, 3)), run(["Pad", 0, 0, -1, 2], r(2, 3)), run(["Pad", 0, 0, -1, -1, 1, -1], r(2, 3)), run(["Pad", 0, 0, -2, -2], r(2, 3)), run(["Pad", 0, 2, 1, 1], ints)
for m in (1, 2, 3):
    run(["Pad", m, 0, 2, 1], r(1, 2, 3)), run(["Pad", m, 0, 2, 1, 1, 2], r(1, 2, 3, 4)), run(["Pad", m, 0, 0, 3], r(1, 2, 3)), run(["Pad", m, 0, 4, 0], r(1, 2, 3))
for s in ([2, 1], [2, 3, 1], [1, 0], [2], []):
    run(["Repeat"] + s, r(2, 3)), run(["Tile"] + s, r(2, 3))
run(["Dot"], r(3), r(3)), run(["Dot"], r(3), r(2)), run(["Dot"], r(0), r(0)), run(["MV"], r(2, 3), r(3)), run(["MV"], r(3), r(3)), run(["MM"], r(2, 3), r(3, 2)), run(["MM"], r(3), r(3, 2)), run(["BMM"], r(2, 2, 3), r(2, 3, 2))
run(["BMM"], r(1, 2, 3), r(2, 3, 2)), run(["Outer"], r(3), r(2)), run(["Outer"], r(3, 1), r(2)), run(["BAddBMM", 0.5, 2], r(2), r(3, 2, 3), r(3, 3, 2)), run(["BAddBMM", 0, 2], torch.tensor([math.nan]).double(), r(3, 2, 3), r(3, 3, 2))
for e, shapes in {"ij,jk->ik": [(2, 3), (3, 4)], "ij,jk": [(2, 3), (3, 4)], "ba,cb": [(2, 3), (4, 2)], "i,i": [(3,), (3,)], "i,j->ij": [(3,), (2,)], "ij->ji": [(2, 3)], "ji": [(2, 3)], "ii": [(3, 3)],
                  "ii->i": [(3, 3)], "ij->": [(2, 3)], "...ii->...i": [(2, 3, 3)], "b...,b...->b": [(2, 3, 4), (2, 3, 4)], "...ij,...jk->...ik": [(2, 1, 2, 3), (4, 3, 2)], "bij,bjk,bkl->bil": [(2, 2, 3), (2, 3, 4), (2, 4, 2)],
                  "ij, kl -> ijkl": [(2, 3), (2, 2)], "i...j->...": [(2, 3, 4)], "ij,ij->ij": [(2, 3), (1, 3)], "aB,Bc->ca": [(2, 3), (3, 2)], "i,i->": [(3,), (2,)], "ij->ik": [(2, 3)], "ij,jk->iik": [(2, 3), (3, 4)], "i.j->ij": [(2, 3)],
                  "ij": [(2, 3, 4)], "->": [()], ",->": [(), ()], "abc,cd,be->ade": [(2, 3, 4), (4, 2), (3, 2)], "...,...->...": [(2, 3), (3,)]}.items():
    run(["Einsum", e], *(r(*s) for s in shapes))
run(["TensorDot", 1, 2, 0, 1], r(2, 3, 4), r(3, 4, 2)), run(["TensorDot", -1, 0], r(2, 3), r(3)), run(["TensorDot", 0, 0], r(2, 3), r(3)), run(["TensorDot"], r(2), r(3))
run(["SubInPlace"], r(2, 3), r(3)), run(["SubInPlace"], r(3), r(2, 3)), run(["MulInPlace"], ints, r(5)), run(["MulInPlace"], r(5), ints), run(["DivInPlace"], ints, ints), run(["DivInPlace"], r(5), ints), run(["SubInPlace"], torch.tensor([True]), torch.tensor([True]))
run(["AddScalarInPlace", 2], ints), run(["ClampInPlace", -1, 2], ints), run(["ExpInPlace"], r(3)), run(["ExpInPlace"], ints), run(["SqrtInPlace"], r(3).abs())
run(["MaskedFillInPlace", 2], r(2, 3), torch.tensor([True, False, True])), run(["MaskedFillInPlace", 2], r(3), torch.ones(2, 3, dtype=torch.bool)), run(["AddCMulInPlace", 2], r(2, 3), r(3), r(2, 1)), run(["AddCDivInPlace", 2], r(2, 3), r(3), r(2, 1))

with open("operations.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(m, separators=(",", ":")) for m in made) + "\n]\n")
