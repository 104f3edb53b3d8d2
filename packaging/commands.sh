#!/bin/bash
# Types the commands of documentation pages as its reader would: commands.sh PAGE... It runs in the chroot that chroot.sh makes, as root,
# with the package installed, and starts the server as the service's user. Each command must succeed or say what chroot.sh's machine lacks
# (a card, a network, a file of the reader's): the last words of its error are in the table below. Models are copies of pocket.
set -u
export HOME=/root
fail() { echo "commands: FAILED: $*"; exit 1; }

# What a command that cannot work here says.
lacks='doctor$|No card can be used
pull [a-zA-Z]|there is no network
serve |another server is running there
verify$|This works: sudo -u axle AXLE_MODELS=
cache clear |has left nothing on disk
compile |no such file or directory
bench --compare |no such file or directory
--device axcl|AXCL runtime is not installed'

useradd -m reader
install -d -o axle -g axle /var/lib/axle /var/lib/axle/models
mkdir -p /tmp/bin
export PATH=/tmp/bin:$PATH
cat >/tmp/bin/systemctl <<'S'
#!/bin/bash
case $1 in
stop) kill "$(cat /tmp/server.pid)" && while kill -0 "$(cat /tmp/server.pid)" 2>/dev/null; do sleep 0.1; done ;;
restart) systemctl stop && systemctl start ;;
start)
	set -a && . /etc/axle/axle.env && set +a
	setpriv --reuid axle --regid axle --init-groups env HOME=/var/lib/axle AXLE_MODELS=/var/lib/axle/models axle serve >>/tmp/serve 2>&1 &
	echo $! >/tmp/server.pid
	for _ in {1..300}; do axle list >/dev/null 2>&1 && exit; sleep 0.1; done
	cat /tmp/serve
	exit 1 ;;
*) exit 1 ;;
esac
S
cat >/tmp/bin/sudo <<'S'
#!/bin/bash
[ "$1" = -u ] && exec setpriv --reuid "$2" --regid "$2" --init-groups env "${@:3}"
exec env "$@"
S
chmod +x /tmp/bin/*
systemctl start || fail "the server does not start"
for name in qwen3:0.6b qwen3:1.7b qwen3:4b; do axle cp pocket $name >/dev/null || fail "cp pocket $name"; done
cd /home/reader
typed=0
for page in "$@"; do
	awk '/^```/ { inside = !inside && ($0 == "```" || $0 ~ /^```sh/); next } inside && /^(axle|sudo) /' "$page" |
		sed 's/  *#.*//' >/tmp/typed
	while read -r line; do
		who=(setpriv --reuid reader --regid reader --clear-groups env HOME=/home/reader USER=reader)
		[ "${line#sudo }" = "$line" ] || who=()
		typed=$((typed + 1)) code=0
		timeout 300 "${who[@]}" bash -c "$line" </dev/null >/tmp/out 2>&1 || code=$?
		if [ $code != 0 ]; then
			said=$(while IFS='|' read -r what says; do [[ "axle ${line#*axle }" =~ $what ]] && echo "$says"; done <<<"$lacks" | head -1)
			if [ -z "$said" ] || ! tr '\n' ' ' </tmp/out | grep -qF -- "$said"; then
				cat /tmp/out
				fail "$page: $line: ended with $code"
			fi
			line+=": ${said}"
		fi
		echo "commands: $line"
	done </tmp/typed
done
[ $typed -ge 30 ] || fail "only $typed commands were found in $*"
systemctl stop
userdel -r reader 2>/dev/null
rm -rf /tmp/bin /tmp/out /tmp/serve /tmp/typed
