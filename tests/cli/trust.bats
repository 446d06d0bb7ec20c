#!/usr/bin/env bats
# Recipes, ONBUILD of base images, contexts and compose files are strangers: what they may ask of the caller's machine is
# in docs/trust.md, and nothing else is theirs.
# shellcheck disable=SC2016 # the inner shell expands
load common
load build

setup_file() {
	registry_start
	image_tiny tiny
}
teardown_file() { registry_stop; }

setup() {
	common_setup
	export BASE=$REGISTRY/tiny
	umask 022
	# What no stranger may have: files, a variable, an archive, a directory that must stay as it is.
	mkdir -p "$HOME/.ssh" "$TMPDIR/ctx/sub" "$TMPDIR/victim"
	echo CANARY-key >"$HOME/.ssh/id_ed25519"
	echo CANARY-ignored >"$TMPDIR/ctx/.env"
	echo .env >"$TMPDIR/ctx/.dockerignore"
	echo plain >"$TMPDIR/ctx/sub/file"
	export TOKEN=CANARY-variable VICTIM=$TMPDIR/victim
	cd "$TMPDIR/ctx" || return
}

recipe() { sed "s|BASE|$BASE|; s|HOME|$HOME|g; s|VICTIM|$VICTIM|g" >Dockerfile; }

# What a RUN does to find and to leave something.
LOOT='for d in /m /h /dev/shm /tmp /run /root /home /mnt; do grep -rs CANAR[Y] $d; echo x >$d/planted; done 2>/dev/null; env | grep CANAR[Y]; :'

# stranger INSTRUCTION: an image that asks it of those who build on it; then a build on it, with more arguments.
stranger() {
	printf 'FROM %s\nONBUILD %s\n' "$BASE" "$1" >"$TMPDIR/evil"
	shift
	mlrun build -q -t evil -f "$TMPDIR/evil" "$TMPDIR/victim" >/dev/null
	printf 'FROM localhost/evil\nRUN %s\n' "$LOOT" >Dockerfile
	mlrun build --no-cache -t mine "$@" .
}

# no_canary DIRECTORY: no file below has one. busybox, under its hundreds of names, would be read hundreds of times.
no_canary() {
	run find "$1" -type f -links -99 -exec grep -lsF CANARY {} +
	assert_output ""
}

unharmed() {
	assert_equal "$(ls -A "$VICTIM")" ""
	refute_output --partial CANARY
	no_canary "$MLRUN_STORE/layers"
}

# exchange A B [MICROSECONDS]: again and again, as who may write the directory of both can.
exchange() {
	"$top_builddir/tests/inside/attack" flip "$@" 3>&- &
	PIDS+=($!)
}

rows() { "$top_builddir/tests/cli/reach" "$@"; }

@test "trust: docs/trust.md has what each row of the tables of recipes and compose files reaches, and no more" {
	local which row reach

	for which in recipe compose; do
		rows $which >rows
		while IFS=$'\t' read -r row reach; do
			grep -qxF "| \`$row\` | $reach |" "$top_srcdir/docs/trust.md" || fail "no row: | \`$row\` | $reach |"
		done <rows
	done
	{ rows recipe && rows compose; } | wc -l >n
	assert_equal "$(grep -cE '^\| `(%[a-z]+|[A-Z]+( --[a-z-]+(=type=[a-z,]+)?)?|(services|version|name|include|networks|volumes|secrets|configs)[A-Za-z0-9._]*)` \|' "$top_srcdir/docs/trust.md")" "$(<n)"
}

# A row that a base image's ONBUILD asks for, as badly as it can; "!" and a message where it is refused.
attempt() {
	local key=${1##*,} type=${1#RUN --mount=type=} value

	type=${type%%,*}
	case $1 in
	"RUN --mount=type="*,*)
		case $key in
		type) value=$type ;;
		target | dst | destination) value=/../../VICTIM/t ;;
		source | src) value=../../../../../HOME/.ssh ;;
		from) value=oci-archive:HOME/a.tar ;;
		id) value=../../../../HOME/.ssh/id_ed25519 ;;
		env) value=LOOT ;;
		readonly | ro | required) value=false ;;
		readwrite | rw) value=true ;;
		sharing) value=private ;;
		size) value=1m ;;
		mode) value=4777 ;;
		uid | gid) value=0 ;;
		*) fail "a key without an attempt: $1" ;;
		esac
		[ "$type,$key" != bind,from ] || echo '! is a place on this machine: only the caller may name one'
		[ "$type,$key" != bind,source ] && [ "$type,$key" != bind,src ] || echo '! is not in the build context'
		[[ $key == target || $key == dst || $key == destination ]] || value="$value,target=/m"
		[[ $type != secret || $key == id || $key == source || $key == src ]] || value=$value,id=none
		echo "RUN --mount=type=$type,$key=$value $LOOT"
		;;
	"RUN --mount=type=bind") echo "RUN --mount=type=bind,target=/m,rw $LOOT" ;;
	"RUN --mount=type=secret") echo "RUN --mount=type=secret,id=TOKEN,env=LOOT $LOOT" ;;
	"RUN --mount=type="*) echo "$1,target=/m $LOOT" | sed "s|^\(RUN [^ ]*\) \(.*\),target=/m|\1,target=/m \2|" ;;
	"RUN --mount") echo "RUN --mount=target=/m $LOOT" ;;
	"RUN --device") printf '%s\n' '! a recipe may name devices by CDI only' "RUN --device=HOME:/h $LOOT" ;;
	"RUN --network") printf '%s\n' '! the caller has said --network=none' "RUN --network=host $LOOT" ;;
	"RUN --security") printf '%s\n' '! RUN --security=insecure is refused' "RUN --security=insecure $LOOT" ;;
	RUN) echo "RUN $LOOT; ls /proc/net/dev >/dev/null; echo x >/dev/shm/planted" ;;
	COPY) printf '%s\n' '! is not in the build context' 'COPY ../../HOME/.ssh /h' ;;
	"COPY --from") printf '%s\n' '! is a place on this machine' 'COPY --from=docker-archive:HOME/a.tar / /h' ;;
	COPY\ * | ADD\ *)
		case $1 in
		*--chown) value='=0:0' ;;
		*--chmod) value='=4777' ;;
		*--exclude) value='=none' ;;
		*) value= ;;
		esac
		if [ "$1" = "ADD --checksum" ]; then
			printf '%s\n' '! fetch' "ADD --checksum=sha256:$(printf %064d 0) http://127.0.0.1:1/x /h"
		else
			echo "$1$value . /h/"
		fi
		;;
	ADD) printf '%s\n' '! is not in the build context' 'ADD file:///HOME/.ssh/id_ed25519 /h' ;;
	FROM*) printf '%s\n' '! FROM may not follow ONBUILD' 'FROM rootfs:/' ;;
	ONBUILD) printf '%s\n' '! ONBUILD may not follow ONBUILD' 'ONBUILD RUN true' ;;
	MAINTAINER) printf '%s\n' '! MAINTAINER may not follow ONBUILD' 'MAINTAINER ${TOKEN}' ;;
	ARG) echo 'ARG TOKEN' ;;
	ENV) echo 'ENV A=${TOKEN} LD_PRELOAD=/planted.so' ;;
	LABEL) echo 'LABEL a=${TOKEN}' ;;
	EXPOSE) echo 'EXPOSE 80' ;;
	CMD | ENTRYPOINT) echo "$1 [\"cat\", \"HOME/.ssh/id_ed25519\"]" ;;
	HEALTHCHECK) echo 'HEALTHCHECK CMD cat HOME/.ssh/id_ed25519' ;;
	HEALTHCHECK\ --retries) echo 'HEALTHCHECK --retries=1 CMD true' ;;
	HEALTHCHECK*) echo "$1=1s CMD true" | sed 's/^HEALTHCHECK \(.*\)=1s/HEALTHCHECK \1=1s/' ;;
	SHELL) echo 'SHELL ["/bin/sh", "-c"]' ;;
	STOPSIGNAL) echo 'STOPSIGNAL KILL' ;;
	USER) echo 'USER 0' ;;
	VOLUME) echo 'VOLUME HOME/.ssh' ;;
	WORKDIR) echo 'WORKDIR /../../VICTIM' ;;
	*) fail "a row without an attempt: $1" ;;
	esac
}

@test "trust: every row, asked for by a base image's ONBUILD, reaches nothing of the caller's" {
	local row reach what message

	rows recipe >"$TMPDIR/rows"
	while IFS=$'\t' read -r row reach <&4; do
		[ "${row:0:1}" != % ] || continue # of definition files, which no base image can ask for: definition.bats
		what=$(attempt "$row" | sed "s|HOME|$HOME|g; s|VICTIM|$VICTIM|g")
		message=
		if [ "${what:0:1}" = "!" ]; then
			message=${what%%$'\n'*}
			message=${message#! }
			what=${what#*$'\n'}
		fi
		echo "# $row: $what"
		if [ -n "$message" ] && [[ $message == *"follow ONBUILD"* || $message == *"is refused"* ]]; then
			printf 'FROM %s\nONBUILD %s\n' "$BASE" "$what" >"$TMPDIR/evil"
			run -125 mlrun build -q -t evil -f "$TMPDIR/evil" "$VICTIM"
			assert_output --partial "$message"
			continue
		fi
		run stranger "$what" --network=none
		if [ -n "$message" ]; then
			assert_equal "$status" 125
			assert_output --partial "$message"
		else
			assert_equal "$status" 0
		fi
		unharmed
	done 4<"$TMPDIR/rows"
}

@test "trust: a definition file that a compose file names or holds reads its context only" {
	local how

	mkdir ctx
	printf 'Bootstrap: docker\nFrom: %s\n%%files\n  %s/.ssh/id_ed25519 /got\n' "$BASE" "$HOME" >ctx/x.def
	for how in "dockerfile: x.def" "dockerfile_inline: $(jq -Rs . <ctx/x.def)"; do
		printf 'services:\n  a:\n    build:\n      context: ctx\n      %s\n' "$how" >compose.yaml
		run -125 timeout 100 mlrun up --build
		assert_output --partial "id_ed25519' is not in the build context"
	done
	# The caller, too, may want no more of a file.
	run -125 mlrun build --context-only -t got -f ctx/x.def ctx
	assert_output --partial "id_ed25519' is not in the build context"
	run -0 mlrun build -q -t got -f ctx/x.def ctx
}

@test "trust: devices and the network are the caller's to allow" {
	run -125 stranger "RUN --device=test.com/thing=a true"
	assert_output --partial "RUN: --device=test.com/thing=a: the caller has not allowed it"
	assert_output --partial "hint: mlrun build --allow device=test.com/thing=a gives the recipe this device"
	# Allowed, it is looked for.
	for how in device device=test.com/thing=a; do
		run -125 stranger "RUN --device=test.com/thing=a true" --allow $how
		assert_output --partial "test.com/thing=a"
		refute_output --partial "has not allowed"
	done
	run -125 stranger "RUN --device=test.com/thing=b true" --allow device=test.com/thing=a
	assert_output --partial "has not allowed"
	run -0 stranger "RUN --network=host test -e /sys/class/net/lo" --network=none --allow network.host
	run -0 stranger "RUN --network=host true"
	run -125 mlrun build --allow security.insecure .
	assert_output --partial "--allow takes device, device=NAME or network.host"
}

# odd_image KEY JSON: localhost/evil, whose configuration has this.
odd_image() {
	[ -e root ] || tiny_root root
	layer_tar evil.tar root
	rm -rf evil
	image_layout evil evil.tar
	(cd evil && python3 - "$@" <<-'P'
		import hashlib, json, sys
		def blob(d): return "blobs/sha256/" + d["digest"][7:]
		def put(o):
		    b = json.dumps(o).encode(); h = hashlib.sha256(b).hexdigest()
		    open("blobs/sha256/" + h, "wb").write(b)
		    return {"digest": "sha256:" + h, "size": len(b)}
		i = json.load(open("index.json")); m = json.load(open(blob(i["manifests"][0]))); c = json.load(open(blob(m["config"])))
		c.setdefault("config", {})[sys.argv[1]] = json.loads(sys.argv[2])
		m["config"].update(put(c)); i["manifests"][0].update(put(m)); json.dump(i, open("index.json", "w"))
	P
	)
	mlrun import -q oci:evil localhost/evil
}

@test "trust: triggers that no recipe could write are refused" {
	local trigger

	printf 'FROM localhost/evil\n' >Dockerfile
	for trigger in "FROM rootfs:/" "ONBUILD RUN true" "MAINTAINER x"; do
		odd_image OnBuild "[\"$trigger\"]"
		run -125 mlrun build -q .
		assert_output --partial "${trigger%% *} may not follow ONBUILD"
	done
}

@test "trust: a base image's configuration of odd types is no trouble, nor a name that would remove files" {
	printf 'FROM localhost/evil\nVOLUME /v\nEXPOSE 80\n' >Dockerfile
	for key in Volumes ExposedPorts; do
		odd_image "$key" '[]'
		run -0 mlrun build -q -t mine .
	done
	run -0 mlrun inspect --json mine
	assert_output --partial '/v'
	recipe <<<$'FROM BASE\nCOPY <<.wh.bin /\nx\n.wh.bin'
	run -125 mlrun build -q .
	assert_output --partial "'/.wh.bin': no layer can hold a name that begins with '.wh.'"
}

@test "trust: a recipe's command writes nothing below /sys" {
	recipe <<<$'FROM BASE\nRUN for f in $(find /sys -maxdepth 6 -name cgroup.procs | head -n 5) /sys/kernel/profiling; do (echo x >>$f) 2>/dev/null && echo $f; done >/written; mkdir /sys/fs/cgroup/planted 2>/dev/null && echo made >>/written; true'
	mlrun build -q -t mine .
	run -0 inside cat /written
	assert_output ""
}

@test "trust: exec --device takes no directory but those below /dev" {
	mlrun pull -q "$BASE"
	run -125 mlrun exec --device "$HOME:/h" "$BASE" ls /h
	assert_output --partial "'$HOME' is not a directory of devices below /dev"
	ln -s "$HOME" link
	run -125 mlrun exec --device "$PWD/link:/h" "$BASE" ls /h
	run -125 mlrun exec --device "/dev/../$HOME:/h" "$BASE" ls /h
	run -0 mlrun exec --device /dev/pts:/p "$BASE" ls /p
}

@test "trust: recipes name images, not places; the caller may give a place a name" {
	local archive=$TMPDIR/victim-image.tar how

	mlrun pull -q "$BASE"
	mlrun export -q "$BASE" "$archive"
	for how in "oci-archive:$archive" "docker-archive:$archive" "oci:$TMPDIR" "rootfs:/" "squashfs:$archive" oci-archive:/dev/zero; do
		recipe <<<"FROM $how"
		run -125 mlrun build -q .
		assert_output --partial "'$how' is a place on this machine: only the caller may name one"
		recipe <<<$'FROM BASE\nCOPY --from='"$how / /x"
		run -125 mlrun build -q - <Dockerfile
		assert_output --partial "'$how' is a place on this machine"
	done
	assert_output --partial "hint: mlrun build --build-context NAME=docker-image://oci-archive:/dev/zero lets the recipe name it NAME"
	recipe <<<"FROM given"
	run -0 mlrun build -q --build-context "given=docker-image://oci-archive:$archive" .
	run -125 timeout 60 mlrun pull oci-archive:/dev/zero
	assert_output --partial "it is a device, not a file"
	mkfifo fifo.env
	printf 'services: {a: {image: x, env_file: ./fifo.env}}\n' >compose.yaml
	run -125 timeout 60 mlrun up
	assert_output --partial "fifo.env' is not a regular file"
	rm .dockerignore && mkfifo .dockerignore
	run -125 timeout 60 mlrun build -q .
	assert_output --partial "open '.dockerignore'"
	mkfifo Dockerfile.dockerignore
	run -125 timeout 60 mlrun build -q -f Dockerfile .
	assert_output --partial "'Dockerfile.dockerignore' is not a regular file"
}

@test "trust: a secret is bytes that only the command sees that asked for it, and no layer keeps" {
	printf 'CANARY\0bytes' >"$TMPDIR/secret"
	recipe <<-'X'
		FROM BASE AS other
		RUN --mount=type=secret,id=s sleep 1; ls -A /dev/shm /run/secrets; echo x >/dev/shm/left
		FROM BASE
		RUN ls -A /dev/shm >/shm; ls -d /run/secrets /dev/shm/* >>/shm 2>/dev/null; true
		RUN --mount=type=secret,id=s,mode=0444,target=/etc/passwd sha256sum </etc/passwd >/sum; stat -c %a /etc/passwd >>/sum
		RUN --mount=type=secret,id=s chmod 600 /run/secrets/s; rm -f /run/secrets/s; echo y >>/run/secrets/s; true
		RUN grep -c CANAR[Y] /etc/passwd >>/sum; ls -d /run/secrets >>/sum 2>/dev/null; true
		COPY --from=other / /other
	X
	mlrun build -q -t mine --secret "id=s,src=$TMPDIR/secret" . 2>/dev/null
	run -0 inside cat /shm /sum
	assert_output "$(sha256sum <"$TMPDIR/secret")"$'\n444\n0'
	no_canary "$MLRUN_STORE"
	run sh -c 'grep -rls CANARY /dev/shm' # 2 where others have files
	assert_output ""
	recipe <<<$'FROM BASE\nRUN --mount=type=secret,id=s,env=S true'
	run -125 mlrun build -q --secret "id=s,src=$TMPDIR/secret" .
	assert_output --partial "the secret 's' has a NUL byte, which no variable can hold"
}

@test "trust: what the ignore file leaves out is in no bind mount" {
	mkdir big && echo big >big/file
	printf '.env\nbig\n' >.dockerignore
	recipe <<-'X'
		FROM BASE
		RUN --mount=target=/m find /m -mindepth 1 | sort >/list; cat /m/sub/file >>/list
		RUN --mount=target=/m,rw touch /m/new /m/sub/new && find /m/sub | sort >>/list
		RUN --mount=source=sub,target=/m ls /m >>/list
		RUN --mount=source=sub/file,target=/f cat /f >>/list
	X
	mlrun build -q -t mine .
	run -0 inside cat /list
	assert_output "$(printf '%s\n' /m/.dockerignore /m/Dockerfile /m/sub /m/sub/file plain /m/sub /m/sub/file /m/sub/new file plain)"
	assert_equal "$(ls sub)" file
	recipe <<<$'FROM BASE\nRUN --mount=source=.env,target=/f cat /f'
	run -125 mlrun build -q .
	assert_output --partial "'.env' is not in the build context"
	# A change of what is left out changes nothing.
	recipe <<<$'FROM BASE\nRUN --mount=target=/m ls /m >/x'
	mlrun build -q . && echo more >>.env
	run -0 mlrun build .
	assert_output --partial "1 of 1 steps from the cache"
	echo more >>sub/file
	run -0 mlrun build .
	assert_output --partial "0 of 1 steps from the cache"
}

@test "trust: no link and no .. leads round the ignore file" {
	mkdir -p secret other && echo CANARY-key >secret/key && echo free >other/x
	printf 'secret\n.env\nld2\n' >.dockerignore
	ln -s secret ld && ln -s .env lenv && ln -s other ld2 && ln -s sub/.. up
	for source in ld/key lenv up/.env sub/../.env up/secret/key ld2/x 'l[de]/key'; do
		recipe <<<$'FROM BASE\n'"COPY $source /x"
		run -125 mlrun build -q .
		assert_output --partial "is not in the build context"
		recipe <<<$'FROM BASE\n'"RUN --mount=source=$source,target=/f cat /f"
		run ! mlrun build -q --no-cache .
		refute_output --partial CANARY
	done
	for source in ld up . ld2; do
		recipe <<<$'FROM BASE\n'"COPY $source /x"$'\n'"RUN --mount=source=$source,target=/f cp -r /f /y"
		mlrun build -q --no-cache -t mine . || continue
		run inside grep -rs CANARY /x /y
		assert_output ""
	done
	# An archive that ADD unpacks, by its own name and by a link.
	tar -cf secret.tar secret && ln -s secret.tar lt && echo secret.tar >>.dockerignore
	for source in secret.tar lt; do
		recipe <<<$'FROM BASE\n'"ADD $source /x/"
		run -125 mlrun build -q .
		assert_output --partial "is not in the build context"
	done
	recipe <<<$'FROM BASE\nCOPY up/sub/file up/other/x /x/'
	mlrun build -q -t mine .
	run -0 inside cat /x/file /x/x
	assert_output $'plain\nfree'
}

# Somebody else may write the context, and exchanges the directory that is mounted for a link while builds begin.
@test "trust: a source that is exchanged before it is mounted ends the build" {
	local built=0

	mkdir a && echo fine >a/f
	recipe <<<$'FROM BASE\nRUN --mount=source=a,target=/m grep -rs CANAR[Y] /m; :'
	ln -s "$HOME/.ssh" b
	exchange a b 10000
	for ((i = 0; i < 40; i++)); do
		run mlrun build --no-cache .
		refute_output --partial CANARY
		built=$((built + (status == 0)))
	done
	assert [ "$built" -gt 0 ]
}

@test "trust: a file that is exchanged for a link while it is copied brings nothing of what the ignore file leaves out" {
	local built=0

	echo CANARY-ignore >sub/x # as long as the other
	mkdir sub/d other
	echo fine >sub/d/.env
	ln -s ../.env sub/y
	ln -s .. sub/e
	sed -i s/CANARY/harmles/ sub/x
	recipe <<<$'FROM BASE\nCOPY sub /s'
	exchange sub/x sub/y 1000
	exchange sub/d sub/e 1000
	for ((i = 0; i < 40; i++)); do
		run mlrun build -q --no-cache .
		built=$((built + (status == 0)))
	done
	assert [ "$built" -gt 0 ]
	no_canary "$MLRUN_STORE/layers"
}

@test "trust: a context that is exchanged for a link after it was opened is the one that was opened" {
	mkdir outer
	cp -r sub outer/ctx
	ln -s "$HOME/.ssh" outer/link
	mkfifo recipe
	mlrun build -q -t mine -f - outer/ctx <recipe >out 2>&1 3>&- &
	exec 4>recipe
	until_true test -n "$(pgrep -f 'build -q -t mine -f - outer/ctx')"
	until_true sh -c 'ls -l /proc/*/fd 2>/dev/null | grep -q "outer/ctx$"'
	mv outer/ctx outer/gone
	mv outer/link outer/ctx
	printf 'FROM %s\nCOPY . /c\nRUN ls /c\n' "$BASE" >&4
	exec 4>&-
	wait $!
	run -0 mlrun exec mine ls /c
	assert_output file
}

@test "trust: what a bind mount showed for a moment is not in the cache under another content's key" {
	recipe <<<$'FROM BASE\nRUN --mount=source=sub,target=/m until grep -q other /m/file; do sleep 0.1; done; cat /m/file >/out; until grep -q plain /m/file; do sleep 0.1; done'
	sleep 3 # files are settled
	mlrun build -q -t mine . 3>&- &
	until_true sh -c 'ls "$MLRUN_STORE"/containers 2>/dev/null | grep -q build-'
	echo other >sub/file
	sleep 1
	echo plain >sub/file
	wait $!
	recipe <<<$'FROM BASE\nRUN --mount=source=sub,target=/m until grep -q other /m/file; do sleep 0.1; done; cat /m/file >/out; until grep -q plain /m/file; do sleep 0.1; done'
	run timeout 2 mlrun build -t mine .
	refute_output --partial 'from the cache'
}

@test "trust: the keys of the caller's session are no build's, service's or bundle's; a container of exec and run has them" {
	local attack=$top_builddir/tests/inside/attack

	keyed() { run "$attack" keyed mlrun-test "$@"; }
	keyed "$attack" key mlrun-test
	[ "$status" = 1 ] || skip "no keys here: $output"
	cp "$attack" sub/attack
	keyed mlrun exec -v "$attack:/attack" "$BASE" /attack key mlrun-test
	assert_line 'WORKED mlrun-test'
	recipe <<<$'FROM BASE\nCOPY sub/attack /attack\nRUN /attack key mlrun-test'
	keyed mlrun build -t mine .
	assert_line --partial 'refused mlrun-test'
	keyed mlrun run -d --name s mine /attack key mlrun-test
	until_true sh -c 'mlrun logs s | grep mlrun-test'
	run mlrun logs s
	assert_output --partial 'refused mlrun-test'
	mlrun stop --rm s || mlrun rm -f s
	mlrun export -q --format=bundle mine bundle
	jq '.process.args = ["/attack", "key", "mlrun-test"] | .process.terminal = false' bundle/config.json >c && mv c bundle/config.json
	keyed mlrun oci run --bundle bundle one
	assert_output --partial 'refused mlrun-test'
	keyed mlrun oci run --no-new-keyring --bundle bundle two
	assert_output --partial 'WORKED mlrun-test'
}

@test "trust: an archive that is a bomb ends with the build" {
	# 8 GB of zeros: after the header the same frame, which is 16 MB, again and again.
	python3 -c "
import tarfile, subprocess
def frame(b): return subprocess.run(['zstd', '-q', '-1', '-c'], input=b, stdout=subprocess.PIPE, check=True).stdout
i = tarfile.TarInfo('zero'); i.size = 8 << 30
open('bomb.tar.zst', 'wb').write(frame(i.tobuf()) + frame(bytes(1 << 24)) * 512)"
	recipe <<<$'FROM BASE\nADD bomb.tar.zst /'
	mlrun build -q . 3>&- &
	until_true has_moved $! rchar 20000
	kill -TERM $!
	status=0
	wait $! || status=$?
	assert_equal "$status" 143
	run sh -c 'find "$MLRUN_STORE" -name zero 2>/dev/null'
	assert_output ''
}

@test "trust: a RUN does not see the values of build arguments in mlrun's command line" {
	recipe <<<$'FROM BASE\nRUN cat /proc/*/cmdline | tr "\\0" " "'
	run -0 mlrun build --no-cache --build-arg A=CANARY-1 --build-arg=B=CANARY-2 .
	assert_output --partial "--build-arg A="
	refute_output --partial CANARY
}

@test "trust: a RUN neither reads nor writes the caller's terminal" {
	recipe <<-'X'
		FROM BASE
		RUN (cat </dev/tty; cat <&2; cat <&1; for t in /dev/pts/[0-9]*; do cat <$t; done) >/typed 2>/dev/null & sleep 2; kill $! 2>/dev/null; (echo RUN-WROTE >/dev/tty) 2>/dev/null; echo end
		RUN test ! -s /typed && tty || echo quiet
	X
	run -0 python3 - <<-'P'
		import os, pty, sys, time
		pid, fd = pty.fork()
		if pid == 0:
		    os.execvp("mlrun", ["mlrun", "build", "-t", "mine", "."])
		time.sleep(1)
		os.write(fd, b"CANARY typed\n")
		text = b""
		while True:
		    try:
		        more = os.read(fd, 4096)
		    except OSError:
		        break
		    if not more:
		        break
		    text += more
		print(text.decode())
		print("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
	P
	assert_line "status 0"
	assert_line --partial quiet
	refute_line --regexp '^RUN-WROTE'
	run -0 inside cat /typed
	assert_output ""
}

@test "trust: build.args of a compose file are arguments, not variables of mlrun's helpers" {
	command -v git >/dev/null || skip "git is not installed"
	printf '#!/bin/sh\ntouch %s/ran\nexit 1\n' "$VICTIM" >"$TMPDIR/run-me"
	chmod +x "$TMPDIR/run-me"
	printf 'FROM %s\nARG SSL_CERT_FILE\nRUN echo "$SSL_CERT_FILE" >/arg\nADD git@127.0.0.1:x.git /x\n' "$BASE" >Dockerfile
	cat >compose.yaml <<-X
		services:
		  a:
		    build: {context: ., args: {GIT_SSH_COMMAND: "$TMPDIR/run-me", GIT_SSH: "$TMPDIR/run-me", SSL_CERT_FILE: /none,
		      TMPDIR: /none, XDG_CONFIG_HOME: /none, PATH: "$TMPDIR", MLRUN_STORE: /none, LD_PRELOAD: /none.so}}
	X
	run -125 mlrun up
	assert_output --partial "git cannot fetch"
	[ ! -e "$VICTIM/ran" ]
	sed -i '/^ADD/d' Dockerfile
	sed -i '/^    build/!b' compose.yaml
	run -0 mlrun up -d
	mlrun down 2>/dev/null
}

# A server of a repository that asks for a password, over TLS. Sets URL and CERT.
private_repository() {
	command -v git >/dev/null || skip "git is not installed"
	mkdir "$TMPDIR/served" && (
		cd "$TMPDIR" && git init -q -b main work && cd work && git config user.email a@b && git config user.name a &&
			echo CANARY-private >private && git add . && git commit -q -m one
	)
	git clone -q --bare "$TMPDIR/work" "$TMPDIR/served/r.git"
	git -C "$TMPDIR/served/r.git" update-server-info
	CERT=$TMPDIR/cert.pem
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext 'subjectAltName=IP:127.0.0.1' \
		-keyout "$TMPDIR/key.pem" -out "$CERT" 2>/dev/null
	python3 - "$TMPDIR" >"$TMPDIR/server" 2>/dev/null 3>&- <<-'P' &
		import base64, functools, http.server, ssl, sys
		class H(http.server.SimpleHTTPRequestHandler):
		    def do_GET(self):
		        said = self.headers.get("Authorization", "")
		        if said.startswith("Basic ") and base64.b64decode(said[6:]).endswith(b":CANARY-token"):
		            return super().do_GET()
		        self.send_response(401)
		        self.send_header("WWW-Authenticate", "Basic")
		        self.end_headers()
		s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(H, directory=sys.argv[1] + "/served"))
		c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
		c.load_cert_chain(sys.argv[1] + "/cert.pem", sys.argv[1] + "/key.pem")
		s.socket = c.wrap_socket(s.socket, server_side=True)
		print(s.server_port)
		s.serve_forever()
	P
	PIDS+=($!)
	until_true test -s "$TMPDIR/server"
	URL=https://127.0.0.1:$(<"$TMPDIR/server")/r.git
	export GIT_SSL_CAINFO=$CERT
}

@test "trust: ADD of a repository has neither the caller's passwords nor configuration; the caller's own context has" {
	private_repository
	# Each of these opens the repository to the caller's own git.
	printf 'machine 127.0.0.1 login x password CANARY-token\n' >"$HOME/.netrc"
	git config --global credential.helper '!printf "username=x\npassword=CANARY-token\n"; :'
	export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=http.extraheader
	GIT_CONFIG_VALUE_0="Authorization: Basic $(printf x:CANARY-token | base64)"
	export GIT_CONFIG_VALUE_0 GIT_ASKPASS=/bin/echo
	run -0 git ls-remote "$URL"
	recipe <<<$'FROM BASE\nADD '"$URL /x"
	run -125 mlrun build -q .
	assert_line --partial "Dockerfile:2: '$URL': git cannot fetch 'HEAD'"
	assert_line "hint: a private repository takes --secret id=GIT_AUTH_TOKEN,env=VARIABLE or --ssh default"
	run -125 stranger "ADD $URL /x"
	# The caller gives a token, for all hosts or for one.
	unset GIT_CONFIG_COUNT
	GIVEN=CANARY-token mlrun build -q -t mine --secret id=GIT_AUTH_TOKEN,env=GIVEN .
	run -0 inside cat /x/private
	assert_output CANARY-private
	GIVEN=CANARY-token mlrun build -q --no-cache -t mine --secret id=GIT_AUTH_TOKEN.127.0.0.1,env=GIVEN .
	run -125 env GIVEN=CANARY-token mlrun build -q --no-cache --secret id=GIT_AUTH_TOKEN.example.org,env=GIVEN .
	# The context is the caller's word.
	printf 'FROM %s\nCOPY private /\n' "$BASE" >"$TMPDIR/file"
	cp "$TMPDIR/file" "$TMPDIR/work/Dockerfile"
	git -C "$TMPDIR/work" add . && git -C "$TMPDIR/work" commit -q -m two
	git -C "$TMPDIR/work" push -q "$TMPDIR/served/r.git" main && git -C "$TMPDIR/served/r.git" update-server-info
	mlrun build -q -t mine "$URL"
	run -0 inside cat /private
	assert_output CANARY-private
}

@test "trust: a submodule of the caller's context has none of the caller's passwords" {
	local url

	private_repository
	printf 'machine 127.0.0.1 login x password CANARY-token\n' >"$HOME/.netrc"
	url=$URL
	git init -q -b main "$TMPDIR/public" && cd "$TMPDIR/public"
	git config user.email a@b && git config user.name a
	printf 'FROM %s\nCOPY . /x\n' "$BASE" >Dockerfile
	printf '[submodule "s"]\n\tpath = s\n\turl = %s\n' "$url" >.gitmodules
	git update-index --add --cacheinfo "160000,$(git -C "$TMPDIR/work" rev-parse HEAD),s"
	git add Dockerfile .gitmodules && git commit -q -m one
	git clone -q --bare . "$TMPDIR/served/public.git" && git -C "$TMPDIR/served/public.git" update-server-info
	run -125 mlrun build -q -t mine "${url%/*}/public.git"
	assert_output --partial "git cannot fetch"
	GIVEN=CANARY-token mlrun build -q -t mine --secret id=GIT_AUTH_TOKEN,env=GIVEN "${url%/*}/public.git"
	run -0 inside cat /x/s/private
	assert_output CANARY-private
}

@test "trust: exports have no set-ID bits and obey the umask, unless the caller asks for them" {
	mkdir root && cp "$(command -v busybox)" root/raise && echo a >root/all && mkdir root/d && chmod 6755 root/raise && chmod 0666 root/all && chmod 1777 root/d
	printf 'FROM scratch\nCOPY --chown=%s root /\n' "$(id -u):$(id -g)" >Dockerfile
	mlrun build -q -t mine -o "$TMPDIR/local" .
	mlrun export -q --format=rootfs mine "$TMPDIR/rootfs"
	mlrun export -q --format=bundle mine "$TMPDIR/bundle"
	run -0 find "$TMPDIR/local" "$TMPDIR/rootfs" "$TMPDIR/bundle" '!' -type l -perm /7022
	assert_output ""
	(umask 077 && mlrun export -q --format=rootfs mine "$TMPDIR/closed")
	run -0 find "$TMPDIR/closed" -mindepth 1 '!' -type l -perm /7077
	assert_output ""
	mlrun export -q --format=rootfs --preserve-permissions mine "$TMPDIR/as-is"
	run -0 sh -c 'cd "$1" && stat -c "%a %n" all d raise' sh "$TMPDIR/as-is"
	assert_output $'666 all\n1777 d\n6755 raise'
	run -125 mlrun export --preserve-permissions mine "$TMPDIR/x.tar"
	assert_output --partial "--preserve-permissions is for --format=rootfs and bundle"
}

# A home and a store that containers do not get by /tmp, as they would those of the other tests.
away() {
	AWAY=$(mktemp -d /var/tmp/mlrun-trust.XXXXXX)
	export HOME=$AWAY/home MLRUN_STORE=$AWAY/store
	mkdir "$HOME"
	unset XDG_RUNTIME_DIR XDG_STATE_HOME
}

teardown() {
	common_teardown
	[ -z "${AWAY:-}" ] || {
		chmod -R u+rwX "$AWAY"
		rm -rf "$AWAY"
	}
}

@test "trust: no container sees a file that mlrun believes, and no other user may write one" {
	local id=one-$$ hint

	hint=/dev/shm/mlrun-$(id -u)

	away
	mkdir -p "$HOME/.config/mlrun" "$AWAY/bundle"
	echo '[exec]' >"$HOME/.config/mlrun/mlrun.conf"
	printf 'FROM %s\nRUN --mount=type=cache,target=/c echo x >/c/x\n' "$BASE" >Dockerfile
	mlrun build -q -t mine .
	(cd / && mlrun exec --write=box mine touch /x && mlrun run -d --name "svc-$$" mine sleep "$NAP")
	tiny_root "$AWAY/bundle/rootfs"
	mlrun oci spec --bundle "$AWAY/bundle"
	jq --arg n "$NAP" '.process.args = ["sleep", $n]' "$AWAY/bundle/config.json" >new && mv new "$AWAY/bundle/config.json"
	mlrun oci create --bundle "$AWAY/bundle" $id >/dev/null 2>&1 3>&-
	until_true pgrep -f "^sleep $NAP"
	mapfile -t -O "${#PIDS[@]}" PIDS < <(pgrep -f "^sleep $NAP")
	{
		find "$AWAY" /run/mlrun "/run/user/$(id -u)/mlrun" -type f 2>/dev/null || true
	} >believed
	run -0 grep -cE "/oci(-[^/]+)?/$id/config.json$" believed
	run -0 grep -qE 'store/services/.*/' believed
	# By what a container gets without being given more, in a build, too.
	run -0 sh -c 'cd / && mlrun exec mine sh -c "while read -r f; do [ ! -e \"\$f\" ] || echo \"\$f\"; done" <"$1"' sh "$PWD/believed"
	assert_output ""
	cp believed list
	printf 'FROM %s\nCOPY list /list\nRUN while read -r f; do [ ! -e "$f" ] || echo "$f"; done </list >/seen\n' "$BASE" >Dockerfile
	mlrun build -q -t seen .
	run -0 sh -c 'cd / && mlrun exec seen cat /seen'
	assert_output ""
	# Nothing but hints is where containers write.
	run sh -c 'find /tmp /dev/shm -user "$(id -un)" -name "*$1*" -not -path "$2/*" 2>/dev/null' sh "$id" "$BATS_RUN_TMPDIR"
	assert_output ""
	if [ "$(id -u)" = 0 ]; then
		run -0 runuser -u nobody -- sh -c 'while read -r f; do [ ! -w "$f" ] || echo "$f"; done; ls "$1" 2>/dev/null; :' sh "$hint" <believed
		assert_output ""
	else
		run -0 find "$AWAY/store" "$HOME" -path '*/store/containers/*' -prune -o '!' -type l -perm /022 -print
		assert_output ""
	fi
	mlrun oci delete --force $id
	mlrun rm -f "svc-$$" 2>/dev/null || mlrun stop --rm "svc-$$" 2>/dev/null
}

@test "trust: the states of OCI containers are in a runtime directory only if that is the user's alone" {
	away
	mkdir -m 0700 "$AWAY/run" && mkdir -m 0755 "$AWAY/open"
	[ "$(id -u)" != 0 ] || skip "root's are in /run"
	XDG_RUNTIME_DIR=$AWAY/run mlrun oci list >/dev/null
	[ -d "$AWAY/run/mlrun/oci" ]
	XDG_RUNTIME_DIR=$AWAY/open mlrun oci list >/dev/null
	[ ! -e "$AWAY/open/mlrun" ]
	chmod 0777 "$AWAY/run/mlrun/oci"
	XDG_RUNTIME_DIR=$AWAY/run run -1 mlrun oci list
	assert_output --partial "belongs to others or is open to them: mode 0777"
}

@test "trust: words of a health check, an image's or a compose file's, are no options of mlrun's" {
	mkdir in && tiny_root in/root
	cat >compose.yaml <<-X
		services:
		  a:
		    image: rootfs:$PWD/in/root
		    command: sleep $NAP
		    healthcheck: {test: [CMD, "--env-out=$VICTIM/out", "-w/", "/bin/true"], interval: 20ms, retries: 1}
	X
	mlrun up -d 2>/dev/null
	until_true sh -c "mlrun ps --all --json | jq -e '.[] | select(.service == \"a\" or .name == \"ctx-a-1\") | .health == \"unhealthy\"' >/dev/null"
	run -0 mlrun ps --all --json
	assert_output --partial "'--env-out=$VICTIM/out' not found"
	mlrun down 2>/dev/null
	assert_equal "$(ls -A "$VICTIM")" ""
}

@test "trust: up names, in one line, services that listen without being asked to" {
	printf 'FROM %s\nEXPOSE 6379\nCMD ["sleep", "%s"]\n' "$BASE" "$NAP" >Dockerfile
	mlrun build -q -t listens .
	printf 'services: {db: {image: localhost/listens}, web: {image: localhost/listens, ports: ["8080:8080"]}, job: {image: %s, command: sleep %s}}\n' "$BASE" "$NAP" >compose.yaml
	run -0 mlrun up -d
	assert_equal "$(grep -c "reachable for others too" <<<"$output")" 1
	assert_line --partial "db: reachable for others too, whatever 'ports' says"
	mlrun down 2>/dev/null
}
