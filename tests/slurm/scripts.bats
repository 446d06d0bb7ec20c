#!/usr/bin/env bats
# The job scripts of slurm/ but ml.sh (ml.bats) and ml-gpu.sh (gpu.bats), as an ordinary user on a real Slurm:
# `tests/slurm/lab.sh run USER COMMAND` starts one.
# shellcheck disable=SC2016 # the inner shell expands

load ../cli/common
load ../cli/ranks
load mpi

setup_file() {
	[ -n "${TEST_SLURM_CONF:-}" ] || { skip_file "no Slurm cluster here; root starts one by tests/slurm/lab.sh run"; return; }
	[ "$(id -u)" != 0 ] || { skip_file "jobs are ordinary users'"; return; }
	export DATA=$BATS_FILE_TMPDIR/data MPI_ROOT=$BATS_FILE_TMPDIR/mpi
	ranks_data "$DATA"
	MLRUN_STORE=$BATS_FILE_TMPDIR/store HOME=$BATS_FILE_TMPDIR \
		"$top_srcdir/images/build" trainer-cpu mlrun/trainer-cpu "$top_builddir/bin/mltrain"
	if [ -e "$top_builddir/bin/mltrain-mpi.so" ]; then mpi_trainer "$MPI_ROOT"; fi
}

# An image's root with mltrain, its plugin for ranks and the host's Open MPI.
mpi_trainer() {
	local lib

	mpi_image "$1"
	cp "$top_builddir"/bin/mltrain{,-mpi.so} "$1/bin"
	cp -r --no-preserve=mode "$top_srcdir/src/mltrain/nets" "$1"
	ldd "$top_builddir"/bin/mltrain{,-mpi.so} | grep -o '/[^ ):]*\.so[^ ):]*' | sort -u | while read -r lib; do
		case $lib in "$top_builddir"*) continue ;; esac
		mkdir -p "$1${lib%/*}"
		[ -e "$1$lib" ] || cp -L "$lib" "$1$lib"
	done
}

setup() {
	common_setup
	cd "$BATS_TEST_TMPDIR" || return
	export MLRUN_STORE=$BATS_FILE_TMPDIR/store SLURM_CONF=$TEST_SLURM_CONF MLTRAIN_NETS=/nets
	# Where mpirun and the ranks meet has a limit on the length of its name.
	export TMPDIR=/tmp
}

teardown() {
	# shellcheck disable=SC2046 # words
	[ ! -e jobs ] || scancel --quiet $(cat jobs) || true
	common_teardown
}

# Runs a job script of slurm/ to its end; prints its output. Fails when the job does.
batch() {
	local r=0

	timeout 300 sbatch --wait --quiet --output=job.out "${@:2}" "$top_srcdir/slurm/$1" || r=$?
	cat job.out
	return $r
}

# The same with a command for the script.
batch_with() {
	local r=0 script=$1

	shift
	timeout 300 sbatch --wait --quiet --output=job.out "$top_srcdir/slurm/$script" "$@" || r=$?
	cat job.out
	return $r
}

job_state() { scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p'; }
is_in_state() { [ "$(job_state "$1")" = "$2" ]; }
has_ended() {
	case $(job_state "$1") in # a controller that is busy may give no answer
	'' | PENDING | CONFIGURING | RUNNING | COMPLETING | REQUEUED) return 1 ;;
	esac
}

@test "slurm/ml-mpi.sh: two nodes train one network, and an image that is missing is named" {
	[ -e "$MPI_ROOT" ] || skip "built without Open MPI"
	IMAGE=rootfs:$MPI_ROOT EPOCHS=2 run -0 batch ml-mpi.sh
	assert_line --regexp '^test accuracy '
	run -0 jq -c 'select(.event == "run") | .ranks' ml-*.jsonl
	assert_output 2
	IMAGE=localhost:1/no/such run batch ml-mpi.sh
	[ "$status" != 0 ]
	assert_output --partial "mlrun pull localhost:1/no/such"
}

@test "slurm/ml-mpi.sh: a command of the user's runs on every rank" {
	[ -e "$MPI_ROOT" ] || skip "built without Open MPI"
	unset DATA # sites have none where Debian has it
	IMAGE=rootfs:$MPI_ROOT run -0 batch_with ml-mpi.sh sh -c '[ ! -e /data ] && exec large'
	assert_output --partial "large messages passed with 2 ranks"
}

@test "slurm/ml-mpirun.sh: mpirun's ranks on two nodes train one network and know where they meet" {
	[ -e "$MPI_ROOT" ] || skip "built without Open MPI"
	IMAGE=rootfs:$MPI_ROOT EPOCHS=2 run -0 batch ml-mpirun.sh
	assert_line --regexp '^test accuracy '
	run -0 jq -c 'select(.event == "run") | .ranks' ml-*.jsonl
	assert_output 4
	IMAGE=rootfs:$MPI_ROOT run -0 batch_with ml-mpirun.sh \
		sh -c 'echo "rank $RANK of $WORLD_SIZE, $LOCAL_RANK here, at $MASTER_ADDR:$MASTER_PORT"'
	assert_equal "$(sort <<<"${output//:[0-9][0-9][0-9][0-9][0-9]/:PORT}")" "rank 0 of 4, 0 here, at cpu1:PORT
rank 1 of 4, 1 here, at cpu1:PORT
rank 2 of 4, 0 here, at cpu1:PORT
rank 3 of 4, 1 here, at cpu1:PORT"
	assert_equal "$(grep -o ':[0-9]*' <<<"$output" | sort -u | wc -l)" 1
}

@test "slurm/ml-array.sh: six trainings make one table, and the same again by hand" {
	EPOCHS=1 run -0 timeout 300 sbatch --wait --parsable "$top_srcdir/slurm/ml-array.sh"
	job=$output
	cat ml-"$job"-*.out
	run -0 cut -f1,2,4 "ml-$job.tsv"
	assert_output "rate	seed	log
0.003	1	ml-$job-0.jsonl
0.003	2	ml-$job-1.jsonl
0.01	1	ml-$job-2.jsonl
0.01	2	ml-$job-3.jsonl
0.03	1	ml-$job-4.jsonl
0.03	2	ml-$job-5.jsonl"
	assert_equal "$(tail -n +2 "ml-$job.tsv" | cut -f3 | grep -cE '^[01](\.[0-9]+)?$')" 6
	mv "ml-$job.tsv" before
	"$top_srcdir/slurm/ml-array.sh" "$job"
	cmp before "ml-$job.tsv"
	RATES=0.1 SEEDS=1 run -1 batch ml-array.sh --array=1
	assert_output --partial "there is no training 1: 1 rates, 1 seeds; --array=0-0"
}

@test "slurm/ml-requeue.sh: a training that is interrupted and queued again ends as one that was not" {
	export EPOCHS=60
	EPOCHS=$EPOCHS run -0 batch ml-requeue.sh
	assert_line --regexp '^test accuracy '
	whole=$(basename ml-*.jsonl .jsonl)

	job=$(sbatch --parsable "$top_srcdir/slurm/ml-requeue.sh")
	echo "$job" >jobs
	until_true has_steps "ml-$job.jsonl" 3
	scancel --signal=USR1 "$job"
	until_true has_ended "$job"
	cat "ml-$job.out"
	run -0 scontrol show job "$job"
	assert_output --partial 'JobState=COMPLETED'
	assert_output --partial 'Restarts=1 '
	assert_equal "$(grep -c '"event":"run"' "ml-$job.jsonl")" 2
	assert_equal "$(grep -c '"event":"interrupted"' "ml-$job.jsonl")" 1
	result() { grep '"event":"end"' "$1.jsonl" | grep -oE '"(step|loss|cross_entropy|test_wrong)":[^,}]*'; }
	assert_equal "$(result "ml-$job")" "$(result "$whole")"
	assert_equal "$(result "$whole" | wc -l)" 4
	assert_same_tensors "ml-$job.safetensors" "$whole.safetensors"
}

@test "slurm/ml-requeue.sh: a job that gives way to others goes on after them" {
	job=$(EPOCHS=100000 sbatch --parsable --partition=scav --nodelist=cpu1 "$top_srcdir/slurm/ml-requeue.sh")
	echo "$job" >jobs
	until_true has_steps "ml-$job.jsonl" 3
	timeout 300 srun --quiet --partition=workq --nodelist=cpu1 --exclusive true
	has_two_runs() { [ "$(grep -c '"event":"run"' "ml-$job.jsonl")" = 2 ]; }
	until_true has_two_runs
	cat "ml-$job.out"
	run -0 scontrol show job "$job"
	assert_output --partial 'Restarts=1 '
	# Not from the start.
	run -0 grep -oP '"event":"run".*"step":\K[0-9]+' "ml-$job.jsonl"
	assert_equal "${lines[0]} $((lines[1] >= 3))" "0 1"
}

@test "slurm/ml-requeue.sh: a training that fails is not queued again" {
	DATA=$BATS_TEST_TMPDIR run batch ml-requeue.sh
	[ "$status" != 0 ]
	run -0 scontrol show job "$(sed -n 's/.*ml-\([0-9]*\)\..*/\1/p' <<<"$(ls)" | head -n 1)"
	assert_output --partial 'Restarts=0 '
}

@test "slurm/ml-torch.sh: ranks on two nodes find each other, and the caller's values count" {
	IMAGE=mlrun/trainer-cpu run -0 batch_with ml-torch.sh sh -c \
		'[ -e /data/t10k-labels-idx1-ubyte ] && echo "rank $RANK of $WORLD_SIZE, $LOCAL_RANK here, at $MASTER_ADDR:$MASTER_PORT"'
	port=$(grep -oE '[0-9]+$' <<<"${lines[0]}")
	assert_equal "$(sort <<<"$output")" "rank 0 of 2, 0 here, at cpu1:$port
rank 1 of 2, 0 here, at cpu1:$port"
	# The first rank answers at that address.
	IMAGE=mlrun/trainer-cpu run -0 batch_with ml-torch.sh sh -c '
		if [ "$RANK" = 0 ]; then
			echo "hello from rank 0" | nc -l -p "$MASTER_PORT"
		else
			until nc "$MASTER_ADDR" "$MASTER_PORT" </dev/null | grep .; do sleep 0.1; done
		fi'
	assert_output --partial "hello from rank 0"
	MASTER_ADDR=elsewhere MASTER_PORT=1 IMAGE=mlrun/trainer-cpu run -0 batch_with ml-torch.sh sh -c \
		'echo "rank $RANK at $MASTER_ADDR:$MASTER_PORT"'
	assert_line "rank 1 at elsewhere:1"
}

@test "exec: a task alone, and --mpi=none, learn of no ranks; --explain says where the variables come from" {
	run -0 timeout 60 srun --quiet -n1 mlrun exec mlrun/trainer-cpu env
	refute_output --regexp '(^|'$'\n'')(MASTER_ADDR|RANK|WORLD_SIZE)='
	run -0 timeout 60 srun --quiet -N2 mlrun exec --mpi=none mlrun/trainer-cpu env
	refute_output --regexp '(^|'$'\n'')(MASTER_ADDR|RANK|WORLD_SIZE)='
	run -0 timeout 60 srun --quiet -N2 mlrun exec --explain mlrun/trainer-cpu
	assert_line --regexp 'WORLD_SIZE=2 .*mpi|mpi .*WORLD_SIZE=2'
}

@test "slurm/interactive.sh: a shell in the image on a node, with a terminal" {
	run -0 timeout 60 script -qec "$top_srcdir/slurm/interactive.sh --partition=gpuq" /dev/null < <(
		printf '%s\n' 'test -t 0 && echo "a terminal on $(cat /proc/sys/kernel/hostname)"' '. /etc/os-release' \
			'echo "in $ID"' 'exit'; sleep 50 3>&-)
	assert_line --regexp '^a terminal on gpu[1-4].?$'
	assert_line --regexp '^in mlrun-trainer-cpu.?$'
	IMAGE=no/such run timeout 60 "$top_srcdir/slurm/interactive.sh"
	[ "$status" != 0 ]
	assert_output --partial "no/such"
}

# A root whose "jupyter" notes its arguments and answers as a web server does.
fake_jupyter() {
	tiny_root "$1"
	cat >"$1/bin/jupyter" <<-'END'
		#!/bin/sh
		echo "$@" >args
		for a; do case $a in --ip=*) ip=${a#*=} ;; --port=*) port=${a#*=} ;; esac; done
		ip=$(awk -v name="$ip" '$2 == name { print $1 }' /etc/hosts)
		mkdir /tmp/www.$$
		echo "token $JUPYTER_TOKEN" >/tmp/www.$$/index.html
		exec busybox httpd -f -p "$ip:$port" -h /tmp/www.$$
	END
	chmod 755 "$1/bin/jupyter"
}

@test "slurm/jupyter.sh: a server answers at the printed address, with a secret that nobody else can read" {
	fake_jupyter "$BATS_TEST_TMPDIR/jupyter"
	unset DATA
	job=$(IMAGE=rootfs:$BATS_TEST_TMPDIR/jupyter LOGIN=login.site sbatch --parsable "$top_srcdir/slurm/jupyter.sh" --collaborative)
	echo "$job" >jobs
	until_true test -e args
	cat "jupyter-$job.out"
	run -0 cat "jupyter-$job.out"
	assert_line --index 0 --regexp "^On your machine:        ssh -N -L ([0-9]+):cpu1:[0-9]+ $(id -un)@login\.site\$"
	assert_line --index 1 "Then, in its browser:   the address in $PWD/jupyter-$job.url"
	port=$(grep -oE -- '-L [0-9]+' "jupyter-$job.out" | cut -d' ' -f2)
	token=$(sed -n 's/.*token=//p' "jupyter-$job.url")
	assert_equal "$(cat "jupyter-$job.url")" "http://localhost:$port/lab?token=$token"
	assert_equal "${#token} $(stat -c %a "jupyter-$job.url")" "48 600"
	assert_equal "$(cat args)" "lab --no-browser --ip=cpu1 --port=$port --ServerApp.port_retries=0 --collaborative"
	run -1 grep "$token" args "jupyter-$job.out"
	address=$(scontrol show node cpu1 | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p')
	until_true curl -sf -o page "http://$address:$port/"
	assert_equal "$(cat page)" "token $token"
	scancel "$job"
	until_true has_ended "$job"
	until_true test ! -e "jupyter-$job.url"
}
