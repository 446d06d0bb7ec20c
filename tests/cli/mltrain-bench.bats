#!/usr/bin/env bats
# mltrain bench: what it prints. Its figures are this machine's, and tested nowhere.

load common

# bench ARG...: one quick row or few.
bench() { mltrain bench --seconds 0.01 --threads 1 "$@"; }

setup_file() { bench --net lenet-5 --backend reference --dtype f32,bf16 --batch 1,3 >"$BATS_FILE_TMPDIR/table"; }

@test "mltrain bench: a table of training and predicting, a row a batch size" {
	run -0 cat "$BATS_FILE_TMPDIR/table"
	assert_line --regexp '^net lenet-5: 61706 parameters, 0\.833 MFLOP an image forward$'
	assert_line 'backend reference, 1 thread; 7 rounds in 0.01 s a row'
	for row in 'train +f32 +1' 'train +f32 +3' 'predict +f32 +1' 'predict +f32 +3'; do
		assert_line --regexp "^$row +[0-9]+ \([0-9]+\.\.[0-9]+\) +[0-9.]+ \([0-9.]+\.\.[0-9.]+\) +[0-9.]+ +- +[0-9.]+$"
	done
}

@test "mltrain bench: a backend without a library claims no roofline" {
	run -0 cat "$BATS_FILE_TMPDIR/table"
	assert_line --regexp '^roofline f32: no library whose matrix product could be measured, copy [0-9.]+ \(.*\) GB/s$'
	bench --net lenet-5 --backend reference --dtype f32 --batch 1 --only train --json >it.json
	run -0 jq -c '.rooflines[0].product_flops, (.rows[] | [.batch, .bound, .roofline_share])' it.json
	assert_output $'null\n[1,null,null]'
}

@test "mltrain bench: a dtype that is not there says so in its rows, and the others are measured" {
	run -0 cat "$BATS_FILE_TMPDIR/table"
	for row in 'roofline bf16:' 'train +bf16 +1' 'train +bf16 +3' 'predict +bf16 +1' 'predict +bf16 +3'; do
		assert_line --regexp "^$row +not measured: .*bf16"
	done
}

@test "mltrain bench: where nothing can be measured it fails and tells why" {
	run -1 bench --net lenet-5 --backend reference --dtype bf16 --batch 2
	assert_line --regexp '^mltrain: bench: nothing could be measured: .*bf16'
}

@test "mltrain bench --json: every key, medians between the least and the most, shares that follow from them" {
	bench --net lenet-5 --dtype f32 --batch 4 --json >it.json
	run -0 jq -r 'keys_unsorted | join(" ")' it.json
	assert_output 'net parameters forward_flops backend device threads rounds seconds seed rooflines rows'
	run -0 jq -c '[.rows[] | [.use, .dtype, .batch, .error]]' it.json
	assert_output '[["train","f32",4,null],["predict","f32",4,null]]'
	run -0 jq -e 'def near($x): . / $x > 0.999 and . / $x < 1.001;
		def spread: .min > 0 and .min <= .median and .median <= .max;
		.forward_flops as $flops | .parameters as $parameters | .rooflines[0] as $top |
		($top.copy_bytes | spread) and
		([.rows[] | (.step_seconds | spread) and (.images_per_second | spread) and .steps > 0 and .memory_bytes > 0] | all) and
		([.rows[] | .batch as $b | (if .use == "train" then 3 else 1 end) as $times |
			(.images_per_second.median * .step_seconds.median | near($b)) and
			(.flops * .step_seconds.median | near($times * $b * $flops)) and
			($top.product_flops == null or
				((if .use == "train" then 24 else 4 end) * $parameters / $top.copy_bytes.median) as $copy |
				($times * $b * $flops / $top.product_flops.median) as $product |
				(.bound == (if $product > $copy then "products" else "memory" end)) and
				(.roofline_share * .step_seconds.median | near([$product, $copy] | max)))] | all)' it.json
	assert_output true
}

@test "mltrain bench --only: one of the two uses" {
	bench --net lenet-5 --backend reference --dtype f32 --batch 2,4 --only predict --json >it.json
	run -0 jq -c '[.rows[] | [.use, .batch]]' it.json
	assert_output '[["predict",2],["predict",4]]'
	bench --net lenet-5 --backend reference --dtype f32 --batch 2 --only train --json >it.json
	run -0 jq -c '[.rows[] | [.use, .batch]]' it.json
	assert_output '[["train",2]]'
	run -2 bench --only testing
	assert_line --partial "--only 'testing' is not one of: train, predict"
}

@test "mltrain bench --verbose: oneDNN's engines tell their plans of memory" {
	case " $(mltrain --version)" in *onednn*) ;; *) skip "this mltrain was built without oneDNN" ;; esac
	run -0 bench --net lenet-5 --backend onednn --dtype f32 --batch 2 --only predict --verbose
	assert_line --partial 'parameters'
	assert_line --regexp '^roofline f32: matrix product [0-9.]+ \([0-9.]+\.\.[0-9.]+\) GFLOP/s, copy '
}

@test "mltrain bench: what can't be asked is named" {
	run -2 mltrain bench --dtype f32,f16
	assert_line --partial "--dtype 'f16' is not one of: f32, tf32, bf16"
	run -2 mltrain bench --dtype f32,f32
	assert_line --partial '--dtype names f32 twice'
	run -2 mltrain bench --batch 1,,2
	assert_line --partial "--batch '' is not a whole number"
	run -2 mltrain bench --batch 0
	assert_line --partial "--batch '0' is not a whole number"
	run -2 mltrain bench --secnds 1
	assert_line --partial 'is --seconds meant?'
	run -1 mltrain bench --net no-such-net
	assert_output --partial no-such-net
}
