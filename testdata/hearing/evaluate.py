#!/usr/bin/python3
"""Counts the words that a net gets right of voices that training never heard.

    /usr/bin/python3 testdata/hearing/evaluate.py build/hearing/train.pt [--count 300]
"""

import argparse
import collections

import numpy as np
import torch

import model
import speech


def words(logits, count):
    """The best token of each row, without repeats and what is no word."""
    best = logits[:count].argmax(-1).tolist()
    return [b for a, b in zip([0] + best, best) if b != a and b >= speech.FIRST_WORD]


def wrong(want, got):
    """How many words must be put in, taken out or changed to make one of the other."""
    row = list(range(len(got) + 1))
    for i, w in enumerate(want):
        row, old = [i + 1], row
        for j, x in enumerate(got):
            row.append(min(old[j] + (w != x), old[j + 1] + 1, row[j] + 1))
    return row[-1]


def examples(count, seed="judged", noise=None, snr=None, others=0.0, voice=None):
    """(samples, ids, voice) of held-out voices; noise of a kind, or of each in turn."""
    speaker, g = speech.Speaker(seed, unheard=True), np.random.default_rng(count)
    kept = [speaker.utterance(0)[0] for _ in range(40)]
    for i in range(count):
        x, ids, who = speaker.utterance(others, voice)
        y = speech.placed(x, g)
        if snr is not None:
            y = speech.with_noise(y, speech.loudness(x), noise or speech.NOISES[i % 4], snr, g, lambda: kept[g.integers(len(kept))])
        y = y * (10 ** (g.uniform(-20, -1) / 20) / np.abs(y).max())
        yield (np.round(y * 32767) / 32768).astype(np.float32), ids, who


@torch.no_grad()
def judge(net, some):
    """(wrong words, words, by accent, by variant)."""
    bad = all = 0
    accents, variants = (collections.defaultdict(lambda: [0, 0]) for _ in range(2))
    for x, ids, who in some:
        r = speech.rows(x)
        n = wrong(ids, words(net(torch.from_numpy(speech.padded(r))[None])[0], len(r)))
        bad, all = bad + n, all + len(ids)
        for by, k in (accents, who[0]), (variants, who[1]):
            by[k][0] += n
            by[k][1] += len(ids)
    return bad, all, accents, variants


def report(net, count):
    share = lambda n: f"{100 * n[0] / max(n[1], 1):.1f} %"
    for name, more in {"clean": {}, "20 dB": {"snr": 20}, "10 dB": {"snr": 10}, "5 dB": {"snr": 5}}.items():
        bad, all, accents, variants = judge(net, examples(count, **more))
        by = [", ".join(f"{k or '(none)'} {share(v)}" for k, v in sorted(d.items())) for d in (accents, variants)]
        print(f"{name}: {bad} of {all} words wrong, {share((bad, all))}; {by[0]}\n   {by[1]}", flush=True)
    for kind in speech.NOISES:
        bad, all, _, _ = judge(net, examples(count // 2, noise=kind, snr=10))
        print(f"10 dB of {kind}: {share((bad, all))} wrong", flush=True)
    bad, all, _, _ = judge(net, examples(count // 2, others=1.0))
    print(f"{count // 2} utterances with other words: {bad} words wrong, {all} said", flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("weights")
    p.add_argument("--count", type=int, default=300)
    a = p.parse_args()
    torch.set_num_threads(1)
    net = model.Net()
    net.load_state_dict(torch.load(a.weights)["net"])
    report(model.rounded(net), a.count)
