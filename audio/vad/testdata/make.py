#!/usr/bin/python3
"""Writes probabilities.npy: what a net of Silero's form gives for 40 windows, computed with NumPy in float64 from the net's definition. Its
weights and the sound are numbers from a hash, which silero_test.go makes, too, so neither is stored. Debian 12's python3-numpy was used:

    audio/vad/testdata/make.py
"""
import os
import numpy as np


def hashed(seed, n):
    """n numbers from −½ to ½."""
    x = (np.arange(n, dtype=np.uint64) + np.uint64(seed * 1000003)) & np.uint64(0xffffffff)
    for _ in range(2):
        x = ((x ^ (x >> np.uint64(16))) * np.uint64(0x45d9f3b)) & np.uint64(0xffffffff)
    return (x ^ (x >> np.uint64(16))).astype(np.float64) / 2**32 - 0.5


def weights(seed, scale, *dims):
    return (hashed(seed, int(np.prod(dims))) * scale).astype(np.float32).astype(np.float64).reshape(dims)


basis = weights(1, 0.5, 258, 1, 256)
layers = []
for i, (cin, cout, stride) in enumerate([(129, 128, 1), (128, 64, 2), (64, 64, 2), (64, 128, 1)]):
    layers.append((weights(10 + i, 0.25, cout, cin, 3), weights(20 + i, 0.5, cout), stride))
w_ih, w_hh = weights(30, 1.5, 512, 128), weights(31, 0.75, 512, 128)
b_ih, b_hh = weights(32, 0.5, 512), weights(33, 0.5, 512)
w_out, b_out = weights(74, 4, 1, 128, 1), weights(35, 0.5, 1)
windows = 40
sound = hashed(99, windows * 512)
# Loud, soft and silent by turns, so that the probability moves.
sound *= np.repeat(np.arange(windows) // 3 * 7 % 5, 512) / 4
sound = sound.astype(np.float32).astype(np.float64)


def conv(x, w, b, stride, pad):
    """x: [in, time]; w: [out, in, taps]."""
    x = np.pad(x, ((0, 0), (pad, pad)))
    taps = w.shape[2]
    slices = [x[:, t:t + taps] for t in range(0, x.shape[1] - taps + 1, stride)]
    return np.stack([np.tensordot(w, s, axes=([1, 2], [0, 1])) + b for s in slices], axis=1)


sigmoid = lambda x: 1 / (1 + np.exp(-x))
h, c, context, out = np.zeros(128), np.zeros(128), np.zeros(64), []
for i in range(windows):
    window = np.concatenate([context, sound[512 * i:512 * i + 512]])
    context = window[-64:]
    x = conv(np.pad(window, (0, 64), mode="reflect")[None], basis, np.zeros(258), 128, 0)
    x = np.sqrt(x[:129] ** 2 + x[129:] ** 2)
    for w, b, stride in layers:
        x = np.maximum(conv(x, w, b, stride, 1), 0)
    assert x.shape == (128, 1)
    i_, f_, g_, o_ = np.split(w_ih @ x[:, 0] + b_ih + w_hh @ h + b_hh, 4)
    c = sigmoid(f_) * c + sigmoid(i_) * np.tanh(g_)
    h = sigmoid(o_) * np.tanh(c)
    out.append(sigmoid(w_out[0, :, 0] @ np.maximum(h, 0) + b_out[0]))
print(np.round(out, 3))
np.save(os.path.join(os.path.dirname(os.path.abspath(__file__)), "probabilities.npy"), np.array(out, "<f4"))
