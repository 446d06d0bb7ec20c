#!/usr/bin/env bats
# mlrun gpu top, and mlrun-nvml below it, with a made-up libnvidia-ml.so.1 (tests/gpu/fake_nvml.c).
# shellcheck disable=SC2016 # the inner shell expands
load common
load gpu
load terminal

setup() {
	common_setup
	unset "${!PBS_@}" "${!LSB_@}"
}

teardown() {
	terminal_teardown
	common_teardown
}

# two_gpus [FAKE]: Ubuntu's machine with two L40S, whose library answers what $FACTS says.
two_gpus() {
	own_tree ubuntu
	fake_nvml "$@"
	facts "process $$ 30000000000"
}

# facts [LINE...]: what the library tells; the lines are of the first GPU.
facts() {
	{
		printf '%s\n' "driver 550.90.07" "cuda 12040" "gpu 0000:18:00.0" "uuid GPU-c0ffee00-1f2e-3d4c-5b6a-0123456789a0" \
			"memory 48000000000 1000000 32000000000" "busy 87 40" "power 201500 350000" "temperature 61" \
			"clock 2520" "$@" "gpu 0000:2a:00.0" "uuid GPU-c0ffee01-1f2e-3d4c-5b6a-0123456789a1" \
			"memory 48000000000 1000000 0" "busy 0 0" "power 33000 350000" "temperature 30" "clock 210"
	} >"$FACTS.new"
	mv "$FACTS.new" "$FACTS"
}

# The program below the one of a pid, when it is there.
child_of() { pgrep -P "$1" -x mlrun-nvml; }

# start_log [ENVIRONMENT...]: gpu top in the background, as $top, once its log has a sample
start_log() {
	rm -f gpu.csv
	env "$@" mlrun gpu top --interval 0.1 --log gpu.csv 3>&- &
	top=$!
	PIDS+=("$top")
	until_true grep -qs ',87,' gpu.csv
}

longer_than() { [ "$(wc -l <"$1")" -gt "$2" ]; }

# --- text ----------------------------------------------------------------------

@test "gpu top: a sample has the node, each GPU and its processes with user and command" {
	two_gpus
	bash -c 'exec -a "train --lr 0.1" sleep 100' 3>&- &
	PIDS+=($!)
	worker=$!
	facts "process $worker 30000000000" "graphics 999999999 5"
	until_true runs "$worker" "train --lr 0.1" 100
	run -0 mlrun gpu top --once
	kill "$worker"
	assert_line --regexp "^$(uname -n)  .*NVIDIA driver 550.90.07, CUDA 12.4"
	assert_line --regexp '^CPU +\[[#.]{10}\] +[0-9]+%  [0-9]+ cores?, load [0-9.]+$'
	assert_line --regexp '^memory +\[[#.]{10}\] +[0-9]+%  [0-9.]+ [GM]B of [0-9.]+ GB$'
	assert_line --regexp '^  0  L40S +\[#########\.\]  87%  32.0 GB of 48.0 GB +202/350 W +61 C +2520 MHz$'
	assert_line --regexp '^  1  L40S +\[\.{10}\]   0%  0 B of 48.0 GB +33/350 W +30 C +210 MHz$'
	assert_line --regexp "^ *$worker  $(id -un | cut -c-10) +0 +30.0 GB  train --lr 0.1 100$"
	assert_line --regexp '^ *999999999  \? +0 +5 B  \?$'
	refute_output --partial $'\033'
}

@test "gpu top: without a terminal samples are text, as many as asked for" {
	two_gpus
	run -0 mlrun gpu top --interval 0.1 --count 3
	assert_equal "$(grep -c '^GPU  MODEL' <<<"$output")" 3
	refute_output --partial $'\033'
}

@test "gpu top: in a job only the job's GPUs are shown, and all with --all" {
	two_gpus
	export SLURM_JOB_ID=7 CUDA_VISIBLE_DEVICES=1
	mlrun gpu top --once --log gpu.csv
	run -0 mlrun gpu top --once
	assert_line --partial "1 of 2 GPUs: CUDA_VISIBLE_DEVICES=1"
	assert_line --regexp '^  1  L40S'
	refute_line --regexp '^  0  L40S'
	refute_line --regexp "^ *$$ "
	assert_equal "$(cut -d, -f3 gpu.csv | tail -n +2)" 1
	run -0 mlrun gpu top --once --all
	assert_line --regexp '^  0  L40S'
	assert_line --regexp '^  1  L40S'
}

@test "gpu top: a driver of 2019 tells what it can" {
	two_gpus fake_nvml_old
	run -0 mlrun gpu top --once
	assert_line --regexp '^  0  L40S +\[#########\.\]  87%  32.0 GB of 48.0 GB'
	assert_line --regexp "^ *$$ .* 30.0 GB"
}

@test "gpu top: processes are right whatever size the driver's records have" {
	two_gpus
	for bytes in 16 24 32; do
		facts "process_bytes $bytes" "process $$ 30000000000" "process $PPID 1000" "graphics 1 -1"
		run -0 mlrun gpu top --once
		assert_line --regexp "^ *$$ .* 0 +30.0 GB"
		assert_line --regexp "^ *$PPID .* 0 +1.0 kB"
		assert_line --regexp "^ *1  root +0 +-  "
	done
}

@test "gpu top: parts of a GPU tell their processes where the GPU as a whole does not" {
	two_gpus
	facts "mig 1 0 MIG-a" "mig 2 0 MIG-b" "process $$ 1000"
	run -0 mlrun gpu top --once
	assert_equal "$(grep -cE "^ *$$ .* 1.0 kB" <<<"$output")" 1
}

@test "gpu top: a job that has a part of a GPU by its uuid is shown that GPU alone" {
	own_tree mig
	fake_nvml
	mapfile -t bus_ids < <(ls machine/proc/driver/nvidia/gpus)
	mapfile -t parts < <(cd machine/proc/driver/nvidia/capabilities/gpu0/mig && ls -d gi*/ci*)
	gi=${parts[0]%/*} ci=${parts[0]#*/}
	printf '%s\n' "gpu ${bus_ids[0]}" "mig ${gi#gi} ${ci#ci} MIG-11111111-2222-3333-4444-555555555555" \
		"memory 80000000000 1 2" "gpu ${bus_ids[1]}" >"$FACTS"
	export SLURM_JOB_ID=7 CUDA_VISIBLE_DEVICES=MIG-11111111-2222-3333-4444-555555555555
	run -0 mlrun gpu top --once
	assert_line --partial "1 of 2 GPUs: CUDA_VISIBLE_DEVICES=MIG-11111111"
	assert_line --regexp '^  0  .* 2 B of 80.0 GB'
	refute_line --regexp '^  1  '
}

@test "gpu top: what a process is called cannot steer the terminal" {
	two_gpus
	bash -c 'exec -a "$(printf "\033[2Jx\nGPU fake")" sleep 100' 3>&- &
	PIDS+=($!)
	facts "process $! 1"
	until_true runs $! $'\e[2Jx\nGPU fake' 100
	run -0 mlrun gpu top --once
	kill $!
	assert_line --partial '\x1b[2Jx\x0aGPU fake'
}

# --- what may go wrong ------------------------------------------------------------

@test "gpu top: libraries and module of different versions are told in words, and the processors are shown" {
	two_gpus
	facts "init 18"
	run -0 mlrun gpu top --once
	assert_regex "${output//$'\n'/ }" "the driver's libraries and its kernel module are of different versions \(Driver/library version mismatch\); .* reboot"
	assert_line --regexp '^CPU '
	assert_line --regexp '^  0  L40S +nothing is known now$'
}

@test "gpu top: a program below it that was stopped does not keep it from ending" {
	two_gpus
	mlrun gpu top --interval 0.1 >out 3>&- &
	local top=$!
	PIDS+=("$top")
	until_true grep -q 87% out
	kill -STOP "$(child_of $top)"
	kill -TERM $top
	until_true is_gone $top
	wait $top
}

@test "gpu top: a library that crashes takes nothing along" {
	two_gpus
	facts "init crash"
	run -0 mlrun gpu top --once
	assert_line --partial "mlrun-nvml ended by signal 6 (Aborted)"
	assert_line --regexp '^CPU '
}

@test "gpu top: a file that is no such library is told" {
	two_gpus
	library=$(dirname "$FACTS")/libnvidia-ml.so.550.90.07
	rm "$library"
	gpu_library "$library" --soname=libnvidia-ml.so.1 --needs=libc.so.6
	run -0 mlrun gpu top --once
	assert_line --partial "load NVIDIA's management library: it lacks functions"
	assert_line --regexp '^CPU '
}

@test "gpu top: a machine without the library says so" {
	two_gpus
	rm machine/usr/lib/*/libnvidia-ml.so*
	run -0 mlrun gpu top --once
	assert_line --partial "libnvidia-ml.so.1 was not found"
}

@test "gpu top: a GPU that is lost on the way is shown as broken, the other goes on" {
	two_gpus
	mlrun gpu top --interval 0.1 >out 3>&- &
	PIDS+=($!)
	until_true grep -q '87%' out
	facts "error 15"
	until_true grep -qE '^  0  L40S +broken: GPU is lost' out
	kill $!
	wait $! || fail "exit status $?"
	grep -A 1 -E '^  0  L40S +broken' out | grep -qE '^  1  L40S .*33/350 W'
}

@test "gpu top: without a GPU the processors are shown and logged" {
	driver_tree none
	run -0 mlrun gpu top --once --log cpu.csv
	run -0 mlrun gpu top --once
	assert_line --partial "no GPU driver"
	assert_line --regexp '^CPU '
	refute_line --partial "MODEL"
	run -0 tail -n 1 cpu.csv
	assert_output --regexp "^[^,]+,$(uname -n),,,,,,,,[0-9]+,[0-9]+$"
}

@test "gpu top: Windows' GPUs are those that the library tells of, and it finds what lies beside it" {
	own_tree wsl
	fake_nvml
	facts
	run -0 mlrun gpu top --once
	assert_line --partial "NVIDIA driver of Windows (WSL)"
	assert_line --regexp '^  0  0000:18:00.0 .* 87%  32.0 GB of 48.0 GB'
	start_log
	run -0 tr '\0' '\n' <"/proc/$(child_of "$top")/environ"
	kill "$top"
	wait "$top" # killed in the middle of its end, a sanitizer's runtime would complain
	assert_line "LD_LIBRARY_PATH=$PWD/$(dirname "$FACTS")"
}

@test "gpu top: AMD's GPUs are read from sysfs" {
	local card

	own_tree amd
	card=machine/sys/devices/pci0000:18/0000:18:00.0
	mkdir -p "$card/hwmon/hwmon2"
	echo 55 >"$card/gpu_busy_percent"
	echo 96000000000 >"$card/mem_info_vram_used"
	echo 412000000 >"$card/hwmon/hwmon2/power1_average"
	echo 71000 >"$card/hwmon/hwmon2/temp1_input"
	run -0 mlrun gpu top --once --log gpu.csv
	run -0 mlrun gpu top --once
	assert_line --regexp '^  0  .* 55%  96.0 GB of .* 412 W +71 C'
	run -0 grep ",$(uname -n),0," gpu.csv
	assert_output --regexp ',55,96000000000,[0-9]+,412.0,71,[0-9]+,[0-9]+$'
}

@test "gpu top: a count that no number holds is refused" {
	run -125 mlrun gpu top --count 99999999999999999999999
	assert_output --partial "--count takes a whole number from 1 to 9223372036854775806"
}

@test "gpu top: wrong options are refused with what they take" {
	run -125 mlrun gpu top --interval 0
	assert_output --partial "--interval takes a number from 0.1 to 86400, not '0'"
	run -125 mlrun gpu top --count none
	assert_output --partial "--count takes a whole number from 1 on, not 'none'"
	run -125 mlrun gpu top more
	run -125 mlrun gpu top --once --log /nonexistent/gpu.csv
	assert_output --partial "gpu top: open '/nonexistent/gpu.csv': No such file or directory"
}

@test "gpu top: a full disk ends the log with an error that names it" {
	[ -w /dev/full ] || skip "there is no /dev/full"
	run -125 mlrun gpu top --interval 0.1 --log /dev/full
	assert_output --partial "write to '/dev/full': No space left on device"
}

# --- others that ask the library ----------------------------------------------------

@test "gpu list: memory, brand and compute capability are what the library tells" {
	two_gpus
	facts "brand 2" "capability 8 9"
	run -0 --separate-stderr mlrun gpu list --json
	assert_equal "$stderr" ""
	assert_equal "$(jq -c '.gpus[0] | [.memory, .brand, .arch]' <<<"$output")" '[48000000000,"Tesla","8.9"]'
}

@test "gpu list: what keeps the library from telling is a warning" {
	two_gpus
	facts "init 18"
	run -0 --separate-stderr mlrun gpu list
	assert_regex "$stderr" "the driver's libraries and its kernel module are of different versions"
	assert_line --partial "GPU-c0ffee00"
}

# Without NVML the condition would hold: what is not known does.
@test "exec: a requirement on the brand and the compute capability is judged by what the library tells" {
	needs_ordinary_user
	two_gpus
	facts "brand 2" "capability 8 9"
	tiny_root root
	for condition in brand=geforce 'arch>=9.0'; do
		run -125 mlrun exec --gpu=0 -e "NVIDIA_REQUIRE_THIS=$condition" rootfs:root true
		assert_output --partial "NVIDIA_REQUIRE_THIS"
	done
	run -0 mlrun exec --gpu=0 -e "NVIDIA_REQUIRE_THIS=brand=tesla,arch>=8.9" rootfs:root true
}

# --- the log ---------------------------------------------------------------------

@test "gpu top: a log has a header and a line a GPU and sample, and nothing is said meanwhile" {
	two_gpus
	run -0 --separate-stderr mlrun gpu top --interval 0.1 --count 2 --log gpu.csv
	assert_equal "$output$stderr" ""
	run -0 cat gpu.csv
	assert_line --index 0 "time,host,gpu,uuid,gpu_busy_percent,gpu_memory_used_bytes,gpu_memory_total_bytes,power_watts,temperature_celsius,cpu_busy_percent,memory_used_bytes"
	assert_line --index 1 --regexp "^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z,$(uname -n),0,GPU-c0ffee00-1f2e-3d4c-5b6a-0123456789a0,87,32000000000,48000000000,201.5,61,[0-9]+,[0-9]+$"
	assert_line --index 2 --regexp ",1,GPU-c0ffee01-[^,]*,0,0,48000000000,33.0,30,[0-9]+,[0-9]+$"
	assert_equal "${#lines[@]}" 5
	mlrun gpu top --once --log gpu.csv
	assert_equal "$(grep -c ^time gpu.csv) $(wc -l <gpu.csv)" "1 7"
}

@test "gpu top: a log in the background of a script ends with success when the script ends it" {
	two_gpus
	for signal in TERM HUP; do # a shell without job control has its background jobs ignore SIGINT
		start_log
		below=$(child_of "$top")
		kill -s "$signal" "$top"
		wait "$top" || fail "exit status $? after SIG$signal"
		[ "$(tail -c 1 gpu.csv | xxd -p)" = 0a ]
		until_true is_gone "$below"
	done
}

@test "gpu top: a signal to all of a job's processes ends a log without a word" {
	two_gpus
	for signal in TERM HUP; do
		rm -f gpu.csv
		setsid mlrun gpu top --interval 0.1 --log gpu.csv >said 2>&1 3>&- &
		PIDS+=($!)
		until_true grep -qs ',87,' gpu.csv
		kill -s "$signal" -- "-$!"
		wait $! || fail "exit status $? after SIG$signal: $(cat said)"
		assert_equal "$(cat said)" ""
	done
}

@test "gpu top: in a job it ends with the script that has started it, elsewhere not" {
	two_gpus
	for job in 7 ""; do
		rm -f gpu.csv
		SLURM_JOB_ID=$job setsid bash -c 'mlrun gpu top --interval 0.1 --log gpu.csv & echo $! >pid
			until grep -qs ",87," gpu.csv; do sleep 0.05; done' 3>&-
		PIDS+=("$(cat pid)")
		[ -n "$job" ] || break
		until_true is_gone "$(cat pid)"
	done
	lines=$(wc -l <gpu.csv)
	until_true longer_than gpu.csv $((lines + 6))
	! is_gone "$(cat pid)" || fail "it has ended without a job"
}

@test "gpu top: when it is killed the program below it ends, and the log's lines are whole" {
	two_gpus
	start_log
	below=$(child_of "$top")
	kill -KILL "$top"
	wait "$top" || :
	until_true is_gone "$below"
	[ "$(tail -c 1 gpu.csv | xxd -p)" = 0a ]
}

@test "gpu top: the program below it has nothing of the caller's environment, and no descriptor of his" {
	two_gpus
	exec 7<"$FACTS"
	start_log SECRET=token
	below=$(child_of "$top")
	run -0 tr '\0' '\n' <"/proc/$below/environ"
	refute_output --partial SECRET
	refute_output --partial PATH=
	run -0 ls "/proc/$below/fd"
	assert_equal "$(grep -cxE '[012]' <<<"$output")" 3
	refute_line 7
	kill "$top"
	exec 7<&-
}

@test "gpu top: several that log to one file write one header and whole lines" {
	local pids=()

	two_gpus
	for i in 1 2 3 4; do
		mlrun gpu top --interval 0.1 --count 3 --log gpu.csv 3>&- &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid" || fail "exit status $?"; done
	assert_equal "$(grep -c ^time gpu.csv) $(wc -l <gpu.csv)" "1 25"
	assert_equal "$(awk -F, 'NF != 11' gpu.csv)" ""
}

@test "gpu top: a file that is no log is refused and left alone, and a header that was cut is completed" {
	two_gpus
	printf 'import torch\nprint(1)\n' >train.py
	cp train.py before.py
	run -125 mlrun gpu top --once --log train.py
	assert_output --partial "'train.py' is not a log of mlrun gpu top"
	cmp train.py before.py
	printf 'time,host,g' >gpu.csv
	run -0 mlrun gpu top --once --log gpu.csv
	assert_equal "$(head -c 16 gpu.csv) $(grep -c ^time gpu.csv) $(wc -l <gpu.csv)" "time,host,gpu,uu 1 3"
	run -0 mlrun gpu top --once --log gpu.csv
	assert_equal "$(grep -c ^time gpu.csv) $(wc -l <gpu.csv)" "1 5"
}

@test "gpu top: text that cannot be written ends it with the reason" {
	[ -w /dev/full ] || skip "there is no /dev/full"
	two_gpus
	run -125 timeout 120 sh -c 'mlrun gpu top --interval 0.1 >/dev/full'
	assert_output "mlrun: write to stdout: No space left on device"
}

# --- the screen --------------------------------------------------------------------

@test "gpu top: q ends the view and the terminal is as before" {
	terminal_setup
	two_gpus
	open_shell
	until_shown '^outer>'
	type_line 'echo before; stty -a | md5sum'
	until_shown '^[0-9a-f]{32}'
	modes=$(screen | grep -oE '^[0-9a-f]{32}')
	type_next 'mlrun gpu top --interval 0.2'
	until_shown '^  0  L40S .* 87%'
	until_shown '^ *PID  USER'
	! shows '^before' || fail "the view is not alone"
	facts "busy 12 0" # the first GPU's last word counts
	until_shown '^  0  L40S .* 12%'
	press q
	until_true is_prompting
	! shows 87% || fail "it is not redrawn in its place"
	type_next 'echo $? >status; clear; echo status $(cat status); stty -a | md5sum'
	until_shown '^status 0'
	until_shown "^$modes"
}

@test "gpu top: ^C ends the view, ^Z stops it, and a view may write a log as well" {
	terminal_setup
	two_gpus
	open_shell
	until_shown '^outer>'
	type_line 'mlrun gpu top --interval 0.2 --log gpu.csv'
	until_shown '^  0  L40S .* 87%'
	until_true grep -q ',87,' gpu.csv
	press C-z
	until_shown 'Stopped +mlrun gpu top'
	facts "busy 12 0"
	type_next fg
	until_shown '^  0  L40S .* 12%'
	press C-c
	until_true is_prompting
	type_next 'echo $? >status; clear; echo status $(cat status)'
	until_shown '^status 0'
}

@test "gpu top: the view takes the window's size, also when that changes" {
	terminal_setup
	two_gpus
	open_terminal "mlrun gpu top --interval 0.2"
	until_shown '^  0  L40S .* 87%'
	! shows 'MHz' || fail "80 columns have no room for the clock"
	term resize-window -t t -x 110 -y 30
	until_shown '^  0  L40S .* 2520 MHz$'
	term kill-session -t t
}

@test "gpu top: a library that hangs does not keep the view from showing the rest and ending" {
	terminal_setup
	two_gpus
	facts "init hang"
	open_shell
	until_shown '^outer>'
	type_line 'mlrun gpu top --interval 0.2'
	until_shown '^  0  L40S +nothing is known now'
	press q
	type_next 'echo status $?'
	until_shown '^status 0'
}
