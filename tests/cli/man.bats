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
	for digest in $(grep -rhoE 'sha256:[0-9a-f]+' "$top_srcdir"/src/*/cli/*.[1-8]); do
		assert_equal "${#digest}" 71
	done
}

# The page of a command: its own, or that of mlrun itself for those without one.
page_of() {
	case $1 in run | logs | stop | kill | restart | wait | ps) set -- services ;; down | compose) set -- up ;; check) set -- validate ;; logout) set -- login ;; esac
	[ -e "$top_srcdir/src/mlrun/cli/mlrun-$1.1" ] && echo "$top_srcdir/src/mlrun/cli/mlrun-$1.1" || echo "$top_srcdir/src/mlrun/cli/mlrun.1"
}

@test "man: every option that a command's --help lists is in its page" {
	local command option page commands

	# glibc's argp loses two bytes for a list of options that is empty.
	export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
	mapfile -t commands < <(mlrun --help | awk '/^  [a-z]/ { print $1 }'
		mlrun gpu --help | awk '/^  [a-z]/ { print "gpu", $1 }'
		mlrun elastic --help | awk '/^  [a-z]/ { print "elastic", $1 }'
		mlrun workers --help | awk '/^  [a-z]/ { print "workers", $1 }')
	for command in "${commands[@]}"; do
		page=$(page_of "${command%% *}")
		case $command in run | shell | "workers start" | "elastic run") page="$page $top_srcdir/src/mlrun/cli/mlrun-exec.1" ;; esac
		# shellcheck disable=SC2086 # words
		for option in $(mlrun $command --help | grep -oE -- '^ +(-., )?--[a-z-]+' | grep -oE -- '--[a-z-]+'); do
			case $option in --help | --usage | --version) continue ;; esac
			# mlrun(1) has what all commands have.
			case $option in --store | --verbose) page="$page $top_srcdir/src/mlrun/cli/mlrun.1" ;; esac
			# shellcheck disable=SC2086 # pages
			grep -qE "Fl .*${option#-}( |\$)" <(cat $page | sed 's/ Ns/ /g; s/,/ /g') ||
				fail "mlrun $command $option is not in ${page##*/}"
		done
	done
}

@test "man: mlrun(1) has every command, environment variable, exit status and page" {
	local word page=$top_srcdir/src/mlrun/cli/mlrun.1

	for word in $(mlrun --help | awk '/^  [a-z]/ { print $1 }'); do
		grep -qE "^\.It Cm (.* )?$word( |\$)" "$page" || fail "no command $word"
	done
	for word in $(grep -rhoE --include='*.c' '"MLRUN_[A-Z_]+"' "$top_srcdir"/src/{base,mlrun} | tr -d '"' | sort -u); do
		grep -qE "^\.It Ev (.* )?$word( |\$)" "$page" || fail "no variable $word"
	done
	for word in 125 126 127; do
		grep -qE "^\.It $word\$" "$page" || fail "no exit status $word"
	done
	for word in "$top_srcdir"/src/mlrun/cli/mlrun-*.1; do
		word=${word##*/}
		grep -qE "^\.Xr ${word%.1} 1 ,\$" <(sed '1,/^\.Sh SEE ALSO/d' "$page") || fail "no ${word%.1}(1)"
	done
}
