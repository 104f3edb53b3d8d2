#!/usr/bin/env bash
# Makes dist/axle_VERSION_ARCH.deb of a built binary: deb.sh VERSION ARCH BINARY. The binary that writes man pages and completions is
# HOSTBIN (the same one where it runs here). Needs dpkg-deb; the result depends on the input only.
set -euo pipefail
cd "$(dirname "$0")/.."
maintainer='axle maintainers <maintainers@users.noreply.github.com>'
version=$1 arch=$2 binary=$3 host=${HOSTBIN:-$3}
command -v dpkg-deb >/dev/null || { echo "deb: dpkg-deb is not installed: apt-get install dpkg" >&2; exit 1; }
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1767225600)}
umask 022
root=$(mktemp -d)
chmod 755 "$root"
trap 'rm -rf "$root"' EXIT
put() { install -D -m "$1" "$2" "$root/$3"; }
put 755 "$binary" usr/bin/axle
put 644 packaging/axle.service usr/lib/systemd/system/axle.service
put 644 packaging/axle-mcp.socket usr/lib/systemd/system/axle-mcp.socket
put 644 packaging/axle-mcp@.service usr/lib/systemd/system/axle-mcp@.service
put 644 packaging/sysusers.conf usr/lib/sysusers.d/axle.conf
put 644 packaging/70-axle.rules usr/lib/udev/rules.d/70-axle.rules
put 640 packaging/axle.env etc/axle/axle.env
put 644 packaging/copyright usr/share/doc/axle/copyright
put 644 packaging/lintian-overrides usr/share/lintian/overrides/axle
put 644 third_party/LICENCES usr/share/doc/axle/LICENCES
put 644 README.md usr/share/doc/axle/README.md
# Debian's changelog: this version, and what CHANGELOG.md says first.
{
	printf 'axle (%s) unstable; urgency=medium\n\n' "$version"
	awk '/^## / { if (at++) exit; next } at && /^- / { print substr($0, 3) }' CHANGELOG.md | while IFS= read -r line; do
		fold -s -w 74 <<<"$line" | sed -e '1s/^/  * /' -e '2,$s/^/    /' -e 's/ *$//'
	done
	printf '\n -- %s  %s\n' "$maintainer" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")"
} >"$root/changelog"
put 644 "$root/changelog" usr/share/doc/axle/changelog
rm "$root/changelog"
gzip -9n "$root/usr/share/doc/axle/changelog"
mkdir -p "$root/usr/share/man/man1" "$root/usr/share/bash-completion/completions" \
	"$root/usr/share/zsh/vendor-completions" "$root/usr/share/fish/vendor_completions.d"
"$host" man "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*.1
"$host" completion bash >"$root/usr/share/bash-completion/completions/axle"
"$host" completion zsh >"$root/usr/share/zsh/vendor-completions/_axle"
"$host" completion fish >"$root/usr/share/fish/vendor_completions.d/axle.fish"
mkdir -p "$root/DEBIAN"
for s in postinst prerm postrm; do install -m 755 packaging/$s "$root/DEBIAN/$s"; done
echo /etc/axle/axle.env >"$root/DEBIAN/conffiles"
(cd "$root" && find usr -type f | LC_ALL=C sort | xargs md5sum >DEBIAN/md5sums)
cat >"$root/DEBIAN/control" <<CONTROL
Package: axle
Version: $version
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $(find "$root/usr" "$root/etc" -type f -printf '%s\n' | awk '{s += int(($1 + 1023) / 1024)} END {print s}')
Depends: libc6 (>= 2.34)
Recommends: ca-certificates
Suggests: axclhost
Section: misc
Priority: optional
Homepage: https://github.com/axle-llm/axle
Description: large language models on Axera NPUs
 A native engine for AX650N and AX8850 NPUs, on a PCIe card or on the board
 itself, that answers the Ollama, OpenAI and Anthropic APIs.
CONTROL
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
mkdir -p dist
# One thread: the blocks that several threads cut the data into depend on the machine.
XZ_DEFAULTS= dpkg-deb --root-owner-group --threads-max=1 -Zxz --build "$root" "dist/axle_${version}_${arch}.deb"
