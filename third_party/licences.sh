#!/usr/bin/env bash
# Writes third_party/LICENCES: the licence of every module that is linked into bin/axle, or into who imports vision or audio, word for word. Run it
# when go.mod changes.
set -euo pipefail
cd "$(dirname "$0")/.."
out=third_party/LICENCES
{
	echo "axle itself is under the Apache License 2.0 (LICENSE). Linked into the program, or into what imports its packages, are:"
	{
		go version -m bin/axle | awk '$1 == "dep" {print $2, $3}'
		go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}' ./vision ./audio/...
	} | LC_ALL=C sort -u | grep . | while read -r mod ver; do
		dir=$(go list -m -f '{{.Dir}}' "$mod")
		printf '\n================================================================================\n%s %s\n' "$mod" "$ver"
		found=
		for f in "$dir"/LICENSE* "$dir"/License* "$dir"/LICENCE* "$dir"/COPYING* "$dir"/NOTICE*; do
			[ -f "$f" ] || continue
			found=1
			printf '%s\n\n' '--------------------------------------------------------------------------------'
			cat "$f"
		done
		[ -n "$found" ] || { echo "$mod has no licence file" >&2; exit 1; }
	done
	printf '\n================================================================================\nThe Go standard library and runtime\n'
	cat "$(go env GOROOT)/LICENSE"
} >"$out.new"
mv "$out.new" "$out"
