# What does not fit is refused before a byte is fetched, what may not fit is told.
load common

setup_file() {
	registry_start
	mkdir "$BATS_FILE_TMPDIR/big"
	head -c 8000000 /dev/urandom >"$BATS_FILE_TMPDIR/big/data"
	layer_tar "$BATS_FILE_TMPDIR/big.tar" "$BATS_FILE_TMPDIR/big"
	image_push_tar big "$BATS_FILE_TMPDIR/big.tar"
}

teardown_file() { registry_stop; }

setup() {
	common_setup
	fault=$top_builddir/tests/fault/fault.so
	export ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0
}

needs_small() { unshare -Urm mount -t tmpfs none "$TMPDIR" || skip "no tmpfs in user namespaces here"; }

# small OPTIONS COMMAND...: COMMAND where ./small is a file system mounted with these options.
small() {
	mkdir small
	# shellcheck disable=SC2016
	unshare -Urm sh -c 'mount -t tmpfs -o "$1" none small && shift && "$@"' sh "$@"
}

layers_asked_for() { registry_requests '^GET .*/blobs/' | wc -l; }

@test "space: layers that do not fit compressed are refused before a byte of them comes" {
	needs_small
	before=$(layers_asked_for)
	run -125 small size=4m mlrun pull --store small/store "$REGISTRY/big"
	assert_output --regexp "no room in store '$PWD/small/store': the layers have 8 MB compressed, the file system of '$PWD/small/store' has [34] MB left"
	assert_output --partial "hint: mlrun prune or mlrun rm frees space"
	assert_equal $(($(layers_asked_for) - before)) 1 # the configuration
}

@test "space: below three times the compressed size a warning is given" {
	needs_small
	run -0 small size=20m mlrun pull --format layers --store small/store "$REGISTRY/big"
	assert_output --regexp "the file system of '.*' has [12][0-9] MB left, which may not be enough for 8 MB of compressed layers"
	mkdir other && cd other
	run -0 small size=100m mlrun pull --format layers --store small/store "$REGISTRY/big"
	refute_output --partial "may not be enough"
}

@test "space: few free inodes are warned of, and the way out is told" {
	needs_small
	run -0 small size=100m,nr_inodes=300 mlrun pull --format layers --store small/store "$REGISTRY/big"
	assert_output --regexp "has room for 2[0-9]* more files, and the image may have about 666; --format squashfs makes one file of it"
}

@test "space: quotas count" {
	export LD_PRELOAD=$fault
	FAULT_QUOTA=10000:3000000:0:0 run -125 mlrun pull "$REGISTRY/big"
	assert_output --partial "the layers have 8 MB compressed, the quota of user of '$MLRUN_STORE' has 7 MB left"
	FAULT_QUOTA=20000:3000000:0:0 run -0 mlrun pull --format layers "$REGISTRY/big"
	assert_output --partial "the quota of user of '$MLRUN_STORE' has 17 MB left, which may not be enough"
	mlrun rm "$REGISTRY/big"
	FAULT_QUOTA=0:3000000:500:400 run -0 mlrun pull --format layers "$REGISTRY/big"
	assert_output --partial "the quota of user of '$MLRUN_STORE' has room for 100 more files"
}
