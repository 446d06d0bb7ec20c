#!/usr/bin/env bats
# The tree that mlrun shows in a container is the tree that umoci unpacks of the same image.

load common
load layered

setup_file() {
	registry_start
	layered_images
}

teardown_file() {
	registry_stop
	chmod -R u+rwX "$BATS_FILE_TMPDIR"
}

setup() {
	common_setup
	without_certificates
}

# list_both IMAGE: what mlrun shows in "shown", what umoci unpacks in "unpacked".
list_both() {
	umoci unpack --rootless --image "$BATS_FILE_TMPDIR/$1:latest" bundle
	# shellcheck disable=SC2086 # a list of words
	LIST_TIGHT=yes PATH=$BATS_FILE_TMPDIR/tiny/bin busybox sh "$top_srcdir/tests/cli/list-tree" bundle/rootfs \
		$MOUNTED >unpacked
	mlrun pull -q "$REGISTRY/$1"
	cp "$top_srcdir/tests/cli/list-tree" list-tree
	# From "/" and with the home directory /root nothing has to be made to be mounted on.
	# shellcheck disable=SC2086
	(cd / && HOME=/root mlrun exec -v "$TMPDIR/list-tree:/dev/list-tree:ro" -w / "$REGISTRY/$1" \
		busybox sh /dev/list-tree / $MOUNTED) >shown
	chmod -R u+rwX bundle
}

@test "tree: whiteouts, opaque directories, changed types, links, modes and times are as umoci has them" {
	needs_ordinary_user
	list_both layers
	run -0 diff -u unpacked shown
	# The list is no empty one, and the layers did what they are there for.
	run -0 cut -f1 shown
	assert_line /whited/file
	assert_line /opaque/below/new
	assert_line /many/again
	refute_line /many/1
	refute_line /opaque/hidden
	refute_line /opaque/new
	refute_line /fifo
	assert_line '/new\nline'
	run -0 grep -c 'same file as /bin/awk' shown
	assert_output 12
}

@test "tree: a layer that names files but not their directories is applied as umoci applies it" {
	needs_ordinary_user
	list_both implied
	# A directory that no layer names has the time at which it was made; umoci gives the root,
	# in which it is made, that time too.
	sed -Ei 's/^((\/brand(\/new)?)?\t40755\t)[^\t]*/\1some time/' unpacked shown
	run -0 diff -u unpacked shown
	run -0 cut -f1 shown
	assert_line /lib/real/through
	assert_line /brand/new/added
	refute_line /whited/file
}

@test "tree: directories used without a name and whiteouts of nothing need no tree of their own" {
	needs_ordinary_user
	list_both covered
	sed -Ei 's/^(\t40755\t)[^\t]*/\1some time/' unpacked shown # the root's is the container's own
	run -0 diff -u unpacked shown
	run -0 cut -f1 shown
	assert_line /modes/sticky/added
	assert_line /times/never
	refute_line /times/never/ghost
	refute_line /modes/private/ghost
	run -0 find "$MLRUN_STORE/dir" -mindepth 1
	refute_output
	# Only directories lie above the layers.
	run -0 find "$MLRUN_STORE/cover" -mindepth 3 ! -type d
	refute_output
}

@test "tree: 60 random stacks of layers are the same in each format, and as umoci has them" {
	needs_ordinary_user
	needs_squashfs
	[ -w /dev/fuse ] || [ -n "$(command -v unsquashfs)" ] || skip "neither /dev/fuse nor unsquashfs"
	run -0 "$top_srcdir/tests/cli/fuzz-stacks" 1 60 "$(command -v busybox)"
	assert_output --partial "60 stacks, "
}

@test "tree: only the known places are mounted over the image" {
	mlrun pull -q "$REGISTRY/layers"
	run -0 --separate-stderr env -C / HOME=/root mlrun exec -w / "$REGISTRY/layers" \
		cut -d ' ' -f 5 /proc/self/mountinfo
	for mount in "${lines[@]}"; do
		case " / $MOUNTED " in
		*" $mount "*) ;;
		*) [[ $mount =~ ^/(dev|proc|sys|tmp)/ ]] || fail "'$mount' is mounted" ;;
		esac
	done
}
