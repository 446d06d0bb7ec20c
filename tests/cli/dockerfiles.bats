# Dockerfiles as people write them, on Debian: dockerfiles/cuda, mpi, python and services. Where buildah can run, what it
# makes of them as root is compared: configurations and files. The packages come from Debian and PyPI.
# shellcheck disable=SC2016 # the inner shell expands
load common

FILES=$BATS_TEST_DIRNAME/dockerfiles
CA=/etc/ssl/certs/ca-certificates.crt
# An ordinary user builds, whoever tests.
USER_IS=()
[ "$(id -u)" != 0 ] || USER_IS=(runuser -u nobody --)

mlrun() { "${USER_IS[@]}" "$top_builddir/bin/mlrun" "$@"; }

setup_file() {
	export FILE_STORE=$BATS_FILE_TMPDIR/all/store
	export MLRUN=$top_builddir/bin/mlrun MLRUN_STORE=$FILE_STORE HOME=$BATS_FILE_TMPDIR/all TMPDIR=$BATS_FILE_TMPDIR/all
	mkdir "$TMPDIR"
	for_user "$TMPDIR"
	if ! mlrun --version >"$TMPDIR/log" 2>&1; then
		skip_file "an ordinary user can't run mlrun: $(tail -n 1 "$TMPDIR/log")"
	else
		base_image "${USER_IS[@]}"
	fi
}

setup() {
	common_setup
	export MLRUN_STORE=$FILE_STORE
	for_user "$HOME" "$TMPDIR"
}

teardown() {
	[ ! -d "$TMPDIR/containers" ] || on_buildah rm --all >/dev/null
	common_teardown
}

# Let the user reach directories of ours, and have them.
for_user() {
	[ "$(id -u)" = 0 ] || return 0
	chmod 0755 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" ${BATS_TEST_TMPDIR:+"$BATS_TEST_TMPDIR"}
	chown nobody "$@"
}

# build NAME [OPTION...]: the modes of its files are those of the tarball or of a clone, so they are set.
build() {
	[ -e "$1" ] || cp -r "$FILES/$1" .
	chmod -R u=rwX,go=rX "$1"
	mlrun build -q -t "$1" "${@:2}" "$1"
}

# The configuration of an image in an archive, without what is empty; variables in any order.
config_of() {
	skopeo --insecure-policy inspect --config --raw "oci-archive:$1" | jq -S '.config' | not_empty
}

not_empty() {
	jq -S '{Env, Cmd, Entrypoint, Labels, User, WorkingDir, Healthcheck, ExposedPorts, Volumes, StopSignal, Shell, OnBuild} |
		.Env |= sort | del(.Labels["io.buildah.version"]) | with_entries(select(.value != null and (.value | length) > 0))'
}

# Its driver vfs takes a file of the same size and time for the same.
on_buildah() {
	buildah --root "$TMPDIR/containers" --runroot "$TMPDIR/containers.run" --storage-driver overlay --log-level error "$@"
}

# tree ARCHIVE DIRECTORY
tree() {
	skopeo --insecure-policy copy -q "oci-archive:$1" "oci:$2.layout:x"
	umoci raw unpack --image "$2.layout:x" "$2" >/dev/null
	rm -r "$2.layout"
}

# as_buildah NAME [OPTION...] [-- PATTERN...]: compare an image with what buildah makes; see dockerfiles/compare.
as_buildah() {
	local name=$1 options=() target=()

	while shift && [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); done
	[ "${options[0]:-}" != --target ] || target=("${options[@]::2}")
	build "$name" "${target[@]}"
	on_buildah build --isolation chroot --layers=false --format docker --build-arg BASE=localhost/mlrun/base \
		--build-arg TARGETARCH="$(dpkg --print-architecture)" "${options[@]}" -t its "$name" >log 2>&1 ||
		fail "$(tail -n 30 log)"
	on_buildah push -q its oci-archive:its.oci
	mlrun export -q "$name" mine.oci
	assert_equal "$(config_of mine.oci)" "$(on_buildah inspect --type image its | jq .Docker.config | not_empty)"
	tree its.oci its
	tree mine.oci mine
	run "$FILES/compare" mine its "${@:2}" /etc/hostname any:/etc/hosts any:/etc/resolv.conf any:/etc/hostname \
		'/var/log/*' '/var/cache/ldconfig/aux-cache' '/var/cache/apt*' '/var/cache/debconf/*.dat*'
	assert_equal "$name: $output" "$name: "
	rm -rf mine its mine.oci its.oci
	on_buildah rmi its >/dev/null
}

@test "dockerfiles: CUDA's, with a stage for each machine, and packages by variables" {
	[ "$(uname -m)" = x86_64 ] || skip "the Dockerfile is for x86_64"
	in_all
	build cuda
	run -0 mlrun exec cuda
	assert_output $'== CUDA ==\nCUDA Version 12.4.1\nx86_64'
	run -0 mlrun exec --entrypoint '' cuda sh -c 'cat /usr/local/cuda-12/lib64/* /etc/ld.so.conf.d/nvidia.conf; apt-mark showhold; echo "$PATH"'
	assert_output --partial $'12.4.127-1\n/usr/local/nvidia/lib\n/usr/local/nvidia/lib64\ncuda-cudart-12-4\n/usr/local/nvidia/bin:'
	run -0 mlrun inspect cuda
	assert_output --partial 'com.nvidia.text=two lines'
}

@test "dockerfiles: a program by its sources, and a user who runs it" {
	in_all
	build mpi
	run -0 mlrun exec -w /home/mpi/jobs/first mpi
	assert_output "mpi in /home/mpi/jobs/first"
	# Printed where it fails: home/mpi once had the set-group-ID bit, on a busy machine; which layer has it?
	find "$MLRUN_STORE"/layers -maxdepth 5 -path '*/home*' -printf '%m %P\n'
	run -0 mlrun exec --fakeroot -w / mpi sh -c 'cat home/mpi/jobs/first/greeting
		stat -c "%U:%G %a %n" scratch home/mpi home/mpi/* home/mpi/jobs/* home/mpi/jobs/first/*'
	assert_output - <<-'END'
		hello mpi
		mpi:mpi 2775 scratch
		mpi:mpi 755 home/mpi
		mpi:mpi 755 home/mpi/jobs
		mpi:mpi 640 home/mpi/mine
		mpi:mpi 755 home/mpi/jobs/first
		mpi:mpi 640 home/mpi/jobs/hosts2
		mpi:mpi 640 home/mpi/jobs/first/greeting
		mpi:mpi 644 home/mpi/jobs/first/hosts
	END
	run -127 mlrun exec mpi gcc --version
}

@test "dockerfiles: wheels of a stage for a notebook's user, and here-documents" {
	in_all
	build python
	run -0 mlrun exec -w /home/jovyan python
	assert_line "5 files in work"
	run -0 mlrun exec --fakeroot -w /home/jovyan/work --entrypoint '' python sh -c 'cat both none done; stat -c "%U:%G %a %n" . END done /opt/venv /opt/venv/bin/tally'
	assert_output - <<-'END'
		print("$HOME is as written")
		{"user": "jovyan", "path": "/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
		no six
		done
		jovyan:users 6775 .
		jovyan:users 644 END
		jovyan:users 644 done
		jovyan:users 6775 /opt/venv
		root:users 775 /opt/venv/bin/tally
	END
	# A change of the program's sources does not bring PyPI's packages again.
	cp -r python changed
	echo '# more' >>changed/pkg/src/tally/__init__.py
	run -0 mlrun build -t changed --target wheels changed
	assert_line --partial '(cached) RUN --mount=type=cache,target=/root/.cache/pip     /opt/build/bin/pip install'
	assert_line --regexp ':[0-9]+: COPY pkg /src/pkg$'
}

@test "dockerfiles: services with users, set-ID programs, keys and diversions" {
	in_all # daily recipes.bats installs packages with owners and set-ID programs
	build services
	run -0 mlrun exec services cat /ids
	assert_output - <<-'END'
		uid=103(runner) gid=107(runner) groups=107(runner)
		uid=1000(ci) gid=1000(ci) groups=1000(ci),27(sudo),100(users),107(runner)
		uid=103(runner) gid=107(runner) groups=107(runner)
	END
	run -0 mlrun exec --fakeroot -w / services sh -c 'sshd -t; locale -a; date -d 2024-01-01 +%Z; dpkg-divert --list "*/mt"
		openssl verify /usr/local/share/ca-certificates/site.crt
		stat -c "%U:%G %a %n" usr/bin/chage usr/bin/sudo usr/bin/crontab usr/sbin/postdrop etc/munge/munge.key etc/sudoers.d/ci builds home/ci home/ci/mine var/lib/runner'
	assert_output - <<-'END'
		C
		C.utf8
		POSIX
		en_US.utf8
		CET
		local diversion of /bin/mt to /bin/mt.distrib
		/usr/local/share/ca-certificates/site.crt: OK
		root:runner 4750 usr/bin/chage
		root:root 4755 usr/bin/sudo
		root:crontab 2755 usr/bin/crontab
		root:postdrop 2555 usr/sbin/postdrop
		munge:munge 600 etc/munge/munge.key
		root:root 440 etc/sudoers.d/ci
		runner:adm 3770 builds
		ci:ci 700 home/ci
		ci:ci 644 home/ci/mine
		runner:runner 755 var/lib/runner
	END
}

# users NAME: one of the images that change users; see users/attempts.
users() {
	cp -r --no-preserve=mode "$FILES/users" "$1" # those of a release cannot be written to
	chmod 755 "$1"/{_dockerfile_shell.sh,attempts,fix-permissions,prepare}
	mv "$1/$1.Dockerfile" "$1/Dockerfile"
	rm -f "$1"/*.Dockerfile "$1"/*.expected
}

@test "dockerfiles: a user who may write to its own directories only, as micromamba's image tests it" {
	users micromamba
	build micromamba
	# As recorded of buildah with subordinate ids.
	mkdir look # exec has the host's /tmp
	printf '%s\n' 'FROM micromamba' 'USER root' 'SHELL ["/bin/sh", "-c"]' 'RUN (cat /tmp/attempts; stat -c "%u:%g %a %n" /opt/conda/etc /opt/conda/etc/* /opt/conda/[opt]* /tmp/prepare /tmp/shell-1 /home/in-users /home/unknown; cat /tmp/shell-1 /tmp/ids /tmp/ids-unknown) >/seen' >look/Dockerfile
	build look
	run -0 mlrun exec -w / --entrypoint cat look /seen
	diff -u "$FILES/users/micromamba.expected" - <<<"$output"
}

@test "dockerfiles: buildah, as root, makes the same configurations and files" {
	[ "$(id -u)" = 0 ] || skip "buildah runs as root"
	command -v buildah >/dev/null || skip "buildah is not installed"
	mlrun export -q mlrun/base base.oci
	on_buildah from --name base oci-archive:base.oci >log 2>&1 && on_buildah run --isolation chroot base true >>log 2>&1 ||
		skip "buildah does not run here: $(tail -n 1 log)"
	on_buildah commit -q base localhost/mlrun/base >/dev/null

	[ "$(uname -m)" != x86_64 ] || as_buildah cuda -- '/srv/cuda/*'
	as_buildah mpi
	# buildah leaves what it mounts on.
	as_buildah python --target notebook -v $CA:$CA:ro -- '*.pyc' any:/opt/build any:/tmp/requirements.txt \
		'/var/lib/apt/lists*'
	users micromamba
	as_buildah micromamba
	users coder
	# After su in root's RUN reading is not judged.
	as_buildah coder -- '/var/cache/apt/*' '/tmp/attempts-s*' /probe/own/copy
	users notebook
	as_buildah notebook -v $CA:/usr/local/ca.crt:ro --build-arg PIP_CERT=/usr/local/ca.crt -- '*.pyc' any:/usr/local/ca.crt
	# Keys are random, and so are names of their hashes.
	as_buildah services -- '/etc/ssh/ssh_host_*' /etc/munge/munge.key '/etc/ssl/*/ssl-cert-snakeoil.*' \
		'/etc/ssl/certs/*.0' /etc/aliases.db /etc/postfix/main.cf '/var/spool/postfix/maildrop/*'
}
