#!/usr/bin/env bats
# mlrun pull: what layers hold, from honest to evil. What unpacking does with each kind of member:
# tests/unit/test_layer.c and test_layer_evil.c.

load common

setup_file() {
	command -v python3 >/dev/null || {
		skip_file "python3 is not installed"
		return
	}
	registry_start
}

setup() {
	common_setup
	cd "$BATS_TEST_TMPDIR" || return
	mkdir outside
	echo safe >outside/file
	touch -d 2001-01-01T00:00:00Z outside outside/file
}

teardown_file() { registry_stop; }

# evil NAME < PYTHON: push an image of one layer, made by python with add(name, type, data, **fields).
evil() {
	python3 -c '
import io, sys, tarfile
tar = tarfile.open(sys.argv[1], "w", format=tarfile.PAX_FORMAT)
def add(name, type=tarfile.REGTYPE, data=b"", **fields):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode = type, len(data), 0o755
    for key, value in fields.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(data))
exec(sys.stdin.read())
tar.close()' "$1.tar"
	image_push_tar "$1" "$1.tar"
}

assert_outside_is_safe() {
	assert_equal "$(find outside -printf '%P %y %TY\n' | sort)" $' d 2001\nfile f 2001'
	assert_equal "$(<outside/file)" safe
}

assert_nothing_stored() {
	assert_equal "$(mlrun images --json)" '[]'
	run -0 find "$MLRUN_STORE"/{layers,tmp,facts} -mindepth 1
	assert_output ''
}

@test "layers: one that climbs out by a name or a hard link is refused, and nothing is left of it" {
	evil dotdot <<<"add('a/../../outside/file', data=b'evil')"
	evil link <<<"add('f', tarfile.LNKTYPE, linkname='../../../../outside/file')"
	evil whiteout <<<"add('a/.wh...')"
	for case in "dotdot 'a/../../outside/file': a path with '..'" \
		"link hard link to '../../../../outside/file': a path with '..'" \
		"whiteout 'a/.wh...': a whiteout of no name"; do
		run -125 mlrun pull "$REGISTRY/${case%% *}"
		assert_output --partial "layer sha256:"
		assert_output --partial "${case#* }"
	done
	assert_outside_is_safe
	assert_nothing_stored
}

@test "layers: symlinks, also those that change their minds, lead nowhere but into the image" {
	evil links <<-END
		add("abs", tarfile.SYMTYPE, linkname="$PWD/outside")
		add("abs/file", data=b"evil")
		add("abs/.wh.file")
		add("abs/.wh..wh..opq")
		add("up", tarfile.SYMTYPE, linkname="../" * 40 + "$PWD/outside")
		add("up/more", data=b"evil")
		add("$PWD/outside/file", data=b"absolute")
		add("turn", tarfile.DIRTYPE)
		add("turn", tarfile.SYMTYPE, linkname="$PWD/outside")
		add("turn/file", tarfile.LNKTYPE, linkname="up/more")
		add("abs", tarfile.DIRTYPE, mode=0o777)
	END
	run -0 mlrun pull "$REGISTRY/links"
	assert_outside_is_safe
	assert [ -f "$MLRUN_STORE"/layers/*/tree"$PWD/outside/more" ]
}

@test "layers: set-id bits and devices are left out, and the devices told" {
	evil devices <<-END
		add("dev/null", tarfile.CHRTYPE, devmajor=1, devminor=3)
		add("dev/sda", tarfile.BLKTYPE, devmajor=8)
		add("bin/su", data=b"x", mode=0o6755)
		add("pipe", tarfile.FIFOTYPE)
	END
	run -0 mlrun pull "$REGISTRY/devices"
	assert_output --partial "2 devices of the image are left out"
	run -0 bash -c "cd '$MLRUN_STORE'/layers/*/tree && find . -type b -o -type c -o -perm /6000"
	assert_output ''
	assert [ -p "$MLRUN_STORE"/layers/*/tree/pipe ]
}

@test "layers: one that ends in the middle of a member is refused" {
	evil whole <<<"add('f', data=b'x' * 100000)"
	head -c 50000 whole.tar >cut.tar
	image_push_tar cut cut.tar
	run -125 mlrun pull "$REGISTRY/cut"
	assert_output --partial "broken tar: Truncated"
	assert_nothing_stored
}

@test "layers: a gigabyte of zeros is a file like any other" {
	python3 - >diff_id <<-'END'
		import hashlib, tarfile, zlib
		info = tarfile.TarInfo("zeros")
		info.size = 1100 << 20
		z = zlib.compressobj(1, wbits=31)
		sha = hashlib.sha256()
		with open("bomb.gz", "wb") as out:
		    for piece in [info.tobuf()] + 1100 * [bytes(1 << 20)] + [bytes(1024)]:
		        sha.update(piece)
		        out.write(z.compress(piece))
		    out.write(z.flush())
		print("sha256:" + sha.hexdigest())
	END
	config=$(printf '{"architecture":"%s","os":"linux","rootfs":{"type":"layers","diff_ids":["%s"]}}' \
		"$(dpkg --print-architecture)" "$(cat diff_id)" | tee config)
	printf '{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json",
		"digest":"%s","size":%d},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip",
		"digest":"%s","size":%d}]}' "$(registry_blob bomb config)" "${#config}" \
		"$(registry_blob bomb bomb.gz)" "$(stat -c %s bomb.gz)" >manifest
	registry_manifest bomb latest manifest
	run -0 mlrun pull "$REGISTRY/bomb"
	assert_equal "$(stat -c %s "$MLRUN_STORE"/layers/*/tree/zeros)" 1153433600
	rm -r "$MLRUN_STORE"
}

@test "layers: each tree has its record beside it, which holds no data of the tree's files" {
	mkdir -p root/d
	head -c 3000000 /dev/urandom >root/d/noise
	layer_tar root.tar root
	image_push_tar recorded root.tar
	mlrun pull -q "$REGISTRY/recorded"
	record=$(echo "$MLRUN_STORE"/layers/*/meta.zst)
	assert_equal "$(zstd -qdc "$record" | head -n 1)" MLRLAYER1
	assert [ "$(stat -c %s "$record")" -lt 1000 ]
	zstd -qdc "$record" | grep -qa 'd/noise'
}

@test "layers: one whose top directory is closed to its owner is kept, used and imported again" {
	tiny_root closed
	tar -C closed --owner=0 --group=0 --no-recursion --mode=0 -cf closed.tar .
	tar -C closed --owner=0 --group=0 -rf closed.tar bin etc
	mlrun import -q closed.tar one
	mlrun import -q closed.tar two
	run -0 mlrun store verify
	run -0 mlrun exec two /bin/echo hello
	assert_line hello
	mlrun export -q one back.tar
	MLRUN_STORE=$PWD/back mlrun import -q back.tar three
	assert [ -d "back/layers/$(sha256sum <closed.tar | cut -d' ' -f1)" ]
	run -0 mlrun rm one two
	mlrun import -q closed.tar one
}
