"""Trains pocket: python3 train.py --out build/pocket --minutes 60 [--resume]

The schedule follows the clock: warm-up, then a cosine down to nothing at the end of --minutes, however fast the machine is. Every few
minutes the state goes to OUT/train.pt and OUT/hf; a run that was stopped goes on with --resume from there.
"""

import argparse
import math
import os
import random
import time

import torch
import torch.nn.functional as F

import bpe
import chatml
import corpus
import evaluate
import export
import model
import muon

LONGEST = 512
PROMPT = 0.25  # the share of a prompt's tokens that are learned too


def make_tokenizer(path, seed):
    """Learns the tokenizer from a sample of the corpus, each text as often as it is drawn."""
    c = corpus.Corpus(seed)
    texts = []
    for _ in range(40000):
        conv = c.conversation()
        texts.append("".join(chatml.prompt(conv)) + chatml.answer(conv))
    vocab, merges = bpe.train(texts, model.CONFIG["vocab_size"])
    bpe.write(path, vocab, merges)
    print(f"tokenizer: {len(vocab) + len(bpe.SPECIALS)} entries, {len(merges)} merges", flush=True)


def example(c, tok, rng):
    """(ids, first, weights): what is read, where the answer begins, and how much each token after the first counts; most of the prompt's count nothing."""
    while True:
        conv = c.conversation()
        ids, first = chatml.encode(conv, tok, apart=rng.random() < 0.3)
        if len(ids) <= LONGEST:
            break
    n = len(ids) - first
    # A long answer counts more than a short one, but not by its length; its beginning decides which answer it is.
    w = [n ** -0.5] * n
    for i in range(min(4, n)):
        w[i] *= 2
    # A few of the prompt's tokens are learned: they teach what follows what, copying above all.
    return ids, first, [sum(w) / first if rng.random() < PROMPT else 0.0 for _ in range(first - 1)] + w


def batches(examples, room):
    """Groups of examples of like length, so that little is padding; a step each."""
    group = []
    for e in sorted(examples, key=lambda e: len(e[0])):
        if group and len(e[0]) * (len(group) + 1) > room:
            yield group
            group = []
        group.append(e)
    yield group


def loss_of(net, group):
    """The mean loss of a group, and that of its answers alone."""
    longest = max(len(e[0]) for e in group) - 1
    ids = torch.zeros(len(group), longest, dtype=torch.long)
    where, targets, weights, answers = [], [], [], []
    for i, (seq, first, w) in enumerate(group):
        ids[i, :len(seq) - 1] = torch.tensor(seq[:-1])
        counts = [j for j, x in enumerate(w) if x]
        where += [i * longest + j for j in counts]
        targets += [seq[j + 1] for j in counts]
        weights += [w[j] for j in counts]
        answers += [w[j] if j >= first - 1 else 0.0 for j in counts]
    # The head is a fifth of the work: it runs only for the rows that count.
    h = net.hidden(ids).reshape(-1, net.config["hidden_size"])[torch.tensor(where)]
    ce = F.cross_entropy(net.logits(h).float(), torch.tensor(targets), reduction="none")
    answers = torch.tensor(answers)
    return (ce * torch.tensor(weights)).sum() / answers.sum(), ((ce.detach() * answers).sum() / answers.sum()).item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", default="build/pocket")
    p.add_argument("--minutes", type=float, default=60)
    p.add_argument("--lr", type=float, default=0.02, help="Muon's rate, for the matrices")
    p.add_argument("--lr-rest", type=float, default=3e-3, help="AdamW's rate, for the embedding and the norms")
    p.add_argument("--room", type=int, default=1400, help="tokens a step, padding included")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--save", type=float, default=4, help="minutes between saves")
    p.add_argument("--judge", type=float, default=10, help="minutes between judgements; 0: only at the end")
    p.add_argument("--questions", type=int, help="of the held-out ones, those asked in a judgement; all where it is not said")
    p.add_argument("--fp32", action="store_true", help="matrix products in fp32: for processors without bf16 instructions")
    p.add_argument("--resume", action="store_true")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    os.makedirs(a.out, exist_ok=True)
    tokenizer, state_path = os.path.join(a.out, "tokenizer.json"), os.path.join(a.out, "train.pt")
    if not (a.resume and os.path.exists(tokenizer)):
        make_tokenizer(tokenizer, a.seed)
    tok = bpe.Tokenizer(tokenizer)
    net = model.Pocket()
    matrices = [q for n, q in net.named_parameters() if q.dim() == 2 and "embed" not in n]
    rest = [q for n, q in net.named_parameters() if q.dim() < 2 or "embed" in n]
    opts = [muon.Muon(matrices, a.lr), torch.optim.AdamW(rest, lr=a.lr_rest, betas=(0.9, 0.98), weight_decay=0.0)]
    rates = [a.lr, a.lr_rest]
    step, spent, seen = 0, 0.0, 0
    if a.resume and os.path.exists(state_path):
        state = torch.load(state_path, map_location="cpu")
        net.load_state_dict(state["model"], strict=False)
        for opt, saved in zip(opts, state["opts"]):
            opt.load_state_dict(saved)
        step, spent, seen = state["step"], state["spent"], state["seen"]
    # A resumed run draws other conversations than the first did.
    c, rng = corpus.Corpus(f"{a.seed}/{step}"), random.Random(step)
    print(f"{sum(q.numel() for q in net.parameters())} parameters, from step {step}, {spent / 60:.1f} of {a.minutes} minutes spent", flush=True)

    def save():
        torch.save({"model": net.state_dict(), "opts": [opt.state_dict() for opt in opts], "step": step, "spent": spent, "seen": seen}, state_path + ".part")
        os.replace(state_path + ".part", state_path)
        export.export(net.state_dict(), tokenizer, os.path.join(a.out, "hf"))

    budget, begun = a.minutes * 60, time.time() - spent
    saved = judged = reported = spent
    mean, tokens, tokens_at = 0.0, 0, spent
    pool = []
    while spent < budget:
        if not pool:
            pool = list(batches([example(c, tok, rng) for _ in range(192)], a.room))
            rng.shuffle(pool)
        drawn = pool.pop()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not a.fp32):
            loss, answers = loss_of(net, drawn)
        for q in net.parameters():
            q.grad = None
        loss.backward()
        torch.nn.utils.clip_grad_norm_(rest, 1.0)
        done = spent / budget
        for opt, rate in zip(opts, rates):
            for g in opt.param_groups:
                g["lr"] = rate * min(1.0, done / 0.02 + 0.02) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))
            opt.step()
        step, seen, tokens = step + 1, seen + len(drawn), tokens + sum(len(e[0]) for e in drawn)
        mean = answers if mean == 0 else 0.99 * mean + 0.01 * answers
        spent = time.time() - begun
        if spent - reported >= 30:
            print(f"{spent / 60:5.1f} min  step {step}  examples {seen}  loss {mean:.4f}  lr {opts[0].param_groups[0]['lr']:.5f}  {tokens / (spent - tokens_at):.0f} tokens/s", flush=True)
            reported, tokens, tokens_at = spent, 0, spent
        if spent - saved >= a.save * 60:
            save()
            saved = spent
        if a.judge and spent - judged >= a.judge * 60:
            print("held-out, thinking off:", evaluate.summary(evaluate.judge(net, tok, False, questions=a.questions)), flush=True)
            spent = judged = reported = tokens_at = time.time() - begun
            tokens = 0
    save()
    for think in (False, True):
        print(f"held-out, thinking {'on' if think else 'off'}:", evaluate.summary(evaluate.judge(net, tok, think, questions=a.questions)), flush=True)


if __name__ == "__main__":
    main()
