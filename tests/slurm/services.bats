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
# What ps says there when the job has ended.
status_on_node() {
	srun -p workq --nodelist=cpu1 mlrun ps --all --json | jq -r '.[] | select(.name == "web") | .status'
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
	assert_equal "$(status_on_node)" exited
}

@test "services: one that a step started ends with the step, and ps in the job says so" {
	submit <<-END
		#!/bin/sh
		srun -n1 sh -c 'mlrun run -d --name web $IMG sleep $NAP && mlrun ps --json >during'
		while mlrun ps --json | grep -q '"web"'; do sleep 0.1; done
		mlrun ps --all --json >after
		mlrun wait web >status 2>&1
		touch done
	END
	until_true test -e "done"
	assert_equal "$(jq -r '.[] | select(.name == "web") | .status' during)" running
	assert_equal "$(jq -r '.[] | select(.name == "web") | .status' after)" exited
	assert_equal "$(cat status)" 143
	wait_while pgrep -u "$(id -u)" -f "^sleep $NAP"
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
	assert_equal "$(status_on_node)" exited
}
