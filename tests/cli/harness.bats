#!/usr/bin/env bats
# The tests' own tools: what the other files stand on works, and leaves nothing behind.

load common

setup_file() {
	registry_start
	image_tiny tiny
	image_tiny tiny-docker v2s2
}

teardown_file() { registry_stop; }

manifest_type() {
	skopeo inspect --raw --tls-verify=false "docker://$REGISTRY/$1" | grep -o '"mediaType":"[^"]*"' | head -n1
}

@test "harness: the registry serves an image as OCI and as Docker schema 2" {
	run -0 curl -fsS "http://$REGISTRY/v2/_catalog"
	assert_output --partial '"tiny","tiny-docker"'
	run -0 skopeo inspect --tls-verify=false "docker://$REGISTRY/tiny"
	assert_output --partial 'TINY=yes'
	run manifest_type tiny-docker
	assert_output --partial 'vnd.docker.distribution.manifest.v2+json'
}

@test "harness: requests can be read back from the access log" {
	curl -fsS -o /dev/null "http://$REGISTRY/v2/tiny/tags/list?n=7"
	run registry_requests 'n=7'
	assert_output 'GET /v2/tiny/tags/list?n=7'
}

@test "harness: bytes and manifests can be uploaded as they are" {
	local blob

	echo '{}' >config
	blob=$(registry_blob raw config)
	assert_equal "$blob" "$(sha256_of config)"
	printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"%s","size":3},"layers":[]}' \
		"$blob" >manifest
	run -0 registry_manifest raw odd manifest
	assert_output "$(sha256_of manifest)"
}

@test "harness: the registry dies with the shell that started it" {
	local pid

	pid=$(
		registry_start
		echo "$REGISTRY_PID"
	)
	until_true is_gone "$pid"
}

# run_bats SECONDS FILE: as make check does, in a bats of its own.
run_bats() {
	env -i PATH="${PATH//"$BATS_LIBEXEC:"/}" TMPDIR="$TMPDIR" BATS_SILENCE="$1" "$top_srcdir/tests/cli/run-bats" "$2"
}

@test "harness: a file of which nothing comes any more is ended, and the test is named" {
	local test=@test

	cat >hangs.bats <<-EOT
		$test "goes well" { true; }
		$test "hangs, it's sad" { sleep $NAP; }
		$test "never comes" { true; }
	EOT
	run -1 run_bats 5 hangs.bats
	assert_line "ok 1 goes well"
	assert_line "not ok 2 hangs, it's sad # time limit: nothing came for 5 s"
	refute_line --partial "never comes"
	wait_while pgrep -f "^sleep $NAP"
	echo "setup_file() { sleep $NAP; }" >>hangs.bats
	run -1 run_bats 5 hangs.bats
	assert_line "not ok 0 setup_file of hangs.bats # time limit: nothing came for 5 s"
}

@test "harness: a file that gets on is not ended" {
	for i in 1 2 3; do echo "@""test \"test $i\" { sleep 4; }"; done >slow.bats
	run -0 run_bats 10 slow.bats
	assert_equal "$(grep -v '^# took' <<<"$output")" "$(printf "%s\n" 1..3 "ok 1 test 1" "ok 2 test 2" "ok 3 test 3")"
	assert_line --regexp '^# took [0-9]+ s, [0-9]+ s of processor time$'
}

@test "harness: a sanitizer's report fails the test" {
	echo "ERROR: AddressSanitizer: heap-use-after-free" >"$(sanitizer_reports).123"
	run -1 common_teardown
	assert_output --partial heap-use-after-free
	rm "$(sanitizer_reports).123"
}

@test "harness: git ignores every program of a build in the sources" {
	cd "$top_srcdir"
	git rev-parse --git-dir >/dev/null 2>&1 || skip "no git repository"
	run -0 bash -c "find src tests -name Makefile.inc -exec cat {} + | sed ':a;/\\\\$/{N;s/\\\\\\n//;ba}' |
		sed -nE 's/^[A-Za-z_]*(_PROGRAMS|UNIT_TESTS|FUZZ_TARGETS) \+?= //p' | tr ' \t' '\n' | grep / | sort -u"
	[ "${#lines[@]}" -gt 50 ]
	for program in "${lines[@]}"; do
		git check-ignore -q "$program" || fail "$program is not ignored"
	done
}
