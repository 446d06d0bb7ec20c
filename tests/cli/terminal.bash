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

until_shown() { until_true shows "$1"; }

hides() { ! shows "$1"; }

# Does open_shell's shell wait for a line? What is typed before belongs to the program that has the terminal still.
is_prompting() { screen | sed '/^ *$/d' | tail -n 1 | grep -q '^outer> *$'; }

# What is typed when the terminal is the shell's again.
type_next() {
	until_true is_prompting
	type_line "$1"
}

# Has the process's group the terminal?
has_terminal() { [ "$(ps -o tpgid= -p "$1")" = "$(ps -o pgid= -p "$1")" ]; }
