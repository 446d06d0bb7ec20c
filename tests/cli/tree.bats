#!/usr/bin/env bats
# The tree that mlrun shows in a container is the tree that umoci unpacks of the same image.

load common

# Where mlrun mounts something of the host's or of its own; the images have all of them.
MOUNTED="/dev /proc /sys /tmp /root /etc/resolv.conf /etc/hosts /etc/localtime /etc/passwd /etc/group"

# What list-tree needs; hard links of busybox, so that the image has many.
APPLETS="sh awk cat cut find hexdump readlink realpath sed sha256sum sort stat"

setup_file() {
	registry_start
	cd "$BATS_FILE_TMPDIR" || return
	mkdir -p tiny/{bin,etc,root,tmp}
	cp "$(command -v busybox)" tiny/bin/busybox
	for applet in $APPLETS; do ln tiny/bin/busybox "tiny/bin/$applet"; done
	mkdir 1 2 3
	(cd 1 && first_layer)
	(cd 2 && second_layer)
	(cd 3 && third_layer)
	for layer in 1 2 3; do layer_tar $layer.tar $layer; done
	append 1.tar 0200 modes/unreadable
	append 2.tar 0000 modes/closed
	only_files_tar 4.tar
	# The same without the symlink in the way, and with whiteouts that hide nothing.
	mkdir -p bare/{modes/sticky,modes/private,times/never,whited/kept}
	echo added >bare/modes/sticky/added
	echo added >bare/whited/kept/added
	touch bare/times/never/.wh.ghost bare/modes/private/.wh.ghost
	touch -d 2006-01-01T00:00:00Z bare/*/*/* bare/*/*/.wh.* bare/times/never
	tar -C bare --owner=0 --group=0 --format=pax -cf 5.tar modes/sticky/added whited/kept/added \
		times/never modes/private/.wh.ghost
	image_layout layers 1.tar 2.tar 3.tar
	image_layout implied 1.tar 4.tar
	image_layout covered 1.tar 5.tar
	image_push layers layers
	image_push implied implied
	image_push covered covered
}

teardown_file() {
	registry_stop
	chmod -R u+rwX "$BATS_FILE_TMPDIR"
}

# append TAR MODE PATH: with a mode that would keep tar from reading it.
append() {
	mkdir -p "extra/${3%/*}"
	case $3 in
	*/closed) mkdir "extra/$3" ;;
	*) echo secret >"extra/$3" ;;
	esac
	tar -C extra --append --owner=0 --group=0 --format=pax --mode="$2" -f "$1" "./$3"
}

first_layer() {
	local i

	cp -a ../tiny/. .
	mkdir -p dev proc sys lib/real/deep
	touch etc/{resolv.conf,hosts,localtime,passwd,group}

	mkdir -p whited/kept opaque/below modes/{private,readonly,sticky,closed} times many
	echo gone >whited/file
	echo kept >whited/kept/file
	echo hidden >opaque/hidden
	echo hidden >opaque/below/hidden
	echo shared >lib/real/file
	ln -s lib/real linked-dir
	ln -s /lib/real absolute-link
	ln -s ../../../../etc/passwd lib/real/dotdot-link
	ln -s nowhere dangling
	ln -s loop loop

	echo one >hard1
	ln hard1 hard2
	ln hard1 lib/real/hard3
	mkfifo fifo
	: >empty

	# Every change of type that the second layer makes.
	echo f >file-to-dir
	echo f >file-to-link
	mkdir -p dir-to-file/x dir-to-link/x
	ln -s etc link-to-dir
	ln -s etc/passwd link-to-file

	echo odd >'with space'
	echo odd >$'new\nline'
	echo odd >'back\slash'
	echo odd >$'\xff\xfe not utf-8'
	echo odd >'ünïcødé'
	echo odd >-dash
	echo odd >"$(printf 'n%.0s' {1..255})"
	mkdir -p "$(printf 'deep-directory-%s/' {1..20})"
	for ((i = 0; i < 50; i++)); do echo "$i" >"many/$i"; done

	echo s >modes/setuid
	chmod 4755 modes/setuid
	chmod 0640 modes/sticky
	chmod 1777 modes/sticky
	chmod 2775 modes/private
	touch -d 1990-01-01T00:00:00Z times/old
	touch -d 2038-02-01T00:00:00Z times/future
	touch -d 2001-02-03T04:05:06.789012345Z times/nanoseconds
	touch -h -d 2002-01-01T00:00:00Z dangling
	touch -d 2003-01-01T00:00:00Z times lib/real
}

second_layer() {
	mkdir -p whited opaque/below modes/{private,readonly}
	: >whited/.wh.file
	: >.wh.many
	: >opaque/.wh..wh..opq
	echo new >opaque/new
	echo new >opaque/below/new

	mkdir file-to-dir
	echo d >file-to-dir/inside
	ln -s etc/passwd file-to-link
	echo f >dir-to-file
	ln -s opaque dir-to-link
	mkdir link-to-dir
	echo d >link-to-dir/inside
	echo f >link-to-file

	echo two >hard1
	chmod 0700 modes/private
	echo r >modes/readonly/file
	chmod 0555 modes/readonly
	touch -d 2004-01-01T00:00:00Z whited opaque
}

# Puts back what the second layer took away, and takes away what it brought.
third_layer() {
	mkdir -p whited many opaque
	echo again >whited/file
	echo again >many/again
	: >opaque/.wh.new
	: >.wh.fifo
	touch -d 2005-01-01T00:00:00Z opaque many whited .
}

# A layer that names files and none of their directories, one of them through a symlink.
only_files_tar() {
	mkdir -p only/{lib/real,linked-dir,brand/new,whited}
	echo added >only/lib/real/added
	echo added >only/brand/new/added
	echo added >only/linked-dir/through
	: >only/whited/.wh.file
	touch -d 2006-01-01T00:00:00Z only/{lib/real/added,brand/new/added,linked-dir/through}
	tar -C only --owner=0 --group=0 --format=pax -cf "$1" \
		lib/real/added brand/new/added linked-dir/through whited/.wh.file
}

# list_both IMAGE: what mlrun shows in "shown", what umoci unpacks in "unpacked".
list_both() {
	umoci unpack --rootless --image "$BATS_FILE_TMPDIR/$1:latest" bundle
	# shellcheck disable=SC2086 # a list of words
	PATH=$BATS_FILE_TMPDIR/tiny/bin busybox sh "$top_srcdir/tests/cli/list-tree" bundle/rootfs \
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
