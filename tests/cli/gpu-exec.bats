#!/usr/bin/env bats
# GPUs in containers that really start, from made-up machines whose nodes are files.
# shellcheck disable=SC2016 # the inner shell expands
load common
load gpu

OURS=/usr/local/nvidia/lib64

setup_file() {
	export FILE_ROOT=$BATS_FILE_TMPDIR/root FILE_TINY=$BATS_FILE_TMPDIR/tiny-root
	glibc_root "$FILE_ROOT"
	tiny_root "$FILE_TINY"
}

# An image with the host's glibc and a program that asks its linker.
glibc_root() {
	local file

	tiny_root "$1"
	mkdir -p "$1"/{sbin,etc/ld.so.conf.d}
	cp "$top_builddir/tests/inside/load" "$1/bin/load"
	# Ubuntu's is a script beside the program.
	cp -L "$([ -e /sbin/ldconfig.real ] && echo /sbin/ldconfig.real || echo /sbin/ldconfig)" "$1/sbin/ldconfig" # a script in Ubuntu
	LIBC_DIR=$(ldd "$top_builddir/tests/inside/load" | sed -n 's|.*=> \(/.*\)/libc.so.6 .*|\1|p')
	for file in $(ldd "$top_builddir/tests/inside/load" | grep -o '/[^ ]*') "$LIBC_DIR"/lib{m.so.6,dl.so.2,rt.so.1,pthread.so.0}; do
		mkdir -p "$1${file%/*}"
		cp -L "$file" "$1$file"
	done
	export LIBC_DIR
	echo 'include /etc/ld.so.conf.d/*.conf' >"$1/etc/ld.so.conf"
	echo "$LIBC_DIR" >"$1/etc/ld.so.conf.d/libc.conf"
}

setup() {
	common_setup
	IMG=rootfs:$FILE_ROOT TINY=rootfs:$FILE_TINY
}

# A copy of the image that the test may change, at ./own.
own_root() {
	cp -a "$FILE_ROOT" own
	OWN=rootfs:$PWD/own
}

inside() { mlrun exec --gpu=all "$IMG" sh -c "$1"; }
variable() { mlrun exec "${@:2}" sh -c 'eval "echo \${$1-unset}"' sh "$1"; }
nodes() { mlrun exec "$@" sh -c 'cd /dev; find nvidia* dri kfd dxg infiniband gdrdrv 2>/dev/null | sort'; }

# --- what is there ------------------------------------------------------------------

@test "gpu: a container has the nodes of its GPUs, and others only by capability" {
	driver_tree workstation
	run -0 nodes --gpu=all "$IMG"
	assert_output $'nvidia-uvm\nnvidia-uvm-tools\nnvidia0\nnvidia1\nnvidiactl'
	run -0 nodes --gpu=1 "$IMG"
	assert_output $'nvidia-uvm\nnvidia-uvm-tools\nnvidia1\nnvidiactl'
	run -0 nodes --gpu=1 -e NVIDIA_DRIVER_CAPABILITIES=utility "$IMG"
	assert_output $'nvidia1\nnvidiactl'
	run -0 nodes --gpu=0 -e NVIDIA_DRIVER_CAPABILITIES=all "$IMG"
	assert_line nvidia-modeset
	assert_line --regexp '^dri/card'
	refute_line nvidia1
}

@test "gpu: a driver whose files in /proc are hidden, as in a container, is found by its node" {
	driver_tree usr-local-nvidia
	cp -a "$MLRUN_GPU_ROOT" machine
	rm -r machine/proc/driver
	MLRUN_GPU_ROOT=$PWD/machine run -0 mlrun exec --gpu=all "$IMG" sh -c 'cd /dev; ls -d nvidia?; load libcuda.so.1'
	assert_line nvidia0
	assert_line "libcuda.so.1 $OURS/libcuda.so.1 580"
}

@test "gpu: a device can be neither renamed nor given another mode" {
	driver_tree ubuntu
	run inside 'mv /dev/nvidia0 /dev/x || chmod 0 /dev/nvidia0'
	assert_failure
	assert_output --partial "Read-only file system"
}

@test "gpu: a program finds the driver's library by its linker, in a directory of ours" {
	driver_tree ubuntu
	run -0 mlrun exec --gpu=all "$IMG" load libcuda.so.1 libcuda.so libnvidia-ml.so.1
	assert_output "libcuda.so.1 $OURS/libcuda.so.1 550
libcuda.so $OURS/libcuda.so.1 550
libnvidia-ml.so.1 $OURS/libnvidia-ml.so.1 550"
	run -1 mlrun exec --gpu=none "$IMG" load libcuda.so.1
	assert_output --partial "cannot open shared object file"
}

@test "gpu: capabilities say which libraries come" {
	driver_tree ubuntu
	run -1 mlrun exec --gpu=all -e NVIDIA_DRIVER_CAPABILITIES=utility "$IMG" load libnvidia-ml.so.1 libcuda.so.1
	assert_line --partial "$OURS/libnvidia-ml.so.1"
	assert_line --partial "libcuda.so.1: cannot open"
	run -0 mlrun exec --gpu=all -e NVIDIA_DRIVER_CAPABILITIES=video "$IMG" load libnvidia-encode.so.1 libcuda.so.1
	# Its libraries need X11's, which the image has not.
	run mlrun exec --gpu=all -e NVIDIA_DRIVER_CAPABILITIES=graphics "$IMG" load libGLX_indirect.so.0 libcuda.so.1
	assert_line --partial "libX11.so.6: cannot open"
	assert_line --partial "libcuda.so.1: cannot open"
}

@test "gpu: a capability that has no libraries here is no lack" {
	driver_tree ubuntu
	run -0 mlrun exec --gpu=all -e NVIDIA_DRIVER_CAPABILITIES=compat32 "$IMG" true
	assert_output ""
}

@test "gpu: a node without which CUDA finds no GPU is told of when it lacks" {
	driver_tree debian
	cp -a "$MLRUN_GPU_ROOT" machine
	rm machine/dev/nvidia-uvm
	MLRUN_GPU_ROOT=$PWD/machine run -0 mlrun exec --gpu=all "$IMG" true
	assert_output "mlrun: CUDA finds no GPU in the container: '/dev/nvidia-uvm' is missing; as root, create it: nvidia-modprobe -c0 -u"
	MLRUN_GPU_ROOT=$PWD/machine run -0 mlrun exec --gpu=all -e NVIDIA_DRIVER_CAPABILITIES=utility "$IMG" true
	assert_output ""
}

@test "gpu: links lead from the names that programs ask for to the files" {
	driver_tree ubuntu
	run -0 inside "cd $OURS && readlink libcuda.so && readlink libcuda.so.1 && for f in *; do [ -e \$f ] || echo \$f; done"
	assert_output $'libcuda.so.1\nlibcuda.so.550.90.07'
}

@test "gpu: what is brought in cannot be written to" {
	driver_tree ubuntu
	for path in "$OURS/new" "$OURS/libcuda.so.550.90.07" /proc/driver/nvidia/params /proc/driver/nvidia/new \
		/proc/driver/nvidia/gpus/0000:18:00.0/information /usr/bin/nvidia-smi; do
		run inside "echo x >$path"
		assert_failure
		assert_output --regexp 'Read-only file system|Permission denied'
	done
	run inside "rm $OURS/libcuda.so"
	assert_failure
	run -0 mlrun exec --gpu=all --fakeroot "$IMG" sh -c "! touch $OURS/new && ! rm /proc/driver/nvidia/version"
}

@test "gpu: /proc/driver/nvidia shows the chosen GPUs alone and forbids to make nodes" {
	driver_tree hgx
	run -0 mlrun exec --gpu=2,5 "$IMG" ls /proc/driver/nvidia/gpus
	[ "${#lines[@]}" = 2 ]
	run -0 mlrun exec --gpu=2,5 "$IMG" nvidia-smi -L
	[ "${#lines[@]}" = 2 ]
	run -0 inside 'grep ModifyDeviceFiles /proc/driver/nvidia/params; ls /proc/driver/nvidia'
	assert_line 'ModifyDeviceFiles: 0'
	refute_line capabilities
	assert_line version
}

@test "gpu: a part of a GPU brings its parent's node and its own, and no other's" {
	driver_tree mig
	run -0 nodes --gpu=0:1 "$IMG"
	assert_line nvidia0
	refute_line nvidia1
	[ "$(grep -c 'nvidia-caps/nvidia-cap' <<<"$output")" = 2 ]
	run -0 mlrun exec --gpu=0:1 "$IMG" find /proc/driver/nvidia/capabilities -name access
	[ "${#lines[@]}" = 2 ]
	run -0 nodes --gpu=0 "$IMG"
	[ "$(grep -c 'nvidia-caps/nvidia-cap' <<<"$output")" -gt 2 ]
}

@test "gpu: programs, firmware, sockets and configuration are at their places" {
	driver_tree workstation
	run -0 mlrun exec --gpu=all -e NVIDIA_DRIVER_CAPABILITIES=all "$IMG" sh -c \
		'[ -x /usr/bin/nvidia-smi ] && ls /lib/firmware/nvidia/*/gsp_ga10x.bin /etc/OpenCL/vendors/nvidia.icd &&
		ls /usr/share/glvnd/egl_vendor.d/10_nvidia.json &&
		cat /etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf'
	assert_output --partial '"EGLVisibleDGPUDevices", 0x3]'
}

# What has a place in the image is put there before any directory of the host's is in sight.
@test "gpu: an image whose directories are links to the host's has nothing made there" {
	driver_tree workstation
	own_root
	mkdir host
	rm -rf own/usr/local own/usr/bin/nvidia-smi own/usr/share own/etc/nvidia own/etc/OpenCL
	mkdir -p own/usr/bin
	for place in usr/local usr/share etc/nvidia etc/OpenCL; do ln -s "$PWD/host/${place##*/}" "own/$place"; done
	ln -s "$PWD/host/program" own/usr/bin/nvidia-smi
	run mlrun exec -v "$PWD/host" --gpu=all -e NVIDIA_DRIVER_CAPABILITIES=all "$OWN" true
	assert_equal "$(ls host)" ""
	run mlrun exec --gpu=all -e NVIDIA_DRIVER_CAPABILITIES=all "$OWN" true
	assert_equal "$(ls host)" ""
}

@test "gpu: the fabric comes when it is asked for" {
	driver_tree hgx
	run -0 nodes --gpu=0 "$IMG"
	refute_output --partial nvswitch
	refute_output --partial gdrdrv
	run -0 nodes --gpu=0 -e NVIDIA_NVSWITCH=enabled -e NVIDIA_GDRCOPY=enabled -e NVIDIA_MOFED=enabled \
		-e NVIDIA_IMEX_CHANNELS=0 "$IMG"
	assert_line nvidia-nvswitchctl
	assert_line gdrdrv
	assert_line infiniband/rdma_cm
	assert_line nvidia-caps-imex-channels/channel0
}

@test "gpu: AMD's nodes come, and ROCm only where the image has none" {
	driver_tree amd
	run -0 nodes --gpu=1 "$IMG"
	assert_line kfd
	[ "$(grep -c dri/renderD <<<"$output")" -ge 1 ]
	[ "$(grep -c 'dri/renderD' <<<"$output")" -lt "$(nodes --gpu=all "$IMG" | grep -c 'dri/renderD')" ]
	run -0 mlrun exec --gpu=all "$IMG" ls "$OURS"
	assert_output --partial libamdhip64
	own_root
	mkdir -p own/opt/rocm
	run mlrun exec --gpu=all "$OWN" ls "$OURS"
	refute_output --partial libamdhip64
}

# --- variables ------------------------------------------------------------------------

@test "gpu: CUDA_VISIBLE_DEVICES counts as the container does, unless -e says otherwise" {
	driver_tree hgx
	export CUDA_VISIBLE_DEVICES=4,2
	run -0 nodes --gpu=all "$IMG"
	assert_line nvidiactl
	[ "$(grep -cE '^nvidia[0-9]+$' <<<"$output")" = 2 ]
	run -0 variable CUDA_VISIBLE_DEVICES --gpu=all "$IMG"
	assert_output --regexp '^(1,0|GPU-.*,GPU-.*)$'
	run -0 variable CUDA_VISIBLE_DEVICES --gpu=all -e CUDA_VISIBLE_DEVICES=0 "$IMG"
	assert_output 0
	export CUDA_VISIBLE_DEVICES=3
	run -0 variable CUDA_VISIBLE_DEVICES --gpu=all "$IMG"
	assert_output --regexp '^(0|unset)$'
}

# --- --gpu ----------------------------------------------------------------------------

@test "gpu: --gpu=none brings nothing, whatever the image says" {
	driver_tree ubuntu
	export NVIDIA_VISIBLE_DEVICES=all
	run nodes --gpu=none "$IMG"
	assert_output ""
	run -0 mlrun exec --gpu=none "$IMG" sh -c "[ ! -e $OURS ] && [ ! -e /proc/driver/nvidia/version ] && echo none"
	assert_output none
	run nodes "$IMG"
	assert_output --partial nvidia0
}

@test "gpu: auto brings nothing for an image without CUDA outside a job" {
	driver_tree ubuntu
	run nodes "$IMG"
	assert_output ""
	own_root
	mkdir -p own/usr/local/cuda
	run nodes "$OWN"
	assert_line nvidia0
	export SLURM_JOB_ID=1 SLURM_JOB_GPUS=1
	run nodes "$IMG"
	assert_line nvidia1
	refute_line nvidia0
}

@test "gpu: what --gpu names and is not there is an error that says what is" {
	driver_tree ubuntu
	run -125 mlrun exec --gpu=7 "$IMG" true
	assert_output --partial "7"
	assert_output --partial "NVIDIA L40S"
	run -125 mlrun exec --gpu=GPU-nosuch "$IMG" true
	assert_output --partial "GPU-nosuch"
	CUDA_VISIBLE_DEVICES=0 run -125 mlrun exec --gpu=1 "$IMG" true
	assert_output --partial "CUDA_VISIBLE_DEVICES=0"
	driver_tree none
	run -125 mlrun exec --gpu=all "$IMG" true
	assert_output --partial "--gpu=all: this machine has no GPU driver"
	assert_output --partial "hint: "
	run -0 mlrun exec --gpu=auto -e NVIDIA_VISIBLE_DEVICES= "$IMG" true
	NVIDIA_VISIBLE_DEVICES=all run -0 mlrun exec "$IMG" true
	assert_output ""
}

@test "gpu: a driver that cannot be served is refused, or told of when nobody insisted" {
	driver_tree tegra
	run -125 mlrun exec --gpu=all "$IMG" true
	assert_output --regexp 'Tegra|Jetson'
	NVIDIA_VISIBLE_DEVICES=all run -0 mlrun exec "$IMG" true
	assert_output --regexp 'Tegra|Jetson'
}

@test "gpu: an image's requirement that does not hold is refused, with the way out" {
	driver_tree ubuntu
	run -125 mlrun exec --gpu=all -e NVIDIA_REQUIRE_CUDA='cuda>=99.0' "$IMG" true
	assert_output --partial "cuda>=99.0"
	assert_output --partial "NVIDIA_DISABLE_REQUIRE"
	run -0 mlrun exec --gpu=all -e NVIDIA_REQUIRE_CUDA='cuda>=99.0' -e NVIDIA_DISABLE_REQUIRE=1 "$IMG" true
}

@test "gpu: --gpus as Docker has it, and what of it is not to be had" {
	driver_tree ubuntu
	run -0 nodes --gpus all "$IMG"
	assert_line nvidia1
	run -0 nodes --gpus device=1 "$IMG"
	refute_line nvidia0
	run -0 nodes --gpus '"device=0,1"' "$IMG"
	assert_line nvidia0
	run -125 mlrun exec --gpus 2 "$IMG" true
	assert_output --partial "--gpu=0,1"
	run -125 mlrun exec --gpus 'all,capabilities=utility' "$IMG" true
	assert_output --partial "NVIDIA_DRIVER_CAPABILITIES"
	run -125 mlrun exec --gpus device=0,capabilities=utility "$IMG" true
	run -125 mlrun exec --gpus device= "$IMG" true
	run -125 mlrun exec --nv "$IMG" true
	assert_output --partial "--gpu=all"
}

@test "gpu: MLRUN_GPU and [exec] gpu say what holds without an option" {
	driver_tree ubuntu
	export MLRUN_CONFIG=$PWD/mlrun.conf
	printf '[exec]\ngpu = 1\n' >mlrun.conf
	run -0 nodes "$IMG"
	assert_line nvidia1
	refute_line nvidia0
	run -0 mlrun config exec.gpu
	assert_output 1
	MLRUN_GPU=all run -0 nodes "$IMG"
	assert_line nvidia0
	MLRUN_GPU=all run nodes --gpu=none "$IMG"
	assert_output ""
	# A setting is no insisting: it is for machines with GPUs and without.
	driver_tree none
	MLRUN_GPU=all run -0 mlrun exec "$IMG" true
}

@test "gpu: --gpu is refused for a container that is there already" {
	driver_tree ubuntu
	mlrun exec "$IMG" sleep 600 3>&- &
	local pid=$!
	until_true runs "$pid" sleep 600
	run -125 mlrun exec --join "$pid" --gpu=all true
	assert_output --partial "--gpu: the container exists already"
	MLRUN_GPU=all run -0 mlrun exec --join "$pid" true
	kill "$pid"
}

# --- the linker -------------------------------------------------------------------------

@test "gpu: a stale driver library of the image's loses, and everything else of its cache stays" {
	driver_tree ubuntu
	own_root
	mkdir -p "own$LIBC_DIR" own/opt/libs/glibc-hwcaps/x86-64-v2
	gpu_library "own$LIBC_DIR/libcuda.so.470.1" --soname=libcuda.so.1 --returns=470
	ln -s libcuda.so.470.1 "own$LIBC_DIR/libcuda.so.1"
	gpu_library own/opt/libs/libown.so.1 --soname=libown.so.1 --returns=1
	gpu_library own/opt/libs/glibc-hwcaps/x86-64-v2/libown.so.1 --soname=libown.so.1 --returns=2
	gpu_library own/opt/libs/libonly.so.1 --soname=libonly.so.1 --returns=3
	echo /opt/libs >own/etc/ld.so.conf.d/opt.conf
	/sbin/ldconfig -r own
	run -0 mlrun exec --gpu=none "$OWN" load libcuda.so.1 libown.so.1 libonly.so.1
	assert_line --regexp '^libcuda.so.1 .* 470$'
	local without
	without=$(grep -v libcuda <<<"$output")
	run -0 mlrun exec --gpu=all "$OWN" load libcuda.so.1 libown.so.1 libonly.so.1
	assert_line "libcuda.so.1 $OURS/libcuda.so.1 550"
	assert_equal "$(grep -v libcuda <<<"$output")" "$without"
	[ "$(uname -m)" != x86_64 ] || assert_line --regexp '^libown.so.1 .*x86-64-v2.* 2$'
	run -0 mlrun exec --gpu=all --explain "$OWN" true
	assert_output --partial "$LIBC_DIR/libcuda.so.1'"
}

@test "gpu: an image without a linker cache still finds its own libraries and the driver's" {
	driver_tree ubuntu
	[ ! -e "$FILE_ROOT/etc/ld.so.cache" ]
	own_root
	gpu_library "own$LIBC_DIR/libown.so.1" --soname=libown.so.1 --returns=7
	rm -r own/etc/ld.so.conf*
	run -0 mlrun exec --gpu=all "$OWN" load libcuda.so.1 libown.so.1
	assert_line "libcuda.so.1 $OURS/libcuda.so.1 550"
	assert_line --regexp '^libown.so.1 .* 7$'
}

@test "gpu: ldconfig that is run inside keeps the driver's libraries" {
	driver_tree ubuntu
	own_root
	gpu_library "own$LIBC_DIR/libcuda.so.470.1" --soname=libcuda.so.1 --returns=470
	/sbin/ldconfig -r own
	run -0 mlrun exec --gpu=all --fakeroot "$OWN" sh -c 'ldconfig && load libcuda.so.1 && ldconfig -p'
	assert_line "libcuda.so.1 $OURS/libcuda.so.1 550"
	assert_line --regexp "libnvidia-ml.so.1 .* => $OURS/libnvidia-ml.so.1"
}

@test "gpu: the cache that is made is one that ldconfig reads" {
	driver_tree ubuntu
	run -0 mlrun exec --gpu=all "$IMG" ldconfig -p
	assert_line --regexp "libcuda.so.1 .* => $OURS/libcuda.so.1"
	# Python's ctypes.util.find_library("cuda") takes the first, and Triton the directory of each: a name with
	# the driver's version is not among them, as with ldconfig's own.
	run -0 grep -o 'libcuda\.so[^ ]* ' <<<"$output"
	assert_output $'libcuda.so.1 \nlibcuda.so '
}

@test "gpu: LD_LIBRARY_PATH leads where there is no linker whose cache could" {
	driver_tree ubuntu
	run -0 variable LD_LIBRARY_PATH --gpu=all "$TINY"
	assert_output "$OURS"
	run -0 variable LD_LIBRARY_PATH --gpu=all -e LD_LIBRARY_PATH=/opt/x "$TINY"
	assert_output "$OURS:/opt/x"
	run -0 variable LD_LIBRARY_PATH --gpu=all "$IMG"
	assert_output unset
}

@test "gpu: a volume over /etc is not written to" {
	driver_tree ubuntu
	cp -a "$FILE_ROOT/etc" etc
	run -0 variable LD_LIBRARY_PATH --gpu=all -v "$PWD/etc:/etc" "$IMG"
	assert_output "$OURS"
	run -0 variable LD_LIBRARY_PATH --gpu=all -v "$PWD/etc:/etc" -e "LD_LIBRARY_PATH=$OURS:/opt" "$IMG"
	assert_output "$OURS:/opt"
	run -0 mlrun exec --gpu=all -v "$PWD/etc:/etc" "$IMG" load libcuda.so.1
	assert_output "libcuda.so.1 $OURS/libcuda.so.1 550"
	[ ! -e etc/ld.so.cache ] && [ ! -e etc/ld.so.conf.d/00-mlrun.conf ]
}

@test "gpu: a link of the image's does not make files on the host" {
	driver_tree ubuntu
	own_root
	mkdir -p host
	rm -r own/etc/ld.so.conf.d
	ln -s "$PWD/host" own/etc/ld.so.conf.d
	cp -a own/etc own/real
	mlrun exec --gpu=all "$OWN" true
	run ls -A host
	assert_output ""
}

@test "gpu: an image that has something at our directories, or a link to elsewhere, gets the driver all the same" {
	driver_tree ubuntu
	own_root
	mkdir -p own/usr/local/nvidia/lib64
	gpu_library own/usr/local/nvidia/lib64/libcuda.so.1 --soname=libcuda.so.1 --returns=1
	run -0 mlrun exec --gpu=all "$OWN" load libcuda.so.1
	assert_output "libcuda.so.1 $OURS/libcuda.so.1 550"
	rm -r own/usr/local/nvidia
	mkdir own/opt
	ln -s ../../opt/driver own/usr/local/nvidia
	run -0 mlrun exec --gpu=all "$OWN" sh -c 'load libcuda.so.1; ls /opt/driver; touch /opt/driver/lib64/x || echo sealed'
	assert_line "libcuda.so.1 $OURS/libcuda.so.1 550"
	assert_line lib64
	assert_line sealed
}

@test "gpu: a volume that hides the libraries is told of" {
	driver_tree ubuntu
	mkdir -p other
	run -0 mlrun exec --gpu=all -v "$PWD/other:/usr/local" "$IMG" true
	assert_output --partial "the mount on '/usr/local' hides the GPU driver's libraries"
}

# --- forward compatibility and glibc ------------------------------------------------------

@test "gpu: newer libraries of the image take the driver's place where their note allows it" {
	driver_tree ubuntu
	own_root
	mkdir -p own/usr/local/cuda-12.9/compat
	ln -s cuda-12.9 own/usr/local/cuda
	gpu_library own/usr/local/cuda/compat/libcuda.so.575.57.08 --soname=libcuda.so.1 --returns=575 \
		--note='{"Format": 1, "CUDA Version": "12.9", "Driver": [535, 550, 575]}'
	ln -s libcuda.so.575.57.08 own/usr/local/cuda/compat/libcuda.so.1
	ln -s libcuda.so.1 own/usr/local/cuda/compat/libcuda.so
	/sbin/ldconfig -r own
	run -0 mlrun exec --gpu=all "$OWN" load libcuda.so.1 libcuda.so libnvidia-ml.so.1
	assert_line "libcuda.so.1 $OURS/libcuda.so.1 575"
	assert_line "libcuda.so $OURS/libcuda.so.1 575"
	assert_line "libnvidia-ml.so.1 $OURS/libnvidia-ml.so.1 550"
	run -0 mlrun exec --gpu=all "$OWN" sh -c 'ldconfig -p | grep -o "libcuda[.]so[^ ]* "'
	assert_output $'libcuda.so.1 \nlibcuda.so '
	run -0 mlrun exec --gpu=all --explain "$OWN" true
	assert_output --partial "575.57.08 in '/usr/local/cuda/compat' are used"
	refute_output --partial "/libcuda.so.550.90.07 ->"
	driver_tree ubuntu --version=580.65.06
	run -0 mlrun exec --gpu=all "$OWN" load libcuda.so.1
	assert_output "libcuda.so.1 $OURS/libcuda.so.1 580"
}

@test "gpu: libraries that need a newer glibc than the image's are named before the start" {
	driver_tree ubuntu --glibc=libcuda.so=2.99
	run -0 mlrun exec --gpu=all "$IMG" true
	assert_output --partial "libcuda.so.550.90.07 (GLIBC_2.99)"
	assert_output --partial "the image's glibc 2."
	run -0 mlrun exec --gpu=all -e NVIDIA_DRIVER_CAPABILITIES=utility "$IMG" true
	assert_output ""
}

@test "gpu: what the image has in the place of the driver's needs no newer glibc" {
	driver_tree amd --glibc=libamdhip64.so=2.99
	run -0 mlrun exec --gpu=all "$IMG" true
	assert_output --partial "libamdhip64.so.6.2.60200 (GLIBC_2.99)"
	own_root
	mkdir -p own/opt/rocm-5.7 own/usr/local/cuda/compat
	run -0 mlrun exec --gpu=all "$OWN" true
	assert_output ""
	driver_tree ubuntu --glibc=libcuda.so=2.99
	gpu_library own/usr/local/cuda/compat/libcuda.so.575.57.08 --soname=libcuda.so.1
	run -0 mlrun exec --gpu=all "$OWN" true
	assert_output ""
}

# --- ways of starting -----------------------------------------------------------------------

@test "gpu: a read-only root, a fake root, process ids and a network of its own all have the GPUs" {
	driver_tree ubuntu
	for option in --read-only --fakeroot --pid --init --ipc=private --net=none --home; do
		run -0 mlrun exec "$option" --gpu=1 "$IMG" sh -c \
			'load libcuda.so.1; ls /dev | grep "^nvidia[0-9]"; ls /proc/driver/nvidia/gpus; touch /usr/local/nvidia/lib64/x || echo sealed'
		assert_line "libcuda.so.1 $OURS/libcuda.so.1 550"
		assert_line nvidia1
		assert_line 0000:2a:00.0
		refute_line 0000:18:00.0
		assert_line sealed
	done
}

@test "gpu: what is kept of a container has nothing of the GPUs" {
	driver_tree ubuntu
	tar -C "$FILE_ROOT" -cf root.tar .
	mlrun import -q root.tar glibc
	run -0 mlrun exec --write=box --gpu=all glibc sh -c 'load libcuda.so.1; touch /kept'
	assert_output --partial "libcuda.so.1 $OURS/libcuda.so.1 550"
	run find "$MLRUN_STORE/containers/box/upper" -mindepth 1
	assert_output "$MLRUN_STORE/containers/box/upper/kept"
	run -0 mlrun exec --write=box --gpu=none glibc sh -c '[ -e /kept ] && [ ! -e /usr/local ] && ls /dev'
	refute_output --partial nvidia
	# A cache that the container made itself is above what is put into the image.
	run -0 mlrun exec --write=box --gpu=all --fakeroot glibc ldconfig
	run -0 mlrun exec --write=box --gpu=all glibc load libcuda.so.1 libnvidia-ml.so.1
	assert_line "libcuda.so.1 $OURS/libcuda.so.1 550"
}

@test "gpu: an image that is a squashfs file has the driver's libraries in its linker's cache" {
	needs_squashfs
	needs_fuse
	driver_tree ubuntu
	tar -C "$FILE_ROOT" -cf root.tar .
	layer_tar root.tar "$FILE_ROOT"
	image_layout layout root.tar
	mlrun pull -q --format=squashfs oci:layout
	run -0 mlrun exec --gpu=all oci:layout load libcuda.so.1
	assert_line "libcuda.so.1 $OURS/libcuda.so.1 550"
	run -0 variable LD_LIBRARY_PATH --gpu=all oci:layout
	assert_output unset
}

@test "gpu: ranks with different GPUs share the user namespace and have roots of their own" {
	driver_tree ubuntu
	mlrun exec --join-tag=gpus --gpu=0 "$IMG" sh -c 'readlink /proc/self/ns/user; ls /dev | grep "^nvidia[0-9]"; echo >ready; until [ -e joined ]; do sleep 0.1; done' >first 3>&- &
	until_true test -e ready
	run -0 mlrun exec --join-tag=gpus --gpu=1 "$IMG" sh -c 'readlink /proc/self/ns/user; ls /dev | grep "^nvidia[0-9]"'
	assert_line --index 0 "$(head -1 first)"
	assert_line --index 1 nvidia1
	touch joined
	assert_equal "$(tail -1 first)" nvidia0
	wait
}

@test "gpu: kernels without the newer calls, and without overlays, have the GPUs too" {
	local call refuse=$top_builddir/tests/fault/refuse

	[ -x "$refuse" ] || skip "mlrun was built without libseccomp"
	driver_tree ubuntu
	own_root
	mv own/lib own/usr/lib
	ln -s usr/lib own/lib
	for call in "open_tree=ENOSYS move_mount=ENOSYS mount_setattr=ENOSYS openat2=ENOSYS" mount_setattr=ENOSYS; do
		# shellcheck disable=SC2086 # words
		run -0 "$refuse" $call -- mlrun exec --gpu=1 "$OWN" sh -c 'load libcuda.so.1; ls /dev /proc/driver/nvidia/gpus
			touch /usr/local/nvidia/lib64/x /proc/driver/x || echo sealed; echo x >/usr/bin/nvidia-smi || echo read-only'
		assert_line "libcuda.so.1 $OURS/libcuda.so.1 550"
		assert_line nvidia1
		refute_line 0000:18:00.0
		assert_line sealed
		assert_line read-only
	done
	# An image on a file system that cannot be an overlay's layer: the root's own, which has others below it.
	run -0 mlrun exec --gpu=1 rootfs:/ "$top_builddir/tests/inside/load" libcuda.so.1
	assert_line "libcuda.so.1 $OURS/libcuda.so.1 550"
}

@test "gpu: a low limit of open files does not limit the driver's" {
	driver_tree workstation
	run -0 bash -c 'ulimit -Sn 64; mlrun exec --gpu=all -e NVIDIA_DRIVER_CAPABILITIES=all "$0" sh -c "ulimit -n; load libcuda.so.1"' "$IMG"
	assert_line 64
	assert_line "libcuda.so.1 $OURS/libcuda.so.1 570"
}

# --- cost ------------------------------------------------------------------------------------

@test "gpu: without a driver a start looks for a few names and no more" {
	command -v strace >/dev/null || skip "there is no strace"
	skip_if_sanitized
	unset MLRUN_GPU_ROOT
	[ ! -e /proc/driver/nvidia/version ] && [ ! -e /dev/nvidiactl ] && [ ! -e /dev/kfd ] && [ ! -e /dev/dxg ] || skip "this machine has a GPU"
	strace -f -o trace mlrun exec "$IMG" true
	run grep -cE 'nvidia|/dev/kfd|/dev/dxg|/sys/class/kfd|ld.so.cache|MLRUN_GPU' trace
	[ "$output" -le 4 ]
}
