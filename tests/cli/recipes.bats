# Images on Debian's packages: images/build base, what apt-get install does in it, and two of recipes/. The packages
# come from Debian and PyPI.
load common

setup_file() {
	export MLRUN=$top_builddir/bin/mlrun FILE_STORE=$BATS_FILE_TMPDIR/store
	export MLRUN_STORE=$FILE_STORE
	base_image
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

# built FILE: a definition file, by which the image mine is made of mlrun/base; its %test says whether it is right.
built() {
	run -0 mlrun build -t mine -f "$1" .
	assert_line --partial ': %test'
	inside() { (cd / && mlrun exec --entrypoint '' mine "$@"); }
}

@test "recipes: five definition files as people write them are built on Debian" {
	local head=$'Bootstrap: docker\nFrom: mlrun/base\n'

	{ printf '%s' "$head" && cat <<'END'; } >solver.def
%environment
    export PATH=/opt/solver/bin:$PATH
    export NCPU=$(nproc)
%post
    mkdir -p /opt/solver/bin
    cat >/opt/solver/bin/solve <<'EOF'
#!/bin/bash
printf '%s\n' "${1:-nothing}" solved
EOF
    chmod 755 /opt/solver/bin/solve
%runscript
    exec /opt/solver/bin/solve "$@"
%test
    solve x | grep -q solved && [ "$NCPU" -gt 0 ]
END
	built solver.def
	run -0 mlrun exec mine 'a b'
	assert_output $'a b\nsolved'

	{ printf '%s' "$head" && cat <<'END'; } >Singularity.users
%post
    useradd -m -u 1234 worker
    mkdir /data && chown worker /data && chmod 2775 /data
    install -o worker -m 4755 /bin/true /usr/local/bin/set
%test
    test "$(stat -c '%U %a' /data /usr/local/bin/set)" = "worker 2775
worker 4755"
END
	built Singularity.users

	mkdir -p src/lib patches
	touch src/a.py src/lib/b.py patches/{1,2}.patch
	{ printf '%s' "$head" && cat <<'END'; } >files.def
%files
    src /opt/src
    patches/*.patch /opt/patches/
%post -c /bin/bash -eu
    files=(/opt/patches/*)
    [[ ${#files[@]} = 2 ]] && echo "${files[@]}" >/files
%test
    test -f /opt/src/lib/b.py && grep -q 2.patch /files
END
	built files.def

	{ cat <<'END' && printf 'Stage: final\n' && cat <<'END2'; } >stages.def
Bootstrap: docker
From: {{ BASE }}
Stage: devel
%arguments
    BASE=mlrun/base
%post
    perl -e 'print "made\n"' >/root/made
Bootstrap: docker
From: mlrun/base
END
%files from devel
    /root/made /usr/share/made
%test
    grep -q made /usr/share/made && ! test -e /root/made
END2
	built stages.def

	mlrun build -q -o tree -t tree -f solver.def .
	{ printf 'Bootstrap: localimage\nFrom: tree\n' && cat <<'END'; } >more.def
%post
    solve >/solved
    echo 'export MORE=1' >>$SINGULARITY_ENVIRONMENT
%labels
    Version 2
%test
    grep -q nothing /solved && test "$MORE" = 1
END
	built more.def
	run -0 inside /.singularity.d/runscript
	assert_line solved
}

@test "recipes: astro is built and run, for a release jupyter, too" {
	local names=astro base=mlrun/base
	[ -e /usr/share/datasets/fashion-mnist ] || skip "dataset-fashion-mnist is not installed"
	if [ "${CHECK_ALL:-no}" = yes ]; then
		names=astro,jupyter
	else # pip compiles no module that is not used
		base=quick
		mlrun build -q -t $base - <<<$'FROM mlrun/base\nENV PIP_COMPILE=0'
	fi
	run -0 "$top_srcdir/bench/recipes" --only $names "$MLRUN" $base
	assert_line --partial 'period 5.36'
	[ $names = astro ] || assert_line --partial 'bytes to fashion.html'
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

# counts_up N: Prometheus at $prometheus has read so many replicas.
counts_up() {
	[ "$(curl -s "http://127.0.0.1:$prometheus/api/v1/query?query=sum(up)" | jq -r '.data.result[0].value[1]')" = "$1" ]
}
has_restarted() { [ "$(mlrun ps --json | jq -r ".[] | select(.name == \"$1\") | .restarts")" = 1 ]; }

@test "recipes: serve has three replicas behind one port and a cache, and Prometheus reads them" {
	local mltrain=$top_builddir/bin/mltrain recipe=$top_srcdir/recipes/serve data=/usr/share/datasets/fashion-mnist
	local prometheus name
	[ -x "$top_builddir/bin/mltrain-serve" ] || skip "mltrain serve is not built"
	[ -e "$data" ] || skip "dataset-fashion-mnist is not installed"
	run -0 "$top_srcdir/images/build" trainer-cpu mlrun/trainer-cpu "$mltrain"
	"$mltrain" train -q --net lenet-5 --data "$data" --steps 3 --checkpoint net.safetensors
	export CHECKPOINT=$PWD/net.safetensors BASE=mlrun/base PORT REDIS_PORT REDISCLI_AUTH=secret.$$ COMPOSE_PROJECT_NAME=serve$$
	# four numbers in a row, below those that the kernel gives
	PORT=$(python3 -c 'import random, socket
while True:
    port = random.randrange(10000, 30000)
    try:
        for i in range(4):
            socket.socket().bind(("127.0.0.1", port + i))
    except OSError:
        continue
    print(port)
    break')
	REDIS_PORT=$(free_port)
	run -0 mlrun up -d "$recipe/compose.yaml"
	run -0 "$mltrain" load "http://127.0.0.1:$PORT/predict" --images "$data" -u 12 -d 1s --cache-rate 0.95 --known 10 --json load.json
	jq -e '.failed == 0 and .requests > 20' load.json
	for name in 1 2 3; do curl -s "http://127.0.0.1:$((PORT + name))/metrics" >metrics.$name; done
	grep -qE '^mltrain_cache_hits_total [1-9]' metrics.*
	# what the dashboard shows is there
	for name in $(jq -r '.. | .expr? // empty' "$recipe/grafana.json" | grep -o 'mltrain_[a-z_]*' | sort -u); do
		grep -q "^$name" metrics.1
	done
	pkill -KILL -f "listen 127.0.0.1:$((PORT + 2)) "
	until_true has_restarted "serve$$-web-2"
	if command -v prometheus >/dev/null; then
		prometheus=$(free_port)
		sed "s/:8001/:$((PORT + 1))/; s/:8002/:$((PORT + 2))/; s/:8003/:$((PORT + 3))/; s/5s/500ms/" "$recipe/prometheus.yml" >prometheus.yml
		prometheus --config.file=prometheus.yml --storage.tsdb.path=tsdb --web.listen-address="127.0.0.1:$prometheus" >said 2>&1 3>&- &
		PIDS+=("$!")
		until_true counts_up 3
	fi
	run -0 mlrun down "$recipe/compose.yaml"
	run -0 mlrun ps --all --project "serve$$" --json # other tests have containers, too
	assert_output '[]'
}
