#!/usr/bin/env bash
# Runs every fuzz target of the module for a time, two at once: fuzz.sh 30s [name…].
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
	if GOMEMLIMIT=2GiB go test -tags nomsgpack -run '^$' -fuzz "^$2\$" -fuzztime "$time" -parallel 1 -fuzzminimizetime 1x "$1" >"$log" 2>&1; then
		echo "ok    $2 ($(grep -oE 'execs: [0-9]+' "$log" | tail -1))"
	else
		echo "FAIL  $2"
		cat "$log"
		rm -f "$log"
		exit 255
	fi
	rm -f "$log"
}
export -f one
export time
xargs -P2 -L1 bash -c 'one "$0" "$1"' <<<"$list"
