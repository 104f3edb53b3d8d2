#!/usr/bin/env bash
# Runs the software card's kernels for AVX-512 on an emulated processor that has them: avx512.sh TAGS. Bochs emulates it, a Linux kernel of
# Debian's boots on it, and what it runs are our tests (testdata/avx512). What Debian's own bochs lacks, products of bf16, a newer one has:
# it is built once from Debian's source, and kept with the kernel in the user's cache. Says so and passes where they cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
tags=$1
top=$PWD
cache=${XDG_CACHE_HOME:-$HOME/.cache}/axle/avx512
skip() { echo "avx512: SKIPPED: $*"; exit 0; }
for tool in g++ make as ld curl xz sha256sum; do
	command -v $tool >/dev/null || skip "apt-get install build-essential curl xz-utils ($tool is missing)"
done
mkdir -p "$cache"

bochs=$cache/bochs-3.0/bochs
if [ ! -x "$bochs" ]; then
	source=bochs_3.0+dfsg.orig.tar.xz
	curl -sSf -o "$cache/$source" "http://deb.debian.org/debian/pool/main/b/bochs/$source" || skip "Debian's source of bochs cannot be had"
	echo "78f6c73d4a6472d5130a87ab9dc306d02c7c71ed8e25b3a8ef642e2a7acd282b  $cache/$source" | sha256sum -c --quiet
	echo "avx512: building bochs in $cache, once: about six minutes of a processor"
	tar -C "$cache" -xf "$cache/$source"
	(cd "$cache/bochs-3.0" && ./configure CFLAGS='-O2 -w' CXXFLAGS='-O2 -w' --enable-cpu-level=6 --enable-x86-64 --enable-avx \
		--enable-evex --with-nogui --without-x --disable-docbook --disable-plugins --disable-debugger --disable-readline \
		--enable-repeat-speedups --enable-fast-function-calls --enable-handlers-chaining --enable-long-phy-address >configure.log 2>&1 &&
		make -j"$(nproc)" bochs >make.log 2>&1) || { tail -5 "$cache"/bochs-3.0/*.log; echo "avx512: bochs was not built"; exit 1; }
fi

kernel=${AXLE_AVX512_KERNEL:-}
mkdir -p "$cache/kernel"
find_kernel() { find "$cache/kernel" -name 'vmlinuz-*' | sort | head -1; }
[ -n "$kernel" ] || kernel=$(find_kernel)
if [ -z "$kernel" ]; then
	command -v apt-get >/dev/null || skip "AXLE_AVX512_KERNEL=/boot/vmlinuz-… make avx512 (there is no apt-get to fetch one with)"
	name=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -1) || true
	(cd "$cache" && apt-get download "${name:-linux-image-cloud-amd64}" >/dev/null 2>&1 && dpkg -x linux-image-[0-9]*.deb kernel) ||
		skip "Debian's linux-image-cloud-amd64 cannot be had; AXLE_AVX512_KERNEL=/boot/vmlinuz-… make avx512 takes another"
	rm -f "$cache"/linux-image-*.deb
	kernel=$(find_kernel)
fi

out=$top/build/avx512
rm -rf "$out" && mkdir -p "$out"
export CGO_ENABLED=0
go build -tags "$tags" -o "$out/write" ./testdata/avx512/image
GOARCH=amd64 go build -tags "$tags" -o "$out/init" ./testdata/avx512/init
GOARCH=amd64 go test -tags "$tags" -c -o "$out/kernel" ./axcl/soft/kernel
GOARCH=amd64 go test -tags "$tags" -c -o "$out/soft" ./axcl/soft
as --32 testdata/avx512/rom.s -o "$out/rom.o"
ld -m elf_i386 -Ttext=0xffff0000 --oformat binary "$out/rom.o" -o "$out/rom.bin"
head -c 512 /dev/zero >"$out/none.bin" # the emulator insists on a graphics card's program

# boot PROGRAM WITHOUT SETS [ARGUMENT…]: its tests, on a processor without these features, and the sets that must be there, the best last.
boot() {
	local program=$1 without=$2 sets=$3
	shift 3
	echo "== $program: $sets"
	printf '%s\n' -test.short "$@" >"$out/arguments"
	printf '%s\n' "AXLE_TEST_KERNELS=$sets" >"$out/environment"
	# Without tables of a BIOS nothing is to be looked for. The kernel's memmove is wrong on a processor that says it copies short strings
	# fast and long ones not: clearcpuid takes that away.
	"$out/write" "$out/memory" "$kernel" "console=ttyS0,115200 quiet acpi=off pci=off nolapic nokaslr mitigations=off clearcpuid=580 \
panic=-1 reboot=t rdinit=/init" "$out/init=init" "$out/arguments=arguments" "$out/environment=environment" \
		"$out/$program=tests/$program"
	cat >"$out/bochsrc" <<-END
		config_interface: textconfig
		display_library: nogui
		cpu: model=sapphire_rapids, count=1, ips=200000000, reset_on_triple_fault=0, exclude_features="$without"
		memory: guest=512, host=512, block_size=8192
		romimage: file=$out/rom.bin, address=0xffff0000, options=none
		vgaromimage: file=$out/none.bin
		optramimage1: file=$out/memory, address=0x0
		vga: extension=none
		pci: enabled=0
		clock: sync=none
		com1: enabled=1, mode=file, dev=$out/said
		log: $out/log
		panic: action=fatal
		error: action=ignore
		info: action=ignore
		debug: action=ignore
	END
	rm -f "$out/said"
	# It always ends by a triple fault: with a status of its own, that says nothing.
	timeout 30m "$bochs" -q -f "$out/bochsrc" </dev/null >"$out/emulator" 2>&1 || true
	rm -f "$out/memory"
	tr -d '\r' <"$out/said" | sed -n '/^\[ *[0-9.]*\] /!p' | tee "$out/text"
	grep -qx "init: $program: passed" "$out/text" && return
	tail -3 "$out/log"
	echo "avx512: the tests of $program did not pass with $sets"
	exit 1
}

all=waitpkg,cet,mwait,uintr,pks # what the kernel would wait with, or need a table for
boot kernel "$all" AVX512+bf16,AVX512
boot kernel "$all,avx512bf16" AVX2,AVX512 -test.run 'TestParse|TestQuantise'
boot kernel "$all,avx512vnni" Go,AVX2 -test.run 'TestParse|TestQuantise'
# Of the card's own tests, those that compute and are small.
boot soft "$all" AVX512 \
	-test.run 'TestTogetherAsAlone|TestSameBits|TestLayerNet|TestLinear|TestNoAlloc|TestEmbedding|TestMachine|TestStates'
