#!/bin/sh
# (Assertions are left out: a true one has a branch that nothing takes.) Lines and branches of native's C code that its tests reach, by gcc's --coverage. Fails under 100 % of lines or 98 % of branches.
#   sh axcl/native/testdata/cover.sh            from the repository's root; needs gcc and gcov
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A flag of its own makes Go compile the C files anew; -work keeps the folder where the counts land, beside the objects.
export CGO_CFLAGS="-g -O0 --coverage -DNDEBUG -fprofile-update=atomic -DCOVER=$$" CGO_LDFLAGS="--coverage"
GOTMPDIR=$work go test -work -tags gcov -c -o "$work/native.test" . 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
mkdir "$work/run"
cp ./*.c ./*.h "$work/run"
"$work/native.test" -test.skip Oracle >"$work/test.log" || { tail -40 "$work/test.log" >&2; exit 1; }
dir=$(dirname "$(find "$work" -name '*.gcno' | xargs grep -l 'axn_run' | head -1)")
cd "$work/run"
for f in "$dir"/*.gcno; do gcov -b -c -o "$dir" "${f%.gcno}.o" >/dev/null 2>&1 || true; done
awk '
	FNR == 1 { file = FILENAME; sub(/\.gcov$/, "", file) }
	/^ *-:    0:Source:/ { source = $0; sub(/.*Source:/, "", source); keep = source ~ /(table|table_axcl|table_axengine|model|pass|rows|sharedkv|lora|linear|net|whole)\.c$/; next }
	!keep { next }
	/^ *[0-9#=-]+\*?:/ {
		split($0, part, ":"); count = part[1]; gsub(/[ *]/, "", count)
		if (count == "-") next
		lines++
		if (count ~ /^[#=]/) print source ":" part[2] + 0 ": never run" > "/dev/stderr"; else ran++
		at = part[2] + 0
	}
	/^branch/ { branches++; if ($0 ~ /never executed|taken 0/) { missed[source ":" at]++ } else taken++ }
	END {
		for (m in missed) print m ": " missed[m] " branches not taken" > "/dev/stderr"
		if (!lines || !branches) { print "no counts were found"; exit 1 }
		printf "C lines %.2f %% (%d of %d), branches %.2f %% (%d of %d)\n", 100 * ran / lines, ran, lines, 100 * taken / branches, taken, branches
		exit !(ran == lines && taken >= 0.98 * branches)
	}' ./*.gcov
