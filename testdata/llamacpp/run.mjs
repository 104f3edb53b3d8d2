// The software card beside llama.cpp's CPU build, in turn, pair by pair: run.mjs DIR SOFT MODULES.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [dir, soft, modules] = process.argv.slice(2);
const { getLlama } = await import(pathToFileURL(createRequire(path.resolve(modules, "x.js")).resolve("node-llama-cpp")));
const repeats = +(process.env.REPEATS || 5), tokens = +(process.env.TOKENS || 24);
const median = (x) => { x = [...x].sort((a, b) => a - b); return x.length % 2 ? x[x.length >> 1] : (x[x.length / 2 - 1] + x[x.length / 2]) / 2; };
const llama = await getLlama({ gpu: false, build: "never", logLevel: "error" });

class Soft {
	constructor(kind, threads) {
		this.child = spawn(soft, [path.join(dir, kind), threads], { stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, GOMAXPROCS: threads } });
		this.lines = createInterface(this.child.stdout)[Symbol.asyncIterator]();
	}
	async line() { const { value, done } = await this.lines.next(); if (done) throw new Error("the software card's program ended"); return value; }
	async ask(prompt, n, clients) { this.child.stdin.write(`${prompt} ${n} ${clients}\n`); return (await this.line()).split(" ").map(Number); }
	close() { this.child.stdin.end(); }
}

class Llama {
	static async open(kind, threads) {
		const l = new Llama();
		l.model = await llama.loadModel({ modelPath: path.resolve(dir, kind + ".gguf"), gpuLayers: 0 });
		l.context = await l.model.createContext({ contextSize: 2048, sequences: 8, batchSize: 512, threads: { ideal: threads, min: threads } });
		l.sequences = Array.from({ length: 8 }, () => l.context.getSequence());
		return l;
	}
	async ask(prompt, n, clients) {
		const use = this.sequences.slice(0, clients);
		for (const s of use) await s.clearHistory();
		const text = Array.from({ length: prompt }, (_, i) => 300 + i * 37 % 40000);
		let start = performance.now();
		for (const s of use) await s.evaluateWithoutGeneratingNewTokens(text);
		const fed = performance.now() - start;
		start = performance.now();
		await Promise.all(use.map(async (s) => {
			let left = n;
			for await (const _ of s.evaluate([400], { temperature: 0, yieldEogToken: true })) if (--left === 0) break;
		}));
		return [fed / 1000, (performance.now() - start) / 1000];
	}
	async close() { await this.context.dispose(); await this.model.dispose(); }
}

let slow = 0;
console.log(`medians of ${repeats} pairs, ratios with their range; a ratio above 1: the software card is faster`);
for (const threads of (process.env.THREADS || "2 1").split(" ").map(Number)) {
	for (const kind of (process.env.KINDS || "bf16 int8 int4").split(" ")) {
		const here = new Soft(kind, threads), there = await Llama.open(kind, threads);
		const kernels = (await here.line()).replace("ready ", "");
		const one = {};
		for (const [prompt, clients] of [[32, 1], [512, 1], [32, 8]]) {
			const a = [], b = [];
			for (let i = 0; i <= repeats; i++) {
				const order = i % 2 ? [[here, a], [there, b]] : [[there, b], [here, a]];
				for (const [x, to] of order) to.push(await x.ask(prompt, tokens, clients));
			}
			a.shift(), b.shift(); // the first pair warms up
			for (const [k, name, n, aim] of [[0, "prompt", prompt * clients, 0.9], [1, "decode", tokens * clients, 1]]) {
				const ours = a.map((x) => n / x[k]), theirs = b.map((x) => n / x[k]), ratios = ours.map((x, i) => x / theirs[i]);
				const middle = median(ratios);
				if (clients > 1 && k === 0) continue;
				const more = clients > 1 ? `  beside one client's: ${(median(ours) / one.ours).toFixed(2)} and ${(median(theirs) / one.theirs).toFixed(2)} times` : "";
				if (k === 1 && clients === 1 && prompt === 32) Object.assign(one, { ours: median(ours), theirs: median(theirs) });
				if (clients === 1 && middle < aim || clients > 1 && median(ours) < 4 * one.ours) slow++;
				console.log(`${threads} thread${threads > 1 ? "s" : " "} ${kind} ${(clients > 1 ? clients + " clients' " : "") + name} at ${prompt}: axle (${kernels}) ${median(ours).toFixed(1)}, llama.cpp ${median(theirs).toFixed(1)} tokens/s, ratio ${middle.toFixed(2)} [${Math.min(...ratios).toFixed(2)}, ${Math.max(...ratios).toFixed(2)}]${more}`);
			}
		}
		here.close();
		await there.close();
	}
}
console.log(slow ? `${slow} lines are below the aims: decode 1.0, prompts 0.9 of llama.cpp's, eight clients 4 times one` : "all lines reach the aims");
process.exit(slow && process.env.STRICT ? 1 : 0);
