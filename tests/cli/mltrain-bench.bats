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
	assert_output 'net parameters forward_flops backend device isa threads rounds seconds seed rooflines rows'
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

# What oneDNN and our own kernels can compute with here, the narrowest first.
isas() {
	for isa in sse4 avx2 avx512 avx512-bf16 amx; do
		mltrain bench --isa "$isa" --only predict --net lenet-5 --batch 1 --dtype f32 --seconds 0.01 --threads 1 >/dev/null 2>&1 || break
		echo "$isa"
	done
}

@test "mltrain --isa: each that the machine has is named, trains as the reference does, and predicts" {
	case " $(mltrain --version)" in *onednn*) ;; *) skip "this mltrain was built without oneDNN" ;; esac
	local widest isa
	isas >isas
	[ -s isas ]
	widest=$(tail -n 1 isas)
	run -0 bench --net lenet-5 --dtype f32 --batch 1
	assert_line "backend onednn, $widest, 1 thread; 7 rounds in 0.01 s a row"
	python3 - <<-'END'
		import struct
		for name, labels in (("train", 0), ("t10k", 0)):
		    n, state, pixels = 96, 1, bytearray()
		    for i in range(n * 784):
		        state = (state * 1103515245 + 12345) % 2**31
		        pixels.append((state >> 16) % 256 if (i // 784 + i) % 3 else 0)
		    open(f"{name}-images-idx3-ubyte", "wb").write(struct.pack(">4i", 2051, n, 28, 28) + pixels)
		    open(f"{name}-labels-idx1-ubyte", "wb").write(struct.pack(">2i", 2049, n) + bytes(i * 7 % 10 for i in range(n)))
	END
	train() { mltrain train -q --data . --validation 16 --batch 20 --steps 3 --log-every 1 --seed 1 --threads 2 "$@"; }
	train --backend reference --log reference.jsonl --checkpoint reference.safetensors
	mltrain eval --backend reference --checkpoint reference.safetensors --data . --json >want.json
	while read -r isa; do
		run -0 bench --net lenet-5 --dtype f32 --batch 1 --isa "$isa"
		assert_line "backend onednn, $isa, 1 thread; 7 rounds in 0.01 s a row"
		train --isa "$isa" --log "$isa.jsonl" --checkpoint "$isa.safetensors"
		assert_equal "$(jq -r 'select(.event == "run") | .isa' "$isa.jsonl")" "$isa"
		jq -es --slurpfile want reference.jsonl 'map(select(.event == "step") | .loss) as $got |
			($want | map(select(.event == "step") | .loss)) as $want |
			($got | length) == 3 and ([range(3) | (($got[.] - $want[.]) | fabs) < 2e-4 * $want[.]] | all)' "$isa.jsonl"
		name=$(sed 's/sse4/SSE41/; s/avx2/AVX2/; s/^avx512$/AVX512_CORE/; s/avx512-bf16/AVX512_CORE_BF16/; s/amx/AVX512_CORE_AMX/' <<<"$isa")
		# bf16: the same losses but for rounding, and not the same bits; said once where it is no faster.
		train --isa "$isa" --dtype bf16 --log "$isa.half.jsonl" 2>said
		jq -es --slurpfile want reference.jsonl 'map(select(.event == "step") | .loss) as $got |
			($want | map(select(.event == "step") | .loss)) as $want | $got != $want and
			($got | length) == 3 and ([range(3) | (($got[.] - $want[.]) | fabs) < 0.02 * $want[.]] | all)' "$isa.half.jsonl"
		case $isa in
		avx512-bf16 | amx) assert_equal "$(cat said)" "" ;;
		*) assert_equal "$(cat said)" "mltrain: bf16 without AVX512_BF16 or AMX: computing in f32 with weights rounded to bf16, as fast as f32" ;;
		esac
		ONEDNN_MAX_CPU_ISA=$name mltrain eval --checkpoint reference.safetensors --data . --threads 1 --json >its.json
		jq -e --slurpfile want want.json '(.cross_entropy - $want[0].cross_entropy | fabs) < 1e-4 * $want[0].cross_entropy' its.json
	done <isas
	run -2 bench --isa mmx
	assert_line --partial "--isa: 'mmx' is not one of: sse4, avx2, avx512, avx512-bf16, amx"
}

@test "mltrain bench --only: one of the two uses" {
	bench --net lenet-5 --backend reference --dtype f32 --batch 2,4 --only predict --json >it.json
	run -0 jq -c '[.rows[] | [.use, .batch]]' it.json
	assert_output '[["predict",2],["predict",4]]'
	bench --net lenet-5 --backend reference --dtype f32 --batch 2 --only train --json >it.json
	run -0 jq -c '[.rows[] | [.use, .batch]]' it.json
	assert_output '[["train",2]]'
	run -2 bench --only testing
	assert_line --partial "--only takes train or predict, not 'testing'"
}

@test "mltrain bench --verbose: oneDNN's engines tell their plans of memory" {
	case " $(mltrain --version)" in *onednn*) ;; *) skip "this mltrain was built without oneDNN" ;; esac
	run -0 bench --net lenet-5 --backend onednn --dtype f32 --batch 2 --only predict --verbose
	assert_line --partial 'parameters'
	assert_line --regexp '^roofline f32: matrix product [0-9.]+ \([0-9.]+\.\.[0-9.]+\) GFLOP/s, copy '
}

@test "mltrain bench: what can't be asked is named" {
	run -2 mltrain bench --dtype f32,f16
	assert_line --partial "--dtype takes f32, tf32 or bf16, not 'f16'"
	run -2 mltrain bench --dtype f32,f32
	assert_line --partial '--dtype names f32 twice'
	run -2 mltrain bench --batch 1,,2
	assert_line --partial "--batch takes a whole number from 1 to 16777216, not ''"
	run -2 mltrain bench --batch 0
	assert_line --partial "--batch takes a whole number from 1 to 16777216, not '0'"
	run -2 mltrain bench --secnds 1
	assert_line --partial 'is --seconds meant?'
	run -1 mltrain bench --net no-such-net
	assert_output --partial no-such-net
}
