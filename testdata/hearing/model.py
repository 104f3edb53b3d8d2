"""The net: rows of features in, logits of tokens out. main.go writes the same net as an .axmodel."""

import json
import os
import struct

import torch
import torch.nn as nn
import torch.nn.functional as F

import speech

STATE, WIDE, BLOCKS, KERNEL, GATE = 144, 288, 5, 7, 32
EPS = 1e-5


class Block(nn.Module):
    """Each row sees its neighbours, and all rows how loud each channel is in the whole."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(STATE, EPS)
        self.up = nn.Linear(STATE, WIDE)
        self.near = nn.Conv2d(WIDE, WIDE, (KERNEL, 1), padding=(KERNEL // 2, 0), groups=WIDE)
        self.gate_in = nn.Linear(WIDE, GATE)
        self.gate_out = nn.Linear(GATE, WIDE)
        self.down = nn.Linear(WIDE, STATE)

    def forward(self, x, real, part):
        h = F.silu(self.up(self.norm(x))) * real
        # Rows are taken for pictures of one column: with channels last that takes a quarter of what Conv1d takes to learn.
        h = h.transpose(1, 2).unsqueeze(3).contiguous(memory_format=torch.channels_last)
        h = F.silu(self.near(h).squeeze(3).transpose(1, 2).contiguous())
        whole = (h * part).sum(1, keepdim=True)
        h = h * torch.sigmoid(self.gate_out(F.relu(self.gate_in(whole))))
        return x + self.down(h)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.full((speech.WIDTH,), -11.0), requires_grad=False)
        self.scale = nn.Parameter(torch.full((speech.WIDTH,), 1 / 6.0), requires_grad=False)
        self.enter = nn.Linear(speech.WIDTH, STATE)
        self.blocks = nn.ModuleList([Block() for _ in range(BLOCKS)])
        self.norm = nn.LayerNorm(STATE, EPS)
        self.leave = nn.Linear(STATE, len(speech.TOKENS))
        with torch.no_grad():
            for b in self.blocks:
                b.down.weight.mul_(0.3)
            self.leave.bias[0] = 1.0  # most rows begin no word

    def forward(self, x, mask=None):
        """x [B, N, 560] gives logits [B, N, tokens]. Rows of zeros are no sound; mask [B, N, 1] hides columns while the net learns."""
        real = (x * x).sum(2, keepdim=True).clamp(max=1)
        part = real / real.sum(1, keepdim=True).clamp(min=1)
        x = (x + self.shift) * self.scale
        if mask is not None:
            x = x * mask
        x = self.enter(x)
        for b in self.blocks:
            x = b(x, real, part)
        return self.leave(self.norm(x))


def rounded(net):
    """A copy of the net with matrices as they ship: in bf16."""
    out = Net()
    out.load_state_dict({k: v.to(torch.bfloat16).float() if v.dim() > 1 else v for k, v in net.state_dict().items()})
    return out.eval()


def save_safetensors(path, tensors):
    """Writes tensors as f32, filters without their second axis of 1: eight bytes of header length, a JSON header, the data."""
    header, blobs, at = {}, [], 0
    for name, t in tensors.items():
        t = t.squeeze(3) if t.dim() == 4 else t
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
