#!/bin/bash
# Plants the defects in testdata/mutants one by one, in an overlay that touches no file, and requires the tests to fail each time.
# AXLE_JOBS is how many at once (2).
#   bash axcl/native/testdata/mutants.sh [NAME...]      a part of a patch's name; all without one
# A patch's line "caught by: TestX" names the test that is asked first; all are asked where it passes. Only the package is built anew, its
# defect in it; a defect that does not build is an error.
set -euo pipefail
top=$(cd "$(dirname "$0")/../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export top work AXLE_TEST_SLOW=1

# tests DIR RUN TIME: the tests in the program that was built there
tests() { (cd "$top/axcl/native" && "$1/native.test" -test.short -test.timeout "$3" -test.failfast -test.skip Oracle -test.run "$2" >"$1/log" 2>&1); }

plant() { # plant PATCH: "none" is the code as it is, which must pass
	name=$(basename "$1" .patch) dir=$work/$(basename "$1" .patch) first= files=
	mkdir -p "$dir/axcl/native"
	if [ "$name" != none ]; then
		cp "$top"/axcl/native/*.[ch] "$dir/axcl/native"
		(cd "$dir" && git apply "$1") || return 255
		first=$(sed -n 's/^caught by: //p' "$1")
		for f in $(sed -n 's#^+++ b/##p' "$1"); do files+="${files:+,}\"$top/$f\":\"$dir/$f\""; done
	fi
	echo "{\"Replace\":{$files}}" >"$dir/overlay"
	if ! (cd "$top" && go test -c -vet=off -ldflags='-s -w' -overlay "$dir/overlay" -o "$dir/native.test" ./axcl/native) >"$dir/log" 2>&1; then
		cat "$dir/log"
		echo "$name does not build"
		return 255
	fi
	if [ "$name" = none ]; then
		tests "$dir" . 20m || { cat "$dir/log"; echo "the tests fail without any planted defect"; return 255; }
	elif [ -n "$first" ] && ! tests "$dir" "^$first\$" 5m || ! tests "$dir" . 5m; then
		echo "caught  $name: $(grep -m1 -oE '^ *--- FAIL: [^ ]+|panic: .*|SIG[A-Z]+' "$dir/log" || true)"
	else
		echo "MISSED  $name"
	fi
	rm -rf "$dir"
}
export -f plant tests

patches=none
for patch in "$top"/axcl/native/testdata/mutants/*.patch; do
	hit=$#
	for want; do case $(basename "$patch") in *"$want"*) hit=0 ;; esac; done
	[ "$hit" -ne 0 ] && [ $# -gt 0 ] || patches+=$'\n'$patch
done
xargs -P"${AXLE_JOBS:-2}" -I{} bash -c 'plant "$1" || exit 255' plant {} <<<"$patches" | tee "$work/told"
planted=$(grep -c '^caught \|^MISSED ' "$work/told" || true) missed=$(grep -c '^MISSED ' "$work/told" || true)
echo "$planted planted, $missed missed"
[ "$planted" -eq $(($(wc -l <<<"$patches") - 1)) ] && [ "$planted" -gt 0 ] && [ "$missed" -eq 0 ]
