#!/bin/sh
# native and the simulated card under AddressSanitizer and UndefinedBehaviorSanitizer, the fault sweep included.
#   sh axcl/native/testdata/asan.sh [go test flags]
# Leaks are not looked for here (the leak checker cannot stop Go's threads): the tests count what is alive on both sides themselves.
set -eu
cd "$(dirname "$0")/.."
export CGO_CFLAGS="-g -O1 -fsanitize=undefined -fno-sanitize-recover=all" CGO_LDFLAGS="-fsanitize=undefined"
export AXLE_SIM_CFLAGS="-g -fsanitize=address,undefined -fno-sanitize-recover=undefined"
export AXLE_TEST_SLOW=1
export ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS:-}"
# The oracle is arithmetic of the software models, slow here; -short leaves out what measures time.
exec go test -asan -short -timeout 20m -skip Oracle "$@" .
