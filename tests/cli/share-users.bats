#!/usr/bin/env bats
# Two users on one machine: containers that one's processes share are closed to the other, root included; links
# of the other's lead nobody's output away.
# shellcheck disable=SC2016 # the inner shell expands
load common
load share

needs_two_users() {
	[ "$(id -u)" = 0 ] || skip "only root can be two users"
	run -0 runuser -u nobody -- true || skip "there is no user nobody"
}

@test "share: root enters no container of another user's" {
	needs_two_users
	chmod 0755 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR"
	cd /
	runuser -u nobody -- env HOME=/ "$(command -v mlrun)" exec "$IMG" sleep "$NAP" 3>&- &
	PIDS+=("$!")
	until_true pgrep -u nobody -x -f "sleep $NAP"
	HELD=$(pgrep -u nobody -x -f "sleep $NAP")
	PIDS+=("$HELD")
	run -0 mlrun ps
	assert_line --regexp "^ *$HELD +1 +nobody "
	run -125 mlrun exec --join "$HELD" id
	assert_output --partial "process $HELD may not be looked at: it or its program is another user's"
}

@test "share: two users do not meet" {
	local first

	needs_two_users
	hold first --join-tag "$TAG"
	first=$(cat first)
	chmod 0755 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR"
	cd /
	run -0 runuser -u nobody -- env HOME=/ "$(command -v mlrun)" exec --join-tag "$TAG" "$IMG" sh -c "$NAMESPACES"
	assert_output --regexp '^user:.* mnt:'
	refute_output --partial "${first% *}"
	refute_output --partial "${first#* }"
}

@test "share: directories that another user has made beforehand keep nobody from meeting" {
	local uid

	needs_two_users
	chmod 0755 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR"
	uid=$(id -u nobody)
	cd /
	# shellcheck disable=SC2016 # the inner shells'
	run -0 unshare -m sh -c 'mount -t tmpfs -o mode=1777 tmpfs /dev/shm || exit
		for i in "" .1 .2 .3 .4 .5 .6 .7; do mkdir -m 777 "/dev/shm/mlrun-$1$i" || exit; done
		runuser -u nobody -- env HOME=/ sh -c '\''
			"$1" exec --join-tag x "$2" sh -c "readlink /proc/self/ns/mnt; touch /dev/shm/in; exec sleep 1000" &
			until [ -e /dev/shm/in ]; do sleep 0.1; done
			"$1" exec --join-tag x "$2" readlink /proc/self/ns/mnt
			kill $!'\'' sh "$2" "$3"' sh "$uid" "$(command -v mlrun)" "$IMG"
	assert_equal "$(grep -c '^mnt:' <<<"$output")" 2
	assert_equal "$(grep '^mnt:' <<<"$output" | sort -u | wc -l)" 1
	assert_equal "$(grep -c 'warning: others have made all of' <<<"$output")" 1
}

@test "export, gpu top, oci --log, mltrain --log: another user's link in a directory for all leads no output away" {
	local path target=$BATS_TEST_TMPDIR/mine

	needs_two_users
	layer_tar tiny.tar "$ROOT"
	mlrun import -q tiny.tar tiny
	mkdir -m 1777 all
	echo mine >"$target"
	ln -s "$target" all/own
	ln -s "$target" all/link
	ln -s "$BATS_TEST_TMPDIR" all/dir
	chown -h nobody all/link all/dir
	for path in all/link all/dir/mine ./all/../all/link "$PWD/all/dir/new"; do
		run -125 mlrun export tiny "$path"
		assert_output --partial "is a link that another user has made where everybody may write: it is not followed"
		run -125 timeout 60 mlrun gpu top --log="$path" --interval 1
		assert_output --partial "a link that another user has made"
		run -1 mlrun oci --log "$path" start none
		run -1 mltrain train --data fashion-mnist --log "$path" --epochs 1
		assert_output --partial "a link that another user has made"
	done
	assert_equal "$(cat "$target")" mine
	[ ! -e "$BATS_TEST_TMPDIR/new" ]
	# One's own, and those of the directory's owner.
	run -0 mlrun export tiny all/own
	chown nobody all
	run -0 mlrun export tiny all/link
	[ -L all/link ]
}
