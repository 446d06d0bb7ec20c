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

@test "space: a file system without a size, as ramfs, has room" {
	needs_small
	run -0 small size=0 sh -c "TMPDIR=$PWD/small mlrun doctor; mlrun pull --store small/store $REGISTRY/big"
	assert_output --partial "'$PWD/small' has no limit but the machine's memory"
	refute_output --regexp '(no room|MB left, which may|[^0-9]0 MB left)'
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

# same_tar OUT BYTES NAME...: files of so many bytes each, which compress well but leave no holes
same_tar() {
	local out=$1 bytes=$2 name

	shift 2
	mkdir same
	for name; do head -c "$bytes" /dev/zero | tr '\0' x >"same/$name"; done
	tar -C same -cf "$out" .
	rm -r same
}

@test "space: a file that is larger than what is free is refused before it fills the disk" {
	needs_small
	same_tar large.tar 64000000 a
	image_push_tar large large.tar
	# shellcheck disable=SC2016
	run -125 small size=50m sh -c 'mlrun pull --format layers --store small/store "$0"; status=$?; find small/store/layers small/store/tmp small/store/images -mindepth 1; exit $status' "$REGISTRY/large"
	assert_line --regexp "^mlrun: pull '.*': no room in store '$PWD/small/store': layer sha256:.*: '(\./)?a': 64 MB, and the file system has (1[6-9]|2[0-9]|3[0-3]) MB left"
	assert_line "hint: mlrun prune or mlrun rm frees space; --store or MLRUN_STORE names another place"
	refute_line --partial small/store/
	# Holes need no room, wherever they are and whether the tar has them written out.
	mkdir holes
	(head -c 20000000 /dev/zero | tr '\0' x; head -c 60000000 /dev/zero; echo end) >holes/a
	tar -C holes -cf holes.tar .
	image_push_tar holes holes.tar
	# shellcheck disable=SC2016
	run -0 small size=50m sh -c 'mlrun pull -q --format layers --store small/store "$0" && du -m small/store/layers | tail -n 1 | cut -f1 && stat -c %s small/store/layers/*/tree/a' "$REGISTRY/holes"
	assert_line 80000004
	assert_line --regexp '^(19|2[0-9])$'
}

@test "space: a disk that is full half-way leaves the store as it was" {
	needs_small
	same_tar many.tar 10000000 {1..20}
	image_push_tar many many.tar
	image_tiny tiny
	# shellcheck disable=SC2016
	run -125 small size=150m sh -c '
		mlrun pull -q --format layers --store small/store "$1" || exit 1
		find small/store -not -path "*/unsynced/*" | sort >before
		mlrun pull --format layers --store small/store "$2"; status=$?
		find small/store -not -path "*/unsynced/*" | sort | diff before - >&2
		mlrun exec --store small/store "$1" sh -c "echo \$TINY"
		exit $status' sh "$REGISTRY/tiny" "$REGISTRY/many"
	assert_output --partial "no room in store '$PWD/small/store': layer sha256:"
	assert_output --regexp "write at byte [0-9]+: No space left on device"
	assert_line yes
	refute_line --regexp '^[<>]'
}
