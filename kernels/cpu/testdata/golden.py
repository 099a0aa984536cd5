"""Makes golden.json: calls of operations whose semantics are subtle, with the results PyTorch gives.

    python3 golden.py > golden.json

Each case has the operation's name, the scalars F and I of its call, the views, and the wanted outputs. Outputs that are
updated in place have their values before the call in "out".
"""
import json
import math
import torch
import torch.nn.functional as F

torch.manual_seed(0)
torch.set_num_threads(1)
cases = []
names = {torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.bfloat16: "bfloat16",
         torch.int64: "int64", torch.int32: "int32", torch.uint8: "uint8", torch.bool: "bool"}


def view(t):
    t = t.detach().contiguous()
    values = t.double() if t.dtype.is_floating_point else t.long()
    return {"dtype": names[t.dtype], "shape": list(t.shape), "values": [repr(v) for v in values.flatten().tolist()]}


def case(op, inputs, want, f=(), i=(), out=None, note=""):
    want = want if isinstance(want, (list, tuple)) else [want]
    cases.append({"op": op, "note": note, "f": list(f), "i": list(i), "in": [view(t) for t in inputs],
                  "out": None if out is None else [view(t) for t in out], "want": [view(t) for t in want]})


inf, nan = math.inf, math.nan
x = torch.cat([torch.linspace(-12, 12, 25), torch.tensor([0.0, -0.0, 1e-6, -1e-6, 30.0, -30.0, 100.0, -100.0])])
for dtype in (torch.float32, torch.float64, torch.bfloat16):
    a = x.to(dtype)
    g = torch.linspace(-2, 3, len(a)).to(dtype)

    def grad(f):
        v = a.clone().requires_grad_()
        f(v).backward(g)
        return v.grad

    case("gelu", [a], F.gelu(a))
    case("gelu_tanh", [a], F.gelu(a, approximate="tanh"))
    case("silu", [a], F.silu(a))
    case("leaky_relu", [a], F.leaky_relu(a, 0.125), f=[0.125])
    for beta, threshold in ((1, 20), (2, 5)):
        case("softplus", [a], F.softplus(a, beta, threshold), f=[beta, threshold])
        if dtype != torch.bfloat16:
            case("softplus_backward", [g, a], grad(lambda v: F.softplus(v, beta, threshold)), f=[beta, threshold])
    if dtype != torch.bfloat16:
        case("gelu_backward", [g, a], grad(F.gelu))
        case("gelu_tanh_backward", [g, a], grad(lambda v: F.gelu(v, approximate="tanh")))
        case("silu_backward", [g, a], grad(F.silu))
        case("leaky_relu_backward", [g, a], grad(lambda v: F.leaky_relu(v, 0.125)), f=[0.125])

special = torch.tensor([nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5])
other = special.repeat(len(special))
first = special.repeat_interleave(len(special))
for op, f in (("maximum", torch.maximum), ("minimum", torch.minimum), ("pow", torch.pow), ("eq", torch.eq), ("ne", torch.ne),
              ("lt", torch.lt), ("le", torch.le), ("gt", torch.gt), ("ge", torch.ge), ("div", torch.div)):
    case(op, [first, other], f(first, other))
case("sign", [special], torch.sign(special))
case("relu", [special], torch.relu(special))
case("clamp", [special], torch.clamp(special, -1.5, 2), f=[-1.5, 2])
case("logical_not", [special], torch.logical_not(special))
case("sigmoid", [special], torch.sigmoid(special))
case("tanh", [special], torch.tanh(special))
case("exp", [special], torch.exp(special))
case("log", [special], torch.log(special))
case("rsqrt", [special], torch.rsqrt(special))
for e in (2, 3, -1, 1, 0, -2.5):
    case("pow_scalar", [special], torch.pow(special, e), f=[e])

# Rounding of conversions: ties, the largest numbers, denormals, and numbers that two roundings would get wrong.
wide = torch.tensor([1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-11 + 2**-30, 1 + 2**-11 - 2**-30, 65519.999999, 65520, 2**-25, 2**-25 * 1.5,
                     2**-24, 1e-8, 1 + 2**-8, 1 + 2**-8 + 2**-40, 1 + 3 * 2**-8, 3.3895e38, 3.4e38, 1e39, 2**-133, 2**-134, -0.0, inf,
                     -inf, nan, 0.1, 1 / 3, -2.7, 1e-46, 1e-45, 1 + 2**-24, 1 + 3 * 2**-24], dtype=torch.float64)
for to in (torch.float32, torch.float16, torch.bfloat16):
    # PyTorch goes from float64 to half precision in two roundings: only float32 inputs are comparable.
    source = wide if to == torch.float32 else wide.float()
    case("cast", [source], source.to(to))
    half = wide.float().to(to)
    for back in (torch.float32, torch.float64, torch.bool):
        case("cast", [half], half.to(back))
whole = torch.tensor([2.9, -2.9, 0.5, -0.5, 1.5, 254.99, 100.0, 0.0, -0.0])
for to in (torch.int64, torch.int32):
    case("cast", [whole], whole.to(to), note="toward zero")
case("cast", [whole[whole >= 0]], whole[whole >= 0].to(torch.uint8))
many = torch.tensor([0, 1, -1, 300, 2**31, 2**31 + 5, -2**33 - 7, 2**53 + 1, 2**62 + 2**38 + 1])
for to in (torch.int32, torch.uint8, torch.bool, torch.float32, torch.float64):
    case("cast", [many], many.to(to), note="integers wrap, floats round")

rows = torch.tensor([[1.0, 2, 3, 4], [1000, 1000, -1000, 999], [-inf, 0, -inf, 1], [5, 5, 5, 5], [-80, -90, -100, -200]])
rowsGrad = torch.linspace(-1, 1, 20).view(5, 4)
for dtype in (torch.float32, torch.float64):
    a, g = rows.to(dtype).requires_grad_(), rowsGrad.to(dtype)
    for op, f in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
        y = f(a, 1)
        case(op, [a], y)
        if op == "softmax":
            case(op + "_backward", [g, y], torch.autograd.grad(y, a, g)[0])
        else:
            finite = torch.tensor([0, 1, 3, 4])
            b = rows.to(dtype)[finite].requires_grad_()
            y = f(b, 1)
            case(op + "_backward", [g[finite], y], torch.autograd.grad(y, b, g[finite])[0])

logp = torch.log_softmax(torch.randn(6, 5), 1).requires_grad_()
classes = torch.tensor([0, 4, -100, 2, -100, 1])
loss = F.nll_loss(logp, classes, ignore_index=-100, reduction="none")
g = torch.linspace(0.5, 3, 6)
case("nll_loss", [logp, classes], loss, i=[-100])
case("nll_loss_backward", [g, classes], torch.autograd.grad(loss, logp, g)[0].contiguous(), i=[-100], note="the input is [N]")
classes = torch.tensor([0, 4, 3, 2, 3, 1])
loss = F.nll_loss(logp, classes, ignore_index=3, reduction="none")
case("nll_loss", [logp, classes], loss, i=[3])

a = torch.tensor([[1.0, 5, 5, nan, nan, 7], [3, 3, 3, 3, 3, 3], [-inf, -inf, -inf, -inf, -inf, -inf], [1, 2, 0, 2, 0, 1]])
for op, f in (("argmax", torch.argmax), ("argmin", torch.argmin)):
    case(op, [a], f(a, 1, keepdim=True), i=[1])
for op, f in (("amax", torch.amax), ("amin", torch.amin)):
    case(op, [a], f(a, 1, keepdim=True))
    case(op, [a], f(a, 0, keepdim=True))

a, b = torch.randn(3, 7, 5), torch.tensor([4, 0, 4, 6, 1])
case("index_select", [a, b], torch.index_select(a, 1, b).contiguous(), i=[1])
base, add = torch.randn(3, 7, 5), torch.randn(3, 5, 5)
case("index_add", [add, b], torch.index_add(base, 1, b, add), i=[1], out=[base])

a, b, c = torch.randn(2, 3, 4), torch.randn(2, 4, 5), torch.randn(2, 3, 5)
case("matmul", [a, b, c], torch.baddbmm(c, a, b, beta=0.5, alpha=2), f=[2, 0.5])


def steps(op, make, flat, count=3, seed=1):
    """Runs an optimizer on two tensors; each step is a case that begins with the state PyTorch had before it."""
    torch.manual_seed(seed)
    params = [torch.randn(5, 3, requires_grad=True), torch.randn(4, requires_grad=True)]
    opt = make(params)
    for step in range(1, count + 1):
        for p in params:
            p.grad = torch.randn_like(p)
        grads = [p.grad.clone() for p in params]
        before = flat(params, opt)
        opt.step()
        f, i = scalars(op, opt, step)
        case(op, grads, flat(params, opt), f=f, i=i, out=before, note=f"step {step}")


def scalars(op, opt, step):
    g = opt.param_groups[0]
    n = len(g["params"])
    if op == "sgd_step":
        return [g["lr"], g["momentum"], g["weight_decay"], g["dampening"]], [n, int(step == 1), int(g["maximize"]), int(g["nesterov"])]
    decoupled = isinstance(opt, torch.optim.AdamW)
    return [g["lr"], *g["betas"], g["eps"], g["weight_decay"], step], [n, int(decoupled), int(g["maximize"])]


def state(opt, p, key):
    v = opt.state[p].get(key)
    return torch.zeros_like(p) if v is None else v.clone()


def sgd_flat(params, opt):
    out = [p.detach().clone() for p in params]
    if opt.param_groups[0]["momentum"] != 0:
        out += [state(opt, p, "momentum_buffer") for p in params]
    return out


def adam_flat(params, opt):
    return [p.detach().clone() for p in params] + [state(opt, p, "exp_avg") for p in params] + [state(opt, p, "exp_avg_sq") for p in params]


for kw in ({}, {"weight_decay": 0.1}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"momentum": 0.9, "dampening": 0.5},
           {"momentum": 0.9, "weight_decay": 0.01, "maximize": True}):
    steps("sgd_step", lambda p: torch.optim.SGD(p, lr=0.05, **kw), sgd_flat)
for kw in ({}, {"weight_decay": 0.1}, {"maximize": True}, {"betas": (0.8, 0.99), "eps": 1e-3}):
    steps("adam_step", lambda p: torch.optim.Adam(p, lr=0.01, foreach=False, **kw), adam_flat)
steps("adam_step", lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1, foreach=False), adam_flat)

print(json.dumps({"torch": torch.__version__, "cases": cases}, indent=0, separators=(",", ":")).replace('",\n"', '","').replace(",\n", ",").replace("[\n", "[").replace("\n]", "]").replace("{\n", "{").replace("\n}", "}").replace('},{', '},\n{'))
