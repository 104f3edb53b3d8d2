#!/usr/bin/python3
"""Trains the two nets, and writes their weights, the words, and the held-out pictures for export.

    OMP_NUM_THREADS=1 /usr/bin/python3 testdata/search/train.py --out build/search --minutes 7

Minutes are those that the processor works for the nets, so other work on the machine only makes it take longer. The learning rate follows
them. The seed fixes what is drawn and said, in order; how many steps fit into the time depends on the machine.
"""

import argparse
import io
import math
import multiprocessing
import os
import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

import model
import texts
from texts import pictures

SORTS = ["one", "one", "quarters", "quarters", "quarters", "many", "many", "digit"]


def scene(r):
    return pictures.SORTS[r.choice(SORTS)](r)


def worn(s, r):
    """The scene at the net's size, as pictures come: of many sizes and forms, soft or sharp, with grain, or out of a jpeg."""
    high = r.randint(48, 200)
    wide = max(40, int(high * r.choice([1, 1, r.uniform(0.75, 1.33)])))
    p = pictures.draw(s, wide, high, soft=r.choice([1.0, 1.0, r.uniform(0.8, 2.5)]))
    if r.random() < 0.4:
        at = r.randrange(0, (1 << 20) - p.size)
        p = np.clip(p + r.uniform(0, 10) * pictures.grain()[at:at + p.size].reshape(p.shape), 0, 255).astype(np.uint8)
    p = Image.fromarray(p)
    if r.random() < 0.3:
        b = io.BytesIO()
        p.save(b, "JPEG", quality=r.randint(50, 95))
        p = Image.open(b).convert("RGB")
    return np.asarray(p.resize((texts.SIDE, texts.SIDE), Image.BILINEAR))


def tensor(some):
    return torch.from_numpy(np.stack(some)).permute(0, 3, 1, 2).float() / 127.5 - 1


def batches(queue, seed, size):
    """Puts batches in the queue, without end: pictures, ids of texts, and which text is true of which picture."""
    r = random.Random(seed)
    while True:
        scenes = [scene(r) for _ in range(size)]
        claims = [texts.claim_of(s, r) for s in scenes] + [texts.claim_of(s, r) for s in scenes[:size // 2]]
        ids = np.array([texts.ids(texts.said(c, r)) for c in claims])
        words = (ids > 3) & (np.random.default_rng(r.getrandbits(32)).random(ids.shape) < 0.01)
        ids[words] = 1  # unknown words are passed over
        truth = np.array([[texts.holds(c, s) for s in scenes] for c in claims])
        queue.put((np.stack([worn(s, r) for s in scenes]), ids, truth))


def scores(net, x, ids):
    a, b = F.normalize(net.eye(x), dim=1), F.normalize(net.reader(ids), dim=1)
    return b @ a.t()


def loss_of(net, x, ids, truth):
    """Of each text and picture whether they belong together; and of each text that one it is true of comes before the others."""
    z = scores(net, x, ids) * net.scale.exp()
    each = F.softplus(torch.where(truth, -1.0, 1.0) * (z + net.bias))
    pairs = (each * truth).sum() / truth.sum() + (each * ~truth).sum() / (~truth).sum()
    first = (z.logsumexp(1) - z.masked_fill(~truth, -1e4).logsumexp(1)).mean()
    return pairs + first


GALLERY = 48


def gallery(seed):
    """Held-out pictures and a text for each, that is true of it and of few others: (scenes, claims, texts, the random numbers after them)."""
    r = random.Random(seed)
    scenes, claims = [], []
    while len(scenes) < GALLERY:
        s = scene(r)
        c = texts.claim_of(s, r)
        if "has" == c[0] and (c[1] is None or c[2] is None) or any(texts.holds(c, o) for o in scenes) or any(texts.holds(d, s) for d in claims):
            continue
        scenes.append(s)
        claims.append(c)
    return scenes, claims, [texts.said(c, r) for c in claims], r


@torch.no_grad()
def judged(net, galleries, seed="held out"):
    """Shares of texts whose picture comes first, by what the texts say, of galleries of 48."""
    net.eval()
    by = {}
    for i in range(galleries):
        scenes, claims, said, r = gallery(f"{seed}/{i}")
        x = tensor([worn(s, r) for s in scenes])
        best = scores(net, x, torch.tensor([texts.ids(t) for t in said])).argmax(1).tolist()
        for k, c in enumerate(claims):
            for name in (c[0], "all"):
                n, right = by.get(name, (0, 0))
                by[name] = n + 1, right + (best[k] == k)
    net.train()
    return {k: f"{right}/{n} {100 * right / n:.1f} %" for k, (n, right) in sorted(by.items())}


def rounded(net):
    """The net with matrices as they ship: in bf16. The norms over the batch are as in folded()."""
    out = model.Pair()
    out.load_state_dict(net.state_dict())
    for m in (out.eye, out.reader):
        for q in m.parameters():
            if q.dim() > 1:
                q.data = q.data.to(torch.bfloat16).float()
    return out


def export(net, out):
    model.save_safetensors(os.path.join(out, "weights.safetensors"), model.folded(net))
    with open(os.path.join(out, "tokens.txt"), "w", encoding="utf-8") as f:
        f.writelines(t + "\n" for t in texts.TOKENS)
    folder = os.path.join(out, "unseen")
    os.makedirs(folder, exist_ok=True)
    scenes, _, said, r = gallery("held out/0")
    with open(os.path.join(folder, "said.txt"), "w", encoding="utf-8") as f:
        for i, (s, text) in enumerate(zip(scenes, said)):
            wide, high = r.choice([(64, 64), (96, 96), (128, 96), (96, 120), (80, 80)])
            Image.fromarray(pictures.draw(s, wide, high)).quantize(32, dither=0).save(os.path.join(folder, f"{i:02}.png"), optimize=True)
            f.write(f"{i:02}.png\t{text}\n")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", default="build/search")
    p.add_argument("--minutes", type=float, default=7)
    p.add_argument("--begin", help="go on from the weights in this file")
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--galleries", type=int, default=40, help="of 48 held-out pictures each, at the end")
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    torch.manual_seed(a.seed)
    torch.set_num_threads(1)
    queue = multiprocessing.Queue(24)
    multiprocessing.Process(target=batches, args=(queue, a.seed, a.batch), daemon=True).start()
    net = model.Pair()
    if a.begin:
        net.load_state_dict(torch.load(a.begin))
    print(f"{sum(q.numel() for q in net.parameters())} parameters", flush=True)
    wide = [q for q in net.parameters() if q.dim() > 1]
    opt = torch.optim.AdamW([{"params": wide, "weight_decay": 0.05}, {"params": [q for q in net.parameters() if q.dim() < 2], "weight_decay": 0.0}], lr=a.lr, betas=(0.9, 0.98))
    step, mean, told, begun = 0, None, time.time(), time.process_time()
    while (done := (time.process_time() - begun) / (60 * a.minutes)) < 1:
        for group in opt.param_groups:
            group["lr"] = a.lr * min(1.0, (step + 1) / 200) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))
        x, ids, truth = queue.get(timeout=300)
        loss = loss_of(net, tensor(list(x)), torch.from_numpy(ids), torch.from_numpy(truth))
        net.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()
        with torch.no_grad():
            net.scale.clamp_(max=math.log(60))
        step += 1
        mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
        if time.time() - told > 60:
            told = time.time()
            print(f"{done * a.minutes:5.1f} min  step {step}  loss {mean:.4f}  queue {queue.qsize()}  {judged(net, 2, 'while it learns')}", flush=True)
            torch.save(net.state_dict(), os.path.join(a.out, "train.pt"))
    torch.save(net.state_dict(), os.path.join(a.out, "train.pt"))
    export(net, a.out)
    print(f"{step} steps", judged(rounded(net), a.galleries))


if __name__ == "__main__":
    main()
