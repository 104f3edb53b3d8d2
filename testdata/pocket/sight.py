"""How pocket sees: Qwen3-VL's tower, small, before pocket's own layers. Parameter names are those of a Hugging Face checkpoint.

A picture of 96 × 96 pixels is 8 × 8 patches of 12, and becomes 4 × 4 rows, which stand in the prompt in the place of tokens; and as many
rows that are added after the first decoder layer. What a row is taught to hold is in Codes.
"""

import struct
import os

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import pictures
from model import CONFIG, Pocket

VISION = {
    "model_type": "qwen3_vl", "depth": 3, "hidden_size": 96, "intermediate_size": 288, "num_heads": 3, "in_channels": 3, "patch_size": 12, "spatial_merge_size": 2,
    "temporal_patch_size": 2, "out_hidden_size": CONFIG["hidden_size"], "num_position_embeddings": 64, "deepstack_visual_indexes": [2], "hidden_act": "gelu_pytorch_tanh",
    "initializer_range": 0.02,
}
SECTION = [6, 5, 5]  # of the text model's frequencies: how many turn by time, by row and by column
ACROSS = pictures.SIDE // VISION["patch_size"]
GRID = ACROSS // 2
ROWS = GRID * GRID


def blocks(x):
    """Patches [batch, rows, columns, values] as rows of four patches each, in the order of the picture."""
    b, n, _, d = x.shape
    return x.view(b, n // 2, 2, n // 2, 2, d).permute(0, 1, 3, 2, 4, 5).reshape(b, n * n // 4, 4 * d)


class Attend(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)


class Think(nn.Module):
    def __init__(self, d, wide):
        super().__init__()
        self.linear_fc1, self.linear_fc2 = nn.Linear(d, wide), nn.Linear(wide, d)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        d = c["hidden_size"]
        self.norm1, self.norm2 = nn.LayerNorm(d, eps=1e-6), nn.LayerNorm(d, eps=1e-6)
        self.attn, self.mlp = Attend(d), Think(d, c["intermediate_size"])
        self.heads = c["num_heads"]

    def forward(self, x, cos, sin):
        b, n, d = x.shape
        q, k, v = self.attn.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)

        def turn(t):
            return t * cos + torch.cat(t.chunk(2, -1)[::-1], -1) * sin

        scores = torch.matmul(turn(q), turn(k).transpose(2, 3)) * (d // self.heads) ** -0.5
        x = x + self.attn.proj(torch.matmul(scores.softmax(-1), v).transpose(1, 2).reshape(b, n, d))
        return x + self.mlp.linear_fc2(F.gelu(self.mlp.linear_fc1(self.norm2(x)), approximate="tanh"))


class Merger(nn.Module):
    """Four patches become a row. after: they are normalised side by side, not each alone."""

    def __init__(self, d, out, after):
        super().__init__()
        self.norm = nn.LayerNorm(4 * d if after else d, eps=1e-6)
        self.linear_fc1, self.linear_fc2 = nn.Linear(4 * d, 4 * d), nn.Linear(4 * d, out)
        self.after = after

    def forward(self, x):
        m = self.norm(blocks(x)) if self.after else blocks(self.norm(x))
        return self.linear_fc2(F.gelu(self.linear_fc1(m)))


class Eye(nn.Module):
    def __init__(self, c=VISION):
        super().__init__()
        d, p = c["hidden_size"], c["patch_size"]
        self.patch = nn.Linear(p * p * 3, d)  # both frames of a still in one; export() halves it
        self.pos_embed = nn.Embedding(c["num_position_embeddings"], d)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["depth"]))
        self.merger = Merger(d, c["out_hidden_size"], False)
        self.deepstack_merger_list = nn.ModuleList([Merger(d, c["out_hidden_size"], True)])
        head = d // c["num_heads"]
        freq = 10000.0 ** (-torch.arange(0, head // 2, 2).float() / (head // 2))
        at = torch.arange(ACROSS).float()
        angle = torch.cat((torch.outer(at, freq)[:, None].expand(-1, ACROSS, -1), torch.outer(at, freq)[None].expand(ACROSS, -1, -1)), -1).reshape(ACROSS * ACROSS, -1)
        self.register_buffer("cos", angle.cos().repeat(1, 2), persistent=False)
        self.register_buffer("sin", torch.cat((-angle.sin(), angle.sin()), 1), persistent=False)
        for name, q in self.named_parameters():
            if q.dim() == 2:
                nn.init.normal_(q, std=0.02 if "embed" in name else 0.7 * q.shape[1] ** -0.5)
            elif name.endswith("bias"):
                nn.init.zeros_(q)
        self.patch_size = p

    def forward(self, bytes_):
        """(rows, rows to add) of pictures, bytes [batch, side, side, 3]."""
        b, p = bytes_.shape[0], self.patch_size
        x = bytes_.float().mul_(1 / 127.5).sub_(1).view(b, ACROSS, p, ACROSS, p, 3).permute(0, 1, 3, 2, 4, 5).reshape(b, ACROSS * ACROSS, -1)
        x = self.patch(x) + self.pos_embed.weight
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        x = x.view(b, ACROSS, ACROSS, -1)
        return self.merger(x), self.deepstack_merger_list[0](x)

    def export(self):
        """Names and tensors as Qwen3-VL's checkpoints have them."""
        out = {}
        for name, q in self.state_dict().items():
            if name == "patch.weight":
                p = self.patch_size
                w = q.view(-1, p, p, 3).permute(0, 3, 1, 2) / 2
                out["model.visual.patch_embed.proj.weight"] = w[:, :, None].expand(-1, -1, 2, -1, -1).contiguous()
            elif name == "patch.bias":
                out["model.visual.patch_embed.proj.bias"] = q
            else:
                out["model.visual." + name] = q
        return out


FIRST = 2  # the first decoder layer that learns to see; those below stay as they are


class Seeing(Pocket):
    """pocket with an eye. Text alone goes through it as through Pocket, bit for bit: the three positions of a token are one."""

    def __init__(self):
        super().__init__()
        self.eye = Eye()
        for q in [self.model.embed_tokens.weight] + [q for l in self.model.layers[:FIRST] for q in l.parameters()]:
            q.requires_grad_(False)
        axis = torch.zeros(CONFIG["head_dim"] // 2, dtype=torch.long)
        for k in (1, 2):
            axis[k:3 * SECTION[k]:3] = k
        self.register_buffer("axis", axis.repeat(2), persistent=False)

    def seen(self, ids, at, rows, deep):
        """Final hidden states of ids [batch, tokens] in which the tokens at (flat indices, picture after picture) are rows of pictures."""
        b, t = ids.shape
        pos = positions(ids, at)
        column = torch.arange(CONFIG["head_dim"])
        place = pos[:, :, self.axis]
        cos, sin = self.cos[:, 0][place, column][:, :, None], self.sin[:, 0][place, column][:, :, None]
        mask = torch.full((t, t), float("-inf")).triu(1)
        h = CONFIG["hidden_size"]
        x = self.model.embed_tokens(ids).reshape(-1, h).index_copy(0, at, rows.reshape(-1, h)).view(b, t, h)
        for i, layer in enumerate(self.model.layers):
            x = layer(x, cos, sin, mask, None)
            if i == 0:
                x = x.reshape(-1, h).index_add(0, at, deep.reshape(-1, h)).view(b, t, h)
        return self.model.norm(x)


def positions(ids, at):
    """Positions in three components [batch, tokens, 3]: a picture's rows stand on a grid, and what follows begins behind its longer side."""
    b, t = ids.shape
    inside = torch.zeros(b * t, dtype=torch.bool)
    inside[at] = True
    inside = inside.view(b, t)
    # A picture takes GRID positions for its ROWS rows.
    number = torch.zeros(b * t, dtype=torch.long)
    number[at] = torch.arange(len(at)) % ROWS
    number = number.view(b, t)
    step = torch.where(inside, torch.where(number == 0, GRID, 0), 1)
    base = step.cumsum(1) - torch.where(inside, GRID, 1)
    out = base[:, :, None].expand(-1, -1, 3).clone()
    out[:, :, 1] += number // GRID
    out[:, :, 2] += number % GRID
    return out


class Codes:
    """What the encoder's rows are taught to hold: the embeddings of the words that name what stands there, so that the decoder finds words it knows.

    A row has colour and shape of what is in its quarter, or in the whole picture where it has one big shape or a digit; a row to be added has the number of
    shapes, or the digit, and which quarter it is in.
    """

    PLACES = [["top", "bottom"], ["left", "right"]]

    GROUPS = [["none"] + pictures.NAMES, ["none"] + pictures.SHAPES, ["none"] + pictures.NUMBERS[1:], ["none"] + [str(d) for d in range(10)]]

    def __init__(self, tok, embedding, deeper):
        """deeper is how much larger a token's row is after the first layer than before it."""
        self.tables = []
        for i, words in enumerate(self.GROUPS):
            rows = [torch.zeros(embedding.shape[1])]
            for w in words[1:]:
                rows.append(embedding[tok.encode(w if w.isdigit() else " " + w)[0]] * (deeper if i > 1 else 1))
            self.tables.append(torch.stack(rows))
        word = lambda w: embedding[tok.encode(" " + w)[0]] * deeper
        self.place = torch.stack([word(self.PLACES[0][row // GRID // (GRID // 2)]) + word(self.PLACES[1][row % GRID // (GRID // 2)]) for row in range(ROWS)])

    @classmethod
    def labels(cls, scene):
        """[ROWS][4] numbers of words."""
        there = scene.there()
        all_ = [0, 0, 0, 0]
        if scene.sort == "digit":
            all_ = [1 + pictures.NAMES.index(there[0].colour), 0, 0, 1 + scene.digit]
        else:
            all_[2] = len(there)
        out = []
        for row in range(ROWS):
            one = list(all_)
            s = None
            if scene.sort == "one":
                s = there[0]
            elif scene.sort == "quarters":
                s = scene.shapes[row // GRID // (GRID // 2) * 2 + row % GRID // (GRID // 2)]
            if s:
                one[0], one[1] = 1 + pictures.NAMES.index(s.colour), 1 + pictures.SHAPES.index(s.kind)
            out.append(one)
        return out

    def rows(self, labels):
        """(rows, rows to add) of labels [batch, ROWS, 4]."""
        c, s, n, d = (t[labels[:, :, i]] for i, t in enumerate(self.tables))
        return c + s, n + d + self.place


# -- the weights that ship ------------------------------------------------------------------------------------------------------

PARTS = {"input_norm": "input_layernorm", "post_norm": "post_attention_layernorm", "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj",
         "q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm", "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj"}


def axmodel(path):
    """Tensors of a file of the software card (docs/axmodel-format.md) as float32; integers times their scales."""
    data = open(path, "rb").read()
    groups, tensors = struct.unpack_from("<II", data, 16)
    out = {}
    for i in range(tensors):
        at = 192 + 16 * groups + 64 * i
        name = data[at:at + 24].rstrip(b"\0").decode()
        kind, rows, cols, group, offset, scales = struct.unpack_from("<IIIIQQ", data, at + 24)
        n = rows * cols
        if kind == 1:
            a = np.frombuffer(data, "<f4", n, offset)
        elif kind == 2:
            a = (np.frombuffer(data, "<u2", n, offset).astype("<u4") << 16).view("<f4")
        elif kind == 3:
            a = np.frombuffer(data, "i1", n, offset).astype("<f4").reshape(rows, cols) * np.frombuffer(data, "<f4", rows, scales)[:, None]
        elif kind == 4 and cols % group == 0:
            scale = (np.frombuffer(data, "<u2", n // group, scales).astype("<u4") << 16).view("<f4")
            a = np.frombuffer(data, "i1", n, offset).astype("<f4").reshape(-1, group) * scale[:, None]
        else:
            raise ValueError(f"{path}: {name} is of type {kind}")
        out[name] = torch.from_numpy(np.array(a, dtype=np.float32).reshape(rows, cols))
    return out


def shipped(package):
    """The decoder's weights in a package's folder, under the names of Pocket's parameters."""
    h, out = CONFIG["hidden_size"], {}
    table = np.fromfile(os.path.join(package, "model.embed_tokens.weight.bfloat16.bin"), "<u2").astype("<u4") << 16
    out["model.embed_tokens.weight"] = torch.from_numpy(table.view("<f4").reshape(-1, h).copy())
    for i in range(CONFIG["num_hidden_layers"]):
        for name, t in axmodel(os.path.join(package, f"pocket_p64_l{i}_together.axmodel")).items():
            if name in PARTS:
                out[f"model.layers.{i}.{PARTS[name]}.weight"] = t.view(-1) if "norm" in name else t
    out["model.norm.weight"] = axmodel(os.path.join(package, "pocket_post.axmodel"))["norm"].view(-1)
    return out
