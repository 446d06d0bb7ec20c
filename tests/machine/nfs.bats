#!/usr/bin/env bats
# Two Debian 12 machines whose users' homes and stores lie on an NFS server, the first of them, with root_squash.
# The tests follow each other.
# shellcheck disable=SC2016 # the machine's shell expands

load ../cli/common
load machine

setup_file() {
	MACHINE_MEMORY=2048 machines_start bookworm 2 # pip takes more than one GB
	[ -z "${SKIP_FILE:-}" ] || return 0
	on 1 root '
		mkdir -p /export/home /export/small
		cp -a /home/. /export/home
		mkdir /export/home/ada/work && chown ada: /export/home/ada/work
		mount -t tmpfs -o size=16m,mode=1777 small /export/small
		printf "/export%s *(rw,root_squash,no_subtree_check,fsid=%d)\n" "" 0 /small 1 >/etc/exports
		modprobe nfsd
		mount -t nfsd nfsd /proc/fs/nfsd
		mkdir -p /run/rpcbind /run/sendsigs.omit.d /var/lib/nfs/{v4recovery,sm,sm.bak}
		{ rpcbind -w; exportfs -ra; rpc.statd; rpc.nfsd --grace-time 10 --lease-time 10 8; rpc.mountd; } >/dev/null 2>&1' ||
		return
	make_images || return
	mounts 4.2
}
teardown_file() { machines_stop; }

# Image large of the registry: bytes that do not compress, and a file that tells it. Image many: 1 MB files that do compress.
make_images() {
	local dir=$BATS_FILE_TMPDIR

	tiny_root "$dir/large"
	head -c 60000000 /dev/urandom >"$dir/large/noise"
	echo large >"$dir/large/name"
	layer_tar "$dir/large.tar" "$dir/large"
	image_push_tar large "$dir/large.tar"
	tiny_root "$dir/many"
	yes 2>/dev/null | head -c 30000000 | split -b 1M - "$dir/many/part"
	layer_tar "$dir/many.tar" "$dir/many"
	image_push_tar many "$dir/many.tar"
}

pull_large() { echo "mlrun pull -q --tls-verify=false $GUEST_REGISTRY/large"; }
exec_large() { echo "mlrun exec $GUEST_REGISTRY/large"; }

# mounts VERSION: /home and /small are the server's, on both.
mounts() {
	local path='' node

	[ "$1" != 3 ] || path=/export
	for node in 1 2; do
		on $node root "modprobe nfs; mkdir -p /small; umount /home /small 2>/dev/null || true
			mkdir -p /run/rpcbind; pidof rpcbind >/dev/null || { rpcbind -w; rpc.statd; } >/dev/null 2>&1
			mount -t nfs -o vers=$1 10.9.0.1:$path/home /home
			mount -t nfs -o vers=$1 10.9.0.1:$path/small /small" >&2 || return
	done
}

# first_steps VERSION FORMAT: what a user does in a store there, with images of that format.
first_steps() {
	run -0 on 1 ada "findmnt -n -o FSTYPE,OPTIONS -T ~
		cd work
		printf 'FROM tiny\nRUN echo made >/made && chown 5:5 /made\nRUN cat /made; stat -c %%u /made\n' >Dockerfile
		mlrun import -q /srv/tiny.tar tiny
		mlrun images
		mlrun exec tiny cat /etc/os-release
		mlrun import -q --format=layers /srv/tiny.tar tiny
		mlrun build -q -t mine .
		mlrun exec mine cat /made
		mlrun push -q --tls-verify=false mine $GUEST_REGISTRY/mine
		mlrun run -d --name service mine sleep 600
		mlrun exec --join service echo joined"
	assert_line --partial "vers=$1"
	assert_line --regexp "^localhost/tiny:.* $2 "
	assert_line NAME=tiny
	assert_line made
	assert_line joined
	run -0 on 2 ada "mlrun exec mine cat /made"
	assert_output made
	# By the process or by the service's description, whichever is met first.
	run -125 on 2 ada "mlrun rm mine"
	assert_output --regexp "in use by process|service 'service' needs"
	run -0 on 1 ada "mlrun stop --rm service
		mlrun rm --force mine
		mlrun pull -q --tls-verify=false $GUEST_REGISTRY/mine
		mlrun exec $GUEST_REGISTRY/mine cat /made
		mlrun store verify
		mlrun rm $GUEST_REGISTRY/mine tiny"
	assert_line made
	assert_output --partial 'as they should be'
	refute_output --partial hint:
	run -0 on 1 ada 'mlrun images'
	refute_output --partial latest
}

# Packages of Debian and PyPI reach the machine as they reach this one, whose sources the image's base has.
@test "NFS: recipes/astro is built and runs with store and home there" {
	local recipe=$top_srcdir/recipes/astro

	in_all
	base_image
	mlrun push -q --tls-verify=false mlrun/base "$REGISTRY/base"
	on 2 root "echo '$(grep -v '^nameserver 127[.]' /etc/resolv.conf)' >/etc/resolv.conf"
	run on 2 ada "mkdir -p astro; cd astro
		base64 -d <<<'$(base64 -w 0 "$recipe/Dockerfile")' >Dockerfile
		base64 -d <<<'$(base64 -w 0 "$recipe/light_curve.py")' >light_curve.py
		mlrun build -q --tls-verify=false --build-arg BASE=$GUEST_REGISTRY/base -t astro .
		mlrun exec astro light_curve
		cd; mlrun rm astro $GUEST_REGISTRY/base; rm -r astro"
	assert_success
	assert_line --regexp '^period 5\.36[0-9] days'
}

# leaves_fuse MODE: of /dev/fuse, on both.
leaves_fuse() { on 1 root "chmod $1 /dev/fuse"; on 2 root "chmod $1 /dev/fuse"; }

@test "NFS: version 4.2: import, exec, build, push, services, pull and rm work in a store there" { first_steps 4.2 squashfs; }

@test "NFS: the same with trees, where /dev/fuse is closed" {
	leaves_fuse 600
	first_steps 4.2 layers
}

@test "NFS: version 3: the same with trees" {
	mounts 3
	first_steps 3 layers
}

@test "NFS: version 3: the same with squashfs files" {
	leaves_fuse 666
	first_steps 3 squashfs
	mounts 4.2
}

@test "NFS: an image that the other machine has removed and made again starts, though this one remembers the old trees" {
	local format

	for format in layers dir squashfs; do
		run -0 on 1 ada "mlrun import -q --format=$format /srv/tiny.tar tiny"
		run -0 on 2 ada 'mlrun exec tiny cat /etc/os-release'
		run -0 on 1 ada "mlrun rm --force tiny; mlrun import -q --format=$format /srv/tiny.tar tiny"
		run -0 on 2 ada 'mlrun exec tiny cat /etc/os-release'
		assert_output NAME=tiny
		run -0 on 1 ada 'mlrun rm --force tiny'
	done
}

@test "NFS: exec --write is refused before it begins, and doctor says so" {
	run -0 on 1 ada 'mlrun import -q /srv/tiny.tar tiny'
	run -125 on 1 ada 'mlrun exec --write=mine tiny true'
	assert_output --partial 'hint:'
	run -0 on 1 ada 'mlrun containers'
	refute_line --regexp '^mine'
	run -0 on 1 ada 'mlrun doctor'
	assert_line --regexp "^pass +store .* on nfs"
	assert_line --regexp "^warning +store-writing"
	assert_output --partial ', 0 failures'
}

# both SCRIPT: by ada, on both machines at once.
both() {
	local first

	on 1 ada "$1" >first 2>&1 3>&- &
	first=$!
	on 2 ada "$1" >second 2>&1 || { cat first second; return 1; }
	wait "$first" || { cat first second; return 1; }
	cat first second
}

@test "NFS: two machines pull one image at once, and both run it" {
	run -0 both "$(pull_large); $(exec_large) cat /name"
	assert_output $'large\nlarge'
	run -0 on 1 ada "mlrun store verify; ls .local/share/mlrun/tmp .local/share/mlrun/squash"
	assert_output --partial 'as they should be'
	assert_equal "$(grep -c sqfs <<<"$output")" 2 # large and tiny
}

# runs_on N IMAGE COMMAND: COMMAND in a container of ada's on that machine, which begins when the test calls end N.
# Its output goes to the file runs.
runs_on() {
	on 1 root 'rm -f /export/home/ada/work/{runs,end}'
	on "$1" ada "cd work; mlrun exec $2 sh -c 'touch runs; while [ ! -e end ]; do sleep 0.2; done; $3'" >runs 2>&1 3>&- &
	RUNNING=$!
	PIDS+=("$RUNNING")
	until_on 1 root 'test -e /export/home/ada/work/runs'
}

# On the machine itself: another's new file is seen when its own cache has aged.
end() { on "$1" ada 'touch work/end' && wait "$RUNNING"; }

@test "NFS: an image that the other machine runs stays, also with a clock that is an hour off" {
	local hour

	for hour in -1 +1; do
		on 2 root "date -s '$hour hour'" >/dev/null
		runs_on 1 tiny 'cat /etc/os-release'
		run -125 on 2 ada 'mlrun rm tiny'
		assert_output --partial "in use by process"
		assert_output --partial "on 'node1'"
		run -0 on 2 ada 'mlrun prune; mlrun prune --older-than 0s; mlrun images'
		assert_line --partial localhost/tiny
		on 1 root 'echo 3 >/proc/sys/vm/drop_caches'
		end 1
		run -0 cat runs
		assert_output NAME=tiny
		on 2 root "date -s '$((-hour)) hour'" >/dev/null
	done
	run -0 on 1 ada 'mlrun rm tiny; mlrun import -q /srv/tiny.tar tiny'
}

@test "NFS: a start waits for a server that is away, and what runs goes on" {
	local start

	runs_on 2 tiny 'cat /bin/busybox >/dev/null && echo goes on'
	on 2 root 'echo 3 >/proc/sys/vm/drop_caches'
	start=$SECONDS
	on 1 root 'exportfs -ua; rpc.nfsd 0; (sleep 8; exportfs -ra; rpc.nfsd --grace-time 10 --lease-time 10 8) >/dev/null 2>&1 &'
	run -0 on 2 ada 'mlrun exec tiny cat /etc/os-release'
	assert_output NAME=tiny
	assert [ $((SECONDS - start)) -ge 7 ]
	end 2
	run -0 cat runs
	assert_output 'goes on'
}

@test "NFS: a pull that fills the server's disk says so and leaves nothing, and a smaller one then works" {
	local format

	for format in layers dir; do
		run -125 on 2 ada "MLRUN_STORE=/small/store mlrun pull -q --format=$format --tls-verify=false $GUEST_REGISTRY/many"
		assert_output --partial 'No space left on device'
		assert_output --partial 'hint: mlrun prune'
		run -0 on 2 ada "export MLRUN_STORE=/small/store
			find /small/store -name 'part*'; ls /small/store/{tmp,layers,dir,facts,images} | grep -v :
			mlrun import -q /srv/tiny.tar tiny; mlrun exec tiny cat /etc/os-release; mlrun store verify 2>&1; mlrun rm tiny"
		assert_line NAME=tiny
		assert_line --partial 'as they should be'
		refute_output --partial part0
		refute_line --partial layer-
	done
}

@test "NFS: version 3: an image whose file the server lost fails in the container, and pull brings it back" {
	mounts 3
	runs_on 2 "$GUEST_REGISTRY/large" 'cat /noise >/dev/null || echo lost'
	on 1 root 'cd /export/home/ada/.local/share/mlrun/squash; rm "$(ls -S | head -n 1)"'
	on 2 root 'echo 3 >/proc/sys/vm/drop_caches'
	end 2
	run -0 cat runs
	assert_line lost
	assert_output --regexp 'Input/output error|Stale file handle'
	run -125 on 2 ada "$(exec_large) true"
	assert_line 'hint: mlrun pull fetches it again'
	run -0 on 2 ada "$(pull_large); $(exec_large) cat /name"
	assert_output large
}

@test "NFS: a machine is switched off while it pulls, and the other one pulls and prunes" {
	mounts 4.2
	on 1 ada "mlrun rm --force $GUEST_REGISTRY/large; mlrun prune"
	on 2 ada "$(pull_large)" >off 2>&1 3>&- &
	until_on 1 root '[ "$(du -sm /export/home/ada/.local/share/mlrun/tmp | cut -f1)" -ge 2 ]' # the server's view is no cache
	machine_off 2
	run -0 on 1 ada 'mlrun images'
	refute_output --partial large
	run -0 on 1 root 'ls /export/home/ada/.local/share/mlrun/{holds,tmp}'
	assert_output --partial .node2.
	run -0 on 1 ada "export MLRUN_STALE_SECONDS=10
		$(pull_large); $(exec_large) cat /name; mlrun prune; mlrun store verify"
	assert_line large
	assert_line --partial 'as they should be'
	run -0 on 1 root 'ls /export/home/ada/.local/share/mlrun/{holds,tmp}'
	refute_output --partial .node2.
}
