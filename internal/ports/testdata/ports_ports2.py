"""Programs of ports.py: actor and critic, a penalty on gradients, meta-learning, attention on a graph."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

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


programs = [actorcritic]
