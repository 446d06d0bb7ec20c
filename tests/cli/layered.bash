# shellcheck shell=bash
# Images whose layers do all that layers may do to each other, for `load layered` after `load common`.
#
#   layered_images   in setup_file, after registry_start: makes and pushes "layers", "implied" and "covered";
#                    their layouts stay in $BATS_FILE_TMPDIR
#   $MOUNTED         where mlrun mounts something of the host's or of its own

# Where mlrun mounts something of the host's or of its own; the images have all of them.
MOUNTED="/dev /proc /sys /tmp /root /etc/resolv.conf /etc/hosts /etc/localtime /etc/passwd /etc/group"

# What list-tree needs; hard links of busybox, so that the image has many.
APPLETS="sh awk cat cut find hexdump readlink realpath sed sha256sum sort stat"

layered_images() {
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
