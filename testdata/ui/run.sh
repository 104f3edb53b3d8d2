#!/bin/bash
# The page in headless Chromium, against the scripted server; screenshots are kept in build/ui. Says so aloud where node or Chromium is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
server=${AXLE_SCRIPTED:-bin/axle-scripted}
command -v node >/dev/null || { echo "SKIPPED: there is no node here"; exit 0; }
[ -x "$server" ] || { echo "no $server: make scripted" >&2; exit 1; }
work=$(mktemp -d)
port=$((20000 + RANDOM % 20000))
AXLE_MODELS=$work/models AXLE_HOST=127.0.0.1:$port "$server" serve 2>"$work/log" &
pid=$!
trap 'kill $pid 2>/dev/null || true; wait $pid 2>/dev/null || true; rm -rf "$work"' EXIT
for _ in $(seq 100); do curl -sf "http://127.0.0.1:$port/" >/dev/null 2>&1 && break; sleep 0.1; done
node --experimental-websocket testdata/ui/page.mjs "http://127.0.0.1:$port" build/ui
