"""Writes trigonometric.json: sines, cosines and tangents of float64 arguments, rounded once.

    python3 trigonometric.py >trigonometric.json

It takes mpmath 1.2. Arguments are near multiples of pi/2, near and far, at random of all sizes, and the one that is closest to a multiple. The parts and words of
constants in trigonometric.go are printed by `python3 trigonometric.py constants`.
"""
import json
import math
import random
import sys

import mpmath as mp

mp.mp.prec = 1400
random.seed(1)

if sys.argv[1:] == ["constants"]:
    rest = mp.pi / 2
    for _ in range(3):
        scale = mp.mpf(2) ** (32 - mp.floor(mp.log(rest, 2)))
        part = mp.floor(rest * scale) / scale
        rest -= part
        print(float(part).hex())
    print(float(rest).hex())
    whole = int(mp.floor(2 / mp.pi * mp.mpf(2) ** 1280))
    print(", ".join("0x%016x" % (whole >> 64 * (19 - i) & 2**64 - 1) for i in range(20)))
    sys.exit()

xs = [math.pi, math.pi / 2, 91553.863907240549, 6381956970095103 * 2.0**797, 5e-324, 2.0**-27, 2.0**-28, 2.0**20, math.nextafter(2.0**20, 0) if hasattr(math, "nextafter") else 2.0**20 - 2.0**-33]
for _ in range(150):  # the nearest numbers to multiples
    k = random.choice([random.randint(1, 40), random.randint(1, 700000), random.randint(1, 10**9), random.randint(1, 10**15)])
    xs.append(float(k * mp.pi / 2))
for _ in range(150):
    k = random.randint(1, 600000)
    xs.append(float(k * mp.pi / 2) + random.choice([-1, 1]) * 2.0 ** random.randint(-40, -1))
for _ in range(100):
    xs.append(random.uniform(1, 2) * 2.0 ** random.randint(-40, 1023))
for _ in range(100):
    xs.append(random.uniform(0, 4))
xs = [x * random.choice([-1, 1]) for x in xs]
rows = [[x.hex()] + [float(f(mp.mpf(x))).hex() for f in (mp.sin, mp.cos, mp.tan)] for x in xs]
print("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]")
