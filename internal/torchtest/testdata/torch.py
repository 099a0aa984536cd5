"""Runs programs in PyTorch: one JSON object a line on standard input, its answer, one line, on standard output.

A request is {"program": ..., "noise": n, "seed": s}; doc.go of the package describes programs. With noise the program runs n times more,
each time with the rounding errors that operations may make, and the answer tells how far each element moved: what another correct
implementation may differ by."""

import json
import math
import sys
import warnings

import torch
import torch.nn.functional as F

warnings.simplefilter("ignore")
torch.set_num_threads(1)

DTYPES = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16,
          "int64": torch.int64, "int32": torch.int32, "uint8": torch.uint8, "bool": torch.bool}
NAMES = {d: n for n, d in DTYPES.items()}
# How far the result of a function may be off, as a share: four units in the last place, one where each operation is rounded to half.
UNIT = {torch.float32: 4 * 2.0**-23, torch.float64: 4 * 2.0**-52, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
PAD = ["constant", "reflect", "replicate", "circular"]
REDUCTIONS = ["mean", "sum", "none", "batchmean"]
SORTED = lambda x, dim, descending: torch.sort(x, dim=dim, descending=descending, stable=True)


def number(text):
    return float(text) if isinstance(text, str) else text


def scalar(x, s):
    """A Go number as Python's: an integer if it is one and the tensor holds integers."""
    s = number(s)
    return int(s) if not x.is_floating_point() and abs(s) < 2**63 and s == int(s) else float(s)


def dims_or_all(x, dims):
    return tuple(dims) if dims else tuple(range(x.dim()))


def any_all(f):
    def run(x, dims, keep):
        for d in sorted((d % max(x.dim(), 1) for d in dims_or_all(x, dims)), reverse=True):
            x = f(x, d, keepdim=keep)
        return (f(x) if x.dim() == 0 else x).bool()  # PyTorch keeps uint8
    return run


def arg(f):
    return lambda x, dim, keep: f(x, dim=dim, keepdim=keep)


def extreme(f, all_of):
    return lambda x, dims, keep: f(x, dim=dims_or_all(x, dims), keepdim=keep)


def prod(x, dims, keep):
    """The product along several dimensions, which PyTorch has not, as that along one."""
    if x.dim() == 0:
        return x.prod()
    check_dims(x, dims)
    cut = [d % x.dim() for d in dims_or_all(x, dims)]
    kept = [d for d in range(x.dim()) if d not in cut]
    r = x.permute(kept + sorted(cut)).flatten(len(kept)).prod(-1)
    return r.reshape([1 if d in cut else n for d, n in enumerate(x.shape)]) if keep else r


def check_dims(x, dims):
    x.sum(dim=dims_or_all(x, dims))  # refuses repeated dimensions and those that are not there


def pool(f, dims, p):
    k = dict(kernel_size=p["Kernel"], stride=p.get("Stride"), padding=p.get("Padding") or 0, ceil_mode=p.get("CeilMode", False))
    if f.__name__.startswith("avg") or "avg" in str(f):
        k["count_include_pad"] = not p.get("ExcludePadding", False)
        if p.get("DivisorOverride"):
            k["divisor_override"] = p["DivisorOverride"]
    else:
        k["dilation"] = p.get("Dilation") or 1
    return k


def conv_args(c):
    return dict(stride=c.get("Stride") or 1, padding="same" if c.get("Same") else c.get("Padding") or 0, dilation=c.get("Dilation") or 1,
                groups=c.get("Groups") or 1)


def transposed_args(c):
    return dict(stride=c.get("Stride") or 1, padding=c.get("Padding") or 0, output_padding=c.get("OutputPadding") or 0,
                dilation=c.get("Dilation") or 1, groups=c.get("Groups") or 1)


def upsample(mode):
    def run(x, u):
        k = {"align_corners": u.get("AlignCorners", False)} if mode == "bilinear" else {}
        size, scale = u.get("Size"), u.get("Scale")
        if scale and len(scale) == 1:
            scale = scale[0]
        if size and len(size) == 1:
            size = size[0]
        return F.interpolate(x, size=size or None, scale_factor=scale or None, mode=mode, recompute_scale_factor=u.get("RecomputeScale") or None, **k)
    return run


def pad(x, widths, mode, value):
    n = x.dim()
    if PAD[mode] == "constant":
        return F.pad(x, widths, value=number(value))
    extra = len(widths) // 2 + 2 - n
    for _ in range(max(extra, 0)):
        x = x[None]
    while x.dim() > len(widths) // 2 + 2:  # PyTorch takes two dimensions in front
        return F.pad(x.flatten(0, x.dim() - len(widths) // 2 - 2), widths, mode=PAD[mode]).unflatten(0, x.shape[:x.dim() - len(widths) // 2 - 1])
    x = F.pad(x, widths, mode=PAD[mode])
    for _ in range(max(extra, 0)):
        x = x[0]
    return x


def cross_entropy(x, target, weight, ignore, smoothing, reduction):
    return F.cross_entropy(x, target, weight=weight, ignore_index=int(ignore), label_smoothing=smoothing, reduction=REDUCTIONS[reduction])


def attention(q, k, v, mask, causal, scale, gqa):
    scale = scale or 1 / math.sqrt(q.shape[-1])
    if gqa:
        k = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
        v = v.repeat_interleave(q.shape[-3] // v.shape[-3], -3)
    s = q @ k.transpose(-2, -1) * scale
    hidden = None
    if causal:
        hidden = ~torch.ones(s.shape[-2:], dtype=torch.bool).tril()
    elif mask is not None and mask.dtype == torch.bool:
        hidden = ~mask
    elif mask is not None:
        s = s + mask
    if hidden is not None:
        s = s.masked_fill(hidden, -math.inf)
    dead = (s == -math.inf).all(-1, keepdim=True)

    def shares(noise):
        p = softmax(s.masked_fill(dead, 0), noise)
        if noise is not None and p.requires_grad:
            p.register_hook(lambda g: noise.rough(g, v, times=2))  # a product, whose sums may cancel
            s.register_hook(lambda g: noise.rough(g, times=0.25, beside=True))  # and so may its parts
        return p
    return Run.noisy(shares).masked_fill(dead, 0) @ v


def cross(x, y, d):
    """Of products that are not fused with the difference: those of a vector with itself are equal."""
    torch.linalg.cross(x, y, dim=d)  # refuses what it refuses
    x, y = torch.broadcast_tensors(x, y)
    wide = x.double(), y.double()
    a, b = (w.roll(-1, d) for w in wide)
    c, e = (w.roll(-2, d) for w in wide)
    return (a * e - c * b).to(torch.result_type(x, y))


def softmax(s, noise, dim=-1):
    """Softmax; with noise such that the parts of its gradient do not cancel exactly."""
    if noise is None or s.numel() == 0:
        return s.softmax(dim)
    e = noise.branch((s - s.detach().amax(dim, keepdim=True)).exp())
    return e / noise.branch(e.sum(dim, keepdim=True))


def in_float(f):
    """A function of half types by way of float32, as on PyTorch's GPUs, where 1.13's code for processors rounds within (group_norm), or
    lets infinities and NaN leak into other elements (vectors and oneDNN)."""
    def run(x, *rest):
        if not isinstance(x, torch.Tensor) or x.dtype not in (torch.bfloat16, torch.float16):
            return f(x, *rest)
        if any(isinstance(t, torch.Tensor) and t.is_floating_point() and t.dtype != x.dtype for t in rest):
            return f(x, *rest)
        up = lambda t: t.float() if isinstance(t, torch.Tensor) and t.is_floating_point() else t
        f(x, *rest)  # refuses what it refuses
        return f(up(x), *map(up, rest)).to(x.dtype)
    return run


def where_finite(f):
    """in_float for inputs with infinities and NaN alone, and for second derivatives, which are wrong for convolutions of bfloat16."""
    def run(x, *rest):
        odd = any(isinstance(t, torch.Tensor) and t.is_floating_point() and not t.isfinite().all() for t in (x,) + rest)
        return in_float(f)(x, *rest) if odd or Run.differentiated_twice else f(x, *rest)
    return run


def past_nan(f):
    """A function whose gradient at NaN is that of its right side: PyTorch's kernels differ there, by the number of elements or from each
    other."""
    def run(x, *rest):
        nan = x.isnan()
        return torch.where(nan, x, f(x.masked_fill(nan, 0), *rest))
    return run


class Digamma(torch.autograd.Function):
    """PyTorch's own derivative of it is good for 9 digits only."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.digamma()

    @staticmethod
    def backward(ctx, g):
        return g * torch.special.zeta(2.0, ctx.saved_tensors[0])


class Lgamma(torch.autograd.Function):
    """So is its own second derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.lgamma()

    @staticmethod
    def backward(ctx, g):
        return g * Digamma.apply(ctx.saved_tensors[0])


class Copysign(torch.autograd.Function):
    """The sign of NaN counts as positive. PyTorch's gradient divides the result by x, of which the second derivative is 0 but for rounding errors."""

    @staticmethod
    def forward(ctx, x, y):
        r = x.copysign(y.masked_fill(y.isnan(), 0))
        ctx.save_for_backward(torch.where(x == 0, 0, r / x), torch.zeros_like(y))
        ctx.shape = x.shape
        return r

    @staticmethod
    def backward(ctx, g):
        sign, none = ctx.saved_tensors
        return (g * sign).sum_to_size(ctx.shape), none if none.is_floating_point() else None


class BCE(torch.autograd.Function):
    """The loss of each element. The second derivative is that of the first with 1e-12 added to both divisors, where PyTorch's is 0 at 0 and 1, or 1e24
    times as large."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return F.binary_cross_entropy(x, y, reduction="none")

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        slope = (1 - y) / (1 - x + 1e-12) - y / (x + 1e-12)
        own = (x - y) / ((1 - x) * x).clamp(min=torch.tensor(1e-12).item())  # which is a float32 there
        r = g * slope
        first = (g * own).detach()
        return torch.where(r.isfinite() & first.isfinite(), r + (first - r.detach()), r), g * ((1 - x).log() - x.log())


def bce_loss(x, y, weight, reduction):
    r = F.binary_cross_entropy(x, y, weight=weight, reduction=REDUCTIONS[reduction])
    if not Run.differentiated_twice:
        return r
    each = BCE.apply(x, y)
    each = each if weight is None else each * weight
    return {"none": lambda t: t, "mean": torch.mean, "sum": torch.sum}[REDUCTIONS[reduction]](each)


def mv_lgamma(x, p):
    """As torch.mvlgamma, of which the second derivative is good for 9 digits only."""
    y = torch.mvlgamma(x, p)
    if not Run.differentiated_twice or not y.requires_grad:
        return y
    return Lgamma.apply(x[..., None] - torch.arange(p).to(x.dtype) / 2).sum(-1) + p * (p - 1) / 4 * math.log(math.pi)


def polygamma(x, n):
    """torch.polygamma(1, x) is likewise."""
    return (-1) ** (n + 1) * math.factorial(n) * torch.special.zeta(n + 1.0, x)


def prelu(x, weight):
    """torch.prelu takes one number or one for each channel; ours broadcasts as any operation of two tensors. As in torch.prelu, what is not
    taken has no part in the gradient, though it be 0 times an infinity."""
    if not x.is_floating_point() and not weight.is_floating_point():
        raise RuntimeError("not implemented for " + str(x.dtype))  # as it says itself
    a, b = torch.broadcast_tensors(*in_common(x, weight))
    above = a > 0
    return torch.where(above, a, a.masked_fill(above, 0) * b.masked_fill(above, 0))


def elu(x, alpha):
    """By expm1, where PyTorch's exp(x)-1 cancels; the gradient of NaN is NaN."""
    if not x.is_floating_point() or x.dtype in (torch.float16, torch.bfloat16):
        return F.elu(x, alpha)
    nan = x.isnan()
    odd = x.masked_fill(~nan, 0)
    even = x.masked_fill(nan, 0)
    zero = even == 0  # where PyTorch's second derivative is 0
    below = torch.where(zero, alpha * even, alpha * torch.expm1(even.masked_fill(zero, -1).clamp(max=0)))
    return torch.where(nan, odd * odd, torch.where(even > 0, even, below))


def addcdiv(x, a, b, value):
    """PyTorch's gradient squares b. Where that overflows or vanishes it is divided by twice instead."""
    y = torch.addcdiv(x, a, b, value=value)
    square = b.detach() * b.detach()
    lost = (square < torch.finfo(b.dtype).tiny) & (b != 0) | ~square.isfinite() & b.isfinite() if b.is_floating_point() else square < 0
    return x + a * value / b if lost.any() and y.is_floating_point() else y


def hardswish(x):
    """The gradient of NaN is NaN, where PyTorch's depends on the number of elements; at -3 and 3 it is that of later versions."""
    nan, low, high = x.isnan(), x == -3, x == 3
    odd = x.masked_fill(~nan, 0)
    return torch.where(nan, odd * odd, torch.where(high, x, F.hardswish(x.masked_fill(nan | low | high, 0))))


def in_common(*tensors):
    """Operands of the type of the result: PyTorch's gradients compute with a number of half in half."""
    common = torch.result_type(*tensors)
    return [t.to(common) if common.is_floating_point else t for t in tensors]


def gelu_tanh(x):
    """Far from 0 the gradient is 1 or 0, where PyTorch's squares overflow."""
    far = (x.abs() > 100) & x.isfinite()
    return torch.where(far, torch.where(x > 0, x, 0 * x), gelu(x.masked_fill(far, 0), lambda t: F.gelu(t, approximate="tanh")))


class Ends(torch.autograd.Function):
    """y, with the slopes of GELU at infinities and NaN."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        return y.clone()

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        nan = x.masked_fill(~x.isnan(), 0)
        return g * torch.where(x.isnan(), nan * nan, (x > 0).to(x.dtype)), None


def gelu(x, f=F.gelu):
    """At infinities the gradient is 1 or 0, where PyTorch multiplies infinity by 0, and at NaN it is NaN, which PyTorch's vectors may lose."""
    odd = x.isnan() | x.isinf()
    if not odd.any():
        return f(x)
    return torch.where(odd, Ends.apply(x, f(x.detach())), f(x.masked_fill(odd, 0)))


def rms_norm(x, shape, weight, eps):
    eps = torch.finfo(x.dtype).eps if eps < 0 else eps
    on = Run.current.branch if Run.current else lambda t: t  # the parts of its gradient cancel
    y = on(x) * on(torch.rsqrt(on(x).pow(2).mean(tuple(range(-len(shape), 0)), keepdim=True) + eps))
    return y if weight is None else y * weight


def hook(x, factor):
    x.register_hook(lambda g: None if g is None else g * factor)  # PyTorch 1.13 calls hooks of results without one
    return x


def copy_from(x, src):
    return x.copy_(src)


def vector_norm(x, p, dims, keep):
    return torch.linalg.vector_norm(x, number(p), dims_or_all(x, dims) if dims or keep else None, keep)


def moment(f):
    return lambda x, dims, correction, keep: f(x, dim=dims_or_all(x, dims), correction=correction, keepdim=keep)


def count_nonzero(x, dims=()):
    return torch.count_nonzero(x, tuple(dims)) if dims else torch.count_nonzero(x)


def squeeze(x, dims=()):
    if not dims:
        return x.squeeze()
    for d in sorted((d % max(x.dim(), 1) if -max(x.dim(), 1) <= d < max(x.dim(), 1) else d for d in dims), reverse=True):
        x = x.squeeze(d)
    return x


def topk(x, k, d, largest):
    """The first of equal elements, which PyTorch leaves open."""
    if x.dim() == 0:
        return tuple(x.topk(k, d, largest=largest))
    return tuple(t.narrow(d, 0, k) for t in SORTED(x, d, largest))


def chosen(x, dim, keep, at):
    """The elements along dim whose rank is at, and their indices: the first of equal ones, which PyTorch leaves open."""
    values, indices = SORTED(x, dim, False)
    values, indices = values.gather(dim, at), indices.gather(dim, at)
    return (values, indices) if keep else (values.squeeze(dim), indices.squeeze(dim))


def kth_value(x, k, dim, keep):
    r = x.kthvalue(k, dim, keep)
    if x.dim() == 0 or x.numel() == 0:
        return tuple(r)
    return chosen(x, dim, keep, torch.full_like(x.select(dim, 0), k - 1, dtype=torch.int64).unsqueeze(dim))


def median_dim(skip):
    def run(x, dim, keep):
        r = (x.nanmedian if skip else x.median)(dim, keep)
        if x.dim() == 0 or x.numel() == 0:
            return tuple(r)
        nans = x.isnan().sum(dim, keepdim=True)
        n = x.shape[dim]
        at = ((n - nans - 1) // 2).clamp(min=0) if skip else torch.where(nans > 0, n - nans, (n - 1) // 2)
        return chosen(x, dim, keep, at)
    return run


def mode_dim(x, dim, keep):
    """The last of the equal elements, and NaN is one of them: PyTorch's sort leaves their order open from 17 elements on, and where NaN is."""
    r = x.mode(dim, keep)
    if x.dim() == 0 or x.numel() == 0:
        return tuple(r)
    values, indices = (t.movedim(dim, -1) for t in SORTED(x, dim, False))
    n = values.shape[-1]
    at = torch.arange(n).expand(values.shape)
    first = torch.ones(values.shape, dtype=torch.bool)
    first[..., 1:] = (values[..., 1:] != values[..., :-1]) & ~values[..., :-1].isnan()
    count = at - at.masked_fill(~first, 0).cummax(-1)[0]
    most = at.masked_fill(count != count.amax(-1, keepdim=True), n).amin(-1, keepdim=True)
    results = tuple(t.gather(-1, most).movedim(-1, dim) for t in (values, indices))
    return results if keep else tuple(t.squeeze(dim) for t in results)


def log_cum_sum_exp(x, dim):
    """Its gradient as that of logsumexp: PyTorch's loses NaN, and is off where its halves, the positive and the negative part, cancel."""
    y = torch.logcumsumexp(x, dim)
    if not y.requires_grad or x.numel() == 0:
        return y
    n = 1 if x.dim() == 0 else x.shape[dim]
    if n == 1:
        return x.clone()
    rows = x.movedim(dim, -1)[..., None, :].expand(*x.movedim(dim, -1).shape, n)
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    return rows.masked_fill(later, -math.inf).logsumexp(-1).movedim(-1, dim)


def nan_sum(x, dims, keep):
    """The gradient of what is NaN is 0, also that of a gradient that is NaN."""
    y = x.nansum(dims_or_all(x, dims), keep)
    return x.masked_fill(x.isnan(), 0).sum(dims_or_all(x, dims), keep) if y.requires_grad else y


def entr(x):
    """The gradient at 0 and below is 0, where PyTorch's is infinite or NaN."""
    y = torch.special.entr(x)
    if not y.requires_grad:
        return y
    none = x <= 0
    return torch.where(none, y.detach(), torch.special.entr(x.masked_fill(none, 1)))


def trace(x):
    """PyTorch 1.13's gradient of a matrix that is higher than wide has ones below the diagonal too."""
    y = torch.trace(x)
    return x.diagonal().sum() if y.requires_grad and x.shape[0] > x.shape[1] else y


def pixel_shuffle(x, n):
    """Of no images PyTorch 1.13's gradient has another shape."""
    y = F.pixel_shuffle(x, n)
    return y if x.numel() > 0 else x.reshape(y.shape)


def pixel_unshuffle(x, n):
    """Of no images PyTorch 1.13 gives them as they are."""
    y = F.pixel_unshuffle(x, n)
    if x.numel() > 0:
        return y
    *lead, c, h, w = x.shape
    return x.reshape(*lead, c * n * n, h // n, w // n)


def cdist(x, y, p):
    """Of rows whose difference has a NaN the distance is NaN; vectors of PyTorch 1.13 lose it."""
    r = torch.cdist(x, y, p)
    nan = (x[..., :, None, :] - y[..., None, :, :]).isnan().any(-1)
    return r.masked_fill(nan, math.nan) if nan.any() else r


def tanhshrink(x):
    on = Run.current.branch if Run.current else lambda t: t  # the parts of its gradient cancel
    return x - on(on(x).tanh()) if x.is_floating_point() else F.tanhshrink(x)


def max_unpool(x, indices, *size):
    if len(size) == 1:
        return torch._C._nn.max_unpool2d(x[..., None], indices[..., None], [size[0], 1])[..., 0]
    return torch._C._nn.max_unpool2d(x, indices, list(size))


def lp_pool(f):
    return lambda x, power, p: f(x, power, p["Kernel"] if len(p["Kernel"]) > 1 else p["Kernel"][0], p.get("Stride") and p["Stride"][0], p.get("CeilMode", False))


def gradient(x, spacing, dims, order):
    spacing = [number(s) for s in spacing]
    k = {"spacing": spacing[0] if len(spacing) == 1 else spacing} if spacing else {}
    return tuple(torch.gradient(x, dim=dims or tuple(range(x.dim())), edge_order=order, **k))


def vander(x, n, up):
    """As torch.vander, of which 1.13's gradient is refused."""
    columns = [torch.ones_like(x, dtype=None if x.is_floating_point() else torch.int64)]
    for _ in range(n - 1):
        columns.append(columns[-1] * x)
    columns = columns[:n]
    if not columns:
        return torch.vander(x, n)
    return torch.stack(columns if up else columns[::-1], -1)


def clamp_to(x, lo, hi):
    """Where the limits are equal, and the element is less, the lower one has the gradient; PyTorch gives it to neither."""
    if lo is None and hi is None:
        return x
    y = x.clamp(lo, hi)
    return y if lo is None or hi is None else torch.where((x < lo) & (lo == hi), lo, y)


def window_args(w):
    return dict(stride=w["Stride"], padding=w["Padding"], dilation=w["Dilation"][0])


def poisson(x, y, p, r):
    return F.poisson_nll_loss(x, y, log_input=not p.get("Rates"), full=bool(p.get("Full")), eps=p["Eps"], reduction=REDUCTIONS[r])


def triplet(x, a, b, margin, p, r):
    return F.triplet_margin_loss(x, a, b, margin, p["P"], p["Eps"], bool(p.get("Swap")), reduction=REDUCTIONS[r])


def sinc(x):
    noise = Run.current
    if noise is None or not x.is_floating_point():
        return torch.sinc(x)
    zero = x == 0
    y = noise.branch((x * math.pi).masked_fill(zero, 1))  # the parts of its gradient cancel near 0
    return (noise.branch(y.sin()) / noise.branch(y)).masked_fill(zero, 1)


def cosine_similarity(x, y, dim, eps):
    """The gradients of the norms do not see that they count as at least eps, as in later versions."""
    F.cosine_similarity(x, y, dim, eps)  # refuses what it refuses

    def unit(t):
        norm = torch.linalg.vector_norm(t, 2, dim, True).clone()
        with torch.no_grad():
            norm.clamp_min_(eps)
        return t / norm
    return (unit(x) * unit(y)).sum(dim)


def trapezoid(f):
    """By the areas where PyTorch subtracts half of the ends from the sum, which may be infinite; of nothing it is 0 of a floating-point type."""
    def run(y, x, dx, dim):
        if not y.is_floating_point() and y.dtype != torch.bool:
            y = y.float()  # in which sums do not wrap
        if x is not None and not x.is_floating_point() and x.dtype not in (torch.bool, torch.uint8):  # differences of uint8 wrap, as here
            x = x.float()
        r = f(y, dx=dx, dim=dim) if x is None else f(y, x, dim=dim)
        if f is torch.cumulative_trapezoid:
            return r
        n = y.shape[dim]
        if n == 0:
            return (y if y.is_floating_point() else y.float()).sum(dim) + 0 * r
        if x is not None or n > 1 and r.isfinite().all():
            return r
        y = y.movedim(dim, -1)
        areas = (y[..., 1:] + y[..., :-1]).sum(-1) * (dx / 2)
        return torch.where(r.isfinite(), r, areas) if n > 1 else areas.to(r.dtype)
    return run


def method(name):
    return lambda x, *rest: getattr(x, name)(*rest)


def with_number(name):
    return lambda x, s: getattr(x, name)(scalar(x, s))


def clamp(f):
    def run(x, lo, hi):
        lo, hi = number(lo), number(hi)
        bound = lambda s: None if math.isinf(s) else scalar(x, s)
        if x.dtype == torch.uint8 and all(math.isinf(s) or s == int(s) for s in (lo, hi)):  # PyTorch 1.13 wraps bounds that the type does not hold
            lo, hi = min(max(lo, 0), 255), min(max(hi, 0), 255)
        if math.isinf(lo) and math.isinf(hi):
            if not x.is_floating_point():
                return x
            return f(x, -math.inf, math.inf)
        return f(x, bound(lo), bound(hi))
    return run


OPS = {}
for go, py in {"Abs": "abs", "Ceil": "ceil", "Cos": "cos", "Contiguous": "contiguous", "Detach": "detach", "Erf": "erf", "Exp": "exp", "Expm1": "expm1",
               "Floor": "floor", "IsFinite": "isfinite", "IsInf": "isinf", "IsNaN": "isnan", "Log": "log", "Log1p": "log1p", "Neg": "neg",
               "Not": "logical_not", "ReLU": "relu", "Reciprocal": "reciprocal", "Round": "round", "Rsqrt": "rsqrt", "Sigmoid": "sigmoid", "Sign": "sign",
               "Sin": "sin", "Sqrt": "sqrt", "T": "t", "Tanh": "tanh", "Trunc": "trunc", "Clone": "clone",
               "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Pow": "pow", "Maximum": "maximum", "Minimum": "minimum", "Fmod": "fmod",
               "Remainder": "remainder", "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor", "Eq": "eq", "Ne": "ne", "Lt": "lt", "Le": "le",
               "Gt": "gt", "Ge": "ge", "Dot": "dot", "MM": "mm", "MV": "mv", "MatMul": "matmul", "BMM": "bmm", "Outer": "outer",
               "AddInPlace": "add_", "SubInPlace": "sub_", "MulInPlace": "mul_", "DivInPlace": "div_", "ReLUInPlace": "relu_",
               "SigmoidInPlace": "sigmoid_", "TanhInPlace": "tanh_", "ExpInPlace": "exp_", "NegInPlace": "neg_", "SqrtInPlace": "sqrt_",
               "ZeroInPlace": "zero_", "Transpose": "transpose", "SwapAxes": "swapaxes", "Permute": "permute", "Narrow": "narrow",
               "Select": "select", "Unsqueeze": "unsqueeze", "Flip": "flip", "Tril": "tril", "Triu": "triu", "DiagEmbed": "diag_embed",
               "Diagonal": "diagonal", "Diag": "diag", "MoveDim": "movedim", "Chunk": "chunk", "Split": "split", "SplitSizes": "split", "Unbind": "unbind",
               "CumSum": "cumsum", "CumProd": "cumprod", "Flatten": "flatten", "IndexSelect": "index_select", "Gather": "gather", "RepeatInterleave": "repeat_interleave",
               "SumTo": "sum_to_size",
               "Scatter": "scatter", "ScatterAdd": "scatter_add", "ScatterInPlace": "scatter_", "ScatterAddInPlace": "scatter_add_", "IndexAdd": "index_add",
               "IndexAddInPlace": "index_add_", "IndexCopyInPlace": "index_copy_", "TakeAlongDim": "take_along_dim"}.items():
    OPS[go] = method(py)
for go, py in {"AddScalar": "add", "SubScalar": "sub", "MulScalar": "mul", "DivScalar": "div", "PowScalar": "pow", "FmodScalar": "fmod",
               "RemainderScalar": "remainder", "EqScalar": "eq", "NeScalar": "ne", "LtScalar": "lt", "LeScalar": "le", "GtScalar": "gt", "GeScalar": "ge",
               "AddScalarInPlace": "add_", "MulScalarInPlace": "mul_", "RSubScalar": "__rsub__", "RDivScalar": "__rtruediv__", "FillInPlace": "fill_"}.items():
    OPS[go] = with_number(py)
def shift(py):
    """A shift of which the number of places is anything, as PyTorch 2 has it: in 1.13 that is up to the processor."""
    def run(x, n):
        y = n if isinstance(n, torch.Tensor) else torch.tensor(n, dtype=torch.int64)
        wrapped = y.to(torch.result_type(x, n))
        if wrapped.dtype == torch.bool or wrapped.is_floating_point():
            return getattr(torch, py)(x, n)  # refuses
        bits = torch.iinfo(wrapped.dtype).bits
        odd = (wrapped < 0) | (wrapped >= bits)
        sign = torch.where(x.to(wrapped.dtype) < 0, -1, 0) if py == "bitwise_right_shift" else torch.zeros((), dtype=torch.int64)
        return torch.where(odd, sign.to(wrapped.dtype), getattr(torch, py)(x, wrapped.masked_fill(odd, 0)))
    return run


def into(f):
    """f, into its first operand."""
    def run(x, y):
        r = f(x, y)
        if not torch.can_cast(r.dtype, x.dtype) or x.dtype == torch.bool and r.dtype != torch.bool:
            raise RuntimeError("the result does not fit")
        if list(torch.broadcast_shapes(x.shape, r.shape)) != list(x.shape):
            raise RuntimeError("the operand does not broadcast")
        x.copy_(r)
        return x
    return run


for go, py in {"LeftShift": "left_shift", "RightShift": "right_shift"}.items():
    for scalar_too in ("", "Scalar"):
        OPS["Bitwise" + go + scalar_too] = shift("bitwise_" + py)
        OPS["Bitwise" + go + scalar_too + "InPlace"] = into(shift("bitwise_" + py))
for go, py in {"And": "and", "Or": "or", "Xor": "xor"}.items():
    for scalar_too in ("", "Scalar"):
        OPS["Bitwise" + go + scalar_too] = method("bitwise_" + py)
        OPS["Bitwise" + go + scalar_too + "InPlace"] = method(f"bitwise_{py}_")
OPS["BitwiseNot"], OPS["BitwiseNotInPlace"] = method("bitwise_not"), method("bitwise_not_")
OPS.update({
    "RPowScalar": lambda x, s: torch.pow(scalar(x, s), x), "Clamp": clamp(torch.clamp), "ClampInPlace": clamp(torch.clamp_),
    "GELU": gelu, "GELUTanh": gelu_tanh, "SiLU": F.silu, "ReLU6": past_nan(F.relu6), "ELU": elu,
    "Atan2": lambda x, y: torch.atan2(*in_common(x, y)), "Hardswish": hardswish,
    "CELU": lambda x, alpha: elu(x / alpha, 1.0) * alpha if x.is_floating_point() else F.celu(x, alpha), "Hardshrink": F.hardshrink, "Softshrink": F.softshrink, "Threshold": F.threshold, "Polygamma": polygamma,
    "Logit": lambda x, eps: x.logit(eps if eps >= 0 else None),
    "LeakyReLU": lambda x, s: F.leaky_relu(x, s), "Softplus": lambda x, b, t: F.softplus(x, b, t), "Hardtanh": past_nan(F.hardtanh),
    "Lerp": torch.lerp, "LerpScalar": lambda x, end, w: torch.lerp(x, end, w), "AddScaled": lambda x, y, a: torch.add(x, y, alpha=scalar(x, a) if not y.is_floating_point() else a),
    "AddInPlace": lambda x, y, a: x.add_(y, alpha=scalar(x, a)),
    "AddCMul": lambda x, a, b, s: torch.addcmul(x, a, b, value=s if x.is_floating_point() or a.is_floating_point() or b.is_floating_point() else scalar(x, s)),
    "AddCDiv": addcdiv,
    "AddCMulInPlace": lambda x, a, b, s: x.addcmul_(a, b, value=scalar(x, s)), "AddCDivInPlace": lambda x, a, b, s: x.addcdiv_(a, b, value=s),
    "MaskedFill": lambda x, m, s: x.masked_fill(m, scalar(x, s)), "MaskedFillInPlace": lambda x, m, s: x.masked_fill_(m, scalar(x, s)), "CopyFrom": copy_from,
    "Where": torch.where, "WhereScalar": lambda c, x, s: torch.where(c, x, scalar(x, s)), "RWhereScalar": lambda c, s, x: torch.where(c, scalar(x, s), x),
    "LerpInPlace": torch.Tensor.lerp_, "LerpScalarInPlace": torch.Tensor.lerp_, "Cat": lambda xs, d: torch.cat(xs, d), "Stack": lambda xs, d: torch.stack(xs, d), "Einsum": lambda e, xs: torch.einsum(e, *xs),
    "AddMM": lambda c, a, b, beta, alpha: torch.addmm(c, a, b, beta=beta, alpha=alpha),
    "BAddBMM": lambda c, a, b, beta, alpha: torch.baddbmm(c, a, b, beta=beta, alpha=alpha), "TensorDot": lambda a, b, i, j: torch.tensordot(a, b, (i, j)),
    "Linear": lambda x, w, b: F.linear(x, w, b), "LinearReLU": lambda x, w, b: F.relu(F.linear(x, w, b)), "LinearGELU": lambda x, w, b: gelu(F.linear(x, w, b)),
    "LinearGELUTanh": lambda x, w, b: gelu_tanh(F.linear(x, w, b)),
    "Diag": lambda x, k: x.diagonal(k) if x.dim() == 2 else x.diag(k), "SumTo": lambda x, s: x.view_as(x) if list(x.shape) == s else x.sum_to_size(s),
    "Sum": lambda x, d, k: x.sum(dims_or_all(x, d), keepdim=k), "Mean": lambda x, d, k: x.mean(dims_or_all(x, d), keepdim=k), "Prod": prod,
    "Max": extreme(torch.amax, torch.max), "Min": extreme(torch.amin, torch.min), "Any": any_all(torch.any), "All": any_all(torch.all),
    "ArgMax": arg(torch.argmax), "ArgMin": arg(torch.argmin), "MaxDim": lambda x, d, k: tuple(x.max(d, keepdim=k)), "MinDim": lambda x, d, k: tuple(x.min(d, keepdim=k)),
    "Var": moment(torch.var), "Std": moment(torch.std), "Norm": vector_norm, "LogSumExp": lambda x, d, k: torch.logsumexp(x, dims_or_all(x, d), keepdim=k),
    "CountNonzero": count_nonzero, "Sort": lambda x, d, desc: tuple(SORTED(x, d, desc)), "ArgSort": lambda x, d, desc: SORTED(x, d, desc)[1],
    "TopK": topk,
    "Squeeze": squeeze, "Reshape": lambda x, s: x.reshape(s), "View": lambda x, s: x.view(s), "Expand": lambda x, s: x.expand(s), "BroadcastTo": lambda x, s: x.broadcast_to(s),
    "Slice": lambda x, d, a, b, step: x[(slice(None),) * (d % x.dim()) + (slice(a, b, step),)] if -x.dim() <= d < x.dim() else x.select(d, 0),
    "Repeat": lambda x, s: x.repeat(s), "Tile": lambda x, s: x.tile(s), "Roll": lambda x, s, d: x.roll(s, d or ()), "Pad": pad,
    "To": lambda x, d: x.to(DTYPES[d]), "OneHot": lambda x, n: F.one_hot(x, n), "ScatterValue": lambda x, d, i, s: x.scatter(d, i, scalar(x, s)),
    "Embedding": lambda w, i, p: F.embedding(i, w, padding_idx=p), "EmbeddingBag": lambda w, i, o, mode, p: F.embedding_bag(i, w, o, mode=["sum", "mean", "max"][mode], padding_idx=p),
    "Conv1d": where_finite(lambda x, w, b, c: F.conv1d(x, w, b, **conv_args(c))), "Conv2d": where_finite(lambda x, w, b, c: F.conv2d(x, w, b, **conv_args(c))),
    "ConvTranspose1d": lambda x, w, b, c: F.conv_transpose1d(x, w, b, **transposed_args(c)),
    "ConvTranspose2d": lambda x, w, b, c: F.conv_transpose2d(x, w, b, **transposed_args(c)),
    "MaxPool1d": lambda x, p: F.max_pool1d(x, **pool(F.max_pool1d, 1, p)), "MaxPool2d": lambda x, p: F.max_pool2d(x, **pool(F.max_pool2d, 2, p)),
    "AvgPool1d": lambda x, p: F.avg_pool1d(x, **pool(F.avg_pool1d, 1, p)), "AvgPool2d": lambda x, p: F.avg_pool2d(x, **pool(F.avg_pool2d, 2, p)),
    "AdaptiveMaxPool1d": lambda x, s: F.adaptive_max_pool1d(x, s), "AdaptiveAvgPool1d": lambda x, s: F.adaptive_avg_pool1d(x, s),
    "AdaptiveMaxPool2d": lambda x, s: F.adaptive_max_pool2d(x, s * 2 if len(s) == 1 else s),
    "AdaptiveAvgPool2d": lambda x, s: F.adaptive_avg_pool2d(x, s * 2 if len(s) == 1 else s),
    "UpsampleNearest2d": upsample("nearest"), "UpsampleBilinear2d": where_finite(upsample("bilinear")),
    "LayerNorm": in_float(lambda x, s, w, b, e: F.layer_norm(x, s, w, b, e)), "GroupNorm": in_float(lambda x, g, w, b, e: F.group_norm(x, g, w, b, e)), "RMSNorm": rms_norm,
    "InstanceNorm": lambda x, w, b, e: F.instance_norm(x, weight=w, bias=b, eps=e),
    "MSELoss": lambda x, y, r: F.mse_loss(x, y, reduction=REDUCTIONS[r]), "L1Loss": lambda x, y, r: F.l1_loss(x, y, reduction=REDUCTIONS[r]),
    "SmoothL1Loss": lambda x, y, b, r: F.smooth_l1_loss(x, y, beta=b, reduction=REDUCTIONS[r]),
    "HuberLoss": lambda x, y, b, r: F.huber_loss(x, y, delta=b, reduction=REDUCTIONS[r]),
    "KLDivLoss": lambda x, y, log, r: F.kl_div(x, y, log_target=log, reduction=REDUCTIONS[r]),
    "BCELoss": bce_loss,
    "BCEWithLogitsLoss": lambda x, y, w, p, r: F.binary_cross_entropy_with_logits(x, y, weight=w, pos_weight=p, reduction=REDUCTIONS[r]),
    "CrossEntropy": where_finite(cross_entropy), "NLLLoss": lambda x, y, w, i, r: F.nll_loss(x, y, weight=w, ignore_index=int(i), reduction=REDUCTIONS[r]),
    "Softmax": lambda x, d: Run.noisy(lambda noise: softmax(x, noise, d)), "LogSoftmax": in_float(lambda x, d: x.log_softmax(d)),
    "Attention": attention, "Dropout": lambda x, p: F.dropout(x, p), "Hook": hook,
})

for name in ("heaviside", "hypot", "ldexp", "inner", "diff"):
    OPS[name.capitalize()] = getattr(torch, name)
REDUCE = ["sum", "prod", "mean", "amax", "amin"]
INTERPOLATIONS = ["linear", "lower", "higher", "nearest", "midpoint"]
OPS.update({
    "FMax": torch.fmax, "FMin": torch.fmin, "FloatPower": torch.float_power, "LogAddExp2": torch.logaddexp2, "Deg2Rad": in_float(torch.deg2rad), "Rad2Deg": in_float(torch.rad2deg),
    "IsNegInf": torch.isneginf, "IsPosInf": torch.isposinf, "Tanhshrink": tanhshrink, "VecDot": lambda x, y, d: torch.linalg.vecdot(x, y, dim=d),
    "Sinc": sinc, "Signbit": lambda x: x.signbit() & ~x.isnan(), "Copysign": Copysign.apply,
    "IsClose": lambda x, y, rtol, atol, nan: torch.isclose(x, y, rtol, atol, nan), "Combinations": lambda x, r, again: torch.combinations(x, r, again),
    "Vander": vander, "AMinMax": lambda x, d, k: (x.amin(dims_or_all(x, d), k), x.amax(dims_or_all(x, d), k)),
    "UniqueConsecutive": lambda x: torch.unique_consecutive(x.detach(), return_inverse=True, return_counts=True),
    "Gradient": gradient, "Trapezoid": trapezoid(torch.trapezoid), "CumulativeTrapezoid": trapezoid(torch.cumulative_trapezoid),
    "SelectScatter": lambda x, s, d, i: x.select_scatter(s, d, i), "SliceScatter": lambda x, s, d, a, b, step: x.slice_scatter(s, d, a, b, step),
    "DiagonalScatter": lambda x, s, k, a, b: x.diagonal_scatter(s, k, a, b), "Put": lambda x, i, s, more: x.put(i, s, more),
    "IndexReduce": lambda x, d, i, s, how, own: x.index_reduce(d, i, s, REDUCE[how], include_self=own),
    "Dist": lambda x, y, p: torch.dist(x, y, number(p)), "PDist": lambda x, p: F.pdist(x, number(p)), "Renorm": lambda x, p, d, limit: x.renorm(number(p), d, limit),
    "LPPool1d": lp_pool(F.lp_pool1d), "LPPool2d": lp_pool(F.lp_pool2d), "MaxUnpool1d": max_unpool, "MaxUnpool2d": max_unpool,
    "MaxPool1dIndices": lambda x, p: F.max_pool1d(x, return_indices=True, **pool(F.max_pool1d, 1, p)),
    "MaxPool2dIndices": lambda x, p: F.max_pool2d(x, return_indices=True, **pool(F.max_pool2d, 2, p)),
    "Cov": lambda x, c: x.cov(correction=c), "CorrCoef": torch.corrcoef,
    "VarMean": lambda x, d, c, k: torch.var_mean(x, dims_or_all(x, d), correction=c, keepdim=k),
    "StdMean": lambda x, d, c, k: torch.std_mean(x, dims_or_all(x, d), correction=c, keepdim=k),
    "KthValue": kth_value, "MedianDim": median_dim(False), "NanMedianDim": median_dim(True), "ModeDim": mode_dim, "Median": torch.median,
    "Quantile": lambda x, q, d, k, how: x.quantile(q, d, k, interpolation=INTERPOLATIONS[how]),
    "NanQuantile": lambda x, q, d, k, how: x.nanquantile(q, d, k, interpolation=INTERPOLATIONS[how]),
    "CumMax": lambda x, d: tuple(x.cummax(d)), "CumMin": lambda x, d: tuple(x.cummin(d)), "LogCumSumExp": log_cum_sum_exp,
    "NanSum": nan_sum, "NanMean": lambda x, d, k: x.nanmean(dims_or_all(x, d), k),
})

OPS.update({
    "PixelShuffle": pixel_shuffle, "PixelUnshuffle": pixel_unshuffle, "ChannelShuffle": lambda x, n: torch.channel_shuffle(x, n),
    "Rot90": lambda x, k, a, b: x.rot90(k, (a, b)), "Unflatten": lambda x, d, s: x.unflatten(d, s), "Windows": lambda x, d, n, step: x.unfold(d, n, step).clone(),
    "TakeFlat": torch.take, "MaskedScatter": lambda x, m, s: x.masked_scatter(m, s), "Trace": trace,
    "Unfold": lambda x, w: F.unfold(x, w["Kernel"], **window_args(w)), "Fold": lambda x, h, k, w: F.fold(x, (h, k), w["Kernel"], **window_args(w)),
    "GLU": F.glu, "NanToNum": torch.nan_to_num, "Softmin": lambda x, d: Run.noisy(lambda noise: F.softmin(x, d) if noise is None else softmax(-x, noise, d)), "ClampTo": clamp_to, "Kron": lambda x, y: torch.kron(x.contiguous(), y.contiguous()), "Cross": cross,
    "Normalize": lambda x, p, d, eps: F.normalize(x, number(p), d, eps), "CosineSimilarity": cosine_similarity,
    "PairwiseDistance": lambda x, y, p, eps, k: F.pairwise_distance(x, y, number(p), eps, k), "CDist": lambda x, y, p: cdist(x, y, number(p)),
    "MarginRankingLoss": lambda x, u, y, m, r: F.margin_ranking_loss(x, u, y, m, reduction=REDUCTIONS[r]),
    "HingeEmbeddingLoss": lambda x, y, m, r: F.hinge_embedding_loss(x, y, m, reduction=REDUCTIONS[r]),
    "CosineEmbeddingLoss": lambda x, u, y, m, r: F.cosine_embedding_loss(x, u, y, m, reduction=REDUCTIONS[r]),
    "TripletMarginLoss": triplet, "SoftMarginLoss": lambda x, y, r: F.soft_margin_loss(x, y, reduction=REDUCTIONS[r]),
    "MultiLabelSoftMarginLoss": lambda x, y, w, r: F.multilabel_soft_margin_loss(x, y, w, reduction=REDUCTIONS[r]),
    "MultiMarginLoss": lambda x, y, m, p, r: F.multi_margin_loss(x, y, p["P"], m, reduction=REDUCTIONS[r]), "PoissonNLLLoss": poisson,
    "GaussianNLLLoss": lambda x, y, v, p, r: F.gaussian_nll_loss(x, y, v, full=bool(p.get("Full")), eps=p["Eps"], reduction=REDUCTIONS[r]),
})

OPS.update({
    "AtLeast1d": torch.atleast_1d, "AtLeast2d": torch.atleast_2d, "AtLeast3d": torch.atleast_3d,
    "HSplit": torch.hsplit, "VSplit": torch.vsplit, "DSplit": torch.dsplit, "FlipLR": torch.fliplr, "FlipUD": torch.flipud, "DiagFlat": torch.diagflat,
    "Ndtr": torch.special.ndtr, "Entr": entr, "Xlog1py": torch.special.xlog1py, "MVLgamma": mv_lgamma,
    "MultiLabelMarginLoss": lambda x, y, r: F.multilabel_margin_loss(x, y, reduction=REDUCTIONS[r]),
    "LocalResponseNorm": lambda x, n, p: F.local_response_norm(x, n, p.get("Alpha") or 1e-4, p.get("Beta") or 0.75, p.get("K") or 1.0),
    "Conv3d": lambda x, w, b, c: F.conv3d(x, w, b, **conv_args(c)), "ConvTranspose3d": lambda x, w, b, c: F.conv_transpose3d(x, w, b, **transposed_args(c)),
    "MaxPool3d": lambda x, p: F.max_pool3d(x, **pool(F.max_pool3d, 3, p)), "AvgPool3d": lambda x, p: F.avg_pool3d(x, **pool(F.avg_pool3d, 3, p)),
    "AdaptiveMaxPool3d": lambda x, s: F.adaptive_max_pool3d(x, s * 3 if len(s) == 1 else s),
    "AdaptiveAvgPool3d": lambda x, s: F.adaptive_avg_pool3d(x, s * 3 if len(s) == 1 else s),
})

# Operations whose results are exact, or rounded once from the exact value: two implementations must agree on every bit.
EXACT = set("""Abs Ceil Contiguous Detach Floor IsFinite IsInf IsNaN Neg Not ReLU ReLU6 Round Sign Trunc T Clone Add Sub Mul Div Maximum Minimum Fmod
And Or Xor Eq Ne Lt Le Gt Ge ReLUInPlace NegInPlace ZeroInPlace SubInPlace MulInPlace DivInPlace Transpose SwapAxes Permute Narrow Select Unsqueeze
Flip Tril Triu DiagEmbed Diagonal Diag MoveDim Chunk Split SplitSizes Unbind Flatten IndexSelect Gather RepeatInterleave Scatter ScatterInPlace IndexCopyInPlace
TakeAlongDim AddScalar SubScalar MulScalar DivScalar FmodScalar EqScalar NeScalar LtScalar LeScalar GtScalar GeScalar AddScalarInPlace MulScalarInPlace
RSubScalar Clamp ClampInPlace Hardtanh MaskedFill MaskedFillInPlace CopyFrom Where WhereScalar RWhereScalar Cat Stack Max Min Any All ArgMax ArgMin MaxDim MinDim
CountNonzero Sort ArgSort TopK Squeeze Reshape View Expand BroadcastTo Slice Repeat Tile Roll Pad To OneHot ScatterValue Embedding MaxPool1d MaxPool2d
AdaptiveMaxPool1d AdaptiveMaxPool2d Hook Dropout Sqrt SqrtInPlace LeakyReLU Copysign FMax FMin Heaviside IsNegInf IsPosInf Signbit AMinMax Diff CumMax CumMin
KthValue MedianDim NanMedianDim ModeDim Median SelectScatter SliceScatter DiagonalScatter MaxPool1dIndices MaxPool2dIndices MaxUnpool1d MaxUnpool2d UniqueConsecutive
AtLeast1d AtLeast2d AtLeast3d HSplit VSplit DSplit FlipLR FlipUD DiagFlat MaxPool3d AdaptiveMaxPool3d
Combinations IsClose PixelShuffle PixelUnshuffle ChannelShuffle Rot90 Unflatten Windows TakeFlat MaskedScatter Unfold NanToNum ClampTo""".split()) | {op for op in OPS if op.startswith("Bitwise")}
# Functions of single elements: an error of some units in the last place of the result. What is in neither list adds up products of its
# inputs in some order: each of them may be off.
FUNCTIONS = set("""Cos Erf Exp Expm1 Log Log1p Reciprocal Rsqrt Sigmoid Sin Tanh Pow Remainder RemainderScalar SigmoidInPlace TanhInPlace ExpInPlace
PowScalar RPowScalar RDivScalar ELU CELU Deg2Rad Rad2Deg Hypot FloatPower Ldexp Sinc""".split())


# Functions and sums whose terms may cancel, whose error is that of the terms.
ROUGH = set("""GELU GELUTanh SiLU ELU Softplus LogSoftmax Softmax Attention LinearGELU LinearGELUTanh LinearReLU LayerNorm GroupNorm RMSNorm InstanceNorm Var
Std LogSumExp CrossEntropy BCELoss BCEWithLogitsLoss KLDivLoss UpsampleBilinear2d Lerp LerpScalar LerpInPlace LerpScalarInPlace AddCMul AddCDiv Logit
LogAddExp2 Tanhshrink Cov CorrCoef VarMean StdMean LogCumSumExp Quantile NanQuantile LPPool1d LPPool2d Renorm Gradient Trapezoid CumulativeTrapezoid
GLU Softmin Cross Normalize CosineSimilarity PairwiseDistance CDist Dist PDist MarginRankingLoss HingeEmbeddingLoss CosineEmbeddingLoss TripletMarginLoss SoftMarginLoss
MultiLabelSoftMarginLoss MultiMarginLoss PoissonNLLLoss GaussianNLLLoss Ndtr Entr Xlog1py MVLgamma MultiLabelMarginLoss LocalResponseNorm""".split())

# The operations of package elementwise, which the caller knows: expressions of x and y.
for go, row in json.loads(sys.argv[1]).items():
    OPS[go] = eval("lambda x, y=None: " + row["expression"])
    (ROUGH if row["rough"] else FUNCTIONS).add(go)
OPS["Digamma"], OPS["Lgamma"], OPS["PReLU"] = Digamma.apply, Lgamma.apply, prelu
ROUGH |= {"Digamma", "Lgamma", "Polygamma"}
LONG = ("Digamma", "Lgamma", "Polygamma", "MVLgamma")


def is_rough(op):
    return op in ROUGH or op.startswith("nn.")


def greatest(x):
    if isinstance(x, list):
        return max([greatest(y) for y in x], default=0)
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return 0
    x = x.detach().double().abs()
    x = x[torch.isfinite(x)]
    return x.max().item() if len(x) else 0


def times(op):
    """Layers are several functions, one after the other. Digamma and Polygamma add up ten and more terms."""
    return 32 if op.startswith("nn.") or op in LONG else 1


# What keeps memory formats: of these compare.go compares strides, but for convolutions' and those of functions and the last lines.
PLACING = FUNCTIONS | set("""Abs Neg ReLU Exp Tanh Sigmoid AddScalar MulScalar Add Sub Mul Maximum Where Lerp To Cat Clone Contiguous ToMemoryFormat Flip MaxPool2d AvgPool2d
AdaptiveAvgPool2d AdaptiveMaxPool2d Conv2d
AddCMul AddCDiv AddScaled Div DivScalar Minimum Pow PowScalar Fmod FmodScalar Remainder RemainderScalar FloorDivide Atan2 Hypot Clamp ClampTo Lerp LerpScalar
Eq Ne Lt Le Gt Ge EqScalar NeScalar LtScalar LeScalar GtScalar GeScalar And Or Xor Not""".split())
FORMATS = [torch.contiguous_format, torch.channels_last, torch.channels_last_3d]


def to_memory_format(x, f):
    """What lies so already is shared, with the format's strides: x.to copies some of it, and takes what has gaps for contiguous."""
    if x.is_contiguous(memory_format=FORMATS[f]):
        return x.as_strided(x.shape, torch.empty(x.shape).to(memory_format=FORMATS[f]).stride(), x.storage_offset())
    return x.contiguous(memory_format=FORMATS[f])


OPS["ToMemoryFormat"] = to_memory_format
EXACT.add("ToMemoryFormat")


class Noise:
    def __init__(self, seed, half=False):
        self.g = torch.Generator().manual_seed(seed)
        self.seen = 0  # the largest gradient of a value
        self.unit = {d: UNIT[torch.bfloat16] for d in UNIT} if half else UNIT  # under autocast any type may be rounded

    def on(self, t):
        if t is None or not t.is_floating_point() or t.numel() == 0:
            return t
        s = (torch.randint(2, t.shape, generator=self.g) * 2 - 1) * (1 - torch.rand(t.shape, generator=self.g, dtype=torch.float64) / 2)
        moved = t.detach().double() * (1 + self.unit[t.dtype] * s) + s * torch.finfo(t.dtype).tiny
        return t + torch.where(~torch.isfinite(moved), 0, moved - t.detach().double()).to(t.dtype)

    def zeros(self, t):
        """Zeros of the other sign, some of them, in the memory of t."""
        if t.is_floating_point() and t.numel() > 0:
            with torch.no_grad():
                other = (t == 0) & (torch.rand(t.shape, generator=self.g) < 0.5)
                t.data.copy_(torch.where(other, -t, t))

    def branch(self, t):
        """Errors of a value within an operation, and of its gradient."""
        t = self.on(t)
        if t.requires_grad:
            t = t.view_as(t)
            t.register_hook(self.on)
        return t

    def gradient(self, t):
        self.seen = max(self.seen, greatest(t))
        return self.on(t)

    def rough(self, t, *others, times=1, beside=False):
        """Errors as large as those of the largest element, of t or of what it was made of: of functions that cancel, and of layers."""
        if t is None or not t.is_floating_point() or t.numel() == 0:
            return t
        size = max([greatest(x) for x in (t,) + others] + [self.seen if beside or times > 1 and not others else 0])
        return self.on(t) + (size * times * self.unit[t.dtype] * self.signs(t)).to(t.dtype)

    def signs(self, t):
        return torch.randint(-1, 2, t.shape, generator=self.g).double()


def parse(text, dtype, shape):
    words = text.split()
    if dtype in ("int64", "int32", "uint8"):
        return torch.tensor([int(w) for w in words], dtype=DTYPES[dtype]).reshape(shape)
    if dtype == "bool":
        return torch.tensor([w == "1" for w in words], dtype=torch.bool).reshape(shape)
    return torch.tensor([float(w) for w in words], dtype=torch.float64).to(DTYPES[dtype]).reshape(shape)


def text_of(t):
    t = t.detach().reshape(-1)
    if t._is_zerotensor():  # which has no memory
        t = torch.zeros(t.shape, dtype=t.dtype)
    if t.is_floating_point():
        return " ".join(map(repr, t.double().tolist()))
    return " ".join(str(int(x)) for x in t.tolist())


def view_of(t, views):
    for op, *a in views or []:
        if op == "slice":
            t = OPS["Slice"](t, *a)
        elif op == "expand":
            t = t.expand(a)
        elif op == "last":
            t = t.to(memory_format=torch.channels_last)
        else:
            t = getattr(t, op)(*a)
    return t


def shares(t, args):
    return any(shares(t, a) if isinstance(a, list) else isinstance(a, torch.Tensor) and a.storage().data_ptr() == t.storage().data_ptr() for a in args)


class Run:
    current = None  # the noise of the run
    differentiated_twice = False

    @classmethod
    def noisy(cls, f):
        return f(cls.current)

    def __init__(self, program, noise):
        self.program, self.noise = program, noise
        Run.current = noise
        Run.differentiated_twice = bool((program.get("backward") or {}).get("twice"))
        self.values, self.layers, self.grads = {}, {}, {}

    def value(self, a):
        if isinstance(a, str) and a[:1] == "v" and a[1:2].isdigit():
            return self.values[a]
        if isinstance(a, list):
            return [self.value(x) for x in a]
        return a

    def input(self, s):
        t = view_of(parse(s.get("data", ""), s["dtype"], s.get("base") or []), s.get("views"))
        t = t.detach()
        if s.get("grad"):
            t.requires_grad_()
        return t

    def step(self, s):
        op = s["op"]
        if op == "Input":
            return self.input(s)
        args = [self.value(a) for a in s.get("args") or []]
        inexact = self.noise and op not in EXACT
        changes = op.endswith("InPlace") or op in ("Hook", "CopyFrom")
        if inexact and op not in FUNCTIONS and op != "BCELoss" and not changes:  # BCELoss refuses what is not in 0..1
            blur = lambda a: [blur(x) for x in a] if isinstance(a, list) else self.blurred(op, a)
            args = [blur(a) for a in args]
        if self.noise and op in FUNCTIONS and not changes:
            args = [self.hooked(op, a) for a in args]
        before = [a.clone() if isinstance(a, torch.Tensor) else a for a in args] if inexact and changes else args
        if op.startswith("nn."):
            from_layers = LAYERS[op[3:]]
            r = from_layers(self, s, *args)
        else:
            r = OPS[op](*args)
        if not changes and not op.startswith("AtLeast") and any(r is a for a in args):
            r = torch.ops.aten.alias(r)  # a value of its own, as a variable is, on the same memory; a view has other strides of single elements
        if self.program.get("eager") and op not in PLACING and isinstance(r, torch.Tensor) and not shares(r, args):
            r = r.contiguous()  # as new results are in Cistern: whether Reshape copies one shows where it is changed in place
        if inexact and changes:
            r.data.copy_(self.noise.rough(r.data, *before))
        elif inexact:
            noisy = (lambda t: self.noise.rough(t, *args, times=times(op))) if is_rough(op) else self.noise.on
            r = tuple(noisy(x) for x in r) if isinstance(r, (tuple, list)) else noisy(r)
        if self.noise and not changes:
            for x in r if isinstance(r, (tuple, list)) else [r]:
                if not shares(x, args):
                    self.noise.zeros(x)
        return r

    def hooked(self, op, a):
        """The gradient of a function may cancel, as that of tanh near 1 does."""
        if isinstance(a, torch.Tensor) and a.is_floating_point() and a.requires_grad:
            a = a.view_as(a)
            if op in ("Asin", "Acos", "Atanh"):  # the error of x*x remains in the small difference 1 - x*x, by which theirs are divided
                lost = (1 / (1 - a.detach().double() ** 2)).nan_to_num(0, 0, 0)
                a.register_hook(lambda g: (g * (1 + lost * self.noise.unit[g.dtype] * self.noise.signs(g))).to(g.dtype))
            a.register_hook(lambda g: self.noise.rough(g, times=2))
        return a

    def blurred(self, op, a):
        if not isinstance(a, torch.Tensor) or not a.is_floating_point():
            return a
        a = self.noise.on(a)
        if is_rough(op) and a.requires_grad:
            tails = (8 if Run.differentiated_twice else 2) if "GELU" in op else 1  # the parts of its gradient cancel far from 0
            if op in ("CrossEntropy", "CosineEmbeddingLoss", "CosineSimilarity"):  # and those of these: a class that is almost certain, equal vectors
                a.register_hook(lambda g: self.noise.rough(g, times=8 if Run.differentiated_twice else 0.25, beside=True))
            a.register_hook(lambda g: self.noise.rough(g, times=max(tails, times(op))))
        return a

    def keep(self, s, r):
        results = list(r) if isinstance(r, (tuple, list)) else [r]
        for k, x in enumerate(results):
            name = "v%d" % s["id"] + (".%d" % k if k else "")
            self.values[name] = x
            if self.noise and x.requires_grad and x.is_floating_point():
                x.register_hook(self.noise.gradient)

    def run(self):
        answer = {"failed": -1, "values": {}, "grads": {}}
        at = 0
        try:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bool(self.program.get("autocast"))):
                for at, s in enumerate(self.program.get("steps", [])):
                    self.keep(s, self.step(s))
        except Exception as e:
            answer.update(failed=at, error="%s: %s" % (type(e).__name__, e))
            if self.noise:
                answer["values"] = {n: self.write(t) for n, t in self.values.items()}
            return answer
        answer["values"] = {n: self.write(t) for n, t in self.values.items()}
        b = self.program.get("backward")
        if b:
            try:
                self.backward(b)
            except Exception as e:
                answer.update(failed=len(self.program.get("steps", [])), error="%s: %s" % (type(e).__name__, e))
                return answer
            if self.noise:
                self.grads = {n: t if t is None else self.noise.on(t) for n, t in self.grads.items()}
            answer["grads"] = {n: self.write(t) for n, t in self.grads.items()}
        return answer

    def write(self, t):
        if t is None:
            return {"dtype": "none"}
        r = {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data": text_of(t)}
        if t.dim() >= 2:
            r["order"] = [0 if n == 1 else s for n, s in zip(t.shape, t.stride())]
        return r

    def backward(self, b):
        roots = [self.values[n] for n in b["of"]]
        seeds = [parse(d, NAMES[r.dtype], r.shape) for r, d in zip(roots, b["seeds"])]
        if self.noise:
            seeds = [self.noise.on(t) for t in seeds]
        if b.get("twice"):
            self.twice(roots, seeds)
            return
        for n in b.get("retain") or []:
            self.values[n].retain_grad()
        if b.get("wrt"):
            grads = torch.autograd.grad(roots, [self.values[n] for n in b["wrt"]], seeds, allow_unused=True)
            self.grads = dict(zip(b["wrt"], grads))
            return
        torch.autograd.backward(roots, seeds)
        for s in self.program.get("steps", []):
            n = "v%d" % s["id"]
            if s["op"] == "Input" and s.get("grad"):
                self.grads[n] = self.values[n].grad
        for n in b.get("retain") or []:
            self.grads[n] = self.values[n].grad
        for n, layer in self.layers.items():
            for k, p in layer.named_parameters():
                self.grads[n + "." + k] = p.grad
            for k, p in layer.named_buffers():
                if p.is_floating_point():
                    self.grads[n + "." + k] = p.clone()

    def twice(self, roots, seeds):
        """Gradients of the inputs, recorded, and gradients of these."""
        names = ["v%d" % s["id"] for s in self.program["steps"] if s["op"] == "Input" and s.get("grad")]
        wrt = [self.values[n] for n in names]
        if not wrt:
            return  # PyTorch refuses gradients of nothing
        first = torch.autograd.grad(roots, wrt, seeds, allow_unused=True, create_graph=True)
        self.grads = {n + ".first": g for n, g in zip(names, first)}
        outs = [g for g in first if g is not None and g.requires_grad]
        again = torch.tensor([0.5, -1, 1.5, -0.5, 1])
        starts = [again.repeat(g.numel() // 5 + 1)[:g.numel()].reshape(g.shape).to(g.dtype) for g in outs]
        if self.noise:
            starts = [self.noise.on(t) for t in starts]
        second = torch.autograd.grad(outs, wrt, starts, allow_unused=True) if outs else [None] * len(wrt)
        self.grads.update(zip(names, second))


def layer(make, forward=None):
    """A module with the parameters that the program gives, and its results."""
    def run(r, s, config, *inputs):
        like = next(x for x in inputs if x is not None)
        dtype = like.dtype if like.is_floating_point() else torch.float32
        m = make(config).to(dtype)
        if s.get("eval"):
            m.eval()
        state = m.state_dict()
        for k, d in (s.get("params") or {}).items():
            t = parse(d, NAMES[state[k].dtype], state[k].shape)
            state[k].copy_(r.noise.on(t) if r.noise else t)
        if r.noise:
            for p in m.parameters():
                p.register_hook(lambda g: r.noise.rough(g, times=times("nn.")))
        r.layers["v%d" % s["id"]] = m
        return forward(m, config, *inputs) if forward else m(*inputs)
    return run


nn = torch.nn


def batch_norm(m, config, x):
    """PyTorch 1.13's gradient takes the channels for the last dimension where those of the input are, and not those of what comes back."""
    return m(x.contiguous())


def keywords(c, **names):
    return {py: c[go] for go, py in names.items() if c.get(go) is not None}


def norm_keywords(c):
    k = keywords(c, eps="eps", momentum="momentum", affine="affine", stats="track_running_stats")
    return k


def rnn(make):
    return lambda c: make(c["in"], c["out"], num_layers=c.get("layers", 1), bias=not c.get("nobias"), batch_first=bool(c.get("batchfirst")),
                          bidirectional=bool(c.get("bidirectional")))


def run_rnn(m, c, x, h=None, cell=None):
    if isinstance(m, nn.LSTM):
        out, (a, b) = m(x, None if h is None else (h, cell))
        return out, a, b
    out, a = m(x, h)
    return out, a


def run_cell(m, c, x, h=None, cell=None):
    if isinstance(m, nn.LSTMCell):
        return m(x, None if h is None else (h, cell))
    return m(x, h)


def window(c):
    k = keywords(c, stride="stride", padding="padding", dilation="dilation", groups="groups", outputpadding="output_padding")
    if c.get("same"):
        k["padding"] = "same"
    k["bias"] = not c.get("nobias")
    return k


def attend(m, c, q, k, v, mask=None, padding=None):
    if c.get("causal"):
        mask = ~torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    return m(q, k, v, attn_mask=mask, key_padding_mask=padding, need_weights=False)[0]


def group_norm(m, c, x):
    """In float32, where PyTorch's scale and shift in half precision cancel."""
    if x.dtype not in (torch.float16, torch.bfloat16) or m.weight is None:
        return m(x)
    return F.group_norm(x.float(), m.num_groups, m.weight.float(), m.bias.float(), m.eps).to(x.dtype)


LAYERS = {
    "Linear": layer(lambda c: nn.Linear(c["in"], c["out"], bias=not c.get("nobias"))),
    "Embedding": layer(lambda c: nn.Embedding(c["in"], c["out"], padding_idx=c.get("padding"))),
    "EmbeddingBag": layer(lambda c: nn.EmbeddingBag(c["in"], c["out"], mode=["sum", "mean", "max"][c.get("mode", 0)], padding_idx=c.get("padding")),
                          lambda m, c, x, offsets=None: m(x, offsets)),
    "LayerNorm": layer(lambda c: nn.LayerNorm(c["shape"], eps=c.get("eps", 1e-5), elementwise_affine=c.get("affine", True))),
    "GroupNorm": layer(lambda c: nn.GroupNorm(c["groups"], c["in"], eps=c.get("eps", 1e-5), affine=c.get("affine", True)), group_norm),
    "BatchNorm1d": layer(lambda c: nn.BatchNorm1d(c["in"], **norm_keywords(c)), batch_norm), "BatchNorm2d": layer(lambda c: nn.BatchNorm2d(c["in"], **norm_keywords(c)), batch_norm),
    "InstanceNorm1d": layer(lambda c: nn.InstanceNorm1d(c["in"], affine=c.get("affine", False))),
    "InstanceNorm2d": layer(lambda c: nn.InstanceNorm2d(c["in"], affine=c.get("affine", False))),
    "Conv1d": layer(lambda c: nn.Conv1d(c["in"], c["out"], c["kernel"], **window(c))), "Conv2d": layer(lambda c: nn.Conv2d(c["in"], c["out"], c["kernel"], **window(c))),
    "ConvTranspose1d": layer(lambda c: nn.ConvTranspose1d(c["in"], c["out"], c["kernel"], **window(c))),
    "ConvTranspose2d": layer(lambda c: nn.ConvTranspose2d(c["in"], c["out"], c["kernel"], **window(c))),
    "LSTM": layer(rnn(nn.LSTM), run_rnn), "GRU": layer(rnn(nn.GRU), run_rnn),
    "LSTMCell": layer(lambda c: nn.LSTMCell(c["in"], c["out"], bias=not c.get("nobias")), run_cell),
    "GRUCell": layer(lambda c: nn.GRUCell(c["in"], c["out"], bias=not c.get("nobias")), run_cell),
    "MultiheadAttention": layer(lambda c: nn.MultiheadAttention(c["in"], c["heads"], bias=not c.get("nobias"), batch_first=True, kdim=c.get("kdim"), vdim=c.get("vdim")), attend),
    "TransformerBlock": layer(lambda c: nn.TransformerEncoderLayer(c["in"], c["heads"], c["feed"], dropout=0, activation=c["activation"], batch_first=True,
                                                                   norm_first=bool(c.get("normfirst"))),
                              lambda m, c, x: m(x, src_mask=~torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).tril() if c.get("causal") else None)),
}


def compare(base, other):
    """How far each element of an answer moved: the largest of the distances, infinite where a value became another kind of value."""
    for group in ("values", "grads"):
        for n, t in base[group].items():
            o = other[group].get(n)
            if not t.get("data"):
                continue
            if o is None or not o.get("data") or o.get("shape") != t.get("shape"):
                t["spread"] = " ".join(["inf"] * len(t["data"].split()))
                continue
            old = t.get("spread", "").split() or ["0"] * len(t["data"].split())
            new = []
            for a, b, s in zip(t["data"].split(), o["data"].split(), old):
                a, b = float(a), float(b)
                d = 0.0 if a == b or math.isnan(a) and math.isnan(b) else abs(a - b)
                new.append(repr(max(float(s), math.inf if math.isnan(d) else d)))
            t["spread"] = " ".join(new)


def answer(request):
    program = request["program"]
    run = train if program.get("train") else lambda p, noise: Run(p, noise).run()
    base = run(program, None)
    for k in range(request.get("noise", 0)):
        if base["failed"] >= 0:
            break
        other = run(program, Noise(request.get("seed", 0) * 1000 + k, bool(program.get("autocast"))))
        if other["failed"] < 0 or not program.get("train"):
            compare(base, other)  # what errors keep from being computed may differ by anything
    return base


def train(program, noise):
    t = program["train"]
    answer = {"failed": -1, "values": {}, "grads": {}}
    at = 0
    try:
        dtype = DTYPES[t["dtype"]]
        params = [torch.nn.Parameter(parse(d, t["dtype"], s)) for s, d in zip(t["shapes"], t["data"])]
        half = [params] if not t.get("groups") else [params[:t["groups"]], params[t["groups"]:]]
        options = dict(t["options"])
        if noise and options.get("weight_decay"):  # its product with a parameter may cancel a gradient
            options["weight_decay"] *= 1 + UNIT[dtype] * (1 - 2 * torch.rand((), generator=noise.g).item())
        opt = getattr(torch.optim, t["optimizer"])([{"params": g} for g in half], **options)
        schedule = t.get("schedule")
        if schedule:
            schedule = make_schedule(opt, schedule)
        for at, grads in enumerate(t["grads"]):
            for p, g in zip(params, grads):
                p.grad = None if g is None else parse(g, t["dtype"], p.shape)
                if p.grad is not None and noise:
                    p.grad = noise.on(p.grad)
            if t.get("clipnorm") is not None:
                torch.nn.utils.clip_grad_norm_(params, number(t["clipnorm"]), number(t.get("normtype", 2)))
            if t.get("clipvalue") is not None:
                torch.nn.utils.clip_grad_value_(params, t["clipvalue"])
            old = [p.detach().clone() for p in params]
            opt.step()
            if schedule:
                schedule.step(*([float(t["metrics"][at])] if t["schedule"]["name"] == "ReduceLROnPlateau" else []))
            with torch.no_grad():
                for k, p in enumerate(params):
                    if noise:
                        p.copy_(noise.on(p) + noise.on(old[k]) - old[k])
                    answer["values"]["p%d.%d" % (k, at)] = {"dtype": NAMES[p.dtype], "shape": list(p.shape), "data": text_of(p)}
            for k, g in enumerate(opt.param_groups):
                answer["values"]["lr%d.%d" % (k, at)] = {"dtype": "float64", "shape": [], "data": repr(float(g["lr"])), "spread": repr(1e-12 * abs(float(g["lr"])))}
    except Exception as e:
        answer.update(failed=at, error="%s: %s" % (type(e).__name__, e), values={})
    return answer


def make_schedule(opt, s):
    return getattr(torch.optim.lr_scheduler, s["name"])(opt, **s["options"])


def main():
    for line in sys.stdin:
        try:
            out = answer(json.loads(line))
        except Exception as e:
            import traceback
            out = {"failed": -2, "error": traceback.format_exc()}
        sys.stdout.write(json.dumps(out) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    print(json.dumps({"version": torch.__version__}), flush=True)
    main()
