#!/usr/bin/env bats
# Open MPI's ranks in containers, under mpirun and under srun --mpi=pmix. The image has the host's Open MPI.
# shellcheck disable=SC2016 # the inner shell expands

load ../cli/common
load mpi

setup_file() {
	local program

	for program in mpicc mpirun; do
		command -v $program >/dev/null || { skip_file "$program is not installed"; return; }
	done
	[ "$(id -u)" != 0 ] || { skip_file "mpirun is for ordinary users"; return; }
	export ROOT=$BATS_FILE_TMPDIR/root
	mpi_image "$ROOT"
}

setup() {
	common_setup
	export SLURM_CONF=${TEST_SLURM_CONF:-}
	export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
	IMG=rootfs:$ROOT
	# Where mpirun and the ranks meet has a limit on the length of its name.
	export TMPDIR=/tmp
}

@test "mpi: mpirun's ranks share one container and pass large messages" {
	run -0 timeout 300 mpirun -np 4 mlrun exec "$IMG" large
	assert_output --partial "large messages passed with 4 ranks"
	refute_output --partial "not available due to different user namespaces"
	assert_equal "$(user_namespaces) $(mount_namespaces)" "1 1"
}

@test "mpi: with --mpi=none each rank is alone, and large messages pass as well" {
	run -0 timeout 300 mpirun -np 3 mlrun exec --mpi=none "$IMG" large
	assert_output --partial "large messages passed with 3 ranks"
	assert_equal "$(user_namespaces) $(mount_namespaces)" "3 3"
}

@test "mpi: ranks in different images, or with different mounts, read each other's memory" {
	# Not by ":", at which Debian 13's mpirun crashes.
	# shellcheck disable=SC2016
	run -0 timeout 300 mpirun -np 2 bash -c 'options=(-v /usr:/mnt/usr)
		[ "$OMPI_COMM_WORLD_RANK" = 1 ] || options=()
		exec mlrun exec "${options[@]}" "$0" large' "$IMG"
	assert_output --partial "large messages passed with 2 ranks"
	refute_output --partial "not available due to different user namespaces"
	assert_equal "$(user_namespaces) $(mount_namespaces)" "1 2"
}

@test "mpi: ranks with a PID namespace each pass large messages" {
	run -0 timeout 300 mpirun -np 2 mlrun exec --pid "$IMG" large
	assert_output --partial "large messages passed with 2 ranks"
}

@test "mpi: srun's ranks share one container and pass large messages" {
	needs_slurm
	run -0 timeout 300 srun --quiet --mpi=pmix -N1 -n4 --overcommit mlrun exec "$IMG" large
	assert_output --partial "large messages passed with 4 ranks"
	refute_output --partial "not available due to different user namespaces"
	refute_output --partial "PMIX ERROR"
	assert_equal "$(user_namespaces) $(mount_namespaces)" "1 1"
}

@test "mpi: srun's ranks with --mpi=none pass large messages" {
	needs_slurm
	run -0 timeout 300 srun --quiet --mpi=pmix -N1 -n2 --overcommit mlrun exec --mpi=none "$IMG" large
	assert_output --partial "large messages passed with 2 ranks"
	assert_equal "$(user_namespaces) $(mount_namespaces)" "2 2"
}

@test "mpi: srun's ranks on two nodes pass large messages, each node has its container" {
	needs_slurm
	run -0 timeout 300 srun --quiet --mpi=pmix -N2 -n4 --overcommit mlrun exec "$IMG" large
	assert_output --partial "large messages passed with 4 ranks"
	refute_output --partial "not available due to different user namespaces"
	assert_equal "$(user_namespaces) $(mount_namespaces)" "2 2"
}

@test "mpi: tasks of a step without MPI share one container as well" {
	needs_slurm
	# The container is there as long as one of them is.
	run -0 timeout 300 srun --quiet -N1 -n4 --overcommit mlrun exec -v "$BATS_TEST_TMPDIR" "$IMG" sh -c \
		'echo $(readlink /proc/self/ns/user) $(readlink /proc/self/ns/mnt)
		echo >"$0/up.$SLURM_PROCID"; until [ $(ls "$0"/up.* | wc -l) = 4 ]; do sleep 0.1; done' "$BATS_TEST_TMPDIR"
	assert_equal "$(user_namespaces) $(mount_namespaces)" "1 1"
}

@test "mpi: eight ranks through apptainer exec, of mpirun and of srun, share one container; a job's SIGTERM reaches the program" {
	PATH=$top_builddir/bin/apptainer:$PATH
	cd "$BATS_TEST_TMPDIR"
	run -0 timeout 300 mpirun -np 8 apptainer exec "$ROOT" large
	assert_output --partial "large messages passed with 8 ranks"
	refute_output --partial "not available due to different user namespaces"
	assert_equal "$(user_namespaces) $(mount_namespaces)" "1 1"
	needs_slurm
	# Open MPI makes a directory in Slurm's TmpFS, which is not /tmp here.
	run -0 timeout 300 srun --quiet --mpi=pmix -N1 -n8 --overcommit singularity exec --cleanenv --writable-tmpfs "$ROOT" large
	assert_output --partial "large messages passed with 8 ranks"
	assert_equal "$(user_namespaces) $(mount_namespaces)" "1 1"
	printf '#!/bin/sh\nexec singularity exec --bind "$PWD" %q sh -c '"'"'trap "echo told >said; exit 0" TERM; touch runs; while :; do sleep 0.1; done'"'"'\n' "$ROOT" >job
	job=$(sbatch --parsable --output=out job)
	until_true test -e runs
	scancel --full --signal=TERM "$job"
	until_true test -s said
	until_true eval '[[ $(squeue -h -j "$job" -o %T) == @(|COMPLETED) ]]'
}

# traced COMMAND...: run it and write its reads of other processes' memory, at least a megabyte each, to
# reads.RANK. strace is told so by a program in its own place: mpirun and srun start that.
traced() {
	command -v strace >/dev/null || skip "strace is not installed"
	strace -qq -e trace=none true 2>/dev/null || skip "this machine forbids ptrace(2)"
	cat >traced <<-'END'
		#!/bin/sh
		exec strace -f -qq -e trace=process_vm_readv -o "$PWD/reads.${OMPI_COMM_WORLD_RANK:-$SLURM_PROCID}" "$@"
	END
	chmod +x traced
	run -0 timeout 300 "$@"
	assert_output --partial "large messages passed with 4 ranks"
	assert_equal "$(user_namespaces) $(mount_namespaces)" "1 1"
}

# Every rank has read megabytes from another's memory, without an error.
assert_read() {
	local rank

	for rank in 0 1 2 3; do
		cat "reads.$rank"
		grep -qE 'process_vm_readv\(.* = [0-9]{7,}$' "reads.$rank" || fail "rank $rank read nothing from the others"
		! grep -E 'process_vm_readv\(.* = -1 ' "reads.$rank" || fail "rank $rank was refused"
	done
}

@test "mpi: mpirun's ranks copy large messages by process_vm_readv(2) from each other's memory" {
	cd "$BATS_TEST_TMPDIR"
	traced mpirun -np 4 ./traced mlrun exec "$IMG" large
	assert_read
	# The proof sees the difference: ranks alone do without.
	rm reads.*
	run -0 timeout 300 mpirun -np 4 ./traced mlrun exec --mpi=none "$IMG" large
	run -1 grep -c process_vm_readv reads.0 reads.1 reads.2 reads.3
}

@test "mpi: srun's ranks on a node copy large messages by process_vm_readv(2), too" {
	needs_slurm
	cd "$BATS_TEST_TMPDIR"
	traced srun --quiet --mpi=pmix -N1 -n4 --overcommit ./traced mlrun exec "$IMG" large
	assert_read
}
