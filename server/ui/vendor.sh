#!/usr/bin/env bash
# Writes server/ui/vendor: the page's libraries from npm, each at the version and the hash that stand here, with their licences and a
# sum for every file (SUMS). What a browser cannot take as it is, is changed by the few lines below: a bare import is given its file, a
# script that sets a global name is made a module. Needs npm, openssl, tar; run it when a version changes: make ui-vendor.
set -euo pipefail
cd "$(dirname "$0")"
pins='
preact 11.2.0 sha512-/HfHI/7N84e6GrWBJ3J280z3mLaRJiDcSvj/A+y/4AbLnND/1UlGHe1sR6oYuTGwId0nP7dqDU9OnLxMPZ7xBg==
htm 3.1.1 sha512-983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==
marked 18.2.1 sha512-ii4bxCTCqqwpT86XZWgJNs+ZnAIZksmLGYMViWA7PDIXYIeNo1x6cDdX3JOip9NM/cI6p8z57FxliACboTruMA==
dompurify 3.4.18 sha512-ofe3wI/uNm68HInABYFJYqQxRw1EaKAjNdrFVKqjUY+UZurvNd2L/HuQe097s/4RivWiZyP6tT7aoT8atjfhwg==
@highlightjs/cdn-assets 11.12.0 sha512-KvOKXODaiFmId9xaq3xc5xCL66wVLUuOngDbO9B/kewbFTqdGbn2nJxNhN3H5R1cgDTVj6R8vH0zgiNDEGjpDw==
uplot 1.6.32 sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==
temml 0.13.5 sha512-aPkDDgunanpLNL0ql32HbolqLep+w8DRcVXRql7rWrMt/PhczdLgL4UBYYVU3BYjCNjkGq4EqwIicu/zWr1iOg==
'
languages='bash c cpp csharp css diff go ini java javascript json kotlin lua php python rust sql typescript xml yaml'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/out"
while read -r name version want; do
	[ -n "$name" ] || continue
	dir=$work/$(basename "$name")
	mkdir "$dir"
	file=$(cd "$dir" && npm pack --silent "$name@$version" 2>/dev/null | tail -1)
	got=sha512-$(openssl dgst -sha512 -binary "$dir/$file" | openssl base64 -A)
	[ "$got" = "$want" ] || { echo "vendor.sh: $name $version has the hash $got, not $want" >&2; exit 1; }
	tar -xzf "$dir/$file" -C "$dir" --strip-components=1
	{
		printf '%s %s\n' "$name" "$version"
		printf '%s\n\n' '--------------------------------------------------------------------------------'
		cat "$dir/LICENSE"
		printf '\n================================================================================\n'
	} >>"$work/out/LICENCES"
done <<<"$pins"

# plain FILE: without the line that names a map which is not here.
plain() { sed -e 's,//# sourceMappingURL=.*,,' "$1"; }
out=$work/out
plain "$work/preact/dist/preact.mjs" >"$out/preact.js"
plain "$work/preact/hooks/dist/hooks.mjs" | sed -e 's,from"preact",from"./preact.js",' >"$out/hooks.js"
plain "$work/htm/dist/htm.mjs" >"$out/htm.js"
plain "$work/marked/lib/marked.esm.js" >"$out/marked.js"
{ plain "$work/dompurify/dist/purify.min.js"; printf '\nexport default globalThis.DOMPurify;\n'; } >"$out/purify.js"
{ plain "$work/uplot/dist/uPlot.iife.min.js"; printf '\nexport default uPlot;\n'; } >"$out/uplot.js"
cp "$work/uplot/dist/uPlot.min.css" "$out/uplot.css"
{ plain "$work/temml/dist/temml.min.js"; printf '\nexport default temml;\n'; } >"$out/temml.js"
plain "$work/cdn-assets/es/core.min.js" >"$out/highlight.js"
for l in $languages; do plain "$work/cdn-assets/es/languages/$l.min.js" >"$out/hl-$l.js"; done
if grep -lE '^import .* from ?"[^./]|[;}]from"[^./]' "$out"/[!h]*.js "$out"/ho*.js "$out"/ht*.js >&2; then
	echo "vendor.sh: a bare import is left in these" >&2
	exit 1
fi
(cd "$out" && sha256sum -- *.js *.css LICENCES >SUMS)
rm -rf vendor
mv "$out" vendor
chmod 755 vendor
