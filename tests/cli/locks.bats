# Locks between processes where flock(2) fails or means nothing, and between nodes.
load common

setup_file() {
	registry_start
	image_tiny tiny
	# Big enough that pulls of it meet.
	mkdir "$BATS_FILE_TMPDIR/big"
	head -c 30000000 /dev/urandom >"$BATS_FILE_TMPDIR/big/data"
	layer_tar "$BATS_FILE_TMPDIR/big.tar" "$BATS_FILE_TMPDIR/big"
	image_push_tar big "$BATS_FILE_TMPDIR/big.tar"
	image_push_tar other "$BATS_FILE_TMPDIR/big.tar" "$BATS_FILE_TMPDIR/tiny.tar"
}

teardown_file() { registry_stop; }

setup() {
	common_setup
	fault=$top_builddir/tests/fault/fault.so
	export ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0
}

teardown() {
	local mount

	for mount in "$BATS_TEST_TMPDIR/node-a" "$BATS_TEST_TMPDIR/node-b"; do
		! mountpoint -q "$mount" 2>/dev/null || fusermount3 -u "$mount" 2>/dev/null ||
			fusermount -u "$mount" 2>/dev/null || umount -l "$mount"
	done
	common_teardown
}

# Eight pulls of big at once, started by "$@".
eight_pulls() {
	local pids=() pid status=0

	for _ in 1 2 3 4 5 6 7 8; do
		"$@" mlrun pull -q "$REGISTRY/big" 3>&- &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || status=$?
	done
	return "$status"
}

# How often the layer of big was asked for.
fetched() {
	local layer

	layer=$(curl -fsS -H 'Accept: application/vnd.oci.image.manifest.v1+json' \
		"http://$REGISTRY/v2/big/manifests/latest" | jq -r '.layers[0].digest')
	registry_requests "GET /v2/big/blobs/$layer" | wc -l
}

without_flock() {
	local before after

	before=$(fetched)
	export FAULT_FLOCK=$1
	run -0 eight_pulls env LD_PRELOAD="$fault"
	after=$(fetched)
	assert_equal $((after - before)) 1
	run -0 env LD_PRELOAD="$fault" mlrun rm "$REGISTRY/big"
	assert_equal "$(ls "$MLRUN_STORE/layers" "$MLRUN_STORE/tmp" "$MLRUN_STORE/holds")" \
		"$(printf '%s\n' "$MLRUN_STORE/holds:" token '' "$MLRUN_STORE/layers:" '' "$MLRUN_STORE/tmp:")"
}

@test "locks: eight pulls download once where flock fails" { without_flock ENOSYS; }

@test "locks: eight pulls download once where flock is granted to everybody" { without_flock ok; }

@test "locks: running an image, and pulling one that has not changed, wait for nobody and make only a lease" {
	needs_ordinary_user
	mlrun pull -q "$REGISTRY/tiny"
	sleep 600 3>&- &
	sleeper=$!
	name=$(store_hold_of $sleeper)
	mv "$MLRUN_STORE/holds/$name" "$MLRUN_STORE/holds/r-${name#a-}" # somebody is removing
	rm "$MLRUN_STORE/holds/token"
	chmod a-w "$MLRUN_STORE"/{,holds,tmp,images,facts,layers,blobs,blobs/sha256}
	run -0 timeout 120 mlrun exec "$REGISTRY/tiny" sh -c 'echo $TINY'
	assert_output yes
	run -0 timeout 120 mlrun pull "$REGISTRY/tiny"
	assert_output --partial "is up to date"
	assert_equal "$(ls "$MLRUN_STORE/leases" | wc -l)" 1
	chmod u+w "$MLRUN_STORE"/{,holds,tmp,images,facts,layers,blobs,blobs/sha256}
	kill $sleeper
}

# --- two nodes: two FUSE mounts of one directory, two host names ---------------

needs_two_nodes() {
	local name

	[ "$(id -u)" = 0 ] || skip "root alone can mount FUSE here and give itself a host name"
	[ -n "$(command -v bindfs)" ] || skip "no bindfs"
	[ -e /dev/fuse ] || skip "no /dev/fuse"
	unshare -u true || skip "no UTS namespaces here"
	mkdir "$BATS_TEST_TMPDIR/real"
	chmod 711 "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR"/test "$BATS_TEST_TMPDIR" # for an ordinary user
	for name in a b; do
		mkdir "$BATS_TEST_TMPDIR/node-$name"
		bindfs -o allow_other "$BATS_TEST_TMPDIR/real" "$BATS_TEST_TMPDIR/node-$name" ||
			skip "bindfs cannot mount here"
	done
	chown -R 65534:65534 "$BATS_TEST_TMPDIR/real" "$HOME" "$TMPDIR"
}

# on_node a|b COMMAND...
on_node() {
	local node=$1

	shift
	export NODE=$node MLRUN_STORE=$BATS_TEST_TMPDIR/node-$node/store
	# shellcheck disable=SC2016
	exec unshare -u sh -c 'hostname "node-$NODE" && exec setpriv --reuid=65534 --regid=65534 \
		--clear-groups "$@"' sh "$@"
}

node() { (on_node "$@"); }

@test "locks: pulls on two nodes download once, while images are removed" {
	needs_two_nodes
	node a mlrun pull --format layers -q "$REGISTRY/tiny"
	before=$(fetched)
	pids=()
	for i in 1 2 3 4 5 6 7 8; do
		on_node "$(cut -c$((i % 2 + 1)) <<<ab)" mlrun pull --format layers -q "$REGISTRY/big" 3>&- &
		pids+=($!)
	done
	on_node b mlrun rm "$REGISTRY/tiny" 3>&- &
	pids+=($!)
	for pid in "${pids[@]}"; do
		wait "$pid"
	done
	assert_equal $(($(fetched) - before)) 1
	run -0 node a mlrun images --json
	assert_equal "$(jq -r '.[].name' <<<"$output")" "$REGISTRY/big:latest"
	assert_equal "$(ls "$BATS_TEST_TMPDIR/real/store/layers" | wc -l)" 1
	assert_equal "$(ls "$BATS_TEST_TMPDIR/real/store/tmp")" ""
	assert_equal "$(ls "$BATS_TEST_TMPDIR/real/store/holds")" token
}

@test "locks: a name that another process replaces just then is there" {
	needs_two_nodes
	node a mlrun pull --format layers -q "$REGISTRY/tiny"
	on_node b /usr/bin/python3 - "$BATS_TEST_TMPDIR/node-b/store" 3>&- <<-'EOF' &
		import glob, os, sys
		name, = glob.glob(sys.argv[1] + "/images/*")
		new = sys.argv[1] + "/tmp/new"
		text = open(name).read()
		while True:
		    with open(new, "w") as f:
		        f.write(text)
		    os.rename(new, name)
	EOF
	storm=$!
	for _ in {1..60}; do
		run -0 node b mlrun inspect "$REGISTRY/tiny"
	done
	kill "$storm"
}

# Start a pull of big on node a and stop it while it unpacks; its pid is in $producer.
stop_in_the_middle() {
	node a mlrun pull --format layers -q "$REGISTRY/tiny" # makes the store
	for _ in {1..20}; do
		on_node a mlrun pull --format layers -q "$REGISTRY/big" 2>"$BATS_TEST_TMPDIR/said" 3>&- &
		producer=$!
		until has_lock || is_gone "$producer"; do sleep 0.01; done
		kill -STOP "$producer" && has_lock && return
		kill -CONT "$producer" || true # it was faster
		wait "$producer"
		node a mlrun rm "$REGISTRY/big"
	done
	fail "nothing was stopped in the middle"
}

has_lock() { [ -n "$(find "$BATS_TEST_TMPDIR/real/store/tmp" -name '*.lock')" ]; }

@test "locks: a producer killed on another node is waited out, and its work taken over" {
	needs_two_nodes
	export MLRUN_STALE_SECONDS=3
	stop_in_the_middle
	kill -KILL "$producer"
	SECONDS=0
	run -0 node b mlrun pull --format layers "$REGISTRY/big"
	assert_output --regexp "waiting for process [0-9]+ on 'node-a', which is making layer sha256:"
	assert [ "$SECONDS" -ge 2 ]
	assert [ "$SECONDS" -lt 300 ]
	assert_equal "$(ls "$BATS_TEST_TMPDIR/real/store/tmp")" ""
	cmp "$BATS_FILE_TMPDIR/big/data" "$BATS_TEST_TMPDIR"/real/store/layers/*/tree/data
}

@test "locks: a producer that stood still for long does no harm when it goes on" {
	needs_two_nodes
	export MLRUN_STALE_SECONDS=2
	stop_in_the_middle
	run -0 node b mlrun pull --format layers -q "$REGISTRY/big"
	kill -CONT "$producer"
	status=0
	wait "$producer" || status=$?
	assert_equal "$status" 125
	run -0 cat "$BATS_TEST_TMPDIR/said"
	assert_output --partial "was suspended for over"
	assert_output --partial "hint: run it again"
	cmp "$BATS_FILE_TMPDIR/big/data" "$BATS_TEST_TMPDIR"/real/store/layers/*/tree/data
	run -0 node a mlrun pull --format layers "$REGISTRY/big"
	assert_output --partial "is up to date"
	assert_equal "$(ls "$BATS_TEST_TMPDIR/real/store/tmp")" ""
}

@test "locks: a container of another node of the same name keeps its image" {
	needs_squashfs
	needs_two_nodes
	node a mlrun pull --format squashfs -q "$REGISTRY/tiny"
	manifest=$(basename "$BATS_TEST_TMPDIR"/real/store/facts/*.json .json)
	lease=$BATS_TEST_TMPDIR/real/store/leases/$manifest.node-a.00000000-0000-0000-0000-000000000000.1.1.1
	touch "$lease"
	chown 65534:65534 "$lease"
	run -125 node a mlrun rm "$REGISTRY/tiny"
	assert_output --partial "was in use by process 1 on 'node-a' at "
	assert_output --partial "there is another 'node-a'"
	assert [ -e "$lease" ]
	run -0 node a mlrun rm --force "$REGISTRY/tiny"
}

@test "locks: a remover of another node that beats is waited for" {
	needs_two_nodes
	export MLRUN_STALE_SECONDS=5
	node a mlrun pull --format layers -q "$REGISTRY/tiny"
	real=$BATS_TEST_TMPDIR/real/store
	remover=r-0123456789abcdef.node-c.$(cat /proc/sys/kernel/random/boot_id).1.4711.1
	mv "$real/holds/token" "$real/holds/$remover"
	# It beats until it is seen, and six seconds more.
	for ((i = 1, left = 12; left > 0; i++)); do
		sleep 0.5
		echo "$i" >"$real/holds/$remover"
		! grep -qs "waiting for process 4711" said || left=$((left - 1))
		[ "$left" -gt 0 ] || touch last
	done 3>&- &
	PIDS+=($!)
	node b mlrun pull --format layers "$REGISTRY/big" >said 2>&1 || fail "$(cat said)"
	assert [ -e last ]
	grep -F "waiting for process 4711 on 'node-c', which is removing images from this store" said
	assert_equal "$(ls "$real/holds")" token
}
