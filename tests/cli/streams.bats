#!/usr/bin/env bats
# Standard input, output and error of a container: the caller's own, byte for byte.
# shellcheck disable=SC2016 # the inner shell expands
load common

STATE=$top_builddir/tests/inside/state

setup() {
	common_setup
	tiny_root root
	cp "$STATE" root/bin/state
}

inside() { mlrun exec -w / rootfs:root "$@"; }

# bytes N: so many of a stream that holds every byte and repeats nowhere.
bytes() { openssl enc -aes-128-ctr -nosalt -pass pass:mlrun -pbkdf2 -in /dev/zero 2>/dev/null | head -c "$1"; }

hash_of_stream() { openssl dgst -sha256 -r | cut -d' ' -f1; }

@test "streams: a gigabyte goes through stdin and stdout unchanged" {
	local n=1000000000
	[ "${sanitizers:-no}" != yes ] || n=50000000
	bytes "$n" | tee >(hash_of_stream >before) | inside cat | tee >(wc -c >count) | hash_of_stream >after
	until_true test -s before -a -s count
	assert_equal "$(cat after)" "$(cat before)"
	assert_equal "$(cat count)" "$n"
}

@test "streams: stderr is apart from stdout, and both are unchanged" {
	bytes 10000000 >in
	inside sh -c 'tee /dev/stderr' <in >out 2>err
	cmp in out
	cmp in err
}

@test "streams: of stdin no byte more is read than the command reads" {
	printf '0123456789abcdef' >in
	run -0 bash -c '{ mlrun exec -w / rootfs:root dd bs=1 count=4 2>/dev/null; echo; cat; } <in'
	assert_line --index 0 0123
	assert_line --index 1 456789abcdef
}

@test "streams: a file is appended to and read at the offset where the caller left it" {
	echo first >out
	inside echo second >>out
	assert_equal "$(cat out)" $'first\nsecond'
	run -0 bash -c 'exec 3<out; read -r line <&3; mlrun exec -w / rootfs:root cat <&3'
	assert_output second
}

@test "streams: standard descriptors are the caller's very files, sockets and pipes" {
	echo x >file
	run -0 bash -c "cat file | mlrun exec -w / rootfs:root state ends 1 2>file"
	assert_line --index 0 --regexp '^0 10000 pipe:'
	assert_line --index 1 --regexp '^1 10000 pipe:'
	assert_line --index 2 --regexp '^2 100000 .*/file$'
}

# How a command ends whose reader has gone, with and without a container.
@test "streams: a closed pipe kills the writer as it does without mlrun" {
	local ends
	for ends in 141 3; do # killed by SIGPIPE; where that is ignored, the error is the program's
		[ "$ends" = 141 ] || trap '' PIPE
		("$STATE" write 1 2>err3 || echo $? >without) | true
		(inside state write 1 2>err4 || echo $? >within) | true
		assert_equal "$(cat within)" "$(cat without)"
		assert_equal "$(cat within)" "$ends"
		cmp err3 err4
		trap - PIPE
	done
}

@test "streams: a full device is an error of the command's" {
	run -4 bash -c 'mlrun exec -w / rootfs:root state write 1 >/dev/full'
	assert_output "No space left on device"
	run bash -c 'mlrun exec -w / rootfs:root echo lost >/dev/full'
	assert [ "$status" -ne 0 ]
	run -125 bash -c 'mlrun exec --explain rootfs:root true >/dev/full'
	assert_output --partial "No space left on device"
}

@test "streams: a descriptor that is closed becomes /dev/null, and no file of mlrun's" {
	run -0 bash -c 'mlrun exec -w / rootfs:root state ends 1 <&-'
	assert_line --index 0 --regexp '^0 (closed|20000 /dev/null)$'
	run -0 bash -c 'mlrun exec -w / rootfs:root state ends 1 2>&-'
	assert_line --index 2 --regexp '^2 (closed|20000 /dev/null)$'
	run -0 bash -c 'mlrun exec -w / rootfs:root state ends 2 >&- 2>out; cat out'
	assert_line --index 1 --regexp '^1 (closed|20000 /dev/null)$'
	run -127 bash -c 'mlrun exec -w / rootfs:root /no/such <&- >&- 2>&-'
}

@test "streams: mlrun's own messages go to stderr, never into the command's output" {
	mkdir -p "$HOME"
	cd "$HOME"
	run -0 --separate-stderr mlrun exec "rootfs:$TMPDIR/root" echo output
	assert_output output
	assert_equal "$stderr" ''
	run -0 --separate-stderr mlrun exec --verbose "rootfs:$TMPDIR/root" echo output
	assert_output output
	assert [ -n "$stderr" ]
}
