#!/usr/bin/python3
"""Writes the arrays of this folder: the features of speech.npy, computed from their definitions with NumPy, and in another way than the
package does: transforms are products with matrices of cosines and sines, filters are dense matrices, frames are made all at once. Debian
12's python3-numpy (1.24) was used; speech.npy was spoken by espeak-ng 1.51 and resampled by sox 14.4:

    espeak-ng -v en -s 160 -w said.wav "The card hears this."
    sox said.wav -r 16000 -c 1 -b 16 -e signed -t raw said.raw trim 0.1 0.79 gain -6
    audio/features/testdata/make.py said.raw        # makes speech.npy anew, too
    audio/features/testdata/make.py
"""
import os, sys
import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
path = lambda name: os.path.join(here, name + ".npy")
if len(sys.argv) > 1:
    np.save(path("speech"), np.fromfile(sys.argv[1], "<i2")[:12600])
speech = np.load(path("speech")).astype(np.float64) / 32768


def dft(n, bins):
    turns = np.outer(np.arange(n), np.arange(bins)) * (2 * np.pi / n)
    return np.cos(turns) - 1j * np.sin(turns)


# Whisper: a filter is where the mel scale's corners, interpolated, are a triangle.
def slaney(mels):
    to_mel = lambda f: np.where(f < 1000, f * 3 / 200, 15 + 27 * np.log(np.maximum(f, 1) / 1000) / np.log(6.4))
    # The scale's inverse by bisection, so that no second formula has to be right.
    goal = np.linspace(0, to_mel(np.array(8000.0)), mels + 2)
    low, high = np.zeros(mels + 2), np.full(mels + 2, 8000.0)
    for _ in range(200):
        mid = (low + high) / 2
        below = to_mel(mid) < goal
        low, high = np.where(below, mid, low), np.where(below, high, mid)
    corners = (low + high) / 2
    bins = np.arange(201) * 40.0
    rows = [np.interp(bins, corners[i:i + 3], [0, 1, 0], left=0, right=0) * 2 / (corners[i + 2] - corners[i]) for i in range(mels)]
    return np.array(rows)


def whisper(samples, mels, tail):
    real = len(samples) // 160
    if tail != "mirror":
        samples = np.concatenate([samples, np.zeros((960000 if tail == "zeros" else 480000) - len(samples))])
    padded = np.pad(samples, 200, mode="reflect")
    # Frames that hear nothing but silence are all the same: two seconds of them stand for the rest.
    count = min((len(padded) - 400) // 160, real + 200)
    frames = np.array([padded[160 * f:160 * f + 400] for f in range(count)]) * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400))
    power = np.abs(frames @ dft(400, 201)) ** 2
    logs = np.log10(np.maximum(power @ slaney(mels).T, 1e-10))
    logs = (np.maximum(logs, logs.max() - 8) + 4) / 4
    return logs if tail == "silence" else logs[:real]


# What is kept: all frames of the samples, and two after them.
n = len(speech) // 160
np.save(path("mel80"), whisper(speech, 80, "silence")[:n + 4].astype("<f4"))
np.save(path("mel80_zeros"), whisper(speech, 80, "zeros")[n - 4:].astype("<f4"))
np.save(path("mel128_mirror"), whisper(speech, 128, "mirror")[n - 40:].astype("<f4"))


# Kaldi
def kaldi(samples, window, snip, high):
    if snip:
        starts = range(0, len(samples) - 399, 160)
    else:
        starts = range(-120, 160 * ((len(samples) + 80) // 160) - 120, 160)
    mirrored = np.concatenate([samples[::-1], samples, samples[::-1]])
    frames = np.array([mirrored[len(samples) + s:len(samples) + s + 400] for s in starts])
    frames = frames - frames.mean(axis=1, keepdims=True)
    # Preemphasis as a matrix: the first sample is taken as its own predecessor.
    emphasis = np.eye(400) - 0.97 * np.eye(400, k=1)
    emphasis[0, 0] -= 0.97
    power = np.abs(frames @ emphasis * window @ dft(512, 256)[:400]) ** 2
    mel = lambda f: 1127 * np.log(1 + f / 700)
    corners = np.linspace(mel(20.0), mel(high), 82)
    bins = mel(np.arange(256) * 31.25)
    filters = np.array([np.interp(bins, corners[i:i + 3], [0, 1, 0], left=0, right=0) for i in range(80)])
    return np.log(np.maximum(power @ filters.T, 1.1920929e-07))


ramp = 2 * np.pi * np.arange(400) / 399
np.save(path("fbank_sensevoice"), kaldi(speech * 32768, 0.54 - 0.46 * np.cos(ramp), True, 8000.0)[:40].astype("<f4"))
z = kaldi(speech, (0.5 - 0.5 * np.cos(ramp)) ** 0.85, False, 7600.0)
np.save(path("fbank_zipformer"), np.concatenate([z[:30], z[-10:]]).astype("<f4"))

# Rows of seven frames, as numbers of frames, for 1 to 20 frames: the first is put before three times, and rows are cut while they last.
rows = []
for count in range(1, 21):
    frames = [0] * 3 + list(range(count))
    for first in range(0, count, 6):
        row = frames[first:first + 7]
        rows.append(row + [count - 1] * (7 - len(row)))
np.save(path("lfr"), np.array(rows, "|u1"))

# Kokoro's transform
x = speech[4000:4300]
padded = np.pad(x, 10, mode="edge")
frames = np.array([padded[5 * f:5 * f + 20] for f in range(len(x) // 5 + 1)]) * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(20) / 20))
spectrum = (frames @ dft(20, 11)).T
np.save(path("stft"), np.stack([spectrum.real, spectrum.imag]).astype("<f4"))
