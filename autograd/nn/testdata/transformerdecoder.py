"""Writes transformerdecoder.json: what torch.nn.TransformerDecoderLayer, TransformerDecoder and TransformerEncoder compute in float64, with the
gradients of inputs and parameters for the sum of the squares of the result. Run: python3 transformerdecoder.py"""

import json

import torch
from torch import nn

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
cases = []


def flat(t):
    return dict(shape=list(t.shape), data=[float(x) for x in t.detach().double().flatten()], bool=t.dtype == torch.bool)


def case(name, m, call, batch_first=False):
    for p in m.parameters():
        nn.init.normal_(p, std=0.5)
    x = torch.randn(*((2, 3, 4) if batch_first else (3, 2, 4)), requires_grad=True)
    memory = torch.randn(*((2, 5, 4) if batch_first else (5, 2, 4)), requires_grad=True)
    out = call(m, x, memory)
    out.square().sum().backward()
    cases.append(dict(
        name=name, input=flat(x), memory=flat(memory), out=flat(out), input_grad=flat(x.grad),
        memory_grad=None if memory.grad is None else flat(memory.grad), parameters={n: flat(p) for n, p in m.named_parameters()},
        grads={n: flat(p.grad) for n, p in m.named_parameters()},
    ))


causal = torch.ones(3, 3, dtype=torch.bool).triu(1)
padding = torch.tensor([[False, False, True], [False, False, False]])
behind = torch.tensor([[False, False, False, False, False], [False, False, True, True, True]])
gelu = dict(norm_first=True, activation="gelu", batch_first=True)

case("decoder layer", nn.TransformerDecoderLayer(4, 2, 6, 0.0), lambda m, x, y: m(x, y))
case("decoder layer norm first", nn.TransformerDecoderLayer(4, 2, 6, 0.0, **gelu),
     lambda m, x, y: m(x, y, tgt_mask=causal, memory_key_padding_mask=behind), True)
case("decoder", nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 6, 0.0), 2, nn.LayerNorm(4)),
     lambda m, x, y: m(x, y, tgt_mask=causal, tgt_key_padding_mask=padding, memory_key_padding_mask=behind))
case("encoder", nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 6, 0.0), 2, nn.LayerNorm(4)),
     lambda m, x, y: m(x, mask=causal, src_key_padding_mask=padding))
case("encoder without norm", nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 6, 0.0), 3), lambda m, x, y: m(x))

with open("transformerdecoder.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
