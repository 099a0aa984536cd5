"""Replays recorded programs on PyTorch's CUDA allocator. Follows common.py.

    --runs 5 --pairs 20000 --device cuda:0 FILE...

The time is that of an allocation and its free once the allocator is warm, with the loop in it; that loop with functions that do nothing
is timed too ("overhead_ns"). The loop is C++ that calls PyTorch's allocator directly, if it can be compiled, else Python. Uses on
other streams are left out: PyTorch has no such call for memory without a tensor.
"""
import ctypes
import gzip
import os
import shutil
import subprocess
import tempfile

EMPTY, FREE = -2, -1  # instead of bytes

LOOP = r"""
#include <c10/cuda/CUDACachingAllocator.h>
#include <chrono>
#include <exception>
namespace pool = c10::cuda::CUDACachingAllocator;
using Clock = std::chrono::steady_clock;
// n operations of three numbers: bytes or what else to do, slot, stream. Returns the nanoseconds; idle calls nothing.
extern "C" long long replay(const long long* ops, long long n, void** held, void** streams, int idle, long long* ooms) {
  const auto begin = Clock::now();
  for (long long i = 0; i < n; i++) {
    const long long bytes = ops[3 * i], slot = ops[3 * i + 1];
    if (bytes >= 0) {
      try {
        held[slot] = idle ? &held[slot] : pool::raw_alloc_with_stream(bytes, (cudaStream_t)streams[ops[3 * i + 2]]);
      } catch (const std::exception&) {
        held[slot] = nullptr;
        ++*ooms;
      }
    } else if (bytes == -1) {
      if (held[slot] && !idle) pool::raw_delete(held[slot]);
    } else if (!idle) {
      pool::emptyCache();
    }
  }
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
}
"""


def read(name, pairs):
    """The operations of a program: (bytes, slot, stream), or FREE or EMPTY instead of the bytes."""
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
                ops.append((FREE, slot, 0))
            elif w[0] == "s":
                records += 1
            elif w[0] == "e":
                ops.append((EMPTY, 0, 0))
    ops.extend((FREE, slot, 0) for slot in live.values())
    return ops, slots, count, records


class Python:
    """The loop in Python, over the functions below torch.cuda.caching_allocator_alloc, which would add a context manager."""

    name = "Python"

    def __init__(self, torch):
        self.torch = torch
        self.alloc = getattr(torch._C, "_cuda_cudaCachingAllocator_raw_alloc", None)
        self.free = getattr(torch._C, "_cuda_cudaCachingAllocator_raw_delete", None)
        if self.alloc is None or self.free is None:
            self.alloc = lambda size, stream: torch.cuda.caching_allocator_alloc(size, None, stream)
            self.free = torch.cuda.caching_allocator_delete
        self.oom = getattr(torch.cuda, "OutOfMemoryError", RuntimeError)

    def load(self, ops, slots, streams):
        self.ops, self.slots, self.streams = ops, slots, streams

    def play(self, idle=False):
        """Runs the operations once; returns the nanoseconds and the requests without memory."""
        alloc, free, empty = self.alloc, self.free, self.torch.cuda.empty_cache
        if idle:
            alloc, free, empty = (lambda size, stream: 1), (lambda p: None), (lambda: None)
        held, ooms, streams, oom = [0] * self.slots, 0, self.streams, self.oom
        start = time.perf_counter_ns()
        for size, slot, stream in self.ops:
            if size >= 0:
                try:
                    held[slot] = alloc(size, streams[stream])
                except oom:
                    held[slot] = 0
                    ooms += 1
            elif size == FREE:
                if held[slot]:
                    free(held[slot])
            else:
                empty()
        return time.perf_counter_ns() - start, ooms


class Compiled:
    """The loop in C++."""

    name = "C++"

    def __init__(self, torch):
        self.function = ctypes.CDLL(build(torch)).replay
        self.function.restype = ctypes.c_longlong

    def load(self, ops, slots, streams):
        numbers = sorted(streams)
        place = {n: i for i, n in enumerate(numbers)}
        flat = [x for size, slot, stream in ops for x in (size, slot, place[stream] if size >= 0 else 0)]
        self.ops, self.count = (ctypes.c_longlong * len(flat))(*flat), len(ops)
        self.held = (ctypes.c_void_p * max(slots, 1))()
        self.streams = (ctypes.c_void_p * len(numbers))(*[streams[n] for n in numbers])

    def play(self, idle=False):
        ooms = ctypes.c_longlong(0)
        took = self.function(self.ops, ctypes.c_longlong(self.count), self.held, self.streams, int(idle), ctypes.byref(ooms))
        return took, ooms.value


def build(torch):
    """Compiles LOOP against PyTorch and returns the library."""
    from torch.utils import cpp_extension

    toolkits = [os.environ.get("CUDA_HOME"), cpp_extension.CUDA_HOME, "/usr/local/cuda"]
    compiler = shutil.which("nvcc")
    if compiler:
        toolkits.append(os.path.dirname(os.path.dirname(os.path.realpath(compiler))))
    headers = [os.path.join(t, d) for t in toolkits if t for d in ("include", "targets/x86_64-linux/include", "targets/sbsa-linux/include")]
    site = os.path.dirname(os.path.dirname(torch.__file__))
    headers += [os.path.join(site, "nvidia", d, "include") for d in ("cu13", "cuda_runtime", "cu12")]
    headers = [h for h in headers if os.path.isfile(os.path.join(h, "cuda_runtime_api.h"))]
    if not headers:
        raise RuntimeError("no cuda_runtime_api.h")
    folder = tempfile.mkdtemp()
    source, library = os.path.join(folder, "loop.cpp"), os.path.join(folder, "loop.so")
    with open(source, "w") as f:
        f.write(LOOP)
    paths = cpp_extension.include_paths() + headers[:1]
    last = None
    for standard in ("c++20", "c++17"):
        command = ["g++", "-O2", "-shared", "-fPIC", "-std=" + standard, source, "-o", library]
        command += ["-D_GLIBCXX_USE_CXX11_ABI=%d" % getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True)]
        command += ["-I" + p for p in paths] + ["-L" + p for p in cpp_extension.library_paths()] + ["-lc10", "-lc10_cuda"]
        last = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=30)
        if last.returncode == 0:
            return library
    errors = [l for l in last.stderr.decode(errors="replace").splitlines() if "error" in l] or ["?"]
    raise RuntimeError("g++: " + errors[0])


def measure(torch, loop, name, o):
    ops, slots, count, records = read(name, o.pairs)
    made = {n: torch.cuda.Stream() for n in {op[2] for op in ops} if n}
    streams = {n: s.cuda_stream for n, s in made.items()}
    streams[0] = torch.cuda.default_stream().cuda_stream
    loop.load(ops, slots, streams)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    _, ooms = loop.play()
    times, idle = [], []
    for _ in range(o.runs):
        torch.cuda.synchronize()
        took = passes = 0
        while passes == 0 or took < o.seconds * 1e9:
            t, failed = loop.play()
            took, ooms, passes = took + t, ooms + failed, passes + 1
        times.append(took / count / passes)
        idle.append(loop.play(idle=True)[0] / count)
    peak = torch.cuda.max_memory_reserved()
    torch.cuda.empty_cache()
    return {"file": name, "pairs": count, "runs": times, "loop": loop.name, "overhead_ns": sorted(idle)[len(idle) // 2],
            "peak_reserved_bytes": peak, "ooms": ooms, "records_left_out": records}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--pairs", type=int, default=20000)
    p.add_argument("--seconds", type=float, default=0.02)
    p.add_argument("--device", default="cuda:0")
    p.add_argument("files", nargs="*")
    o = p.parse_args()
    torch = open_torch(o.device)
    note = ""
    try:
        loop = Compiled(torch)
    except Exception as e:  # whatever is missing, Python will do
        loop, note = Python(torch), "no loop in C++: %s" % str(e).split("\n")[0]
    emit(version=version(torch, o.device), note=note)
    for f in o.files:
        emit(results=[measure(torch, loop, f, o)])


if __name__ == "__main__":
    main()
