#!/usr/bin/env bash
# Makes dist/axle-VERSION-linux-ARCH.tar.gz of a built binary, the same bytes for the same input: dist.sh VERSION ARCH BINARY.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1 arch=$2 binary=$3
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1767225600)}
name=axle-$version-linux-$arch
umask 022
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
install -D -m 755 "$binary" "$root/$name/axle"
for f in README.md LICENSE third_party/LICENCES CHANGELOG.md packaging/axle.service packaging/70-axle.rules packaging/axle.env; do
	install -m 644 "$f" "$root/$name/$(basename "$f")"
done
mkdir -p dist
tar -C "$root" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" -cf - "$name" | gzip -9n >"dist/$name.tar.gz"
(cd dist && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
