"""Teaches pocket to see: python3 train_sight.py STAGE --out build/pocket --minutes M

  eye    the encoder alone learns what stands where (OUT/eye.pt)
  words  the decoder learns to answer from rows, at first those of a perfect encoder, then those of OUT/eye.pt, and to say of text what it
         said before (OUT/sight.pt, OUT/hf)

They may run side by side: words reads OUT/eye.pt anew when it changes. The decoder begins as OUT/train.pt has it, or with --from as a package
has it. The learning rate follows the clock, as in train.py; --resume goes on from what the stage wrote.
"""

import argparse
import collections
import math
import os
import random
import time

import numpy as np
import torch
import torch.nn.functional as F

import bpe
import chatml
import corpus
import evaluate
import export
import muon
import pictures
import sight
import train
from model import CONFIG, Pocket

THOUGHT = "They ask about a picture."
MARK = "<|vision_start|>" + "<|image_pad|>" * sight.ROWS + "<|vision_end|>"


def begin(a):
    """(tokenizer, the decoder that can only read)."""
    tokenizer = os.path.join(a.out, "tokenizer.json")
    old = Pocket()
    if a.begin:
        bpe.make_room(os.path.join(a.begin, "pocket_tokenizer", "tokenizer.json"), tokenizer)
        weights = sight.shipped(a.begin)
    else:
        weights = torch.load(os.path.join(a.out, "train.pt"), map_location="cpu")["model"]
    tok = bpe.Tokenizer(tokenizer)
    table = weights["model.embed_tokens.weight"]
    # The tokens of pictures say nothing of themselves: short rows by chance, that no hidden state is near to.
    g = torch.Generator().manual_seed(7)
    for s in bpe.SIGHT:
        row = torch.randn(table.shape[1], generator=g)
        table[tok.special[s]] = row / row.norm() * table.norm(dim=1).median() / 2
    old.load_state_dict(weights)
    for q in old.parameters():
        q.requires_grad_(False)
    return tok, old


@torch.no_grad()
def make_codes(tok, old):
    ids = torch.tensor([tok.encode("<|im_start|>user\nwhat is in this picture?<|im_end|>\n")])
    x = old.model.embed_tokens(ids)
    y = old.model.layers[0](x, old.cos[:ids.shape[1]], old.sin[:ids.shape[1]], torch.full((ids.shape[1],) * 2, float("-inf")).triu(1), None)
    return sight.Codes(tok, old.model.embed_tokens.weight, float((y[0, 4:].norm() / x[0, 4:].norm())))


# -- examples -------------------------------------------------------------------------------------------------------------------


def conversation(asker):
    """A conversation about pictures, as chatml has them: (conv, scenes, kind)."""
    c, r = asker.c, asker.r
    messages = [{"role": "system", "content": r.choice(corpus.SYSTEMS)}] if r.random() < 0.08 else []
    scenes, kind, q, a = asker.example()
    x = r.random()
    think, thought = r.random() < 0.5, THOUGHT
    # Ollama's clients have the picture first, OpenAI's and Anthropic's as the request has it.
    look = (lambda q: q + MARK * len(scenes)) if r.random() < 0.35 else (lambda q: MARK * len(scenes) + q)
    if x < 0.03:  # words first
        p, o, _ = c.question()
        messages += [{"role": "user", "content": p}, {"role": "assistant", "content": o}]
    if 0.03 <= x < 0.12 and len(scenes) == 1:  # a further question about the same picture
        messages += [{"role": "user", "content": look(q)}, {"role": "assistant", "content": a}]
        kind, q, a = asker.about(scenes[0])
        messages.append({"role": "user", "content": q})
    elif x < 0.15:  # a question that has nothing to do with the picture
        messages += [{"role": "user", "content": look(q)}, {"role": "assistant", "content": a}]
        kind, (q, a, thought) = "words", c.question()
        messages.append({"role": "user", "content": q})
    else:
        messages.append({"role": "user", "content": look(q)})
    return {"messages": messages, "tools": [], "think": think, "thought": thought, "answer": a}, scenes, kind


def picture_batches(asker, tok, n, room):
    """n examples, those of like length together so that little is padding, a step each: ids, flat places of picture rows, scenes, flat places to learn from,
    their targets and weights, kinds, and whose each target is."""
    seqs = []
    while len(seqs) < n:
        conv, scenes, kind = conversation(asker)
        ids, first = chatml.encode(conv, tok)
        if len(ids) < 180:
            seqs.append((ids, first, scenes, kind))
    return [gathered(g, tok) for g in train.batches(seqs, room)]


def gathered(seqs, tok):
    n, t = len(seqs), max(len(s[0]) for s in seqs) - 1
    out = torch.zeros(n, t, dtype=torch.long)
    where, targets, weights, owner = [], [], [], []
    for i, (ids, first, _, _) in enumerate(seqs):
        out[i, :len(ids) - 1] = torch.tensor(ids[:-1])
        for j in range(first - 1, len(ids) - 1):
            where.append(i * t + j)
            targets.append(ids[j + 1])
            weights.append((len(ids) - first) ** -0.5)
            owner.append(i)
    at = (out.view(-1) == tok.special["<|image_pad|>"]).nonzero()[:, 0]
    scenes = [s for q in seqs for s in q[2]]
    assert len(at) == sight.ROWS * len(scenes)
    return out, at, scenes, torch.tensor(where), torch.tensor(targets), torch.tensor(weights), [s[3] for s in seqs], owner


def pixels(scenes, r):
    return torch.from_numpy(np.stack([pictures.worn(s, r) for s in scenes]))


def labels(scenes):
    return torch.tensor([sight.Codes.labels(s) for s in scenes])


# -- losses ---------------------------------------------------------------------------------------------------------------------


class Heads(torch.nn.Module):
    """What is read off the tower's last patches while it learns; ships with nothing. The last counts shapes whose middle is in a row's part."""

    def __init__(self):
        super().__init__()
        d = 4 * sight.VISION["hidden_size"]
        self.heads = torch.nn.ModuleList([torch.nn.Linear(d, len(g)) for g in sight.Codes.GROUPS] + [torch.nn.Linear(d, 4)])


def middles(scenes):
    out = torch.zeros(len(scenes), sight.ROWS, dtype=torch.long)
    for i, s in enumerate(scenes):
        for o in s.there():
            out[i, min(sight.GRID - 1, int(o.y * sight.GRID)) * sight.GRID + min(sight.GRID - 1, int(o.x * sight.GRID))] += 1
    return out.clamp_(max=3)


def eye_loss(eye, heads, codes, x, scenes, score=None):
    """The loss of the encoder alone, its rows, and those to add."""
    kept = {}
    hook = eye.merger.register_forward_pre_hook(lambda _, given: kept.update(x=given[0]))
    rows, deep = eye(x)
    hook.remove()
    want = labels(scenes)
    features = sight.blocks(kept["x"])
    loss = 0
    truth = [want[:, :, i] for i in range(4)] + [middles(scenes)]
    for i, (h, y) in enumerate(zip(heads.heads, truth)):
        z = h(features).reshape(-1, h.out_features)
        loss = loss + F.cross_entropy(z, y.reshape(-1))
        if score is not None:
            some = y.reshape(-1) > 0 if i in (0, 1) else torch.ones_like(y.reshape(-1), dtype=torch.bool)
            score[i].append((z.argmax(-1) == y.reshape(-1))[some].float().mean().item())
    r, d = codes.rows(want)
    loss = loss + F.mse_loss(rows, r) / r.pow(2).mean() + F.mse_loss(deep, d) / d.pow(2).mean()
    return loss, rows, deep


def answer_loss(net, batch, rows, deep):
    ids, at, _, where, targets, weights, _, _ = batch
    h = net.seen(ids, at, rows, deep).reshape(-1, CONFIG["hidden_size"])[where]
    z = net.logits(h)
    return (F.cross_entropy(z, targets, reduction="none") * weights).sum() / weights.sum(), z


def text_loss(net, old, group):
    """How far what net says of text is from what it said before."""
    t = max(len(e[0]) for e in group) - 1
    ids = torch.zeros(len(group), t, dtype=torch.long)
    where, weights = [], []
    for i, (seq, first, w) in enumerate(group):
        ids[i, :len(seq) - 1] = torch.tensor(seq[:-1])
        where += [i * t + j for j, x in enumerate(w) if x]
        weights += [x for x in w if x]
    where, weights = torch.tensor(where), torch.tensor(weights)
    with torch.no_grad():
        p = F.log_softmax(old.logits(old.hidden(ids).reshape(-1, CONFIG["hidden_size"])[where]), -1)
    q = F.log_softmax(net.logits(net.hidden(ids).reshape(-1, CONFIG["hidden_size"])[where]), -1)
    return ((p.exp() * (p - q)).sum(-1) * weights).sum() / weights.sum()


@torch.no_grad()
def judge(net, tok, codes=None, count=300):
    """Answers right from the first word to the last, by kind: {kind: [right, all]}. With codes rows are what a perfect encoder would give."""
    asker, r = pictures.Asker(corpus.Corpus("judged")), random.Random("judged")
    score = collections.defaultdict(lambda: [0, 0])
    for b in picture_batches(asker, tok, count, 1500):
        rows, deep = codes.rows(labels(b[2])) if codes else net.eye(pixels(b[2], r))
        _, z = answer_loss(net, b, rows, deep)
        right = [True] * len(b[6])
        for i, ok in zip(b[7], (z.argmax(-1) == b[4]).tolist()):
            right[i] = right[i] and ok
        for k, ok in zip(b[6], right):
            score[k][0] += int(ok)
            score[k][1] += 1
    return score


# -- stages ---------------------------------------------------------------------------------------------------------------------


class Clock:
    """The learning rate by the clock, lines of progress, and when to save."""

    def __init__(self, a, opts, rates):
        self.a, self.opts, self.rates = a, opts, rates
        self.begun = self.said = self.saved = time.time()
        self.step, self.mean = 0, {}
        self.pace()

    def done(self):
        return (time.time() - self.begun) / (self.a.minutes * 60)

    def pace(self):
        x = min(1.0, self.done())
        for opt, rate in zip(self.opts, self.rates):
            for g in opt.param_groups:
                g["lr"] = rate * min(1.0, x / 0.03 + 0.05) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * x)))

    def tick(self, **losses):
        self.step += 1
        self.pace()
        for k, v in losses.items():
            self.mean[k] = 0.95 * self.mean.get(k, v) + 0.05 * v
        now = time.time()
        if now - self.said >= 30:
            self.said = now
            print(f"{(now - self.begun) / 60:5.1f} min  step {self.step}  " + "  ".join(f"{k} {v:.4f}" for k, v in self.mean.items()), flush=True)
        if now - self.saved >= self.a.save * 60:
            self.saved = now
            return True
        return False


def keep(path, **state):
    torch.save(state, path + ".part")
    os.replace(path + ".part", path)


def adam(params, lr):
    return torch.optim.AdamW(params, lr=lr, betas=(0.9, 0.98), weight_decay=0.0)


def teach_eye(a, tok, old):
    path = os.path.join(a.out, "eye.pt")
    codes, eye, heads = make_codes(tok, old), sight.Eye(), Heads()
    if a.resume and os.path.exists(path):
        state = torch.load(path)
        eye.load_state_dict(state["eye"])
        heads.load_state_dict(state["heads"])
    asker = pictures.Asker(corpus.Corpus(f"eye/{time.time() if a.resume else a.seed}"))
    matrices = [q for n, q in eye.named_parameters() if q.dim() == 2 and "embed" not in n and n != "patch.weight"]
    rest = [q for n, q in eye.named_parameters() if q.dim() < 2 or "embed" in n or n == "patch.weight"] + list(heads.parameters())
    opts = [muon.Muon(matrices, a.lr, decay=0.01, dtype=torch.float32), adam(rest, 3e-3)]
    clock = Clock(a, opts, [a.lr, 3e-3])
    score = [collections.deque(maxlen=20) for _ in range(5)]
    while clock.done() < 1:
        scenes = [asker.scene() for _ in range(a.batch)]
        loss, _, _ = eye_loss(eye, heads, codes, pixels(scenes, asker.r), scenes, score)
        for q in matrices + rest:
            q.grad = None
        loss.backward()
        torch.nn.utils.clip_grad_norm_(rest, 1.0)
        for opt in opts:
            opt.step()
        if clock.tick(loss=loss.item(), **{n: np.mean(s) for n, s in zip(["colour", "shape", "count", "digit", "middle"], score)}):
            keep(path, eye=eye.state_dict(), heads=heads.state_dict())
    keep(path, eye=eye.state_dict(), heads=heads.state_dict())


class Texts:
    """Groups of text examples, without end."""

    def __init__(self, tok, seed, room):
        self.c, self.tok, self.rng, self.room, self.pool = corpus.Corpus(seed), tok, random.Random(str(seed)), room, []

    def draw(self):
        if not self.pool:
            some = []
            while len(some) < 96:
                e = train.example(self.c, self.tok, self.rng)
                if len(e[0]) <= 320 or self.rng.random() < 0.3:
                    some.append(e)
            self.pool = list(train.batches(some, self.room))
            self.rng.shuffle(self.pool)
        return self.pool.pop()


def teach_words(a, tok, old):
    path, eyes = os.path.join(a.out, "sight.pt"), os.path.join(a.out, "eye.pt")
    codes, net = make_codes(tok, old), sight.Seeing()
    if a.resume and os.path.exists(path):
        net.load_state_dict(torch.load(path)["model"])
    else:
        net.load_state_dict(old.state_dict(), strict=False)
    seed = f"{path}/{time.time() if a.resume else a.seed}"
    asker, texts = pictures.Asker(corpus.Corpus(seed)), Texts(tok, seed, a.room)
    decoder = [q for n, q in net.named_parameters() if not n.startswith("eye.") and q.requires_grad]
    clock = Clock(a, [adam(decoder, a.lr)], [a.lr])
    read, pool = 0, []

    def look():
        nonlocal read
        if os.path.exists(eyes) and os.path.getmtime(eyes) > read:
            read = os.path.getmtime(eyes)
            net.eye.load_state_dict(torch.load(eyes)["eye"])

    def save():
        look()
        keep(path, model=net.state_dict())
        print("by codes:", evaluate.summary(judge(net, tok, codes)), flush=True)
        if read:
            print("by sight:", evaluate.summary(judge(net, tok)), flush=True)

    look()
    while clock.done() < 1:
        if not pool:
            pool = picture_batches(asker, tok, 8 * a.batch, 48 * a.batch)
            asker.r.shuffle(pool)
        batch = pool.pop()
        with torch.no_grad():
            if read and random.random() < a.sight * min(1, 3 * clock.done() + (1 if a.resume else 0)):
                rows, deep = net.eye(pixels(batch[2], asker.r))
            else:
                rows, deep = codes.rows(labels(batch[2]))
                rows, deep = [x + torch.randn_like(x) * (0.5 * random.random() * x.pow(2).mean().sqrt()) for x in (rows, deep)]
        answers, _ = answer_loss(net, batch, rows, deep)
        for q in decoder:
            q.grad = None
        answers.backward()
        losses = {"answers": answers.item()}
        if clock.step % a.every == 0:
            said = text_loss(net, old, texts.draw())
            (a.text * said).backward()
            losses["text"] = said.item()
        torch.nn.utils.clip_grad_norm_(decoder, 1.0)
        for opt in clock.opts:
            opt.step()
        if clock.tick(**losses):
            save()
    save()
    export.export_sight(net, os.path.join(a.out, "tokenizer.json"), os.path.join(a.out, "hf"))
    print("text, thinking off:", evaluate.summary(evaluate.judge(net, tok, False, questions=a.questions)), flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("stage", choices=["eye", "words"])
    p.add_argument("--out", default="build/pocket")
    p.add_argument("--from", dest="begin", help="a package whose decoder is gone on with, instead of OUT/train.pt")
    p.add_argument("--minutes", type=float, default=20)
    p.add_argument("--lr", type=float, help="default: 0.02 (Muon) for eye, 1e-3 for words")
    p.add_argument("--batch", type=int, help="pictures a step; default: 64 for eye, 24 for words")
    p.add_argument("--room", type=int, default=500, help="tokens of text a step")
    p.add_argument("--text", type=float, default=2.0, help="what text counts against pictures")
    p.add_argument("--every", type=int, default=2, help="text is asked in each so many steps")
    p.add_argument("--sight", type=float, default=0.8, help="the share of steps with the encoder's own rows, once a third of the time is over")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--save", type=float, default=4, help="minutes between saves")
    p.add_argument("--questions", type=int, help="of the held-out ones, those asked at the end; all where it is not said")
    p.add_argument("--resume", action="store_true")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    random.seed(a.seed)
    os.makedirs(a.out, exist_ok=True)
    tok, old = begin(a)
    a.lr = a.lr or {"eye": 0.02, "words": 1e-3}[a.stage]
    a.batch = a.batch or {"eye": 64, "words": 24}[a.stage]
    {"eye": teach_eye, "words": teach_words}[a.stage](a, tok, old)


if __name__ == "__main__":
    main()
