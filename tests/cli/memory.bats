# Memory of a pull does not grow with the image. Measured on the plain build: sanitizers keep much more.
load common

setup_file() {
	local i layers='' ids='' sep='' config

	if grep -q __asan_init "$top_builddir/bin/mlrun-pull"; then
		skip_file "a sanitized build, which keeps freed memory"
		return
	fi
	# Each layer lies here, in the registry and in the store: some 3 GB in all at the peak.
	if [ "$(df -Pm "$BATS_FILE_TMPDIR" | awk 'NR == 2 { print $4 }')" -lt 5000 ]; then
		skip_file "less than 5 GB free in $BATS_FILE_TMPDIR"
		return
	fi
	registry_start
	for i in 1 2 3; do
		ids="$ids$sep\"$("$top_srcdir/tests/cli/make-big-layer" "$BATS_FILE_TMPDIR/l$i" 350)\""
		layers="$layers$sep{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar+gzip\",
			\"digest\":\"$(registry_blob big "$BATS_FILE_TMPDIR/l$i")\",
			\"size\":$(stat -c %s "$BATS_FILE_TMPDIR/l$i")}"
		rm "$BATS_FILE_TMPDIR/l$i"
		sep=,
	done
	config=$BATS_FILE_TMPDIR/config
	printf '{"architecture":"%s","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":[%s]}}' \
		"$(dpkg --print-architecture)" "$ids" >"$config"
	printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{
		"mediaType":"application/vnd.oci.image.config.v1+json","digest":"%s","size":%d},"layers":[%s]}' \
		"$(registry_blob big "$config")" "$(stat -c %s "$config")" "$layers" >"$BATS_FILE_TMPDIR/manifest"
	registry_manifest big latest "$BATS_FILE_TMPDIR/manifest"
}

teardown_file() { registry_stop; }

# peak_rss COMMAND...: the largest resident set of the command and what it becomes, in KiB.
peak_rss() {
	python3 -c 'import resource, subprocess, sys
status = subprocess.call(sys.argv[1:], stdout=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)' "$@"
}

@test "pull: an image of over 1 GB needs at most 64 MiB of memory" {
	run -0 --separate-stderr peak_rss mlrun pull -q "$REGISTRY/big"
	echo "peak resident set: $output KiB"
	[ "$output" -le 65536 ]
	[ "$(du -sm "$MLRUN_STORE" | cut -f1)" -ge 1050 ]
}

@test "pull: the same to squashfs needs at most 128 MiB" {
	needs_squashfs
	run -0 --separate-stderr peak_rss mlrun pull -q --format=squashfs "$REGISTRY/big"
	echo "peak resident set: $output KiB"
	[ "$output" -le 131072 ]
	run -0 find "$MLRUN_STORE/squash" -name "*.sqfs" -size +0
	assert_output
}
