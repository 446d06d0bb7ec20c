# mlrun oci: OCI bundles by the command line of an OCI runtime. runc, where it is, must answer the same.
# shellcheck disable=SC2016 # the inner shell expands
load common

setup_file() {
	export BUNDLE=$BATS_FILE_TMPDIR/bundle
	mkdir "$BUNDLE"
	tiny_root "$BUNDLE/rootfs"
	mkdir -p "$BUNDLE/rootfs"/{proc,dev,sys}
}

setup() {
	common_setup
	cd "$BUNDLE" || return
	export ROOT=$BATS_TEST_TMPDIR/states
	rm -rf config.json
	mlrun oci spec
	config '.process.args = ["sh", "-c", "echo hello"]'
}

teardown() {
	for id in one two; do mlrun oci --root="$ROOT" delete --force $id; done
	common_teardown
}

# config FILTER [ARG...]: change config.json, by jq.
config() {
	jq "$@" <config.json >"$BATS_TEST_TMPDIR/new" && cp "$BATS_TEST_TMPDIR/new" config.json
}

# command ARG...: what the container executes.
command_is() {
	config '.process.args = $a' --argjson a "$(printf '%s\0' "$@" | jq -Rsc 'split("\u0000") | map(select(. != ""))')"
}

oci() { mlrun oci --root="$ROOT" "$@"; }
status() { oci state one | jq -r .status; }
is() { [ "$(status)" = "$1" ]; }

@test "oci run: output, exit status, directory, variables and arguments are the command's" {
	command_is sh -c 'echo "$A $HOME $1 $(pwd)"; exit 7' sh 'two words'
	config '.process.env += ["A=b c"] | .process.cwd = "/usr/bin"'
	run -7 oci run one
	assert_output "b c / two words /usr/bin"
	run -1 oci state one
	assert_output "mlrun: container 'one' does not exist"
}

@test "oci run: a command that is not there gives 127, one that ends by a signal 128 and more" {
	command_is /no/such
	run -127 oci run one
	assert_output --partial "command '/no/such' not found"
	command_is sh -c 'kill -TERM $$'
	run -143 oci run one
}

@test "oci: created, running, stopped, deleted" {
	command_is sh -c 'echo hello; sleep 300'
	oci create --pid-file "$BATS_TEST_TMPDIR/pid" one >"$BATS_TEST_TMPDIR/out"
	run -0 oci state one
	assert_equal "$(jq -r '.status, .id, .bundle, .pid' <<<"$output")" \
		"created"$'\n'"one"$'\n'"$(realpath "$BUNDLE")"$'\n'"$(cat "$BATS_TEST_TMPDIR/pid")"
	assert_equal "$(cat "$BATS_TEST_TMPDIR/out")" ""
	run -1 oci delete one
	assert_output --partial "it is created, not stopped"

	run -0 oci start one
	assert_output ""
	until_true grep -q hello "$BATS_TEST_TMPDIR/out"
	assert_equal "$(status)" running
	run -1 oci start one
	assert_output "mlrun: start 'one': it is running, not created"

	oci kill one KILL
	until_true is stopped
	assert_equal "$(oci state one | jq .pid)" null
	run -1 oci kill one
	assert_output "mlrun: kill 'one': container not running"
	run -0 oci delete one
	assert_output ""
	assert_equal "$(oci list -f json)" "[]"
}

@test "oci create: of several at once with one name, one makes the container" {
	local i made=0

	command_is sleep 300
	for i in 1 2 3 4; do oci create one 2>"$BATS_TEST_TMPDIR/said.$i" & done
	for i in 1 2 3 4; do wait -n && made=$((made + 1)); done
	assert_equal "$made $(grep -l "container 'one' exists already" "$BATS_TEST_TMPDIR"/said.* | wc -l)" "1 3"
	assert_equal "$(status)" created
}

@test "oci create: killed at any moment, it leaves what delete removes, and no process" {
	local i

	command_is sleep 300
	for i in 0 0.002 0.004 0.006 0.008 0.010 0.015; do
		timeout -s KILL "$i"1 env "$(command -v mlrun)" oci --root="$ROOT" create one || true
		until_true eval '! oci state one 2>/dev/null | grep -q creating'
		oci delete --force one
		run -1 oci state one
	done
	wait_while pgrep -f -- "--root=$ROOT create"
}

@test "oci run: killed, it takes the container with it, whether that has pids of its own or not" {
	local namespaces runner

	for namespaces in '[{"type":"mount"},{"type":"user"}]' '[{"type":"mount"},{"type":"user"},{"type":"pid"}]'; do
		config '.linux.namespaces = $n' --argjson n "$namespaces"
		command_is sleep 986
		mlrun oci --root="$ROOT" run one 3>&- &
		runner=$!
		until_true is running
		kill -KILL "$runner"
		until_true is stopped
		wait_while pgrep -f "sleep 986"
		oci delete one
	done
}

@test "oci: another process with the container's pid is not taken for it" {
	command_is sleep 300
	oci create one
	oci kill one KILL
	until_true is stopped
	sleep 300 &
	jq ".pid = $!" "$ROOT/one/state.json" >"$BATS_TEST_TMPDIR/state"
	cp "$BATS_TEST_TMPDIR/state" "$ROOT/one/state.json"
	assert_equal "$(status)" stopped
	oci delete --force one
	kill "$!"
}

@test "oci delete: processes that the command left behind end" {
	command_is sh -c 'sleep 987 & echo'
	oci create one >/dev/null 2>&1
	oci start one
	until_true is stopped
	run -0 pgrep -f "sleep 987"
	oci delete one
	wait_while pgrep -f "sleep 987"
}

@test "oci: writes go to the bundle's root, unless it is read-only" {
	command_is sh -c 'echo x >/written'
	oci run one
	assert_equal "$(cat rootfs/written)" x
	rm rootfs/written
	config '.root.readonly = true'
	run -1 oci run one
	assert_output --partial "Read-only file system"
	[ ! -e rootfs/written ]
}

@test "oci: binds, tmpfs and their options, namespaces, hostname, limits, masked and read-only paths" {
	mkdir -p "$BATS_TEST_TMPDIR/data"
	echo secret >"$BATS_TEST_TMPDIR/data/file"
	config '.mounts += [{destination: "/data", type: "bind", source: $d, options: ["rbind", "ro"]},
			{destination: "/scratch", type: "tmpfs", source: "tmpfs", options: ["size=1m", "mode=700"]},
			{destination: "/second", type: "none", source: $d, options: ["bind", ""]}] |
		.linux.namespaces += [{type: "uts"}, {type: "ipc"}] | .hostname = "inner" |
		.process.rlimits = [{type: "RLIMIT_NOFILE", soft: 99, hard: 100}] | .process.user.umask = 63 |
		.linux.maskedPaths = ["/second/file", "/no/such"] | .linux.readonlyPaths = ["/usr"]' \
		--arg d "$BATS_TEST_TMPDIR/data"
	command_is sh -c 'cat /data/file; touch /data/x; stat -c %a /scratch; cat /second/file; touch /usr/x
		hostname; ulimit -n; ulimit -Hn; umask'
	run -0 oci run one
	assert_output "secret
touch: /data/x: Read-only file system
700
touch: /usr/x: Read-only file system
inner
99
100
0077"
}

@test "oci: hooks run in their order with the state, and one that fails undoes the container" {
	local stage

	printf '#!/bin/sh\necho "$1 $(jq -r .status)" >>%s\n' "$BATS_TEST_TMPDIR/log" >"$BATS_TEST_TMPDIR/hook"
	chmod +x "$BATS_TEST_TMPDIR/hook"
	for stage in prestart createRuntime createContainer poststart poststop; do
		config '.hooks[$s] = [{path: $h, args: ["hook", $s], env: ["PATH=/bin:/usr/bin"]}]' --arg s $stage \
			--arg h "$BATS_TEST_TMPDIR/hook"
	done
	oci run one
	run -0 cat "$BATS_TEST_TMPDIR/log"
	assert_output "prestart creating
createRuntime creating
createContainer creating
poststart running
poststop stopped"
	config '.hooks.createRuntime = [{path: "/bin/false"}]'
	run -1 oci run one
	assert_output "mlrun: run 'one': createRuntime hook '/bin/false': ended with status 1"
	run -1 oci state one
}

@test "oci: a late hook that fails is a warning, and the next ones run" {
	local stage

	printf '#!/bin/sh\necho "$1" >>%s\n' "$BATS_TEST_TMPDIR/log" >"$BATS_TEST_TMPDIR/hook"
	chmod +x "$BATS_TEST_TMPDIR/hook"
	for stage in poststart poststop; do
		config '.hooks[$s] = [{path: "/bin/false"}, {path: $h, args: ["hook", $s]}]' --arg s $stage --arg h "$BATS_TEST_TMPDIR/hook"
	done
	run -0 oci run one
	assert_line --partial "poststart hook '/bin/false'"
	assert_line --partial "poststop hook '/bin/false'"
	assert_line hello
	assert_equal "$(<"$BATS_TEST_TMPDIR/log")" $'poststart\npoststop'
}

@test "oci: a detached container has a session of its own" {
	command_is sleep 300
	for way in create "run --detach"; do
		# shellcheck disable=SC2086
		oci $way one >/dev/null 2>&1 3>&- </dev/null
		assert_not_equal "$(ps -o sid= -p "$(oci state one | jq .pid)")" "$(ps -o sid= -p $$)"
		oci delete --force one
	done
}

@test "oci: a namespace that is there already is joined, where the caller has the right to, with its sysctls" {
	# As podman, whose process is root of a user namespace and has made a network in it.
	config '.linux.namespaces = [{type: "network", path: $p}, {type: "user", path: "/proc/self/ns/user"}]
		| .linux.sysctl = {"net.ipv4.ping_group_range": "0 0"}' --arg p "$BATS_TEST_TMPDIR/net"
	command_is sh -c 'cat /proc/sys/net/ipv4/ping_group_range; readlink /proc/self/ns/net'
	touch "$BATS_TEST_TMPDIR/net"
	run -0 unshare -Urm sh -c 'unshare -n mount --bind /proc/self/ns/net "$1"
		nsenter --net="$1" readlink /proc/self/ns/net; mlrun oci --root="$2" run one' sh "$BATS_TEST_TMPDIR/net" "$ROOT-inside"
	assert_line --regexp '^0.0$'
	assert_equal "$(grep -c '^net:' <<<"$output")" 2
	assert_equal "$(grep '^net:' <<<"$output" | uniq | wc -l)" 1
}

@test "oci: a user namespace that is there already is joined with those in it, if it is the caller's own" {
	local pid

	needs_ordinary_user
	unshare -Urn --fork --kill-child sleep 300 3>&- &
	PIDS+=($!)
	until_true pgrep -P $! sleep
	pid=$(pgrep -P $! sleep)
	config '.process.user = {uid: 0, gid: 0} | .linux.namespaces = [{type: "network", path: "/proc/\($p)/ns/net"}, {type: "mount"},
		{type: "user", path: "/proc/\($p)/ns/user"}]' --argjson p "$pid"
	command_is sh -c 'id -u; readlink /proc/self/ns/user; readlink /proc/self/ns/net; touch /dev/shm/f; stat -c %u /dev/shm/f'
	run -0 oci run one
	assert_output "0
$(readlink "/proc/$pid/ns/user" "/proc/$pid/ns/net")
0"
	config '.process.user.uid = 5'
	run -1 oci run one
	assert_output --partial "'user' 5:0: you are 0:0 in the user namespace that is joined"
	config '.linux.namespaces[2].path = "/proc/1/ns/user"'
	run -1 oci run one
	assert_output --partial "join the user namespace '/proc/1/ns/user': Permission denied"
}

@test "oci: files of ids that the bundle maps beside the container's are out of reach, and it is said" {
	needs_ordinary_user
	config '.linux.uidMappings = [{containerID: 0, hostID: 1, size: 7}] | .process.user.uid = 7
		| .mounts += [{destination: "/x", type: "bind", source: "/root/x", options: ["bind"]}]'
	run -1 oci create one
	assert_output "mlrun: create 'one': the bundle maps ids that are not yours, which the container lacks: open '/root/x' to mount it: Permission denied"
}

@test "oci: a tmpfs with tmpcopyup shows what the root has there, and forgets what is written" {
	mkdir -p rootfs/data
	echo kept >rootfs/data/f
	config '.mounts += [{destination: "/data", type: "tmpfs", source: "tmpfs", options: ["rw", "nosuid", "tmpcopyup"]},
		{destination: "/none", type: "tmpfs", source: "tmpfs", options: ["size=1m", "tmpcopyup"]}]'
	command_is sh -c 'cat /data/f; echo new >/data/f; echo new >/none/f; cat /data/f'
	run -0 oci run one
	assert_output $'kept\nnew'
	assert_equal "$(<rootfs/data/f)" kept
	rm -r rootfs/data rootfs/none
}

@test "oci: an overlay's directories are the bundle's, a tmpfs keeps its name, and noatime holds" {
	mkdir -p "$BATS_TEST_TMPDIR"/{a,b,upper,work}
	echo a >"$BATS_TEST_TMPDIR/a/f"
	echo b | tee "$BATS_TEST_TMPDIR/b/f" >"$BATS_TEST_TMPDIR/b/g"
	config '.mounts += [{destination: "/over", type: "overlay", source: "overlay", options: ["lowerdir=\($d)/a:\($d)/b",
			"upperdir=\($d)/upper", "workdir=\($d)/work", "private", "userxattr"]},
		{destination: "/scratch", type: "tmpfs", source: "named", options: ["noatime", "nodiratime", "mode=700"]}]' --arg d "$BATS_TEST_TMPDIR"
	command_is sh -c 'cat /over/f /over/g; echo new >/over/g; rm /over/f; grep " /scratch " /proc/self/mounts'
	run -0 oci run one
	assert_line --index 0 a
	assert_line --index 1 b
	assert_line --index 2 --regexp '^named /scratch tmpfs rw,.*noatime'
	chmod u+rwx "$BATS_TEST_TMPDIR/work/work" # overlayfs's own
	assert_equal "$(<"$BATS_TEST_TMPDIR/upper/g")" new
	assert_equal "$(cat "$BATS_TEST_TMPDIR"/{a/f,b/g})" $'a\nb'
	config '.mounts[-2].options = ["lowerdir=\($d)/no"]' --arg d "$BATS_TEST_TMPDIR"
	run -1 oci run one
	assert_output --partial "$BATS_TEST_TMPDIR/no"
	config '.mounts[-2].options = ["upperdir=\($d)/upper"]' --arg d "$BATS_TEST_TMPDIR"
	run -1 oci run one
	assert_output --partial "'mounts': '/over': the option 'lowerdir' is missing"
	config '.mounts[-2].options = ["lowerdir=a:b"]'
	run -1 oci run one
	assert_output --partial "the option 'lowerdir=a:b' is not supported"
}

@test "oci: descriptors of mlrun's own are no inherited ones" {
	command_is sh -c 'ls /proc/self/fd; cat /proc/self/fd/3/../../../../../../etc/hostname'
	run -1 bash -c 'exec 3>&- 4>&- 5>&- 6>&-; exec mlrun oci --root="$1" run --preserve-fds=1 one' bash "$ROOT"
	assert_output --partial "descriptor 3 is not open"
	command_is cat
	run -0 bash -c 'exec mlrun oci --root="$1" run --preserve-fds=1 one 3<<<given' bash "$ROOT" </dev/null
}

@test "oci: namespaces by path are judged at the making, and by their type" {
	config '.linux.namespaces += [{type: "cgroup", path: $p}] | .hooks.poststop = [{path: "/bin/false"}] | .annotations = {a: "b"}' \
		--arg p "/proc/$$/ns/cgroup"
	command_is sleep 300
	unshare -Ur sh -c 'true' || skip "no user namespaces"
	oci create one >/dev/null 3>&-
	assert_equal "$(oci state one | jq -r .annotations.a)" b
	oci delete --force one
	config 'del(.hooks) | .linux.namespaces = [{type: "mount"}, {type: "time", path: "/proc/self/ns/time"}]'
	run -1 oci create one
	assert_output --partial "'time' is not supported"
	mkfifo "$BATS_TEST_TMPDIR/fifo"
	config '.linux.namespaces = [{type: "mount"}, {type: "network", path: $p}]' --arg p "$BATS_TEST_TMPDIR/fifo"
	run -1 timeout 200 mlrun oci --root="$ROOT" create one
	assert_output --partial "join the network namespace"
	# The caller's own: its settings are the machine's, perhaps.
	config '.linux.namespaces = [{type: "mount"}, {type: "network", path: "/proc/self/ns/net"}] | .linux.sysctl = {"net.core.somaxconn": "99"}'
	run -1 oci create one
	assert_output --partial "is not a setting of a namespace that the container has"
}

@test "oci: a root's passwd that is a fifo keeps nobody waiting" {
	mkdir -p rootfs/etc
	mv rootfs/etc/passwd "$BATS_TEST_TMPDIR/passwd" 2>/dev/null || true
	mkfifo rootfs/etc/passwd
	config '.process.env = ["PATH=/bin"]'
	run -0 timeout 200 mlrun oci --root="$ROOT" run one
	rm rootfs/etc/passwd
	mv "$BATS_TEST_TMPDIR/passwd" rootfs/etc/passwd 2>/dev/null || true
}

@test "oci: sysctls of the container's namespaces are written" {
	config '.linux.namespaces = [{type: "mount"}, {type: "network"}, {type: "ipc"}]
		| .linux.sysctl = {"net.ipv4.ip_unprivileged_port_start": "81", "net.ipv4.ping_group_range": "0 0"}'
	command_is cat /proc/sys/net/ipv4/ip_unprivileged_port_start
	config '.process.user = {uid: 0, gid: 0}'
	run -0 oci run one
	assert_output 81
	# A range of groups that are not in the container.
	config '.process.user.gid = 6'
	run -0 oci run one
	assert_output 81
	config '.linux.sysctl = {"net.ipv4.ip_unprivileged_port_start": "many"}'
	run -1 oci run one
	assert_output --partial "sysctl 'net.ipv4.ip_unprivileged_port_start' = 'many': Invalid argument"
}

@test "oci create: a command that is not there or cannot be executed is refused in words that clients look for" {
	command_is nothing
	run -127 oci create one
	assert_output --partial "executable file not found in \$PATH"
	run -1 oci state one
	command_is /etc
	run -126 oci create one
	config '.process.env = ["PATH=/:/bin"]' # where /etc is a directory, not the command
	command_is etc
	run -127 oci create one
	touch "$BUNDLE/rootfs/plain"
	command_is /plain
	run -126 oci create one
	assert_output --partial "permission denied"
	command_is sleep 300
	oci create one
	run -0 oci kill one 0
	oci delete --force one
	run -1 oci kill one 0
}

@test "oci: what of resources no control group can have is one warning, and nothing is said of nothing" {
	command_is echo ran
	config '.linux.resources = {pids: {limit: 2147483647}, cpu: {shares: 0, quota: 0, cpus: ""}, blockIO: {weight: 10},
		devices: [{allow: false, access: "rwm"}], memory: {disableOOMKiller: false}, unified: {}, hugepageLimits: [{pageSize: "2MB", limit: 1}]}'
	run -0 oci run one
	assert_line ran
	assert_line --regexp "^mlrun: warning: 'resources': (pids.limit, )?blockIO.weight, hugepageLimits: no control group of yours can have it, ignoring$"
	assert_equal "${#lines[@]}" 2
	config '.linux.resources = {memory: {limit: -1}, cpu: {period: 100000}, devices: []}'
	run -0 oci run one
	assert_output ran
	config '.linux.resources = ["memory"]'
	run -1 oci run one
	assert_output --partial "'resources': expected an object"
	config '.linux.resources = {memory: {limit: "1g"}}'
	run -1 oci run one
	assert_output --partial "'resources': "
}

@test "oci pause, resume: where a control group can be made, else it is said" {
	command_is sh -c 'while :; do echo x; sleep 0.05; done'
	oci create one >"$BATS_TEST_TMPDIR/out" 3>&- 4>&-
	run -1 oci pause one
	assert_output "mlrun: pause 'one': it is created, not running"
	oci start one
	run oci pause one
	if [ "$status" -ne 0 ]; then
		assert_line "mlrun: pause 'one': it has no control group of yours"
		assert_line --partial "systemd-run --user --scope"
		skip "no control group is delegated to this user"
	fi
	assert_equal "$(status)" paused
	run -1 oci exec one true
	assert_output "mlrun: exec 'one': container not running, but paused"
	run -1 oci pause one
	assert_output "mlrun: pause 'one': it is paused, not running"
	oci resume one
	assert_equal "$(status)" running
	local size
	size=$(stat -c %s "$BATS_TEST_TMPDIR/out")
	until_true eval '[ $(stat -c %s "$BATS_TEST_TMPDIR/out") -gt '"$size ]"
	oci pause one
	run -0 oci delete --force one
}

@test "oci: a seccomp profile is kept" {
	grep -q +seccomp <<<"$(mlrun --version)" || skip "mlrun has no libseccomp"
	config '.linux.seccomp = {defaultAction: "SCMP_ACT_ALLOW",
		syscalls: [{names: ["mkdir", "mkdirat"], action: "SCMP_ACT_ERRNO"}]}'
	command_is mkdir /tmp/x
	run -1 oci run one
	assert_output --partial "Operation not permitted"
	# One that knows no execveat(2), by which a command starts where the caller can write mlrun's file.
	config '.linux.seccomp.syscalls[0].names = ["execveat"]'
	command_is echo ran
	run -0 oci run one
	assert_output ran
}

@test "oci: states lie in a runtime directory that podman has opened for passing through, and in no other's" {
	local XDG_RUNTIME_DIR=$BATS_TEST_TMPDIR/run

	export XDG_RUNTIME_DIR XDG_STATE_HOME=$BATS_TEST_TMPDIR/kept
	command_is sleep 300
	mkdir -m 0711 "$XDG_RUNTIME_DIR"
	mlrun oci create one 3>&- 4>&-
	[ -d "$XDG_RUNTIME_DIR/mlrun/oci/one" ]
	mlrun oci delete --force one
	chmod 0755 "$XDG_RUNTIME_DIR"
	mlrun oci create one 3>&- 4>&-
	[ ! -e "$XDG_RUNTIME_DIR/mlrun/oci/one" ]
	mlrun oci delete --force one
}

@test "oci: what a container without root cannot have is refused by its name" {
	while IFS=@ read -r filter message; do
		cp config.json "$BATS_TEST_TMPDIR/good"
		config "$filter"
		run -1 oci create one
		assert_output --partial "$message"
		cp "$BATS_TEST_TMPDIR/good" config.json
	done <<'END'
.mounts += [{destination: "/x", type: "ext4", source: "/dev/sda"}]@'mounts': '/x': an ordinary user may not mount the type 'ext4'
.linux.namespaces += [{type: "mount", path: "/proc/1/ns/mnt"}]@'namespaces': mount: an existing one, '/proc/1/ns/mnt', cannot be joined
.linux.namespaces += [{type: "network", path: "/proc/1/ns/net"}]@join the network namespace '/proc/1/ns/net': Permission denied
.linux.sysctl = {"kernel.shmmax": "1"} | .linux.namespaces = [{type: "mount"}]@'sysctl': 'kernel.shmmax' is not a setting of a namespace that the container has
.linux.sysctl = {"kernel.core_pattern": "x"}@'sysctl': 'kernel.core_pattern' is not a setting of a namespace that the container has
.process.selinuxLabel = "x"@process: selinuxLabel: not supported
.process.terminal = true@'terminal' needs --console-socket
.ociVersion = "2.0"@ociVersion: '2.0'; 1.x is supported
.root.path = "/no/such"@the root '/no/such'
.process.args = []@'process': 'args': a command is missing
.process.cwd = "tmp"@process: cwd: 'tmp' is no absolute path
.linux.devices = [{path: "/dev/null", type: "c", major: 9, minor: 9}]@'/dev/null' is another device on the host
END
	run -1 oci create ../x
	assert_output --partial "container '../x': a name has 1 to 200 letters"
	chmod 0777 "$ROOT"
	run -1 oci create one
	assert_output --partial "belongs to others or is open to them: mode 0777"
	chmod 0700 "$ROOT"
}

@test "oci create: errors also go to --log, as JSON" {
	config '.root.path = "/no/such"'
	run -1 mlrun oci --root "$ROOT" --log "$BATS_TEST_TMPDIR/log" --log-format json --systemd-cgroup create one
	assert_equal "$(jq -r .level "$BATS_TEST_TMPDIR/log")" error
	assert_equal "$(jq -r .msg "$BATS_TEST_TMPDIR/log" | grep -c "/no/such")" 1
}

@test "oci: runc and crun give the same output and exit status for the same bundle" {
	local runtime n=0

	needs_ordinary_user
	for runtime in runc "crun --cgroup-manager=disabled"; do
		command -v "${runtime%% *}" >/dev/null || continue
		rm config.json
		runc spec --rootless 2>/dev/null || { mlrun oci spec; config '.process.user = {uid: 0, gid: 0} |
			.linux.uidMappings[0].containerID = 0 | .linux.gidMappings[0].containerID = 0'; }
		config '.process.terminal = false | del(.linux.namespaces[] | select(.type == "pid")) |
			.mounts |= map(if .type == "proc" then {destination: "/proc", type: "none", source: "/proc",
				options: ["rbind"]} else . end | select(.type != "cgroup"))'
		command_is sh -c 'id -u; id -g; pwd; env | sort; hostname; ls /dev; ulimit -n; stat -c %a /tmp /dev/shm
			grep -E "Cap|NoNew" /proc/self/status; touch /x 2>&1; echo in >&2; exit 5'
		# shellcheck disable=SC2086 # two words
		XDG_RUNTIME_DIR=$BATS_TEST_TMPDIR run --separate-stderr $runtime --root "$BATS_TEST_TMPDIR/theirs" run one
		# One that cannot run here says so, and not what the command says.
		[[ $output == *NoNewPrivs* ]] || continue
		n=$((n + 1))
		assert_equal "$(oci run one 2>/dev/null; echo $?)" "$output"$'\n'"$status"
	done
	[ $n -gt 0 ] || skip "no runc or crun that works here"
}

@test "oci: the personality and the domain are the bundle's" {
	config '.linux.personality = {"domain": "LINUX32"} | .domainname = "example.org" | .linux.namespaces += [{"type": "uts"}]'
	command_is sh -c 'uname -m; cat /proc/sys/kernel/domainname'
	run -0 oci run one
	assert_output --regexp $'^(i686|armv).*\nexample.org$'
	config '.linux.namespaces |= map(select(.type != "uts"))'
	run -1 oci run one
	assert_output --partial "'domainname' needs a namespace of its own"
	config '.domainname = "" | .linux.personality = {}'
	run -0 oci run one
	config 'del(.domainname) | .linux.personality.domain = "SOLARIS"'
	run -1 oci run one
	assert_output --partial "linux: personality: domain"
	config '.linux.personality = {"domain": "LINUX", "flags": ["ADDR_NO_RANDOMIZE"]}'
	run -1 oci run one
	assert_output --partial "not supported"
}

@test "oci exec: a command in a container that runs, with its variables, directory, status and descriptors" {
	command_is sleep 300
	config '.process.env += ["A=b"] | .process.cwd = "/usr" | .linux.namespaces = [{"type": "user"}, {"type": "mount"}, {"type": "pid"}]
		| .mounts |= map(if .destination == "/proc" then {destination: "/proc", type: "proc", source: "proc"} else . end)'
	run -1 oci exec one true
	assert_output --partial "container 'one' does not exist"
	oci create one 3>&- 4>&-
	# One that waits for its start is entered, too, and goes on waiting.
	run -0 oci exec -e C=d one sh -c 'echo "$A $C $HOME $(pwd) $(id -u)"; kill -0 1'
	assert_output "b d / /usr $(id -u)"
	oci exec --detach --pid-file "$BATS_TEST_TMPDIR/early" one sleep 297 >/dev/null 2>&1 3>&- 4>&-
	until_true runs "$(cat "$BATS_TEST_TMPDIR/early")" sleep 297
	assert_equal "$(oci ps -f json one | jq length)" 2
	kill "$(cat "$BATS_TEST_TMPDIR/early")"
	until_true is_gone "$(cat "$BATS_TEST_TMPDIR/early")"
	assert_equal "$(status)" created
	oci start one
	run -0 oci exec -e C=d one sh -c 'echo "$A $C $HOME $(pwd) $(cat /proc/1/comm)"'
	assert_output "b d / /usr sleep"
	run -0 oci exec --cwd /bin one pwd
	assert_output /bin
	run -7 oci exec one sh -c 'exit 7'
	run -127 oci exec one /no/such
	assert_output --partial "command '/no/such' not found"
	run -126 oci exec one /usr
	run -3 --separate-stderr oci exec --preserve-fds 1 one sh -c 'cat <&3; exit 3' 3<<<given
	assert_output given
	# As podman, conmon and containerd call it.
	jq '.process | .args = ["sh", "-c", "echo $B >/dev/shm/made; exec sleep 299"] | .env += ["B=c"]' config.json >"$BATS_TEST_TMPDIR/process"
	oci exec --detach --pid-file "$BATS_TEST_TMPDIR/pid" --process "$BATS_TEST_TMPDIR/process" one >out 2>&1 3>&- 4>&-
	assert_equal "$(cat out)" ""
	until_true runs "$(cat "$BATS_TEST_TMPDIR/pid")" sleep 299
	run -0 oci exec one cat /dev/shm/made
	assert_output c
	run -125 oci exec --detach --process "$BATS_TEST_TMPDIR/process" --tty one true
	assert_output --partial "either --process or a command"
	jq '.user.uid = 7' "$BATS_TEST_TMPDIR/process" >"$BATS_TEST_TMPDIR/other"
	run -1 oci exec --process "$BATS_TEST_TMPDIR/other" one
	assert_output --partial "'user': the container has only the ids $(id -u):$(id -g)"
	echo '{' >"$BATS_TEST_TMPDIR/other"
	run -1 oci exec --process "$BATS_TEST_TMPDIR/other" one
	assert_output --partial "exec 'one': '$BATS_TEST_TMPDIR/other': "
	# What was started so belongs to the container.
	run -0 oci ps -f json one
	assert_equal "$(jq -c 'sort' <<<"$output")" "$(jq -nc --argjson a "$(oci state one | jq .pid)" --argjson b "$(cat "$BATS_TEST_TMPDIR/pid")" '[$a, $b] | sort')"
	run -0 oci ps one -e -o pid,args
	assert_output --regexp $'^ *PID COMMAND\n *[0-9]+ sleep 300\n *[0-9]+ sleep 299$'
	run -0 oci ps one
	assert_equal "${#lines[@]}" 3
	# Bytes are passed on; without variables of its own one can be given.
	run -0 oci exec --env A=$'\xff' one sh -c 'printf %s "$A$1" | od -An -tx1' sh $'b\xfe'
	assert_output ' ff 62 fe'
	run -1 oci exec --cwd etc one true
	assert_output --partial "--cwd 'etc' is not absolute"
	run -0 oci list
	assert_line --regexp "^one +$(oci state one | jq .pid) +running +$BUNDLE "
	run -0 oci list -q
	assert_output one
	oci delete --force one
	until_true is_gone "$(cat "$BATS_TEST_TMPDIR/pid")"
}

@test "oci exec: a terminal is the command's own, and the seccomp profile holds" {
	command_is sleep 300
	config '.linux.seccomp = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}'
	oci run -d one
	run -1 oci exec one mkdir /tmp/x
	assert_output --partial "not permitted"
	run -1 oci exec -d -t one true
	assert_output --partial "'terminal' needs --console-socket"
	python3 - "$BATS_TEST_TMPDIR/socket" >"$BATS_TEST_TMPDIR/said" <<-'END' &
		import array, os, socket, sys
		s = socket.socket(socket.AF_UNIX)
		s.bind(sys.argv[1])
		s.listen()
		c, _ = s.accept()
		_, control, _, _ = c.recvmsg(100, socket.CMSG_SPACE(4))
		fd = array.array("i", control[0][2])[0]
		while True:
		    try:
		        data = os.read(fd, 1000)
		    except OSError:
		        break
		    if not data:
		        break
		    os.write(1, data)
	END
	PIDS+=($!)
	until_true test -S "$BATS_TEST_TMPDIR/socket"
	oci exec -d -t --console-socket "$BATS_TEST_TMPDIR/socket" one sh -c 'test -t 0 && tty >/dev/null && echo terminal'
	until_true grep -q terminal "$BATS_TEST_TMPDIR/said"
}

@test "oci: features lists namespaces, and --version is told" {
	run -0 mlrun oci features
	assert_equal "$(jq -r '.linux.namespaces | contains(["pid", "user"])' <<<"$output")" true
	run -0 mlrun oci --version
	assert_line --index 1 "spec: 1.0.2"
}

@test "oci: export --format=bundle makes a bundle that runs" {
	registry_start
	image_tiny tiny
	mlrun pull -q "$REGISTRY/tiny"
	registry_stop
	run -0 mlrun export -q --format=bundle "$REGISTRY/tiny" "$BATS_TEST_TMPDIR/b"
	run -0 oci run --bundle "$BATS_TEST_TMPDIR/b" one
	assert_output "tiny"
	assert_equal "$(jq -r .process.cwd "$BATS_TEST_TMPDIR/b/config.json")" /root
	run -125 mlrun export -q --format=bundle "$REGISTRY/tiny" "$BATS_TEST_TMPDIR/b"
	assert_output --partial "config.json' exists already"
}

@test "oci delete, kill: of a stopped container no other program gets a signal" {
	command_is true
	oci run --keep one
	until_true is stopped
	# The kernel gives a namespace's number out again at once.
	command_is sleep 988
	for other in 1 2 3 4 5; do oci run --detach "two$other"; done
	oci kill --all one KILL 2>/dev/null || true
	oci delete one
	for other in 1 2 3 4 5; do
		run -0 jq -r .status <(oci state "two$other")
		assert_output running
		oci delete --force "two$other"
	done
}

@test "oci: a sealed or masked file system is the container's own" {
	jq '.linux.namespaces += [{"type": "pid"}] | .linux.readonlyPaths = ["/proc", "/dev/shm"] | .linux.maskedPaths = ["/tmp"]
		| .mounts |= map(if .destination == "/proc" then {destination: "/proc", type: "proc", source: "proc"} else . end)
		| .process.args = ["sh", "-c", "ls -d /proc/[0-9]* | wc -l; touch /dev/shm/x || touch /tmp/x || echo sealed"]' \
		"$BUNDLE/config.json" >config && cp config "$BUNDLE/config.json"
	run -0 oci run one
	assert_line --index 0 --regexp '^[1-9]$'
	assert_line sealed
}

@test "oci: an unlimited limit as Go writes it, and the same digits in a string" {
	command_is sh -c 'ulimit -Hc; echo "$1"' sh 'a" 18446744073709551615 b'
	config '.process.rlimits = [{"type": "RLIMIT_CORE", "soft": 0, "hard": 7}]'
	sed -i 's/"hard": 7/"hard": 18446744073709551615/' config.json
	ulimit -Hc | grep -q unlimited || skip "this user's limit is lower"
	run -0 oci run one
	assert_output $'unlimited\na" 18446744073709551615 b'
}

@test "oci: podman runs containers by it" {
	local args want

	command -v podman >/dev/null || skip "podman is not installed"
	export HOME=$BATS_TEST_TMPDIR/home XDG_RUNTIME_DIR=$BATS_TEST_TMPDIR/run
	mkdir -p "$HOME/.config/containers"
	mkdir -m 700 "$XDG_RUNTIME_DIR"
	cd "$HOME" || return
	printf '[storage]\ndriver = "vfs"\n' >.config/containers/storage.conf
	printf '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n[containers]\nlog_driver = "k8s-file"\n' >.config/containers/containers.conf
	printf '{"default": [{"type": "insecureAcceptAnything"}]}' >.config/containers/policy.json
	printf '#!/bin/sh\nexec %s oci "$@"\n' "$top_builddir/bin/mlrun" >runtime
	chmod 755 runtime
	tar --owner=0 --group=0 -C "$BUNDLE/rootfs" -cf - . | podman import -q - tiny >/dev/null 2>&1 || skip "podman makes no image here"
	while IFS='|' read -r args want; do
		case $args in *--init*) [ -x "$(command -v catatonit)" ] || [ -x /usr/libexec/podman/catatonit ] || continue ;; esac
		eval "run -0 --separate-stderr timeout 60 podman --runtime=$PWD/runtime run --rm --net=none $args"
		assert_output "$want"
	done <<'END'
tiny echo hello|hello
-e A=b --user 5 tiny sh -c 'echo $A $(id -u)'|b 5
--user 5:6 tiny sh -c 'echo $(id -u):$(id -g)'|5:6
-v $BUNDLE/rootfs/bin:/d:O tiny sh -c 'rm /d/sh && echo gone'|gone
--read-only tiny sh -c '! touch /f 2>/dev/null && echo refused'|refused
--tmpfs /t --sysctl net.core.somaxconn=99 tiny sh -c 'touch /t/f; cat /proc/sys/net/core/somaxconn'|99
--hostname h --init tiny sh -c 'cat /proc/sys/kernel/hostname'|h
END
	run -127 timeout 60 podman --runtime="$PWD/runtime" run --rm --net=none tiny nothing
	timeout 60 podman --runtime="$PWD/runtime" run -d --name stays --net=none tiny sleep 300 >/dev/null 2>&1 3>&- 4>&-
	run -0 --separate-stderr timeout 60 podman --runtime="$PWD/runtime" exec -e C=d -w /usr stays sh -c 'echo $C; pwd; pidof sleep'
	assert_output $'d\n/usr\n1'
	run -7 timeout 60 podman --runtime="$PWD/runtime" exec stays sh -c 'exit 7'
	run -0 --separate-stderr timeout 60 podman --runtime="$PWD/runtime" exec -i stays cat <<<given
	assert_output given
	timeout 60 podman --runtime="$PWD/runtime" rm -f -t 0 stays >/dev/null
	podman unshare rm -rf "$HOME/.local" || true
	kill "$(find "$XDG_RUNTIME_DIR" -name pause.pid -exec cat {} +)" || true
}
