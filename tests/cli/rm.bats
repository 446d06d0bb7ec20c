# What rm refuses, what it says, and where it must work nevertheless.
load common

setup_file() {
	registry_start
	image_tiny tiny
}

teardown_file() { registry_stop; }

skip_without_userns() { unshare -Urpf --mount-proc true || skip "no user namespaces here"; }

@test "rm: a container of another PID namespace keeps its image, and --force removes it" {
	skip_without_userns
	mlrun pull -q "$REGISTRY/tiny"
	unshare -Urpf --mount-proc "$(command -v mlrun)" exec "$REGISTRY/tiny" \
		sh -c 'echo started; until [ -e tried ]; do sleep 0.1; done; ls /bin/cp' >said 3>&- &
	container=$!
	until_true test -s said
	run -125 mlrun rm "$REGISTRY/tiny"
	assert_output --regexp "was in use by process [0-9]+ on '.*' in another PID namespace at "
	assert_output --partial "whether it still runs cannot be seen from here"
	assert_output --partial "hint: run mlrun rm there, or mlrun rm --force"
	touch tried
	wait "$container"
	run -0 cat said
	assert_output $'started\n/bin/cp'
	run -0 mlrun rm --force "$REGISTRY/tiny"
	assert_equal "$(ls "$MLRUN_STORE/layers")" ""
}

@test "rm: a digest removes the tag that has it, and that name is told" {
	mlrun pull -q "$REGISTRY/tiny"
	digest=$(mlrun inspect --json "$REGISTRY/tiny" | jq -r .digest)
	run -0 mlrun rm "$REGISTRY/tiny@$digest"
	assert_output "mlrun: removed '$REGISTRY/tiny:latest'"
}

@test "rm, inspect: sha256:DIGEST alone is the image by whatever name, and one of several names is not chosen" {
	mlrun pull -q "$REGISTRY/tiny"
	digest=$(mlrun inspect --json "$REGISTRY/tiny" | jq -r .digest)
	mlrun inspect --json "$REGISTRY/tiny" | jq 'del(.name, .source, .pulled)' >named
	run -0 mlrun inspect --json "$digest"
	assert_equal "$(jq .name <<<"$output")" "\"$digest\""
	jq 'del(.name, .source, .pulled)' <<<"$output" | diff - named
	run -0 mlrun inspect "$digest"
	assert_line --regexp '^platform +linux/'
	mlrun tag "$REGISTRY/tiny" mine
	run -125 mlrun rm "$digest"
	assert_line "mlrun: rm '$digest': image '$digest' has 2 names"
	assert_line "hint: mlrun images lists them; mlrun rm NAME removes one"
	mlrun rm -q mine 2>/dev/null || mlrun rm mine
	run -0 mlrun rm "$digest"
	assert_output "mlrun: removed '$REGISTRY/tiny:latest'"
	run -125 mlrun inspect "$digest"
}

@test "rm: works where not even a directory can be made any more" {
	unshare -Urm mount -t tmpfs none "$TMPDIR" || skip "no tmpfs in user namespaces here"
	mlrun pull -q "$REGISTRY/tiny"
	cat >full.sh <<-'EOF'
		set -e
		mkdir full
		mount -t tmpfs -o nr_inodes=2000 none full
		cp -a "$MLRUN_STORE" full/store
		while : >"full/$((n += 1))"; do :; done 2>/dev/null || true
		if mkdir full/store/tmp/x 2>/dev/null; then exit 1; fi
		mlrun rm --store full/store "$1"
		ls full/store/layers full/store/tmp
	EOF
	run -0 unshare -Urm bash full.sh "$REGISTRY/tiny"
	assert_output - <<-EOF
		mlrun: removed '$REGISTRY/tiny:latest'
		full/store/layers:

		full/store/tmp:
	EOF
}

@test "rm, inspect, images: a store that is not there is told with the way out" {
	for command in "rm $REGISTRY/tiny" "inspect $REGISTRY/tiny" images; do
		# shellcheck disable=SC2086
		run -125 mlrun $command --store nowhere
		assert_output --partial "open store '$PWD/nowhere': No such file or directory"
		assert_output --partial "hint: mlrun pull makes it; --store or MLRUN_STORE names another place"
	done
}
