#!/usr/bin/env bats
# A container's command as a process: how it ends, what it inherits, many at once.
# shellcheck disable=SC2016 # the inner shell expands
load common

STATE=$top_builddir/tests/inside/state

setup() {
	common_setup
	tiny_root root
	cp "$STATE" root/bin/state
}

inside() { mlrun exec -w / rootfs:root "$@"; }

@test "process: every exit status from 0 to 255 is handed on" {
	local i
	for ((i = 0; i < 256; i++)); do
		status=0
		inside sh -c "exit $i" || status=$?
		assert_equal "$status" "$i"
	done
}

@test "process: a command that a signal kills ends the same for the caller's waitpid" {
	local n
	for n in 1 2 3 4 6 7 8 9 10 11 12 13 14 15 16 24 25 26 27 29 30 31 34 50 64; do
		run -0 "$STATE" wait mlrun exec -w / rootfs:root state die "$n"
		assert_output "killed $n"
	done
}

@test "process: a signal from outside reaches the command itself, which may catch it" {
	local n
	for n in TERM HUP USR1 USR2 ALRM; do # a shell's background jobs ignore INT and QUIT
		rm -f ready
		mlrun exec rootfs:root sh -c "trap 'exit 42' $n; echo >ready; for i in \$(seq 50000); do sleep 0.02; done" 3>&- &
		until_true test -e ready
		kill -$n $!
		status=0
		wait $! || status=$?
		assert_equal "$status" 42
	done
}

@test "process: what execve hands on is the same as without mlrun" {
	local line prefix nice

	nice=$(nice)
	cd /
	for prefix in "" "$STATE with"; do
		# shellcheck disable=SC2086
		$prefix "$STATE" show >"$TMPDIR/without"
		# shellcheck disable=SC2086
		$prefix mlrun exec -w / "rootfs:$TMPDIR/root" /bin/state show >"$TMPDIR/within"
		run -0 diff "$TMPDIR/without" "$TMPDIR/within"
	done
	# The program does look.
	run -0 cat "$TMPDIR/without"
	for line in "umask: 137" "nice: $((nice > 16 ? 19 : nice + 3))" "alarm runs: 1" "oom score: 345" "limit 7: 200 300" "timer slack: 123456" \
		"personality: 40000"; do
		assert_line "$line"
	done
	assert_line --regexp '^SigIgn:.*1[0-9a-f]002$'
}

@test "process: the process group, the session and the parent are the caller's" {
	local -a before within
	run -0 bash -c 'cut -d" " -f5,6 /proc/$$/stat; mlrun exec -w / rootfs:root sh -c "cut -d\" \" -f4,5,6 /proc/\$\$/stat"; echo $$'
	read -r -a before <<<"${lines[0]}"
	read -r -a within <<<"${lines[1]}"
	assert_equal "${within[0]}" "${lines[2]}"
	assert_equal "${within[*]:1}" "${before[*]}"
}

@test "process: the caller's children stay waitable, and the command has none" {
	run -0 bash -c 'sleep 0.1 & exec mlrun exec -w / rootfs:root sh -c "wait; exec cat /proc/\$\$/task/\$\$/children"; wait'
	[[ $output =~ ^([0-9]+\ )?$ ]]
}

@test "process: a command that cannot be started leaves no process and no file behind" {
	local before command
	before=$(find "$BATS_TEST_TMPDIR" | sort)
	for command in /no/such /etc/passwd; do
		status=0
		mlrun exec -w / "rootfs:$TMPDIR/root" "$command" 2>/dev/null || status=$?
		assert [ "$status" -ge 126 ]
	done
	assert_equal "$(find "$BATS_TEST_TMPDIR" | sort)" "$before"
	wait_while pgrep -f "$TMPDIR/root"
}

# starts N COMMAND...: so many at once; how many said "ok" and how many failed.
starts() {
	local n=$1 i failed=0

	shift
	for ((i = 0; i < n; i++)); do "$@" sh -c 'echo ok' 3>&- & done >all 2>errors
	for i in $(jobs -p); do wait "$i" || failed=$((failed + 1)); done
	echo "$(grep -c '^ok$' all) ok, $failed failed"
	sort errors | uniq -c | head
}

@test "process: 256 containers start at once" {
	local n=256
	[ "${sanitizers:-no}" != yes ] || n=32
	run -0 starts "$n" mlrun exec -w / rootfs:root
	assert_output "$n ok, 0 failed"
}

@test "process: 256 containers of an image in the store start at once" {
	local n=256
	[ "${sanitizers:-no}" != yes ] || n=32
	tar -C root -cf root.tar .
	mlrun import -q root.tar tiny
	run -0 starts "$n" mlrun exec -w / tiny
	assert_output "$n ok, 0 failed"
	# Nobody is left that uses it.
	run -0 mlrun rm tiny
}

@test "process: 64 containers of a squashfs image start at once" {
	local n=64
	needs_squashfs
	needs_fuse
	[ "${sanitizers:-no}" != yes ] || n=8
	tar -C root -cf root.tar .
	mlrun import -q --format=squashfs root.tar tiny
	run -0 starts "$n" mlrun exec -w / tiny
	assert_output "$n ok, 0 failed"
}
