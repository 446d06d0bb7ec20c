#!/usr/bin/env bats
# Slurm's own --container=BUNDLE by mlrun.
# shellcheck disable=SC2016 # the inner shell expands

load ../cli/common

setup_file() {
	[ -n "${TEST_SLURM_CONF:-}" ] || { skip_file "no Slurm cluster here; root starts one by tests/slurm/lab.sh run"; return; }
	[ "$(id -u)" != 0 ] || { skip_file "jobs are ordinary users'"; return; }
	export BUNDLE=$BATS_FILE_TMPDIR/bundle
	mkdir "$BUNDLE"
	tiny_root "$BUNDLE/rootfs"
	mlrun oci spec --bundle "$BUNDLE"
	sed "s|mlrun oci|$top_builddir/bin/mlrun oci|g; s|timeout 60|timeout 2|g" "$top_srcdir/slurm/oci.conf" >"${TEST_SLURM_CONF%/*}/site/oci.conf"
}
teardown_file() { rm -f "${TEST_SLURM_CONF%/*}/site/oci.conf"; }

setup() {
	common_setup
	export SLURM_CONF=$TEST_SLURM_CONF
	cd "$BATS_TEST_TMPDIR" || return
}

teardown() {
	[ -z "${STATES:-}" ] || rm -rf "$STATES" # the next lab has the same numbers of jobs
	common_teardown
}

# Commands have a path: newer versions of Slurm look a bare name up on the host.
in_bundle() { timeout 300 srun --quiet --container="$BUNDLE" "$@"; }

@test "slurm: srun --container runs the command in the bundle as the user" {
	run -0 in_bundle /bin/sh -c 'id -u; cat /etc/os-release; echo "$1" "$SLURM_JOB_ID" | grep -o "a b [0-9]"' sh "a b"
	assert_line --index 0 "$(id -u)"
	assert_line --index 1 "NAME=tiny"
	assert_line --index 2 --regexp "^a b [0-9]"
}

@test "slurm: the command's exit status is srun's" {
	run -7 in_bundle /bin/sh -c 'exit 7'
}

# Slurm 22.05 allows one task a node.
@test "slurm: each node's task has its container" {
	run -0 in_bundle -N2 -n2 /bin/sh -c 'echo $SLURM_JOB_ID of $SLURM_NNODES'
	assert_equal "$(cut -d " " -f 2- <<<"$output")" $'of 2\nof 2'
}

@test "slurm: a batch script runs in the bundle" {
	printf '#!/bin/sh\ncat /etc/os-release\n' >job
	run -0 timeout 300 sbatch --wait --quiet --output="$PWD/job.out" --container="$BUNDLE" job
	run -0 grep -v 'slurmstepd.*RunTimeQuery failed' job.out # newer ones ask after the end, too
	assert_output "NAME=tiny"
}

@test "slurm: scancel ends a container, and nothing of it remains" {
	local job

	job=$(sbatch --parsable --output="$PWD/job.out" --container="$BUNDLE" --wrap 'echo begun; sleep 876')
	until_true grep -q begun job.out
	scancel "$job"
	until_true eval '[ -z "$(squeue -h -j '"$job"')" ]'
	wait_while pgrep -f "sleep 876"
}

# Root's slurmstepd reads the answers of a program that the user can stop.
@test "slurm: a user who stops mlrun's answers keeps no slurmstepd" {
	local job home

	job=$(sbatch --parsable --nodelist=cpu1 --output="$PWD/job.out" --container="$BUNDLE" --wrap 'echo begun; sleep 876')
	until_true grep -q begun job.out
	home=$(getent passwd "$(id -un)" | cut -d: -f6)
	STATES=$(echo "$home/.local/state/mlrun/oci-cpu1/cpu1.$(id -un).$job".*)
	mv "$STATES/state.json" "$STATES/was.json"
	mkfifo "$STATES/state.json"
	scancel "$job"
	until_true eval '! pgrep -f "^slurmstepd: \\[$job\." >/dev/null'
}
