"""Writes norm.json: what PyTorch's layers of normalisation give in two batches of training and after eval(), their state afterwards (with
shapes and types), and their descriptions. Run: python3 norm.py"""

import json

import torch
from torch import nn



def described(t):
    return dict(shape=list(t.shape), dtype=str(t.dtype).removeprefix("torch."), values=t.detach().double().flatten().tolist())


torch.manual_seed(1)
LAYERS = {
    "layer norm": (nn.LayerNorm(3), (4, 3)),
    "layer norm two dims": (nn.LayerNorm((2, 3), eps=1e-3), (4, 2, 3)),
    "layer norm plain": (nn.LayerNorm((2, 3), elementwise_affine=False), (4, 2, 3)),
    "group norm": (nn.GroupNorm(2, 4), (3, 4, 2)),
    "group norm plain": (nn.GroupNorm(2, 4, affine=False), (3, 4, 2, 2)),
    "instance norm 1d": (nn.InstanceNorm1d(3), (2, 3, 4)),
    "instance norm 2d": (nn.InstanceNorm2d(3, affine=True), (2, 3, 2, 2)),
    "batch norm 1d": (nn.BatchNorm1d(3), (4, 3)),
    "batch norm 1d lines": (nn.BatchNorm1d(3, eps=1e-3, momentum=0.3), (4, 3, 5)),
    "batch norm 2d": (nn.BatchNorm2d(3), (2, 3, 2, 2)),
    "batch norm 2d cumulative": (nn.BatchNorm2d(3, momentum=None), (2, 3, 2, 2)),
    "batch norm 3d plain": (nn.BatchNorm3d(2, affine=False), (2, 2, 2, 1, 2)),
    "batch norm 1d stateless": (nn.BatchNorm1d(3, track_running_stats=False), (4, 3)),
}
cases = []
for name, (layer, shape) in LAYERS.items():
    layer = layer.double()
    inputs = [torch.randn(*shape, dtype=torch.float64) * (k + 1) + k for k in range(3)]
    outputs = [layer(x) for x in inputs[:2]]
    layer.eval()
    outputs.append(layer(inputs[2]))
    cases.append(
        dict(
            name=name,
            text=str(layer),
            shape=shape,
            inputs=[x.flatten().tolist() for x in inputs],
            outputs=[described(y) for y in outputs],
            state={k: described(v) for k, v in layer.state_dict().items()},
        )
    )
with open("norm.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
