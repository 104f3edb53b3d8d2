#!/bin/sh
# Plants the defects in testdata/mutants one by one in a copy of the repository and requires the tests to fail each time.
#   sh axcl/native/testdata/mutants.sh [NAME...]        a part of a patch's name; all without one
set -eu
top=$(cd "$(dirname "$0")/../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"
cp -r "$top/go.mod" "$top/go.sum" "$top/axcl" "$top/axmodel" "$top/internal" "$work/tree"
cd "$work/tree"
test() { go test -count=1 -short -timeout 120s -failfast -skip Oracle ./axcl/native >"$work/log" 2>&1; }
if ! test; then
	cat "$work/log" >&2
	echo "the tests fail without any planted defect" >&2
	exit 1
fi
planted=0 missed=0
for patch in "$top"/axcl/native/testdata/mutants/*.patch; do
	name=$(basename "$patch" .patch)
	if [ $# -gt 0 ]; then
		hit=
		for want; do case $name in *"$want"*) hit=1 ;; esac; done
		[ -n "$hit" ] || continue
	fi
	git apply "$patch"
	if ! go vet ./axcl/native >"$work/vet" 2>&1; then
		cat "$work/vet" >&2
		echo "$name does not build" >&2
		exit 1
	fi
	planted=$((planted + 1))
	if test; then
		missed=$((missed + 1))
		echo "MISSED  $name"
	else
		echo "caught  $name: $(grep -m1 -oE '^ *--- FAIL: [^ ]+|panic: .*|SIG[A-Z]+' "$work/log" || true)"
	fi
	git apply -R "$patch"
done
echo "$planted planted, $missed missed"
[ "$planted" -gt 0 ] && [ "$missed" -eq 0 ]
