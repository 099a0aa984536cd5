"""Measures in PyTorch what benchmarks/launch measured: the same operations on tensors of the same shapes. Follows common.py."""
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda:0")
parser.add_argument("--runs", type=int, default=50)
parser.add_argument("--row", type=int, default=200)
parser.add_argument("--seconds", type=float, default=0.02)
parser.add_argument("--stream-runs", type=int, default=5)
o = parser.parse_args()
torch = open_torch(o.device)
wait = waiter(torch, o.device)
x, y, row, w = (torch.ones(*s, device=o.device) for s in ((64, 32), (64, 32), (32,), (32, 64)))
turned = x.t()
operations = {
    "add": lambda: x + y,
    "add row": lambda: x + row,
    "add transposed": lambda: turned + w,
    "mul scalar": lambda: x * 2,
    "relu": lambda: torch.relu(x),
    "softmax": lambda: torch.softmax(x, 1),
    "sum of rows": lambda: x.sum(1),
    "matmul": lambda: x @ w,
    "transposed copy": lambda: turned.contiguous(),
}


def rows(f, n, waits):
    """The seconds of one of n calls in a row, with the wait for the last or without, for each run."""
    seconds = []
    for _ in range(o.runs):
        begin = time.perf_counter()
        for _ in range(n):
            f()
        took = time.perf_counter() - begin
        wait()
        if waits:
            took = time.perf_counter() - begin
        seconds.append(took / n)
    return seconds


emit(version=version(torch, o.device))
with torch.no_grad():
    for name, f in operations.items():
        stream = timed(wait, o.stream_runs, o.seconds, f)
        emit(results=[{"operation": name, "stream": stream, "call": rows(f, o.row, False), "wait": rows(f, 1, True)}])
