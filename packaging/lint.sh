#!/usr/bin/env bash
# Has lintian look at packages: lint.sh DEB… An error or a warning is a failure. Where lintian is missing that is said, and passes as
# skipped.
set -euo pipefail
command -v lintian >/dev/null || { echo "deb-test: lintian SKIPPED: apt-get install lintian"; exit 0; }
as=()
[ "$(id -u)" != 0 ] || as=(--allow-root)
for deb; do
	lintian "${as[@]}" --profile debian --fail-on error,warning "$deb"
	echo "deb-test: lintian finds nothing in $(basename "$deb")"
done
