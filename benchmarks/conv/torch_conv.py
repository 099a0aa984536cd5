"""Measures in PyTorch what benchmarks/conv measured, by cuDNN on a GPU, in both orders of memory. Follows common.py, peer.py."""
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda:0")
parser.add_argument("--runs", type=int, default=3)
parser.add_argument("--seconds", type=float, default=0.02)
parser.add_argument("--problems", required=True)
o = parser.parse_args()
torch = open_torch(o.device)
F = torch.nn.functional
wait = waiter(torch, o.device)
cuda = o.device.startswith("cuda")
torch.backends.cudnn.benchmark = True
text = version(torch, o.device)
if cuda:
    text += ", cuDNN %s" % torch.backends.cudnn.version()
emit(version=text)
errors = set()


def refuse(text):
    if text not in errors:
        errors.add(text)
        emit(errors=[text])


def round_products(on):
    """Lets cuDNN round products of float32, or not."""
    try:
        torch.backends.cudnn.allow_tf32 = on
    except Exception:  # a PyTorch that has only the newer setting
        torch.backends.cudnn.conv.fp32_precision = "tf32" if on else "ieee"


class Operands:
    def __init__(self, p, order):
        kind = getattr(torch, p["type"])
        stride, padding = p["stride"], p["padding"]
        h, w = ((p[n] + 2 * padding - p["k" + n]) // stride + 1 for n in ("h", "w"))
        shapes = (p["n"], p["c"], p["h"], p["w"]), (p["o"], p["c"] // p["groups"], p["kh"], p["kw"]), (p["n"], p["o"], h, w)
        self.x, self.w, self.grad = (
            filled(torch, o.device, kind, i, *s).contiguous(memory_format=order) for i, s in enumerate(shapes))

    def call(self, p):
        x, w, grad, s, d, groups = self.x, self.w, self.grad, [p["stride"]] * 2, [p["padding"]] * 2, p["groups"]
        if p["pass"] == "forward":
            return lambda: F.conv2d(x, w, None, s, d, 1, groups)
        place = ("input", "weight").index(p["pass"])  # in what the operation returns
        mask = [place == i for i in range(3)]
        back = torch.ops.aten.convolution_backward
        return lambda: back(grad, x, w, None, s, d, [1, 1], False, [0, 0], groups, mask)[place]


def measure_all(problems, ending):
    last, operands = None, {}
    for p in problems:
        shape = {n: v for n, v in p.items() if n != "pass"}
        for way, order in (("nchw", torch.contiguous_format), ("channels last", torch.channels_last)):
            try:
                if shape != last:
                    operands = {}  # gives memory back before others take theirs
                    last = shape
                if way not in operands:
                    operands[way] = Operands(p, order)
                call = operands[way].call(p)
                samples = {"result": sample(torch, call())}
                line = measured(torch, o.device, wait, o.runs, o.seconds, call)
                emit(results=[dict(p, by=way + ending, samples=samples, **line)])
            except Exception as e:  # a type that this device or this PyTorch does not take
                refuse("%s of %s %s (%s)" % (way + ending, p["type"], p["pass"], first_line(e)))


everything = json.loads(o.problems)
warm(torch, o.device, wait, o.seconds)
with torch.no_grad():
    round_products(False)
    measure_all(everything, "")
    if cuda:
        round_products(True)
        measure_all([p for p in everything if p["type"] == "float32"], " tf32")
