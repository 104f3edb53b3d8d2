#!/usr/bin/env bash
# Runs every fuzz target of the module for a time, six at once: fuzz.sh 30s [name…].
set -euo pipefail
cd "$(dirname "$0")/.."
time=$1
shift
list=$(grep -rn --include='*_test.go' '^func Fuzz' . | grep -v '/third_party/\|/node_modules/' | sed -E 's#^(\./.*)/[^/]+:[0-9]+:func (Fuzz[A-Za-z0-9_]+).*#\1 \2#' | sort -u)
if [ $# -gt 0 ]; then
	list=$(grep -E "$(IFS='|'; echo "$*")" <<<"$list")
fi
one() {
	log=$(mktemp)
	# Go's fuzzer now and then ends with "context deadline exceeded" and no finding, when a worker was busy at the bell: again, then.
	for try in 1 2 3; do
		if GOMEMLIMIT=2GiB go test -tags nomsgpack -run '^$' -fuzz "^$2\$" -fuzztime "$time" -parallel 1 -fuzzminimizetime 1x "$1" >"$log" 2>&1; then
			echo "ok    $2 ($(grep -oE 'execs: [0-9]+' "$log" | tail -1))"
			rm -f "$log"
			return
		fi
		if grep -q 'Failing input written\|panic: ' "$log" || ! grep -q 'context deadline exceeded' "$log"; then
			break
		fi
	done
	echo "FAIL  $2"
	cat "$log"
	rm -f "$log"
	exit 255
}
export -f one
export time
xargs -P6 -L1 bash -c 'one "$0" "$1"' <<<"$list"
