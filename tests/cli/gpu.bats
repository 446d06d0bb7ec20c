#!/usr/bin/env bats
# What each made-up machine (driver-tree) brings into a container, whole: the GPU part of `mlrun exec --explain` against
# tests/data/gpu/<name>.txt, each of which was read line by line against NVIDIA's tables.
#
# After a change that is meant: GPU_GOLDEN=write bats tests/cli/gpu.bats, and read the difference.

load common
load gpu

setup_file() {
	export FILE_ROOT=$BATS_FILE_TMPDIR/root

	case $(uname -m) in
	x86_64) ;;
	*) skip_file "the files told of are those of x86_64" ;;
	esac
	tiny_root "$FILE_ROOT"
	mkdir -p "$FILE_ROOT"/usr/{bin,share} "$FILE_ROOT/lib/x86_64-linux-gnu" "$FILE_ROOT"/etc/OpenCL
	gpu_library "$FILE_ROOT/lib/x86_64-linux-gnu/libc.so.6" --soname=libc.so.6 --defines=2.2.5,2.36
}

# Lines of the GPUs', with the machine's directory as MACHINE, without what the image has there. Where this machine
# has no driver itself, all of /proc/driver is covered.
gpu_part() {
	sed -n -e "s,$MLRUN_GPU_ROOT,MACHINE,g" -e 's/   (.*//' -e 's,^\(  gpu  *[a-z]*  */proc/driver\)/nvidia\( nosuid.*\)\{0\,1\}$,\1\2,' \
		-e '/^  gpu /p' -e '/^  cdi /p'
}

# golden NAME LAYOUT OPTION...
golden() {
	local file=$top_srcdir/tests/data/gpu/$1.txt

	driver_tree "$2"
	shift 2
	mlrun exec --explain "$@" rootfs:"$FILE_ROOT" true >explained || fail "mlrun exec $*: $(cat explained)"
	gpu_part <explained >part
	if [ "${GPU_GOLDEN:-}" = write ]; then
		mkdir -p "$top_srcdir/tests/data/gpu"
		cp part "$file"
	fi
	diff -u "$file" part || fail "$file says otherwise"
}

@test "gpu: Debian's packages, alternatives and all" { golden debian debian --gpu=all; }
@test "gpu: Ubuntu's server packages" { golden ubuntu ubuntu --gpu=all; }
@test "gpu: NVIDIA's .run file on RHEL" { golden rhel rhel --gpu=all; }
@test "gpu: SUSE's packages" { golden suse suse --gpu=all; }
@test "gpu: a driver in /usr/local/nvidia" { golden usr-local-nvidia usr-local-nvidia --gpu=all; }
@test "gpu: the GPU operator's driver container" { golden driver-container driver-container --gpu=all; }
@test "gpu: Windows' driver in WSL" { golden wsl wsl --gpu=all; }
@test "gpu: GPUs with MIG, each wholly" { golden mig mig --gpu=all; }
@test "gpu: eight GPUs whose minors are not in the order of buses" { golden hgx hgx --gpu=all; }
@test "gpu: driver 470" { golden old old --gpu=all; }
@test "gpu: driver 390" { golden ancient ancient --gpu=all; }
@test "gpu: two different GPUs on a workstation" { golden workstation workstation --gpu=all; }
@test "gpu: NixOS" { golden nixos nixos --gpu=all; }
@test "gpu: libraries that are not the module's" {
	MLRUN_GPU=all golden mismatch mismatch
	run -125 mlrun exec --explain --gpu=all rootfs:"$FILE_ROOT" true
	assert_output --partial "--gpu=all: the GPUs' driver has no libraries here: the kernel runs the NVIDIA driver 550.54.15, but"
}
@test "gpu: AMD's GPUs" { golden amd amd --gpu=all; }
@test "gpu: both vendors'" { golden amd-nvidia amd-nvidia --gpu=all; }

@test "gpu: compute alone" { golden workstation.compute workstation --gpu=all -e NVIDIA_DRIVER_CAPABILITIES=compute; }
@test "gpu: utility alone" { golden workstation.utility workstation --gpu=all -e NVIDIA_DRIVER_CAPABILITIES=utility; }
@test "gpu: video alone" { golden workstation.video workstation --gpu=all -e NVIDIA_DRIVER_CAPABILITIES=video; }
@test "gpu: graphics alone" { golden workstation.graphics workstation --gpu=all -e NVIDIA_DRIVER_CAPABILITIES=graphics; }
@test "gpu: all capabilities" { golden workstation.all workstation --gpu=all -e NVIDIA_DRIVER_CAPABILITIES=all; }
@test "gpu: graphics of one of two GPUs" { golden workstation.1 workstation --gpu=1 -e NVIDIA_DRIVER_CAPABILITIES=graphics; }
@test "gpu: the first of two GPUs" { golden ubuntu.0 ubuntu --gpu=0; }
@test "gpu: a part of a GPU" { golden mig.part mig --gpu=0:1; }
@test "gpu: the fabric of eight" {
	golden hgx.fabric hgx --gpu=all -e NVIDIA_GDS=enabled -e NVIDIA_MOFED=enabled -e NVIDIA_NVSWITCH=enabled \
		-e NVIDIA_GDRCOPY=enabled -e NVIDIA_IMEX_CHANNELS=1
}
@test "gpu: the driver's files without a device" { golden ubuntu.none ubuntu -e NVIDIA_VISIBLE_DEVICES=none; }

@test "gpu: who starts with devices and without their libraries reads it" {
	driver_tree mismatch
	MLRUN_GPU=all run -0 mlrun exec rootfs:"$FILE_ROOT" true
	assert_output --partial "GPUs are brought in without their driver's libraries: the kernel runs the NVIDIA driver 550.54.15, but"
	# What was named and cannot be had is an error.
	run -125 mlrun exec --gpu=all rootfs:"$FILE_ROOT" true
	assert_output --partial "--gpu=all: the GPUs' driver has no libraries here: the kernel runs the NVIDIA driver 550.54.15, but"
	assert_output --partial "hint: MLRUN_GPU=all instead of it brings the GPUs without them"
	run -125 mlrun exec -e NVIDIA_VISIBLE_DEVICES=0 rootfs:"$FILE_ROOT" true
	driver_tree ubuntu
	run -0 mlrun exec --gpu=all rootfs:"$FILE_ROOT" true
	assert_output ""
}

@test "gpu: a driver of which libcuda alone is missing is told of where CUDA is wanted" {
	driver_tree ubuntu
	cp -a "$MLRUN_GPU_ROOT" without
	rm without/usr/lib/x86_64-linux-gnu/libcuda.so*
	MLRUN_GPU_ROOT=$PWD/without
	run -0 mlrun exec --gpu=all rootfs:"$FILE_ROOT" true
	assert_output "mlrun: CUDA programs will find no GPU: the driver here comes without libcuda.so"
	run -0 mlrun exec --gpu=all -e NVIDIA_DRIVER_CAPABILITIES=utility rootfs:"$FILE_ROOT" true
	assert_output ""
}

@test "gpu: nothing of Mesa, GLVND or another stranger ever comes" {
	local file

	for file in "$top_srcdir"/tests/data/gpu/*.txt; do
		run -1 grep -E '/(libGL|libEGL|libGLESv2)\.so\.[0-9.]*(1\.7|1\.1|2\.1)|libGLX\.so|libGLdispatch|libOpenGL|libOpenCL|libGLX_mesa|libvulkan|libX11|libm\.so' "$file"
	done
}

# --- what has no GPU to bring -----------------------------------------------------------

@test "gpu: a machine without GPUs changes nothing, and --gpu=all is refused on it" {
	driver_tree none
	run -0 mlrun exec --explain rootfs:"$FILE_ROOT" true
	refute_line --regexp '^  gpu '
	run -125 mlrun exec --gpu=all rootfs:"$FILE_ROOT" true
	assert_output --partial "this machine has no GPU driver"
}

@test "gpu: nodes that nobody has made are told of, with what makes them" {
	driver_tree no-nodes
	run -125 mlrun exec --gpu=all rootfs:"$FILE_ROOT" true
	assert_output --partial "nvidia-modprobe"
}

@test "gpu: Tegra is refused with the reason when asked for by name, and left alone when not" {
	driver_tree tegra
	run -125 mlrun exec --gpu=all rootfs:"$FILE_ROOT" true
	assert_output --partial "Tegra"
	run -0 mlrun exec --explain rootfs:"$FILE_ROOT" true
	refute_line --regexp '^  gpu +(bind|tmpfs|file) '
}

@test "gpu: with --gpu=none nothing of any machine comes" {
	local layout

	for layout in ubuntu wsl hgx amd tegra; do
		driver_tree "$layout"
		run -0 mlrun exec --explain --gpu=none rootfs:"$FILE_ROOT" true
		refute_line --regexp '^  gpu +(bind|symlink|file) .*(lib|/dev/)'
	done
}
