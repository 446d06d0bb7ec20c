# mlrun exec --pid and --init: a PID namespace of its own, and a process outside that hides it.
# shellcheck disable=SC2016 # the inner shell expands
load common

setup_file() {
	export ROOT=$BATS_FILE_TMPDIR/root
	tiny_root "$ROOT"
}

setup() {
	common_setup
	IMG=rootfs:$ROOT
}

# start ARGUMENT...: in the background, until it has written "ready" into the file ready; its pid is $PID.
start() {
	rm -f ready
	mlrun exec "$@" 3>&- &
	PID=$!
	PIDS+=("$PID")
	until_true test -e ready
}

# ends_with PID STATUS: as the shell sees it.
ends_with() {
	local status=0

	wait "$1" || status=$?
	assert_equal "$status" "$2"
}

@test "pid: the command sees the container's processes alone" {
	run -0 mlrun exec --pid "$IMG" sh -c 'echo $$; cd /proc; echo [0-9]*; cat /proc/self/stat | cut -d" " -f1-1 >/dev/null'
	assert_line --index 0 1
	assert_line --index 1 1
	run -0 mlrun exec --init "$IMG" sh -c 'echo $$; cat /proc/1/comm'
	assert_line --index 0 2
	assert_line --index 1 mlrun-init
	run -0 mlrun exec "$IMG" sh -c 'echo /proc/[0-9]* | wc -w'
	[ "$output" -gt 2 ]
}

@test "pid: the exit status is the command's own" {
	local how

	for how in --pid --init; do
		run -0 mlrun exec "$how" "$IMG" true
		run -7 mlrun exec "$how" "$IMG" sh -c 'exit 7'
		run -127 mlrun exec "$how" "$IMG" no-such-command
		assert_output --partial "command 'no-such-command' not found"
		run -126 mlrun exec "$how" "$IMG" /etc
		run -125 mlrun exec "$how" -v /etc/passwd:/etc "$IMG" true
		assert_output --partial "'/etc' in the image is a directory"
	done
	run -143 mlrun exec --init "$IMG" sh -c 'kill -TERM $$'
	run -137 mlrun exec --init "$IMG" sh -c 'kill -KILL $$'
}

@test "pid: a signal that ends the command ends mlrun by the same signal" {
	local how sig

	for how in --pid --init; do
		for sig in TERM HUP USR1 KILL; do # the shell lets what runs in the background ignore INT
			start "$how" "$IMG" sh -c "echo >'$PWD/ready'; exec sleep 100"
			if [ "$sig" = KILL ]; then
				kill -KILL "$(pgrep -P "$PID")"
			else
				kill "-$sig" "$PID"
			fi
			ends_with "$PID" "$((128 + $(kill -l "$sig")))"
		done
	done
}

@test "pid: a signal that the command handles is handled once" {
	local how

	for how in --pid --init; do
		start "$how" "$IMG" sh -c "trap 'echo got >>\"$PWD/got\"; exit 3' TERM; echo >'$PWD/ready'
			while :; do sleep 0.1; done"
		kill -TERM "$PID"
		ends_with "$PID" 3
		run -0 cat got
		assert_output got
		rm got
	done
}

@test "pid: an ignored signal stays ignored" {
	trap '' HUP
	start --pid "$IMG" sh -c "echo >'$PWD/ready'; exec sleep 100"
	trap - HUP
	kill -HUP "$PID"
	sleep 0.3
	kill -0 "$PID"
	kill -TERM "$PID"
	ends_with "$PID" 143
}

@test "pid: children that were ignored by the caller are waited for nevertheless" {
	run -5 env -i PATH="$PATH" HOME="$HOME" python3 -c 'import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execvp("mlrun", ["mlrun", "exec"] + sys.argv[1:])' --pid "$IMG" sh -c 'exit 5'
	run -5 env -i PATH="$PATH" HOME="$HOME" python3 -c 'import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execvp("mlrun", ["mlrun", "exec"] + sys.argv[1:])' --init "$IMG" sh -c 'exit 5'
}

@test "pid: killing the process outside ends the whole container" {
	local how inner

	for how in --pid --init; do
		start "$how" "$IMG" sh -c "sleep $NAP & echo >'$PWD/ready'; exec sleep ${NAP}1"
		inner=$(pgrep -P "$PID")
		kill -KILL "$PID"
		ends_with "$PID" 137
		until_true is_gone "$inner"
		wait_while pgrep -u "$(id -u)" -x -f "sleep ${NAP}1?"
	done
}

@test "pid: what the command leaves behind ends with it" {
	local how

	for how in --pid --init; do
		mlrun exec "$how" "$IMG" sh -c "sleep $NAP >/dev/null 2>&1 3>&- & exit 0"
		wait_while pgrep -u "$(id -u)" -x -f "sleep $NAP"
	done
}

@test "pid: --init reaps orphans" {
	run -0 mlrun exec --init "$IMG" sh -c \
		'for i in 1 2 3 4 5; do sh -c "sleep 0.1 & exit 0"; done
		for i in $(seq 1000); do usleep 50000; grep -qs "^Name:.sleep" /proc/[0-9]*/status || break; done
		grep -ls "^State:.Z" /proc/[0-9]*/status; echo none else'
	assert_output "none else"
}

@test "pid: a command that stops, stops mlrun, and continues with it" {
	local how

	for how in --pid --init; do
		start "$how" "$IMG" sh -c "trap 'exit 9' USR1; echo >'$PWD/ready'; while :; do sleep 0.1; done"
		# The command, whichever process of the container it is; not one that it begins just now.
		kill -STOP "$(pgrep -u "$(id -u)" -f -o "^sh -c trap .* echo >.$PWD/ready")"
		until_true is_state "$PID" T
		kill -CONT "$PID"
		until_true is_state "$PID" S
		kill -USR1 "$PID"
		ends_with "$PID" 9
	done
}

@test "pid: stdin and stdout pass unchanged, and pipes end with the command" {
	head -c 30000000 /dev/urandom >in
	mlrun exec --pid "$IMG" cat <in >out
	cmp in out
	mlrun exec --init "$IMG" cat <in >out
	cmp in out
	# Nobody else holds the writing end.
	run -0 timeout 120 sh -c "mlrun exec --init '$IMG' sh -c 'exec >&-; sleep 1; cat /proc/1/comm >&2' | cat"
	assert_output mlrun-init
}

@test "pid: the processes of mlrun's have no privileges and no descriptors" {
	local outer

	start --init "$IMG" sh -c "echo >'$PWD/ready'; exec sleep $NAP"
	outer=$PID
	until_true pgrep -u "$(id -u)" -x -f "sleep $NAP"
	run -0 grep -E '^(CapEff|NoNewPrivs)' "/proc/$outer/status"
	assert_line --index 0 --partial 0000000000000000
	assert_line --index 1 --regexp '1$'
	# In the container, pid 1 may not be looked into.
	run -1 mlrun exec --join "$(pgrep -u "$(id -u)" -x -f "sleep $NAP")" ls /proc/1/fd
	assert_output --partial "Permission denied"
	kill -TERM "$outer"
}

# python3's pty plays the terminal and the shell with job control.
at_terminal() {
	timeout 300 python3 - "$@" <<'END'
import glob, os, pty, select, signal, sys, time

got = b''

def until(fd, text, seconds=120):
    """What came after an earlier text stays for the next one."""
    global got
    end = time.time() + seconds
    while text not in got:
        ready, _, _ = select.select([fd], [], [], max(0, end - time.time()))
        if not ready:
            sys.exit('%r did not come, but %r' % (text, got))
        try:
            got += os.read(fd, 4096)
        except OSError:
            sys.exit('the terminal was closed after %r' % got)
    got = got[got.index(text) + len(text):]

def is_run(command):
    words = command.replace(' ', '\0').encode() + b'\0'
    for name in glob.glob('/proc/[0-9]*/cmdline'):
        try:
            if open(name, 'rb').read() == words:
                return True
        except OSError:
            pass  # it has ended meanwhile
    return False

def start(argv):
    """A command in a process group of its own in the foreground; the shell is its parent."""
    shell, fd = pty.fork()
    if shell == 0:
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            os.tcsetpgrp(0, os.getpid())
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
            os.execvp(argv[0], argv)
        while True:
            _, status = os.waitpid(pid, os.WUNTRACED)
            os.tcsetpgrp(0, os.getpgrp())
            if os.WIFSTOPPED(status):
                print('stopped by %d.' % os.WSTOPSIG(status), flush=True)
                sys.stdin.readline()
                os.tcsetpgrp(0, pid)
                os.killpg(pid, signal.SIGCONT)
            elif os.WIFSIGNALED(status):
                print('killed by %d.' % os.WTERMSIG(status), flush=True)
                os._exit(0)
            else:
                print('ended with %d.' % os.WEXITSTATUS(status), flush=True)
                os._exit(0)
    return fd

keys, argv = sys.argv[1], sys.argv[2:]
fd = start(argv)
until(fd, b'ready')
for step in keys.split(','):
    what, _, arg = step.partition(':')
    if what == 'type':
        os.write(fd, arg.encode().decode('unicode_escape').encode('latin1'))
    elif what == 'see':
        until(fd, arg.encode())
    elif what == 'runs':
        while not is_run(arg):
            time.sleep(0.05)
END
}

@test "pid: ^C ends the command, or is handled by it once" {
	local how

	for how in --pid --init; do
		# busybox's sh would catch it, and end with a status, before it has become sleep.
		NAP=${NAP}1
		at_terminal "runs:sleep $NAP,type:\\x03,see:killed by 2." mlrun exec "$how" "$IMG" sh -c "echo ready; exec sleep $NAP"
		at_terminal 'type:\x03,see:got,see:ended with 4.' mlrun exec "$how" "$IMG" \
			sh -c 'trap "echo got; exit 4" INT; echo ready; while :; do sleep 0.1; done'
	done
}

@test "pid: ^Z stops the command, and the shell continues it" {
	local how

	for how in --pid --init; do
		at_terminal 'type:\x1a,see:stopped by 20.,type:\n,type:word\n,see:word,see:read word,see:ended with 5.' \
			mlrun exec "$how" "$IMG" sh -c 'echo ready; read -r x; echo "read $x"; exit 5'
	done
}

# An image with the host's bash: busybox has no job control worth the name.
with_bash() {
	tiny_root bashed
	ldd "$(command -v bash)" | grep -o '/[^ ]*' | while read -r lib; do
		mkdir -p "bashed${lib%/*}"
		cp -L "$lib" "bashed$lib"
	done
	cp -L "$(command -v bash)" bashed/bin/bash
}

@test "pid: an interactive shell has its jobs, and the terminal goes back" {
	with_bash
	at_terminal 'type:sh -c "echo g$((1+1)); exec cat"\n,see:g2,type:\x1a,see:Stopped,see:cat,type:fg\n,see:cat,type:word\n,see:word,see:word,type:\x04,type:echo r$((40+2))\n,see:r42,type:exit 6\n,see:ended with 6.' \
		mlrun exec --pid "rootfs:$PWD/bashed" bash --norc --noprofile -c 'echo ready; exec bash --norc --noprofile -i'
}

@test "pid: a script gets its terminal back from a shell in the container" {
	with_bash
	at_terminal 'type:exit\n,see:now,type:line\n,see:read line,see:ended with 0.' \
		sh -c "echo ready; mlrun exec --pid rootfs:$PWD/bashed bash --norc --noprofile -i; echo now; read -r x; echo read \$x"
}
