"""Measures in PyTorch what benchmarks/gemm measured. Follows common.py.

Both problems with an activation are the same here: PyTorch computes the product with its bias in one pass, GELU in another.
"""
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda:0")
parser.add_argument("--runs", type=int, default=5)
parser.add_argument("--seconds", type=float, default=0.1)
parser.add_argument("--tasks", required=True)
o = parser.parse_args()
torch = open_torch(o.device)
F = torch.nn.functional
wait = waiter(torch, o.device)


def measure(task, tf32):
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    kind = getattr(torch, task["type"])
    a, b, bias = (torch.randn(*s, device=o.device).to(kind) for s in ((task["m"], task["k"]), (task["n"], task["k"]), (task["n"],)))
    call = lambda: F.linear(a, b)
    if "GELU" in task["problem"]:
        call = lambda: F.gelu(F.linear(a, b, bias), approximate="tanh")
    try:
        seconds = timed(wait, o.runs, o.seconds, call)
    except RuntimeError:  # a processor without products of this type
        seconds = []
    return dict(task, tf32=tf32, seconds=seconds)


emit(version=version(torch, o.device))
with torch.no_grad():
    for task in json.loads(o.tasks):
        rounded = task["type"] == "float32" and o.device.startswith("cuda")
        for tf32 in (False, True) if rounded else (False,):
            emit(results=[measure(task, tf32)])
