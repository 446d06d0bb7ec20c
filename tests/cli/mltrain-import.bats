#!/usr/bin/env bats
# mltrain import, and export for PyTorch: state dictionaries in safetensors files.

load common

setup() {
	common_setup
	cd "$BATS_TEST_TMPDIR"
}

oracle() { MLTRAIN_NETS="$top_srcdir/src/mltrain/nets" "$top_builddir/tests/cli/net-oracle" "$@"; }

# renamed IN OUT RENAMES [TYPE]: the weights of a checkpoint in another program's names.
renamed() { python3 "$top_srcdir/tests/cli/state_dict.py" "$@"; }

# same_logits A B: the same predictions, to the last bit, of made-up images.
same_logits() {
	head -c $((5 * 3072)) /dev/urandom >images
	oracle logits "$1" images >a
	oracle logits "$2" images >b
	cmp a b
}

# Modules of a Sequential, which a file has in the order 0, 10, 3, 7.
sequential='{"conv1": "0", "conv2": "3", "fc1": "7", "fc2": "10"}'

@test "mltrain import: a Sequential's modules are matched in order, and predictions are the same" {
	oracle make reference 1x32x32 10 net.st
	renamed net.st torch.st "$sequential"
	# the oracle's images are less 127.5, by 255
	run -0 mltrain import --net reference --input 1x32x32 --mean 0.5 torch.st -o got.st
	assert_output "conv1 <- 0
conv2 <- 3
fc1 <- 7
fc2 <- 10
got.st: network convolutional, images of 1x32x32, 10 classes, $(mltrain net reference --input 1x32x32 --json | jq .parameters) parameters"
	same_logits net.st got.st
	run -0 mltrain import -q --net reference --input 1x32x32 --std 0.5 torch.st -o got.st
	[ "${#lines[@]}" = 1 ]
	run ! same_logits net.st got.st
}

@test "mltrain import: halves and bfloats are read as the floats that they are, other types refused" {
	oracle make lenet-5 1x28x28 10 net.st
	local type as
	for type in F16 BF16; do
		for as in $type as-$type; do
			renamed net.st torch.st '{}' $as
			run -0 mltrain import --net lenet-5 torch.st -o $as.st
		done
		cmp $type.st as-$type.st
	done
	run ! cmp -s F16.st BF16.st
	renamed net.st torch.st '{"fc3": "last"}' F64
	run -1 mltrain import --net lenet-5 torch.st -o F64.st
	assert_line "mltrain: warning: tensor 'last.bias' is of type F64; F32, F16 and BF16 are read"
	[ ! -e F64.st ]
}

@test "mltrain import: names that do not tell ask for a map, which may leave modules out" {
	oracle make resnet-8 3x32x32 10 net.st
	local names='{"block2.bn1": "two.bn_a", "block2.bn2": "two.bn_b", "block2.short_bn": "two.skip.1"}'
	renamed net.st torch.st "$names"
	run -1 mltrain import --net resnet-8 --input 3x32x32 torch.st -o got.st
	assert_line "mltrain: warning: layer 'block2.bn1': 3 modules have its shapes, and their names do not tell: 'two.bn_a', 'two.bn_b', 'two.skip.1'"
	assert_line "mltrain: import 'torch.st': its tensors are not those of network 'resnet-8'"
	assert_line --partial "hint: --map FILE says which module is which layer"
	[ ! -e got.st ]
	jq -n "$names"' | with_entries({key: .value, value: .key})' >map.json
	run -0 mltrain import --net resnet-8 --input 3x32x32 --mean 0.5,0.4607843,0.4215686 --std 1,0.8039216,0.6078431 \
		--map map.json torch.st -o got.st
	assert_line "block2.short_bn <- two.skip.1"
	assert_line "block3.bn1 <- block3.bn1"
	# the numbers above are rounded: predictions are not those of the oracle to the last bit
	run -0 mltrain export --checkpoint got.st --format safetensors got
	run -0 mltrain export --checkpoint net.st --format safetensors want
	cmp got want
	# modules that no layer has
	renamed net.st torch.st '{"fc": "aux.head.fc", "conv1": ""}'
	renamed net.st torch.st '{"fc": "aux.head.fc"}'
	jq -n '{"aux": null}' >map.json
	run -1 mltrain import --net resnet-8 --input 3x32x32 --map map.json torch.st -o got.st
	assert_line "mltrain: warning: layer 'fc' needs a weight of 10x64 and a bias: no module has them"
	refute_output --partial aux.head
	jq -n '{"aux.head.fc": "fc"}' >map.json
	run -0 mltrain import --net resnet-8 --input 3x32x32 --map map.json torch.st -o got.st
}

@test "mltrain import: every tensor, layer and entry of the map that does not fit is named" {
	oracle make lenet-5 1x28x28 12 net.st
	renamed net.st torch.st '{"conv2": "", "fc1": "x.odd"}'
	echo '{"conv9": "conv1", "fc2": "nowhere", "gone": null}' >map.json
	run -1 mltrain import --net lenet-5 --map map.json torch.st -o got.st
	assert_line "mltrain: warning: the map's 'conv9' is not in the file"
	assert_line "mltrain: warning: the map sends 'fc2' to 'nowhere', which is no layer with weights"
	assert_line "mltrain: warning: the map's 'gone' is not in the file"
	assert_line "mltrain: warning: layer 'conv2' needs a weight of 16x6x5x5 and a bias: no module has them"
	assert_line "mltrain: warning: tensor 'fc3.weight' is 12x84 where layer 'fc3' needs 10x84"
	assert_line "mltrain: warning: tensor 'fc3.bias' is 12 where layer 'fc3' needs 10"
	run -1 mltrain import --net lenet-5 --input 1x32x32 torch.st -o got.st
	assert_line "mltrain: warning: tensor 'x.odd.weight', 120x400, belongs to no layer"
	assert_line "mltrain: warning: layer 'fc1' needs a weight of 120x576 and a bias: no module has them"
	local bad
	for bad in '[]' '{"a": 1}' '{"a": "fc1", "b": "fc1"}' '{' '{"a": null, "a": null}'; do
		echo "$bad" >map.json
		run -1 mltrain import --net lenet-5 --map map.json torch.st -o got.st
		assert_output --partial "map 'map.json': "
	done
	[ ! -e got.st ]
	jq -nc '[range(16385) | {key: "m\(.)", value: null}] | from_entries' >map.json
	run -1 mltrain import --net lenet-5 --map map.json torch.st -o got.st
	assert_output --partial "map 'map.json': 16385 entries; 16384 are the limit"
}

# tensors FILE NAME=ROWS[xCOLUMNS]...: a safetensors file of zeroes.
tensors() {
	python3 -c 'import json, struct, sys
header, at = {}, 0
for arg in sys.argv[2:]:
    name, shape = arg.split("=")
    shape = [int(n) for n in shape.split("x")]
    size = 4 * shape[0] * (shape[1] if shape[1:] else 1)
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
    at += size
text = json.dumps(header).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + bytes(at))' "$@"
}

@test "mltrain import: a model of one module, single tensors left out, and a part that is there twice" {
	echo '{"name": "line", "layers": [{"kind": "dense", "name": "line", "outputs": "classes"}]}' >net.json
	local net="--net ./net.json --input 1x2x2"
	tensors one.st weight=10x4 bias=10
	run -0 mltrain import $net one.st -o got.st
	assert_line "line <- "
	echo '{"": "line"}' >map.json
	run -0 mltrain import -q $net --map map.json one.st -o got.st
	run -0 mltrain export --checkpoint got.st --format safetensors --map map.json out.st
	run -0 mltrain import -q $net --map map.json out.st -o back.st
	cmp got.st back.st

	tensors more.st line.weight=10x4 line.bias=10 mean.weight=3 line.running_mean=10
	run -1 mltrain import $net more.st -o no.st
	echo '{"mean.weight": null, "line.running_mean": null}' >map.json
	run -0 mltrain import -q $net --map map.json more.st -o got.st
	echo '{"mean": null, "line.running_mean": null, "line.bias": null}' >map.json
	run -1 mltrain import $net --map map.json more.st -o no.st
	assert_line "mltrain: warning: module 'line' has no bias, which layer 'line' needs"

	tensors twice.st weight=10x4 .weight=10x4 bias=10
	run -1 mltrain import $net twice.st -o no.st
	assert_line "mltrain: warning: tensors 'weight' and '.weight' are the same part"
	[ ! -e no.st ]
}

@test "mltrain import: a file of torch.save() is called so, with the way to make one of safetensors" {
	printf 'PK\3\4\0\0\10\10archive/data.pkl' >new.pt
	printf '\200\2\212\nl\374\234F\371 j\250P' >old.pt
	for file in new.pt old.pt; do
		run -1 mltrain import --net reference $file -o got.st
		assert_line --index 0 "mltrain: import '$file': a file of torch.save(), not safetensors"
		assert_line --index 1 --partial 's.save_file(torch.load("FILE.pt", weights_only=True)'
		run -1 mltrain eval --checkpoint $file
		assert_line --index 0 "mltrain: checkpoint '$file': a file of torch.save(), not safetensors"
	done
}

@test "mltrain import: wrong options, and a file that is none" {
	run -2 mltrain import --net lenet-5 -o got.st
	assert_output --partial 'which weights?'
	run -2 mltrain import -o got.st x
	assert_output --partial 'of which network?'
	run -2 mltrain import --net lenet-5 x
	assert_output --partial 'where to?'
	run -2 mltrain import --net lenet-5 --std 0 x -o got.st
	run -1 mltrain import --net lenet-5 none -o got.st
	assert_output "mltrain: import: open 'none': No such file or directory"
	echo "no tensors here" >torn
	run -1 mltrain import --net lenet-5 torn -o got.st
	assert_output --partial "mltrain: import 'torn': not a safetensors file"
	run -1 mltrain import --net lenet-5 torn -o ./torn
	assert_output --partial "is the file to read"
	oracle make lenet-5 1x28x28 10 net.st
	renamed net.st torch.st '{}'
	run -1 mltrain import --net lenet-5 --mean 1,2 torch.st -o got.st
	assert_output --partial "reads images of 1 channels"
	run -2 mltrain export --checkpoint net.st --map map.json out
	assert_output --partial '--map needs --format safetensors'
}

@test "mltrain export for PyTorch: the same map leads back, and the file is the safetensors library's, too" {
	oracle make reference 1x32x32 10 net.st
	jq -n "$sequential"' | with_entries({key: .value, value: .key})' >map.json
	run -0 mltrain export --checkpoint net.st --format safetensors --map map.json out.st
	run -0 mltrain import --net reference --input 1x32x32 --mean 0.5 --map map.json out.st -o back.st
	same_logits net.st back.st
	digest=$(python3 -c 'import hashlib, json, struct
b = open("out.st", "rb").read()
n, = struct.unpack("<Q", b[:8])
m = json.loads(b[8:8 + n])["__metadata__"]
assert m == {"format": "pt", "weights": "sha256:" + hashlib.sha256(b[8 + n:]).hexdigest()}, m
print(m["weights"])')
	python3 -c 'import struct, sys; sys.stdout.buffer.write(struct.pack(">4I", 2051, 1, 32, 32) + bytes(1024))' >one-idx3-ubyte
	[ "$(mltrain predict --json --checkpoint back.st one-idx3-ubyte:0 | jq -r .weights)" = "$digest" ]
	echo '{"x": "conv9"}' >bad.json
	run -1 mltrain export --checkpoint net.st --format safetensors --map bad.json out
	assert_output --partial "the map sends 'x' to 'conv9', which is no layer with weights"
	echo '{"conv2": "conv1"}' >bad.json
	run -1 mltrain export --checkpoint net.st --format safetensors --map bad.json out
	assert_output --partial "the map gives layer 'conv1' the name of layer 'conv2'"
	python_with numpy safetensors
	run -0 "$PYTHON" -c 'import sys, safetensors.numpy as s
t = s.load_file("out.st")
print(sorted((k, v.shape) for k, v in t.items()))
s.save_file({"net." + k: v for k, v in t.items()}, "again.st")'
	assert_output "[('0.bias', (32,)), ('0.weight', (32, 1, 5, 5)), ('10.bias', (10,)), ('10.weight', (10, 512)), ('3.bias', (64,)), ('3.weight', (64, 32, 5, 5)), ('7.bias', (512,)), ('7.weight', (512, 4096))]"
	run -0 mltrain import --net reference --input 1x32x32 --mean 0.5 again.st -o again
	same_logits net.st again
}

@test "mltrain import: PyTorch's own file gives PyTorch's predictions, and an export gives them back" {
	local torch="import torch, safetensors.torch"
	python3 -c "$torch" 2>/dev/null || skip "python3 has no torch and safetensors (Debian's python3-torch, PyPI's safetensors)"
	cat >net.json <<-'END'
		{"name": "torch", "input": {"channels": 3, "height": 12, "width": 20}, "layers": [
		  {"kind": "conv", "name": "conv0", "outputs": 8, "size": 5, "stride": 2, "pad": 2},
		  {"kind": "batchnorm", "name": "bn0"},
		  {"kind": "relu", "name": "first"},
		  {"kind": "conv", "name": "conv1", "outputs": 8, "size": 3, "pad": "same", "bias": false},
		  {"kind": "batchnorm", "name": "bn1"},
		  {"kind": "relu"},
		  {"kind": "conv", "name": "conv2", "outputs": 8, "size": 3, "pad": "same", "bias": false},
		  {"kind": "batchnorm", "name": "bn2"},
		  {"kind": "relu"},
		  {"kind": "add", "with": "first"},
		  {"kind": "maxpool", "size": 2},
		  {"kind": "dense", "name": "fc1", "outputs": 20},
		  {"kind": "relu"},
		  {"kind": "dropout"},
		  {"kind": "dense", "name": "fc2", "outputs": "classes"}
		]}
	END
	echo '{"stem.1": "bn0", "norm.0": "bn1", "norm.1": "bn2"}' >map.json
	python3 "$top_srcdir/tests/cli/torch_check.py" make torch.st images want
	run -0 mltrain import --net ./net.json --classes 7 --mean 0.5,0.4,0.3 --std 0.2,0.25,0.3 --map map.json torch.st -o got.st
	assert_line "conv0 <- stem.0"
	assert_line "conv2 <- body.1"
	assert_line "fc2 <- head.3"
	oracle logits got.st images >got
	run -0 python3 -c 'import sys
a, b = ([[float(v) for v in line.split()] for line in open(f)] for f in sys.argv[1:])
away = max(abs(x - y) for r, s in zip(a, b) for x, y in zip(r, s)) / max(1, max(abs(x) for r in a for x in r))
assert len(a) == len(b) == 5 and away < 1e-5, away
print("largest difference %.2g" % away)' want got
	echo "$output" >&3
	echo '{"stem.0": "conv0", "stem.1": "bn0", "body.0": "conv1", "norm.0": "bn1", "body.1": "conv2", "norm.1": "bn2",
	       "head.0": "fc1", "head.3": "fc2"}' >map.json
	run -0 mltrain export --checkpoint got.st --format safetensors --map map.json back.st
	run -0 python3 "$top_srcdir/tests/cli/torch_check.py" load back.st want
}
