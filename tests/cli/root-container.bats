#!/usr/bin/env bats
# What a program in a container that root has started must not do to the machine through /proc and /sys. There
# it has no capability, but the kernel asks for none: root's user id is enough to write. Each attack is tried
# on the machine first, where it works.
# shellcheck disable=SC2016 # the inner shell expands
load common

REFUSE=$top_builddir/tests/fault/refuse

# Of Debian's and Ubuntu's merged /usr.
HOST_PROGRAMS=(-v /usr/lib:/usr/lib -v /usr/lib:/lib -v /lib64:/lib64)

setup_file() {
	[ "$(id -u)" = 0 ] || skip_file "only root's containers can write there"
	export ROOT=$BATS_FILE_TMPDIR/root
	tiny_root "$ROOT"
	cp --remove-destination "$(command -v unshare)" "$ROOT/bin/unshare" # busybox's maps ids
	mkdir -p "$ROOT/lib" "$ROOT/lib64" "$ROOT/usr/lib"
}

# try WHAT COMMAND...: say whether it worked. Opening for writing is the attack; nothing is written.
ATTACKS='
try() {
	what=$1
	shift
	if "$@" 2>/dev/null; then echo "WORKED $what"; else echo "refused $what"; fi
}
opened() { try "open $1" sh -c "exec 3>>$1"; }
for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/vm/drop_caches /proc/sysrq-trigger \
	/proc/irq/default_smp_affinity /sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/profiling \
	/sys/devices/system/cpu/online $(find /sys/fs/cgroup -name cgroup.procs | head -n 3); do
	[ ! -e "$f" ] || opened "$f"
done
# Of all that lets root write, files from everywhere.
for d in $(find /proc/sys /proc/bus /proc/fs /proc/irq /sys/kernel /sys/module /sys/class -type f -perm -200 2>/dev/null |
	awk "NR % 37 == 1" | head -n 300); do
	(exec 3>>"$d") 2>/dev/null && echo "WORKED open $d"
done
for f in /proc/kcore /proc/keys /proc/timer_list /proc/sched_debug /proc/latency_stats; do
	[ ! -e "$f" ] || try "read $f" sh -c "head -c 1 $f | grep -q ."
done
for d in /proc/acpi /proc/asound /proc/scsi /sys/firmware /sys/devices/virtual/powercap; do
	[ ! -e "$d" ] || try "list $d" sh -c "ls $d | grep -q ."
done
for d in /proc/sys /proc/keys /sys/firmware /sys; do
	[ ! -e "$d" ] || try "unmount $d" umount $d
	[ ! -d "$d" ] || try "remount $d" mount -o remount,rw,bind $d
done
for p in /proc/[0-9]*; do
	(exec 3>>$p/root/proc/sys/kernel/core_pattern) 2>/dev/null && echo "WORKED open $p/root/proc/sys"
done
mkdir -p /tmp/new-proc /tmp/new-sys
try "mount another /proc" mount -t proc none /tmp/new-proc
try "mount another /sys" mount -t sysfs none /tmp/new-sys
opened /tmp/new-proc/sys/kernel/core_pattern
opened /tmp/new-sys/kernel/profiling
exit 0'

all_fail() {
	assert_output --partial "refused open /proc/sys/kernel/core_pattern"
	refute_output --partial WORKED
}

inside() { mlrun exec -w / "$@" sh -c "$ATTACKS"; }

@test "root's container: the attacks work where nothing is in their way" {
	run -0 unshare -m sh -c "cd / && $ATTACKS"
	assert_line "WORKED open /proc/sys/kernel/core_pattern"
	assert_line "WORKED open /sys/kernel/mm/transparent_hugepage/enabled"
	assert_line "WORKED unmount /proc/sys" || assert_line "refused unmount /proc/sys"
	assert_line "WORKED mount another /proc"
}

@test "root's container: what runc masks is masked and what it makes read-only is read-only" {
	run -0 inside "rootfs:$ROOT"
	all_fail
}

@test "root's container: the same for a bundle that mlrun oci runs" {
	local bundle=$BATS_TEST_TMPDIR/bundle

	mkdir "$bundle"
	cp -a "$ROOT" "$bundle/rootfs"
	mlrun oci spec --bundle "$bundle"
	jq --arg a "$ATTACKS" '.process.args = ["sh", "-c", $a] | .process.cwd = "/"' "$bundle/config.json" >new
	mv new "$bundle/config.json"
	run -0 mlrun oci --root "$BATS_TEST_TMPDIR/states" run --bundle "$bundle" attacked
	all_fail
}

@test "root's container: the same with namespaces, another user id and a read-only root" {
	local option

	for option in --pid --init --ipc=private --net=none --hostname=box --read-only --user=1000 --fakeroot; do
		run -0 inside "$option" "rootfs:$ROOT"
		all_fail
	done
}

@test "root's container: --fakeroot and build remember owners for root as for others" {
	run -0 mlrun exec --fakeroot -w / "rootfs:$ROOT" sh -c 'touch /f && chown 7:8 /f && stat -c %u:%g /f'
	assert_output 7:8
	tar -C "$ROOT" -cf root.tar .
	mlrun import -q root.tar tiny
	printf '%s\n' 'FROM tiny' 'RUN touch /f && chown 7:8 /f' 'RUN stat -c %u:%g /f >/owner' >Dockerfile
	mlrun build -q -t mine .
	run -0 mlrun exec mine cat /owner
	assert_output 7:8
}

@test "root's container: the same where root is kept, and in an image of squashfs" {
	tar -C "$ROOT" -cf root.tar .
	mlrun import -q root.tar tiny
	run -0 inside --write=kept tiny
	all_fail
	needs_squashfs
	needs_fuse
	mlrun import -q --format=squashfs root.tar tiny-squash
	run -0 inside tiny-squash
	all_fail
}

@test "root's container: the same for who joins one" {
	local held

	mlrun exec --join-tag "root.$$" "rootfs:$ROOT" sleep "$NAP" 3>&- &
	held=$!
	until_true runs "$held" sleep "$NAP"
	run -0 mlrun exec --join-tag "root.$$" -w / "rootfs:$ROOT" sh -c "$ATTACKS"
	all_fail
	run -0 mlrun exec --join "$held" -w / sh -c "$ATTACKS"
	kill "$held"
	all_fail
}

@test "root's container: the same on kernels without the newer mount calls" {
	[ -x "$REFUSE" ] || skip "mlrun was built without libseccomp"
	run -0 "$REFUSE" openat2=ENOSYS open_tree=ENOSYS move_mount=ENOSYS mount_setattr=ENOSYS fsopen=ENOSYS -- \
		mlrun exec -w / "rootfs:$ROOT" sh -c "$ATTACKS"
	all_fail
}

@test "root's container: user and mount namespaces made inside uncover nothing" {
	local flags

	for flags in -Um -Umpf -Umn; do
		run -0 mlrun exec -w / "${HOST_PROGRAMS[@]}" "rootfs:$ROOT" unshare $flags sh -c "$ATTACKS"
		all_fail
		# Under another number it may map its id once more, and so mount more.
		run -0 mlrun exec -w / --user=1000 "${HOST_PROGRAMS[@]}" "rootfs:$ROOT" unshare -r $flags sh -c "$ATTACKS"
		all_fail
	done
}

@test "root's container: no other namespace shows control groups that can be written to" {
	run -0 unshare -mC sh -c 'mkdir -p groups && mount -t cgroup2 none groups && (exec 3>>groups/cgroup.procs) && echo WORKED'
	assert_output WORKED
	run mlrun exec -w / --user=1000 "${HOST_PROGRAMS[@]}" "rootfs:$ROOT" \
		unshare -UrmC sh -c 'mkdir -p groups && mount -t cgroup2 none groups && (exec 3>>groups/cgroup.procs) && echo WORKED'
	assert_output --partial "unshare failed: No space left on device"
	run mlrun exec -w / --user=1000 "${HOST_PROGRAMS[@]}" "rootfs:$ROOT" \
		unshare -Urm sh -c 'mkdir -p groups && mount -t cgroup2 none groups && (exec 3>>groups/cgroup.procs) && echo WORKED'
	refute_output --partial WORKED
}

@test "root's container: nothing is taken from /proc and /sys but these, and -v gives each back" {
	run -0 mlrun exec -w / "rootfs:$ROOT" sh -c 'cat /proc/sys/kernel/ostype; ls -d /sys/kernel /proc/1; (exec 3>>/proc/self/oom_score_adj) && echo own'
	assert_line Linux
	assert_line /sys/kernel
	assert_line own
	run -0 mlrun exec -w / -v /proc/sys:/proc/sys -v /sys:/sys "rootfs:$ROOT" \
		sh -c 'for f in /proc/sys/kernel/core_pattern /sys/kernel/mm/transparent_hugepage/enabled; do (exec 3>>$f) && echo "opened $f"; done'
	assert_line "opened /proc/sys/kernel/core_pattern"
	assert_line "opened /sys/kernel/mm/transparent_hugepage/enabled"
}

@test "root's container: --explain tells of what is masked and read-only, with the reason" {
	run -0 mlrun exec --explain "rootfs:$ROOT" true
	assert_line --regexp '^  default +bind +/proc/sys -> /proc/sys ro '
	assert_line --regexp '^  default +bind +/sys -> /sys ro '
	assert_line --regexp '^  default +tmpfs +/sys/firmware ro '
	assert_output --partial "root starts it"
}

@test "root's container: root of a user namespace starts one, too, and one nests in another" {
	run -0 unshare -Ur mlrun exec -w / "rootfs:$ROOT" echo started
	assert_output started
	# As in a container of podman's, which has masks of its own.
	run -0 unshare -Urmpf --mount-proc sh -c 'mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys &&
		mount --rbind /sys /sys && mount -o remount,bind,ro /sys && mount -t tmpfs -o ro none /sys/firmware &&
		mount --bind /dev/null /proc/keys && exec mlrun exec -w / "$@"' sh "rootfs:$ROOT" sh -c "$ATTACKS"
	all_fail
	run -0 mlrun exec -w / --user=1000 -v "$ROOT" -v "$top_builddir" "${HOST_PROGRAMS[@]}" "rootfs:$ROOT" \
		"$top_builddir/bin/mlrun" exec --user=0 -w / "rootfs:$ROOT" sh -c "$ATTACKS"
	all_fail
}
