#!/usr/bin/env bash
# Cross-builds for arm64 and runs the card's suites under qemu-user: arm64.sh TAGS LDFLAGS. Installs Debian's cross toolchain and qemu where
# they are missing and may be installed; says so and passes where they may not.
set -euo pipefail
cd "$(dirname "$0")/.."
tags=$1 ldflags=$2
if ! command -v aarch64-linux-gnu-gcc >/dev/null || ! command -v qemu-aarch64 >/dev/null; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		apt-get install -y --no-install-recommends gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user >/dev/null
	else
		echo "arm64: SKIPPED: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
		exit 0
	fi
fi
export CGO_ENABLED=1 GOARCH=arm64 CC=aarch64-linux-gnu-gcc
mkdir -p build/arm64
go build -trimpath -buildvcs=false -tags "$tags" -ldflags "$ldflags" -o build/arm64/axle ./cmd/axle
export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
qemu-aarch64 build/arm64/axle --version
top=$PWD
echo "== axcl/soft/kernel under qemu, on processors without and with the dot product"
CGO_ENABLED=0 go test -tags "$tags" -c -o build/arm64/test ./axcl/soft/kernel
for cpu in cortex-a53:NEON cortex-a76:NEON+dotprod; do
	(cd axcl/soft/kernel && AXLE_TEST_KERNELS=${cpu#*:} qemu-aarch64 -cpu "${cpu%:*}" "$top/build/arm64/test" -test.short -test.timeout 20m)
done
for pkg in axcl axmodel axcl/soft axcl/native; do
	echo "== $pkg under qemu"
	go test -tags "$tags" -c -o build/arm64/test "./$pkg"
	# The sweep and the oracle take an hour under emulation, and find nothing of the processor.
	(cd "$pkg" && qemu-aarch64 "$top/build/arm64/test" -test.short -test.timeout 20m \
		-test.skip "TestSweep|TestOracle|TestHostShare|TestAbilities")
done
echo "== pocket's goldens under qemu"
go test -tags "$tags" -c -o build/arm64/test ./models/pocket
(cd models/pocket && qemu-aarch64 "$top/build/arm64/test" -test.timeout 20m -test.run 'TestGoldens$')
