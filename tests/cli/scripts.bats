#!/usr/bin/env bats
# What holds of every shell script of the project.

load common

# The scripts, one a line: by their names, or by their first lines.
scripts() {
	cd "$top_srcdir" # autoconf makes configure; shellcheck does not know zsh
	find . -name .git -prune -o -path './build*' -prune -o -path './autom4te.cache' -prune \
		-o -path './mlrun-*' -prune -o -path './_*' -prune -o -type f -size -200k \
		-not -path ./configure -not -name _mlrun -not -name _mltrain -print0 |
		xargs -0 awk 'FILENAME ~ /\.(bats|bash|sh)$/ || /^#!.*[ \/](sh|bash)( |$)/ { print FILENAME } { nextfile }'
}

# Of these, in a daily check, the ones that quickstart lists as changed.
looked_at() { if [ -n "${CHECK_CHANGED:-}" ]; then grep -xF -f <(sed 's|^|./|' "$CHECK_CHANGED") || true; else cat; fi; }

@test "scripts: shellcheck has nothing to say; daily of what changed lately, of every script by check --all" {
	command -v shellcheck >/dev/null || skip "shellcheck is not installed"
	(scripts) >every
	grep -q quickstart every
	looked_at <every >list
	cd "$top_srcdir"
	xargs -d '\n' -P 2 -n 8 shellcheck -x --severity=warning <"$TMPDIR/list"
}

@test "scripts: no function is defined twice, so that none hides another" {
	scripts >"$TMPDIR/every"
	run -0 xargs -d '\n' grep -oE '^[a-zA-Z_][a-zA-Z0-9_]*\(\)' <"$TMPDIR/every"
	[ "${#lines[@]}" -gt 1000 ]
	run -0 sh -c 'sort | uniq -d' <<<"$output"
	assert_output ''
}
