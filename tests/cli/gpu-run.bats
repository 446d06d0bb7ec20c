#!/usr/bin/env bats
# tests/gpu/run is for a machine with a GPU: here on made-up ones, so that it is known to work when there is one.

load common
load gpu

@test "tests/gpu/run: all but kernels passes on a made-up machine" {
	needs_ordinary_user
	skip_if_sanitized
	run -0 env MLRUN="$top_builddir/bin/mlrun" OUT="$PWD/out" "$top_srcdir/tests/gpu/run" --tree hgx
	assert_line --regexp '^[0-9]+ passed, 0 failed, [0-9]+ skipped$'
	refute_line --regexp '^FAIL'
	assert_line "pass  exec --gpu=all nvidia-smi -L shows the machine's GPUs"
	[ "$(grep -c '^GPU' out/nvidia-smi.txt)" = 8 ]
	grep -q '^gpu .* is chosen: --gpu=all' <(sed 's/^ *//' out/report.txt)
}

@test "tests/gpu/run: a machine that shows no GPU is told, and the rest is tried all the same" {
	needs_ordinary_user
	skip_if_sanitized
	run -1 env MLRUN="$top_builddir/bin/mlrun" OUT="$PWD/out" "$top_srcdir/tests/gpu/run" --tree none
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
		exec "$top_builddir/bin/mlrun" "\${@/#--gpu=all/--gpu=none}"
	END
	chmod +x bin/mlrun
	run -1 env MLRUN="$PWD/bin/mlrun" OUT="$PWD/out" "$top_srcdir/tests/gpu/run" --tree usr-local-nvidia
	assert_line --regexp '^FAIL  exec --gpu=all nvidia-smi -L shows the machine.s GPUs'
	assert_line --regexp '^[0-9]+ passed, [1-9][0-9]* failed, [0-9]+ skipped$'
}

# trainer_pack: what tests/gpu/trainer runs, made up: a mltrain that says what it is told to, and hangs with $HANG
trainer_pack() {
	mkdir -p tests/gpu build-gpu/trainer/data
	touch build-gpu/trainer/data/train-images-idx3-ubyte
	cp "$top_srcdir/tests/gpu/trainer" tests/gpu/
	cat >build-gpu/trainer/mltrain <<-'END'
		#!/bin/bash
		[[ -z "$HANG" || $1 != train ]] || exec sleep 60
		[[ "$*" != *--checkpoint* ]] || echo weights >"${@: -1}"
		echo "test accuracy 99.20 % (error 0.80 %)"
		echo "training time 0.10 s (40 steps, 700000 images/s)"
	END
	printf '#!/bin/sh\necho "mltrain: no GPU" >&2\nexit 1\n' >build-gpu/trainer/test_trainer_cuda_device
	echo mnist >build-gpu/trainer/data.from
}

@test "tests/gpu/trainer: each part is told, whatever became of those before, and all of it is in the report" {
	trainer_pack
	run -1 env OUT="$PWD/out" PARTS="unit driver rate overlap accuracy target cold deterministic none" tests/gpu/trainer
	assert_line --regexp '^FAIL  every kind of layer .*status 1'
	assert_line "pass  the driver is found without LD_LIBRARY_PATH"
	assert_line "pass  images/s in bf16: 64:700000 256:700000 1024:700000 4096:700000"
	assert_line "pass  with and without overlapping kernels weights are the same, bit by bit"
	assert_line "batch 64, MLTRAIN_CUDA_OVERLAP=0: 700000 images/s"
	assert_line "pass  graphs are captured with overlapping kernels"
	assert_line "pass  after 10 epochs in bf16: 0.80 % wrong, in 0.10 s"
	assert_line "pass  after 5 epochs of AdamW in bf16: 0.80 % wrong"
	assert_line --regexp '^pass  at most 1.0 % wrong on five seeds'
	assert_line "pass  two runs end with the same weights, bit by bit"
	assert_line "FAIL  there is no part 'none'"
	assert_line --regexp '^13 passed, 2 failed, 0 skipped, [0-9]+ s$'
	grep -q '^mltrain: no GPU' out/report.txt
	grep -q '^13 passed, 2 failed' out/report.txt
}

@test "tests/gpu/trainer: a data set that lies there takes the place of the pack's, and has its own bar" {
	trainer_pack
	rm -r build-gpu/trainer/data build-gpu/trainer/data.from
	run -2 env OUT="$PWD/out" PARTS=target tests/gpu/trainer
	assert_output --partial "no data set in"
	mkdir fashion-mnist
	touch fashion-mnist/train-images-idx3-ubyte
	run -0 env DATA="$PWD/fashion-mnist" OUT="$PWD/out" PARTS=target tests/gpu/trainer
	assert_line --regexp '^pass  at most 11.0 % wrong on five seeds'
	grep -q -- "--data $PWD/fashion-mnist" out/report.txt
}

@test "tests/gpu/trainer: ncu's times of each kernel are summed, the longest first" {
	trainer_pack
	mkdir bin
	cat >bin/ncu <<-'END'
		#!/bin/sh
		echo '==PROF== Profiling "conv": 0%....100%'
		echo '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
		echo '"0","update","gpu__time_duration.sum","nsecond","4,500"'
		echo '"1","conv<1, 2>","gpu__time_duration.sum","nsecond","7,250"'
		echo '"2","update","gpu__time_duration.sum","us","5.5"'
	END
	chmod +x bin/ncu
	run -0 env PATH="$PWD/bin:$PATH" OUT="$PWD/out" PARTS=kernels tests/gpu/trainer
	assert_line "update 10.00 2"
	assert_line "conv<1, 2> 7.25 1"
	assert_line --regexp '^2 passed, 0 failed'
}

@test "tests/gpu/run: PARTS and TIME choose what runs, and for how long" {
	needs_ordinary_user
	skip_if_sanitized
	run -0 env MLRUN="$top_builddir/bin/mlrun" OUT="$PWD/out" PARTS="machine user" "$top_srcdir/tests/gpu/run" --tree hgx
	assert_line --regexp '^3 passed, 0 failed, 0 skipped$'
	run -1 env MLRUN="$top_builddir/bin/mlrun" OUT="$PWD/out" TIME=0 PARTS="user none" "$top_srcdir/tests/gpu/run" --tree hgx
	assert_line "FAIL  there is no part 'none'"
	assert_line --regexp '^0 passed, 3 failed'
}

@test "tests/gpu/trainer: what hangs ends with the time that there is, and the rest is not tried" {
	trainer_pack
	run -1 env HANG=1 OUT="$PWD/out" TIME=3 PARTS="accuracy cold peers" timeout 50 tests/gpu/trainer
	assert_line --regexp "^FAIL  after 10 epochs in f32: '' % wrong"
	assert_line "FAIL  a cold process"
	assert_line "FAIL  PyTorch's and JAX's rates: no time is left"
	grep -q '^there was no time left for it' out/report.txt
}
