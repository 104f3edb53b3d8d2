"""The two nets: pictures and texts become vectors of one space. main.go writes the same nets as .axmodel files."""

import json
import os
import struct

import torch
import torch.nn as nn
import torch.nn.functional as F

from texts import LENGTH, TOKENS

DIMS = 64
CHANNELS, INNER, SHOWN = (24, 48, 64), 112, 80  # of pictures
STATE, WIDE, HEADS, LAYERS = 48, 96, 4, 2       # of texts
EPS = 1e-5


class Mix(nn.Module):
    """Each place sees those around it."""

    def __init__(self, n):
        super().__init__()
        self.near = nn.Conv2d(n, n, 5, padding=2, groups=n, bias=False)
        self.norm = nn.BatchNorm2d(n)
        self.up, self.down = nn.Conv2d(n, INNER, 1), nn.Conv2d(INNER, n, 1)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(self.near(x)))))


class Eye(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1, bias=False) for a, b in zip((3,) + CHANNELS, CHANNELS))
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in CHANNELS)
        n = CHANNELS[-1]
        self.place = nn.Parameter(torch.randn(1, n, 8, 8) * 0.1)
        self.mixes = nn.ModuleList([Mix(n), Mix(n)])
        self.norm, self.show = nn.LayerNorm(n, EPS), nn.Linear(n, SHOWN)
        self.leave = nn.Linear(2 * SHOWN, DIMS)

    def forward(self, x):
        for conv, norm in zip(self.convs, self.norms):
            x = F.gelu(norm(conv(x)))
        x = x + self.place
        for mix in self.mixes:
            x = mix(x)
        x = F.gelu(self.show(self.norm(x.flatten(2).transpose(1, 2))))
        return self.leave(torch.cat((x.mean(1), x.amax(1)), 1))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(STATE, EPS), nn.LayerNorm(STATE, EPS)
        self.q, self.k, self.v, self.o = (nn.Linear(STATE, STATE) for _ in range(4))
        self.up, self.down = nn.Linear(STATE, WIDE), nn.Linear(WIDE, STATE)

    def forward(self, x, mask):
        b, n, d = x.shape
        h = self.norm1(x)
        q, k, v = (f(h).view(b, n, HEADS, d // HEADS).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = (q @ k.transpose(2, 3) * (d // HEADS) ** -0.5 + mask).softmax(-1) @ v
        x = x + self.o(a.transpose(1, 2).reshape(b, n, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(len(TOKENS), STATE) * 0.5)
        self.place = nn.Parameter(torch.randn(1, LENGTH, STATE) * 0.1)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.leave = nn.LayerNorm(STATE, EPS), nn.Linear(STATE, DIMS)

    def forward(self, ids):
        mask = (ids.clamp(max=1).float() - 1)[:, None, None] * 10000
        x = self.table[ids] + self.place
        for layer in self.layers:
            x = layer(x, mask)
        return self.leave(self.norm(x[:, 0]))


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.eye, self.reader = Eye(), Reader()
        self.scale, self.bias = nn.Parameter(torch.tensor(2.3)), nn.Parameter(torch.tensor(-5.0))


def folded(net):
    """The tensors that ship, by name: norms over the batch have gone into the convolutions before or after them."""
    out = {k: v.detach().clone() for k, v in net.state_dict().items() if ".norms." not in k and "mixes" not in k and k not in ("scale", "bias")}

    def fold(conv, norm, name):
        by = norm.weight / (norm.running_var + norm.eps).sqrt()
        out[name + ".weight"], out[name + ".bias"] = conv.weight * by[:, None, None, None], norm.bias - norm.running_mean * by

    for i, (conv, norm) in enumerate(zip(net.eye.convs, net.eye.norms)):
        fold(conv, norm, f"eye.convs.{i}")
    for i, mix in enumerate(net.eye.mixes):
        name = f"eye.mixes.{i}"
        fold(mix.near, mix.norm, name + ".near")
        for part in ("up", "down"):
            out[f"{name}.{part}.weight"], out[f"{name}.{part}.bias"] = getattr(mix, part).weight, getattr(mix, part).bias
    return out


def save_safetensors(path, tensors):
    """Writes tensors as f32: eight bytes of header length, a JSON header, the data."""
    header, blobs, at = {}, [], 0
    for name, t in tensors.items():
        data = t.detach().float().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + len(data)]}
        blobs.append(data)
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".part", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for b in blobs:
            f.write(b)
    os.replace(path + ".part", path)
