#!/usr/bin/env bats
# Compose files of the kinds that people publish (tests/data/compose): each is read as its `expected` says, and those that
# are taken run, with one tiny image in place of theirs.

load common

setup_file() {
	tiny_root "$BATS_FILE_TMPDIR/root"
	# Whatever an image of these files runs waits until it is ended, and what checks it succeeds.
	printf '#!/bin/sh\nexec sleep 1000\n' >"$BATS_FILE_TMPDIR/root/bin/wait-for-end"
	chmod +x "$BATS_FILE_TMPDIR/root/bin/wait-for-end"
}

setup() {
	common_setup
	cp -R "$top_srcdir/tests/data/compose" files
	chmod -R u+w files
	cd files || return
	unset "${!COMPOSE_@}"
}

teardown() {
	services_end
	common_teardown
}

@test "compose files: each of 46 is taken or refused as its expected lines say" {
	local dir n=0

	for dir in */; do
		run bash -c 'cd "$1" && mlrun up --dry-run 2>&1' - "$dir"
		diff -u "$dir/expected" <(printf '%s\n' "$output" "exit status $status") || fail "$dir"
		n=$((n + 1))
	done
	[ "$n" -ge 46 ]
}

@test "compose files: what is taken prints as a file that is taken, too" {
	local dir

	for dir in */; do
		grep -qx 'exit status 0' "$dir/expected" || continue
		(cd "$dir" && mlrun up --config 2>/dev/null >config.yaml && mlrun up --config -f config.yaml 2>/dev/null >again.yaml) || fail "$dir"
		diff -u "$dir/config.yaml" "$dir/again.yaml" || fail "$dir"
	done
}

# Another file that leaves names, order, variables, volumes, secrets and checks as they are.
tiny_override() {
	local service

	echo services:
	for service in $(mlrun up --config 2>/dev/null | sed -n '/^services:/,/^[a-z]/s/^  \([^ :]*\):$/\1/p'); do
		echo "  $service:"
		echo "    image: rootfs:$BATS_FILE_TMPDIR/root"
		echo "    build: !reset null"
		if grep -qxF "$service" jobs 2>/dev/null; then
			echo "    entrypoint: !override [/bin/true]"
		else
			echo "    entrypoint: !override [/bin/wait-for-end]"
		fi
		echo "    ports: !reset []"
		echo "    user: !reset null"
		echo "    gpus: !reset []"
		echo "    runtime: !reset null"
		echo "    deploy: { resources: !reset {} }"
		echo "    ulimits: !reset {}"
		echo "    healthcheck: !override { test: [CMD, 'true'], interval: 50ms }"
	done
}

@test "compose files: what is taken runs, with one tiny image, in its order, and goes down" {
	local dir file names
	local -a files

	for dir in */; do
		grep -qx 'exit status 0' "$dir/expected" || continue
		# The Docker daemon's socket is not there.
		! grep -q docker.sock "$dir/compose.yaml" || continue
		cd "$dir"
		tiny_override >tiny.yaml
		files=()
		for file in compose.yaml *compose.override.y*ml tiny.yaml; do
			[ ! -e "$file" ] || files+=(-f "$file")
		done
		timeout 200 mlrun up -d "${files[@]}" >out 2>&1 || fail "$dir: $(<out)"
		names=$(sed -n 's/^\(.*\): .*/\1/p' <(mlrun up --dry-run "${files[@]}" 2>/dev/null) | sort)
		assert_equal "$(mlrun ps --all --json | jq -r '.[].name // empty' | sort)" "$names"
		mlrun down -v "${files[@]}" 2>down || fail "$dir: $(<down)"
		assert_equal "$(mlrun ps --all --json | jq -r '.[].name // empty')" ""
		cd ..
	done
}
