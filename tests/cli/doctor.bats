#!/usr/bin/env bats
# mlrun doctor: machines that are broken on purpose, and what it says of them.
# shellcheck disable=SC2016 # the inner shell expands
load common

# As root of a user namespace of its own; $mlrun is the program.
broken() {
	mlrun=$(command -v mlrun) unshare -Urm bash -c "$1"
}

# verdict CHECK FIELD of the JSON in $output
finding() { jq -r --arg c "$1" ".findings[] | select(.check == \$c) | .$2" <<<"$output"; }

@test "doctor: a machine that works has no failure, and every check is told" {
	needs_ordinary_user
	run -0 --separate-stderr mlrun doctor --json
	assert_equal "$(jq -c 'keys' <<<"$output")" '["failures","findings","ok","passes","warnings"]'
	assert_equal "$(jq -c '[.findings[] | keys] | unique' <<<"$output")" \
		'[["cause","check","fix","verdict","what","who"]]'
	assert_equal "$(jq .ok <<<"$output")" true
	assert_equal "$(jq '.passes + .warnings + .failures == (.findings | length)' <<<"$output")" true
	for check in kernel userns start overlay tmpfs fuse installation configuration store store-clock space \
		store-layers shm tmpdir clock credentials gpu mpi ptrace slurm; do
		[ -n "$(finding "$check" verdict)" ] || fail "nothing of $check"
	done
	assert_equal "$(finding userns verdict)" pass
	assert_equal "$(finding overlay verdict)" pass
	assert_equal "$(jq -c '[.findings[] | select(.verdict == "pass" and (.fix != null or .who != null))]' <<<"$output")" '[]'
	[ -z "$stderr" ]
	[ ! -e "$MLRUN_STORE" ]
}

@test "doctor: a start that fails though its parts work is a failure, with what exec says" {
	mkdir -p "$HOME/.config/mlrun"
	printf '[exec]\nvolume = /no/such:/x\n' >"$HOME/.config/mlrun/mlrun.conf"
	run -1 --separate-stderr mlrun doctor --json
	assert_equal "$(finding userns verdict)" pass
	assert_equal "$(finding start verdict)" failure
	[[ $(finding start cause) == *"'/no/such'"* ]]
	run -0 find /tmp -maxdepth 1 -name 'mlrun-doctor-*' -user "$(id -u)"
	assert_output ""
}

@test "doctor: it is done well below a second" {
	skip_if_sanitized
	local start took

	for _ in {1..20}; do # a machine may be busy for a while
		start=${EPOCHREALTIME/./}
		run mlrun doctor
		took=$((${EPOCHREALTIME/./} - start))
		[ "$took" -ge 1000000 ] || break
	done
	[ "$took" -lt 1000000 ]
	assert_line --regexp '^[0-9]+ pass(es)?, [0-9]+ warnings?, [0-9]+ failures?$'
}

@test "doctor: user namespaces that are forbidden fail, with the setting and the command" {
	run -1 broken 'echo 0 >/proc/sys/user/max_user_namespaces; exec $mlrun doctor --json'
	assert_equal "$(finding userns verdict)" failure
	assert_equal "$(finding userns cause)" "user.max_user_namespaces is 0"
	assert_equal "$(finding userns who)" administrator
	assert_equal "$(finding userns fix)" \
		"echo 'user.max_user_namespaces = 15000' >/etc/sysctl.d/60-mlrun.conf && sysctl --system"
	assert_equal "$(finding overlay verdict)" warning
	assert_equal "$(jq .ok <<<"$output")" false
	assert_equal "$(jq -c '[.findings[] | select(.verdict == "failure" and (.fix == null or .who == null or .cause == null))]' <<<"$output")" '[]'
	# And it is as it says.
	run -125 broken 'echo 0 >/proc/sys/user/max_user_namespaces; exec $mlrun exec rootfs:/usr true'
	run -1 broken 'echo 0 >/proc/sys/user/max_user_namespaces; exec $mlrun doctor'
	assert_line --regexp '^failure  userns +no container can be made: create user and mount namespaces: '
	assert_line --regexp "^ +an administrator: echo 'user.max_user_namespaces = 15000'"
}

@test "doctor: mount namespaces that are forbidden are told apart" {
	run -1 broken 'echo 0 >/proc/sys/user/max_mnt_namespaces; exec $mlrun doctor --json'
	assert_equal "$(finding userns cause)" "user.max_mnt_namespaces is 0"
}

@test "doctor: a sandbox that refuses system calls is told as such, and exec does as it says" {
	needs_ordinary_user
	local refuse=$top_builddir/tests/fault/refuse
	[ -x "$refuse" ] || skip "mlrun was built without libseccomp"
	run -0 "$refuse" openat2=ENOSYS mount_setattr=EPERM -- mlrun doctor --json
	assert_equal "$(finding kernel verdict)" warning
	[[ $(finding kernel what) == Linux*" without openat2, mount_setattr" ]]
	[[ $(finding kernel cause) == *"a filter (seccomp) around this process refuses it" ]]
	[[ $(finding kernel fix) == *seccomp=unconfined ]]
	run -1 "$refuse" unshare=EPERM -- mlrun doctor --json
	assert_equal "$(finding userns verdict)" failure
	[[ $(finding userns what) == *"create user and mount namespaces: Operation not permitted" ]]
	[[ $(finding userns cause) == "a seccomp filter is on this process"* ]]
	tiny_root root
	run -125 "$refuse" unshare=EPERM -- mlrun exec rootfs:root true
	run -0 "$refuse" setxattr=EOPNOTSUPP -- mlrun doctor --json
	assert_equal "$(finding tmpfs verdict)" warning
}

@test "doctor: a /dev/fuse that is closed is a warning, and a failure where an image needs it" {
	needs_ordinary_user
	[ -e /dev/fuse ] || skip "there is no /dev/fuse"
	[ -x "$top_builddir/bin/mlrun-squashfuse" ] || skip "mlrun was built without libsquashfuse"
	# Another user's file in its place, which nobody may open.
	run -0 broken 'mount --bind /etc/shadow /dev/fuse; exec $mlrun doctor --json'
	assert_equal "$(finding fuse verdict)" warning
	[[ $(finding fuse what) == *"/dev/fuse is closed to this user (Permission denied, mode 0640"* ]]
	[[ $(finding fuse fix) == *"chmod 0666 /dev/fuse" ]]
	mkdir -p "$MLRUN_STORE/squash"
	echo 3 >"$MLRUN_STORE/version"
	touch "$MLRUN_STORE/squash/aa.sqfs"
	run -1 broken 'mount --bind /etc/shadow /dev/fuse; exec $mlrun doctor --json'
	assert_equal "$(finding fuse verdict)" failure
	assert_equal "$(finding fuse cause)" "the store has 1 of them"
}

@test "doctor: a store on a read-only file system fails" {
	mkdir -p "$MLRUN_STORE"
	echo 3 >"$MLRUN_STORE/version"
	run -1 broken 'mount --bind "$MLRUN_STORE" "$MLRUN_STORE" && mount -o remount,bind,ro "$MLRUN_STORE"
		exec $mlrun doctor --json'
	assert_equal "$(finding store-write what)" "'$MLRUN_STORE' cannot be written to: Read-only file system"
	assert_equal "$(finding store-write who)" you
	[[ $(finding store-write fix) == "export MLRUN_STORE="* ]]
}

@test "doctor: a store on a file system that is full fails, and one nearly so is a warning" {
	mkdir -p "$MLRUN_STORE"
	run -1 broken 'mount -t tmpfs -o size=64k,mode=755 none "$MLRUN_STORE"; echo 3 >"$MLRUN_STORE/version"
		head -c 99999 /dev/zero >"$MLRUN_STORE/fill" 2>/dev/null; exec $mlrun doctor --json'
	assert_equal "$(finding store-write verdict)" failure
	[[ $(finding store-write what) == *": No space left on device" ]]
	[[ $(finding store-write fix) == "mlrun prune "* ]]
	assert_equal "$(finding space verdict)" failure
	run -0 broken 'mount -t tmpfs -o size=64m none "$MLRUN_STORE"; exec $mlrun doctor --json'
	assert_equal "$(finding space verdict)" warning
	[[ $(finding space what) == "67 MB are left (file system)"* ]]
	run -0 broken 'mount -t tmpfs -o size=2g,nr_inodes=500 none "$MLRUN_STORE"; exec $mlrun doctor --json'
	assert_equal "$(finding space verdict)" warning
	[[ $(finding space fix) == *"--format=squashfs"* ]]
}

@test "doctor: a store's place is told with who says so, and one that is none fails" {
	run -0 mlrun doctor --json --store here
	[[ $(finding store what) == "'here' (--store) on "*"; not there yet, mlrun pull makes it" ]]
	run -0 mlrun doctor --json
	[[ $(finding store what) == "'$MLRUN_STORE' (MLRUN_STORE) on "* ]]
	unset MLRUN_STORE
	run -0 mlrun doctor --json
	[[ $(finding store what) == "'$HOME/.local/share/mlrun' (default) on "* ]]
	mkdir -p "$HOME/.config/mlrun"
	printf '\nstore = %s\n' "$PWD/configured" >"$HOME/.config/mlrun/mlrun.conf"
	run -0 mlrun doctor --json
	[[ $(finding store what) == "'$PWD/configured' ($HOME/.config/mlrun/mlrun.conf:2) on "* ]]
	mkdir newer
	echo 99 >newer/version
	run -1 mlrun doctor --json --store newer
	[[ $(finding store what) == *"newer' has format 99, this mlrun knows formats up to"* ]]
	MLRUN_STORES=$PWD/newer:/no/such run -0 mlrun doctor --json
	assert_equal "$(finding additional-store verdict | sort -u)" warning
	assert_equal "$(finding additional-store verdict | wc -l)" 2
}

@test "doctor: a configuration that is wrong fails by file and line" {
	mkdir -p "$HOME/.config/mlrun"
	printf '# mine\nstroe = /x\n' >"$HOME/.config/mlrun/mlrun.conf"
	run -1 mlrun doctor --json
	assert_equal "$(finding configuration what)" \
		"configuration: $HOME/.config/mlrun/mlrun.conf:2: mlrun knows no setting 'stroe'"
	chmod 666 "$HOME/.config/mlrun/mlrun.conf"
	run -1 mlrun doctor --json
	assert_equal "$(finding configuration fix)" "chmod go-w '$HOME/.config/mlrun/mlrun.conf'"
	# Nothing else is lost by it.
	assert_equal "$(finding userns verdict)" pass
}

@test "doctor: credentials that others may read fail, and are not shown" {
	mkdir -p "$HOME/.docker"
	echo '{"auths":{"quay.io":{"auth":"bWU6c2VjcmV0"},"x.org":{}}}' >"$HOME/.docker/config.json"
	chmod 644 "$HOME/.docker/config.json"
	run -1 mlrun doctor --json
	assert_equal "$(finding credentials what)" "others may read '$HOME/.docker/config.json' (mode 0644)"
	assert_equal "$(finding credentials fix)" "chmod 600 '$HOME/.docker/config.json'"
	refute_output --partial bWU6
	chmod 600 "$HOME/.docker/config.json"
	run -0 mlrun doctor --json
	assert_equal "$(finding credentials what)" "'$HOME/.docker/config.json' holds 1 secret"
	echo '{"credHelpers":{"ghcr.io":"nowhere"},"credsStore":"elsewhere"}' >"$HOME/.docker/config.json"
	run -1 mlrun doctor --json
	assert_equal "$(jq -c '[.findings[] | select(.check == "credentials") | [.verdict, .what]]' <<<"$output")" \
		'[["warning","'"'docker-credential-elsewhere'"' is not on PATH"],["failure","'"'docker-credential-nowhere'"' is not on PATH"],["pass","'"'$HOME/.docker/config.json'"' holds 0 secrets"]]'
	echo '{"auths":' >"$HOME/.docker/config.json"
	run -1 mlrun doctor --json
	[[ $(finding credentials what) == *"is not JSON: line "* ]]
	REGISTRY_AUTH_FILE=$PWD/none run -1 mlrun doctor --json
	assert_equal "$(finding credentials fix)" "unset REGISTRY_AUTH_FILE"
}

@test "doctor: a small /dev/shm and a TMPDIR that is not there are warnings" {
	run -0 broken 'mount -t tmpfs -o size=64m none /dev/shm; TMPDIR=/no/such exec $mlrun doctor --json'
	assert_equal "$(finding shm verdict)" warning
	[[ $(finding shm what) == "/dev/shm has 67 MB"* ]]
	assert_equal "$(finding shm fix)" "mount -o remount,size=50% /dev/shm"
	assert_equal "$(finding tmpdir what)" "'/no/such' cannot be written to: No such file or directory"
	assert_equal "$(finding tmpdir fix)" "mkdir -p '/no/such' || unset TMPDIR"
}

@test "doctor: an installation without its other programs fails" {
	mkdir -p moved/bin
	cp "$(command -v mlrun)" moved/bin/mlrun
	run moved/bin/mlrun doctor --json
	if [ "$status" -eq 0 ]; then skip "mlrun-pull is installed where configure said"; fi
	assert_equal "$(finding installation verdict | sort -u)" failure
}

@test "doctor: Slurm's version, job and PMI are told, and an srun without a configuration" {
	mkdir bin
	cat >bin/srun <<-'END'
		#!/bin/sh
		[ "$1" = --mpi=list ] || exec echo slurm 22.05.8
		printf 'MPI plugin types are...\n\tnone\n\tpmi2\n%b' "$PMIX" >&2
	END
	chmod +x bin/srun
	PMIX='\tpmix\n' SLURM_JOB_ID=17 PATH=$PWD/bin:$PATH run -0 mlrun doctor --json
	assert_equal "$(finding slurm what)" "slurm 22.05.8, in job 17"
	assert_equal "$(finding pmi what)" "srun --mpi=pmix starts MPI programs, and --mpi=pmi2"
	PMIX='' PATH=$PWD/bin:$PATH run -0 mlrun doctor --json
	assert_equal "$(finding pmi verdict)" warning
	[[ $(finding pmi cause) == *"MPICH's can with --mpi=pmi2" ]]
	printf '#!/bin/sh\necho fatal >&2; exit 1\n' >bin/srun
	PATH=$PWD/bin:$PATH run -0 mlrun doctor --json
	assert_equal "$(finding slurm verdict)" warning
	printf '#!/bin/sh\nexec sleep 60\n' >bin/srun
	PATH=$PWD/bin:$PATH run -0 mlrun doctor --json
	assert_equal "$(finding slurm what)" "srun is there"
}
