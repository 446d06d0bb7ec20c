#!/usr/bin/env bats
# mltrain net: what descriptions of networks say.

load common

@test "mltrain net: the networks that come with it are listed" {
	run -0 mltrain net
	assert_line --regexp '^lenet-5 .*LeCun'
	assert_line --regexp '^mnist-fast '
	assert_line --regexp '^reference .*convolutional\.py'
	assert_line --regexp '^resnet-8 .*residual'
}

@test "mltrain net: a table of layers, sums and the recipe" {
	run -0 mltrain net reference
	assert_line --regexp '^conv1 +conv 5x5 +input +32x28x28 +832 +1\.254$'
	assert_line --regexp '^pool2 +maxpool 2x2 +relu2 +64x7x7$'
	assert_line --regexp '^fc1 +dense +pool2 +512 +1606144 +3\.211$'
	assert_line 'input 1x28x28, 10 classes: 1663370 parameters (6.7 MB), 24.546 MFLOP an image forward'
	assert_line 'recipe: 10 epochs of batches of 64, 5000 images for validation, of a small data set a tenth'
	run -0 mltrain net mnist-fast
	assert_line 'recipe: 2 epochs of batches of 128, 0 images for validation'
	run -0 mltrain net resnet-8 --input 3x32x32 --classes 100
	assert_line --regexp '^block3\.sum +add +block3\.short_bn \+ block3\.bn2 +64x8x8$'
	assert_line --partial 'input 3x32x32, 100 classes: '
	run -0 mltrain net resnet-18 --input 3x32x32
	assert_line --partial 'input 3x32x32, 10 classes: 11173962 parameters (44.7 MB), 1110.845 MFLOP'
}

@test "mltrain: an answer that standard output does not take is an error, told once" {
	for command in net "net reference" "net lenet-5 --json" --version "net --help"; do
		run -1 bash -c "mltrain $command 2>&1 >/dev/full"
		assert_output 'mltrain: not all of the answer could be written to stdout'
	done
}

@test "mltrain net --json: the same as an object" {
	mltrain net lenet-5 --json >net.json
	run -0 jq -c '[.name, .input, .classes, .parameters, .states, .layers[0].name, .layers[0].output]' net.json
	assert_output '["lenet-5",[1,28,28],10,61706,0,"conv1",[6,28,28]]'
	run -0 jq -c '.layers[0] | [.kind, .from, .with, .parameters, .states, .flops == 235200]' net.json
	assert_output '["conv","input",null,156,0,true]'
	run -0 jq -c '[.train.schedule.kind, .train.lr == 0.02, .layers[1].flops == 0]' net.json
	assert_output '["cosine",true,true]'
	mltrain net resnet-8 --json >net.json
	run -0 jq -c '[([.layers[].parameters] | add) == .parameters, ([.layers[].states] | add) == .states, .train.augment]' net.json
	assert_output '[true,true,{"shift":4,"flip":true,"cutout":0}]'
}

@test "mltrain net: a slip is told with the file, the layer and what was meant" {
	cat >own.json <<-'END'
		{"layers": [
		  {"kind": "conv", "name": "first", "outputs": 4, "size": 3, "paad": "same"},
		  {"kind": "dense", "outputs": "classes"}
		]}
	END
	run -1 mltrain net own.json
	assert_line "mltrain: net 'own.json': layer 1 'first': unknown key 'paad'"
	assert_line "hint: is 'pad' meant?"
	sed -i 's/paad/pad/' own.json
	run -0 mltrain net ./own.json
	assert_line --partial 'own: a network of its own'
	echo '{"layers": [' >own.json
	run -1 mltrain net own.json
	assert_output --partial "net 'own.json': line 2, column 0: "
}

@test "mltrain net: a name that is none, an input that does not fit, wrong options" {
	run -1 mltrain net alexnet
	assert_line "mltrain: no net 'alexnet' came with mltrain, which has: lenet-5, mnist-fast, reference, resnet-18, resnet-8"
	assert_line 'hint: a description of your own is given by its path: ./alexnet.json'
	run -1 mltrain net none.json
	assert_output --partial "net 'none.json': "
	assert_output --partial 'No such file or directory'
	run -1 mltrain net reference --input 1x2x2
	assert_output --partial "layer 6 'pool2': window size 2 is larger than its input 64x1x1"
	run -2 mltrain net reference --input 28x28
	assert_output --partial "--input '28x28' is not CHANNELSxHEIGHTxWIDTH"
	run -2 mltrain net reference --classes 0
	run -2 mltrain net reference lenet-5
	run -2 mltrain net --jsn
	assert_output --partial "is --json meant?"
}

@test "mltrain net: \$MLTRAIN_NETS has descriptions of a site's own" {
	mkdir nets
	echo '{"about": "a line", "layers": [{"kind": "dense", "outputs": 7}]}' >nets/line.json
	MLTRAIN_NETS=$PWD/nets run -0 mltrain net line
	assert_line 'line: a line'
	assert_line --partial '7 classes: 5495 parameters'
	MLTRAIN_NETS=$PWD/nets run -0 mltrain net
	assert_line --regexp '^line +a line'
	assert_line --regexp '^reference '
}

@test "mltrain net: the example of mltrain-net(5) is a network" {
	sed -n '/^\.Bd -literal/,/^\.Ed/p' "$top_srcdir/src/mltrain/cli/mltrain-net.5" | sed '1d;$d' >page.json
	run -0 mltrain net page.json
	assert_line --partial 'one residual block'
	assert_line --partial 'half a cosine'
}

@test "mltrain net: a description with the byte order mark of Windows' editors is read" {
	{ printf '\357\273\277' && cat "$top_srcdir/src/mltrain/nets/lenet-5.json"; } >bom.json
	run -0 mltrain net ./bom.json
	assert_line --partial lenet-5
}
