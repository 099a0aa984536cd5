"""One rank of a GPT in PyTorch's DistributedDataParallel over gloo: what examples/parallel trains.

    python3 torch_ddp.py RANK TASK

TASK is JSON. It writes a line of JSON with the seconds of a step and the losses.
"""
import json, math, os, sys, time

rank, task = int(sys.argv[1]), json.loads(sys.argv[2])
import torch
from torch import nn
import torch.distributed as dist

F = torch.nn.functional
torch.set_num_threads(1)
FUSED = hasattr(F, "scaled_dot_product_attention")  # since PyTorch 2.0


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm2, self.fc1, self.fc2 = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        n, t, c = x.shape
        q, k, v = (p.view(n, t, self.heads, c // self.heads).transpose(1, 2) for p in self.qkv(x).split(c, 2))
        if FUSED:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            later = torch.ones(t, t, dtype=torch.bool).triu(1)
            y = (q @ k.transpose(2, 3) / math.sqrt(c // self.heads)).masked_fill(later, -math.inf).softmax(3) @ v
        return self.out(y.transpose(1, 2).reshape(n, t, c))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        width = task["width"]
        self.tokens, self.positions = nn.Embedding(task["vocab"], width), nn.Parameter(torch.zeros(task["seq"], width))
        self.layers = nn.ModuleList([Block(width, task["heads"]) for _ in range(task["layers"])])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, task["vocab"], bias=False)

    def forward(self, x):
        h = self.tokens(x) + self.positions
        for layer in self.layers:
            h = layer(h)
        return self.head(self.norm(h))


dist.init_process_group("gloo", init_method="file://" + task["file"], rank=rank, world_size=task["ranks"])
torch.manual_seed(1)
model = nn.parallel.DistributedDataParallel(GPT())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
rows, losses = task["batch"] // task["ranks"], []
torch.manual_seed(2 + rank)
dist.barrier()
begin = time.perf_counter()
for _ in range(task["steps"]):
    x = torch.randint(task["vocab"], (rows, task["seq"]))
    loss = F.cross_entropy(model(x).reshape(-1, task["vocab"]), x.reshape(-1))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    losses.append(loss.item())
seconds = (time.perf_counter() - begin) / task["steps"]
print(json.dumps({"seconds": seconds, "losses": losses, "version": torch.__version__}), flush=True)
