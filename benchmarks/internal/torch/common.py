import argparse
import json
import math
import sys
import time


def emit(**fields):
    """Writes a line of output. Fields of several lines that are lists are put together, so what came before the script was stopped
    counts."""
    json.dump(fields, sys.stdout)
    sys.stdout.write("\n")
    sys.stdout.flush()


def skip(why, none=False):
    """Ends the script without figures. none says that another Python may do better."""
    emit(skipped=why, none=none)
    sys.exit(0)


def open_torch(device):
    """PyTorch, on a device that works."""
    try:
        import torch
    except ImportError as e:
        skip(str(e), none=True)
    if device.startswith("cuda"):
        if not torch.cuda.is_available():
            skip("PyTorch %s has no CUDA here" % torch.__version__)
        torch.cuda.set_device(device)
    torch.zeros(1, device=device)
    return torch


def version(torch, device):
    if device.startswith("cuda"):
        return "PyTorch %s, CUDA %s, %s" % (torch.__version__, torch.version.cuda, torch.cuda.get_device_name(device))
    return "PyTorch %s, %d threads" % (torch.__version__, torch.get_num_threads())


def waiter(torch, device):
    """A function that waits for the device."""
    return torch.cuda.synchronize if device.startswith("cuda") else (lambda: None)


def timed(wait, runs, duration, f):
    """The seconds of one call of f, for each run; a run makes calls for about duration and waits for the last one. One more run
    comes first: devices that had nothing to do are slow at first."""

    def many(n):
        begin = time.perf_counter()
        for _ in range(n):
            f()
        wait()
        return time.perf_counter() - begin

    many(1)
    one = many(1)
    n = max(1, min(10000, int(duration / max(one, 1e-9))))
    return [many(n) / n for _ in range(runs + 1)][1:]


def first_line(error):
    """What an error says, as short as a remark should be."""
    return (str(error).strip() or type(error).__name__).split("\n")[0][:160]


