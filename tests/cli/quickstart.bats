#!/usr/bin/env bats
# What quickstart does before it does anything.

load common

@test "quickstart: without a word it prints its usage and exits 2" {
	run -2 "$top_srcdir/quickstart"
	assert_output --partial 'usage: ./quickstart'
	assert_output --partial 'demo'
}

@test "quickstart: an unknown word, or one too many, exits 2" {
	run -2 "$top_srcdir/quickstart" fly
	run -2 "$top_srcdir/quickstart" demo now
	run -2 "$top_srcdir/quickstart" build now
}

@test "quickstart: --help goes to stdout and exits 0" {
	run -0 --separate-stderr "$top_srcdir/quickstart" --help
	assert_output --partial 'check'
	assert_equal "$stderr" ''
}

@test "quickstart: a clone that was configured in place is told before any package is installed" {
	mkdir clone
	cp "$top_srcdir/quickstart" clone
	touch clone/config.status
	run -1 clone/quickstart demo
	assert_output "quickstart: the clone itself was configured, so no directory below it can be; run 'make distclean' in it first"
}

@test "quickstart: a lab without root and without sudo is refused in one line, before anything is built" {
	needs_ordinary_user
	mkdir alone programs
	cp "$top_srcdir/quickstart" alone
	for program in bash env cat cut dirname nproc id; do ln -s "$(command -v $program)" programs; done
	PATH=$PWD/programs run -1 alone/quickstart --no-deps lab true
	assert_output "quickstart: no sudo; a lab takes root to start"
}

# --- packages, on a machine that has none: the programs that would look and install write down what they are told

# bare_machine: a copy of quickstart that can build nothing, and recorders before everything in PATH.
bare_machine() {
	local program

	grep -qE '^VERSION_CODENAME=(bookworm|noble)' /etc/os-release || skip "quickstart knows no packages of this system"
	mkdir bare recorders
	cp "$top_srcdir/quickstart" bare
	for program in apt-get apt-cache sudo systemctl update-rc.d; do
		printf '#!/bin/sh\necho "%s $*" >>"%s/told"\n' "$program" "$PWD" >"recorders/$program"
	done
	printf '#!/bin/sh\nexit 1\n' >recorders/dpkg-query
	chmod +x recorders/*
	PATH=$PWD/recorders:$PATH
}

# The table's packages of these rows, sorted.
listed_for() { sed -n '/^package_table()/,/^}/p' "$top_srcdir/quickstart" | grep -E "^\s*($1)[ |]" | cut -d'|' -f3 | tr -s ' ' '\n' | sort; }

# What apt-get was told to install, sorted. By way of sudo it is the end of a script's arguments.
told_to_install() { grep -oP "$1" told | tr -s ' ' '\n' | sort; }

@test "quickstart: deps on a machine without any package has sudo install every one of the table" {
	needs_ordinary_user
	bare_machine
	run -0 bare/quickstart deps
	assert_line '==> packages to install'
	run -0 grep '^sudo apt-get .*update' told
	assert_equal "$(told_to_install '^\tdone sh \K.*')" "$(listed_for 'demo|check')"
}

@test "quickstart: demo wants its own packages alone, and goes on to build once they are there" {
	needs_ordinary_user
	bare_machine
	run bare/quickstart demo
	assert_line '==> autoreconf'
	assert_equal "$(told_to_install '^\tdone sh \K.*')" "$(listed_for demo)"
}

@test "quickstart: root needs no sudo, and no service that came along is started" {
	bare_machine
	# Root of a user namespace, with an empty /usr/sbin to put policy-rc.d into.
	run -0 unshare --user --map-root-user --mount sh -c \
		'mount -t tmpfs none /usr/sbin && bare/quickstart deps && ls -A /usr/sbin'
	assert_line '==> packages to install'
	refute_output --partial 'policy-rc.d'
	run -1 grep '^sudo' told
	assert_equal "$(told_to_install '^apt-get .*--no-install-recommends \K.*')" "$(listed_for 'demo|check')"
}

@test "quickstart: what the archives lack is passed over where it is optional, and named where it is not" {
	needs_ordinary_user
	bare_machine
	printf '#!/bin/sh\n[ "$3" != libdnnl-dev ]\n' >recorders/apt-cache
	run -0 bare/quickstart deps
	assert_output --partial "not in this system's package archives: libdnnl-dev"
	printf '#!/bin/sh\n[ "$3" != libcurl4-openssl-dev ]\n' >recorders/apt-cache
	run -1 bare/quickstart deps
	assert_output --partial 'libcurl4-openssl-dev is needed'
}

@test "quickstart: what every build skips is listed with its reason, what one of them ran is not" {
	# shellcheck source=/dev/null
	. <(sed -n '/^list_untested()/,/^}/p' "$top_srcdir/quickstart")
	printf '%s\n' 'PASS: a.bats 1 - runs' 'SKIP: a.bats 2 - in one # SKIP measured on the plain build' \
		'SKIP: a.bats 3 - nowhere # SKIP no device' >sanitized.log
	printf '%s\n' 'SKIP: a.bats 1 - runs # SKIP why' 'PASS: a.bats 2 - in one' 'SKIP: a.bats 3 - nowhere # SKIP no device' \
		'SKIP: unit/cuda - no driver' 'SKIP: unit/mpi - no MPI' >plain.log
	printf '%s\n' 'make: nothing' 'PASS: unit/mpi 2 - sums' >>sanitized.log
	logs=(sanitized.log plain.log)
	run -0 list_untested
	assert_output '    a.bats 3 - nowhere # SKIP no device
    unit/cuda - no driver'
}
