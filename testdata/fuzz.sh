#!/usr/bin/env bash
# Runs every fuzz target of the module for a time, two at once: fuzz.sh 30s [name…]. AXLE_JOBS is another number at once.
set -euo pipefail
cd "$(dirname "$0")/.."
time=$1
shift
list=$(grep -rn --include='*_test.go' '^func Fuzz' . | grep -v '/third_party/\|/node_modules/' | sed -E 's#^\./(.*)/[^/]+:[0-9]+:func (Fuzz[A-Za-z0-9_]+).*#\1 \2#' | sort -u)
if [ $# -gt 0 ]; then
	list=$(grep -E "$(IFS='|'; echo "$*")" <<<"$list")
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
module=$(go list -m)
# A run of seconds begins with the seeds: there is no time for all that former runs found, which is where a longer one begins. And it counts
# what is covered of our own packages only: -fuzz compiles all others anew for that, which takes longer than the runs.
found=$work/corpus counts=(-gcflags="$module/...=-d=libfuzzer")
case $time in ?s) ;; *) found=$(go env GOCACHE)/fuzz/$module counts=(-fuzz .) ;; esac
# Each package's program is built once, for all of its targets.
while read -r package; do
	mkdir -p "$work/$package"
	go test -c -tags nomsgpack -vet=off -ldflags='-s -w' "${counts[@]}" -o "$work/$package/fuzz.test" "./$package"
done < <(cut -d' ' -f1 <<<"$list" | sort -u)
one() {
	log=$work/$1/$2.log long=$time
	# Go's fuzzer now and then ends with "context deadline exceeded" and no finding, when a worker was busy at the bell: again, then.
	for try in 1 2 3; do
		if (cd "$1" && GOMEMLIMIT=2GiB "$work/$1/fuzz.test" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$long" -test.parallel 1 \
			-test.fuzzminimizetime 1x -test.fuzzcachedir "$found/$1") >"$log" 2>&1; then
			if ! grep -q 'execs: ' "$log" && [ "$try" -lt 3 ]; then # on a busy machine the time may not do for the seeds
				long=30s
				continue
			fi
			echo "ok    $2 ($(grep -oE 'execs: [0-9]+' "$log" | tail -1))"
			return
		fi
		if grep -q 'Failing input written\|panic: ' "$log" || ! grep -q 'context deadline exceeded' "$log"; then
			break
		fi
	done
	echo "FAIL  $2"
	cat "$log"
	exit 255
}
export -f one
export time work found
xargs -P"${AXLE_JOBS:-2}" -L1 bash -c 'one "$0" "$1"' <<<"$list"
