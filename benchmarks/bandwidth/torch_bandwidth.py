"""Measures in PyTorch what benchmarks/bandwidth measured: the same operations, sizes and types. Follows common.py."""
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda:0")
parser.add_argument("--runs", type=int, default=5)
parser.add_argument("--seconds", type=float, default=0.02)
parser.add_argument("--cells", required=True)
parser.add_argument("--width", type=int, default=1024)
parser.add_argument("--vocabulary", type=int, default=32768)
o = parser.parse_args()
torch = open_torch(o.device)
F = torch.nn.functional
wait = waiter(torch, o.device)


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
        x = s.matrix()
        return lambda: f(x)

    operations[name] = start


def binary(name, f):
    def start(s):
        x, y = s.matrix(), s.matrix()
        return lambda: f(x, y)

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
    x, row = s.matrix(), s.randn(o.width)
    return lambda: x + row


@operation("layer norm")
def _(s):
    x, w, b = s.matrix(), s.randn(o.width), s.randn(o.width)
    return lambda: F.layer_norm(x, (o.width,), w, b)


@operation("rms norm")
def _(s):
    x, w = s.matrix(), s.randn(o.width)
    return lambda: F.rms_norm(x, (o.width,), w, 1e-5)


def pictures(s):
    return s.matrix().view(-1, 16, o.width), s.randn(16), s.randn(16)


@operation("group norm")
def _(s):
    x, w, b = pictures(s)
    return lambda: F.group_norm(x, 4, w, b)


@operation("batch norm")
def _(s):
    x, w, b = pictures(s)
    return lambda: F.batch_norm(x, None, None, w, b, training=True)


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
    x, classes = s.logits()
    return lambda: F.cross_entropy(x, classes, reduction="none")


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


results, errors = [], []
for cell in json.loads(o.cells):
    name = cell["operation"]
    if name not in operations:
        errors.append(name)
        continue
    try:
        call = operations[name](Scene(getattr(torch, cell["type"]), cell["size"]))
        seconds = timed(wait, o.runs, o.seconds, call)
    except (RuntimeError, AttributeError, TypeError) as e:
        errors.append("%s of %s (%s)" % (name, cell["type"], str(e).split("\n")[0]))
        continue
    results.append({"operation": name, "type": cell["type"], "size": cell["size"], "seconds": seconds})
json.dump({"version": version(torch, o.device), "results": results, "errors": errors}, sys.stdout)
