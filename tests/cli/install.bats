#!/usr/bin/env bats
# What `make install` puts where.

load common

setup() {
	common_setup
	# A make of its own, not a part of the one that runs the tests.
	env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u MAKEOVERRIDES make -s -C "$top_builddir" install \
		DESTDIR="$TMPDIR/dest" prefix=/opt/mlrun >make.log 2>&1 || { cat make.log; return 1; }
}

@test "install: programs, man pages and documents are in their places beneath the prefix" {
	local file

	for file in bin/mlrun bin/mltrain libexec/mlrun/mlrun-pull libexec/mlrun/mlrun-account libexec/mlrun/mlrun-nvml libexec/mlrun/mltrain-fetch share/man/man1/mlrun.1 \
		share/bash-completion/completions/mlrun.bash share/zsh/site-functions/_mlrun \
		share/bash-completion/completions/mltrain.bash share/zsh/site-functions/_mltrain \
		share/man/man1/mltrain.1 share/man/man5/mltrain-net.5 share/mlrun/nets/reference.json share/doc/mlrun/LICENSE share/doc/mlrun/README.md; do
		[ -s "dest/opt/mlrun/$file" ] || fail "no $file in $(find dest -type f)"
	done
	for file in $(grep -oE 'docs/[a-z-]+\.md' "$top_srcdir/README.md" | sort -u); do
		[ -s "dest/opt/mlrun/share/doc/mlrun/${file#docs/}" ] || fail "no $file, which the README names"
	done
	if [ -e "$top_builddir/src/mltrain-mpi.so" ]; then
		run -0 find dest/opt/mlrun -path '*/mlrun/mltrain-mpi.so' -size +0
		assert_output
	fi
	run -0 find dest -type f -perm /6000
	assert_output ''
}

@test "install: a tree that was moved still finds its parts" {
	mv dest/opt/mlrun moved
	run -0 moved/bin/mltrain net lenet-5
	assert_output --partial '61706 parameters'
	run -0 moved/bin/mlrun pull --help
	assert_output --partial 'IMAGE'
	run -0 moved/bin/mltrain fetch --help
	assert_output --partial 'mnist'
	if [ -e "$top_builddir/src/mltrain-mpi.so" ]; then
		run -0 moved/bin/mltrain --version
		assert_output --partial '+mpi'
		find moved -name mltrain-mpi.so -delete
		run -0 moved/bin/mltrain --version
		assert_output --partial '-mpi'
	fi
}
