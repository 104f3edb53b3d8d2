#!/usr/bin/env bash
# Says what -short leaves out: every test that asks testing.Short or is marked lane.Slow, and those that begin with a function that does.
set -euo pipefail
cd "$(dirname "$0")/.."
files=$(git ls-files '*_test.go')
owner='/^func /{ name = $2; sub(/\(.*/, "", name); if ($2 ~ /^\(/) name = $4; sub(/\(.*/, "", name) }'
asks=$(awk "$owner"' /testing\.Short\(\)|lane\.Slow\(/ { print name }' $files | sort -u)
helpers=$(grep -v '^Test' <<<"$asks" | paste -sd'|' || true)
{
	grep '^Test' <<<"$asks" || true
	[ -z "$helpers" ] || awk "$owner"' name ~ /^Test/ && /(^|[^A-Za-z])('"$helpers"')\(/ { print name }' $files
} | sort -u | paste -sd' ' | fold -s -w 140 | sed '1s/^/left out by -short, and run by make test: /'
