#!/usr/bin/env bats
# The made-up machines themselves: what other tests believe of them.

load common
load gpu

@test "driver-tree: every layout is made" {
	local layout

	for layout in $("$top_srcdir/tests/cli/driver-tree" --list); do
		driver_tree "$layout"
		[ -s "$MLRUN_GPU_ROOT/proc/devices" ] || [ "$layout" = wsl ] || [ "$layout" = amd ] ||
			fail "$layout has no /proc/devices"
	done
}

@test "driver-tree: libraries are such for readelf" {
	driver_tree workstation
	run -0 readelf -dVnW "$MLRUN_GPU_ROOT"/usr/lib/*/libcuda.so.570.133.07
	refute_output --regexp "(Warning|Error)"
	assert_output --partial "Library soname: [libcuda.so.1]"
	assert_output --partial "Shared library: [libm.so.6]"
	assert_output --partial "Name: GLIBC_2."
	assert_output --partial "ABI: 2.3.99"
}

@test "driver-tree: libraries are such for the linker, and say which driver they are of" {
	command -v python3 >/dev/null || skip "python3 is wanted"
	driver_tree debian
	run -0 python3 -c 'import ctypes, glob, sys
cuda = ctypes.CDLL(glob.glob(sys.argv[1] + "/usr/lib/*/nvidia/current/libcuda.so.1")[0])
ml = ctypes.CDLL(glob.glob(sys.argv[1] + "/usr/lib/*/nvidia/current/libnvidia-ml.so.1")[0])
print(cuda.cuInit(0), ml.nvmlInit_v2(), cuda.driver_tree_number())' "$MLRUN_GPU_ROOT"
	assert_output "0 0 535"
}

@test "driver-tree: the version, the count of GPUs and what a library needs can be chosen" {
	driver_tree ubuntu --version=999.1 --gpus=3 --glibc=libcuda.so=2.99
	run -0 readelf -VW "$MLRUN_GPU_ROOT"/usr/lib/*-linux-gnu/libcuda.so.999.1
	assert_output --partial "GLIBC_2.99"
	run -0 ls "$MLRUN_GPU_ROOT/proc/driver/nvidia/gpus"
	assert_equal "${#lines[@]}" 3
	grep -q " 999.1 " "$MLRUN_GPU_ROOT/proc/driver/nvidia/version"
}

@test "driver-tree: the linker's cache is ldconfig's" {
	driver_tree ubuntu
	run -0 /sbin/ldconfig -p -C "$MLRUN_GPU_ROOT/etc/ld.so.cache"
	assert_output --regexp 'libcuda.so.1 \(libc6,[^)]*\) => /usr/lib/[^/]*-linux-gnu/libcuda.so.1'
}

@test "driver-tree: a library for an image carries the note that is asked for" {
	gpu_library compat/libcuda.so.550.54.15 --soname=libcuda.so.1 --note='{"a": 1}' --glibc=2.17 --returns=550
	run -0 readelf -nW compat/libcuda.so.550.54.15
	assert_output --partial ".note.cuda.fwd_compatibility"
	assert_output --partial "NVIDIA Corporation"
}
