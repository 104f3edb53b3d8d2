"""pocket's network: Qwen3's architecture, small. Parameter names are those of a Hugging Face checkpoint, so export copies them as they are."""

import json
import os
import struct

import torch
import torch.nn.functional as F
from torch import nn

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 192, "intermediate_size": 576, "num_hidden_layers": 6, "num_attention_heads": 6,
    "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 4096, "max_position_embeddings": 1024, "rope_theta": 10000.0, "rope_scaling": None, "rms_norm_eps": 1e-6,
    "hidden_act": "silu", "attention_bias": False, "attention_dropout": 0.0, "tie_word_embeddings": True, "use_cache": True, "torch_dtype": "bfloat16",
    "use_sliding_window": False, "sliding_window": None, "initializer_range": 0.02,
}


class Normalize(torch.autograd.Function):
    """x / rms(x) * weight. By hand, since the elementwise passes of autograd's own way cost more here than the matrix products."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        r = (torch.linalg.vector_norm(x, dim=-1, keepdim=True).pow(2) / x.shape[-1] + eps).rsqrt()
        n = x * r
        ctx.save_for_backward(n, r, weight)
        return n * weight

    @staticmethod
    def backward(ctx, g):
        n, r, weight = ctx.saved_tensors
        gn = g * n
        dot = torch.matmul(gn, weight).unsqueeze(-1) / -n.shape[-1]
        return torch.addcmul(g * weight, n, dot).mul_(r), gn.reshape(-1, n.shape[-1]).sum(0), None


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return Normalize.apply(x.float(), self.weight, self.eps)


def rotate(x, cos, sin):
    return torch.addcmul(x * cos, torch.cat(x.chunk(2, -1)[::-1], -1), sin)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv, self.dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        h = c["hidden_size"]
        self.q_proj = nn.Linear(h, self.heads * self.dim, bias=False)
        self.k_proj = nn.Linear(h, self.kv * self.dim, bias=False)
        self.v_proj = nn.Linear(h, self.kv * self.dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.dim, h, bias=False)
        self.q_norm = RMSNorm(self.dim, c["rms_norm_eps"])
        self.k_norm = RMSNorm(self.dim, c["rms_norm_eps"])

    def forward(self, x, cos, sin, mask, cache):
        b, t, _ = x.shape
        q = rotate(self.q_norm(self.q_proj(x).view(b, t, self.heads, self.dim)), cos, sin).transpose(1, 2)
        k = rotate(self.k_norm(self.k_proj(x).view(b, t, self.kv, self.dim)), cos, sin).transpose(1, 2)
        v = self.v_proj(x).view(b, t, self.kv, self.dim).transpose(1, 2)
        if cache is not None:
            if cache:
                k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
            cache[:] = [k, v]
        n, group = k.shape[2], self.heads // self.kv
        # The query heads that share a kv head stand as further rows of one product: nothing is repeated.
        q = q.reshape(b, self.kv, group * t, self.dim)
        scores = (torch.matmul(q, k.transpose(2, 3)) * self.dim ** -0.5).float().view(b, self.kv, group, t, n)
        if mask is not None:
            scores = scores + mask
        out = torch.matmul(scores.softmax(-1).view(b, self.kv, group * t, n).to(v.dtype), v)
        return self.o_proj(out.reshape(b, self.heads, t, self.dim).transpose(1, 2).reshape(b, t, -1))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        h, i = c["hidden_size"], c["intermediate_size"]
        self.gate_proj, self.up_proj, self.down_proj = nn.Linear(h, i, bias=False), nn.Linear(h, i, bias=False), nn.Linear(i, h, bias=False)

    def forward(self, x):
        gate = self.gate_proj(x)
        # SiLU written out: torch 1.13 is slow at its gradient in bf16.
        return self.down_proj(gate * torch.sigmoid(gate) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.self_attn, self.mlp = Attention(c), MLP(c)
        self.input_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.post_attention_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])

    def forward(self, x, cos, sin, mask, cache):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask, cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class Inner(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])


class Pocket(nn.Module):
    def __init__(self, config=CONFIG):
        super().__init__()
        self.config = config
        self.model = Inner(config)
        inv = config["rope_theta"] ** (-torch.arange(0, config["head_dim"], 2).float() / config["head_dim"])
        angle = torch.outer(torch.arange(config["max_position_embeddings"]).float(), inv)
        self.register_buffer("cos", angle.cos().repeat(1, 2)[:, None], persistent=False)
        self.register_buffer("sin", torch.cat((-angle.sin(), angle.sin()), 1)[:, None], persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                std = config["initializer_range"] if "embed" in name else 0.5 * p.shape[1] ** -0.5
                nn.init.normal_(p, std=std / (2 * config["num_hidden_layers"]) ** 0.5 if name.endswith(("o_proj.weight", "down_proj.weight")) else std)

    def hidden(self, ids, cache=None):
        """Final hidden states of ids [batch, rows]; rows are padded at their end. cache is one list a layer, filled as it goes."""
        b, t = ids.shape
        past = cache[0][0].shape[2] if cache and cache[0] else 0
        cos, sin = self.cos[past:past + t], self.sin[past:past + t]
        mask = torch.full((t, t), float("-inf")).triu(1) if t > 1 else None
        assert past == 0 or t == 1
        x = self.model.embed_tokens(ids)
        for i, layer in enumerate(self.model.layers):
            x = layer(x, cos, sin, mask, cache[i] if cache is not None else None)
        return self.model.norm(x)

    def logits(self, hidden):
        return F.linear(hidden, self.model.embed_tokens.weight)

    @torch.no_grad()
    def greedy(self, ids, stop, limit):
        """The answer's ids to a prompt, without the stop id."""
        cache, out = [[] for _ in self.model.layers], []
        h = self.hidden(torch.tensor([ids]), cache)
        while len(out) < limit and len(ids) + len(out) < self.config["max_position_embeddings"]:
            best = int(self.logits(h[0, -1]).argmax())
            if best == stop:
                break
            out.append(best)
            h = self.hidden(torch.tensor([[best]]), cache)
        return out


def save_safetensors(path, tensors):
    """Writes tensors as bf16: eight bytes of header length, a JSON header, the data."""
    header, blobs, at = {}, [], 0
    for name, t in tensors.items():
        # Going through int16 keeps the bits: numpy knows no bf16.
        data = t.detach().to(torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes()
        header[name] = {"dtype": "BF16", "shape": list(t.shape), "data_offsets": [at, at + len(data)]}
        blobs.append(data)
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".part", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for b in blobs:
            f.write(b)
    os.replace(path + ".part", path)
