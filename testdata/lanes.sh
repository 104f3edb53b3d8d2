#!/usr/bin/env bash
# Runs lanes of the Makefile side by side, so that one works while another waits: lanes.sh LANE...
# Each one's output goes to build/ci/LANE.log; here is a line for each that has ended, what it passed over, and all that one said that failed.
# After a failure no other lane is begun. AXLE_LANES is how many there are at once (3); within each, one thing at a time.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build/ci
# Lanes that build the same packages do it with the same flags as a release, so that each is compiled once. The C code of the others is
# compiled with flags of their own, and its coverage is looked up by path.
release='-trimpath -buildmode=pie'
lane() {
	local log=build/ci/$1.log code=0 took
	case $1 in asan | sweep | race) ;; *) GOFLAGS="$GOFLAGS $release" ;; esac
	took=$({ TIMEFORMAT='%R %U %S'; time "$MAKE" --no-print-directory "$1" >"$log" 2>&1; } 2>&1) || code=$?
	exec 9>build/ci/lock
	flock 9
	awk -v lane="$1" -v code="$code" '{ printf "%-10s %-6s %5.0f s, %5.0f s of the processors\n", lane, code ? "FAILED" : "ok", $1, $2 + $3 }' <<<"$(tail -1 <<<"$took")"
	if [ "$code" -ne 0 ]; then
		cat "$log"
		return 255
	fi
	grep -h 'SKIPPED' "$log" | sed 's/^/           /' || true
}
export -f lane
export release MAKE=${MAKE:-make} AXLE_JOBS=1 GOFLAGS="${GOFLAGS:+$GOFLAGS }-p=1"
SECONDS=0
if ! printf '%s\n' "$@" | xargs -P"${AXLE_LANES:-3}" -I{} bash -c 'lane "$1" || exit 255' lane {}; then
	echo "ci: failed after $SECONDS s"
	exit 1
fi
echo "ci: all lanes passed in $SECONDS s"
