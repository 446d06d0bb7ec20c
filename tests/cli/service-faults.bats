#!/usr/bin/env bats
# Whatever fails while a service or a worker starts, stops or ends: there is a whole one, or none and a sentence.
# With CHECK_ALL=yes every call fails once, and there are more kills.
# shellcheck disable=SC2016 # the shell inside expands

load common

setup_file() {
	tiny_root "$BATS_FILE_TMPDIR/root"
}

setup() {
	common_setup
	IMG=rootfs:$BATS_FILE_TMPDIR/root
	refuse=$top_builddir/tests/fault/refuse
	[ -x "$refuse" ] || skip "mlrun was built without libseccomp"
	export REFUSED=$PWD/refused
	mlrun run -d --rm --name first "$IMG" true # makes the store
	until_true is_clean
}

teardown() {
	services_end
	mlrun workers stop --all 2>/dev/null || true
	common_teardown
}

is() { [ "$(mlrun ps --all --json | jq -rc --arg name "$1" ".[] | select(.name == \$name) | .$2")" = "$3" ]; }
dir() { echo "$MLRUN_STORE/services/$(hostname)"; }
is_clean() {
	[ -z "$(ls "$(dir)")" ] &&
		! pgrep -u "$(id -u)" -f "service-hold --store=$MLRUN_STORE|workers hold --store=$MLRUN_STORE|^sleep $NAP"
}

# Run mlrun; the n-th of the calls fails. Sets $status, 0 or 125 with a sentence.
faulty() {
	status=0
	timeout -k 1 60 "$refuse" "$calls#$n=$code" -- mlrun "$@" >said 2>&1 3>&- || status=$?
	[ "$status" = 0 ] || { [ "$status" = 125 ] && grep -q '^mlrun: ' said; }
}

# each_call_fails SCENARIO CALL,CALL...=ERRNO [STEP]: the n-th call, for all n that there are, or every STEP-th.
each_call_fails() {
	local calls=${2%=*} code=${2#*=} step=1 n status

	[ "${CHECK_ALL:-no}" = yes ] || step=${3:-1}
	for ((n = 1; ; n += step)); do
		rm -f "$REFUSED"
		"$1" || fail "$1, $2: $n: status $status: $(cat said)"
		[ -e "$REFUSED" ] || break
	done
	assert [ "$n" -gt 1 ] # the faults did reach it
}

each_kind_fails() {
	local kind

	for kind in mkdir,mkdirat=ENOSPC write,writev=ENOSPC rename,renameat=EIO fsync=EIO fork,vfork,clone,clone3=EAGAIN \
		execve=EACCES pipe2=EMFILE chdir=EACCES flock=ENOLCK; do
		each_call_fails "$1" $kind
	done
	each_call_fails "$1" openat,openat2=EMFILE 11
	each_call_fails "$1" fcntl=EMFILE 5
}

starts() {
	faulty run -d --name web "$IMG" sleep "$NAP" || return
	if [ "$status" = 0 ]; then
		until_true is web status running
		mlrun stop -t 0 --rm web >/dev/null
	fi
	is_clean
}

@test "service faults: a start whose calls fail leaves a whole service, or nothing and a sentence" {
	each_kind_fails starts
}

starts_again() {
	faulty run -d --name web "$IMG" sleep 1000
	[ "$status" = 125 ] && is web pid "$pid" && is web status running
}

@test "service faults: a second start whose calls fail leaves the first one alone" {
	local pid

	mlrun run -d --name web "$IMG" sleep "$NAP"
	pid=$(mlrun ps --json | jq '.[] | select(.name == "web") | .pid')
	each_call_fails starts_again openat,openat2=EMFILE
	each_call_fails starts_again read=EIO
	each_call_fails starts_again flock=ENOLCK
}

stops() {
	mlrun run -d --name web "$IMG" sleep "$NAP" >/dev/null
	faulty stop -t 0 --rm web || return
	[ "$status" = 0 ] || mlrun stop -t 0 --rm web >/dev/null
	is_clean
}

restarts() {
	mlrun run -d --name web "$IMG" sleep "$NAP" >/dev/null
	[ "$n" != 1 ] && [ "$((n % 2))" = 0 ] || mlrun stop -t 0 web >/dev/null # with its supervisor, and without
	faulty restart -t 0 web || return
	[ "$status" != 0 ] || until_true is web status running
	mlrun stop -t 0 --rm web >/dev/null
	is_clean
}

@test "service faults: a stop or restart whose calls fail can be done again" {
	local kind

	each_call_fails stops openat,openat2=EMFILE 3
	each_call_fails stops kill,rt_sigqueueinfo=EPERM
	each_call_fails stops unlinkat=EIO
	for kind in write,writev=ENOSPC rename,renameat=EIO fork,vfork,clone,clone3=EAGAIN pipe2=EMFILE; do
		each_call_fails restarts $kind
	done
	each_call_fails restarts openat,openat2=EMFILE 11
}

ends() {
	faulty run -d --name web "$IMG" sh -c 'exit 7' || return
	if [ "$status" = 0 ]; then
		[ "$(mlrun wait web)" = 7 ] || return
		mlrun stop --rm web >/dev/null
	fi
	is_clean
}

@test "service faults: the exit status is kept, whatever call fails" {
	each_call_fails ends write,writev=ENOSPC
	each_call_fails ends rename,renameat=EIO
	each_call_fails ends fsync=EIO
	each_call_fails ends kill=EPERM
	each_call_fails ends openat,openat2=EMFILE 11
}

# `workers start` does not wait for the command.
works() {
	local id said

	faulty workers start --local "$IMG" sleep "$NAP" || return
	if [ "$status" = 0 ]; then
		id=$(grep '^local-' said)
		timeout 200 mlrun workers await "$id" >/dev/null || mlrun workers logs "$id" | grep -q '^mlrun: ' || return
		mlrun workers stop "$id" || return
		said=$(mlrun workers list --all --json | jq -r --arg id "$id" '.[] | select(.id == $id) | .status')
		[ "$said" = stopped ] || [ "$said" = failed ] || return
		rm -r "$MLRUN_STORE"/workers/*[!k]
	fi
	[ "$(ls "$MLRUN_STORE/workers" 2>/dev/null | grep -vxc lock)" = 0 ] && is_clean
}

@test "service faults: a worker whose calls fail is whole, or there is none and a sentence" {
	each_kind_fails works
	each_call_fails works kill=EPERM
}

# Started again at once: nobody has the name whom others do not see.
@test "service faults: a start that is killed at any moment leaves one service that is listed, or none" {
	local i status

	for ((i = 0; i < $(rounds 40); i++)); do
		(ends_early; exec mlrun run -d --name web "$IMG" sleep "$NAP") >/dev/null 2>&1 3>&- &
		sleep "0.0$(printf %02d $((RANDOM % 50)))"
		kill -KILL $! 2>/dev/null || true
		status=0
		timeout 60 mlrun run -d --name web "$IMG" sleep "$NAP" >said 2>&1 || status=$?
		wait $! || true
		[ "$status" = 0 ] || grep -q 'there already' said || fail "$(cat said)"
		until_true is web status running
		until_true eval '[ "$(pgrep -u "$(id -u)" -fc "service-hold --store=$MLRUN_STORE")" = 1 ]'
		mlrun stop -t 0 --rm web >/dev/null
		is_clean
	done
}

@test "service faults: a start of a worker that is killed at any moment leaves one that is listed, or none" {
	local i

	for ((i = 0; i < $(rounds 40); i++)); do
		(ends_early; exec mlrun workers start --local "$IMG" sleep "$NAP") >/dev/null 2>&1 3>&- &
		sleep "0.0$(printf %02d $((RANDOM % 50)))"
		kill -KILL $! 2>/dev/null || true
		wait $! || true
		# The supervisor may be on its way.
		wait_while pgrep -u "$(id -u)" -f "^$top_builddir/bin/mlrun exec"
		mlrun workers stop --all
		wait_while pgrep -u "$(id -u)" -f "workers hold --store=$MLRUN_STORE"
		is_clean
	done
}

@test "service faults: a connection that cannot be watched is ended, and the next one is passed on" {
	local n

	cat >ports.py <<-'END'
		import socket
		every = [socket.socket() for i in range(2)]
		for s in every: s.bind(("127.0.0.1", 0))
		for s in every: print(s.getsockname()[1])
	END
	for n in 2 3; do # one of the two sides; the first call is the port's own
		rm -f "$REFUSED"
		mapfile -t free < <(python3 ports.py)
		printf 'services: {a: {image: "%s", command: sleep 1000, ports: ["%s:%s"]}}' "$IMG" "${free[@]}" >compose.yaml
		"$refuse" "epoll_ctl#$n=ENOSPC" -- mlrun up -d -p "n$n" 3>&-
		python3 -c "import socket
s = socket.create_server(('127.0.0.1', ${free[1]}))
while True: s.accept()[0].sendall(b'hello')" 3>&- &
		PIDS+=("$!")
		python3 -c "import socket
def ask(port):
    try: return socket.create_connection(('127.0.0.1', port), 60).recv(5)
    except ConnectionError: return b''
while ask(${free[1]}) != b'hello': pass # until the server is there
assert ask(${free[0]}) == b''
assert ask(${free[0]}) == b'hello'"
		[ -e "$REFUSED" ]
	done
}
