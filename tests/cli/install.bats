#!/usr/bin/env bats
# What `make install` puts where.

load common

# A make of its own, not a part of the one that runs the tests.
make_install() {
	env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u MAKEOVERRIDES make -s -C "$top_builddir" install \
		"$@" >make.log 2>&1 || { cat make.log; return 1; }
}

setup() {
	common_setup
	make_install DESTDIR="$TMPDIR/dest" prefix=/opt/mlrun
}

@test "install: programs, man pages and documents are in their places beneath the prefix" {
	local file

	for file in bin/mlrun bin/mltrain libexec/mlrun/mlrun-pull libexec/mlrun/mlrun-account libexec/mlrun/mlrun-nvml libexec/mlrun/mltrain-fetch libexec/mlrun/mltrain-load share/man/man1/mlrun.1 \
		share/bash-completion/completions/mlrun.bash share/zsh/site-functions/_mlrun \
		share/bash-completion/completions/mltrain.bash share/zsh/site-functions/_mltrain share/fish/vendor_completions.d/mlrun.fish \
		share/man/man1/mltrain.1 share/man/man1/mltrain-load.1 share/man/man5/mltrain-net.5 share/mltrain/nets/reference.json share/doc/mlrun/LICENSE share/doc/mlrun/README.md; do
		[ -s "dest/opt/mlrun/$file" ] || fail "no $file in $(find dest -type f)"
	done
	for file in $(grep -oE 'docs/[a-z-]+\.md' "$top_srcdir/README.md" | sort -u); do
		[ -s "dest/opt/mlrun/share/doc/mlrun/${file#docs/}" ] || fail "no $file, which the README names"
	done
	if [ -e "$top_builddir/bin/mltrain-mpi.so" ]; then
		run -0 find dest/opt/mlrun -path '*/mlrun/mltrain-mpi.so' -size +0
		assert_output
	fi
	[ ! -e "$top_builddir/bin/mltrain-serve" ] || [ -s dest/opt/mlrun/libexec/mlrun/mltrain-serve ]
	run -0 find dest -type f -perm /6000
	assert_output ''
}

@test "install: below ~/.local it leaves the default store's place alone" {
	make_install prefix="$HOME/.local"
	tiny_root root
	unset MLRUN_STORE
	export PATH=$HOME/.local/bin:$PATH
	run -0 --separate-stderr mlrun images --json
	assert_output '[]'
	tar -C root -c . | mlrun import - tiny
	run -0 mlrun exec tiny cat /etc/os-release
	assert_output 'NAME=tiny'
	run -0 mltrain net reference
}

@test "install: programs lie at random addresses, and their tables of functions are read-only from the start" {
	local file type n=0

	while read -r file; do
		type=$(readelf -hW "$file" 2>/dev/null | awk '$1 == "Type:" { print $2 }') || continue
		[ -n "$type" ] || continue
		n=$((n + 1))
		assert_equal "$file $type" "$file DYN"
		run -0 readelf -lW "$file"
		assert_output --partial GNU_RELRO
		refute_output --regexp 'GNU_STACK .* RWE '
		run -0 readelf -dW "$file"
		assert_output --partial BIND_NOW
	done < <(find dest -type f \( -perm -100 -o -name '*.so' \))
	assert [ "$n" -ge 6 ]
}

@test "install: a tree that was moved still finds its parts" {
	mv dest/opt/mlrun moved
	run -0 moved/bin/mltrain net lenet-5
	assert_output --partial '61706 parameters'
	run -0 moved/bin/mlrun pull --help
	assert_output --partial 'IMAGE'
	run -0 moved/bin/mltrain fetch --help
	assert_output --partial 'mnist'
	if [ -e "$top_builddir/bin/mltrain-mpi.so" ]; then
		run -0 moved/bin/mltrain --version
		assert_output --partial '+mpi'
		find moved -name mltrain-mpi.so -delete
		run -0 moved/bin/mltrain --version
		assert_output --partial '-mpi'
	fi
}
