"""Writes tiny/, a checkpoint with the files, names and layouts that Hugging Face's transformers give GPT-2, of random weights and the vocabulary of
examples/internal/bpe/testdata, and tiny.json: the logits that a forward pass of GPT-2 has for a text, and how it goes on greedily, beyond its context too.
The forward pass is written out here, after the paper and the shapes of the checkpoints, in float32 on PyTorch. Run: python3 tiny.py"""

import json
import math
import shutil
import struct

import torch
import torch.nn.functional as F

VOCABULARY = "../../internal/bpe/testdata"
vocab = json.load(open(f"{VOCABULARY}/vocab.json"))

torch.manual_seed(0)
config = dict(
    model_type="gpt2", architectures=["GPT2LMHeadModel"], activation_function="gelu_new", vocab_size=len(vocab), n_positions=32, n_ctx=32,
    n_embd=32, n_layer=2, n_head=4, layer_norm_epsilon=1e-5, resid_pdrop=0.1, attn_pdrop=0.1, embd_pdrop=0.1, initializer_range=0.02,
    bos_token_id=vocab["<|endoftext|>"], eos_token_id=vocab["<|endoftext|>"],
)
V, C, L, H, T = (config[k] for k in ("vocab_size", "n_embd", "n_layer", "n_head", "n_positions"))
w = {"wte.weight": torch.randn(V, C) * 0.3, "wpe.weight": torch.randn(T, C) * 0.5}
for i in range(L):
    for name, shape in {"attn.c_attn": (C, 3 * C), "attn.c_proj": (C, C), "mlp.c_fc": (C, 4 * C), "mlp.c_proj": (4 * C, C)}.items():
        w[f"h.{i}.{name}.weight"] = torch.randn(*shape) * (4 if "proj" in name else 1) / math.sqrt(shape[0])  # [in, out]
        w[f"h.{i}.{name}.bias"] = torch.randn(shape[1]) * 0.1
    for name in ("ln_1", "ln_2"):
        w[f"h.{i}.{name}.weight"], w[f"h.{i}.{name}.bias"] = 1 + 0.1 * torch.randn(C), 0.1 * torch.randn(C)
w["ln_f.weight"], w["ln_f.bias"] = 1 + 0.1 * torch.randn(C), 0.1 * torch.randn(C)
w = {k: t if "ln_" in k else t.half() for k, t in w.items()}
p = {k: t.float() for k, t in w.items()}


def norm(x, name):
    return F.layer_norm(x, (C,), p[name + ".weight"], p[name + ".bias"], config["layer_norm_epsilon"])


def conv1d(x, name):
    return x @ p[name + ".weight"] + p[name + ".bias"]


def gelu_new(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def forward(ids):
    n = len(ids)
    x = p["wte.weight"][ids] + p["wpe.weight"][:n]
    for i in range(L):
        q, k, v = conv1d(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn").split(C, dim=-1)
        q, k, v = (t.view(n, H, C // H).transpose(0, 1) for t in (q, k, v))
        scores = q @ k.transpose(1, 2) / math.sqrt(C // H)
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
        a = (scores.softmax(-1) @ v).transpose(0, 1).reshape(n, C)
        x = x + conv1d(a, f"h.{i}.attn.c_proj")
        x = x + conv1d(gelu_new(conv1d(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")), f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ p["wte.weight"].T


def write(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, t in tensors.items():
        blob = t.contiguous().numpy().tobytes()
        kind = {torch.float16: "F16", torch.float32: "F32", torch.uint8: "U8"}[t.dtype]
        header[name] = dict(dtype=kind, shape=list(t.shape), data_offsets=[len(data), len(data) + len(blob)])
        data += blob
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


# older checkpoints have the mask among the weights
mask = {f"h.{i}.attn.bias": torch.ones(1, 1, T, T, dtype=torch.uint8).tril() for i in range(L)}
write("tiny/model.safetensors", {**w, **mask})
with open("tiny/config.json", "w") as f:
    json.dump(config, f, indent=2)
for name in ("vocab.json", "merges.txt"):
    shutil.copy(f"{VOCABULARY}/{name}", f"tiny/{name}")

prompt = "The cat sat on the"
ids = next(c["ids"] for c in json.load(open(f"{VOCABULARY}/cases.json")) if c["text"] == prompt)
logits = forward(ids)
went = list(ids)
margins = []
for _ in range(40):
    last = forward(went[-T:])[-1]
    top = last.topk(2).values
    margins.append((top[0] - top[1]).item())
    went.append(int(last.argmax()))
print("the smallest lead of a greedy choice:", min(margins))
with open("tiny.json", "w") as f:
    json.dump(dict(prompt=prompt, ids=ids, logits=[[round(x, 7) for x in row] for row in logits.tolist()], greedy=went[len(ids):]), f)
