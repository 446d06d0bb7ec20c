#!/usr/bin/env bats
# mlrun gpu check: does what it says of an image and a machine hold?

load common
load gpu

setup() {
	common_setup
	case $(uname -m) in
	x86_64) LIB=lib/x86_64-linux-gnu ;;
	aarch64) LIB=lib/aarch64-linux-gnu ;;
	esac
	tiny_root root
	gpu_library "root/$LIB/libc.so.6" --soname=libc.so.6 --defines=2.2.5,2.36
	IMAGE=rootfs:root
}

# cuda VERSION: the image has that CUDA's runtime
cuda() {
	mkdir -p root/usr/local/cuda-x/lib64
	ln -sfn cuda-x root/usr/local/cuda
	gpu_library "root/usr/local/cuda-x/lib64/libcudart.so.$1" --soname=libcudart.so.1
}

# compat DRIVER: the image brings that driver's libcuda
compat() {
	mkdir -p root/usr/local/cuda/compat
	gpu_library "root/usr/local/cuda/compat/libcuda.so.$1" --soname=libcuda.so.1
	ln -sf "libcuda.so.$1" root/usr/local/cuda/compat/libcuda.so.1
}

finding() { jq -r --arg s "$1" '.findings[] | select(.subject == $s) | .verdict + ": " + .text' <<<"$output"; }
mend() { jq -r --arg s "$1" '.findings[] | select(.subject == $s) | .mend' <<<"$output"; }

@test "gpu check: an image of the driver's own CUDA works, and that is exit 0" {
	driver_tree ubuntu
	cuda 12.4.127
	run -0 mlrun gpu check --gpu=all "$IMAGE"
	assert_line --regexp '^ok +driver +NVIDIA.s 550.90.07, which serves CUDA up to 12.4$'
	assert_line --regexp '^ok +devices +2 for --gpu=all: 0 NVIDIA L40S, 1 NVIDIA L40S$'
	assert_line --regexp '^ok +cuda +the image has CUDA 12.4 \(/usr/local/cuda/lib64\), the driver serves CUDA up to 12.4$'
	assert_line --regexp '^ok +libc +glibc 2.36, which is enough'
	assert_line "the image works here"
	run -0 mlrun exec --gpu=all "$IMAGE" ls /usr/local/nvidia/lib64/libcuda.so.1
}

@test "gpu check: JSON has all keys, and the same verdict" {
	driver_tree ubuntu
	run -0 mlrun gpu check --json --gpu=all "$IMAGE"
	assert_equal "$(jq -c 'keys, (.findings[0] | keys)' <<<"$output")" \
		'["findings","image","profile","verdict"]'$'\n''["mend","subject","text","verdict"]'
	assert_equal "$(jq -r .verdict <<<"$output")" ok
	assert_equal "$(jq -r .profile <<<"$output")" null
}

@test "gpu check: a later CUDA of the same major version is doubtful, for PTX, and still exit 0" {
	driver_tree mig
	cuda 12.8.90
	run -0 mlrun gpu check --json --gpu=all "$IMAGE"
	assert_equal "$(jq -r .verdict <<<"$output")" doubtful
	[[ $(finding cuda) == "doubtful: the image has CUDA 12.8, the driver serves CUDA up to 12.2: programs work"* ]]
	[[ $(mend cuda) == *"unsupported toolchain"* ]]
}

@test "gpu check: a later major version does not work, and exit 1 tells what would" {
	driver_tree mig
	cuda 13.0.48
	run -1 mlrun gpu check --json --gpu=all "$IMAGE"
	[[ $(finding cuda) == "fails: the image has CUDA 13.0, the driver serves CUDA up to 12.2"* ]]
	[[ $(mend cuda) == *"an image with CUDA 12.2 or older"*"cuda-compat-13-0"* ]]
	run -1 mlrun gpu check --gpu=all "$IMAGE"
	assert_line "the image does not work here"
}

@test "gpu check: a later major version works with the image's own libcuda, as it is used then" {
	driver_tree mig
	cuda 13.0.48
	compat 580.65.06
	run -0 mlrun gpu check --json --gpu=all "$IMAGE"
	[[ $(finding cuda) == "ok: "*"the image's own libcuda 580.65.06 is used"* ]] || fail "$(finding cuda)"
	run -0 mlrun exec --gpu=all "$IMAGE" readlink -f /usr/local/nvidia/lib64/libcuda.so.1
	assert_output --regexp '/compat/libcuda.so.580.65.06$'
}

@test "gpu check: a library that needs a newer glibc is named" {
	driver_tree ubuntu --glibc=libcuda.so=2.38
	run -1 mlrun gpu check --json --gpu=all "$IMAGE"
	[[ $(finding libc) == "fails: the image's glibc 2.36 is too old for libcuda.so.550.90.07 (GLIBC_2.38)" ]] ||
		fail "$(finding libc)"
	driver_tree ubuntu --glibc=libcudadebugger.so=2.38
	run -0 mlrun gpu check --json --gpu=all "$IMAGE"
	[[ $(finding libc) == "doubtful: "*"libcudadebugger.so.550.90.07"* ]] || fail "$(finding libc)"
}

@test "gpu check: a library that the image's own replaces needs no newer glibc, as a start does not bring it" {
	driver_tree mig --glibc=libcuda.so=2.38
	cuda 13.0.48
	compat 580.65.06
	run -0 mlrun gpu check --json --gpu=all "$IMAGE"
	[[ $(finding libc) == "ok: glibc 2.36, "* ]] || fail "$(finding libc)"
	# Where no GPU can be had, the driver's files are judged all the same.
	rm -r root/usr/local/cuda/compat
	CUDA_VISIBLE_DEVICES='' run -1 mlrun gpu check --json "$IMAGE"
	[[ $(finding libc) == "fails: the image's glibc 2.36 is too old for libcuda.so."* ]] || fail "$(finding libc)"
}

@test "gpu check: musl does not load the driver, and an image without any C library is doubtful" {
	driver_tree ubuntu
	rm "root/$LIB/libc.so.6"
	run -0 mlrun gpu check --json --gpu=all "$IMAGE"
	[[ $(finding libc) == "doubtful: the image has no C library"* ]] || fail "$(finding libc)"
	gpu_library "root/lib/ld-musl-$(uname -m).so.1" --soname=libc.so
	run -1 mlrun gpu check --json --gpu=all "$IMAGE"
	[[ $(finding libc) == "fails: the image's C library is musl"* ]] || fail "$(finding libc)"
}

@test "gpu check: an image that asks for no GPU needs none where there is none, and that is exit 0" {
	driver_tree none
	run -0 mlrun gpu check "$IMAGE"
	assert_line --regexp '^not needed +driver +the machine has no driver of a GPU, and the image asks for no GPU$'
	assert_line "the image needs no GPU"
	run -0 mlrun gpu check --json "$IMAGE"
	assert_equal "$(jq -r .verdict <<<"$output")" "not needed"
	run -1 mlrun gpu check --gpu=0 "$IMAGE"
	NVIDIA_VISIBLE_DEVICES=all run -1 mlrun gpu check "$IMAGE"
	cuda 12.4.127
	run -1 mlrun gpu check "$IMAGE"
	assert_line --regexp '^fails +driver +the machine has no driver of a GPU$'
}

@test "gpu check: a machine without a driver, Tegra and another's library versions are told of" {
	driver_tree none
	run -1 mlrun gpu check --gpu=all "$IMAGE"
	assert_line --regexp '^fails +driver +the machine has no driver'
	assert_line --partial "mlrun profile"
	driver_tree tegra
	run -1 mlrun gpu check --gpu=all "$IMAGE"
	assert_line --regexp '^fails +driver .*Tegra'
	driver_tree mismatch
	run -1 mlrun gpu check --gpu=all "$IMAGE"
	assert_line --regexp '^doubtful +driver .*do not match'
	assert_line --regexp '^fails +capabilities .*no libraries'
}

@test "gpu check: nodes that are not there are named, with what makes them" {
	driver_tree no-nodes
	run -1 mlrun gpu check --gpu=all "$IMAGE"
	assert_line --regexp '^fails +devices '
	assert_output --partial "nvidia-modprobe"
}

@test "gpu check: a GPU that is not there, and a job without any" {
	driver_tree ubuntu
	run -1 mlrun gpu check --json --gpu=7 "$IMAGE"
	[[ $(finding devices) == "fails: "*7* ]] || fail "$(finding devices)"
	CUDA_VISIBLE_DEVICES='' run -1 mlrun gpu check --json --gpu=auto "$IMAGE"
	[[ $(finding devices) == *"fails: "*"CUDA_VISIBLE_DEVICES="* ]] || fail "$(finding devices)"
	CUDA_VISIBLE_DEVICES='' NVIDIA_VISIBLE_DEVICES=all run -1 mlrun gpu check --json "$IMAGE"
	[[ $(finding devices) == "fails: no GPU would be in the container: "*"CUDA_VISIBLE_DEVICES="* ]] || fail "$(finding devices)"
}

@test "gpu check: an image that asks for nothing is judged as if --gpu=all did" {
	driver_tree ubuntu
	run -0 mlrun gpu check "$IMAGE"
	assert_line --regexp '^doubtful +devices +the image asks for no GPU'
	assert_line --regexp '^ok +devices +2 for --gpu=all'
	run -0 mlrun gpu check --gpu=none "$IMAGE"
	assert_line --regexp '^ok +devices +no GPU is asked for: --gpu=none$'
}

@test "gpu check: MLRUN_GPU and mlrun.conf count as for exec" {
	driver_tree ubuntu
	MLRUN_GPU=1 run -0 mlrun gpu check --json "$IMAGE"
	assert_equal "$(finding devices)" "ok: 1 for MLRUN_GPU=1: 1 NVIDIA L40S"
	printf '[exec]\ngpu = none\n' >mlrun.conf
	MLRUN_CONFIG=$PWD/mlrun.conf run -0 mlrun gpu check --json "$IMAGE"
	assert_equal "$(finding devices)" "ok: no GPU is asked for: the configuration's gpu = none"
	MLRUN_GPU=none run -0 mlrun gpu check --json --gpu=0 "$IMAGE"
	assert_equal "$(finding devices)" "ok: 1 for --gpu=0: 0 NVIDIA L40S"
}

@test "gpu check: capabilities that the driver here lacks" {
	driver_tree usr-local-nvidia
	NVIDIA_DRIVER_CAPABILITIES=compute,graphics run -0 mlrun gpu check --json --gpu=all "$IMAGE"
	assert_equal "$(finding capabilities)" "doubtful: the machine's driver has no libraries for 'graphics'"
	NVIDIA_DRIVER_CAPABILITIES=compute run -0 mlrun gpu check --json --gpu=all "$IMAGE"
	assert_equal "$(finding capabilities)" "ok: compute, and the driver has them"
}

@test "gpu check: another machine's profile is judged without this machine's job" {
	driver_tree mig
	mlrun profile >profile.json
	driver_tree none
	cuda 12.2.0
	CUDA_VISIBLE_DEVICES='' run -0 mlrun gpu check --gpu=all --profile profile.json "$IMAGE"
	assert_line --partial "the driver serves CUDA up to 12.2"
	assert_line --partial "the image works on the machine of 'profile.json'"
	echo '{"driver": 7}' >wrong.json
	run -125 mlrun gpu check --profile wrong.json "$IMAGE"
	assert_output --partial "'wrong.json'"
	run -125 mlrun gpu check --profile nowhere.json "$IMAGE"
	assert_output --partial "nowhere.json"
}

@test "gpu check: a profile is judged by its own machine's processors" {
	driver_tree mig
	mlrun profile | jq '.architecture = "riscv64"' >riscv.json
	mlrun profile | jq 'del(.architecture)' >before.json
	gpu_library "root/lib/riscv64-linux-gnu/libc.so.6" --soname=libc.so.6 --defines=2.2.5,2.31
	run -0 mlrun gpu check --json --gpu=all --profile riscv.json "$IMAGE"
	[[ $(finding libc) == "ok: glibc 2.31, "* ]] || fail "$(finding libc)"
	run -0 mlrun gpu check --json --gpu=all --profile before.json "$IMAGE"
	[[ $(finding libc) == "ok: glibc 2.36, "* ]] || fail "$(finding libc)"
}

@test "gpu check: a squashfs image is looked into as well" {
	needs_squashfuse
	command -v mksquashfs >/dev/null || skip "mksquashfs is not installed"
	driver_tree mig
	cuda 13.0.48
	compat 580.65.06
	mksquashfs root image.sqfs -quiet -no-progress >/dev/null
	mlrun gpu check --json --gpu=all rootfs:root | jq .findings >tree.json
	mlrun gpu check --json --gpu=all squashfs:image.sqfs | jq .findings >squashfs.json
	diff -u tree.json squashfs.json
	jq -e 'map(select(.subject == "libc" and .verdict == "ok")) | length == 1' squashfs.json
}

@test "gpu check: large libraries of a squashfs image are told of as those of a tree" {
	local real

	needs_squashfuse
	command -v mksquashfs >/dev/null || skip "mksquashfs is not installed"
	real=$(ldd /bin/ls | grep -o '/[^ ]*libc\.so\.6')
	[ "$(stat -L -c %s "$real")" -gt 524288 ] || skip "this machine's libc is small"
	driver_tree mig
	cp -L "$real" "root/$LIB/libc.so.6"
	cuda 13.0.48
	gpu_library root/usr/local/cuda/compat/libcuda.so.580.65.06 --soname=libcuda.so.1 \
		--note='{"cudaVersion": 13000}'
	truncate -s 30M root/usr/local/cuda/compat/libcuda.so.580.65.06
	for block in 4096 131072 1048576; do
		rm -f image.sqfs
		mksquashfs root image.sqfs -b $block -quiet -no-progress >/dev/null
		mlrun gpu check --json --gpu=all rootfs:root | jq .findings >tree.json
		mlrun gpu check --json --gpu=all squashfs:image.sqfs | jq .findings >squashfs.json
		diff -u tree.json squashfs.json
	done
	jq -e 'map(select(.subject == "libc" and .verdict == "ok" and (.text | test("^glibc 2")))) | length == 1' squashfs.json
}

@test "gpu check: an image that is not there, or none, is exit 125" {
	driver_tree ubuntu
	run -125 mlrun gpu check rootfs:nowhere
	assert_output --partial "gpu check 'rootfs:nowhere'"
	run -125 mlrun gpu check
	assert_output --partial "expected an image"
}
