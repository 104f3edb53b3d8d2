#!/usr/bin/env bash
# Counts the product's hand-written lines by package in two revisions: lines.sh BEFORE [AFTER]. Blank lines, comments, tests, test doubles,
# generated files and other people's files do not count.
set -euo pipefail
cd "$(dirname "$0")/.."
count() { # REV: lines of "package count"
	local paths=('*.go' '*.c' '*.h' '*.js' '*.css' '*.html' '*.sh' ':!*_test.go' ':!third_party' ':(glob,exclude)**/testdata/**'
		':(glob,exclude)**/vendor/**' ':(glob,exclude)**/*test/**' ':!axcl/simcard' ':!server/scripted')
	git grep -I -c -v -E '^[[:space:]]*(//|/\*|\*[ /]|#[^id]|$)' "$1" -- "${paths[@]}" |
		awk -F: -v generated="$(git grep -l '^// Code generated' "$1" -- "${paths[@]}" || true)" '
			BEGIN { n = split(generated, g, "\n"); for (i = 1; i <= n; i++) skip[g[i]] = 1 }
			!($1 ":" $2 in skip) { dir = $2; if (!sub("/[^/]*$", "", dir)) dir = "."; lines[dir] += $3 }
			END { for (dir in lines) print dir, lines[dir] }' | sort
}
join -a1 -a2 -e0 -o0,1.2,2.2 <(count "${1:?usage: lines.sh BEFORE [AFTER]}") <(count "${2:-HEAD}") |
	awk '{ printf "%-28s %6d %6d %+6d\n", $1, $2, $3, $3 - $2; a += $2; b += $3 }
		END { printf "%-28s %6d %6d %+6d\n", "all", a, b, b - a }'
