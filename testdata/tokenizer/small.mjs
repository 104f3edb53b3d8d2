// Small tokenizers: real ones cut down to a few thousand merges, and variants of them that use every other part of the format.
import fs from "node:fs";
import path from "node:path";
import { createHash } from "node:crypto";

const split = (regex, behavior = "Isolated", invert = false) => ({ type: "Split", pattern: { Regex: regex }, behavior, invert });
const byteLevel = (add_prefix_space = false, use_regex = false) => ({ type: "ByteLevel", add_prefix_space, trim_offsets: true, use_regex });
const seq = (...pretokenizers) => ({ type: "Sequence", pretokenizers });
const token = (id, content, o = {}) => ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true, ...o });

const O200K = "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const QWEN35 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const DEEP3 = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

// grow keeps the symbols of base and the first n merges that can be made of them.
function grow(j, base, n) {
  const keep = new Set(base);
  const merges = [];
  for (const m of j.model.merges) {
    if (merges.length >= n) break;
    const [a, b] = Array.isArray(m) ? m : m.split(" ");
    if (keep.has(a) && keep.has(b)) { merges.push(m); keep.add(a + b); }
  }
  const ids = Object.entries(j.model.vocab).filter(([t]) => keep.has(t)).sort((a, b) => a[1] - b[1]).map(([t]) => t);
  // Every merge that makes a token that is kept, not only the one it was grown by.
  const all = j.model.merges.filter((m) => { const [a, b] = Array.isArray(m) ? m : m.split(" "); return keep.has(a) && keep.has(b) && keep.has(a + b); });
  return { ids, merges: all };
}

function cut(j, base, n, added) {
  const { ids, merges } = grow(j, base, n);
  const vocab = {};
  let next = 0;
  for (const t of ids) vocab[t] = next++;
  const out = structuredClone({ ...j, model: { ...j.model, vocab: null, merges: null } });
  const map = new Map();
  out.added_tokens = j.added_tokens.filter(added).map((a) => { const id = a.content in vocab ? vocab[a.content] : next++; map.set(a.content, id); return { ...a, id }; });
  const fix = (p) => { if (p?.processors) p.processors.forEach(fix); for (const s of Object.values(p?.special_tokens ?? {})) s.ids = s.tokens.map((t) => map.get(t)); };
  fix(out.post_processor);
  out.model.vocab = vocab;
  out.model.merges = merges;
  return out;
}

// charsmap compiles replacements the way SentencePiece does: a double-array trie over their UTF-8, then the texts they become.
function charsmap(map) {
  let texts = "";
  const trie = { next: new Map() };
  for (const [from, to] of Object.entries(map)) {
    let n = trie;
    for (const b of Buffer.from(from)) { if (!n.next.has(b)) n.next.set(b, { next: new Map() }); n = n.next.get(b); }
    n.value = Buffer.byteLength(texts);
    texts += to + "\0";
  }
  const units = new Uint32Array(1 << 16), used = new Set([0]);
  let next = 1;
  const place = (node, at) => {
    const labels = [...node.next.keys(), ...(node.value === undefined ? [] : [0])];
    let offset = next;
    for (; ; offset++) if (labels.every((c) => !used.has(at ^ offset ^ c))) break;
    next = offset + 1 > 4096 ? 1 : offset + 1;
    units[at] = (units[at] & 0xff) | (node.value === undefined ? 0 : 1 << 8) | (offset << 10);
    for (const c of labels) used.add(at ^ offset ^ c);
    if (node.value !== undefined) units[at ^ offset] = (node.value | (1 << 31)) >>> 0;
    for (const [c, child] of node.next) { units[at ^ offset ^ c] = c; place(child, at ^ offset ^ c); }
  };
  place(trie, 0);
  const size = (Math.max(...used) + 256) & ~255;
  const out = Buffer.alloc(4 + 4 * size);
  out.writeUInt32LE(4 * size, 0);
  for (let i = 0; i < size; i++) out.writeUInt32LE(units[i], 4 + 4 * i);
  return Buffer.concat([out, Buffer.from(texts)]).toString("base64");
}

export async function small({ Tokenizer, hard, gz, here, realFile, rng }) {
  fs.mkdirSync(path.join(here, "small"), { recursive: true });
  const read = (f) => JSON.parse(fs.readFileSync(realFile(f), "utf8"));
  const bytes = Object.keys(read("qwen3").model.vocab).filter((t) => [...t].length === 1);
  const bases = {};
  bases.qwen3 = cut(read("qwen3"), bytes, 5000, () => true);
  bases.llama3 = cut(read("llama3_2"), bytes, 6000, (a) => !/reserved/.test(a.content));
  const chars = (j) => Object.keys(j.model.vocab).filter((t) => /^<0x..>$|^<(unk|s|\/s|bos|eos|pad)>$/.test(t) || ([...t].length === 1 && t.codePointAt(0) < 0x500) || "▁、。中文本日語言한국어абв".includes(t));
  const g = read("gemma3");
  bases.gemma = cut(g, chars(g), 5000, (a) => a.id < 120 && !/unused[1-9]/.test(a.content) || /^\n{1,5}$|image|^<\/?t[dr]>$/.test(a.content));
  const l = read("llama2");
  bases.llama2 = cut(l, chars(l), 5000, () => true);
  for (const [k, v] of Object.entries(bases)) gz(`small/${k}.json.gz`, v);

  const q = bases.qwen3, n = Object.keys(q.model.vocab).length;
  // Ids as the library itself would give them: what the vocabulary holds keeps its id, the others follow in order.
  const flags = [token(n, "<|a|>", { lstrip: true }), token(n + 1, "<|b|>", { rstrip: true }), token(q.model.vocab.the, "the", { special: false, single_word: true }), token(n + 2, "tokenizers", { special: false, normalized: true }), token(n + 3, "<|a|><|b|>"), token(q.model.vocab.x, "x", { special: false, single_word: true, lstrip: true, rstrip: true }), token(n + 4, "é!", { special: false, normalized: true }), token(n + 5, "\n\n", { special: false })];
  const metaspace = (prepend_scheme, split) => ({ type: "Metaspace", replacement: "▁", prepend_scheme, split });
  // A unigram vocabulary out of the llama2 one, with scores that make ties rare.
  const r = rng(99);
  const pieces = ["<unk>", "<s>", "</s>"].concat(Object.keys(bases.llama2.model.vocab).filter((p) => !/^<(unk|s|\/s)>$/.test(p)));
  const uni = pieces.map((p, i) => [p, i < 3 ? 0 : -(2 + r() * 12 - Math.min([...p].length, 6))]);
  const words = pieces.filter((p) => /^▁?[A-Za-z]{1,12}$/.test(p));
  const wp = { "[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3 };
  for (const c of "abcdefghijklmnopqrstuvwxyz0123456789.,!?;:'\"()[]{}<>|/\\-_+=*&%$#@^~`") { wp[c] ??= Object.keys(wp).length; wp["##" + c] ??= Object.keys(wp).length; }
  for (const c of "中文本日語éàабвпривет한국") wp[c] ??= Object.keys(wp).length;
  for (const w of words) { const t = w.replace("▁", "").toLowerCase(); if (t) wp[w.startsWith("▁") ? t : "##" + t] ??= Object.keys(wp).length; }
  const bert = { normalizer: { type: "BertNormalizer", clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true }, pre_tokenizer: { type: "BertPreTokenizer" }, post_processor: { type: "BertProcessing", sep: ["[SEP]", 3], cls: ["[CLS]", 2] }, decoder: { type: "WordPiece", prefix: "##", cleanup: true }, added_tokens: [0, 1, 2, 3].map((i) => token(i, Object.keys(wp)[i])), model: { type: "WordPiece", unk_token: "[UNK]", continuing_subword_prefix: "##", max_input_chars_per_word: 100, vocab: wp } };
  const variants = [
    ["qwen3", {}], ["llama3", {}], ["gemma", {}], ["llama2", {}],
    ["qwen3", { name: "qwen3.5", pre_tokenizer: seq(split(QWEN35), byteLevel()) }],
    ["qwen3", { name: "o200k", normalizer: null, pre_tokenizer: seq(split(O200K), byteLevel()) }],
    ["qwen3", { name: "o200k-removed", normalizer: null, pre_tokenizer: seq(split(O200K, "Removed", true), byteLevel()) }],
    ["qwen3", { name: "gpt2", normalizer: null, pre_tokenizer: byteLevel(false, true) }],
    ["qwen3", { name: "gpt2-prefix", normalizer: null, pre_tokenizer: byteLevel(true, true), post_processor: { type: "RobertaProcessing", sep: ["<|im_end|>", 9], cls: ["<|im_start|>", 8], trim_offsets: true, add_prefix_space: true } }],
    ["qwen3", { name: "smollm", normalizer: null, pre_tokenizer: seq({ type: "Digits", individual_digits: true }, byteLevel(false, true)) }],
    ["qwen3", { name: "deepseek3", normalizer: { type: "Sequence", normalizers: [] }, pre_tokenizer: seq(split("\\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEP3), byteLevel()) }],
    ["qwen3", { name: "deepseek-coder", normalizer: null, pre_tokenizer: seq(split("[\r\n]"), split("\\s?\\p{L}+"), split("\\s?\\p{P}+"), split("[一-龥ࠀ-一가-퟿]+"), { type: "Digits", individual_digits: true }, byteLevel()) }],
    ["qwen3", { name: "nfkc-lower", normalizer: { type: "Sequence", normalizers: [{ type: "NFKC" }, { type: "Lowercase" }, { type: "Strip", strip_left: true, strip_right: true }] } }],
    ["qwen3", { name: "nfd", normalizer: { type: "Sequence", normalizers: [{ type: "NFD" }] } }],
    ["qwen3", { name: "nfkd", normalizer: { type: "NFKD" } }],
    ["qwen3", { name: "replace", normalizer: { type: "Sequence", normalizers: [{ type: "Replace", pattern: { Regex: "\\s+" }, content: " " }, { type: "Replace", pattern: { String: "ll" }, content: "L" }] } }],
    ["qwen3", { name: "behaviors", pre_tokenizer: seq(split("[aeiou]+", "MergedWithPrevious"), split("[,.]", "MergedWithNext"), split("[!-/]", "Contiguous"), byteLevel()) }],
    ["qwen3", { name: "whitespace-split", pre_tokenizer: seq({ type: "WhitespaceSplit" }, byteLevel()) }],
    ["qwen3", { name: "flags", added_tokens: flags }],
    ["qwen3", { name: "flags-lower", normalizer: { type: "Lowercase" }, added_tokens: flags }],
    ["llama2", { name: "metaspace-first", normalizer: null, pre_tokenizer: metaspace("first", false), decoder: { type: "Sequence", decoders: [{ type: "Metaspace", replacement: "▁", prepend_scheme: "first", split: false }] } }],
    ["llama2", { name: "metaspace-always", normalizer: null, pre_tokenizer: metaspace("always", true), decoder: { type: "Metaspace", replacement: "▁", prepend_scheme: "always", split: true } }],
    ["llama2", { name: "no-fallback", model: { ...bases.llama2.model, byte_fallback: false, fuse_unk: true } }],
    ["llama2", { name: "no-fuse", model: { ...bases.llama2.model, byte_fallback: false, fuse_unk: false } }],
    ["llama2", { name: "unigram", normalizer: { type: "Sequence", normalizers: [{ type: "NFKC" }, { type: "Replace", pattern: { Regex: " {2,}" }, content: " " }] }, pre_tokenizer: metaspace("always", true), decoder: { type: "Metaspace", replacement: "▁", prepend_scheme: "always", split: true }, model: { type: "Unigram", unk_id: 0, vocab: uni, byte_fallback: false } }],
    ["llama2", { name: "unigram-bytes", normalizer: null, pre_tokenizer: metaspace("never", false), decoder: { type: "Sequence", decoders: [{ type: "Replace", pattern: { String: "▁" }, content: " " }, { type: "ByteFallback" }, { type: "Fuse" }] }, model: { type: "Unigram", unk_id: 0, vocab: uni, byte_fallback: true } }],
    ["qwen3", { name: "precompiled", normalizer: { type: "Precompiled", precompiled_charsmap: charsmap({ "ﬁ": "fi", "ﬂ": "fl", "①": "1", "…": "...", "\t": " ", "\u00a0": " ", "e\u0301": "é", "É": "e", "日": "sun ", "本": "", "A": "a", "½": "1/2", "\u200b": "", "🙂": ":)", "한": "han" }) } }],
    ["llama2", { name: "wordpiece", ...bert }],
  ];
  const list = hard();
  const golden = [];
  for (const [base, { name = base, ...patch }] of variants) {
    const tok = Tokenizer.fromString(JSON.stringify({ ...bases[base], ...patch }));
    const h = (x) => createHash("sha256").update(x).digest("hex").slice(0, 8);
    let ids = "", text = "";
    for (const s of list) {
      const e = (await tok.encode(s, null, { addSpecialTokens: false })).getIds();
      ids += h(e.join(","));
      text += h([...Buffer.from(await tok.decode(e, false))].join(","));
    }
    // The vocabularies of the models that replace a base's are too large to repeat in full.
    golden.push({ name, base, patch, ids, text, prefix: (await tok.encode("", null, { addSpecialTokens: true })).getIds() });
    console.log(name);
  }
  for (const g of golden) {
    if (g.name === "no-fallback" || g.name === "no-fuse") { g.model = { byte_fallback: false, fuse_unk: g.name === "no-fallback" }; delete g.patch.model; }
    if (g.name === "unigram-bytes") { g.modelOf = "unigram"; g.model = { byte_fallback: true }; delete g.patch.model; }
  }
  gz("small.json.gz", golden);
}
