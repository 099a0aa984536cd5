"""Measures in PyTorch what benchmarks/attention measured, with each backend of scaled_dot_product_attention. Follows common.py, peer.py."""
import contextlib

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda:0")
parser.add_argument("--runs", type=int, default=3)
parser.add_argument("--seconds", type=float, default=0.02)
parser.add_argument("--problems", required=True)
o = parser.parse_args()
torch = open_torch(o.device)
F = torch.nn.functional
wait = waiter(torch, o.device)
torch.set_float32_matmul_precision("highest")
emit(version=version(torch, o.device))
errors = set()


def refuse(text):
    if text not in errors:
        errors.add(text)
        emit(errors=[text])


def written(q, k, v, causal):
    if k.shape[1] != q.shape[1]:
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return torch.softmax(scores, -1) @ v


def fused(q, k, v, causal):
    grouped = {} if k.shape[1] == q.shape[1] else {"enable_gqa": True}  # older ones do not have it
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, **grouped)


def ways():
    """Names of ways, with what must be open while they compute, and their functions."""
    if not hasattr(F, "scaled_dot_product_attention"):
        return [("written", contextlib.nullcontext, written)]
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError as e:
        refuse("forced backends (%s)" % first_line(e))
        return [("default", contextlib.nullcontext, fused)]
    list = []
    for name in ("flash", "cudnn", "efficient", "math"):
        backend = getattr(SDPBackend, name.upper() + ("" if name == "math" else "_ATTENTION"), None)
        if backend is None or not o.device.startswith("cuda") and name in ("cudnn", "efficient"):
            continue
        list.append((name, lambda backend=backend: sdpa_kernel(backend), fused))
    return list + [("default", contextlib.nullcontext, fused)]


class Operands:
    def __init__(self, p):
        kind = getattr(torch, p["type"])
        b, h, t, s, d, g = (p[n] for n in ("batch", "heads", "queries", "keys", "width", "groups"))
        self.q, self.k, self.v = (
            filled(torch, o.device, kind, i, b, heads, n, d).requires_grad_() for i, (heads, n) in enumerate(((h, t), (g, s), (g, s))))
        self.grad = filled(torch, o.device, kind, 3, b, t, h, d).transpose(1, 2)

    def call(self, p, attend):
        leaves = self.q, self.k, self.v
        if p["pass"] == "forward":
            def forward():
                with torch.no_grad():
                    return attend(*leaves, p["causal"])
            return forward
        out = attend(*leaves, p["causal"])
        grad = torch.empty_like(out).copy_(self.grad)  # some backends copy gradients that lie in another order than results
        if p["pass"] == "backward":
            return lambda: torch.autograd.grad(out, leaves, grad, retain_graph=True)
        if p["pass"] == "both":
            del out
            return lambda: torch.autograd.grad(attend(*leaves, p["causal"]), leaves, grad)
        raise ValueError("no such pass")


def measure(p, operands, way, attend):
    call = operands.call(p, attend)
    results = call()
    named = {"result": results} if p["pass"] == "forward" else dict(zip(("q", "k", "v"), results))
    samples = {name: sample(torch, t) for name, t in named.items()}
    del results, named
    return dict(p, by=way, samples=samples, **measured(torch, o.device, wait, o.runs, o.seconds, call))


last, operands, refused = None, None, set()
available = ways()
warm(torch, o.device, wait, o.seconds)
for p in json.loads(o.problems):
    shape = [p[n] for n in ("batch", "heads", "queries", "keys", "width", "groups", "type")]
    if shape != last:
        operands = None  # gives its memory back before others take theirs
        last, refused = shape, set()
        try:
            operands = Operands(p)
        except Exception as e:
            refuse("operands of %s (%s)" % (p["type"], first_line(e)))
    if operands is None:
        continue
    for way, opened, attend in available:
        if (way, p["causal"]) in refused:
            continue
        try:
            with opened():
                emit(results=[measure(p, operands, way, attend)])
        except Exception as e:  # whatever a backend does not take, or this PyTorch does not have
            refused.add((way, p["causal"]))
            refuse("%s of %s %s (%s)" % (way, p["type"], p["pass"], first_line(e)))
