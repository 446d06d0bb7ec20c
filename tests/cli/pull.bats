#!/usr/bin/env bats
# mlrun pull against Debian's docker-registry, and mlrun images, inspect, rm, parse-reference.
# Against a registry that misbehaves: pull-hostile.bats.

load common

setup_file() {
	local i

	registry_start
	image_tiny tiny
	image_tiny docker v2s2
	cd "$BATS_FILE_TMPDIR" || return
	for i in 1 2 3; do
		mkdir -p "many$i/d$i"
		(cd "many$i/d$i" && seq 1500 | split -l 1 -a 3 - f && head -c 2000000 /dev/urandom >big)
		layer_tar "many$i.tar" "many$i"
	done
	image_push_tar many many1.tar many2.tar many3.tar
}

teardown_file() { registry_stop; }

# What a store holds, but for its lock file, the leases and what is not on disk yet.
listing() { (cd "$MLRUN_STORE" && find . -mindepth 2 -not -path './leases*' -not -path './unsynced*' | sort); }

# Layers as another pull must find them: names, modes, sizes, times, link targets.
trees() { (cd "$1/layers" && find . -path '*/tree*' -printf '%P %y %m %s %T@ %l\n' | sort); }

# requests_during COMMAND...: what the registry was asked meanwhile, in $requests.
requests_during() {
	local before

	before=$(registry_requests | wc -l)
	"$@"
	requests=$(registry_requests | tail -n +$((before + 1)))
}

@test "pull: brings an image and tells its digest and size" {
	run -0 --separate-stderr mlrun pull "$REGISTRY/tiny"
	assert_output ''
	[[ $stderr =~ "mlrun: pulling '$REGISTRY/tiny:latest': 1 layer, "[0-9.]+" MB" ]]
	[[ $stderr =~ "mlrun: layer "[0-9a-f]{12}": "[0-9.]+" MB in "[0-9.]+" s" ]]
	[[ $stderr =~ "mlrun: pulled '$REGISTRY/tiny:latest': sha256:"[0-9a-f]{64}", "[0-9.]+" MB in "[0-9.]+" s" ]]
	assert [ "$(cat "$MLRUN_STORE"/layers/*/tree/etc/os-release)" = NAME=tiny ]
	run -0 find "$MLRUN_STORE/tmp" -mindepth 1
	assert_output ''
}

@test "pull: a second pull is one HEAD request and changes nothing" {
	mlrun pull -q "$REGISTRY/tiny"
	listing >before
	requests_during run -0 mlrun pull "$REGISTRY/tiny"
	assert_output --partial "'$REGISTRY/tiny:latest' is up to date: sha256:"
	assert_equal "$requests" "HEAD /v2/tiny/manifests/latest"
	diff before <(listing)
}

@test "pull: a damaged manifest or configuration is brought again, as inspect advises" {
	mlrun pull -q "$REGISTRY/tiny"
	manifest=$(mlrun inspect --json "$REGISTRY/tiny" | jq -r .digest)
	manifest=$MLRUN_STORE/blobs/sha256/${manifest#sha256:}
	config=$MLRUN_STORE/blobs/sha256/$(jq -r .config.digest "$manifest" | cut -d: -f2)
	cp "$config" good
	truncate -s 100 "$manifest" "$config"
	run -125 mlrun inspect "$REGISTRY/tiny"
	assert_output --partial "hint: pull the image again"
	mlrun pull -q "$REGISTRY/tiny"
	run -0 mlrun inspect "$REGISTRY/tiny"
	rm "$config"
	mlrun pull -q "$REGISTRY/tiny"
	cmp good "$config"
}

@test "pull: a digest that is in the store needs no request" {
	digest=$(mlrun pull -q --json "$REGISTRY/tiny" | jq -r .digest)
	mlrun pull -q "$REGISTRY/tiny@$digest"
	requests_during run -0 mlrun pull "$REGISTRY/tiny@$digest"
	assert_output --partial "is up to date"
	assert_equal "$requests" ""
}

@test "pull: every manifest request names all four media types" {
	mlrun pull -q "$REGISTRY/tiny"
	# This registry hides OCI manifests from who does not name them.
	run -0 mlrun pull -q "$REGISTRY/tiny"
	run -0 mlrun pull -q "$REGISTRY/docker"
}

@test "pull: the tag that has moved is pulled again, and only what is new" {
	image_push_tar moving "$BATS_FILE_TMPDIR/many1.tar"
	mlrun pull -q "$REGISTRY/moving"
	image_push_tar moving "$BATS_FILE_TMPDIR/many1.tar" "$BATS_FILE_TMPDIR/many2.tar"
	run -0 --separate-stderr mlrun pull --json "$REGISTRY/moving"
	assert_equal "$(jq -c '[.status, .layers, .layers_fetched]' <<<"$output")" '["pulled",2,1]'
	assert_equal "$(mlrun images --json | jq length)" 1
}

@test "pull: Docker's schema 2 and OCI manifests give the same tree" {
	mlrun pull -q "$REGISTRY/tiny"
	trees "$MLRUN_STORE" >oci
	MLRUN_STORE=$PWD/other mlrun pull -q "$REGISTRY/docker"
	diff oci <(trees other)
	run -0 mlrun pull "$REGISTRY/docker"
	assert_output --regexp "1 layer, 1\.[0-9] MB, 1 here already"
}

# Push an image by hand: raw_image NAME LAYER-MEDIA-TYPE LAYER DIFF-ID [ARCH].
raw_image() {
	local arch=${5:-$(dpkg --print-architecture)}

	printf '{"architecture":"%s","os":"linux","rootfs":{"type":"layers","diff_ids":["%s"]}}' "$arch" "$4" >config
	printf '{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json",
		"digest":"%s","size":%d},"layers":[{"mediaType":"%s","digest":"%s","size":%d}]}' \
		"$(registry_blob "$1" config)" "$(stat -c %s config)" "$2" \
		"$(registry_blob "$1" "$3")" "$(stat -c %s "$3")" >manifest
	registry_manifest "$1" latest manifest
}

@test "pull: plain, gzip and zstd layers, also of many members and under a wrong name, give one tree" {
	tar=$BATS_FILE_TMPDIR/many1.tar
	gzip -1 <"$tar" >layer.gz
	split -n 3 "$tar" part.
	for part in part.*; do
		gzip -1 <"$part" >>members.gz
		zstd -q -1 <"$part" >>frames.zst
		printf '\x50\x2a\x4d\x18\x04\0\0\0skip' >>frames.zst
	done
	zstd -q -19 --long=27 <"$tar" >layer.zst
	for image in "plain tar $tar" "gzip tar+gzip layer.gz" "lying tar layer.gz" "members tar+gzip members.gz" \
		"zstd tar+zstd layer.zst" "frames tar+zstd frames.zst" "gzipped tar+gzip layer.zst"; do
		read -r name type file <<<"$image"
		raw_image "$name" "application/vnd.oci.image.layer.v1.$type" "$file" "$(sha256_of "$tar")"
		MLRUN_STORE=$PWD/$name run -0 mlrun pull "$REGISTRY/$name"
		trees "$name" >"trees.$name"
		assert [ -s "trees.$name" ]
		diff trees.plain "trees.$name"
	done
}

@test "pull: a zstd layer with a window of more than 128 MiB, or with garbage at its end, is refused" {
	tar=$BATS_FILE_TMPDIR/many1.tar
	zstd -q -1 --long=28 <"$tar" >wide.zst
	{ zstd -q -1 <"$tar" && echo garbage; } >garbage.zst
	for case in "wide window larger than the 128 MiB allowed" "garbage garbage after the end of the zstd stream"; do
		name=${case%% *}
		raw_image "$name" application/vnd.oci.image.layer.v1.tar+zstd "$name.zst" "$(sha256_of "$tar")"
		run -125 mlrun pull "$REGISTRY/$name"
		assert_output --partial "${case#* }"
	done
	run -0 find "$MLRUN_STORE"/{layers,tmp,facts} -mindepth 1
	assert_output ''
}

@test "pull: an index is searched for this machine's platform, or the one asked for" {
	tar=$BATS_FILE_TMPDIR/many1.tar
	case $(dpkg --print-architecture) in arm64) other=amd64 ;; *) other=arm64 ;; esac
	own=$(raw_image multi application/vnd.oci.image.layer.v1.tar "$tar" "$(sha256_of "$tar")")
	own_size=$(stat -c %s manifest)
	foreign=$(raw_image multi application/vnd.oci.image.layer.v1.tar "$tar" "$(sha256_of "$tar")" $other)
	entry='{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"%s","size":%d,
		"platform":{"os":"%s","architecture":"%s"}}'
	printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":['"$entry,$entry,$entry"']}' \
		"$foreign" "$(stat -c %s manifest)" unknown unknown \
		"$foreign" "$(stat -c %s manifest)" linux $other \
		"$own" "$own_size" linux "$(dpkg --print-architecture)" >index
	index=$(registry_manifest multi latest index application/vnd.oci.image.index.v1+json)

	run -0 --separate-stderr mlrun pull -q --json "$REGISTRY/multi"
	assert_equal "$(jq -r '.digest, .index' <<<"$output")" "$own"$'\n'"$index"
	requests_during mlrun pull -q "$REGISTRY/multi"
	assert_equal "$requests" "HEAD /v2/multi/manifests/latest"

	run -0 --separate-stderr mlrun pull -q --json --platform linux/$other "$REGISTRY/multi"
	assert_equal "$(jq -r '.digest, .platform' <<<"$output")" "$foreign"$'\n'linux/$other

	run -125 mlrun pull --platform linux/s390x "$REGISTRY/multi"
	assert_output --partial "the image does not exist for linux/s390x; it does for: linux/"
	run -125 mlrun pull --platform windows/amd64 "$REGISTRY/multi"
	assert_output --partial "images for 'windows' cannot be run"
	run -125 mlrun pull --platform nonsense "$REGISTRY/multi"
	assert_output --partial "'nonsense' is not a platform"
}

@test "pull: an image for another machine is refused unless asked for" {
	tar=$BATS_FILE_TMPDIR/many1.tar
	raw_image foreign application/vnd.oci.image.layer.v1.tar "$tar" "$(sha256_of "$tar")" s390x
	run -125 mlrun pull "$REGISTRY/foreign"
	assert_output --partial "the image is for linux/s390x, not for linux/"
	assert_output --partial "hint: --platform linux/s390x pulls it nevertheless"
	run -0 mlrun pull --platform linux/s390x "$REGISTRY/foreign"
}

# Change bytes of a blob where the registry keeps it.
corrupt() {
	local file

	file=$(dirname "$REGISTRY_LOG")/data/docker/registry/v2/blobs/sha256/${1:7:2}/${1#sha256:}/data
	printf 'XXXX' | dd of="$file" bs=1 seek="$2" conv=notrunc status=none
}

@test "pull: a corrupted layer is refused and the store stays as it was" {
	seq 100000 >damaged.txt
	mkdir d
	mv damaged.txt d
	layer_tar layer.tar d
	gzip -n1 <layer.tar >layer.gz
	raw_image damaged application/vnd.oci.image.layer.v1.tar+gzip layer.gz "$(sha256_of layer.tar)"
	mlrun pull -q "$REGISTRY/tiny"
	listing >before
	# In the middle of the stream, and in gzip's trailer, which only the digest covers as well.
	for place in 5000 $(($(stat -c %s layer.gz) - 6)); do
		corrupt "$(sha256_of layer.gz)" "$place"
		run -125 mlrun pull "$REGISTRY/damaged"
		assert_output --partial "mlrun: pull '$REGISTRY/damaged:latest': layer sha256:"
		diff before <(listing)
	done
}

@test "pull: a layer with another diff ID than the configuration says is refused" {
	tar=$BATS_FILE_TMPDIR/many1.tar
	raw_image liar application/vnd.oci.image.layer.v1.tar "$tar" "sha256:$(printf '0%.0s' {1..64})"
	run -125 mlrun pull "$REGISTRY/liar"
	assert_output --partial "unpacks to $(sha256_of "$tar"), the image's configuration says sha256:0000"
	assert_equal "$(mlrun images --json)" '[]'
}

@test "pull: wrong names are told with a way out" {
	run -125 mlrun pull "$REGISTRY/tiny:nosuch"
	assert_output --partial "mlrun: pull '$REGISTRY/tiny:nosuch': '$REGISTRY' has no tag 'nosuch' in 'tiny'"
	assert_output --partial "hint: check the spelling"
	run -125 mlrun pull "$REGISTRY/nosuch"
	assert_output --partial "'$REGISTRY' has no tag 'latest' in 'nosuch'"
	run -125 mlrun pull "$REGISTRY/Tiny"
	assert_output --partial "'Tiny' should perhaps be 'tiny'"
	run -125 mlrun pull
	assert_output --partial "an image is missing"
	run -125 mlrun pull --jobs 0 "$REGISTRY/tiny"
	assert_output --partial "--jobs takes a whole number from 1 to 32, not '0'"
	run -125 mlrun pull --tls-verify=perhaps "$REGISTRY/tiny"
	assert_output --partial "--tls-verify takes true or false, not 'perhaps'"
}

@test "pull: several images; one that fails does not keep the others" {
	run -125 --separate-stderr mlrun pull -q --json "$REGISTRY/nosuch" "$REGISTRY/tiny" "$REGISTRY/docker"
	assert_equal "$(jq -sc 'map(.name)' <<<"$output")" "[\"$REGISTRY/tiny:latest\",\"$REGISTRY/docker:latest\"]"
	assert_equal "${#stderr_lines[@]}" 2
}

@test "pull: -q says nothing" {
	run -0 mlrun pull -q "$REGISTRY/tiny"
	assert_output ''
	run -0 mlrun pull -q "$REGISTRY/tiny"
	assert_output ''
}

@test "pull: --json has its keys whether something was fetched or not" {
	keys='["bytes_fetched","digest","formats","index","layers","layers_fetched","name","platform","seconds","size","status","store"]'
	assert_equal "$(mlrun pull -q --json "$REGISTRY/many" | jq -c keys)" "$keys"
	assert_equal "$(mlrun pull -q --json "$REGISTRY/many" | jq -c keys)" "$keys"
}

@test "pull: a terminal shows lines that are redrawn" {
	command -v script >/dev/null || skip "script(1) is not installed"
	run -0 script -qec "mlrun pull $REGISTRY/many" /dev/null
	assert_output --partial $'\033[A'
	assert_output --partial "mlrun: pulled '$REGISTRY/many:latest'"
}

@test "pull: killed at any moment, the next one succeeds and leaves nothing over" {
	MLRUN_STORE=$PWD/whole mlrun pull -q "$REGISTRY/many"
	trees whole >want
	for i in $(seq "$(rounds 12)"); do
		(ends_early && exec mlrun pull -q "$REGISTRY/many") &
		sleep "0.$((RANDOM % 2))$((RANDOM % 10))$((RANDOM % 10))"
		kill -KILL $! || true
		wait $! || true
	done
	run -0 mlrun pull -q "$REGISTRY/many"
	assert_output ''
	diff want <(trees "$MLRUN_STORE")
	run -0 find "$MLRUN_STORE/tmp" -mindepth 1
	assert_output ''
}

# Another process that makes the layer of "tiny", for so many seconds.
hold_layer() {
	mlrun pull -q "$REGISTRY/tiny"
	layer=$(basename "$MLRUN_STORE"/layers/*)
	mlrun rm "$REGISTRY/tiny"
	sleep "$1" 3>&- &
	holder=$!
	mkdir "$MLRUN_STORE/tmp/layer-$layer.lock"
	printf '0123456789abcdef %s' "$(store_hold_of "$holder")" >"$MLRUN_STORE/tmp/layer-$layer.lock/owner"
}

@test "pull: stopped at once while it waits for another process" {
	hold_layer 600
	mlrun pull "$REGISTRY/tiny" 2>said 3>&- &
	until grep -q "waiting for" said; do sleep 0.1; done
	kill -TERM $!
	SECONDS=0
	status=0
	wait $! || status=$?
	kill "$holder" 2>/dev/null || true
	assert_equal "$status" 143
	assert [ "$SECONDS" -lt 100 ]
}

@test "pull: under nohup it outlives the terminal" {
	hold_layer 600
	nohup mlrun pull "$REGISTRY/tiny" >said 2>&1 3>&- &
	until grep -q "waiting for" said; do sleep 0.1; done
	kill -HUP $!
	sleep 0.3
	kill "$holder"
	wait $!
	grep -q "pulled '$REGISTRY/tiny:latest'" said
}

@test "pull: the limit on file sizes ends it with a sentence" {
	run -125 bash -c "ulimit -f 100; mlrun pull '$REGISTRY/many'"
	assert_output --partial "mlrun: pull '$REGISTRY/many:latest': layer sha256:"
	assert_output --partial "File too large"
}

@test "pull: a reader of stdout that has left is an error with a sentence" {
	run -0 bash -c "{ mlrun pull -q --json '$REGISTRY/tiny' 2>said; echo \$? >status; } | true; cat said status"
	assert_output $'mlrun: write to stdout: Broken pipe\n125'
}

@test "pull: a store that gets full is named, and the way out" {
	unshare -Urm mount -t tmpfs none "$TMPDIR" || skip "no tmpfs in user namespaces here"
	mkdir small
	# Enough for the compressed layers, too few inodes for their files.
	run -125 unshare -Urm sh -c "mount -t tmpfs -o nr_inodes=1000 none small &&
		mlrun pull --store small/store '$REGISTRY/many'"
	assert_output --partial "mlrun: pull '$REGISTRY/many:latest': no room in store '$PWD/small/store': "
	assert_output --partial ": No space left on device"
	assert_output --partial "hint: mlrun prune or mlrun rm frees space; --store or MLRUN_STORE names another place"
}

@test "pull: --tls-verify with a space before its word is explained" {
	run -125 mlrun pull --tls-verify false "$REGISTRY/tiny"
	assert_output "mlrun: --tls-verify false: 'false' is not a name
hint: write --tls-verify=false"
	run -0 mlrun pull -q --tls-verify "$REGISTRY/tiny"
}

@test "pull: what a killed pull of another image left is swept" {
	mlrun pull -q "$REGISTRY/tiny"
	left=$MLRUN_STORE/tmp/layer-$(printf '%064d' 7).a-0123456789abcdef.$(uname -n).$(cat /proc/sys/kernel/random/boot_id).1.999999999.1
	mkdir -p "$left/tree/sub"
	chmod 0 "$left/tree/sub"
	mlrun pull -q "$REGISTRY/docker" "$REGISTRY/many"
	run -0 find "$MLRUN_STORE/tmp" -mindepth 1
	assert_output ''
}

@test "pull: SIGINT and SIGTERM end it with 130 and 143 and nothing is left over" {
	for signal in INT:130 TERM:143; do
		for _ in {1..20}; do
			rm -rf "$MLRUN_STORE" said
			# A background job of a script ignores SIGINT, hence env.
			env --default-signal=INT mlrun pull "$REGISTRY/many" 2>said 3>&- &
			until grep -qs pulling said; do sleep 0.005; done
			kill -"${signal%:*}" $! || true
			status=0
			wait $! || status=$?
			[ "$status" = 0 ] || break # else it was faster
		done
		assert_equal "$status" "${signal#*:}"
		grep -q "mlrun: pull '$REGISTRY/many:latest': interrupted" said
		run -0 find "$MLRUN_STORE/tmp" -mindepth 1
		assert_output ''
	done
}

@test "pull: two at once bring every layer once" {
	before=$(registry_requests 'GET /v2/many/blobs' | wc -l)
	mlrun pull "$REGISTRY/many" 2>first &
	mlrun pull "$REGISTRY/many" 2>second
	wait $!
	grep -q "pulled '$REGISTRY/many" first
	grep -qE "(pulled|is up to date)" second
	after=$(registry_requests 'GET /v2/many/blobs' | wc -l)
	# Three layers, and a configuration each.
	assert [ $((after - before)) -le 5 ]
	assert_equal "$(mlrun images --json | jq length)" 1
}

@test "images: a table, or JSON; nothing before the first pull" {
	run -0 mlrun images
	assert_output --regexp '^NAME +DIGEST +PLATFORM +SIZE +FORMAT +PULLED$'
	assert_equal "$(mlrun images --json)" '[]'
	run -125 mlrun images --store /no/such
	assert_output --partial "/no/such"

	digest=$(mlrun pull -q --json "$REGISTRY/tiny" | jq -r .digest)
	run -0 mlrun images
	assert_line --index 1 --regexp "^$REGISTRY/tiny:latest +${digest:7:12} +linux/[a-z0-9]+ +1\.[0-9] MB +layers +20"
	run -0 mlrun images --json
	assert_equal "$(jq -c '.[0] | keys' <<<"$output")" '["digest","formats","index","name","platform","pulled","size","source","store"]'
	assert_equal "$(jq -r '.[0].digest' <<<"$output")" "$digest"
}

@test "inspect: what an image is, for people and for programs" {
	mlrun pull -q "$REGISTRY/tiny"
	run -0 mlrun inspect "$REGISTRY/tiny"
	assert_line --regexp "^name +$REGISTRY/tiny:latest$"
	assert_line --regexp "^digest +sha256:[0-9a-f]{64}$"
	assert_line --regexp "^layers +sha256:[0-9a-f]{12} +1\.[0-9] MB$"
	assert_line --regexp "^env +PATH=/bin:/usr/bin$"
	assert_line --regexp "^ +TINY=yes$"
	assert_line --regexp "^cmd +/bin/sh$"
	assert_line --regexp "^workdir +/root$"
	assert_line --regexp "^user +-$"

	run -0 mlrun inspect --json "$REGISTRY/tiny"
	assert_equal "$(jq -c keys <<<"$output")" '["cmd","config","created","digest","entrypoint","env","formats","index","labels","layers","name","platform","pulled","size","source","store","user","working_dir"]'
	assert_equal "$(jq -c '[.env, .entrypoint, .cmd, .user, .working_dir]' <<<"$output")" \
		'[["PATH=/bin:/usr/bin","TINY=yes"],[],["/bin/sh","-c","echo tiny"],null,"/root"]'
	assert_equal "$(jq -c '.layers[0] | keys' <<<"$output")" '["diff_id","digest","media_type","size"]'

	run -125 mlrun inspect "$REGISTRY/other"
	assert_output --partial "image '$REGISTRY/other:latest' is not in store"
}

@test "inspect: escape sequences from an image do not reach the terminal" {
	dir=$PWD/layout
	image_layout "$dir" "$BATS_FILE_TMPDIR/many1.tar"
	image_config "$dir" --config.env $'EVIL=\033[2Jboo'
	image_push "$dir" evil
	mlrun pull -q "$REGISTRY/evil"
	run -0 mlrun inspect "$REGISTRY/evil"
	assert_output --partial 'EVIL=\x1b[2Jboo'
}

@test "rm: forgets a name and deletes what no other needs" {
	mlrun pull -q "$REGISTRY/tiny" "$REGISTRY/docker" "$REGISTRY/many"
	run -0 mlrun rm "$REGISTRY/many"
	assert_output "mlrun: removed '$REGISTRY/many:latest'"
	assert_equal "$(find "$MLRUN_STORE/layers" -mindepth 1 -maxdepth 1 | wc -l)" 1
	run -0 mlrun rm "$REGISTRY/tiny"
	assert [ -e "$MLRUN_STORE"/layers/*/tree/bin/busybox ]
	run -125 mlrun rm "$REGISTRY/tiny" "$REGISTRY/docker"
	assert_output --partial "rm '$REGISTRY/tiny': image '$REGISTRY/tiny:latest' is not in store"
	assert_output --partial "removed '$REGISTRY/docker:latest'"
	run -0 find "$MLRUN_STORE"/{layers,facts,images,blobs/sha256,tmp} -mindepth 1
	assert_output ''
}

@test "parse-reference: prints exactly four keys, null where nothing was given" {
	assert_equal "$(mlrun parse-reference debian)" \
		'{"registry": "docker.io", "repository": "library/debian", "tag": "latest", "digest": null}'
	d=sha256:$(printf 'a%.0s' {1..64})
	assert_equal "$(mlrun parse-reference "docker://[::1]:5000/a/b@$d")" \
		"{\"registry\": \"[::1]:5000\", \"repository\": \"a/b\", \"tag\": null, \"digest\": \"$d\"}"
	run -125 mlrun parse-reference Debian
	assert_output --partial "'Debian' is not an image name: repository names are lower case"
	run -125 mlrun parse-reference
	assert_output --partial "a reference is missing"
}

@test "--store names another place for every command" {
	mlrun pull -q --store elsewhere "$REGISTRY/tiny"
	assert [ ! -e "$MLRUN_STORE" ]
	assert_equal "$(mlrun images --json --store elsewhere | jq length)" 1
	run -0 mlrun inspect --store elsewhere "$REGISTRY/tiny"
	run -0 mlrun rm --store elsewhere "$REGISTRY/tiny"
	assert_equal "$(mlrun images --json --store elsewhere | jq length)" 0
}

@test "--verbose is a transcript of acts, without secrets" {
	run -0 mlrun pull --verbose "$REGISTRY/tiny"
	assert_output --partial "mlrun: debug: GET http://$REGISTRY/v2/tiny/manifests/latest"
}

@test "pull: a layer that was not on disk when the machine went down is fetched again" {
	mlrun pull -q "$REGISTRY/tiny"
	for mark in "$MLRUN_STORE"/layers/*; do
		touch "$MLRUN_STORE/unsynced/layers-${mark##*/}.00000000-0000-0000-0000-000000000000"
	done
	run -125 mlrun exec --pull=never "$REGISTRY/tiny" true
	assert_output --partial "the machine went down before"
	assert_output --partial "hint: mlrun pull fetches it again"
	run -0 mlrun pull "$REGISTRY/tiny"
	assert_output --partial "was not fully on disk when the machine went down"
	run -0 mlrun exec "$REGISTRY/tiny" true
	run -0 mlrun pull "$REGISTRY/tiny"
	assert_output --partial "is up to date"
}

is_empty() { [ -z "$(ls "$1")" ]; }

@test "pull: what was pulled is on disk soon after, and nothing tells otherwise" {
	mlrun pull -q "$REGISTRY/tiny"
	until_true is_empty "$MLRUN_STORE/unsynced"
}

@test "pull: -q is silent also while it waits for another process" {
	hold_layer 600
	mlrun pull -q "$REGISTRY/tiny" >quiet 2>&1 3>&- &
	pids=($!)
	sleep 1
	mlrun pull "$REGISTRY/tiny" >said 2>&1 3>&- & # who began later says whom it waits for
	pids+=($!)
	until_true grep -q "waiting for" said
	kill "$holder"
	for pid in "${pids[@]}"; do wait "$pid"; done
	assert_equal "$(cat quiet)" ""
}

@test "pull: a repository that the registry does not have is told as that" {
	run -125 mlrun tags "$REGISTRY/no/such"
	assert_output --partial "'$REGISTRY' has no repository 'no/such'"
	assert_output --partial "hint: check the spelling of the name"
}

@test "pull: LD_LIBRARY_PATH of conda or a module reaches no helper's dynamic linker" {
	local name
	mkdir lib
	for name in libcurl.so.4 libarchive.so.13 libcrypto.so.3 libssl.so.3 libjansson.so.4 libz.so.1; do
		# A mlrun that is not static starts by the caller's dynamic linker.
		ldd "$(command -v mlrun)" | grep -qF "$name" || echo broken >"lib/$name"
	done
	LD_LIBRARY_PATH=$PWD/lib run -0 mlrun pull -q "$REGISTRY/tiny"
	LD_LIBRARY_PATH=$PWD/lib run -0 mlrun exec "$REGISTRY/tiny" sh -c 'echo "${MLRUN_LD_LIBRARY_PATH-unset}"'
	assert_output unset
	mlrun rm "$REGISTRY/tiny"
	LD_LIBRARY_PATH=$PWD/lib run -0 mlrun exec "$REGISTRY/tiny" true
}
