"""Writes steps.json: parameters after each of six steps or twenty of PyTorch's optimizers, for gradients that follow a fixed formula.
Run: python3 steps.py"""

import json

import torch

cases = []


def gradient(step, i, n, dtype):
    """The gradient of parameter i at a step: numbers of either sign and different sizes. steps_test.go has the same."""
    k = torch.arange(n, dtype=torch.float64)
    return (torch.remainder(k * 7 + step * 5 + i * 3, 11) / 4 - 1.25).to(dtype)


def case(name, make, skip=(), lrs=None, steps=6):
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        sizes = (3, 5)
        params = [(torch.arange(n, dtype=torch.float64) / 2 - 0.75 + i).to(dtype).requires_grad_() for i, n in enumerate(sizes)]
        opt = make(params)
        after = []
        for step in range(1, steps + 1):
            if lrs and step in lrs:
                for g in opt.param_groups:
                    g["lr"] = lrs[step]
            for i, p in enumerate(params):
                p.grad = None if (step, i) in skip else gradient(step, i, sizes[i], dtype)
            opt.step()
            after.append([p.detach().double().tolist() for p in params])
        torch.set_default_dtype(torch.float32)
        cases.append(dict(name=name, dtype=str(dtype).split(".")[1], after=after))


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023. PyTorch has none."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for theta in group["params"]:
                if theta.grad is None:
                    continue
                g = -theta.grad if group["maximize"] else theta.grad
                m = self.state[theta].setdefault("exp_avg", torch.zeros_like(theta))
                c = beta1 * m + (1 - beta1) * g
                theta -= group["lr"] * (torch.sign(c) + group["weight_decay"] * theta)
                self.state[theta]["exp_avg"] = beta2 * m + (1 - beta2) * g


class Turned(torch.optim.Optimizer):
    """An optimizer that goes up the gradient, where PyTorch 1.13's has no maximize, and whose weight decay acts on the parameters, where it has
    no decoupled_weight_decay."""

    def __init__(self, opt, up=True, decay=0.0):
        self.opt, self.up, self.decay, self.param_groups = opt, up, decay, opt.param_groups

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if self.up:
                    p.grad = -p.grad
                p.mul_(1 - group["lr"] * self.decay)
        self.opt.step()


def NAdam(params, **settings):
    """The form of many tensors: that of one has another bias correction, a mistake that later versions have not. Its products of momenta
    are float32, unless that is not the default type."""
    params = list(params)
    first = params[0]["params"][0] if isinstance(params[0], dict) else params[0]
    if first.dtype == torch.float64:
        torch.set_default_dtype(torch.float64)
    return torch.optim.NAdam(params, foreach=True, **settings)


def ASGD(params, **settings):
    """Its rates are of the default type."""
    params = list(params)
    if params[0].dtype == torch.float64:
        torch.set_default_dtype(torch.float64)
    return torch.optim.ASGD(params, **settings)


class Pair(torch.optim.Optimizer):
    """Two optimizers, one for each group."""

    def __init__(self, *opts):
        self.opts, self.param_groups = opts, [g for o in opts for g in o.param_groups]

    def step(self):
        for o in self.opts:
            o.step()


SGD, Adam, AdamW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
RMSprop, Adagrad = torch.optim.RMSprop, torch.optim.Adagrad
case("sgd", lambda p: SGD(p, lr=0.1))
case("sgd decay", lambda p: SGD(p, lr=0.1, weight_decay=0.2))
case("sgd momentum", lambda p: SGD(p, lr=0.1, momentum=0.9))
case("sgd momentum dampening decay", lambda p: SGD(p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.2))
case("sgd nesterov", lambda p: SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01))
case("sgd maximize", lambda p: SGD(p, lr=0.1, momentum=0.5, maximize=True, weight_decay=0.1))
case("sgd skipped", lambda p: SGD(p, lr=0.1, momentum=0.9, dampening=0.5), skip={(1, 1), (2, 1), (4, 0)})
case("adam", lambda p: Adam(p))
case("adam settings", lambda p: Adam(p, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1))
case("adam maximize", lambda p: Adam(p, lr=0.05, maximize=True))
case("adam skipped", lambda p: Adam(p, lr=0.05), skip={(1, 1), (2, 1), (4, 0)})
case("adam lr changed", lambda p: Adam(p, lr=0.05), lrs={3: 0.01, 5: 0.2})
case("adamw", lambda p: AdamW(p))
case("adamw settings", lambda p: AdamW(p, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.3))
case("adamw maximize", lambda p: AdamW(p, lr=0.05, maximize=True))
case("adamw groups", lambda p: AdamW([dict(params=p[:1]), dict(params=p[1:], lr=0.2, weight_decay=0.0)], lr=0.05))
case("adam amsgrad", lambda p: Adam(p, lr=0.05, betas=(0.5, 0.6), amsgrad=True))
case("adamw amsgrad", lambda p: AdamW(p, lr=0.05, betas=(0.5, 0.6), amsgrad=True, maximize=True), skip={(1, 1), (2, 1), (4, 0)})
case("rmsprop", lambda p: RMSprop(p))
case("rmsprop settings", lambda p: RMSprop(p, lr=0.05, alpha=0.8, eps=1e-3, weight_decay=0.1))
case("rmsprop momentum", lambda p: RMSprop(p, lr=0.05, alpha=0.9, momentum=0.7))
case("rmsprop centered", lambda p: RMSprop(p, lr=0.05, alpha=0.9, eps=1e-2, centered=True, maximize=True))
case("rmsprop all", lambda p: RMSprop(p, lr=0.05, alpha=0.9, eps=1e-2, centered=True, momentum=0.5, weight_decay=0.2),
     skip={(1, 1), (2, 1), (4, 0)})
case("adagrad", lambda p: Adagrad(p))
case("adagrad settings", lambda p: Adagrad(p, lr=0.1, lr_decay=0.3, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-3))
case("adagrad maximize", lambda p: Adagrad(p, lr=0.1, lr_decay=0.3, maximize=True), skip={(1, 1), (2, 1), (4, 0)})
case("lion", lambda p: Lion(p))
case("lion settings", lambda p: Lion(p, lr=0.05, betas=(0.8, 0.95), weight_decay=0.1))
case("lion maximize", lambda p: Lion(p, lr=0.05, maximize=True), skip={(1, 1), (2, 1), (4, 0)})
case("adadelta", lambda p: torch.optim.Adadelta(p), steps=20)
case("adadelta settings", lambda p: torch.optim.Adadelta(p, lr=0.5, rho=0.8, eps=1e-3, weight_decay=0.1, maximize=True),
     skip={(1, 1), (2, 1), (4, 0)})
case("adamax", lambda p: torch.optim.Adamax(p), steps=20)
case("adamax settings", lambda p: torch.optim.Adamax(p, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1, maximize=True),
     skip={(1, 1), (2, 1), (4, 0)})
case("nadam", lambda p: NAdam(p), steps=20)
case("nadam settings", lambda p: NAdam(p, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1, momentum_decay=0.1),
     skip={(1, 1), (2, 1), (4, 0)}, lrs={3: 0.01})
case("nadam groups", lambda p: Pair(Turned(NAdam(p[:1], lr=0.05)), Turned(NAdam(p[1:], lr=0.2, momentum_decay=0.02))))
case("nadam decoupled", lambda p: Turned(NAdam(p, lr=0.05), up=False, decay=0.3))
case("radam", lambda p: torch.optim.RAdam(p), steps=20)
case("radam settings", lambda p: torch.optim.RAdam(p, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1), skip={(1, 1), (2, 1), (4, 0)})
case("radam maximize", lambda p: Turned(torch.optim.RAdam(p, lr=0.05)))
case("radam decoupled", lambda p: Turned(torch.optim.RAdam(p, lr=0.05), up=False, decay=0.3))
case("asgd", lambda p: ASGD(p), steps=20)
case("asgd settings", lambda p: ASGD(p, lr=0.05, lambd=0.1, alpha=0.6, t0=2, weight_decay=0.1, maximize=True), skip={(1, 1), (2, 1), (4, 0)})
case("rprop", lambda p: torch.optim.Rprop(p), steps=20)
case("rprop settings", lambda p: torch.optim.Rprop(p, lr=0.05, etas=(0.4, 1.5), step_sizes=(0.02, 0.1), maximize=True),
     skip={(1, 1), (2, 1), (4, 0)})

if __name__ == "__main__":
    with open("steps.json", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
