# Where stores lie, several of them, and those of older programs.
load common

setup_file() {
	registry_start
	image_tiny tiny
}

teardown_file() { registry_stop; }

@test "stores: an image in an additional store is run, listed, shown and not fetched again" {
	mlrun pull -q --store site "$REGISTRY/tiny"
	chmod -R a-w site/layers/*/tree/etc
	export MLRUN_STORES=$PWD/absent:$PWD/site
	before=$(registry_requests '/blobs/' | wc -l)
	run -0 mlrun exec "$REGISTRY/tiny" sh -c 'echo $TINY'
	assert_output yes
	run -0 mlrun images
	assert_output --regexp "NAME .* STORE
$REGISTRY/tiny:latest .*  $PWD/site"
	run -0 mlrun images --json
	assert_equal "$(jq -r '.[].store' <<<"$output")" "$PWD/site"
	run -0 mlrun inspect --json "$REGISTRY/tiny"
	assert_equal "$(jq -r .store <<<"$output")" "$PWD/site"
	run -0 mlrun pull "$REGISTRY/tiny"
	assert_output --partial "'$REGISTRY/tiny:latest' is up to date in store '$PWD/site': sha256:"
	assert_equal "$(registry_requests '/blobs/' | wc -l)" "$before"
	assert_equal "$(ls "$MLRUN_STORE/images")" ""
}

@test "stores: the user's own comes first, and an image that has changed is fetched" {
	mlrun pull -q --store site "$REGISTRY/tiny"
	export MLRUN_STORES=$PWD/site
	image_push_tar moving "$BATS_FILE_TMPDIR/tiny.tar"
	mlrun pull -q --store site "$REGISTRY/moving"
	image_push_tar -c --config.env -c A=b moving "$BATS_FILE_TMPDIR/tiny.tar"
	run -0 mlrun pull "$REGISTRY/moving"
	assert_output --partial "pulled '$REGISTRY/moving:latest'"
	run -0 mlrun exec "$REGISTRY/moving" sh -c 'echo $A'
	assert_output b
	run -0 mlrun rm "$REGISTRY/moving"
	run -0 mlrun exec "$REGISTRY/moving" sh -c 'echo $A.'
	assert_output .
	run -125 mlrun rm "$REGISTRY/moving"
	assert_output --partial "is not in store '$MLRUN_STORE'"
}

@test "stores: the configuration names the own one and additional ones" {
	mlrun pull -q --store site "$REGISTRY/tiny"
	mkdir -p "$HOME/.config/mlrun"
	printf 'store = %s\nadditional_stores = %s\n' "$PWD/mine" "$PWD/site" \
		>"$HOME/.config/mlrun/mlrun.conf"
	unset MLRUN_STORE
	run -0 mlrun exec "$REGISTRY/tiny" true
	image_push_tar own "$BATS_FILE_TMPDIR/tiny.tar"
	mlrun pull -q "$REGISTRY/own"
	run -0 mlrun images --json
	assert_equal "$(jq -r '.[].store' <<<"$output")" "$PWD/mine"$'\n'"$PWD/site"
	MLRUN_STORES='' run -125 mlrun exec --pull=never "$REGISTRY/tiny" true
	assert_output --partial "not in the store '$PWD/mine'"
}

@test "stores: an additional store that anybody may write to is passed over with a warning" {
	needs_ordinary_user
	[ -w /tmp ] && [ ! -O /tmp ] || skip "no directory of another user that anybody may write to"
	export MLRUN_STORES=/tmp
	run -0 mlrun images
	assert_output --partial "others may write to it"
	assert_output --partial "ignoring this additional store"
}

@test "stores: one of format 1 is read as it is and upgraded by the next pull" {
	mlrun pull -q "$REGISTRY/tiny"
	rm -r "$MLRUN_STORE"/{holds,squash,unsynced,cover}
	echo 1 >"$MLRUN_STORE/version"
	: >"$MLRUN_STORE/lock"
	mkdir -p "$MLRUN_STORE/tmp/layer-$(printf %064d 1).host.1.0123456789abcdef/tree"
	: >"$MLRUN_STORE/tmp/layer-$(printf %064d 1).lock"
	run -0 mlrun exec "$REGISTRY/tiny" echo hello
	assert_output hello
	assert_equal "$(cat "$MLRUN_STORE/version")" 1
	image_push_tar own "$BATS_FILE_TMPDIR/tiny.tar"
	run -0 mlrun pull -q "$REGISTRY/own"
	assert_output ''
	assert_equal "$(cat "$MLRUN_STORE/version")" 3
	assert_equal "$(ls "$MLRUN_STORE/tmp")" ''
	assert [ ! -e "$MLRUN_STORE/lock" ]
	run -0 mlrun rm "$REGISTRY/own" "$REGISTRY/tiny"
}

@test "stores: an older mlrun at work is waited for before the upgrade" {
	mlrun pull -q "$REGISTRY/tiny"
	echo 1 >"$MLRUN_STORE/version"
	flock -F -s "$MLRUN_STORE/lock" sleep 600 3>&- &
	older=$!
	until_true runs "$older" sleep 600
	mlrun rm "$REGISTRY/tiny" >said 2>&1 3>&- &
	until_true grep -q "waiting for another process, which is an older mlrun, changing this store" said
	kill "$older"
	wait $!
	assert_equal "$(cat "$MLRUN_STORE/version")" 3
}

@test "stores: nobody sees a store that is being made without its version" {
	local i said

	for i in $(seq "$(rounds 20)"); do
		mlrun import -q --store "new$i" "$BATS_FILE_TMPDIR/tiny.tar" tiny 3>&- &
		while said=$(mlrun images --store "new$i" 2>&1); [ ! -e "new$i/version" ]; do
			[[ $said != *"no file 'version'"* ]] || fail "$said"
		done
		wait $!
	done
	run -0 find . -maxdepth 1 -name 'new*.*'
	assert_output ""
	# In a directory that is there already, the version comes last.
	mkdir -p there/blobs
	(sleep 0.5 && mkdir there/{images,layers,facts} && echo 3 >there/version) 3>&- &
	run -0 mlrun images --store there
}

@test "stores: a directory that holds other things is no empty store: images, inspect, exec and doctor say so" {
	local command

	unset MLRUN_STORE
	mkdir -p "$HOME/.local/share/mlrun/nets"
	for command in images "inspect x" "exec --pull=never x true" "rm x"; do
		# shellcheck disable=SC2086
		run -125 mlrun $command
		assert_output --partial "'$HOME/.local/share/mlrun' is not a store of images and not empty ('nets')"
		assert_output --partial "hint: move that away, or name another directory"
	done
	run mlrun doctor
	assert_output --partial "not empty ('nets')"
	assert_output --regexp '[1-9][0-9]* failure'
}

# As in a CI job or a dev container: the store is on an overlay, which cannot be another's layer, and there is no /dev/fuse.
@test "stores: on an overlay without /dev/fuse an image is kept as one tree, which starts" {
	mkdir lower changes dev
	run unshare -Urm bash -euc '
		mount -t tmpfs changes changes
		mkdir changes/{upper,work,root}
		mount -t overlay -o "lowerdir=lower,upperdir=changes/upper,workdir=changes/work,userxattr" o changes/root || exit 77
		mount -t tmpfs dev dev
		for node in null zero full random urandom tty; do touch dev/$node; mount --bind /dev/$node dev/$node; done
		mkdir dev/shm dev/pts
		mount --rbind /dev/shm dev/shm
		mount --rbind /dev/pts dev/pts
		mount --rbind dev /dev
		export MLRUN_STORE=$PWD/changes/root/store
		mlrun pull "$0/tiny"
		mlrun exec "$0/tiny" cat /etc/os-release' "$REGISTRY"
	[ "$status" != 77 ] || skip "no overlay can be made here"
	assert_success
	assert_output --partial "keeps images as one tree each"
	assert_line NAME=tiny
}

# What a copy must not show: a file that a layer removed, and those of a directory that a layer replaced.
@test "stores: a copy that lost what hides removed files is refused, a whole one works" {
	local how

	printf '%s\n' "FROM $REGISTRY/tiny" 'RUN mkdir /d && echo 1 >/gone && echo 1 >/d/hidden' \
		'RUN rm -r /gone /d && mkdir /d' >Dockerfile
	mlrun build -q -t two .
	[ -e "$MLRUN_STORE/mark" ] || skip "the file system keeps no whiteouts or attributes"
	declare -A ways=(
		[tar]='tar -cf - -C "$MLRUN_STORE" . | tar -xf - -C copy'
		[cp]='chmod -R u+r "$MLRUN_STORE" && cp -r "$MLRUN_STORE/." copy'
		[rsync]='rsync -a "$MLRUN_STORE/" copy'
		[rsync-xattrs]='rsync -aX "$MLRUN_STORE/" copy'
		[whole-cp]='cp -a "$MLRUN_STORE/." copy'
		[whole-tar]='tar --xattrs -cf - -C "$MLRUN_STORE" . | tar --xattrs -xf - -C copy'
	)
	for how in "${!ways[@]}"; do
		[[ $how != rsync* ]] || command -v rsync >/dev/null || continue
		mkdir copy
		run bash -c "${ways[$how]}"
		if [[ $how = whole* ]]; then
			run -0 mlrun exec --store copy two sh -c 'ls -d /gone /d/* 2>/dev/null; echo end'
			assert_output end
		else
			for command in exec pull images; do
				run -125 mlrun "$command" --store copy two
				assert_output --partial "store '$PWD/copy' is a copy without"
				assert_output --partial "'cp -a'"
			done
			MLRUN_STORES=$PWD/copy run -0 mlrun exec two true
			assert_output --partial "store '$PWD/copy' is a copy without"
		fi
		chmod -R u+rwX copy && rm -r copy
	done
}
