#!/bin/bash
# The software card beside llama.cpp's CPU build, as npm's node-llama-cpp ships it: the same made-up weights, in turn, on two threads and one, with
# bf16, eight and four bits. Says so aloud where node is missing, or the package cannot be had. REPEATS, TOKENS, THREADS and KINDS narrow it;
# STRICT=1 fails where an aim is missed.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v node >/dev/null && command -v npm >/dev/null || { echo "SKIPPED, not measured: no node (apt-get install nodejs npm)"; exit 0; }
axle=${AXLE:-bin/axle}
[ -x "$axle" ] || { echo "no $axle: make build" >&2; exit 1; }
out=build/llamacpp
mkdir -p "$out"
[ -f "$out/package.json" ] || echo '{"private": true}' >"$out/package.json"
if [ ! -d "$out/node_modules/node-llama-cpp" ]; then
	(cd "$out" && npm install --no-audit --no-fund --ignore-scripts node-llama-cpp@3.22.1 >npm.log 2>&1) || { tail -3 "$out/npm.log"; echo "SKIPPED, not measured: npm cannot fetch node-llama-cpp"; exit 0; }
fi
[ -f "$out/int4.gguf" ] || node testdata/llamacpp/make.mjs "$out"
for kind in ${KINDS:-bf16 int8 int4}; do
	[ -f "$out/$kind/made_post.axmodel" ] || { rm -rf "${out:?}/$kind"; "$axle" compile "$out/hf" "$out/$kind" --quant "$kind" --name made 2>/dev/null; }
done
go build -o "$out/soft" ./testdata/llamacpp
node testdata/llamacpp/run.mjs "$out" "$out/soft" "$out"
