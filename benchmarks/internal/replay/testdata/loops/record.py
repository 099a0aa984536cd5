"""Records the programs of this folder: python3 record.py writes NAME.trace.gz for each. It needs a C compiler and PyTorch 1.13."""
import ctypes
import functools
import gzip
import os
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
programs = {}


def program(f):
    programs[f.__name__] = f
    return f


def step(n):
    lib.mark(b"m step %d" % n)


class End:
    """The first variable of a program that goes when it is over."""

    def __del__(self):
        lib.mark(b"m end")


@program
def vgg(end):
    """VGG-11 with batch norm on 32x32, classifier 512-1024-1024-100 with dropout, batch 64, SGD with momentum; gradients are set to zero"""
    layers, channels = [], 3
    for to in [64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0]:
        if to == 0:
            layers.append(nn.MaxPool2d(2, 2))
            continue
        layers += [nn.Conv2d(channels, to, 3, padding=1), nn.BatchNorm2d(to), nn.ReLU(inplace=True)]
        channels = to
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 1024), nn.ReLU(True), nn.Dropout(), nn.Linear(1024, 1024), nn.ReLU(True), nn.Dropout(), nn.Linear(1024, 100))
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)
    right = 0
    for i in range(16):
        step(i)
        x = torch.randn(64, 3, 32, 32)
        y = torch.randint(0, 100, (64,))
        out = net(x)
        loss = F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        right += (out.argmax(1) == y).sum().item()


@program
def vae(end):
    """convolutional variational autoencoder on 64x64, batch 96, Adam; 36 images are drawn every 8 steps"""
    w, z = 32, 128

    def down(a, b):
        return [nn.Conv2d(a, b, 4, 2, 1), nn.ReLU()]

    def up(a, b):
        return [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.ReLU()]

    encoder = nn.Sequential(*down(3, w), *down(w, 2 * w), *down(2 * w, 4 * w), *down(4 * w, 8 * w), nn.Flatten())
    mean, variance, project = nn.Linear(8 * w * 16, z), nn.Linear(8 * w * 16, z), nn.Linear(z, 8 * w * 16)
    decoder = nn.Sequential(*up(8 * w, 4 * w), *up(4 * w, 2 * w), *up(2 * w, w), nn.ConvTranspose2d(w, 3, 4, 2, 1), nn.Sigmoid())
    parts = nn.ModuleList([encoder, mean, variance, project, decoder])
    opt = torch.optim.Adam(parts.parameters(), lr=1e-3)
    for i in range(20):
        step(i)
        x = torch.rand(96, 3, 64, 64)
        opt.zero_grad()
        hidden = encoder(x)
        mu, logvar = mean(hidden), variance(hidden)
        code = mu + torch.randn_like(logvar) * torch.exp(0.5 * logvar)
        again = decoder(project(code).view(-1, 8 * w, 4, 4))
        loss = F.binary_cross_entropy(again, x, reduction="sum") - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        loss.backward()
        opt.step()
        if i % 8 == 7:
            with torch.no_grad():
                images = decoder(project(torch.randn(36, z)).view(-1, 8 * w, 4, 4))
                images = images.view(6, 6, 3, 64, 64).permute(2, 0, 3, 1, 4).reshape(3, 384, 384)
                del images


@program
def autoencoder(end):
    """denoising convolutional autoencoder on 96x96, batch 16, Adam; every 5 steps an evaluation of three batches of 40"""
    w = 32
    encoder, decoder = [], [nn.Conv2d(16, 4 * w, 1), nn.ELU()]
    for a, b in [(3, w), (w, 2 * w), (2 * w, 4 * w)]:
        encoder += [nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.ELU()]
    for a, b in [(4 * w, 2 * w), (2 * w, w), (w, 3)]:
        decoder += [nn.Upsample(scale_factor=2), nn.Conv2d(a, b, 3, 1, 1), nn.ELU() if b > 3 else nn.Sigmoid()]
    net = nn.Sequential(*encoder, nn.Conv2d(4 * w, 16, 1), *decoder)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    losses = []
    for i in range(25):
        step(i)
        net.train()
        x = torch.rand(16, 3, 96, 96)
        noisy = (x + 0.1 * torch.randn_like(x)).clamp(0, 1)
        loss = F.mse_loss(net(noisy), x)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        losses.append(loss.detach())
        if i % 5 == 4:
            net.eval()
            with torch.no_grad():
                outputs = []
                for _ in range(3):
                    x = torch.rand(40, 3, 96, 96)
                    outputs.append(net(x))
                outputs = torch.cat(outputs)
                noise = -10 * torch.log10(((outputs - outputs.mean(0)) ** 2).flatten(1).mean(1))
            losses = [torch.stack(losses).mean()]


def leave_out_counters(optimizer):
    """Storages of less than 16 bytes within step, such as counters, stay on the processor where the tensors are on a GPU."""
    optimizer([torch.nn.Parameter(torch.zeros(1))], lr=0.1)  # which puts a hook around step
    inner = optimizer.step

    @functools.wraps(inner)
    def outer(self, *args, **kwargs):
        old = lib.leave(16)
        try:
            return inner(self, *args, **kwargs)
        finally:
            lib.leave(old)
    outer.hooked = True
    optimizer.step = outer


def run(name):
    torch.set_num_threads(2)
    torch.manual_seed(1)
    lib.leave.restype, lib.leave.argtypes = ctypes.c_uint64, [ctypes.c_uint64]
    leave_out_counters(torch.optim.SGD)
    leave_out_counters(torch.optim.Adam)
    (torch.randn(4, 4, requires_grad=True) @ torch.randn(4, 4)).sum().backward()  # what is made once
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "trace")
        lib.record(file.encode())
        lib.mark(b"m build")
        programs[name](End())
        lib.finish()
        about = f"# {name}\n# {programs[name].__doc__}\n# recorded from PyTorch {torch.__version__} on the processor\n".encode()
        with open(file, "rb") as text, open(os.path.join(here, name + ".trace.gz"), "wb") as to:
            to.write(gzip.compress(about + text.read(), mtime=0))
    os._exit(0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        import torch
        import torch.nn as nn
        import torch.nn.functional as F
        lib = ctypes.CDLL(None)
        run(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "record.so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, os.path.join(here, "record.c"), "-ldl", "-lpthread"], check=True)
        for name in programs:  # each in a process of its own; memory stays with the process, so that nothing is freed late
            subprocess.run([sys.executable, __file__, name], check=True, env=os.environ | {"LD_PRELOAD": library, "OMP_WAIT_POLICY": "PASSIVE"})
