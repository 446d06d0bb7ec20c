# Containers that keep what was written: exec --write, mlrun containers, mlrun commit.
# shellcheck disable=SC2016 # the inner shell expands
load common

setup_file() {
	registry_start
	image_tiny tiny
	image_push_tar -c --config.entrypoint -c /bin/echo -c --config.cmd -c old other \
		"$BATS_FILE_TMPDIR/tiny.tar"
	FILE_STORE=$BATS_FILE_TMPDIR/store
	MLRUN_STORE=$FILE_STORE mlrun pull -q "$REGISTRY/tiny" "$REGISTRY/other"
	export FILE_STORE
}

teardown_file() { registry_stop; }

# Each test has a store of its own, its files being links of one.
setup() {
	common_setup
	cp -al "$FILE_STORE" "$MLRUN_STORE"
	IMG=$REGISTRY/tiny
}

keep() { mlrun exec --write=c "$IMG" "$@" 2>>said; }
upper() { find "$MLRUN_STORE/containers/${1:-c}/upper" -mindepth 1 "${@:2}"; }
manifest_of() { mlrun inspect --json "$1" | jq -r .digest; }

# Has process $1 the file that is committed open?
reads_it() { ls -l "/proc/$1/fd" 2>/dev/null | grep -q 'upper/large$'; }

# --- exec --write -----------------------------------------------------------------

@test "write: what a command wrote is there for the next one, and nowhere else" {
	keep sh -c 'echo hello >/etc/new; rm /bin/vi; mkdir -p /opt/a/b; echo more >>/etc/os-release'
	run -0 keep sh -c 'cat /etc/new; ls /bin/vi 2>&1; ls /opt/a; cat /etc/os-release'
	assert_output $'hello\nls: /bin/vi: No such file or directory\nb\nNAME=tiny\nmore'
	run -0 mlrun exec "$IMG" sh -c 'ls /etc/new 2>&1; ls /bin/vi; cat /etc/os-release'
	assert_output $'ls: /etc/new: No such file or directory\n/bin/vi\nNAME=tiny'
}

@test "write: a directory that was made anew stays empty" {
	keep sh -c 'rm -r /home /usr; mkdir /home /usr; echo x >/usr/y'
	run -0 keep ls -R /usr /home
	assert_output $'/home:\n\n/usr:\ny'
}

@test "write: modes, times, links and fifos stay as they were made" {
	keep sh -c 'mkdir -m 700 /d; echo a >/d/f; ln /d/f /d/g; ln -s ../x /d/l; mkfifo -m 600 /d/p
		chmod 751 /d/f; touch -d "2001-02-03 04:05:06" /d/f /d'
	run -0 keep sh -c 'cd /d; stat -c "%n %a %h" . f g p; readlink l; stat -c %y f . | cut -c 1-19'
	assert_output $'. 700 2\nf 751 2\ng 751 2\np 600 1\n../x\n2001-02-03 04:05:06\n2001-02-03 04:05:06'
}

@test "write: without a name the image's is taken, and told when the container is made" {
	run -0 mlrun exec --write "$IMG" touch /x
	assert_output "mlrun: container 'tiny' is new and keeps what is written"
	run -0 --separate-stderr mlrun exec --write "$IMG" ls /x
	assert_output /x
	assert_equal "$stderr" ""
	mlrun tag "$IMG" lab/app:2.1
	run -0 mlrun exec --write lab/app:2.1 true
	assert_output --partial "container 'app-2.1' is new"
	mlrun tag "$IMG" "x__y:1..-"
	run -0 mlrun exec --write "x__y:1..-" true
	assert_output --partial "container 'x__y-1..-' is new"
	digest=$(manifest_of "$IMG")
	run -0 mlrun exec --write --verbose "$IMG@$digest" true
	assert_output --partial "container 'tiny' keeps what is written"
}

@test "write: only what the container's processes wrote is kept, nothing of mlrun's own" {
	mkdir host
	echo on the host >host/file
	keep -- true # the container is new
	mlrun exec --write=c -v "$PWD/host:/mnt/deep/er" -v "$PWD/host/file:/etc/one/file" \
		-w /made/here --home "$IMG" cat /mnt/deep/er/file /etc/one/file /etc/passwd >out
	run -0 upper
	assert_output ""
	run -0 grep -c "on the host" out
	assert_output 2
	run -0 grep "^$(id -un):" out
	keep sh -c 'echo mine >/etc/mine'
	run -0 upper c -printf '%P\n'
	assert_output $'etc\netc/mine'
}

@test "write: a file of mlrun's that a command changed is kept with the change" {
	needs_ordinary_user
	keep sh -c 'echo "more:x:77:77::/:/bin/sh" >>/etc/passwd'
	run -0 keep cat /etc/passwd
	assert_line "more:x:77:77::/:/bin/sh"
	assert_line --regexp "^$(id -un):"
	keep rm /etc/group
	run -1 keep ls /etc/group
}

@test "write: a fake root and the caller share what is written" {
	mlrun exec --write=c --fakeroot "$IMG" sh -c 'echo a >/a; chmod 4755 /a; id -u' 2>&1
	run -0 keep stat -c '%u %a' /a
	assert_output "$(id -u) 4755"
}

@test "write: what cannot be is refused with a reason" {
	run -125 mlrun exec --write=c --read-only "$IMG" true
	assert_output --partial "--write and --read-only exclude each other"
	for name in ../x .x -x . .. a/b 'a b' ä "$(printf '%0221d' 1)"; do
		run -125 mlrun exec "--write=$name" "$IMG" true
		assert_output --partial "invalid container name"
	done
	run -125 mlrun exec --write= "$IMG" true
	assert_output --partial "the name is empty"
	run -125 mlrun exec --write=c rootfs:/ true
	assert_output --partial "this is a plain directory"
	assert_output --partial "mlrun import"
	run -125 mlrun exec --pull=never --write=c never/pulled true
	assert_output --partial "hint: mlrun pull never/pulled"
	assert [ ! -e "$MLRUN_STORE/containers/c" ]
}

@test "write: --explain tells where it is kept and makes nothing" {
	run -0 mlrun exec --write=c --explain "$IMG" true
	assert_output --partial "what is written is kept"
	assert_output --partial "kept in $MLRUN_STORE/containers/c"
	assert [ ! -e "$MLRUN_STORE/containers/c" ]
}

@test "write: a command that is not there leaves a container that works" {
	run -127 keep no-such-command
	run -0 keep true
}

@test "write: a container keeps its image when the name goes to another" {
	keep touch /mine
	was=$(manifest_of "$IMG")
	mlrun tag "$REGISTRY/other" "$IMG"
	run -0 mlrun exec --write=c "$IMG" sh -c 'ls /mine; echo $TINY'
	assert_output --partial "container 'c' keeps the image that it was made of"
	assert_output --partial $'/mine\nyes'
	mlrun prune
	run -0 mlrun exec --write=c "$IMG" ls /mine
	run -0 jq -r .manifest "$MLRUN_STORE/containers/c/container.json"
	assert_output "$was"
}

@test "write: a container of another image is refused" {
	keep true
	run -125 mlrun exec --write=c "$REGISTRY/other" true
	assert_output --partial "container 'c' is made of image '$IMG:latest'"
	assert_output --partial "mlrun exec --write=OTHER-NAME $REGISTRY/other"
	mlrun tag "$IMG" same
	run -0 mlrun exec --write=c same true
}

@test "write: an image that a container is made of is not removed, its name is" {
	keep touch /mine
	run -125 mlrun rm "$IMG"
	assert_output --partial "container 'c' is made of image '$IMG:latest'"
	assert_output --partial "mlrun containers rm c"
	run -125 mlrun rm --force "$IMG"
	mlrun prune --older-than 0s --dry-run
	run -0 mlrun prune --older-than 0s
	run -0 keep ls /mine
	assert_output /mine
	run -0 mlrun rm --defer "$IMG"
	run -0 mlrun prune
	run -0 keep ls /mine
	assert_output /mine
	run -125 mlrun exec --pull=never "$IMG" true
	mlrun containers rm c
	mlrun rm "$REGISTRY/other" || true
	mlrun prune
	assert_equal "$(ls "$MLRUN_STORE/layers")" ""
}

@test "write: an image that is gone is named by the digest that brings it back" {
	keep touch /mine
	digest=$(manifest_of "$IMG")
	mv "$MLRUN_STORE/containers" away # as a program that knows no containers would see it
	mlrun rm "$IMG" "$REGISTRY/other"
	mv away "$MLRUN_STORE/containers"
	run -125 keep ls /mine
	run -0 cat said
	assert_output --partial "the image that container 'c' is made of, $digest, is no longer in the store"
	assert_output --partial "hint: mlrun pull $REGISTRY/tiny@$digest"
	mlrun pull -q "$REGISTRY/tiny@$digest"
	run -0 keep ls /mine
	assert_output /mine
}

@test "write: an image that is gone and was of no registry is not looked for in one" {
	mlrun tag "$IMG" own
	mlrun exec --write=c localhost/own true
	mv "$MLRUN_STORE/containers" away
	mlrun rm own "$IMG" "$REGISTRY/other"
	mv away "$MLRUN_STORE/containers"
	run -125 mlrun exec --write=c localhost/own true
	assert_output --partial "hint: no registry has it: mlrun import FILE localhost/own:latest"
}

@test "write: an image of an additional store will do" {
	export MLRUN_STORES=$FILE_STORE
	chmod -R u+rwX "$MLRUN_STORE"
	rm -rf "$MLRUN_STORE"
	run -0 keep sh -c 'echo kept >/x'
	run -0 keep cat /x
	assert_output kept
	assert [ ! -e "$FILE_STORE/containers" ] || assert_equal "$(ls "$FILE_STORE/containers")" ""
}

@test "write: on top of a squashfs file, and then of the trees" {
	needs_squashfs
	[ -r /dev/fuse ] && [ -w /dev/fuse ] || skip "this user may not open /dev/fuse"
	mlrun rm "$IMG" "$REGISTRY/other"
	mlrun pull -q --format=squashfs "$IMG"
	keep sh -c 'echo kept >/etc/new; rm /bin/vi'
	run -0 keep sh -c 'cat /etc/new; ls /bin/vi 2>&1; true'
	assert_output $'kept\nls: /bin/vi: No such file or directory'
	run -125 mlrun commit c mine
	digest=$(manifest_of "$IMG")
	assert_output --partial "hint: mlrun pull --format=layers $IMG@$digest"
	mlrun pull -q --format=layers "$IMG@$digest"
	run -0 keep sh -c 'cat /etc/new; ls /bin/vi 2>&1; true'
	assert_output $'kept\nls: /bin/vi: No such file or directory'
	mlrun commit -q c mine
	run -0 mlrun exec localhost/mine cat /etc/new
	assert_output kept
}

@test "write: a store that cannot be written to is told, with the way out" {
	needs_ordinary_user
	keep touch /mine
	chmod a-w "$MLRUN_STORE/leases"
	run -125 mlrun exec --write=c "$IMG" true
	chmod u+w "$MLRUN_STORE/leases"
	assert_output --partial "Permission denied"
	assert_output --partial "hint: a container needs a store that can be written to"
	run -0 keep ls /mine
}

@test "write: a full disk is told, and what was there stays" {
	unshare -Urm mount -t tmpfs none "$TMPDIR" || skip "no tmpfs in user namespaces here"
	cat >full.sh <<-'END'
		mkdir full
		mount -t tmpfs -o size=16m none full
		cp -a "$MLRUN_STORE" full/store
		export MLRUN_STORE=$PWD/full/store
		mlrun exec --write=c "$1" sh -c 'echo first >/first' || exit 1
		head -c 64M /dev/zero >full/ballast 2>/dev/null
		mlrun exec --write=new "$1" true && exit 2
		mlrun exec --write=c "$1" sh -c 'head -c 1048576 /dev/zero >/big' && exit 3
		rm full/ballast
		mlrun exec --write=c "$1" cat /first || exit 4
		mlrun exec --write=new "$1" true || exit 5
	END
	run -0 unshare -Urm bash full.sh "$IMG"
	assert_output --partial "No space left on device"
	assert_line first
}

# --- several at once --------------------------------------------------------------

@test "containers: one that is in use is not removed, and who uses it is told" {
	mlrun exec --write=c "$IMG" sh -c 'echo up; exec sleep 600' >up 2>err 3>&- &
	pid=$!
	until_true grep -q up up
	run -0 mlrun containers
	assert_line --regexp "^c +$IMG:latest .* process $pid on "
	run -125 mlrun containers rm c
	assert_output --partial "hint:"
	run -125 mlrun containers rm --force c
	run -125 mlrun rm --force "$IMG"
	kill "$pid"
	wait "$pid" || true
	mlrun containers rm c
	assert [ ! -e "$MLRUN_STORE/containers/c" ]
}

@test "containers: a second command joins the first one's container" {
	mkdir host
	mlrun exec --write=c -v "$PWD/host:/mnt/host" "$IMG" sh -c \
		'echo a >/a; echo up; for i in $(seq 3000); do [ -e /b ] || sleep 0.1; done' >up 2>err 3>&- &
	pid=$!
	until_true grep -q up up
	run -0 --separate-stderr mlrun exec --write=c -v "$PWD/host:/mnt/host" "$IMG" readlink /proc/self/ns/mnt
	assert_output "$(readlink "/proc/$pid/ns/mnt")"
	run -125 mlrun exec --write=c "$IMG" true
	assert_output --partial "container 'c' is in use, with other mounts or namespaces"
	assert_output --partial "hint: who starts in the same directory with the same options joins it"
	mlrun exec --write=c -v "$PWD/host:/mnt/host" "$IMG" sh -c 'cat /a; echo b >/b' 2>err
	wait "$pid"
	run -125 mlrun exec --write=c --join-tag=x "$IMG" true
	assert_output --partial "--write and --join-tag exclude each other"
}

@test "containers: what a command left behind keeps its container" {
	mlrun exec --write=c "$IMG" sh -c 'sleep 600 >/dev/null 2>&1 & echo $! >/pid' 2>err 3>&-
	left=$(cat "$MLRUN_STORE/containers/c/upper/pid")
	run -125 mlrun containers rm --force c
	assert_output --partial "processes that its last command left behind still run in it"
	run -125 mlrun exec --write=c "$IMG" true
	assert_output --partial "by processes that its last command left behind"
	kill "$left"
	keep true
	mlrun containers rm c
}

@test "containers: many starts at once make one container" {
	for i in {1..12}; do
		mlrun exec --write=c "$IMG" sh -c "echo $i >/file$i" 2>"err$i" 3>&- &
	done
	wait
	run -0 keep sh -c 'ls /file* | wc -l'
	assert_output 12
	run -0 mlrun containers --json
	assert_equal "$(jq -r '.[].name' <<<"$output")" c
	assert_equal "$(cat err* | grep -c "is new and keeps")" 1
	assert_equal "$(ls "$MLRUN_STORE/tmp")" ""
}

@test "containers: another node's use is refused, and can be forgotten" {
	keep touch /x
	key=$(printf 'container c' | sha256sum | cut -d' ' -f1)
	boot=$(cat /proc/sys/kernel/random/boot_id)
	echo >"$MLRUN_STORE/leases/$key.elsewhere.$boot.4026531836.77.123"
	run -125 mlrun exec --write=c "$IMG" true
	assert_output --partial "container 'c' was in use by process 77 on 'elsewhere'"
	assert_output --partial "mlrun containers unlock c"
	run -125 mlrun containers rm c
	assert_output --partial "with --force when that process has ended"
	run -125 mlrun commit c mine
	run -0 mlrun containers
	assert_output --partial "process 77 on elsewhere, perhaps"
	run -0 mlrun containers unlock c
	run -0 keep ls /x
	echo >"$MLRUN_STORE/leases/$key.elsewhere.$boot.4026531836.77.123"
	run -0 mlrun containers rm --force c
	assert_equal "$(ls "$MLRUN_STORE/leases" | grep -c elsewhere)" 0
}

# --- list -------------------------------------------------------------------------

@test "containers: are listed with image, times and size, as text and as JSON" {
	run -0 mlrun containers
	assert_output --regexp "^NAME +IMAGE +CREATED +USED +SIZE +IN USE BY$"
	run -0 mlrun containers --json
	assert_output "[]"
	keep sh -c 'head -c 1048576 /dev/zero >/big'
	mlrun exec --write=b "$IMG" true 2>&3
	run -0 mlrun containers list --json
	assert_equal "$(jq -c 'map(keys)|unique' <<<"$output")" \
		'[["created","image","manifest","name","path","size","used","user"]]'
	assert_equal "$(jq -c 'map([.name,.image,.user])' <<<"$output")" \
		"[[\"b\",\"$IMG:latest\",null],[\"c\",\"$IMG:latest\",null]]"
	# A directory's name need not be UTF-8, as JSON is.
	ln -s "$MLRUN_STORE" $'odd\xff'
	run -0 mlrun containers --json --store $'odd\xff'
	assert_equal "$(jq length <<<"$output")" 2
	assert_equal "$(jq '.[1].size > 1000000 and .[0].size < 100000' <<<"$output")" true
	run -0 mlrun containers
	assert_line --regexp "^c +$IMG:latest +20[0-9-]+ [0-9:]+ +20[0-9-]+ [0-9:]+ +1\.[01] MB +-$"
}

@test "containers: a damaged record is told, and the container can be removed" {
	keep touch /x
	echo '{}' >"$MLRUN_STORE/containers/c/container.json"
	run -0 mlrun containers
	assert_output --partial "the record of container 'c' is damaged"
	run -125 keep true
	run -125 mlrun rm "$IMG"
	run -0 mlrun containers rm c
	run -0 mlrun rm "$IMG"
}

@test "containers: wrong usage is refused" {
	run -125 mlrun containers rm
	assert_output --partial "rm: a container is missing"
	run -125 mlrun containers frobnicate
	assert_output --partial "use list, rm or unlock"
	run -125 mlrun containers rm none
	assert_output --partial "there is no container 'none'"
	run -125 mlrun commit none
	assert_output --partial "a container and the new image's name are expected"
	run -125 mlrun commit none mine
	assert_output --partial "there is no container 'none'"
}

# --- commit -----------------------------------------------------------------------

write_much() {
	mlrun exec --write=c --fakeroot "$IMG" sh -c '
		mkdir -p /opt/deep/er; echo text >/opt/file; ln /opt/file /opt/deep/hard
		ln -s ../file /opt/deep/sym; mkfifo /opt/fifo; chmod 4755 /opt/file
		rm /bin/vi; rm -r /home; mkdir /home; echo new >/home/new
		rm -r /usr; echo now a file >/usr
		echo umlaut >/opt/ümläut; printf "\\1" >"/opt/new
line"; truncate -s 3M /opt/holes; echo end >>/opt/holes
		touch -d "2001-02-03 04:05:06" /opt/file /opt/deep /opt
		echo more >>/etc/os-release' 2>&3
	command -v setfattr >/dev/null &&
		setfattr -n user.note -v worth "$MLRUN_STORE/containers/c/upper/opt/file"
	return 0
}

# Names, modes, times, links, bytes of a tree that lies on the host.
listed() {
	busybox sh "$top_srcdir/tests/cli/list-tree" "$1" "${@:2}" 2>/dev/null |
		sed -E 's/inode [0-9]+ //; s/(:[0-9]{2})\.[0-9]+/\1/' | grep -v '^\s' | sort
}

@test "commit: the image is the container, for mlrun, skopeo and umoci" {
	write_much
	run -0 mlrun commit c mine
	assert_output --regexp "committed 'localhost/mine:latest': sha256:[0-9a-f]{64}, a layer of "
	run -0 mlrun store verify
	mlrun export localhost/mine mine.oci 2>&3
	skopeo --insecure-policy copy -q oci-archive:mine.oci oci:layout:mine
	umoci unpack --rootless --image layout:mine bundle >/dev/null 2>&1
	mlrun export --format=tar localhost/mine mine.tar 2>&3
	mkdir root
	tar -xpf mine.tar -C root 2>/dev/null
	assert_equal "$(listed root)" "$(listed bundle/rootfs)"
	# What the container shows is what the image shows.
	look='cd /; for d in bin etc home opt usr; do ls -lanR $d 2>/dev/null; done; cat /opt/file /opt/holes
		cat /etc/os-release "/opt/new
line" | cksum'
	mlrun exec --write=c --fakeroot "$IMG" sh -c "$look" 2>/dev/null | sed '/^total/d; s/hosts.*//' >a
	mlrun exec --fakeroot localhost/mine sh -c "$look" | sed '/^total/d; s/hosts.*//' >b
	grep -v -e localtime -e resolv -e ' \.\.\?$' a >a2
	grep -v -e localtime -e resolv -e ' \.\.\?$' b >b2
	assert_equal "$(sed 's/-rws/-rwx/' a2)" "$(cat b2)"
	assert_equal "$(cat bundle/rootfs/usr)" "now a file"
	assert [ ! -e bundle/rootfs/bin/vi ]
	assert_equal "$(ls bundle/rootfs/home)" new
	assert_equal "$(stat -c %h bundle/rootfs/opt/file)" 2
	assert_equal "$(stat -c %a bundle/rootfs/opt/file)" 4755
}

@test "commit: what its owner may not read is in the image as well" {
	needs_ordinary_user
	mlrun exec --write=c --fakeroot "$IMG" sh -c 'mkdir /dark; echo secret >/dark/file
		chmod 000 /dark/file /dark' 2>&3
	mlrun commit -q c mine
	run -0 mlrun exec --fakeroot localhost/mine sh -c 'stat -c %a /dark /dark/file; cat /dark/file'
	assert_output $'0\n0\nsecret'
	run -0 mlrun exec --write=c --fakeroot "$IMG" sh -c 'stat -c %a /dark /dark/file 2>&1'
	assert_output --partial $'0\n0'
	run -0 mlrun store verify
}

@test "commit: a file that takes another's name has its own mode, a changed one the image's" {
	keep sh -c 'mkdir /d /e; cd /d; touch anew changed moved; chmod 664 *; chmod 775 /d /e'
	mlrun commit -q c first
	mlrun exec --write=d localhost/first sh -c 'umask 022; cd /d; rm anew; echo >anew; mv moved old; echo >moved
		echo >changed; rmdir /e; mkdir /e' 2>&3
	mlrun commit -q d second
	mlrun export -q --format=tar localhost/second second.tar
	run -0 tar -tvf second.tar
	for line in 'drwxrwxr-x .* d/' '-rw-r--r-- .* d/anew' '-rw-rw-r-- .* d/changed' '-rw-r--r-- .* d/moved' '-rw-rw-r-- .* d/old' \
		'drwxr-xr-x .* e/'; do
		assert_line --regexp "^${line/ d/ (\./)?d}\$"
	done
}

@test "commit: neither places to mount on nor files of mlrun's own are in the image" {
	mkdir host
	mlrun exec --write=c -v "$PWD/host:/mnt/data" "$IMG" sh -c 'echo x >/x; echo y >/mnt/data/y' 2>&3
	mlrun commit -q c mine
	mlrun export --format=tar localhost/mine mine.tar 2>&3
	mlrun export --format=tar "$IMG" base.tar 2>&3
	run -1 diff <(tar -tf base.tar | sort) <(tar -tf mine.tar | sort)
	assert_equal "$(grep '^[<>]' <<<"$output")" "> x"
	assert_equal "$(tar -xOf mine.tar etc/passwd)" "$(tar -xOf base.tar etc/passwd)"
}

@test "commit: the configuration is the image's, with what --change says" {
	keep touch /x
	mlrun commit -q -m 'what I did' -a 'A. Author' -c 'ENV A=1 B="x y" TINY=no' -c 'env C one two' \
		-c 'LABEL org.one=1 "two words"=2' -c 'WORKDIR /opt' -c 'WORKDIR sub' -c 'USER me:us' \
		-c 'CMD ["/bin/echo", "changed"]' c mine
	mlrun export localhost/mine mine.oci 2>&3
	skopeo inspect --config oci-archive:mine.oci >config
	run -0 jq -c '[.config.Env, .config.Labels, .config.WorkingDir, .config.User, .config.Cmd, .author]' config
	assert_output '[["PATH=/bin:/usr/bin","TINY=no","A=1","B=x y","C=one two"],{"org.one":"1","two words":"2"},"/opt/sub","me:us",["/bin/echo","changed"],"A. Author"]'
	run -0 jq -c '.history[-1] | [.created_by, .author, .comment, .empty_layer]' config
	assert_output '["mlrun commit c","A. Author","what I did",null]'
	assert_equal "$(jq '.rootfs.diff_ids | length' config)" 2
	assert_equal "$(jq '[.history[] | select(.empty_layer | not)] | length' config)" 2
	cd /
	run -0 mlrun exec localhost/mine
	assert_output changed
}

@test "commit: ports, volumes, signals, health, shells and triggers are kept as Docker keeps them" {
	keep touch /x
	mlrun commit -q -c 'EXPOSE 80 53/UDP 8000-8002/tcp' -c 'VOLUME /data "/a b"' -c 'VOLUME ["/v", "/w"]' -c 'STOPSIGNAL SIGUSR1' \
		-c 'HEALTHCHECK --interval=1m30s --timeout=500ms --start-period=0 --retries=3 CMD curl -f http://localhost/' \
		-c 'SHELL ["/bin/sh", "-ec"]' -c 'ONBUILD RUN make' -c 'onbuild COPY . /src' -c 'CMD false; echo too far' c mine
	mlrun export localhost/mine mine.oci 2>&3
	skopeo inspect --config oci-archive:mine.oci >config
	run -0 jq -cS '.config | [.ExposedPorts, .Volumes, .StopSignal, .Cmd]' config
	assert_output '[{"53/udp":{},"80/tcp":{},"8000/tcp":{},"8001/tcp":{},"8002/tcp":{}},{"/a b":{},"/data":{},"/v":{},"/w":{}},"SIGUSR1",["/bin/sh","-ec","false; echo too far"]]'
	# What OCI has not is in the document itself, and in Docker's form of it.
	skopeo inspect --raw --config oci-archive:mine.oci >config
	run -0 jq -cS '.config | [.Healthcheck, .Shell, .OnBuild]' config
	assert_output '[{"Interval":90000000000,"Retries":3,"StartPeriod":0,"Test":["CMD-SHELL","curl -f http://localhost/"],"Timeout":500000000},["/bin/sh","-ec"],["RUN make","COPY . /src"]]'
	cd /
	run -1 mlrun exec localhost/mine
	assert_output ""
	mlrun commit -q -c 'HEALTHCHECK CMD ["/bin/check", "-q"]' c two
	mlrun commit -q -c 'HEALTHCHECK NONE' c three
	assert_equal "$(mlrun export -q localhost/two "$TMPDIR/2" && skopeo inspect --raw --config "oci-archive:$TMPDIR/2" | jq -c .config.Healthcheck)" '{"Test":["CMD","/bin/check","-q"]}'
	assert_equal "$(mlrun export -q localhost/three "$TMPDIR/3" && skopeo inspect --raw --config "oci-archive:$TMPDIR/3" | jq -c .config.Healthcheck)" '{"Test":["NONE"]}'
}

@test "commit: an entrypoint drops the image's command, a line goes to a shell" {
	mlrun exec --write=d "$REGISTRY/other" /x 2>&3 >/dev/null
	mlrun commit -q -c 'ENTRYPOINT ["/bin/echo", "new"]' d mine
	run -0 mlrun exec localhost/mine
	assert_output new
	mlrun commit -q -c 'ENTRYPOINT ["/bin/echo", "new"]' -c 'CMD ["too"]' d mine
	run -0 mlrun exec localhost/mine
	assert_output "new too"
	mlrun commit -q -c 'ENTRYPOINT []' -c 'CMD echo $((1 + 1))' d mine
	run -0 mlrun exec localhost/mine
	assert_output 2
}

@test "commit: a change that is none is refused before anything is done" {
	keep touch /x
	layers=$(ls "$MLRUN_STORE/layers")
	for change in 'EXPOSE 0' 'EXPOSE 80/icmp' 'EXPOSE 90-80' 'EXPOSE http' 'EXPOSE 70000' 'VOLUME data' 'VOLUME ["data"]' \
		'STOPSIGNAL sig term' 'STOPSIGNAL 65' 'HEALTHCHECK' 'HEALTHCHECK CMD' 'HEALTHCHECK true' \
		'HEALTHCHECK --interval=3 CMD x' 'HEALTHCHECK --retries=x CMD x' 'HEALTHCHECK --often CMD x' 'SHELL /bin/bash' \
		'SHELL []' 'ONBUILD' 'ONBUILD make' 'ONBUILD FROM x' 'ONBUILD ONBUILD RUN x' 'RUN true' ENV 'ENV A' 'ENV =x' 'ENV A=1 B' 'ENV A="1' 'LABEL' 'USER a b' 'CMD' nonsense; do
		run -125 mlrun commit -c "$change" c mine
		assert_output --partial "change '$change'"
	done
	assert_equal "$(ls "$MLRUN_STORE/layers")" "$layers"
	run -125 mlrun commit c 'Bad Name'
	run -125 mlrun commit c "mine@$(manifest_of "$IMG")"
	assert_output --partial "an image cannot be given a digest"
}

@test "commit: nothing written is an image without a new layer" {
	keep true
	run -0 mlrun commit -c 'ENV A=1' c mine
	assert_output --partial "with no layer, as nothing was written"
	run -0 mlrun commit --json -q c mine
	assert_equal "$(jq -c '[.diff_id, .size, .omitted]' <<<"$output")" '[null,0,[]]'
	mlrun export localhost/mine mine.oci 2>&3
	run -0 skopeo inspect --config oci-archive:mine.oci
	assert_equal "$(jq -c '[(.rootfs.diff_ids|length), .history[-1].empty_layer]' <<<"$output")" '[1,true]'
}

@test "commit: the same files make the same layer, and JSON tells it" {
	write_much
	run -0 mlrun commit --json -q c one
	one=$(jq -r .diff_id <<<"$output")
	assert_equal "$(jq -r .name <<<"$output")" localhost/one:latest
	assert_equal "$(jq -r .digest <<<"$output")" "$(manifest_of localhost/one)"
	run -0 mlrun commit --json -q c two
	assert_equal "$(jq -r .diff_id <<<"$output")" "$one"
	mlrun exec --write=again localhost/one sh -c 'echo y >/y' 2>&3
	mlrun commit -q again three
	run -0 mlrun exec localhost/three cat /y /home/new
	assert_output $'y\nnew'
}

@test "commit: what no layer can hold is left out and told" {
	keep sh -c 'mkdir /d; echo x >/d/.wh.x; echo y >/d/y'
	python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' \
		"$MLRUN_STORE/containers/c/upper/d/sock"
	run -0 mlrun commit c mine
	assert_output --partial "'/d/.wh.x' omitted: a layer cannot contain it"
	assert_output --partial "'/d/sock' omitted: a layer cannot contain it"
	run -0 mlrun exec localhost/mine ls -A /d
	assert_output y
}

@test "commit: a running container can be committed, and that is told" {
	mlrun exec --write=c "$IMG" sh -c 'echo x >/x; echo up; exec sleep 600' >up 2>err 3>&- &
	pid=$!
	until_true grep -q up up
	run -0 mlrun commit c mine
	kill "$pid"
	assert_output --partial "container 'c' is running"
	run -0 mlrun exec localhost/mine cat /x
	assert_output x
}

@test "commit: a file that grows all the time is told, and no image is made" {
	keep touch /x
	(while :; do echo more >>"$MLRUN_STORE/containers/c/upper/x"; done) 3>&- &
	pid=$!
	run mlrun commit c mine
	kill "$pid"
	wait "$pid" 2>/dev/null || true
	[ "$status" = 125 ] || skip "the machine was too fast"
	assert_output --partial "changed while"
	assert_output --partial "hint: commit when the container's processes have ended"
	run -125 mlrun inspect localhost/mine
}

@test "commit: an image of an additional store brings its layers along" {
	chmod -R u+rwX "$MLRUN_STORE"
	rm -rf "$MLRUN_STORE"
	export MLRUN_STORES=$FILE_STORE
	keep sh -c 'echo kept >/x'
	mlrun commit -q c mine
	unset MLRUN_STORES
	run -0 mlrun exec localhost/mine sh -c 'cat /x; echo $TINY'
	assert_output $'kept\nyes'
	run -0 mlrun store verify
}

@test "commit: an image in one tree gives one in one tree" {
	mlrun rm "$IMG" "$REGISTRY/other"
	mlrun pull -q --format=dir "$IMG"
	keep sh -c 'echo kept >/x; rm /bin/vi'
	mlrun commit -q c mine
	run -0 mlrun images --json
	assert_equal "$(jq -c '.[] | select(.name == "localhost/mine:latest") | .formats' <<<"$output")" '["dir"]'
	run -0 mlrun exec localhost/mine sh -c 'cat /x; ls /bin/vi 2>&1; true'
	assert_output $'kept\nls: /bin/vi: No such file or directory'
}

@test "commit: its layer cannot be fetched again, so repair leaves it where it is" {
	keep sh -c 'echo kept >/x; echo other >/y'
	run -0 mlrun commit --json -q c mine
	layer=$(jq -r .diff_id <<<"$output")
	echo changed >"$MLRUN_STORE/layers/${layer#sha256:}/tree/x"
	run mlrun store verify --repair
	assert_output --partial "cannot be fetched"
	run -0 mlrun exec localhost/mine cat /y
	assert_output other
}

# --- kills ------------------------------------------------------------------------

# Kill the command after a random part of the time that it takes.
kill_in_the_middle() {
	(ends_early && exec "$@") >/dev/null 2>&1 3>&- &
	sleep "0.0$((RANDOM % 50 + 10))"
	kill -KILL $! 2>/dev/null || true
	wait $! 2>/dev/null || true
}

good_store() {
	mlrun prune >/dev/null || return
	mlrun store verify >/dev/null 2>&1 || fail "the store is not what it should be"
	assert_equal "$(ls "$MLRUN_STORE/tmp")" ""
}

@test "kill: a first start that is killed at any moment leaves a container or none" {
	for i in $(seq "$(rounds 20)"); do
		kill_in_the_middle mlrun exec "--write=k$i" "$IMG" sh -c 'echo a >/a; sleep 1'
		[ ! -e "$MLRUN_STORE/containers/k$i" ] || mlrun containers --json |
			jq -e "any(.name == \"k$i\" and .image != null)" >/dev/null || fail "half a container"
	done
	good_store
	for i in $(seq "$(rounds 20)"); do
		run -0 mlrun exec "--write=k$i" "$IMG" true
	done
}

@test "kill: a commit that is killed at any moment leaves an image or none" {
	keep sh -c 'for i in $(seq 300); do echo $i >/file$i; done; head -c 20971520 /dev/zero >/big'
	for i in $(seq "$(rounds 16)"); do
		kill_in_the_middle mlrun commit -q c "k$i"
		! mlrun inspect "localhost/k$i" >/dev/null 2>&1 ||
			assert_equal "$(mlrun exec "localhost/k$i" cat /file300)" 300
	done
	good_store
	mlrun commit -q c whole
	run -0 mlrun exec localhost/whole sh -c 'cat /file300; ls -l /big | tr -s " " | cut -d" " -f5'
	assert_output $'300\n20971520'
}

@test "kill: a commit that is killed leaves the modes of what its owner may not read" {
	needs_ordinary_user
	keep sh -c 'truncate -s 2G /large; chmod 0 /large'
	for _ in {1..20}; do
		(ends_early && exec mlrun commit -q c mine) 3>&- &
		pid=$!
		until reads_it "$pid" || is_gone "$pid"; do sleep 0.02; done
		kill -9 "$pid" || true
		status=0
		wait "$pid" || status=$?
		[ "$status" = 0 ] || break # else it was faster
	done
	assert_equal "$status" 137
	run -0 stat -c %a "$MLRUN_STORE/containers/c/upper/large"
	assert_output 0
}

@test "kill: a commit that is interrupted ends with the signal's status and leaves nothing" {
	keep sh -c 'head -c 209715200 /dev/zero >/big'
	mlrun commit c mine >/dev/null 2>&1 3>&- &
	sleep 0.1
	kill -TERM $! 2>/dev/null || true
	wait $! && skip "the machine was too fast" || status=$?
	assert_equal "$status" 143
	run -125 mlrun inspect localhost/mine
	assert_equal "$(ls "$MLRUN_STORE/tmp")" ""
}

@test "exec: container:NAME is a container with its own image, whatever became of the image's name" {
	run -0 mlrun exec --write=c1 "$IMG" sh -c 'echo kept >/kept'
	run -0 --separate-stderr mlrun exec container:c1 cat /kept
	assert_output kept
	assert_equal "$stderr" ""
	run -0 mlrun exec --write=c1 container:c1 cat /kept
	run -125 mlrun exec --write=other container:c1 true
	assert_output --partial "two containers"
	run -125 mlrun exec container:nothing true
	assert_output --partial "nothing"
	run -125 mlrun exec --read-only container:c1 true
	assert_output --partial "exclude each other"
	run -0 mlrun shell container:c1 -c 'cat /kept'
}

@test "exec: --until-job-ends is for containers of a job" {
	run -125 mlrun exec --until-job-ends "$IMG" true
	assert_output --partial "is about the container of --write"
	run -125 mlrun exec --until-job-ends --write=c2 "$IMG" true
	assert_output --partial "--until-job-ends works only inside a Slurm job"
	assert_output --partial "hint: inside sbatch, salloc or srun"
	printf '#!/bin/sh\ncat "$ANSWER"\n' >squeue
	chmod +x squeue
	export PATH=$PWD:$PATH ANSWER=$PWD/answer
	echo RUNNING >answer
	SLURM_JOB_ID=7 SLURM_STEP_ID=0 run -0 mlrun exec --until-job-ends --write=c2 "$IMG" sh -c 'echo kept >/kept'
	run -0 mlrun prune
	run -0 mlrun exec container:c2 cat /kept
	assert_output kept
	run -0 mlrun exec --write=c3 "$IMG" true
	: >answer
	run -0 mlrun prune --dry-run
	run -0 mlrun exec container:c2 cat /kept
	# What the user sets for squeue does not reach it, and another cluster's jobs are not judged here.
	printf '#!/bin/sh\n[ -z "$SQUEUE_STATES" ] && echo RUNNING\n' >squeue
	SQUEUE_STATES=PENDING run -0 mlrun prune
	run -0 mlrun exec container:c2 cat /kept
	printf '#!/bin/sh\ncat "$ANSWER"\n' >squeue
	printf '#!/bin/sh\nprintf "Configuration data\\nClusterName             = here\\n"\n' >scontrol
	chmod +x scontrol
	SLURM_CLUSTER_NAME=there SLURM_JOB_ID=8 run -0 mlrun exec --until-job-ends --write=c4 "$IMG" true
	run -0 mlrun prune
	run -0 mlrun exec container:c4 true
	SLURM_CLUSTER_NAME=there run -0 mlrun prune
	run -125 mlrun exec container:c4 true
	run -125 mlrun exec container:c2 cat /kept
	run -0 mlrun exec container:c3 true
	# Slurm 23.11 gives its steps no cluster's name.
	SLURM_CLUSTER_NAME='(null)' SLURM_JOB_ID=8 run -0 mlrun exec --until-job-ends --write=c5 "$IMG" true
	run -0 mlrun prune
	run -125 mlrun exec container:c5 true
}
