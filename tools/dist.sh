#!/bin/bash
# Packs a built module with what its users need, and tries what it has packed:
#
#     tools/dist.sh MODULE FOLDER
#
# writes FOLDER/redis-rl-VERSION-linux-ARCH.tar.gz, and SHA256SUMS beside it. `make dist` calls it.
#
# The same module and the same files give the same archive, byte for byte: names are sorted, owner and
# modes are fixed, and every time is that of the last commit (or SOURCE_DATE_EPOCH, where that is set).
set -euo pipefail

fail() {
	printf '%s\n' "dist: $*" >&2
	exit 1
}

[ $# -eq 2 ] || fail "usage: tools/dist.sh MODULE FOLDER"
module=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ -f "$module" ] || fail "no module at $module"

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)} || fail "no commit to take the time from: set SOURCE_DATE_EPOCH"
name=redis-rl-$version-linux-$(uname -m)
uncommitted=$(git status --porcelain 2>/dev/null || true)

scratch=$(mktemp -d)
archive=$scratch/$name.tar.gz
server=''
clean() {
	[ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null || true
	rm -rf "$scratch"
}
trap clean EXIT

gather() {
	local root=$scratch/$name
	mkdir "$root"
	cp --parents LICENSE README.md CHANGELOG.md tools/swap-module.sh tools/exporter.lua "$root"
	find docs -name '*.md' -exec cp --parents --target-directory "$root" {} +
	cp --parents docs/pictures/*.svg bench/results/full.svg bench/scripts/*.lua CONTRIBUTING.md "$root"
	find examples -type f -not -path '*/node_modules/*' -not -path '*/target/*' -not -path '*/.venv/*' \
		-not -path '*/__pycache__/*' -not -path '*.egg-info/*' -exec cp --parents --target-directory "$root" {} +
	# A server refuses to load a file without its exec bit.
	install -m 755 "$module" "$root/libredis_rl.so"
	strip --strip-unneeded "$root/libredis_rl.so"
	# The same configuration, for the module beside it.
	sed -e 's|^loadmodule .*|loadmodule ./libredis_rl.so|' -e 's|^\(# .*\)From the root of the repository, after .*:|\1From here:|' \
		redis.conf.example > "$root/redis.conf.example"
}

pack() {
	tar --create --directory "$scratch" --format=gnu --sort=name --mtime="@$epoch" \
		--owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX "$name" | gzip -9 --no-name > "$archive"
	(cd "$scratch" && sha256sum "$name.tar.gz" > SHA256SUMS)
}

# Unpacks the archive elsewhere, and does there what its reader would do.
try() {
	local place=$scratch/unpacked expected answer major minor patch
	mkdir "$place"
	tar --extract --gzip --file "$archive" --directory "$place"
	cd "$place/$name"
	# A socket needs no free port.
	/usr/bin/redis-server redis.conf.example --port 0 --unixsocket "$scratch/socket" > "$scratch/log" &
	server=$!
	ask() { redis-cli -s "$scratch/socket" "$@" 2>&1; }
	for _ in $(seq 100); do
		[ "$(ask PING)" = PONG ] && break
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	[ "$(ask PING)" = PONG ] || fail "the module that was packed does not load:"$'\n'"$(tail -n 20 "$scratch/log")"

	expected=$'1\n100\n99\n0\n60000'
	answer=$(ask RL.SLIDING user:42 60 100)
	[ "$answer" = "$expected" ] || fail "RL.SLIDING user:42 60 100 answered: $answer"
	IFS=. read -r major minor patch <<< "$version"
	expected=$((major * 10000 + minor * 100 + patch))
	answer=$(ask MODULE LIST | grep -A 1 -x ver | tail -n 1)
	[ "$answer" = "$expected" ] || fail "Cargo.toml says $version ($expected), the module $answer: MODULE_VERSION in src/commands/mod.rs"
	tried=$(ask INFO server | sed -n 's/^redis_version:\([0-9.]*\).*/\1/p')
}

gather
pack
try
mv "$archive" "$scratch/SHA256SUMS" "$folder"

tar --list --verbose --gzip --file "$folder/$name.tar.gz" | awk '{ printf "  %s %8d  %s\n", $1, $3, $6 }'
echo
echo "$folder/$name.tar.gz, $(stat --format=%s "$folder/$name.tar.gz") bytes, tried on Redis $tried"
cat "$folder/SHA256SUMS"
[ -z "$uncommitted" ] || echo "There are changes that are not committed: this is not the release $version."
