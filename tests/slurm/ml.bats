#!/usr/bin/env bats
# slurm/ml.sh as an ordinary user on a real Slurm: `tests/slurm/lab.sh run USER COMMAND` starts one.

load ../cli/common

DATASET=/usr/share/datasets/fashion-mnist

setup_file() {
	if [ -z "${TEST_SLURM_CONF:-}" ]; then
		skip_file "no Slurm cluster here; root starts one by tests/slurm/lab.sh run"
		return
	elif [ ! -e "$DATASET/train-images-idx3-ubyte.gz" ]; then
		skip_file "dataset-fashion-mnist is not installed"
		return
	fi

	export IMAGE=mlrun/trainer-cpu
	MLRUN_STORE=$BATS_FILE_TMPDIR/store HOME=$BATS_FILE_TMPDIR \
		"$top_srcdir/images/build" trainer-cpu "$IMAGE" "$top_builddir/bin/mltrain"
}

setup() {
	common_setup
	export MLRUN_STORE=$BATS_FILE_TMPDIR/store SLURM_CONF=$TEST_SLURM_CONF
}

# The whole of a job's output and what Slurm knows of it, for the report of a failed test.
show_job() {
	scontrol show job "$1"
	cat "ml-$1.out"
}

job_state() { scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p'; }

# As long as Slurm lets it run: two threads on two busy CPUs take minutes.
wait_until_ended() {
	while :; do
		case $(job_state "$1") in # a controller that is busy may give no answer
		'' | PENDING | CONFIGURING | RUNNING | COMPLETING) sleep 0.5 ;;
		*) return 0 ;;
		esac
	done
}

@test "slurm: sbatch slurm/ml.sh ends COMPLETED with the test accuracy in its output" {
	local job

	job=$(EPOCHS=1 USAGE=use.csv sbatch --parsable "$top_srcdir/slurm/ml.sh")
	wait_until_ended "$job"
	run show_job "$job"
	assert_output --partial 'JobState=COMPLETED'
	assert_output --regexp 'test accuracy 8[0-9]\.[0-9]+ %'
	run -0 head -n 2 use.csv
	assert_line --index 0 --partial "cpu_busy_percent"
	assert_line --index 1 --regexp "^20.*,[0-9]+,[0-9]+$"
	[ -s "ml-$job.safetensors" ]
	[ -s "ml-$job.jsonl" ]
}

@test "slurm: SIGTERM to the job leaves a checkpoint that can be evaluated" {
	local job

	job=$(EPOCHS=1000 sbatch --parsable "$top_srcdir/slurm/ml.sh")
	until_true test -s "ml-$job.jsonl"
	[ ! -e "ml-$job.safetensors" ] || skip "an epoch ended before the signal could be sent"
	scancel --signal=TERM "$job"
	wait_until_ended "$job"
	run show_job "$job"
	assert_output --partial "ml-$job.safetensors"
	run -0 mlrun exec -v "$DATASET:/data:ro" "$IMAGE" \
		mltrain eval --checkpoint "$PWD/ml-$job.safetensors" --data /data
	assert_output --partial 'test accuracy'
}

@test "slurm: an image that was not pulled fails the job and says what to do" {
	local job

	job=$(IMAGE=localhost:1/no/such sbatch --parsable "$top_srcdir/slurm/ml.sh")
	wait_until_ended "$job"
	run show_job "$job"
	assert_output --partial 'JobState=FAILED'
	assert_output --partial "mlrun pull localhost:1/no/such"
}
