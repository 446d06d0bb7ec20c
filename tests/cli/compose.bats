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
	local name

	for name in $(mlrun ps --all --json | jq -r '.[].name // empty'); do
		mlrun stop -t 0 --rm "$name" >/dev/null || true
	done
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
	is_gone "$web"
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
	# It ends when all have.
	printf 'services: {a: {image: "%s", command: echo once}}' "$IMG" >once.yaml
	run -0 timeout 60 mlrun up once.yaml
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
	run -127 timeout 60 mlrun up
	assert_equal "$(names shop)" ""
}

@test "compose: what is not supported is refused by name and line, and starts nothing" {
	printf 'services:\n  a:\n    image: %s\n    external_links: [x]\n    ports: ["80:8080"]\n  b: { image: %s, restart: often }\n' "$IMG" "$IMG" >compose.yaml
	run -125 mlrun up -d
	assert_line "mlrun: up: 'compose.yaml' line 4: services.a.external_links: this key is not supported"
	assert_line --partial "'compose.yaml' line 5: services.a.ports: port '80:8080' cannot be had"
	assert_line --partial "'compose.yaml' line 6: services.b.restart: "
	assert_line --regexp "^hint: services use the host's network"
	printf 'services: {a: {image: %s, port: 1}}' "$IMG" >compose.yaml
	run -125 mlrun up -d
	assert_line "hint: is 'ports' meant?"
	printf 'services:\n  a:\n    image: %s\n    ports: ["80:8080"]\n' "$IMG" >compose.yaml
	run -125 mlrun up -d
	assert_line --partial "'compose.yaml' line 4: services.a.ports: port '80:8080' cannot be had"
	printf 'services: {a: {image: "${UNSET:?set it}"}}' >compose.yaml
	run -125 mlrun up -d
	assert_line --partial "services.a.image: the variable UNSET is required: set it"
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
	run -125 timeout 20 mlrun up -d
	assert_output --partial "too many values"
	python3 -c 'print("x: [" * 100000)' >compose.yaml
	run -125 timeout 20 mlrun up -d
	assert_output --partial "nested too deeply"
	head -c 2000000 /dev/zero | tr '\0' '#' >compose.yaml
	run -125 timeout 20 mlrun up -d
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
