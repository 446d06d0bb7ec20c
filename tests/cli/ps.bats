# mlrun ps: the containers that run.
load common

setup_file() {
	export ROOT=$BATS_FILE_TMPDIR/root
	tiny_root "$ROOT"
}

setup() {
	common_setup
	IMG=rootfs:$ROOT
	TAG=ps.$$.$RANDOM
}

# hold ARGUMENT...: a container in the background, its command running when this returns; its process is $HELD.
hold() {
	NAP=${NAP}1 # another container's
	mlrun exec "$@" "$IMG" sh -c "exec sleep $NAP" 3>&- &
	HELD=$!
	PIDS+=("$HELD")
	until_true pgrep -u "$(id -u)" -f -x "sleep $NAP" >/dev/null
}

# of PID KEY: from the JSON list.
of() { mlrun ps --json | jq -r --argjson pid "$1" ".[] | select(.pid == \$pid) | .$2"; }

@test "ps: a row a container, with its oldest process, its image and its command" {
	hold
	run -0 mlrun ps
	assert_line --index 0 --regexp '^ *PID +PROCESSES .*IMAGE +STARTED +COMMAND$'
	assert_line --regexp "^ *$HELD +1 .*$IMG +20[0-9-]+ [0-9:]+ +sleep $NAP\$"
	run -0 of "$HELD" 'command | join(" ")'
	assert_output "sleep $NAP"
	run -0 of "$HELD" image
	assert_output "$IMG"
	run -0 of "$HELD" user
	assert_output "$(id -un)"
	run -0 of "$HELD" started
	assert_output --regexp "^20[0-9][0-9]-"
	[ $(($(date +%s) - $(date -d "$output" +%s))) -lt 600 ]
}

counts() { [ "$(of "$1" processes)" = "$2" ]; }

@test "ps: processes are counted, joiners and children too" {
	hold --join-tag "$TAG"
	local first=$HELD

	hold --join-tag "$TAG"
	mlrun exec --join "$first" sh -c 'sleep 1000 & sleep 1000 & wait' 3>&- &
	PIDS+=("$!")
	until_true counts "$first" 5
	mapfile -t -O "${#PIDS[@]}" PIDS < <(pgrep -P "$!")
	run -0 of "$first" shared
	assert_output true
}

@test "ps: of a PID namespace it shows the command, by its number out here" {
	local inner

	hold --init
	inner=$(pgrep -P "$(pgrep -P "$HELD")")
	run -0 of "$inner" 'command[0]'
	assert_output sleep
	run -0 of "$inner" processes
	assert_output 1
	run -0 mlrun exec --join "$inner" sh -c 'cat /proc/2/cmdline | tr "\0" " "'
	assert_output "sleep $NAP "
}

@test "ps: what has ended, and what runs outside, is not listed" {
	hold
	kill -KILL "$HELD"
	wait "$HELD" || true
	run -0 of "$HELD" pid
	assert_output ""
	run -0 of "$$" pid
	assert_output ""
}

@test "ps: a process in a container cannot pass for a container" {
	local evil

	hold
	mlrun exec --join "$HELD" unshare -Urm sh -c 'mkdir /new && mount -t tmpfs mlrun:evil /new && cd /new && mkdir bin old &&
		cp /bin/busybox bin/sleep && pivot_root . old && exec /bin/sleep 1001' >evil.log 2>&1 3>&- &
	evil=$!
	PIDS+=("$evil")
	until_true runs "$evil" /bin/sleep 1001 || { cat evil.log; fail "the test made no false container"; }
	run -0 grep 'mlrun:evil' "/proc/$evil/mountinfo"
	run -0 mlrun ps
	refute_output --partial evil
	run -125 mlrun exec --join "$evil" true
	assert_output --partial "process $evil is in no container of mlrun's"
}

@test "ps: control characters in arguments do not reach the terminal" {
	mlrun exec "$IMG" sh -c 'while :; do sleep 1; done' $'\e[31mred' $'\xff' 3>&- &
	PIDS+=("$!")
	until_true runs $! sh -c 'while :; do sleep 1; done' $'\e[31mred' $'\xff'
	run -0 mlrun ps
	refute_output --partial $'\e'
	assert_output --partial '\x1b[31mred'
	run -0 mlrun ps --json
	assert_equal "$(jq -r '.[].command[3] | select(. != null and startswith("\u001b"))' <<<"$output")" $'\e[31mred'
	assert_output --partial '"\u00FF"'
}

@test "ps: no argument is taken" {
	run -125 mlrun ps here
	assert_output --partial "expected no argument"
}
