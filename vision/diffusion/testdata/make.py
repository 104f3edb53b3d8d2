#!/usr/bin/env python3
# Makes goldens.json: what the arithmetic of drawing gives, in Python's float64 and with CPython's own Mersenne Twister. It follows the
# definitions as diffusers writes them (by noise levels sigma), the package those of the papers. Run it in its folder; a second run
# changes nothing.
import json, math, random, struct

f32 = lambda x: struct.unpack("f", struct.pack("f", x))[0]
bits = lambda x: struct.unpack("I", struct.pack("f", x))[0]


class Torch:
    """torch's CPU generator: CPython's twister with the state that a 32-bit seed gives."""

    def __init__(self, seed):
        mt = [seed]
        for i in range(1, 624):
            mt.append((1812433253 * (mt[-1] ^ (mt[-1] >> 30)) + i) & 0xFFFFFFFF)
        self.r = random.Random()
        self.r.setstate((3, tuple(mt) + (624,), None))

    def uniform(self):
        return (self.r.getrandbits(32) & 0xFFFFFF) / 2**24

    def normal(self, n):
        def block(v):
            out = list(v)
            for j in range(8):
                r, a = math.sqrt(-2 * math.log(1 - v[j])), 2 * math.pi * v[j + 8]
                out[j], out[j + 8] = r * math.cos(a), r * math.sin(a)
            return out

        u = [self.uniform() for _ in range(n)]
        out = []
        for at in range(0, n - n % 16, 16):
            out += block(u[at : at + 16])
        out += u[len(out) :]
        if n % 16:
            out[-16:] = block([self.uniform() for _ in range(16)])
        return out


def alphas():
    a, b = f32(0.00085**0.5), f32(0.012**0.5)
    step, out, p = f32(f32(b - a) / 999), [], 1.0
    for i in range(1000):
        root = f32(a + f32(step * i)) if i < 500 else f32(b - f32(step * (999 - i)))
        p *= f32(1 - f32(root * root))
        out.append(f32(p))
    return out


A = alphas()
S = [((1 - a) / a) ** 0.5 for a in A]


def interp(t):
    i = min(int(t), 998)
    return S[i] + (t - i) * (S[i + 1] - S[i])


def time_of(sigma):
    logs = [math.log(s) for s in S]
    x = math.log(sigma)
    low = max(i for i in range(999) if logs[i] <= x or i == 0)
    w = (logs[low] - x) / (logs[low] - logs[low + 1])
    return low + min(max(w, 0), 1)


def karras(n):
    lo, hi = S[0] ** (1 / 7), S[-1] ** (1 / 7)
    return [(hi + i / (n - 1) * (lo - hi)) ** 7 for i in range(n)]


def lcm_times(n):
    grid = [k * 20 - 1 for k in range(50, 0, -1)]
    return [grid[math.floor(i * 50 / n)] for i in range(n)]


def euler_times(n, spacing, offset=0):
    if spacing == "leading":
        return [i * (1000 // n) + offset for i in range(n)][::-1]
    if spacing == "trailing":
        return [round(1000 - i * 1000 / n) - 1 for i in range(n)]
    return [999 * i / (n - 1) for i in range(n)][::-1]


def seen(x, step):
    """A net: a little of what it is given, and a pattern."""
    return [0.4 * v + 0.5 * math.sin(1.7 * i + 0.9 * step) for i, v in enumerate(x)]


def lcm(n, tail, seed, picture=None):
    g = Torch(seed)
    size = 32
    times = lcm_times(n)[n - tail :]
    x = g.normal(size)
    if picture:
        a = A[times[0]]
        x = [a**0.5 * p + (1 - a) ** 0.5 * v for p, v in zip(picture, x)]
    for k, t in enumerate(times):
        a = A[t]
        eps = seen(x, k)
        s = t / 0.1
        skip, out = 0.5**2 / (s**2 + 0.5**2), s / (s**2 + 0.5**2) ** 0.5
        x = [out * (v - (1 - a) ** 0.5 * e) / a**0.5 + skip * v for v, e in zip(x, eps)]
        if k < len(times) - 1:
            b = A[times[k + 1]]
            x = [b**0.5 * v + (1 - b) ** 0.5 * z for v, z in zip(x, g.normal(size))]
    return x


def dpm(n, tail, seed, picture=None):
    sig = karras(n)
    sig = (sig + [sig[-1]])[n - tail :]
    al = lambda s: 1 / (s * s + 1) ** 0.5
    x = Torch(seed).normal(32)
    if picture:
        x = [al(sig[0]) * p + sig[0] * al(sig[0]) * v for p, v in zip(picture, x)]
    lam = lambda s: -math.log(s)
    ms = []
    for k in range(len(sig) - 1):
        s, t = sig[k], sig[k + 1]
        eps = seen(x, k)
        ms.append([(v - s * al(s) * e) / al(s) for v, e in zip(x, eps)])
        h = lam(t) - lam(s)
        if h == 0:
            break
        d = ms[-1]
        if k > 0:
            r = (lam(s) - lam(sig[k - 1])) / h
            d = [m + 0.5 * (m - p) / r for m, p in zip(ms[-1], ms[-2])]
        x = [(t * al(t)) / (s * al(s)) * v - al(t) * (math.exp(-h) - 1) * m for v, m in zip(x, d)]
    return x


def euler(n, tail, seed, spacing, offset=0, picture=None, with_karras=False):
    sig = karras(n) if with_karras else [interp(t) for t in euler_times(n, spacing, offset)]
    sig = sig[n - tail :] + [0.0]
    x = Torch(seed).normal(32)
    if picture:
        x = [p + sig[0] * v for p, v in zip(picture, x)]
    else:
        by = (sig[0] ** 2 + 1) ** 0.5 if spacing == "leading" else sig[0]
        x = [by * v for v in x]
    for k in range(len(sig) - 1):
        eps = seen([v / (sig[k] ** 2 + 1) ** 0.5 for v in x], k)
        x = [v + e * (sig[k + 1] - sig[k]) for v, e in zip(x, eps)]
    return x


picture = [math.cos(0.3 * i) for i in range(32)]
ways = []
for n, tail, p in [(4, 4, None), (4, 2, picture), (8, 8, None), (1, 1, None), (2, 1, picture)]:
    ways.append(dict(method="LCM", n=n, tail=tail, picture=p, seed=n + tail, want=lcm(n, tail, n + tail, p)))
for n, tail, p in [(20, 20, None), (20, 12, picture), (2, 2, None)]:
    ways.append(dict(method="DPM++", n=n, tail=tail, picture=p, seed=n + tail, want=dpm(n, tail, n + tail, p)))
for n, tail, sp, off, p, k in [(30, 30, "linspace", 0, None, False), (30, 30, "leading", 1, None, False), (7, 5, "leading", 1, picture, False),
                               (20, 20, "trailing", 0, None, False), (12, 12, "linspace", 0, None, True)]:
    ways.append(dict(method="Euler", n=n, tail=tail, spacing=sp, offset=off, karras=k, picture=p, seed=n + tail,
                     want=euler(n, tail, n + tail, sp, off, p, k)))

noise = []
for seed, sizes in [(0, [16]), (42, [16]), (1, [64, 64]), (7, [17]), (123456789, [40, 24]), (2**32 - 1, [31]), (2**31, [16, 16]), (1234, [4 * 64 * 64]),
                    (99, [700]), (31337, [33, 16])]:
    g = Torch(seed)
    for n in sizes:
        v = g.normal(n)
        noise.append(dict(seed=seed, n=n, again=len(noise) > 0 and noise[-1]["seed"] == seed, first=v[:16], last=v[-16:], sum=math.fsum(v)))

json.dump(dict(
    noise=noise,
    alphas=[bits(a) for a in A],
    lcm={n: lcm_times(n) for n in (1, 2, 4, 8, 50)},
    dpm={n: [round(time_of(s)) for s in karras(n)] for n in (2, 20, 30)},
    euler=[dict(n=n, spacing=s, offset=o, times=[round(t) for t in euler_times(n, s, o)]) for n, s, o in
           [(30, "linspace", 0), (30, "leading", 1), (20, "leading", 0), (20, "trailing", 0), (3, "trailing", 0), (50, "linspace", 0)]],
    ways=ways,
), open("goldens.json", "w"))
