#!/bin/bash
# What profiling costs when it is off: the instructions of 32 tokens on the software card within the engine's step, the pass included, with the
# hooks of profiling and in a build without them (tag notrace). They are counted by valgrind, since a count does not depend on what else the
# machine does. Fails at one per cent.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v valgrind >/dev/null || { echo "SKIPPED, not measured: no valgrind (apt-get install valgrind)"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 go test -c -tags nomsgpack -o "$work/with" ./engine/bench
CGO_ENABLED=0 go test -c -tags nomsgpack,notrace -o "$work/without" ./engine/bench
count() { # the most of three: now and then valgrind loses a pass, or does not survive a signal that Go's runtime sends itself
	local most=0 n
	for _ in 1 2 3; do
		GOMAXPROCS=1 GOGC=off GODEBUG=asyncpreemptoff=1 AXLE_BENCH_TOKENS=32 valgrind --tool=callgrind --toggle-collect='*engine.(*lm).step' --callgrind-out-file=/dev/null \
			"$1" -test.run 'TestTokens$' >"$work/log" 2>&1 || continue
		n=$(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$work/log")
		[ "${n:-0}" -le "$most" ] || most=$n
	done
	[ "$most" -gt 0 ] || { cat "$work/log" >&2; return 1; }
	echo "$most"
}
with=$(count "$work/with")
without=$(count "$work/without")
awk -v a="$with" -v b="$without" 'BEGIN {cost = 100 * (a - b) / b; printf "32 tokens: %d instructions with the hooks, %d without: %+.3f %%\n", a, b, cost; exit cost >= 1}'
