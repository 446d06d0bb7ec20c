#!/usr/bin/env bats
# exec --fakeroot: a root that remembers owners.
# shellcheck disable=SC2016 # the inner shell expands
load common

setup_file() {
	registry_start
	image_tiny tiny
}

teardown_file() { registry_stop; }

setup() {
	common_setup
	needs_ordinary_user
	export IMG=$REGISTRY/tiny
	mlrun pull -q "$IMG"
	cd / || return
}

fake() {
	mlrun exec --fakeroot "$IMG" "$@"
}

@test "fakeroot: an owner that was set is the file's, by whatever name" {
	run -0 fake sh -c 'cd /; touch f; mkdir d; ln -s f l
		chown 5:6 f; chown 7 d; chgrp 8 d; chown -h 9:10 l
		stat -c %u:%g f d l
		mv f g; ln g h; cp -p g i; stat -c %u:%g g h i
		chown 0:0 g; stat -c %u:%g h; ls -ln d | head -1; stat -Lc %u:%g /proc/self/fd/0 </dev/null >/dev/null'
	assert_output "$(printf '%s\n' 5:6 7:8 9:10 5:6 5:6 5:6 0:0 'total 0')"
}

@test "fakeroot: what chown(2) does besides is done, too" {
	run -0 fake sh -c 'cd /; touch f; chmod 4755 f; chown 5 f; stat -c %a f; chmod 4755 f; stat -c %a:%u f
		chown 1 /none; chown 1 /proc/version; echo $?'
	assert_line --index 0 755
	assert_line --index 1 4755:5
	assert_line --partial "/none: No such file or directory"
	assert_line --partial "/proc/version: Operation not permitted"
}

@test "fakeroot: ids that were set are read back, by children as well" {
	run -0 fake sh -c 'printf "%s\n" "me:x:12:34::/:/bin/sh" >>/etc/passwd; printf "%s\n" "us:x:34:" "more:x:56:me" >>/etc/group
		id -u; su me -c "id -u; id -g; id -G; sh -c \"id -u\"; chown 1 /etc/passwd; echo \$?"; id -u'
	assert_output "$(printf '%s\n' 0 12 34 '34 56' 12 'chown: /etc/passwd: Operation not permitted' 1 0)"
}

@test "fakeroot: files that another user makes are its own, and it may give them a group of its own" {
	mlrun exec --write=c --fakeroot "$IMG" true 2>/dev/null
	run -0 mlrun exec --write=c --fakeroot "$IMG" sh -c 'cd /; mkdir home/me home/set; chown 12:34 home/me; chown 0:56 home/set; chmod 2777 home/set
		printf "%s\n" "me:x:12:34::/home/me:/bin/sh" >>/etc/passwd; printf "%s\n" "us:x:34:" "more:x:56:me" >>/etc/group
		su me -c "cd /home/me; umask 027; echo a >f; echo b >>f; mkdir d; ln -s f l; touch d/g ../set/h; mkdir ../set/s
			chgrp 56 d/g; chgrp 7 f; chown 13 f; chown 12:34 f; cat f; (set -C; echo x >f)
			cp f copy; cp f copy; mv \$(mktemp -p .) new"; touch home/me/root
		stat -c "%u:%g %a %n" home/me/* home/me/d/* home/set/*' </dev/null
	assert_output - <<-'END'
		chgrp: f: Operation not permitted
		chown: f: Operation not permitted
		a
		b
		sh: can't create f: File exists
		12:34 640 home/me/copy
		12:34 750 home/me/d
		12:34 640 home/me/f
		12:34 777 home/me/l
		12:34 600 home/me/new
		0:0 644 home/me/root
		12:56 640 home/me/d/g
		12:56 640 home/set/h
		12:56 2750 home/set/s
	END
	mlrun commit -q c mine
	run -0 mlrun exec --fakeroot mine stat -c '%u:%g' /home/me/d /home/me/f /home/me/l /home/set/s
	assert_output $'12:34\n12:34\n12:34\n12:56'
	mlrun export -q --format=tar mine - | tar -tv >"$TMPDIR/list"
	run -0 grep home/me/l "$TMPDIR/list"
	assert_output --partial "12/34"
}

# users USER...: what adds the accounts "me" and "you" inside.
users() {
	echo 'printf "%s\n" me:x:12:34::/home/me:/bin/sh you:x:13:35::/:/bin/sh >>/etc/passwd; printf "%s\n" us:x:34: them:x:35: >>/etc/group;'
}

@test "fakeroot: the umask of a user's processes applies, and that alone" {
	umask 027
	run -0 fake sh -c "$(users)"' cd /home; mkdir d; chmod 777 d; cd d; umask 022
		su me -c "umask 0; touch a; mkdir b; umask 077; touch c; umask 002; touch e; sh -c \"touch f\""; stat -c "%a %u %n" *'
	assert_output "$(printf '%s\n' '666 12 a' '777 12 b' '600 12 c' '664 12 e' '664 12 f')"
}

@test "fakeroot: files that a user makes in unusual ways are its own" {
	local program=$top_builddir/tests/inside/identity

	run -0 mlrun exec --fakeroot -v "$program:/identity" "$IMG" sh -c "$(users)"' mkdir /d; chmod 777 /d; cd /d
		su me -c "umask 0; /identity make"; stat -c "%a %u:%g %n" *'
	assert_output "$(printf '%s\n' '620 12:34 fifo' '604 12:34 file' '666 12:34 openat2' '660 12:34 tmpfile')"
}

@test "fakeroot: what is made in a set-group-ID directory has its group, also root's" {
	mkdir -p "$TMPDIR/l/d"
	chmod 2775 "$TMPDIR/l/d"
	layer_tar "$TMPDIR/l.tar" "$TMPDIR/l"
	image_push_tar setgid "$BATS_FILE_TMPDIR/tiny.tar" "$TMPDIR/l.tar"
	mlrun pull -q "$REGISTRY/setgid"
	run -0 mlrun exec --fakeroot "$REGISTRY/setgid" sh -c "$(users)"' chown 1:7 /d; chmod 2777 /d; cd /d; touch f; mkdir -p s/t; ln -s f l; mkfifo p
		su me -c "touch mine; mkdir its"; touch s/t/g; stat -c "%a %u:%g %n" * s/t s/t/g'
	assert_output - <<-'END'
		644 0:7 f
		2755 12:7 its
		777 0:7 l
		644 12:7 mine
		644 0:7 p
		2755 0:7 s
		2755 0:7 s/t
		644 0:7 s/t/g
	END
	# The tree has no such bit: it is a recorded one.
	run -0 mlrun exec --fakeroot "$REGISTRY/setgid" sh -c 'mkdir /d/e; stat -c %a /d /d/e'
	assert_output $'2775\n2755'
}

@test "fakeroot: a user may do what owners and modes that it sees allow" {
	local program=$top_builddir/tests/inside/identity

	mlrun exec --write=c --fakeroot "$IMG" sh -c "$(users)"' mkdir /home/me /t /team /shut; chown me:us /home/me; chown 0:34 /team; chmod 1777 /t; chmod 770 /team
		touch /file /t/roots /shut/f; echo x >/home/me/readonly; chmod 600 /file; chown you /shut; chmod 700 /shut' 2>/dev/null
	run -0 mlrun exec --write=c --fakeroot --user me -v "$program:/identity" "$IMG" sh -c 'exec 2>&1; cd; touch /new; mkdir /new; ln -s x /new; mkfifo /new; ln readonly /new; echo >>/file; echo >/file; rm -f /t/roots
			mv /t/roots roots; mv readonly /t/roots; rmdir /team; chmod 755 /team; touch /shut/new; rm -f /shut/f
		for f in / /file /team /home/me /dev/null; do [ -w $f ] && echo writable $f; done; echo me >/proc/self/comm
			touch /team/f; mv /team/f /team/g; rm /team/g; mkdir -p a/b/; rmdir a/b; chmod 500 a; touch a/f; mkdir -p /home/me/a; chmod 700 a; touch a/f; rm -r a; /identity may / /file /team
		stat -c %a:%u /file /t/roots'
	assert_output - <<-'END'
		touch: /new: Permission denied
		mkdir: can't create directory '/new': Permission denied
		ln: /new: Permission denied
		mkfifo: /new: Permission denied
		ln: /new: Operation not permitted
		sh: can't create /file: Permission denied
		sh: can't create /file: Permission denied
		rm: can't remove '/t/roots': Operation not permitted
		mv: can't rename '/t/roots': Operation not permitted
		mv: can't rename 'readonly': Operation not permitted
		rmdir: '/team': Permission denied
		chmod: /team: Operation not permitted
		touch: /shut/new: Permission denied
		rm: can't stat '/shut/f': Permission denied
		writable /team
		writable /home/me
		writable /dev/null
		touch: a/f: Permission denied
		/ no no
		/file no no
		/team yes yes
		600:0
		644:0
	END
}

# What root has, and attempts on it.
closed() {
	echo 'cd /; mkdir -m 700 /closed; mkdir -m 711 /searched; mkdir -m 744 /listed; mkdir -m 777 /open
		for d in closed searched listed; do echo text >/$d/f; done; mkdir /closed/below; echo text >/closed/below/f; echo key >/key; chmod 600 /key
		ln -s closed/f link; ln -s /closed/below/f /open/f; mkfifo -m 600 /fifo; cp /bin/busybox /closed/cat; echo text >/anybodys; chmod 666 /anybodys; touch /mine; chmod 4755 /mine;'
}
attempt() {
	echo 'exec 2>&1; for c in "cat /key" "cat /closed/f" "cat /closed/below/f" "cat /link" "cat /open/f" "cat /searched/f" "cat /listed/f" "ls /closed" "ls /searched" "ls /listed" "stat -c%n /closed/f" "stat -c%n /searched/f" \
		"cd /closed" "cd /searched" "readlink /closed/none" "/closed/cat /anybodys" "test -r /fifo" "test -e /closed/f" "test -d /closed" "rm -f /closed/f" "mv /open/f /closed/g" "mkdir /closed/d" "ln -s x /closed/l" \
		"chmod 644 /closed/f" "chown 12 /closed/f" "touch /searched/f" "touch -d 2000-01-01 /anybodys" "touch /anybodys" "truncate -s 0 /searched/f" "ln /key /open/key" "ln /mine /open/mine" "ln /anybodys /open/anybodys" "mv /anybodys /open/" "rm -rf /searched"
		do $c >/dev/null 2>&1 && echo "$c"; done; true'
}

@test "fakeroot: a user reads and searches what owners and modes that it sees allow" {
	mlrun exec --write=c --fakeroot "$IMG" sh -c "$(users) $(closed)" 2>/dev/null
	run -0 mlrun exec --write=c --fakeroot --user me "$IMG" sh -c "$(attempt)"
	assert_output - <<-'END'
		cat /searched/f
		stat -c%n /searched/f
		cd /searched
		test -d /closed
		touch /anybodys
		ln /anybodys /open/anybodys
	END
	# A path is judged from where it begins, and pipes are the process's own.
	run -0 mlrun exec --write=c --fakeroot "$IMG" sh -c 'mkdir -m 700 /home/you; mkdir -p /home/you/in; chown 13:35 /home/you; chown 12 /home/you/in; chmod 755 /home/you/in; touch /home/you/f'
	run -0 mlrun exec --write=c --fakeroot --user you "$IMG" sh -c 'cd /home/you/in; cat ../f; echo x | cat /dev/stdin; echo y >/dev/stdout; chmod 711 /home/you; ls -d /home/you/in'
	assert_output $'x\ny\n/home/you/in'
	run -0 mlrun exec --write=c --fakeroot --user me -w / "$IMG" sh -c 'cat /home/you/f; ! ls /home/you 2>/dev/null; cd /home/you/in && touch a && cat a ./a && rm a'
	# A mode that changes is seen.
	run -0 mlrun exec --write=c --fakeroot --user me -w / "$IMG" sh -c 'cd /open; mkdir -p a/b; touch a/b/f; cat /open/a/b/f; chmod 600 a; ! cat /open/a/b/f 2>/dev/null; chmod 700 a; mv a c; mkdir -p a/b; chmod 0 a/b; ! cat /open/a/b/f 2>&1'
	assert_output "cat: can't open '/open/a/b/f': Permission denied"
}

@test "fakeroot: after su a user's changes are judged, but not reading, renaming and times" {
	run -0 mlrun exec --fakeroot "$IMG" sh -c "$(users) $(closed)"'export attempt="$1"; su me -c "$attempt"' - "$(attempt)" </dev/null
	assert_output - <<-'END'
		cat /key
		cat /closed/f
		cat /closed/below/f
		cat /link
		cat /open/f
		cat /searched/f
		cat /listed/f
		ls /searched
		stat -c%n /searched/f
		cd /searched
		test -d /closed
		touch /searched/f
		touch -d 2000-01-01 /anybodys
		touch /anybodys
		ln /anybodys /open/anybodys
		mv /anybodys /open/
	END
}

@test "fakeroot: what root makes has its group, and groups are in order" {
	run -0 mlrun exec --fakeroot --user 0:56 "$IMG" sh -c 'cd /; mkdir d; touch f; ln -s f l; echo x >>f; stat -c %u:%g d f l'
	assert_output $'0:56\n0:56\n0:56'
	run -0 mlrun exec --fakeroot "$IMG" sh -c "$(users)"' printf "%s\n" more:x:90:me less:x:7:me >>/etc/group; su me -c "id -G"'
	assert_output '34 7 90'
}

@test "fakeroot: a set-ID program has its owner's identity" {
	cp "$top_builddir/tests/inside/identity" "$TMPDIR"
	mkdir "$TMPDIR/l"
	cp "$TMPDIR/identity" "$TMPDIR/l/old"
	chmod 6755 "$TMPDIR/l/old"
	layer_tar "$TMPDIR/l.tar" "$TMPDIR/l"
	image_push_tar setid "$BATS_FILE_TMPDIR/tiny.tar" "$TMPDIR/l.tar"
	mlrun pull -q "$REGISTRY/setid"
	run -0 mlrun exec --fakeroot -v "$TMPDIR/identity:/identity" "$REGISTRY/setid" sh -c "$(users)"' cd /; cp identity new; chown 13:35 new; chmod 4755 new; cp identity own; chmod 700 own
		su me -c "/identity who; /new who; /old who; /identity who; /own who 2>&1; sh -c /own 2>/dev/null; echo \$?"; /new who'
	assert_output "$(printf '%s\n' '12:34 12:34' '12:34 13:34' '12:34 0:0' '12:34 12:34' 'sh: /own: Permission denied' 126 '0:0 13:0')"
}

@test "fakeroot: attributes that hold records are not listed" {
	run -0 mlrun exec --fakeroot -v "$top_builddir/tests/inside/identity:/identity" "$IMG" sh -c 'touch /f; chown 5:6 /f; /identity list /f; stat -c %u /f'
	assert_output 5
}

@test "fakeroot: with --user it begins as that user" {
	run -0 mlrun exec --fakeroot --user 5:6 --explain "$IMG" true
	assert_line --regexp '^ +shown as uid 5, gid 6$'
	mkdir -m 777 "$TMPDIR/d"
	run -0 mlrun exec --fakeroot --user 5:6 -v "$TMPDIR/d:/d" "$IMG" sh -c 'id -u; id -g; id -G; echo $HOME; id -un >/dev/null 2>&1 || echo nobody; touch /d/f; stat -c %u:%g /d/f /bin; ! touch /new 2>&1; sh -c "id -u" &
		wait; exec env id -u'
	assert_output "$(printf '%s\n' 5 6 6 / nobody 5:6 0:0 'touch: /new: Permission denied' 5 5)"
}

@test "fakeroot: who keeps capabilities may set groups after its user, others may not" {
	local program=$top_builddir/tests/inside/identity

	run -0 mlrun exec --fakeroot -v "$program:/identity" "$IMG" /identity drop
	assert_output "0 -1 -1: 33:0"
	run -0 mlrun exec --fakeroot -v "$program:/identity" "$IMG" /identity drop keep
	assert_output "0 0 0: 33:34"
}

@test "fakeroot: an ACL that names another user is set without effect, others are real" {
	local program=$top_builddir/tests/inside/identity

	run mlrun exec --fakeroot -v "$program:/identity" "$IMG" sh -c 'touch /root/f; chmod 600 /root/f; /identity acl /root/f'
	[[ $output != *"not supported"* ]] || skip "no ACLs in memory here"
	assert_output $'600\n640'
}

# All supervisors that there are now end; tests beside this one go on to make others.
supervisors_end() {
	local p

	for p in $(pgrep -u "$(id -u)" -r D,R,S,T -x mlrun-fakeroot); do wait_while kill -0 "$p"; done
}

@test "fakeroot: nothing is said and nothing is left behind" {
	run -0 fake sh -c 'chown 1 /bin; true'
	assert_output ""
	supervisors_end
	run -7 fake sh -c 'exit 7'
	# It is no child of the command's.
	run -0 fake sh -c 'wait; for p in /proc/[0-9]*; do grep -l "^PPid:.$$\$" $p/status 2>/dev/null; done | grep -v "/$$/" || true'
	run -137 fake sh -c 'kill -9 $$'
	supervisors_end
}

@test "fakeroot: a device becomes a file, and a fifo is one" {
	run -1 fake sh -c 'cd /; umask 027; mknod null c 1 3; mknod sda b 8 0; mknod pipe p; stat -c "%F %a" null sda pipe; mknod null c 1 3'
	assert_line --index 0 "regular empty file 640"
	assert_line --index 1 "regular empty file 640"
	assert_line --index 2 "fifo 640"
	assert_line --partial "File exists"
}

@test "fakeroot: a program with a root directory of its own sees its own files" {
	run -0 fake sh -c 'mkdir -p /r/bin /r/etc; cp /bin/busybox /r/bin/sh; cp /bin/busybox /r/bin/chown; cp /bin/busybox /r/bin/stat; touch /r/f /f
		ln -s /f /r/etc/l
		chroot /r /bin/sh -c "cd /etc; chown 3:4 l; stat -c %u:%g /f ../f l"; stat -c %u:%g /f /r/f'
	assert_output "$(printf '%s\n' 3:4 3:4 0:0 0:0 3:4)"
}

@test "fakeroot: owners of an image are shown, kept and committed" {
	mlrun exec --write=c --fakeroot "$IMG" sh -c 'cd /; touch f d2; mkdir d; chown 5:6 f; chown 7:8 d; chmod 2750 f; chmod 4711 d2'
	run -0 mlrun exec --write=c --fakeroot "$IMG" stat -c '%u:%g %a' /f /d /d2
	assert_output "$(printf '%s\n' '5:6 2750' '7:8 755' '0:0 4711')"
	mlrun commit -q c mine
	run -0 mlrun exec --fakeroot localhost/mine stat -c '%u:%g %a' /f /d /d2
	assert_output "$(printf '%s\n' '5:6 2750' '7:8 755' '0:0 4711')"
	# Written to, and changed in part, and committed again.
	mlrun exec --write=e --fakeroot localhost/mine sh -c 'echo x >>/f; chgrp 9 /d; chmod 700 /d2'
	mlrun commit -q e again
	run -0 mlrun exec --fakeroot localhost/again stat -c '%u:%g %a' /f /d /d2
	assert_output "$(printf '%s\n' '5:6 2750' '7:9 755' '0:0 700')"
	mlrun export -q localhost/again "$TMPDIR/x.oci"
	skopeo copy -q "oci-archive:$TMPDIR/x.oci" "oci:$TMPDIR/layout:x"
	umoci unpack --rootless --image "$TMPDIR/layout:x" "$TMPDIR/bundle"
	# umoci reads the same owners.
	run -0 python3 -c 'import os, sys; print(os.getxattr(sys.argv[1], "user.rootlesscontainers").hex())' "$TMPDIR/bundle/rootfs/f"
	assert_output 08051006
	mlrun store verify
}

@test "fakeroot: modes that trees do not have are shown until somebody changes them" {
	mkdir -p "$TMPDIR"/l/{log,mail,shared,bin}
	touch "$TMPDIR"/l/log/{wtmp,btmp,any} "$TMPDIR"/l/bin/raise
	chmod 664 "$TMPDIR/l/log/wtmp"; chmod 660 "$TMPDIR/l/log/btmp"; chmod 666 "$TMPDIR/l/log/any"
	chmod 2775 "$TMPDIR/l/mail"; chmod 1777 "$TMPDIR/l/shared"; chmod 4755 "$TMPDIR/l/bin/raise"
	layer_tar "$TMPDIR/l.tar" "$TMPDIR/l"
	image_push_tar modes "$BATS_FILE_TMPDIR/tiny.tar" "$TMPDIR/l.tar"
	IMG=$REGISTRY/modes
	mlrun pull -q "$IMG"
	run -0 fake sh -c 'cd /; stat -c "%a %n" log/* mail shared bin/raise; cp -p log/btmp b; stat -c %a b'
	assert_output "$(printf '%s\n' '666 log/any' '660 log/btmp' '664 log/wtmp' '2775 mail' '1777 shared' '4755 bin/raise' 660)"
	# The bits that are left are those that the tree has: only chmod itself tells.
	mlrun exec --write=c --fakeroot "$IMG" sh -c 'cd /; chmod 640 log/btmp; chmod g-w log/wtmp; chmod a-s bin/raise; chown 7 log/any
		chgrp 8 mail; chmod 755 shared'
	run -0 mlrun exec --write=c --fakeroot "$IMG" sh -c 'cd /; stat -c "%a %u %g %n" log/* mail shared bin/raise'
	local -a now=('666 7 0 log/any' '640 0 0 log/btmp' '644 0 0 log/wtmp' '2775 0 8 mail' '755 0 0 shared' '755 0 0 bin/raise')
	assert_output "$(printf '%s\n' "${now[@]}")"
	mlrun commit -q c mine
	run -0 mlrun exec --fakeroot localhost/mine sh -c 'cd /; stat -c "%a %u %g %n" log/* mail shared bin/raise'
	assert_output "$(printf '%s\n' "${now[@]}")"
	mlrun export -q --format=tar localhost/mine "$TMPDIR/mine.tar"
	run -0 tar -tvf "$TMPDIR/mine.tar" --numeric-owner
	assert_line --regexp '^-rw-r----- 0/0 .* (\./)?log/btmp$'
	assert_line --regexp '^-rwxr-xr-x 0/0 .* (\./)?bin/raise$'
	assert_line --regexp '^drwxrwsr-x 0/8 .* (\./)?mail/$'
	mlrun store verify
}

@test "fakeroot: owners of links and fifos are kept, whatever their names become, and committed" {
	ln -s ../bin "$TMPDIR/old"
	layer_tar "$TMPDIR/l.tar" "$TMPDIR"
	image_push_tar links "$BATS_FILE_TMPDIR/tiny.tar" "$TMPDIR/l.tar"
	mlrun pull -q "$REGISTRY/links"
	# One of the image's own, one that gets another name, one that is no more, and its heir.
	mlrun exec --write=c --fakeroot "$REGISTRY/links" sh -c 'cd /; chown -h 5:6 old; ln -s /etc new; chown -h 7:8 new; mv new "a new"
		mkfifo pipe; chown 9:10 pipe; ln -s x gone; chown -h 11 gone; rm gone; ln -s x gone; ln -s y none; chown -h 12 none; chown -h 0 none'
	run -0 mlrun exec --write=c --fakeroot "$REGISTRY/links" sh -c 'cd /; stat -c %u:%g:%n old "a new" pipe gone none bin; chown -h 13 "a new"'
	assert_output "$(printf '%s\n' 5:6:old '7:8:a new' 9:10:pipe 0:0:gone 0:0:none 0:0:bin)"
	mlrun commit -q c mine
	mlrun export -q --format=tar localhost/mine "$TMPDIR/mine.tar"
	run -0 tar -tvf "$TMPDIR/mine.tar" --numeric-owner
	assert_line --regexp '^lrwxrwxrwx 5/6 .* (\./)?old -> ../bin$'
	assert_line --regexp '^lrwxrwxrwx 13/8 .* (\./)?a new -> /etc$'
	assert_line --regexp '^prw-r--r-- 9/10 .* (\./)?pipe$'
	assert_line --regexp '^lrwxrwxrwx 0/0 .* (\./)?gone -> x$'
	assert_line --regexp '^lrwxrwxrwx 0/0 .* (\./)?none -> y$'
	mlrun store verify
}

# capabilities_of TAR FILE: the value in hexadecimal.
capabilities_of() {
	python3 - "$@" <<-'EOF'
		import sys, tarfile
		for m in tarfile.open(sys.argv[1], encoding="utf-8", errors="surrogateescape"):
		    if m.name.lstrip("./") == sys.argv[2]:
		        print(m.pax_headers.get("SCHILY.xattr.security.capability", "").encode("utf-8", "surrogateescape").hex() or "none")
	EOF
}

@test "fakeroot: owners of an image's links and fifos are shown, until others take their place" {
	mkdir "$TMPDIR/l" "$TMPDIR/m"
	(cd "$TMPDIR/l" && mkdir d && ln -s x d/link && ln -s x d/gone && ln -s x d/other && mkfifo -m 640 d/fifo && ln -s y plain)
	tar -C "$TMPDIR/l" --owner=12 --group=34 -cf "$TMPDIR/l.tar" d
	tar -C "$TMPDIR/l" --owner=0 --group=0 -rf "$TMPDIR/l.tar" plain
	mkdir "$TMPDIR/m/d"
	ln -s x "$TMPDIR/m/d/other"
	tar -C "$TMPDIR/m" --owner=5 --group=6 -cf "$TMPDIR/m.tar" d/other
	image_push_tar links "$BATS_FILE_TMPDIR/tiny.tar" "$TMPDIR/l.tar" "$TMPDIR/m.tar"
	mlrun pull -q "$REGISTRY/links"
	run -0 mlrun exec --fakeroot "$REGISTRY/links" sh -c 'cd /d; stat -c %u:%g:%n * ../plain; rm gone; ln -s x gone; stat -c %u:%g:%n gone; chown -h 7 other; stat -c %u:%g:%n other'
	assert_output "$(printf '%s\n' 12:34:fifo 12:34:gone 12:34:link 5:6:other 0:0:../plain 0:0:gone 7:6:other)"
	mlrun exec --write=c --fakeroot "$REGISTRY/links" sh -c 'cd /d; chown -h 7 gone; chgrp 9 fifo'
	run -0 mlrun exec --write=c --fakeroot "$REGISTRY/links" sh -c 'cd /d; stat -c %u:%g:%n *'
	assert_output "$(printf '%s\n' 12:9:fifo 7:34:gone 12:34:link 5:6:other)"
	mlrun commit -q c mine
	mlrun export -q --format=tar localhost/mine "$TMPDIR/mine.tar"
	run -0 sh -c 'tar -tvf "$1" --numeric-owner | grep "d/." | sort -k 6 | sed -E "s/ +[0-9]+ [-0-9]+ [:0-9]+ / /"' - "$TMPDIR/mine.tar"
	assert_output - <<-'END'
		prw-r----- 12/9 d/fifo
		lrwxrwxrwx 7/34 d/gone -> x
		lrwxrwxrwx 12/34 d/link -> x
		lrwxrwxrwx 5/6 d/other -> x
	END
	# A step of a build, too, whose layer is made from a directory of a container.
	printf '%s\n' "FROM $REGISTRY/links" 'RUN ln -s /d/link /own; chown -h 8:9 /own; mkfifo /p; chown 10:11 /p' 'RUN stat -c %u:%g:%n /d/link /d/fifo /own /p >/seen' >"$TMPDIR/m/Dockerfile"
	mlrun build -q -t built "$TMPDIR/m" >/dev/null
	run -0 mlrun exec built cat /seen
	assert_output "$(printf '%s\n' 12:34:/d/link 12:34:/d/fifo 8:9:/own 10:11:/p)"
	mlrun store verify
}

@test "fakeroot: file capabilities are shown, kept and committed" {
	local tool f ping=0100000200200000000000000000000000000000

	for tool in setcap getcap; do
		command -v $tool >/dev/null || skip "setcap is not installed"
		for f in $(ldd "$(command -v $tool)" | grep -o '/[^ ]*'); do
			mkdir -p "$TMPDIR/l/${f%/*}" && cp -L "$f" "$TMPDIR/l/$f"
		done
		cp "$(command -v $tool)" "$TMPDIR/l"
	done
	layer_tar "$TMPDIR/l.tar" "$TMPDIR/l"
	image_push_tar caps "$BATS_FILE_TMPDIR/tiny.tar" "$TMPDIR/l.tar"
	IMG=$REGISTRY/caps
	mlrun pull -q "$IMG"
	run -0 mlrun exec --write=c --fakeroot "$IMG" sh -c 'cd /; touch ping other not lost; /setcap cap_net_raw+ep ping; /setcap cap_net_raw=ep other
		/setcap cap_chown+i not; /setcap -r not; /setcap cap_chown+ep lost; chown 5 lost; mv other moved; /getcap ping moved not lost; ! /setcap -r lost'
	assert_line --index 1 "ping cap_net_raw=ep"
	assert_line --index 2 "moved cap_net_raw=ep"
	assert_line --index 3 --regexp "('lost'|no capablity to remove)"
	mlrun commit -q c mine
	run -0 mlrun exec --fakeroot localhost/mine /getcap /ping /moved /not /lost
	assert_output "$(printf '%s\n' '/ping cap_net_raw=ep' '/moved cap_net_raw=ep')"
	mlrun export -q --format=tar localhost/mine "$TMPDIR/mine.tar"
	assert_equal "$(capabilities_of "$TMPDIR/mine.tar" ping)" "$ping"
	assert_equal "$(capabilities_of "$TMPDIR/mine.tar" moved)" "$ping"
	assert_equal "$(capabilities_of "$TMPDIR/mine.tar" not)" none
	assert_equal "$(capabilities_of "$TMPDIR/mine.tar" lost)" none
	# A layer above that changes the file has them, too.
	mlrun exec --write=d --fakeroot localhost/mine chmod 700 /ping
	mlrun commit -q d again
	mlrun export -q localhost/again "$TMPDIR/again.oci"
	run -0 sh -c 'mlrun import -q "$1" back && mlrun exec --fakeroot back /getcap /ping' - "oci-archive:$TMPDIR/again.oci"
	assert_output "/ping cap_net_raw=ep"
	mlrun store verify
}

@test "fakeroot: where the kernel has no notifications, owners are lost and that is said" {
	local refuse=$top_builddir/tests/fault/refuse

	[ -x "$refuse" ] || skip "mlrun was built without libseccomp"
	# SECCOMP_GET_NOTIF_SIZES is 3.
	run -0 "$refuse" seccomp@3=EINVAL -- mlrun exec --fakeroot "$IMG" sh -c 'touch /f; chown 5 /f; stat -c %u /f'
	assert_line "mlrun: warning: fake root: owners that commands set are lost, as this kernel cannot pass on system calls (Linux 5.5)"
	assert_line 0
	refute_line 5
}

@test "fakeroot: it stays within limits and lets nothing out" {
	# Paths that are no strings, descriptors that are not open, and a call that the kernel refuses.
	run -0 fake sh -c 'chown 1 "" 2>&1; stat "" 2>&1 | head -1; chown 1 "$(head -c 5000 /dev/zero | tr "\0" a)" 2>&1 | tail -c 20'
	assert_line --partial "No such file or directory"
	assert_line --partial "name too long"
	touch "$TMPDIR/mine"
	run -0 mlrun exec --fakeroot -v "$TMPDIR" "$IMG" chown 5 "$TMPDIR/mine"
	assert_equal "$(stat -c %u "$TMPDIR/mine")" "$(id -u)"
	# A path that leads to the supervisor's own files.
	cp "$(command -v mlrun)" "$TMPDIR/mlrun"
	chmod 6755 "$TMPDIR/mlrun"
	for f in /proc//self/exe '/proc/$(pgrep -x mlrun-fakeroot | tail -1)/exe'; do
		run "$TMPDIR/mlrun" exec --fakeroot "$IMG" sh -c "chown 5:6 $f"
		assert_failure
	done
	assert_equal "$(stat -c %a "$TMPDIR/mlrun")" 6755
	run -0 python3 -c 'import os, sys; print(os.listxattr(sys.argv[1]))' "$TMPDIR/mlrun"
	assert_output "[]"
}
