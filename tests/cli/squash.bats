#!/usr/bin/env bats
# Images kept as one squashfs file, and those kept in other formats by --format.

load common
load layered
load fake

setup_file() {
	registry_start
	layered_images
	image_tiny tiny
	seq 20000 | (mkdir -p "$BATS_FILE_TMPDIR/many/d" && cd "$BATS_FILE_TMPDIR/many/d" &&
		split -l 1 -a 4 - f)
	layer_tar "$BATS_FILE_TMPDIR/many.tar" "$BATS_FILE_TMPDIR/many"
	image_push_tar many "$BATS_FILE_TMPDIR/many.tar"
	fake_layout
}

setup() {
	common_setup
	without_certificates
	needs_squashfs
}

teardown_file() {
	registry_stop
	chmod -R u+rwX "$BATS_FILE_TMPDIR"
}

needs_unsquashfs() { command -v unsquashfs >/dev/null || skip "unsquashfs is not installed"; }

# The format knows whole seconds.
whole_seconds() { sed -Ei 's/(\t[0-9-]+ [0-9:]+)\.[0-9]+/\1/' "$@"; }

the_file() { echo "$MLRUN_STORE"/squash/*.sqfs; }

# The servers of this test's images.
# Other tests, at the same time, have servers of their own. A file that was removed is " (deleted)".
servers() {
	local pid

	for pid in $(pgrep -u "$(id -u)" -x mlrun-squashfus); do
		[[ $(readlink "/proc/$pid/fd/4") != "$BATS_TEST_TMPDIR"/* ]] || echo "$pid"
	done
}

no_servers() { [ -z "$(servers)" ]; }

@test "squash: an image of 20,000 files is a few files in the store, and no tree" {
	run -0 mlrun pull --format=squashfs "$REGISTRY/many"
	assert_output --partial ", as squashfs"
	assert [ "$(find "$MLRUN_STORE" -type f | wc -l)" -lt 20 ]
	run -0 find "$MLRUN_STORE/layers" "$MLRUN_STORE/dir" "$MLRUN_STORE/cover" "$MLRUN_STORE/tmp" \
		-mindepth 1
	refute_output
	assert [ "$(stat -c %s "$(the_file)")" -gt 100000 ]
}

@test "squash: an image whose file is gone says how it comes back" {
	needs_fuse
	mlrun pull -q --format=squashfs "$REGISTRY/tiny"
	rm "$(the_file)"
	run -125 mlrun exec "$REGISTRY/tiny" true
	assert_line --partial "No such file or directory"
	assert_line "hint: mlrun pull fetches it again"
	run -0 mlrun pull -q "$REGISTRY/tiny"
	run -0 mlrun exec "$REGISTRY/tiny" true
}

# unpacked_is_as_umoci_has_it IMAGE
unpacked_is_as_umoci_has_it() {
	needs_unsquashfs
	umoci unpack --rootless --image "$BATS_FILE_TMPDIR/$1:latest" bundle
	mlrun pull -q --format=squashfs "$REGISTRY/$1"
	(umask 0 && unsquashfs -q -n -d out "$(the_file)" >/dev/null)
	PATH=$BATS_FILE_TMPDIR/tiny/bin busybox sh "$top_srcdir/tests/cli/list-tree" bundle/rootfs >unpacked
	PATH=$BATS_FILE_TMPDIR/tiny/bin busybox sh "$top_srcdir/tests/cli/list-tree" out >shown
	chmod -R u+rwX bundle out
	# unsquashfs 4.5 takes times after January 2038 for ones before 1970.
	sed -i '/^\/times\/future\t/d' unpacked shown
	whole_seconds unpacked shown
}

@test "squash: the file holds the tree that umoci unpacks" {
	needs_ordinary_user
	unpacked_is_as_umoci_has_it layers
	run -0 diff -u unpacked shown
	run -0 grep -c 'same file as /bin/awk' shown
	assert_output 12
}

@test "squash: a layer that names files but not their directories is applied as umoci applies it" {
	needs_ordinary_user
	unpacked_is_as_umoci_has_it implied
	# A directory that no layer names has the image's time here, that of unpacking there; umoci
	# gives the root that time, too.
	sed -Ei 's/^((\/brand(\/new)?)?\t40755\t)[^\t]*/\1some time/' unpacked shown
	run -0 diff -u unpacked shown
	run -0 cut -f1 shown
	assert_line /lib/real/through
	refute_line /whited/file
}

@test "squash: the same image gives the same file, and its sha256 is in the facts" {
	mlrun pull -q --format=squashfs "$REGISTRY/layers"
	mlrun pull -q --format=squashfs --store other "$REGISTRY/layers"
	cmp "$(the_file)" other/squash/*.sqfs
	run -0 jq -r .squashfs "$MLRUN_STORE"/facts/*.json
	assert_output "$(sha256_of "$(the_file)")"
}

@test "squash: what every start reads is stored as it is, the rest is compressed" {
	command -v python3 >/dev/null || skip "python3 is not installed"
	mlrun pull -q --format=squashfs "$REGISTRY/tiny"
	run -0 python3 - "$BATS_FILE_TMPDIR/tiny/bin/busybox" "$(the_file)" <<-'END'
		import sys
		shell, image = (open(name, "rb").read() for name in sys.argv[1:])
		whole = len(shell) // 131072
		print(all(shell[i * 131072:(i + 1) * 131072] in image for i in range(whole)))
	END
	assert_output True
	seq 100000 >"$BATS_TEST_TMPDIR/numbers" # 588,895 bytes
	mkdir root && mv "$BATS_TEST_TMPDIR/numbers" root
	layer_tar numbers.tar root
	image_push_tar numbers numbers.tar
	rm "$(the_file)" && mlrun pull -q --store other --format=squashfs "$REGISTRY/numbers"
	assert [ "$(stat -c %s other/squash/*.sqfs)" -lt 400000 ]
}

@test "squash: formats add up, and one made of unpacked layers is the same and costs no download" {
	mlrun pull -q --format=squashfs --store direct "$REGISTRY/layers"
	mlrun pull -q "$REGISTRY/layers"
	before=$(registry_requests blobs | wc -l)
	run -0 mlrun pull --json -q --format=squashfs "$REGISTRY/layers"
	assert_equal "$(jq -c .formats <<<"$output")" '["layers","squashfs"]'
	# The configuration is asked for again, no layer is.
	assert [ $(($(registry_requests blobs | wc -l) - before)) -le 1 ]
	cmp "$(the_file)" direct/squash/*.sqfs

	run -0 mlrun pull --json -q --format=squashfs "$REGISTRY/layers"
	assert_equal "$(jq -r .status <<<"$output")" "up to date"
	run -0 mlrun pull --json -q "$REGISTRY/layers"
	assert_equal "$(jq -r .status <<<"$output")" "up to date"
	run -0 mlrun pull --json -q --format=dir "$REGISTRY/layers"
	assert_equal "$(jq -c .formats <<<"$output")" '["layers","dir","squashfs"]'
	assert_equal "$(mlrun images --json | jq -c '.[].formats')" '["layers","dir","squashfs"]'
	run -0 mlrun inspect "$REGISTRY/layers"
	assert_line --regexp '^format +layers,dir,squashfs$'
}

@test "squash: a layer that was damaged in the store is told as that" {
	mlrun pull -q --format=layers "$REGISTRY/tiny"
	sed -i s/tiny/TINY/ "$MLRUN_STORE"/layers/*/tree/etc/os-release
	run -125 mlrun pull -q --format=squashfs "$REGISTRY/tiny"
	assert_output --partial "write it from the store: its files give a layer of digest sha256:"
	assert_output --partial "hint: mlrun store verify --repair mends the store"
}

@test "squash: exec takes the trees where there are some, and says so" {
	needs_ordinary_user
	mlrun pull -q --format=squashfs "$REGISTRY/tiny"
	run -0 mlrun exec --explain "$REGISTRY/tiny" true
	assert_line --regexp '^root +squashfs file'
	assert_line --partial "$(the_file)"
	mlrun pull -q --format=layers "$REGISTRY/tiny"
	run -0 mlrun exec --explain "$REGISTRY/tiny" true
	assert_line --regexp '^root +overlay of 1 tree'
	assert_line --regexp '^ +format layers; also there: squashfs$'
	run -0 mlrun exec "$REGISTRY/tiny" cat /etc/os-release
	assert_output NAME=tiny
}

@test "squash: --format=dir keeps one tree" {
	needs_ordinary_user
	mlrun pull -q --format=dir "$REGISTRY/layers"
	assert [ -d "$MLRUN_STORE"/dir/*/tree/whited ]
	run -0 mlrun exec --explain "$REGISTRY/layers" true
	assert_line --regexp '^ +format dir'
}

@test "squash: rm takes the file away" {
	mlrun pull -q --format=squashfs "$REGISTRY/tiny"
	mlrun rm "$REGISTRY/tiny"
	run -0 find "$MLRUN_STORE/squash" -mindepth 1
	refute_output
}

@test "squash: an unknown format is told with those there are" {
	run -125 mlrun pull --format=tar "$REGISTRY/tiny"
	assert_output --partial "--format takes auto, layers, dir or squashfs, not 'tar'"
}

@test "squash: a pull that breaks off leaves nothing, and the next one succeeds" {
	command -v python3 >/dev/null || skip "python3 is not installed"
	fake --bad-blobs
	run -125 mlrun pull --format=squashfs "$registry/x"
	run -0 find "$MLRUN_STORE/squash" "$MLRUN_STORE/tmp" "$MLRUN_STORE/facts" -mindepth 1
	refute_output
	fake
	run -0 mlrun pull --format=squashfs "$registry/x"
}

@test "squash: a kill in the middle leaves nothing that the next pull stumbles over" {
	for wait in 0.02 0.05 0.1 0.2; do
		(ends_early && exec timeout -s KILL "$wait" mlrun pull -q --format=squashfs "$REGISTRY/many") || true
	done
	run -0 mlrun pull -q --format=squashfs "$REGISTRY/many"
	run -0 find "$MLRUN_STORE/tmp" -mindepth 1 -name 'squash-*'
	refute_output
	assert_equal "$(find "$MLRUN_STORE/squash" -type f | wc -l)" 1
}

@test "squash: several pulls at once make one file" {
	for i in 1 2 3 4; do
		mlrun pull -q --format=squashfs "$REGISTRY/many" &
		pids[i]=$!
	done
	for i in 1 2 3 4; do wait "${pids[i]}"; done
	assert_equal "$(find "$MLRUN_STORE/squash" -type f | wc -l)" 1
	run -0 mlrun pull "$REGISTRY/many"
	assert_output --partial "up to date"
}

@test "format: auto tries out the file system once and records what it finds" {
	mlrun pull -q "$REGISTRY/tiny"
	run -0 jq -c '[.whiteouts, .xattrs, .hard_links, .overlay]' "$MLRUN_STORE/probe.json"
	if [ "$(id -u)" != 0 ]; then assert_output '[true,true,true,1]'; fi
	before=$(stat -c %i:%Y "$MLRUN_STORE/probe.json")
	mlrun pull -q "$REGISTRY/layers"
	assert_equal "$(stat -c %i:%Y "$MLRUN_STORE/probe.json")" "$before"
	run -0 find "$MLRUN_STORE/tmp" -mindepth 1
	refute_output
	rm "$MLRUN_STORE/probe.json"
	mlrun pull -q "$REGISTRY/many"
	assert [ -s "$MLRUN_STORE/probe.json" ]
}

@test "format: auto takes squashfs where the file system allows no whiteouts, or one tree where /dev/fuse is closed, and says why" {
	mlrun pull -q "$REGISTRY/tiny"
	sed -i 's/"whiteouts": true/"whiteouts": false/; s/"whiteouts":true/"whiteouts":false/' \
		"$MLRUN_STORE/probe.json"
	run -0 mlrun pull --verbose "$REGISTRY/layers"
	if [ ! -r /dev/fuse ] || [ ! -w /dev/fuse ]; then # a squashfs file could not be run
		assert_output --partial "format dir for store '$MLRUN_STORE': its file system allows no whiteouts"
		return
	fi
	assert_output --partial "format squashfs for store '$MLRUN_STORE': its file system allows no whiteouts"
	assert [ -s "$(the_file)" ]
}

# --- running them -------------------------------------------------------------------------------

@test "squash exec: without rights on /dev/fuse the error says what can be done" {
	needs_ordinary_user
	needs_squashfuse
	mlrun pull -q --format=squashfs "$REGISTRY/tiny"
	[ -e /dev/fuse ] || skip "there is no /dev/fuse"
	# What only root may open stands in its place.
	run -125 unshare --user --map-root-user --mount sh -c 'mount --bind /etc/shadow /dev/fuse && exec "$@"' sh \
		mlrun exec "$REGISTRY/tiny" true
	assert_output --partial "open /dev/fuse"
	assert_output --partial "hint: an administrator can"
	assert_output --partial "mlrun pull --format=dir"
	until_true no_servers
	mlrun pull -q --format=dir "$REGISTRY/tiny"
	run -0 mlrun exec "$REGISTRY/tiny" true
}

@test "squash exec: the container shows the tree that umoci unpacks" {
	needs_ordinary_user
	needs_fuse
	umoci unpack --rootless --image "$BATS_FILE_TMPDIR/layers:latest" bundle
	# shellcheck disable=SC2086 # a list of words
	PATH=$BATS_FILE_TMPDIR/tiny/bin busybox sh "$top_srcdir/tests/cli/list-tree" bundle/rootfs \
		$MOUNTED >unpacked
	chmod -R u+rwX bundle
	mlrun pull -q --format=squashfs "$REGISTRY/layers"
	cp "$top_srcdir/tests/cli/list-tree" list-tree
	# shellcheck disable=SC2086
	(cd / && HOME=/root mlrun exec -v "$TMPDIR/list-tree:/dev/list-tree:ro" -w / "$REGISTRY/layers" \
		busybox sh /dev/list-tree / $MOUNTED) >shown
	whole_seconds unpacked shown
	run -0 diff -u unpacked shown
}

@test "squash exec: files are the caller's, can be written over, and the image stays as it is" {
	needs_ordinary_user
	needs_fuse
	mlrun pull -q --format=squashfs "$REGISTRY/tiny"
	sum=$(sha256_of "$(the_file)")
	run -0 mlrun exec "$REGISTRY/tiny" sh -c 'stat -c "%u %g" /etc/passwd; echo x >>/etc/os-release; rm /bin/awk; ls -a /root; tail -n 1 /etc/os-release'
	assert_line --index 0 "$(id -u) $(id -g)"
	assert_line x
	assert_line ..
	assert_equal "$(sha256_of "$(the_file)")" "$sum"
	run -0 mlrun exec --fakeroot "$REGISTRY/tiny" stat -c '%u %g' /etc/os-release
	assert_output '0 0'
	run -1 mlrun exec --read-only "$REGISTRY/tiny" touch /etc/new
	run -7 mlrun exec "$REGISTRY/tiny" sh -c 'exit 7'
}

@test "squash exec: the server holds nothing of the caller's and ends with the last process" {
	needs_ordinary_user
	needs_fuse
	mlrun pull -q --format=squashfs "$REGISTRY/tiny"
	until_true no_servers
	# The command leaves a process behind that lives on.
	mlrun exec "$REGISTRY/tiny" sh -c 'until [ -e looked ]; do sleep 0.1; done >/dev/null 2>&1 </dev/null & echo started' 3>&- | cat >out
	assert_equal "$(cat out)" started # cat has ended: nobody else holds the pipe
	server=$(servers)
	assert [ -n "$server" ]
	for fd in 0 1 2; do assert_equal "$(readlink "/proc/$server/fd/$fd")" /dev/null; done
	for fd in "/proc/$server/fd"/*; do
		case $(readlink "$fd"):$(stat -Lc %t:%T "$fd") in
		/dev/null:* | "$(the_file)":* | socket:* | *:a:e5) ;; # the last is /dev/fuse, seen from elsewhere
		*) fail "$(ls -l "/proc/$server/fd")" ;;
		esac
	done
	assert_equal "$(readlink "/proc/$server/ns/mnt")" "$(readlink /proc/self/ns/mnt)"
	assert_equal "$(readlink "/proc/$server/cwd")" /
	assert_equal "$(tr '\0' '\n' <"/proc/$server/environ")" ''
	kill -TERM "$server" # as a batch system does to all of a job: the command may still need it
	sleep 0.2
	assert_equal "$(servers)" "$server"
	touch looked
	until_true is_gone "$server"
}

@test "squash exec: a container that is killed takes its server along, and is no parent of it" {
	needs_ordinary_user
	needs_fuse
	mlrun pull -q --format=squashfs "$REGISTRY/tiny"
	until_true no_servers
	mlrun exec "$REGISTRY/tiny" sleep 100 3>&- &
	pid=$!
	until_true runs "$pid" sleep 100
	server=$(servers)
	assert [ -n "$server" ]
	run -1 pgrep -P "$pid"
	kill -KILL "$pid"
	wait "$pid" || true
	until_true is_gone "$server"
}

@test "squash exec: a caller that ignores SIGCHLD is served" {
	needs_ordinary_user
	needs_fuse
	mlrun pull -q --format=squashfs "$REGISTRY/tiny"
	run -0 bash -c 'trap "" CHLD; exec mlrun exec "$1" cat /etc/os-release' bash "$REGISTRY/tiny"
	assert_output NAME=tiny
}

@test "squash exec: many at once read right" {
	needs_ordinary_user
	needs_fuse
	mlrun pull -q --format=squashfs "$REGISTRY/many"
	mlrun pull -q --format=squashfs "$REGISTRY/tiny"
	for i in 1 2 3 4 5 6 7 8; do
		mlrun exec "$REGISTRY/tiny" sh -c 'cat /bin/* | sha256sum; find / -xdev | wc -l' >"out$i" 3>&- &
		pids[i]=$!
	done
	for i in 1 2 3 4 5 6 7 8; do wait "${pids[i]}"; done
	want=$(cat "$BATS_FILE_TMPDIR/tiny/bin"/* | sha256sum)
	for i in 1 2 3 4 5 6 7 8; do assert_equal "$(head -n 1 "out$i")" "$want"; done
	# The image's own names, and what is mounted or written on top: the same in all.
	assert_equal "$(sed -s -n 2p out? | sort -u | wc -l)" 1
	assert [ "$(sed -n 2p out1)" -ge "$(find "$BATS_FILE_TMPDIR/tiny" | wc -l)" ]
}

@test "squash exec: squashfs:FILE runs a file of anybody's making, and refuses what is none" {
	needs_ordinary_user
	needs_fuse
	command -v mksquashfs >/dev/null || skip "mksquashfs is not installed"
	for comp in gzip xz lz4 zstd; do
		mksquashfs "$BATS_FILE_TMPDIR/tiny" "$comp.sqfs" -comp $comp -quiet -no-progress >/dev/null
		run -0 mlrun exec "squashfs:$comp.sqfs" /bin/sh -c 'stat -c %u /bin/sh; /bin/awk "BEGIN { print 6 * 7 }"'
		assert_line --index 0 "$(id -u)"
		assert_line 42
	done
	head -c 100000 /dev/urandom >junk
	run -125 mlrun exec squashfs:junk true
	assert_output --partial "junk': not a squashfs image"
	run -125 mlrun exec squashfs:none true
	assert_output --partial "squashfs image 'none': No such file or directory"
	head -c 4096 gzip.sqfs >cut
	run -125 mlrun exec squashfs:cut true
	assert_output --partial "mlrun: exec 'squashfs:cut'"
	until_true no_servers
}
