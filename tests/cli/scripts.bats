#!/usr/bin/env bats
# What holds of every shell script of the project.

load common

# The scripts, one a line: by their names, or by their first lines.
scripts() {
	(
		cd "$top_srcdir"
		find . -name .git -prune -o -path './build*' -prune -o -path './autom4te.cache' -prune \
			-o -path './mlrun-*' -prune -o -path './_*' -prune -o -type f -size -200k -print | while read -r file; do
			case $file in
			./configure | */_mlrun | */_mltrain) ;; # made by autoconf; zsh, which shellcheck does not know
			*.bats | *.bash | *.sh) echo "$file" ;;
			*) if head -c 64 "$file" | head -n 1 | grep -qaE '^#!.*\b(sh|bash)\b'; then echo "$file"; fi ;;
			esac
		done
	)
}

@test "scripts: shellcheck has nothing to say" {
	command -v shellcheck >/dev/null || skip "shellcheck is not installed"
	scripts >list
	grep -q quickstart list
	cd "$top_srcdir"
	xargs -d '\n' -P 2 -n 8 shellcheck -x --severity=warning <"$TMPDIR/list"
}

@test "scripts: no function is defined twice, so that none hides another" {
	local file

	while read -r file; do
		run -0 sh -c 'grep -oE "^[a-zA-Z_][a-zA-Z0-9_]*\(\)" "$1" | sort | uniq -d' sh "$top_srcdir/$file"
		assert_output '' || fail "in $file"
	done < <(scripts)
}
