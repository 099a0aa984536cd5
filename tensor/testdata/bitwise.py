"""Writes bitwise.json: PyTorch's operations of bits, for all pairs of types, of two tensors, with a number, and in place. A missing result is a
refusal. Shifts by fewer than 0 places, or by as many as there are bits, are undefined in PyTorch 1.13; they are not here.
Run: OMP_NUM_THREADS=1 python3 bitwise.py"""

import json

import torch

values = {
    "int64": [0, 1, -1, 7, -8, 2**53 + 1, 2**62 + 3, 2**63 - 1, -(2**63)],
    "int32": [0, 1, -1, 7, -8, 65537, 2**30 + 1, 2**31 - 1, -(2**31)],
    "uint8": [0, 1, 2, 7, 100, 127, 128, 254, 255],
    "bool": [0, 1, 1, 0, 1, 0, 0, 1, 1],
    "float32": [0, 1, 2, 3, 4, 5, 6, 7, 8],
}
places = {"int64": [0, 1, 2, 7, 31, 32, 33, 62, 63], "int32": [0, 1, 2, 7, 31, 15, 16, 30, 8], "uint8": [0, 1, 2, 3, 7, 6, 5, 4, 1],
          "bool": values["bool"], "float32": values["float32"]}
bits = {"int64": 64, "int32": 32, "uint8": 8}
operations = {"And": "and", "Or": "or", "Xor": "xor", "LeftShift": "left_shift", "RightShift": "right_shift"}
cases = []


def case(op, a, b, v, f):
    x, y = (None if t is None else torch.tensor(t[1], dtype=torch.int64).to(getattr(torch, t[0])) for t in (a, b))
    try:
        r = f(x, y)
        want, to = [int(e) for e in r.flatten().tolist()], str(r.dtype).removeprefix("torch.")
    except RuntimeError:
        want, to = None, ""
    operands = [dict(dtype=t[0], values=t[1]) for t in (a, b) if t is not None]
    cases.append(dict(op="Bitwise" + op, operands=operands, v=v, want=want, to=to))


for s in values:
    case("Not", (s, values[s]), None, 0, lambda x, y: torch.bitwise_not(x))
    case("NotInPlace", (s, values[s]), None, 0, lambda x, y: x.bitwise_not_())
    for op, name in operations.items():
        shift = op.endswith("Shift")
        f, change = getattr(torch, "bitwise_" + name), getattr(torch.Tensor, f"bitwise_{name}_")
        for t in values:
            right = (places if shift else values)[t][::1 if shift else -1]
            if shift:
                least = min([bits[d] for d in (s, t) if d in bits and (bits[d] == max(bits.get(s, 0), bits.get(t, 0)))], default=8)
                right = [min(p, least - 1) for p in right]
            case(op, (s, values[s]), (t, right), 0, f)
            case(op + "InPlace", (s, values[s]), (t, right), 0, change)
        for v in (0, 1, 5) if shift else (0, 1, -1, 6, 300, -300):
            case(op + "Scalar", (s, values[s]), None, v, lambda x, y: f(x, v))
            case(op + "ScalarInPlace", (s, values[s]), None, v, lambda x, y: change(x, v))

with open("bitwise.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
