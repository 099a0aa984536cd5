"""Prints the coefficients of the fits in math.go, lowest power first, and their largest relative errors.

2^r = 1 + r*q(r) for |r| <= 1/2, and the lower tail of the normal distribution, exp(-z*z/2) * t*p(t) with t = 1/(1+0.33*z).
Both are truncated Chebyshev series, which are close to the best polynomials.
"""
import mpmath as mp

mp.mp.dps = 40


def fit(f, degree, lo, hi):
    lo, hi = mp.mpf(lo), mp.mpf(hi)
    nodes = [mp.cos(mp.pi * (k + mp.mpf(1) / 2) / 200) for k in range(200)]
    values = [f((hi - lo) / 2 * x + (hi + lo) / 2) for x in nodes]
    series = [sum(v * mp.cos(j * mp.acos(x)) for v, x in zip(values, nodes)) / 100 for j in range(degree + 1)]
    series[0] /= 2
    scale, shift = 2 / (hi - lo), -(hi + lo) / (hi - lo)
    basis = [[mp.mpf(1)], [shift, scale]]
    while len(basis) <= degree:
        a, b = basis[-1], basis[-2]
        c = [mp.mpf(0)] * (len(a) + 1)
        for i, v in enumerate(a):
            c[i] += 2 * shift * v
            c[i + 1] += 2 * scale * v
        for i, v in enumerate(b):
            c[i] -= v
        basis.append(c)
    power = [mp.mpf(0)] * (degree + 1)
    for s, b in zip(series, basis):
        for i, v in enumerate(b):
            power[i] += s * v
    return [float(v) for v in power]


def horner(c, x):
    s = 0.0
    for v in reversed(c):
        s = s * x + v
    return s


def report(name, c, error):
    print(name, "largest relative error", mp.nstr(error, 3))
    for v in c:
        print("   ", repr(v))


q = fit(lambda r: mp.log(2) if r == 0 else (mp.power(2, r) - 1) / r, 5, -0.5, 0.5)
report("2^r", q, max(abs((1 + k / 2000 * horner(q, k / 2000)) / mp.power(2, mp.mpf(k) / 2000) - 1) for k in range(-1000, 1001)))


def tail(t):
    if t == 0:
        return mp.mpf("0.33") / mp.sqrt(2 * mp.pi)
    z = (1 / t - 1) / mp.mpf("0.33")
    return mp.erfc(z / mp.sqrt(2)) / 2 * mp.exp(z * z / 2) / t


p = fit(tail, 12, 0, 1)
report("normal", p, max(abs(mp.mpf(horner(p, k / 2000)) / tail(mp.mpf(k) / 2000) - 1) for k in range(1, 2001)))
