#!/usr/bin/env bats
# What quickstart does before it does anything.

load common

@test "quickstart: without a word it prints its usage and exits 2" {
	run -2 "$top_srcdir/quickstart"
	assert_output --partial 'usage: ./quickstart'
	assert_output --partial 'demo'
}

@test "quickstart: an unknown word, or one too many, exits 2" {
	run -2 "$top_srcdir/quickstart" fly
	run -2 "$top_srcdir/quickstart" demo now
}

@test "quickstart: --help goes to stdout and exits 0" {
	run -0 --separate-stderr "$top_srcdir/quickstart" --help
	assert_output --partial 'check'
	assert_equal "$stderr" ''
}
