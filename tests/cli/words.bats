#!/usr/bin/env bats
# What people type first and cannot be so: the message says what to type instead.
load common

setup_file() {
	registry_start
	image_tiny tiny
	image_push_tar -c --architecture -c s390x foreign "$BATS_FILE_TMPDIR/tiny.tar"
	export FILE_STORE=$BATS_FILE_TMPDIR/store
	MLRUN_STORE=$FILE_STORE mlrun pull -q "$REGISTRY/tiny"
	MLRUN_STORE=$FILE_STORE mlrun tag "$REGISTRY/tiny" debian:12
	MLRUN_STORE=$FILE_STORE mlrun tag "$REGISTRY/tiny" lab/numpy:1
}

teardown_file() { registry_stop; }

setup() {
	common_setup
	export MLRUN_STORE=$FILE_STORE
}

@test "words: an option after the image is told where it belongs" {
	for option in -v -it --rm --gpu=all; do
		run -127 mlrun exec debian:12 "$option" /tmp ls
		assert_line --partial "command '$option' not found in the image"
		assert_line "hint: options stand before IMAGE: mlrun exec $option ... IMAGE COMMAND"
	done
	run -127 mlrun exec debian:12 nope
	refute_output --partial "options stand before"
}

@test "words: a path in a name's place says what is written instead" {
	mkdir root
	: >x.tar
	while IFS='|' read -r path hint; do
		run -125 mlrun exec "$path" ls
		assert_line --partial "'$path' is a path, not an image's name"
		assert_line "hint: $hint"
	done <<-END
		$PWD/root|rootfs:$PWD/root is the image that is a plain directory, oci:$PWD/root one that is an OCI layout
		./root|rootfs:./root is the image that is a plain directory, oci:./root one that is an OCI layout
		../root|rootfs:../root is the image that is a plain directory, oci:../root one that is an OCI layout
		./x.tar|mlrun import ./x.tar NAME brings it into the store; then mlrun exec NAME
		x.tar|mlrun import x.tar NAME brings it into the store; then mlrun exec NAME
	END
	: >x.sif
	for name in x.sif ./x.sif; do
		run -125 mlrun pull "$name"
		assert_line "hint: mlrun exec $name runs it as it is"
	done
	run -125 mlrun pull ./x.tar
	assert_line "hint: mlrun import ./x.tar NAME brings it into the store; then mlrun exec NAME"
	rm x.sif
	# A name may end so, where there is no such file.
	mlrun tag debian:12 x.sif
	run -0 mlrun exec x.sif echo ran
	assert_output ran
	mlrun rm x.sif
	run -125 mlrun pull "$REGISTRY/x.sif"
	assert_output --partial "has no"
}

@test "words: transports of other programs are told what to type instead" {
	for name in docker-daemon:x containers-storage:x dockerd://x podman://x; do
		run -125 mlrun pull "$name"
		assert_line "hint: docker save IMAGE | mlrun import -, and podman save alike"
	done
	for name in library://alpine shub://a/b oras://r/x:1; do
		run -125 mlrun exec "$name" true
		assert_line "hint: apptainer pull FILE.sif $name, then mlrun exec FILE.sif"
	done
	# These are names.
	run -125 mlrun exec --pull=never podman:1 true
	assert_output --partial "not in the store"
}

# All of `docker --help` and `docker container --help`.
@test "words: each verb of Docker's is one of mlrun's, or one line says what to type" {
	local verb

	for verb in attach build builder buildx checkpoint commit compose config container context cp create diff events exec \
		export history image images import info init inspect kill load login logout logs manifest network node pause \
		plugin port ps pull push rename restart rm rmi run save scout search secret service stack start stats stop \
		swarm system tag top trust unpause update version volume wait \
		"container "{attach,commit,cp,create,diff,exec,export,inspect,kill,logs,ls,pause,port,prune,rename} \
		"container "{restart,rm,run,start,stats,stop,top,unpause,update,wait}; do
		# shellcheck disable=SC2086 # two words
		run mlrun $verb --help
		[ "$status" = 0 ] && continue
		assert_equal "$status ${#lines[@]}" "125 2"
		assert_line --index 0 "mlrun: '${verb%% *}' is not a command"
		assert_line --index 1 --regexp '^hint: '
		refute_line --index 1 --regexp ' meant\?|^hint: mlrun --help lists them'
	done
}

@test "words: -h is help, and containers ls the list" {
	for command in pull images containers inspect "gpu list"; do
		# shellcheck disable=SC2086 # several words
		assert_equal "$(mlrun $command -h)" "$(mlrun $command --help)"
	done
	assert_equal "$(mlrun containers ls)" "$(mlrun containers list)"
}

@test "words: what is no archive of an image is told what import takes" {
	echo 'print(1)' >train.py
	run -125 mlrun import train.py
	assert_line "hint: expected an image's archive or a tar of a root directory; mlrun exec -v brings a file into a container"
	head -c 32 /dev/zero >x.sif
	printf 'SIF_MAGIC\0001\0' >>x.sif
	run -125 mlrun import x.sif
	assert_line --partial "'x.sif' is an image of Apptainer's, a SIF file"
	assert_line "hint: mlrun exec sif:x.sif runs it as it is"
	run -125 mlrun import debian:11
	assert_line "mlrun: import 'debian:11': No such file or directory"
	assert_line "hint: mlrun pull debian:11 brings an image of that name from its registry"
	[ "$(find "$MLRUN_STORE/tmp" -type f | wc -l)" = 0 ]
}

@test "words: a name that the store has not names the nearest that it has" {
	while IFS='|' read -r command hint; do
		# shellcheck disable=SC2086 # several words
		run -125 mlrun $command
		assert_line "hint: $hint"
		refute_output --partial "pull brings it"
	done <<-'END'
		rm debain:12|is 'localhost/debian:12' meant? mlrun images lists what is there
		rm debian|is 'localhost/debian:12' meant? mlrun images lists what is there
		rm lab/nunpy:1|is 'localhost/lab/numpy:1' meant? mlrun images lists what is there
		inspect debian:11|is 'localhost/debian:12' meant? mlrun images lists what is there
		tag debain:12 x|is 'localhost/debian:12' meant? mlrun images lists what is there
		export debain:12 x.tar|is 'localhost/debian:12' meant? mlrun images lists what is there
		rm something/else|mlrun images lists what is there
	END
}

@test "words: a tag that the registry has not names mlrun tags, a platform those that there are" {
	run -125 mlrun pull "$REGISTRY/tiny:lastest"
	assert_line "hint: check the spelling of the name; mlrun tags $REGISTRY/tiny lists the tags that there are"
	run -0 mlrun tags "$REGISTRY/tiny"
	assert_output latest
	[ "$(uname -m)" != s390x ] || skip "the foreign image is this machine's"
	run -125 mlrun pull "$REGISTRY/foreign"
	assert_line --partial "the image is for linux/s390x, not for linux/"
}

@test "words: a store that cannot be written to is told without the names of its parts" {
	needs_ordinary_user
	cp -a "$FILE_STORE" ro
	chmod -R a-w ro
	tiny_root root
	tar -C root -cf root.tar .
	for command in "import root.tar z" "rm debian:12" "tag debian:12 x" "prune"; do
		# shellcheck disable=SC2086 # several words
		run -125 mlrun $command --store ro
		assert_line --regexp "store '$PWD/ro' cannot be written to: Permission denied\$"
		assert_line "hint: --store or MLRUN_STORE names one of your own"
	done
	run -0 mlrun exec --store ro debian:12 echo ran
	assert_output ran
}

@test "words: MLRUN_STORE that is relative, or cannot be, is an error of every command" {
	for command in images containers "pull $REGISTRY/tiny" "exec debian:12 true" "rm debian:12" doctor; do
		# shellcheck disable=SC2086 # several words
		MLRUN_STORE=rel run mlrun $command
		[ "$status" -ne 0 ]
		assert_output --partial "MLRUN_STORE='rel': expected an absolute path"
	done
	[ ! -e rel ]
	for command in images containers; do
		MLRUN_STORE=/dev/null/x run -125 mlrun "$command"
		assert_output --partial "open store '/dev/null/x': Not a directory"
		MLRUN_STORE=$PWD/new/er run -0 mlrun "$command"
		needs_ordinary_user
		mkdir -p closed
		chmod 555 closed
		MLRUN_STORE=$PWD/closed/x/y run -125 mlrun "$command"
		assert_line "mlrun: store '$PWD/closed/x/y' does not exist and cannot be created in '$PWD/closed': Permission denied"
		assert_line "hint: --store or MLRUN_STORE names another place"
	done
	MLRUN_STORE=$PWD/closed/x run -125 mlrun pull "$REGISTRY/tiny"
	assert_line "hint: --store or MLRUN_STORE names another place"
}

@test "words: what is only read is not advised to be made empty" {
	run -125 mlrun exec -v /no/such:/x:ro debian:12 true
	refute_output --partial mkdir
	run -125 mlrun exec --mount type=bind,src=/no/such,dst=/x,readonly debian:12 true
	refute_output --partial mkdir
	run -125 mlrun exec -v /no/such:/x debian:12 true
	assert_line "hint: make it first: mkdir -p '/no/such'"
}

@test "words: a name that import or tag takes from another image is told" {
	export MLRUN_STORE=$BATS_TEST_TMPDIR/store
	mlrun pull -q "$REGISTRY/tiny"
	was=$(mlrun inspect --json "$REGISTRY/tiny" | jq -r .digest)
	mlrun tag "$REGISTRY/tiny" mine
	tiny_root root
	tar -C root -cf root.tar .
	run -0 mlrun import root.tar mine
	assert_line "mlrun: 'localhost/mine:latest' was the name of another image until now, ${was:0:19}…"
	run -0 mlrun import root.tar mine
	refute_output --partial "another image"
	run -0 mlrun tag "$REGISTRY/tiny" mine
	assert_output --partial "was the name of another image until now"
	run -0 mlrun tag "$REGISTRY/tiny" mine
	refute_output --partial "another image"
	run -0 mlrun import -q root.tar mine
	assert_output ""
}

@test "words: squashfs that this machine cannot start is told when it is pulled" {
	needs_squashfs
	export MLRUN_STORE=$BATS_TEST_TMPDIR/store
	mkdir dev
	# A machine without the device: the next one's /dev has only what a pull needs.
	# shellcheck disable=SC2016 # the inner shell expands
	run -0 unshare -rm sh -ec 'mount --rbind /dev dev; mount -t tmpfs t /dev
		for i in null zero urandom random; do : >/dev/$i; mount --bind dev/$i /dev/$i; done
		exec mlrun pull --format=squashfs "$0"' "$REGISTRY/tiny"
	assert_line --regexp "exec cannot start it on this machine: /dev/fuse: No such file|built without libsquashfuse"
	assert_line --partial "--format=layers or dir does without"
	run -0 mlrun pull --format=layers "$REGISTRY/tiny"
	refute_output --partial "cannot start it"
}

@test "words: every script of slurm/ tells that mlrun is not on PATH, starts nothing then, and has a partition only if it must" {
	mkdir bin
	ln -s "$(command -v bash)" bin
	for program in srun mpirun salloc; do
		printf '#!/bin/sh\necho started >>"%s/started"\n' "$PWD" >"bin/$program"
		chmod +x "bin/$program"
	done
	for script in "$top_srcdir"/slurm/*.sh; do
		SLURM_SUBMIT_DIR=$PWD SLURM_JOB_ID=1 PATH=$PWD/bin run -127 /bin/bash "$script"
		assert_output --partial "${script##*/}: mlrun is not on PATH ($PWD/bin): load its module"
		[ ! -e started ]
	done
	run -0 grep -l 'SBATCH --partition' "$top_srcdir"/slurm/*.sh
	assert_output "$top_srcdir/slurm/ml-gpu.sh"
}
