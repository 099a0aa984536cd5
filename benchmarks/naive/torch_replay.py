"""Replays recorded programs on PyTorch's CUDA allocator and writes one JSON object.

    torch_replay.py --runs 5 --pairs 20000 FILE...

The time is that of an allocation and its free in the second pass over a program, with Python's own loop in it; that loop
with functions that do nothing is timed too ("overhead_ns"). Uses on other streams are left out: PyTorch has no such call for
memory without a tensor. Without PyTorch, or PyTorch without CUDA, the object says why nothing was measured.
"""
import argparse
import gzip
import json
import sys
import time


def read(name, pairs):
    """The operations of a program: (bytes, slot, stream) allocates, (-1, slot, 0) frees, (-2, 0, 0) empties the cache."""
    ops, live, spare, slots, count, records = [], {}, [], 0, 0, 0
    with (gzip.open if name.endswith(".gz") else open)(name, "rt") as f:
        for line in f:
            w = line.split()
            if not w or w[0] in "#mc":
                continue
            if w[0] == "a":
                if pairs and count == pairs:
                    break
                count += 1
                if spare:
                    slot = spare.pop()
                else:
                    slot, slots = slots, slots + 1
                live[w[1]] = slot
                ops.append((int(w[2]), slot, int(w[3])))
            elif w[0] == "f":
                slot = live.pop(w[1])
                spare.append(slot)
                ops.append((-1, slot, 0))
            elif w[0] == "s":
                records += 1
            elif w[0] == "e":
                ops.append((-2, 0, 0))
    ops.extend((-1, slot, 0) for slot in live.values())
    return ops, slots, count, records


def play(ops, slots, streams, alloc, free, empty, oom):
    """Runs the operations once; returns the nanoseconds and the requests without memory."""
    held, ooms = [0] * slots, 0
    start = time.perf_counter_ns()
    for size, slot, stream in ops:
        if size >= 0:
            try:
                held[slot] = alloc(size, streams[stream])
            except oom:
                held[slot] = 0
                ooms += 1
        elif size == -1:
            if held[slot]:
                free(held[slot])
        else:
            empty()
    return time.perf_counter_ns() - start, ooms


def measure(torch, name, pairs, runs):
    ops, slots, count, records = read(name, pairs)
    current = torch.cuda.default_stream()
    made = {n: torch.cuda.Stream() for n in {op[2] for op in ops} if n}
    streams = {n: s.cuda_stream for n, s in made.items()}
    streams[0] = current.cuda_stream
    # The functions below torch.cuda.caching_allocator_alloc and _delete, which would add a Python context manager to each call.
    alloc = getattr(torch._C, "_cuda_cudaCachingAllocator_raw_alloc", None)
    free = getattr(torch._C, "_cuda_cudaCachingAllocator_raw_delete", None)
    if alloc is None or free is None:
        alloc = lambda size, stream: torch.cuda.caching_allocator_alloc(size, None, stream)
        free = torch.cuda.caching_allocator_delete
    oom = getattr(torch.cuda, "OutOfMemoryError", RuntimeError)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    _, ooms = play(ops, slots, streams, alloc, free, torch.cuda.empty_cache, oom)
    times, idle = [], []
    for _ in range(runs):
        torch.cuda.synchronize()
        took, failed = play(ops, slots, streams, alloc, free, torch.cuda.empty_cache, oom)
        ooms += failed
        times.append(took / count)
        took, _ = play(ops, slots, streams, lambda size, stream: 1, lambda p: None, lambda: None, oom)
        idle.append(took / count)
    peak = torch.cuda.max_memory_reserved()
    torch.cuda.empty_cache()
    return {"file": name, "pairs": count, "runs": times, "overhead_ns": sorted(idle)[len(idle) // 2],
            "peak_reserved_bytes": peak, "ooms": ooms, "records_left_out": records}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--pairs", type=int, default=20000)
    p.add_argument("--device", type=int, default=0)
    p.add_argument("files", nargs="*")
    o = p.parse_args()
    try:
        import torch
    except ImportError as e:
        return {"skipped": "no PyTorch: %s" % e}
    if not torch.cuda.is_available():
        return {"skipped": "PyTorch %s has no CUDA here" % torch.__version__, "version": torch.__version__}
    torch.cuda.set_device(o.device)
    torch.zeros(1, device="cuda")
    return {"version": torch.__version__, "results": [measure(torch, f, o.pairs, o.runs) for f in o.files]}


if __name__ == "__main__":
    json.dump(main(), sys.stdout)
