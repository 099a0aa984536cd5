"""Writes rnn.json: outputs, last states and gradients of PyTorch's recurrent layers and cells, in float64. Weights, inputs and
cotangents follow a fixed formula. Run: python3 rnn.py"""

import json

import torch

torch.set_default_dtype(torch.float64)
cases = []


def numbers(k, *shape):
    """Numbers in [-1, 1), different for each k. rnn_test.go has the same."""
    n = int(torch.tensor(shape).prod())
    i = torch.arange(n, dtype=torch.float64)
    return (torch.remainder(i * 7 + k * 13 + i * i * 3, 29) / 14.5 - 1).reshape(shape)


def fill(module):
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_(numbers(k + 100, *p.shape) * 0.7)


def packed(module, x, state, lengths):
    """The module on sequences of these lengths, its output padded with zeros to the length of x."""
    first = module.batch_first
    p = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=first, enforce_sorted=False)
    out, last = module(p, state)
    return torch.nn.utils.rnn.pad_packed_sequence(out, batch_first=first, total_length=x.shape[1 if first else 0])[0], last


def case(name, module, x, states, lengths=None):
    fill(module)
    leaves = [numbers(1, *x).requires_grad_()] + [numbers(k + 2, *s).requires_grad_() for k, s in enumerate(states)]
    state = None if not states else leaves[1] if len(states) == 1 else (leaves[1], leaves[2])
    result = packed(module, leaves[0], state, lengths) if lengths else module(leaves[0], state)
    flat = []
    for r in result if isinstance(result, tuple) else (result,):
        flat += list(r) if isinstance(r, tuple) else [r]
    loss = sum((r * numbers(k + 50, *r.shape)).sum() for k, r in enumerate(flat))
    loss.backward()
    cases.append(dict(name=name, x=x, states=states, lengths=lengths, names=[n for n, _ in module.named_parameters()], text=str(module),
                      results=[r.detach().flatten().tolist() for r in flat], shapes=[list(r.shape) for r in flat],
                      grads=[v.grad.flatten().tolist() for v in leaves],
                      weights=[p.grad.flatten().tolist() for p in module.parameters()]))


nn = torch.nn
case("lstm", nn.LSTM(3, 4), [5, 2, 3], [[1, 2, 4], [1, 2, 4]])
case("lstm zeros", nn.LSTM(3, 4), [5, 2, 3], [])
case("lstm all", nn.LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True), [2, 5, 3], [[4, 2, 4], [4, 2, 4]])
case("lstm no bias", nn.LSTM(2, 3, num_layers=3, bias=False), [4, 1, 2], [])
case("lstm alone", nn.LSTM(3, 4, bidirectional=True), [5, 3], [[2, 4], [2, 4]])
case("lstm one sequence", nn.LSTM(64, 8, batch_first=True), [1, 3, 64], [])
case("gru", nn.GRU(3, 4), [5, 2, 3], [[1, 2, 4]])
case("gru zeros", nn.GRU(3, 4, batch_first=True), [2, 5, 3], [])
case("gru all", nn.GRU(3, 4, num_layers=2, batch_first=True, bidirectional=True), [2, 5, 3], [[4, 2, 4]])
case("gru no bias", nn.GRU(2, 3, bias=False), [4, 1, 2], [])
case("gru alone", nn.GRU(3, 4, num_layers=2), [5, 3], [[2, 4]])
case("gru one sequence", nn.GRU(64, 8, batch_first=True), [1, 3, 64], [])
case("lstm cell", nn.LSTMCell(3, 4), [2, 3], [[2, 4], [2, 4]])
case("lstm cell alone", nn.LSTMCell(3, 4, bias=False), [3], [])
case("gru cell", nn.GRUCell(3, 4), [2, 3], [[2, 4]])
case("gru cell alone", nn.GRUCell(3, 4), [3], [[4]])
case("rnn cell", nn.RNNCell(3, 4), [2, 3], [[2, 4]])
case("rnn cell alone", nn.RNNCell(3, 4, bias=False, nonlinearity="relu"), [3], [])
case("rnn", nn.RNN(3, 4), [5, 2, 3], [[1, 2, 4]])
case("rnn alone", nn.RNN(3, 4, bias=False), [5, 3], [])
case("rnn relu all", nn.RNN(3, 4, num_layers=2, nonlinearity="relu", batch_first=True, bidirectional=True), [2, 5, 3], [[4, 2, 4]])
case("lstm projected", nn.LSTM(3, 4, proj_size=2), [5, 2, 3], [[1, 2, 2], [1, 2, 4]])
case("lstm projected all", nn.LSTM(3, 4, num_layers=2, proj_size=2, bias=False, bidirectional=True), [5, 2, 3], [[4, 2, 2], [4, 2, 4]])
case("lstm lengths", nn.LSTM(3, 4), [5, 3, 3], [[1, 3, 4], [1, 3, 4]], [3, 5, 1])
case("lstm lengths all", nn.LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True), [3, 5, 3], [], [3, 2, 4])
case("gru lengths all", nn.GRU(3, 4, num_layers=2, bidirectional=True), [5, 3, 3], [[4, 3, 4]], [3, 5, 1])
case("rnn lengths", nn.RNN(3, 4, bidirectional=True), [5, 3, 3], [[2, 3, 4]], [3, 5, 1])
case("lstm projected lengths", nn.LSTM(3, 4, proj_size=2, bidirectional=True), [5, 3, 3], [], [5, 5, 2])
case("gru lengths full", nn.GRU(3, 4), [5, 2, 3], [], [5, 5])

with open("rnn.json", "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
