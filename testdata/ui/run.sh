#!/bin/bash
# The page in headless Chromium: quick (CI), whole (with pocket, pictures in build/ui, axe-core and what it costs) soak (an hour of streams)
# or docs (the pictures of README and docs).
# Its main paths in Firefox are in whole too. Says so aloud where node, Chromium or Firefox is missing. Names of tests may follow.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v node >/dev/null || { echo "SKIPPED: there is no node here"; exit 0; }
[ -x "${AXLE_SCRIPTED:-bin/axle-scripted}" ] || { echo "no bin/axle-scripted: make scripted" >&2; exit 1; }
exec node --experimental-websocket testdata/ui/all.mjs "${@:-whole}"
