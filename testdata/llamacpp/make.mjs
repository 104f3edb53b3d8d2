// Makes a checkpoint of 0.135 billion made-up parameters (SmolLM2-135M's shape) as safetensors, and from it the GGUF files of llama.cpp:
// make.mjs DIR. Weights are the same everywhere; GGUF's q and k have their rows in the order of its rotation.
import fs from "node:fs";
import path from "node:path";

const dir = process.argv[2];
const layers = 30, hidden = 576, heads = 9, kv = 3, hd = 64, inter = 1536, vocab = 49152, eps = 1e-5, context = 2047;
fs.mkdirSync(path.join(dir, "hf"), { recursive: true });

// Random values, the same in every run; a table is enough to draw from.
let state = 88172645463325252n;
const table = new Uint16Array(1 << 18);
const f32 = new Float32Array(1), u32 = new Uint32Array(f32.buffer);
const bf16 = (v) => { f32[0] = v; return (u32[0] + 0x7fff + ((u32[0] >>> 16) & 1)) >>> 16; };
const wide = (b) => { u32[0] = b << 16; return f32[0]; };
for (let i = 0; i < table.length; i++) {
	let sum = 0;
	for (let k = 0; k < 4; k++) {
		state ^= (state << 13n) & 0xffffffffffffffffn; state ^= state >> 7n; state ^= (state << 17n) & 0xffffffffffffffffn;
		sum += Number(state & 0xffffffn) / 0x1000000 - 0.5;
	}
	table[i] = bf16(sum * 0.07);
}
let drawn = 0;
const matrix = (rows, cols) => {
	const m = new Uint16Array(rows * cols);
	drawn += 7919;
	for (let i = 0; i < m.length; i++) m[i] = table[(drawn + i * 3 + (i >> 18) * 5) & (table.length - 1)];
	return m;
};
const tensors = []; // name here, name in GGUF, rows, cols, values as bf16; heads that are turned
const one = bf16(1);
const add = (name, gguf, rows, cols, turn) => tensors.push({ name, gguf, rows, cols, turn, data: rows === 1 ? new Uint16Array(cols).fill(one) : matrix(rows, cols) });
add("model.embed_tokens.weight", "token_embd.weight", vocab, hidden);
for (let l = 0; l < layers; l++) {
	const p = `model.layers.${l}.`, g = `blk.${l}.`;
	add(p + "input_layernorm.weight", g + "attn_norm.weight", 1, hidden);
	add(p + "self_attn.q_proj.weight", g + "attn_q.weight", heads * hd, hidden, heads);
	add(p + "self_attn.k_proj.weight", g + "attn_k.weight", kv * hd, hidden, kv);
	add(p + "self_attn.v_proj.weight", g + "attn_v.weight", kv * hd, hidden);
	add(p + "self_attn.o_proj.weight", g + "attn_output.weight", hidden, heads * hd);
	add(p + "post_attention_layernorm.weight", g + "ffn_norm.weight", 1, hidden);
	add(p + "mlp.gate_proj.weight", g + "ffn_gate.weight", inter, hidden);
	add(p + "mlp.up_proj.weight", g + "ffn_up.weight", inter, hidden);
	add(p + "mlp.down_proj.weight", g + "ffn_down.weight", hidden, inter);
}
add("model.norm.weight", "output_norm.weight", 1, hidden);

const bytes = (a) => Buffer.from(a.buffer, a.byteOffset, a.byteLength);
const write = (name, f) => { const fd = fs.openSync(path.join(dir, name), "w"); f((b) => fs.writeSync(fd, b)); fs.closeSync(fd); };

fs.writeFileSync(path.join(dir, "hf/config.json"), JSON.stringify({ architectures: ["LlamaForCausalLM"], model_type: "llama", hidden_size: hidden, num_hidden_layers: layers, num_attention_heads: heads,
	num_key_value_heads: kv, head_dim: hd, intermediate_size: inter, vocab_size: vocab, rms_norm_eps: eps, rope_theta: 10000, max_position_embeddings: 2048, tie_word_embeddings: true, hidden_act: "silu", torch_dtype: "bfloat16" }));
write("hf/model.safetensors", (out) => {
	const header = {};
	let at = 0;
	for (const t of tensors) { header[t.name] = { dtype: "BF16", shape: t.rows === 1 ? [t.cols] : [t.rows, t.cols], data_offsets: [at, at += t.data.byteLength] }; }
	let h = JSON.stringify(header);
	h += " ".repeat((8 - h.length % 8) % 8);
	const n = Buffer.alloc(8);
	n.writeBigUInt64LE(BigInt(h.length));
	out(n); out(Buffer.from(h));
	for (const t of tensors) out(bytes(t.data));
});

// f16 bits of a positive or negative normal number; scales are nothing else.
const half = (v) => { f32[0] = v; const b = u32[0], e = ((b >>> 23) & 255) - 112; return e <= 0 ? 0 : ((b >>> 16) & 0x8000) | (e << 10) | ((b >>> 13) & 0x3ff); };
const q8 = (x) => { // blocks of 32: f16 scale, 32 int8
	const out = Buffer.alloc(x.length / 32 * 34);
	for (let b = 0; b < x.length / 32; b++) {
		let top = 0;
		for (let i = 0; i < 32; i++) top = Math.max(top, Math.abs(x[b * 32 + i]));
		out.writeUInt16LE(half(top / 127), b * 34);
		for (let i = 0; i < 32; i++) out.writeInt8(top ? Math.round(x[b * 32 + i] * 127 / top) : 0, b * 34 + 2 + i);
	}
	return out;
};
const q4 = (x) => { // blocks of 32: f16 scale, 16 bytes
	const out = Buffer.alloc(x.length / 32 * 18);
	for (let b = 0; b < x.length / 32; b++) {
		let top = 0;
		for (let i = 0; i < 32; i++) if (Math.abs(x[b * 32 + i]) > Math.abs(top)) top = x[b * 32 + i];
		const d = top / -8, level = (v) => Math.max(0, Math.min(15, d ? Math.round(v / d) + 8 : 8));
		out.writeUInt16LE(half(d), b * 18);
		for (let i = 0; i < 16; i++) out[b * 18 + 2 + i] = level(x[b * 32 + i]) | level(x[b * 32 + i + 16]) << 4;
	}
	return out;
};

// GGUF, version 3.
function gguf(name, kind) {
	const parts = [];
	const u32b = (v) => { const b = Buffer.alloc(4); b.writeUInt32LE(v); return b; }, u64b = (v) => { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(v)); return b; };
	const fl = (v) => { const b = Buffer.alloc(4); b.writeFloatLE(v); return b; }, str = (s) => { const b = Buffer.from(s); return Buffer.concat([u64b(b.length), b]); };
	let keys = 0;
	const put = (key, type, value) => { keys++; parts.push(str(key), u32b(type), value); };
	const array = (key, type, values, f) => put(key, 9, Buffer.concat([u32b(type), u64b(values.length), ...values.map(f)]));
	put("general.architecture", 8, str("llama"));
	put("general.name", 8, str("made up"));
	for (const [k, v] of Object.entries({ block_count: layers, context_length: 2048, embedding_length: hidden, feed_forward_length: inter, "attention.head_count": heads, "attention.head_count_kv": kv, "rope.dimension_count": hd, vocab_size: vocab })) put("llama." + k, 4, u32b(v));
	put("llama.attention.layer_norm_rms_epsilon", 6, fl(eps));
	put("llama.rope.freq_base", 6, fl(10000));
	put("tokenizer.ggml.model", 8, str("llama"));
	const tokens = Array.from({ length: vocab }, (_, i) => i < 3 ? ["<unk>", "<s>", "</s>"][i] : i < 259 ? `<0x${(i - 3).toString(16).toUpperCase().padStart(2, "0")}>` : `t${i}`);
	array("tokenizer.ggml.tokens", 8, tokens, str);
	array("tokenizer.ggml.scores", 6, tokens, (_, i) => fl(-i));
	array("tokenizer.ggml.token_type", 5, tokens.map((_, i) => i === 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1), u32b);
	put("tokenizer.ggml.bos_token_id", 4, u32b(1));
	put("tokenizer.ggml.eos_token_id", 4, u32b(2));
	let at = 0;
	const infos = [], data = [];
	for (const t of tensors) {
		let x = t.data;
		if (t.turn) { // halves of a head become pairs
			x = new Uint16Array(t.data.length);
			for (let h = 0; h < t.turn; h++) for (let i = 0; i < hd / 2; i++) for (let j = 0; j < 2; j++) {
				const from = (h * hd + j * hd / 2 + i) * t.cols;
				x.set(t.data.subarray(from, from + t.cols), (h * hd + i * 2 + j) * t.cols);
			}
		}
		// The head, which is the embedding table here, keeps eight bits beside four, as ours does.
		const type = t.rows === 1 ? 0 : kind === 2 && t.gguf === "token_embd.weight" ? 8 : kind;
		const values = type === 30 ? null : Float32Array.from(x, wide);
		const b = { 0: () => bytes(values), 30: () => bytes(x), 8: () => q8(values), 2: () => q4(values) }[type]();
		const dims = t.rows === 1 ? [t.cols] : [t.cols, t.rows];
		infos.push(str(t.gguf), u32b(dims.length), ...dims.map(u64b), u32b(type), u64b(at));
		const pad = (32 - b.length % 32) % 32;
		data.push(b, Buffer.alloc(pad));
		at += b.length + pad;
	}
	write(name, (out) => {
		const head = Buffer.concat([Buffer.from("GGUF"), u32b(3), u64b(tensors.length), u64b(keys), ...parts, ...infos]);
		out(head);
		out(Buffer.alloc((32 - head.length % 32) % 32));
		for (const b of data) out(b);
	});
}
gguf("bf16.gguf", 30);
gguf("int8.gguf", 8);
gguf("int4.gguf", 2);
