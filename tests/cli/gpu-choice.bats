#!/usr/bin/env bats
# Which GPUs a container gets on a made-up machine with four: docs/gpu.md's rows, and the messages.
# shellcheck disable=SC2016,SC2046,SC2086 # the inner shell expands; blanks are folded

load common
load gpu

image_says() {
	image_push_tar -c --config.env -c PATH=/bin:/usr/bin -c --config.env -c "NVIDIA_VISIBLE_DEVICES=$2" "$1" \
		"$BATS_FILE_TMPDIR/tiny.tar"
}

setup_file() {
	registry_start
	image_tiny says-nothing
	image_says says-all all
	image_says says-void void
	image_says says-none none
	image_says says-1.2 1,2
}
teardown_file() { registry_stop; }

setup() {
	common_setup
	driver_tree debian --gpus=4
}

# A cell of the table: "–" is nothing.
cell() {
	local text

	text=$(sed -e 's/^ *//' -e 's/ *$//' -e 's/`//g' <<<"$1")
	[ "$text" = – ] || printf '%s' "$text"
}

# run_row JOB GPU IMAGE: prints the numbers of the nodes inside and the variable.
run_row() {
	local job gpu=() image=${3/,/.}

	read -ra job <<<"$1"
	[ -z "$2" ] || gpu=(--gpu="$2")
	env "${job[@]}" mlrun exec "${gpu[@]}" "$REGISTRY/says-${image:-nothing}" \
		sh -c 'cd /dev; echo $(ls -d nvidia[0-9]* 2>/dev/null | tr -d a-z) "/" ${CUDA_VISIBLE_DEVICES-}'
}

rows() { sed -n '/^<!-- rows/,/^<!-- end of rows/s/^| \([`–].*\)/\1/p' "$top_srcdir/docs/gpu.md"; }

@test "gpu: each row of docs/gpu.md is what happens" {
	local job gpu image nodes visible n=0

	for image in nothing all void none 1.2; do mlrun pull -q "$REGISTRY/says-$image"; done
	while IFS='|' read -r job gpu image nodes visible _; do
		n=$((n + 1))
		run -0 --separate-stderr run_row "$(cell "$job")" "$(cell "$gpu")" "$(cell "$image")"
		assert_equal "$job $gpu $image: $output" "$job $gpu $image: $(echo $(cell "$nodes") / $(cell "$visible"))"
	done < <(rows)
	[ "$n" -ge 20 ] || fail "only $n rows were found"
}

@test "gpu: a GPU that is not the job's is refused, and the job's are named" {
	mlrun pull -q "$REGISTRY/says-all"
	export SLURM_JOB_ID=7 CUDA_VISIBLE_DEVICES=0,1
	run -125 mlrun exec --gpu=2 "$REGISTRY/says-all" true
	assert_line --partial "--gpu=2: '2' is not one of the job's GPUs (CUDA_VISIBLE_DEVICES=0,1)"
	assert_line --regexp '^hint: CUDA_VISIBLE_DEVICES=0,1: 0 \(NVIDIA A40, GPU-c0ffee00-[^)]*\), 1 \('
	run -125 mlrun exec --gpu=7 "$REGISTRY/says-all" true
	assert_line --partial "this machine has no GPU '7'"
}

@test "gpu: a job without GPUs starts without, unless --gpu asks for one" {
	mlrun pull -q "$REGISTRY/says-all"
	export SLURM_JOB_ID=7 CUDA_VISIBLE_DEVICES=NoDevFiles
	run -0 mlrun exec "$REGISTRY/says-all" sh -c 'ls /dev/nvidia0 || echo none'
	assert_line none
	run -125 mlrun exec --gpu=all "$REGISTRY/says-all" true
	assert_line --partial "the job has no GPU (CUDA_VISIBLE_DEVICES=NoDevFiles)"
}

@test "gpu: an image whose list is of others' GPUs starts without and says so" {
	mlrun pull -q "$REGISTRY/says-1.2"
	CUDA_VISIBLE_DEVICES=0 run -0 mlrun exec "$REGISTRY/says-1.2" true
	assert_output --partial "no GPU is in the container: the image's NVIDIA_VISIBLE_DEVICES=1,2: '1' is not of CUDA_VISIBLE_DEVICES=0"
}

@test "gpu: --explain tells each GPU with the reason" {
	mlrun pull -q "$REGISTRY/says-all"
	export SLURM_JOB_ID=7 SLURM_STEP_GPUS=2 CUDA_VISIBLE_DEVICES=1
	run -0 mlrun exec --explain "$REGISTRY/says-all" true
	assert_line --regexp "gpu +GPU 1 .* is chosen: the image's NVIDIA_VISIBLE_DEVICES=all, within CUDA_VISIBLE_DEVICES=1"
	assert_line --regexp 'gpu +omitted GPU 0 .*: not of CUDA_VISIBLE_DEVICES=1'
	assert_line --regexp 'gpu +CUDA_VISIBLE_DEVICES=1 and SLURM_STEP_GPUS=2 contradict each other about 1'
}

@test "gpu: a node that the user cannot open is told with its mode" {
	needs_ordinary_user
	mlrun pull -q "$REGISTRY/says-all"
	driver_tree debian --gpus=1
	chmod 0 "$MLRUN_GPU_ROOT/dev/nvidia0"
	run -0 mlrun exec "$REGISTRY/says-all" true
	assert_output --partial "no GPU is in the container: only its owner may open '/dev/nvidia0' (mode 0000); an administrator"
	run -125 mlrun exec --gpu=0 "$REGISTRY/says-all" true
	assert_output --partial "of 1 here 1 cannot (only its owner may open '/dev/nvidia0' (mode 0000)"
	chmod 666 "$MLRUN_GPU_ROOT/dev/nvidia0"
}

@test "gpu: numbers count the GPUs that can be opened, as in a job whose cgroup denies the others" {
	needs_ordinary_user
	mlrun pull -q "$REGISTRY/says-all"
	driver_tree debian --gpus=3
	chmod 0 "$MLRUN_GPU_ROOT/dev/nvidia0"
	export SLURM_JOB_ID=7 SLURM_JOB_GPUS=1,2 CUDA_VISIBLE_DEVICES=0,1
	run -0 mlrun exec "$REGISTRY/says-all" sh -c 'echo /dev/nvidia[0-9]* ${CUDA_VISIBLE_DEVICES-unset}'
	assert_output "/dev/nvidia1 /dev/nvidia2 unset"
	run -0 mlrun exec --explain "$REGISTRY/says-all" true
	refute_output --partial contradict
	run -0 mlrun exec --gpu=1 "$REGISTRY/says-all" sh -c 'echo /dev/nvidia[0-9]*'
	assert_output "/dev/nvidia2"
	run -125 mlrun exec --gpu=2 "$REGISTRY/says-all" true
	assert_output --partial "GPU '2' cannot be opened: of 3 here 1 cannot"
	chmod 666 "$MLRUN_GPU_ROOT/dev/nvidia0"
}

@test "gpu: parts of a GPU that the job has are the container's, and no others" {
	local tell='echo /dev/nvidia[0-9]* $(ls /dev/nvidia-caps | sort -V) ${CUDA_VISIBLE_DEVICES-unset}' all

	mlrun pull -q "$REGISTRY/says-all"
	driver_tree mig
	run -0 mlrun exec --gpu=0 "$REGISTRY/says-all" sh -c "$tell"
	all=$output
	run -0 mlrun exec --gpu=0:1 "$REGISTRY/says-all" sh -c "$tell"
	assert_output --regexp '^/dev/nvidia0 nvidia-cap[0-9]+ nvidia-cap[0-9]+ unset$'
	[ "$output" != "$all" ]
	run -125 mlrun exec --gpu=0:9 "$REGISTRY/says-all" true
	assert_output --partial "this machine has no GPU '0:9'"
	assert_output --partial "0:1 (MIG-GPU-"
}

@test "gpu: AMD's GPUs are those of ROCR_VISIBLE_DEVICES, counted anew" {
	mlrun pull -q "$REGISTRY/says-nothing"
	driver_tree amd
	export SLURM_JOB_ID=7
	ROCR_VISIBLE_DEVICES=1 CUDA_VISIBLE_DEVICES=1 run -0 mlrun exec "$REGISTRY/says-nothing" \
		sh -c 'echo $(cd /dev/dri; ls -d renderD*) ${ROCR_VISIBLE_DEVICES-unset} ${CUDA_VISIBLE_DEVICES-unset}'
	assert_output "renderD129 unset unset"
	ROCR_VISIBLE_DEVICES=1,0 HIP_VISIBLE_DEVICES=0,1 run -0 mlrun exec "$REGISTRY/says-nothing" \
		sh -c 'echo ${ROCR_VISIBLE_DEVICES-unset} ${HIP_VISIBLE_DEVICES-unset}'
	assert_output "1,0 unset"
}

@test "gpu: an image's label chooses where neither option nor configuration does" {
	local tell='echo $(cd /dev; ls -d nvidia[0-9]* 2>/dev/null) .'

	printf '%s\n' "FROM $REGISTRY/says-nothing" 'LABEL org.mlrun.gpu=all' >Dockerfile
	mlrun build -q -t all .
	printf '%s\n' "FROM $REGISTRY/says-1.2" 'LABEL org.mlrun.gpu=none org.mlrun.mpi=none' >Dockerfile
	mlrun build -q -t none .
	run -0 mlrun exec all sh -c "$tell"
	assert_output "nvidia0 nvidia1 nvidia2 nvidia3 ."
	run -0 mlrun exec --gpu=none all sh -c "$tell"
	assert_output "."
	printf '[exec]\ngpu = 2\n' >conf
	MLRUN_CONFIG=$PWD/conf run -0 mlrun exec all sh -c "$tell"
	assert_output "nvidia2 ."
	run -0 mlrun exec none sh -c "$tell"
	assert_output "."
	run -0 mlrun exec --gpu=auto none sh -c "$tell"
	assert_output "nvidia1 nvidia2 ."
	run -0 mlrun gpu check --json none
	assert_output --partial "no GPU is asked for: org.mlrun.gpu=none"
	driver_tree none
	run -0 mlrun exec all sh -c "$tell"
	assert_output "."
}

@test "gpu: MLRUN_GPU and mlrun.conf choose as --gpu does, but what cannot be had does not stop a start" {
	local tell='echo $(cd /dev; ls -d nvidia[0-9]* 2>/dev/null) .'

	mlrun pull -q "$REGISTRY/says-void"
	printf '[exec]\ngpu = 2\n' >conf
	MLRUN_CONFIG=$PWD/conf run -0 mlrun exec "$REGISTRY/says-void" sh -c "$tell"
	assert_output "nvidia2 ."
	MLRUN_CONFIG=$PWD/conf MLRUN_GPU=1 run -0 mlrun exec "$REGISTRY/says-void" sh -c "$tell"
	assert_output "nvidia1 ."
	MLRUN_GPU=1 run -0 mlrun exec --gpu=3 "$REGISTRY/says-void" sh -c "$tell"
	assert_output "nvidia3 ."
	MLRUN_GPU=none run -0 mlrun exec -e NVIDIA_VISIBLE_DEVICES=3 "$REGISTRY/says-void" sh -c "$tell"
	assert_output "nvidia3 ."
	MLRUN_CONFIG=$PWD/conf MLRUN_GPU=auto run -0 mlrun exec "$REGISTRY/says-void" sh -c "$tell"
	assert_output "."
	MLRUN_GPU=9 run -0 mlrun exec "$REGISTRY/says-void" sh -c "$tell"
	assert_line "."
	assert_line --partial "no GPU is in the container: MLRUN_GPU=9: this machine has no GPU '9'"
	driver_tree none
	MLRUN_GPU=all run -0 mlrun exec "$REGISTRY/says-void" sh -c "$tell"
	assert_output "."
	MLRUN_CONFIG=$PWD/conf run -0 mlrun exec "$REGISTRY/says-void" sh -c "$tell"
	assert_output "."
	run -125 mlrun exec --gpu=all "$REGISTRY/says-void" true
	MLRUN_GPU=all,0 run -125 mlrun exec "$REGISTRY/says-void" true
	assert_output --partial "MLRUN_GPU=all,0: 'all' cannot be combined with others"
}

# nvml LAYOUT LINE...: a machine whose management library tells these (tests/gpu/fake_nvml.c).
nvml() {
	own_tree "$1"
	fake_nvml
	shift
	printf '%s\n' "$@" >"$FACTS"
}

@test "gpu: a part is found by the uuid that only NVIDIA's library knows" {
	local first=MIG-11111111-0000-0000-0000-000000000000 third=MIG-33333333-0000-0000-0000-000000000000
	local tell='echo $(ls /dev/nvidia-caps | sort -V)' by_number

	mlrun pull -q "$REGISTRY/says-all"
	nvml mig "driver 535.161.08" "cuda 12020" "gpu 0000:18:00.0" "mig 1 0 $first" \
		"mig 5 0 MIG-22222222-0000-0000-0000-000000000000" "mig 5 1 $third" "gpu 0000:2a:00.0"
	run -0 mlrun exec --gpu=0:2 "$REGISTRY/says-all" sh -c "$tell"
	by_number=$output
	run -0 mlrun exec --gpu="$third" "$REGISTRY/says-all" sh -c "$tell"
	assert_output "$by_number"
	run -0 env SLURM_JOB_ID=7 CUDA_VISIBLE_DEVICES="$third" mlrun exec "$REGISTRY/says-all" \
		sh -c "$tell \${CUDA_VISIBLE_DEVICES-unset}"
	assert_output "$by_number unset"
	run -0 env SLURM_JOB_ID=7 CUDA_VISIBLE_DEVICES="$third,$first" mlrun exec "$REGISTRY/says-all" \
		sh -c 'echo $CUDA_VISIBLE_DEVICES'
	assert_output "$third,$first"
	run -125 mlrun exec --gpu=MIG-44444444 "$REGISTRY/says-all" true
	assert_output --partial "this machine has no GPU 'MIG-44444444'"
	assert_output --partial "0:0 ($first)"
}

@test "gpu: a requirement on the brand is judged by what NVIDIA's library tells" {
	mlrun pull -q "$REGISTRY/says-all"
	nvml ubuntu "driver 550.90.07" "cuda 12040" "gpu 0000:18:00.0" "brand 2" "capability 9 0" \
		"gpu 0000:2a:00.0" "brand 2" "capability 9 0"
	run -0 mlrun exec -e 'NVIDIA_REQUIRE_CUDA=cuda>=99 brand=tesla,driver>=550' "$REGISTRY/says-all" true
	run -0 mlrun exec -e 'NVIDIA_REQUIRE_ARCH=arch>=9.0' "$REGISTRY/says-all" true
	run -125 mlrun exec -e 'NVIDIA_REQUIRE_CUDA=cuda>=99 brand=geforce' "$REGISTRY/says-all" true
	assert_output --partial "this machine has CUDA 12.4, driver 550.90.7, arch 9.0, brand Tesla"
	run -125 mlrun exec -e 'NVIDIA_REQUIRE_ARCH=arch>=10' "$REGISTRY/says-all" true
	assert_output --partial "NVIDIA_REQUIRE_ARCH does not hold: requires 'arch>=10'"
}

@test "gpu: the user's CUDA_VISIBLE_DEVICES counts inside and is left as it is" {
	mlrun pull -q "$REGISTRY/says-all"
	CUDA_VISIBLE_DEVICES=2,3 run -0 mlrun exec -e CUDA_VISIBLE_DEVICES=1 "$REGISTRY/says-all" \
		sh -c 'echo /dev/nvidia[0-9]* $CUDA_VISIBLE_DEVICES'
	assert_line "/dev/nvidia2 /dev/nvidia3 1"
}

@test "gpu: a requirement that does not hold keeps the container from starting, and can be disabled" {
	mlrun pull -q "$REGISTRY/says-all"
	run -125 mlrun exec -e 'NVIDIA_REQUIRE_CUDA=cuda>=99.1 driver>=999' "$REGISTRY/says-all" true
	assert_line --regexp "NVIDIA_REQUIRE_CUDA does not hold: requires 'cuda>=99.1', but this machine has CUDA 12.2, driver 535\."
	assert_line --partial "hint: a newer driver"
	assert_line "hint: -e NVIDIA_DISABLE_REQUIRE=1 starts the image in spite of it"
	run -0 mlrun exec -e 'NVIDIA_REQUIRE_CUDA=cuda>=99.1' -e NVIDIA_DISABLE_REQUIRE=1 "$REGISTRY/says-all" true
	run -0 mlrun exec -e 'NVIDIA_REQUIRE_CUDA=cuda>=99.1 driver>=535' "$REGISTRY/says-all" true
	run -125 mlrun exec -e 'NVIDIA_REQUIRE_CUDA=cuda' "$REGISTRY/says-all" true
	assert_line --partial "NVIDIA_REQUIRE_CUDA: invalid condition 'cuda'"
}
