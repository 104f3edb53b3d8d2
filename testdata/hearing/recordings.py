#!/usr/bin/python3
"""Writes the recordings that the test hears, as WAV files of 16 bits, what is said in them, and what the net makes of the first.

    /usr/bin/python3 testdata/hearing/recordings.py build/hearing

They do not depend on the net; the logits do.
"""

import os
import sys
import wave

import numpy as np
import torch

import model
import speech

COUNT = 20


def utterances():
    """(samples, words): short ones of held-out voices, as quiet as microphones often have them, every second one with noise."""
    speaker, g = speech.Speaker("recordings", unheard=True), np.random.default_rng(7)
    r = speaker.r
    kept = [speaker.utterance(0)[0] for _ in range(8)]
    voices = r.sample(speaker.voices, COUNT)
    words = r.sample(speech.WORDS, len(speech.WORDS)) + [r.choice(speech.WORDS) for _ in range(3 * COUNT)]
    for i, voice in enumerate(voices):
        some = [words.pop(0) for _ in range([2, 3, 4, 3][i % 4] if i else 6)]
        x, rate = speech.say(" ".join(some), voice, r.randint(150, 200), r.randint(30, 70), 0)
        x = speech.trimmed(speech.resample(x, speech.RATE / rate))
        y = speech.placed(x, g, len(x) + 3200)
        if i % 2:
            kind, snr = speech.NOISES[i // 2 % 4], [20, 10][i // 2 % 2]
            y = speech.with_noise(y, speech.loudness(x), kind, snr, g, lambda: kept[g.integers(len(kept))])
        yield y * (10 ** (g.uniform(-34, -24) / 20) / np.abs(y).max()), " ".join(some)


def main(out):
    folder = os.path.join(out, "recordings")
    os.makedirs(folder, exist_ok=True)
    net = model.Net()
    net.load_state_dict(torch.load(os.path.join(out, "train.pt"))["net"])
    net = model.rounded(net)
    with open(os.path.join(folder, "said.txt"), "w") as f:
        for i, (x, words) in enumerate(utterances()):
            x = np.round(x * 32767).astype("<i2")
            with wave.open(os.path.join(folder, f"{i}.wav"), "wb") as w:
                w.setnchannels(1)
                w.setsampwidth(2)
                w.setframerate(speech.RATE)
                w.writeframes(x.tobytes())
            f.write(f"{i}.flac\t{words}\n")
            if i == 0:
                with torch.no_grad():
                    z = net(torch.from_numpy(speech.padded(speech.rows(x / np.float32(32768)))[None]))[0]
                z.numpy().astype("<f4").tofile(os.path.join(folder, "0.logits"))


if __name__ == "__main__":
    main(sys.argv[1])
