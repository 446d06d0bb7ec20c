#!/usr/bin/env bats
# The man pages.

load common

@test "man: every page is mdoc without a warning" {
	command -v mandoc >/dev/null || skip "mandoc is not installed"
	mapfile -t pages < <(find "$top_srcdir/src" "$top_srcdir/docs" -name '*.[1-8]' 2>/dev/null)
	assert [ ${#pages[@]} -gt 0 ]
	run -0 mandoc -T lint -W warning "${pages[@]}"
	assert_output ''
}

@test "man: example digests have 64 digits" {
	for digest in $(grep -rhoE 'sha256:[0-9a-f]+' "$top_srcdir"/src/*/*.[1-8]); do
		assert_equal "${#digest}" 71
	done
}
