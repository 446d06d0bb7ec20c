# shellcheck shell=bash
# Machines with kernels of their own, emulated by qemu: what hides below the kernel that runs the tests is shown there.
#
#   machines_start SUITE COUNT [WORDS...]   in setup_file: one or two machines of that system, with mlrun in /usr/local; to
#                                           each, words for the end of its kernel's command line
#   machines_stop                           in teardown_file
#   on N USER SCRIPT                        SCRIPT in a login shell of USER's (root, ada, bob) on machine N; it lasts until
#                                           nobody has its output open
#   until_on N USER SCRIPT                  wait until it succeeds; after two minutes the test fails
#   works N                                 what users do works on machine N: ada's containers, RUN, services, kept ones
#   machine_off N                           switch it off, as if the plug were pulled
#
# $GUEST_REGISTRY names the host's registry there, /srv/tiny.tar is an image, and machine N is 10.9.0.N for the others.
# Disks are made by root once, in $CHECK_MACHINES, and what is changed there is forgotten; SUITE.none there says why a disk
# is not.

MACHINE_SECONDS=300 # that a machine may take to boot

machine_disk() {
	local disks=${CHECK_MACHINES:-} suite=$1

	[ -n "$disks" ] || disks=$BATS_FILE_TMPDIR/machines
	if [ ! -d "$disks/$suite" ]; then
		[ ! -e "$disks/$suite.none" ] || { cat "$disks/$suite.none" >&2; return 1; }
		[ "$(id -u)" = 0 ] || { echo "no disk of $suite in \$CHECK_MACHINES, and only root can make one" >&2; return 1; }
		mkdir -p "$disks"
		"$top_srcdir/tests/machine/root" "$disks/$suite" "$suite" >&2 || return
	fi
	echo "$disks/$suite"
}

# What the machines get beside their system, as a tar for /.
machine_files() {
	local root=$BATS_FILE_TMPDIR/files

	make -s -C "$top_builddir" install DESTDIR="$root" prefix=/usr/local >"$BATS_FILE_TMPDIR/install.log" 2>&1 ||
		{ tail "$BATS_FILE_TMPDIR/install.log" >&2; return 1; }
	rm -rf "$root"/usr/local/{bin,libexec/mlrun}/*mltrain* "$root/usr/local/share/mltrain"
	strip "$root"/usr/local/{bin,libexec/mlrun}/* 2>/dev/null || true # what is no program is left as it is
	"$top_srcdir/packaging/libraries" "$root/usr/local" >/dev/null
	tiny_root "$BATS_FILE_TMPDIR/tiny"
	mkdir -p "$root/srv" "$root/etc/ssl/certs"
	layer_tar "$root/srv/tiny.tar" "$BATS_FILE_TMPDIR/tiny"
	# Whom this machine trusts, where its way out has an authority of its own.
	[ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs"
	chmod 755 "$root"
	tar -C "$root" --owner=0 --group=0 -cf "$BATS_FILE_TMPDIR/files.tar" usr srv etc/ssl
}

# machine_boot N DISK COUNT WORDS
machine_boot() {
	local node=$1 disk=$2
	local -a cards=(-netdev "user,id=host,hostfwd=tcp:127.0.0.1:0-:7000" -device "virtio-net-pci,netdev=host,romfile=")

	[ "$3" = 1 ] || cards+=(-netdev "dgram,id=other,local.type=unix,local.path=$BATS_FILE_TMPDIR/card$node,remote.type=unix,remote.path=$BATS_FILE_TMPDIR/card$((3 - node))"
		-device "virtio-net-pci,netdev=other,mac=52:54:00:00:01:0$node,romfile=")
	setpriv --pdeathsig KILL qemu-system-x86_64 -machine pc -cpu max -m "${MACHINE_MEMORY:-1024}" -display none -no-reboot -nodefaults \
		-serial "file:$BATS_FILE_TMPDIR/console$node" -monitor "unix:$BATS_FILE_TMPDIR/monitor$node,server,nowait" \
		-kernel "$disk/kernel" -initrd "$disk/initrd" \
		-append "console=ttyS0 quiet root=/dev/vda ro rootfstype=ext4 init=/usr/local/sbin/init node=$node net.ifnames=0 $4" \
		-drive "if=virtio,file=$disk/disk,format=raw,snapshot=on" \
		-drive "if=virtio,file=$BATS_FILE_TMPDIR/files.tar,format=raw,readonly=on" \
		"${cards[@]}" >"$BATS_FILE_TMPDIR/qemu$node" 2>&1 </dev/null 3>&- 4>&- &
	export "MACHINE_PID$node=$!"
}

# machine_await N: until it serves the test.
machine_await() {
	local node=$1 pid=MACHINE_PID$1 port='' i

	for ((i = 0; i < MACHINE_SECONDS; i++)); do
		kill -0 "${!pid}" 2>/dev/null || break
		[ -n "$port" ] || port=$(machine_port "$node" || true)
		export "MACHINE_PORT$node=$port"
		[ -z "$port" ] || [ "$(on "$node" root 'echo up' 2>/dev/null)" != up ] || return 0
		sleep 1
	done
	cat "$BATS_FILE_TMPDIR"/{qemu,console}"$node" >&2
	return 1
}

# The host's port that leads to the machine's shell, which qemu's monitor knows.
machine_port() {
	echo 'info usernet' | socat -t 5 - "UNIX-CONNECT:$BATS_FILE_TMPDIR/monitor$1" 2>/dev/null |
		awk '/HOST_FORWARD/ { print $4; exit }'
}

on() {
	local port=MACHINE_PORT$1 said

	said=$(printf '%s\n%s\n\0' "$2" "$3" | socat -t 1 STDIO,ignoreeof "TCP:127.0.0.1:${!port}") || return
	[ "$said" = "${said%exit status *}" ] || printf '%s' "${said%exit status *}"
	[ -n "$said" ] && return "${said##*exit status }"
}

until_on() {
	local end=$((SECONDS + 120))

	until on "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || { echo "never: $*"; return 1; }
	done
}

machine_off() {
	local pid=MACHINE_PID$1

	kill -KILL "${!pid}"
	wait "${!pid}" 2>/dev/null || true
}

works() {
	run -0 on "$1" ada 'mkdir -p work; cd work
		printf "FROM tiny\nRUN echo made >/made && rm -r /home && mkdir /home\n" >Dockerfile
		mlrun import -q /srv/tiny.tar tiny
		mlrun exec tiny id -u
		mlrun build -q --no-cache -t mine .
		mlrun exec mine cat /made
		mlrun exec --write=kept tiny touch /a
		mlrun exec --write=kept tiny ls /a
		mlrun containers rm kept
		mlrun run -d --name service tiny sleep 600
		mlrun exec --join service echo joined
		mlrun ps
		mlrun stop --rm service
		mlrun rm mine tiny'
	assert_line 1000
	assert_line made
	assert_line /a
	assert_line joined
	assert_line --regexp ' service +running '
	refute_output --partial hint:
}

machines_start() {
	local suite=$1 count=$2 program disk node

	for program in qemu-system-x86_64 socat patchelf; do
		command -v "$program" >/dev/null || { skip_file "$program is not installed"; return; }
	done
	[ "${sanitizers:-no}" = no ] || { skip_file "run with the plain build"; return; }
	disk=$(machine_disk "$suite" 2>"$BATS_FILE_TMPDIR/disk.log") ||
		{ skip_file "$(tail -n 1 "$BATS_FILE_TMPDIR/disk.log")"; return; }
	machine_files || return
	registry_start
	export GUEST_REGISTRY=10.0.2.2:${REGISTRY##*:}
	for ((node = 1; node <= count; node++)); do machine_boot "$node" "$disk" "$count" "${*:node+2:1}"; done
	for ((node = 1; node <= count; node++)); do
		machine_await "$node" || return
		on "$node" root 'tar -C / -xf /dev/vdb' >&2 || return
	done
}

machines_stop() {
	local pid

	for pid in "${!MACHINE_PID@}"; do kill -KILL "${!pid}" 2>/dev/null || true; done
	registry_stop
}
