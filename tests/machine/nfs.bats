#!/usr/bin/env bats
# Two Debian 12 machines whose users' homes and stores lie on an NFS server, the first of them, with root_squash.
# The tests follow each other.

load ../cli/common
load machine

setup_file() {
	machines_start bookworm 2 nfs-kernel-server nfs-common
	[ -z "${SKIP_FILE:-}" ] || return 0
	on 1 root '
		mkdir -p /export/home
		cp -a /home/. /export/home
		printf "/export *(rw,root_squash,no_subtree_check,fsid=0)\n" >/etc/exports
		modprobe nfsd
		mount -t nfsd nfsd /proc/fs/nfsd
		mkdir -p /run/rpcbind /run/sendsigs.omit.d /var/lib/nfs/{v4recovery,sm,sm.bak}
		{ rpcbind -w; exportfs -ra; rpc.statd; rpc.nfsd --grace-time 10 --lease-time 10 8; rpc.mountd; } >/dev/null 2>&1' ||
		return
	mounts 4.2
}
teardown_file() { machines_stop; }

# mounts VERSION: /home is the server's, on both.
mounts() {
	local path=/home

	[ "$1" != 3 ] || path=/export/home
	on 1 root "umount /home 2>/dev/null || true; mount -t nfs -o vers=$1 10.9.0.1:$path /home" >&2 || return
	on 2 root "modprobe nfs; umount /home 2>/dev/null || true
		mkdir -p /run/rpcbind; pidof rpcbind >/dev/null || { rpcbind -w; rpc.statd; } >/dev/null 2>&1
		mount -t nfs -o vers=$1 10.9.0.1:$path /home" >&2
}

# works: what a user does in a store there.
works() {
	run -0 on 1 ada "findmnt -n -o FSTYPE,OPTIONS -T ~
		printf 'FROM tiny\nRUN echo made >/made && chown 5:5 /made\nRUN cat /made; stat -c %%u /made\n' >Dockerfile
		mlrun import -q /srv/tiny.tar tiny
		mlrun exec tiny cat /etc/os-release
		mlrun build -q -t mine .
		mlrun exec mine cat /made
		mlrun push -q --tls-verify=false mine $GUEST_REGISTRY/mine
		mlrun run -d --name service mine sleep 600
		mlrun exec --join service echo joined"
	assert_line --partial "$1"
	assert_line NAME=tiny
	assert_line made
	assert_line joined
	run -0 on 2 ada "mlrun exec mine cat /made; mlrun rm mine 2>&1 || true"
	assert_line made
	assert_output --partial "service 'service' needs"
	run -0 on 1 ada "mlrun stop --rm service; mlrun rm mine
		mlrun pull -q --tls-verify=false $GUEST_REGISTRY/mine; mlrun exec $GUEST_REGISTRY/mine cat /made; mlrun rm $GUEST_REGISTRY/mine tiny; mlrun images"
	assert_line made
	refute_output --partial hint:
}

@test "NFS: version 4.2: import, exec, build, push, services, pull and rm work in a store there" { works vers=4.2; }

@test "NFS: version 3: the same" {
	mounts 3
	works vers=3
}

@test "NFS: exec --write is refused before it begins, and doctor says so" {
	run -0 on 1 ada 'mlrun import -q /srv/tiny.tar tiny'
	run -125 on 1 ada 'mlrun exec --write=mine tiny true'
	assert_output --partial 'hint:'
	run -0 on 1 ada 'mlrun containers; mlrun doctor'
	refute_line --regexp '^mine'
	assert_output --partial '0 failures'
}

# Image large of the registry: bytes that do not compress, and a file that tells it.
make_large() {
	tiny_root large
	head -c 30000000 /dev/urandom >large/noise
	echo large >large/name
	layer_tar large.tar large
	image_push_tar large large.tar
}

# both SCRIPT: by ada, on both machines at once.
both() {
	local first

	on 1 ada "$1" >first 2>&1 &
	first=$!
	on 2 ada "$1" >second 2>&1 || { cat first second; return 1; }
	wait "$first" || { cat first second; return 1; }
	cat first second
}

@test "NFS: two machines pull one image at once, and both run it" {
	make_large
	run -0 both "mlrun pull -q --tls-verify=false $GUEST_REGISTRY/large && mlrun exec $GUEST_REGISTRY/large cat /name"
	[ "$(grep -c '^large' <<<"$output")" = 2 ] || fail "not both: $output"
	run -0 on 1 ada "mlrun verify $GUEST_REGISTRY/large 2>&1; mlrun rm $GUEST_REGISTRY/large"
}

@test "NFS: an image that the other machine runs stays, also with a clock that is an hour off" {
	on 2 root "date -s '+1 hour'" >/dev/null
	on 1 ada 'mlrun exec tiny sh -c "touch ~/runs; while [ ! -e ~/end ]; do sleep 1; done; cat /etc/os-release"' >kept 3>&- &
	until_true on 2 ada 'ls runs'
	run on 2 ada 'mlrun rm tiny; mlrun prune; ls /nothing || true'
	run -0 on 2 ada 'touch end'
	wait $!
	run -0 cat kept
	assert_line NAME=tiny
	on 2 root "date -s '-1 hour'" >/dev/null
	run -0 on 1 ada 'rm runs end; mlrun import -q /srv/tiny.tar tiny'
}

@test "NFS: a pull goes on where a machine that was switched off left it" {
	on 2 ada "mlrun pull -q --tls-verify=false $GUEST_REGISTRY/large" >off 2>&1 3>&- &
	until_true on 1 ada 'du -sm .local/share/mlrun/tmp | grep -v "^[01]\b"'
	machine_off 2
	run -0 on 1 ada "mlrun pull -q --tls-verify=false $GUEST_REGISTRY/large
		mlrun exec $GUEST_REGISTRY/large cat /name; mlrun prune; mlrun doctor"
	assert_line large
	assert_output --partial '0 failures'
}


@test "NFS: a start waits for a server that is away, and goes on" {
	on 1 root 'exportfs -ua; rpc.nfsd 0; (sleep 15; exportfs -ra; rpc.nfsd --grace-time 10 8) >/dev/null 2>&1 &'
	run -0 on 1 ada 'mlrun exec tiny cat /etc/os-release'
	assert_output NAME=tiny
}
