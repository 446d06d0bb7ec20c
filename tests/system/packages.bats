#!/usr/bin/env bats
# The packages that packaging/build makes, in an empty Debian 12, as users meet them. The tests follow each other: first
# the tarball, which needs no package, then Debian's packages, last the RPM ones, for which Debian's libraries are there.
# shellcheck disable=SC2016 # the inner shell expands

load ../cli/common
load ../cli/fake
load machine

setup_file() {
	local program build missing

	export PACKAGES=$BATS_FILE_TMPDIR/packages
	need_machines || return 0
	if [ -e "$top_srcdir/config.status" ]; then
		skip_file "the source directory itself was configured"
		return
	fi
	for program in dh rpmbuild patchelf; do
		command -v "$program" >/dev/null || { skip_file "$program is not installed"; return; }
	done
	missing=$(dpkg-checkbuilddeps "$top_srcdir/packaging/debian/control" 2>&1) || { skip_file "${missing#*: *: }"; return; }
	"$top_srcdir/packaging/build" -o "$PACKAGES" all >"$BATS_FILE_TMPDIR/build.log" 2>&1 3>&- 4>&- &
	build=$!
	make_machine bookworm
	tiny_root "$BATS_FILE_TMPDIR/tiny"
	layer_tar "$MACHINE/srv/tiny.tar" "$BATS_FILE_TMPDIR/tiny"
	wait "$build" || { cat "$BATS_FILE_TMPDIR/build.log" >&2; return 1; }
	fake_layout
	registry_start
}

teardown_file() {
	registry_stop
	[ -z "${MACHINE:-}" ] || rm -rf "$MACHINE"
}

# Ada unpacks the tarball into ~/anywhere; the machine itself lacks xz.
unpack_for_ada() {
	mkdir -p "$MACHINE/home/ada/anywhere"
	tar -C "$MACHINE/home/ada/anywhere" --strip-components=1 -xf "$PACKAGES"/mlrun-*-"$(uname -m)".tar.xz
	in_machine root 'chown -R ada: /home/ada/anywhere'
}

# What a new user types; `mlrun` is on PATH. The store is the default one.
first_steps() {
	run -0 in_machine ada "$1
		mlrun doctor
		mlrun import -q /srv/tiny.tar tiny
		mlrun push -q tiny $REGISTRY/lab/tiny
		mlrun rm tiny
		mlrun pull $REGISTRY/lab/tiny
		mlrun exec $REGISTRY/lab/tiny cat /etc/os-release
		printf 'FROM $REGISTRY/lab/tiny\nRUN echo made >/made\n' >Dockerfile
		mlrun build -q -t mine .
		mlrun exec mine cat /made
		mlrun export mine oci-archive:mine.tar
		mlrun rm mine $REGISTRY/lab/tiny
		mlrun import -q oci-archive:mine.tar again
		mlrun exec again id -un"
	assert_line --regexp '^[0-9]+ passes, [0-2] warnings?, 0 failures$'
	assert_line 'NAME=tiny'
	assert_line 'made'
	assert_line 'ada'
	refute_output --partial 'mlrun: warning'
	refute_output --partial 'hint:'
}

# mltrain finds its networks and libraries.
trains() {
	run -0 in_machine ada "$1
		mltrain net reference
		mltrain bench --only train --batch 16 --dtype f32 --seconds 0.1"
	assert_output --regexp 'onednn'
	assert_output --regexp 'train +f32 +16 '
}

# What is left of the packages outside users' directories and the packagers' records of what once was there.
left_behind() {
	in_machine root 'find / -xdev \( -path /home -o -path /srv -o -path /var/cache -o -path /var/log \) -prune \
		-o \( -name "*mlrun*" -o -name "*mltrain*" \) -print'
}

@test "packages: the tarball is complete, and names no directory of the machine that built it" {
	local file
	local -a tarballs=("$PACKAGES"/mlrun-*-"$(uname -m)".tar.xz)

	mkdir unpacked
	tar -C unpacked --strip-components=1 -xf "${tarballs[0]}"
	for file in bin/mlrun bin/mltrain libexec/mlrun/mlrun-pull share/man/man1/mlrun.1 share/doc/mlrun/LICENSE \
		share/doc/mlrun/licences/libcurl4 share/doc/mlrun/recipes/pytorch/Dockerfile share/doc/mlrun/slurm/ml.sh \
		share/zsh/site-functions/_mlrun share/bash-completion/completions/mlrun.bash; do
		[ -s "unpacked/$file" ] || fail "no $file"
	done
	run -1 grep -rlaE "mlrun-packages\.|$top_srcdir" unpacked
	assert_output ''
	# Else glibc's own libraries would have to fit the system's dynamic linker.
	run -0 find unpacked/lib -name 'libc.so*' -o -name 'libm.so*' -o -name 'ld-*'
	assert_output ''
	run -0 find unpacked -type f -perm /6022
	assert_output ''
}

@test "packages: the tarball runs from a home directory, on a machine without any further package" {
	unpack_for_ada
	first_steps 'PATH=$HOME/anywhere/bin:$PATH'
	trains 'PATH=$HOME/anywhere/bin:$PATH'
	# A job's modules must not give it other libraries.
	run -0 in_machine ada "mkdir other && touch other/libcurl.so.4
		export LD_LIBRARY_PATH=\$PWD/other PATH=\$HOME/anywhere/bin:\$PATH
		mlrun tags $REGISTRY/lab/tiny"
	assert_output 'latest'
}

@test "packages: the tarball's programs find the certificates where another distribution keeps them" {
	certificate lab
	fake --tls "$PWD/lab.pem"
	run -125 in_machine ada "anywhere/bin/mlrun pull -q $registry/x"
	assert_output --partial 'certificate'
	mkdir -p "$MACHINE/etc/pki/tls/certs"
	cp lab.crt "$MACHINE/etc/pki/tls/certs/ca-bundle.crt"
	in_machine ada "anywhere/bin/mlrun pull -q $registry/x"
	rm -r "$MACHINE/etc/pki"
}

@test "packages: unpacked over an older one, the tarball runs" {
	unpack_for_ada
	run -0 in_machine ada 'anywhere/bin/mlrun exec again cat /made; rm -r anywhere'
	assert_output 'made'
}

@test "packages: lintian has nothing to say of Debian's packages" {
	command -v lintian >/dev/null || skip "lintian is not installed"
	run -0 lintian --allow-root --profile debian --fail-on error,warning "$PACKAGES"/*.deb
	assert_output ''
}

@test "packages: without CUDA there is no mltrain-cuda" {
	run -0 find "$PACKAGES" -name 'mlrun_*.deb' -o -name '*cuda*'
	assert_output --regexp "^$PACKAGES/mlrun_[^/]*\\.deb\$"
}

@test "packages: apt installs mlrun from its file, and a user's first steps work" {
	cp "$PACKAGES"/*.deb "$MACHINE/srv"
	run -0 in_machine root 'apt-get -q update && apt-get -q install -y /srv/mlrun_*.deb'
	assert_line --regexp '^Setting up mlrun '
	refute_line --regexp '^(W|E|N|warning|dpkg: warning):'
	run -125 in_machine ada 'mlrun'
	assert_line --partial 'pull'
	first_steps :
	for file in man/man1/mlrun-exec.1.gz man/man5/mlrun.conf.5.gz bash-completion/completions/mlrun.bash \
		zsh/vendor-completions/_mlrun doc/mlrun/README.md doc/mlrun/install.md doc/mlrun/recipes/pytorch/Dockerfile \
		doc/mlrun/slurm/ml.sh; do
		[ -s "$MACHINE/usr/share/$file" ] || fail "no $file"
	done
}

@test "packages: apt installs mltrain without MPI where recommendations are not wanted, and it trains" {
	in_machine root 'apt-get -q install -y --no-install-recommends /srv/mltrain_*.deb'
	run -0 in_machine root 'dpkg-query -W -f "\${Package}\n" | grep openmpi || true'
	assert_output ''
	trains :
}

@test "packages: with mlrun-slurm installed, srun has its options" {
	run -0 in_machine root 'apt-get -q install -y --no-install-recommends /srv/mlrun-slurm_*.deb 2>&1'
	assert_line --regexp '^Setting up mlrun-slurm '
	printf '%s\n' 'ClusterName=lab' 'SlurmctldHost=localhost' >"$MACHINE/etc/slurm/slurm.conf"
	run -0 in_machine ada 'srun --help'
	assert_output --partial '--container-image'
}

@test "packages: what was installed is gone after a purge" {
	run -0 in_machine root 'apt-get -q purge -y mlrun-slurm mlrun mltrain'
	refute_line --regexp '^(W|E|N|warning|dpkg: warning):'
	run -0 left_behind
	assert_output ''
	run -0 in_machine ada 'ls .local/share/mlrun'
}

@test "packages: the RPM packages install into their places, run, and leave nothing behind" {
	local -a rpm=(rpm --root "$MACHINE" --force-debian --nodeps)

	"${rpm[@]}" -i "$PACKAGES"/*.rpm
	first_steps :
	trains :
	"${rpm[@]}" -e mlrun-slurm mlrun mltrain
	run -0 left_behind
	assert_output ''
}
