# mlrun exec on kernels that lack calls, and on file systems that lack what an overlay needs.
# shellcheck disable=SC2016 # the inner shell expands
load common

REFUSE=$top_builddir/tests/fault/refuse

setup() {
	common_setup
	tiny_root root
	mkdir -p data/sub
	echo host >data/f
}

# As on Linux 5.1 at the oldest, which is what mount(2) alone gives.
OLD="openat2=ENOSYS open_tree=ENOSYS move_mount=ENOSYS mount_setattr=ENOSYS close_range=ENOSYS
	fsopen=ENOSYS clone3=ENOSYS faccessat2=ENOSYS"

needs_refuse() { [ -x "$REFUSE" ] || skip "mlrun was built without libseccomp"; }

# without CALL=ERRNO... -- mlrun's arguments
without() {
	local -a calls=()

	while [ "$1" != -- ]; do
		calls+=("$1")
		shift
	done
	shift
	"$REFUSE" "${calls[@]}" -- mlrun exec "$@"
}

# shellcheck disable=SC2086 # words
old() { without $OLD -- "$@"; }

@test "old kernels: a container is made with each of the newer calls missing, and with all of them" {
	needs_refuse
	local call

	for call in $OLD openat2=EPERM open_tree=EPERM close_range=EPERM; do
		run -0 without "$call" -- rootfs:root sh -c 'cat /proc/self/comm; ls /dev/null /etc/passwd; pwd; cat data/f'
		assert_line cat
		assert_line "$PWD"
		assert_line host # /tmp is the host's, though the set-up mounts there
	done
	run -0 old rootfs:root sh -c 'echo >/dev/null && id -un && echo made >/f && cat /f && ls /dev/shm >/dev/null'
	assert_output "$(id -un)"$'\n'made
}

@test "old kernels: volumes come in with their flags, all the way down" {
	needs_refuse
	run -0 old -v ./data:/d rootfs:root sh -c 'cat /d/f; echo new >/d/g'
	assert_output host
	assert [ -e data/g ]
	run old -v ./data:/d:ro rootfs:root sh -c 'cat /d/f; echo no >/d/h'
	assert_failure
	assert_line host
	assert_output --partial "Read-only file system"
	assert [ ! -e data/h ]
	cp root/bin/busybox data/true
	run -126 old -v ./data:/d:noexec rootfs:root /d/true
	# The host's /dev/shm is another file system below /dev: it is read-only as well.
	run old -v /dev:/d:ro rootfs:root sh -c 'echo no >/d/shm/mlrun-test-ro'
	assert_output --partial "Read-only file system"
	run old --read-only rootfs:root sh -c 'echo no >/x'
	assert_output --partial "Read-only file system"
	run -0 old --read-only rootfs:root sh -c 'echo yes >$HOME/x; echo yes >/tmp/mlrun-test-$$ && rm /tmp/mlrun-test-$$'
}

@test "old kernels: links of the image do not lead the set-up outside" {
	needs_refuse
	mkdir outside
	rm -rf root/etc
	ln -s "$PWD/outside" root/etc
	ln -s ../../../../../../../../"$PWD/outside" root/rel
	ln -s /proc/self/root/"$PWD/outside" root/magic
	# What the container has of the host's by itself is inside.
	local here=$PWD
	cd /
	run -0 old --tmpfs /tmp -v "$here/data:/rel/in" "rootfs:$here/root" true
	run old --tmpfs /tmp -v "$here/data:/magic/x" "rootfs:$here/root" true
	assert [ -z "$(ls "$here/outside")" ]
}

@test "old kernels: a container is joined by its files where processes have no descriptors" {
	needs_refuse
	local error pid

	for error in ENOSYS EPERM; do # EPERM: a sandbox that is older than the call
		rm -f up
		mlrun exec -w "$PWD" rootfs:root sh -c 'echo >up; readlink /proc/self/ns/mnt >ns; exec sleep 100' 3>&- &
		pid=$!
		until_true test -s ns
		run without pidfd_open=$error -- --join "$pid" readlink /proc/self/ns/mnt
		kill "$pid"
		wait "$pid" || true
		assert_equal "$status" 0
		assert_output "$(cat ns)"
		rm ns
	done
}

@test "old kernels: containers of a squashfs file have a server each, and none waits for another" {
	needs_refuse
	needs_squashfuse
	needs_fuse
	local call pid

	command -v mksquashfs >/dev/null || skip "squashfs-tools is not installed"
	mksquashfs root image.sqfs -quiet -no-progress >/dev/null
	for call in move_mount=ENOSYS open_tree=ENOSYS open_tree=EPERM move_mount=EPERM; do
		rm -f up
		without "$call" -- -w "$PWD" squashfs:image.sqfs sh -c 'echo >up; exec sleep 1000' 3>&- &
		pid=$!
		PIDS+=("$pid")
		until_true test -s up
		run -0 without "$call" -- squashfs:image.sqfs sh -c 'cat /proc/self/comm'
		assert_output cat
	done
	# Whatever those before it could do.
	run -0 old squashfs:image.sqfs cat /proc/self/comm
	assert_output cat
}

@test "old kernels: no descriptor is handed on" {
	needs_refuse
	run -0 old rootfs:root sh -c 'ls /proc/self/fd | wc -l' 7</dev/null
	assert_output 4 # 0, 1, 2 and that of ls
}

@test "limits: an image of 60 layers runs with 64 open files, and the command has 64 again" {
	local i
	local -a layers=()

	tiny_root base
	layer_tar 0.tar base
	for i in {1..60}; do
		mkdir "l$i"
		echo "$i" >"l$i/f$i"
		layer_tar "$i.tar" "l$i"
		layers+=("$i.tar")
	done
	image_layout many 0.tar "${layers[@]}"
	mlrun import -q oci:many many:1
	ulimit -Sn 64
	run -0 mlrun exec many:1 sh -c 'cat /f1 /f60; ulimit -n; ulimit -Hn'
	assert_output $'1\n60\n64\n'"$(ulimit -Hn)"
	[ -x "$REFUSE" ] || return 0
	run -0 old many:1 cat /f30
	assert_output 30
}

@test "an image whose /etc/passwd is a directory is told as such" {
	rm root/etc/passwd
	mkdir root/etc/passwd
	run -125 mlrun exec rootfs:root true
	assert_output --partial "'/etc/passwd' in the image is a directory"
	assert_output --partial "hint: a build that mounts a file which is not there"
}

# --- no overlay ------------------------------------------------------------------------------

# nested COMMAND...: in namespaces whose root is an overlay on an overlay, the most that the kernel stacks
nested() {
	unshare -Urm bash -c '
		set -e
		mkdir -p lower upper work1 root1 work2 upper2 root2
		mount -t tmpfs tmpfs upper
		mkdir upper/{u1,w1,u2,w2}
		mount -t overlay o -o "lowerdir=$1,upperdir=upper/u1,workdir=upper/w1,userxattr" root1
		mount -t overlay o -o "lowerdir=root1,upperdir=upper/u2,workdir=upper/w2,userxattr" root2
		exec unshare -U "--map-user=$2" "--map-group=$3" "${@:4}"' \
		bash "$PWD/root" "$(id -u)" "$(id -g)" "$@"
}

@test "no overlay: a mount below a directory of the machine's that is closed to the caller" {
	[ -d /root ] && [ ! -r /root ] || skip "this user may read /root"
	run -0 mlrun exec -w / -v "$PWD/data:/root/there" rootfs:/ cat /root/there/f
	assert_line host
}

@test "no overlay: one tree runs read-only by itself, and one line tells why" {
	rm -rf root/root root/tmp # places that are missing
	ln -s bin/busybox root/link
	touch -d 2001-02-03 root/etc
	run -0 nested mlrun exec rootfs:root2 sh -ec '
		id -un; cat /link >/dev/null && readlink /link; grep -c root /etc/passwd; cat /etc/os-release
		echo x >/dev/null; ls -d /proc/self /tmp/bats* >/dev/null; stat -c %y /etc; echo y >$HOME/y && cat $HOME/y'
	assert_line --partial "the image's files cannot be changed, as there can be no overlay here"
	assert_line bin/busybox
	assert_line NAME=tiny
	assert_line --partial "2001-02-03"
	assert_line y
	run nested mlrun exec rootfs:root2 sh -c 'echo z >/bin/z'
	assert_output --partial "Read-only file system"
	run nested mlrun exec -v ./data:/not/there rootfs:root2 cat /not/there/f
	assert_line host
	assert [ ! -e root/bin/z ]
	assert [ ! -e root/not ]
	[ -x "$REFUSE" ] || return 0
	# shellcheck disable=SC2086 # words
	run -0 nested "$REFUSE" $OLD -- mlrun exec -v ./data:/d rootfs:root2 cat /d/f
	assert_line host
}
