"""Prints the coefficients of polynomials in gen/double.go, lowest power first.

They are interpolations at Chebyshev's nodes, in 60 digits and rounded at the end, whose largest error is nearly the least. What is printed of it is that of the
rounded coefficients, times the weight that says what it does to the function.
"""
import mpmath as mp

mp.mp.dps = 60


def fit(name, f, first, lo, hi, terms, weight):
    """first is f(0), which stays as it is: what is left is divided by x, so that the error is small near 0."""
    lo, hi, first = mp.mpf(lo), mp.mpf(hi), float(first)
    rest = terms - 1
    x = [(lo + hi) / 2 + (hi - lo) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * rest)) for i in range(rest)]
    a = mp.matrix(rest, rest)
    for i, v in enumerate(x):
        for j in range(rest):
            a[i, j] = v**j
    c = [first] + [float(v) for v in mp.lu_solve(a, mp.matrix([(f(v) - first) / v for v in x]))]
    worst = 0
    for i in range(401):
        v = lo + (hi - lo) * i / 400
        if v != 0:
            worst = max(worst, abs((mp.polyval([mp.mpf(q) for q in reversed(c)], v) - f(v)) * weight(v)))
    print(name, "largest error 2^%.1f" % mp.log(worst, 2))
    print("   ", ", ".join(repr(v) for v in c))


if __name__ == "__main__":
    edge = mp.log(2) / 2 * mp.mpf("1.0001")  # the ends differ a little, so that no node is 0
    fit("expTail: (exp(r)-1-r)/r^2", lambda r: (mp.expm1(r) - r) / r**2, 0.5, -edge, edge * mp.mpf("1.001"), 11, lambda r: r**2)
    s = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) * mp.mpf("1.0001")
    fit("logTail: (log((1+s)/(1-s))/s-2)/s^2, of s^2", lambda z: (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z, mp.mpf(2) / 3, 0, s**2, 8, lambda z: z)
