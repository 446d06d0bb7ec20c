#!/usr/bin/env bats
# The image of a start that is not in the store.

load common

setup_file() {
	registry_start
	image_tiny tiny
}
teardown_file() { registry_stop; }

setup() {
	common_setup
	IMG=$REGISTRY/tiny
	IMG_STAMP=$TMPDIR/stamp
	touch -d '1 second ago' "$IMG_STAMP"
}

# step N COMMAND...: as N ranks of a step of Slurm's; their output is in rank.0 and so on
step() {
	local n=$1 i pids=() job=9$BASHPID
	shift
	for ((i = 0; i < n; i++)); do
		SLURM_JOB_ID=$job SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=$n SLURM_PROCID=$i SLURM_NODEID=0 \
			SLURM_STEP_NUM_NODES=2 "$@" >"rank.$i" 2>&1 &
		pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i" || status=$?; done
	return "${status:-0}"
}

@test "fetch: of the ranks of a step one fetches a missing image" {
	local before
	before=$(registry_requests 'GET .*/manifests/' | wc -l)
	run -0 step 12 mlrun exec "$IMG" echo inside
	run -0 cat rank.*
	assert_equal "$(grep -c '^inside$' <<<"$output")" 12
	assert_equal "$(grep -c 'is not in the store and is pulled' <<<"$output")" 1
	assert_equal "$(($(registry_requests 'GET .*/manifests/' | wc -l) - before))" 1
	run ls -d /dev/shm/mlrun-"$(id -u)"*/pull-*
	assert_output --partial "No such file"
}

@test "fetch: what a container writes in the place of a rank's result starts nothing, and is no success" {
	local text file

	export SLURM_JOB_ID=98$BASHPID SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 SLURM_NODEID=0
	run -125 mlrun exec "$REGISTRY/forged" true
	file=$(find /dev/shm/mlrun-"$(id -u)"* -name 'pull-*' -newer "$IMG_STAMP" -print -quit)
	for text in '256 x ' '512 x ' '-1 x ' '0 x '; do
		printf '%s' "$text" >"$file"
		run mlrun exec "$REGISTRY/forged" true
		assert_equal "$status" 125
	done
}

@test "fetch: one that fails fails all ranks of the step, and is told once" {
	run -125 step 12 mlrun exec "$REGISTRY/nothing" true
	run -0 cat rank.*
	assert_equal "$(grep -c "node '$(hostname)' has no image '$REGISTRY/nothing'" <<<"$output")" 1
	assert_equal "$(grep -c 'pull .*nothing' <<<"$output")" 1
	# Who tries again fetches again, and says so again.
	export SLURM_JOB_ID=99 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 SLURM_NODEID=0
	run -125 mlrun exec "$REGISTRY/later" true
	assert_output --partial later
	SLURM_PROCID=0 run -125 mlrun exec "$REGISTRY/later" true
	assert_output ""
	image_push_tar later "$BATS_FILE_TMPDIR/tiny.tar"
	run -0 mlrun exec "$REGISTRY/later" true
	# Another store is another fetch.
	MLRUN_STORE=$PWD/other run -0 mlrun exec "$REGISTRY/later" true
	unset "${!SLURM_@}"
	# Old failures are forgotten.
	touch -d '2 hours ago' /dev/shm/mlrun-"$(id -u)"*/pull-*
	run -0 step 2 mlrun exec "$IMG" true
	run ls -d /dev/shm/mlrun-"$(id -u)"*/pull-*
	assert_output --partial "No such file"
}
