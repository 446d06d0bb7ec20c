#!/usr/bin/env bats
# What a job's starts leave behind, and mlrun rerun, which repeats them.
# shellcheck disable=SC2016 # the shell inside expands

load common

setup_file() {
	registry_start
	image_tiny tiny
}
teardown_file() { registry_stop; }

setup() {
	common_setup
	IMG=$REGISTRY/tiny
	export XDG_STATE_HOME=$PWD/state
	mlrun pull -q "$IMG"
}

# job ID [STEP] COMMAND...
job() { SLURM_JOB_ID=$1 SLURM_STEP_ID=$2 "${@:3}"; }

@test "rerun: the same image by its digest, options, command and directory" {
	mkdir data work
	echo one >data/f
	cd work || return
	run -0 --separate-stderr job 17 0 mlrun exec -v "$OLDPWD/data:/data:ro" -e A='b c' "$IMG" sh -c 'cat /data/f; echo $A; pwd'
	local first=$output
	assert_equal "$stderr" ""
	cd "$OLDPWD" || return
	# The tag moves.
	mlrun exec --write=c "$IMG" sh -c 'rm /bin/cat' 2>/dev/null
	mlrun commit -q c two
	mlrun tag two "$IMG" 2>/dev/null
	run -0 --separate-stderr mlrun rerun 17
	assert_output "$first"
	run -0 --separate-stderr mlrun rerun 17.0
	assert_output "$first"
	assert_equal "$stderr" ""
	run -0 mlrun rerun --show 17
	assert_line --regexp '^job +17.0$'
	assert_line --regexp "^directory +$PWD/work$"
	assert_line --regexp "^image +$REGISTRY/tiny:latest@sha256:[0-9a-f]{64}$"
	assert_line --regexp "^command +mlrun exec -v $PWD/data:/data:ro -e 'A=b c' $REGISTRY/tiny:latest@sha256:[0-9a-f]{64} sh -c 'cat /data/f; echo [$]A; pwd'$"
	# What is printed is what a shell takes.
	run -0 bash -c "cd work && $(mlrun rerun --show 17 | sed -n 's/^command *//p')"
	assert_output "$first"
}

@test "rerun: --json has every key, and no value of a variable of the caller's" {
	SECRET=hunter2 run -0 job 18 0 mlrun exec "$IMG" true
	run -0 mlrun rerun --json 18
	refute_output --partial hunter2
	run -0 jq -r '.[0] | keys_unsorted | join(" ")' <<<"$output"
	assert_output "system job step date node kernel mlrun tasks directory argv image command mounts remarks"
	run -0 stat -c %a "$XDG_STATE_HOME/mlrun/runs/18.jsonl" "$XDG_STATE_HOME/mlrun/runs"
	assert_output $'600\n700'
}

@test "rerun: a job with several starts needs its step, a requeued one does not" {
	job 19 0 mlrun exec "$IMG" echo zero
	job 19 1 mlrun exec "$IMG" echo one
	run -125 mlrun rerun 19
	assert_output --partial "job '19' started 2 containers"
	assert_output --partial "hint: mlrun rerun --show 19 lists them"
	run -0 mlrun rerun 19.1
	assert_output one
	job 20 0 mlrun exec "$IMG" echo again
	job 20 0 mlrun exec "$IMG" echo again
	run -0 mlrun rerun 20
	assert_output again
}

@test "rerun: one rank records, and nothing outside of jobs, or where it is forbidden" {
	for i in 0 1 2 3; do SLURM_PROCID=$i job 21 0 mlrun exec "$IMG" true; done
	run -0 wc -l <"$XDG_STATE_HOME/mlrun/runs/21.jsonl"
	assert_output 1
	mlrun exec "$IMG" true
	MLRUN_RECORD=false job 22 0 mlrun exec "$IMG" true
	run -0 ls "$XDG_STATE_HOME/mlrun/runs"
	assert_output 21.jsonl
	run -125 mlrun rerun 22
	assert_output --partial "no start of a container in job '22' is recorded"
	run -125 mlrun rerun ../21
	assert_output --partial "is not a job's id"
	# A home that cannot be written to is no reason not to start.
	touch file
	XDG_STATE_HOME=$PWD/file run -0 --separate-stderr job 23 0 mlrun exec "$IMG" echo started
	assert_output started
	assert_equal "$stderr" ""
}

@test "rerun: starts by shifter are repeated, too" {
	PATH=$top_builddir/bin/shifter:$PATH
	job 24 0 shifter run -e A=b "$IMG" sh -c 'echo $A' >first
	run -0 mlrun rerun 24
	assert_output "$(cat first)"
	job 25 0 shifter --image="$IMG" echo two
	run -0 mlrun rerun 25
	assert_output two
}

@test "rerun: the image is pinned where it stands, and in no other word" {
	PATH=$top_builddir/bin/shifter:$PATH
	mlrun tag "$IMG" bb 2>/dev/null
	job 30 0 mlrun exec --hostname bb bb echo bb
	run -0 mlrun rerun --show 30
	assert_line --regexp '^command +mlrun exec --hostname bb sha256:[0-9a-f]{64} echo bb$'
	run -0 mlrun rerun 30
	assert_output bb
	job 31 0 shifter --image=docker:bb cat /etc/passwd
	mlrun exec --write=c bb rm /etc/passwd 2>/dev/null
	mlrun commit -q c two
	mlrun tag two bb 2>/dev/null
	run -0 mlrun rerun 31
	assert_output --partial root
	SHIFTER_IMAGE=two job 32 0 shifter echo two
	SHIFTER_IMAGE=two run -0 mlrun rerun 32
	assert_output --partial "its name came from a variable"
	# The same command in two directories is two starts.
	mkdir d1 d2
	(cd d1 && job 33 0 mlrun exec "$IMG" pwd)
	(cd d2 && job 33 0 mlrun exec "$IMG" pwd)
	run -125 mlrun rerun 33
}

@test "rerun: a damaged line is passed over, and a file of others is not read" {
	job 26 0 mlrun exec "$IMG" echo once
	echo '{"half' >>"$XDG_STATE_HOME/mlrun/runs/26.jsonl"
	run -0 mlrun rerun 26
	assert_line --partial "26.jsonl:2: no JSON object, ignoring"
	assert_line once
	chmod 666 "$XDG_STATE_HOME/mlrun/runs/26.jsonl"
	run -125 mlrun rerun 26
	assert_output --partial "others may write to it"
}
