#!/usr/bin/python3
"""Trains the recogniser, and writes its weights and tokens for export.

    OMP_NUM_THREADS=1 /usr/bin/python3 testdata/hearing/train.py --out build/hearing --minutes 30

Minutes are those that the processor works for the net, so other work on the machine only makes it take longer. The learning rate follows
them. The seed fixes what is said and how it is worn, in order; how many steps fit into the time depends on the machine.
"""

import argparse
import math
import multiprocessing
import os
import pickle
import random
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "pocket"))

import evaluate
import model
import muon
import speech


def sentences(seed, count, path):
    """Utterances of training's voices: (samples, ids). They are kept in a file, since saying them takes minutes."""
    if os.path.exists(path):
        with open(path, "rb") as f:
            return pickle.load(f)
    speaker, kept = speech.Speaker(f"train/{seed}"), []
    while len(kept) < count:
        x, ids, _ = speaker.utterance()
        if len(x) >= 800:
            kept.append(((np.clip(x, -1, 1) * 32767).astype(np.int16), ids))
    with open(path + ".part", "wb") as f:
        pickle.dump(kept, f)
    os.replace(path + ".part", path)
    return kept


def batches(queue, kept, seed, size):
    """Puts batches of examples in the queue, without end: what was said, worn anew each time. seed is a list of numbers."""
    g = np.random.default_rng(seed)
    draw = lambda: kept[g.integers(len(kept))]
    floats = lambda x: x.astype(np.float32) / 32768
    while True:
        some = []
        while len(some) < 8 * size:
            x, ids = draw()
            y, speaks = speech.worn(floats(x), g, lambda: floats(draw()[0]))
            r, ids = speech.rows(y), ids if speaks else []
            if g.random() < 0.5:
                r = speech.coloured(r, g)
            if len(r) >= len(ids) + sum(a == b for a, b in zip(ids, ids[1:])):
                some.append((r, ids))
        # Those of like length go together, so that little is padding: the net does not see it.
        some.sort(key=lambda e: len(e[0]))
        for i in g.permutation(8) * size:
            b = some[i:i + size]
            n = len(b[-1][0])
            queue.put((np.stack([speech.padded(r)[:n] for r, _ in b]), [len(r) for r, _ in b], [ids for _, ids in b]))


def hidden(n, rows, r):
    """Which values the net sees of n examples with this many rows each: some bands and some rows are hidden."""
    m = torch.ones(n, rows, 7, 80)
    for i in range(n):
        for _ in range(r.choice([0, 1, 2])):
            w, at = r.randint(1, 12), r.randint(0, 75)
            m[i, :, :, at:at + w] = 0
        for _ in range(r.choice([0, 0, 1])):
            at = r.randint(0, rows - 3)
            m[i, at:at + r.randint(1, 2)] = 0
    return m.reshape(n, rows, speech.WIDTH)


def loss_of(net, x, counts, ids, mask):
    z = F.log_softmax(net(x, mask), -1).transpose(0, 1)
    target = torch.tensor([i for t in ids for i in t], dtype=torch.long)
    each = F.ctc_loss(z, target, torch.tensor(counts), torch.tensor([len(t) for t in ids]), reduction="none", zero_infinity=True)
    return each.mean() / 4


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", default="build/hearing")
    p.add_argument("--minutes", type=float, default=30)
    p.add_argument("--resume", action="store_true", help="go on from OUT/train.pt")
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--pool", type=int, default=10000, help="utterances, which are worn anew each time")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--questions", type=int, default=200, help="held-out utterances of each kind, at the end")
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    torch.manual_seed(a.seed)
    torch.set_num_threads(1)
    r = random.Random(a.seed)
    kept = sentences(a.seed, a.pool, os.path.join(a.out, f"said-{a.seed}-{a.pool}.pickle"))
    print(f"{len(kept)} utterances, {sum(len(x) for x, _ in kept) / speech.RATE / 3600:.1f} hours", flush=True)
    path = os.path.join(a.out, "train.pt")
    state = torch.load(path) if a.resume else {"step": 0, "spent": 0.0}
    step, spent, mean, told = state["step"], state["spent"], None, time.time()
    queue = multiprocessing.Queue(24)
    multiprocessing.Process(target=batches, args=(queue, kept, [a.seed, step], a.batch), daemon=True).start()

    net = model.Net()
    first = [queue.get(timeout=300) for _ in range(8)]
    x = torch.from_numpy(np.concatenate([x[i, :n] for x, counts, _ in first for i, n in enumerate(counts)]))
    with torch.no_grad():
        net.shift.copy_(-x.mean(0))
        net.scale.copy_(1 / x.std(0))
    learned = {k: q for k, q in net.named_parameters() if q.requires_grad}
    print(f"{sum(q.numel() for q in net.parameters())} parameters", flush=True)
    inner = [q for k, q in learned.items() if q.dim() == 2 and not k.startswith("leave")]
    rest = [q for q in learned.values() if not any(q is p for p in inner)]
    opts = [(muon.Muon(inner, 0.02, decay=0.1, dtype=torch.float32), 0.02),
            (torch.optim.AdamW(rest, betas=(0.9, 0.98), weight_decay=0.01), a.lr)]
    if a.resume:
        net.load_state_dict(state["net"])
        for (opt, _), moments in zip(opts, state["opts"]):
            opt.load_state_dict(moments)

    def save(spent):
        torch.save({"net": net.state_dict(), "opts": [opt.state_dict() for opt, _ in opts], "step": step, "spent": spent}, path + ".part")
        os.replace(path + ".part", path)

    spent -= time.process_time()
    while (done := (spent + time.process_time()) / (60 * a.minutes)) < 1:
        pace = min(1.0, (step + 1) / 300) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))
        for opt, rate in opts:
            for group in opt.param_groups:
                group["lr"] = rate * pace
        x, counts, ids = queue.get(timeout=300)
        loss = loss_of(net, torch.from_numpy(x), counts, ids, hidden(len(x), x.shape[1], r))
        net.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        for opt, _ in opts:
            opt.step()
        step += 1
        mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
        if time.time() - told > 30:
            told = time.time()
            print(f"{done * a.minutes:5.1f} min  step {step}  loss {mean:.4f}  queue {queue.qsize()}", flush=True)
            save(spent + time.process_time())
    save(60 * a.minutes)
    export(net, a.out)
    evaluate.report(model.rounded(net), a.questions)


def export(net, out):
    model.save_safetensors(os.path.join(out, "weights.safetensors"), net.state_dict())
    with open(os.path.join(out, "tokens.txt"), "w", encoding="utf-8") as f:
        f.writelines(f"{t} {i}\n" for i, t in enumerate(speech.TOKENS))


if __name__ == "__main__":
    main()
