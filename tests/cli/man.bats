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

@test "man: every option that exec's --help lists is in its page" {
	local command option page=$top_srcdir/src/cli/mlrun-exec.1

	for command in exec shell; do
		for option in $(mlrun "$command" --help | grep -oE -- '(^| )--[a-z-]+' | sort -u); do
			case $option in --help | --usage | --version) continue ;; esac
			grep -qE "Fl .*${option#-}( |\$)" <(sed 's/ Ns/ /g; s/,/ /g' "$page") ||
				fail "mlrun $command $option is not in ${page##*/}"
		done
	done
}
