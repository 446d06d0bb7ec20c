#!/usr/bin/env bats
# mltrain export: what ONNX's own checker and ONNX Runtime make of it.

load common

oracle() { MLTRAIN_NETS="$top_srcdir/src/mltrain/nets" "$top_builddir/tests/cli/net-oracle" "$@"; }

# same_logits NET CxHxW CLASSES: a model of that network gives the logits of the backend reference.
same_logits() {
	python_with onnx onnxruntime
	oracle make "$1" "$2" "$3" net.safetensors
	run -0 mltrain export --checkpoint net.safetensors net.onnx
	"$PYTHON" -c "import numpy, sys
n = numpy.prod([int(v) for v in '$2'.split('x')])
numpy.random.default_rng(1).integers(0, 256, 5 * n, dtype=numpy.uint8).tofile('images')"
	oracle logits net.safetensors images >logits
	run -0 "$PYTHON" "$top_srcdir/tests/cli/onnx_check.py" net.onnx images logits
	assert_output --partial '5 images'
}

@test "mltrain export: onnxruntime computes the reference network's logits" {
	same_logits reference 1x28x28 10
}

@test "mltrain export: onnxruntime computes a residual network's logits" {
	same_logits resnet-8 3x32x32 100
}

@test "mltrain export: onnxruntime computes the logits of every kind of layer" {
	cat >every.json <<-'END'
		{"layers": [
		  {"kind": "dropout", "name": "first"},
		  {"kind": "conv", "name": "logits", "outputs": 5, "size": 3, "stride": 2, "pad": 2, "bias": false},
		  {"kind": "batchnorm", "epsilon": 0.01},
		  {"kind": "relu", "name": "a"},
		  {"kind": "dropout", "name": "b"},
		  {"kind": "conv", "name": "c", "from": "b", "outputs": 5, "size": 4, "stride": 1},
		  {"kind": "maxpool", "name": "d", "size": 3, "stride": 1},
		  {"kind": "avgpool", "name": "e", "from": "c", "size": 3, "stride": 1},
		  {"kind": "add", "name": "f", "with": "d"},
		  {"kind": "avgpool", "name": "g", "size": 2},
		  {"kind": "globalpool", "name": "h"},
		  {"kind": "dense", "name": "i", "from": "g", "outputs": 5, "bias": false},
		  {"kind": "batchnorm", "name": "j"},
		  {"kind": "add", "name": "k", "with": "h"},
		  {"kind": "dropout", "name": "l"},
		  {"kind": "dense", "name": "probabilities", "outputs": "classes"}
		]}
	END
	same_logits ./every.json 2x17x19 7
}

@test "mltrain export: a device or a pipe is written to, and a link's target is replaced" {
	oracle make lenet-5 1x28x28 10 net.safetensors
	run -0 mltrain export --checkpoint net.safetensors net.onnx
	mkfifo pipe
	timeout 300 cat pipe >piped.onnx 3>&- &
	run -0 mltrain export --checkpoint net.safetensors pipe
	wait $!
	[ -p pipe ]
	cmp piped.onnx net.onnx
	# a node of the machine's own is not risked: this one does as well where root may make it
	if [ "$(id -u)" = 0 ] && mknod null c 1 3; then
		run -0 mltrain export --checkpoint net.safetensors null
		[ -c null ]
	fi
	echo was >target
	ln -s target link
	run -0 mltrain export --checkpoint net.safetensors link
	[ -L link ]
	cmp target net.onnx
	mkdir dir
	run -1 mltrain export --checkpoint net.safetensors dir
	assert_output --partial "write 'dir': Is a directory"
}

@test "mltrain export: an export is written as one act, and failing leaves the file as it was" {
	oracle make lenet-5 1x28x28 10 net.safetensors
	run -0 mltrain export --checkpoint net.safetensors --format onnx net.onnx
	assert_line --regexp '^net\.onnx: network lenet-5, images of 1x28x28, 10 classes, [0-9]+ bytes$'
	cp net.onnx was.onnx
	head -c 1000 net.safetensors >torn.safetensors
	run -1 mltrain export --checkpoint torn.safetensors net.onnx
	assert_output --partial "checkpoint 'torn.safetensors'"
	cmp net.onnx was.onnx
	run -1 mltrain export --checkpoint net.safetensors /none/net.onnx
	assert_output --partial "export checkpoint 'net.safetensors' to '/none/net.onnx': "
	run -0 mltrain export --checkpoint net.safetensors again.onnx
	cmp net.onnx again.onnx
	[ "$(ls)" = "$(printf '%s\n' again.onnx net.onnx net.safetensors torn.safetensors was.onnx)" ]
}

@test "mltrain export: the checkpoint is not overwritten, by whatever name" {
	oracle make reference 1x28x28 10 net.safetensors
	cp net.safetensors before
	ln -s net.safetensors link
	for out in net.safetensors "$PWD/net.safetensors" link; do
		run -1 mltrain export --checkpoint net.safetensors "$out"
		assert_output "mltrain: '$out' is the checkpoint itself, not overwriting it"
		cmp net.safetensors before
	done
}

@test "mltrain export: wrong options" {
	run -2 mltrain export net.onnx
	assert_output --partial 'which weights?'
	run -2 mltrain export --checkpoint x
	assert_output --partial 'where to?'
	run -2 mltrain export --checkpoint x --format tflite net.onnx
	assert_output --partial "--format takes onnx or safetensors, not 'tflite'"
}
