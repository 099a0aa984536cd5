"""Writes largelogits.json: LogSoftmax, CrossEntropy and its gradient for rows of logits that are large but close together. Half
precision is computed in float32, and rounded to it. Run: python3 largelogits.py"""

import json
import os

import torch
import torch.nn.functional as F

dtypes = dict(float32=torch.float32, float64=torch.float64, float16=torch.float16, bfloat16=torch.bfloat16)
sizes = dict(
    float32=[0.0, 1e2, 1e4, 1e6, 1e7, 1e8, 1e15, 1e30, -1e8],
    float64=[0.0, 1e8, 1e13, 1e16, 1e300, -1e13],
    float16=[0.0, 256.0, 30000.0, -1024.0],
    bfloat16=[0.0, 256.0, 1e6, 1e30, -1e6],
)
cases = []
for name, dtype in dtypes.items():
    wide = torch.float64 if name == "float64" else torch.float32
    for size in sizes[name]:
        for row in ([size] * 2, [size] * 3 + [size * 0.5], [size, size + 1, size - 2]):
            for smoothing in (0.0, 0.2):
                x = torch.tensor([row], dtype=torch.float64).to(dtype)
                logits = x.to(wide).requires_grad_()
                loss = F.cross_entropy(logits, torch.tensor([1]), label_smoothing=smoothing)
                loss.backward()
                rounded = lambda t: t.detach().to(dtype).double().flatten().tolist()
                cases.append(
                    dict(dtype=name, logits=x.double().flatten().tolist(), smoothing=smoothing, loss=rounded(loss)[0],
                         grad=rounded(logits.grad), log_softmax=rounded(F.log_softmax(logits, 1)))
                )

with open(os.path.join(os.path.dirname(__file__), "largelogits.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
