"""PyTorch's examples vae, word_language_model (LSTM, Transformer) and time_sequence_prediction; see ports.py."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from ports import place, wave


class VAE(nn.Module):
    def __init__(self, pixels, hidden, latent):
        super().__init__()
        self.fc1 = nn.Linear(pixels, hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, pixels)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar, eps):
        std = torch.exp(0.5 * logvar)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x, eps):
        mu, logvar = self.encode(x.view(x.size(0), -1))
        return self.decode(self.reparameterize(mu, logvar, eps)), mu, logvar


def vae_loss(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x.view(x.size(0), -1), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce, kld


def vae():
    batch, side, hidden, latent = 5, 4, 12, 3
    model = place(VAE(side * side, hidden, latent))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def images(i):
        return wave(i, 0.5, batch, 1, side, side) + 0.5

    model.train()
    for i in range(5):
        x = images(i)
        optimizer.zero_grad()
        recon, mu, logvar = model(x, wave(20 + i, 1, batch, latent))
        bce, kld = vae_loss(recon, x, mu, logvar)
        loss = bce + kld
        loss.backward()
        optimizer.step()
        yield loss.item(), bce.item(), kld.item()

    model.eval()
    with torch.no_grad():
        x = images(9)
        recon, mu, logvar = model(x, wave(30, 1, batch, latent))
        bce, kld = vae_loss(recon, x, mu, logvar)
        sample = model.decode(wave(40, 1, 8, latent)).view(8, 1, side, side)
        yield (bce + kld).item(), recon[0, 0].item(), sample.std().item(), sample.mean().item()


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid, nlayers, dropout):
        super().__init__()
        self.ntoken, self.nhid, self.nlayers = ntoken, nhid, nlayers
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        self.decoder.weight = self.encoder.weight

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.ntoken)
        return decoded, hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return weight.new_zeros(self.nlayers, bsz, self.nhid), weight.new_zeros(self.nlayers, bsz, self.nhid)


def repackage_hidden(h):
    return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage_hidden(v) for v in h)


def corpus(n, tokens, bsz):
    data = torch.tensor([(i * i + 3 * i) % tokens for i in range(n)])
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous()


def get_batch(source, i, bptt):
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i:i + seq_len], source[i + 1:i + 1 + seq_len].view(-1)


def wordlstm():
    words, tokens, width, layers, batch, bptt, clip, lr = 65, 11, 6, 2, 3, 4, 0.25, 5.0
    model = place(RNNModel(tokens, width, width, layers, 0.0))
    criterion = nn.CrossEntropyLoss()
    data_source = corpus(words, tokens, batch)

    model.train()
    hidden = model.init_hidden(batch)
    for i in range(0, data_source.size(0) - 1, bptt):
        data, targets = get_batch(data_source, i, bptt)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        yield loss.item(), norm.item()

    model.eval()
    total_loss = 0.0
    with torch.no_grad():
        for i in range(0, data_source.size(0) - 1, bptt):
            data, targets = get_batch(data_source, i, bptt)
            output, hidden = model(data, hidden)
            hidden = repackage_hidden(hidden)
            total_loss += len(data) * criterion(output, targets).item()
    val_loss = total_loss / (len(data_source) - 1)
    yield val_loss, math.exp(val_loss)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout, max_len):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len, dtype=torch.float64).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2).double() * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0).transpose(0, 1))

    def forward(self, x):
        return self.dropout(x + self.pe[:x.size(0), :])


class TransformerModel(nn.Module):
    def __init__(self, ntoken, ninp, nhead, nhid, nlayers, dropout):
        super().__init__()
        self.ninp = ninp
        self.pos_encoder = PositionalEncoding(ninp, dropout, 50)
        encoder_layers = nn.TransformerEncoderLayer(ninp, nhead, nhid, dropout)
        self.transformer_encoder = nn.TransformerEncoder(encoder_layers, nlayers)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.decoder = nn.Linear(ninp, ntoken)

    def _generate_square_subsequent_mask(self, sz):
        return torch.log(torch.tril(torch.ones(sz, sz)))

    def forward(self, src, has_mask=True):
        mask = self._generate_square_subsequent_mask(len(src)) if has_mask else None
        src = self.encoder(src) * math.sqrt(self.ninp)
        src = self.pos_encoder(src)
        output = self.transformer_encoder(src, mask)
        output = self.decoder(output)
        return F.log_softmax(output, dim=-1)


def wordtransformer():
    words, tokens, width, heads, hidden, layers, batch, bptt = 62, 9, 8, 2, 12, 2, 3, 5
    model = place(TransformerModel(tokens, width, heads, hidden, layers, 0.0))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    criterion = nn.NLLLoss()
    data_source = corpus(words, tokens, batch)

    model.train()
    for i in range(0, data_source.size(0) - 1, bptt):
        data, targets = get_batch(data_source, i, bptt)
        optimizer.zero_grad()
        output = model(data).view(-1, tokens)
        loss = criterion(output, targets)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        yield loss.item(), norm.item()

    model.eval()
    with torch.no_grad():
        input = torch.tensor([[4]])
        for _ in range(6):
            output = model(input, False)
            word = output[-1].argmax(-1, keepdim=True)
            input = torch.cat([input, word], 0)
        likelihood = model(input, False)
    yield [float(w) for w in input.flatten()] + [likelihood.mean().item(), likelihood.max().item()]


class Sequence(nn.Module):
    def __init__(self, units):
        super().__init__()
        self.units = units
        self.lstm1 = nn.LSTMCell(1, units)
        self.lstm2 = nn.LSTMCell(units, units)
        self.linear = nn.Linear(units, 1)

    def forward(self, input, future=0):
        outputs = []
        h_t = torch.zeros(input.size(0), self.units, dtype=torch.double)
        c_t = torch.zeros(input.size(0), self.units, dtype=torch.double)
        h_t2 = torch.zeros(input.size(0), self.units, dtype=torch.double)
        c_t2 = torch.zeros(input.size(0), self.units, dtype=torch.double)

        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        for i in range(future):
            h_t, c_t = self.lstm1(output, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        outputs = torch.cat(outputs, dim=1)
        return outputs


def timesequence():
    n, length, units, future = 7, 16, 6, 8
    data = torch.tensor([[math.sin((j + 5 * i) / 3) for j in range(length)] for i in range(n)])
    input, target = data[3:, :-1], data[3:, 1:]
    test_input, test_target = data[:3, :-1], data[:3, 1:]
    seq = place(Sequence(units))
    criterion = nn.MSELoss()
    optimizer = torch.optim.LBFGS(seq.parameters(), lr=0.8, max_iter=5)
    for _ in range(4):
        log = []

        def closure():
            optimizer.zero_grad()
            out = seq(input)
            loss = criterion(out, target)
            loss.backward()
            log.append(loss.item())
            return loss

        optimizer.step(closure)
        with torch.no_grad():
            pred = seq(test_input, future=future)
            loss = criterion(pred[:, :-future], test_target)
            yield log + [y.item() for y in pred[:, -1]] + [loss.item()]


programs = [vae, wordlstm, wordtransformer, timesequence]
