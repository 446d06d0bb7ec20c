#!/usr/bin/env bats
# The server of squashfs images: what it survives, what survives it, and which root is chosen.

load common

setup_file() {
	local i

	registry_start
	image_tiny tiny
	# Files that nobody has read when the server dies: "large" is cut into blocks.
	mkdir -p "$BATS_FILE_TMPDIR/more/data"
	for ((i = 0; i < 400; i++)); do echo "file $i" >"$BATS_FILE_TMPDIR/more/data/f$i"; done
	seq 200000 >"$BATS_FILE_TMPDIR/more/large"
	head -c 3000000 /dev/urandom >"$BATS_FILE_TMPDIR/more/random"
	truncate -s 5000000 "$BATS_FILE_TMPDIR/more/hole"
	echo end >>"$BATS_FILE_TMPDIR/more/hole"
	layer_tar "$BATS_FILE_TMPDIR/more.tar" "$BATS_FILE_TMPDIR/more"
	image_push_tar more "$BATS_FILE_TMPDIR/tiny.tar" "$BATS_FILE_TMPDIR/more.tar"
	if has_squashfs; then mlrun pull -q --format=squashfs --store "$BATS_FILE_TMPDIR/store" "$REGISTRY/more"; fi
}

teardown_file() { registry_stop; }

setup() {
	common_setup
	needs_squashfs
	needs_ordinary_user
	needs_squashfuse
	cp -a "$BATS_FILE_TMPDIR/store" "$MLRUN_STORE"
	IMG=$REGISTRY/more
	FILE=$(echo "$MLRUN_STORE"/squash/*.sqfs)
}

# The servers of this test's image.
servers() {
	local pid

	for pid in $(pgrep -u "$(id -u)" -x mlrun-squashfus); do
		[ "$(readlink "/proc/$pid/fd/4")" != "$FILE" ] || echo "$pid"
	done
}

no_servers() { [ -z "$(servers)" ]; }

# start SCRIPT...: a container in the background, until it has written "ready".
start() {
	rm -f ready
	mlrun exec "$IMG" sh -c "$*" >out 2>&1 3>&- &
	pid=$!
	until_true test -e ready
}

# --- what it serves ---------------------------------------------------------------------

@test "squash server: 64 starts at once all read what is in the image" {
	needs_fuse
	large=$(sha256sum <"$BATS_FILE_TMPDIR/more/large")
	for i in {1..64}; do
		mlrun exec "$IMG" sh -c 'sha256sum </large; cat "/data/f$1"' sh "$i" >"out$i" 2>&1 3>&- &
		pids[i]=$!
	done
	for i in {1..64}; do wait "${pids[i]}"; done
	for i in {1..64}; do assert_equal "$(cat "out$i")" "$large"$'\n'"file $i"; done
}

@test "squash server: readers of everything at once see what is in the image" {
	needs_fuse
	tar -C "$BATS_FILE_TMPDIR/more" -cf - --sort=name . | tar -xf - --to-command='sha256sum' | sort >want
	# shellcheck disable=SC2016
	run -0 mlrun exec "$IMG" sh -c '
		for i in 1 2 3 4 5 6; do
			for f in /data/f* /large /random /hole; do sha256sum <$f; done >/tmp/"$1".$i &
		done
		for j in 1 2 3; do find / -xdev >/dev/null; tar -cf - /bin | wc -c >/dev/null; done
		wait' sh "$(basename "$BATS_TEST_TMPDIR")"
	for i in 1 2 3 4 5 6; do
		sort /tmp/"$(basename "$BATS_TEST_TMPDIR").$i" | diff want -
		rm /tmp/"$(basename "$BATS_TEST_TMPDIR").$i"
	done
}

@test "squash server: any part of a file reads right, also backwards and across blocks" {
	needs_fuse
	for at in 0 1 4095 131071 131072 262143 1000000 2999999 3000000; do
		dd if="$BATS_FILE_TMPDIR/more/random" bs=1 skip=$at count=5000 2>/dev/null | sha256sum
	done | tac >want
	# shellcheck disable=SC2016
	mlrun exec "$IMG" sh -c 'for at in 3000000 2999999 1000000 262143 131072 131071 4095 1 0; do
		dd if=/random bs=1 skip=$at count=5000 2>/dev/null | sha256sum; done' >got
	diff want got
}

@test "squash server: a read-only root and a kept one work on top of it" {
	needs_fuse
	run -1 mlrun exec --read-only "$IMG" touch /etc/new
	assert_output --partial "Read-only file system"
	mlrun exec --write=box "$IMG" sh -c 'echo kept >>/data/f7; rm /data/f8'
	run -0 --separate-stderr mlrun exec --write=box "$IMG" sh -c 'cat /data/f7; ls /data | wc -l'
	assert_output "file 7"$'\n'kept$'\n'399
}

@test "squash server: a PID namespace has it outside, and leaves nothing behind" {
	needs_fuse
	run -0 mlrun exec --pid "$IMG" sh -c 'cat /data/f9; ps | grep -c squashfus; true'
	assert_line --index 0 "file 9"
	until_true no_servers
}

@test "squash server: ranks that share a container share one server" {
	needs_fuse
	for i in 1 2 3 4 5 6; do
		mlrun exec --join-tag "tag-$$" "$IMG" sh -c "cat /data/f$i; touch ready$i; until [ -e all ]; do sleep 0.05; done; cat /data/f1$i" \
			>"out$i" 3>&- &
		pids[i]=$!
	done
	for i in 1 2 3 4 5 6; do until_true test -e "ready$i"; done
	assert_equal "$(servers | wc -l)" 1
	touch all
	for i in 1 2 3 4 5 6; do
		wait "${pids[i]}"
		assert_equal "$(cat "out$i")" "file $i"$'\n'"file 1$i"
	done
	until_true no_servers
}

# --- what it survives, and what survives it -----------------------------------------------

@test "squash server: where it is killed the command gets errors and does not hang" {
	needs_fuse
	start 'touch ready; while [ ! -e killed ]; do sleep 0.05; done; cat /data/f11; echo status $?'
	kill -KILL "$(servers)"
	until_true no_servers
	touch killed
	until_true is_gone "$pid"
	run -0 cat out
	assert_output --regexp "Transport endpoint is not connected|Software caused connection abort|Input/output error|Bus error"
	refute_output --partial "file 11"
}

@test "squash server: it is gone soon after the command, however that ends" {
	needs_fuse
	start 'touch ready; exec sleep 100'
	assert [ -n "$(servers)" ]
	kill -KILL "$pid"
	until_true no_servers
	run -3 mlrun exec "$IMG" sh -c 'exit 3'
	until_true no_servers
	run -127 mlrun exec "$IMG" /no/such
	until_true no_servers
	run -125 mlrun exec -v /etc/passwd:/data "$IMG" true
	until_true no_servers
}

@test "squash server: signals to the job's process group do not end it" {
	needs_fuse
	setsid mlrun exec "$IMG" sh -c 'trap "" INT TERM HUP QUIT USR1 TSTP; touch ready
		while [ ! -e sent ]; do sleep 0.05; done; cat /data/f12' >out 2>&1 3>&- &
	pid=$!
	until_true test -e ready
	assert_equal "$(ps -o pgid= -p "$pid" | tr -d ' ')" "$pid"
	for s in INT TERM HUP QUIT USR1 TSTP; do kill -$s -- "-$pid"; done
	touch sent
	wait
	assert_equal "$(cat out)" "file 12"
}

@test "squash server: an image that is removed while it is used stays readable" {
	needs_fuse
	start 'touch ready; while [ ! -e gone ]; do sleep 0.05; done; sha256sum </large; cat /data/f13'
	rm "$FILE"
	touch gone
	wait "$pid"
	assert_equal "$(cat out)" "$(sha256sum <"$BATS_FILE_TMPDIR/more/large")"$'\n'"file 13"
}

@test "squash server: an image that is cut off while it is used gives input errors, not crashes" {
	needs_fuse
	start 'touch ready; while [ ! -e cut ]; do sleep 0.05; done
		cat /random /large >/dev/null; echo status $?; echo alive'
	assert [ -n "$(servers)" ]
	truncate -s 4096 "$FILE"
	touch cut
	until_true is_gone "$pid"
	run -0 cat out
	assert_output --partial "Input/output error"
	assert_output --partial "status 1"
	assert_line alive
	until_true no_servers
}

@test "squash server: damaged images end with an error or run, but do not hang" {
	needs_fuse
	size=$(stat -c %s "$FILE")
	for i in $(seq "$(rounds 40)"); do
		cp "$FILE" bad.sqfs
		# The last 20 kB are inodes, directories and tables; the first 96 bytes say where they are.
		at=$((i % 4 == 0 ? i * 2 : size - 1 - RANDOM % 20000))
		head -c 4 /dev/urandom | dd of=bad.sqfs bs=1 seek="$at" conv=notrunc 2>/dev/null
		status=0
		# A file may be said to be endless, or a fifo. The program is the host's: one of the image's, of which a
		# byte is another, may do anything, and wait for ever.
		timeout -s KILL 180 mlrun exec -v "$(command -v busybox):/busybox" squashfs:bad.sqfs /busybox sh -c '
			/busybox find / -xdev >/dev/null
			for f in /large /data/* /random; do [ ! -f "$f" ] || /busybox head -c 20000000 "$f"; done' \
			>/dev/null 2>err 3>&- || status=$?
		[ "$status" != 137 ] || fail "hangs with 4 bytes changed at $at of $size: $(cat err)"
	done
	FILE=$(realpath bad.sqfs)
	until_true no_servers
}

# --- the choice of the root ---------------------------------------------------------------

@test "squash root: without /dev/fuse the hint's command makes a tree that runs" {
	needs_closable_fuse
	run -125 without_fuse mlrun exec "$IMG" true
	assert_output --partial "open /dev/fuse, through which squashfs images are served"
	command=$(sed -n 's/.*: \(mlrun pull --format=dir .*\)/\1/p' <<<"$output")
	assert_equal "$command" "mlrun pull --format=dir $IMG"
	$command
	run -0 without_fuse mlrun exec "$IMG" cat /data/f14
	assert_output "file 14"
}

@test "squash root: the hint for a file names commands that work" {
	command -v unsquashfs >/dev/null || skip "unsquashfs is not installed"
	needs_closable_fuse
	run -125 without_fuse mlrun exec "squashfs:$FILE" true
	assert_output --partial "unsquashfs -d DIR $FILE && mlrun exec rootfs:DIR"
	unsquashfs -q -n -d DIR "$FILE" >/dev/null
	run -0 without_fuse mlrun exec rootfs:DIR cat /data/f15
	assert_output "file 15"
}

@test "squash root: trees are taken where there are some, unless overlayfs cannot have them" {
	needs_fuse
	mlrun pull -q --format=layers "$IMG"
	run -0 mlrun exec --explain "$IMG" true
	assert_line --partial "format layers; also there: squashfs"
	jq -n --argjson type "$((16#$(stat -f -c %t "$MLRUN_STORE")))" \
		'{fs_type: $type, whiteouts: true, xattrs: true, hard_links: true, overlay: 0}' >probe
	cp probe "$MLRUN_STORE/probe.json"
	run -0 mlrun exec --explain "$IMG" true
	assert_line --partial "format squashfs, as the store's file system cannot be a layer of overlayfs; also there: layers"
	run -0 mlrun exec "$IMG" cat /data/f16
	assert_output "file 16"
	# Found out of another file system, it counts for nothing.
	jq '.fs_type += 1' probe >"$MLRUN_STORE/probe.json"
	run -0 mlrun exec --explain "$IMG" true
	assert_line --partial "format layers; also there: squashfs"
}

@test "squash root: where overlayfs cannot have the trees and FUSE is closed, the trees are tried" {
	needs_closable_fuse
	mlrun pull -q --format=dir "$IMG"
	jq -n --argjson type "$((16#$(stat -f -c %t "$MLRUN_STORE")))" \
		'{fs_type: $type, whiteouts: true, xattrs: true, hard_links: true, overlay: 0}' >"$MLRUN_STORE/probe.json"
	run -0 without_fuse mlrun exec --explain "$IMG" true
	assert_line --partial "format dir, as /dev/fuse is closed to this user; also there: squashfs"
}

@test "squash root: files of every compression that libsquashfuse has run, another is named" {
	needs_fuse
	command -v mksquashfs >/dev/null || skip "mksquashfs is not installed"
	# shellcheck disable=SC2016
	for comp in gzip xz lz4 zstd lzo; do
		for block in 4096 131072 1048576; do
			mksquashfs "$BATS_FILE_TMPDIR/more" "$BATS_FILE_TMPDIR/tiny" "c.sqfs" -comp $comp -b $block \
				-noappend -quiet -no-progress >/dev/null 2>&1 ||
				continue # this mksquashfs lacks it
			run -0 mlrun exec -v "$BATS_FILE_TMPDIR/tiny/bin:/bin" squashfs:c.sqfs sh -c \
				'cd /more && sha256sum large random hole && cat data/f17'
			assert_equal "$output" "$(cd "$BATS_FILE_TMPDIR/more" && sha256sum large random hole && cat data/f17)"
		done
	done
	# The number of the compression lies at byte 20: 7 is none yet. (2 is lzma, which Ubuntu's libsquashfuse has.)
	printf '\7\0' | dd of=c.sqfs bs=1 seek=20 conv=notrunc 2>/dev/null
	run -125 mlrun exec squashfs:c.sqfs true
	assert_output --partial "c.sqfs': compressed with an unknown method, which this mlrun's libsquashfuse cannot read"
}

# --- looking into an image that is not mounted ------------------------------------------

@test "squash server: a user's name is found in an image, however its files are cut and linked" {
	command -v mksquashfs >/dev/null || skip "mksquashfs is not installed"
	tiny_root root
	mkdir -p root/a/deep
	mv root/etc/passwd root/a/deep/users
	ln -s ../a/link root/etc/passwd
	ln -s /a/deep/../deep/users root/a/link
	for ((i = 1; i < 20000; i++)); do echo "user$i:x:$i:$i::/home/user$i:/bin/sh"; done >>root/a/deep/users
	mksquashfs root small.sqfs -b 4096 -quiet -no-progress >/dev/null
	mksquashfs root large.sqfs -b 1M -quiet -no-progress >/dev/null
	for file in small large; do
		run -0 mlrun exec --explain=json --user user19999 squashfs:$file.sqfs true
		assert_equal "$(jq -c '.identity | [.uid, .home]' <<<"$output")" '[19999,"/home/user19999"]'
	done
	run -125 mlrun exec --explain --user nobody-such squashfs:small.sqfs true
	assert_output --partial "the image's /etc/passwd knows no user 'nobody-such'"
}

@test "squash server: a file that is no image is told of, not waited for" {
	head -c 100000 /dev/urandom >noise.sqfs
	run -125 timeout 120 mlrun exec --explain --user somebody squashfs:noise.sqfs true
	assert_output --partial "noise.sqfs' is not a squashfs image"
}

# confinement: of each thread of each server, on one line
confinement() {
	local pid task

	for pid in $(servers); do
		for task in "/proc/$pid/task"/*; do
			awk '$1 == "NoNewPrivs:" || $1 == "Seccomp:" { printf "%s %s ", $1, $2 } END { print "" }' "$task/status" || :
		done
	done
}

@test "squashfs: every thread of the server is locked down, with a filter of system calls" {
	local want='NoNewPrivs: 1 Seccomp: 2 '

	needs_fuse
	[ "${sanitizers:-no}" != yes ] || want='NoNewPrivs: 1 Seccomp: 0 ' # a sanitizer needs more calls than we do
	start 'cat /large /random /hole /data/* >/dev/null & cat /random /large >/dev/null; wait; : >ready; exec sleep 1000'
	run -0 confinement
	kill "$pid"
	assert [ "${#lines[@]}" -ge 1 ]
	assert_equal "$(sort -u <<<"$output")" "$want"
}

@test "squashfs: the server is locked down before it reads a byte of the image or makes a thread" {
	local log calls

	needs_fuse
	command -v strace >/dev/null || skip "strace is not installed"
	[ "${sanitizers:-no}" != yes ] || skip "a sanitizer reads files of its own"
	strace -ff -o trace -e trace=execve,pread64,read,clone,clone3,landlock_restrict_self,seccomp,prctl \
		mlrun exec "$IMG" sh -c 'cat /large >/dev/null' || skip "strace may not trace here"
	log=$(grep -l 'landlock_restrict_self' trace.*)
	assert_equal "$(wc -w <<<"$log")" 1
	calls=$(grep -oE '^(prctl\(PR_SET_NO_NEW_PRIVS|landlock_restrict_self|seccomp|pread64\(4|clone3?\()' "$log" | uniq | head -n 4)
	assert_equal "$calls" $'prctl(PR_SET_NO_NEW_PRIVS\nlandlock_restrict_self\nseccomp\npread64(4'
}
