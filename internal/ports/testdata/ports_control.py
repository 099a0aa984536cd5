"""Programs of ports.py: actor and critic, a penalty on gradients, meta-learning, attention on a graph."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical
from torch.nn.utils.stateless import functional_call

from ports import place, wave


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 16)
        self.action_head = nn.Linear(16, 2)
        self.value_head = nn.Linear(16, 1)

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


def actorcritic():
    gamma, eps, steps = 0.99, 1e-8, 6
    model = place(Policy())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    for episode in range(5):
        state = [0.1 * (episode + 1), -0.2, 0.3, 0.05]
        saved, entropies, rewards = [], [], []
        for t in range(steps):
            probs, value = model(torch.tensor(state))
            m = Categorical(probs)
            action = torch.tensor((t * t + episode) % 3 % 2)
            saved.append((m.log_prob(action), value))
            entropies.append(m.entropy())
            push = 2.0 * action.item() - 1
            state = [0.9 * s + 0.1 * push * math.cos(i + s) for i, s in enumerate(state)]
            rewards.append(1 - abs(state[0]))
        R, returns = 0, []
        for r in rewards[::-1]:
            R = r + gamma * R
            returns.insert(0, R)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + eps)
        policy_losses, value_losses = [], []
        for (log_prob, value), R in zip(saved, returns):
            advantage = R - value.item()
            policy_losses.append(-log_prob * advantage)
            value_losses.append(F.smooth_l1_loss(value, torch.tensor([R])))
        optimizer.zero_grad()
        entropy = torch.stack(entropies).mean()
        loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum() - 0.01 * entropy
        loss.backward()
        optimizer.step()
        yield loss.item(), entropy.item(), saved[-1][1].item()


def wgangp():
    batch, latent, features, LAMBDA = 3, 5, 4, 10
    netG = place(nn.Sequential(
        nn.Linear(latent, 2 * features * 2 * 2), nn.ReLU(), nn.Unflatten(1, (2 * features, 2, 2)),
        nn.ConvTranspose2d(2 * features, features, 4, 2, 1), nn.BatchNorm2d(features), nn.ReLU(),
        nn.ConvTranspose2d(features, 2, 4, 2, 1), nn.Tanh()))
    netD = place(nn.Sequential(
        nn.Conv2d(2, features, 4, 2, 1), nn.LeakyReLU(0.2),
        nn.Conv2d(features, 2 * features, 4, 2, 1), nn.InstanceNorm2d(2 * features, affine=True), nn.LeakyReLU(0.2),
        nn.Flatten(), nn.Linear(2 * features * 2 * 2, 1)))
    optimizerD = torch.optim.Adam(netD.parameters(), lr=1e-3, betas=(0, 0.9))
    optimizerG = torch.optim.Adam(netG.parameters(), lr=1e-3, betas=(0, 0.9))
    one = torch.tensor(1.0)
    mone = -one

    def gradient_penalty(real, fake, alpha):
        interpolates = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
        disc = netD(interpolates)
        gradients = torch.autograd.grad(outputs=disc, inputs=interpolates, grad_outputs=torch.ones(disc.size()), create_graph=True)[0]
        gradients = gradients.view(gradients.size(0), -1)
        return ((gradients.norm(2, dim=1) - 1) ** 2).mean() * LAMBDA

    for iteration in range(3):
        for p in netD.parameters():
            p.requires_grad = True
        for i in range(2):
            phase = 2 * iteration + i
            netD.zero_grad()
            real = wave(phase, 1, batch, 2, 8, 8)
            D_real = netD(real).mean()
            D_real.backward(mone)
            with torch.no_grad():
                fake = netG(wave(20 + phase, 1, batch, latent))
            D_fake = netD(fake).mean()
            D_fake.backward(one)
            penalty = gradient_penalty(real, fake, wave(40 + phase, 0.5, batch, 1, 1, 1) + 0.5)
            penalty.backward()
            D_cost = D_fake - D_real + penalty
            optimizerD.step()
            yield D_cost.item(), (D_real - D_fake).item(), penalty.item()
        for p in netD.parameters():
            p.requires_grad = False
        netG.zero_grad()
        G = netD(netG(wave(60 + iteration, 1, batch, latent))).mean()
        G.backward(mone)
        optimizerG.step()
        yield (-G.item(),)


def maml():
    shots, tasks, inner_lr, inner_steps = 5, 2, 0.05, 2
    model = place(nn.Sequential(nn.Linear(1, 12), nn.ReLU(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 1)))
    outer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for i in range(5):
        outer.zero_grad()
        losses = []
        for task in range(tasks):
            amplitude, phase = 0.5 + 0.7 * ((i + task) % 3), 0.4 * i + 1.1 * task
            x, x_query = wave(i + 3 * task, 2, shots, 1), wave(50 + i + 3 * task, 2, shots, 1)
            y, y_query = amplitude * torch.sin(x + phase), amplitude * torch.sin(x_query + phase)
            params = dict(model.named_parameters())
            for _ in range(inner_steps):
                loss = F.mse_loss(functional_call(model, params, (x,)), y)
                grads = torch.autograd.grad(loss, params.values(), create_graph=True)
                params = {name: w - inner_lr * g for (name, w), g in zip(params.items(), grads)}
            losses.append(F.mse_loss(functional_call(model, params, (x_query,)), y_query))
        meta = torch.stack(losses).mean()
        meta.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.7)
        outer.step()
        yield meta.item(), loss.item(), norm.item()


class GATConv(nn.Module):
    def __init__(self, inputs, outputs, heads):
        super().__init__()
        self.heads, self.outputs = heads, outputs
        self.lin = nn.Linear(inputs, heads * outputs, bias=False)
        self.att_src = nn.Parameter(torch.empty(1, heads, outputs))
        self.att_dst = nn.Parameter(torch.empty(1, heads, outputs))
        self.bias = nn.Parameter(torch.empty(heads * outputs))

    def forward(self, x, edge_index):
        src, dst = edge_index
        h = self.lin(x).view(-1, self.heads, self.outputs)
        e = F.leaky_relu((h * self.att_src).sum(-1)[src] + (h * self.att_dst).sum(-1)[dst], 0.2)
        zeros = torch.zeros(len(x), self.heads)
        e_max = zeros.scatter_reduce(0, dst.unsqueeze(-1).expand_as(e), e, "amax", include_self=False)
        ex = (e - e_max[dst]).exp()
        alpha = ex / zeros.index_add(0, dst, ex)[dst]
        out = torch.zeros(len(x), self.heads, self.outputs).index_add(0, dst, alpha.unsqueeze(-1) * h[src])
        return out.reshape(len(x), -1) + self.bias


class GAT(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = GATConv(5, 4, 2), GATConv(8, 3, 1)

    def forward(self, x, edge_index):
        return self.conv2(F.elu(self.conv1(x, edge_index)), edge_index)


def gat():
    edge_index = torch.tensor([[0, 0, 1, 2, 2, 3, 4, 5, 5, 6, 1, 2, 3, 4, 7, 5, 6, 7, 7, 0, 0, 1, 2, 3, 4, 5, 6, 7],
                               [1, 2, 3, 4, 7, 5, 6, 7, 0, 0, 0, 0, 1, 2, 2, 3, 4, 5, 6, 6, 0, 1, 2, 3, 4, 5, 6, 7]])
    y = torch.tensor([0, 0, 1, 1, 2, 1, 2, 0])
    train_mask = torch.tensor([True, True, True, False, True, True, False, False])
    model = place(GAT())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
    for epoch in range(8):
        x = wave(0.3, 1, 8, 5)
        optimizer.zero_grad()
        out = model(x, edge_index)
        loss = F.cross_entropy(out[train_mask], y[train_mask])
        loss.backward()
        optimizer.step()
        yield loss.item(), F.cross_entropy(out[~train_mask], y[~train_mask]).item(), (out.argmax(1) == y).double().mean().item()


def gatscatter():
    yield from gat()  # gat has scatter operations here; module/gatscatter.go is gat.go with them


programs = [actorcritic, wgangp, maml, gat, gatscatter]
