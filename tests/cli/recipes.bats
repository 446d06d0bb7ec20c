# Images on Debian's packages: images/build base, what apt-get install does in it, and two of recipes/. The packages
# come from Debian and PyPI.
load common

setup_file() {
	export MLRUN=$top_builddir/bin/mlrun FILE_STORE=$BATS_FILE_TMPDIR/store
	export MLRUN_STORE=$FILE_STORE
	if ! command -v mmdebstrap >/dev/null; then
		skip_file "mmdebstrap is not installed"
	elif ! "$top_srcdir/images/build" base mlrun/base >"$BATS_FILE_TMPDIR/log" 2>&1; then
		grep -q -e 'apt-get update' -e 'Could not resolve' "$BATS_FILE_TMPDIR/log" ||
			{ cat "$BATS_FILE_TMPDIR/log" >&2; return 1; }
		skip_file "Debian's packages can't be had: $(grep -m 1 '^E: ' "$BATS_FILE_TMPDIR/log")"
	fi
}

setup() {
	common_setup
	export MLRUN_STORE=$FILE_STORE
}

@test "recipes: apt-get install, and what has an owner or a set-ID bit is so in RUN, in exec and in the layer" {
	local files='/usr/bin/ssh-agent /usr/lib/dbus-1.0/dbus-daemon-launch-helper /etc/shadow'

	cat >Dockerfile <<-END
		FROM mlrun/base
		RUN apt-get update && apt-get install -y --no-install-recommends openssh-client dbus
		RUN stat -c '%U:%G %a %n' $files >/owners
	END
	mlrun build -q -t mine .
	run -0 mlrun exec mine cat /owners
	assert_output - <<-'END'
		root:_ssh 2755 /usr/bin/ssh-agent
		root:messagebus 4754 /usr/lib/dbus-1.0/dbus-daemon-launch-helper
		root:shadow 640 /etc/shadow
	END
	local owners=$output
	# shellcheck disable=SC2086 # several
	run -0 mlrun exec --fakeroot mine stat -c '%U:%G %a %n' $files
	assert_output "$owners"
	mlrun export -q --format=tar mine - | tar -tv >list
	run -0 grep -E ' (\./)?(usr/bin/ssh-agent|usr/lib/dbus-1.0/dbus-daemon-launch-helper|etc/shadow)$' list
	assert_line --regexp '^-rwxr-sr-x (0|root)/(_ssh|[1-9][0-9]+) '
	assert_line --regexp '^-rwsr-xr-- (0|root)/(messagebus|[1-9][0-9]+) '
	assert_line --regexp '^-rw-r----- (0|root)/(shadow|42) '
	run -1 grep -E ' (\./)?etc/(hostname|resolv.conf)$' list # the machine's
}

@test "recipes: astro and jupyter are built and run" {
	[ -e /usr/share/datasets/fashion-mnist ] || skip "dataset-fashion-mnist is not installed"
	run -0 "$top_srcdir/bench/recipes" --only astro,jupyter "$MLRUN" mlrun/base
	assert_line --partial 'period 5.36'
	assert_line --partial 'bytes to fashion.html'
}

# A port that nobody listens on.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
is_health() { [ "$(mlrun ps --json | jq -r '.[] | select(.name == "redis") | .health')" = "$1" ]; }

@test "recipes: redis is a service that is healthy, and wants its password" {
	run -0 mlrun build -q -t redis --build-arg BASE=mlrun/base "$top_srcdir/recipes/redis"
	export REDIS_PORT REDISCLI_AUTH=secret.$$
	REDIS_PORT=$(free_port)
	mlrun run -d --name redis redis
	until_true is_health healthy
	run -0 mlrun exec --join redis redis-cli -p "$REDIS_PORT" ping
	assert_output PONG
	run -0 mlrun exec --join redis env -u REDISCLI_AUTH redis-cli -p "$REDIS_PORT" ping
	assert_output --partial NOAUTH
	run -1 pgrep -f "$REDISCLI_AUTH"
	mlrun stop redis
	run -0 mlrun wait redis
	assert_output 0
	mlrun stop --rm redis
}
