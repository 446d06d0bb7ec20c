#!/usr/bin/env bats
# The plugin of Slurm, as an ordinary user on a real cluster: docs/spank.md's rows.
# shellcheck disable=SC2016 # the shell inside expands

load ../cli/common
load spank

setup_file() {
	plugged || return 0
	cd "$BATS_FILE_TMPDIR" || return
	export MLRUN_STORE=$PWD/store
	tiny_root root
	mkdir -p root/etc root/work
	echo one >root/etc/version
	tar -C root -cf - . | mlrun import -q - site/tiny:1
}
teardown_file() { unplug; }

setup() {
	common_setup
	as_user
	IMG=site/tiny:1
}
teardown() {
	scancel --user="$(id -un)" 2>/dev/null || true
	common_teardown
}

@test "spank: srun runs every task in the image, and says nothing" {
	run -0 --separate-stderr step --container-image="$IMG" sh -c 'cat /etc/version; pwd; id -u; echo "$0"' 'a b'
	assert_output $'one\n'"$PWD"$'\n'"$(id -u)"$'\na b'
	assert_equal "$stderr" ""
	run -0 step -N2 -n4 -l --container-image="$IMG" cat /etc/version
	assert_output --regexp '^[0-3]: one.[0-3]: one.[0-3]: one.[0-3]: one$'
	run -7 step --container-image="$IMG" sh -c 'exit 7'
	assert_output --partial "Exited with exit code 7"
	run -127 step --container-image="$IMG" /no/such
}

@test "spank: sbatch and salloc take the options, and a batch script runs in the image" {
	printf '#!/bin/sh\n#SBATCH --container-image=%s\ncat /etc/version; echo "$*"\n' "$IMG" >job
	run -0 submit job a 'b c'
	run -0 cat job.out
	assert_output $'one\na b c'
	run -0 --separate-stderr timeout 120 salloc --quiet --container-image="$IMG" srun cat /etc/version
	assert_output one
	# The steps of a script that stays outside are inside.
	plug required sbatch_support=0
	printf '#!/bin/sh\n#SBATCH --container-image=%s\ncat /etc/version 2>/dev/null; srun cat /etc/version\n' "$IMG" >job
	run -0 submit job
	plug
	run -0 cat job.out
	assert_output one
}

@test "spank: --export=NONE changes nothing: image, store and digest go with the job" {
	printf '#!/bin/sh\n#SBATCH --container-image=%s\n#SBATCH --export=NONE\ncat /etc/version\n' "$IMG" >job
	run -0 submit job
	run -0 cat job.out
	assert_output one
	run -0 step --export=NONE --container-image="$IMG" cat /etc/version
	assert_output one
}

@test "spank: a job runs the image that the tag meant when it was submitted, when requeued, too" {
	cp -r "$BATS_FILE_TMPDIR/root" root
	echo two >root/etc/version
	mlrun tag "$IMG" moving:1
	printf '#!/bin/sh\n#SBATCH --container-image=moving:1 --requeue --open-mode=append --output=job.out\ncat /etc/version\nsleep 60\n' >job
	id=$(sbatch --parsable --hold job)
	tar -C root -cf - . | mlrun import -q - moving:1
	run -0 step --container-image=moving:1 cat /etc/version
	assert_output two
	scontrol release "$id"
	until_true grep -q one job.out
	scontrol requeue "$id"
	until_true sh -c '[ "$(grep -c one job.out)" = 2 ]'
	scancel "$id"
	run -0 cat job.out
	refute_output --partial two
}

@test "spank: --export of a list hides no setting of the environment from the tasks" {
	MLRUN_CONTAINER_IMAGE=$IMG run -0 step --export=HOME,PATH sh -c 'cat /etc/version'
	assert_output one
	PYXIS_CONTAINER_IMAGE=$IMG PYXIS_CONTAINER_READONLY=1 run -1 step --export=NONE /bin/sh -c 'cat /etc/version; echo >/x'
	assert_line one
	assert_output --partial "Read-only"
}

@test "spank: repeated options add up, and the last of two switches counts" {
	mkdir a b
	run -0 step --container-image="$IMG" --container-mounts="$PWD/a:/a" --container-mounts="$PWD/b:/b" ls -d /a /b
	assert_output $'/a\n/b'
	printf '#!/bin/sh\n#SBATCH --container-image=%s\n#SBATCH --container-mounts=%s/a:/a\n#SBATCH --container-mounts=%s/b:/b\nls -d /a /b\n' \
		"$IMG" "$PWD" "$PWD" >job
	run -0 submit job
	run -0 cat job.out
	assert_output $'/a\n/b'
	run -0 step --container-image="$IMG" --container-readonly --container-writable touch /x
	run -1 step --container-image="$IMG" --container-writable --container-readonly touch /x
	run -0 step --container-image="$IMG" --container-remap-root --no-container-remap-root id -u
	assert_output "$(id -u)"
	run ! step --container-image="$IMG" --container-env=FOO, true
	assert_output --partial "--container-env 'FOO,': a name is empty"
	plug required sbatch_support=0
	printf '#!/bin/sh\n#SBATCH --container-image=%s --container-readonly\nsrun --container-writable sh -c "touch /x && echo written"\n' "$IMG" >job
	run -0 submit job
	plug
	run -0 cat job.out
	assert_output written
}

@test "spank: a job's own submissions are not in its container, and look their tags up anew" {
	cp -r "$BATS_FILE_TMPDIR/root" root
	echo two >root/etc/version
	mlrun tag "$IMG" nested:1
	plug required sbatch_support=0
	printf '#!/bin/sh\ncat /etc/version 2>/dev/null || echo outside\nsrun sh -c "cat /etc/version 2>/dev/null || echo outside"\n' >plain
	printf '#!/bin/sh\nsrun cat /etc/version\n' >inner
	cat >job <<-END
		#!/bin/sh
		#SBATCH --container-image=nested:1
		srun cat /etc/version
		tar -C root -cf - . | $top_builddir/bin/mlrun import -q - nested:1
		sbatch --parsable --output=plain.out plain
		sbatch --parsable --output=inner.out --container-image=nested:1 inner
	END
	run -0 submit job
	until_true grep -q two inner.out
	until_true sh -c '[ "$(grep -c outside plain.out)" = 2 ]'
	plug
	run -0 head -n 1 job.out
	assert_output one
}

@test "spank: a task has the limits that Slurm gives it" {
	run -0 bash -c 'ulimit -Sn 333; timeout 120 srun --propagate=NOFILE --container-image="$0" sh -c "ulimit -n; env | grep -c RLIMIT; true"' "$IMG"
	assert_output --regexp $'^333\n0'
}

@test "spank: components of a heterogeneous job with different images are refused" {
	printf '#!/bin/sh\n#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n1 --container-image=%s\ntrue\n' "$IMG" >job
	run -1 sbatch job
	assert_output --partial "components of a heterogeneous job have different options"
}

@test "spank: no task runs outside, whatever is wrong" {
	run -125 step --container-image=registry.invalid/nothing:1 sh -c 'echo outside'
	assert_output --partial "registry.invalid/nothing"
	refute_output --partial outside
	# With "optional" Slurm would go on.
	plug optional
	sed -i 's|mlrun=.*|mlrun=/no/such/mlrun|' "${TEST_SLURM_CONF%/*}/site/plugstack.d/mlrun.conf"
	run -125 step --container-image="$IMG" sh -c 'echo outside'
	assert_output --partial "cannot start '/no/such/mlrun': No such file or directory; the task does not run"
	refute_output --partial outside
	plug optional nonsense=1
	run step --container-image="$IMG" sh -c 'echo outside'
	assert_output --partial "'nonsense=1' is not an argument of this plugin"
	refute_output --regexp '^outside'
	plug
	run -125 step --container-image=./nothing.sqsh sh -c 'echo outside'
	assert_output --partial nothing.sqsh
	refute_output --regexp '^outside'
}

@test "spank: a job's variables bring no option, and nothing of slurmstepd's is inside" {
	SLURM_SPANK_MLRUN_PIN="$IMG --help" run -125 step --container-image="$IMG" true
	assert_output --partial "'--help' is not an image name"
	SLURM_SPANK_MLRUN_JOB=1 SLURM_SPANK_MLRUN_JOB_CONTAINER_NAME=../x run -1 step --container-image="$IMG" true
	assert_output --partial "--container-name '../x': use up to 128 letters"
	SLURM_SPANK_MLRUN_PROLOG=/etc/passwd SLURM_SPANK_MLRUN_MULTI_PROG=1 run -0 step --container-image="$IMG" echo as typed
	assert_output "as typed"
	mkfifo fifo
	run -125 step --container-image=./fifo true
	assert_output --partial "is not a file"
	run -0 step --container-image="$IMG" sh -c 'ls /proc/self/fd; grep -E "^(Uid|CapPrm|CapBnd):" /proc/self/status'
	assert_output $'0\n1\n2\n3\nUid:'"$(printf '\t%s' $UID $UID $UID $UID)"$'\nCapPrm:\t0000000000000000\nCapBnd:\t0000000000000000'
}

@test "spank: a squashfs file, a directory and a name with its registry are images, too" {
	local digest
	run -0 step --container-image="$BATS_FILE_TMPDIR/root" cat /etc/version
	assert_output one
	digest=$(mlrun inspect --pin "$IMG")
	run -0 step --container-image="$digest" cat /etc/version
	assert_output one
	run -125 step --container-image='me@registry.invalid#team/nothing:1' true
	assert_output --partial "registry.invalid/team/nothing:1"
	command -v mksquashfs >/dev/null && [ -w /dev/fuse ] || skip "no mksquashfs, or no /dev/fuse for this user"
	mksquashfs "$BATS_FILE_TMPDIR/root" image.sqsh -quiet -no-progress >/dev/null
	run -0 step --container-image=./image.sqsh cat /etc/version
	assert_output one
	run -0 step -N2 -n2 --container-image="$PWD/image.sqsh" cat /etc/version
	assert_output $'one\none'
}

@test "spank: what is wrong in an option is told before a job waits" {
	run -1 step --container-image="$IMG" --container-mounts=/etc:/x:foo true
	assert_output --partial "--container-mounts '/etc:/x:foo': flags are ro,"
	run -1 step --container-image="$IMG" --container-name=a:b true
	assert_output --partial "--container-name 'a:b': expected NAME[:auto|create|exec|no_exec]"
	run -1 step --container-image="$IMG" --container-unshare=pid true
	assert_output --partial "namespaces are net, ipc and uts"
	run -1 step --container-image=dockerd://x true
	assert_output --partial "there is no Docker daemon"
	for image in --version docker://--help 'me@-v#x'; do
		run -1 step --container-image="$image" true
		assert_output --partial "does not begin with '-'"
	done
	run -1 step --container-image="$IMG" --container-name=a/b true
	assert_output --partial "use up to 128 letters"
	run -1 step --container-image="$IMG" --container-name=a --container-readonly true
	assert_output --partial "exclude each other"
	run -0 step --container-mounts=/etc:/x true
	assert_output --partial "ignored without --container-image or --container-name"
	printf '#!/bin/sh\n#SBATCH --container-image=%s --container-mounts=:\n' "$IMG" >job
	run -1 sbatch job
	assert_output --partial "--container-mounts"
}

@test "spank: mounts, directory, root, entrypoint and namespaces" {
	mkdir data
	echo data >data/f
	run -0 step --container-image="$IMG" --container-mounts="$PWD/data:/d:ro+rbind,$PWD/data:/e:x-create=dir,tmpfs:/t" \
		--container-workdir=/t sh -c 'pwd; cat /d/f /e/f; ! touch /d/x; touch /e/x /t/x'
	assert_line --index 0 /t
	assert_line --index 1 data
	assert_line --index 2 data
	run -1 step --container-image="$IMG" --container-readonly touch /x
	assert_output --partial "Read-only file system"
	run -0 step --container-image="$IMG" --container-writable touch /x
	run -0 step --container-image="$IMG" --container-remap-root id -u
	assert_output 0
	run -0 step --container-image="$IMG" sh -c 'readlink /proc/self/ns/net; readlink /proc/self/ns/ipc; readlink /proc/self/ns/uts'
	local outside=$output
	run -0 step --container-image="$IMG" --container-unshare=net,ipc,uts \
		sh -c 'readlink /proc/self/ns/net; readlink /proc/self/ns/ipc; readlink /proc/self/ns/uts'
	assert_equal "$(sort <<<"$output"$'\n'"$outside" | uniq -u | wc -l)" 6
	run -0 step --container-image="$IMG" --container-mount-home sh -c 'test -d "$HOME"'
	run -0 step --container-image="$IMG" --container-workdir=../etc pwd
	assert_output /etc
	# Root's home is at /root, and at its own path.
	mkdir home
	touch home/mine
	HOME=$PWD/home run -0 step --container-image="$IMG" --container-mount-home --container-remap-root \
		sh -c 'echo "$HOME"; ls /root "$1"' sh "$PWD/home"
	assert_output $'/root\n/root:\nmine\n\n'"$PWD/home:"$'\nmine'
	run -0 step --container-image="$IMG" --container-gpu=none --container-mpi=none true
}

# with_image CHANGE...: an image `with` of these changes, in a store of the test's own.
with_image() {
	local -a changes=()
	local change

	for change; do changes+=(--change "$change"); done
	cp -a "$BATS_FILE_TMPDIR/store" store
	MLRUN_STORE=$PWD/store
	mlrun exec --write=c "$IMG" true 2>/dev/null
	mlrun commit -q "${changes[@]}" c with
}

@test "spank: as in Pyxis a step begins in the image's directory, if it has one" {
	with_image 'WORKDIR /work'
	printf '#!/bin/sh\npwd\n' >root-run
	chmod 755 root-run
	run -0 step --container-image=with --container-mounts="$PWD/root-run:/work/run_and_time.sh" ./run_and_time.sh
	assert_output /work
	run -0 step --container-image=with --container-workdir=/etc pwd
	assert_output /etc
	run -0 step --container-image="$IMG" pwd
	assert_output "$PWD"
}

@test "spank: as in Pyxis every variable of the job arrives, unless the image sets it or it would lead nowhere" {
	with_image 'ENV R_LIBS=/image'
	export PYTHONPATH=/no/such:/libs CONDA_SHLVL=1 R_LIBS=/job LD_LIBRARY_PATH=/libs:/more BASH_ENV=/no/such JAVA_HOME=/etc LMOD_CMD=/no/such
	export XDG_DATA_DIRS=/a:/b
	run -0 step --container-image=with sh -c 'echo $PYTHONPATH $CONDA_SHLVL $R_LIBS $LD_LIBRARY_PATH $JAVA_HOME $XDG_DATA_DIRS
		echo ${BASH_ENV-none} ${LMOD_CMD-none} ${PYTHONNOUSERSITE-none}'
	assert_output $'/no/such:/libs 1 /image /libs:/more /etc /a:/b\nnone none none'
	run -0 mlrun exec with sh -c 'echo ${PYTHONPATH-none} ${R_LIBS-none} $PYTHONNOUSERSITE'
	assert_output 'none /image 1'
}

@test "spank: what Slurm does around a command is done inside: --task-prolog, --multi-prog, a name of the directory" {
	printf '#!/bin/sh\ncat /etc/version >ran\ncat\necho "export FROM_PROLOG=a  b"\necho "export 1A=x"\necho "unset GONE"\necho print said\necho and more\n' >prolog
	printf '#!/bin/sh\nexit 3\n' >fails
	printf '#!/bin/sh\necho here "$@"\n' >name
	chmod 755 prolog fails name
	run -0 step --task-prolog="$PWD/prolog" --container-image="$IMG" cat <<<data
	assert_output $'said\ndata'
	GONE=1 run -0 step --task-prolog="$PWD/prolog" --container-image="$IMG" sh -c 'echo "$FROM_PROLOG" ${GONE-gone} "$@"' x 'c d'
	assert_output $'said\na  b gone c d'
	assert_equal "$(<ran)" one
	SLURM_TASK_PROLOG=./prolog run -0 step --container-image="$IMG" sh -c 'echo "$FROM_PROLOG"'
	assert_output $'said\na  b'
	run -125 step --task-prolog=./fails --container-image="$IMG" echo ran
	assert_output --partial "mlrun: --task-prolog $PWD/fails: exit status 3"
	refute_line ran
	printf '%s\n' '# comment' "0 sh -c 'echo "'"$0 $1 $2"'"' zero %t %o" '' '1-2,4 echo some %t %o' '* name rest %t %o' >programs
	run -0 step -n5 -O -l --multi-prog --container-image="$IMG" programs
	assert_equal "$(sort <<<"$output")" $'0: zero 0 0\n1: some 1 0\n2: some 2 1\n3: here rest 3 3\n4: some 4 2'
	run -0 step --container-image="$IMG" name a
	assert_output 'here a'
	run -0 step -n1 --container-image="$IMG" echo --multi-prog programs --task-prolog=fails
	assert_output '--multi-prog programs --task-prolog=fails'
	run -0 step -n1 --container-image="$IMG" -l echo --task-prolog=fails
	assert_output '0: --task-prolog=fails'
	run -1 step --container-image="$IMG" --container-mpi=some true
	assert_output --partial "--container-mpi takes auto, none"
	run -127 step -w cpu2 --container-image="$IMG" nothing
	assert_output --partial "mlrun: node 'cpu2': exec"
}

@test "spank: mounts take the flags of Enroot's fstab, and switches y and n" {
	mkdir data
	run -0 step --container-image="$IMG" --container-mounts="$PWD/data:/d:ro+noatime+shared+silent,/no/such:/e:nofail,$PWD/data:/f:" \
		sh -c '! touch /d/x && touch /f/x && ! test -e /e/y'
	run -0 step --container-image="$IMG" --container-mounts="tmpfs:/t:size=8m+mode=700+noexec" sh -c 'stat -c %a /t; grep " /t " /proc/mounts'
	assert_line --index 0 700
	assert_output --partial noexec
	assert_output --partial size=8192k
	run -1 step --container-image="$IMG" --container-mounts="$PWD/data:/d:size=8m" true
	assert_output --partial "flags are ro, rw"
	run -1 step --container-image="$IMG" --container-mounts="$PWD/data:/d:x-detach" true
	assert_output --partial "cannot be taken away"
	PYXIS_CONTAINER_WRITABLE=y run -0 step --container-image="$IMG" touch /x
	PYXIS_CONTAINER_WRITABLE=n run -1 step --container-image="$IMG" touch /x
	PYXIS_CONTAINER_WRITABLE=maybe run -1 step --container-image="$IMG" true
	assert_output --partial "PYXIS_CONTAINER_WRITABLE takes y, n, 1 or 0, not 'maybe'"
	run -0 step --nodelist=cpu2 --container-image="$IMG" --container-unshare=uts hostname
	assert_output cpu2
}

@test "spank: the image's variables win, but for those that --container-env names" {
	with_image 'ENV A=image' 'ENTRYPOINT ["/bin/echo", "entrypoint"]'
	A=job run -0 step --container-image=with sh -c 'echo $A'
	assert_output image
	A=job run -0 step --container-image=with --container-env=A,B sh -c 'echo $A'
	assert_output job
	run -0 step --container-image=with --container-entrypoint sh -c 'echo $A'
	assert_output 'entrypoint sh -c echo $A'
	run -0 step --container-image=with --container-entrypoint --no-container-entrypoint echo plain
	assert_output plain
}

@test "spank: a named container keeps what is written, and ends with the job if the site says so" {
	MLRUN_STORE=$PWD/store
	mlrun import -q - "$IMG" < <(tar -C "$BATS_FILE_TMPDIR/root" -cf - .)
	run -0 step -w cpu1 --container-image="$IMG" --container-name=mine sh -c 'echo kept >/kept'
	run -0 step -w cpu1 --container-name=mine cat /kept
	assert_output kept
	run -0 step -w cpu1 --container-image="$IMG" --container-name=mine:auto cat /kept
	run -125 step -w cpu1 --container-image="$IMG" --container-name=mine:create true
	assert_output --partial "container 'mine.cpu1' exists already"
	run -125 step -w cpu1 --container-name=mine:exec true
	assert_output --partial "container 'mine.cpu1' is not running on this node"
	# All tasks of the step that makes it are in it, and later a task that joins.
	run -0 step -w cpu1 -n2 --container-image="$IMG" --container-name=made:create sh -c 'echo x >>/f'
	run -0 step -w cpu1 --container-name=made cat /f
	assert_output $'x\nx'
	step -w cpu1 --container-name=made:no_exec sh -c 'until [ -e /go ]; do sleep 0.1; done' &
	until_true step --overlap --nodelist=cpu1 --container-name=made:exec touch /go
	wait $!
	run -0 step -w cpu1 --container-image="$IMG" --container-name=mine cat /kept
	assert_output kept
	run -125 step -w cpu1 --container-name=other true
	assert_output --partial "other"
	# Each node has its own, of jobs on one node, too; a step from outside joins, whatever mounts and directory it names.
	run -125 step -w cpu2 --container-name=mine true
	name=$(printf 'n%.0s' {1..128})
	run -0 step -w cpu1 --container-image="$IMG" --container-name="$name" touch /there
	run -0 step -w cpu1 --container-name="$name" test -e /there
	mkdir elsewhere
	step -w cpu1 --job-name=head --container-image="$IMG" --container-name=head sh -c 'touch /began; until [ -e /go ]; do sleep 0.1; done' &
	until_true eval 'job=$(squeue -h --name=head -o %A -t R) && [ -n "$job" ]'
	until_true step --overlap --jobid="$job" -w cpu1 --chdir=elsewhere --container-mounts="$PWD/elsewhere:/mnt" \
		--container-name=head:exec sh -c 'test -e /began'
	# It is not entered by who asks for more of its own than it has.
	run -125 step --overlap --jobid="$job" -w cpu1 --container-name=head:exec --container-unshare=ipc,net test -e /began
	assert_output --partial "the container runs already, and has the node's network"
	step --overlap --jobid="$job" -w cpu1 --container-name=head:exec touch /go
	wait $!
	run -0 mlrun containers rm head.cpu1
	# A container without a name is its step's.
	step -w cpu1 --job-name=nameless --container-image="$IMG" sh -c 'touch /began; until [ -e /go ]; do sleep 0.1; done' &
	until_true eval 'job=$(squeue -h --name=nameless -o %A -t R) && [ -n "$job" ]'
	until_true step --overlap --jobid="$job" -w cpu1 --container-name="$job.0" --container-mounts="$PWD/elsewhere:/mnt" test -e /began
	step --overlap --jobid="$job" -w cpu1 --container-name="$job.0:exec" touch /go
	wait $!
	run -125 step -w cpu1 --container-name="$job.0" true
	assert_output --partial "there is no container '$job.0.cpu1'"
	run -0 step -w cpu1 --container-image="$IMG" --container-name=23.10 touch /version
	run -0 step -w cpu1 --container-name=23.10 test -e /version
	# Each node of a step has its own.
	run -0 step -N2 -n2 --container-image="$IMG" --container-name=both sh -c 'hostname >/name'
	run -0 mlrun containers
	assert_output --partial both.cpu1
	assert_output --partial both.cpu2
	# The job's own: seen by its steps, gone after it.
	plug required container_scope=job
	printf '#!/bin/sh\nsrun -Q --container-image=%s --container-name=jobs sh -c "echo here >/f"\nsrun -Q --container-name=jobs cat /f\n' "$IMG" >job
	run -0 submit job
	run -0 cat job.out
	assert_output here
	run -125 step --container-name=jobs cat /f
	plug
	run -0 mlrun containers
	assert_output --regexp 'jobs\.[0-9]+'
	until_true sh -c 'mlrun prune >/dev/null; ! mlrun containers | grep jobs'
	run -0 mlrun containers
	assert_output --partial mine
}

@test "spank: --container-save writes the root to a file that is an image for the next step" {
	has_squashfs || skip "mlrun was built without libsquashfs"
	[ -w /dev/fuse ] || skip "/dev/fuse is closed to this user"
	run -3 --separate-stderr step --container-image="$IMG" --container-save=one.sqsh sh -c 'echo 1 >/n; exit 3'
	assert_equal "$(grep -c mlrun <<<"$stderr")" 0
	run -0 step --container-image=./one.sqsh --container-save="$PWD/one.sqsh" sh -c 'echo 2 >>/n'
	run -0 step --container-image=./one.sqsh cat /n
	assert_output $'1\n2'
	# Of all tasks of the step, and with a name, which stays.
	run -0 step -N1 -n4 --overcommit --container-image=./one.sqsh --container-name=four --container-save=four.sqsh \
		sh -c 'sleep 0.$SLURM_PROCID; echo $SLURM_PROCID >/t.$SLURM_PROCID'
	run -0 step --container-image=./four.sqsh sh -c 'cat /t.*'
	assert_output $'0\n1\n2\n3'
	run -0 step -N1 -n4 --overcommit --container-image="$IMG" --container-save=all.sqsh \
		sh -c 'echo $SLURM_PROCID >/t.$SLURM_PROCID; sleep 0.5'
	run -0 step --container-image=./all.sqsh sh -c 'cat /t.*'
	assert_output $'0\n1\n2\n3'
	run -0 mlrun containers
	assert_output --partial four
	# A batch script's own.
	printf '#!/bin/sh\n#SBATCH --container-image=%s --container-save=batch.sqsh\necho b >/b\n' "$IMG" >job
	run -0 submit job
	run -0 step --container-image=./batch.sqsh cat /b
	assert_output b
	run -1 step --container-image="$IMG" --container-save=d/ true
	assert_output --partial "--container-save 'd/': expected a file's path"
	run -1 step --container-image="$IMG" --container-readonly --container-save=x true
	assert_output --partial "exclude each other"
	run -125 step --container-image="$IMG" --container-save=/nowhere/x true
	assert_output --partial "--save: directory '/nowhere/'"
}

@test "spank: --container-stage copies the image to each node once, and runs it there" {
	has_squashfs || skip "mlrun was built without libsquashfs"
	[ -w /dev/fuse ] || skip "/dev/fuse is closed to this user"
	# Each node has a /dev/shm of its own.
	run -0 --separate-stderr step -N2 -n4 --container-image="$IMG" --container-stage=/dev/shm sh -c 'cat /etc/version; touch /x'
	assert_output $'one\none\none\none'
	assert_equal "$stderr" ""
	run -0 step -N2 -n2 sh -c 'ls /dev/shm | grep -c mlrun-stage'
	assert_output $'1\n1'
	assert_equal "$(find "${TMPDIR:-/tmp}" -maxdepth 1 -name 'mlrun-stage*')" ""
	# The store of the nodes need not have it.
	run -0 step -N2 -n2 --container-image="$IMG" --container-stage=/dev/shm env MLRUN_STORE=/nowhere cat /etc/version
	# A file, and a batch script's steps.
	mlrun export -q --format=squashfs "$IMG" x.sqsh
	printf '#!/bin/sh\n#SBATCH --container-image=./x.sqsh --container-stage=/dev/shm\ncat /etc/version\n' >job
	run -0 submit job
	run -0 cat job.out
	assert_output one
	printf '#!/bin/sh\n#SBATCH --container-stage=/dev/shm\nsrun --container-image=./x.sqsh cat /etc/version\nsrun --container-image=./x.sqsh cat /etc/version\n' >job
	run -0 submit job
	run -0 grep -v '^srun: ' job.out # that it waits for the first step's end, on a busy machine
	assert_output $'one\none'
	# A later step removes those that no process has open.
	step -N2 -n2 sh -c "touch -d '1 hour ago' /dev/shm/mlrun-stage-$UID-*"
	step -w cpu1 sh -c "set -- /dev/shm/mlrun-stage-$UID-*; sleep 1000 <\$1" &
	until_true step --overlap -w cpu1 sh -c 'pgrep -x sleep -u $(id -u)'
	run -0 step --overlap -N2 -n2 --container-image="$IMG" --container-stage=/dev/shm true
	run -0 step --overlap -N2 -n2 -l sh -c "ls /dev/shm | grep -c mlrun-stage-$UID"
	assert_equal "$(sort <<<"$output")" $'0: 2\n1: 1'
	scancel --user="$(id -un)" --wait 2>/dev/null || scancel --user="$(id -un)"
	wait
	run -1 step --container-image="$IMG" --container-stage=tmp true
	assert_output --partial "--container-stage 'tmp': expected an absolute path"
	run -1 step --container-image="$IMG" --container-name=x --container-stage=/tmp true
	assert_output --partial "exclude each other"
	run -1 step --container-image="$IMG" --container-stage=/nowhere cat /etc/version
	refute_output --partial one
	run -1 step --container-image=site/none:1 --container-stage=/dev/shm cat /etc/version
	refute_line one
	step -N2 -n2 sh -c "rm -f /dev/shm/mlrun-stage-$UID-*"
}

@test "spank: a staged image lies where nobody else can exchange it" {
	has_squashfs || skip "mlrun was built without libsquashfs"
	mkdir -m 777 open
	chmod 777 open
	run -125 step --container-image="$IMG" --container-stage="$PWD/open" echo ran
	assert_output --partial "--container-stage: others can exchange what is in '$PWD/open'"
	refute_line ran
	chmod 1777 open
	run step --container-image="$IMG" --container-stage="$PWD/open" echo ran
	refute_output --partial exchange # by a user who may not open /dev/fuse it is not run
}

@test "spank: variables of the environment say the same, and options win" {
	PYXIS_CONTAINER_IMAGE=$IMG run -0 step cat /etc/version
	assert_output one
	MLRUN_CONTAINER_IMAGE=$IMG PYXIS_CONTAINER_IMAGE=nothing PYXIS_CONTAINER_READONLY=1 run -1 step touch /x
	assert_output --partial "Read-only"
	PYXIS_CONTAINER_IMAGE=nothing PYXIS_CONTAINER_REMAP_ROOT=yes run -0 step --container-image="$IMG" id -u
	assert_output 0
	# They are for steps.
	printf '#!/bin/sh\ncat /etc/version 2>/dev/null || echo outside\nsrun cat /etc/version\n' >job
	PYXIS_CONTAINER_IMAGE=$IMG run -0 submit job
	run -0 cat job.out
	assert_output $'outside\none'
}

@test "spank: 256 tasks of a node are in one container" {
	run -0 step -N1 -n256 --overcommit --container-image="$IMG" sh -c 'readlink /proc/self/ns/user; readlink /proc/self/ns/mnt; sleep 5'
	assert_equal "$(grep -c '^user:' <<<"$output")" 256
	assert_equal "$(sort -u <<<"$output" | wc -l)" 2
}

@test "spank: 256 tasks without their image fail, and one tells the cause" {
	run -125 step -N1 -n256 --overcommit --container-image=registry.invalid/nothing:1 sh -c 'echo outside'
	refute_output --regexp '(^|: )outside'
	assert_equal "$(grep -c "mlrun: pull 'registry.invalid/nothing:1'" <<<"$output")" 1
}

@test "spank: Shifter's options of batch scripts, for sites with shifter in plugstack.conf" {
	plug required shifter
	printf '#!/bin/sh\n#SBATCH --image=docker:%s --volume=/etc:/host-etc\nsrun %s/bin/shifter/shifter sh -c "cat /etc/version; test -e /host-etc/passwd && echo there"\n' \
		"$IMG" "$top_builddir" >job
	run -0 submit job
	plug
	run -0 cat job.out
	assert_output $'one\nthere'
}
