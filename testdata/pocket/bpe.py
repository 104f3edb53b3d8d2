"""A byte-level BPE tokenizer: trained here, written as a Hugging Face tokenizer.json, and run for training and judging.

The splitting pattern is Qwen2's, so that axle's own tokenizer meets with pocket what it meets with the real models.
"""

import collections
import heapq
import json

import regex

PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# The tokens of pictures come first: they were added later, and take the places of the three rarest words.
SIGHT = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]
SPECIALS = SIGHT + ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
# As with Qwen3, only these are "special"; the tags stay visible in the output for the parser to find.
HIDDEN = 6


def byte_alphabet():
    """GPT-2's table: every byte as a printable character."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    out, n = {b: chr(b) for b in keep}, 0
    for b in range(256):
        if b not in out:
            out[b] = chr(256 + n)
            n += 1
    return out


ALPHABET = byte_alphabet()


def train(texts, size):
    """Learns merges from texts (an iterable of str) until the vocabulary with SPECIALS has size entries. Returns (vocab, merges)."""
    split = regex.compile(PATTERN)
    special = regex.compile("|".join(regex.escape(s) for s in SPECIALS))
    counts = collections.Counter()
    for t in texts:
        for part in special.split(t):
            counts.update(split.findall(part))
    words = [[ALPHABET[b] for b in w.encode()] for w in counts]
    freq = list(counts.values())
    vocab = [ALPHABET[b] for b in sorted(ALPHABET)]
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for i, w in enumerate(words):
        for p in zip(w, w[1:]):
            pairs[p] += freq[i]
            where[p].add(i)
    heap = [(-n, p) for p, n in pairs.items()]
    heapq.heapify(heap)
    merges, known = [], set(vocab)
    while len(vocab) + len(SPECIALS) < size and heap:
        n, p = heapq.heappop(heap)
        if pairs.get(p, 0) != -n:
            if pairs.get(p, 0) > 0:
                heapq.heappush(heap, (-pairs[p], p))
            continue
        if -n < 2:
            break
        new = p[0] + p[1]
        merges.append(p)
        if new not in known:
            known.add(new)
            vocab.append(new)
        changed = set()
        for i in list(where[p]):
            w, f, j = words[i], freq[i], 0
            for q in zip(w, w[1:]):
                pairs[q] -= f
            out = []
            while j < len(w):
                if j + 1 < len(w) and w[j] == p[0] and w[j + 1] == p[1]:
                    out.append(new)
                    j += 2
                else:
                    out.append(w[j])
                    j += 1
            words[i] = out
            for q in zip(out, out[1:]):
                pairs[q] += f
                where[q].add(i)
                changed.add(q)
        del pairs[p]
        for q in changed:
            if pairs.get(q, 0) > 0:
                heapq.heappush(heap, (-pairs[q], q))
    return {t: i for i, t in enumerate(vocab)}, merges


def write(path, vocab, merges):
    n = len(vocab)
    added = [{"id": n + i, "content": s, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": i < HIDDEN} for i, s in enumerate(SPECIALS)]
    doc = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]},
        "post_processor": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False,
                  "ignore_merges": False, "vocab": vocab, "merges": [" ".join(m) for m in merges]},
    }
    with open(path, "w", encoding="utf-8") as f:
        json.dump(doc, f, ensure_ascii=False, indent=0, separators=(",", ":"))
        f.write("\n")


def make_room(old, path):
    """Writes the tokenizer at old with the tokens of pictures in the places of its last words, which its last merges make; all others keep their numbers."""
    doc = json.load(open(old, encoding="utf-8"))
    if not any(t["content"] in SIGHT for t in doc["added_tokens"]):
        m = doc["model"]
        first = len(m["vocab"]) - len(SIGHT)
        gone = {t for t, i in m["vocab"].items() if i >= first}
        m["vocab"] = {t: i for t, i in m["vocab"].items() if t not in gone}
        m["merges"] = [p for p in m["merges"] if p.replace(" ", "") not in gone]
        doc["added_tokens"] = [{"id": first + i, "content": s, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
                               for i, s in enumerate(SIGHT)] + doc["added_tokens"]
    with open(path, "w", encoding="utf-8") as f:
        json.dump(doc, f, ensure_ascii=False, indent=0, separators=(",", ":"))
        f.write("\n")


class Tokenizer:
    """Reads a tokenizer.json that write made. Keeps what it has encoded, so it is fast on text that repeats itself."""

    def __init__(self, path):
        doc = json.load(open(path, encoding="utf-8"))
        self.vocab = doc["model"]["vocab"]
        self.ranks = {tuple(m.split(" ")): i for i, m in enumerate(doc["model"]["merges"])}
        self.special = {t["content"]: t["id"] for t in doc["added_tokens"]}
        self.size = max(self.special.values()) + 1
        self.names = {i: t for t, i in self.vocab.items()}
        self.split = regex.compile(PATTERN)
        self.cut = regex.compile("(" + "|".join(regex.escape(s) for s in self.special) + ")")
        self.cache = {}
        self.bytes = {c: b for b, c in ALPHABET.items()}

    def word(self, w):
        ids = self.cache.get(w)
        if ids is None:
            parts = [ALPHABET[b] for b in w.encode()]
            while len(parts) > 1:
                rank, i = min((self.ranks.get(p, 1 << 30), i) for i, p in enumerate(zip(parts, parts[1:])))
                if rank == 1 << 30:
                    break
                pair, out, j = (parts[i], parts[i + 1]), [], 0
                while j < len(parts):
                    if j + 1 < len(parts) and (parts[j], parts[j + 1]) == pair:
                        out.append(parts[j] + parts[j + 1])
                        j += 2
                    else:
                        out.append(parts[j])
                        j += 1
                parts = out
            ids = [self.vocab[p] for p in parts]
            if len(self.cache) < 200000:
                self.cache[w] = ids
        return ids

    def encode(self, text, specials=True):
        out = []
        for part in self.cut.split(text) if specials else [text]:
            if specials and part in self.special:
                out.append(self.special[part])
            else:
                for w in self.split.findall(part):
                    out += self.word(w)
        return out

    def decode(self, ids):
        by_id = {i: s for s, i in self.special.items()}
        data = b"".join(by_id[i].encode() if i in by_id else bytes(self.bytes[c] for c in self.names[i]) for i in ids)
        return data.decode("utf-8", "replace")
