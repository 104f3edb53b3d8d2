"""The pictures that pocket learns to see, and what is asked about them, all drawn and made by chance from the rules below.

A scene is what stands in a picture, in a square of side 1; draw() makes pixels of it, of any size. A scene is one of four sorts: "one" big
shape, "quarters" with at most one shape in each, "many" small shapes to count, and a "digit". Nothing here comes from a font or a file.

    python3 pictures.py DIR [--count N] [--seed S]     writes held-out pictures and the questions about them, and the README's beside DIR
"""

import argparse
import functools
import io
import json
import math
import os
import random

import numpy as np
from PIL import Image

SIDE = 96  # pixels of the encoder's pictures, both ways

COLOURS = {"red": (214, 38, 38), "green": (36, 150, 62), "blue": (40, 78, 208), "yellow": (244, 206, 30), "purple": (136, 48, 168), "black": (24, 24, 26)}
SHAPES = ["circle", "square", "triangle", "star"]
PLACES = ["top left", "top right", "bottom left", "bottom right"]
NUMBERS = ["no", "one", "two", "three", "four", "five", "six"]
MOST = 6

NAMES = list(COLOURS)


class Shape:
    """One shape: place and radius in the picture's unit, angle in radians."""

    def __init__(self, kind, colour, x, y, radius, angle, rgb):
        self.kind, self.colour, self.x, self.y, self.radius, self.angle, self.rgb = kind, colour, x, y, radius, angle, rgb

    def name(self):
        return f"{'an' if self.colour[0] in 'aeiou' else 'a'} {self.colour} {self.kind}"


class Scene:
    """sort, the background, and what the sort has: shapes (of quarters: one a quarter, or None), or a digit drawn as the first shape."""

    def __init__(self, sort, ground, shapes, digit=None, style=None):
        self.sort, self.ground, self.shapes, self.digit, self.style = sort, ground, shapes, digit, style

    def there(self):
        return [s for s in self.shapes if s]


# -- scenes ---------------------------------------------------------------------------------------------------------------------


def tone(r, name):
    return tuple(min(255, max(0, c + r.randint(-16, 16))) for c in COLOURS[name])


def background(r):
    grey = r.choice([255, 255, r.randint(205, 255)])
    return tuple(min(255, max(0, grey + r.choice([0, r.randint(-10, 10)]))) for _ in range(3))


def tilt(r):
    return r.choice([0, 0, r.uniform(-0.25, 0.25)])


def shape(r, kind, colour, x, y, radius):
    return Shape(kind, colour, x, y, radius, tilt(r), tone(r, colour))


def one(r):
    radius = r.uniform(0.24, 0.44)
    spread = 0.5 - radius
    return Scene("one", background(r), [shape(r, r.choice(SHAPES), r.choice(NAMES), 0.5 + r.uniform(-spread, spread) * 0.8, 0.5 + r.uniform(-spread, spread) * 0.8, radius)])


def quarters(r):
    n = r.choice([1, 2, 2, 3, 3, 4])
    names = r.sample([(k, c) for k in SHAPES for c in NAMES], n)
    shapes = [None] * 4
    for (kind, colour), q in zip(names, r.sample(range(4), n)):
        radius = r.uniform(0.12, 0.21)
        room = 0.24 - radius
        shapes[q] = shape(r, kind, colour, 0.25 + 0.5 * (q % 2) + r.uniform(-room, room), 0.25 + 0.5 * (q // 2) + r.uniform(-room, room), radius)
    return Scene("quarters", background(r), shapes)


def many(r):
    n = r.randint(1, MOST)
    kind, mixed = r.choice(SHAPES), r.random() < 0.3
    colour, gaudy = r.choice(NAMES), r.random() < 0.4
    while True:
        shapes = []
        for _ in range(40 * n):
            radius = r.uniform(0.065, 0.1)
            x, y = r.uniform(radius + 0.02, 0.98 - radius), r.uniform(radius + 0.02, 0.98 - radius)
            if all(math.hypot(s.x - x, s.y - y) > s.radius + radius + 0.05 for s in shapes):
                shapes.append(shape(r, r.choice(SHAPES) if mixed else kind, r.choice(NAMES) if gaudy else colour, x, y, radius))
                if len(shapes) == n:
                    return Scene("many", background(r), shapes)


def digit(r):
    high = r.uniform(0.26, 0.42)  # half the digit's height
    x, y = 0.5 + r.uniform(-1, 1) * (0.47 - high) , 0.5 + r.uniform(-1, 1) * (0.46 - high)
    d = r.randint(0, 9)
    s = shape(r, "digit", r.choice(NAMES), x, y, high)
    s.angle *= 0.5
    return Scene("digit", background(r), [s], d, {"wide": r.uniform(0.5, 0.68), "slant": r.choice([0, r.uniform(-0.05, 0.25)]), "thick": r.uniform(0.07, 0.13), "square": r.random() < 0.25})


SORTS = {"one": one, "quarters": quarters, "many": many, "digit": digit}


# -- drawing --------------------------------------------------------------------------------------------------------------------


def arc(x, y, rx, ry, begin, end, n=9):
    """Points of an ellipse, degrees from the right and on with the clock, y going down."""
    return [(x + rx * math.cos(math.radians(begin + (end - begin) * i / n)), y + ry * math.sin(math.radians(begin + (end - begin) * i / n))) for i in range(n + 1)]


# Lines of the digits, in a box of 1 × 1.
ROUND = {
    0: [arc(0.5, 0.5, 0.5, 0.5, 0, 360, 16)],
    1: [[(0.2, 0.25), (0.55, 0), (0.55, 1)]],
    2: [arc(0.5, 0.3, 0.46, 0.3, 190, 400) + [(0, 1), (1, 1)]],
    3: [arc(0.45, 0.26, 0.45, 0.26, 200, 450), arc(0.45, 0.74, 0.5, 0.26, 270, 520)],
    4: [[(0.72, 1), (0.72, 0), (0, 0.68), (1, 0.68)]],
    5: [[(0.92, 0), (0.16, 0), (0.1, 0.46)] + arc(0.45, 0.67, 0.5, 0.33, 230, 500)],
    6: [arc(0.75, 0.55, 0.75, 0.55, 265, 180, 5), arc(0.5, 0.68, 0.5, 0.32, 0, 360, 14)],
    7: [[(0, 0), (1, 0), (0.35, 1)]],
    8: [arc(0.5, 0.25, 0.42, 0.25, 0, 360, 12), arc(0.5, 0.75, 0.5, 0.25, 0, 360, 12)],
    9: [arc(0.5, 0.32, 0.5, 0.32, 0, 360, 14), arc(0.25, 0.45, 0.75, 0.55, 0, 85, 5)],
}
BARS = {"a": ((0, 0), (1, 0)), "b": ((1, 0), (1, 0.5)), "c": ((1, 0.5), (1, 1)), "d": ((0, 1), (1, 1)), "e": ((0, 0.5), (0, 1)), "f": ((0, 0), (0, 0.5)), "g": ((0, 0.5), (1, 0.5))}
SQUARE = {d: [BARS[c] for c in bars] for d, bars in enumerate(["abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgcde", "abc", "abcdefg", "abcdfg"])}


def digit_distance(scene, x, y):
    """How far points are from the digit's lines, less half their thickness, in units of half its height."""
    style = scene.style
    best = np.full(x.shape, 9.0, np.float32)
    for line in (SQUARE if style["square"] else ROUND)[scene.digit]:
        points = [((px * 2 - 1) * style["wide"] - (py * 2 - 1) * style["slant"], (py * 2 - 1)) for px, py in line]
        points = [(px * (1 - style["thick"]), py * (1 - style["thick"])) for px, py in points]
        for (ax, ay), (bx, by) in zip(points, points[1:]):
            dx, dy = bx - ax, by - ay
            t = np.clip(((x - ax) * dx + (y - ay) * dy) * (1 / max(dx * dx + dy * dy, 1e-9)), 0, 1)
            np.minimum(best, (x - ax - t * dx) ** 2 + (y - ay - t * dy) ** 2, out=best)
    return np.sqrt(best) - style["thick"]


def distance(kind, x, y):
    """How far points are outside a shape of radius 1; negative inside."""
    if kind == "circle":
        return np.sqrt(x * x + y * y) - 0.95
    if kind == "square":
        return np.maximum(abs(x), abs(y)) - 0.84
    if kind == "triangle":
        y = y - 0.15
        return np.maximum(y, abs(x) * (3 ** 0.5 / 2) - y / 2) - 0.56
    turn = 2 * math.pi / 5
    a = abs((np.arctan2(x, -y) + turn / 2) % turn - turn / 2)
    d = np.sqrt(x * x + y * y)
    inner = 0.42
    ix, iy = inner * math.cos(turn / 2), inner * math.sin(turn / 2)
    nx, ny = iy, 1.0 - ix
    n = math.hypot(nx, ny)
    return ((d * np.cos(a) - 1.0) * nx + d * np.sin(a) * ny) / n


def draw(scene, width=SIDE, height=SIDE, soft=1.0):
    """The scene as height × width × 3 bytes; edges are soft pixels wide."""
    out = np.empty((height, width, 3), np.float32)
    out[:] = scene.ground
    for s in scene.there():
        reach = s.radius * 1.25 + 2 * soft / min(width, height)
        x0, x1 = max(0, int((s.x - reach) * width)), min(width, int((s.x + reach) * width) + 2)
        y0, y1 = max(0, int((s.y - reach) * height)), min(height, int((s.y + reach) * height) + 2)
        x = ((np.arange(x0, x1, dtype=np.float32) + 0.5) / width - s.x)[None, :] / s.radius
        y = ((np.arange(y0, y1, dtype=np.float32) + 0.5) / height - s.y)[:, None] / s.radius
        c, n = np.float32(math.cos(s.angle)), np.float32(math.sin(s.angle))
        x, y = x * c + y * n, y * c - x * n
        d = digit_distance(scene, x, y) if s.kind == "digit" else distance(s.kind, x, y)
        cover = np.clip(0.5 - d * (s.radius * min(width, height) / soft), 0, 1)[:, :, None]
        part = out[y0:y1, x0:x1]
        part += cover * (np.asarray(s.rgb, np.float32) - part)
    return np.clip(out + 0.5, 0, 255).astype(np.uint8)


@functools.lru_cache(maxsize=1)
def grain():
    return np.random.default_rng(5).normal(0, 1, (1 << 20,)).astype(np.float32)


def worn(scene, r):
    """The scene at the encoder's size, as pictures come: with edges soft or sharp, grain, or out of a jpeg of another size and form."""
    if r.random() < 0.25:
        high = r.randint(40, 224)
        p = Image.fromarray(draw(scene, max(32, int(high * r.uniform(0.75, 1.33))), high))
        b = io.BytesIO()
        p.save(b, "JPEG", quality=r.randint(50, 95))
        return np.asarray(Image.open(b).convert("RGB").resize((SIDE, SIDE), Image.BICUBIC))
    p = draw(scene, soft=r.choice([1.0, 1.0, r.uniform(0.8, 3.0)]))
    if r.random() < 0.4:
        at = r.randrange(0, (1 << 20) - p.size)
        p = np.clip(p + r.uniform(0, 8) * grain()[at:at + p.size].reshape(p.shape), 0, 255).astype(np.uint8)
    return p


# -- questions ------------------------------------------------------------------------------------------------------------------

PIC = "{this|the} {picture|image}"
ASKED = {
    "describe": f"what is in {PIC}|what is in {PIC}|what's in {PIC}|what is this|what do you see|what do you see in {PIC}|describe {PIC}|what is in|what is in it|what does {PIC} show|what is here|"
                f"what can you see|what can you see in {PIC}|tell me what is in {PIC}|describe what you see|what is on {PIC}|what's this",
    "colour": "what {colour|color} is {it|this|the shape|THING}|which {colour|color} is {it|this|the shape|THING}|what {colour|color} does {it|the shape|THING} have|what is the {colour|color} of {it|the shape|THING}",
    "shape": f"what shape is {{it|this|that|in {PIC}}}|which shape is {{it|this|in {PIC}}}|what kind of shape is {{it|this}}|what shape do you see|name the shape",
    "digit": f"what {{digit|number}} is {{it|this|that|in {PIC}}}|which {{digit|number}} is {{it|this|in {PIC}}}|what {{digit|number}} do you see|read the {{digit|number}}|name the {{digit|number}}",
    "count": f"how many shapes are {{there|in {PIC}}}|how many shapes {{do you see|can you see}}|how many shapes|count the shapes|how many things are {{there|in {PIC}}}|how many are there|how many do you see",
    "at": f"what is {{at|in}} the PLACE|what is {{at|in}} the PLACE of {PIC}|what do you see {{at|in}} the PLACE|which shape is {{at|in}} the PLACE|what stands {{at|in}} the PLACE",
    "which": "which shape is HUE|what shape is HUE|what is HUE|which of them is HUE|what shape is the HUE one",
    "same": "are they the same|are these the same|are the two pictures the same|are both pictures the same|is it the same|do both show the same|do the pictures show the same|are these pictures the same or different|same or different|compare the two pictures|"
            "compare them|compare these pictures|are these two the same",
}


def named(scene):
    """What stands in a scene, as the answer says it."""
    if scene.sort == "digit":
        return f"the digit {scene.digit}"
    if scene.sort == "many":
        return NUMBERS[len(scene.shapes)] + (" shape" if len(scene.shapes) == 1 else " shapes")
    names = [s.name() for s in scene.there()]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def said(text):
    return text[0].upper() + text[1:] + "."


def counted(n):
    return "There is one shape." if n == 1 else f"There are {NUMBERS[n]} shapes."


class Asker:
    """Draws scenes and questions. fill expands a pattern, vary() puts around a question what people put there; both are a Corpus's."""

    def __init__(self, corpus):
        self.c, self.r = corpus, corpus.rng

    def ask(self, kind, **words):
        text = ASKED[kind]
        for k, v in words.items():
            text = text.replace(k.upper(), v)
        return self.c.vary(self.c.fill(text), True)

    def about(self, scene):
        """A question about one scene: (kind, question, answer)."""
        r, there = self.r, scene.there()
        kinds = {"one": ["describe", "describe", "colour", "shape", "shape", "count"], "digit": ["digit", "digit", "digit", "describe", "colour"], "many": ["count", "count", "count", "describe"],
                 "quarters": ["describe", "describe", "colour", "at", "at", "at", "which", "count"]}[scene.sort]
        while True:
            kind = r.choice(kinds)
            if kind == "describe":
                return kind, self.ask(kind), said(named(scene))
            if kind == "count":
                return kind, self.ask(kind), counted(len(there))
            if kind == "digit":
                return kind, self.ask(kind), f"It is a {scene.digit}."
            if kind == "shape":
                return kind, self.ask(kind), f"It is a {there[0].kind}."
            s = r.choice(there)
            lone = sum(o.kind == s.kind for o in there) == 1
            if kind == "colour":
                if scene.sort == "quarters" and not lone:
                    continue
                thing = "the " + s.kind
                q = self.ask(kind, thing=thing)
                if scene.sort == "quarters" and thing not in q.lower():
                    continue
                return kind, q, f"It is {s.colour}."
            if kind == "which":
                if sum(o.colour == s.colour for o in there) > 1:
                    continue
                return kind, self.ask(kind, hue=s.colour), f"It is a {s.kind}."
            q = r.randrange(4)
            if scene.shapes[q] is None and r.random() < 0.5:
                continue
            return kind, self.ask(kind, place=PLACES[q]), said(scene.shapes[q].name()) if scene.shapes[q] else "Nothing."

    def pair(self):
        """Two scenes to compare: (scenes, kind, question, answer)."""
        r = self.r
        make = r.choice([one, one, digit])
        a, b = make(r), make(r)
        if r.random() < 0.6:  # the same, or all but
            b.digit, keep = a.digit, r.random()
            s, t = a.shapes[0], b.shapes[0]
            t.kind, t.colour = s.kind, s.colour
            if keep < 0.15 and make is one:
                t.kind = r.choice(SHAPES)
            elif keep < 0.3 and make is one:
                t.colour = r.choice(NAMES)
            t.rgb = tone(r, t.colour)
        x, y = named(a), named(b)
        return [a, b], "same", self.ask("same"), said(f"{x} and {y}: {'the same' if x == y else 'different'}")

    def scene(self):
        return SORTS[self.r.choice(["one", "quarters", "quarters", "quarters", "many", "digit"])](self.r)

    def example(self):
        """(scenes, kind, question, answer)."""
        if self.r.random() < 0.12:
            return self.pair()
        s = self.scene()
        return ([s],) + self.about(s)


# -- files ----------------------------------------------------------------------------------------------------------------------

BACK = {2: Image.FLIP_LEFT_RIGHT, 3: Image.ROTATE_180, 4: Image.FLIP_TOP_BOTTOM, 5: Image.TRANSPOSE, 6: Image.ROTATE_90, 7: Image.TRANSVERSE, 8: Image.ROTATE_270}


def write_file(scene, path, r, orientation=1):
    """Writes a scene as a file whose ending says the format, upright once its EXIF orientation is applied, larger or smaller than the encoder's pictures."""
    wide, high = r.choice([(64, 64), (96, 96), (128, 96), (96, 120), (160, 160), (200, 160), (320, 240), (240, 300), (48, 56)])
    p = Image.fromarray(draw(scene, wide, high))
    more = {}
    if orientation > 1:
        p = p.transpose(BACK[orientation])
        exif = Image.Exif()
        exif[0x0112] = orientation
        more["exif"] = exif.tobytes()
    kind = path.rsplit(".", 1)[1]
    if kind == "png":
        p = p.quantize(64, dither=0) if r.random() < 0.5 else p
        p.save(path, "PNG", optimize=True, **more)
    elif kind == "webp":
        p.save(path, "WEBP", quality=r.choice([60, 80]), lossless=r.random() < 0.3, **more)
    else:
        p.save(path, "JPEG", quality=r.choice([60, 75, 90]), **more)


def readme():
    """The scene that the README shows."""
    names = [("circle", "red", 0), ("square", "blue", 1), ("star", "yellow", 2)]
    shapes = [Shape(kind, colour, 0.25 + 0.5 * (q % 2), 0.25 + 0.5 * (q // 2), 0.19, 0, COLOURS[colour]) for kind, colour, q in names]
    return Scene("quarters", (255, 255, 255), shapes + [None])


def main():
    from corpus import Corpus
    p = argparse.ArgumentParser()
    p.add_argument("dir")
    p.add_argument("--count", type=int, default=64)
    p.add_argument("--seed", default="held out")
    a = p.parse_args()
    os.makedirs(a.dir, exist_ok=True)
    asker = Asker(Corpus(f"pictures/{a.seed}"))
    r, n = asker.r, 0
    with open(os.path.join(a.dir, "questions.jsonl"), "w", encoding="utf-8") as out:
        for i in range(a.count):
            scenes, kind, question, answer = asker.example()
            files = []
            for s in scenes:
                form = ["jpg", "png", "webp"][n % 3]
                turned = r.randint(2, 8) if form == "jpg" and r.random() < 0.6 else 1
                files.append(f"{n:03}.{form}")
                write_file(s, os.path.join(a.dir, files[-1]), r, turned)
                n += 1
            out.write(json.dumps({"kind": kind, "pictures": files, "question": question, "answer": answer}) + "\n")
    Image.fromarray(draw(readme(), 240, 240)).quantize(64, dither=0).save(os.path.join(a.dir, "..", "shapes.png"), optimize=True)
    print(f"{a.count} questions about {n} pictures in {a.dir}")


if __name__ == "__main__":
    main()
