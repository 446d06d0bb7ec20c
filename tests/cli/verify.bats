# store verify finds what is not as it was, names it, and --repair brings it back.
load common

setup_file() {
	registry_start
	image_tiny tiny
	mkdir -p "$BATS_FILE_TMPDIR/top/sub"
	echo one >"$BATS_FILE_TMPDIR/top/sub/one"
	touch -d 2020-01-01 "$BATS_FILE_TMPDIR/top/sub/one" # a change is of another second
	echo two >"$BATS_FILE_TMPDIR/top/two"
	ln -s sub/one "$BATS_FILE_TMPDIR/top/link"
	mkfifo "$BATS_FILE_TMPDIR/top/fifo"
	ln "$BATS_FILE_TMPDIR/top/two" "$BATS_FILE_TMPDIR/top/twin"
	layer_tar "$BATS_FILE_TMPDIR/top.tar" "$BATS_FILE_TMPDIR/top"
	image_push_tar app "$BATS_FILE_TMPDIR/tiny.tar" "$BATS_FILE_TMPDIR/top.tar"
	# A symlinked directory used without being named makes one tree of the image.
	mkdir -p "$BATS_FILE_TMPDIR/base/real" "$BATS_FILE_TMPDIR/over/linked"
	ln -s real "$BATS_FILE_TMPDIR/base/linked"
	echo new >"$BATS_FILE_TMPDIR/over/linked/new"
	tar -C "$BATS_FILE_TMPDIR/base" --owner=0 --group=0 -cf "$BATS_FILE_TMPDIR/base.tar" .
	tar -C "$BATS_FILE_TMPDIR/over" --owner=0 --group=0 -cf "$BATS_FILE_TMPDIR/over.tar" linked/new
	image_push_tar flat "$BATS_FILE_TMPDIR/base.tar" "$BATS_FILE_TMPDIR/over.tar"
	mlrun pull -q --store "$BATS_FILE_TMPDIR/store" "$REGISTRY"/{tiny,app,flat}
}

teardown_file() { registry_stop; }

setup() {
	common_setup
	cp -a "$BATS_FILE_TMPDIR/store" "$MLRUN_STORE"
	cd "$MLRUN_STORE" || return
	top=layers/$(sha256sum <"$BATS_FILE_TMPDIR/top.tar" | cut -d' ' -f1)
}

# The store is whole again after --repair.
repairs() {
	run -0 mlrun store verify --repair
	run -0 mlrun store verify
	assert_output --regexp "mlrun: [0-9]+ parts of the store are as they should be"
	run -0 mlrun exec "$REGISTRY/app" cat /two /link
	assert_output $'two\none'
	assert_equal "$(ls tmp)" ""
}

broken() {
	run -125 mlrun store verify
	assert_output --partial "$1"
	assert_output --partial "mlrun: ${2:-1} of "
	assert_output --partial "hint: mlrun store verify --repair fetches them again"
}

@test "verify: a store as it was pulled is sound, and nothing is fetched" {
	before=$(registry_requests | wc -l)
	run -0 mlrun store verify
	assert_output --regexp "mlrun: [0-9]+ parts of the store are as they should be"
	run -0 mlrun store verify --json
	assert_equal "$(jq -c '[.ok, .repaired, .findings]' <<<"$output")" '[true,false,[]]'
	assert_equal "$(registry_requests | wc -l)" "$before"
}

@test "verify: a file whose bytes were changed is named" {
	chmod u+w "$top/tree/sub/one"
	echo bad >"$top/tree/sub/one"
	broken "$top: broken: its files give a layer of digest sha256:"
	assert_output --partial "  sub/one: was changed (its time differs)"
	assert_output --partial "  needed by '$REGISTRY/app:latest'"
	repairs
}

@test "verify: bytes that changed under the same time are found as well" {
	touch -r "$top/tree/sub/one" "$BATS_TEST_TMPDIR/time"
	echo bad >"$top/tree/sub/one"
	touch -r "$BATS_TEST_TMPDIR/time" "$top/tree/sub/one"
	broken "$top: broken: its files give a layer of digest sha256:"
	repairs
}

@test "verify: a file that is missing is named" {
	rm "$top/tree/two" "$top/tree/twin"
	run -125 mlrun store verify --json
	assert_equal "$(jq -c '[.ok, (.findings[] | .path, .verdict, .images)]' <<<"$output" 2>/dev/null)" \
		"[false,\"$top\",\"broken\",[\"$REGISTRY/app:latest\"]]"
	assert_output --partial "'twin' of the layer's tree: No such file or directory"
	repairs
}

@test "verify: links, modes, types and names that are not the layer's are found" {
	ln -sfn two "$top/tree/link"
	chmod 700 "$top/tree/two"
	rm "$top/tree/fifo"
	mkdir "$top/tree/fifo"
	echo extra >"$top/tree/extra"
	broken "$top: broken: names of its tree are not as in the layer"
	assert_output --partial "  link: links to something else"
	assert_output --partial "  fifo: is of another type"
	assert_output --partial "  extra: is not in the layer"
	repairs
	assert [ ! -e "$top/tree/extra" ]
	assert [ -p "$top/tree/fifo" ]
}

@test "verify: a layer in which a link took a directory's place is sound" {
	mkdir -p "$TMPDIR"/{one/elsewhere,one/d,two}
	ln -s there "$TMPDIR/one/d/link"
	ln -s elsewhere "$TMPDIR/two/d"
	tar -C "$TMPDIR/one" --owner=0 --group=0 -cf "$TMPDIR/l.tar" elsewhere d/link
	tar -C "$TMPDIR/two" --owner=0 --group=0 --append -f "$TMPDIR/l.tar" d
	image_push_tar replacing "$BATS_FILE_TMPDIR/tiny.tar" "$TMPDIR/l.tar"
	mlrun pull -q "$REGISTRY/replacing"
	run -0 mlrun store verify
}

# As after a copy of the store by a program that knows neither.
@test "verify: a whiteout or an opaque mark that is missing is found" {
	mkdir -p "$TMPDIR"/over/{etc,home}
	touch "$TMPDIR"/over/etc/.wh.group "$TMPDIR"/over/home/.wh..wh..opq
	layer_tar "$TMPDIR/over.tar" "$TMPDIR/over"
	image_push_tar hiding "$BATS_FILE_TMPDIR/tiny.tar" "$TMPDIR/over.tar"
	mlrun pull -q --format=layers "$REGISTRY/hiding"
	over=layers/$(sha256sum <"$TMPDIR/over.tar" | cut -d' ' -f1)
	run -0 mlrun store verify
	rm "$over/tree/etc/group"
	broken "$over: broken: names of its tree are not as in the layer"
	assert_output --partial "  etc/group: shows what the layers below have there"
	repairs
	python3 -c 'import os, sys; os.removexattr(sys.argv[1], "user.overlay.opaque")' "$over/tree/home"
	broken "$over: broken: names of its tree are not as in the layer"
	assert_output --partial "  home: shows what the layers below have in it"
	repairs
}

@test "verify: a fifo or link that is missing is found" {
	rm "$top/tree/link" "$top/tree/fifo"
	broken "$top: broken: "
	assert_output --partial "  link: is missing"
	assert_output --partial "  fifo: is missing"
	repairs
}

@test "verify: damaged documents, facts and names are found and brought back" {
	digest=$(mlrun inspect --json "$REGISTRY/app" | jq -r .digest)
	manifest=blobs/sha256/${digest#sha256:}
	config=blobs/sha256/$(jq -r .config.digest "$manifest" | cut -d: -f2)
	facts=facts/${digest#sha256:}.json
	echo >>"$manifest"
	broken "$manifest: broken: its bytes hash to sha256:" 2
	repairs
	echo >>"$config"
	broken "$config: broken: its bytes hash to sha256:" 2
	repairs
	rm "$config"
	broken "$facts: broken: "
	repairs
	echo '{' >"$facts"
	broken "$facts: broken: " 2
	repairs
	sed -i 's/"linux"/"plan9"/' "$facts"
	broken "$facts: broken: it differs from the image's configuration"
	repairs
	rm "$facts"
	broken "images/"
	repairs
}

@test "verify: a whole layer that is gone is missed by its images" {
	rm -r "$top"
	broken "layer sha256:${top#layers/} is not in the store"
	repairs
}

@test "verify: a layer without a record cannot be verified, and is fetched again" {
	rm "$top/meta.zst"
	broken "$top: cannot be verified: made by an older mlrun"
	repairs
	assert [ -s "$top/meta.zst" ]
}

@test "verify: a damaged record is found" {
	head -c 20 "$top/meta.zst" >short
	mv short "$top/meta.zst"
	broken "$top: broken: "
	repairs
}

@test "verify: a file of one tree that is no layer's is named" {
	tree=$(echo dir/*/tree)
	assert [ -f "$tree/real/new" ]
	rm "$tree/real/new"
	echo other >"$tree/real/new"
	broken "${tree%/tree}: broken: files of it are not as in its layers"
	assert_output --partial "  real/new: is not as in any layer"
	repairs
}

@test "verify: one tree that lacks a name, or has another mode or link, is found" {
	tree=$(echo dir/*/tree)
	for change in 'rm real/new' 'mkdir more' 'chmod 700 real' 'ln -sfn nowhere linked'; do
		(cd "$tree" && $change)
		broken "${tree%/tree}: broken: its names are not as they were when it was made"
		repairs
	done
}

@test "verify: a squashfs file that was changed is found and made again, as is each format" {
	needs_squashfs
	mlrun pull -q --format squashfs "$REGISTRY/app"
	file=$(echo squash/*.sqfs)
	printf x | dd of="$file" bs=1 seek=500 conv=notrunc status=none
	broken "$file: broken: its bytes hash to sha256:"
	run -0 mlrun store verify --repair
	run -0 mlrun store verify
	assert_equal "$(echo squash/*.sqfs)" "$file"
	rm -r "$top" "$file"
	run -0 mlrun store verify --repair
	assert [ -d "$top/tree" ]
	assert [ -f "$file" ]
}

@test "verify: a second name for a squashfs file does not make its damage good" {
	needs_squashfs
	mlrun pull -q --format squashfs "$REGISTRY/app"
	file=$(echo squash/*.sqfs)
	printf x | dd of="$file" bs=1 seek=500 conv=notrunc status=none
	mlrun pull -q --format squashfs \
		"$REGISTRY/app@$(mlrun inspect --json "$REGISTRY/app" | jq -r .digest)"
	broken "$file: broken: its bytes hash to sha256:"
}

@test "verify: what no image needs is only removed by --repair" {
	blob=blobs/sha256/$(printf %064d 1)
	echo >"$blob"
	broken "$blob: broken: "
	repairs
	assert [ ! -e "$blob" ]
}

@test "verify: an image brought by its digest keeps its name when the tag has moved on" {
	image_push_tar moving "$BATS_FILE_TMPDIR/tiny.tar" "$BATS_FILE_TMPDIR/top.tar"
	mlrun pull -q "$REGISTRY/moving"
	mlrun tag "$REGISTRY/moving" mine
	digest=$(mlrun inspect --json "$REGISTRY/moving" | jq -r .digest)
	image_push_tar -c --config.env -c A=b moving "$BATS_FILE_TMPDIR/tiny.tar"
	rm -r "$top"
	repairs
	assert_equal "$(mlrun inspect --json "$REGISTRY/moving" | jq -r .digest)" "$digest"
	assert_equal "$(mlrun inspect --json mine | jq -r .digest)" "$digest"
}

@test "verify: what a running container needs stays" {
	mlrun exec "$REGISTRY/app" sh -c 'echo started; exec sleep 600' >started 3>&- &
	container=$!
	until [ -s started ]; do sleep 0.05; done
	rm started "$top/meta.zst"
	run -125 mlrun store verify --repair
	assert_output --partial "'$top' was left in place: process $container runs in '$REGISTRY/app:latest'"
	kill "$container"
	wait "$container" || true
	repairs
}

@test "verify: an extended attribute that was changed, or added, is found" {
	mkdir -p attr/dir
	echo x >attr/file
	setfattr -n user.note -v right attr/file 2>/dev/null || skip "no user xattrs here"
	setfattr -n user.note -v right attr/dir
	echo y >attr/none
	tar -C attr --xattrs --xattrs-include='user.*' -cf attr.tar .
	rm -r attr
	tree=layers/$(sha256sum <attr.tar | cut -d' ' -f1)/tree
	mlrun import -q attr.tar attr
	run -0 mlrun store verify
	setfattr -n user.note -v wrong "$tree/file"
	run -125 mlrun store verify
	assert_output --partial "file: has other extended attributes"
	setfattr -n user.note -v right "$tree/file"
	setfattr -n user.other -v x "$tree/none"
	run -125 mlrun store verify
	assert_output --partial "none: has other extended attributes"
	setfattr -x user.other "$tree/none"
	setfattr -n user.note -v '' "$tree/dir"
	run -125 mlrun store verify
	assert_output --partial "dir: has other extended attributes"
	setfattr -n user.note -v right "$tree/dir"
	run -0 mlrun store verify
}

@test "verify: what was noted beside a layer is looked at" {
	for note in implicit hiding; do
		printf 'a\0' >>"$top/$note"
		run -125 mlrun store verify
		assert_output --partial "what was noted beside its tree was changed"
		repairs
	done
	rm "$top/notes" # as an older mlrun would leave it
	run -0 mlrun store verify
}

@test "verify: ends with the status of the signal that interrupts it" {
	truncate -s 1G big
	tar -cf big.tar big
	rm big
	mlrun import -q big.tar big
	for options in "" --repair; do
		# shellcheck disable=SC2086
		for _ in {1..20}; do
			mlrun store verify $options >said 2>&1 3>&- &
			until_true has_moved $! rchar 10000000
			kill -TERM $! || true
			status=0
			wait $! || status=$?
			[ "$status" = 0 ] || break # else it was faster
		done
		assert_equal "$status" 143
		run -0 cat said
		assert_output --partial "store verify: interrupted"
	done
}

@test "verify: wrong use is told" {
	run -125 mlrun store
	assert_output --partial "missing what to do with the store: verify"
	run -125 mlrun store burn
	assert_output --partial "'burn': verify is the only thing to do with a store"
}

@test "verify: --store is the store that is looked at and mended, --tls-verify is true or false" {
	store=$MLRUN_STORE
	echo X >>"$top/tree/two"
	export MLRUN_STORE=$BATS_TEST_TMPDIR/other
	mlrun pull -q "$REGISTRY/tiny"
	run -0 mlrun store verify
	run -125 mlrun store verify --store "$store"
	assert_output --partial "broken: 'twin'"
	run -0 mlrun store verify --repair --tls-verify=false --store "$store"
	run -0 mlrun store verify --store "$store"
	run -125 mlrun store verify --tls-verify=perhaps --store "$store"
	assert_output --partial "'perhaps'"
}

@test "verify: what was put into the tree is found, wherever it lies" {
	mkdir -p root/d root/w
	echo kept >root/d/f
	touch root/d/.wh..wh..opq root/d/.wh.q root/w/.wh.gone
	tar --owner=0 --group=0 -C root -cf layer.tar d w
	mlrun import -q layer.tar layered
	tree=$MLRUN_STORE/layers/$(sha256sum <layer.tar | cut -d" " -f1)/tree
	[ -d "$tree" ] || skip "the store keeps no trees here"
	run -0 mlrun store verify
	mkdir -p "$tree/extra/deep"
	echo evil >"$tree/extra/deep/sh"
	rm -f "$tree/d/q"
	echo evil >"$tree/d/q"
	run -125 mlrun store verify
	assert_output --partial "extra/deep/sh: is not in the layer"
	assert_output --partial "d/q: is not in the layer"
	rm -r "$tree/extra" "$tree/d/q"
	run -0 mlrun store verify
	rm "$tree/w/gone"
	mkdir "$tree/w/gone"
	run -125 mlrun store verify
	assert_output --partial "w/gone: shows what the layers below have in it"
}

@test "verify: a directory that a layer names twice keeps the attributes of both" {
	python3 - <<-'END'
	import tarfile
	t = tarfile.open("twice.tar", "w", format=tarfile.PAX_FORMAT)
	for attributes in {"SCHILY.xattr.user.a": "b"}, {}, {"SCHILY.xattr.user.c": "d"}:
	    d = tarfile.TarInfo("xd")
	    d.type, d.mode, d.pax_headers = tarfile.DIRTYPE, 0o755, attributes
	    t.addfile(d)
	t.close()
	END
	mlrun import -q twice.tar twice
	run -0 mlrun store verify
}

@test "verify: a time that the file system cannot keep is no damage" {
	mkdir root
	echo old >root/old
	tar --format=pax --owner=0 --group=0 --mtime=@-5000000000 -C root -cf times.tar old
	echo new >root/new
	tar --format=pax --owner=0 --group=0 --mtime=@25000000000 -C root -rf times.tar new
	mlrun import -q times.tar times
	run -0 mlrun store verify
	run -0 mlrun export -q times back.tar
	run -0 mlrun store verify --repair
	touch -d 2001-01-01 "$MLRUN_STORE/layers/$(sha256sum <times.tar | cut -d" " -f1)/tree/old"
	run -125 mlrun store verify
	assert_output --partial "old: was changed (its time differs)"
}
