#!/usr/bin/env bats
# mlrun inspect of images in the store, in registries and in files; and answers that do not arrive.

load common

setup_file() {
	registry_start
	image_tiny tiny
	cd "$BATS_FILE_TMPDIR" || return
	image_layout lay tiny.tar
}

teardown_file() { registry_stop; }

# push_index NAME: an index of tiny for amd64 and, the same bytes, s390x; prints its digest
push_index() {
	local manifest entry digest

	curl -fsS -o m.json -H 'Accept: application/vnd.oci.image.manifest.v1+json' \
		"http://$REGISTRY/v2/tiny/manifests/latest"
	for digest in $(jq -r '.config.digest, .layers[].digest' m.json); do
		curl -fsS -o blob "http://$REGISTRY/v2/tiny/blobs/$digest"
		registry_blob "$1" blob >/dev/null
	done
	manifest=$(registry_manifest "$1" "$(sha256_of m.json)" m.json)
	entry='{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"%s","size":%d,"platform":{"os":"linux","architecture":"%s"%s}}'
	# shellcheck disable=SC2059
	printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":['"$entry,$entry"']}' \
		"$manifest" "$(stat -c %s m.json)" amd64 '' "$manifest" "$(stat -c %s m.json)" s390x '' >index.json
	registry_manifest "$1" latest index.json application/vnd.oci.image.index.v1+json
}

@test "inspect: an image in the registry has the same words as when it is in the store" {
	run -125 mlrun inspect "$REGISTRY/tiny"
	mlrun inspect --json --remote "$REGISTRY/tiny" >remote.json
	assert [ ! -e "$MLRUN_STORE" ]
	mlrun pull -q "$REGISTRY/tiny"
	mlrun inspect --json "$REGISTRY/tiny" >local.json
	run -0 jq -c '[.pulled, .store, .formats]' remote.json
	assert_output '[null,null,null]'
	diff <(jq -S 'del(.pulled, .store, .formats)' remote.json) <(jq -S 'del(.pulled, .store, .formats)' local.json)
	run -0 jq -r 'keys_unsorted | join(" ")' local.json
	assert_output "name digest index config platform source created pulled size layers env entrypoint cmd user working_dir labels store formats"
	run -0 mlrun inspect "docker://$REGISTRY/tiny"
	assert_line --regexp '^name +127.0.0.1:'
	refute_line --regexp '^pulled'
	assert_line --regexp '^layers +sha256:'
}

@test "inspect: labels are shown, in text and in JSON, from the store and the registry" {
	image_push_tar -c --config.label -c org.opencontainers.image.version=1.2 -c --config.label -c "maintainer=Jo = A" \
		labelled "$BATS_FILE_TMPDIR/tiny.tar"
	mlrun pull -q "$REGISTRY/labelled" "$REGISTRY/tiny"
	for remote in "" --remote; do
		# shellcheck disable=SC2086 # no word
		run -0 mlrun inspect $remote "$REGISTRY/labelled"
		assert_line --regexp '^labels +[^ ]'
		assert_line --regexp '^(labels)? +maintainer=Jo = A$'
		assert_line --regexp '^(labels)? +org.opencontainers.image.version=1.2$'
		# shellcheck disable=SC2086
		run -0 mlrun inspect $remote --json "$REGISTRY/labelled"
		assert_equal "$(jq -cS .labels <<<"$output")" '{"maintainer":"Jo = A","org.opencontainers.image.version":"1.2"}'
	done
	assert_equal "$(mlrun inspect --json "$REGISTRY/tiny" | jq -c .labels)" '{}'
}

@test "pull: a name with a tag and a digest is the digest's, and is found by both" {
	digest=$(mlrun inspect --json --remote "$REGISTRY/tiny" | jq -r .digest)
	run -0 mlrun pull --json "$REGISTRY/tiny:of-no-matter@$digest"
	assert_equal "$(jq -r .name <<<"${lines[-1]}")" "$REGISTRY/tiny:of-no-matter@$digest"
	for name in "tiny:of-no-matter@$digest" "tiny@$digest" "tiny:other@$digest"; do
		run -0 mlrun exec "$REGISTRY/$name" /bin/echo works
	done
	run -125 mlrun exec --pull=never "$REGISTRY/tiny:of-no-matter" /bin/true
	run -125 mlrun pull "$REGISTRY/tiny@sha512:$(printf %0128d 0)"
	assert_output --partial "only sha256 is supported"
	run -125 mlrun pull "$REGISTRY/tiny@sha256:$(printf %064d 0)"
}

@test "inspect: no layer is fetched from the registry, and the store is not asked" {
	before=$(registry_requests | wc -l)
	mlrun inspect --remote "$REGISTRY/tiny" >/dev/null
	run registry_requests
	assert_equal "$(tail -n +$((before + 1)) <<<"$output" | sed 's,sha256:.*,D,')" "GET /v2/tiny/manifests/latest
GET /v2/tiny/blobs/D"
}

@test "inspect: --raw is the very manifest, or the index, from the registry and the store alike" {
	digest=$(push_index many)
	mlrun inspect --remote --raw "$REGISTRY/many" >remote
	assert_equal "$(sha256_of remote)" "$digest"
	skopeo inspect --raw --tls-verify=false "docker://$REGISTRY/many" | cmp - remote
	mlrun inspect --remote --raw --platform linux/amd64 "$REGISTRY/many" >remote
	cmp remote m.json
	mlrun pull -q "$REGISTRY/many"
	assert_equal "$(mlrun inspect --raw "$REGISTRY/many" | sha256sum)" "$(sha256sum <index.json)"
	assert_equal "$(mlrun inspect --raw --platform linux/amd64 "$REGISTRY/many" | sha256sum)" "$(sha256sum <m.json)"
	run -125 mlrun inspect --platform linux/s390x "$REGISTRY/many"
	assert_output --partial "for linux/amd64, not for linux/s390x"
	assert_output --partial "hint: mlrun inspect --remote looks in the registry"
	run -125 mlrun inspect --raw --json "$REGISTRY/many"
}

@test "inspect: an image in files is looked at without bringing it" {
	cp -a "$BATS_FILE_TMPDIR/lay" .
	tar -C lay -czf lay.tar.gz .
	run -0 mlrun inspect --remote --json oci:lay
	assert_equal "$(jq -r .name <<<"$output")" localhost/lay:latest
	assert_equal "$(jq -r .digest <<<"$output")" "$(jq -r '.manifests[0].digest' lay/index.json)"
	run -0 mlrun inspect --remote --json oci-archive:lay.tar.gz
	assert_equal "$(jq -r .source <<<"$output")" "oci-archive:$PWD/lay.tar.gz"
	assert [ ! -e "$MLRUN_STORE" ]
	run -0 find "$TMPDIR" -maxdepth 1 -name 'plain*'
	assert_output ''
	run -125 mlrun inspect --remote oci:lay:x
	assert_output --partial "inspect 'oci:lay:x': no image 'x' in it"
	run -125 mlrun inspect --remote "$REGISTRY/none"
	assert_output --partial "inspect '$REGISTRY/none:latest'"
}

@test "an answer that stdout does not take is a failure of every command" {
	cp -a "$BATS_FILE_TMPDIR/lay" .
	mlrun pull -q oci:lay
	for command in "images" "images --json" "inspect lay" "inspect --json lay" "inspect --raw lay" \
		"inspect --remote oci:lay" "inspect --remote --raw oci:lay" "pull --json oci:lay" \
		"parse-reference x" "exec --explain lay true" "--help" "images --help" "pull --help" "--version"; do
		# shellcheck disable=SC2086
		run -125 --separate-stderr bash -c "mlrun $command >/dev/full"
		assert_regex "$stderr" "mlrun: write to stdout: No space left on device\$"
		assert_equal "$(grep -c 'write to stdout' <<<"$stderr")" 1
	done
	run -0 mlrun exec lay /bin/true
}

@test "inspect: --pin names the image for ever, from the registry and the store alike" {
	local digest
	digest=$(push_index many)
	run -0 mlrun inspect --pin "$REGISTRY/many"
	assert_output "$REGISTRY/many:latest@$digest"
	mlrun pull -q "$REGISTRY/many"
	registry_stop
	run -0 mlrun inspect --pin "$REGISTRY/many"
	assert_output "$REGISTRY/many:latest@$digest"
	run -0 mlrun exec "$output" true
	mlrun tag "$REGISTRY/many" mine
	run -0 mlrun inspect --pin mine
	assert_output --regexp '^sha256:[0-9a-f]{64}$'
	run -0 mlrun exec --pull=never "$output" true
	run -0 mlrun inspect --pin rootfs:/
	assert_output rootfs:/
	run -125 mlrun inspect --pin "$REGISTRY/nothing"
	assert_output --partial nothing
	run -125 mlrun inspect --pin --raw mine
	assert_output --partial "choose one"
}

@test "inspect: an image is printed though its store's services are another user's" {
	mlrun import -q "$BATS_FILE_TMPDIR/tiny.tar" web
	mkdir -m 0 "$MLRUN_STORE/services"
	run -0 mlrun inspect web
	assert_line --regexp '^name +localhost/web'
	run -125 mlrun inspect other
	assert_line --partial "image 'docker.io/library/other:latest' is not in store"
}
