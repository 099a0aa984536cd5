"""Trains the model of examples/gpt in PyTorch: same initial weights, same batches, same schedule.

    go run ./examples/gpt -steps 0 -save start.safetensors
    go run ./examples/gpt -json cistern.json
    python3 examples/gpt/testdata/train.py start.safetensors "$(go env GOROOT)/src/testdata/Isaac.Newton-Opticks.txt"

prints the validation loss, the steps per second, and writes both as JSON with --json. Flags are those of the example. On a GPU
(--device cuda:0) it tells PyTorch's peaks of memory too; --sdpa uses PyTorch's fused attention; several precisions, as in
--amp off,fp16,bf16, train one after the other from the same start, and the JSON is a list.
"""
import argparse, json, math, struct, time

import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("start")
parser.add_argument("text")
for name, default in dict(layers=4, width=128, heads=4, seq=128, batch=16, steps=500, seed=1).items():
    parser.add_argument("--" + name, type=int, default=default)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--json")
parser.add_argument("--threads", type=int, default=torch.get_num_threads())
parser.add_argument("--device", default="cpu")
parser.add_argument("--amp", default="off", help="precision of matrix products: off, fp16 or bf16, or a list")
parser.add_argument("--sdpa", action="store_true")
o = parser.parse_args()
torch.set_num_threads(o.threads)
cuda = o.device.startswith("cuda")
precisions = {"off": None, "fp16": torch.float16, "bf16": torch.bfloat16}

text = open(o.text, encoding="utf8", newline="").read()
alphabet = sorted(set(text))
number = {c: i for i, c in enumerate(alphabet)}
ids = torch.tensor([number[c] for c in text])
split = len(ids) - len(ids) // 10
train, val = ids[:split], ids[split:]


def load(file):
    """Reads a safetensors file."""
    raw = open(file, "rb").read()
    (n,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + n])
    tensors = {}
    for name, e in header.items():
        if name == "__metadata__" or e["dtype"] != "F32":
            continue
        lo, hi = e["data_offsets"]
        data = bytearray(raw[8 + n + lo : 8 + n + hi])
        tensors[name] = torch.frombuffer(data, dtype=torch.float32).reshape(e["shape"]) if data else torch.zeros(e["shape"])
    return tensors


start = load(o.start)
prefix = next(name for name in start if name.endswith("head.weight"))[: -len("head.weight")]
P = {}


def restart():
    """Sets the parameters to where training starts."""
    P.update({n[len(prefix) :]: torch.nn.Parameter(t.clone().to(o.device)) for n, t in start.items() if n.startswith(prefix)})


def forward(x):
    B, T = x.shape
    C, H = o.width, o.heads
    h = P["tokens.weight"][x] + P["positions"][:T]
    mask = torch.full((T, T), float("-inf"), device=o.device).triu(1)
    for i in range(o.layers):
        p = lambda name: P[f"layers.{i}.{name}"]
        y = F.layer_norm(h, (C,), p("norm1.weight"), p("norm1.bias"))
        q, k, v = F.linear(y, p("qkv.weight"), p("qkv.bias")).view(B, T, 3, H, C // H).permute(2, 0, 3, 1, 4)
        if o.sdpa:
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            a = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(C // H) + mask, -1) @ v
        h = h + F.linear(a.transpose(1, 2).reshape(B, T, C), p("out.weight"), p("out.bias"))
        y = F.layer_norm(h, (C,), p("norm2.weight"), p("norm2.bias"))
        h = h + F.linear(F.gelu(F.linear(y, p("fc1.weight"), p("fc1.bias"))), p("fc2.weight"), p("fc2.bias"))
    return F.linear(F.layer_norm(h, (C,), P["norm.weight"], P["norm.bias"]), P["head.weight"])


def windows(part, starts):
    x = torch.stack([part[s : s + o.seq] for s in starts])
    y = torch.stack([part[s + 1 : s + o.seq + 1] for s in starts])
    return x.to(o.device), y.to(o.device)


def loss_of(x, y):
    return F.cross_entropy(forward(x).view(y.numel(), -1), y.reshape(-1))


M = (1 << 64) - 1


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & M
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & M
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & M
    return x ^ x >> 31


def rate(step):
    if step < 100:
        return o.lr * (step + 1) / 100
    return o.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - 100) / max(o.steps - 100, 1))))


def wait():
    if cuda:
        torch.cuda.synchronize()


def validate(autocast):
    total, batches = 0.0, 8
    with torch.no_grad(), autocast():
        for b in range(batches):
            n = batches * o.batch
            starts = [(b * o.batch + i) * (len(val) - o.seq - 1) // n for i in range(o.batch)]
            total += loss_of(*windows(val, starts)).item()
    return total / batches


def train_with(amp):
    """Trains in one precision, from the start; returns the figures."""
    restart()
    kind = precisions[amp]
    autocast = lambda: torch.autocast("cuda" if cuda else "cpu", dtype=kind or torch.bfloat16, enabled=kind is not None)
    scaler = (torch.amp if hasattr(torch.amp, "GradScaler") else torch.cuda.amp).GradScaler(enabled=cuda and amp == "fp16")
    opt = torch.optim.AdamW(
        [
            {"params": [p for p in P.values() if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in P.values() if p.dim() <= 1], "weight_decay": 0.0},
        ],
        lr=o.lr,
        betas=(0.9, 0.95),
        **({"fused": True} if cuda else {}),
    )
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    wait()
    began = halfway = time.time()
    for step in range(o.steps):
        if step == o.steps // 2:
            wait()
            halfway = time.time()
        starts = [splitmix64(((o.seed << 40) + (step << 16) + i) & M) % (len(train) - o.seq) for i in range(o.batch)]
        for group in opt.param_groups:
            group["lr"] = rate(step)
        with autocast():
            loss = loss_of(*windows(train, starts))
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(list(P.values()), 1.0)
        scaler.step(opt)
        scaler.update()
        if step % 50 == 0 or step == o.steps - 1:
            print(f"step {step + 1}: loss {loss.item():.4f}", flush=True)
    wait()
    ended = time.time()
    figures = dict(amp=amp, train_loss=loss.item() if o.steps else 0, steps=o.steps, device=o.device, torch=torch.__version__)
    if o.steps:
        figures.update(steps_per_second=o.steps / (ended - began), late_steps_per_second=(o.steps - o.steps // 2) / (ended - halfway))
    if cuda:
        figures.update(peak_allocated_bytes=torch.cuda.max_memory_allocated(), peak_reserved_bytes=torch.cuda.max_memory_reserved())
    figures.update(val_loss=validate(autocast), parameters=sum(p.numel() for p in P.values()))
    print(figures)
    return figures


results, several = [], "," in o.amp
for amp in o.amp.split(","):
    results.append(train_with(amp))
    if o.json:  # what comes later may fail
        json.dump(results if several else results[0], open(o.json, "w"))
