#!/usr/bin/env bats
# mlrun gpu top in jobs of a real Slurm: `tests/slurm/lab.sh run USER COMMAND` starts one.

load ../cli/common
load ../cli/gpu

setup_file() {
	[ -n "${TEST_SLURM_CONF:-}" ] || skip_file "no Slurm cluster here; root starts one by tests/slurm/lab.sh run"
}

setup() {
	common_setup
	export SLURM_CONF=$TEST_SLURM_CONF
	own_tree hgx
	fake_nvml
	for id in machine/proc/driver/nvidia/gpus/*; do
		printf '%s\n' "gpu ${id##*/}" "busy 50 5" "memory 80000000000 0 1000000000"
	done >"$FACTS"
}

# A controller that is busy may give no answer.
has_ended() {
	case $(scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p') in
	'' | PENDING | CONFIGURING | RUNNING | COMPLETING) return 1 ;;
	esac
}

@test "slurm: in a step the job's GPUs alone are shown" {
	run -0 srun --quiet -p gpuq --gres=gpu:2 mlrun gpu top --once
	assert_line --partial "2 of 8 GPUs: CUDA_VISIBLE_DEVICES=0,1"
	assert_equal "$(grep -cE '^ +[0-9]+  .* 50%  1.0 GB of 80.0 GB' <<<"$output")" 2
}

@test "slurm: a log that a batch script leaves in the background ends with the job" {
	cat >job <<'END'
#!/bin/bash
mlrun gpu top --interval 0.2 --log gpu.csv &
echo $! >pid
for ((i = 0; i < 1000; i++)); do
	! grep -qs ",50," gpu.csv || break
	sleep 0.1
done
END
	job=$(sbatch --parsable -p gpuq --gres=gpu:1 -o out job)
	until_true has_ended "$job"
	run -0 scontrol show job "$job"
	assert_output --partial "JobState=COMPLETED"
	until_true is_gone "$(cat pid)"
	assert_equal "$(cat out)" ""
	assert_equal "$(awk -F, 'NF != 11' gpu.csv)" ""
	# Of a moment for which the library was too slow, nothing is known.
	assert_equal "$(tail -n +2 gpu.csv | cut -d, -f3,5 | grep -vx 0, | sort -u)" "0,50"
}

@test "slurm: nodes write their own lines into one log" {
	run -0 srun --quiet -p workq -N 2 --ntasks-per-node=1 mlrun gpu top --interval 0.2 --count 4 --all --log gpu.csv
	assert_output ""
	assert_equal "$(grep -c ^time gpu.csv)" 1
	assert_equal "$(tail -n +2 gpu.csv | cut -d, -f2 | sort | uniq -c | awk '{ print $1 }' | sort -u)" 32
	assert_equal "$(awk -F, 'NF != 11' gpu.csv)" ""
}
