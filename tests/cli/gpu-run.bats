#!/usr/bin/env bats
# tests/gpu/run is for a machine with a GPU: here on made-up ones, so that it is known to work when there is one.

load common
load gpu

@test "tests/gpu/run: all but kernels passes on a made-up machine" {
	needs_ordinary_user
	skip_if_sanitized
	run -0 env MLRUN="$top_builddir/src/mlrun" OUT="$PWD/out" "$top_srcdir/tests/gpu/run" --tree hgx
	assert_line --regexp '^[0-9]+ passed, 0 failed, [0-9]+ skipped$'
	refute_line --regexp '^FAIL'
	assert_line "pass  exec --gpu=all nvidia-smi -L shows the machine's GPUs"
	[ "$(grep -c '^GPU' out/nvidia-smi.txt)" = 8 ]
	grep -q '^gpu .* is chosen: --gpu=all' <(sed 's/^ *//' out/report.txt)
}

@test "tests/gpu/run: a machine that shows no GPU is told, and the rest is tried all the same" {
	needs_ordinary_user
	skip_if_sanitized
	run -1 env MLRUN="$top_builddir/src/mlrun" OUT="$PWD/out" "$top_srcdir/tests/gpu/run" --tree none
	assert_line "FAIL  this machine has GPUs of NVIDIA's"
	assert_line "pass  mlrun exec runs a command, without GPUs"
	assert_line --regexp '^[0-9]+ passed, [1-9][0-9]* failed, [0-9]+ skipped$'
}

@test "tests/gpu/run: what goes wrong is told, counted, and the exit status" {
	needs_ordinary_user
	# A mlrun that brings no GPU.
	mkdir bin
	cat >bin/mlrun <<-END
		#!/bin/bash
		exec "$top_builddir/src/mlrun" "\${@/#--gpu=all/--gpu=none}"
	END
	chmod +x bin/mlrun
	run -1 env MLRUN="$PWD/bin/mlrun" OUT="$PWD/out" "$top_srcdir/tests/gpu/run" --tree usr-local-nvidia
	assert_line --regexp '^FAIL  exec --gpu=all nvidia-smi -L shows the machine.s GPUs'
	assert_line --regexp '^[0-9]+ passed, [1-9][0-9]* failed, [0-9]+ skipped$'
}
