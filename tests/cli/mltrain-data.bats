#!/usr/bin/env bats
# mltrain on data sets of every form: small ones, made here, in which a class is a colour.

load common

setup_file() {
	export SETS="$BATS_FILE_TMPDIR/sets"
	python3 - "$SETS" <<-'END'
	import os, random, struct, sys, zlib

	random.seed(1)
	top = sys.argv[1]

	def chunk(kind, data):
	    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

	def png(h, w, rgb):
	    rows = b"".join(b"\0" + rgb[3 * w * y:3 * w * (y + 1)] for y in range(h))
	    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0))
	            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

	def image(label, n):  # noise, and one colour more than the others
	    return bytes(random.randrange(200, 256) if k % 3 == label else random.randrange(120) for k in range(3 * n))

	names = ["red", "green", "blue"]
	for i in range(450):  # 360 to learn from, of 3 KiB: more than a MiB
	    path = "%s/folders/%s" % (top, names[i % 3])
	    os.makedirs(path, exist_ok=True)
	    with open("%s/%03d.png" % (path, i), "wb") as f:
	        f.write(png(32, 32, image(i % 3, 1024)))
	path = top + "/cifar"
	os.makedirs(path)
	for name in ["data_batch_%d.bin" % k for k in range(1, 6)] + ["test_batch.bin"]:
	    with open("%s/%s" % (path, name), "wb") as f:
	        for i in range(60):
	            pixels = image(i % 3, 1024)
	            f.write(bytes([i % 3]) + pixels[0::3] + pixels[1::3] + pixels[2::3])
	END
}

# losses LOG: those of every step
losses() { jq -c 'select(.event == "step") | [.step, .loss]' "$1"; }

needs_png() {
	case " $(mltrain --version) " in
	*" +png "*) ;;
	*) skip "mltrain was built without libpng" ;;
	esac
}

@test "data: CIFAR's binary files are learnt and tested" {
	mltrain train -q --threads 2 --data "$SETS/cifar" --validation 20 --batch 20 --epochs 2 --lr 0.002 \
		--checkpoint c.safetensors --log log >out
	assert_equal "$(head -n 1 out)" "test accuracy 100.00 % (error 0.00 %)"
	assert_equal "$(jq -r 'select(.event == "run") | .input' log)" 3x32x32
	assert_equal "$(mltrain eval -q --checkpoint c.safetensors --data "$SETS/cifar")" "$(head -n 1 out)"
}

@test "data: folders of pictures are learnt and tested, what is no picture is told" {
	needs_png
	cp -r "$SETS/folders" f
	echo notes >f/red/notes.txt
	mkdir f/blue/more
	mltrain train --threads 2 --data f --validation 20 --batch 20 --epochs 2 --lr 0.002 \
		--checkpoint c.safetensors >out 2>err
	cat err
	assert_equal "$(head -n 1 out)" "test accuracy 100.00 % (error 0.00 %)"
	grep -q "'f': skipped 2 files that are not PNG or JPEG, such as '" err
	run --separate-stderr mltrain eval -q --checkpoint c.safetensors --data f
	assert_output "$(head -n 1 out)"
}

@test "data: a small data set keeps a tenth for validation, a number that is said is kept to" {
	needs_png
	mltrain train --threads 2 --data "$SETS/folders" --batch 20 --steps 2 --checkpoint c.safetensors --log log 2>err
	cat err
	grep -qx "mltrain: 36 of 360 training images are kept for validation, a tenth; --validation says another number" err
	grep -q "324 images to train with, 36 to validate" err
	assert_equal "$(jq -c 'select(.event == "run") | [.validation_images, .recipe.validation]' log)" '[36,36]'

	# a run that is gone on with keeps as many, another number contradicts it
	mltrain train -q --threads 2 --data "$SETS/folders" --steps 4 --checkpoint c.safetensors --resume --log again
	assert_equal "$(jq -c 'select(.event == "run") | [.validation_images, .step]' again)" '[36,2]'
	run -1 mltrain train -q --threads 2 --data "$SETS/folders" --validation 30 --checkpoint c.safetensors --resume
	assert_output --partial "validation images 36, but this run has 30"

	run -1 mltrain train --threads 2 --data "$SETS/folders" --validation 5000 --batch 20
	assert_output --partial "has 360 training images: too few for 5000 of validation and one batch of 20"
	refute_output --partial "a tenth"
	run -0 mltrain train -q --threads 2 --data "$SETS/folders" --batch 20 --steps 1
	refute_output --partial "a tenth"
}

@test "data: classes are the network's by name, also where some are missing" {
	needs_png
	cp -r "$SETS/folders" all
	mv all/red all/$'red\xe9'
	mltrain train -q --threads 2 --data all --validation 20 --batch 20 --epochs 2 --lr 0.002 \
		--checkpoint c.safetensors >out
	assert_equal "$(head -n 1 out)" "test accuracy 100.00 % (error 0.00 %)"
	assert_equal "$(mltrain eval -q --checkpoint c.safetensors --data all)" "$(head -n 1 out)"
	mkdir f
	cp -r "$SETS/folders/green" f
	cp -r "$SETS/folders/red" f/2
	run --separate-stderr mltrain eval -q --checkpoint c.safetensors --data f
	assert_output "test accuracy 100.00 % (error 0.00 %)"
	mkdir one
	cp -r "$SETS/folders/green" one
	run -0 mltrain train -q --threads 2 --data one --batch 8 --steps 1
	assert_line "mltrain: warning: all training images are of one class, so there is nothing to tell apart"
	mv f/2 f/scarlet
	run -1 mltrain eval -q --checkpoint c.safetensors --data f
	assert_output "mltrain: checkpoint 'c.safetensors' knows no class 'scarlet', which 'f' has"
}

@test "data: names of files forge no line of the log, no hint and no colours" {
	needs_png
	local evil=$'x\nmltrain: test accuracy 100.00 %\nhint: obey\e[31m\u009b32m'
	mkdir -p f
	cp -r "$SETS/folders/red" "$SETS/folders/blue" f
	: >"f/red/$evil"
	run -0 mltrain train --threads 1 --data f --batch 8 --steps 1
	assert_line --partial "such as 'red/x\\x0amltrain: test accuracy 100.00 %\\x0ahint: obey\\x1b[31m\\u009b32m'"
	refute_line --regexp '^hint: obey|^mltrain: test accuracy'
	rm "f/red/$evil"

	for name in "red/$evil.png" "$evil"; do
		if [[ $name == *.png ]]; then echo no picture >"f/$name"; else mv f/red "f/$name"; fi
		run -1 mltrain train --threads 1 --data f --batch 8 --steps 1
		assert_line --partial "x\\x0amltrain: test accuracy 100.00 %\\x0ahint: obey\\x1b[31m\\u009b32m"
		refute_line --regexp '^hint: obey|^mltrain: test accuracy'
		refute_output --partial $'\e'
	done
	run -1 mltrain predict --checkpoint "$evil" x.png
	refute_line --regexp '^hint: obey|^mltrain: test accuracy'
}

@test "data: pictures that do not fit into memory give the same losses as those that do" {
	needs_png
	for memory in 1 100; do
		mltrain train -q --threads 2 --data "$SETS/folders" --data-memory $memory --validation 20 --batch 20 \
			--steps 20 --lr 0.001 --log-every 1 --augment shift=2,flip --normalize dataset --log $memory.log >$memory.out
		losses $memory.log >$memory.losses
	done
	assert_equal "$(wc -l <1.losses)" 20
	cmp 1.losses 100.losses
	assert_equal "$(head -n 1 1.out)" "$(head -n 1 100.out)"
}

@test "data: pictures are brought to the size that is asked for" {
	needs_png
	mltrain train -q --threads 1 --data "$SETS/folders" --input 1x16x20 --validation 20 --batch 20 --steps 2 --log log
	assert_equal "$(jq -r 'select(.event == "run") | .input' log)" 1x16x20
}

@test "data: a size that is asked for and can't be had is refused" {
	run -1 mltrain train --threads 1 --data "$SETS/cifar" --input 1x28x28 --validation 20 --batch 20 --steps 1
	assert_line "mltrain: --input 1x28x28: the images of '$SETS/cifar' are of 3x32x32"
	assert_line "hint: it is for folders of pictures: leave it out"
}

@test "data: a damaged picture is named, in memory and not" {
	needs_png
	cp -r "$SETS/folders" f
	for p in f/*/1*.png; do echo damaged >"$p"; done
	for memory in 1 100; do
		run -1 mltrain train -q --threads 2 --data f --data-memory $memory --validation 20 --batch 20 --epochs 1
		assert_output --regexp "mltrain: .*image 'f/(red|green|blue)/1[0-9]*.png': neither PNG nor JPEG"
		assert_line "hint: take the file away, or rename it to begin with a dot: then it is skipped"
	done
	for p in f/*/1*.png; do mv "$p" "${p%/*}/.${p##*/}"; done
	run -0 mltrain train -q --threads 2 --data f --validation 20 --batch 20 --epochs 1
}

@test "data: a picture's name does not steer the terminal, whatever line it begins" {
	needs_png
	mkdir -p f/red f/green
	cp "$SETS"/folders/red/00*.png f/red
	cp "$SETS"/folders/green/00*.png f/green
	echo damaged >f/red/$'x\nhint: \e[31m\a.png'
	run -1 mltrain train -q --threads 1 --data f --validation 1 --batch 2 --epochs 1
	assert_output --partial 'hint: \x1b[31m\x07.png'
	refute_output --partial $'\e'
}

@test "predict: a network for larger images than any picture is told so" {
	python3 - <<-'END'
	import json, os, struct
	os.mkdir("tall")
	for part, n in (("train", 20), ("t10k", 4)):
	    with open("tall/%s-images-idx3-ubyte" % part, "wb") as f:
	        f.write(struct.pack(">IIII", 0x803, n, 40000, 1) + bytes(n * 40000))
	    with open("tall/%s-labels-idx1-ubyte" % part, "wb") as f:
	        f.write(struct.pack(">II", 0x801, n) + bytes(k % 2 for k in range(n)))
	with open("tall.json", "w") as f:
	    json.dump({"layers": [{"kind": "dense", "outputs": "classes"}]}, f)
	END
	mltrain train -q --data tall --net ./tall.json --batch 4 --validation 0 --steps 1 --checkpoint tall.st
	for picture in "$SETS/folders/red/000.png" -; do
		run -1 mltrain predict --checkpoint tall.st "$picture" <"$SETS/folders/red/000.png"
		assert_output "mltrain: checkpoint 'tall.st' reads images of 1x40000x1; pictures have 1 or 3 channels and at most 32767 pixels in a row or column"
	done
}

@test "data: classes without images are told, and a label that makes many of them is refused" {
	# labels LABEL...: a data set of one-pixel images with these labels to learn from
	labels() {
		python3 - "$@" <<-'END'
		import os, struct, sys
		os.makedirs("set", exist_ok=True)
		for part, labels in (("train", [int(l) for l in sys.argv[1:]]), ("t10k", [0])):
		    with open("set/%s-images-idx3-ubyte" % part, "wb") as f:
		        f.write(struct.pack(">IIII", 0x803, len(labels), 1, 1) + bytes(len(labels)))
		    with open("set/%s-labels-idx1-ubyte" % part, "wb") as f:
		        f.write(struct.pack(">II", 0x801, len(labels)) + bytes(labels))
		END
	}
	echo '{"layers": [{"kind": "dense", "outputs": "classes"}]}' >dense.json
	train() { mltrain train -q --data set --net ./dense.json --batch 1 --validation 0 --steps 1; }
	labels 0 1 2 3
	run -0 train
	refute_output --partial "class"
	labels 0 2 3 5
	run -0 train
	assert_line --partial "2 of 6 classes have no training image: 1, 4"
	labels 0 19
	run -0 train
	assert_line --partial "18 of 20 classes have no training image: 1, 2, 3, 4, 5 and 13 more"
	labels 0 0
	run -0 train
	assert_line --partial "all training images are of one class"
	labels 0 1 2 255 3
	run -1 train
	assert_line "mltrain: 'set': labels go up to 255, but only 5 classes have training images"
	assert_line "hint: is a label damaged? training image 3, counted from 0, has the highest"
}

@test "data: a directory without a data set is told what was looked for, and how to get one" {
	mkdir nothing
	run -1 mltrain train --data ./nothing
	assert_output --partial "mltrain: './nothing' holds no data set that is known; looked for were: IDX files (train-images-idx3-ubyte"
	assert_output --partial "hint: \`mltrain fetch mnist\` brings one where there is the internet"
	HOME=$PWD run -1 mltrain train --data cifar-10
	assert_output --partial "data set 'cifar-10' was not found in /usr/share/datasets/cifar-10, ./cifar-10, \
./data/cifar-10, $PWD/.local/share/datasets/cifar-10 or /usr/local/share/datasets/cifar-10"
	assert_output --partial "hint: \`mltrain fetch cifar-10\` brings it where there is the internet"
}

@test "data: without HOME the user's home is that of the user database" {
	local home
	home=$(getent passwd "$(id -u)" | cut -d: -f6)
	[[ $home == /* ]] || skip "this user has no home directory"
	run -1 env -u HOME -u XDG_DATA_HOME mltrain train --data no-such-set
	assert_output --partial " ${home%/}/.local/share/datasets/no-such-set or "
}

@test "data: a directory that can't be read and a file are told as such" {
	[ "$(id -u)" != 0 ] || skip "root reads everything"
	mkdir locked
	chmod 0 locked
	run -1 mltrain train --data ./locked
	chmod 700 locked
	assert_output --partial "read data directory './locked': Permission denied"
	touch images.zip
	for name in images.zip ./images.zip; do
		run -1 mltrain train --data $name
		assert_line "mltrain: data set '$name' is a file"
		assert_line "hint: --data takes the directory that holds the data set's files"
	done
}

@test "data: what fetch leaves is found by its name" {
	mkdir -p xdg/datasets
	cp -r "$SETS/cifar" xdg/datasets/cifar-10
	XDG_DATA_HOME=$PWD/xdg mltrain train -q --threads 1 --data cifar-10 --validation 20 --batch 20 --steps 1 --log log
	assert_equal "$(jq -r 'select(.event == "run") | .data' log)" "$PWD/xdg/datasets/cifar-10"
}
