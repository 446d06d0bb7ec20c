#!/usr/bin/env bats
# Images that lie in files: mlrun pull oci:, oci-archive:, docker-archive:, and mlrun import.

load common

# One image in every shape, made by umoci and skopeo.
setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	tiny_root root
	echo gone >root/etc/gone
	layer_tar one.tar root
	mkdir -p more/etc && echo two >more/etc/two && touch more/etc/.wh.gone
	layer_tar two.tar more
	image_layout lay one.tar two.tar
	image_config lay --config.env PATH=/bin --config.env TINY=yes --config.cmd /bin/sh
	copy oci:lay:latest oci-archive:plain.tar:team/app:1.0
	gzip -k plain.tar
	zstd -q plain.tar
	copy oci:lay:latest docker-archive:docker.tar:team/app:1.0
	gzip -k docker.tar
	copy docker-archive:docker.tar docker-archive:latest.tar:app
	copy oci:lay:latest oci:two:a
	copy oci:lay:latest oci:two:docker.io/library/b:2
}

copy() { skopeo --insecure-policy copy -q "$@"; }

# here FILE...: what the file made, into the directory of the test
here() { cp -a "${@/#/$BATS_FILE_TMPDIR/}" .; }

manifest_of() { skopeo inspect --raw "$1" | sha256sum | cut -d' ' -f1; }

pulled_name() { mlrun pull -q --json "$1" | jq -r .name; }

# check_tree NAME: the files and the environment as both layers and the configuration say
check_tree() {
	run -0 mlrun exec "$1" /bin/sh -c 'echo $TINY; cat /etc/two; ls /etc'
	assert_line yes
	assert_line two
	assert_line os-release
	refute_line gone
}

# edit_index LAYOUT JQ-PROGRAM
edit_index() {
	jq -c "$2" "$1/index.json" >new.json
	mv new.json "$1/index.json"
}

blob_path() { echo "$1/blobs/sha256/${2#sha256:}"; }

@test "oci: a layout is pulled by its only name, or the one given, with its own digest" {
	here lay
	run -0 mlrun pull --json oci:lay
	assert_equal "$(jq -r .name <<<"${lines[-1]}")" localhost/lay:latest
	assert_equal "$(jq -r .digest <<<"${lines[-1]}")" "sha256:$(manifest_of oci:lay:latest)"
	check_tree localhost/lay
	run -0 mlrun pull oci:lay:latest
	assert_output --partial "'localhost/lay:latest' is up to date"
	run -125 mlrun pull oci:lay:nothing
	assert_line "mlrun: pull 'oci:lay:nothing': no image 'nothing' in it"
	assert_line "hint: there are: latest; name one as oci:DIR:REF or oci-archive:FILE:REF"
}

@test "oci: of several images one must be named, and @N counts them" {
	here two
	run -125 mlrun pull oci:two
	assert_line "mlrun: pull 'oci:two': 2 images: which one?"
	assert_line "hint: there are: a, docker.io/library/b:2; name one as oci:DIR:REF or oci-archive:FILE:REF"
	assert_equal "$(pulled_name oci:two:a)" localhost/two:a
	assert_equal "$(pulled_name oci:two:b:2)" docker.io/library/b:2
	mlrun rm b:2
	assert_equal "$(pulled_name oci:two:@1)" docker.io/library/b:2
	run -125 mlrun pull oci:two:@2
	assert_output --partial "no image '@2' in it"
}

@test "oci: names decide what the store calls an image" {
	here lay
	for case in \
		'null=localhost/lay:latest' '"1.0"=localhost/lay:1.0' \
		'"quay.io/team/x:3"=quay.io/team/x:3' '"team/x"=localhost/team/x:latest' \
		'"quay.io/team/x@sha256:0000000000000000000000000000000000000000000000000000000000000000"=quay.io/team/x:latest' \
		'"No Tag!"=localhost/lay:latest'; do
		edit_index lay ".manifests[0].annotations = {\"org.opencontainers.image.ref.name\": ${case%%=*}}"
		assert_equal "$(pulled_name oci:lay)" "${case#*=}"
	done
	edit_index lay '.manifests[0].annotations = {"org.opencontainers.image.ref.name": "12",
		"io.containerd.image.name": "docker.io/library/d:12"}'
	assert_equal "$(pulled_name oci:lay)" docker.io/library/d:12
	assert_equal "$(pulled_name oci:lay:12)" docker.io/library/d:12
	assert_equal "$(pulled_name oci:lay:d:12)" docker.io/library/d:12
	mv lay 'My  Project_2.0.oci'
	edit_index 'My  Project_2.0.oci' 'del(.manifests[0].annotations)'
	assert_equal "$(pulled_name 'oci:My  Project_2.0.oci')" localhost/my-project_2.0:latest
}

@test "oci: an index in the layout, or index.json itself, is searched for the platform" {
	here lay
	manifest=$(jq -c '.manifests[0] | del(.annotations)' lay/index.json)
	arm=$(jq -c '.platform = {os: "linux", architecture: "arm64"}' <<<"$manifest")
	amd=$(jq -c '.platform = {os: "linux", architecture: "amd64"}' <<<"$manifest")
	printf '{"schemaVersion":2,"manifests":[%s,%s]}' "$arm" "$amd" >lay/index.json
	run -0 mlrun pull --json oci:lay
	assert_equal "$(jq -r .platform <<<"${lines[-1]}")" linux/amd64
	assert_equal "$(jq -r .index <<<"${lines[-1]}")" "$(sha256_of lay/index.json)"

	digest=$(sha256_of lay/index.json)
	size=$(stat -c %s lay/index.json)
	mv lay/index.json "$(blob_path lay "$digest")"
	printf '{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"%s","size":%d}]}' \
		"$digest" "$size" >lay/index.json
	run -0 mlrun pull --json oci:lay
	assert_equal "$(jq -r .index <<<"${lines[-1]}")" "$digest"
	run -125 mlrun pull --platform linux/s390x oci:lay
	assert_output --partial "the image does not exist for linux/s390x; it does for: linux/arm64, linux/amd64"
}

@test "oci: one name with a manifest a platform means the wanted platform's" {
	here lay
	edit_index lay '.manifests = [.manifests[0] | .platform = {os: "linux", architecture: "arm64"}] +
		[.manifests[0] | .platform = {os: "linux", architecture: "amd64"}]'
	run -125 mlrun pull oci:lay
	assert_output --partial "2 images: which one?"
	run -0 mlrun pull oci:lay:latest
}

@test "oci: what is no layout, or of another version, is told" {
	mkdir -p not
	run -125 mlrun pull oci:not
	assert_line "mlrun: pull 'oci:not': no OCI layout: there is no file 'oci-layout'"
	run -125 mlrun pull oci:none
	assert_output --partial "open 'none': No such file or directory"
	run -125 mlrun pull oci:
	assert_output --partial "a path is missing"
	run -125 mlrun pull oci:x:
	assert_output --partial "nothing follows the last ':'"
	here lay plain.tar
	run -125 mlrun pull oci:plain.tar
	assert_output --partial "'plain.tar' is not a directory"
	run -125 mlrun pull oci-archive:lay
	assert_output --partial "'lay' is a directory"
	echo '{"imageLayoutVersion": "2.0.0"}' >lay/oci-layout
	run -125 mlrun pull oci:lay
	assert_output --partial "a layout of version '2.0.0', not 1.0.0"
	echo '{"imageLayoutVersion": "1.0.0"}' >lay/oci-layout
	echo '{"schemaVersion":2,"manifests":[],"layers":[]}' >lay/index.json
	run -125 mlrun pull oci:lay
	assert_output --partial "index.json: the document is a manifest and an index at once"
}

@test "oci: damaged, missing, oversized and lying blobs are refused, and nothing is kept" {
	here lay
	manifest=$(blob_path lay "$(jq -r '.manifests[0].digest' lay/index.json)")
	layer=$(blob_path lay "$(jq -r '.layers[1].digest' "$manifest")")
	cp -a lay good

	printf x | dd of="$layer" bs=1 seek=20 conv=notrunc status=none
	run -125 mlrun pull oci:lay
	assert_output --partial "its bytes hash to sha256:"
	truncate -s -1 "$layer"
	run -125 mlrun pull oci:lay
	assert_output --regexp 'blob sha256:[0-9a-f]+: [0-9]+ bytes instead of the [0-9]+ that the manifest says'
	rm "$layer"
	run -125 mlrun pull oci:lay
	assert_output --partial "open 'blobs/sha256/${layer##*/}': No such file or directory"
	rm -r lay && cp -a good lay
	echo >>"$manifest"
	run -125 mlrun pull oci:lay
	assert_output --partial "its bytes hash to"
	rm -r lay && cp -a good lay
	edit_index lay '.manifests[0].size += 1'
	run -125 mlrun pull oci:lay
	assert_output --partial "that index.json says"
	edit_index lay '.manifests[0].size = -1'
	run -125 mlrun pull oci:lay
	assert_output --partial 'size: expected a whole number from 0 to 4398046511104, found -1'
	sed -i 's/"size":-1/"size":9000000000000000000/' lay/index.json
	run -125 mlrun pull oci:lay
	assert_output --partial 'from 0 to 4398046511104, found 9000000000000000000'
	truncate -s 5000000 lay/index.json
	run -125 mlrun pull oci:lay
	assert_output --partial "'index.json': 5000000 bytes, the limit is 4194304"
	run -0 mlrun images --json
	assert_output '[]'
}

@test "oci: no symlink leads out of the layout, and a fifo does not hold it up" {
	here lay
	manifest=$(blob_path lay "$(jq -r '.manifests[0].digest' lay/index.json)")
	layer=$(blob_path lay "$(jq -r '.layers[0].digest' "$manifest")")
	mv "$layer" outside
	ln -s "$PWD/outside" "$layer"
	run -125 mlrun pull oci:lay
	assert_output --partial "No such file or directory"
	ln -sf ../../../outside "$layer"
	run -125 mlrun pull oci:lay
	assert_output --partial "No such file or directory"
	rm "$layer" && mkfifo "$layer"
	run -125 timeout 120 mlrun pull oci:lay
	assert_output --partial "is not a file"
	rm "$layer" && cp outside "$layer"
	mv lay/index.json secret
	ln -s "$PWD/secret" lay/index.json
	run -125 mlrun pull oci:lay
	assert_output --partial "open 'index.json'"
	rm lay/index.json && mv secret lay/real && ln -s real lay/index.json
	run -0 mlrun pull oci:lay
}

@test "oci-archive: plain, gzip and zstd give the layout's digest and tree" {
	here plain.tar plain.tar.gz plain.tar.zst
	for f in plain.tar plain.tar.gz plain.tar.zst; do
		run -0 mlrun --version
		export MLRUN_STORE=$PWD/store-$f
		run -0 mlrun pull --json "oci-archive:$f"
		assert_equal "$(jq -r .name <<<"${lines[-1]}")" localhost/team/app:1.0
		assert_equal "$(jq -r .digest <<<"${lines[-1]}")" "sha256:$(manifest_of oci-archive:plain.tar)"
		check_tree "oci-archive:$f"
		run -0 find "$MLRUN_STORE/tmp" -mindepth 1
		assert_output ''
	done
}

@test "oci-archive: truncated, damaged and foreign archives are told" {
	here plain.tar plain.tar.gz docker.tar
	head -c 20000 plain.tar >cut.tar
	run -125 mlrun pull oci-archive:cut.tar
	# Where skopeo writes that file last, it is missing.
	assert_output --regexp "Truncated|ends before it does|there is no file 'oci-layout'"
	head -c 20000 plain.tar.gz >cut.tar.gz
	run -125 mlrun pull oci-archive:cut.tar.gz
	assert_output --partial "decompress: truncated gzip input"
	head -c 5000 /dev/urandom | tr -d '\0' >noise
	run -125 mlrun pull oci-archive:noise
	assert_output --partial "Unrecognized archive format"
	run -125 mlrun pull oci-archive:docker.tar
	assert_output --partial "hint: what docker save writes is read as docker-archive:FILE"
}

@test "docker-archive: has the digest that skopeo gives it, and Docker's idea of a name" {
	here docker.tar docker.tar.gz latest.tar
	run -0 mlrun pull --json docker-archive:docker.tar
	assert_equal "$(jq -r .name <<<"${lines[-1]}")" docker.io/team/app:1.0
	assert_equal "$(jq -r .digest <<<"${lines[-1]}")" "sha256:$(manifest_of docker-archive:docker.tar)"
	check_tree team/app:1.0
	run -0 mlrun pull docker-archive:docker.tar.gz
	assert_output --partial "'docker.io/team/app:1.0' is up to date"
	run -0 mlrun pull docker-archive:docker.tar:team/app:1.0
	assert_equal "$(pulled_name docker-archive:latest.tar)" docker.io/library/app:latest
	run -125 mlrun pull docker-archive:docker.tar:team/app:2
	assert_line "hint: the archive has: docker.io/team/app:1.0; name one as docker-archive:FILE:REF"
	here plain.tar
	run -125 mlrun pull docker-archive:plain.tar
	assert_output --partial "there is no file 'manifest.json'"
}

# A docker-archive by hand. save FILE LAYER-FILE...: the members' names are the files' own.
save() {
	local out=$1

	shift
	tar -cf "$out" --transform 's,^\./,,' "$@"
}

config() {
	printf '{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/bin","TINY=yes"]},"rootfs":{"type":"layers","diff_ids":["%s","%s"]}}' \
		"$(sha256_of "$BATS_FILE_TMPDIR/one.tar")" "$(sha256_of "$BATS_FILE_TMPDIR/two.tar")"
}

@test "docker-archive: layers as links, compressed ones, and names of no digest" {
	mkdir a b c
	config >config.json
	here one.tar two.tar
	mv one.tar a/layer.tar
	gzip -c two.tar >b/layer.tar
	ln -s ../a/layer.tar c/layer.tar
	echo '[{"Config":"config.json","RepoTags":null,"Layers":["a/layer.tar","b/layer.tar"]}]' >manifest.json
	save odd.tar manifest.json config.json a b c
	run -0 mlrun pull --json docker-archive:odd.tar
	assert_equal "$(jq -r .name <<<"${lines[-1]}")" localhost/odd:latest
	digest=$(jq -r .digest <<<"${lines[-1]}")
	assert_equal "$digest" "sha256:$(manifest_of docker-archive:odd.tar)"
	sed -i 's,a/layer,c/layer,' manifest.json
	save odd.tar manifest.json config.json a b c
	run -0 mlrun pull --json docker-archive:odd.tar
	assert_equal "$(jq -r .digest <<<"${lines[-1]}")" "$digest"
	check_tree odd
	ln -f a/layer.tar c/hard.tar
	sed -i 's,c/layer,c/hard,' manifest.json
	save hard.tar manifest.json config.json a b c
	run -0 mlrun pull docker-archive:hard.tar
}

@test "docker-archive: newer Docker's, an OCI layout with a manifest.json, is read as both" {
	here lay
	manifest=$(blob_path lay "$(jq -r '.manifests[0].digest' lay/index.json)")
	jq -c '[{Config: ("blobs/sha256/" + .config.digest[7:]), RepoTags: ["team/app:1"],
		Layers: [.layers[] | "blobs/sha256/" + .digest[7:]]}]' "$manifest" >lay/manifest.json
	tar -C lay -cf both.tar .
	run -0 mlrun pull docker-archive:both.tar
	check_tree docker.io/team/app:1
	run -0 mlrun pull oci-archive:both.tar
	check_tree localhost/both
}

@test "docker-archive: lies and links out of it are refused" {
	config >config.json
	here one.tar two.tar
	manifest() { printf '[{"Config":"%s","RepoTags":["x:1"],"Layers":%s}]' "$1" "$2" >manifest.json; }

	manifest config.json '["two.tar","one.tar"]'
	save lie.tar manifest.json config.json one.tar two.tar
	run -125 mlrun pull docker-archive:lie.tar
	assert_output --partial "bytes hash to sha256:"

	ln -s /etc/passwd out.tar
	manifest config.json '["out.tar","two.tar"]'
	save out1.tar manifest.json config.json out.tar two.tar
	run -125 mlrun pull docker-archive:out1.tar
	assert_output --partial "no file 'out.tar' in the archive"

	ln -sf loop loop2 && ln -sf loop2 loop
	manifest config.json '["loop","two.tar"]'
	save loop.tar manifest.json config.json loop loop2 two.tar
	run -125 mlrun pull docker-archive:loop.tar
	assert_output --partial "too many links"

	manifest "$(printf %064d 0).json" '["one.tar","two.tar"]'
	cp config.json "$(printf %064d 0).json"
	save name.tar manifest.json "$(printf %064d 0).json" one.tar two.tar
	run -125 mlrun pull docker-archive:name.tar
	assert_output --partial "its bytes hash to"

	manifest config.json '["one.tar"]'
	save few.tar manifest.json config.json one.tar
	run -125 mlrun pull docker-archive:few.tar
	assert_output --partial "manifest.json has 1 layers, the configuration 2"

	manifest ../../config.json '["one.tar","two.tar"]'
	save up.tar manifest.json config.json one.tar two.tar
	run -125 mlrun pull docker-archive:up.tar
	assert_output --partial "no file '../../config.json' in the archive"
}

@test "docker-archive: of several images one must be named" {
	here docker.tar
	config >config.json
	here one.tar two.tar
	echo '[{"Config":"config.json","RepoTags":["x:1","x:2"],"Layers":["one.tar","two.tar"]},
		{"Config":"config.json","RepoTags":["y"],"Layers":["one.tar","two.tar"]}]' >manifest.json
	save two.tar.new manifest.json config.json one.tar two.tar
	run -125 mlrun pull docker-archive:two.tar.new
	assert_line "hint: the archive has: x:1, y; name one as docker-archive:FILE:REF"
	assert_equal "$(pulled_name docker-archive:two.tar.new:x:2)" docker.io/library/x:2
	assert_equal "$(pulled_name docker-archive:two.tar.new:@1)" docker.io/library/y:latest
}

@test "exec: an image from a file runs by the file's name once it is pulled, and says so before" {
	here lay plain.tar
	run -125 mlrun exec --pull=never oci:lay true
	assert_output --partial "hint: mlrun pull oci:lay"
	mlrun pull -q oci:lay
	run -0 mlrun exec oci:lay echo works
	run -0 mlrun exec "oci:$PWD/lay" echo works
	run -125 mlrun exec --pull=never oci:lay:other true
	run -0 mlrun inspect --json oci:lay
	assert_equal "$(jq -r .source <<<"$output")" "oci:$PWD/lay"
	mv lay gone
	run -0 mlrun exec oci:lay echo works
	assert_output works
	run -0 mlrun rm oci:lay
	assert_output "mlrun: removed 'localhost/lay:latest'"
	run -125 mlrun rm oci:lay
	assert_output --partial "no image from 'oci:$PWD/lay' is in store"
}

@test "exec: the store's own image is found before Docker Hub's of the same name" {
	here lay docker.tar
	mlrun import -q lay app
	run -0 mlrun exec app cat /etc/two
	mlrun pull -q docker-archive:docker.tar
	mlrun import -q docker.tar team/app:1.0
	run -0 mlrun inspect --json team/app:1.0
	assert_equal "$(jq -r .name <<<"$output")" localhost/team/app:1.0
	run -0 mlrun inspect --json docker.io/team/app:1.0
	assert_equal "$(jq -r .name <<<"$output")" docker.io/team/app:1.0
	mlrun rm team/app:1.0
	run -0 mlrun inspect --json team/app:1.0
	assert_equal "$(jq -r .name <<<"$output")" docker.io/team/app:1.0
}

@test "import: finds out what a file is, and gives it the name asked for" {
	here lay plain.tar plain.tar.zst docker.tar.gz
	for f in lay plain.tar plain.tar.zst docker.tar.gz oci:lay oci-archive:plain.tar; do
		run -0 mlrun import --json "$f" "made:${f//[:\/]/-}"
		assert_equal "$(jq -r .name <<<"${lines[-1]}")" "localhost/made:${f//[:\/]/-}"
		check_tree "made:${f//[:\/]/-}"
	done
	run -0 mlrun import --json docker.tar.gz
	assert_equal "$(jq -r .name <<<"${lines[-1]}")" docker.io/team/app:1.0
	run -0 mlrun import --json plain.tar quay.io/a/b
	assert_equal "$(jq -r .name <<<"${lines[-1]}")" quay.io/a/b:latest
}

@test "import: a tar of a root directory becomes an image of one layer, also from a pipe" {
	here one.tar
	run -0 mlrun import --json one.tar
	assert_equal "$(jq -r .name <<<"${lines[-1]}")" localhost/one:latest
	digest=$(jq -r .digest <<<"${lines[-1]}")
	run -0 mlrun inspect --json one
	assert_equal "$(jq -r '.layers[].diff_id' <<<"$output")" "$(sha256_of one.tar)"
	run -0 mlrun exec one /bin/cat /etc/os-release
	assert_output NAME=tiny
	xz -k one.tar
	run -0 bash -c 'mlrun import --json - piped:1 <one.tar.xz'
	assert_equal "$(jq -r .digest <<<"${lines[-1]}")" "$digest"
	run -0 bash -c 'cat one.tar | mlrun import --json - piped:2'
	assert_equal "$(jq -r .digest <<<"${lines[-1]}")" "$digest"
	run -0 mlrun import --platform linux/arm64 one.tar arm
	run -0 mlrun inspect --json arm
	assert_equal "$(jq -r .platform <<<"$output")" linux/arm64
}

# Is it mlrun by now, and does it end in order on SIGTERM (proc(5), SigCgt)?
catches_term() {
	[[ $(cat "/proc/$1/comm") == mlrun* ]] &&
		((0x$(sed -n 's/^SigCgt:\t//p' "/proc/$1/status") & 1 << 14))
}

# cut_tar IN OUT MEMBERS: the first members alone, without an end; at_end TAR BLOCKS: zero blocks added
cut_tar() {
	python3 - "$@" <<-'END'
		import sys, tarfile
		with tarfile.open(sys.argv[1]) as t:
		    m = t.getmembers()[int(sys.argv[3]) - 1]
		    end = m.offset_data + (m.size + 511) // 512 * 512 if m.isreg() else m.offset_data
		open(sys.argv[2], "wb").write(open(sys.argv[1], "rb").read()[:end])
	END
}

at_end() { head -c $((512 * $2)) /dev/zero >>"$1"; }

@test "import: a tar that was cut between two members is no image" {
	here one.tar docker.tar plain.tar
	cut_tar one.tar cut.tar 5
	tar -tf cut.tar # nobody else minds
	gzip -k cut.tar
	zstd -q cut.tar
	xz -k cut.tar
	for f in cut.tar cut.tar.gz cut.tar.zst cut.tar.xz; do
		run -125 mlrun import "$f" x
		assert_line "mlrun: import '$f': the tar is cut short: no end-of-archive mark follows its last member"
		assert_line --regexp '^hint: .*head -c 1024 /dev/zero >>FILE'
		run -125 mlrun import - x <"$f"
		assert_output --partial "the tar is cut short"
	done
	run -0 mlrun images --json
	assert_output '[]'
	# As an end that is cut itself, as GNU tar's, and as a tar of nothing.
	at_end cut.tar 1
	run -0 mlrun import cut.tar x
	at_end cut.tar 1
	run -0 mlrun import cut.tar y
	tar -cf none.tar -T /dev/null
	run -0 mlrun import none.tar z
}

@test "import: an archive that was cut between two members is whole if it has what the image names" {
	here docker.tar plain.tar
	n=$(tar -tf docker.tar | wc -l)
	cut_tar docker.tar cut.tar "$n"
	run -0 mlrun import cut.tar all
	cut_tar docker.tar cut.tar 1
	run -125 mlrun import cut.tar x
	assert_output --partial "cut short"
	run -125 mlrun pull docker-archive:cut.tar
	assert_output --partial "manifest.json"
	mkdir lay && tar -C lay -xf plain.tar
	tar -C lay -cf whole.tar oci-layout index.json blobs
	cut_tar whole.tar cut.tar 2
	run -125 mlrun pull oci-archive:cut.tar
	assert_output --partial "in the archive, which is cut short"
}

@test "import: from a terminal nothing is read, and an idle pipe does not hold up a signal" {
	run -125 script -qec "mlrun import - x" /dev/null
	assert_output --partial "an archive is nothing that is typed"
	mkfifo idle
	exec {hold}<>idle
	mlrun import - x <idle 2>said 3>&- &
	until_true catches_term $!
	SECONDS=0
	kill -TERM $!
	rc=0
	wait $! || rc=$?
	exec {hold}>&-
	assert_equal "$rc" 143
	assert [ $SECONDS -lt 100 ]
	run -0 cat said
	assert_output "mlrun: import '-': interrupted"
}

@test "import: a wrong platform is told with the file's name" {
	here docker.tar
	run -125 mlrun import --platform bogus docker.tar x
	assert_output --partial "import 'docker.tar': 'bogus' is not a platform"
}

@test "pull: an additional store that has the image from another file is not written to" {
	here plain.tar
	cp plain.tar other.tar
	mlrun pull -q --store site oci-archive:plain.tar
	before=$(cat site/images/*)
	export MLRUN_STORES=$PWD/site
	run -0 mlrun pull oci-archive:other.tar
	assert_output --partial "is up to date in store '$PWD/site'"
	assert_equal "$(cat site/images/*)" "$before"
	chmod a-w site/images
	run -0 mlrun pull oci-archive:other.tar
	chmod u+w site/images
}

@test "import: what is no image is told, with the way out" {
	mkdir dir
	run -125 mlrun import dir x
	assert_output --partial "mlrun exec rootfs:dir"
	printf 'hsqs0000000000' >x.sqfs
	run -125 mlrun import x.sqfs x
	assert_output --partial "hint: mlrun exec squashfs:x.sqfs runs it as it is"
	run -125 mlrun import docker://debian x
	assert_output --partial "mlrun pull brings it"
	run -125 mlrun import /dev/null x
	run -125 mlrun import x.sqfs x@sha256:0000000000000000000000000000000000000000000000000000000000000000
	assert_output --partial "an image cannot be given a digest as its name"
	run -125 mlrun import x.sqfs a b
	run -125 mlrun import
}

@test "import: has no options for registries, and says what is missing" {
	run -0 mlrun import --help
	refute_output --partial "authfile"
	refute_output --partial "tls-verify"
	run -125 mlrun import --authfile x y
	run -125 mlrun import
	assert_output --partial "a file is missing"
}

@test "import: a link to a name that no system call takes is refused in the same words by every format" {
	local format said=

	python3 - <<-'EOF'
		import tarfile
		for name, size in ("long", 200000), ("most", 4095):
		    with tarfile.open(name + ".tar", "w", format=tarfile.PAX_FORMAT) as t:
		        link = tarfile.TarInfo("link")
		        link.type, link.linkname = tarfile.SYMTYPE, "a" * size
		        t.addfile(link)
	EOF
	for format in layers dir squashfs; do
		[ "$format" != squashfs ] || has_squashfs || continue
		run -125 mlrun import --format="$format" long.tar "long-$format"
		assert_output --partial "a symlink to a name of 200000 bytes, where 4095 are the most"
		assert_equal "${said:-${output//long-$format/}}" "${output//long-$format/}"
		said=${output//long-$format/}
		mlrun import -q --format="$format" most.tar "most-$format"
	done
}
