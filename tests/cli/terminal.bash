# shellcheck shell=bash disable=SC2154
# A real terminal for command-line tests, tmux: `load terminal` beside `load common`. Nothing sleeps for a
# time: each step waits until the screen or a file shows what it brought about.

terminal_setup() {
	command -v tmux >/dev/null || skip "tmux is not installed"
	TMUX_SOCKET=$BATS_TEST_TMPDIR/tmux
	unset TMUX
	export PS1='outer> '
}

terminal_teardown() {
	term kill-server 2>/dev/null || :
}

term() { tmux -S "$TMUX_SOCKET" -f /dev/null "$@"; }

# open_terminal COMMAND...: a terminal of 80 columns and 24 lines that runs it.
open_terminal() {
	term new-session -d -s t -x 80 -y 24 "$@" 3>&-
	term set-option -g window-size manual
	term set-option -g remain-on-exit on
}

# An interactive bash without the user's settings, as on a login node.
open_shell() { open_terminal "env PS1='outer> ' bash --norc --noprofile -i"; }

type_line() { term send-keys -t t "$1" Enter; }
press() { term send-keys -t t "$1"; }
screen() { term capture-pane -p -J -t t; }

# Is a line of the screen like this?
shows() { screen | grep -qE -- "$1"; }

# until_true COMMAND...: within ten seconds.
until_true() {
	local i

	for ((i = 0; i < 200; i++)); do
		"$@" && return
		sleep 0.05
	done
	echo "never: $*"
	screen
	return 1
}

until_shown() { until_true shows "$1"; }

# Is the process of this pid in this state (ps(1): S, T...)?
is_state() { [[ $(ps -o state= -p "$1" 2>/dev/null) == "$2" ]]; }
