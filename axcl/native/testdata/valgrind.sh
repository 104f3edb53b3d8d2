#!/bin/sh
# A pass over the simulated card under valgrind's memcheck: what the sanitizers do not see, such as values that were never written.
#   sh axcl/native/testdata/valgrind.sh [go test flags]
# Go's own runtime confuses memcheck about its stacks, so only what happened in our C code counts.
set -eu
cd "$(dirname "$0")/.."
if ! command -v valgrind >/dev/null; then
	echo "valgrind: SKIPPED, it is not installed (apt-get install valgrind)" >&2
	exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_CFLAGS="-g -O1" go test -c -o "$work/native.test" .
valgrind --log-file="$work/log" --error-limit=no --undef-value-errors=yes "$work/native.test" -test.run 'TestOneCall|TestMergedCopies|TestRetry' "$@"
# A report counts when a frame of it is in one of native's files.
if awk 'BEGIN { RS = ""; bad = 0 } /\((table|table_axcl|table_axengine|model|pass|net)\.c:/ { print; print ""; bad = 1 } END { exit bad }' "$work/log"; then
	echo "valgrind: nothing found in native's C code"
else
	exit 1
fi
