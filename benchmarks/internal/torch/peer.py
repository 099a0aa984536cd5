def issued(wait, n, f):
    """The seconds that the host takes for a call of f, of n in a row that nothing waits for."""
    wait()
    begin = time.perf_counter()
    for _ in range(n):
        f()
    took = time.perf_counter() - begin
    wait()
    return took / n


def warm(torch, device, wait, duration):
    """Keeps the device busy for some durations, as Warm of benchmarks/internal/peer does."""
    x = torch.ones(1 << 16, device=device)
    timed(wait, 0, 10 * duration, lambda: x * 2)


def measured(torch, device, wait, runs, duration, f):
    """What benchmarks/internal/peer measures of a call: the seconds of each run, those of the host, and the bytes allocated at the
    peak above what was there before."""
    line = {"seconds": timed(wait, runs, duration, f)}
    if device.startswith("cuda"):
        line["issued"] = issued(wait, max(2, min(50, int(duration / line["seconds"][0]))), f)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        f()
        wait()
        line["peak"] = torch.cuda.max_memory_allocated() - before
    return line


PERIOD = 1048573
SAMPLES = 512
PRIME = 2654435761


def filled(torch, device, kind, seed, *shape):
    """A tensor whose elements are a formula of their places: the one of benchmarks/internal/peer/formula.go."""
    low = 0xFFFFFFFF
    h = ((torch.arange(PERIOD, dtype=torch.int64) + seed * PERIOD) * PRIME) & low
    h = h ^ (h >> 15)
    h = (h * 2246822519) & low
    h = h ^ (h >> 13)
    block = (((h & 0xFFFFF) - 0x80000).to(torch.float32) / 0x80000).to(kind).to(device)
    n = math.prod(shape)
    return block.repeat(-(-n // PERIOD))[:n].view(*shape)


def sample(torch, t):
    """Elements of a tensor at places that are the same for both sides. What is not finite is None."""
    flat = t.detach().reshape(-1)
    places = torch.tensor([i * PRIME % flat.numel() for i in range(min(SAMPLES, flat.numel()))], device=t.device)
    return [x if math.isfinite(x) else None for x in flat[places].float().tolist()]


