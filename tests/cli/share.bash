# shellcheck shell=bash
# For tests of containers that processes share: `load share` beside `load common`.
#
#   setup_file, setup
#   $IMG, $TAG                           an image, and a tag for --join-tag that no other test has
#   $NAMESPACES                          what a shell runs to tell its namespaces, "user:[1] mnt:[2]"
#   tagged MLRUN-EXEC-ARGUMENT...        mlrun exec with that tag
#   hold NAME MLRUN-EXEC-ARGUMENT...     a process that stays in a container until the test ends; its
#                                        namespaces come into the file NAME, its pid into $HELD
#   lines_are FILE COUNT                 has it so many?
# shellcheck disable=SC2016 # the inner shell expands

setup_file() {
	export ROOT=$BATS_FILE_TMPDIR/root
	tiny_root "$ROOT"
	[ -x "$top_builddir/tests/cli/peek" ] || make -s -C "$top_builddir" tests/cli/peek >&2
	cp "$top_builddir/tests/cli/peek" "$ROOT/bin"
}

setup() {
	common_setup
	IMG=rootfs:$ROOT
	TAG=test.$$.$RANDOM
}

NAMESPACES='echo $(readlink /proc/self/ns/user) $(readlink /proc/self/ns/mnt)'

tagged() { mlrun exec --join-tag "$TAG" "$@"; }

hold() {
	local name=$1

	shift
	mlrun exec "$@" "$IMG" sh -c "$NAMESPACES >'$PWD/$name.new'; mv '$PWD/$name.new' '$PWD/$name'; exec sleep 1000" \
		>"$name.log" 2>&1 3>&- &
	HELD=$!
	PIDS+=("$HELD")
	until_true has_begun "$name"
	[ -s "$name" ] || { cat "$name.log"; fail "nothing runs in the container"; }
}

# It runs, or never will.
has_begun() { [ -s "$1" ] || is_gone "$HELD"; }

lines_are() { [ "$(wc -l <"$1")" -eq "$2" ]; }
