#!/usr/bin/env bats
# Elastic runs with programs that stand for Slurm's; tests/slurm/elastic.bats has those of a cluster.
# shellcheck disable=SC2016 # the shell inside expands

load common
load terminal

setup_file() {
	tiny_root "$BATS_FILE_TMPDIR/root"
}

setup() {
	common_setup
	IMG=rootfs:$BATS_FILE_TMPDIR/root
	# A machine without Slurm.
	mkdir bin
	ln -s /usr/bin/* bin
	rm -f bin/{sbatch,squeue,srun,scancel,sinfo}
	PATH=$top_builddir/bin:$PWD/bin
	ME=$(id -u)
}
teardown() {
	terminal_teardown
	common_teardown
}

# fake_slurm: programs that stand for Slurm's. squeue(1) shows the file `jobs`, "STATE|USER|CPUS|GPUS|START|END|COMMENT"
# a line, of which sbatch(1) makes one. Each question to squeue is a line in `asked`, in milliseconds.
fake_slurm() {
	cat >bin/squeue <<-END
		#!/bin/sh
		date +%s%3N >>"$PWD/asked"
		[ ! -e "$PWD/broken" ] || { echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1; }
		id=6
		while IFS='|' read -r state user cpus gpus start end comment; do
			id=\$((id + 1))
			echo "\${SQUEUE_FORMAT%%|*}|\$id|\$state|\$user|n\$id|None|q|1|\$cpus|gres:gpu:\$gpus|\$start|\$end|\$comment"
		done <"$PWD/jobs"
	END
	cat >bin/sbatch <<-END
		#!/bin/sh
		echo "RUNNING|$ME|1|1|N/A|N/A|\$(printf '%s\n' "\$@" | sed -n 's/^--comment=//p')" >"$PWD/jobs"
		echo 7
	END
	printf '#!/bin/sh\n' >bin/scancel
	printf '#!/bin/sh\necho "idle 0/4/0/4 UNLIMITED gpu:2 gpu:0 NO $(uname -n)"\n' >bin/sinfo
	chmod +x bin/{squeue,sbatch,scancel,sinfo}
	: >jobs
}
asked() { [ "$(wc -l <asked)" -ge "$1" ]; }
ago() { date -d "$1 seconds ago" +%Y-%m-%dT%H:%M:%S; }

@test "elastic: what cannot be is refused, and leaves nothing" {
	local args message

	while IFS='|' read -r args message; do
		# shellcheck disable=SC2086 # words
		run -125 mlrun elastic $args
		assert_line --partial "$message"
	done <<-END
		run $IMG true|elastic runs are jobs of Slurm's, and sbatch is not on PATH
		run $IMG|no command: each worker of a run runs it
		run --min 3 --max 2 $IMG true|--min=3 is more than --max=2
		run --max 0 $IMG true|--max takes a whole number from 1 to 1024, not '0'
		run --weight 101 $IMG true|--weight takes a whole number from 1 to 100, not '101'
		run --hold x $IMG true|--hold takes a whole number from 0 to 3600, not 'x'
		run --gpus-per-worker -1 $IMG true|--gpus-per-worker takes a whole number from 0 to 1024, not '-1'
		run --explain $IMG true|--explain runs nothing
		run --mode x $IMG true|--mode takes workers or requeue, not 'x'
		run --mode requeue --signal KILL $IMG true|--signal takes one that a program can catch, USR1, not 'KILL'
		run --signal USR1 $IMG true|--signal is for --mode=requeue
		run --grace 5 $IMG true|--grace is for --mode=requeue
		run --mode requeue --grace 0 $IMG true|--grace takes a whole number from 1 to 3600, not '0'
		run --pull=never no-such-image true|'docker.io/library/no-such-image:latest' is not in store
		stop|which? Give ids, or --all
		stop nobody|no run of yours is 'nobody'
		nope|elastic: 'nope' is not a command
	END
	run -0 mlrun elastic list
	assert_output --regexp '^ID +NAME[^0-9]+$'
	run -0 mlrun elastic list --json
	assert_output "[]"
	[ ! -e "$MLRUN_STORE/elastic" ]
}

@test "elastic: what a container makes where ranks speak is not believed, and nothing waits for it" {
	local id shared

	fake_slurm
	id=$(mlrun elastic run --partition q --max 2 "$IMG" -- true)
	shared=$MLRUN_STORE/elastic/$id/shared
	echo "$ME's secret" >secret
	touch "$MLRUN_STORE/elastic/$id/round"
	printf 'rank 1 on n1\nand more\n' >"$shared/meet.waits"
	run -0 mlrun elastic list
	assert_line --regexp "rank 1 on n1$"
	rm "$shared/meet.waits"
	ln -s "$PWD/secret" "$shared/meet.waits"
	run -0 mlrun elastic list
	refute_output --partial secret
	rm "$shared/meet.waits"
	mkfifo "$shared/meet.waits"
	run -0 timeout -k 1 60 mlrun elastic list
	assert_line --regexp "^$id "
	touch -d 'tomorrow' "$shared/meet.waits"
	: >jobs # of whom stop waits
	run -0 timeout -k 1 60 mlrun elastic stop "$id"
}

@test "elastic: a command that says itself that its job was suspended, and fails, is not begun again" {
	fake_slurm
	mlrun elastic run "$IMG" -- sh -c 'echo begun; : >"$MLRUN_ELASTIC.left-$MLRUN_ELASTIC_WORKER"; exit 3'
	SLURM_JOB_ID=7 run -3 timeout 60 mlrun workers hold "$(grep -o '[0-9a-f]\{16\}' jobs)"
	assert_equal "$(grep -c begun <<<"$output")" 1
}

@test "elastic, workers: a store on the machine's own disk is remarked where nodes are other machines" {
	local own

	fake_slurm
	printf '#!/bin/sh\necho "idle 0/4/0/4 UNLIMITED gpu:2 gpu:0 NO n1.example"\n' >bin/sinfo
	own=$(stat -f -c %T "$PWD" | cut -d/ -f1)
	run -0 mlrun elastic run "$IMG" -- true
	assert_line --regexp "^mlrun: warning: store '.*' is on this machine's own ($own|ext4), which 'n1.example' may not see: "
	run -0 mlrun workers start "$IMG"
	assert_line --partial "may not see"
	for host in "$(uname -n).example" localhost; do
		printf '#!/bin/sh\necho "idle 0/4/0/4 UNLIMITED gpu:2 gpu:0 NO %s"\n' "$host" >bin/sinfo
		run -0 mlrun workers start "$IMG"
		refute_output --partial "may not see"
	done
}

@test "elastic: a stop that takes long asks Slurm less and less" {
	local id

	fake_slurm
	id=$(mlrun elastic run "$IMG" -- true)
	rm -f asked
	mlrun elastic stop "$id" &
	PIDS+=($!)
	until_true asked 5
	: >jobs
	wait $!
	# The first question is for the list; then 0.3, 0.6, 1.2 and 2.4 seconds, or more where a program was slow.
	mapfile -t times <asked
	[ $((times[4] - times[1])) -ge 2100 ]
	assert_equal "$(wc -l <asked)" 6
}

@test "elastic: when squeue fails, one worker asks less and less, and keeps the others from it" {
	local round

	fake_slurm
	mlrun elastic run "$IMG" -- sleep "$NAP"
	rm "$MLRUN_STORE"/elastic/*/round
	SLURM_JOB_ID=7 mlrun workers hold "$(grep -o '[0-9a-f]\{16\}' jobs)" >said 2>&1 &
	PIDS+=($!)
	until_true eval 'grep -qs 7 "$MLRUN_STORE"/elastic/*/round'
	: >broken
	rm -f asked
	until_true asked 2
	round=$(cat "$MLRUN_STORE"/elastic/*/round)
	until_true asked 3
	[ "$round" != "$(cat "$MLRUN_STORE"/elastic/*/round)" ]
	kill $!
	mapfile -t times <asked
	[ $((times[2] - times[1])) -ge 3500 ]
	assert_equal "$(grep -c 'so the run keeps its workers; trying again' said)" 1
}

# --- top ----------------------------------------------------------------------------------

# A run of this user's, with a log, and one of root's; an ended job that had two slots for a minute.
two_runs() {
	local id

	fake_slurm
	id=$(mlrun elastic run --name mnist "$IMG" -- true)
	cat >"$MLRUN_STORE/elastic/$id/shared/log" <<-END
		{"event":"step","generation":3,"epoch":0,"samples":100,"train_seconds":1}
		{"event":"step","generation":3,"epoch":0,"samples":1100,"train_seconds":3}
		no JSON
	END
	cat >jobs <<-END
		RUNNING|$ME|1|1|$(ago 600)|N/A|mlrun-worker:0011 $id:1:4:1:g1
		RUNNING|0|1|1|$(ago 30)|N/A|mlrun-worker:0012 beef:1:2:3:g1
		PENDING|0|1|1|N/A|N/A|mlrun-worker:0013 beef:1:2:3:g1
		COMPLETED|$ME|1|2|$(ago 300)|$(ago 150)|mlrun-worker:0014 $id:1:4:1:g1
		RUNNING|0|1|1|$(ago 30)|N/A|some other job
	END
	RUN=$id
}

@test "elastic top: it tells everybody's runs, their slots and states, and what one's own program says" {
	two_runs
	run -0 mlrun elastic top --once
	assert_line "q: 4 GPUs, 2 free, 2 runs"
	assert_line --regexp "^ID +USER +NAME +SLOTS +MIN +MAX +WEIGHT +STATE +GEN +IMAGES/S +LAST 5 MINUTES$"
	# Five minutes, of fifteen seconds each: three slots of four, and then one. Time passes until it is printed.
	assert_line --regexp "^$RUN +$(id -un) +mnist +1 of 4 +1 +4 +1 +grows +3 +500 +\|▆{9}(▂|▃|▄|▅|▆)▂{10}\|$"
	assert_line --regexp "^beef +root +- +1 of 4 +1 +2 +3 +grows +- +- +\| {17}( |▁|▂)▂▂\|$"
	refute_output --partial $'\033'
	LC_ALL=C run -0 mlrun elastic top --once
	assert_line --regexp '\|\+{9}[.:=+-]\.{10}\|$'
	: >jobs
	run -0 mlrun elastic top --once
	assert_output --partial "none waits or runs"
}

@test "elastic top: JSON has every key that the page lists, always" {
	local page=$top_srcdir/src/mlrun/cli/mlrun-elastic.1

	two_runs
	run -0 mlrun elastic top --json
	assert_equal "$(jq -r '[keys, (.partitions[0] | keys), (.runs[] | keys)] | flatten | unique | .[]' <<<"$output" | xargs)" \
		"$(sed -n '/^\.Ss JSON output of top/,/^\.El/s/^\.It Li //p' "$page" | tr -d ' ' | tr , '\n' | sort -u | xargs)"
	assert_equal "$(jq -c 'walk(numbers += 0) | .runs[] | [.state, .held, .waiting, .due, .generation, .images_per_second, .past[19]]' <<<"$output")" \
		$'["grows",1,0,2,3,500,1]\n["grows",1,1,2,null,null,1]'
}

@test "elastic top: q ends the view and the terminal is as before" {
	terminal_setup
	two_runs
	open_shell
	until_shown '^outer>'
	type_line 'echo before; stty -a | md5sum'
	until_shown '^[0-9a-f]{32}'
	modes=$(screen | grep -oE '^[0-9a-f]{32}')
	type_next 'mlrun elastic top --interval 0.2'
	until_shown '^beef +root'
	! shows '^before' || fail "the view is not alone"
	: >jobs
	until_shown 'none waits or runs'
	press q
	until_true is_prompting
	type_next 'echo $? >status; clear; echo status $(cat status); stty -a | md5sum'
	until_shown '^status 0'
	until_shown "^$modes"
	type_next 'mlrun elastic top --interval 0.2'
	until_shown 'none waits or runs'
	# What Slurm says in place of an answer is shown, and the view goes on.
	: >broken
	until_shown 'Unable to contact slurm controller'
	rm broken
	until_shown 'none waits or runs'
	press C-c
	until_true is_prompting
	type_next 'clear; stty -a | md5sum'
	until_shown "^$modes"
}

@test "elastic top: no Slurm, no answer and wrong usage are told" {
	run -125 mlrun elastic top --once
	assert_line --partial "elastic top: run squeue: No such file or directory"
	fake_slurm
	: >broken
	run -125 mlrun elastic top
	assert_line "mlrun: elastic top: squeue: slurm_load_jobs error: Unable to contact slurm controller"
	run -125 mlrun elastic top --interval 0
	assert_line --partial "--interval takes a number from 0.1 to 86400, not '0'"
	run -125 mlrun elastic top x
	assert_line --partial "expected no argument"
}
