#!/usr/bin/env bats
# Devices of CDI files: mlrun exec --device VENDOR/CLASS=NAME, mlrun gpu cdi.
# shellcheck disable=SC2154
load common
load gpu

export LIBS=/usr/lib/x86_64-linux-gnu
ARCH=$(uname -m)

# A root file system of this machine's own programs and C library.
image_glibc() {
	local program library

	mkdir -p "$1"/{bin,sbin,etc,tmp,proc,dev,sys,run,usr/bin,"$LIBS"}
	for program in sh ls cat readlink true env grep stat ldconfig; do
		program=$(type -P "$program")
		if [ -e "$program.real" ]; then program=$program.real; fi # Ubuntu's ldconfig is a script
		cp -L "$program" "$1/bin/$(basename "$program" .real)"
		for library in $(ldd "$program" | grep -o '/[^ ]*'); do
			[ -e "$1/$library" ] || cp -L --parents "$library" "$1"
		done
	done
	# What the driver's libraries need.
	cp -L /lib/"$ARCH"-linux-gnu/lib{m.so.6,dl.so.2,pthread.so.0,rt.so.1} "$1/lib/$ARCH-linux-gnu"
	printf '%s\n' "/lib/$ARCH-linux-gnu" "$LIBS" >"$1/etc/ld.so.conf"
	ldconfig -r "$1"
}

setup_file() {
	[ "$ARCH" = x86_64 ] || skip_file "the machines of these tests are x86-64's"
	image_glibc "$BATS_FILE_TMPDIR/image"
}

# The machine "ubuntu" of this test alone, with two GPUs and an empty /etc/cdi.
setup() {
	common_setup
	driver_tree ubuntu --version=535.104.05
	cp -a "$MLRUN_GPU_ROOT" "$BATS_TEST_TMPDIR/machine"
	MLRUN_GPU_ROOT=$BATS_TEST_TMPDIR/machine
	cdi=$MLRUN_GPU_ROOT/etc/cdi
	image=rootfs:$BATS_FILE_TMPDIR/image
	mkdir -p "$cdi" "$MLRUN_GPU_ROOT/usr/bin"
	install -m 755 /dev/null "$MLRUN_GPU_ROOT/usr/bin/nvidia-cdi-hook"
}

# What nvidia-ctk 1.19 writes of that machine, with a few of its libraries.
nvidia_file() { cat "$top_srcdir/tests/fuzz/corpus/cdi/nvidia.yaml"; }

# What the machine's own file has, on that machine: without the place where it was made.
own_file() {
	mlrun gpu cdi | sed "s,$MLRUN_GPU_ROOT/,/,g"
}

# one_file EDITS: a file with the device test.com/thing=a
one_file() {
	printf '{"cdiVersion":"1.1.0","kind":"test.com/thing","devices":[{"name":"a","containerEdits":{%s}}]}' "$1"
}

@test "gpu cdi: every GPU is a device by its number and its UUID, and all are one" {
	run -0 --separate-stderr mlrun gpu cdi
	assert_equal "$(jq -c '[.devices[].name]' <<<"$output")" \
		'["0","GPU-c0ffee00-1f2e-3d4c-5b6a-0123456789a0","1","GPU-c0ffee01-1f2e-3d4c-5b6a-0123456789a1","all"]'
	assert_equal "$(jq -r '.cdiVersion, .kind' <<<"$output" | xargs)" "0.5.0 nvidia.com/gpu"
	assert_equal "$(jq -c '[.devices[4].containerEdits.deviceNodes[].path] | map(select(contains("dri") | not))' <<<"$output")" \
		'["/dev/nvidia0","/dev/nvidia1"]'
	assert_equal "$(jq -c '.containerEdits.env' <<<"$output")" '["NVIDIA_VISIBLE_DEVICES=void"]'
	assert_equal "$(jq -c '[.containerEdits.hooks[] | .path, .args[1]]' <<<"$output" | tr -d '[]"' | tr , ' ')" \
		"/usr/bin/nvidia-cdi-hook create-symlinks /usr/bin/nvidia-cdi-hook update-ldcache /usr/bin/nvidia-cdi-hook enable-cuda-compat /usr/bin/nvidia-cdi-hook disable-device-node-modification"
	# Each library is where it is on the host, and not elsewhere.
	assert_equal "$(jq -r '.containerEdits.mounts[] | select(.containerPath | endswith("libcuda.so.535.104.05")) |
		[.hostPath, .containerPath] | join(" ")' <<<"$output" | head -n 1)" \
		"$MLRUN_GPU_ROOT$LIBS/libcuda.so.535.104.05 $LIBS/libcuda.so.535.104.05"
	assert_equal "$(jq -c '[.containerEdits.mounts[] | select(.options | index("rprivate") | not)]' <<<"$output")" '[]'
	for path in $(jq -r '.. | .hostPath? // empty' <<<"$output"); do
		[ -e "$path" ] || fail "$path is not there"
	done
}

@test "gpu cdi: parts of a GPU are devices with the nodes of their instances" {
	driver_tree mig
	run -0 --separate-stderr mlrun gpu cdi
	assert_equal "$(jq -c '[.devices[].name] | map(select(contains(":")))' <<<"$output")" '["0:0","0:1","0:2"]'
	run -0 jq -c '.devices[] | select(.name == "0:1") | [.containerEdits.deviceNodes[].path]' <<<"$output"
	assert_output --regexp '^\["/dev/nvidia0","/dev/nvidia-caps/nvidia-cap[0-9]+","/dev/nvidia-caps/nvidia-cap[0-9]+"\]$'
}

@test "gpu cdi: a group that nodes are left to is asked for, in the version that knows groups" {
	needs_ordinary_user
	chmod 0660 "$MLRUN_GPU_ROOT/dev/nvidia0"
	run -0 --separate-stderr mlrun gpu cdi
	assert_equal "$(jq -c '[.cdiVersion, .containerEdits.additionalGids]' <<<"$output")" "[\"0.7.0\",[$(id -g)]]"
}

@test "gpu cdi: Windows' driver is one device, and a Jetson's is refused" {
	driver_tree wsl
	run -0 --separate-stderr mlrun gpu cdi
	assert_equal "$(jq -c '[.devices[] | .name, .containerEdits.deviceNodes[].path]' <<<"$output")" '["all","/dev/dxg"]'
	jq -e '.containerEdits.mounts | length > 0' <<<"$output"
	driver_tree tegra
	run -125 mlrun gpu cdi
	refute_output --partial "there is no GPU"
}

@test "gpu cdi: a driver in a root of its own has its libraries at their places inside" {
	driver_tree driver-container
	run -0 --separate-stderr mlrun gpu cdi
	run -0 jq -r '.containerEdits.mounts[] | select(.hostPath | test("libcuda.so")) | .hostPath, .containerPath' <<<"$output"
	assert_line --index 0 --regexp "^$MLRUN_GPU_ROOT/run/nvidia/driver/usr/lib.*/libcuda.so.535"
	assert_line --index 1 --regexp "^/usr/lib.*/libcuda.so.535"
}

@test "gpu cdi: a machine without GPUs says so, and writes nothing" {
	driver_tree none
	run -125 mlrun gpu cdi -o out.json
	assert_output --partial "no NVIDIA GPU that you may open"
	[ ! -e out.json ]
}

@test "gpu cdi -o: the file is written whole, and --list has its devices" {
	mlrun gpu cdi -o "$cdi/nvidia.json"
	assert_equal "$(stat -c %a "$cdi/nvidia.json")" 644
	run -0 mlrun gpu cdi --list
	assert_output "nvidia.com/gpu=0
nvidia.com/gpu=1
nvidia.com/gpu=GPU-c0ffee00-1f2e-3d4c-5b6a-0123456789a0
nvidia.com/gpu=GPU-c0ffee01-1f2e-3d4c-5b6a-0123456789a1
nvidia.com/gpu=all"
	run -125 mlrun gpu cdi -o no/such/directory.json
	assert_output --partial "mkdir -p /etc/cdi"
}

@test "gpu cdi -o: another file of the same devices is told" {
	run -0 --separate-stderr mlrun gpu cdi -o "$cdi/nvidia.json"
	assert_equal "$stderr" ""
	nvidia_file >"$cdi/nvidia.yaml"
	run -0 --separate-stderr mlrun gpu cdi -o "$cdi/nvidia.json"
	[[ $stderr == *"warning: 'nvidia.com/gpu=all': '/etc/cdi/nvidia.json' and '/etc/cdi/nvidia.yaml' both describe it: remove one of them"* ]]
}

@test "gpu cdi: without NVIDIA's hook the file has none, and that is said" {
	rm "$MLRUN_GPU_ROOT/usr/bin/nvidia-cdi-hook"
	run -0 --separate-stderr mlrun gpu cdi
	assert_equal "$(jq -c '[.. | .hooks? // empty | .[]]' <<<"$output")" '[]'
	[[ $stderr == *"nvidia-cdi-hook' of NVIDIA's container toolkit is missing"* ]]
}

@test "gpu cdi: a hook has a time limit, as images may keep it busy" {
	run -0 --separate-stderr mlrun gpu cdi
	assert_equal "$(jq -c '[.. | .hooks? // empty | .[].timeout] | unique' <<<"$output")" '[60]'
	# Else a runtime gives a hook, which may be root's, the image's LD_PRELOAD.
	assert_equal "$(jq -c '[.. | .hooks? // empty | .[].env] | unique' <<<"$output")" '[["PATH=/usr/bin:/bin"]]'
}

@test "gpu cdi --list: files that are wrong are told, and stop no other" {
	nvidia_file >"$cdi/nvidia.yaml"
	printf 'kind: x.com/y\ndevices: [' >"$cdi/broken.yaml"
	printf '{}' >"$cdi/empty.json"
	printf '{' >"$cdi/ignored.txt"
	run -0 --separate-stderr mlrun gpu cdi --list
	assert_line nvidia.com/gpu=all
	[[ $stderr == *"'/etc/cdi/broken.yaml': line "* ]]
	[[ $stderr == *"'/etc/cdi/empty.json': cdiVersion: missing"* ]]
	[[ $stderr != *ignored* ]]
	run -0 --separate-stderr mlrun gpu cdi --list --json
	assert_equal "$(jq -c '[(.devices | length), (.problems | length)]' <<<"$output")" '[3,2]'
	# Also where a file says much too much, and where there are too many.
	printf '%s: 1' "$(head -c 900 /dev/zero | tr '\0' x)" >"$cdi/broken.yaml"
	seq -f "$cdi/%04.0f.json" 1000 | xargs touch
	run -125 --separate-stderr mlrun exec --device nvidia.com/gpu=all "$image" true
	[[ $stderr == *"it may be in this invalid file: '/etc/cdi/0001.json': it is empty"* ]]
	run -0 --separate-stderr mlrun gpu cdi --list
	assert_output ""
	[[ $stderr == *"'/etc/cdi': more than 1000 files: ignored the rest"* ]]
	rm "$cdi"/0[5-9]*.json
	run -0 --separate-stderr mlrun gpu cdi --list
	[[ $stderr == *"'/etc/cdi/broken.yaml': unknown key 'xxx"*"x'"* ]]
}

@test "exec --device: NVIDIA's own file brings nodes, libraries, links and variables" {
	nvidia_file >"$cdi/nvidia.yaml"
	run -0 mlrun exec --device nvidia.com/gpu=all "$image" ls /dev
	for node in nvidia0 nvidia1 nvidiactl nvidia-uvm; do assert_line "$node"; done
	run -0 mlrun exec --device nvidia.com/gpu=0 "$image" ls /dev
	assert_line nvidia0
	refute_line nvidia1
	run -0 mlrun exec --device nvidia.com/gpu=all "$image" sh -c "
		readlink $LIBS/libcuda.so $LIBS/libcuda.so.1; echo \$NVIDIA_VISIBLE_DEVICES; cat /usr/bin/nvidia-smi >/dev/null &&
		echo smi; cat /etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf"
	assert_output 'libcuda.so.1
libcuda.so.535.104.05
void
smi
{"profiles":[{"name":"_container_","settings":["EGLVisibleDGPUDevices",0x3]}],"rules":[{"pattern":[],"profile":"_container_"}]}'
	run -0 mlrun exec --device nvidia.com/gpu=all "$image" sh -c "cat /proc/driver/nvidia/params; ls /proc/driver/nvidia"
	assert_line "ModifyDeviceFiles: 0"
	assert_line gpus
	# What is read-only in the file is so inside, for all that it is the user's own.
	run mlrun exec --device nvidia.com/gpu=all "$image" sh -c ": >>$LIBS/libcuda.so.535.104.05"
	assert_output --partial "Read-only file system"
}

@test "exec --device: the linker finds the libraries, also past an older driver of the image's" {
	nvidia_file >"$cdi/nvidia.yaml"
	cp -a "$BATS_FILE_TMPDIR/image" stale
	gpu_library "stale$LIBS/libcuda.so.470.1" --soname=libcuda.so.1 --returns=470
	gpu_library "stale/opt/libcuda.so.1" --soname=libcuda.so.1 --returns=471
	echo /opt >>stale/etc/ld.so.conf
	ldconfig -r stale
	[ -L "stale$LIBS/libcuda.so.1" ]
	for image in "$image" rootfs:stale; do
		for how in "" --read-only; do
			# shellcheck disable=SC2086
			run -0 mlrun exec $how --device nvidia.com/gpu=all -e LD_DEBUG=libs "$image" \
				env LD_PRELOAD=libcuda.so.1:libcuda.so:libnvidia-ml.so.1 true
			assert_output --partial "calling init: $LIBS/libcuda.so.535.104.05"
			assert_output --partial "calling init: $LIBS/libnvidia-ml.so.535.104.05"
			refute_output --partial "470"
			refute_output --partial "calling init: /opt"
			run -0 mlrun exec $how --device nvidia.com/gpu=all "$image" readlink "$LIBS/libcuda.so.1"
			assert_output libcuda.so.535.104.05
		done
	done
	# The image itself is as it was.
	assert_equal "$(readlink "stale$LIBS/libcuda.so.1")" libcuda.so.470.1
}

@test "exec --device: the image's newer CUDA libraries win where NVIDIA's file asks for them" {
	nvidia_file >"$cdi/nvidia.yaml"
	cp -a "$BATS_FILE_TMPDIR/image" cuda
	gpu_library cuda/usr/local/cuda/compat/libcuda.so.580.1.2 --soname=libcuda.so.1 --returns=580
	run -0 mlrun exec --device nvidia.com/gpu=all -e LD_DEBUG=libs rootfs:cuda env LD_PRELOAD=libcuda.so.1 true
	assert_output --partial "calling init: /usr/local/cuda/compat/libcuda.so.580.1.2"
	sed -i 's/host-driver-version=535.104.05/host-driver-version=590.1/' "$cdi/nvidia.yaml"
	run -0 mlrun exec --device nvidia.com/gpu=all -e LD_DEBUG=libs rootfs:cuda env LD_PRELOAD=libcuda.so.1 true
	assert_output --partial "calling init: $LIBS/libcuda.so.535.104.05"
	# And with mlrun's own.
	rm "$cdi/nvidia.yaml"
	own_file >"$cdi/nvidia.json"
	run -0 mlrun exec --device nvidia.com/gpu=all -e LD_DEBUG=libs rootfs:cuda env LD_PRELOAD=libcuda.so.1 true
	assert_output --partial "calling init: /usr/local/cuda/compat/libcuda.so.580.1.2"
}

@test "exec --device: links by SONAME are made beside the libraries of a folder" {
	one_file "\"mounts\":[{\"hostPath\":\"$LIBS/libcuda.so.535.104.05\",\"containerPath\":\"$LIBS/libcuda.so.535.104.05\"},
		{\"hostPath\":\"$LIBS/libnvidia-ml.so.535.104.05\",\"containerPath\":\"/opt/x/libnvidia-ml.so.535.104.05\"}],
		\"hooks\":[{\"hookName\":\"createContainer\",\"path\":\"/usr/bin/nvidia-cdi-hook\",
		\"args\":[\"x\",\"create-soname-symlinks\",\"--folder\",\"$LIBS\",\"--folder=/no/such\"]}]" >"$cdi/a.json"
	run -0 mlrun exec --device test.com/thing=a "$image" sh -c "readlink $LIBS/libcuda.so.1; ls /opt/x"
	assert_output "libcuda.so.535.104.05
libnvidia-ml.so.535.104.05"
}

@test "exec --device: a container that is kept keeps nothing of a device" {
	nvidia_file >"$cdi/nvidia.yaml"
	one_file '"hooks":[{"hookName":"createContainer","path":"/usr/bin/nvidia-cdi-hook","args":["x","create-symlinks",
		"--link","mine::/linked/libcuda-mine","--link","mine::/linked/libcuda-theirs"]}]' >"$cdi/a.json"
	cp -a "$BATS_FILE_TMPDIR/image" tools
	ln -s ."$LIBS" tools/linked
	ln -s theirs "tools$LIBS/libcuda-theirs"
	tar -C tools -cf - . | mlrun import -q - tools
	for turn in 1 2; do
		run -0 mlrun exec --write=box --device nvidia.com/gpu=all --device test.com/thing=a tools \
			sh -c "readlink $LIBS/libcuda.so.1 /linked/libcuda-mine /linked/libcuda-theirs; env true >/written$turn"
		assert_line libcuda.so.535.104.05
		assert_equal "$(grep -c '^mine$' <<<"$output")" 2
	done
	[ -n "$(find "$MLRUN_STORE" -name written1)" ] && [ -n "$(find "$MLRUN_STORE" -name written2)" ]
	[ -z "$(find "$MLRUN_STORE/containers/box/upper" -name 'libcuda*' -o -name nvidia-smi -o -name '10-container*')" ]
	run --separate-stderr mlrun exec --write=box tools readlink "$LIBS/libcuda.so.1"
	assert_output ""
}

@test "exec --device: mlrun's own file serves mlrun too" {
	own_file >"$cdi/nvidia.json"
	run -0 mlrun exec --device nvidia.com/gpu=GPU-c0ffee01-1f2e-3d4c-5b6a-0123456789a1 -e LD_DEBUG=libs "$image" \
		env LD_PRELOAD=libcuda.so.1:libnvidia-ml.so.1 ls /dev
	assert_line nvidia1
	refute_line nvidia0
	assert_output --partial "calling init: $LIBS/libcuda.so.535.104.05"
}

@test "gpu: a device of a vendor's file that a variable asks for and cannot be had is left out, unless it is -e" {
	NVIDIA_VISIBLE_DEVICES=amd.com/gpu=0 run -0 mlrun exec "$image" sh -c 'echo runs'
	assert_output runs
	NVIDIA_VISIBLE_DEVICES=amd.com/gpu=0 run -0 mlrun exec --explain "$image" true
	assert_line --regexp "gpu +the caller's NVIDIA_VISIBLE_DEVICES=amd.com/gpu=0: .*no file in .*; ignored"
	run -125 mlrun exec -e NVIDIA_VISIBLE_DEVICES=amd.com/gpu=0 "$image" true
	# It is there, and the machine lacks what its file names: nothing of it is brought in.
	printf '{"cdiVersion":"0.6.0","kind":"test.com/gpu","devices":[{"name":"0","containerEdits":{"env":["MADE=yes"],
		"deviceNodes":[{"path":"/dev/nvidia1"},{"path":"/dev/no-such"}]}}]}' >"$cdi/test.json"
	NVIDIA_VISIBLE_DEVICES=test.com/gpu=0 run -0 mlrun exec "$image" sh -c 'echo ${MADE-none} $(cd /dev; ls | grep nvidia)'
	assert_output none
	# What else is asked for comes.
	NVIDIA_VISIBLE_DEVICES=test.com/gpu=0,1 run -0 mlrun exec "$image" sh -c 'cd /dev; ls | grep "nvidia[0-9]"'
	assert_output nvidia1
}

@test "exec --device: a variable that the user sets wins, and --explain tells where the others came from" {
	nvidia_file >"$cdi/nvidia.yaml"
	run -0 mlrun exec --device nvidia.com/gpu=0 -e NVIDIA_VISIBLE_DEVICES=mine "$image" sh -c 'echo $NVIDIA_VISIBLE_DEVICES'
	assert_output mine
	run -0 mlrun exec --explain --device nvidia.com/gpu=0 "$image" true
	assert_output --regexp 'cdi +bind +.*/dev/nvidia0'
	assert_output --partial "'/etc/cdi/nvidia.yaml': device 'nvidia.com/gpu=0'"
	assert_output --partial "--device nvidia.com/gpu=0 says which GPUs there are"
}

@test "exec --device: a job's numbers do not count the GPUs of a container that has some of them" {
	nvidia_file >"$cdi/nvidia.yaml"
	export CUDA_VISIBLE_DEVICES=1,0
	run -0 mlrun exec --device nvidia.com/gpu=0 "$image" sh -c 'echo "${CUDA_VISIBLE_DEVICES-none}"'
	assert_output none
	run -0 mlrun exec --device nvidia.com/gpu=all "$image" sh -c 'echo "${CUDA_VISIBLE_DEVICES-none}"'
	assert_output 1,0
	run -0 mlrun exec --device nvidia.com/gpu=0 -e CUDA_VISIBLE_DEVICES=0 "$image" sh -c 'echo "${CUDA_VISIBLE_DEVICES-none}"'
	assert_output 0
	CUDA_VISIBLE_DEVICES=GPU-c0ffee00 run -0 mlrun exec --device nvidia.com/gpu=0 "$image" \
		sh -c 'echo "${CUDA_VISIBLE_DEVICES-none}"'
	assert_output GPU-c0ffee00
}

@test "exec --device: GPUs that are named so are not brought in a second time" {
	nvidia_file >"$cdi/nvidia.yaml"
	run -0 mlrun exec --device nvidia.com/gpu=0 -e NVIDIA_DRIVER_CAPABILITIES=all "$image" sh -c 'ls -d /usr/local/nvidia || ls /dev'
	assert_line nvidia0
	refute_line nvidia1
	refute_line /usr/local/nvidia
	# Unless they are asked for.
	run -0 mlrun exec --gpu=all --device nvidia.com/gpu=0 "$image" ls /dev
	assert_line nvidia1
}

@test "exec --device: two names are one list, and what both bring is brought once" {
	nvidia_file >"$cdi/nvidia.yaml"
	run -0 mlrun exec --explain=json --device nvidia.com/gpu=0 --device nvidia.com/gpu=all \
		--device nvidia.com/gpu=0 "$image" true
	assert_equal "$(jq -c '[.mounts[] | select(.origin == "cdi" and .target == "/dev/nvidia0")] | length' <<<"$output")" 1
	assert_equal "$(jq -c '[.mounts[] | select(.origin == "cdi" and .target == "/dev/nvidiactl")] | length' <<<"$output")" 1
}

@test "exec --device: AMD's and Intel's files bring their nodes" {
	driver_tree amd
	cp -a "$MLRUN_GPU_ROOT" amd
	MLRUN_GPU_ROOT=$PWD/amd
	mkdir -p amd/etc/cdi amd/dev/dri/by-path
	for node in kfd dri/card0 dri/card1 dri/renderD128 dri/renderD129 dri/by-path/pci-0000:03:00.0-card; do
		[ -e "amd/dev/$node" ] || : >"amd/dev/$node"
	done
	cp "$top_srcdir"/tests/fuzz/corpus/cdi/{amd.json,intel.yaml} amd/etc/cdi
	run -0 mlrun exec --device amd.com/gpu=all "$image" ls /dev /dev/dri
	for node in kfd card1 renderD128; do assert_line "$node"; done
	run -0 mlrun exec --device intel.com/gpu=0000-03-00-0-0x56a0 "$image" ls /dev/dri /dev/dri/by-path
	for node in card0 renderD129 pci-0000:03:00.0-card; do assert_line "$node"; done
	refute_line card1
}

@test "exec --device: a device that no file has is an error with those that there are" {
	run -125 mlrun exec --device nvidia.com/gpu=0 "$image" true
	assert_output --partial "--device: 'nvidia.com/gpu=0': no file in /etc/cdi and /var/run/cdi describes it"
	assert_output --partial "mlrun gpu cdi -o /etc/cdi/nvidia.json"
	nvidia_file >"$cdi/nvidia.yaml"
	run -125 mlrun exec --device nvidia.com/gpu=7 "$image" true
	assert_output --partial "hint: available: nvidia.com/gpu=0, nvidia.com/gpu=GPU-c0ffee00-1f2e-3d4c-5b6a-0123456789a0, nvidia.com/gpu=all"
	run -125 mlrun exec --device nvidia.com/gpu "$image" true
	assert_output --partial "VENDOR/CLASS=NAME"
}

@test "exec --device: a name is wrong before an image is fetched for it" {
	run -125 mlrun exec --device nvidia.com/gpu=0 127.0.0.1:1/no/such:image true
	assert_output --partial "describes it"
	refute_output --partial "connect"
}

@test "exec --device: a file in /var/run/cdi wins over one in /etc/cdi" {
	mkdir -p "$MLRUN_GPU_ROOT/var/run/cdi"
	one_file '"env":["FROM=etc"]' >"$cdi/a.json"
	one_file '"env":["FROM=run"]' >"$MLRUN_GPU_ROOT/var/run/cdi/z.json"
	run -0 mlrun exec --device test.com/thing=a "$image" sh -c 'echo $FROM'
	assert_output run
	# One that is wrong is told, though another has the device.
	echo '{}' >"$MLRUN_GPU_ROOT/var/run/cdi/z.json"
	run -0 mlrun exec --explain --device test.com/thing=a "$image" true
	assert_output --partial "ignored an invalid file: '/var/run/cdi/z.json': cdiVersion: missing"
	rm "$MLRUN_GPU_ROOT/var/run/cdi/z.json"
	run -0 mlrun exec --device test.com/thing=a "$image" sh -c 'echo $FROM'
	assert_output etc
}

@test "exec --device: a device in two files of one directory is refused, and both are named" {
	one_file '"env":["FROM=1"]' >"$cdi/a.json"
	one_file '"env":["FROM=2"]' >"$cdi/b.json"
	run -125 mlrun exec --device test.com/thing=a "$image" true
	assert_output --partial "'/etc/cdi/a.json' and '/etc/cdi/b.json' both describe it"
	run -0 --separate-stderr mlrun gpu cdi --list
	assert_output ""
	[[ $stderr == *"'test.com/thing=a': '/etc/cdi/a.json' and '/etc/cdi/b.json' both describe it" ]]
}

@test "exec --device: a file that is wrong is named when the device may be in it, and else not" {
	nvidia_file | sed 's/deviceNodes/devicenods/' >"$cdi/nvidia.yaml"
	one_file '"env":["A=1"]' >"$cdi/a.json"
	run -125 mlrun exec --device nvidia.com/gpu=0 "$image" true
	assert_output --partial "it may be in this invalid file: '/etc/cdi/nvidia.yaml': devices: [0]: '0': containerEdits: unknown key 'devicenods'"
	run -0 mlrun exec --device test.com/thing=a "$image" sh -c 'echo $A'
	assert_output 1
}

@test "exec --device: hooks that are not known are refused, never run" {
	printf '#!/bin/sh\ntouch %s/ran\n' "$PWD" >hook
	chmod +x hook
	one_file "\"hooks\":[{\"hookName\":\"createContainer\",\"path\":\"$PWD/hook\",\"args\":[\"hook\",\"--now\"]}]" >"$cdi/a.json"
	run -125 mlrun exec --device test.com/thing=a "$image" true
	assert_output --partial "'/etc/cdi/a.json': device 'test.com/thing=a': it runs the hook '$PWD/hook --now'"
	[ ! -e ran ]
	one_file '"hooks":[{"hookName":"createContainer","path":"/usr/bin/nvidia-ctk","args":["nvidia-ctk","hook","update-ldcache","--what","x"]}]' >"$cdi/a.json"
	run -125 mlrun exec --device test.com/thing=a "$image" true
	assert_output --partial "hook update-ldcache: unknown option '--what'"
	# By the older name, and chmod, which does nothing.
	one_file '"hooks":[{"hookName":"createContainer","path":"/usr/bin/nvidia-ctk","args":["nvidia-ctk","--debug","hook","create-symlinks","--link=a::/etc/b"]},
		{"hookName":"createContainer","path":"/opt/nvidia-cdi-hook","args":["x","chmod","--mode","755","--path","/dev"]}]' >"$cdi/a.json"
	run -0 mlrun exec --device test.com/thing=a "$image" readlink /etc/b
	assert_output a
}

@test "exec --device: what only root's containers can have is refused by its name" {
	one_file '"netDevices":[{"hostInterfaceName":"ib0","name":"ib0"}]' >"$cdi/a.json"
	run -125 mlrun exec --device test.com/thing=a "$image" true
	assert_output --partial "'ib0'"
	one_file '"intelRdt":{"closID":"x"}' >"$cdi/a.json"
	run -125 mlrun exec --device test.com/thing=a "$image" true
	assert_output --partial "intelRdt"
	one_file '"mounts":[{"hostPath":"none","containerPath":"/x","type":"overlay"}]' >"$cdi/a.json"
	run -125 mlrun exec --device test.com/thing=a "$image" true
	assert_output --partial "file system of type 'overlay'"
	one_file '"mounts":[{"hostPath":"/etc","containerPath":"/x","options":["rbind","frobnicate"]}]' >"$cdi/a.json"
	run -125 mlrun exec --device test.com/thing=a "$image" true
	assert_output --partial "unknown mount option 'frobnicate'"
	one_file '"env":["A=1"],"additionalGids":[4242]' >"$cdi/a.json"
	run -0 mlrun exec --explain --device test.com/thing=a "$image" true
	assert_output --partial "wants group 4242"
}

@test "exec --device: mounts have the options of the file, and a tmpfs its own" {
	mkdir -p "$MLRUN_GPU_ROOT/srv/data"
	echo hello >"$MLRUN_GPU_ROOT/srv/data/file"
	one_file '"mounts":[{"hostPath":"/srv/data","containerPath":"/data","options":["rbind","ro","noexec","rprivate"]},
		{"hostPath":"tmpfs","containerPath":"/scratch","type":"tmpfs","options":["size=1m","nosuid","mode=700"]},
		{"hostPath":"/srv/data","containerPath":"/rw","options":["bind","rw"]}]' >"$cdi/a.json"
	run -0 mlrun exec --device test.com/thing=a "$image" sh -c 'cat /data/file; env true >/data/x; env true >/rw/y; stat -c %a /scratch
		grep " /data \| /scratch " /proc/self/mounts'
	assert_line hello
	assert_line --partial "Read-only"
	assert_line 700
	assert_line --regexp ' /data .*ro,.*noexec'
	assert_line --regexp ' /scratch tmpfs .*size=1024k'
	[ -e "$MLRUN_GPU_ROOT/srv/data/y" ]
	[ ! -e "$MLRUN_GPU_ROOT/srv/data/x" ]
}

@test "exec --device: nodes that lack or are other things are told with the way out" {
	one_file '"deviceNodes":[{"path":"/dev/nvidia9"}]' >"$cdi/a.json"
	run -125 mlrun exec --device test.com/thing=a "$image" true
	assert_output --partial "'/dev/nvidia9' is not on this machine"
	assert_output --partial "mlrun gpu cdi"
	one_file '"deviceNodes":[{"path":"/dev/dri"}]' >"$cdi/a.json"
	run -125 mlrun exec --device test.com/thing=a "$image" true
	assert_output --partial "'/dev/dri' is not a character device"
	one_file '"deviceNodes":[{"path":"dev/x"}]' >"$cdi/a.json"
	run -125 mlrun exec --device test.com/thing=a "$image" true
	assert_output --partial "'dev/x' is not an absolute path"
}

# on_machine COMMAND: with this machine itself in place of a made-up one, and an empty /var/run/cdi.
on_machine() {
	unset MLRUN_GPU_ROOT
	unshare -Urm sh -c "mount -t tmpfs none /run && mkdir -p /run/cdi && $1"
}

@test "exec --device: a machine's own node is told from another by kind and number" {
	local numbers

	for numbers in '"major":1,"minor":3' '"type":"c","major":1,"minor":3,"fileMode":438' '"hostPath":"/dev/zero"'; do
		one_file "\"deviceNodes\":[{\"path\":\"/dev/null\",$numbers}]" >a.json
		run -0 on_machine "cp a.json /run/cdi && mlrun exec --device test.com/thing=a $image stat -c %t:%T /dev/null"
		case $numbers in *zero*) assert_output 1:5 ;; *) assert_output 1:3 ;; esac
	done
	one_file '"deviceNodes":[{"path":"/dev/null","major":1,"minor":5}]' >a.json
	run -125 on_machine "cp a.json /run/cdi && mlrun exec --device test.com/thing=a $image true"
	assert_output --partial "the device '/dev/null' is 1:3, and the file says 1:5"
	one_file '"deviceNodes":[{"path":"/dev/null","type":"b"}]' >a.json
	run -125 on_machine "cp a.json /run/cdi && mlrun exec --device test.com/thing=a $image true"
	assert_output --partial "'/dev/null' is not a block device"
	one_file '"deviceNodes":[{"path":"/etc/hostname"}]' >a.json
	run -125 on_machine "cp a.json /run/cdi && mlrun exec --device test.com/thing=a $image true"
	assert_output --partial "'/etc/hostname' is not a character device"
}

@test "exec --device: a device none of whose nodes can be opened is an error, one of several is told" {
	needs_ordinary_user
	chmod 0 "$MLRUN_GPU_ROOT/dev/nvidia1"
	nvidia_file >"$cdi/nvidia.yaml"
	run -0 mlrun exec --explain --device nvidia.com/gpu=all "$image" true
	assert_output --partial "'/dev/nvidia1'"
	chmod 0 "$MLRUN_GPU_ROOT/dev/nvidia0"
	run -125 mlrun exec --device nvidia.com/gpu=0 "$image" true
	assert_output --partial "'/dev/nvidia0'"
}

@test "exec --device: a link of the image's does not lead a CDI link into the user's files" {
	mkdir -p "$TMPDIR/precious"
	echo mine >"$TMPDIR/precious/libcuda.so.1"
	cp -a "$BATS_FILE_TMPDIR/image" evil
	rm -rf "evil$LIBS"
	ln -s "$TMPDIR/precious" "evil$LIBS"
	nvidia_file >"$cdi/nvidia.yaml"
	cd precious
	run mlrun exec -v "$TMPDIR/precious" --device nvidia.com/gpu=all rootfs:../evil true
	[ ! -L libcuda.so.1 ]
	assert_equal "$(cat libcuda.so.1)" mine
	assert_equal "$(ls)" libcuda.so.1
}

@test "exec --device: paths of a file that lead up and about stay inside" {
	one_file '"hooks":[{"hookName":"createContainer","path":"/usr/bin/nvidia-cdi-hook","args":["x","create-symlinks",
		"--link","/etc/shadow::/../../../../../../x","--link","../../../y::/etc/../z"]}]' >"$cdi/a.json"
	run -0 mlrun exec --device test.com/thing=a "$image" sh -c 'readlink /x /z'
	assert_output "/etc/shadow
../../../y"
	one_file '"mounts":[{"hostPath":"/../../../../../../../etc/hostname","containerPath":"/x"}]' >"$cdi/a.json"
	echo in-the-tree >"$MLRUN_GPU_ROOT/etc/hostname"
	run -0 mlrun exec --device test.com/thing=a "$image" cat /x
	assert_output in-the-tree
}

@test "exec --device: what is no file, or too large, or endless, is a problem and not a hang" {
	mkfifo "$cdi/pipe.json"
	truncate -s 5M "$cdi/large.yaml"
	ln -s self.json "$cdi/self.json"
	ln -s ../../../../../../../../etc/passwd "$cdi/outside.yaml"
	mkdir "$cdi/directory.json"
	cp "$top_srcdir/tests/fuzz/corpus/cdi/laughs.yaml" "$cdi"
	one_file '"env":["A=1"]' >"$cdi/a.json"
	run -0 --separate-stderr timeout 300 mlrun gpu cdi --list
	assert_output test.com/thing=a
	[[ $stderr == *"pipe.json': not a regular file"* ]]
	[[ $stderr == *"large.yaml': it is larger than 4 MiB"* ]]
	[[ $stderr == *"laughs.yaml': line 6: too many values"* ]]
}
