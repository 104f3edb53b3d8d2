"""What is said of the pictures that testdata/pocket/pictures.py draws, and of which of them it is true; and the words that the net knows."""

import os
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "pocket"))

import pictures

SIDE, LENGTH = 64, 24  # pixels of a side, tokens of a text

FRONTS = ["", "", "", "", "a picture of", "a picture with", "an image of", "an image with", "a photo of", "a photo with", "picture of", "show me", "find", "there is", "this is", "i see",
          "a drawing of", "search for", "where is", "the picture with", "the one with"]
ENDS = ["", "", "", "", ".", "!", "?", "on white", "on a white background", "please", "in it"]
COLOURS = {"red": ["red"], "green": ["green"], "blue": ["blue"], "yellow": ["yellow"], "purple": ["purple", "purple", "violet"], "black": ["black"]}
SHAPES = {"circle": ["circle", "circle", "circle", "disc", "ball"], "square": ["square", "square", "square", "box"], "triangle": ["triangle"], "star": ["star"]}
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
MARKS = [".", ",", "!", "?"]


def words():
    """The words of the vocabulary, behind the special ones and the marks."""
    all_ = set("a an the and at in on of with digit number shape shapes something color colour colored coloured some many".split())
    for text in FRONTS + ENDS + pictures.PLACES + DIGITS + [w for ws in list(COLOURS.values()) + list(SHAPES.values()) for w in ws]:
        all_.update(w for w in text.split() if w not in MARKS)
    for ws in SHAPES.values():
        all_.update(plural(w) for w in ws)
    all_.update(str(d) for d in range(10))
    return sorted(all_)


def plural(word):
    return word + ("es" if word.endswith("x") else "s")


TOKENS = SPECIAL + MARKS + words()
NUMBER = {w: i for i, w in enumerate(TOKENS)}


def ids(text):
    """The numbers of a text's tokens: what the package's tokenizer.json makes of it, cut and filled up to LENGTH."""
    for m in MARKS:
        text = text.replace(m, f" {m} ")
    out = [2] + [NUMBER.get(w, 1) for w in text.lower().split()][:LENGTH - 2] + [3]
    return out + [0] * (LENGTH - len(out))


# A claim is what a text says: ("has", colour, kind), ("count", n, colour, kind), ("digit", digit, colour), ("at", place, colour, kind) or
# ("both", claim, claim). None stands for any.


def fits(s, colour, kind):
    return s.kind != "digit" and colour in (None, s.colour) and kind in (None, s.kind)


def holds(claim, scene):
    """Is it true of the scene?"""
    sort = claim[0]
    if sort == "both":
        return holds(claim[1], scene) and holds(claim[2], scene)
    if sort == "digit":
        return scene.sort == "digit" and claim[1] in (None, scene.digit) and claim[2] in (None, scene.shapes[0].colour)
    if sort == "at":
        s = scene.shapes[claim[1]] if scene.sort == "quarters" else None
        return s is not None and fits(s, claim[2], claim[3])
    n = sum(fits(s, *claim[-2:]) for s in scene.there())
    return n == claim[1] if sort == "count" else n > 0


def claim_of(scene, r):
    """Something that is true of the scene."""
    there = scene.there()
    s = r.choice(there)
    if scene.sort == "digit":
        return ("digit", scene.digit if r.random() < 0.85 else None, s.colour if r.random() < 0.5 else None)
    colour, kind = s.colour if r.random() < 0.88 else None, s.kind if r.random() < 0.88 else None
    p = r.random()
    if scene.sort == "many" and p < 0.7 or p < 0.08:
        if r.random() < 0.4:
            colour = kind = None
        n = sum(fits(o, colour, kind) for o in there)
        if n > 1:
            return ("count", n, colour, kind)
    if scene.sort == "quarters" and len(there) > 1 and p < 0.35:
        a, b = r.sample(there, 2)
        return ("both", ("has", a.colour, a.kind), ("has", b.colour, b.kind))
    if scene.sort == "quarters" and p < 0.55:
        return ("at", scene.shapes.index(s), colour or s.colour, kind)
    return ("has", colour or (None if kind else s.colour), kind)


def thing(colour, kind, r, many=False):
    noun = r.choice(SHAPES[kind]) if kind else r.choice(["shape", "shape", "something"]) if colour and not many else "shape"
    adjective = r.choice(COLOURS[colour]) if colour else ""
    if noun == "something":
        return f"something {adjective}"
    return f"{adjective} {plural(noun) if many else noun}".strip()


def named(colour, kind, r):
    name = thing(colour, kind, r)
    if name.startswith("something"):
        return name
    return r.choice(["an " if name[0] in "aeiou" else "a "] * 4 + ["", "the ", "one "]) + name


def said(claim, r):
    """A text that says it."""
    sort = claim[0]
    if sort == "both":
        text = f"{named(*claim[1][1:], r)}{r.choice([' and ', ' and ', ', ', ' with '])}{named(*claim[2][1:], r)}"
    elif sort == "count":
        n = claim[1]
        text = f"{r.choice([DIGITS[n], DIGITS[n], str(n)])} {thing(claim[2], claim[3], r, True)}"
    elif sort == "digit":
        d, hue = claim[1:]
        hue = r.choice(COLOURS[hue]) + " " if hue else ""
        if d is None:
            text = f"a {hue}{r.choice(['digit', 'number'])}"
        else:
            text = r.choice([f"the {hue}digit {d}", f"the {hue}number {d}", f"a {hue}{d}", f"{hue}{d}", f"the {hue}digit {DIGITS[d]}", f"the {hue}number {DIGITS[d]}"])
    elif sort == "at":
        text = f"{named(*claim[2:], r)} {r.choice(['at the', 'in the', 'on the', 'at'])} {pictures.PLACES[claim[1]]}"
    else:
        text = named(*claim[1:], r)
    return f"{r.choice(FRONTS)} {text} {r.choice(ENDS)}".strip()
