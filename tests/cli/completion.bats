# Completion of mlrun's command line, by bash's function, by zsh on a terminal, and by fish.
load common

setup_file() {
	export FILE_STORE=$BATS_FILE_TMPDIR/store
	registry_start
	image_tiny tiny
	export MLRUN_STORE=$FILE_STORE
	mlrun pull -q "$REGISTRY/tiny"
	mlrun tag "$REGISTRY/tiny" debian:12
	mlrun tag "$REGISTRY/tiny" docker.io/library/debian:latest
	registry_stop
}

setup() {
	common_setup
	export MLRUN_STORE=$FILE_STORE
	mkdir -p datadir/sub
	touch datafile
}

# Prints what bash would offer, a line each, as readline would put it in: what stands before the last ":" or
# "=" of the word is not its to replace.
offers() {
	bash -c '. "$1/completion/mlrun.bash"
		COMP_LINE=$2 COMP_POINT=${#2}
		_mlrun mlrun
		printf "%s\n" "${COMPREPLY[@]}" | sort' bash "$top_srcdir" "$1"
}

@test "completion in bash: commands" {
	run -0 offers "mlrun ex"
	assert_output $'exec\nexport'
	run -0 offers "mlrun ru"
	assert_output run
	run -0 offers "mlrun help ex"
	assert_output $'exec\nexport'
	run -0 offers "mlrun "
	assert_line pull
	assert_line shell
}

@test "completion in bash: options are those of the command's --help" {
	run -0 offers "mlrun exec --r"
	assert_output --read-only
	run -0 offers "mlrun exec --m"
	assert_line -- --mount=
	assert_line -- --memory=
	run -0 offers "mlrun pull --"
	assert_line -- --platform=
	refute_line -- --mount=
	local option
	for option in $(mlrun exec --help | grep -oE -- ' --[a-z-]+' | sort -u); do
		run -0 offers "mlrun exec $option"
		assert_line --regexp "^$option=?\$"
	done
}

@test "completion in bash: a command's own commands, and their options" {
	run -0 offers "mlrun gpu li"
	assert_output list
	run -0 offers "mlrun gpu list --js"
	assert_output -- --json
	run -0 offers "mlrun workers st"
	assert_output $'start\nstop'
	run -0 offers "mlrun workers start --dead"
	assert_output -- --deadline=
	run -0 offers "mlrun workers start -n 2 deb"
	assert_line debian
	run -0 offers "mlrun run --health-c"
	assert_output -- --health-cmd=
	run -0 offers "mlrun elastic run --wei"
	assert_output -- --weight=
	run -0 offers "mlrun elastic run -p q deb"
	assert_line debian
	run -0 offers "mlrun manifest p"
	assert_output push
	run -0 offers "mlrun manifest push --comp"
	assert_output -- --compression=
	run -0 offers "mlrun build data"
	assert_output datadir
	mkdir -p machine/etc/cdi
	echo '{"cdiVersion":"0.5.0","kind":"v.com/c","devices":[{"name":"a","containerEdits":{"env":["A=1"]}}]}' >machine/etc/cdi/a.json
	export MLRUN_GPU_ROOT=$PWD/machine
	run -0 offers "mlrun exec --device v"
	assert_output v.com/c=a
	run -0 offers "mlrun exec --device /dev/nul"
	assert_output /dev/null
}

@test "completion in bash: a value's words are those of the command" {
	run -0 offers "mlrun elastic run --mode r"
	assert_output requeue
	run -0 offers "mlrun export --format="
	assert_output $'bundle\ndocker-archive\noci\noci-archive\nrootfs\nsif\nsquashfs\ntar'
	run -0 offers "mlrun pull --format="
	assert_output $'auto\ndir\nlayers\nsquashfs'
	for word in $(offers "mlrun export --format="); do
		mlrun export -q --format="$word" debian "out-$word"
	done
	for word in $(offers "mlrun export --compression="); do
		mlrun export -q --compression="$word" debian "out-$word"
	done
}

@test "completion in bash: keys of the configuration" {
	run -0 offers "mlrun config exec.g"
	assert_output exec.gpu
	run -0 offers "mlrun config st"
	assert_output store
	mkdir -p "$HOME/.config/mlrun"
	printf '[registry docker.io]\nmirror = example.org\n' >"$HOME/.config/mlrun/mlrun.conf"
	run -0 offers "mlrun config registry.docker.io.mi"
	assert_output registry.docker.io.mirror
	for key in $(offers "mlrun config "); do
		run mlrun config "$key"
		[ "$status" -le 1 ] || fail "$key: $output"
	done
}

@test "completion in bash: values of options" {
	run -0 offers "mlrun exec --pull "
	assert_output $'always\nmissing\nnever'
	run -0 offers "mlrun exec --pull=al"
	assert_output always
	run -0 offers "mlrun exec --net n"
	assert_output none
	run -0 offers "mlrun exec -it -v data"
	assert_output $'datadir\ndatafile'
	run -0 offers "mlrun exec -w data"
	assert_output datadir
	run -0 offers "mlrun exec --env-file=data"
	assert_output $'datadir\ndatafile'
	SOME_VARIABLE=1 run -0 offers "mlrun exec -e SOME_VAR"
	assert_output SOME_VARIABLE
}

@test "completion in bash: images of the store, by the names that people type" {
	run -0 offers "mlrun exec -v /a:/b deb"
	assert_line debian
	[ "${#lines[@]}" -ge 1 ]
	run -0 offers "mlrun exec de" # localhost/debian:12 as well
	assert_output $'debian\ndebian:12'
	run -0 offers "mlrun exec --pull never docker.io/lib"
	assert_line docker.io/library/debian
	run -0 offers "mlrun exec ${REGISTRY%:*}:"
	assert_line "${REGISTRY#*:}/tiny"
	run -0 offers "mlrun rm deb"
	assert_line debian
	MLRUN_STORE=/no/such run -0 offers "mlrun inspect --store $FILE_STORE $REGISTRY/ti"
	assert_line --regexp '/tiny$|^tiny$'
	run -0 offers "mlrun exec rootfs:data"
	assert_output datadir
	MLRUN_STORE=/no/such run -0 offers "mlrun exec "
	assert_output $'rootfs:\nsquashfs:'
}

@test "completion in bash: containers that run and containers that are kept" {
	mlrun exec --write=kept-one -w / debian true
	run -0 offers "mlrun commit k"
	assert_output kept-one
	run -0 offers "mlrun containers rm "
	assert_output kept-one
	run -0 offers "mlrun exec --write=kept"
	assert_output kept-one
	MLRUN_STORE=/no/such run -0 offers "mlrun commit --store=$FILE_STORE k"
	assert_output kept-one
	MLRUN_STORE=/no/such run -0 offers "mlrun exec --store $FILE_STORE --write="
	assert_output kept-one
	mlrun exec -w / debian sleep 100 3>&- &
	local pid=$!
	until_true runs "$pid" sleep 100
	run offers "mlrun exec --join ${pid:0:1}"
	kill "$pid"
	assert_success
	assert_line "$pid"
}

@test "completion in bash: after the image nothing of mlrun's is offered" {
	run -0 offers "mlrun exec debian --"
	assert_output ""
	run -0 offers "mlrun exec -- --"
	refute_output --partial --mount
}

@test "completion in bash: bash-completion finds it where it is installed" {
	[ -r /usr/share/bash-completion/bash_completion ] || skip "bash-completion is not installed"
	mkdir -p share/bash-completion/completions
	cp "$top_srcdir/completion/mlrun.bash" share/bash-completion/completions/
	XDG_DATA_HOME=$PWD/share run -0 bash -c '. /usr/share/bash-completion/bash_completion
		BASH_COMPLETION_USER_DIR=$XDG_DATA_HOME/bash-completion _completion_loader mlrun
		complete -p mlrun'
	assert_output --partial "-F _mlrun mlrun"
}

# A sanitized build's leak checker hangs now and then in a process whose terminal zsh plays.
zsh_offers() { ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 timeout 300 zsh -f "$top_srcdir/tests/cli/complete.zsh" "$top_srcdir/completion" "$1"; }

@test "completion in zsh: commands, options, values and images" {
	command -v zsh >/dev/null || skip "zsh is not installed"
	run -0 zsh_offers "mlrun ex"
	assert_output --regexp 'exec +-- run a command in an image'
	assert_output --regexp 'export +-- '
	run -0 zsh_offers "mlrun exec --m"
	assert_output --regexp '\-\-memory +-- '
	assert_output --regexp '\-\-mount +-- '
	run -0 zsh_offers "mlrun exec --pull="
	assert_output --regexp 'always +missing +never'
	run -0 zsh_offers "mlrun export --format="
	assert_output --regexp 'bundle +oci +rootfs +squashfs'
	run -0 zsh_offers "mlrun config exec.g"
	assert_output --partial exec.gpu
	run -0 zsh_offers "mlrun exec --net h"
	assert_output --partial host
	run -0 zsh_offers "mlrun exec -v $PWD/data"
	assert_output --partial datafile
	run -0 zsh_offers "mlrun exec --read-only deb"
	assert_output --regexp 'debian'
	MLRUN_STORE=/no/such run -0 zsh_offers "mlrun inspect --store=$FILE_STORE deb"
	assert_output --partial debian
	mlrun exec --write=kept-two -w / debian true
	MLRUN_STORE=/no/such run -0 zsh_offers "mlrun containers --store $FILE_STORE rm kept-"
	assert_output --partial kept-two
	run -0 zsh_offers "mlrun gpu l"
	assert_output --partial list
	run -0 zsh_offers "mlrun gpu list --j"
	assert_output --partial json
	run -0 zsh_offers "mlrun store v"
	assert_output --partial verify
	run -0 zsh_offers "mlrun manifest push --comp"
	assert_output --partial compression
	run -0 zsh_offers "mlrun build data"
	assert_output --partial datadir
}

fish_offers() {
	fish --no-config -c 'source $argv[1]/mlrun.fish; source $argv[1]/mltrain.fish; complete -C $argv[2]' "$top_srcdir/completion" "$1"
}

@test "completion in fish: what bash's offers, and files where that leaves it to the shell" {
	command -v fish >/dev/null || skip "fish is not installed"
	run -0 fish_offers "mlrun ex"
	assert_output $'exec\nexport'
	run -0 fish_offers "mlrun exec --pull="
	assert_output --pull=always$'\n'--pull=missing$'\n'--pull=never
	run -0 fish_offers "mlrun exec --read-only deb"
	assert_line debian
	run -0 fish_offers "mlrun exec debian dataf"
	assert_output datafile
	run -0 fish_offers "true; MLRUN_X=1 mlrun config exec.g"
	assert_line exec.gpu
	run -0 fish_offers "mltrain tra"
	assert_output train
	# Where they are installed.
	mkdir -p share/fish/vendor_completions.d share/bash-completion/completions
	cp -L "$top_srcdir/completion/mltrain.fish" share/fish/vendor_completions.d
	cp "$top_srcdir/completion/mltrain.bash" share/bash-completion/completions
	run -0 fish --no-config -c 'source share/fish/vendor_completions.d/mltrain.fish; complete -C "mltrain tra"'
	assert_output train
}
