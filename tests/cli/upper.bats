# What mlrun puts into an image's directories, whatever the layers do to them.
# shellcheck disable=SC2016 # the inner shell expands
load common

setup() {
	common_setup
	tiny_root base
	echo 'image:x:4242:4242::/:/bin/sh' >>base/etc/passwd
	mkdir -p base/var/lib base/proc base/dev
	layer_tar base.tar base
}

# image LAYER-DIRECTORY...: on the base, named "it"
image() {
	local dir
	local -a tars=()

	for dir; do
		layer_tar "$dir.tar" "$dir"
		tars+=("$dir.tar")
	done
	image_layout layout base.tar "${tars[@]}"
	mlrun import -q oci:layout it:1
}

passwd_has() { run mlrun exec it:1 grep -c "^$1:" /etc/passwd; }

@test "upper: passwd is the topmost layer's, with the caller" {
	mkdir -p top/etc other/usr
	echo 'newer:x:4243:4243::/:/bin/sh' >top/etc/passwd
	image other top other
	passwd_has newer
	assert_output 1
	passwd_has image
	assert_output 0
	passwd_has "$(id -un)"
	assert_output 1
}

@test "upper: a layer that removes passwd, or hides all of /etc, is obeyed" {
	mkdir -p gone/etc
	: >gone/etc/.wh.passwd
	image gone
	run -0 mlrun exec it:1 sh -c 'cat /etc/passwd; cat /etc/os-release'
	assert_output --partial "$(id -un):x:"
	refute_output --partial image:
	assert_output --partial NAME=tiny

	mkdir -p opaque/etc
	: >opaque/etc/.wh..wh..opq
	echo mine >opaque/etc/mine
	rm -rf layout
	image opaque
	run -0 mlrun exec it:1 sh -c 'cat /etc/passwd; ls /etc'
	assert_output --partial "$(id -un):x:"
	refute_output --partial image:
	refute_output --partial os-release
	assert_output --partial mine
}

@test "upper: links in the place of /etc and of passwd are followed inside the image" {
	mkdir -p linked/etc linked/other
	ln -s /other/accounts linked/etc/passwd
	echo 'other:x:4243:4243::/:/bin/sh' >linked/other/accounts
	image linked
	run -0 mlrun exec it:1 sh -c 'cat /etc/passwd; cat /other/accounts'
	assert_line --index 0 --partial "$(id -un):x:"
	assert_equal "$(grep -c other: <<<"$output")" 2

	mkdir -p moved/conf
	cp base/etc/* moved/conf
	: >moved/.wh.etc
	layer_tar moved.tar moved
	mkdir -p relinked
	ln -s conf relinked/etc
	rm -rf layout
	image moved relinked
	run -0 mlrun exec it:1 sh -c 'readlink /etc; cat /etc/passwd; cat /conf/os-release; test -s /conf/resolv.conf'
	assert_line conf
	assert_output --partial "$(id -un):x:"
	assert_output --partial image:
}

@test "upper: a whiteout in the place of a mount target is a missing one" {
	mkdir -p no
	: >no/.wh.dev
	: >no/.wh.proc
	: >no/.wh.home
	image no
	run -0 mlrun exec it:1 sh -c 'echo x >/dev/null; ls -d /proc/self; ls -d "$HOME" && echo y >"$HOME/f"'
}

@test "upper: directories keep the image's modes and times, new ones are there besides" {
	mkdir -p times/etc times/var/lib data
	chmod 0711 times/etc
	chmod 1777 times/var
	touch -d 2001-02-03T04:05:06Z times/var/lib times/etc
	touch -d 2002-02-03T04:05:06Z times/var
	touch -d 2003-02-03T04:05:06Z times
	image times
	echo x >data/f
	run -0 mlrun exec -v ./data:/var/lib/new/deep -v ./data/f:/var/file it:1 sh -c '
		TZ=UTC stat -c "%n %a %y" / /etc /var /var/lib; cat /var/lib/new/deep/f /var/file; stat -c %a /var/lib/new'
	assert_line --partial "/ 755 2003-02-03 04:05:06"
	assert_line --partial "/etc 711 2001-02-03 04:05:06"
	assert_line --partial "/var 1777 2002-02-03 04:05:06"
	assert_line --partial "/var/lib 755 2001-02-03 04:05:06"
	assert_equal "$(grep -c '^x$' <<<"$output")" 2
	assert_line 755
}

@test "upper: what one entry mounts the next ones find, and places in it are made in it" {
	mkdir -p a/sub b
	echo a >a/f
	echo b >b/f
	image
	run -0 mlrun exec -v ./a:/x/y -v ./b:/x/y/sub --tmpfs /t -v ./b:/t/deep/er -v ./a/f:/dev/given it:1 \
		sh -c 'cat /x/y/f /x/y/sub/f /t/deep/er/f /dev/given; ls -A /t /t/deep'
	assert_output $'a\nb\nb\na\n/t:\ndeep\n\n/t/deep:\ner'
	assert [ -z "$(ls -A a/sub)" ]
}

@test "upper: a link in the place of /home leads what is mounted in it to no directory of the host" {
	mkdir -p gone top host/jo/data data
	echo mine >data/f
	: >gone/.wh.home
	ln -s "$PWD/host" top/home
	layer_tar gone.tar gone
	layer_tar top.tar top
	image_layout layout base.tar gone.tar top.tar
	mlrun import -q oci:layout it:1
	export HOME=/home/jo
	run -0 mlrun exec -v ./data:/home/jo/data it:1 sh -c 'cat ~/data/f; echo kept >~/data/g'
	assert_output mine
	assert_equal "$(cat data/g)" kept
}

@test "upper: a path that a mount behind a link has covered leads to no directory of the host" {
	mkdir -p top/plain volume host/deep data
	echo mine >data/f
	ln -s plain top/link
	ln -s "$PWD/host" volume/c
	image top
	run -0 mlrun exec -v ./volume:/link/b -v ./data:/plain/b/c/deep it:1 cat /plain/b/c/deep/f
	assert_output mine
}

@test "upper: what the host has in the place of its own files, and no file is, is left out" {
	image
	# The caller is root there, of a user namespace without anybody else.
	run -0 unshare -Urm sh -ec '
		mkdir etc
		mount -t tmpfs none etc
		cp /etc/passwd /etc/group /etc/nsswitch.conf etc || true
		mkdir etc/hosts
		ln -s resolv.conf etc/resolv.conf
		mkfifo etc/localtime
		mount --bind etc /etc
		mlrun exec it:1 ls /etc'
	refute_line hosts
	refute_line resolv.conf
	refute_line localtime
	assert_line passwd
}
