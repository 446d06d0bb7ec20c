#!/usr/bin/env bats
# Compose files: mlrun up and down, and ps and logs of a project.
# shellcheck disable=SC2016 # the shell inside expands

load common

setup_file() {
	tiny_root "$BATS_FILE_TMPDIR/root"
}

setup() {
	common_setup
	export IMG=rootfs:$BATS_FILE_TMPDIR/root NAP
	mkdir shop && cd shop || return
}

teardown() {
	services_end
	common_teardown
}

field() { mlrun ps --all --json | jq -r --arg name "$1" ".[] | select(.name == \$name) | .$2"; }
is() { [ "$(field "$1" "$2")" = "$3" ]; }
names() { mlrun ps -p "$1" --json | jq -r '.[].name' | sort | xargs; }
prints() { mlrun logs "$1" 2>&1 | grep -qxF "$2"; }

@test "compose: a project starts in order, is listed, and goes down" {
	local pid web

	cat >.env <<-'END'
		GREETING="hello there"
	END
	echo 'FROM_FILE=f' >vars
	mkdir data
	cat >compose.yaml <<-'END'
		services:
		  web:
		    image: ${IMG}
		    command: sh -c 'echo $$GREETING $$FROM_FILE $$PWD $$((8000 + MLRUN_REPLICA)); exec sleep ${NAP:?}'
		    environment: { GREETING: "${GREETING:-none}" }
		    env_file: vars
		    working_dir: /tmp
		    deploy: { replicas: 2 }
		    depends_on:
		      db: { condition: service_healthy }
		      setup: { condition: service_completed_successfully }
		  db:
		    image: ${IMG}
		    command: [sh, -c, "touch /data/up; exec sleep 1000"]
		    volumes: ["./data:/data"]
		    healthcheck: { test: [CMD, test, -e, /data/up], interval: 50ms }
		  setup:
		    image: ${IMG}
		    command: [sh, -c, "echo made >/data/setup"]
		    volumes: ["./data:/data"]
	END
	run -0 mlrun up -d
	assert_line "mlrun: shop-web-1 started"
	assert_equal "$(names shop)" "shop-db-1 shop-web-1 shop-web-2"
	assert_equal "$(cat data/setup)" made
	until_true prints shop-web-2 "hello there f /tmp 8002"
	run -0 mlrun logs -p shop web
	assert_line "web-1 | hello there f /tmp 8001"
	# Names of the services lead to this machine.
	run -0 mlrun exec --join shop-web-1 cat /etc/hosts
	assert_line "127.0.0.1 db setup web"
	# What is unchanged stays as it is; what has changed is started anew.
	pid=$(field shop-db-1 pid)
	web=$(field shop-web-1 pid)
	run -0 mlrun up -d
	assert_line "mlrun: shop-db-1 runs"
	sed 's/setup/later/' compose.yaml >later.yaml
	run -0 mlrun up -d later.yaml
	is shop-web-1 pid "$web"
	run -0 mlrun exec --join shop-web-1 cat /etc/hosts
	assert_line "127.0.0.1 db later web"
	run -0 mlrun up -d --remove-orphans
	is shop-db-1 pid "$pid"
	is shop-web-1 pid "$web"
	sed -i 's/replicas: 2/replicas: 1/; s/interval: 50ms/interval: 60ms/' compose.yaml
	run -0 mlrun up -d
	assert_line "mlrun: shop-db-1 has changed: stopping it"
	assert_line "mlrun: stopping shop-web-2"
	is shop-web-1 pid "$web"
	[ "$(field shop-db-1 pid)" != "$pid" ]
	assert_equal "$(names shop)" "shop-db-1 shop-web-1"
	run -0 mlrun down
	assert_equal "$(grep stopping <<<"$output" | xargs)" "mlrun: stopping shop-web-1 mlrun: stopping shop-db-1"
	run -0 mlrun ps --all -p shop --json
	assert_output "[]"
	until_true is_gone "$web"
	run -0 mlrun down
}

@test "compose: in the foreground lines have names, and an interrupt ends all in reverse order" {
	cat >compose.yaml <<-'END'
		name: fore
		services:
		  second:
		    image: ${IMG}
		    command: sh -c 'trap "echo second >>/here/order; exit" TERM; echo two; echo err >&2; while :; do sleep 0.05; done'
		    volumes: [".:/here"]
		    depends_on: [first-one]
		  first-one:
		    image: ${IMG}
		    command: sh -c 'trap "echo first >>/here/order; exit" TERM; echo one; while :; do sleep 0.05; done'
		    volumes: [".:/here"]
	END
	for signal in INT HUP; do
		# Of a background process of a shell the interrupt is ignored.
		python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp("mlrun", ["mlrun", "up"])' >out 2>err &
		PIDS+=("$!")
		until_true grep -qx 'first-one-1 | one' out
		until_true grep -qx 'second-1    | two' out
		until_true grep -qx 'second-1    | err' out
		kill -"$signal" "$!"
		status=0
		wait "$!" || status=$?
		assert_equal "$status" $((128 + $(kill -l "$signal")))
		assert_equal "$(names fore)" ""
		assert_equal "$(grep stopping err | xargs)" "mlrun: stopping fore-second-1 mlrun: stopping fore-first-one-1"
		assert_equal "$(cat order)" $'second\nfirst'
		rm order
	done
	# One that nohup(1) started outlives its terminal.
	nohup mlrun up >out 2>err &
	PIDS+=("$!")
	until_true grep -qx 'first-one-1 | one' out
	kill -HUP "$!"
	sleep 0.3
	kill -TERM "$!"
	status=0
	wait "$!" || status=$?
	assert_equal "$status" 143
	assert_equal "$(names fore)" ""
	# It ends when all have.
	printf 'services: {a: {image: "%s", command: echo once}}' "$IMG" >once.yaml
	run -0 timeout 200 mlrun up once.yaml
	assert_line "a-1 | once"
}

@test "compose: what another needs and what fails ends the start with a reason" {
	cat >compose.yaml <<-'END'
		services:
		  web: { image: "$IMG", command: sleep 1000, depends_on: { job: { condition: service_completed_successfully } } }
		  job: { image: "$IMG", command: "sh -c 'exit 3'" }
	END
	run -125 mlrun up -d
	assert_line "mlrun: up: service 'web' needs 'job': 'shop-job-1' ended with 3"
	is shop-web-1 status ""
	sed -i 's/service_completed_successfully/service_healthy/; s/exit 3/sleep 1000/' compose.yaml
	run -125 mlrun up -d
	assert_line "mlrun: up: service 'web' needs 'job': 'shop-job-1' has no healthcheck"
	sed -i 's/command: "sh/healthcheck: { test: "false", interval: 20ms, retries: 2 }, command: "sh/' compose.yaml
	run -125 mlrun up -d
	assert_line "mlrun: up: service 'web' needs 'job': 'shop-job-1' is unhealthy"
	sed -i 's/sleep 1000, dep/no-such-command, dep/; s/"false"/"true"/' compose.yaml
	run -127 mlrun up -d
	assert_output --partial "command 'no-such-command' not found"
	# What the foreground has started goes when it fails.
	run -127 timeout 200 mlrun up
	assert_equal "$(names shop)" ""
}

@test "compose: what is not supported is refused by name and line, and starts nothing" {
	printf 'services:\n  a:\n    image: %s\n    external_links: [x]\n    ports: ["53:54/udp"]\n  b: { image: %s, restart: often }\n' "$IMG" "$IMG" >compose.yaml
	run -125 mlrun up -d
	assert_line "mlrun: up: 'compose.yaml' line 4: services.a.external_links: this key is not supported"
	assert_line --partial "'compose.yaml' line 5: services.a.ports: port '53:54/udp' cannot be had"
	assert_line --partial "'compose.yaml' line 6: services.b.restart: "
	assert_line --regexp "^hint: only TCP is passed on to another port: .* 53:53/udp$"
	printf 'services: {a: {image: %s, port: 1}}' "$IMG" >compose.yaml
	run -125 mlrun up -d
	assert_line "hint: is 'ports' meant?"
	printf 'services: {a: {image: "${UNSET:?set it}"}}' >compose.yaml
	run -125 mlrun up -d
	assert_line --partial "line 1: the variable UNSET is required: set it"
	run -125 mlrun up none.yaml
	assert_line "mlrun: up: 'none.yaml': No such file or directory"
	rm compose.yaml
	run -125 mlrun up
	assert_line "hint: mlrun up FILE takes another"
	for name in ../x $'a\nb' A ''; do
		printf 'services: {a: {image: "%s", command: "true"}}' "$IMG" >compose.yaml
		run -125 mlrun up -d -p "$name"
		assert_line --partial "is no name of a project"
	done
	[ ! -e "$MLRUN_STORE/services" ]
}

@test "compose: a bomb of aliases and a file that is too large are refused at once" {
	python3 - >compose.yaml <<-'END'
		print("x-0: &a0 [" + ", ".join(["lol"] * 9) + "]")
		for i in range(1, 12):
		    print(f"x-{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 9) + "]")
		print("services: {a: {image: i, command: *a11}}")
	END
	run -125 timeout 200 mlrun up -d
	assert_output --partial "too many values"
	python3 -c 'print("x: [" * 100000)' >compose.yaml
	run -125 timeout 200 mlrun up -d
	assert_output --partial "nested too deeply"
	python3 - >compose.yaml <<-'END'
		print("x-a: &a '" + "y" * 900000 + "'")
		print("x-b: [" + ", ".join(["*a"] * 25) + "]")
		print("services: {a: {image: i}}")
	END
	run -125 timeout 200 mlrun up --config
	assert_output "mlrun: up --config: 'compose.yaml': the merged file is too long to be printed"
	head -c 2000000 /dev/zero | tr '\0' '#' >compose.yaml
	run -125 timeout 200 mlrun up -d
	assert_output --partial "compose.yaml"
}

@test "compose: values of variables are on no command line, in no readable file" {
	cat >compose.yaml <<-'END'
		services:
		  web:
		    image: ${IMG}
		    command: [sh, -c, "echo is $$SECRET; exec sleep 1000"]
		    environment: [SECRET]
	END
	SECRET=s3cr3t-$$ mlrun up -d
	until_true prints shop-web-1 "is s3cr3t-$$"
	run -1 pgrep -f "s3cr3t-$$"
	run -0 find "$MLRUN_STORE/services" -type f -perm /077
	assert_output ""
}

@test "compose: images are built once, and again when they shall be" {
	tar -C "$BATS_FILE_TMPDIR/root" -cf root.tar .
	mlrun import -q root.tar tiny
	mkdir app
	printf 'FROM tiny AS one\nARG V=0\nRUN echo version $V >/v\nFROM one AS two\nCMD cat /v\n' >app/Dockerfile
	cat >compose.yaml <<-'END'
		services:
		  app: { build: { context: app, target: two, args: { V: "${V:-1}" } } }
	END
	run -0 timeout 100 mlrun up
	assert_line "app-1 | version 1"
	V=2 run -0 timeout 100 mlrun up
	assert_line "app-1 | version 1"
	V=2 run -0 timeout 100 mlrun up --build
	assert_line "app-1 | version 2"
	run -0 mlrun images
	assert_output --partial shop-app
}

@test "compose: services that the file no longer has are told, and end when asked" {
	printf 'services: {a: {image: "%s", command: sleep 1000}, b: {image: "%s", command: sleep 1000}}' "$IMG" "$IMG" >compose.yaml
	mlrun up -d
	printf 'services: {a: {image: "%s", command: sleep 1000}}' "$IMG" >compose.yaml
	run -0 mlrun up -d
	assert_line "mlrun: warning: shop-b-1 is not in 'compose.yaml' any more; --remove-orphans ends it"
	assert_equal "$(names shop)" "shop-a-1 shop-b-1"
	mlrun up -d --remove-orphans
	assert_equal "$(names shop)" shop-a-1
	mlrun run -d --name shop-c-1 "$IMG" sleep 1000
	printf 'services: {c: {image: "%s", command: sleep 1000}}' "$IMG" >compose.yaml
	run -125 mlrun up -d
	assert_line "mlrun: up 'shop-c-1': a service of that name is there already, running"
	# down ends the project by its name alone, and nothing else.
	rm compose.yaml
	run -0 mlrun down -p shop
	assert_equal "$(mlrun ps --all --json | jq -r '.[].name // empty')" shop-c-1
}

@test "compose: a service that another is put before stays as it is, and one with another name takes the old one's place" {
	printf 'services: {web: {image: "%s", command: sleep 1000}}' "$IMG" >compose.yaml
	mlrun up -d
	printf 'services: {first: {image: "%s", command: sleep 1000}, web: {image: "%s", command: sleep 1000}}' "$IMG" "$IMG" >compose.yaml
	run -0 mlrun up -d
	assert_line "mlrun: shop-web-1 runs"
	# its place is the new one: down ends them from the last to the first
	printf 'services: {first: {image: "%s", command: sleep 1000}, web: {image: "%s", command: sleep 1000, container_name: mine}}' \
		"$IMG" "$IMG" >compose.yaml
	run -0 mlrun up -d
	assert_line "mlrun: stopping shop-web-1"
	assert_equal "$(names shop)" "mine shop-first-1"
	run -0 mlrun down
	assert_line --index 0 "mlrun: stopping mine"
}

@test "compose: volumes are directories of the project, which begin with the image's files and end with down -v" {
	mkdir -p own
	cp -R "$BATS_FILE_TMPDIR/root" image
	mkdir -p image/seed/deep image/data
	echo image >image/seed/deep/file
	export IMG=rootfs:$PWD/image
	cat >compose.yaml <<-'END'
		networks: { back: { driver: bridge } }
		volumes:
		  data:
		  shared: { external: true }
		  bound: { driver: local, driver_opts: { type: none, o: bind, device: ./own } }
		services:
		  a:
		    image: ${IMG}
		    container_name: mine
		    networks: { back: { aliases: [alias] } }
		    logging: { driver: none }
		    command: [sh, -c, "cat /seed/deep/file /other/deep/file >/bound/seen; echo \"$$LINES_\" >/data/a; echo s >/shared/s; exec sleep 1000"]
		    environment: { LINES_: "one\ntwo" }
		    volumes: ["data:/data:z", "shared:/shared", "bound:/bound", "seeded:/seed", "/other", "./made/here:/made"]
		  b:
		    image: ${IMG}
		    command: sleep 1000
		    volumes: [{ type: volume, source: data, target: /data, read_only: true }]
	END
	sed -i 's/  data:$/  data:\n  seeded:/' compose.yaml
	cp -R image/seed image/other
	run -0 mlrun up -d
	assert_line --index 0 "mlrun: ignored, as services have this machine's network and the caller's rights: networks, logging"
	until_true [ -s own/seen ]
	until_true mlrun exec --join shop-b-1 grep -q two /data/a
	assert_equal "$(cat own/seen)" $'image\nimage'
	[ -d made/here ]
	run -0 mlrun exec --join shop-b-1 cat /etc/hosts /data/a
	assert_line "127.0.0.1 a alias mine b"
	assert_line one
	run ! mlrun exec --join shop-b-1 touch /data/x
	# What was written stays when the project goes down, and so does what its image no longer has.
	rm -r image/seed/deep
	mlrun down
	mlrun up -d
	run -0 mlrun exec --join mine cat /data/a /seed/deep/file
	assert_output $'one\ntwo\nimage'
	# Its variables need not be there, and what other projects share stays.
	run -125 mlrun down -v -p ..
	assert_line --partial "'..' is no name of a project"
	env -u IMG mlrun down -v
	[ ! -e "$MLRUN_STORE/volumes/shop" ]
	# One that cannot be filled is not there: the next start tries again.
	rm image/bin/sh
	printf '#!/bin/busybox ash\nexit 3\n' >image/bin/sh
	chmod +x image/bin/sh
	run -125 mlrun up -d
	assert_line --regexp "^mlrun: up: fill the volume '/.*' of 'a': cp ended with 3"
	assert_equal "$(ls -A "$MLRUN_STORE/volumes/shop")" ""
	rm image/bin/sh # which service a needs, too
	run -127 mlrun up -d
	assert_line "mlrun: warning: volume '/seed' of 'a' begins empty"
	mlrun down -v
	assert_equal "$(cat "$MLRUN_STORE/volumes/_/shared/s")" s
	[ -e own/seen ]
}

@test "compose: secrets and configs are files; profiles are started when asked for" {
	echo word >pw
	cat >compose.yaml <<-'END'
		secrets: { pw: { file: ./pw } }
		configs: { conf: { file: ./pw } }
		services:
		  a:
		    image: ${IMG}
		    command: [sh, -c, "cat /run/secrets/pw /run/secrets/other /conf; ulimit -n; exec sleep 1000"]
		    secrets: [pw, { source: pw, target: other, mode: 0400 }]
		    configs: [conf]
		    ulimits: { nofile: { soft: 77, hard: 99 } }
		  debug:
		    image: ${IMG}
		    command: sleep 1000
		    profiles: [debug, all]
	END
	mlrun up -d
	until_true prints shop-a-1 77
	assert_equal "$(mlrun logs shop-a-1 | xargs)" "word word word 77"
	assert_equal "$(names shop)" shop-a-1
	COMPOSE_PROFILES=x,debug mlrun up -d
	assert_equal "$(names shop)" "shop-a-1 shop-debug-1"
}

@test "compose: files are merged, by -f, by their override and by COMPOSE_FILE, with their variables" {
	mkdir sub
	cat >compose.yaml <<-'END'
		services:
		  a:
		    image: ${IMG}
		    command: [sh, -c, "echo $$A $$B $$C; exec sleep 1000"]
		    environment: [A=1, "B=${B:-none}"]
		    volumes: [./one:/d]
	END
	cat >compose.override.yaml <<-'END'
		services: { a: { environment: { A: 2, C: over }, volumes: [./two:/d] } }
	END
	run -0 mlrun up -d
	until_true prints shop-a-1 "2 none over"
	[ -d two ] && [ ! -e one ]
	run -0 mlrun up --config -f compose.yaml
	refute_output --partial over
	assert_line '      - sh'
	assert_line '      - "echo $$A $$B $$C; exec sleep 1000"'
	printf 'B=x y\n' >vars
	printf 'B=$B more\n' >more
	printf 'services: {a: {volumes: !reset [], environment: !override ["A=3", "B=${B}"]}}' >sub/third.yaml
	run -0 mlrun up -d -f compose.yaml -f sub/third.yaml --env-file vars --env-file more
	until_true prints shop-a-1 "3 x y more"
	run ! mlrun exec --join shop-a-1 test -e /d
	COMPOSE_PATH_SEPARATOR=, COMPOSE_FILE=compose.yaml,sub/third.yaml run -0 mlrun up --config
	assert_line '      - "A=3"'
	echo COMPOSE_FILE=sub/third.yaml:compose.yaml >.env
	run -0 mlrun up --dry-run
	assert_line --regexp '^sub-a-1: ' # the first file's directory
	run -0 mlrun up --dry-run --project-directory . -f - <compose.yaml
	assert_line --regexp '^shop-a-1: '
	echo COMPOSE_PROJECT_NAME=named >.env
	echo 'services: {a: {image: "x:${COMPOSE_PROJECT_NAME}"}}' >name.yaml
	run -0 mlrun up --dry-run name.yaml
	assert_output "named-a-1: x:named"
	run -0 mlrun down -p shop
	# What is wrong in the second file is named there.
	echo 'services: {a: {imge: x, user: "${NOBODY:?none}"}}' >bad.yaml
	run -125 mlrun up -f compose.yaml -f bad.yaml
	assert_line "mlrun: up: 'bad.yaml' line 1: the variable NOBODY is required: none"
	NOBODY=1 run -125 mlrun up -f compose.yaml -f bad.yaml
	assert_line --partial "'bad.yaml' line 1: services.a.imge: this key is not supported"
}

@test "compose: extends and include take services from other files, whose paths are their own" {
	mkdir -p lib/data other
	cat >lib/base.yaml <<-'END'
		services:
		  base: { image: "${IMG}", command: [sh, -c, "echo $$K $$L; cat /d/f; exec sleep 1000"], environment: { K: base, L: base }, volumes: ["./data:/d"] }
		  more: { extends: base, environment: { L: more } }
	END
	echo from lib >lib/data/f
	cat >other/compose.yaml <<-'END'
		services: { inner: { image: "${IMG}", command: [sh, -c, "echo $$V; exec sleep 1000"], environment: ["V=${V}"], depends_on: [deep] } }
		include: [{ path: [../deep.yaml] }]
	END
	echo 'services: {deep: {image: "${IMG}", command: sleep 1000}}' >deep.yaml
	echo 'V=of other' >other/.env
	echo 'V=second' >second.env
	cat >compose.yaml <<-'END'
		x-common: &common { K: own, S: "no" }
		include: [other/compose.yaml]
		services:
		  a:
		    extends: { file: lib/base.yaml, service: more }
		    environment: { <<: *common, M: m }
		    depends_on: [inner]
	END
	run -0 mlrun up -d
	assert_equal "$(names shop)" "shop-a-1 shop-deep-1 shop-inner-1"
	until_true prints shop-a-1 "from lib"
	run -0 mlrun logs shop-a-1
	assert_line --index 0 "own more"
	until_true prints shop-inner-1 "of other"
	sed -i 's|include: .*|include: [{ path: other/compose.yaml, env_file: second.env }]|' compose.yaml
	run -0 mlrun up -d
	until_true prints shop-inner-1 "second"
	mlrun down
	sed -i 's|\.\./deep.yaml|../compose.yaml|' other/compose.yaml
	run -125 mlrun up -d
	assert_line --regexp "compose.yaml' includes itself, or too many others$"
	sed -i '/include/d' compose.yaml other/compose.yaml
	sed -i 's/extends: base/extends: more/' lib/base.yaml
	run -125 mlrun up -d
	assert_line --regexp "/lib/base.yaml': services.more.extends: it extends itself, or too many others$"
	printf 'include: [other/compose.yaml]\nservices: {inner: {image: x}}' >compose.yaml
	run -125 mlrun up -d
	assert_line --regexp "/other/compose.yaml': services.inner is there already, and differs$"
}

@test "compose: a port leads to another one of the command's, and one in use is refused with who has it" {
	local port target busy

	cat >server.py <<-'END'
		import socket, sys
		s = socket.socket()
		s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
		s.bind(("127.0.0.1", int(sys.argv[1])))
		s.listen()
		print(s.getsockname()[1], flush=True)
		while True:
		    c = s.accept()[0]
		    n = 0
		    try:
		        while data := c.recv(65536):
		            n += len(data)
		        c.sendall(b"%d\n" % n + b"x" * 20000000)
		    except OSError:
		        pass
		    c.close()
	END
	cat >client.py <<-'END'
		import socket, sys
		c = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60)
		c.sendall(b"y" * 10000000)
		c.shutdown(socket.SHUT_WR)
		data = bytearray() # bytes would be copied by each +=
		while got := c.recv(65536):
		    data += got
		print(data.split(b"\n")[0].decode(), len(data))
	END
	mapfile -t free < <(python3 -c 'import socket
all = [socket.socket() for i in range(4)]
for s in all: s.bind(("", 0))
for s in all: print(s.getsockname()[1])')
	port=${free[0]} target=${free[1]} busy=${free[2]}
	printf 'services: {a: {image: "%s", command: sleep 1000, ports: ["%s:%s", "127.0.0.1:%s:%s"]}}' \
		"$IMG" "$port" "$target" "${free[3]}" "$target" >compose.yaml
	run -0 mlrun up -d
	assert_line --regexp "^mlrun: a: reachable for others too, whatever 'ports' says"
	# Nobody listens behind it yet.
	run -0 python3 -c "import socket; print(socket.create_connection(('127.0.0.1', $port)).recv(9))"
	assert_output "b''"
	python3 server.py "$target" >out &
	PIDS+=("$!")
	until_true [ -s out ]
	run -0 python3 client.py "$port"
	assert_output "10000000 20000009"
	# Many at once, and some that break off.
	run -0 python3 -c "import socket
for i in range(50): socket.create_connection(('127.0.0.1', ${free[3]})).send(b'z' * 100000)"
	run -0 python3 client.py "${free[3]}"
	assert_output "10000000 20000009"
	# With all closed the supervisor has no connection and sleeps.
	until_true [ "$(ls -l "/proc/$(pgrep -f 'service-hold.*shop-a-1')/fd" | grep -c socket)" = 2 ]
	mlrun down
	kill "${PIDS[-1]}"
	python3 server.py "$busy" >busy &
	PIDS+=("$!")
	until_true [ -s busy ]
	printf 'services: {a: {image: "%s", command: sleep 1000, ports: ["%s:%s"]}}' "$IMG" "$busy" "$target" >compose.yaml
	run -125 mlrun up -d
	assert_line "mlrun: up 'shop-a-1': port $busy: Address already in use"
	printf 'services: {a: {image: "%s", command: sleep 1000, ports: ["%s"]}}' "$IMG" "$busy" >compose.yaml
	run -125 mlrun up -d
	assert_line "mlrun: up 'shop-a-1': port $busy: Address already in use"
	run -0 mlrun ps --all -p shop --json
	assert_output "[]"
	printf 'services: {a: {image: i, ports: [80]}, b: {image: i, ports: ["81:80"]}}' >compose.yaml
	run -125 mlrun up -d
	assert_line --partial "services.b.ports: port 80 is that of service 'a', too"
}

@test "compose: ports of root's are refused before images are fetched, and work where the machine allows them" {
	cat >compose.yaml <<-'END'
		services:
		  a: { image: "127.0.0.1:1/none", ports: ["82:8080", "81:80"] }
		  b: { image: "127.0.0.1:1/none", ports: ["8081:83"] }
	END
	# A network of this process's own, in which it has no rights.
	outer() { unshare -Urn bash -c 'echo "$0" >/proc/sys/net/ipv4/ip_unprivileged_port_start && exec unshare -U --map-user="$1" --map-group="$2" "${@:3}"' "$1" "$(id -u)" "$(id -g)" "${@:2}"; }
	outer 1024 true || skip "no network namespaces here"
	run -125 outer 1024 mlrun up -d
	assert_line "mlrun: up 'a': port 82: Permission denied"
	assert_line --regexp "^hint: .* root's: write another in 'ports', such as 8080:8080; or an administrator .*_port_start=82$"
	assert_line "mlrun: up 'b': port 83: Permission denied"
	assert_line --regexp "^hint: .* root's: have the command listen on another, .* such as 8080:8080; or an administrator .*_port_start=83$"
	refute_output --partial fetch
	printf 'services: {a: {image: "%s", command: sleep 1000, ports: ["81:8080", "82:82"]}}' "$IMG" >compose.yaml
	run -0 outer 81 mlrun up -d
	is shop-a-1 status running
}

@test "compose: some services are started with what they need, in any number, and others restart after them" {
	cat >compose.yaml <<-'END'
		services:
		  db: { image: "$IMG", command: "sleep ${DB:-1000}", container_name: base }
		  web: { image: "$IMG", command: sleep 1000, depends_on: { db: { condition: service_started, restart: true } }, deploy: }
		  other: { image: "$IMG", command: sleep 1000 }
		  tool: { image: "$IMG", command: sleep 1000, profiles: [tools] }
	END
	run -0 mlrun up -d web
	assert_equal "$(names shop)" "base shop-web-1"
	run -0 mlrun up -d --no-deps --scale other=3 other
	assert_equal "$(names shop)" "base shop-other-1 shop-other-2 shop-other-3 shop-web-1"
	run -0 mlrun exec --join shop-web-1 grep -w base /etc/hosts
	pid=$(field shop-web-1 pid)
	DB=1001 run -0 mlrun up -d web
	assert_line "mlrun: shop-web-1 restarts after what it needs"
	[ "$(field shop-web-1 pid)" != "$pid" ]
	pid=$(field base pid)
	DB=1001 run -0 mlrun up -d --force-recreate db
	[ "$(field base pid)" != "$pid" ]
	run -0 mlrun up -d tool
	run -0 mlrun up --dry-run --profile tools
	assert_line --regexp "^shop-tool-1: "
	run -0 mlrun up -d --remove-orphans web # a service of another profile is no orphan
	run -0 mlrun down other not-there
	assert_equal "$(names shop)" "base shop-tool-1 shop-web-1"
	run -125 mlrun up -d wbe
	assert_line "mlrun: up: there is no service 'wbe'"
	assert_line "hint: is web meant?"
	run -125 mlrun up -d --scale db=2
	assert_line "mlrun: up: service 'db': several replicas cannot have one container_name"
	run -125 mlrun up -d --scale web=x
	assert_line --partial "'web=x': expected SERVICE=NUMBER"
}

@test "compose: what services print while they end is shown" {
	printf 'services: {a: {image: "%s", command: [sh, -c, "trap %s TERM; echo up; while :; do sleep 0.05; done"]}}' \
		"$IMG" "'echo bye; exit'" >compose.yaml
	mlrun up >out 2>err &
	PIDS+=("$!")
	until_true grep -qx 'a-1 | up' out
	kill "$!"
	wait "$!" || true
	assert_equal "$(<out)" $'a-1 | up\na-1 | bye'
}

@test "compose: docker compose's commands are mlrun's" {
	cat >shop.yaml <<-'END'
		name: mine
		services:
		  web: { image: "$IMG", command: [sh, -c, "echo up; exec sleep 1000"] }
		  db: { image: "$IMG", command: sleep 1000 }
	END
	compose() { mlrun compose --ansi never -f shop.yaml "$@"; }
	run -0 compose up -d
	run -0 compose ps --json
	assert_equal "$(jq -r '.[].name' <<<"$output" | sort | xargs)" "mine-db-1 mine-web-1"
	until_true prints mine-web-1 up
	run -0 compose logs web
	assert_output "web-1 | up"
	run -7 compose exec -T -e X=7 web sh -c 'exit $X'
	run -0 compose stop -t 1 web
	is mine-web-1 status exited
	run -125 compose exec web true
	assert_line "mlrun: compose: service 'web' of project 'mine' does not run"
	run -0 compose start
	is mine-web-1 status running
	run -0 compose restart web
	for verb in logs restart stop kill exec; do
		run -125 compose "$verb" wbe true
		assert_output --partial "project 'mine' has started no service 'wbe'"
	done
	run -0 compose kill db
	is mine-db-1 status exited
	run -0 compose config
	assert_line "name: mine"
	run -0 compose ls
	assert_output --partial mine-web-1
	run -0 compose build
	run -0 compose pull
	run -0 compose -p other up --dry-run
	assert_line --regexp "^other-web-1: "
	run -0 compose down
	assert_equal "$(names mine)" ""
	run -125 compose pause
	assert_line --partial "hint: mlrun kill -s STOP NAME"
	run -125 compose fly
	assert_line "mlrun: compose: unknown command 'fly'"
	run -125 compose up --wait
	assert_line "mlrun: up: mlrun has no --wait"
	run -125 mlrun config --services
	assert_line "hint: mlrun compose config prints the compose file"
}

@test "compose: run starts what a service needs, and is a command of its own with the caller's terminal and exit status" {
	cat >compose.yaml <<-'END'
		services:
		  db:
		    image: "$IMG"
		    command: sh -c 'touch /here/up; exec sleep 1000'
		    volumes: [".:/here"]
		    healthcheck: { test: [CMD, test, -e, /here/up], interval: 50ms }
		  web:
		    image: "$IMG"
		    entrypoint: [sh, -c]
		    command: ["echo the service; exec sleep 1000"]
		    environment: { A: file, SECRET: "s3cr3t" }
		    volumes: [".:/here", "../shop:/other"]
		    depends_on: { db: { condition: service_healthy } }
		    ports: ["1:8080"]
		    restart: always
		  tool: { image: "$IMG", command: "echo tool", profiles: [tools], ports: ["8080"] }
	END
	run -125 mlrun compose run --no-deps --service-ports web true
	assert_line "mlrun: compose run: port 1 leads to 8080 only in the background"
	run -7 mlrun compose run --rm -T -e A=mine -e B web 'cat /etc/hosts /here/in; echo $A $B $SECRET; exit 7' <<<ignored
	assert_line "mlrun: shop-db-1 started"
	assert_line "cat: can't open '/here/in': No such file or directory"
	assert_line "127.0.0.1 db web"
	assert_line "mine s3cr3t"
	assert_equal "$(names shop)" shop-db-1
	run -0 mlrun compose run --no-deps -v /etc/hostname:/other/name -w /here web 'cat; pwd; cat /other/name' <<<given
	assert_output "given
/here
$(cat /etc/hostname)"
	run -0 mlrun compose run --entrypoint echo web a b
	assert_line "a b"
	run -0 mlrun compose run --entrypoint pwd web
	assert_line /
	# A service of a profile may be named, and its own command is the default.
	run -0 mlrun compose run --service-ports tool
	assert_output tool
	# Of two at once that need the same service one starts it.
	mlrun compose stop db
	mlrun compose run web 'echo one' >one 2>&1 & PIDS+=("$!")
	run -0 mlrun compose run web 'echo two'
	wait "$!"
	run -0 cat one - <<<"$output"
	assert_equal "$(grep -c ' started$' <<<"$output")" 1
	assert_line one
	assert_line two
	# In the background it is listed and ends with the project; up leaves it.
	run -0 mlrun compose run -d --name mine web 'echo in back; exec sleep 1000'
	assert_line --index -1 mine
	until_true prints mine "in back"
	run -0 mlrun compose run -d --rm tool sleep 1000
	assert_line --regexp '^shop-tool-run-[0-9a-f]{6}$'
	run -0 mlrun up -d db
	refute_output --partial mine
	run -0 mlrun compose logs
	assert_line --regexp "^mine *\| in back$"
	is mine restarts 0
	mlrun compose down
	assert_equal "$(mlrun ps --all --json | jq -r '.[].name // empty')" ""
	while IFS='|' read -r words says; do
		# shellcheck disable=SC2086 # words
		run -125 mlrun compose run $words
		assert_output --partial "$says"
	done <<-'END'
		|the service's name is missing
		wbe true|there is no service 'wbe'
		--name x web true|--name is a service's
		--name ../x -d --no-deps web true|invalid name '../x' of a service
		--frobnicate web true|--frobnicate
	END
}

@test "compose: volumes_from takes another service's volumes, dockerfile_inline is the recipe" {
	tar -C "$BATS_FILE_TMPDIR/root" -cf root.tar .
	mlrun import -q root.tar tiny
	mkdir data app
	echo here >app/file
	cat >compose.yaml <<-'END'
		volumes: { kept: }
		services:
		  last: { image: "$IMG", volumes_from: [middle], volumes: ["./app:/data"], command: [sh, -c, "cat /data/file /kept/a"] }
		  middle: { image: "$IMG", volumes_from: ["first:ro"], command: [sh, -c, "cat /data/f; touch /data/x || echo read-only"] }
		  first: { image: "$IMG", volumes: ["./data:/data", "kept:/kept"], command: [sh, -c, "echo f >/data/f; echo a >/kept/a"] }
		  made:
		    build:
		      context: app
		      dockerfile_inline: |
		        FROM tiny
		        COPY file /made
		        CMD cat /made
	END
	run -0 timeout 100 mlrun up --build
	assert_line --regexp "^made-1 *\| here$"
	assert_line --regexp "^middle-1 *\| read-only$"
	assert_line --regexp "^last-1 *\| here$"
	assert_line --regexp "^last-1 *\| a$"
	mlrun down -v
	while IFS='|' read -r from says; do
		printf 'services: {a: {image: i, volumes_from: ["%s"]}}' "$from" >compose.yaml
		run -125 mlrun up --dry-run
		assert_output --partial "$says"
	done <<-'END'
		container:x|volumes_from: 'container:x' is no service of the file
		a|it needs itself
		b|there is no service 'b'
		b:rx|unknown mode 'rx'
	END
	printf 'services: {a: {build: {dockerfile: F, dockerfile_inline: FROM x}}}' >compose.yaml
	run -125 mlrun up --dry-run
	assert_output --partial "dockerfile and dockerfile_inline exclude each other"
}
