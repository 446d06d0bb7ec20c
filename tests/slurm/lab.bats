#!/usr/bin/env bats
# tests/slurm/lab.sh itself, and ./quickstart lab. Root's, and a lab of another number than the one that others may use.

load ../cli/common

setup_file() {
	local said status=0

	[ "$(id -u)" = 0 ] || { skip_file "a Slurm cluster takes root to start"; return; }
	export LAB_NUMBER=$((200 + $$ % 50))
	export LAB=/run/mlrun-lab$LAB_NUMBER
	export LAB_SPANK= # Slurm's programs do not load what sanitizers made
	said=$("$top_srcdir/tests/slurm/lab.sh" up 2>&1) || status=$?
	[ "$status" != 77 ] || { skip_file "$said"; return; }
	[ "$status" = 0 ] || { echo "$said"; return 1; }
	"$top_srcdir/tests/slurm/lab.sh" down
}

setup() {
	common_setup
	unset TMPDIR
}

teardown() {
	[ -z "${CLONE:-}" ] || rm -rf "$CLONE"
	common_teardown
}

lab() { timeout 300 "$top_srcdir/tests/slurm/lab.sh" "$@"; }

# Nothing of the lab is there: no process, namespace, device, file or user.
assert_gone() {
	run pgrep -af "$LAB/"
	assert_output ""
	run -0 ip -brief link
	refute_output --partial "mlrunlab$LAB_NUMBER"
	[ ! -e "/run/netns/mlrunlab$LAB_NUMBER-cpu1" ]
	[ ! -e "$LAB" ]
	[ ! -e "$LAB.lock" ]
	run ! id "lab$LAB_NUMBER-user2"
	[ ! -e "/home/lab$LAB_NUMBER-user2" ]
}

@test "lab: a run has six nodes and a user, says nothing of itself and leaves nothing" {
	run -0 lab run "lab$LAB_NUMBER-user2" sh -c 'cd /; id -un; srun --quiet -p gpuq -N4 --gres=gpu:1 hostname | sort'
	assert_output "lab$LAB_NUMBER-user2
gpu1
gpu2
gpu3
gpu4"
	assert_gone
	run -3 lab run nobody sh -c 'exit 3'
	assert_output ""
}

@test "lab: up that is ended at any moment leaves nothing behind, at the latest after down" {
	for seconds in 0.05 0.1 0.15 0.2 0.3 0.5; do
		timeout --signal=TERM "$seconds" "$top_srcdir/tests/slurm/lab.sh" up || assert_equal "$?" 124
		lab down
		assert_gone
		timeout --signal=KILL "$seconds" "$top_srcdir/tests/slurm/lab.sh" up || assert_equal "$?" 137
		lab down
		assert_gone
	done
}

@test "lab: another's lab is left alone" {
	lab up
	run -1 lab run nobody true
	assert_output "lab.sh: a lab is up that no 'run' started; 'lab.sh down' takes it down"
	run -1 lab up
	assert_output "lab.sh: there is a lab already; 'lab.sh down' takes it down"
	[ ! -e "$LAB.lock" ]
	lab down
	"$top_srcdir/tests/slurm/lab.sh" run nobody sleep 600 3>&- &
	PIDS+=($!)
	until_true test -s "$LAB/slurmctld.pid"
	run -1 lab down
	assert_output "lab.sh: the lab is another's: a 'lab.sh run' or 'up' is under way"
	kill "${PIDS[0]}"
	until_true is_gone "${PIDS[0]}"
	assert_gone
}

@test "lab: with LAB_DBD=1 jobs are accounted for" {
	command -v slurmdbd >/dev/null && command -v mariadbd >/dev/null || skip "slurmdbd and MariaDB are not installed"
	LAB_DBD=1 run -0 lab run nobody sh -c \
		'cd /; srun --quiet true; until sacct -X -n -o account,state | grep "lab *COMPLETED"; do sleep 0.2; done'
	assert_gone
}

@test "quickstart: lab runs a command on a cluster as the lab's user, with mlrun, an image and the command's status" {
	runuser -u nobody -- test -x "$top_builddir/bin/mlrun" || skip "other users may not read $top_builddir"
	CLONE=$(mktemp -d /tmp/lab-clone.XXXXXX)
	cd "$CLONE"
	chmod 755 .
	mkdir -p clone/tests clone/src/mltrain
	cp -r "$top_srcdir"/{quickstart,images,slurm} clone
	cp -r "$top_srcdir/tests/slurm" clone/tests
	cp -r "$top_srcdir/src/mltrain/nets" clone/src/mltrain
	ln -s "$top_builddir" clone/build-demo
	unset SUDO_USER
	# shellcheck disable=SC2016 # the lab's shell expands
	run -7 timeout 300 clone/quickstart --no-deps lab sh -c \
		'id -un; timeout 300 srun --quiet -N2 mlrun exec mlrun/trainer-cpu busybox hostname | sort; exit 7'
	assert_output "lab$LAB_NUMBER-user2
cpu1
cpu2"
	assert_gone
}
