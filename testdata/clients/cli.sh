#!/bin/bash
# Drives an ollama CLI ($1) against the server in OLLAMA_HOST: list ps show run stop cp rm create --version, also in a terminal.
set -euo pipefail
cli=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work
want() { # want TEXT COMMAND…: the command succeeds and prints TEXT
	local text=$1 out
	shift
	out=$("$@" </dev/null 2>&1) || { echo "FAILED: $* → $out" >&2; exit 1; }
	out=$(sed 's/\x1b\[[0-9;?]*[a-zA-Z]//g' <<<"$out") # what the CLI draws
	grep -qF -- "$text" <<<"$out" || { echo "FAILED: $* does not say '$text': $out" >&2; exit 1; }
	echo "ok $*"
}
want 0.34.4 "$cli" --version
want scripted-chat:latest "$cli" list
want 'Hello there' "$cli" run scripted-chat '[[say:Hello| there]]'
want scripted-chat:latest "$cli" ps
want 'context length' "$cli" show scripted-chat
want '{{' "$cli" show scripted-chat --template
printf 'FROM scripted-chat\nSYSTEM be brief\nPARAMETER temperature 0.5\nPARAMETER stop "<END>"\nMESSAGE user hi\n' >"$work/Modelfile"
want success "$cli" create cli-made -f "$work/Modelfile"
want 'be brief' "$cli" show cli-made --system
want '<END>' "$cli" show cli-made --parameters
want copied "$cli" cp cli-made cli-copied
want cli-copied "$cli" list
want deleted "$cli" rm cli-made cli-copied
want '' "$cli" stop scripted-chat
if "$cli" run nope:1b x </dev/null >/dev/null 2>&1; then echo "FAILED: an unknown model ran" >&2; exit 1; fi
echo 'piped' | "$cli" run scripted-chat '[[say:a| pipe]]' 2>/dev/null | sed 's/\x1b\[[0-9;?]*[a-zA-Z]//g' | grep -q 'a pipe' && echo "ok piped"
if command -v script >/dev/null; then # in a terminal; the pauses are for the CLI to draw its prompt and its answer
	(sleep 6; printf '[[say:in| a| terminal]]\r'; sleep 5; printf '/bye\r'; sleep 1; printf '\004') |
		timeout 60 script -qec "$cli run scripted-chat" /dev/null >"$work/screen" 2>&1 || true
	sed 's/\x1b\[[0-9;?]*[a-zA-Z]//g' "$work/screen" | grep -q 'in a terminal' || { echo "FAILED: the terminal shows: $(cat -v "$work/screen")" >&2; exit 1; }
	echo "ok terminal"
else
	echo "SKIPPED: the terminal, for there is no script(1) here"
fi
