"""Prints the coefficients of polynomials in gen/inverse.go, gen/trigonometric.go and gen/exponential.go, lowest power first.

An odd function f is x + x*z*q(z) with z = x*x. q is the polynomial whose largest error, relative to f, is the least: by Lawson's
iteration, which is least squares whose weights grow where errors are large. The error printed is relative to f, of exact coefficients.
"""
import mpmath as mp
import numpy as np

mp.mp.dps = 40


def tail(f, z):
    """(f(x)-x)/x/z, and f(x)/x."""
    x = mp.sqrt(z)
    return float((f(x) - x) / x / z), float(f(x) / x)


def fit(name, f, hi, terms):
    n = 1500
    z = (np.cos(np.pi * (np.arange(n) + 0.5) / n) + 1) / 2 * float(hi) + 1e-18
    both = np.array([tail(f, mp.mpf(v)) for v in z])
    t, scale = both[:, 0], z / both[:, 1]  # an error of q counts z*x/f
    u = 2 * z / float(hi) - 1
    basis = np.polynomial.chebyshev.chebvander(u, terms - 1)
    w = np.ones(n)
    best = None
    for _ in range(400):
        s = np.sqrt(w) * scale
        c = np.linalg.lstsq(basis * s[:, None], t * s, rcond=None)[0]
        e = np.abs((basis @ c - t) * scale)
        if best is None or e.max() < best[0]:
            best = e.max(), c
        w *= e / e.max() + 1e-12
        w /= w.max()
    error, c = best
    q = np.polynomial.Polynomial(np.polynomial.chebyshev.cheb2poly(c))(np.polynomial.Polynomial([-1, 2 / float(hi)]))
    print(name, "largest relative error 2^%.1f" % np.log2(error))
    print("   ", ", ".join("%.9g" % v for v in q.coef))


if __name__ == "__main__":
    fit("atan", mp.atan, 1, 9)
    fit("asin", mp.asin, 0.25, 5)
    fit("tan", mp.tan, 0.85**2, 7)  # of great arguments the quadrant may be the next one
    fit("sinh", mp.sinh, 1, 4)
