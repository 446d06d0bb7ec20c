#!/usr/bin/env bats
# Workers on this machine, without Slurm; tests/slurm/workers.bats has those of a cluster.
# shellcheck disable=SC2016 # the shell inside expands

load common
load gpu

setup_file() {
	tiny_root "$BATS_FILE_TMPDIR/root"
}

setup() {
	common_setup
	IMG=rootfs:$BATS_FILE_TMPDIR/root
	# A machine without sbatch.
	mkdir bin
	ln -s /usr/bin/* bin
	rm -f bin/{sbatch,squeue,srun,scancel}
	PATH=$top_builddir/bin:$PWD/bin
}
teardown() {
	mlrun workers stop --all 2>/dev/null || true
	common_teardown
}

field() {
	mlrun workers list --all --json |
		python3 -c 'import json, sys; print(*[w[sys.argv[2]] for w in json.load(sys.stdin) if w["id"] == sys.argv[1]])' "$@"
}

has_log() { mlrun workers logs "$1" | grep -qxF "$2"; }

@test "workers: they start here, run commands in their containers and stop" {
	local id pid

	mapfile -t ids < <(mlrun workers start -n 2 "$IMG")
	id=${ids[0]}
	run -0 mlrun workers await --timeout 60
	assert_equal "$(grep -cE "^local-[a-p]{6} +$IMG +running +$(hostname) +1 +0 " <<<"$output")" 2
	run -0 mlrun workers hosts "$id"
	assert_output "$id:1"
	mlrun-rsh "$id" 'echo one >/file'
	run -0 mlrun-rsh "$id" cat /file
	assert_output one
	run -1 mlrun-rsh "${ids[1]}" test -e /file
	run -7 mlrun-rsh -p 22 -q "$id" exit 7
	run -0 mlrun-rsh "$id" <<<'echo from a shell'
	assert_output "from a shell"
	pid=$(field "$id" pid)
	assert_equal "$(awk '{ print $14 + $15 }' "/proc/$pid/stat")" 0
	# What was left behind in it ends with it.
	mlrun-rsh "$id" "sleep $NAP >/dev/null 2>&1 &"
	run -0 mlrun workers stop "$id"
	wait_while pgrep -f "sleep $NAP"
	until_true is_gone "$pid"
	assert_equal "$(field "$id" status)" stopped
	run -125 mlrun-rsh "$id" true
	assert_line "mlrun: mlrun-rsh: worker '$id' is stopped"
	assert_equal "$(field "${ids[1]}" status)" running
}

@test "workers: values of -e stand in no command line, and win over files and mlrun's own" {
	local id

	echo A=file >vars
	# With --init a process of mlrun's stays.
	id=$(B="hush$NAP" mlrun workers start --init -e "A=hush$NAP" -e B -e OMPI_MCA_orte_tmpdir_base=/other --env-file vars "$IMG" \
		-- sh -c "echo \$A \$B \$OMPI_MCA_orte_tmpdir_base; exec sleep $NAP")
	run -0 mlrun workers await --timeout 60 "$id"
	until_true has_log "$id" "hush$NAP hush$NAP /other"
	run -1 pgrep -fa "hush$NAP"
	id=$(mlrun workers start "$IMG" -- sh -c 'echo $OMPI_MCA_orte_tmpdir_base')
	until_true has_log "$id" /dev/shm
}

@test "workers: JSON has every key that the page lists, always" {
	local page=$top_srcdir/src/mlrun/cli/mlrun-workers.1

	mlrun workers start --deadline 1h "$IMG" >/dev/null
	mlrun workers await
	run -0 mlrun workers list --json
	assert_equal "$(python3 -c 'import json, sys; print(*sorted(json.load(sys.stdin)[0]))' <<<"$output")" \
		"$(sed -n '/^\.Ss JSON output/,/^\.El/s/^\.It Li //p' "$page" | tr -d ' ' | tr , '\n' | sort | xargs)"
	run -0 mlrun workers hosts --json
	assert_equal "$(python3 -c 'import json, sys; print(*sorted(json.load(sys.stdin)[0]))' <<<"$output")" "host id ip_address node slots"
	run -0 mlrun workers stop --all --json
	assert_output --partial '"status": "stopped"'
	run -0 mlrun workers list --json
	assert_output "[]"
}

@test "workers: a deadline ends one, its command and what the command started" {
	local id

	id=$(mlrun workers start --deadline 1s "$IMG" -- sh -c "trap '' TERM; sleep $NAP & sleep $NAP")
	run -1 mlrun workers await --done --timeout 60 "$id"
	assert_equal "$(field "$id" status)" timedout
	wait_while pgrep -f "sleep $NAP"
}

@test "workers: output and status of a command are kept" {
	local id

	id=$(mlrun workers start --name 'a b' -e A='x y' "$IMG" -- sh -c 'echo "$A"; exit 3')
	run -1 mlrun workers await --done --timeout 60 "$id"
	assert_line --regexp "^$id +a b +failed \(3\) "
	run -0 mlrun workers logs "$id"
	assert_output "x y"
	id=$(mlrun workers start "$IMG" -- sh -c 'sleep 0.5; echo end')
	run -0 mlrun workers logs --follow "$id"
	assert_output end
	run -0 mlrun workers await --done "$id"
}

@test "workers: a supervisor that was killed is told, and its worker is not used" {
	local id pid supervisor

	id=$(mlrun workers start "$IMG" -- sleep "$NAP")
	mlrun workers await
	pid=$(field "$id" pid)
	supervisor=$(grep -o '"process":"[^"]*' "$MLRUN_STORE"/workers/*/run | awk -F. '{ print $(NF - 1) }')
	kill -KILL "$supervisor"
	until_true is_gone "$pid"
	assert_equal "$(field "$id" status)" lost
	run -0 mlrun workers list
	refute_output --partial "$id"
	run -125 mlrun-rsh "$id" true
	assert_line --partial "is lost"
}

@test "workers: a command that heeds no SIGTERM is killed, however often it is told" {
	local id supervisor

	id=$(mlrun workers start "$IMG" -- sh -c 'trap "" TERM; while :; do sleep 0.1; done')
	mlrun workers await --timeout 60
	supervisor=$(ps -o ppid= "$(field "$id" pid)" | tr -d ' ')
	for _ in {1..40}; do
		kill -TERM "$supervisor" 2>/dev/null || break
		sleep 0.2
	done
	until_true is_gone "$supervisor"
	run -1 mlrun workers await --done --timeout 60 "$id"
	assert_equal "$(field "$id" status)" stopped
}

@test "workers: they are bound to processors, and what joins them is, too" {
	local cpu0 cpu1

	[ "$(nproc)" -ge 2 ] || skip "one processor"
	mapfile -t ids < <(mlrun workers start -n 2 --cpus 1 "$IMG")
	mlrun workers await
	cpu0=$(mlrun-rsh "${ids[0]}" 'grep Cpus_allowed_list /proc/self/status')
	cpu1=$(mlrun-rsh "${ids[1]}" 'grep Cpus_allowed_list /proc/self/status')
	assert_regex "$cpu0" '^Cpus_allowed_list:.[0-9]+$'
	[ "$cpu0" != "$cpu1" ] || fail "both on one: $cpu0"
	run -125 mlrun workers start --cpus 60000 "$IMG"
	assert_line --regexp -- "--cpus=60000: you may use [0-9]+ processors of this machine"
}

@test "workers: a memory limit that cannot be kept is told once" {
	run -0 --separate-stderr mlrun workers start -n 2 --memory 300m "$IMG"
	if mlrun exec --memory 300m "$IMG" true 2>/dev/null; then
		assert_equal "$stderr" ""
	else
		assert_equal "$(grep -c 'nothing keeps a worker to its memory' <<<"$stderr")" 1
	fi
	run -125 mlrun workers start --memory 9000g "$IMG"
	assert_line --partial "this machine has"
}

@test "workers: each gets GPUs of its own, and no more than there are" {
	own_tree hgx
	mapfile -t ids < <(mlrun workers start -n 2 --gpus 3 "$IMG")
	assert_equal "${#ids[@]}" 2
	run -0 sed -n '/"lists"/,/]/p' "$MLRUN_STORE"/workers/*/worker.json
	assert_line --partial '"0,1,2"'
	assert_line --partial '"3,4,5"'
	run -125 mlrun workers start --gpus 3 "$IMG"
	assert_line --partial "--gpus=3: other workers use this machine's 8 GPUs"
	run -125 mlrun workers start --gpus 9 "$IMG"
	assert_line --partial "--gpus=9: this machine has 8 that you may use"
	mlrun workers stop "${ids[0]}"
	run -0 mlrun workers start --gpus 3 "$IMG"
}

@test "workers: wrong usage is told" {
	# Before an image is brought.
	run -125 mlrun workers start --memory lots localhost:1/no/such
	assert_line "mlrun: workers start: --memory takes an amount for each worker, 512m or 4g, not 'lots'"
	while IFS='|' read -r words want; do
		# shellcheck disable=SC2086 # several words
		run -125 mlrun workers $words
		assert_line --partial -- "$want"
	done <<-END
		start -n 0 $IMG|--number takes a whole number from 1 to 10000, not '0'
		start -n -3 $IMG|--number takes a whole number from 1 to 10000, not '-3'
		start --memory lots $IMG|--memory takes an amount for each worker, 512m or 4g, not 'lots'
		start --memory 1 $IMG|--memory takes an amount
		start --memory 99999999999g $IMG|more than machines have
		start --cpus 0 $IMG|--cpus takes a number of processors
		start --gpus x $IMG|--gpus takes a whole number from 0 to 1024, not 'x'
		start --deadline soon $IMG|--deadline takes a time such as
		start --partition p $IMG|workers on this machine have no partition
		start --join 1 true|a worker is a new container
		start --explain $IMG|--explain runs nothing
		start --local rootfs:/no/such|'rootfs:/no/such': image: No such file or directory
		start squashfs:/no/such.sqsh|'squashfs:/no/such.sqsh': image: No such file or directory
		start --preserve-fds 1 $IMG|a worker inherits no descriptors
		start|an image is missing
		stop|which? Give ids, or --all
		stop --all x|no id is expected
		stop nobody|you have no worker 'nobody'
		logs|expected a worker's id
		logs --store $PWD/no nobody|$PWD/no
		hosts|no worker runs
		await|no worker waits or runs
		await --timeout x|--timeout takes seconds
		nope|workers: 'nope' is not a command
	END
	run -125 mlrun-rsh
	assert_line --partial "Usage: mlrun-rsh"
	run -125 mlrun-rsh -J
	assert_line --partial "-J needs a value"
	run -125 mlrun-rsh somebody@x true
	assert_line --partial "a worker's only user is the one who started it, not 'somebody'"
}

@test "workers: options after a start's own are those of exec" {
	local id

	mkdir data
	echo one >data/f
	id=$(mlrun workers start -n1 -v "$PWD/data:/data:ro" --read-only -w / -e A=1 "$IMG")
	mlrun workers await
	run -0 mlrun-rsh "$id" 'cat /data/f; pwd; echo $A'
	assert_output $'one\n/\n1'
}
