#!/usr/bin/env bats
# mlrun validate: does what it says of an image hold when it is started?
load common
load gpu

setup() {
	common_setup
	driver_tree none
	tiny_root root
	unset LD_LIBRARY_PATH
}

# image NAME LINE...: the root with these lines of a recipe
image() {
	tar -C root -cf root.tar .
	printf '%s\n' 'FROM scratch' 'ADD root.tar /' "${@:2}" >Dockerfile
	mlrun build -q -t "$1" . >/dev/null
}

@test "validate: an image that starts works, with its command, labels and MPI told" {
	printf '#!/usr/bin/env sh\necho started\n' >root/bin/go
	chmod 755 root/bin/go
	image good 'CMD ["go"]' 'LABEL org.mlrun.gpu=auto other=1'
	run -0 mlrun validate good
	assert_line --regexp '^ok +labels +org.mlrun.gpu=auto$'
	assert_line --regexp '^ok +command +/.*bin/go$'
	assert_line --regexp '^not needed +mpi +the image carries no MPI$'
	assert_line --regexp '^(ok|doubtful) +space +[0-9]+ MB are left beside the image'
	assert_line --regexp '^the image works here'
	run -0 mlrun exec good
	assert_output started
	run -0 mlrun validate --json good
	assert_equal "$(jq -r .verdict <<<"$output")" ok
	mlrun profile >machine.json
	run -0 mlrun validate --profile machine.json good
	assert_line "the image works on the machine of 'machine.json'"
}

@test "validate: a store that is nearly full is told" {
	unshare -Urm mount -t tmpfs none "$TMPDIR" || skip "no tmpfs in user namespaces here"
	image good 'CMD ["/bin/sh"]'
	run -0 unshare -Urm sh -c 'mkdir small && mount -t tmpfs -o size=30m none small &&
		mlrun export -q good oci:small/lay &&
		mlrun pull -q --store small/store oci:small/lay && mlrun validate --store small/store good'
	assert_line --regexp '^doubtful +space +[0-9]+ MB are left beside the image \(file system\)'
	assert_line --partial "-> mlrun prune"
	assert_line "the image works here, with the doubts above"
}

@test "validate: what would not start fails, and does not start" {
	printf '#!/opt/python3\n' >root/bin/script
	printf '#!/usr/bin/env python9\n' >root/bin/by-env
	printf 'text' >root/bin/plain
	printf 'text' >root/bin/text
	printf '#!/bin/sh\r\n' >root/bin/windows
	printf '#!/usr/bin/env sh -x\n' >root/bin/two-words
	printf '#! sh\n' >root/bin/relative
	chmod 755 root/bin/{script,by-env,text,windows,two-words,relative}
	cp "$(type -P ls)" root/bin/dynamic # its loader is not in the root
	while IFS='|' read -r command want; do
		image bad "CMD [\"$command\"]"
		run -1 mlrun validate bad
		assert_line --regexp "^fails +$want"
		assert_line 'the image does not work here'
		run ! mlrun exec bad
	done <<-'X'
		none|command +'none' is not in the image, or may not be executed
		/bin/plain|command +'/bin/plain' is not in the image, or may not be executed
		script|command +'.*/bin/script' is a script for '/opt/python3', which the image does not have
		by-env|command +'.*/bin/by-env' is a script for 'python9', which the image does not have
		text|command +'.*/bin/text' is neither a program nor a script
		windows|command +'.*/bin/windows' is a script for '/bin/sh', which the image does not have
		two-words|command +'.*/bin/two-words' is a script for 'sh -x', which the image does not have
		relative|command +'.*/bin/relative' is a script for 'sh', which the image does not have
		dynamic|loader +'.*/bin/dynamic' needs '/lib.*ld-.*', which the image does not have
	X
	run -125 mlrun validate nothing-there
	assert_output --partial "validate 'nothing-there'"
}

@test "validate: labels that mlrun does not follow are doubtful" {
	image odd 'CMD ["true"]' 'LABEL org.mlrun.gpu=seven org.mlrun.gpus=all'
	run -0 mlrun validate odd
	assert_line --regexp "^doubtful +labels +org.mlrun.gpu='seven' is ignored: it is not auto, all or none"
	assert_line --regexp "^doubtful +labels +org.mlrun.gpus is ignored: mlrun reads org.mlrun.gpu and org.mlrun.mpi"
	assert_line 'the image works here, with the doubts above'
}

@test "validate: an MPI is held against the machine's, by its family" {
	mkdir -p root/usr/lib host
	touch root/usr/lib/libmpi.so.40 root/usr/lib/libmpi.so.40.30.4
	image ranks 'CMD ["true"]'
	touch host/libmpi.so.12
	LD_LIBRARY_PATH=$PWD/host run -0 mlrun validate ranks
	assert_line --regexp "^doubtful +mpi +the image has Open MPI \(libmpi.so.40\), this machine MPICH"
	assert_line --partial '-> start ranks with srun --mpi=pmix'
	touch host/libopen-pal.so.13 # Open MPI 1.10 has MPICH's number
	LD_LIBRARY_PATH=$PWD/host run -0 mlrun validate ranks
	assert_line --regexp "^ok +mpi +Open MPI \(libmpi.so.40\), as this machine has"
	mlrun profile >machine.json
	jq '.fabric.libraries = null' machine.json >old.json
	run -0 mlrun validate --profile old.json ranks
	assert_line --regexp "^ok +mpi +Open MPI \(libmpi.so.40\); the profile does not tell the machine's"
	jq '.fabric.libraries = [{"name": "libmpi.so.12", "path": "/opt/libmpi.so.12"}]' machine.json >mpich.json
	run -0 mlrun validate --profile mpich.json ranks
	assert_line --regexp "^doubtful +mpi +the image has Open MPI \(libmpi.so.40\), that machine MPICH"
	jq '.fabric.libraries = []' machine.json >none.json
	run -0 mlrun validate --profile none.json ranks
	assert_line --regexp "^ok +mpi +Open MPI .*that machine has none in its linker's cache"
}

@test "check: --partition is the user's or the site's profile of that name" {
	image plain 'CMD ["true"]'
	run -125 mlrun check --partition=gpuq plain
	assert_output --partial "there is no profile of partition 'gpuq'"
	assert_output --partial "hint: srun -p gpuq mlrun profile -o $HOME/.config/mlrun/profiles/gpuq.json; for all users "
	mkdir -p ~/.config/mlrun/profiles
	mlrun profile -o ~/.config/mlrun/profiles/gpuq.json
	run -0 mlrun check --partition=gpuq plain
	assert_output --partial "the image works on the machine of '$HOME/.config/mlrun/profiles/gpuq.json'"
	run -0 mlrun check plain
	run -125 mlrun check --partition=../x plain
	assert_output --partial "is no name"
	run -125 mlrun check --partition=gpuq --profile=x plain
	assert_output --partial "exclude each other"
}

@test "validate: GPUs are judged as gpu check does" {
	image cuda 'ENV CUDA_VERSION=12.1' 'CMD ["true"]'
	run -1 mlrun validate cuda
	assert_line --regexp '^fails +driver '
	driver_tree debian
	run -0 mlrun validate cuda
	assert_line --regexp '^ok +cuda '
}
