# Compressed layers that are kept, and half ones that a later pull goes on with.
load common
load fake

setup() {
	common_setup
	layer=$(jq -r '.layers | max_by(.size) | .digest' \
		"$BATS_FILE_TMPDIR/layout/blobs/sha256/$(jq -r '.manifests[0].digest' "$BATS_FILE_TMPDIR/layout/index.json" | cut -d: -f2)")
	spool=$MLRUN_STORE/tmp/spool-${layer#sha256:}
}

# A pull that is killed when 1,500,000 bytes of the layer have come.
killed_in_the_middle() {
	fake --stall 1500000 --cuts 1000
	mlrun pull -q --spool 1MB "$registry/x" 3>&- &
	until [ "$(stat -c %s "$spool" 2>/dev/null || echo 0)" -ge 1500000 ]; do sleep 0.05; done
	kill -KILL $!
	wait $! || true
	fake_stop
}

@test "spool: a later pull goes on at the byte where an earlier one was killed" {
	killed_in_the_middle
	fake
	run -0 mlrun pull -q --spool 1MB "$registry/x"
	grep -q "GET .*$layer.* range=bytes=1500000-" "$log"
	refute grep -q "GET .*$layer.* range=-" "$log"
	assert_equal "$(ls "$MLRUN_STORE/tmp")" ""
	run -0 mlrun store verify
}

@test "spool: goes on as well for a squashfs file" {
	needs_squashfs
	killed_in_the_middle
	fake
	run -0 mlrun pull -q --spool 1MB --format squashfs "$registry/x"
	grep -q "GET .*$layer.* range=bytes=1500000-" "$log"
	run -0 mlrun store verify
}

@test "spool: bytes that are not the blob's are thrown away and fetched again" {
	killed_in_the_middle
	printf bad | dd of="$spool" bs=1 seek=1000 conv=notrunc status=none
	fake
	run -0 mlrun pull -q --spool 1MB "$registry/x"
	# They were gone on with, were found not to be the blob's, and then the whole came.
	run -0 grep "GET .*$layer" "$log"
	assert_line --index 0 --partial "range=bytes=1500000-"
	assert_line --index 1 --partial "range=-"
	assert_equal "$(ls "$MLRUN_STORE/tmp")" ""
	run -0 mlrun store verify
}

@test "spool: one that is longer than the blob is begun anew" {
	killed_in_the_middle
	head -c 50000000 /dev/zero >>"$spool"
	fake
	run -0 mlrun pull -q --spool 1MB "$registry/x"
	refute grep -q "GET .*$layer.* range=bytes" "$log"
	assert_equal "$(ls "$MLRUN_STORE/tmp")" ""
}

@test "spool: small layers are not spooled, and none when that is not wanted" {
	for option in '' '--spool never' '--spool 1GB'; do
		fake --stall 1500000 --cuts 1000
		# shellcheck disable=SC2086
		mlrun pull -q $option "$registry/x" 3>&- &
		until [ -n "$(find "$MLRUN_STORE"/tmp/layer-*/tree -name big 2>/dev/null)" ]; do sleep 0.05; done
		assert [ ! -e "$spool" ]
		kill "$!"
		wait "$!" || true
	done
	run -125 mlrun pull --spool x "$registry/x"
	assert_output --partial "--spool takes a size such as 500MB or 2GiB, or never, not 'x'"
}

@test "spool: a young one stays when the store is swept, an old one goes" {
	killed_in_the_middle
	mlrun prune
	assert [ -s "$spool" ]
	touch -d '4 days ago' "$spool"
	mlrun prune
	assert_equal "$(ls "$MLRUN_STORE/tmp")" ""
}

@test "keep-blobs: layers stay compressed as well, and another format needs no network" {
	needs_squashfs
	fake
	run -0 mlrun pull -q --keep-blobs "$registry/x"
	blob=$MLRUN_STORE/blobs/sha256/${layer#sha256:}
	assert_equal "$(sha256_of "$blob")" "$layer"
	run -0 mlrun store verify
	run -0 mlrun prune
	assert [ -f "$blob" ]
	before=$(grep -c "GET .*$layer" "$log")
	run -0 mlrun pull -q --format squashfs "$registry/x"
	assert_equal "$(grep -c "GET .*$layer" "$log")" "$before"
	run -0 mlrun rm "$registry/x"
	assert [ ! -e "$blob" ]
}

@test "keep-blobs: a kept blob that was damaged is fetched again" {
	fake
	mlrun pull -q --keep-blobs "$registry/x"
	printf bad | dd of="$MLRUN_STORE/blobs/sha256/${layer#sha256:}" bs=1 seek=1000 conv=notrunc status=none
	run -125 mlrun store verify
	assert_output --partial "blobs/sha256/${layer#sha256:}: broken"
	rm -r "$MLRUN_STORE"/layers/*
	run -0 mlrun pull -q --keep-blobs "$registry/x"
	run -0 mlrun store verify
}
