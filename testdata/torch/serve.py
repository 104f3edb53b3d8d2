"""A checkpoint in PyTorch behind Ollama's /api/generate, for `axle bench --against`: serve.py CHECKPOINT PORT [bfloat16|float32]

The loop is written plainly: one product a weight, a cache that grows in place, no Python between what can be one call. Greedy; the answer
has exactly num_predict tokens. The number of threads is OMP_NUM_THREADS.
"""

import http.server
import json
import os
import re
import struct
import sys
import time

import torch
import torch.nn.functional as F


class Model:
    def __init__(self, folder, dtype):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
            c = json.load(f)
        self.heads, self.kv, self.dim, self.eps = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"], c["rms_norm_eps"]
        with open(os.path.join(folder, "model.safetensors"), "rb") as f:
            size, = struct.unpack("<Q", f.read(8))
            header, data = json.loads(f.read(size)), bytearray(f.read())
        w = {n: torch.frombuffer(data, dtype=torch.bfloat16, count=(e["data_offsets"][1] - e["data_offsets"][0]) // 2, offset=e["data_offsets"][0]).view(e["shape"]).to(dtype).clone()
             for n, e in header.items()}
        self.embed, self.norm = w["model.embed_tokens.weight"], w["model.norm.weight"]
        self.layers = []
        for i in range(c["num_hidden_layers"]):
            at = f"model.layers.{i}."
            self.layers.append([w[at + n + ".weight"] for n in ("input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                                                "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")])
        self.context = c["max_position_embeddings"]
        angle = torch.outer(torch.arange(self.context).float(), c["rope_theta"] ** (-torch.arange(0, self.dim, 2).float() / self.dim))
        self.cos, self.sin = angle.cos().repeat(1, 2).to(dtype)[:, None], torch.cat((-angle.sin(), angle.sin()), 1).to(dtype)[:, None]
        self.cache = [torch.zeros(2, self.kv, self.context, self.dim, dtype=dtype) for _ in self.layers]

    def rms(self, x, w):
        f = x.float()
        return (f * torch.rsqrt(f.square().mean(-1, keepdim=True) + self.eps)).to(x.dtype) * w

    def forward(self, ids, past):
        """The logits after ids, whose first stands at position past."""
        t, group = len(ids), self.heads // self.kv
        cos, sin = self.cos[past:past + t], self.sin[past:past + t]
        turn = lambda x: x * cos + torch.cat((x[..., self.dim // 2:], x[..., :self.dim // 2]), -1) * sin
        x = F.embedding(torch.tensor(ids), self.embed)
        mask = torch.full((t, t), float("-inf"), dtype=x.dtype).triu(1) if t > 1 else None
        if t > 1 and past:
            mask = torch.cat((torch.zeros(t, past, dtype=x.dtype), mask), 1)
        for (in_norm, wq, wk, wv, wo, post_norm, gate, up, down), cache in zip(self.layers, self.cache):
            h = self.rms(x, in_norm)
            q = turn(F.linear(h, wq).view(t, self.heads, self.dim))
            cache[0, :, past:past + t] = turn(F.linear(h, wk).view(t, self.kv, self.dim)).transpose(0, 1)
            cache[1, :, past:past + t] = F.linear(h, wv).view(t, self.kv, self.dim).transpose(0, 1)
            k, v = cache[0, :, :past + t], cache[1, :, :past + t]
            # The query heads that share a kv head stand as further rows of one product.
            q = q.view(t, self.kv, group, self.dim).permute(1, 2, 0, 3).reshape(self.kv, group * t, self.dim)
            s = torch.matmul(q, k.transpose(1, 2)) * self.dim ** -0.5
            if mask is not None:
                s = (s.view(self.kv, group, t, past + t) + mask).view(self.kv, group * t, past + t)
            o = torch.matmul(s.float().softmax(-1).to(x.dtype), v)
            x = x + F.linear(o.view(self.kv, group, t, self.dim).permute(2, 0, 1, 3).reshape(t, -1), wo)
            h = self.rms(x, post_norm)
            x = x + F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down)
        return F.linear(self.rms(x[-1:], self.norm), self.embed)

    @torch.inference_mode()
    def generate(self, ids, n):
        past = 0
        for _ in range(n):
            best = int(self.forward(ids, past).argmax())
            yield best
            past += len(ids)
            ids = [best]


class Words:
    """The made-up checkpoint's tokenizer: a word that is in the vocabulary is one token, the others are bytes."""

    def __init__(self, folder):
        with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as f:
            self.ids = json.load(f)["model"]["vocab"]
        self.names = {i: n for n, i in self.ids.items()}
        self.letters = list(self.ids)[:256]

    def encode(self, text):
        out = []
        for word in re.findall(r" ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+", text):
            name = "".join(self.letters[b] for b in word.encode())
            out += [self.ids[name]] if name in self.ids else [self.ids[c] for c in name]
        return out

    def decode(self, i):
        return self.names[i].replace("\u0120", " ")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        q = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        ids, n = words.encode(q["prompt"]), q.get("options", {}).get("num_predict", 128)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        begin = time.monotonic()
        for i in model.generate(ids, n):
            self.wfile.write(json.dumps({"response": words.decode(i), "done": False}).encode() + b"\n")
        self.wfile.write(json.dumps({"done": True, "prompt_eval_count": len(ids), "eval_count": n, "total_duration": int(1e9 * (time.monotonic() - begin))}).encode() + b"\n")

    def log_message(self, *_):
        pass


folder, port = sys.argv[1], int(sys.argv[2])
dtype = getattr(torch, sys.argv[3] if len(sys.argv) > 3 else "bfloat16")
words, model = Words(folder), Model(folder, dtype)
print(f"torch {torch.__version__}, {dtype}, {torch.get_num_threads()} threads", flush=True)
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
