"""Averages of weights as PyTorch computes them: average.json beside this file.

    OMP_NUM_THREADS=1 python3 average.py
"""
import json
import os

import torch
from torch.optim.swa_utils import AveragedModel

torch.manual_seed(3)
torch.set_default_dtype(torch.float64)


def run(avg_fn, use_buffers):
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    average = AveragedModel(model, avg_fn=avg_fn, use_buffers=use_buffers)
    steps = []
    for _ in range(4):
        with torch.no_grad():
            for p in list(model.parameters()) + [b for b in model.buffers() if b.dtype == torch.float64]:
                p.copy_(torch.randn(p.shape))
        average.update_parameters(model)
        state = lambda m: {k: v.flatten().tolist() for k, v in m.state_dict().items() if v.dtype == torch.float64 and (use_buffers or "running" not in k)}
        steps.append({"model": state(model), "average": state(average), "n_averaged": int(average.n_averaged)})
    return steps


cases = {
    "ema": run(lambda a, p, n: 0.9 * a + 0.1 * p, False),
    "swa": run(None, False),
    "ema with buffers": run(lambda a, p, n: 0.9 * a + 0.1 * p if a.dtype == torch.float64 else p, True),
}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "average.json"), "w") as f:
    json.dump(cases, f)
    f.write("\n")
