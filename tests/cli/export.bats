#!/usr/bin/env bats
# mlrun export, read by mlrun import and by skopeo, umoci, podman and tar.

load common

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	umask 022 # the files of the image have the modes that the tests name
	tiny_root root
	echo gone >root/etc/gone
	mkdir -p root/deep/er
	echo low >root/deep/er/low
	ln root/deep/er/low root/deep/hard
	layer_tar one.tar root
	mkdir -p more/etc more/opaque && echo two >more/etc/two && touch more/etc/.wh.gone
	mkdir -p more/deep && touch more/deep/.wh..wh..opq && echo high >more/deep/high
	echo suid >more/suid && chmod 4755 more/suid
	tar -C more --sort=name --owner=12 --group=34 --numeric-owner --mtime=@1700000000 -cf two.tar .
	image_layout lay one.tar two.tar two.tar
	image_config lay --config.env PATH=/bin --config.env TINY=yes --config.cmd /bin/sh
}

teardown() {
	[ -z "${MLRUN_STORES:-}" ] || unshare -U --map-auto --map-root-user chown -R 0:0 "$MLRUN_STORES"
	common_teardown
}

bring() { mlrun import -q "$BATS_FILE_TMPDIR/lay" "${1:-app}"; }

diff_ids() { mlrun inspect --json "$1" | jq -c '[.layers[].diff_id]'; }
config_of() { mlrun inspect --json "$1" | jq -r .config; }
key() { jq -r ".$1" <<<"${lines[-1]}"; }

# check_same NAME: has it the configuration and the tree of app?
check_same() {
	assert_equal "$(config_of "$1")" "$(config_of app)"
	assert_equal "$(diff_ids "$1")" "$(diff_ids app)"
	# shellcheck disable=SC2016
	run -0 mlrun exec "$1" /bin/sh -c 'echo $TINY; cat /etc/two; ls /etc /deep'
	assert_line yes
	assert_line two
	assert_line high
	refute_line gone
	refute_line er
}

@test "export: an archive of every compression comes back as the same image" {
	bring
	for how in gzip zstd none; do
		run -0 mlrun export --json --compression "$how" app "$how.tar"
		assert_equal "$(key digest)" "sha256:$(skopeo inspect --raw "oci-archive:$how.tar" | sha256sum | cut -d' ' -f1)"
		assert_equal "$(skopeo inspect --raw "oci-archive:$how.tar" | jq -r .config.digest)" "$(config_of app)"
		MLRUN_STORE=$PWD/other mlrun import -q "$how.tar" "back:$how"
		mlrun import -q "$how.tar" "back:$how"
		check_same "back:$how"
	done
	run -0 skopeo inspect --raw oci-archive:zstd.tar
	assert_equal "$(jq -r '.layers[0].mediaType' <<<"$output")" application/vnd.oci.image.layer.v1.tar+zstd
}

@test "export: what was unpacked elsewhere has the same diff IDs and files" {
	bring
	mlrun export -q app a.tar
	export MLRUN_STORE=$PWD/other
	mlrun pull -q oci-archive:a.tar
	run -0 mlrun exec localhost/app /bin/cat /deep/high
	assert_output high
	run -0 mlrun export -q localhost/app b.tar
	cmp a.tar b.tar
}

@test "export: the same image gives the same bytes, to a file, to a pipe and to stdout" {
	bring
	mlrun export -q app a.tar
	mlrun export -q app - >b.tar
	cmp a.tar b.tar
	mkfifo fifo
	cat fifo >c.tar &
	mlrun export -q app fifo
	wait $!
	cmp a.tar c.tar
	assert [ -p fifo ]
	echo before >real && ln -s real link
	mlrun export -q app link
	cmp a.tar real
	assert [ -L link ]
	mlrun export -q app - | mlrun import -q - piped
	check_same piped
}

@test "export: a layout is read by umoci and skopeo" {
	bring
	run -0 mlrun export --json --format oci --name 1.0 app out
	digest=$(key digest)
	assert_equal "$digest" "sha256:$(skopeo inspect --raw oci:out:1.0 | sha256sum | cut -d' ' -f1)"
	umoci unpack --rootless --image out:1.0 bundle
	assert_equal "$(cat bundle/rootfs/deep/high)" high
	assert [ ! -e bundle/rootfs/etc/gone ]
	assert_equal "$(find out/blobs -type f | wc -l)" 4
	skopeo --insecure-policy copy -q oci:out:1.0 dir:copied
	run -125 mlrun export --format zip app out
	assert_line --partial "--format takes oci-archive, oci, docker-archive, tar, rootfs, bundle, squashfs or sif, not 'zip'"
	run -125 mlrun export --compression lzma app out
	assert_line --partial "--compression takes gzip, zstd or none, not 'lzma'"
	run -125 mlrun export --format oci app out
	assert_output --partial "'out' is there and is not empty"
	assert [ -z "$(find . -maxdepth 1 -name '.*mlrun*')" ]
	mkdir empty
	mlrun export -q --format oci app empty
	assert [ -e empty/index.json ]
}

@test "export: a docker-archive is read by skopeo and podman, under its name" {
	bring team/app:1
	bring
	run -0 mlrun export --json --format docker-archive team/app:1 d.tar
	assert_equal "$(key digest)" null
	assert_equal "$(skopeo inspect docker-archive:d.tar | jq -r '.Env | join(" ")')" "PATH=/bin TINY=yes"
	assert_equal "$(tar -xOf d.tar manifest.json | jq -c '.[0].RepoTags')" '["localhost/team/app:1"]'
	assert_equal "$(skopeo inspect --raw docker-archive:d.tar | jq -r .config.digest)" "$(config_of app)"
	mlrun import -q d.tar back
	check_same back
}

@test "export: podman loads both kinds of archives" {
	bring
	mlrun export -q app oci.tar
	mlrun export -q --format docker-archive --name localhost/dock:1 app docker.tar
	podman() { command podman --root "$PWD/p" --runroot "$PWD/pr" --storage-driver vfs "$@"; }
	podman info >info 2>&1 || skip "podman does not run here: $(tail -1 info)"
	for f in oci docker; do
		run -0 podman load -i "$f.tar"
	done
	id=$(config_of app)
	run -0 podman images --no-trunc --format '{{.ID}} {{.Repository}}:{{.Tag}}'
	assert_line "$id localhost/app:latest"
	assert_line "$id localhost/dock:1"
	podman unshare rm -rf "$PWD/p" "$PWD/pr"
}

@test "export: a root directory's tar has the image's files, owners and set-ID bits" {
	bring
	mlrun export -q --format tar app r.tar
	mkdir r && tar -C r -xpf r.tar --no-same-owner
	run -0 tar --numeric-owner -tvf r.tar suid etc/two deep/high etc/passwd
	assert_line --regexp '^-rwsr-xr-x 12/34 .* suid$'
	assert_line --regexp '^-rw-r--r-- 12/34 +4 2023-11-14 .* etc/two$'
	assert_line --regexp '^-rw-r--r-- 0/0 .* etc/passwd$'
	assert_equal "$(stat -c %h r/bin/busybox)" "$(stat -c %h "$BATS_FILE_TMPDIR/root/bin/busybox")"
	mkdir bundle && umoci unpack --rootless --image "$BATS_FILE_TMPDIR/lay:latest" bundle >/dev/null
	diff -r --no-dereference bundle/rootfs r
	diff <(cd bundle/rootfs && find . -printf '%p %y %m %l\n' | sort) <(cd r && find . -printf '%p %y %m %l\n' | sort)
	mlrun import -q r.tar flat
	run -0 mlrun exec flat /bin/cat /deep/high
	assert_output high
}

# closed_tar OUT: what distributions of Red Hat's have (/etc/shadow), and what else an owner may shut himself out of.
closed_tar() {
	python3 - "$1" <<-'EOF'
		import io, sys, tarfile
		with tarfile.open(sys.argv[1], "w") as t:
		    def add(name, mode, data=None, link=None):
		        m = tarfile.TarInfo(name)
		        m.mode, m.uid, m.gid, m.mtime = mode, 5, 6, 1700000000
		        if link:
		            m.type, m.linkname = tarfile.LNKTYPE, link
		        elif data is None:
		            m.type = tarfile.DIRTYPE
		        else:
		            m.size = len(data)
		        t.addfile(m, io.BytesIO(data) if data else None)
		    add("etc", 0o755)
		    add("etc/shadow", 0, b"root:*\n")
		    add("etc/alias", 0, link="etc/shadow")
		    add("etc/large", 0, b"x" * 300000)
		    add("etc/writeonly", 0o200, b"w\n")
		    for mode in (0, 0o111, 0o200, 0o300, 0o400, 0o500):
		        add("dir%03o" % mode, mode)
		        add("dir%03o/file" % mode, 0o644, b"%o\n" % mode)
		        add("dir%03o/below" % mode, mode)
		        add("dir%03o/below/closed" % mode, 0, b"closed\n")
		    add("zero", 0)
	EOF
}

listed() { tar --numeric-owner --full-time -tvf "$1" | sed 's,/$,,; s,^h,-,; s, link to .*,,' | awk '{ $3 = ""; print }' | sort; }

@test "export: what its owner may not read is exported, in every format, and stays closed" {
	closed_tar closed.tar
	mlrun import -q closed.tar closed
	modes() { find "$MLRUN_STORE"/layers/*/tree -printf '%P %m\n' 2>/dev/null | sort; }
	before=$(modes)
	run -0 mlrun export -q --format tar closed root.tar
	assert_output ''
	diff <(listed closed.tar) <(listed root.tar)
	for f in etc/shadow etc/large etc/writeonly dir000/file dir000/below/closed dir111/below/closed dir300/file dir400/file; do
		name=$f
		[ "$f" != etc/shadow ] || name=etc/alias # the first of the two has the bytes
		cmp <(tar -xOf closed.tar "$f") <(tar -xOf root.tar "$name")
	done
	for format in oci-archive docker-archive oci; do
		run -0 mlrun export -q --format "$format" closed "$format"
		assert_output ''
		mlrun import -q "$format" "back:$format"
		assert_equal "$(diff_ids "back:$format")" "[\"$(sha256_of closed.tar)\"]"
	done
	assert_equal "$(modes)" "$before"
	run -0 mlrun store verify
}

@test "export: of another user's store what cannot be read is named before the first byte" {
	needs_ordinary_user
	unshare -U --map-auto --map-root-user true 2>/dev/null || skip "no subordinate ids"
	closed_tar closed.tar
	mlrun import -q closed.tar closed
	mkdir -p private/root && chmod 700 private/root
	layer_tar private.tar private
	mlrun import -q private.tar private
	echo secret >private/root/file && chmod 600 private/root/file
	layer_tar file.tar private
	mlrun import -q file.tar file
	tar -C private --owner=0 --group=0 --mode=0 --transform=s,root/file,shadow, -cf shadow.tar root/file
	mlrun import -q shadow.tar shadow
	chmod 755 "$MLRUN_STORE"
	unshare -U --map-auto --map-root-user chown -R 1:1 "$MLRUN_STORE"
	export MLRUN_STORES=$MLRUN_STORE MLRUN_STORE=$PWD/own
	for image in closed private; do
		rc=0
		mlrun export --format tar "$image" - >out 2>said || rc=$?
		assert_equal "$rc $(stat -c %s out)" "125 0"
	done
	run -0 cat said
	assert_line "mlrun: export 'localhost/private:latest': open '/root': Permission denied"
	assert_line --regexp '^hint: it belongs to another user: '
	for format in tar oci-archive docker-archive; do
		rc=0
		mlrun export --format "$format" file - >out 2>said || rc=$?
		assert_equal "$rc $(stat -c %s out)" "125 0"
		run -0 cat said
		assert_output --regexp "layer sha256:[0-9a-f]{64}: read 'root/file' of the layer's tree: Permission denied"
		assert_line --regexp '^hint: it belongs to another user: '
	done
	run -0 mlrun export -q shadow - # the record has what nobody may read
}

@test "export: names of any bytes, long ones, big xattrs and sparse files are kept" {
	mkdir -p odd/$'gr\xc3\xbc\xc3\x9fe' odd/"$(printf %0200d 1)/$(printf %0200d 2)"
	touch odd/$'latin\xfc' odd/$'new\nline' odd/'back\slash' odd/"$(printf %0200d 1)/$(printf %0200d 2)/$(printf %0200d 3)"
	ln -s "$(printf %0300d 4)" odd/link
	truncate -s 3M odd/sparse && printf end >>odd/sparse
	setfattr -n user.big -v "0x$(head -c 3000 /dev/urandom | xxd -p | tr -d '\n')" odd/sparse || skip "no user xattrs here"
	mkfifo odd/fifo
	chmod 1777 odd
	tar -C odd --xattrs -cf odd.tar .
	mlrun import -q odd.tar odd
	mlrun export -q --format tar odd back.tar
	mkdir back && tar -C back --xattrs -xpf back.tar
	diff <(cd odd && find . -mindepth 1 -printf '%P %y %m %s %l\0' | sort -z | xxd) <(cd back && find . -mindepth 1 -printf '%P %y %m %s %l\0' | sort -z | xxd)
	cmp odd/sparse back/sparse
	assert_equal "$(getfattr --only-values -n user.big back/sparse | sha256sum)" "$(getfattr --only-values -n user.big odd/sparse | sha256sum)"
	mlrun export -q odd again.tar
	mlrun import -q again.tar again
	assert_equal "$(diff_ids again)" "[\"$(sha256_of odd.tar)\"]"
}

@test "export: a layer whose files were changed is not exported" {
	bring
	file=$(echo "$MLRUN_STORE"/layers/*/tree/etc/two)
	chmod u+w "$file"
	echo TWO >"$file"
	for format in oci-archive docker-archive tar; do
		echo before >x
		run -125 mlrun export --format "$format" app x
		assert_output --regexp 'layer sha256:[0-9a-f]{64}: .*one was changed'
		assert_equal "$(cat x)" before
	done
	run -125 mlrun export app -
	echo longer >>"$file"
	run -125 mlrun export app x
	assert_output --partial "etc/two"
	rm "$file"
	run -125 mlrun export app x
	assert_output --partial "etc/two"
	assert [ -z "$(find . -maxdepth 1 -name '.*mlrun*')" ]
	run -0 find "$MLRUN_STORE/tmp" -mindepth 1 -not -name '*.lock'
	assert_output ''
}

@test "export: an image without its layers is told how to get them" {
	needs_squashfs
	cp -a "$BATS_FILE_TMPDIR/lay" .
	mlrun pull -q --format=squashfs oci:lay
	for format in oci-archive tar; do
		run -125 mlrun export --format "$format" oci:lay x
		assert_line "mlrun: export 'localhost/lay:latest': the store has it without its layers"
		assert_line "hint: mlrun pull --format=layers adds them"
	done
	mlrun pull -q --format=layers oci:lay
	run -0 mlrun export oci:lay x
}

@test "export: a name in the archive is the image's own, without a digest, or the one given" {
	bring team/app:1.5
	mlrun export -q team/app:1.5 a.tar
	assert_equal "$(tar -xOf a.tar index.json | jq -r '.manifests[0].annotations["org.opencontainers.image.ref.name"]')" localhost/team/app:1.5
	assert_equal "$(tar -xOf a.tar index.json | jq -c '.manifests[0].platform')" '{"architecture":"amd64","os":"linux"}'
	mlrun export -q --name quay.io/x/y:2 team/app:1.5 a.tar
	run -0 mlrun import --json a.tar
	assert_equal "$(key name)" quay.io/x/y:2
}

@test "export: a place is written as skopeo has it" {
	bring
	for place in oci-archive:a.tar docker-archive:b.tar oci:c; do
		run -0 mlrun export --json app "$place"
		assert_equal "$(key format) $(key file)" "${place%:*} ${place#*:}"
		skopeo inspect "$place" >/dev/null
	done
	mlrun export -q app oci-archive:d.tar:quay.io/x/y:2
	run -0 mlrun import --json d.tar
	assert_equal "$(key name)" quay.io/x/y:2
	mlrun export -q app oci:e:1.0
	skopeo inspect oci:e:1.0 >/dev/null
	mlrun export -q app docker-archive:f.tar:team/app:3
	assert_equal "$(tar -xOf f.tar manifest.json | jq -c '.[0].RepoTags')" '["team/app:3"]'
	mlrun export -q --format oci-archive app oci-archive:- | cmp - a.tar
	mlrun export -q app ./oci:g # a file of that name
	cmp a.tar oci:g

	run -125 mlrun export --format tar app oci-archive:x
	assert_output --partial "'oci-archive:x' and --format=tar exclude each other"
	run -125 mlrun export --name y app oci-archive:x:z
	assert_output --partial "names the image already"
	run -125 mlrun export app oci:
	assert_line "hint: write oci:DIRECTORY[:REF]"
	run -125 mlrun export app oci:-
	for place in dir:x docker://r/x docker-daemon:x containers-storage:x; do
		run -125 mlrun export app "$place"
		assert_line "mlrun: export to '$place': mlrun writes none of '${place%%:*}:'"
		assert_line --partial "hint: "
	done
	assert_equal "$(echo *x* oci:)" '*x* oci:'
}

@test "export: a full disk, a wrong place and a closed pipe are errors with a sentence" {
	bring
	run -125 mlrun export app /dev/full
	assert_output --partial "export 'localhost/app:latest': write '/dev/full': No space left on device"
	run -125 mlrun export app none/x.tar
	assert_output --partial "open directory 'none': No such file or directory"
	mkdir dir
	run -125 mlrun export app dir
	assert_output --partial "'dir' is a directory"
	run -125 bash -c 'mlrun export app - >/dev/full'
	assert_output --partial "No space left on device"
	run -0 bash -c '{ mlrun export app -; echo $? >status; } | head -c 1000 >/dev/null'
	assert_equal "$(cat status)" 125
	assert_output --partial "Broken pipe"
	run -125 script -qec "mlrun export app -" /dev/null
	assert_output --partial "an archive is nothing for a terminal"
	run -125 mlrun export nothing x
	assert_output --partial "not in"
	run -125 mlrun export --format oci app -
	run -125 mlrun export --format docker-archive --compression gzip app x
	run -125 mlrun export --keep-blobs --compression gzip app x
	run -125 mlrun export --format zip app x
	run -125 mlrun export app
	assert [ ! -e x ]
}

@test "export: what a killed one left under the same process id is no obstacle" {
	bring
	run -0 sh -c 'touch ".x.tar.mlrun-$$.0"; exec mlrun export -q app x.tar'
	assert [ -s x.tar ]
	run -0 sh -c 'mkdir ".lay.mlrun-$$.0"; exec mlrun export -q --format oci app lay'
	assert [ -s lay/index.json ]
}

@test "export: a directory that is not empty, or a link, is refused before the work" {
	bring
	mkdir full
	touch full/x
	ln -s full link
	run -125 mlrun export --verbose --format oci app full
	assert_output --partial "'full' is there and is not empty"
	run -125 mlrun export --format oci app link
	assert_output --partial "'link' exists and is not a directory"
	run -0 find . -name '.*.mlrun-*'
	assert_output ''
}

@test "export: stopped by a signal it leaves nothing" {
	dd if=/dev/urandom of=big bs=1M count=150 status=none
	tar -cf big.tar big
	mlrun import -q big.tar big
	rm big big.tar
	for _ in {1..20}; do
		mlrun export -q big out.tar 3>&- &
		until_true has_moved $! wchar 1000000
		# It stands still while it is looked at, if it was not faster.
		if kill -STOP $! && ! is_gone $!; then
			run mlrun rm big
			kill -TERM $!
			kill -CONT $!
		fi
		rc=0
		wait $! || rc=$?
		[ "$rc" = 0 ] || break
		rm out.tar
	done
	assert_equal "$rc" 143
	assert_equal "$status" 125
	assert_output --partial "is in use by process $!"
	run -0 ls -A
	refute_output --partial "out.tar"
}

@test "export: blobs that were not kept come by the pull that is advised, the layers being there or not" {
	local lay=oci:$BATS_FILE_TMPDIR/lay

	blobs() { ls "$MLRUN_STORE/blobs/sha256" | wc -l; }
	for format in layers dir squashfs; do
		[ "$format" != squashfs ] || has_squashfs || continue
		export MLRUN_STORE=$PWD/$format
		mlrun pull -q --format "$format" "$lay"
		run -125 mlrun export --keep-blobs lay x
		assert_line --regexp '^hint: pull it with --keep-blobs; '
		assert_equal "$(blobs)" 2
		run -0 mlrun pull --format "$format" --keep-blobs "$lay"
		assert_output --partial "mlrun: pulled "
		run -0 mlrun export --json --keep-blobs lay "$format.tar"
		assert_equal "$(key digest)" "$(jq -r '.manifests[0].digest' "$BATS_FILE_TMPDIR/lay/index.json")"
		assert_equal "$(blobs)" 4 # two layers, one of them twice
		run -0 mlrun pull --format "$format" --keep-blobs "$lay"
		assert_output --partial "is up to date"
		run -0 mlrun pull --format "$format" "$lay"
		assert_output --partial "is up to date"
	done
	# One of them alone is missing, and the trees are another image's.
	export MLRUN_STORE=$PWD/layers
	mlrun rm -q lay && mlrun import -q layers.tar other && mlrun rm -q other
	cmp layers.tar dir.tar
	mlrun import -q "$BATS_FILE_TMPDIR/lay" other
	run -0 mlrun pull --keep-blobs "$lay"
	run -0 mlrun export -q --keep-blobs lay again.tar
	rm "$(find "$MLRUN_STORE/blobs/sha256" -size +100k)"
	run -0 mlrun pull --json --keep-blobs "$lay"
	assert_equal "$(key layers_fetched)" 1
	run -0 mlrun store verify
	# In a store of others' the layers are, and the blobs come into one's own.
	export MLRUN_STORES=$PWD/dir MLRUN_STORE=$PWD/own
	rm "$(find dir/blobs/sha256 -size +100k)"
	run -0 mlrun pull "$lay"
	assert_output --partial "is up to date"
	run -0 mlrun pull --keep-blobs "$lay"
	run -0 mlrun export -q --keep-blobs lay own.tar
	unset MLRUN_STORES
}

@test "export: --keep-blobs needs blobs that were kept" {
	bring
	run -125 mlrun export --keep-blobs app x
	assert_output --regexp 'layer sha256:[0-9a-f]{64} was not kept compressed'
	mlrun rm app
	mlrun pull -q --keep-blobs "oci:$BATS_FILE_TMPDIR/lay"
	mlrun tag lay app
	run -0 mlrun export --json --keep-blobs app kept.tar
	assert_equal "$(key digest)" "$(jq -r '.manifests[0].digest' "$BATS_FILE_TMPDIR/lay/index.json")"
	skopeo --insecure-policy copy -q oci-archive:kept.tar dir:copied
	for blob in "$BATS_FILE_TMPDIR"/lay/blobs/sha256/*; do
		[ "$(stat -c %s "$blob")" -lt 1000 ] || break
	done
	chmod u+w "$MLRUN_STORE/blobs/sha256/${blob##*/}"
	printf x | dd of="$MLRUN_STORE/blobs/sha256/${blob##*/}" bs=1 seek=100 conv=notrunc status=none
	run -125 mlrun export --keep-blobs app x
	assert_output --partial "that were kept hash to"
}

@test "export: a file's name says that it is a squashfs file" {
	bring
	mlrun export -q app file.sqsh
	assert_equal "$(head -c 4 file.sqsh)" hsqs
	[ ! -w /dev/fuse ] || mlrun exec squashfs:file.sqsh true
	mlrun export -q --format=oci-archive app other.sqsh
	tar -tf other.sqsh index.json
	mlrun export -q app oci-archive:third.sqsh
	tar -tf third.sqsh index.json
}
