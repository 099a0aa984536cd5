"""Prints the coefficients of polynomials in gen/gamma.go, lowest power first, by Chebyshev's series, and the largest errors."""
import mpmath as mp

mp.mp.dps = 40


def fit(name, f, low, high, terms):
    c, error = mp.chebyfit(f, [low, high], terms, error=True)
    print(name, "largest error 2^%.1f" % mp.log(error, 2))
    print("   ", ", ".join("%.17g" % v for v in reversed(c)))


if __name__ == "__main__":
    # The ends of the range are removable singularities.
    fit("lgamma(1+t)/(t*(t-1))", lambda t: mp.loggamma(1 + t) / (t * (t - 1)), mp.mpf("1e-12"), mp.mpf(1) - mp.mpf("1e-12"), 11)
    fit("sin(pi*r)/(pi*r), of r*r", lambda z: mp.sin(mp.pi * mp.sqrt(z)) / (mp.pi * mp.sqrt(z)) if z else mp.mpf(1), mp.mpf(0), mp.mpf("0.25"), 6)
    fit("cos(pi*r), of r*r", lambda z: mp.cos(mp.pi * mp.sqrt(z)), mp.mpf(0), mp.mpf("0.25"), 7)
