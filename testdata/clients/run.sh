#!/bin/bash
# Runs clients we did not write against the scripted server.
#   run.sh ci    the Go clients, and npm ollama and openai
#   run.sh all   and: the other npm clients, the ollama CLI and Ollama's own integration suite
# Wants bin/axle-scripted (make scripted). What needs node says so aloud where there is none, and is passed over.
set -euo pipefail
cd "$(dirname "$0")/../.."
mode=${1:-ci}
server=${AXLE_SCRIPTED:-bin/axle-scripted}
[ -x "$server" ] || { echo "no $server: make scripted" >&2; exit 1; }
work=$(mktemp -d)
used() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
port=0 # below those that the kernel gives to clients
while [ $port = 0 ] || used $port || used $((port + 1)) || used $((port + 2)); do port=$((20000 + RANDOM % 12000)); done
AXLE_MODELS=$work/models AXLE_HOST=127.0.0.1:$port "$server" serve 2>"$work/log" &
pid=$!
pids=$pid
trap 'kill $pids 2>/dev/null || true; wait $pids 2>/dev/null || true; rm -rf "$work"' EXIT
up() { # up PORT PID: waits for a server
	for _ in $(seq 600); do
		used "$1" && return
		kill -0 "$2" || { cat "$work"/log* >&2; exit 1; }
		sleep 0.1
	done
	echo "no server answers on port $1" >&2
	exit 1
}
export AXLE_TEST_URL=http://127.0.0.1:$port
up "$port" $pid
tls=$((port + 2))
export AXLE_TEST_KEYS=$work/keys AXLE_TEST_TLS_URL=https://localhost:$tls NODE_EXTRA_CA_CERTS=$work/tls/tls/cert.pem
export AXLE_TEST_SERVER=$PWD/$server
"$server" key add --keys-file "$work/keys" first >/dev/null 2>&1 # a server wants one at least
AXLE_MODELS=$work/tls AXLE_HOST=127.0.0.1:$tls "$server" serve --tls-self-signed --keys-file "$work/keys" 2>"$work/log.tls" &
export AXLE_TEST_TLS_PID=$!
pids="$pids $!"
up "$tls" $!
axle=${AXLE_BIN:-bin/axle}
if [ -x "$axle" ]; then # the Go clients meet a real engine too: the model inside, on the soft card
	soft=$((port + 1))
	AXLE_MODELS=$work/soft AXLE_HOST=127.0.0.1:$soft "$axle" serve --device soft 2>"$work/log.soft" &
	pids="$pids $!"
	export AXLE_TEST_SOFT_URL=http://127.0.0.1:$soft
	up "$soft" $!
fi

echo "== Go: ollama/api, openai-go, anthropic-sdk-go"
(cd testdata/clients/go && go test -count=1 ./...)

if command -v node >/dev/null && command -v npm >/dev/null; then
	cd testdata/clients/npm
	omit=
	[ "$mode" = all ] || omit=--omit=optional
	[ -d node_modules/openai ] && { [ "$mode" != all ] || [ -d node_modules/ai ]; } || npm ci --no-audit --no-fund $omit || {
		[ "$mode" != all ] || exit 1
		echo "clients: npm SKIPPED, its packages cannot be had"
		exit 0
	}
	echo "== npm: ollama, openai"
	node --test ci.mjs documents.mjs
	echo "== npm: ollama, openai, by TLS and with keys"
	node --test keys.mjs
	[ "$mode" != all ] || { echo "== npm: @anthropic-ai/sdk, @langchain/ollama, ai with ollama-ai-provider-v2"; node --test more.mjs; }
	cd ../../..
else
	echo "== SKIPPED: npm clients, for there is no node here"
fi
[ "$mode" = all ] || exit 0

echo "== ollama CLI 0.34.4"
export GOBIN=$PWD/build/clients
[ -x "$GOBIN/ollama" ] || go install github.com/ollama/ollama@v0.34.4
OLLAMA_HOST=127.0.0.1:$port testdata/clients/cli.sh "$GOBIN/ollama"
if [ -n "${AXLE_TEST_SOFT_URL:-}" ]; then
	said=$(HOME=$work OLLAMA_HOST=127.0.0.1:$soft "$GOBIN/ollama" run pocket --think=false "What is in ./testdata/pocket/shapes.png" </dev/null 2>/dev/null)
	[[ $said == *'A red circle, a blue square and a yellow star.'* ]] || { echo "FAILED: ollama run with a picture says: $said" >&2; exit 1; }
	echo "ok run with a picture"
fi

echo "== Ollama's integration suite"

(cd testdata/clients/go && OLLAMA_HOST=127.0.0.1:$port OLLAMA_TEST_EXISTING=1 OLLAMA_TEST_MODEL=scripted-chat bash -e -c '
	go test -count=1 -tags=integration,fast -run "TestAPI|TestBasic|TestChat|TestContext|TestConcurrency|TestTools$" github.com/ollama/ollama/integration
	go test -count=1 -tags=integration,release -run "TestStructuredOutput|TestContext" github.com/ollama/ollama/integration')
