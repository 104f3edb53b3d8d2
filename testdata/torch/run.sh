#!/bin/bash
# The software card beside PyTorch: the same made-up checkpoint of 0.13 billion bf16 parameters, the same questions, in turn, on one and on two
# threads, PyTorch computing in bf16 and in float32. Says so aloud where python3-torch is missing; fails where PyTorch makes more tokens a second.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import torch' 2>/dev/null || { echo "SKIPPED, not measured: no PyTorch (apt-get install python3-torch libopenblas0-pthread)"; exit 0; }
axle=${AXLE:-bin/axle}
[ -x "$axle" ] || { echo "no $axle: make build" >&2; exit 1; }
out=build/torch
mkdir -p "$out"
rm -f "$out"/?-*.json
[ -f "$out/hf/model.safetensors" ] || "$python" testdata/torch/make.py "$out/hf"
[ -f "$out/pkg/config.json" ] || "$axle" compile --from "$out/hf" --out "$out/pkg" --name torch --context 1023 2>/dev/null
server=
trap '[ -z "$server" ] || { kill $server; wait $server; } 2>/dev/null || true' EXIT
for threads in ${THREADS:-2 1}; do
	for dtype in bfloat16 float32; do
		port=$((20000 + RANDOM % 20000))
		OMP_NUM_THREADS=$threads "$python" testdata/torch/serve.py "$out/hf" $port $dtype >"$out/log" 2>&1 &
		server=$!
		until grep -q threads "$out/log"; do kill -0 $server || { cat "$out/log" >&2; exit 1; }; sleep 0.2; done
		GOMAXPROCS=$threads "$axle" bench "$out/pkg" --device soft --speculate off -p 32 -n "${TOKENS:-48}" -c 1 -r "${REPEATS:-8}" --against ollama "http://127.0.0.1:$port" --json >"$out/$threads-$dtype.json"
		kill $server
		wait $server 2>/dev/null || true
		server=
	done
done
"$python" - "$out"/?-*.json <<'END'
import json, sys
slower = False
for name in sys.argv[1:]:
    case, = json.load(open(name))["models"][0]["against"]["cases"]
    print(f"{name}: prompt {case['here']['prompt_tokens']} and {case['there']['prompt_tokens']} tokens, {case['here']['tokens']} and {case['there']['tokens']} out")
    for key, text, more in ("decode_tps", "tokens/s after the first", True), ("whole_tps", "tokens/s with the prompt", True), ("first_token_ms", "first token ms", False):
        a, b = case["here"][key], case["there"][key]
        pairs = sorted(x / y for x, y in zip(a["values"], b["values"]))
        middle = pairs[len(pairs) // 2] if len(pairs) % 2 else (pairs[len(pairs) // 2 - 1] + pairs[len(pairs) // 2]) / 2
        print(f"  {text:25} axle {a['median']:8.2f}  torch {b['median']:8.2f}  ratio of pairs {middle:.2f} [{pairs[0]:.2f}, {pairs[-1]:.2f}]")
        slower = slower or key == "decode_tps" and middle < 1
sys.exit("the software card is slower than PyTorch" if slower else 0)
END
