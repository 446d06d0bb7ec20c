#!/usr/bin/env bats
# Shifter's two command lines, word for word as scripts have them.
# shellcheck disable=SC2016 # the shell inside expands

load common

setup_file() {
	registry_start
	image_tiny tiny
	image_push_tar -c --config.entrypoint -c /bin/echo -c --config.cmd -c default -c --config.workingdir -c /etc says \
		"$BATS_FILE_TMPDIR/tiny.tar"
}
teardown_file() { registry_stop; }

setup() {
	common_setup
	unset "${!SHIFTER@}" "${!SLURM_SPANK@}"
	PATH=$top_builddir/bin/shifter:$PATH
	export MLRUN_UDIROOT=$PWD/udiRoot.conf
	IMG=$REGISTRY/tiny
}

# The images are in the store, so a start says nothing.
stored() { mlrun pull -q "$IMG" "$REGISTRY/says"; }

# --- the form of CSCS and Pawsey ----------------------------------------------------

@test "shifter: pull, run, images and rmi, as at Pawsey" {
	run -0 sg "$(id -gn)" -c "shifter pull $IMG"
	echo hello >file
	run -0 --separate-stderr shifter run "$IMG" cat file
	assert_output hello
	assert_equal "$stderr" ""
	run -0 shifter images
	assert_line --regexp '^REPOSITORY +TAG +IMAGE ID +CREATED +SIZE +SERVER$'
	assert_line --regexp "^tiny +latest +[0-9a-f]{12}  [-0-9T:]{19}Z +[0-9.]+ [kM]?B  $REGISTRY$"
	run -0 shifter rmi "$IMG"
	run -0 shifter images
	refute_output --partial tiny
}

@test "shifter images: one pulled by digest has no tag" {
	local digest
	digest=$(skopeo inspect --tls-verify=false --format '{{.Digest}}' "docker://$IMG")
	run -0 shifter pull "$IMG@$digest"
	run -0 shifter images
	assert_line --regexp "^tiny +<none> +[0-9a-f]{12}  .* $REGISTRY$"
}

@test "shifter pull --login: the registry is the one that the name says" {
	run shifter pull --login local/app </dev/null
	assert_failure
	assert_output --partial "login 'docker.io'"
}

@test "shifter run: its options, with the image's own command where there is none" {
	stored
	mkdir data
	echo data >data/f
	run -0 shifter run --mount=type=bind,source="$PWD/data",destination=/data --writable-volatile=/etc \
		--volume="$PWD/data:/more:ro" --env=A=b "$IMG" sh -c 'cat /data/f /more/f; echo $A; ! touch /more/x; touch /etc/x'
	assert_line --index 0 data
	assert_line --index 1 data
	assert_line --index 2 b
	run -0 shifter run --mount=type=per-node-cache,destination=/cache,size=1M,bs=1 "$IMG" df -k /cache
	assert_output --regexp 'tmpfs +1024 .*/cache'
	run -0 shifter run "$REGISTRY/says"
	assert_output default
	run -0 shifter run "$REGISTRY/says" echo own
	assert_output own
	run -125 shifter run
	assert_line "hint: shifter run IMAGE COMMAND"
}

@test "shifter: exit statuses are the command's, 127 for one that is not there" {
	stored
	run -7 shifter run "$IMG" sh -c 'exit 7'
	run -127 shifter run "$IMG" /no/such
	run -7 shifter --image="$IMG" sh -c 'exit 7'
	run -127 shifter --image="$IMG" /no/such
	assert_output --partial "/no/such"
}

@test "shifter load: docker save's file becomes load/library/NAME" {
	skopeo copy -q --src-tls-verify=false "docker://$IMG:latest" docker-archive:saved.tar:x/y:1
	run -0 shifter load saved.tar mine
	run -0 shifter run load/library/mine echo here
	assert_output here
	run -125 shifter load saved.tar
	assert_line --partial "hint: docker save NAME >FILE"
}

@test "shifter: help lists the commands, a wrong one is named" {
	run -0 shifter help
	for word in run pull images rmi load login --image; do assert_output --partial "$word"; done
	run -0 shifter --help
	run -0 shifter run --help
	assert_output --partial --volume
	run -0 shifter --version
	run -0 shifter version
	run -125 shifter pul "$IMG"
	assert_line --partial "no image: neither --image nor a command of Shifter's"
	run -125 shifter run --nonsense "$IMG" true
	assert_output --partial "nonsense"
}

# --- NERSC's form --------------------------------------------------------------------

@test "shifter --image: volumes, variables and types of images" {
	stored
	mkdir data
	echo data >data/f
	run -0 shifter --image=docker:"$IMG" --volume="$PWD/data:/d:ro;$PWD/data:/e" -e A=b cat /d/f /e/f
	assert_output $'data\ndata'
	run -0 shifter -i "$IMG" -V "$PWD/data:/d" -e A=b -e 'C=d e' sh -c 'echo "$A $C"; cat /d/f'
	assert_output $'b d e\ndata'
	run -0 shifterimg lookup "$IMG"
	id=$output
	run -0 shifter --image="id:$id" echo by id
	assert_output "by id"
	mkdir -p root/bin
	cp "$(type -P busybox)" root/bin/sh
	run -0 shifter --image="local:$PWD/root" /bin/sh -c 'echo local'
	assert_output local
	run -125 shifter --image="$IMG" -e A true
	assert_output --partial "--env takes NAME=VALUE, not 'A'"
	run -125 shifter --image="$IMG" -V "$PWD/data" true
	assert_output --partial "volume '$PWD/data': expected FROM:TO[:FLAG]"
}

@test "shifter --image: the entrypoint only on request, a shell without a command" {
	stored
	local says=$REGISTRY/says
	run -0 shifter --image="$says" echo plain
	assert_output plain
	run -0 shifter --image="$says" --entrypoint
	assert_output default
	run -0 shifter --image="$says" --entrypoint=/bin/cat /dev/null
	run -1 shifter --image="$says" --entrypoint=/bin/cat /no/such
	SHELL=/bin/sh run -0 shifter --image="$says" <<<'echo from a shell; pwd'
	assert_line --index 0 "from a shell"
}

@test "shifter --workdir: the caller's, the image's, or one's own" {
	stored
	local says=$REGISTRY/says
	run -0 shifter --image="$says" pwd
	assert_output "$PWD"
	run -0 shifter --image="$says" --workdir pwd
	assert_output /etc
	run -0 shifter --image="$says" -w pwd
	assert_output /etc
	run -0 shifter --image="$says" -w/usr pwd
	assert_output /usr
	run -0 shifter --image="$says" --workdir=/usr pwd
	assert_output /usr
}

@test "shifter: variables of Shifter and its plugin choose image and volumes, options win" {
	stored
	mkdir a b
	touch a/a b/b
	export SHIFTER_IMAGE=$IMG SHIFTER_VOLUME="$PWD/a:/v"
	run -0 shifter ls /v
	assert_output a
	run -0 shifter -V "$PWD/b:/v" ls /v
	assert_output b
	# In a job with an image a command's name is a command.
	run -127 shifter pull
	unset SHIFTER_IMAGE
	SHIFTER=docker:$IMG run -0 shifter ls /v
	SLURM_SPANK_SHIFTER_IMAGE=$IMG SLURM_SPANK_SHIFTER_IMAGETYPE=docker run -0 shifter ls /v
	assert_output a
	run -125 shifter ls
	assert_line --partial "hint: shifter --image=NAME COMMAND"
}

@test "shifter: inside, SHIFTER_IMAGE is the id, SHIFTER_IMAGEREQUEST what was asked for" {
	stored
	run -0 shifter --image="docker:$IMG" sh -c 'echo $SHIFTER_IMAGEREQUEST $SHIFTER_RUNTIME $SHIFTER_IMAGE'
	assert_output "docker:$IMG 1 $(shifterimg lookup "$IMG")"
}

@test "shifter --clearenv, --env-file: less and more of the environment" {
	stored
	printf '# comment\n\nA="quoted"\n' >vars
	export MINE=caller LD_LIBRARY_PATH=/host
	run -0 shifter --image="$IMG" --env-file vars sh -c 'echo $MINE $A $LD_LIBRARY_PATH'
	assert_output 'caller "quoted"'
	run -0 shifter --image="$IMG" -E -e B=c sh -c 'echo $MINE $B'
	assert_output c
}

@test "shifter as an interpreter: with the image in the script, in a variable, without another interpreter" {
	stored
	local program=$top_builddir/bin/shifter/shifter elsewhere=$BATS_TEST_TMPDIR/elsewhere
	mkdir -p "$elsewhere"
	printf '#!%s --image=%s /bin/sh\necho "$0 $*"; echo $SHIFTER_RUNTIME\n' "$program" "$IMG" >"$elsewhere/job"
	printf '#!%s --image=%s\necho "$*"; echo $SHIFTER_RUNTIME\n' "$program" "$IMG" >"$elsewhere/short"
	printf '#!%s /bin/sh\necho "$*"; echo $SHIFTER_RUNTIME\n' "$program" >"$elsewhere/by-variable"
	chmod +x "$elsewhere"/*
	run -0 "$elsewhere/job" a 'b c'
	assert_output "$elsewhere/job a b c"$'\n1'
	run -0 "$elsewhere/short" a
	assert_output $'a\n1'
	SHIFTER_IMAGE=$IMG run -0 "$elsewhere/by-variable" x
	assert_output $'x\n1'
}

# --- udiRoot.conf ---------------------------------------------------------------------

@test "udiRoot.conf: a site's directories, variables and modules" {
	stored
	mkdir site tools
	echo tool >tools/name
	cat >udiRoot.conf <<-END
		imagePath=/images
		siteFs=$PWD/site:/site/of/ours;$PWD/tools:/t:ro
		siteEnv=SITE=yes
		siteEnvAppend=PATH=/site/bin
		module_tools_copyPath=$PWD/tools
		module_tools_siteEnv=TOOLS=1
		module_tools_userhook=echo hooked
		module_bad_userhook=exit 3
		module_rooted_roothook=/bin/true
	END
	run -0 shifter --image="$IMG" sh -c 'test -d /site/of/ours && cat /t/name; echo $SITE; case $PATH in *:/site/bin) echo last ;; esac'
	assert_output $'tool\nyes\nlast'
	run -0 shifter --image="$IMG" --module=tools sh -c 'cat /opt/udiImage/modules/tools/name; echo $TOOLS'
	assert_output $'hooked\ntool\n1'
	run -126 shifter --image="$IMG" --module=bad echo never
	assert_output --partial "userhook 'exit 3' failed with status 3"
	refute_line never
	run -125 shifter --image="$IMG" --module=rooted true
	assert_output --partial "roothook, which needs root"
	run -125 shifter --image="$IMG" --module=nothing true
	assert_line "hint: known: none, gpu, mpich, cuda-mpich, cvmfs, tools, bad, rooted"
	run -0 shifter --image="$IMG" --module=gpu,cvmfs true
	run -0 shifter --image="$IMG" --explain --module=tools true
	assert_line --regexp '^ *site +TOOLS=1'
}

@test "udiRoot.conf: what is wrong is named, and a file that others may write to is not read" {
	echo 'sitefs=/x' >udiRoot.conf
	run -125 shifter --image="$IMG" true
	assert_output --partial "udiRoot.conf:1: 'sitefs' is no key of udiRoot.conf"
	echo 'siteFs=/no/such/directory' >udiRoot.conf
	run -125 shifter --image="$IMG" true
	assert_output --partial "/no/such/directory"
	echo '' >udiRoot.conf
	chmod 666 udiRoot.conf
	run -125 shifter --image="$IMG" true
	assert_output --partial "other users may write to it"
}

# --- shifterimg -----------------------------------------------------------------------

@test "shifterimg: pull, lookup, images and expire, with the lines that programs read" {
	run -1 shifterimg lookup "$IMG"
	assert_line --partial "hint: shifterimg pull"
	run -0 --separate-stderr shifterimg pull "docker:$IMG"
	assert_equal "$stderr" ""
	assert_line --index 0 --regexp "^[-0-9]{10}T[:0-9]{8} Pulling Image: docker:$IMG, status: PULLING$"
	assert_line --index 1 --regexp "^[-0-9]{10}T[:0-9]{8} Pulling Image: docker:$IMG, status: READY$"
	run -0 --separate-stderr shifterimg -v pull "$IMG"
	assert_equal "$(grep -c '"status": "READY"' <<<"$output")" 1
	run -0 shifterimg lookup "$IMG"
	assert_output --regexp '^[0-9a-f]{64}$'
	id=$output
	run -0 shifterimg images
	assert_line --regexp "^mlrun      docker     READY    ${id:0:10}   [-0-9]{10}T[:0-9]{8} $IMG:latest +$"
	run -0 shifterimg expire "$IMG"
	run -1 shifterimg lookup "$IMG"
	run -0 shifterimg autoexpire
}

@test "shifterimg: a pull that fails says FAILURE and why" {
	run -125 --separate-stderr shifterimg pull "$REGISTRY/nothing:1"
	assert_output --partial "status: FAILURE"
	[[ $stderr == *nothing* ]]
	run -125 shifterimg
	assert_output --partial "a command is missing"
	run -125 shifterimg pull
	assert_output --partial "its image is missing"
	run -125 shifterimg frobnicate
	assert_output --partial "'frobnicate' is not a command"
}

@test "shifterimg pullnb: returns at once, and the image comes" {
	run -0 shifterimg pullnb "$IMG"
	assert_output --partial "status: PULLING"
	until_true shifterimg lookup "$IMG"
}

# --- modulefiles ------------------------------------------------------------------------

# A prefix as make install lays it out.
prefix() {
	mkdir -p prefix/{libexec/mlrun,share}
	ln -s "$top_builddir/bin" prefix/bin
	ln -s "$top_builddir"/bin/{shifter,apptainer} prefix/libexec/mlrun
	cp -r --no-preserve=mode "$top_srcdir/shifter/modulefiles" prefix/share
}

# module_test INIT: what `module load` does in a shell that has read this file.
module_test() {
	[ -e "$1" ] || skip "$1 is not there"
	prefix
	run -0 env -u MODULEPATH PATH=/usr/local/bin:/usr/bin:/bin bash -c '
		. "$1"
		module use "$PWD/prefix/share/modulefiles"
		module load shifter && type -P shifter shifterimg mlrun && shifter version | head -n 1 &&
			module unload shifter && ! type -P shifter; module load mlrun && type -P mlrun
		module load singularity && type -P singularity run-singularity && module unload singularity && module load apptainer && apptainer version' sh "$1"
	assert_line --index 0 "$PWD/prefix/libexec/mlrun/shifter/shifter"
	assert_line --index 1 "$PWD/prefix/libexec/mlrun/shifter/shifterimg"
	assert_line --index 2 "$PWD/prefix/bin/mlrun"
	assert_line --index 3 --partial "mlrun "
	assert_line --index 4 "$PWD/prefix/bin/mlrun"
	assert_line --index 5 "$PWD/prefix/libexec/mlrun/apptainer/singularity"
	assert_line --index 6 "$PWD/prefix/libexec/mlrun/apptainer/run-singularity"
	assert_line --index 7 1.3.0
}

@test "modulefiles: Environment Modules loads shifter and mlrun" {
	module_test /usr/share/modules/init/bash
}

@test "modulefiles: Lmod loads shifter and mlrun" {
	module_test /usr/share/lmod/lmod/init/bash
}
