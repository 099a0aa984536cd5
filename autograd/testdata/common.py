"""Writes common.json: values and gradients that PyTorch gives for common functions that are made of other operations here. Run: python3 common.py"""

import torch
import torch.nn.functional as F

from cases import case, inf, ints, nan, rand, write

torch.manual_seed(17)
wild = torch.tensor([nan, inf, -inf, 0.0, -0.0, 2.0, -3.5])
pairs = wild.repeat(7), wild.repeat_interleave(7)
for name in ("hypot", "copysign", "ldexp", "logaddexp2", "fmax", "fmin"):
    case(name, getattr(torch, name), rand(2, 3), rand(3))
for name in ("copysign", "fmax", "fmin"):
    case(name, getattr(torch, name), *pairs, grads=name != "copysign")
case("hypot", torch.hypot, *pairs, grads=False)
case("hypot", torch.hypot, torch.tensor([1e200, -3e300, 1e-300]), torch.tensor([1e200, 4e300, 0.0]))
case("heaviside", lambda x, y: torch.heaviside(x.detach(), y.detach()), *pairs)
case("copysign", torch.copysign, ints([1, -2, 0]), rand(3))
case("ldexp", torch.ldexp, rand(3), ints([1, -2, 0]))
case("ldexp", torch.ldexp, ints([3, 5, 1]), ints([1, -2, 0]))
case("float_power", torch.float_power, ints([3, 5, 1]), ints([1, -2, 0]))
case("float_power", torch.float_power, rand(2, 3).abs(), rand(3))
for name in ("sinc", "deg2rad", "rad2deg"):
    case(name, getattr(torch, name), torch.tensor([0.0, 0.5, -1.0, 1.3, 1e-9]))
case("deg2rad", torch.deg2rad, ints([90, 180]))
for name in ("isposinf", "isneginf"):
    case(name, lambda x, name=name: getattr(torch, name)(x.detach()).double(), wild)
    case(name, lambda x, name=name: getattr(torch, name)(x).double(), ints([1, 2]))
case("signbit", lambda x: torch.signbit(x.detach()).double(), wild)
case("signbit", lambda x: torch.signbit(x).double(), ints([0, 2, -1]))
case("tanhshrink", F.tanhshrink, rand(2, 3))
case("rrelu", lambda x: F.rrelu(x, 0.1, 0.4), rand(2, 3))
for n in (0, 1, 2, 9):
    case(f"diff {n} 1", lambda x, n=n: torch.diff(x, n, 1), rand(2, 4, 2), grads=n < 4)
case("diff 1 -1", torch.diff, ints([[3, 1, 7], [2, 2, 0]]))
case("diff 1 -1", torch.diff, rand(2, 0), grads=False)
case("diff 1 -1", torch.diff, rand(1), grads=False)


def joined(all):
    return torch.cat([x.flatten() for x in all])


case("gradient", lambda x: joined(torch.gradient(x)), rand(3, 4))
case("gradient", lambda x: joined(torch.gradient(x)), rand(2))
case("gradient 2", lambda x: joined(torch.gradient(x, spacing=(0.5, 2.0), dim=(1, -3), edge_order=2)), rand(3, 5, 1))
for name in ("trapezoid", "cumulative_trapezoid"):
    f = getattr(torch, name)
    case(name + " 1", lambda y, f=f: f(y, dx=0.5, dim=1), rand(2, 4, 3))
    case(name + " -1", lambda y, f=f: f(y, dx=0.5), rand(1))
    case(name + " -1", lambda y, f=f: f(y, dx=0.5), ints([1, 2, 4]))
    case(name + " x 1", lambda y, x, f=f: f(y, x, dim=1), rand(2, 4, 3), rand(4))
    case(name + " x 1", lambda y, x, f=f: f(y, x, dim=1), rand(2, 4, 3), rand(2, 4, 1))
    case(name + " x 1", lambda y, x, f=f: f(y, x, dim=1), rand(2, 4, 3), rand(4, 3))
case("trapezoid -1", lambda y: torch.trapezoid(y, dx=0.5), rand(2, 0), grads=False)
case("select_scatter", lambda x, s: torch.select_scatter(x, s, 1, -2), rand(2, 3, 2), rand(2, 2))
case("slice_scatter", lambda x, s: torch.slice_scatter(x, s, 1, 1, -1, 2), rand(2, 6), rand(2, 2))
for offset in (0, 1, -2, 3):
    n = max(0, min(3 + min(offset, 0), 4 - max(offset, 0)))
    case(f"diagonal_scatter {offset}", lambda x, s, offset=offset: torch.diagonal_scatter(x, s, offset, 2, 0), rand(4, 2, 3), rand(2, n))
case("diagonal_scatter 0 1", lambda x, s: torch.diagonal_scatter(x, s), rand(2, 3), rand(2))
index = ints([2, 0, 2])
for how in ("prod", "mean", "amax", "amin"):
    case("index_reduce " + how, lambda x, i, s, how=how: x.index_reduce(1, i, s, how), rand(2, 4), index, rand(2, 3))
case("put", lambda x, i, s: x.put(i, s), rand(2, 3), ints([[5, 0]]), rand(2))
case("put add", lambda x, i, s: x.put(i, s, accumulate=True), rand(2, 3), ints([5, 0, -1]), rand(3))
for name in ("vstack", "hstack", "dstack", "column_stack"):
    f = getattr(torch, name)
    case(name, lambda *v, f=f: f(v), rand(3), rand(3))
    case(name, lambda *v, f=f: f(v), torch.tensor(2.0), torch.tensor(3.0))
    case(name, lambda *v, f=f: f(v), rand(2, 2), rand(2, 2))
    case(name, lambda *v, f=f: f(v), rand(2, 2, 1), rand(2, 2, 1))
case("column_stack", lambda *v: torch.column_stack(v), rand(3), rand(3, 2))
case("vstack", lambda *v: torch.vstack(v), rand(3), rand(2, 3))
case("block_diag", lambda *v: torch.block_diag(*v), rand(2, 3), torch.tensor(2.0), rand(2), rand(1, 0), rand(2, 1))
case("cartesian_prod", lambda *v: torch.cartesian_prod(*v), rand(2), rand(3), rand(1))
case("cartesian_prod", lambda *v: torch.cartesian_prod(*v), rand(2))
for r in (0, 1, 2, 3, 5):
    case(f"combinations {r}", lambda x, r=r: torch.combinations(x, r), rand(4), grads=0 < r < 5)
    case(f"combinations {r} again", lambda x, r=r: torch.combinations(x, r, True), rand(3), grads=r > 0)
for correction in (0, 1):
    case(f"cov {correction}", lambda x, c=correction: torch.cov(x, correction=c), rand(3, 5))
    case(f"cov {correction}", lambda x, c=correction: torch.cov(x, correction=c), rand(5))
case("corrcoef", torch.corrcoef, rand(3, 5))
case("corrcoef", torch.corrcoef, rand(5), grads=False)
for p in (0, 1, 2, 3, inf):
    case(f"dist {p}", lambda x, y, p=p: torch.dist(x, y, p), rand(2, 3), rand(3), grads=p > 0)
    case(f"pdist {p}", lambda x, p=p: F.pdist(x, p), rand(4, 3))
case("pdist 2", F.pdist, rand(1, 3), grads=False)
for p in (1, 2, inf):
    case(f"renorm {p}", lambda x, p=p: torch.renorm(x, p, 1, 1.5), rand(2, 4, 2))
case("aminmax", lambda x: joined((x.amin(1), x.amax(1))), rand(2, 3))
case("aminmax all", lambda x: joined((x.amin(), x.amax())), rand(2, 3))
for x in (torch.tensor([1.0, 1, 2, 2, 2, 1, 3, 3]).reshape(2, 4), torch.zeros(0), torch.tensor(2.0), ints([5, 5, 4])):
    case("unique_consecutive", lambda x: joined([t.double() for t in torch.unique_consecutive(x.detach(), return_inverse=True, return_counts=True)]), x)
case("vander 3", lambda x: torch.vander(x, 3), torch.tensor([0.0, 1.0, -2.0, 0.5]), grads=False)
case("vander 4 up", lambda x: torch.vander(x, 4, increasing=True), ints([1, 2, 3]))
case("addmv", lambda c, a, x: torch.addmv(c, a, x, beta=0.5, alpha=2), rand(2), rand(2, 3), rand(3))
case("addmv", lambda c, a, x: torch.addmv(c, a, x, beta=0.5, alpha=2), rand(1), rand(2, 3), rand(3))
case("addmv 0", lambda c, a, x: torch.addmv(c.detach(), a, x, beta=0), torch.tensor([nan, 1.0]), rand(2, 3), rand(3))
case("addr", lambda c, x, y: torch.addr(c, x, y, beta=0.5, alpha=2), rand(1, 3), rand(2), rand(3))
case("inner", torch.inner, rand(2, 3), rand(4, 2, 3))
case("inner", torch.inner, rand(2, 3), torch.tensor(2.0))
case("inner", torch.inner, rand(3), rand(3))
case("vecdot", lambda x, y: torch.linalg.vecdot(x, y, dim=0), rand(3, 2), rand(3, 1))
case("bilinear", F.bilinear, rand(2, 4, 3), rand(2, 4, 2), rand(5, 3, 2), rand(5))
case("bilinear", F.bilinear, rand(3), rand(2), rand(5, 3, 2))
image = torch.randperm(2 * 2 * 6 * 7).double().reshape(2, 2, 6, 7)
for name, settings in {"max_pool2d indices": dict(kernel_size=(3, 2), stride=(2, 1), padding=(1, 1), dilation=(1, 2)), "max_pool2d ceil": dict(kernel_size=2, ceil_mode=True)}.items():
    case(name, lambda x, s=settings: F.max_pool2d(x.detach(), return_indices=True, **s)[1].double(), image)
    case(name, lambda x, s=settings: F.max_pool2d(x.detach(), return_indices=True, **s)[1].double(), image[0])
ceil = dict(kernel_size=2, ceil_mode=True)
case("unpooled max_pool2d ceil", lambda x: F.max_unpool2d(*F.max_pool2d(x, return_indices=True, **ceil), 2, output_size=(6, 7)), image[:1])
case("max_pool1d indices", lambda x: F.max_pool1d(x.detach(), 2, return_indices=True)[1].double(), image[0, 0])
case("max_unpool1d", lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2, output_size=(7,)), image[0])
for p in (2, 3):
    case(f"lp_pool2d {p}", lambda x, p=p: F.lp_pool2d(x, p, (2, 3), (1, 2)), rand(1, 2, 4, 5).abs())
    case(f"lp_pool1d {p}", lambda x, p=p: F.lp_pool1d(x, p, 2), rand(2, 5).abs())
case("local_response_norm of settings 3", lambda x: F.local_response_norm(x, 3, 0.1, 0.6, 1.5), rand(2, 5, 2))
case("local_response_norm of settings 4", lambda x: F.local_response_norm(x, 4, 0.1, 0.6, 1.5), rand(1, 5, 2, 2))
case("local_response_norm of settings 9", lambda x: F.local_response_norm(x, 9, 0.1, 0.6, 1.5), rand(1, 2, 3))
for n in (1, 2, 3):
    for x in (torch.tensor(2.0), rand(3), rand(2, 3), rand(2, 1, 3)):
        case(f"atleast_{n}d", getattr(torch, f"atleast_{n}d"), x)
for name, x in dict(hsplit=rand(2, 4), vsplit=rand(4, 3), dsplit=rand(2, 1, 4)).items():
    case(name, lambda x, name=name: joined(getattr(torch, name)(x, 2)[::-1]), x)
case("hsplit", lambda x: joined(torch.hsplit(x, 2)[::-1]), rand(4))
case("diagflat", lambda x: torch.diagflat(x, 1), rand(2, 2))
case("fliplr", torch.fliplr, rand(2, 3, 2))
case("flipud", torch.flipud, rand(3))
case("ndtr", torch.special.ndtr, torch.tensor([0.0, 1.5, -9.0, inf, -inf, nan]))
case("ndtr", torch.special.ndtr, rand(2, 3))
case("entr", torch.special.entr, rand(2, 3).abs())
case("entr", torch.special.entr, torch.tensor([0.0, -1.0, inf, nan, 0.5]), grads=False)
case("xlog1py", torch.special.xlog1py, rand(2, 3), rand(3).abs())
case("xlog1py", torch.special.xlog1py, *pairs, grads=False)
case("mvlgamma", lambda x: torch.mvlgamma(x, 3), rand(2, 3).abs() + 1.5)
case("addbmm", lambda c, a, b: torch.addbmm(c, a, b, beta=0.5, alpha=2), rand(1, 4), rand(2, 3, 5), rand(2, 5, 4))
case("addbmm", lambda c, a, b: torch.addbmm(c, a, b, beta=0.5, alpha=2), rand(3, 4), rand(0, 3, 5), rand(0, 5, 4))
write("common.json")
