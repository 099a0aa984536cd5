"""Measures in PyTorch what benchmarks/bandwidth measured: the same operations, sizes and types. Follows common.py.

With --compile those that torch.compile may make faster are measured compiled as well, after all others.
"""
import os
import signal

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no processes that would outlive a limit
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda:0")
parser.add_argument("--runs", type=int, default=5)
parser.add_argument("--seconds", type=float, default=0.02)
parser.add_argument("--cells", required=True)
parser.add_argument("--width", type=int, default=1024)
parser.add_argument("--vocabulary", type=int, default=32768)
parser.add_argument("--compile", type=float, default=0, help="seconds for all that is compiled; 0 compiles nothing")
parser.add_argument("--compile-each", type=float, default=20, help="seconds for each operation")
o = parser.parse_args()
torch = open_torch(o.device)
F = torch.nn.functional
wait = waiter(torch, o.device)
emit(version=version(torch, o.device))


def compiled(f):
    """f compiled as a whole: what cannot be is an error, and never runs as it is."""
    return torch.compile(f, fullgraph=True, dynamic=False)


class Bound:
    """A function of tensors, which may be compiled, with its arguments."""

    def __init__(self, f, *args):
        self.f, self.args = f, args

    def __call__(self):
        return self.f(*self.args)

    def compiled(self):
        f, copy = self.f, self.__class__.__new__(self.__class__)
        copy.__dict__ = dict(self.__dict__, f=compiled(lambda *args: f(*args)))
        return copy


class Trained(Bound):
    """A function forward and backward: the gradients of the tensors that want some."""

    def __init__(self, f, *args, grad=None):
        super().__init__(f, *args)
        self.leaves = [a.requires_grad_() for a in args if torch.is_tensor(a) and a.is_floating_point()]
        self.grad = grad

    def __call__(self):
        return torch.autograd.grad(self.f(*self.args), self.leaves, self.grad)


class Scene:
    """What an operation works on."""

    def __init__(self, dtype, size):
        self.dtype, self.size = dtype, size

    def rows(self, width):
        return self.size // torch.empty(0, dtype=self.dtype).element_size() // width

    def randn(self, *shape):
        return torch.randn(*shape, dtype=torch.float32, device=o.device).to(self.dtype)

    def matrix(self, width=o.width):
        return self.randn(self.rows(width), width)

    def bytes(self):
        return torch.empty(self.size, dtype=torch.uint8, device=o.device)

    def logits(self):
        classes = torch.arange(self.rows(o.vocabulary), device=o.device) * 7919 % o.vocabulary
        return self.matrix(o.vocabulary), classes


operations = {}


def operation(name):
    def add(f):
        operations[name] = f
        return f

    return add


def unary(name, f):
    def start(s):
        return Bound(f, s.matrix())

    operations[name] = start


def binary(name, f):
    def start(s):
        return Bound(f, s.matrix(), s.matrix())

    operations[name] = start


unary("mul scalar", lambda x: x * 0.5)
unary("relu", torch.relu)
unary("gelu", F.gelu)
unary("gelu tanh", lambda x: F.gelu(x, approximate="tanh"))
unary("exp", torch.exp)
unary("dropout", lambda x: F.dropout(x, 0.1))
unary("sum of all", torch.sum)
unary("sum of rows", lambda x: x.sum(1))
unary("sum of columns", lambda x: x.sum(0))
unary("largest of rows", lambda x: x.amax(1))
unary("softmax", lambda x: torch.softmax(x, 1))
unary("log softmax", lambda x: torch.log_softmax(x, 1))
unary("to bfloat16", lambda x: x.to(torch.bfloat16))
unary("to float32", lambda x: x.to(torch.float32))
unary("gradient norm", lambda x: torch.linalg.vector_norm(x))
unary("random normal", lambda x: torch.randn_like(x))
binary("add", torch.add)
binary("mul", torch.mul)
binary("add in place", lambda x, y: x.add_(y, alpha=1e-6))
binary("gelu tanh gradient", lambda x, y: torch.ops.aten.gelu_backward(x, y, approximate="tanh"))
binary("softmax gradient", lambda x, y: torch.ops.aten._softmax_backward_data(x, y, 1, x.dtype))


@operation("memcpy")
def _(s):
    x, y = s.bytes(), s.bytes()
    return lambda: y.copy_(x)


@operation("memset")
def _(s):
    x = s.bytes()
    return lambda: x.zero_()


@operation("copy of a narrower matrix")
def _(s):
    x = s.randn(s.rows(o.width), o.width + 16)[:, : o.width]
    return lambda: x.contiguous()


@operation("transposed copy")
def _(s):
    x = s.matrix().t()
    return lambda: x.contiguous()


@operation("add row")
def _(s):
    return Bound(torch.add, s.matrix(), s.randn(o.width))


def layer_norm(x, w, b):
    return F.layer_norm(x, (o.width,), w, b)


@operation("layer norm")
def _(s):
    return Bound(layer_norm, s.matrix(), s.randn(o.width), s.randn(o.width))


@operation("layer norm, forward and backward")
def _(s):
    return Trained(layer_norm, s.matrix(), s.randn(o.width), s.randn(o.width), grad=s.matrix())


@operation("softmax, forward and backward")
def _(s):
    return Trained(lambda x: torch.softmax(x, 1), s.matrix(), grad=s.matrix())


@operation("cross entropy, forward and backward")
def _(s):
    return Trained(F.cross_entropy, *s.logits())


@operation("rms norm")
def _(s):
    return Bound(lambda x, w: F.rms_norm(x, (o.width,), w, 1e-5), s.matrix(), s.randn(o.width))


def pictures(s):
    return s.matrix().view(-1, 16, o.width), s.randn(16), s.randn(16)


@operation("group norm")
def _(s):
    return Bound(lambda x, w, b: F.group_norm(x, 4, w, b), *pictures(s))


@operation("batch norm")
def _(s):
    return Bound(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), *pictures(s))


@operation("unscale")
def _(s):
    x, found, inv = s.matrix(), torch.zeros(1, device=o.device), torch.ones(1, device=o.device)
    return lambda: torch._amp_foreach_non_finite_check_and_unscale_([x], found, inv)


def layer_norm_gradient(s, mask):
    x, g, w, b = s.matrix(), s.matrix(), s.randn(o.width), s.randn(o.width)
    _, mean, rstd = torch.ops.aten.native_layer_norm(x, [o.width], w, b, 1e-5)
    return lambda: torch.ops.aten.native_layer_norm_backward(g, x, [o.width], mean, rstd, w, b, mask)


operations["layer norm gradient"] = lambda s: layer_norm_gradient(s, [True, False, False])
operations["layer norm gradient of weights"] = lambda s: layer_norm_gradient(s, [False, True, True])


@operation("cross entropy")
def _(s):
    return Bound(lambda x, classes: F.cross_entropy(x, classes, reduction="none"), *s.logits())


@operation("cross entropy gradient")
def _(s):
    x, classes = s.logits()
    x.requires_grad_()
    loss = F.cross_entropy(x, classes, reduction="none")
    ones = torch.ones_like(loss)
    return lambda: torch.autograd.grad(loss, x, ones, retain_graph=True)


def stepped(s, make):
    p = torch.nn.Parameter(s.matrix())
    p.grad = s.matrix()
    return make(p).step


@operation("adamw")
def _(s):
    fused = {"fused": True} if o.device.startswith("cuda") else {}
    return stepped(s, lambda p: torch.optim.AdamW([p], lr=1e-4, **fused))


@operation("sgd with momentum")
def _(s):
    fused = {"fused": True} if o.device.startswith("cuda") else {}
    return stepped(s, lambda p: torch.optim.SGD([p], lr=1e-4, momentum=0.9, **fused))


def start(cell):
    return operations[cell["operation"]](Scene(getattr(torch, cell["type"]), cell["size"]))


def refuse(cell, error, how=""):
    emit(errors=["%s%s of %s (%s)" % (how, cell["operation"], cell["type"], first_line(error))])


def measure_all(cells):
    for cell in cells:
        if cell["operation"] not in operations:
            emit(errors=[cell["operation"]])
            continue
        try:
            seconds = timed(wait, o.runs, o.seconds, start(cell))
        except Exception as e:  # a type that this device or this PyTorch does not take
            refuse(cell, e)
            continue
        emit(results=[dict(cell, seconds=seconds)])


class TooLong(BaseException):
    """What ends a compilation; nothing between takes it for an error of its own."""


def stop(*_):
    raise TooLong("took too long")


# What fusing should help most, and is compiled first.
first = ("forward and backward", "norm", "softmax", "cross entropy", "gelu")


def within(limit, f):
    """What f returns, or the error that ended it; that may be the limit, in seconds."""
    try:
        signal.setitimer(signal.ITIMER_REAL, limit)
        result = f()
        signal.setitimer(signal.ITIMER_REAL, 0)
        return result
    except (Exception, TooLong) as e:
        signal.setitimer(signal.ITIMER_REAL, 0)
        return e


def graphs():
    """How many graphs have been compiled, None if this PyTorch does not say."""
    try:
        from torch._dynamo.utils import counters

        return counters["stats"]["unique_graphs"]
    except Exception:
        return None


def compiled_seconds(cell):
    """The seconds of an operation that was compiled, None if that does not apply."""
    call = start(cell)
    if not isinstance(call, Bound):
        return None
    before, fast = graphs(), call.compiled()
    fast()
    if before is not None and graphs() == before:
        raise RuntimeError("it ran as it is")
    return timed(wait, o.runs, o.seconds, fast)


def compile_something():
    """Loads the compiler, which takes longer than to compile."""
    compiled(lambda x: x * 2 + 1)(torch.ones(64, device=o.device))
    wait()


def compile_all(cells):
    """Measures operations of the first size compiled, as far as the time goes. Three errors in a row end it: there is no compiler."""
    signal.signal(signal.SIGALRM, stop)
    cells = [c for c in cells if c["size"] == cells[0]["size"] and c["operation"] in operations]
    cells.sort(key=lambda c: ([w in c["operation"] for w in first] + [True]).index(True))
    end, failures, left_out = time.monotonic() + o.compile, 0, 0
    error = within(o.compile * 0.7, compile_something)
    if error is not None:
        emit(errors=["torch.compile (%s)" % first_line(error)])
        return
    for cell in cells:
        left = end - time.monotonic()
        if left < 1 or failures == 3:
            left_out += 1
            continue
        seconds = within(min(left, o.compile_each), lambda: compiled_seconds(cell))
        torch.compiler.reset()
        if isinstance(seconds, list):
            failures = 0
            emit(results=[dict(cell, seconds=seconds, compiled=True)])
        elif seconds is not None:
            failures += 1
            refuse(cell, seconds, "compiled ")
    if left_out:
        emit(errors=["%d operations that were not compiled (%s)" % (left_out, "three errors" if failures == 3 else "no time left")])


cells = [{n: c[n] for n in ("operation", "type", "size")} for c in json.loads(o.cells)]
measure_all(cells)
if o.compile > 0 and cells:
    if hasattr(torch, "compile"):
        compile_all(cells)
    else:
        emit(errors=["torch.compile, which this PyTorch does not have"])
