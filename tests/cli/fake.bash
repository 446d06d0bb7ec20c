# shellcheck shell=bash
# The registry that misbehaves on demand (fake_registry.py), for `load fake` after `load common`.
#
#   fake_layout                 makes the image that it serves, $BATS_FILE_TMPDIR/layout; a file with a setup_file
#                               of its own calls it there
#   fake OPTION...              starts it; it ends with the test. Sets $registry, $auth, $storage, $proxy,
#                               and $log, the file of its requests
#   fake_stop                   … or before
#   fake_keep                   the next fake does not stop this one
#   pull_whole [OPTION...]      mlrun pull brings its image
#   assert_pulled               the image is in the store, bit for bit
#   assert_nothing_stored
#   certificate NAME [OPTION]...   NAME.pem (certificate and key) and NAME.crt, signed by itself, for
#                               127.0.0.1 unless openssl req's options say otherwise

fake_layout() {
	command -v python3 >/dev/null || {
		skip_file "python3 is not installed"
		return
	}
	cd "$BATS_FILE_TMPDIR" || return
	mkdir -p root/d
	(cd root/d && seq 200 | split -l 1 -a 3 - f && head -c 3000000 /dev/urandom >big)
	layer_tar root.tar root
	image_layout layout root.tar
}

setup_file() { fake_layout; }

teardown() {
	fake_stop
	common_teardown
}

fake() {
	fake_stop
	fake_dir=$(mktemp -d "$BATS_TEST_TMPDIR/fake.XXXXXX")
	log=$fake_dir/log
	: >"$log"
	mkfifo "$fake_dir/in" "$fake_dir/out"
	python3 "$top_srcdir/tests/cli/fake_registry.py" "$BATS_FILE_TMPDIR/layout" "$log" "$@" \
		<"$fake_dir/in" >"$fake_dir/out" 2>"$fake_dir/err" 3>&- 4>&- &
	exec {fake_in}>"$fake_dir/in"
	# shellcheck disable=SC2034
	read -r registry auth storage proxy <"$fake_dir/out"
	export registry auth storage proxy log
}

fake_stop() {
	[ -z "${fake_in:-}" ] || exec {fake_in}>&-
	fake_in=
}

fake_keep() {
	# shellcheck disable=SC2034 # held open until the test ends
	exec {fake_kept}>&"$fake_in"
	fake_in=
}

pull_whole() {
	run -0 mlrun pull "$@" "$registry/x"
	assert_pulled
}

assert_pulled() {
	cmp "$BATS_FILE_TMPDIR/root/d/big" "$MLRUN_STORE"/layers/*/tree/d/big
	assert_equal "$(mlrun images --json | jq length)" 1
}

assert_nothing_stored() {
	assert_equal "$(mlrun images --json)" '[]'
	run -0 find "$MLRUN_STORE"/{layers,tmp,facts} -mindepth 1
	assert_output ''
}

certificate() {
	local name=$1

	shift
	command -v openssl >/dev/null || skip "openssl is not installed"
	[ $# -gt 0 ] || set -- -addext subjectAltName=IP:127.0.0.1
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$name" "$@" \
		-keyout "$name.key" -out "$name.crt" 2>/dev/null
	cat "$name.crt" "$name.key" >"$name.pem"
}
