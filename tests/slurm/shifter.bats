#!/usr/bin/env bats
# The job scripts of a tutorial for Shifter on a cluster, as its users type and submit them: modules, sg, wget, sed, srun.
# shellcheck disable=SC2016 # the job's shell expands

load ../cli/common

DATASET=/usr/share/datasets/fashion-mnist
SITE=${TEST_SLURM_CONF%/*}/site

setup_file() {
	if [ -z "${TEST_SLURM_CONF:-}" ]; then
		skip_file "no Slurm cluster here; root starts one by tests/slurm/lab.sh run"
		return
	elif [ ! -e /etc/profile.d/modules.sh ]; then
		skip_file "environment-modules is not installed"
		return
	elif ! command -v wget >/dev/null || [ ! -e "$DATASET/train-images-idx3-ubyte.gz" ]; then
		skip_file "wget or dataset-fashion-mnist is not installed"
		return
	fi
	cd "$BATS_FILE_TMPDIR" || return
	registry_start
	python_image root
	layer_tar python.tar root
	image_push_tar -c --config.env -c PATH=/usr/bin:/bin tensorflow/tensorflow:1.13.1 python.tar
	image_push_tar -c --config.env -c PATH=/usr/bin:/bin tensorflow/tensorflow:1.13.1-gpu python.tar
	site
	internet
}
teardown_file() {
	[ -z "${INTERNET_IN:-}" ] || exec {INTERNET_IN}>&-
	: >"$SITE/wgetrc"
	: >"$SITE/modulespath"
	registry_stop
}

setup() {
	common_setup
	cd "$BATS_TEST_TMPDIR" || return
	unset MLRUN_STORE
	export SLURM_CONF=$TEST_SLURM_CONF MLRUN_CONFIG=$BATS_FILE_TMPDIR/mlrun.conf
	export PAWSEY_PROJECT MYSCRATCH=$BATS_TEST_TMPDIR
	PAWSEY_PROJECT=$(id -gn)
}

# python_image DIR: this machine's Python as an image's root.
python_image() {
	local file lib

	tiny_root "$1"
	mkdir -p "$1"/usr/{bin,lib} "$1/tmp"
	cp -L "$(readlink -f "$(type -P python3)")" "$1/usr/bin/python"
	lib=$(/usr/bin/python3 -c 'import os; print(os.path.dirname(os.__file__))')
	mkdir -p "$1$lib"
	tar -C "$lib" --exclude=__pycache__ --exclude=test --exclude=idlelib --exclude=config-3* -cf - . | tar -C "$1$lib" -xf -
	for file in $(ldd "$1/usr/bin/python" "$lib"/lib-dynload/*.so | grep -o '/[^ ):]*\.so[^ ):]*' | sort -u); do
		case $file in "$PWD"*) continue ;; esac
		mkdir -p "$1${file%/*}"
		cp -L "$file" "$1$file"
	done
}

# What the site's administrator sets up once: modules, where images are kept, a mirror of Docker Hub.
site() {
	mkdir -p prefix/{libexec/mlrun,share}
	ln -s "$top_builddir/bin" prefix/bin
	ln -s "$top_builddir/bin/shifter" prefix/libexec/mlrun/shifter
	cp -r --no-preserve=mode "$top_srcdir/shifter/modulefiles" prefix/share
	echo "setenv MLRUN_STORE $PWD/images" >>prefix/share/modulefiles/shifter
	echo "$PWD/prefix/share/modulefiles" >"$SITE/modulespath"
	printf '[registry docker.io]\nmirror = %s\n' "$REGISTRY" >mlrun.conf
}

# The nodes' way to the files that the tutorial fetches.
internet() {
	local address files=internet/raw.githubusercontent.com/tensorflow/models/master/tutorials/image/mnist

	mkdir -p "$files"
	: >"$files/BUILD"
	: >"$files/__init__.py"
	cp "$top_srcdir/tests/slurm/convolutional.py" "$files"
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=loopback -keyout key.pem -out cert.pem 2>/dev/null
	cat cert.pem key.pem >both.pem
	address=$(sed -n 's/^SlurmctldHost=.*(\(.*\))$/\1/p' "$TEST_SLURM_CONF")
	mkfifo stdin
	python3 "$top_srcdir/tests/slurm/loopback_internet.py" "$address" internet both.pem <stdin >port 3>&- &
	exec {INTERNET_IN}>stdin
	until_true test -s port
	printf 'use_proxy = on\nhttps_proxy = http://%s:%s/\n' "$address" "$(cat port)" >"$SITE/wgetrc"
}

# at_login COMMAND: as typed on a login node.
at_login() {
	env -u MODULEPATH bash -c '. /etc/profile.d/modules.sh; module use "$0"; '"$1" "$BATS_FILE_TMPDIR/prefix/share/modulefiles"
}

# job_script PARTITION NAME IMAGE [LINE]: the tutorial's, with another project and the files' names
job_script() {
	cat <<-END
		#!/bin/bash -l

		#SBATCH --account=$PAWSEY_PROJECT
		#SBATCH --partition=$1
		${4:+#SBATCH $4}
		#SBATCH --ntasks=1
		#SBATCH --time=00:10:00
		#SBATCH --export=NONE
		#SBATCH --job-name=$2

		module load shifter

		# download sample files
		wget --no-check-certificate https://raw.githubusercontent.com/tensorflow/models/master/tutorials/image/mnist/BUILD
		wget --no-check-certificate https://raw.githubusercontent.com/tensorflow/models/master/tutorials/image/mnist/__init__.py
		wget --no-check-certificate https://raw.githubusercontent.com/tensorflow/models/master/tutorials/image/mnist/convolutional.py

		# edit python script to reduce runtime
		sed -i 's/NUM_EPOCHS *=.*/NUM_EPOCHS = 1/' convolutional.py

		# run the ML script
		srun --export=all shifter run $3 python convolutional.py
	END
}

# learned FILE: the job's output has an accuracy that was learned
learned() {
	run -0 cat "$1"
	assert_line "Epoch 1 of 1"
	refute_line "Epoch 2 of 2"
	run -0 sed -n 's/^Test error: \(.*\)\..*%$/\1/p' "$1"
	assert [ "$output" -lt 40 ]
}

@test "tutorial: shifter pull by sg, and a training job on workq" {
	run -0 at_login 'module load shifter; sg $PAWSEY_PROJECT -c "shifter pull tensorflow/tensorflow:1.13.1"'
	cd "$MYSCRATCH" && mkdir ml_example && cd ml_example
	mkdir data && cp "$DATASET"/*.gz data
	job_script workq ml tensorflow/tensorflow:1.13.1 >ml.sh
	run timeout 300 sbatch --wait ml.sh; cat slurm-*.out; assert_success
	learned slurm-*.out
	run -0 cat slurm-*.out
	assert_line "GPUs: none"
}

@test "tutorial: the same on gpuq, with a GPU of the job's" {
	run -0 at_login 'module load shifter; sg $PAWSEY_PROJECT -c "shifter pull tensorflow/tensorflow:1.13.1-gpu"'
	cd "$MYSCRATCH" && mkdir ml_example_gpu && cd ml_example_gpu
	mkdir data && cp "$DATASET"/*.gz data
	job_script gpuq ml-gpu tensorflow/tensorflow:1.13.1-gpu --gres=gpu:1 >ml-gpu.sh
	run timeout 300 sbatch --wait ml-gpu.sh; cat slurm-*.out; assert_success
	learned slurm-*.out
	run -0 cat slurm-*.out
	assert_line "GPUs: 0"
}

@test "tutorial: docker run and docker build, by mlrun" {
	export MLRUN_STORE=$BATS_FILE_TMPDIR/images
	cp "$top_srcdir/tests/slurm/convolutional.py" .
	sed -i 's/NUM_EPOCHS *=.*/NUM_EPOCHS = 1/' convolutional.py
	mkdir data && cp "$DATASET"/*.gz data
	run -0 mlrun run --rm -v "$(pwd):/notebooks" -w /notebooks tensorflow/tensorflow:1.13.1 python convolutional.py
	assert_output --partial "Test error"
	printf 'FROM tensorflow/tensorflow:1.13.1\n\nRUN echo astropy >/packages\n' >Dockerfile
	run -0 mlrun build -t tensorflow-ex .
	run -0 mlrun run tensorflow-ex cat /packages
	assert_output astropy
}
