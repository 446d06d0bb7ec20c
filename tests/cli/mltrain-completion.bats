#!/usr/bin/env bats
# Completion of mltrain's command line, by bash's function and by zsh on a terminal.
load common

setup() {
	common_setup
	mkdir -p data/mine
	touch mine.json
}

# As in completion.bats.
offers() {
	bash -c '. "$1/completion/mltrain.bash"
		COMP_LINE=$2 COMP_POINT=${#2}
		_mltrain mltrain
		printf "%s\n" "${COMPREPLY[@]}" | sort' bash "$top_srcdir" "$1"
}

@test "completion of mltrain in bash: commands, options, values and networks" {
	run -0 offers "mltrain e"
	assert_output $'eval\nexport'
	run -0 offers "mltrain train --lo"
	assert_output $'--load-every=\n--log-every=\n--log-format=\n--log='
	run -0 offers "mltrain train --resu"
	assert_output -- --resume
	run -0 offers "mltrain train --net le"
	assert_output lenet-5
	run -0 offers "mltrain train --net=mi"
	assert_output mine.json
	run -0 offers "mltrain net mn"
	assert_output mnist-fast
	run -0 offers "mltrain train -d mi"
	assert_output mine
	run -0 offers "mltrain eval --dtype=b"
	assert_output bf16
	run -0 offers "mltrain train --backend ref"
	assert_output reference
	run -0 offers "mltrain fetch cifar-10"
	assert_output $'cifar-10\ncifar-100'
	local command option
	for command in train eval bench predict export import net report fetch load; do
		run -0 offers "mltrain $command --"
		for option in $(mltrain $command --help | grep -oE -- '^  .{0,4} --[a-z0-9-]+' | grep -o -- '--.*'); do
			assert_line --regexp "^$option=?\$"
		done
	done
}

@test "completion of mltrain in zsh: commands, options, values and networks" {
	command -v zsh >/dev/null || skip "zsh is not installed"
	zsh_offers() { ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 timeout 300 zsh -f "$top_srcdir/tests/cli/complete.zsh" "$top_srcdir/completion" "$1"; }
	run -0 zsh_offers "mltrain e"
	assert_output --regexp 'eval +-- test a checkpoint'
	assert_output --regexp 'export +-- '
	run -0 zsh_offers "mltrain train --log"
	assert_output --regexp '\-\-log-format +-- '
	run -0 zsh_offers "mltrain train --net "
	assert_output --partial lenet-5
	assert_output --partial mine.json
	run -0 zsh_offers "mltrain eval --dtype="
	assert_output --regexp 'bf16 +f32 +tf32'
}
