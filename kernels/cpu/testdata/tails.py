"""Writes tails.json: float64 functions where a plain formula loses digits, rounded once.

    python3 tails.py >tails.json

It takes mpmath 1.2. Of each function pairs of an argument and a value: the logit near 1/2, the normal distribution function and exp(-x*x/2) far out.
"""
import json
import random

import mpmath as mp

mp.mp.prec = 400
random.seed(1)


def pairs(f, xs):
    return [[x.hex(), float(f(mp.mpf(x))).hex()] for x in xs]


far = [random.uniform(-37, 9) for _ in range(100)] + [-1e-300, 0.0, 1e-9, -40.0, 40.0]
print(json.dumps({
    "logit": pairs(lambda x: mp.log(x / (1 - x)), [0.5 + s * 2.0 ** -random.randint(2, 53) for s in (-0.9, 0.5, 1) for _ in range(40)] + [random.uniform(0, 1) for _ in range(60)]),
    "normal": pairs(lambda x: mp.erfc(-x / mp.sqrt(2)) / 2, far),
    "gauss": pairs(lambda x: mp.exp(-x * x / 2), far),
}, indent=0))
