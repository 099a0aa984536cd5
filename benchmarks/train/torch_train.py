"""Trains in PyTorch what benchmarks/train trained: the same model from the same weights, the same batch, the same steps.

    python3 torch_train.py TASK

TASK is JSON, as the program writes it. Each figure is a line of JSON of its own as soon as it is known, so that what was measured
before an error or a time limit counts.
"""
import contextlib, json, math, struct, sys, time, traceback


def say(**line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def give_up(why, none=False):
    """Ends the script. none says that another Python may do better."""
    say(error=why, none=none)
    sys.exit(0)


task = json.loads(sys.argv[1])
try:
    import torch
except ImportError as e:
    give_up("no PyTorch: %s" % e, none=True)
from torch import nn

F = torch.nn.functional
device, mode, amp = task["device"], task["mode"], task["amp"]
cuda = device.startswith("cuda")
kind = {"off": None, "fp16": torch.float16, "bf16": torch.bfloat16}[amp]


FUSED = hasattr(F, "scaled_dot_product_attention")  # since PyTorch 2.0


class Block(nn.Module):
    """One layer of a GPT."""

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
            later = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
            y = (q @ k.transpose(2, 3) / math.sqrt(c // self.heads)).masked_fill(later, -math.inf).softmax(3) @ v
        return self.out(y.transpose(1, 2).reshape(n, t, c))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class GPT(nn.Module):
    """Its output matrix is the embedding."""

    def __init__(self):
        super().__init__()
        width = task["width"]
        self.tokens = nn.Embedding(task["vocab"], width)
        self.positions = nn.Parameter(torch.empty(task["seq"], width))
        self.layers = nn.ModuleList([Block(width, task["heads"]) for _ in range(task["layers"])])
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        h = self.tokens(x) + self.positions[: x.shape[1]]
        for layer in self.layers:
            h = layer(h)
        return F.linear(self.norm(h), self.tokens.weight)


def conv(i, o, size, stride=1):
    return nn.Conv2d(i, o, size, stride, size // 2, bias=False)


class Bottleneck(nn.Module):
    def __init__(self, i, width, stride):
        super().__init__()
        o = 4 * width
        self.branch = nn.Sequential(
            conv(i, width, 1), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            conv(width, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            conv(width, o, 1), nn.BatchNorm2d(o),
        )
        self.shortcut = nn.Sequential(conv(i, o, 1, stride), nn.BatchNorm2d(o)) if i != o or stride != 1 else None

    def forward(self, x):
        past = x if self.shortcut is None else self.shortcut(x)
        y = self.branch(x)
        y += past
        return F.relu(y, inplace=True)


class ResNet(nn.Module):
    """Of bottlenecks, as torchvision's."""

    def __init__(self):
        super().__init__()
        widths, body = task["widths"], []
        i = widths[0]
        self.stem = nn.Sequential(conv(3, i, 7, 2), nn.BatchNorm2d(i), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        for stage, (width, blocks) in enumerate(zip(widths, task["stages"])):
            for block in range(blocks):
                body.append(Bottleneck(i, width, 2 if stage > 0 and block == 0 else 1))
                i = 4 * width
        self.body = nn.Sequential(*body)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(i, task["classes"]))

    def forward(self, x):
        return self.head(self.body(self.stem(x)))


def mlp():
    sizes, layers = task["widths"], []
    for i, o in zip(sizes, sizes[1:]):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


models = {"gpt": GPT, "resnet": ResNet, "mlp": mlp}


def load(file):
    """Reads a safetensors file."""
    with open(file, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
        data = bytearray(f.read())
    types = {"F32": torch.float32, "I64": torch.int64}
    tensors = {}
    for name, e in header.items():
        if name == "__metadata__":  # texts, such as a checksum
            continue
        lo, hi = e["data_offsets"]
        t = types[e["dtype"]]
        count = (hi - lo) // torch.empty(0, dtype=t).element_size()
        tensors[name] = torch.frombuffer(data, dtype=t, offset=lo, count=count).reshape(e["shape"])
    return tensors


def optimizer(params, fused):
    """Fused where PyTorch has that for the device, as Cistern's are."""
    if task["kind"] == "resnet":
        make, args = torch.optim.SGD, dict(lr=task["lr"], momentum=0.9)
    else:
        make, args = torch.optim.AdamW, dict(lr=task["lr"], betas=(0.9, 0.95), weight_decay=0.1)
        if mode == "graph":
            args["capturable"] = True
    if fused:
        args["fused"] = True
    return make(params, **args)


class WithLoss(nn.Module):
    """What is compiled."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, y):
        logits = self.model(x)
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y)


class Training:
    stepped = False  # as soon as a first step has come to its end

    def __init__(self, fused):
        start = load(task["start"])
        self.x, self.y = start["x"].to(device), start["y"].to(device)
        model = models[task["kind"]]()
        model.load_state_dict({n[len("model.") :]: t for n, t in start.items() if n.startswith("model.")})
        model.to(device)
        if task["kind"] == "resnet" and mode != "contiguous":
            model.to(memory_format=torch.channels_last)
            self.x = self.x.contiguous(memory_format=torch.channels_last)
        say(parameters=sum(p.numel() for p in model.parameters()))
        self.opt = optimizer(list(model.parameters()), fused)
        if hasattr(torch.amp, "GradScaler"):
            self.scaler = torch.amp.GradScaler("cuda", enabled=amp == "fp16")
        else:
            self.scaler = torch.cuda.amp.GradScaler(enabled=amp == "fp16")
        self.loss_of = WithLoss(model)
        if mode == "compile":
            self.loss_of = torch.compile(self.loss_of)

    def autocast(self):
        if kind is None:
            return contextlib.nullcontext()
        return torch.autocast("cuda" if cuda else "cpu", dtype=kind)

    def step(self):
        with self.autocast():
            loss = self.loss_of(self.x, self.y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.opt.zero_grad(set_to_none=True)
        return loss.detach()


def wait():
    if cuda:
        torch.cuda.synchronize()


def timed(step, n):
    """The seconds of n steps and of the wait for the last one's loss, and that loss."""
    begin = time.perf_counter()
    for _ in range(n):
        loss = step()
    value = loss.item()
    wait()
    return time.perf_counter() - begin, value


def loss_line(value):
    return {"loss": value} if math.isfinite(value) else {"note": "the loss is %s" % value}


def warm(step, n):
    """Takes n steps that do not count."""
    seconds, value = timed(step, 1)
    Training.stepped = True
    say(first_step_s=seconds, **loss_line(value))
    if n > 1:
        timed(step, n - 1)
    if cuda:
        torch.cuda.reset_peak_memory_stats()


def captured(training):
    """A step that replays what a whole step of the training did, with the batch that it copies to where the graph reads it. The last
    step that does not count is the first replay, as it is Cistern's."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        warm(training.step, task["warm"] - 1)
    torch.cuda.current_stream().wait_stream(side)
    x, y = training.x.clone(), training.y.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = training.step()

    def replay():
        training.x.copy_(x)
        training.y.copy_(y)
        graph.replay()
        return loss

    timed(replay, 1)
    return replay


def measure(fused):
    training = Training(fused)
    if mode == "graph":
        step = captured(training)
    else:
        step = training.step
        warm(step, task["warm"])
    for _ in range(task["runs"]):
        seconds, value = timed(step, task["steps"])
        peaks = {}
        if cuda:
            peaks = dict(peak_allocated_bytes=torch.cuda.max_memory_allocated(), peak_reserved_bytes=torch.cuda.max_memory_reserved())
        say(seconds=seconds, **peaks, **loss_line(value))


def measure_somehow():
    """Does without a fused optimizer if PyTorch has none for these tensors."""
    try:
        return measure(fused=cuda)
    except (RuntimeError, TypeError) as e:
        if not cuda or Training.stepped or mode == "compile":
            raise
        why = first_lines(e)
    say(note="without a fused optimizer, because with it: " + why)
    measure(fused=False)


def first_lines(e):
    lines = [line.strip() for line in str(e).split("\n") if line.strip()]
    return ("%s: %s" % (type(e).__name__, " ".join(lines[:2])))[:300]


def main():
    if cuda and not torch.cuda.is_available():
        give_up("PyTorch %s has no CUDA here" % torch.__version__, none=True)
    if cuda:
        torch.cuda.set_device(device)
        torch.backends.cudnn.benchmark = True
        if kind is None:
            torch.backends.cudnn.allow_tf32 = False  # products of matrices do not round unless they are asked to
        name = "PyTorch %s, CUDA %s, %s" % (torch.__version__, torch.version.cuda, torch.cuda.get_device_name(device))
    else:
        name = "PyTorch %s, %d threads" % (torch.__version__, torch.get_num_threads())
    say(version=name)
    if not cuda and amp == "fp16":
        give_up("PyTorch's GradScaler wants a GPU")
    if mode == "compile" and not hasattr(torch, "compile"):
        give_up("PyTorch %s has no torch.compile" % torch.__version__)
    measure_somehow()


if __name__ == "__main__":
    try:
        main()
    except Exception as e:
        traceback.print_exc()
        say(error=first_lines(e))
