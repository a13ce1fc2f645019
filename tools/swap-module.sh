#!/bin/bash
# Swaps the running redis-rl module for a new build, without a restart and without a moment in which
# its commands are unknown:
#
#     tools/swap-module.sh /path/to/new.so [--args "WORD WORD ..."] [-- REDIS-CLI-OPTION ...]
#
#     tools/swap-module.sh /opt/rl/libredis_rl-2.so -- -h 127.0.0.1 -p 6379
#
# All happens in one transaction, from a connection of its own: clients are hung up on, the old module
# is unloaded, the new one loaded. Clients reconnect; keys are strings (or sorted sets) that stay where
# they are. Hanging up is what makes it safe: a server keeps pointers to the last command of a
# connection and to the commands queued in its MULTI, and follows them into the module that is gone.
#
# --args     the module's arguments. Without it they are as they were, and what CONFIG SET rl.* changed
#            since is kept too. Redis 6.2 does not tell them, so there they have to be given ("" for none).
#
# Run it on the server's own machine: the path is looked at here and loaded there. A password belongs
# into REDISCLI_AUTH. NEVER copy a new build over the file that is loaded (the server would crash):
# give it another name, or rename it over the old one.
#
# Ends with 0: swapped. 1: refused, nothing was changed. 2: the new build did not load, the old one was
# loaded again. 3: neither is loaded, or the server does not answer; says what to do. 4: swapped, but a
# setting that CONFIG had changed was not taken over.
set -u

say() { printf '%s\n' "$*" >&2; }
refuse() {
	say "Refused, nothing was changed: $*"
	exit 1
}
usage() {
	sed -n '2,/^set -u/{/^#/s/^# \{0,1\}//p}' "$0" >&2
	exit 1
}

new='' arguments='' are_given=no
while [ $# -gt 0 ]; do
	case $1 in
	--args)
		[ $# -ge 2 ] || usage
		arguments=$2 are_given=yes
		shift
		;;
	--)
		shift
		break
		;;
	-*) usage ;;
	*)
		[ -z "$new" ] || usage
		new=$1
		;;
	esac
	shift
done
[ -n "$new" ] || usage
options=("$@")

ask() { redis-cli "${options[@]}" --raw "$@" 2>&1 </dev/null; }
# As redis-cli reads it back.
quoted() {
	local text=${1//\\/\\\\}
	printf '"%s"' "${text//\"/\\\"}"
}
# What MODULE LIST says of ours, one `name value` a line; args joined by spaces. Nothing if it is not loaded.
module() {
	ask MODULE LIST | awk '
		function flush() { if (text["name"] == "rl") for (f in text) print f " " text[f] }
		$0 == "name" && !reading { flush(); split("", text); field = "name"; reading = 1; next }
		reading { text[field] = $0; reading = 0; if (field == "path") text["args"] = "?"; next }
		$0 == "ver" || $0 == "path" { field = $0; reading = 1; next }
		$0 == "args" { field = "args"; text[field] = ""; next }
		field == "args" && $0 != "" { text["args"] = text["args"] (text["args"] == "" ? "" : " ") $0 }
		END { flush() }'
}
part() { sed -n "s/^$1 //p" <<<"$2"; }

command -v redis-cli >/dev/null || refuse "redis-cli is not installed"
[ -e "$new" ] || refuse "there is no file $new"
[ -f "$new" ] || refuse "$new is not a file"
[ -r "$new" ] || refuse "$new cannot be read"
[ -x "$new" ] || refuse "$new has no exec bit, without which a server does not load it; chmod +x it"
[ "$(head -c 4 "$new" | od -An -tx1 | tr -d ' \n')" = 7f454c46 ] || refuse "$new is no shared library"
grep -qa RedisModule_OnLoad "$new" || refuse "$new is no module"
new=$(realpath "$new")
case $new in *$'\n'*) refuse "a line break in a path" ;; esac

answer=$(ask PING)
[ "$answer" = PONG ] || refuse "the server does not answer PING: $answer"
was=$(module)
if [ -z "$was" ]; then
	answer=$(ask MODULE LIST)
	case $answer in NOPERM* | ERR*) refuse "the server does not list its modules: $answer" ;; esac
	refuse "the server has no module rl to swap; MODULE LOAD is all that is needed"
fi
old=$(part path "$was") known=$(part args "$was")
# Redis 6.2 tells neither the path nor the arguments.
[ -n "$known" ] || [ -n "$old" ] || known='?'
if [ "$are_given" = no ]; then
	[ "$known" != '?' ] || refuse "this server does not tell the module's arguments; give them: --args \"\" for none"
	arguments=$known
fi
if [ "$known" = '?' ]; then before=$arguments; else before=$known; fi

# Settings that CONFIG changed since the load, where the arguments do not come from the command line.
settings=()
if [ "$are_given" = no ]; then
	while read -r name && read -r value; do
		case $name in rl.*) settings+=("CONFIG SET $name $(quoted "$value")") ;; esac
	done < <(ask CONFIG GET 'rl.*')
fi

# Where an ACL user is granted a command of ours by name, Redis 8 aborts when it is unloaded, and Valkey refuses.
version=$(ask INFO server | sed -n 's/^redis_version:\([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
read -r major minor <<<"${version:-0 0}"
if [ "$major" -gt 7 ] || { [ "$major" -eq 7 ] && [ "$minor" -ge 2 ]; }; then
	users=$(ask ACL LIST | awk 'tolower($0) ~ / [+-](rl\.|cl\.throttle)/ { print $2 }' | tr '\n' ' ')
	[ -z "$users" ] || refuse "ACL users name RL commands, and this server cannot bear that when they are unloaded: $users
Grant +@rate_limit instead, or take those rules back for the swap."
fi

load() { # file arguments
	local line word
	line="MODULE LOAD $(quoted "$1")"
	# shellcheck disable=SC2086 # words on purpose
	set -f
	for word in $2; do line+=" $(quoted "$word")"; done
	set +f
	printf '%s\n' "$line"
}

# One transaction. Connections of Pub/Sub can have used a command of ours, too (RESP3).
said=$({
	echo MULTI
	echo CLIENT KILL TYPE normal SKIPME yes
	echo CLIENT KILL TYPE pubsub SKIPME yes
	echo MODULE UNLOAD rl
	load "$new" "$arguments"
	[ ${#settings[@]} -eq 0 ] || printf '%s\n' "${settings[@]}"
	echo EXEC
} | redis-cli "${options[@]}" --no-raw 2>&1)

# The replies of the transaction, by their places.
replied() { grep -q "^ *$1) $2" <<<"$said"; }
if replied 3 OK && replied 4 OK && [ -n "$(module)" ]; then
	say "Swapped: $new is running${arguments:+ with $arguments}."
	replied '[0-9]*' '(error)' || exit 0
	say "But the new build does not take what CONFIG had set:"
	printf '%s\n' "${settings[@]}" >&2
	exit 4
fi

say "$said"
answer=$(ask PING)
if [ "$answer" != PONG ]; then
	say "The server does not answer any more: $answer"
	say "Look into its log, and start it again; its keys are as its RDB or AOF has them."
	exit 3
fi
if [ -n "$(module)" ]; then
	refuse "the server did not unload the module that it has; that goes on running"
fi
say "$new did NOT load, and the old module is unloaded: every RL command is unknown now. Keys are safe."
if [ -n "$old" ] && [ "$(load "$old" "$before" | redis-cli "${options[@]}" --raw 2>&1)" = OK ]; then
	[ ${#settings[@]} -eq 0 ] || printf '%s\n' "${settings[@]}" | redis-cli "${options[@]}" >/dev/null 2>&1
	say "The old one was loaded again: $old${before:+ with $before}. The server's log tells why the new one was not."
	exit 2
fi
say "NO MODULE IS LOADED. Load one that works, now:"
say "    redis-cli ${options[*]} MODULE LOAD ${old:-/path/to/libredis_rl.so} $before"
exit 3
