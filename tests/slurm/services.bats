#!/usr/bin/env bats
# Services in jobs of a real Slurm: `tests/slurm/lab.sh run USER COMMAND` starts one.
# shellcheck disable=SC2016 # the shell inside expands

load ../cli/common

setup_file() {
	[ -n "${TEST_SLURM_CONF:-}" ] || { skip_file "no Slurm cluster here; root starts one by tests/slurm/lab.sh run"; return; }
	tiny_root "$BATS_FILE_TMPDIR/root"
}

setup() {
	common_setup
	export SLURM_CONF=$TEST_SLURM_CONF TMPDIR=/tmp
	cd "$BATS_TEST_TMPDIR"
	IMG=rootfs:$BATS_FILE_TMPDIR/root
}

teardown() {
	scancel --user "$(id -un)" 2>/dev/null || true
	common_teardown
}

submit() {
	cat >job
	sbatch --parsable -p workq --nodelist=cpu1 --output=out job
}
has_ended() { [ -z "$(squeue -h -j "$1" 2>/dev/null)" ]; }

@test "services: one ends with the job that started it" {
	submit <<-END
		#!/bin/sh
		mlrun run -d --name web $IMG sh -c 'trap "" TERM; echo begun; sleep $NAP' || exit
		mlrun exec --join web true || exit
		mlrun ps --json >ps
	END
	until_true test -s ps
	assert_equal "$(jq -r '.[] | select(.name == "web") | .status' ps)" running
	wait_while pgrep -u "$(id -u)" -f "^sleep $NAP"
	wait_while pgrep -u "$(id -u)" -f "service-hold --store=$MLRUN_STORE"
}

@test "services: scancel is passed on to one's command" {
	local job

	job=$(submit <<-END
		#!/bin/sh
		mlrun run -d --name web -v "$PWD:/here" $IMG sh -c 'trap "echo bye >/here/bye; exit" TERM; touch /here/up; while :; do sleep 0.1; done'
		sleep $NAP
	END
	)
	until_true test -e up
	scancel "$job"
	until_true test -s bye
	wait_while pgrep -u "$(id -u)" -f "service-hold --store=$MLRUN_STORE"
}
