#!/usr/bin/env bats
# Containers of one squashfs file that share a server: who does, who does not, and what they must not share.
# shellcheck disable=SC2016 # the inner shell expands

load common

setup_file() {
	local i

	export FILE=$BATS_FILE_TMPDIR/image.sqfs
	tiny_root "$BATS_FILE_TMPDIR/root"
	mkdir "$BATS_FILE_TMPDIR/root/data"
	for ((i = 0; i < 200; i++)); do echo "file $i" >"$BATS_FILE_TMPDIR/root/data/f$i"; done
	if has_squashfs; then
		mksquashfs "$BATS_FILE_TMPDIR/root" "$FILE" -quiet -no-progress -b 4096 >/dev/null
	fi
}

setup() {
	common_setup
	needs_squashfs
	needs_ordinary_user
	needs_squashfuse
	needs_fuse
	IMG=squashfs:$FILE
}

servers() {
	local pid

	for pid in $(pgrep -u "$(id -u)" -x mlrun-squashfus); do
		[ "$(readlink "/proc/$pid/fd/4")" != "${1:-$FILE}" ] || echo "$pid"
	done
}

no_servers() { [ -z "$(servers "$@")" ]; }
servers_are() { [ "$(servers | wc -l)" -eq "$1" ]; }

# hold NAME MLRUN-EXEC-ARGUMENT...: a container that stays until the test ends, or a file NAME.end is there;
# then it reads a file that nobody has read. Its user namespace is in the file NAME, its pid in $HELD.
hold() {
	local name=$1

	shift
	mlrun exec "$@" "$IMG" sh -c "readlink /proc/self/ns/user >'$PWD/$name.new'; mv '$PWD/$name.new' '$PWD/$name'
		until [ -e '$PWD/$name.end' ]; do sleep 0.05; done; cat /data/f${#name}9" >"$name.out" 2>&1 3>&- &
	HELD=$!
	PIDS+=("$HELD")
	until_true test -e "$name"
}

finish() {
	touch "$1.end"
	until_true is_gone "$2"
	assert_equal "$(cat "$1.out")" "file ${#1}9"
}

@test "squash share: containers of one file have one server, which ends with the last of them" {
	hold a; first=$HELD
	hold bb; second=$HELD
	assert_equal "$(cat a)" "$(cat bb)"
	assert servers_are 1
	finish a "$first"
	hold ccc; third=$HELD
	assert servers_are 1
	finish bb "$second"
	finish ccc "$third"
	until_true no_servers
	run -0 --separate-stderr mlrun exec "$IMG" cat /data/f1
	assert_output "file 1"
	assert_equal "$stderr" ""
}

@test "squash share: what one writes, mounts or is called, the others do not see" {
	echo mine >mine
	hold a -v "$PWD/mine:/data/f3" --hostname=first
	run -0 mlrun exec --hostname=second "$IMG" sh -c 'cat /data/f3; hostname; echo x >/data/f4; rm /data/f5; cat /data/f4; ls /data | wc -l'
	assert_output "file 3"$'\n'second$'\n'x$'\n'199
	run -0 mlrun exec "$IMG" sh -c 'cat /data/f4 /data/f5; ls /data | wc -l'
	assert_output "file 4"$'\n'"file 5"$'\n'200
	run -0 mlrun exec --join="$HELD" sh -c 'cat /data/f3; hostname; grep -c fuse /proc/mounts; true'
	assert_output mine$'\n'first$'\n'0
	assert servers_are 1
	run -0 mlrun ps
	assert_line --partial "$HELD"
	assert_equal "$(grep -c "$IMG" <<<"$output")" 1
}

@test "squash share: the image lies beneath the root, out of the command's sight and reach" {
	hold a
	run -0 mlrun exec "$IMG" sh -c 'grep -c " - fuse" /proc/self/mountinfo; ls -id / /.. | awk "{print \$1}" | uniq | wc -l'
	assert_output 0$'\n'1
	run -0 mlrun exec --fakeroot "$IMG" sh -c 'mkdir /x; chroot /x /bin/true 2>/dev/null; umount / 2>/dev/null; cat /data/f2'
	assert_output "file 2"
	# User namespaces of its own, which the kernel forbids to those in a chroot.
	if unshare --user true 2>/dev/null && ldd "$(command -v mlrun)" | grep -q 'statically linked'; then
		cp "$(command -v mlrun)" inner
		run -0 mlrun exec "$IMG" "$PWD/inner" exec rootfs:/ cat /data/f6
		assert_line "file 6"
	fi
}

@test "squash share: who must not be ended, starved or led astray with the others has a server of its own" {
	hold a
	first=$(cat a)
	if [ "$(nproc)" -gt 1 ]; then
		taskset -c "$(taskset -cp $$ | sed 's/.*[ ,-]//')" "$(command -v mlrun)" exec "$IMG" readlink /proc/self/ns/user >cpu
		assert [ "$(cat cpu)" != "$first" ]
	fi
	(ulimit -t 1000; mlrun exec "$IMG" readlink /proc/self/ns/user) >limit
	assert [ "$(cat limit)" != "$first" ]
	nice mlrun exec "$IMG" readlink /proc/self/ns/user >nice
	assert [ "$(cat nice)" != "$first" ]
	mlrun exec --fakeroot "$IMG" readlink /proc/self/ns/user >root
	assert [ "$(cat root)" != "$first" ]
	# It could trace the other's processes, and act through them.
	mlrun exec --net=none "$IMG" readlink /proc/self/ns/user >net
	assert [ "$(cat net)" != "$first" ]
	echo '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["kexec_load"], "action": "SCMP_ACT_ERRNO"}]}' >profile
	if mlrun --version | grep -qF +seccomp; then
		mlrun exec --seccomp=profile "$IMG" readlink /proc/self/ns/user >filtered
		assert [ "$(cat filtered)" != "$first" ]
	fi
	mlrun exec "$IMG" readlink /proc/self/ns/user >same
	assert_equal "$(cat same)" "$first"
}

@test "squash share: a file that was replaced is served anew" {
	cp "$FILE" mine.sqfs
	IMG=squashfs:$PWD/mine.sqfs
	hold a
	mkdir -p new/bin
	cp "$(command -v busybox)" new/bin/busybox
	ln -s busybox new/bin/cat
	echo new >new/f
	rm mine.sqfs
	mksquashfs new mine.sqfs -quiet -no-progress >/dev/null
	run -0 mlrun exec "$IMG" cat /f
	assert_output new
	finish a "$HELD"
}

@test "squash share: --pid and --read-only share, too" {
	hold a
	for how in --pid --read-only; do
		run -0 mlrun exec $how "$IMG" sh -c 'readlink /proc/self/ns/user; cat /data/f8'
		assert_output "$(cat a)"$'\n'"file 8"
	done
	hold bb --pid
	assert_equal "$(cat bb)" "$(cat a)"
	assert servers_are 1
	touch a.end bb.end
	until_true no_servers
}

@test "squash share: where the server was killed the next start has another" {
	hold a
	kill -KILL "$(servers)"
	until_true no_servers
	run -0 --separate-stderr mlrun exec "$IMG" cat /data/f1
	assert_output "file 1"
	assert_equal "$stderr" ""
}

@test "squash share: a start that was killed or stands still keeps nobody waiting for long" {
	mlrun exec "$IMG" true # the list is there
	list=$(grep -ls . /dev/shm/mlrun-"$(id -u)"*/* | xargs ls -t | head -1)
	exec 7<>"$list"
	flock -x 7 # as a start that was stopped
	run -0 --separate-stderr timeout 60 mlrun exec "$IMG" cat /data/f1
	assert_output "file 1"
	assert_equal "$stderr" ""
	exec 7>&-
	for i in 1 2 3 4 5 6 7 8; do
		mlrun exec "$IMG" true 3>&- &
		kill -KILL $! 2>/dev/null || :
		wait $! || :
	done
	run -0 mlrun exec "$IMG" cat /data/f1
	assert_output "file 1"
	until_true no_servers
}

@test "squash share: lies in the list are not believed" {
	hold a
	# The only list whose lines name that process.
	list=$(grep -ls "^$HELD " /dev/shm/mlrun-"$(id -u)"*/* | head -1)
	assert [ -n "$list" ]
	key=$(awk 'NR == 1 { print $3 }' "$list")
	lie() { echo "$1 $(awk '{ print $22 }' "/proc/$1/stat") $key" >"$list"; }
	# A process outside, one in a container of something else, and one that made namespaces of its own.
	sleep 1000 3>&- &
	PIDS+=($!)
	lie $!
	run -0 mlrun exec "$IMG" cat /data/f1
	assert_output "file 1"
	mlrun exec "rootfs:$BATS_FILE_TMPDIR/root" sh -c 'echo >ready; exec sleep 1000' 3>&- &
	PIDS+=($!)
	until_true test -e ready
	lie $!
	run -0 mlrun exec "$IMG" cat /data/f1
	assert_output "file 1"
	mkdir fake
	unshare --user --map-current-user --mount sh -c \
		"mount -t tmpfs 'mlrun-squashfuse@$key' fake; : >there; exec sleep 1000" 3>&- &
	PIDS+=($!)
	until_true test -e there
	lie $!
	run -0 mlrun exec "$IMG" cat /data/f1
	assert_output "file 1"
	echo "garbage" >"$list"
	run -0 mlrun exec "$IMG" cat /data/f1
	assert_output "file 1"
}

@test "squash share: a program that its user may not read keeps nobody waiting" {
	mkdir secret
	cp "$(command -v busybox)" secret/sleep
	chmod 111 secret/sleep
	mlrun exec "$IMG" "$PWD/secret/sleep" 1000 3>&- &
	PIDS+=($!)
	until_true runs $! "$PWD/secret/sleep" 1000
	SECONDS=0
	for i in 1 2 3 4 5 6 7 8 9 10; do mlrun exec "$IMG" true; done
	assert [ "$SECONDS" -lt 50 ]
}

@test "squash share: 64 starts at once of a short command have few servers" {
	for i in {1..64}; do
		mlrun exec --verbose "$IMG" cat "/data/f$i" >"out$i" 2>"err$i" 3>&- &
		pids[i]=$!
	done
	for i in {1..64}; do wait "${pids[i]}"; done
	for i in {1..64}; do assert_equal "$(cat "out$i")" "file $i"; done
	run grep -l "no container has the image's server yet" err*
	assert [ "${#lines[@]}" -ge 1 ]
	assert [ "${#lines[@]}" -le 32 ]
	until_true no_servers
}
