#!/usr/bin/env bats
# What holds of every source file and every page: CONTRIBUTING.md's "Style".

load common

@test "style: every C file is laid out as .clang-format says" {
	local formatter=clang-format-14 off

	command -v "$formatter" >/dev/null || skip "no $formatter"
	cd "$top_srcdir"
	off=$(find src tests bench -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cc' | sort |
		xargs "$formatter" --dry-run 2>&1 | sed -n 's/^\([^ :]*\):[0-9]*:[0-9]*: .*/\1/p' | uniq)
	[ -z "$off" ] || fail "$formatter -i $off"
}

@test "style: words are spelt as dictionaries have them" {
	command -v codespell >/dev/null || skip "no codespell"
	cd "$top_srcdir"
	# Names of ours and of others: Nd of mdoc(7), nd as in 2nd, whos a list, RENDERD a device, clos a mount's word.
	run -0 codespell -L nd,whos,renderd,clos,statics --skip='*.o,*.a,results' \
		src docs bench slurm images completion quickstart ./*.md
	assert_output ''
}
