#!/usr/bin/env bats
# Terminals, job control and window sizes, in a real terminal: tmux. Nothing sleeps for a time: each step
# waits until the screen or a file shows what it brought about.
# shellcheck disable=SC2016 # the inner shell expands
load common
load terminal

setup() {
	common_setup
	terminal_setup
	tiny_root root
}

teardown() {
	terminal_teardown
	common_teardown
}

IN_ROOT="mlrun exec -w / rootfs:root"

@test "terminal: an interactive shell has the caller's terminal, by name and size" {
	open_terminal "$IN_ROOT env PS1='inner> ' sh -i"
	until_shown '^inner>'
	type_line 'tty; stty size; echo x >/dev/tty && echo tty-opened'
	until_shown '^tty-opened'
	run -0 screen
	# Where the host's pseudo-terminals can't be had inside, it has another name.
	assert_line --regexp "^($(term display-message -p -t t '#{pane_tty}')|/dev/console)$"
	assert_line "24 80"
}

@test "terminal: a change of the window's size reaches the command" {
	open_terminal "$IN_ROOT sh -c 'trap \"stty size\" WINCH; echo ready; for i in \$(seq 10000); do sleep 0.02; done'"
	until_shown '^ready'
	term resize-window -t t -x 100 -y 30
	until_shown '^30 100'
	term resize-window -t t -x 60 -y 20
	until_shown '^20 60'
}

@test "terminal: ^C ends the foreground command of an inner shell, and the shell lives on" {
	open_terminal "$IN_ROOT env PS1='inner> ' sh -i"
	until_shown '^inner>'
	# By its path: some shells of busybox run their own programs without execve(2).
	type_line "/bin/sleep $NAP"
	until_true pgrep -u "$(id -u)" -x -f "/bin/sleep $NAP"
	press C-c
	type_line 'echo status $?'
	until_shown '^status 130'
	type_line "sh -c 'trap \"echo got int\" INT; /bin/sleep ${NAP}1; echo ended'"
	until_true pgrep -u "$(id -u)" -x -f "/bin/sleep ${NAP}1"
	press C-c
	until_shown 'got int$'
}

@test "terminal: an inner shell has job control" {
	open_terminal "$IN_ROOT env PS1='inner> ' sh -i"
	until_shown '^inner>'
	run -0 screen
	refute_output --partial "job control"
	refute_output --partial "can't access tty"
	type_line "/bin/sleep $NAP"
	until_true pgrep -u "$(id -u)" -x -f "/bin/sleep $NAP"
	pid=$(pgrep -u "$(id -u)" -x -f "/bin/sleep $NAP")
	press C-z
	until_shown 'Stopped'
	type_line 'jobs; fg'
	until_true has_terminal "$pid"
	until_true is_state "$pid" S
	press C-c
	type_line 'echo status $?'
	until_shown '^status 130'
}

@test "terminal: ^Z stops a container, fg and bg continue it, ^C ends it" {
	open_shell
	until_shown '^outer>'
	type_line "$IN_ROOT sleep $NAP"
	until_true pgrep -u "$(id -u)" -x -f "sleep $NAP"
	pid=$(pgrep -u "$(id -u)" -x -f "sleep $NAP")
	press C-z
	until_shown '\[1\]\+ +Stopped +mlrun exec'
	until_true is_state "$pid" T
	type_line bg
	until_true is_state "$pid" S
	type_line fg
	until_shown '^mlrun exec'
	until_true has_terminal "$pid"
	press C-z
	until_true is_state "$pid" T
	type_line fg
	until_true has_terminal "$pid"
	until_true is_state "$pid" S
	press C-c
	type_line 'echo status $?'
	until_shown '^status 130'
	wait_while pgrep -u "$(id -u)" -x -f "sleep $NAP"
}

@test "terminal: ^\\ kills a container, and the shell says so" {
	open_shell
	until_shown '^outer>'
	type_line "ulimit -c 0; $IN_ROOT sleep $NAP"
	until_true pgrep -u "$(id -u)" -x -f "sleep $NAP"
	press 'C-\'
	type_line 'echo status $?'
	until_shown '^status 131'
}

@test "terminal: a container in the background that reads or, with tostop, writes is stopped" {
	open_shell
	until_shown '^outer>'
	type_line "set -b; $IN_ROOT cat - $NAP &"
	until_true pgrep -u "$(id -u)" -x -f "cat - $NAP"
	pid=$(pgrep -u "$(id -u)" -x -f "cat - $NAP")
	until_true is_state "$pid" T
	kill -KILL "$pid"
	until_true is_gone "$pid"
	type_line 'clear; stty tostop; echo next'
	until_shown '^next'
	type_line "clear; $IN_ROOT sh -c 'echo written; sleep 0' &"
	until_true hides '^next'
	until_shown 'Stopped'
	run -0 screen
	refute_line written
	type_line fg
	until_shown '^written'
}

@test "terminal: when the terminal goes away the command gets a hang-up" {
	open_terminal "$IN_ROOT sh -c 'trap \"echo hup >$PWD/hup; exit\" HUP; echo ready; for i in \$(seq 10000); do sleep 0.02; done'"
	until_shown '^ready'
	term kill-session -t t
	until_true test -s hup
}

@test "terminal: with nohup a command outlives its terminal" {
	open_shell
	until_shown '^outer>'
	type_line "nohup $IN_ROOT sh -c 'echo \$\$ >$PWD/pid; while [ ! -e $PWD/go ]; do sleep 0.05; done; echo ended >$PWD/ended' &"
	until_true test -s pid
	server=$(term display-message -p '#{pid}')
	term kill-server
	until_true is_gone "$server"
	kill -0 "$(cat pid)"
	touch go
	until_true test -s ended
}

@test "terminal: modes that a command sets are the terminal's, and stay as it leaves them" {
	open_shell
	until_shown '^outer>'
	type_line "stty -echo; $IN_ROOT stty -a | grep -o '.echo '; stty echo"
	until_shown '^-echo'
	type_line "$IN_ROOT stty rows 33; stty size; stty rows 24"
	until_shown '^33 80'
}

@test "terminal: -i and -t are accepted as Docker users type them" {
	open_terminal "mlrun exec -it -w / rootfs:root sh -c 'tty; read -r line; echo got \$line; read -r line'"
	until_shown '^/dev/'
	type_line word
	until_shown '^got word'
	run -0 bash -c 'echo piped | mlrun exec -it --rm -w / rootfs:root cat'
	assert_output piped
}
