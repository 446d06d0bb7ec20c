#!/usr/bin/env bats
# The first commands on a new machine and in a new account: an empty Debian 12 with git, sudo and users; the first of
# them on Debian 13 and Ubuntu 24.04, too. What is typed there stands in the README. The tests follow each other. A daily
# check does several of these things on one machine where --all does each on its own.
# shellcheck disable=SC2016 # the inner shell expands

load ../cli/common
load ../cli/mltrain
load machine

# readme_commands SECTION N: the Nth block of commands in that section of the README.
readme_commands() {
	awk -v title="## $1" -v block="$2" '
		/^## / { inside = $0 == title }
		inside && /^    / { if (!last) n++; if (n == block) print substr($0, 5) }
		inside { last = /^    / }' "$top_srcdir/README.md"
}

# packages_of WORD: what quickstart's table lists for the demo in the rows whose purpose has WORD.
packages_of() {
	sed -n '/^package_table()/,/^}/p' "$top_srcdir/quickstart" |
		awk -F '|' -v word="$1" '$1 ~ /demo/ && index($2, word) { print $3 }'
}

shorten_training_set() {
	local data=$MACHINE/usr/share/datasets/fashion-mnist SMALL=$BATS_FILE_TMPDIR

	cut_idx train-images-idx3-ubyte 16 784 6000
	cut_idx train-labels-idx1-ubyte 8 1 6000
	gzip -1 "$SMALL"/train-*
	mv "$SMALL"/train-* "$data"
}

# new_machine SUITE: one with git, the repository, and two users of whom ada has sudo. Daily it has the pictures already,
# and of those to train with a tenth, from which a network learns to tell seven of ten.
new_machine() {
	local packages=git,sudo,ca-certificates

	# Several builds follow each other on Debian 12, and a compiler's work is done once: the paths below a home directory
	# are relative to the cache. Nobody measures the speed of this code: -O0 without -g; what trains is oneDNN.
	[ "$1" != bookworm ] || packages+=,ccache
	[ "$CHECK_ALL" = yes ] || packages+=,dataset-fashion-mnist
	make_machine "$1" --include="$packages"
	[ "$CHECK_ALL" = yes ] || shorten_training_set
	# One thread trains: two would wait for each other where other tests compute.
	install -d -m 1777 "$MACHINE"/var/cache{,/ccache}
	printf '%s\n' 'PATH=/usr/lib/ccache:$PATH' 'export PATH CCACHE_DIR=/var/cache/ccache CCACHE_UMASK=000' \
		'export CCACHE_BASEDIR=$HOME CCACHE_NOHASHDIR=1 OMP_NUM_THREADS=1 CFLAGS=-O0' >"$MACHINE/etc/profile.d/ccache.sh"
	in_machine root '
		useradd -m -s /bin/bash grace
		echo "ada ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/ada
		mkdir /datasets && echo 1 >/datasets/a-picture'
	git -c safe.directory='*' -C "$REPOSITORY" bundle create -q "$MACHINE/srv/mlrun" HEAD
}

# Image mine:1, in the archive that `docker save mine:1` would write.
docker_stand_in() {
	skopeo --insecure-policy copy -q --src-no-creds --src-tls-verify=false \
		"docker://$REGISTRY/library/debian:12" "docker-archive:$MACHINE/srv/mine.tar:mine:1"
	printf '%s\n' '#!/bin/sh' '[ "$*" = "save mine:1" ] && exec cat /srv/mine.tar' >"$MACHINE/usr/local/bin/docker"
	chmod 755 "$MACHINE/usr/local/bin/docker"
}

setup_file() {
	# A checkout whose copy is tested is named by who made the copy.
	export REPOSITORY=${CHECK_REPOSITORY:-$top_srcdir} CHECK_ALL=${CHECK_ALL:-no}

	need_machines || return 0
	if ! git -c safe.directory='*' -C "$REPOSITORY" rev-parse -q --verify HEAD >/dev/null; then
		skip_file "no git checkout to clone"
		return
	fi
	registry_start
	new_machine bookworm
	image_push_tar -c --config.cmd -c bash library/debian:12 \
		<(tar -C "$MACHINE" --exclude=./dev --exclude=./srv/mlrun --exclude=./usr/share --exclude=./usr/lib/git-core -c .)
}

teardown_file() {
	registry_stop
	[ -z "${MACHINE:-}" ] || rm -rf "$MACHINE"
}

teardown() {
	[ -z "${OTHER:-}" ] || rm -rf "$OTHER"
	common_teardown
}

# What a command left in the home directory, but for its clone.
left_in_home() { in_machine "$1" 'find . -mindepth 1 -not -name ".bash*" -not -name .profile -not -path "./mlrun*"'; }

# demo USER: README's first command, with one pass over the training set.
demo() {
	local learned='[67][0-9]'

	[ "$CHECK_ALL" = no ] || learned='8[3-9]'
	run -0 in_machine "$1" \
		"git clone -q /srv/mlrun mlrun && cd mlrun && EPOCHS=1 $(readme_commands 'Two commands' 1 | grep demo)"
	assert_output --regexp 'Fashion-MNIST, 1 epochs on [0-9]+ cores: test accuracy '"$learned"'\.'
}

@test "new machine: README's demo, by a user with sudo, installs packages and trains a network" {
	demo ada
	assert_line '==> packages to install'
	run -0 left_in_home ada
	assert_output ''
}

root_left='find /var/lib/containers /run/containers -mindepth 1 2>/dev/null || true'

# On another system: the demo, daily by root; for a release by a user, and the packages and the whole check.
on() {
	[[ " ${CHECK_SYSTEMS-trixie noble} " == *" $1 "* ]] ||
		skip "every second day, and by check --all"
	new_machine "$1"
	OTHER=$MACHINE
	if [ "$CHECK_ALL" = no ]; then
		demo root
		run -0 in_machine root "$root_left; ldd mlrun/build-demo/bin/mlrun"
		assert_output --partial 'statically linked'
		refute_output --partial containers
		return
	fi
	demo ada
	run in_machine ada 'ldd mlrun/build-demo/bin/mlrun'
	assert_output --partial 'statically linked'
	in_machine root 'apt-get -q install -y --no-install-recommends debhelper dh-apparmor libopenmpi-dev libslurm-dev'
	in_machine ada 'cd mlrun && packaging/build -o ~/packages deb'
	run -0 in_machine root 'apt-get -q install -y --no-install-recommends ~ada/packages/mlrun_*.deb; ls /etc/apparmor.d/mlrun
		mlrun --version; apt-get -q purge -y mlrun'
	assert_line --regexp '^mlrun [0-9]'
	run -0 in_machine ada 'cd mlrun && ./quickstart check'
	assert_output --regexp '[0-9]+ passed, 0 failed, [0-9]+ skipped'
}

@test "new machine: README's demo on Debian 13" { on trixie; }
@test "new machine: README's demo on Ubuntu 24.04" { on noble; }

@test "new machine: README's demo, by root" {
	in_all # daily on another system
	demo root
	assert_line '==> packages: all there'
	run -0 in_machine root "$root_left"
	assert_output ''
}

# install_and_first_steps USER
install_and_first_steps() {
	docker_stand_in
	in_machine "$1" "
		mkdir -p .config/mlrun
		printf '[registry docker.io]\nmirror = $REGISTRY\n' >.config/mlrun/mlrun.conf
		git clone -q /srv/mlrun mlrun"
	run -0 in_machine "$1" "cd mlrun
		$(readme_commands Install 2)
		cd
		set -x
		$(readme_commands 'First steps' 1 | sed "s|REGISTRY|$REGISTRY|g")"
	assert_line 'VERSION_CODENAME=bookworm'
	assert_line 'a-picture'
	refute_output --partial 'mlrun: warning'
	skopeo inspect --raw --tls-verify=false "docker://$REGISTRY/lab/debian:12" >/dev/null
	run -0 in_machine "$1" '
		mlrun images --json
		stat -c "%a %n" .local/share/mlrun
		ls .local/share'
	assert_output --partial 'mine:1'
	refute_output --partial 'debian:12'
}

@test "new account: README's Install and First steps, word for word" {
	in_all # daily without the optional packages
	install_and_first_steps grace
}

# without PACKAGE...: a build where these packages are missing, without a warning, that runs a container and trains a
# step. The compiler's options are those of the demo, whose cache serves here.
without() {
	run -0 in_machine -t ada "
		sudo dpkg -r --force-depends $* >/dev/null
		mkdir mlrun/build && cd mlrun/build
		../configure -q >&2
		{ make -s -j$(nproc) >make.log 2>&1 && ! grep -q warning: make.log; } || { cat make.log; exit 1; }
		export PATH=\$PWD/bin:\$PATH
		export MLRUN_STORE=/var/cache/store # not on the overlay, which keeps no whiteouts
		mlrun pull -q $REGISTRY/library/debian:12
		mlrun exec $REGISTRY/library/debian:12 cat /etc/os-release
		mltrain bench --only train --batch 1 --dtype f32 --seconds 0.1"
	assert_line 'VERSION_CODENAME=bookworm'
	assert_output --regexp 'train +f32 +1 '
}

@test "new machine: for a release, it builds and runs without each group of optional packages" {
	local what

	in_all
	for what in 'twice as fast gunzip' 'squashfs file' 'seccomp profiles' "oneDNN" 'pictures that mltrain'; do
		# shellcheck disable=SC2046
		without $(packages_of "$what")
	done
}

@test "new account: README's Install and First steps without any optional package, word for word" {
	in_machine root "dpkg -r --force-depends $(packages_of '(optional)' | xargs) >/dev/null; useradd -m -s /bin/bash linus"
	install_and_first_steps linus
	run -0 in_machine linus 'mltrain bench --only train --batch 1 --dtype f32 --seconds 0.1'
	assert_output --regexp 'train +f32 +1 '
	# This build is the demo's, by the cache: else the file takes minutes more.
	in_machine root 'ccache --print-stats | awk "/cache_hit/ { hits += \$2 } \$1 == \"cache_miss\" { misses = \$2 }
		END { print hits, misses; exit !(hits > misses / 2) }"'
}
