"""Programs of ports.py: super resolution, a LLaMA, a diffusion model, a siamese network."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from ports import place, wave


class SuperResolutionNet(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.relu = nn.ReLU()
        self.conv1 = nn.Conv2d(1, 8, (5, 5), (1, 1), (2, 2))
        self.conv2 = nn.Conv2d(8, 8, (3, 3), (1, 1), (1, 1))
        self.conv3 = nn.Conv2d(8, 4, (3, 3), (1, 1), (1, 1))
        self.conv4 = nn.Conv2d(4, factor ** 2, (3, 3), (1, 1), (1, 1))
        self.pixel_shuffle = nn.PixelShuffle(factor)

    def forward(self, x):
        x = self.relu(self.conv1(x))
        x = self.relu(self.conv2(x))
        x = self.relu(self.conv3(x))
        return self.pixel_shuffle(self.conv4(x))


def superresolution():
    factor, batch, size, batches = 2, 2, 6, 2
    model = place(SuperResolutionNet(factor))
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def images(i):
        target = wave(i, 0.5, batch, 1, factor * size, factor * size) + 0.5
        return F.avg_pool2d(target, factor), target

    for epoch in range(3):
        for i in range(batches):
            optimizer.zero_grad()
            input, target = images(batches * epoch + i)
            loss = criterion(model(input), target)
            loss.backward()
            optimizer.step()
            yield loss.item(),
        psnr = 0
        with torch.no_grad():
            for i in range(batches):
                input, target = images(100 + i)
                psnr += 10 * math.log10(1 / criterion(model(input), target).item())
        yield psnr / batches,


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class LlamaAttention(nn.Module):
    def __init__(self, width, heads, kv_heads, head, context):
        super().__init__()
        self.q_proj = nn.Linear(width, heads * head, bias=False)
        self.k_proj = nn.Linear(width, kv_heads * head, bias=False)
        self.v_proj = nn.Linear(width, kv_heads * head, bias=False)
        self.o_proj = nn.Linear(heads * head, width, bias=False)
        self.head, self.groups = head, heads // kv_heads
        inv_freq = 1 / (10000 ** (torch.arange(0, head, 2, dtype=torch.float64) / head))
        angles = torch.outer(torch.arange(context, dtype=torch.float64), inv_freq)
        angles = torch.cat((angles, angles), dim=-1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def rotate(self, x, positions):
        half = torch.cat((-x[..., self.head // 2:], x[..., :self.head // 2]), dim=-1)
        return x * self.cos[positions] + half * self.sin[positions]

    def forward(self, x, positions, past):
        b, t, _ = x.shape
        q = self.rotate(self.q_proj(x).view(b, t, -1, self.head).transpose(1, 2), positions)
        k = self.rotate(self.k_proj(x).view(b, t, -1, self.head).transpose(1, 2), positions)
        v = self.v_proj(x).view(b, t, -1, self.head).transpose(1, 2)
        if past is not None:
            if past:
                k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
            past[:] = [k, v]
        k, v = k.repeat_interleave(self.groups, 1), v.repeat_interleave(self.groups, 1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head)
        s = k.shape[2]
        scores = scores.masked_fill(torch.ones(t, s, dtype=torch.bool).tril(s - t).logical_not(), -math.inf)
        return self.o_proj((F.softmax(scores, -1) @ v).transpose(1, 2).reshape(b, t, -1))


class LlamaMLP(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    def __init__(self, width, hidden, heads, kv_heads, head, context):
        super().__init__()
        self.input_layernorm = RMSNorm(width, 1e-5)
        self.self_attn = LlamaAttention(width, heads, kv_heads, head, context)
        self.post_attention_layernorm = RMSNorm(width, 1e-5)
        self.mlp = LlamaMLP(width, hidden)

    def forward(self, x, positions, past):
        x = x + self.self_attn(self.input_layernorm(x), positions, past)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(self, vocabulary, blocks, width, *sizes):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(LlamaLayer(width, *sizes) for _ in range(blocks))
        self.norm = RMSNorm(width, 1e-5)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, start=0, past=None):
        positions = torch.arange(start, start + tokens.shape[1])
        x = self.embed_tokens(tokens)
        for i, layer in enumerate(self.layers):
            x = layer(x, positions, None if past is None else past[i])
        return self.lm_head(self.norm(x))


def llama():
    vocabulary, blocks, width, hidden, heads, kv_heads, head, context = 17, 2, 16, 24, 4, 2, 4, 16
    batch, length, prompt, written = 2, 8, 5, 8
    model = place(Llama(vocabulary, blocks, width, hidden, heads, kv_heads, head, context))
    opt = torch.optim.AdamW(model.parameters(), lr=0.01, betas=(0.9, 0.95), weight_decay=0.1)

    def text(phase, length):
        return (torch.arange(batch * length).reshape(batch, length) ** 2 + phase) % vocabulary

    for i in range(3):
        opt.zero_grad()
        tokens = text(i, length + 1)
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, vocabulary), tokens[:, 1:].reshape(-1))
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1)
        opt.step()
        yield loss.item(), norm.item()
    model.eval()
    with torch.no_grad():
        past = [[] for _ in range(blocks)]
        tokens = next = text(3, prompt)
        for _ in range(written):
            logits = model(next, tokens.shape[1] - next.shape[1], past)[:, -1]
            assert torch.allclose(logits, model(tokens)[:, -1], 1e-12, 1e-12)
            next = logits.argmax(-1, keepdim=True)
            tokens = torch.cat((tokens, next), dim=1)
            yield logits.sum().item(), *next.flatten().tolist()


def ddpm_time(t, width):
    half = width // 2
    freqs = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
    angles = t[:, None] * freqs[None, :]
    return torch.cat((angles.sin(), angles.cos()), dim=-1)


class DDPMBlock(nn.Module):
    def __init__(self, into, out, time):
        super().__init__()
        self.norm1 = nn.GroupNorm(2, into)
        self.conv1 = nn.Conv2d(into, out, 3, padding=1)
        self.time_proj = nn.Sequential(nn.SiLU(), nn.Linear(time, out))
        self.norm2 = nn.GroupNorm(2, out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.shortcut = nn.Conv2d(into, out, 1) if into != out else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time_proj(time)[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return h + self.shortcut(x)


class DDPMUNet(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        time = 2 * width
        self.width = width
        self.time_mlp = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.conv_in = nn.Conv2d(channels, width, 3, padding=1)
        self.down = DDPMBlock(width, width, time)
        self.downsample = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.mid = DDPMBlock(2 * width, 2 * width, time)
        self.upsample = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(2 * width, width, 3, padding=1))
        self.up = DDPMBlock(2 * width, width, time)
        self.out = nn.Sequential(nn.GroupNorm(2, width), nn.SiLU(), nn.Conv2d(width, channels, 3, padding=1))

    def forward(self, x, t):
        time = self.time_mlp(ddpm_time(t, self.width))
        skip = self.down(self.conv_in(x), time)
        h = self.mid(self.downsample(skip), time)
        h = self.up(torch.cat((self.upsample(h), skip), dim=1), time)
        return self.out(h)


class DDPMSchedule(nn.Module):
    def __init__(self, timesteps):
        super().__init__()
        self.register_buffer("betas", torch.linspace(1e-3, 0.3, timesteps))
        self.register_buffer("alphas_cumprod", (1 - self.betas).cumprod(0))

    def at(self, values, t):
        return values.gather(0, t).reshape(-1, 1, 1, 1)

    def noised(self, x, t, noise):
        a = self.at(self.alphas_cumprod, t)
        return a.sqrt() * x + (1 - a).sqrt() * noise

    def denoised(self, model, x, t, noise):
        beta, a = self.at(self.betas, t), self.at(self.alphas_cumprod, t)
        mean = (x - beta * model(x, t) / (1 - a).sqrt()) / (1 - beta).sqrt()
        before = a / (1 - beta)
        return mean + (beta * (1 - before) / (1 - a)).sqrt() * noise


def ddpm():
    timesteps, batch, channels, width, size = 10, 3, 2, 4, 6
    model, schedule = place(DDPMUNet(channels, width)), place(DDPMSchedule(timesteps))
    ema = torch.optim.swa_utils.AveragedModel(model, avg_fn=lambda average, p, n: 0.9 * average + 0.1 * p)
    opt = torch.optim.AdamW(model.parameters(), lr=0.01)
    for i in range(4):
        images, noise = wave(i, 1, batch, channels, size, size), wave(100 + 1.3 * i, 1.4, batch, channels, size, size)
        t = torch.tensor([i, 2 * i + 1, 9 - i])
        opt.zero_grad()
        loss = F.mse_loss(model(schedule.noised(images, t, noise), t), noise)
        loss.backward()
        opt.step()
        ema.update_parameters(model)
        yield loss.item(),
    ema.eval()
    x = wave(50, 1.4, batch, channels, size, size)
    with torch.no_grad():
        for t in range(timesteps - 1, timesteps - 4, -1):
            noise = wave(200 + t, 1.4, batch, channels, size, size)
            x = schedule.denoised(ema.module, x, torch.full((batch,), t), noise)
            yield x.mean().item(), x.std().item()


class SiameseNet(nn.Module):
    def __init__(self, width, embedding):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
        self.fc = nn.Sequential(
            nn.Flatten(), nn.Linear(8 * width, 2 * embedding), nn.BatchNorm1d(2 * embedding), nn.ReLU(), nn.Linear(2 * embedding, embedding))

    def forward_once(self, x):
        return self.fc(self.cnn(x))

    def forward(self, anchor, positive, negative):
        return self.forward_once(anchor), self.forward_once(positive), self.forward_once(negative)


def siamese():
    batch, steps = 5, 6
    model = place(SiameseNet(3, 4))
    criterion = nn.TripletMarginLoss(margin=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)

    def images(i):
        anchor = wave(i, 1, batch, 1, 8, 8)
        return anchor, anchor + wave(10 + i, 0.2, batch, 1, 8, 8), anchor ** 2 - wave(20 + i, 0.5, batch, 1, 8, 8)

    for i in range(steps):
        optimizer.zero_grad()
        loss = criterion(*model(*images(i)))
        loss.backward()
        optimizer.step()
        yield loss.item(),
        yield scheduler.get_last_lr()[0], optimizer.param_groups[0]["momentum"]
        scheduler.step()
    model.eval()
    with torch.no_grad():
        anchor, positive, negative = model(*images(30))
        near, far = F.pairwise_distance(anchor, positive), F.pairwise_distance(anchor, negative)
        yield near.mean().item(), far.mean().item(), (near < far).sum().item()


programs = [superresolution, llama, ddpm, siamese]
