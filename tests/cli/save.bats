# Roots as one squashfs file: mlrun export --format=squashfs, exec --save, containers on top of such a file.
# shellcheck disable=SC2016 # the inner shell expands
load common

setup_file() {
	has_squashfs || { skip_file "mlrun was built without libsquashfs" && return; }
	tiny_root "$BATS_FILE_TMPDIR/root"
	cd "$BATS_FILE_TMPDIR" || return
	mkdir -p root/etc root/home root/work
	echo one >root/etc/version
	echo a >root/work/a
	ln root/work/a root/work/b
	ln -s ../etc/version root/work/l
	mkfifo -m 600 root/work/p
	export FILE_STORE=$PWD/store
	tar -C root -cf - . | MLRUN_STORE=$FILE_STORE mlrun import -q - plain
	cat >recipe <<-'END'
		FROM plain
		ENV A="it's" B="x y"
		LABEL org.mlrun.gpu=none
		WORKDIR /work dir
		ENTRYPOINT ["/bin/echo", "said"]
		CMD ["by default"]
		RUN ["/bin/sh", "-c", "rm -r /home; echo 0 >/work/closed; chmod 0 /work/closed; mkdir -m 1777 /open"]
	END
	MLRUN_STORE=$FILE_STORE mlrun build -q -t app -f recipe .
}

setup() {
	common_setup
	cp -al "$FILE_STORE" "$MLRUN_STORE"
}

needs_unsquashfs() { command -v unsquashfs >/dev/null || skip "unsquashfs is not installed"; }
in_file() { mlrun exec --entrypoint= "squashfs:$1" "${@:2}"; }

# --- export -------------------------------------------------------------------------

@test "save: an image is the same file from each format that the store may keep it in" {
	needs_fuse
	mlrun export -q app oci:lay
	mlrun export -q --format=squashfs app app.sqsh
	for format in dir squashfs; do
		mlrun pull -q --store "$format" --format="$format" oci:lay
		mlrun export -q --store "$format" app "squashfs:$format.sqsh"
		tail -n +2 <(in_file "$format.sqsh" cat /etc/rc) >its
		tail -n +2 <(in_file app.sqsh cat /etc/rc) | cmp - its
		run -0 in_file "$format.sqsh" sh -c 'ls -ld /open /work/closed; ls /home 2>&1; cat /etc/version'
		assert_line --regexp '^drwxrwxrwt .* /open$'
		assert_line --regexp '^---------- .* /work/closed$'
		assert_line --partial "No such file"
	done
}

@test "save: the file has the image's files, and what only root could read" {
	needs_unsquashfs
	run -0 mlrun export --format=squashfs app app.sqsh
	assert_output "mlrun: exported 'app' to 'app.sqsh'"
	unsquashfs -q -n -d out app.sqsh >/dev/null
	chmod u+r out/work/closed
	assert_equal "$(cat out/etc/version out/work/closed)" $'one\n0'
	assert [ out/work/a -ef out/work/b ] && assert [ -p out/work/p ]
	assert_equal "$(readlink out/work/l)" ../etc/version
	assert [ ! -e out/home ]
	run -0 mlrun export --json -q --format=squashfs app again.sqsh
	assert_equal "$(jq -c '[.name,.file,.format,.digest]' <<<"$output")" '["app","again.sqsh","squashfs",null]'
	cmp app.sqsh again.sqsh
	# A directory that its owner may not enter.
	mlrun exec -q --write=c --entrypoint= app sh -c 'mkdir /d; touch /d/f; chmod 0 /d' 2>/dev/null
	mlrun export -q --format=squashfs container:c c.sqsh
	run -0 unsquashfs -l c.sqsh
	assert_line squashfs-root/d/f
	mlrun exec --fakeroot --entrypoint= container:c rm -r /d
}

@test "save: configuration goes with the file, as Enroot has it" {
	needs_fuse
	mlrun export -q app squashfs:app.sqsh
	run -0 mlrun exec squashfs:app.sqsh
	assert_output "said by default"
	run -0 mlrun exec squashfs:app.sqsh hello
	assert_output "said hello"
	cd /
	run -0 in_file "$OLDPWD/app.sqsh" sh -c 'pwd; echo "$A-$B"'
	assert_output $'/work dir\nit\'s-x y'
	# By its own script, with nothing but a shell.
	run -0 in_file "$OLDPWD/app.sqsh" sh /etc/rc
	assert_output "said by default"
	run -0 in_file "$OLDPWD/app.sqsh" sh /etc/rc 'a  b'
	assert_output "said a  b"
	run -0 in_file "$OLDPWD/app.sqsh" cat /etc/rc
	assert_line "# org.mlrun.gpu none"
}

@test "save: a file that Enroot made runs with its variables, directory, entrypoint and command" {
	command -v mksquashfs >/dev/null || skip "mksquashfs is not installed"
	needs_fuse
	cp -a "$BATS_FILE_TMPDIR/root" root
	printf '%s\n' 'PATH=/bin' 'B=1=2' >root/etc/environment
	cat >root/etc/rc <<-'END'
		# enroot-provenance: docker://registry-1.docker.io#x:1
		# maintainer somebody

		mkdir -p "/work" 2> /dev/null
		cd "/work" && unset OLDPWD || exit 1

		if [ -s /etc/rc.local ]; then
		    . /etc/rc.local
		fi

		if [ $# -gt 0 ]; then
		    exec '/bin/sh' '-c' 'echo "$0" $B' "$@"
		else
		    exec '/bin/sh' '-c' 'echo "$0" $B' 'it'\''s'
		fi
	END
	mksquashfs root x.sqsh -quiet -no-progress >/dev/null
	cd /
	run -0 mlrun exec "squashfs:$OLDPWD/x.sqsh"
	assert_output "it's 1=2"
	run -0 mlrun exec "squashfs:$OLDPWD/x.sqsh" you
	assert_output "you 1=2"
	run -0 in_file "$OLDPWD/x.sqsh" pwd
	assert_output /work
	run -0 mlrun exec --entrypoint= "rootfs:$OLDPWD/root" sh -c 'pwd; echo $B'
	assert_output $'/work\n1=2'
}

@test "save: what cannot be exported so is told, and nothing is left behind" {
	run -125 mlrun export --format=squashfs app -
	assert_output --partial "'standard output' is no regular file"
	mkfifo pipe
	run -125 mlrun export --format=squashfs app pipe
	assert_output --partial "'pipe' is no regular file"
	run -125 mlrun export --format=squashfs --name=x app y
	run -125 mlrun export --format=squashfs --compression=none app y
	run -125 mlrun export --format=squashfs nothing y
	assert_line "hint: mlrun pull nothing"
	run -125 mlrun export --format=squashfs container:nothing y
	assert_output --partial "there is no container 'nothing'"
	run -125 mlrun export container:c y
	assert_line "hint: --format=squashfs or sif; or mlrun commit c IMAGE makes an image of it to export"
	assert_equal "$(find . -name '.*sqsh*' -o -name y)" ""
}

@test "save: a killed export leaves the file of before" {
	needs_fuse
	mlrun export -q --format=squashfs plain f.sqsh
	cp f.sqsh before
	mlrun exec -q --write=c plain sh -c 'dd if=/dev/urandom of=/large bs=1M count=60 2>/dev/null' 2>/dev/null
	# On a busy machine one may end before it is seen.
	status=0
	while [ "$status" = 0 ]; do
		cp before f.sqsh
		mlrun export -q --format=squashfs container:c f.sqsh &
		until_true sh -c 'ls -a | grep -q "^[.]f.sqsh[.]mlrun" || ! kill -0 '$!
		kill -TERM $! || true
		wait $! || status=$?
	done
	assert_equal "$status" 143
	cmp f.sqsh before
	assert_equal "$(find . -name '.f.sqsh*')" ""
	mlrun export -q --format=squashfs container:c f.sqsh
	run -0 in_file f.sqsh sh -c 'wc -c </large'
	assert_output $((60 << 20))
}

# --- exec --save --------------------------------------------------------------------

@test "save: exec --save writes the root at the end, without a word and with the command's status" {
	needs_fuse
	run -3 mlrun exec --save=f.sqsh --entrypoint= app sh -c 'echo new >/new; rm /etc/version; exit 3'
	assert_output ""
	run -0 in_file f.sqsh sh -c 'cat /new; ls /etc/version 2>&1; echo "$A"'
	assert_output $'new\nls: /etc/version: No such file or directory\nit\'s'
	run -0 mlrun containers
	refute_output --partial save
	# On top of the file, and into it again.
	mlrun exec --save=f.sqsh --entrypoint= squashfs:f.sqsh sh -c 'echo newer >>/new'
	run -0 in_file f.sqsh cat /new
	assert_output $'new\nnewer'
	# A signal ends the command, and the state is kept.
	run -143 mlrun exec --save=g.sqsh --entrypoint= app sh -c 'echo x >/x; kill -TERM $$'
	run -0 in_file g.sqsh cat /x
	assert_output x
	# Paths are relative to where it began.
	cp -al "$MLRUN_STORE" relative
	mlrun exec --store=relative --save=r.sqsh --entrypoint= app touch /s
	run -0 in_file r.sqsh ls /s
	# With a name the container stays.
	mlrun exec -q --write=c --save=h.sqsh --entrypoint= app touch /h 2>/dev/null
	run -0 mlrun exec --entrypoint= container:c ls /h
	run -0 in_file h.sqsh ls /h
}

@test "save: exec --save tells first what would fail after hours" {
	mkdir there
	run -125 mlrun exec --save=there app
	assert_output "mlrun: --save: '$PWD/there' is a directory"
	run -125 mlrun exec --save=nowhere/f app
	assert_output --partial "--save: directory '$PWD/nowhere/': No such file"
	run -125 mlrun exec --save=f --read-only app
	assert_output "mlrun: --save and --read-only exclude each other"
	run -125 mlrun exec --save=f --write app
	assert_output --partial "the container of --write needs a name"
	run -125 mlrun exec --save=f "rootfs:$BATS_FILE_TMPDIR/root" true
	assert_output --partial "this is a plain directory"
	run -127 mlrun exec --entrypoint= --save=f app no-such-command
	assert [ ! -e f ]
	run -0 mlrun containers
	refute_output --partial save
}

@test "save: of several commands in a container the last one's end saves it" {
	needs_fuse
	mlrun exec -q --write=c --save=f.sqsh --entrypoint= app sh -c "echo a >/a; while [ ! -e '$PWD/go' ]; do sleep 0.1; done" 2>/dev/null &
	until_true sh -c 'mlrun ps | grep -q app'
	mlrun exec --save=f.sqsh --entrypoint= container:c sh -c 'echo b >/b'
	assert [ ! -e f.sqsh ]
	touch go # by none of the container's, which would be the last one if it ended late
	wait $!
	run -0 in_file f.sqsh cat /a /b
	assert_output $'a\nb'
}

@test "save: a file that cannot be written at the end makes the status 125" {
	[ "$(id -u)" != 0 ] || skip "root may write anywhere"
	mkdir d
	run -125 mlrun exec --save=d/f.sqsh --entrypoint= app chmod 555 "$PWD/d"
	assert_output --partial "create a file beside '$PWD/d/f.sqsh': Permission denied"
	run -0 mlrun containers
	assert_output --regexp 'save-' # what was written is not lost
	chmod 755 d
}

# --- containers on top of a file ----------------------------------------------------

@test "save: --write keeps what is written on top of a squashfs file" {
	needs_fuse
	mlrun export -q app squashfs:f.sqsh
	run -0 mlrun exec --store=new --write=c --entrypoint= squashfs:f.sqsh sh -c 'echo 1 >/n'
	assert_output "mlrun: container 'c' is new and keeps what is written"
	run -0 mlrun exec --store=new --write=c --entrypoint= squashfs:f.sqsh sh -c 'echo 2 >>/n'
	assert_output ""
	run -0 mlrun exec --store=new --entrypoint= container:c sh -c 'cat /n; echo "$A"'
	assert_output $'1\n2\nit\'s'
	run -0 mlrun containers --store=new
	assert_output --partial "squashfs:$PWD/f.sqsh"
	run -125 mlrun commit --store=new c mine
	assert_output --partial "container 'c' is made of a file, not of an image of the store"
	assert_line "hint: mlrun export --format=squashfs container:c FILE saves it"
	run -125 mlrun exec --write squashfs:f.sqsh true
	assert_output --partial "a file does not name a container"
	cp -p f.sqsh g.sqsh
	echo >>g.sqsh
	run -125 mlrun exec --store=new --write=c squashfs:g.sqsh true
	assert_line --partial "container 'c' is made of image 'squashfs:$PWD/f.sqsh'"
	touch f.sqsh
	run -125 mlrun exec --store=new --write=c squashfs:f.sqsh true
	assert_line --partial "container 'c' is made of '$PWD/f.sqsh', which has changed since"
	rm f.sqsh
	run -125 mlrun exec --store=new container:c true
	assert_line --partial "container 'c' is made of a file: squashfs image '$PWD/f.sqsh': No such file"
	mlrun containers --store=new rm c
}

# --- --write-if ---------------------------------------------------------------------

@test "save: --write-if=new and running fail for a container that is not so" {
	mlrun exec -q --write=c --write-if=new --entrypoint= app touch /x 2>/dev/null
	run -125 mlrun exec --write=c --write-if=new app
	assert_output --partial "container 'c' exists already"
	run -125 mlrun exec --write=c --write-if=running app
	assert_output --partial "container 'c' is not running on this node"
	run -125 mlrun exec --write=d --write-if=running app
	assert_output --partial "container 'd' is not running on this node"
	run -125 mlrun exec --write-if=new app
	assert_output --partial "--write-if is about the container of --write"
	run -125 mlrun exec --write=c --write-if=old app
	mlrun exec --entrypoint= container:c sh -c 'while [ ! -e /go ]; do sleep 0.1; done' &
	until_true mlrun exec --write=c --write-if=running --entrypoint= app ls /x
	mlrun exec --entrypoint= container:c touch /go
	wait $!
}
