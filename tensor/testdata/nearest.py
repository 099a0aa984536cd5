"""Writes nearest.json: which element PyTorch's interpolate(mode="nearest") takes for each result, of rows of all small sizes, and of
scales. Run: OMP_NUM_THREADS=1 python3 nearest.py"""

import json

import torch



def image(n):
    """Rows of 0, 1, ... n-1, in an image whose channels do not lie innermost: for those PyTorch's processor has another kernel, which
    takes scales that only round to 1 or 2 for these numbers."""
    return torch.arange(n, dtype=torch.float32).expand(1, 2, 3, n).contiguous()


cases = []
sizes = [(n, m) for n in range(1, 12) for m in range(1, 26)] + [(100, 131), (131, 100), (640, 481), (33, 1000)]
for n, m in sizes:
    y = torch.nn.functional.interpolate(image(n), size=(3, m), mode="nearest")[0, 0, 0]
    cases.append(dict(n=n, size=m, scale=0, want=y.flatten().int().tolist()))
for n in (1, 2, 3, 7, 10, 97):
    for scale in (0.3, 0.5, 0.7, 1.1, 1.5, 1.7, 2.1, 2.5, 3.3):
        if int(n * scale) > 0:
            y = torch.nn.functional.interpolate(image(n), scale_factor=(1.0, scale), mode="nearest")[0, 0, 0]
            cases.append(dict(n=n, size=0, scale=scale, want=y.flatten().int().tolist()))

with open("nearest.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
