#!/usr/bin/env bats
# mlrun build: contexts that are no directory, and repositories.
# shellcheck disable=SC2016 # the recipes' variables are theirs
load common
load build

serve() {
	python3 -m http.server -d "$1" --bind 127.0.0.1 0 >"$TMPDIR/log" 2>&1 &
	PIDS+=($!)
	until_true grep -q 'port' "$TMPDIR/log"
	URL=http://127.0.0.1:$(sed -n 's/.* port \([0-9]*\).*/\1/p' "$TMPDIR/log")
}

# A repository "r.git" in the directory $1: a branch main, a tag v1 of its first commit.
repository() {
	command -v git >/dev/null || skip "git is not installed"
	export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=n@localhost GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=n@localhost \
		GIT_CONFIG_NOSYSTEM=1 HOME=$TMPDIR
	mkdir -p "$1" work/sub
	git init -q -b main work
	printf '%s\n' "FROM $BASE" 'COPY . /all/' >work/Dockerfile
	echo old >work/sub/file
	git -C work add .
	git -C work commit -q -m one
	git -C work tag v1
	FIRST=$(git -C work rev-parse HEAD)
	echo new >work/sub/file
	git -C work commit -q -a -m two
	git clone -q --bare work "$1/r.git"
	git -C "$1/r.git" update-server-info # for servers of plain files
}

# Git's own program: killed at the end, `git` would leave it behind.
daemon() {
	local port

	until [ -n "${URL:-}" ]; do
		port=$((20000 + RANDOM % 20000))
		"$(git --exec-path)/git-daemon" --base-path="$1" --export-all --listen=127.0.0.1 --port=$port >"$TMPDIR/log" 2>&1 3>&- &
		PIDS+=($!)
		until_true sh -c "! kill -0 $! 2>/dev/null || git ls-remote git://127.0.0.1:$port/r.git >/dev/null 2>&1"
		! kill -0 $! 2>/dev/null || URL=git://127.0.0.1:$port
	done
}

@test "build: the context is a tar, in a file, from standard input or a server" {
	mkdir c
	printf '%s\n' "FROM $BASE" 'COPY . /all/' 'RUN stat -c "%a %n" /all/* >/modes' >c/Dockerfile
	echo other >c/other.df
	printf 'FROM %s\nCOPY nam* /other\n' "$BASE" >c/other.df
	printf 'left\n' >c/.dockerignore
	touch c/left
	echo x >"c/namé"
	chmod 664 c/other.df
	chmod 700 "c/namé"
	ln -s /etc/passwd c/link
	tar -C c -czf c.tgz .
	tar -C c -cf c.tar .
	mlrun build -q -t mine c.tgz
	run -0 inside sh -c 'ls -A /all; cat /modes; cat "/all/namé"; readlink /all/link'
	assert_output - <<-'X'
		.dockerignore
		Dockerfile
		link
		namé
		other.df
		644 /all/Dockerfile
		777 /all/link
		700 /all/namé
		664 /all/other.df
		x
		/etc/passwd
	X
	run -0 mlrun build -t mine - <c.tar
	assert_output --partial "2 of 2 steps from the cache"
	serve .
	run -0 mlrun build -t mine "$URL/c.tgz"
	assert_output --partial "2 of 2 steps from the cache"
	mlrun build -q -t mine -f other.df - <c.tgz
	run -0 inside cat /other
	assert_output x
	run -125 mlrun build -q "$URL/none.tgz"
	assert_output --partial "context '$URL/none.tgz': fetch '$URL/none.tgz': the server has no such file"
	run -125 mlrun build -q none.tgz
	assert_output --partial "none.tgz"
	assert_equal "$(ls "$MLRUN_STORE/tmp")" ""
}

@test "build: what a context's top is here says nothing of the image, and a fifo is no recipe" {
	mkdir c
	printf '%s\n' "FROM $BASE" 'COPY . /app' 'RUN stat -c %a /app /app/suid >/modes' >c/Dockerfile
	touch c/suid
	chmod 4755 c/suid
	chmod 700 c
	tar -C c -cf c.tar .
	mlrun build -q -t mine - <c.tar
	run -0 inside cat /modes
	assert_output $'755\n4755'
	run -0 mlrun build c
	assert_output --partial "2 of 2 steps from the cache"
	rm c/Dockerfile
	mkfifo c/Dockerfile
	tar -C c -cf c.tar .
	run -125 mlrun build -q - <c.tar
	assert_output --partial "open 'Dockerfile': Invalid argument"
}

@test "build: standard input or a server may be a recipe alone, which has an empty context" {
	printf 'FROM %s\nRUN echo hello >/word\nCOPY . /empty/\n' "$BASE" >recipe
	mlrun build -q -t mine - <recipe
	run -0 inside sh -c 'cat /word; ls /empty'
	assert_output hello
	serve .
	run -0 mlrun build -t mine "$URL/recipe"
	assert_output --partial "2 of 2 steps from the cache"
	run -125 mlrun build -q -f - - <recipe
	assert_output "mlrun: standard input is the context already: -f - is too much"
	run -125 mlrun build -q -f x - <recipe
	assert_output --partial "is a recipe itself: -f is too much"
	run -125 mlrun build -q - <<<"FROM $BASE"$'\nRUNN x'
	assert_output --partial "standard input:2: unknown instruction 'RUNN'"
	run -125 mlrun build -q - <"$(type -P true)"
	assert_output "mlrun: context '-': it is neither a tar nor a recipe"
	run -125 mlrun build -q - </dev/null
	assert_output --partial "standard input"
	run -0 mlrun build --check - <recipe
}

@test "build: nothing of a context in a tar gets outside" {
	mkdir "$TMPDIR/outside"
	python3 - "$TMPDIR/outside" <<-'END'
		import io, sys, tarfile
		def tar(name, *members):
		    with tarfile.open(name, "w") as t:
		        for path, link in members:
		            m = tarfile.TarInfo(path)
		            m.type, m.linkname = (tarfile.SYMTYPE, link) if link else (tarfile.REGTYPE, "")
		            m.size = 0 if link else 4
		            t.addfile(m, None if link else io.BytesIO(b"evil"))
		tar("evil.tar", ("Dockerfile", ""), ("out", sys.argv[1]), ("out/file", ""))
		tar("up.tar", ("../up", ""))
		tar("up2.tar", ("a/../../up", ""))
	END
	run -125 mlrun build -q evil.tar
	assert_output --partial "context 'evil.tar'"
	assert_equal "$(ls "$TMPDIR/outside")" ""
	run -125 mlrun build -q up.tar
	assert_output --partial "'../up'"
	run -125 mlrun build -q up2.tar
	assert_output --partial "'a/../../up'"
	[ ! -e "$MLRUN_STORE/up" ] && [ ! -e "$MLRUN_STORE/tmp/up" ]
	head -c 1000 evil.tar >cut.tar
	run -125 mlrun build -q cut.tar
	assert_output --partial "context 'cut.tar'"
	assert_equal "$(ls "$MLRUN_STORE/tmp")" ""
}

@test "build: the context is a repository, a branch, a tag, a commit or a directory of it" {
	repository served
	daemon "$PWD/served"
	mlrun build -q -t mine "$URL/r.git"
	run -0 inside sh -c 'cat /all/sub/file; ls -A /all'
	assert_output $'new\nDockerfile\nsub'
	for at in v1 "$FIRST" ; do
		mlrun build -q -t mine "$URL/r.git#$at"
		run -0 inside cat /all/sub/file
		assert_output old
	done
	printf 'FROM %s\nCOPY file /here\n' "$BASE" >sub.df
	run -125 mlrun build -q "$URL/r.git#main:sub"
	assert_output --partial "there is no Dockerfile in '$URL/r.git#main:sub'"
	mlrun build -q -t mine --build-context "src=$URL/r.git#v1:sub" - <<-X
		FROM $BASE
		COPY --from=src file /here
	X
	run -0 inside cat /here
	assert_output old
	mlrun build -q -t mine "$URL/r.git?tag=v1"
	run -0 inside cat /all/sub/file
	assert_output old
	mlrun build -q -t mine "$URL/r.git?branch=main&commit=$FIRST"
	run -0 inside cat /all/sub/file
	assert_output old
	run -125 mlrun build -q "$URL/r.git?tag=v1&depth=1"
	assert_line --partial "'?depth=': use ref, branch, tag, commit, subdir or keep-git-dir"
	run -125 mlrun build -q "$URL/r.git#none"
	assert_line "mlrun: context '$URL/r.git#none': it has no branch, tag or commit 'none'"
	run -125 mlrun build -q "$URL/none.git"
	assert_line --partial "git cannot fetch 'HEAD'"
	run -125 mlrun build -q "$URL/r.git#main:none"
	assert_line --partial "its directory 'none': No such file"
	run -125 mlrun build -q "$URL/r.git?ref=--upload-pack=x"
	assert_line --partial "names no branch"
	run -125 mlrun build -q "$URL/r.git#--upload-pack=x"
	assert_line --partial "names no branch"
	assert_equal "$(ls "$MLRUN_STORE/tmp")" ""
}

@test "build: ADD clones a repository, also from a server of plain files" {
	repository served
	serve served
	printf '%s\n' "FROM $BASE" "ADD $URL/r.git /main/" "ADD $URL/r.git#v1:sub /sub" \
		"ADD --keep-git-dir $URL/r.git#$FIRST /kept" "ADD $URL/r.git?ref=v1&subdir=sub /asked" "ADD $URL/r.git?keep-git-dir=1 /asked/all" >Dockerfile
	mlrun build -q -t mine .
	run -0 inside sh -c 'cat /main/sub/file /sub/file /kept/sub/file; ls -A /main; ls -d /kept/.git'
	assert_output $'new\nold\nold\nDockerfile\nsub\n/kept/.git'
	run -0 inside sh -c 'cat /asked/file; ls -d /asked/all/.git'
	assert_output $'old\n/asked/all/.git'
	printf '%s\n' "FROM $BASE" "ADD Dockerfile $URL/r.git /x/" >Dockerfile
	run -125 mlrun build -q .
	assert_output --partial "Dockerfile:2: '$URL/r.git': a repository needs an ADD of its own"
	printf '%s\n' "FROM $BASE" "ADD $URL/none.git /x/" >Dockerfile
	run -125 mlrun build -q .
	assert_line --partial "Dockerfile:2: '$URL/none.git': git cannot fetch 'HEAD'"
	PATH=$top_builddir/bin run -125 "$(command -v mlrun)" build -q .
	assert_line --partial "git is not installed here"
	assert_equal "$(ls "$MLRUN_STORE/tmp")" ""
}
