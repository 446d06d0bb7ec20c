#!/usr/bin/env bats
# mlrun push and mlrun manifest, to Debian's docker-registry, also through a proxy that breaks uploads, and read back by
# mlrun, skopeo and podman.

load common

setup_file() {
	registry_start
	cd "$BATS_FILE_TMPDIR" || return
	tiny_root root
	mkdir -p root/deep
	seq 200000 >root/deep/text
	head -c 3000000 /dev/urandom >root/deep/big
	ln root/deep/text root/deep/hard
	layer_tar one.tar root
	mkdir -p more/etc && echo two >more/etc/two
	layer_tar two.tar more
	image_layout lay one.tar two.tar two.tar
	image_config lay --config.env PATH=/bin --config.env TINY=yes --config.cmd /bin/sh
}

teardown_file() { registry_stop; }

teardown() {
	proxy_stop
	common_teardown
}

# A name that no other test pushes to.
setup() {
	common_setup
	there=t$BATS_TEST_NUMBER/app
	to=$REGISTRY/$there
}

# proxy OPTION...: what breaks uploads; sets $proxy, $other (host:port each) and $log.
proxy() {
	local dir

	proxy_stop
	dir=$(mktemp -d "$BATS_TEST_TMPDIR/proxy.XXXXXX")
	log=$dir/log
	: >"$log"
	mkfifo "$dir/in" "$dir/out"
	python3 "$top_srcdir/tests/cli/upload_proxy.py" "$REGISTRY" "$log" "$@" \
		<"$dir/in" >"$dir/out" 2>"$dir/err" 3>&- 4>&- &
	exec {proxy_in}>"$dir/in"
	# shellcheck disable=SC2034
	read -r proxy other <"$dir/out"
	to=$proxy/$there
}

proxy_stop() {
	[ -z "${proxy_in:-}" ] || exec {proxy_in}>&-
	proxy_in=
}

# another_registry [VARIABLE=VALUE]...: a registry of this test's alone becomes $REGISTRY.
another_registry() {
	unset "${!REGISTRY@}"
	# shellcheck disable=SC2163 # assignments
	[ $# = 0 ] || export "$@"
	registry_start
}

bring() { mlrun import -q "$BATS_FILE_TMPDIR/lay" app; }
key() { jq -r ".$1" <<<"${lines[-1]}"; }
# Requests to our repository since the last call that match.
requests() { registry_requests "^[A-Z]* /v2/$there/$1"; }
config_of() { mlrun inspect --json "$1" | jq -r .config; }
has_tag() { skopeo inspect --tls-verify=false --raw "docker://$REGISTRY/$there:${1:-latest}" >/dev/null 2>&1; }

# assert_arrived [TAG]: what the registry has is the image, bit for bit, also for others.
assert_arrived() {
	local name=$REGISTRY/$there:${1:-latest}

	skopeo copy -q --src-tls-verify=false "docker://$name" "oci:copy:x"
	cmp "$BATS_FILE_TMPDIR/one.tar" <(first_layer copy)
	rm -rf copy
	MLRUN_STORE=$TMPDIR/second run -0 mlrun pull -q --jobs 1 "$name"
	assert_equal "$(MLRUN_STORE=$TMPDIR/second config_of "$name")" "$(config_of app)"
	MLRUN_STORE=$TMPDIR/second run -0 mlrun exec "$name" cat /etc/two
	assert_output two
	cmp "$BATS_FILE_TMPDIR/root/deep/big" "$TMPDIR"/second/layers/*/tree/deep/big
	chmod -R u+rwX "$TMPDIR/second"
	rm -rf "$TMPDIR/second"
}

# first_layer LAYOUT: its bytes, inflated.
first_layer() {
	local manifest layer

	manifest=$(jq -r '.manifests[0].digest' "$1/index.json")
	layer=$(jq -r '.layers[0].digest' "$1/blobs/${manifest/://}")
	case $(jq -r '.layers[0].mediaType' "$1/blobs/${manifest/://}") in
	*gzip) gzip -dc "$1/blobs/${layer/://}" ;;
	*zstd) zstd -dc "$1/blobs/${layer/://}" ;;
	*) cat "$1/blobs/${layer/://}" ;;
	esac
}

@test "push: an image of every compression arrives whole, and is told in one line for each layer" {
	bring
	for how in gzip zstd none; do
		run -0 mlrun push --compression "$how" app "$to:$how"
		assert_line --regexp "^mlrun: pushed '$to:$how': sha256:[0-9a-f]{64}, [0-9.]+ [kM]B in [0-9.]+ s\$"
		assert_equal "${#lines[@]}" 3 # two layers of the three are one
		assert_arrived "$how"
	done
	run -0 mlrun push -q app "$to:quiet"
	assert_output ''
	if command -v podman >/dev/null && podman pull -q --tls-verify=false "$to:zstd" >/dev/null 2>&1; then
		run -0 podman rmi "$to:zstd"
	fi
}

@test "push: --json and --digestfile tell the digest that the registry has" {
	bring
	run -0 --separate-stderr mlrun push --json --digestfile digest app "docker://$to:1"
	assert_equal "$(key digest)" "sha256:$(skopeo inspect --tls-verify=false --raw "docker://$to:1" | sha256sum | cut -d' ' -f1)"
	assert_equal "$(key digest)" "$(cat digest)"
	assert_equal "$(key name)" "$to:1"
	assert_equal "$(key layers) $(key layers_sent) $(key layers_mounted)" "3 2 0"
}

@test "push: the same image gives the same bytes, also from another store and on one core" {
	bring
	mlrun push -q --digestfile one app "$to:1"
	export MLRUN_STORE=$TMPDIR/other
	bring
	taskset -c "$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')" mlrun push -q --digestfile two app "$to:2"
	assert_equal "$(cat one)" "$(cat two)"
}

@test "push: what is there is not sent again, nor compressed again, and another repository gives its layers" {
	bring
	mlrun push -q app "$to:1"
	assert_equal "$(requests blobs/uploads/ | grep -c ^PATCH)" 3
	run -0 mlrun push --json app "$to:2"
	assert_equal "$(key layers_sent) $(key bytes_sent)" "0 0"
	assert_equal "$(requests blobs/uploads/ | grep -c ^PATCH)" 3
	run -0 mlrun push --json app "$REGISTRY/$there/sub"
	assert_equal "$(key layers_sent) $(key layers_mounted)" "0 2"
	# Once its owner has removed what the store remembers, it is sent.
	there=t$BATS_TEST_NUMBER/gone
	run -0 mlrun push --json --compression zstd app "$REGISTRY/$there"
	assert_equal "$(key layers_sent)" 2
}

@test "push: a pulled image keeps its digest in the registry it is from, and elsewhere with --keep-blobs" {
	image_push "$BATS_FILE_TMPDIR/lay" "$there:from" v2s2
	mlrun pull -q "$to:from"
	run -0 mlrun push --json "$to:from" "$REGISTRY/$there/sub:to"
	assert_equal "$(key digest)" "$(mlrun inspect --json "$to:from" | jq -r .digest)"
	assert_equal "$(key layers_sent)" 0
	mlrun rm "$to:from"
	mlrun pull -q --keep-blobs "$to:from"
	another_registry
	run -0 mlrun push --json "$to:from" "$REGISTRY/$there:to"
	assert_equal "$(key digest)" "$(mlrun inspect --json "$to:from" | jq -r .digest)"
	assert_equal "$(key layers_sent)" 2
}

@test "push: an image that commit made on a pulled one sends only its own layer" {
	image_push "$BATS_FILE_TMPDIR/lay" "$there:from"
	mlrun pull -q "$to:from"
	mlrun exec --write=work "$to:from" /bin/sh -c 'echo new >/etc/new'
	mlrun commit -q work mine
	run -0 mlrun push --json mine "$to:mine"
	assert_equal "$(key layers) $(key layers_sent)" "4 1"
	mlrun containers rm work
	mlrun rm mine "$to:from"
	mlrun pull -q "$to:mine"
	run -0 mlrun exec "$to:mine" cat /etc/new
	assert_output new
}

@test "push: a transfer that breaks goes on where it broke" {
	bring
	proxy --cut 1000000 --cuts 2
	run -0 mlrun push app "$to"
	assert_arrived
	# All bytes once: the biggest layer came in three requests, none of which began anew.
	sent=$(sed -n 's/^registry PATCH .*bytes=//p' "$log" | awk '{ n += $1 } END { print n }')
	size=$(skopeo inspect --tls-verify=false --raw "docker://$REGISTRY/$there" | jq '[.layers[].size] | unique | add')
	config=$(skopeo inspect --tls-verify=false --raw "docker://$REGISTRY/$there" | jq .config.size)
	assert_equal "$sent" $((size + config))
}

@test "push: bytes that the registry has lost, and uploads that it has forgotten, are sent again" {
	bring
	proxy --cut 1000000 --cuts 2 --lose
	run -0 mlrun push app "$to:lost"
	assert_arrived lost
	there=$there/other
	proxy --cut 1000000 --cuts 2 --real # docker-registry cancels an upload that broke
	run -0 mlrun push app "$to:real"
	assert_arrived real
	there=$there/other
	proxy --cut 1000000 --cuts 2 --forget 2
	run -0 mlrun push app "$to:forgotten"
	assert_arrived forgotten
	assert_equal "$(grep -c '^registry POST' "$log")" 5 # two layers, a configuration, two beginnings anew
}

@test "push: a registry that is busy is asked again, and one that stays so is named" {
	bring
	proxy --refuse 2 --status 503
	run -0 mlrun push app "$to"
	assert_arrived
	there=$there/other
	proxy --refuse 1000 --status 503
	run -125 mlrun push app "$to"
	assert_output --partial "mlrun: push 'localhost/app:latest' to '$to:latest': '$proxy' answers HTTP status 503"
	run ! has_tag
}

@test "push: a registry that limits requests gets layers in pieces, or the limit is told" {
	bring
	proxy --limit 2000000
	run -0 mlrun push app "$to"
	assert_arrived
	there=$there/other
	proxy --limit 500000
	run -125 mlrun push app "$to"
	assert_line --partial "finds layer 1 of 3 too large for one request"
	assert_line --partial "hint: a proxy before the registry limits requests"
}

@test "push: a registry that stops reading is given up after the time limit, and tried again" {
	bring
	proxy --stall 1
	mkdir -p "$HOME/.config/mlrun"
	printf '[registry %s]\ntimeout = 1\n' "$proxy" >"$HOME/.config/mlrun/mlrun.conf"
	run -0 mlrun push app "$to"
	assert_arrived
}

@test "push: an upload may lie at a path or at another host, which gets no credentials" {
	bring
	proxy --relative
	run -0 mlrun push app "$to:path"
	assert_arrived path
	there=$there/other
	proxy --elsewhere --bearer --user ann:secret
	mlrun login -u ann --password-stdin "$proxy" <<<secret
	run -0 mlrun push app "$to:host"
	assert_arrived host
	grep -q '^other PATCH' "$log"
	run ! grep '^other .*auth=[^-]' "$log"
}

@test "push: tokens are asked for what is done, also to mount" {
	bring
	proxy --bearer --user ann:secret
	run -125 mlrun push app "$to"
	assert_line --partial "'$proxy' refuses '$there'"
	assert_line --partial "hint: log in first: mlrun login $proxy"
	mlrun login -u ann --password-stdin "$proxy" <<<secret
	run -0 mlrun push app "$to"
	assert_arrived
	run -0 mlrun push --json app "$proxy/$there/sub"
	assert_equal "$(key layers_mounted)" 2
	# Eight, and one or two more where layers are asked for in another order; not one a request.
	run grep -c '^registry GET /token' "$log"
	assert [ "$output" -le 10 ]
	assert [ "$(grep -c '^registry ' "$log")" -gt 20 ]
}

@test "push: a password of the registry's own is used, and a wrong one is told" {
	command -v htpasswd >/dev/null || skip "htpasswd is not installed"
	bring
	htpasswd -Bbc "$TMPDIR/users" ann secret 2>/dev/null
	another_registry REGISTRY_AUTH_HTPASSWD_REALM=test "REGISTRY_AUTH_HTPASSWD_PATH=$TMPDIR/users"
	run -125 mlrun push app "$REGISTRY/x"
	assert_line --partial "hint: log in first: mlrun login $REGISTRY"
	mlrun login -u ann --password-stdin "$REGISTRY" <<<secret
	run -0 mlrun push app "$REGISTRY/x"
}

@test "push: a mirror, which takes nothing, is told apart" {
	bring
	proxy --refuse 1000 --status 405
	run -125 mlrun push app "$to"
	assert_line --partial "'$proxy' takes no images"
	assert_line --partial "hint: it is a mirror or read-only"
}

@test "push: names that say nowhere, files and digests are refused with the way out" {
	bring
	run -125 mlrun push app
	assert_line "hint: say where: mlrun push app REGISTRY/NAMESPACE/NAME:TAG"
	run -125 mlrun push app localhost/app
	assert_line --partial "hint: name a registry, too: mlrun push IMAGE REGISTRY/NAMESPACE/NAME:TAG"
	run -125 mlrun push app "$to@sha256:$(printf '%064d' 0)"
	assert_line --partial "the digest of what is pushed cannot be chosen"
	run -125 mlrun push app oci:dir
	assert_line "hint: mlrun export IMAGE oci:dir writes files"
	run -125 mlrun push app localhost:5000
	assert_line "hint: mlrun push app REGISTRY/NAMESPACE/NAME:TAG"
	run -125 mlrun push nosuch "$to"
	assert_line --partial "is not in store"
	run -125 mlrun push "$(mlrun inspect --json app | jq -r .digest)"
	assert_line --partial "does not say where to push it"
	run -125 mlrun push
	assert_line --partial "an image is missing"
	run -125 mlrun push app "$to" more
	assert_line --partial "and no more"
	run -125 mlrun push --compression lzma app "$to"
	assert_line --partial "--compression takes gzip, zstd or none, not 'lzma'"
	run -125 mlrun push --creds a:b app "$to"
	assert_line --partial "mlrun login REGISTRY"
	run -125 mlrun push app localhost:1/x
	assert_line --partial "cannot connect to 'localhost:1'"
	# By its digest with a destination it works.
	run -0 mlrun push -q "$(mlrun inspect --json app | jq -r .digest)" "$to"
	assert_arrived
}

@test "push: an image gets no name while a part is missing: a file that has changed, a signal, kill -9" {
	local pid

	bring
	mlrun tag app "$to:own"
	chmod u+w "$MLRUN_STORE"/layers/*/tree/deep "$MLRUN_STORE"/layers/*/tree/deep/text
	printf x | dd of="$(echo "$MLRUN_STORE"/layers/*/tree/deep/text)" bs=1 conv=notrunc status=none
	run -125 mlrun push "$to:own"
	assert_line --partial "hint: mlrun store verify --repair fetches it again"
	run ! has_tag own
	mlrun rm app "$to:own"
	bring
	proxy --slow 0.2
	ends_early && mlrun push app "$to:signal" 2>out & pid=$!
	until_true grep -q 'POST' "$log"
	kill -TERM "$pid"
	wait "$pid" && status=0 || status=$?
	assert_equal "$status" 143
	run ! has_tag signal
	: >"$log"
	ends_early && mlrun push app "$to:kill" 2>out & pid=$!
	until_true grep -q 'POST' "$log"
	kill -KILL "$pid"
	wait "$pid" || true
	run ! has_tag kill
	proxy
	run -0 mlrun push app "$to:kill"
	assert_arrived kill
	run -0 find "$MLRUN_STORE/tmp" -mindepth 1
	assert_output ''
}

@test "push: a registry that another push disturbs, and finds a digest wrong, is asked again" {
	bring
	proxy --doubt 2
	run -0 mlrun push app "$to"
	assert_arrived
	assert_equal "$(grep -c '^registry PUT .*/manifests/' "$log")" 3
}

@test "push: two at once to one name both succeed" {
	bring
	mlrun push -q app "$to" & pid=$!
	mlrun push -q app "$to"
	wait "$pid"
	assert_arrived
}

@test "push: from a store of another's, which is read-only" {
	bring
	chmod -R a-w "$MLRUN_STORE"
	export MLRUN_STORES=$MLRUN_STORE MLRUN_STORE=$TMPDIR/own
	run -0 mlrun push app "$to"
	chmod -R u+w "$MLRUN_STORES"
	MLRUN_STORE=$MLRUN_STORES assert_arrived
}

# for_arm NAME: the image as one for arm64.
for_arm() {
	cp -r "$BATS_FILE_TMPDIR/lay" arm
	umoci config --image arm:latest --architecture arm64
	mlrun import -q --platform linux/arm64 "$TMPDIR/arm" "$1"
}

@test "manifest: one name stands for images of two platforms" {
	cd "$TMPDIR"
	bring
	for_arm app-arm
	run -0 --separate-stderr mlrun manifest push --json "$to:1" app app-arm
	assert_equal "$(jq -c '[.images[].platform]' <<<"$output")" '["linux/amd64","linux/arm64"]'
	assert_equal "$(key digest)" "sha256:$(skopeo inspect --tls-verify=false --raw "docker://$to:1" | sha256sum | cut -d' ' -f1)"
	for arch in amd64 arm64; do
		assert_equal "$(skopeo inspect --tls-verify=false --override-arch "$arch" "docker://$to:1" | jq -r .Architecture)" "$arch"
		MLRUN_STORE=$TMPDIR/$arch mlrun pull -q --platform "linux/$arch" "$to:1"
	done
	run -0 mlrun manifest inspect "$to:1"
	assert_equal "$(jq '.manifests | length' <<<"$output")" 2
	# What the repository has already need not be in the store.
	mlrun rm app app-arm
	run -0 mlrun manifest push "$to:2" "$to:1"
	assert_line --partial "an index of 2 images"
	cmp <(mlrun manifest inspect "$to:1") <(mlrun manifest inspect "$to:2")
}

@test "manifest: two images of one platform, a missing one and unknown words are refused" {
	bring
	run -125 mlrun manifest push "$to" app app
	assert_line --partial "two images are for linux/amd64"
	run ! has_tag
	run -125 mlrun manifest push "$to" nosuch
	assert_line --partial "hint: mlrun pull --platform OS/ARCH nosuch brings it"
	run -125 mlrun manifest push "$to"
	assert_line --partial "needs an image"
	run -125 mlrun manifest create "$to" app
	assert_line --partial "hint: mlrun manifest push NAME IMAGE... makes an index and pushes it in one step"
	run -125 mlrun manifest
	assert_line --partial "Usage: mlrun manifest COMMAND"
}

@test "push: connections of one push that find out at once that the registry speaks plain HTTP agree" {
	local name

	# Not a loopback address by its name, so https is tried first.
	name=$(getent hosts "$(uname -n)" | awk '$1 ~ /^127\./ { print $2; exit }')
	case $name in "" | localhost*) skip "this machine's name is not its loopback's" ;; esac
	mkdir eight
	for i in 1 2 3 4 5 6 7 8; do head -c 100000 /dev/urandom >eight/$i; done
	{ echo "FROM scratch" && printf 'COPY %s /\n' 1 2 3 4 5 6 7 8; } >eight/Dockerfile
	mlrun build -q -t eight eight
	for i in $(seq "$(rounds 12)"); do
		run -0 mlrun push -q --tls-verify=false eight "$name:${REGISTRY##*:}/race$i/x"
	done
}
