#!/usr/bin/env bash
# Installs, tries, removes and purges a package in a fresh Debian: chroot.sh ARCH DEB. Needs root, debootstrap and a Debian mirror
# (MIRROR); for another machine's ARCH qemu-user-static and the kernel's binfmt_misc too. What is missing is said, and passes as skipped.
# The base system is made once and kept in build/chroot; every trial runs in a copy, in mount and process namespaces of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
arch=$1 deb=$2 kind=emulated
[ "$arch" != "$(dpkg --print-architecture)" ] || kind=native
suite=bookworm mirror=${MIRROR:-http://deb.debian.org/debian}
skip() { echo "deb-test $arch: SKIPPED: $*"; exit 0; }
[ "$(id -u)" = 0 ] || skip "only root can make a chroot"
command -v debootstrap >/dev/null || skip "apt-get install debootstrap"
unshare --mount --pid --fork true 2>/dev/null || skip "no namespaces here"

registered=
tmp=$(mktemp -d)
cleanup() {
	umount "$tmp/base/proc" "$tmp/base/sys" 2>/dev/null || true # debootstrap leaves them where it fails
	rm -rf --one-file-system "$tmp"
	[ -z "$registered" ] || echo -1 >"$registered"
}
trap cleanup EXIT
# Programs of another machine run through qemu, which the kernel has to know. We forget again what we told it.
if [ "$arch" != "$(dpkg --print-architecture)" ]; then
	[ "$arch" = arm64 ] || skip "only arm64 is known beside this machine's own"
	command -v qemu-aarch64-static >/dev/null || skip "apt-get install qemu-user-static"
	fmt=/proc/sys/fs/binfmt_misc
	[ -e $fmt/register ] || mount -t binfmt_misc binfmt_misc $fmt 2>/dev/null || skip "the kernel has no binfmt_misc"
	if [ ! -e $fmt/qemu-aarch64 ]; then
		magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
		mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
		printf ':qemu-aarch64:M::%s:%s:%s:OCF' "$magic" "$mask" "$(command -v qemu-aarch64-static)" >$fmt/register ||
			skip "binfmt_misc takes no entry"
		registered=$fmt/qemu-aarch64
	fi
fi

base=build/chroot/$suite-$arch.tar
if [ ! -s "$base" ]; then
	mkdir -p build/chroot
	debootstrap --variant=minbase --arch="$arch" "$suite" "$tmp/base" "$mirror" >"$tmp/log" 2>&1 ||
		{ tail -5 "$tmp/log"; skip "debootstrap of $suite from $mirror failed"; }
	tar -C "$tmp/base" --one-file-system -cf "$base.part" . && mv "$base.part" "$base"
	rm -rf --one-file-system "$tmp/base"
fi
mkdir "$tmp/root"
tar -C "$tmp/root" -xf "$base"
cp "$deb" "$tmp/root/axle.deb"
cp packaging/commands.sh docs/getting-started.md docs/models.md docs/performance.md "$tmp/root/"

cat >"$tmp/root/trial.sh" <<'TRIAL'
set -eu
export HOME=/root LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin AXLE_MODELS=/tmp/models
fail() { echo "deb-test: FAILED: $*"; exit 1; }
# What dpkg keeps of every package, and users, which Debian's packages leave behind, are not counted.
list() { find /etc /usr /var /opt /lib/systemd -xdev ! -path '/var/lib/dpkg/*' ! -path '/var/log/*' \
	! -path '/var/cache/debconf*' ! -path '/etc/passwd*' ! -path '/etc/shadow*' \
	! -path '/etc/group*' ! -path '/etc/gshadow*' ! -path '/etc/subuid*' ! -path '/etc/subgid*' | sort; }
list >/tmp/before
dpkg -i /axle.deb >/tmp/said || { cat /tmp/said; fail "it does not install"; }
cat /tmp/said
grep -q "axle run pocket" /tmp/said || fail "the package does not say what to do next"
dpkg -V axle || fail "files differ from what the package says"
[ "$(stat -c %a /)" = 755 ] || fail "the root folder's mode changed"
for f in /usr/bin/axle /usr/lib/systemd/system/axle.service /usr/lib/sysusers.d/axle.conf /usr/lib/udev/rules.d/70-axle.rules \
	/etc/axle/axle.env \
	/usr/share/man/man1/axle.1.gz /usr/share/man/man1/axle-serve.1.gz /usr/share/bash-completion/completions/axle \
	/usr/share/doc/axle/copyright; do
	[ -s $f ] || [ "${f#/usr/share/man}" != "$f" ] || [ "${f#/usr/share/doc}" != "$f" ] || fail "$f is not there"
done
getent passwd axle | grep -q nologin || fail "no user axle"
axle --version
# A machine without a card: doctor ends with 1, having said what is missing.
rc=0; axle doctor >/tmp/doctor 2>&1 || rc=$?
cat /tmp/doctor
[ $rc = 1 ] && grep -q 'software card' /tmp/doctor || fail "doctor ended with $rc"
echo "-- without a server"; time axle run pocket hi >/tmp/answer; cat /tmp/answer; [ -s /tmp/answer ] || fail "no answer"
echo "-- through the server, as the service's user"
install -d -o axle -g axle /var/lib/axle /var/lib/axle/models
export AXLE_HOST=127.0.0.1:11999
setpriv --reuid axle --regid axle --clear-groups env HOME=/var/lib/axle AXLE_MODELS=/var/lib/axle/models \
	/usr/bin/axle serve --hello >/tmp/serve 2>&1 &
server=$!
n=0
until grep -qs 'Three ways' /tmp/serve; do
	n=$((n + 1))
	[ $n -lt 600 ] && kill -0 $server || { cat /tmp/serve; fail "the server does not start"; }
	sleep 0.1
done
axle list | grep -q '^pocket' || fail "list does not know pocket"
axle run pocket hi >/tmp/answer2; cmp /tmp/answer /tmp/answer2 || fail "the server answers otherwise"
kill -TERM $server; wait $server || fail "the server ended with $?"
# Emulated, the benchmarks among them take too long.
if [ "$1" = native ]; then
	echo "-- what the pages say to type"
	(unset AXLE_HOST AXLE_MODELS; bash /commands.sh /getting-started.md /models.md /performance.md) || exit 1
	rm /etc/axle/keys
fi
# An upgrade keeps the settings that someone changed, and removing keeps them too; purging leaves nothing.
echo '# mine' >>/etc/axle/axle.env
dpkg -i --force-confold /axle.deb >/dev/null
grep -q '# mine' /etc/axle/axle.env || fail "an upgrade lost the settings"
install -m 600 -o axle /dev/null /etc/axle/keys
axle key add --keys-file /etc/axle/keys --role admin ann
dpkg -r axle
[ ! -e /usr/bin/axle ] && [ -e /etc/axle/axle.env ] && [ -d /var/lib/axle ] || fail "removal"
dpkg -P axle
rm -rf /tmp/models
list >/tmp/after
diff /tmp/before /tmp/after || fail "purging left files"
TRIAL
unshare --mount --pid --fork bash -c 'mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/dev" &&
	mknod -m 666 "$1/dev/null" c 1 3 && mknod -m 666 "$1/dev/urandom" c 1 9 && mknod -m 666 "$1/dev/zero" c 1 5 &&
	exec chroot "$1" /bin/bash /trial.sh "$2"' - "$tmp/root" $kind
echo "deb-test $arch: passed"
