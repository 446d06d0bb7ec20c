#!/usr/bin/env bats
# Which of a node's GPUs a container gets in Slurm's jobs: the lab's gpuq has a node with four, and the driver is that
# of a made-up machine. Root starts the lab: tests/slurm/lab.sh run USER bats tests/slurm/gpu.bats
# shellcheck disable=SC2016,SC2030,SC2031 # the inner shell expands; each test has its own variables

load ../cli/common
load ../cli/gpu
load mpi

# What a container tells of itself: the numbers of its nodes, then the variable.
TELL='cd /dev; echo rank $SLURM_PROCID: $(ls -d nvidia[0-9]* 2>/dev/null | tr -d a-z) / ${CUDA_VISIBLE_DEVICES-unset}'

setup_file() {
	[ -n "${TEST_SLURM_CONF:-}" ] || { skip_file "no Slurm cluster here; root starts one by tests/slurm/lab.sh run"; return; }
	[ "$(id -u)" != 0 ] || { skip_file "jobs are ordinary users'"; return; }
	export ROOT=$BATS_FILE_TMPDIR/root
	if command -v mpicc >/dev/null; then mpi_image "$ROOT"; else tiny_root "$ROOT"; fi
}

setup() {
	common_setup
	driver_tree debian --gpus=4
	export SLURM_CONF=$TEST_SLURM_CONF IMAGE=rootfs:$ROOT
	cd "$BATS_TEST_TMPDIR" || return
}

gpuq() { timeout 300 srun --quiet --partition=gpuq "$@"; }

# Runs a job script to its end; prints its output. Fails when the job does.
batch() {
	local r=0

	timeout 300 sbatch --wait --quiet --output=job.out "$@" || r=$?
	cat job.out
	return $r
}

# script LINE...: a batch script "job" of these lines.
script() { printf '%s\n' '#!/bin/bash' "$@" >job; }

@test "slurm: --gres=gpu:2 gives a container these two, counted from 0" {
	run -0 gpuq --gres=gpu:2 mlrun exec "$IMAGE" sh -c "$TELL"
	assert_output "rank 0: 0 1 / unset"
}

@test "slurm: --gpus-per-task gives each task its own" {
	run -0 gpuq -n2 --gpus-per-task=1 mlrun exec "$IMAGE" sh -c "$TELL"
	assert_line "rank 0: 0 / unset"
	assert_line "rank 1: 1 / unset"
}

@test "slurm: --gpu-bind is obeyed" {
	run -0 gpuq -n2 --gres=gpu:4 --gpu-bind=map_gpu:3,2 mlrun exec "$IMAGE" sh -c "$TELL"
	assert_line "rank 0: 3 / unset"
	assert_line "rank 1: 2 / unset"
	run -0 gpuq -n2 --gres=gpu:2 --gpu-bind=single:1 mlrun exec "$IMAGE" sh -c "$TELL"
	assert_line "rank 0: 0 / unset"
	assert_line "rank 1: 1 / unset"
}

@test "slurm: --gpu chooses among the job's, and no other" {
	run -0 gpuq --gres=gpu:2 mlrun exec --gpu=1 "$IMAGE" sh -c "$TELL"
	assert_output "rank 0: 1 / unset"
	run -125 gpuq --gres=gpu:2 mlrun exec --gpu=3 "$IMAGE" true
	assert_line --partial "--gpu=3: '3' is not one of the job's GPUs (CUDA_VISIBLE_DEVICES=0,1)"
	run -0 gpuq --gres=gpu:2 mlrun exec --gpu=none "$IMAGE" sh -c "$TELL"
	assert_output --regexp '^rank 0: / '
}

@test "slurm: what NVIDIA_VISIBLE_DEVICES asks for is cut to the job's" {
	NVIDIA_VISIBLE_DEVICES=all run -0 gpuq --gres=gpu:2 mlrun exec "$IMAGE" sh -c "$TELL"
	assert_output "rank 0: 0 1 / unset"
	NVIDIA_VISIBLE_DEVICES=1,2 run -0 gpuq --gres=gpu:2 mlrun exec "$IMAGE" sh -c "$TELL"
	assert_output "rank 0: 1 / unset"
}

@test "slurm: a batch script has the job's GPUs, and so have its steps, each its own" {
	script 'mlrun exec "$IMAGE" sh -c "$TELL"' \
		'srun mlrun exec "$IMAGE" sh -c "$TELL"' \
		'srun --exact -n1 --gres=gpu:1 mlrun exec "$IMAGE" sh -c "$TELL; cd - >/dev/null; echo >up1; $BOTH" >first &' \
		'srun --exact -n1 --gres=gpu:1 mlrun exec "$IMAGE" sh -c "$TELL; cd - >/dev/null; echo >up2; $BOTH" >second &' \
		'wait' 'sort first second'
	# Each keeps its GPU until the other has its own. $TELL leaves the directory.
	export BOTH="until [ -e '$PWD/up1' ] && [ -e '$PWD/up2' ]; do sleep 0.1; done"
	TELL=$TELL run -0 batch --partition=gpuq -n2 --gres=gpu:2 job
	assert_line --index 0 "rank 0: 0 1 / unset"
	assert_line "rank 1: 0 1 / unset"
	assert_equal "$(tail -n2 <<<"$output" | tr '\n' ';')" "rank 0: 0 / unset;rank 0: 1 / unset;"
}

@test "slurm: a step with --gres=none has no GPU though its job has, and --gpu cannot take one" {
	script 'srun --gres=none mlrun exec "$IMAGE" sh -c "$TELL"' \
		'srun --gres=none mlrun exec --gpu=0 "$IMAGE" true; echo "status $?"'
	TELL=$TELL run -0 batch --partition=gpuq --gres=gpu:2 job
	assert_line --regexp '^rank 0: / '
	assert_line --partial "'0' is not one of the job's GPUs (a step of Slurm's without SLURM_STEP_GPUS)"
	assert_line "status 125"
}

@test "slurm: ranks with a GPU each are in one user namespace, pass large messages and see only their own GPU" {
	command -v mpicc >/dev/null || skip "mpicc is not installed"
	run -0 gpuq --mpi=pmix -n2 --gpus-per-task=1 mlrun exec "$IMAGE" sh -c "$TELL; exec large"
	assert_output --partial "large messages passed with 2 ranks"
	refute_output --partial "not available due to different user namespaces"
	assert_line "rank 0: 0 / unset"
	assert_line "rank 1: 1 / unset"
	assert_equal "$(user_namespaces) $(mount_namespaces)" "1 2"
}

@test "slurm: ranks that have the same GPUs share one container" {
	command -v mpicc >/dev/null || skip "mpicc is not installed"
	run -0 gpuq --mpi=pmix -n2 --gres=gpu:2 mlrun exec "$IMAGE" large
	assert_equal "$(user_namespaces) $(mount_namespaces)" "1 1"
}

# --- what is written for users ------------------------------------------------------------

# The job scripts of docs/gpu.md, number by number.
example() {
	awk -v want="$1" '/^```bash/ { n++; on = (n == want); next } /^```/ { on = 0 } on' \
		"$top_srcdir/docs/gpu.md" >job
	[ -s job ] || fail "docs/gpu.md has no job script number $1"
}

@test "docs/gpu.md: one GPU for one program" {
	example 1
	run -0 batch job
	assert_output --regexp '^GPU 0: NVIDIA A40 \(UUID: GPU-c0ffee0[^)]*\)$'
}

@test "docs/gpu.md: a task a GPU" {
	example 2
	run -0 batch job
	assert_equal "${#lines[@]}" 2
	assert_line --regexp '^GPU 0: .*GPU-c0ffee00'
	assert_line --regexp '^GPU 0: .*GPU-c0ffee01'
}

@test "docs/gpu.md: all GPUs for each task" {
	example 3
	run -0 batch job
	assert_line "task 0 of 2 GPUs"
	assert_line "task 1 of 2 GPUs"
}

@test "docs/gpu.md: two programs side by side" {
	example 4
	# A program keeps its GPU until the other has its own.
	sed -i 's,nvidia-smi -L,sh -c "nvidia-smi -L; echo >up.\\$SLURM_STEP_ID; until [ \\$(ls up.* | wc -l) = 2 ]; do sleep 0.1; done",' job
	assert_equal "$(grep -c 'echo >up' job)" 2
	run -0 batch job
	assert_line --regexp '^GPU 0: .*GPU-c0ffee00'
	assert_line --regexp '^GPU 0: .*GPU-c0ffee01'
}

@test "docs/gpu.md: a step that leaves the GPUs alone" {
	example 5
	run -0 batch job
	assert_line "no GPU here"
	assert_line --regexp '^GPU 0: '
	run awk '/^```bash/ { n++ } END { print n }' "$top_srcdir/docs/gpu.md"
	assert_output 5
}

@test "slurm/ml.sh, ml-gpu.sh: on gpuq they train with the job's GPU and say which; ml-gpu.sh runs other commands, too" {
	local root=$BATS_TEST_TMPDIR/trainer

	cp -a "$ROOT" "$root"
	printf '#!/bin/sh\necho "mltrain $* with" /dev/nvidia[0-9]*\n' >"$root/bin/mltrain"
	chmod 755 "$root/bin/mltrain"
	IMAGE=rootfs:$root DATA=$BATS_TEST_TMPDIR run -0 batch --partition=gpuq --gres=gpu:1 "$top_srcdir/slurm/ml.sh"
	assert_line --regexp '^GPU 0: NVIDIA A40'
	assert_line --regexp '^mltrain train .* with /dev/nvidia0$'
	IMAGE=rootfs:$root DATA=$BATS_TEST_TMPDIR run -0 batch "$top_srcdir/slurm/ml-gpu.sh"
	assert_line --regexp '^GPU 0: NVIDIA A40'
	assert_line --regexp '^mltrain train .* with /dev/nvidia0$'
	IMAGE=rootfs:$root DATA=$BATS_TEST_TMPDIR run -0 batch --gres=gpu:2 "$top_srcdir/slurm/ml-gpu.sh" sh -c 'echo got /dev/nvidia[0-9]*'
	assert_line "got /dev/nvidia0 /dev/nvidia1"
}
