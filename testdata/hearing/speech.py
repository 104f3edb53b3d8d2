"""Spoken words for training: said by espeak-ng, with other voices, noise and echo around them, and as the rows that the net reads.

Everything follows from a seed. The voices that training must not meet are in voices.txt, apart from the others.
"""

import os
import random
import re
import subprocess

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
RATE = 16000
WIDTH = 560  # values of a row: seven frames of 80 bins
ROWS = 84  # of a call, 60 ms each
LONGEST = 400 + 160 * (6 * ROWS - 1)  # samples that ROWS rows hold

DIGITS = "zero one two three four five six seven eight nine oh".split()
COMMANDS = "yes no on off up down left right stop go light music".split()
WORDS = DIGITS + COMMANDS

# Tokens by id, as in SenseVoice's packages: the blank, two that this net never gives, what the first four rows say, and the words.
SPECIALS = "<|en|> <|NEUTRAL|> <|Speech|> <|withitn|> <|woitn|>".split()
TOKENS = ["<blank>", "<s>", "</s>"] + SPECIALS + ["▁" + w for w in WORDS]
FIRST_WORD = TOKENS.index("▁" + WORDS[0])


def _others():
    """Words at which the net is to say nothing: those that training hears, and those that it does not."""
    folder = os.path.join(HERE, "..", "pocket", "words")
    text = " ".join(open(os.path.join(folder, name), encoding="utf-8").read() for name in sorted(os.listdir(folder)))
    like = [w for w in WORDS if len(w) > 2] + "tonight rite write know known four for two too won ate note owe".split()
    found = sorted({w for w in re.findall(r"[a-z]{4,12}", text.lower()) if not any(x in w for x in like)})
    return [w for i, w in enumerate(found) if i % 6], found[::6]


OTHERS, UNHEARD_OTHERS = _others()


def _voices():
    """The accents and variants of espeak-ng that training hears, and those that it does not, by the names of voices.txt."""
    with open(os.path.join(HERE, "voices.txt"), encoding="utf-8") as f:
        return {k: v.split() for k, v in (line.split(":") for line in f)}


VOICES = _voices()


def voices(unheard):
    """All pairs of accent and variant of one side; no variant is on both. An accent's own voice has no variant."""
    v = VOICES
    if unheard:
        pairs = [(a, x) for a in v["unheard accents"] + v["accents"] for x in v["unheard variants"]]
        return pairs + [(a, "") for a in v["unheard accents"]]
    return [(a, x) for a in v["accents"] for x in v["variants"] + [""]]


# -- saying -------------------------------------------------------------------------------------------------------------------


def say(text, voice, speed, pitch, gap):
    """What espeak-ng says, as samples, and their rate."""
    name = voice[0] + ("+" + voice[1] if voice[1] else "")
    wav = subprocess.run(["espeak-ng", "-v", name, "-s", str(speed), "-p", str(pitch), "-g", str(gap), "--stdout", text],
                         stdout=subprocess.PIPE, check=True).stdout
    rate = int.from_bytes(wav[24:28], "little")
    return np.frombuffer(wav, "<i2", offset=44).astype(np.float32) / 32768, rate


def resample(x, ratio):
    """x with ratio times as many samples, through its spectrum."""
    n = len(x)
    m = int(round(n * ratio))
    z = np.fft.rfft(x)
    out = np.zeros(m // 2 + 1, complex)
    k = min(len(z), len(out))
    out[:k] = z[:k]
    return (np.fft.irfft(out, m) * (m / n)).astype(np.float32)


def trimmed(x):
    """x without the silence around it."""
    loud = np.flatnonzero(np.abs(x) > 0.01 * np.abs(x).max()) if len(x) else []
    return x[loud[0]:loud[-1] + 1] if len(loud) else x[:0]


class Speaker:
    """Draws sentences and says them."""

    def __init__(self, seed, unheard=False):
        self.r = random.Random(str(seed))
        self.unheard = unheard
        self.voices = voices(unheard)
        self.others = UNHEARD_OTHERS if unheard else OTHERS

    def sentence(self, others):
        """Words to say, which of them are the net's. others is the share of sentences with words that are not."""
        r = self.r
        x = r.random()
        words = [r.choice(WORDS if r.random() < 0.7 else r.choice([DIGITS, COMMANDS])) for _ in range(r.randint(1, 8))]
        if x < others / 2:
            return [r.choice(self.others) for _ in range(r.randint(1, 6))]
        if x < others:
            words = words[:4]
            for _ in range(r.randint(1, 4)):
                words.insert(r.randint(0, len(words)), r.choice(self.others))
        if r.random() < 0.1:  # a word said again
            words = (words + [words[-1]])[:8]
        return words

    def utterance(self, others=0.2, voice=None):
        """(samples at RATE, ids of the words, voice): at most LONGEST samples."""
        r = self.r
        voice = voice or r.choice(self.voices)
        words = self.sentence(others)
        glue = r.choice([[" "], [" "], [", "], [" ", ", "], [" ", ". "]])
        text = words[0] + "".join(r.choice(glue) + w for w in words[1:])
        speed, pitch, gap = r.randint(115, 235), r.randint(20, 80), r.choice([0, 0, 0, 2, 5, 10])
        while True:
            x, rate = say(text, voice, speed, pitch, gap)
            x = trimmed(resample(x, RATE / rate))
            if len(x) <= LONGEST - 800 or speed > 400:
                break
            speed, gap = int(speed * 1.2), gap // 2
        return x[:LONGEST], [FIRST_WORD + WORDS.index(w) for w in words if w in WORDS], voice


# -- rooms and noise -----------------------------------------------------------------------------------------------------------


def noise(kind, n, g, others):
    """n samples of about the same loudness at all times. g is NumPy's generator; others gives utterances."""
    if kind == "white":
        return g.standard_normal(n)
    if kind == "pink":
        z = np.fft.rfft(g.standard_normal(n))
        return np.fft.irfft(z / np.sqrt(np.maximum(np.arange(len(z)), 1)), n)
    if kind == "hum":
        t, f = np.arange(n) / RATE, g.choice([50, 60])
        parts = [g.random() / k * np.sin(2 * np.pi * (f * k * t + g.random())) for k in range(1, 12)]
        return np.sum(parts, 0) + 0.02 * g.standard_normal(n)
    out = np.zeros(n)
    for _ in range(g.integers(4, 9)):  # babble
        x = others()
        out += 0.05 * g.uniform(0.5, 1) / (np.sqrt(np.mean(x * x)) + 1e-6) * np.resize(np.roll(x, g.integers(len(x))), n)
    return out


NOISES = ["white", "pink", "babble", "hum"]


def with_noise(x, loud, kind, snr, g, others):
    """x with noise, snr dB below speech of the loudness loud."""
    y = noise(kind, len(x), g, others)
    return x + y * (loud / (np.sqrt(np.mean(y * y)) + 1e-9) * 10 ** (-snr / 20))


def with_echo(x, g):
    """x as a small room gives it back: straight, and then noise that fades."""
    n = int(RATE * g.uniform(0.1, 0.35))
    h = g.standard_normal(n) * np.exp(-6.9 * np.arange(n) / n)
    h *= g.uniform(0.1, 0.7) / np.sqrt(np.sum(h * h))
    h[:16] = 0
    h[0] = 1
    size = 1 << (len(x) + n - 1).bit_length()
    return np.fft.irfft(np.fft.rfft(x, size) * np.fft.rfft(h, size), size)[:len(x)]


def loudness(x):
    return float(np.sqrt(np.mean(x * x))) if len(x) else 0.0


def placed(x, g, n=None):
    """x somewhere within n samples of silence."""
    n = n or min(LONGEST, len(x) + g.integers(800, 16000))
    out = np.zeros(max(n, len(x)), np.float32)
    at = g.integers(0, len(out) - len(x) + 1)
    out[at:at + len(x)] = x
    return out


def worn(x, g, others):
    """An utterance as a microphone may have it."""
    speech = g.random() > 0.03
    ratio = g.uniform(0.82, 1.2) if g.random() < 0.6 else 1  # another throat, and another pace
    if 0 < len(x) * ratio <= LONGEST:
        x = np.interp(np.arange(int(len(x) * ratio)) / ratio, np.arange(len(x)), x).astype(np.float32)
    n = LONGEST if g.random() < 0.1 else None
    x = placed(x if speech else np.zeros(g.integers(1600, LONGEST)), g, n)
    loud = loudness(x[x != 0]) if speech else 0.1
    if g.random() < 0.35:
        x = with_echo(x, g)
    for _ in range(g.choice([0, 1, 2], p=[0.2, 0.65, 0.15])):
        kind = NOISES[g.choice(4, p=[0.25, 0.25, 0.35, 0.15])] if speech else g.choice(["white", "pink", "hum"])
        x = with_noise(x, loud, kind, g.uniform(3, 35), g, others)
    top = np.abs(x).max() + 1e-9
    x = x * (10 ** (g.uniform(-36, 0) / 20) / top)
    if g.random() < 0.05:
        x = np.clip(x * g.uniform(1, 3), -1, 1)
    if g.random() < 0.9:  # sixteen bits
        x = np.round(x * 32767) / 32768
    return x.astype(np.float32), speech


# -- features ------------------------------------------------------------------------------------------------------------------


def _mel(hz):
    return 1127 * np.log(1 + hz / 700)


def _bands():
    step = (_mel(8000) - _mel(20)) / 81
    middle = _mel(20) + step * np.arange(1, 81)
    return np.maximum(0, 1 - np.abs(_mel(np.arange(256) * RATE / 512)[:, None] - middle) / step)


BANDS = _bands()
WINDOW = 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(400) / 399)


def fbank(x):
    """Kaldi's filter bank as SenseVoice reads it: [frames, 80]."""
    if len(x) < 400:
        return np.zeros((0, 80), np.float32)
    frames = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64) * 32768, 400)[::160]
    frames = frames - frames.mean(1, keepdims=True)
    frames = (frames - 0.97 * np.concatenate([frames[:, :1], frames[:, :-1]], 1)) * WINDOW
    z = np.fft.rfft(frames, 512)[:, :256]
    return np.log(np.maximum((z.real ** 2 + z.imag ** 2) @ BANDS, 1.1920929e-07)).astype(np.float32)


def rows(x):
    """Rows of seven frames, six frames apart: [rows, 560]."""
    f = fbank(x)
    n = (len(f) + 5) // 6
    at = np.clip(6 * np.arange(n)[:, None] + np.arange(7) - 3, 0, max(len(f) - 1, 0))
    return f[at].reshape(n, WIDTH)


def coloured(r, g):
    """Rows as a microphone with another response to low and high tones gives them."""
    tilt = sum(g.normal(0, 0.7) * np.cos(np.pi * k * np.arange(80) / 80) for k in range(1, 6))
    return np.maximum(r + np.tile(tilt, 7).astype(np.float32), np.log(np.float32(1.1920929e-07)))


def padded(r):
    out = np.zeros((ROWS, WIDTH), np.float32)
    out[:len(r)] = r[:ROWS]
    return out
