#!/usr/bin/env bats
# mlrun gpu list: made-up machines, and who may use their GPUs.
load common
load gpu

@test "gpu list: a machine without a GPU is told in one line, with what was looked at" {
	driver_tree none
	run -0 --separate-stderr mlrun gpu list
	assert_output "no GPU below '$MLRUN_GPU_ROOT': nothing in /proc/driver/nvidia/gpus, nothing in /sys/class/kfd"
	[ -z "$stderr" ]
	run -0 mlrun gpu list --json
	assert_equal "$(jq -c .gpus <<<"$output")" '[]'
	assert_equal "$(jq -c .driver.kind <<<"$output")" null
}

@test "gpu list: driver, CUDA, and a row a GPU" {
	driver_tree debian
	run -0 --separate-stderr mlrun gpu list
	assert_line --index 0 --regexp '^NVIDIA driver 535\.[0-9.]+, CUDA 12\.2$'
	assert_line --index 1 --regexp '^INDEX +MODEL +MEMORY +UUID +BUS ID +NODE +WHO MAY USE IT$'
	assert_line --index 2 --regexp '^0 +NVIDIA .* GPU-[0-9a-f-]+ +0000:18:00\.0 +/dev/nvidia0 +you$'
	assert_line --index 3 --regexp '^1 +NVIDIA .* GPU-[0-9a-f-]+ +0000:2a:00\.0 +/dev/nvidia1 +you$'
}

@test "gpu list: GPUs are counted by bus, and a kernel module that is open is told" {
	driver_tree hgx
	run -0 --separate-stderr mlrun gpu list --json
	assert_equal "$(jq -c '[.gpus[].index]' <<<"$output")" '[0,1,2,3,4,5,6,7]'
	assert_equal "$(jq -c '[.gpus[].bus_id] == ([.gpus[].bus_id] | sort)' <<<"$output")" true
	assert_equal "$(jq -c '[.gpus[].node] == ([.gpus[].node] | sort)' <<<"$output")" false
	assert_equal "$(jq .driver.open <<<"$output")" true
	run -0 --separate-stderr mlrun gpu list
	assert_line --index 0 --regexp ', open kernel module, CUDA 12\.4$'
}

@test "gpu list: all keys are always there" {
	local keys='["arch","brand","bus_id","drm","index","memory","mig","model","node","usable","users","uuid","vendor"]'

	driver_tree mig
	run -0 --separate-stderr mlrun gpu list --json
	assert_equal "$(jq -c keys <<<"$output")" '["driver","gpus","warnings"]'
	assert_equal "$(jq -c '.driver | keys' <<<"$output")" '["cuda","kind","open","refused","version"]'
	assert_equal "$(jq -c '[.gpus[] | keys] | unique' <<<"$output")" "[$keys]"
	assert_equal "$(jq -c '[.gpus[].mig[] | keys] | unique' <<<"$output")" '[["ci","gi","nodes","usable","uuid"]]'
	driver_tree amd
	run -0 --separate-stderr mlrun gpu list --json
	assert_equal "$(jq -c '[.gpus[] | keys] | unique' <<<"$output")" "[$keys]"
}

@test "gpu list: the parts of a GPU have rows of their own" {
	driver_tree mig
	run -0 --separate-stderr mlrun gpu list
	assert_line --regexp '^0:0 +MIG gi[0-9]+/ci[0-9]+ .* /dev/nvidia-caps/nvidia-cap[0-9]+ +you$'
	assert_line --regexp '^0:2 +MIG '
	refute_line --regexp '^1:0 '
	run -0 --separate-stderr mlrun gpu list --json
	assert_equal "$(jq -c '[.gpus[].mig | length]' <<<"$output")" '[3,0]'
	assert_equal "$(jq -c '[.gpus[0].mig[] | .usable] | unique' <<<"$output")" '[true]'
}

@test "gpu list: nodes that nobody made are told with the command" {
	driver_tree no-nodes
	run -0 --separate-stderr mlrun gpu list
	assert_line --regexp '^- +NVIDIA .* /dev/nvidia0 +nobody: missing$'
	[[ $stderr == *"nvidia-modprobe never ran; as root, nvidia-modprobe -c0 -c1 -u"* ]]
	run -0 --separate-stderr mlrun gpu list --json
	assert_equal "$(jq -c '[.gpus[] | [.index, .usable]]' <<<"$output")" '[[null,false],[null,false]]'
	[[ $(jq -r '.warnings[]' <<<"$output") == *"nvidia-modprobe never ran"* ]]
}

@test "gpu list: a node that is closed is named with who may use it" {
	needs_ordinary_user
	driver_tree --gpus=2 ubuntu
	cp -a "$MLRUN_GPU_ROOT" closed
	MLRUN_GPU_ROOT=$PWD/closed
	chmod 0 closed/dev/nvidia0
	run -0 --separate-stderr mlrun gpu list
	assert_line --regexp '^- .* /dev/nvidia0 +only its owner$'
	assert_line --regexp '^0 .* /dev/nvidia1 +you$'
	[[ $stderr == *"only its owner may open '/dev/nvidia0' (mode 0000)"* ]]
}

@test "gpu list: AMD's GPUs, beside NVIDIA's" {
	driver_tree amd
	run -0 --separate-stderr mlrun gpu list
	assert_line --index 1 --regexp '^0 +AMD Instinct MI300X +206\.2 GB +GPU-[0-9a-f]{16} +0000:18:00\.0 +/dev/dri/renderD128 +you$'
	driver_tree amd-nvidia
	run -0 --separate-stderr mlrun gpu list --json
	assert_equal "$(jq -c '[.gpus[] | [.vendor, .index]]' <<<"$output")" '[["nvidia",0],["amd",0]]'
}

@test "gpu list: Windows' GPUs and a Jetson are told as such" {
	driver_tree wsl
	run -0 --separate-stderr mlrun gpu list
	assert_line --partial "of Windows (WSL)"
	assert_line --partial "/dev/dxg"
	driver_tree tegra
	run -0 --separate-stderr mlrun gpu list
	assert_output --regexp '^this is a Jetson '
	[ "${#lines[@]}" -eq 1 ]
	run -0 --separate-stderr mlrun gpu list --json
	assert_equal "$(jq -r .driver.kind <<<"$output")" tegra
	[ "$(jq -r .driver.refused <<<"$output")" != null ]
}

@test "gpu: wrong words fail" {
	run -125 mlrun gpu list extra
	assert_output --partial "mlrun gpu list: 'extra': expected no argument"
	MLRUN_GPU_ROOT=/no/such run -125 mlrun gpu list
	assert_output --partial "'/no/such': No such file or directory"
	run -0 mlrun gpu --help
	assert_line --regexp '^  list +'
}
