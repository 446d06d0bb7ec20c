#!/usr/bin/env bats
# What a hostile image, and a hostile program in it, must not be able to do. Each test tries an attack and
# fails if it works. The classes are those that container runtimes have had CVEs for.
# shellcheck disable=SC2016 # the inner shell expands
load common

ATTACK=$top_builddir/tests/inside/attack

# /tmp is in every container: what must not be reached lies outside of it.
setup() {
	common_setup
	OUTSIDE=$(mktemp -d /var/tmp/mlrun-escape.XXXXXX)
	echo "host's secret" >"$OUTSIDE/secret"
	mkdir "$OUTSIDE/dir"
	tiny_root root
	cp "$ATTACK" root/bin/attack
}

teardown() {
	[ -z "${flipper:-}" ] || kill "$flipper"
	chmod -R u+rwX "$OUTSIDE"
	rm -rf "$OUTSIDE"
	common_teardown
}

# Like run, for whatever status, 127 too.
try() {
	status=0
	output=$("$@" 2>&1 </dev/null) || status=$?
}

# inside [OPTION...] -- COMMAND...: in the tiny root, from its own "/".
inside() {
	local -a options=()

	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	${UNPIVOTED:-} mlrun exec -w / "${options[@]}" rootfs:root "$@"
}

# As on a node that runs on its initramfs: the new root is moved over the old one.
unpivoted() {
	[ -x "$top_builddir/tests/fault/refuse" ] || skip "mlrun was built without libseccomp"
	UNPIVOTED="$top_builddir/tests/fault/refuse pivot_root=EINVAL --"
}

# Nothing has been made, changed or removed outside.
outside_is_untouched() {
	assert_equal "$(<"$OUTSIDE/secret")" "host's secret"
	assert_equal "$(find "$OUTSIDE" -mindepth 1 -printf '%U %p\n' | sort)" \
		"$EUID $OUTSIDE/dir"$'\n'"$EUID $OUTSIDE/secret"
}

# An attack says "WORKED" and what; it always says something.
attack_fails() {
	assert_output --partial refused
	refute_output --partial WORKED
	assert_equal "$status" 0
}

@test "escape: the attacks work where nothing is in their way" {
	local sleeper
	sleep 100 3>&- &
	sleeper=$!
	run "$ATTACK" process "$sleeper"
	kill "$sleeper"
	assert_output --partial "WORKED ptrace"
	assert_output --partial "WORKED root/etc/passwd"
	mkdir ro
	run unshare -Urm sh -c 'mount -t tmpfs -o ro none ro && exec "$@"' - "$ATTACK" mounts "$PWD/ro" "$PWD/ro" /etc
	assert_output --partial "WORKED remount its superblock rw"
	assert_output --partial "WORKED unmount a cover"
	mkdir root/trap
	run unshare -Ur chroot root /bin/attack chroot "$OUTSIDE/secret"
	assert_output --partial "WORKED climb out of a chroot"
	run unshare -Ur "$ATTACK" ids
	assert_output --partial "WORKED make a network namespace"
	assert_output --partial "WORKED gain privileges by execve"
	command -v script >/dev/null || skip "script is not installed"
	[ "$(cat /proc/sys/dev/tty/legacy_tiocsti 2>/dev/null || echo 1)" = 1 ] || skip "the kernel forbids TIOCSTI to all"
	run script -qec "$ATTACK tty" /dev/null
	assert_output --partial "WORKED TIOCSTI"
	assert_output --partial "WORKED TIOCSTI with high bits"
}

# image NAME UMOCI-CONFIG-ARG...: the tiny root with this configuration, in the store.
image() {
	local name=$1

	shift
	[ -e tiny.tar ] || layer_tar tiny.tar root
	image_layout "$name.oci" tiny.tar
	image_config "$name.oci" "$@"
	mlrun import -q "oci:$name.oci" "$name"
}

# --- descriptors and the working directory (CVE-2024-21626, CVE-2016-9962) ----------------

@test "escape: a working directory in /proc/self/fd leads to no directory of the host (CVE-2024-21626)" {
	local dir n
	image fd3 --config.workingdir /proc/self/fd/3
	cd /
	run mlrun exec fd3 sh -c 'cat secret; cat ../secret'
	refute_output --partial "host's secret"
	cd "$TMPDIR"

	for ((n = 3; n < 16; n++)); do
		for dir in /proc/self/fd/$n /proc/thread-self/fd/$n /proc/self/fd/$n/dir/..; do
			run bash -c 'exec 7<"$1" 9<"$1"; exec mlrun exec -w "$2" rootfs:root sh -c "cat secret; cat dir/../secret; pwd -P"' \
				- "$OUTSIDE" "$dir"
			assert [ "$status" -ne 0 ]
			refute_output --partial "host's secret"
		done
	done
	ln -s /proc/self/fd/7 root/link
	run bash -c 'exec 7<"$1"; exec mlrun exec -w /link rootfs:root cat secret' - "$OUTSIDE"
	assert [ "$status" -ne 0 ]
	refute_output --partial "host's secret"
}

@test "escape: the command's directory is inside, and .. of it leads to the image's root" {
	for dir in / /proc/self /etc /new/deep/place; do
		run mlrun exec -w "$dir" rootfs:root sh -c 'cd -P ../../../../../../..; ls -d bin/attack; ls .'"$OUTSIDE"
		assert_line bin/attack
		assert_line --partial "No such file"
	done
	for dir in /proc/self/cwd /proc/self/root /proc/1/root /proc/1/cwd "/proc/$$/cwd" "/proc/$$/root"; do
		run mlrun exec -w "$dir" rootfs:root sh -c "cat .$OUTSIDE/secret"
		refute_output --partial "host's secret"
	done
}

@test "escape: no open file or directory of the caller's or of mlrun's is handed on" {
	run -0 "$ATTACK" dup 100 "$ATTACK" dup 77 mlrun exec -w / rootfs:root sh -c 'cd /proc/self/fd && echo *' <"$OUTSIDE"
	assert_output --regexp '^0 1 2( 3)?$'
	cd "$OUTSIDE"
	run -0 mlrun exec -w / "rootfs:$TMPDIR/root" sh -c 'for f in /proc/self/fd/*; do readlink $f || :; done'
	refute_output --partial "$OUTSIDE"
	refute_output --partial "$TMPDIR/root"
}

# --- mlrun's own file (CVE-2019-5736) -----------------------------------------------------

# What becomes the host's mlrun for a moment, whatever its file was when mlrun looked: a container may swap files at any time.
# The tests' mlrun is the caller's own file, so it is never executed inside.
@test "escape: an image cannot have mlrun's own program run inside (CVE-2019-5736)" {
	local name
	local -a host=(-v /lib -v /lib64 -v /usr) # what mlrun would need to run there
	ln -s /proc/self/exe root/bin/itself
	printf '#!/proc/self/exe --version\n' >root/bin/runs-exe
	printf '#! \t/bin/itself --version\n' >root/bin/runs-link
	printf '#!/bin/runs-exe\n' >root/bin/runs-script
	chmod 755 root/bin/runs-*
	[ -d /lib64 ] || host=(-v /lib -v /usr)
	for name in /proc/self/exe /proc/thread-self/exe /bin/itself itself /bin/runs-exe /bin/runs-link /bin/runs-script runs-exe; do
		run inside "${host[@]}" -- "$name"
		assert [ "$status" -eq 126 ]
		assert_output "mlrun: /proc/self/exe is mlrun's own program, not the image's"
	done
}

# Scripts that run scripts, more than the kernel follows: the launcher, which can say no more, has the number.
@test "escape: what the launcher cannot execute it names, with the cause" {
	local i

	for ((i = 0; i < 9; i++)); do printf '#!/bin/s%d\n' $((i + 1)) >root/bin/s$i; done
	chmod 755 root/bin/s?
	cp root/bin/busybox root/bin/s9
	run inside -- s0
	assert [ "$status" -eq 126 ]
	assert_output --regexp "^mlrun: exec 'rootfs:.*': '.*/s0': errno 40$"
	printf 'no program' >root/bin/text
	chmod 755 root/bin/text
	run inside -- text
	assert [ "$status" -eq 126 ]
	assert_output --partial "a script needs a '#!' line"
	printf '#!/none\n' >root/bin/text
	run inside -- text
	assert [ "$status" -eq 126 ]
	assert_output --partial "the interpreter it names"
}

@test "escape: a program starts as without a launcher: name, arguments, environment, a script's path" {
	printf '#!/bin/sh\necho "$0 $* $A"; cat /proc/$$/comm; tr "\\0" " " </proc/$$/cmdline\n' >root/bin/says
	chmod 755 root/bin/says
	A=b run -0 inside -- says 1 '2 3'
	assert_line -n 0 "/bin/says 1 2 3 b"
	assert_line -n 1 says
	assert_line -n 2 "/bin/sh /bin/says 1 2 3 "
}

@test "escape: a container that puts a file at /proc/self/exe does not hide mlrun's own program from who joins" {
	local pid

	rm -rf root/proc && mkdir root/a && ln -s /a/proc root/proc
	inside -- sh -c "rm /proc; mkdir -p /proc/self; echo x >/proc/self/exe; ln -sf /a/proc/self/exe /bin/lnk; exec sleep $NAP" 3>&- &
	until_true pgrep -x -f "sleep $NAP"
	pid=$(pgrep -x -f "sleep $NAP")
	PIDS+=("$pid")
	# The leak checker itself wants /proc.
	ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 run mlrun exec --join "$pid" /bin/lnk
	assert_equal "$status" 126
	assert_output "mlrun: /proc/self/exe is mlrun's own program, not the image's"
}

@test "escape: the program of the host's mlrun can be reached by no link in /proc" {
	cp "$(command -v mlrun)" "$OUTSIDE/mlrun"
	"$OUTSIDE/mlrun" exec -w / rootfs:root sh -c 'while [ ! -e '"$BATS_TEST_TMPDIR"'/go ]; do sleep 0.05; done' 3>&- &
	run inside -- sh -c 'for p in /proc/[0-9]*; do readlink $p/exe; (: >>$p/exe) && echo opened $p; done 2>/dev/null | sort -u'
	touch "$BATS_TEST_TMPDIR/go"
	wait
	refute_output --partial "$OUTSIDE"
	refute_output --partial "$top_builddir/bin/mlrun"
	refute_output --partial opened
	cmp "$(command -v mlrun)" "$OUTSIDE/mlrun"
	rm "$OUTSIDE/mlrun"
}

# --- mount targets (CVE-2021-30465, CVE-2025-31133, CVE-2019-19921, CVE-2023-27561) -------

# Every place that mlrun mounts on or writes to, as this kind of thing in the image.
places() { echo tmp proc dev etc sys home root run mnt dev/shm dev/pts dev/null etc/passwd etc/group etc/hosts \
	etc/resolv.conf etc/localtime "home/$(id -un)" var; }

# start_with_place PLACE COMMAND...: the command puts something at root/PLACE.
start_with_place() {
	local place=$1
	# A sanitizer cannot look for leaks where there is no /proc.
	local -x ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0

	shift
	rm -rf "root/$place"
	mkdir -p "$(dirname "root/$place")"
	"$@" "root/$place"
	try timeout 300 mlrun exec -w / -v ./data:/data -v ./data:/home/v -v ./data/file:/etc/v --tmpfs /home/t \
		--mount type=overlay,src=./data,dst=/home/o "rootfs:root" /bin/sh -c \
		'echo x >/etc/passwd; echo x >/tmp/../etc/hosts; mkdir /home/made; cat '"$OUTSIDE"'/secret'
	assert [ "$status" -ne 124 ]
	refute_output --partial "host's secret"
	outside_is_untouched
	rm -rf "root/$place"
	[ -d root/etc ] || mkdir root/etc
}

@test "escape: links of the image in the place of a mount target lead nowhere outside (CVE-2021-30465)" {
	local place to
	mkdir data && touch data/file
	for place in $(places); do
		for to in "$OUTSIDE" "../../../../../../../../..$OUTSIDE" "$OUTSIDE/dir" "$OUTSIDE/new" "$OUTSIDE/secret" \
			/proc/self/root/$OUTSIDE /proc/self/cwd /proc/1/root /proc/self/fd/3 / .. "$(basename "$place")"; do
			start_with_place "$place" ln -s "$to"
		done
	done
}

@test "escape: fifos, files and directories in the place of a mount target neither block nor confuse" {
	local place
	mkdir data && touch data/file
	for place in $(places); do
		start_with_place "$place" mkfifo
		start_with_place "$place" touch
		start_with_place "$place" mkdir
	done
}

@test "escape: a chain of forty links ends inside, a loop is an error" {
	local i
	rm -r root/etc
	ln -s "../../../../../../..$OUTSIDE" root/l0
	for ((i = 1; i < 39; i++)); do ln -s "l$((i - 1))" "root/l$i"; done
	ln -s l38 root/etc
	run timeout 300 mlrun exec -w / rootfs:root true
	outside_is_untouched
	ln -sfn a root/b
	ln -sfn b root/a
	ln -sfn a root/etc
	run -125 timeout 300 mlrun exec -w / rootfs:root true
	assert_output --partial "Too many levels of symbolic links"
}

@test "escape: links in a volume do not lead other mounts or files outside" {
	mkdir -p data/real
	ln -s "$OUTSIDE" data/abs
	ln -s "../../../../../../../..$OUTSIDE" data/rel
	mkdir own && touch own/file
	for dst in /data/abs /data/rel /data/abs/dir /data/rel/new /data/abs/new/deep; do
		run mlrun exec -w / -v ./data:/data -v "./own:$dst" rootfs:root sh -c "echo x >$dst/written; cat $OUTSIDE/secret"
		refute_output --partial "host's secret"
		outside_is_untouched
		run mlrun exec -v ./data:/data -w "$dst" rootfs:root sh -c "echo x >written; cat $OUTSIDE/secret"
		refute_output --partial "host's secret"
		outside_is_untouched
	done
}

@test "escape: a link exchanged while containers start leads no mount outside (CVE-2021-30465)" {
	local i
	mkdir -p data/place own
	touch own/marker
	ln -s "$OUTSIDE" data/other
	"$ATTACK" flip data/place data/other 3>&- &
	flipper=$!
	for i in $(seq "$(rounds 100)"); do
		mlrun exec -w / -v ./data:/data -v ./own:/data/place/deep -v ./own:/data/place rootfs:root \
			sh -c 'cat /data/place/secret /data/other/secret; echo x >/data/place/written' >>out 2>>err || :
	done
	kill "$flipper"
	wait "$flipper" || :
	flipper=
	run cat out
	refute_output --partial "host's secret"
	outside_is_untouched
}

@test "escape: a volume's destination with .. stays inside" {
	mkdir own
	for dst in /../../../../../../.."$OUTSIDE/dir" "/tmp/../../../../..$OUTSIDE/new" /x/../../../..; do
		run mlrun exec -w / -v "./own:$dst" rootfs:root true
		outside_is_untouched
	done
	run -125 mlrun exec -w / -v ./own:../relative rootfs:root true
	run -125 mlrun exec -w / -v ./own:/ rootfs:root true
}

@test "escape: a passwd that is a link to a file of the user's is not written through" {
	needs_ordinary_user
	local home=$OUTSIDE/dir
	echo "own" >"$home/.bashrc"
	for place in passwd group hosts resolv.conf localtime; do
		rm -f "root/etc/$place"
		ln -s "../../../../..$home/.bashrc" "root/etc/$place"
	done
	HOME=$home run -0 mlrun exec --home -w / rootfs:root cat "$home/.bashrc"
	assert_output own
	run -0 mlrun exec -w / -v "$home:/etc" rootfs:root ls /etc
	assert_equal "$(ls -A "$home")" .bashrc
	assert_equal "$(cat "$home/.bashrc")" own
	rm "$home/.bashrc"
	outside_is_untouched
}

@test "escape: nothing that a container does reaches the image's files" {
	image clean --config.env A=b
	before=$(cd "$MLRUN_STORE"/layers/*/tree && find . -printf '%p %y %m %s %T@ %C@\n' | sort)
	run mlrun exec -w /new/dir -v "$TMPDIR:/volume/new" clean sh -c '
		rm /etc/os-release /bin/awk; rmdir /root; echo x >/bin/sh; chmod 777 /bin /; touch -d 2001-01-01 /bin; mkdir /made; mv /usr /moved; ls /moved'
	assert_line bin
	run -0 mlrun exec --fakeroot -w / clean chown -h 0:0 /bin/sh
	after=$(cd "$MLRUN_STORE"/layers/*/tree && find . -printf '%p %y %m %s %T@ %C@\n' | sort)
	assert_equal "$after" "$before"
}

# --- the terminal (CVE-2017-5226, CVE-2019-10063) -----------------------------------------

@test "escape: a program cannot type into the caller's terminal (CVE-2017-5226, CVE-2019-10063)" {
	command -v script >/dev/null || skip "script is not installed"
	for options in "" --fakeroot; do
		run -0 script -qec "mlrun exec -w / $options rootfs:root attack tty" /dev/null </dev/null
		attack_fails
		assert_output --partial "refused TIOCSTI: Operation not permitted"
		assert_output --partial "refused TIOCSTI with high bits: Operation not permitted"
		# Forbidden, not merely unknown to a kernel without these ABIs.
		[ "$(uname -m)" != x86_64 ] || assert_output --partial "refused TIOCSTI by int 0x80: Operation not permitted"
		[ "$(uname -m)" != x86_64 ] || assert_output --partial "refused TIOCSTI by x32: Operation not permitted"
	done
}

# no_controls: of what mlrun has said.
no_controls() {
	refute_output --partial $'\e'
	refute_output --partial $'\a'
	refute_output --partial $'\xc2\x9b'
}

@test "escape: control characters of an image reach no terminal through mlrun's own messages" {
	local edit command
	local esc='\u001b]0;owned\u0007\u001b[31m \u009b31m'
	layer_tar tiny.tar root
	image_layout tiny.oci tiny.tar
	cd /
	for edit in ".config.Env = [\"X=$esc\", \"$esc=1\"]" ".config.Cmd = [\"/c$esc\", \"$esc\"]" ".config.Cmd = [\"c$esc\"]" \
		".config.Entrypoint = [\"$esc\"]" ".config.User = \"$esc\"" ".config.WorkingDir = \"/$esc\"" ".author = \"$esc\"" \
		".config.Labels = {\"$esc\": \"$esc\"}" ".architecture = \"$esc\"" ".os = \"$esc\"" ".created = \"$esc\"" \
		".history[0].created_by = \"$esc\""; do
		rm -rf "$TMPDIR/bad.oci" "$MLRUN_STORE"
		cp -r "$TMPDIR/tiny.oci" "$TMPDIR/bad.oci"
		(cd "$TMPDIR" && config_edited bad.oci "$edit")
		run mlrun import "oci:$TMPDIR/bad.oci" bad
		no_controls
		# Refused in this way or shown in that.
		[ "$status" -eq 0 ] || continue
		for command in "exec --explain bad true" "exec --explain bad" "exec bad" "inspect bad" "inspect --json bad" images \
			"images --json"; do
			# shellcheck disable=SC2086
			try mlrun $command
			no_controls
		done
	done
}

@test "escape: control characters in a tree's names reach no terminal through mlrun's own messages" {
	local esc=$'\e]0;owned\a\xc2\x9b31m'
	ln -s "/etc/$esc/x" root/one
	ln -s "$esc" "root/loop$esc"
	printf '#!/%s\n' "$esc" >root/bin/script
	chmod 755 root/bin/script
	for arguments in "-w /one/x/y rootfs:root true" "-w /loop$esc/x rootfs:root true" "rootfs:root /no$esc" "rootfs:root no$esc" \
		"rootfs:root script" "-v ./$esc:/x rootfs:root true" "-v root:/x$esc --explain rootfs:root true" \
		"-e $esc=$esc --explain rootfs:root true" "rootfs:no$esc true" "no$esc true" "--entrypoint no$esc rootfs:root"; do
		# shellcheck disable=SC2086
		try mlrun exec $arguments
		no_controls
	done
}

@test "escape: control characters of a running container reach no terminal through mlrun's lists" {
	local pid esc=$'\e]0;owned\a'
	mkdir "root$esc"
	cp -r root/bin "root$esc/bin"
	mlrun exec -w / "rootfs:root$esc" sleep 100 3>&- &
	pid=$!
	until_true runs "$pid" sleep 100
	try mlrun ps
	first=$output
	try mlrun ps --json
	kill "$pid"
	wait "$pid" || :
	assert_output --partial '"pid"'
	no_controls
	output=$first
	assert_output --partial "$pid"
	no_controls
}

# --- privileges ---------------------------------------------------------------------------

@test "escape: a program gains no id, group, capability or privilege" {
	run inside -- attack ids
	attack_fails
	run -0 inside -- cat /proc/self/setgroups /proc/self/uid_map /proc/self/gid_map
	assert_line --index 0 deny
	assert_line --index 1 --regexp "^ *$(id -u) +$(id -u) +1$"
	assert_line --index 2 --regexp "^ *$(id -g) +$(id -g) +1$"
	assert_equal ${#lines[@]} 3
}

@test "escape: a fake root gains no id but its own" {
	needs_ordinary_user
	run inside --fakeroot -- attack ids
	attack_fails
	run -0 inside --fakeroot -- cat /proc/self/setgroups /proc/self/uid_map
	assert_line --index 0 deny
	assert_line --index 1 --regexp "^ *0 +$(id -u) +1$"
	run -0 inside --fakeroot -- sh -c 'grep Cap /proc/self/status'
	for cap in 21 12 16 18; do # SYS_ADMIN, NET_ADMIN, SYS_MODULE; SYS_CHROOT is the fake root's
		eff=$((16#$(sed -n 's/CapEff:\t//p' <<<"$output")))
		[ $cap -eq 18 ] || assert [ $((eff >> cap & 1)) -eq 0 ]
	done
}

# Files of another owner than the caller's can be had without root where there are subordinate ids.
needs_other_ids() {
	needs_ordinary_user
	unshare -U --map-auto --map-root-user true 2>/dev/null || skip "no subordinate ids"
}

@test "escape: a set-user-id program of the image runs with the caller's ids" {
	needs_other_ids
	unshare -U --map-auto --map-root-user sh -c 'chown 1:1 root/bin/attack && chmod 6755 root/bin/attack'
	for options in "" --fakeroot --read-only; do
		# shellcheck disable=SC2086
		run inside $options -- attack ids
		attack_fails
	done
	mkdir own
	cp "$ATTACK" own/setuid
	unshare -U --map-auto --map-root-user sh -c 'chown 1:1 own/setuid && chmod 6755 own/setuid'
	run inside -v ./own:/own -- /own/setuid ids
	attack_fails
	unshare -U --map-auto --map-root-user chown -R 0:0 own root
}

@test "escape: supplementary groups stay, and cannot be dropped to get around a rule against them" {
	needs_other_ids
	# 5 of the caller's subordinate groups: it may enter "allowed", and "denied" denies it alone.
	mkdir allowed denied
	touch allowed/file denied/file
	run -0 unshare -U --map-auto --map-root-user sh -c 'chgrp 5 allowed denied && chmod 2070 allowed && chmod 0705 denied &&
		chown 1 allowed denied && exec setpriv --groups 5 mlrun exec -w / -v ./allowed:/a -v ./denied:/d rootfs:root sh -c "
			ls /a; ls /d; attack ids; ls /d; true"'
	unshare -U --map-auto --map-root-user sh -c 'chown 0:0 allowed denied && chmod 700 allowed denied'
	assert_line --index 0 file
	assert_equal "$(grep -c '^file$' <<<"$output")" 1
	assert_line --partial "refused drop all groups"
	refute_output --partial "WORKED drop all groups"
	refute_output --partial "WORKED set groups"
}

@test "escape: device nodes of the image are dead" {
	[ "$(id -u)" = 0 ] || skip "only root can make device nodes"
	chmod 755 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "$BATS_TEST_TMPDIR" "$TMPDIR"
	mknod -m 666 root/mem c 1 1
	mknod -m 666 root/zero c 1 5
	chmod -R a+rX root
	for options in "" --read-only --fakeroot; do
		# shellcheck disable=SC2086
		run setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/ mlrun exec -w / $options rootfs:root ls -l /zero
		assert_output --partial crw-rw-rw-
		# shellcheck disable=SC2086
		run setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/ mlrun exec -w / $options rootfs:root head -c 1 /zero
		assert [ "$status" -ne 0 ]
		assert_output --partial "Permission denied"
	done
}

@test "escape: there is no way out of the root, not even for a fake root that may chroot" {
	run inside -- attack chroot "$OUTSIDE/secret"
	attack_fails
	needs_ordinary_user # whose fake root may chroot
	run inside --fakeroot -- attack chroot "$OUTSIDE/secret"
	assert_output --partial "refused climb out of a chroot"
	assert_equal "$(grep WORKED <<<"$output")" "WORKED chroot"
	assert_equal "$status" 0
}

@test "escape: where the root cannot be pivoted away, as on a node's initramfs, nothing leads to it either" {
	unpivoted
	run inside -- sh -c 'ls -d /bin/attack; cd ..; pwd; ls -d "$1"' sh "$OUTSIDE"
	assert_line /bin/attack
	refute_line "$OUTSIDE"
	run inside -- attack chroot "$OUTSIDE/secret"
	attack_fails
	needs_ordinary_user
	run inside --fakeroot -- attack chroot "$OUTSIDE/secret"
	assert_equal "$(grep WORKED <<<"$output")" "WORKED chroot"
	mkdir ro hidden
	touch hidden/below
	for options in "" --fakeroot --read-only "--init --fakeroot"; do
		# shellcheck disable=SC2086
		run inside $options -v ./ro:/ro:ro -v ./hidden:/mnt -- attack mounts /ro "$HOME" "$OUTSIDE/secret"
		attack_fails
	done
}

@test "escape: no mount can be undone or made writable, not even in a nested user namespace" {
	needs_ordinary_user
	mkdir ro hidden
	touch hidden/below
	for options in "" --fakeroot --read-only --pid "--init --fakeroot" "--net=none --ipc=private --hostname x --fakeroot"; do
		# shellcheck disable=SC2086
		run inside $options -v ./ro:/ro:ro -v ./hidden:/mnt -- attack mounts /ro "$HOME" "$OUTSIDE/secret"
		attack_fails
		assert_output --partial nested
		assert_equal "$(ls -A ro)" ""
	done
	run inside --read-only -- attack mounts / "$HOME" "$OUTSIDE/secret"
	attack_fails
}

@test "escape: other processes of the user's cannot be looked into or written to" {
	local victim=$BASHPID
	run inside -- attack process "$victim"
	attack_fails
	run inside --fakeroot -- attack process "$victim"
	attack_fails
	inside -- sh -c 'echo >'"$BATS_TEST_TMPDIR"'/up; sleep 100' 3>&- &
	victim=$!
	until_true test -e "$BATS_TEST_TMPDIR/up"
	run inside --fakeroot -- attack process "$victim"
	kill "$victim"
	wait "$victim" || :
	attack_fails
}

@test "escape: mlrun's own process in a PID namespace cannot be looked into, and no other's is there" {
	for options in --init "--init --fakeroot"; do
		# shellcheck disable=SC2086
		run inside $options -- attack process 1
		attack_fails
		# shellcheck disable=SC2086
		run inside $options -- sh -c 'readlink /proc/1/exe; : 2>/dev/null >>/proc/1/exe && echo opened'
		refute_output
		# shellcheck disable=SC2086
		run inside $options -- attack process "$$"
		attack_fails
	done
	run -0 inside --pid -- sh -c 'cd /proc; echo [0-9]*'
	assert_output 1
}

# Those who come later are in the same user namespace, and mlrun's program is theirs until they execute.
@test "escape: processes of a shared container do not get hold of mlrun while others join (CVE-2016-9962)" {
	local i tag=escape.$$.$RANDOM
	cd / # a directory that is mounted would be a reason for another root
	mlrun exec -w / --join-tag "$tag" "rootfs:$TMPDIR/root" attack spy mlrun "$OUTSIDE/secret" "$BATS_TEST_TMPDIR/go" \
		>"$TMPDIR/spied" 3>&- &
	until_true test -s "$TMPDIR/spied"
	for i in $(seq "$(rounds 200)"); do mlrun exec -w / --join-tag "$tag" "rootfs:$TMPDIR/root" true; done
	touch "$BATS_TEST_TMPDIR/go"
	status=0
	wait $! || status=$?
	output=$(cat "$TMPDIR/spied")
	assert_output --regexp '[1-9][0-9]+ rounds'
	attack_fails
}

@test "escape: a container that is joined has none of its files loaded by mlrun" {
	local pid i f
	for f in etc/nsswitch.conf etc/ld.so.preload etc/ld.so.cache usr/lib/locale/locale-archive \
		usr/share/locale/de/LC_MESSAGES/libc.mo lib/x86_64-linux-gnu/libnss_evil.so.2 lib/x86_64-linux-gnu/libgcc_s.so.1; do
		mkdir -p "$(dirname "root/$f")"
		mkfifo "root/$f"
	done
	mlrun exec -w / rootfs:root sh -c 'rm -f /etc/passwd /etc/group; mkfifo /etc/passwd /etc/group; echo >"$0/up"; exec sleep 100' \
		"$BATS_TEST_TMPDIR" 3>&- &
	pid=$!
	until_true test -e "$BATS_TEST_TMPDIR/up"
	export LC_ALL=de_DE.UTF-8 LANG=de_DE.UTF-8
	try timeout 300 mlrun exec -w / --join "$pid" true
	first=$status
	try timeout 300 mlrun exec -w / --join "$pid" no-such-command
	kill "$pid"
	wait "$pid" || :
	assert_equal "$first" 0
	assert_equal "$status" 127
}

@test "escape: what a container keeps of its root leads the next start nowhere outside" {
	mkdir data
	image kept --config.env A=b
	for target in "$OUTSIDE" "../../../../../..$OUTSIDE" /proc/self/root / ..; do
		try mlrun exec -w / --write=hostile kept sh -c 'for f in root mnt opt data var srv; do mv /$f /$f.old; ln -s "$0" /$f; done
			rm -f /etc/passwd /etc/resolv.conf; ln -s "$0/new" /etc/passwd; ln -s "$0/secret" /etc/resolv.conf' "$target"
		try timeout 300 mlrun exec -w / --write=hostile -v ./data:/data/deep -v ./data:/opt/x --tmpfs /mnt/y kept \
			sh -c "echo x >/data/deep/written; cat $OUTSIDE/secret"
		refute_output --partial "host's secret"
		outside_is_untouched
		try mlrun rm hostile
	done
	for name in ../hostile /hostile . .. a/b $'a\nb' $'\e[31m'; do
		run -125 mlrun exec --write="$name" kept true
		no_controls
	done
}

# --- what was asked for (CVE-2025-65105) --------------------------------------------------

@test "escape: a confinement that cannot be had is an error, and the command does not run (CVE-2025-65105)" {
	needs_ordinary_user
	local kind option
	for pair in "pid --pid" "pid --init" "net --net=none" "ipc --ipc=private" "uts --hostname=x"; do
		read -r kind option <<<"$pair"
		run -125 unshare -Ur sh -c "echo 0 >/proc/sys/user/max_${kind}_namespaces; exec mlrun exec -w / $option rootfs:root echo ran"
		refute_line ran
		assert_output --partial "limit on namespaces"
	done
	for option in --cap-drop=NO_SUCH --ulimit=nofile=999999999 --ulimit=nosuch=1 --memory=-1 --cpus=x --net=other \
		--ipc=other --user=x --preserve-fd=999 --mount=type=bind,src=/tmp,dst=/x,nosuch; do
		run -125 inside "$option" -- echo ran
		refute_line ran
	done
	for option in "--security-opt seccomp=x" --privileged "--cap-add SYS_ADMIN" "--userns auto" --apparmor=x; do
		# shellcheck disable=SC2086
		run -125 inside $option -- echo ran
		refute_line ran
	done
}

@test "escape: nothing that changes the machine can be opened" {
	needs_ordinary_user
	for options in "" --fakeroot --pid "--init --fakeroot" "--ipc=private --hostname x --fakeroot" "--user 0" "--net=none"; do
		# shellcheck disable=SC2086
		run inside $options -- attack kernel
		attack_fails
	done
}

# --- programs of the host that meet the image (CVE-2019-14271, CVE-2025-23266) ------------

# mlrun's own code, its libc and what that loads by name, would hang on these.
@test "escape: once inside, mlrun opens no file of the image but the command's (CVE-2019-14271)" {
	local f
	for f in etc/nsswitch.conf etc/ld.so.preload etc/ld.so.cache etc/host.conf etc/gai.conf etc/selinux/config \
		usr/lib/locale/locale-archive usr/share/locale/locale.alias usr/lib/locale/de_DE.UTF-8/LC_MESSAGES/SYS_LC_MESSAGES \
		usr/share/locale/de/LC_MESSAGES/libc.mo usr/lib/x86_64-linux-gnu/gconv/gconv-modules.cache \
		usr/lib/x86_64-linux-gnu/gconv/gconv-modules usr/lib/gconv/gconv-modules lib/x86_64-linux-gnu/libnss_evil.so.2 \
		lib/x86_64-linux-gnu/libgcc_s.so.1 etc/mlrun/mlrun.conf; do
		mkdir -p "$(dirname "root/$f")"
		mkfifo "root/$f"
	done
	rm -f root/etc/passwd root/etc/group
	mkfifo root/etc/passwd root/etc/group
	export LC_ALL=de_DE.UTF-8 LANG=de_DE.UTF-8
	run -0 timeout 300 mlrun exec -w / rootfs:root true
	run -127 timeout 300 mlrun exec -w / rootfs:root no-such-command
	run -126 timeout 300 mlrun exec -w / rootfs:root /etc
	run -0 timeout 300 mlrun exec -w / --fakeroot --read-only rootfs:root true
}

# The servers that have a file below this directory open: other tests have theirs.
servers_of() {
	local p

	for p in $(pgrep -u "$(id -u)" -x mlrun-squashfus); do
		readlink "/proc/$p/fd/"* 2>/dev/null | grep -q "^$1/" && echo "$p"
	done
	true
}

has_one_server() {
	server=$(servers_of "$MLRUN_STORE")
	[[ $server =~ ^[0-9]+$ ]]
}

@test "escape: the server of a squashfs image has nothing of the caller's or the image's (CVE-2025-23266)" {
	needs_squashfs
	needs_fuse
	local pid i
	layer_tar tiny.tar root
	image_layout sq.oci tiny.tar
	image_config sq.oci --config.env LD_PRELOAD=/tmp/evil.so --config.env SECRET=image --config.workingdir /tmp
	mlrun import -q --format=squashfs oci:sq.oci sq
	SECRET=caller mlrun exec -w / sq sh -c 'exec sleep 100' 9<"$OUTSIDE" 3>&- &
	pid=$!
	until_true runs "$pid" sleep 100
	until_true has_one_server # what looks into the image before the command runs may be there as well
	run -0 od -c "/proc/$server/environ"
	environ=$output
	cwd=$(readlink "/proc/$server/cwd")
	fds=$(for f in "/proc/$server/fd/"*; do readlink "$f"; done)
	maps=$(cat "/proc/$server/maps")
	kill "$pid"
	wait "$pid" || :
	assert_equal "$environ" 0000000
	assert_equal "$cwd" /
	run -0 echo "$fds"
	refute_output --partial "$OUTSIDE"
	refute_line --regexp '^(pipe|/dev/pts|/dev/tty)'
	run -0 echo "$maps"
	refute_output --partial evil
}

# --- words of the image -------------------------------------------------------------------

@test "escape: names and paths with line ends make no entry in passwd" {
	HOME=$'/x\nevil:x:0:0::/:/bin/sh' USER=$'a\nevil:x:0:0' LOGNAME=evil run -0 inside -- cat /etc/passwd /etc/group
	refute_output --partial evil
	HOME=/x:/y run -0 inside -- grep "^$(id -un):" /etc/passwd
	assert_equal "$(tr -dc : <<<"$output")" "::::::"
}

# The image's configuration as jq makes it from what umoci wrote.
config_edited() {
	local dir=$1 manifest config new

	manifest=$dir/blobs/sha256/$(jq -r '.manifests[0].digest' "$dir/index.json" | cut -d: -f2)
	config=$dir/blobs/sha256/$(jq -r .config.digest "$manifest" | cut -d: -f2)
	jq -c "$2" "$config" >config.json
	new=$(sha256_of config.json)
	cp config.json "$dir/blobs/sha256/${new#sha256:}"
	jq -c --arg d "$new" --argjson n "$(stat -c %s config.json)" '.config.digest = $d | .config.size = $n' \
		"$manifest" >manifest.json
	new=$(sha256_of manifest.json)
	cp manifest.json "$dir/blobs/sha256/${new#sha256:}"
	jq -c --arg d "$new" --argjson n "$(stat -c %s manifest.json)" '.manifests[0].digest = $d | .manifests[0].size = $n' \
		"$dir/index.json" >index.json
	cp index.json "$dir/index.json"
}

@test "escape: variables of the image with NUL, no name or no value do no harm, line ends stay in their value" {
	layer_tar tiny.tar root
	image_layout env.oci tiny.tar
	config_edited env.oci '.config.Env = ["PATH=/bin", "=x", "NOVALUE", "", "LINES=a\nB=c", " S P=1", "LAST=yes"]'
	mlrun import -q oci:env.oci env
	unset B
	run -0 mlrun exec -w / env sh -c 'echo "$LAST $LINES [$B]"'
	assert_output $'yes a\nB=c []'
	config_edited env.oci '.config.Env = ["X=a\u0000LD_PRELOAD=/evil"]'
	run mlrun import -q oci:env.oci nul
	if [ "$status" -eq 0 ]; then
		run mlrun exec -w / nul env
		refute_line LD_PRELOAD=/evil
	else
		assert_equal "$status" 125
	fi
}

@test "escape: a script that is its own interpreter, and a command without a name, are errors" {
	printf '#!/bin/own\n' >root/bin/own
	printf '#!/bin/ping2\n' >root/bin/ping1
	printf '#!/bin/ping1\n' >root/bin/ping2
	printf '#!' >root/bin/nothing
	printf '#!%05000d\n' 1 >root/bin/long
	chmod 755 root/bin/{own,ping1,ping2,nothing,long}
	for name in own ping1 nothing long /bin/own; do
		run timeout 300 mlrun exec -w / rootfs:root "$name"
		assert [ "$status" -eq 126 ]
	done
	run mlrun exec -w / rootfs:root ''
	assert [ "$status" -eq 125 ]
	layer_tar tiny.tar root
	image_layout no.oci tiny.tar
	config_edited no.oci '.config.Entrypoint = [""] | .config.Cmd = ["", "x"]'
	mlrun import -q oci:no.oci no
	run -125 mlrun exec -w / no
}

@test "escape: GPUs come into an image of another user's, and nothing of it changes" {
	load gpu
	[ "$(id -u)" = 0 ] || skip "only root can make an image of another user's"
	driver_tree ubuntu
	mv root/lib root/usr/lib 2>/dev/null || mkdir -p root/usr/lib
	ln -s usr/lib root/lib
	chmod 755 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "$BATS_TEST_TMPDIR" "$TMPDIR"
	chmod -R a+rX root "$MLRUN_GPU_ROOT"
	find root | sort >before
	for options in "" --read-only --fakeroot; do
		# shellcheck disable=SC2086
		run -0 setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/ \
			mlrun exec -w / --gpu=all $options rootfs:root ls /dev /usr/local/nvidia/lib64
		assert_line nvidia0
		assert_line libcuda.so.1
	done
	find root | sort | diff before -
}
