#!/usr/bin/env bats
# mltrain train --elastic: real processes that join and leave one training, die and are attacked.

load common
load ranks

setup_file() {
	[ "$(id -u)" != 0 ] || { skip_file "a rendezvous file of root's is read by root"; return; }
	export DATA=$BATS_FILE_TMPDIR/data BACKENDS=reference CHECK_ALL=${CHECK_ALL:-no}
	case $("$top_builddir/bin/mltrain" --version) in *onednn*) BACKENDS="onednn reference" ;; esac
	ranks_data "$DATA"
}

setup() {
	common_setup
	cd "$BATS_TEST_TMPDIR"
	ranks_setup
	COMMON=(train --threads 1 --data "$DATA" --validation 100 --batch 16 --lr 0.001 --log-every 1 --load-every 0)
	ranks_norm_net true >norm.json
}

# rank NAME ARGUMENT...: one more process of the run, in the background. Sets $pid; its outputs are NAME.out, NAME.err
rank() {
	mltrain "${COMMON[@]}" --elastic meet --log run.jsonl "${@:2}" >"$1.out" 2>"$1.err" 3>&- &
	pid=$!
	PIDS+=("$pid")
}

# carry_by shared|tcp: what the sums go by
carry_by() { if [ "$1" = tcp ]; then export MLTRAIN_NO_SHARED_MEMORY=1; else unset MLTRAIN_NO_SHARED_MEMORY; fi; }

# has_ranks N [COUNT]: does the latest record of the group tell N ranks, and are there COUNT records with N at least?
has_ranks() {
	[[ $(grep -s '"event":"ranks"' run.jsonl | tail -1) == *"\"ranks\":$1,"* ]] &&
		[[ $(grep -s '"event":"ranks"' run.jsonl | grep -c "\"ranks\":$1,") -ge ${2:-1} ]]
}

# three_ranks ARGUMENT...: $a, $b and $c, in this order; the last has taken part in a sum, so it is a member, too.
three_ranks() {
	rank a "$@"
	a=$pid
	until_true has_steps run.jsonl 5
	rank b "$@"
	b=$pid
	until_true has_ranks 2
	rank c "$@"
	c=$pid
	until_true has_ranks 3
	goes_on
}

# goes_on: ten more steps are made
goes_on() {
	local steps

	steps=$(grep -c '"event":"step"' run.jsonl)
	until_true has_steps run.jsonl $((steps + 10))
}

# assert_as_alone LOG ALONE TOLERANCE [MISSING]: each step of ALONE is once in LOG, but for MISSING at most, with the
# same loss; and every epoch used each of its images once, at the same place as one rank did
assert_as_alone() {
	python3 - "$@" <<-'END'
	import json, sys
	def read(name):
	    r = [json.loads(line) for line in open(name)]
	    steps = [(s["step"], s["loss"]) for s in r if s["event"] == "step"]
	    assert len(dict(steps)) == len(steps), "a step was told twice"
	    epochs = {e["epoch"]: (e["samples"], e["samples_digest"]) for e in r if e["event"] == "epoch"}
	    return dict(steps), epochs
	(a, ea), (b, eb) = read(sys.argv[1]), read(sys.argv[2])
	missing = int(sys.argv[4]) if len(sys.argv) > 4 else 0
	assert len(b) > 10 and a.keys() <= b.keys() and len(a) >= len(b) - missing, (len(a), len(b))
	wrong = [(s, a[s], b[s]) for s in a if abs(a[s] - b[s]) > float(sys.argv[3]) * b[s]]
	assert len(wrong) <= missing, wrong[:5]
	assert ea == eb and len(eb) > 0, (ea, eb)
	END
}

alone() { mltrain "${COMMON[@]}" -q --log alone.jsonl "$@" >alone.out; }

@test "elastic: two to four ranks from the first step on train as one does, whatever carries the sums" {
	local -a hows

	for b in $BACKENDS; do
		for net in reference norm.json; do
			hows=("2 " "3 " "3 1" "4 1") # 16 images are not to be divided by 3
			case $CHECK_ALL,$b,$net in
			yes,* | "no,${BACKENDS%% *},reference") ;;
			no,reference,norm.json) hows=("3 ") ;;
			*) continue ;;
			esac
			rm -f ./*.jsonl ./*.safetensors
			mltrain "${COMMON[@]}" -q --net "$net" --backend "$b" --steps 8 --log alone.jsonl \
				--checkpoint alone.safetensors
			for how in "${hows[@]}"; do
				rm -f run.jsonl run.safetensors
				export MLTRAIN_NO_SHARED_MEMORY=${how#* }
				[ -n "$MLTRAIN_NO_SHARED_MEMORY" ] || unset MLTRAIN_NO_SHARED_MEMORY
				pids=()
				for ((i = 0; i < ${how% *}; i++)); do
					rank $i --net "$net" --backend "$b" --steps 8 --min-ranks "${how% *}" \
						--checkpoint run.safetensors
					pids+=("$pid")
				done
				for p in "${pids[@]}"; do assert_ends "$p"; assert_equal "$status" 0; done
				assert_same_losses run.jsonl alone.jsonl
				assert_same_tensors run.safetensors alone.safetensors
				[ ! -e meet ]
			done
		done
	done
	assert_equal "$(find /dev/shm -maxdepth 1 -name 'mltrain.*' -user "$(id -u)" -newer norm.json)" ""
}

@test "elastic: ranks of processors with other instructions train together" {
	[[ "$BACKENDS" == *onednn* ]] || skip "without oneDNN"
	grep -q avx2 /proc/cpuinfo || skip "no AVX2"
	mltrain "${COMMON[@]}" -q --steps 8 --log alone.jsonl
	rank a --steps 8 --min-ranks 2
	a=$pid
	rank b --steps 8 --min-ranks 2 --isa sse4
	assert_ends "$a"
	assert_equal "$status" 0
	assert_ends "$pid"
	assert_equal "$status" 0
	assert_same_losses run.jsonl alone.jsonl
}

@test "elastic: ranks join and leave, and the losses and the images of every epoch are those of one rank" {
	alone --epochs 24
	rank a --epochs 24 --checkpoint c.safetensors
	a=$pid
	until_true has_steps run.jsonl 10
	rank b --epochs 24 --checkpoint c.safetensors
	b=$pid
	until_true has_ranks 2
	rank c --epochs 24 --checkpoint c.safetensors
	c=$pid
	until_true has_ranks 3
	kill -TERM "$b"
	assert_ends "$b"
	assert_equal "$status" 0
	grep -q "left the run by SIGTERM after step" b.err
	until_true has_ranks 2 2
	# The first rank, too, may leave; another one takes its place, and its log.
	kill -USR1 "$a"
	assert_ends "$a"
	assert_equal "$status" 0
	until_true has_ranks 1 2
	rank d --epochs 24 --checkpoint c.safetensors
	d=$pid
	until_true has_ranks 2 3
	assert_ends "$c"
	assert_equal "$status" 0
	assert_ends "$d"
	assert_equal "$status" 0
	assert_as_alone run.jsonl alone.jsonl 0.02
	assert_equal "$(grep '^test accuracy' c.out)" "$(grep '^test accuracy' alone.out)"
	[ ! -s d.out ]
	mltrain eval --checkpoint c.safetensors --data "$DATA"
	[ ! -e meet ]
	# Generations are told one after another
	python3 - <<-'END'
	import json
	g = [r for r in map(json.loads, open("run.jsonl")) if r["event"] == "ranks"]
	assert [r["generation"] for r in g] == sorted({r["generation"] for r in g}), g
	assert sum(r["joined"] for r in g) == 3 and sum(r["lost"] for r in g) == 0, g
	assert all(r["step"] <= s["step"] for r, s in zip(g, g[1:]))
	END
}

@test "elastic: a rank that is killed costs no step that was made, and the rest goes on" {
	for how in $(every shared tcp); do
		carry_by "$how"
		rm -f run.jsonl alone.jsonl
		alone --epochs 8
		rank a --epochs 8 --min-ranks 3
		a=$pid
		until_true test -e meet # it begins the run, so that c is not the coordinator
		rank b --epochs 8 --min-ranks 3
		rank c --epochs 8 --min-ranks 3
		until_true has_steps run.jsonl 20
		c=$pid
		kill -KILL "$c"
		# There are fewer than --min-ranks now, so they wait
		until_true grep -q "waiting for 1 of at least 3 ranks" a.err b.err
		until_true grep -qh "rank [12] on '.*' (process $c) was lost; 2 others go on from step [0-9]" a.err b.err
		rank d --epochs 8 --min-ranks 3
		until_true has_ranks 3 2
		assert_ends "$a"
		assert_equal "$status" 0
		assert_ends "$pid"
		assert_equal "$status" 0
		assert_as_alone run.jsonl alone.jsonl 0.02 1
		grep '"event":"ranks"' run.jsonl | tail -1 | grep -q '"generation":2,"ranks":3,"joined":1,"left":0,"lost":1'
	done
}

@test "elastic: the coordinator is killed, and the oldest of the others takes its place" {
	for how in $(every tcp shared); do
		carry_by "$how"
		rm -f run.jsonl alone.jsonl
		alone --epochs 24
		rank a --epochs 24
		a=$pid
		until_true has_steps run.jsonl 5
		rank b --epochs 24
		b=$pid
		until_true has_ranks 2
		rank c --epochs 24
		c=$pid
		until_true has_ranks 3
		secret=$(grep secret meet)
		kill -KILL "$a"
		until_true has_ranks 2 2
		grep -q "\"pid\": $b" meet
		grep -q "rank 0 on '.*' (process $a) was lost; 2 others go on from step [0-9]" b.err
		assert_equal "$(stat -c %a meet)" 600
		assert_equal "$(grep secret meet)" "$secret"
		# Who comes later finds the new one, which may be killed as well.
		rank d --epochs 24
		d=$pid
		until_true has_ranks 3 2
		kill -KILL "$b" "$c"
		until_true has_ranks 1 2
		assert_ends "$d"
		assert_equal "$status" 0
		grep -q "^test accuracy" d.out
		assert_as_alone run.jsonl alone.jsonl 0.02 4
		[ ! -e meet ]
	done
}

@test "elastic: a rank that stands still while the coordinator dies is waited for, not taken for dead" {
	three_ranks --epochs 100000
	kill -STOP "$b"
	kill -KILL "$a"
	until_true grep -q "rank 1 on '.*' (process $b) does not answer yet" c.err
	kill -CONT "$b"
	until_true has_ranks 2 2
	goes_on
	assert_equal "$(cat b.err c.err | grep -c "was lost")" 1
	kill -TERM "$b" "$c"
	for p in "$b" "$c"; do
		assert_ends "$p"
		assert_equal "$status" 0
	done
}

@test "elastic: the last rank that is left writes the end, also where it is stopped while it calls another" {
	three_ranks --epochs 100000 --checkpoint c.safetensors
	kill -STOP "$b"
	kill -KILL "$a"
	until_true grep -q "rank 1 on '.*' (process $b) does not answer yet" c.err
	kill -TERM "$c"
	kill -KILL "$b"
	assert_ends "$c"
	assert_equal "$status" 0
	grep -q '"event":"interrupted"' run.jsonl
	[ -s c.safetensors ]
	[ ! -e meet ]
}

@test "elastic: ranks that are all stopped at about the same time end with 0, and one of them writes the end" {
	local p name

	for ((round = $(rounds 60); round > 0; round--)); do
		rm -f run.jsonl last.safetensors
		PIDS=()
		for name in a b c d; do rank $name --epochs 100000 --checkpoint last.safetensors; done
		until_true has_ranks 4
		for p in $(shuf -e "${PIDS[@]}"); do
			kill -TERM "$p"
			sleep 0.00$((RANDOM % 9))
		done
		for p in "${PIDS[@]}"; do
			assert_ends "$p"
			[ "$status" = 0 ] || cat ./*.err
			assert_equal "$status" 0
		done
		grep -q '"event":"interrupted"' run.jsonl
		[ -s last.safetensors ]
		[ ! -e meet ]
	done
}

@test "elastic: after ten seconds each wait says for whom it is, and why" {
	export MLTRAIN_NO_SHARED_MEMORY=1
	for name in a b c; do
		rank $name --epochs 100000 --min-ranks 3
		eval "$name=$pid"
		until_true test -e meet
	done
	until_true has_ranks 3
	until_true has_steps run.jsonl 5
	kill -STOP "$c"
	# In the sums rank 0 names a rank that is stopped; who comes then is told for whom it waits.
	rank d --epochs 100000 --min-ranks 3
	d=$pid
	# At an address where nobody is
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
	MLTRAIN_ELASTIC_SECRET="a secret among friends" mltrain "${COMMON[@]}" --elastic "192.0.2.1:$port" 2>f.err 3>&- &
	PIDS+=($!)
	until_true grep -q "waiting for rank [12] on '.*' (process $c), which does not answer: it is stopped" a.err
	until_true grep -q "rank [12] on '.*' (process $c), which does not answer" meet.waits
	until_true grep -q "waiting for rank 0 on '.*' (process $a), which lets ranks in after a step" d.err
	until_true grep -q "waiting for rank 0 at '192.0.2.1:$port': connect: .*; calling for [1-9][0-9]* more seconds" f.err
	[ ! -s b.err ]
	kill -CONT "$c"
	until_true has_ranks 4
	goes_on
	[ ! -e meet.waits ]
	# The others name rank 0
	kill -STOP "$a"
	until_true grep -q "waiting for rank 0 on '.*' (process $a), which does not answer" b.err
	kill -CONT "$a"
	goes_on
	kill -TERM "$a" "$b" "$c" "$d"
	assert_ends "$a"
	assert_equal "$status" 0
}

@test "elastic: ranks whose job mlrun has suspended count as lost, and end when it goes on" {
	for name in a b c d; do
		MLRUN_ELASTIC_WORKER=worker-$name rank $name --epochs 100000
		eval "$name=$pid"
		until_true test -e meet
	done
	until_true has_ranks 4
	goes_on
	touch meet.left-worker-{c,d}
	sleep 1.5 # who runs does not count as lost, whatever lies there
	goes_on
	kill -STOP "$c" "$d"
	until_true has_ranks 2
	for p in "$c" "$d"; do
		assert_equal "$(grep -c "rank [123] on '.*' (process $p) counts as lost: its job is suspended" a.err)" 1
	done
	goes_on
	kill -CONT "$c" "$d"
	for p in "$c" "$d"; do
		assert_ends "$p"
		assert_equal "$status" 1
	done
	grep -q "the run went on without it" c.err
	# The coordinator, too
	touch meet.left-worker-a
	kill -STOP "$a"
	until_true grep -q "rank 0 on '.*' (process $a) counts as lost: its job is suspended" b.err
	until_true has_ranks 1
	goes_on
	kill -KILL "$a"
	kill -TERM "$b"
	assert_ends "$b"
	assert_equal "$status" 0
}

@test "elastic: a run whose last rank was killed is begun anew by the next, from its checkpoint" {
	rank a --epochs 100000 --checkpoint c.safetensors --checkpoint-every 5 --resume
	until_true has_steps run.jsonl 11
	kill -KILL "$pid"
	until_true is_gone "$pid"
	[ -e meet ]
	rank b --epochs 100000 --checkpoint c.safetensors --checkpoint-every 5 --resume
	until_true grep -q "going on from 'c.safetensors'" b.err
	goes_on
	kill -TERM "$pid"
	assert_ends "$pid"
	assert_equal "$status" 0
	grep -q "stopped by SIGTERM after step .*; weights written to c.safetensors" b.err
	[ ! -e meet ]
}

@test "elastic: further ranks wait for a place, and all may leave at once" {
	rank a --epochs 100000 --max-ranks 2
	a=$pid
	until_true has_steps run.jsonl 5
	rank b --epochs 100000 --max-ranks 2
	b=$pid
	until_true has_ranks 2
	rank c --epochs 100000 --max-ranks 2
	c=$pid
	goes_on
	kill -TERM "$b"
	until_true has_ranks 2 2
	# Both hear it in one step, or one a step later: then it is the last.
	kill -TERM "$a" "$c"
	for p in "$a" "$b" "$c"; do
		assert_ends "$p"
		assert_equal "$status" 0
	done
	grep -q "stopped by SIGTERM after step" a.err c.err
	[ ! -e meet ]
}

@test "elastic: who waits for a place goes when the run ends" {
	rank a --epochs 100000 --max-ranks 1
	a=$pid
	until_true has_steps run.jsonl 5
	rank b --epochs 100000 --max-ranks 1
	b=$pid
	goes_on
	sleep 1 # it has called by now
	kill -TERM "$a"
	for p in "$a" "$b"; do
		assert_ends "$p"
		assert_equal "$status" 0
	done
	grep -q "the run ended before this rank could join" b.err
	[ ! -e meet ]
}

@test "elastic: strangers do not disturb the run, which tells of them once" {
	rank a --epochs 100000
	until_true has_steps run.jsonl 5
	python3 - meet <<-'END'
	import json, os, re, socket, sys, time
	port = json.load(open(sys.argv[1]))["port"]
	def call():
	    s = socket.create_connection(("127.0.0.1", port), 10)
	    s.settimeout(10)
	    return s
	def closed(s):
	    try:
	        while s.recv(4096): pass
	    except ConnectionError: pass
	    return True
	silent = call()
	wrong = call(); assert len(wrong.recv(48, socket.MSG_WAITALL)) == 48; wrong.sendall(os.urandom(64)); assert closed(wrong)
	garbage = call(); garbage.sendall(b"GET / HTTP/1.0\r\n\r\n" * 1000); assert closed(garbage)
	half = call(); half.sendall(b"x" * 30); assert closed(half)
	first = call(); a = first.recv(48, socket.MSG_WAITALL); second = call(); b = second.recv(48, socket.MSG_WAITALL)
	assert a[:16] == b[:16] == b"mltrain elastic2" and a[16:] != b[16:]
	for _ in range(300): call().close()  # a port scan
	crowd = [call() for _ in range(100)]
	t = time.time(); assert closed(silent) and time.time() - t < 8
	END
	goes_on
	rank b --epochs 100000
	until_true has_ranks 2
	goes_on
	cat a.err
	assert_equal "$(grep -c rejected a.err)" 1
	grep -q "rejected a connection from ::ffff:127.0.0.1: .* (further ones are not reported)" a.err
	kill -TERM "${PIDS[@]}"
	assert_ends "$pid"
}

@test "elastic: the rendezvous file is its owner's alone, and another's is not trusted" {
	umask 0
	rank a --epochs 100000
	until_true has_steps run.jsonl 1
	assert_equal "$(stat -c '%a %u' meet)" "600 $(id -u)"
	# Nothing of the secret is in what ps(1) shows.
	secret=$(sed -n 's/.*"secret": "\([0-9a-f]*\)".*/\1/p' meet)
	assert_equal "${#secret}" 64
	refute grep -q "$secret" "/proc/$pid/cmdline"
	refute grep -q "$secret" "/proc/$pid/environ"
	chmod 644 meet
	run -1 mltrain "${COMMON[@]}" --elastic meet
	assert_output --partial "others may read or write it"
	run -1 mltrain "${COMMON[@]}" --elastic /etc/hostname
	assert_output --partial "rendezvous file '/etc/hostname': it is another user's"
	kill -TERM "$pid"
	assert_ends "$pid"
}

@test "elastic: who has other options or data is refused, and the run goes on" {
	rank a --epochs 100000
	until_true has_steps run.jsonl 5
	run -1 mltrain "${COMMON[@]}" --elastic meet --epochs 100000 --momentum 0.5
	assert_output --partial "this rank was refused: its options differ from the run's: the run's momentum is 0.9"
	run -1 mltrain "${COMMON[@]}" --elastic meet --epochs 100000 --net lenet-5
	assert_output --partial "the run's net is another one"
	cp -r "$DATA" other
	cp "$DATA/t10k-labels-idx1-ubyte" other/x
	python3 -c "d = bytearray(open('other/x', 'rb').read()); d[-1] = (d[-1] + 1) % 10; open('other/t10k-labels-idx1-ubyte', 'wb').write(d)"
	run -1 mltrain "${COMMON[@]}" --elastic meet --epochs 100000 --data other
	assert_output --partial "this rank was refused: its data set differs from the run's"
	goes_on
	kill -TERM "$pid"
	assert_ends "$pid"
}

@test "elastic: ranks meet at an address, by a secret from a file or the environment" {
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
	run -1 env -u MLTRAIN_ELASTIC_SECRET mltrain "${COMMON[@]}" --elastic "localhost:$port"
	assert_output --partial "no secret is given"
	echo "a secret among friends" >secret
	chmod 644 secret
	run -1 mltrain "${COMMON[@]}" --elastic "localhost:$port" --elastic-secret secret
	assert_output --partial "others may read or write it"
	chmod 600 secret
	mltrain "${COMMON[@]}" --epochs 100000 --elastic "localhost:$port" --elastic-secret secret --log run.jsonl 2>a.err 3>&- &
	a=$!
	PIDS+=("$a")
	until_true has_steps run.jsonl 5
	MLTRAIN_ELASTIC_SECRET="a secret among thieves" run -1 mltrain "${COMMON[@]}" --epochs 100000 --elastic "localhost:$port"
	assert_output --partial "the run there has another secret"
	MLTRAIN_ELASTIC_SECRET="a secret among friends" mltrain "${COMMON[@]}" --epochs 100000 --elastic "localhost:$port" 2>b.err 3>&- &
	PIDS+=($!)
	until_true has_ranks 2
	goes_on
	kill -TERM "${PIDS[@]}"
	assert_ends "$a"
	assert_equal "$status" 0
}

@test "elastic: what measures ranks ends when they have ended, and ends those that run" {
	printf '#!/bin/sh\nexit 3\n' >ends
	printf '#!/bin/sh\nexec sleep %s\n' "$NAP" >stays
	chmod +x ends stays
	run -1 timeout 60 "$top_srcdir/bench/trainer/elastic" -m ./ends -o pauses
	assert_output --partial "a change of the ranks: never, as all ranks have ended"
	for sig in TERM INT; do
		"$top_srcdir/bench/trainer/elastic" -m ./stays -o pauses 3>&- &
		PIDS+=($!)
		bench=$!
		until_true pgrep -f "sleep $NAP"
		kill -$sig "$bench"
		assert_ends "$bench"
		assert_not_equal "$status" 0
		wait_while pgrep -f "sleep $NAP"
	done
}

@test "elastic: options that do not fit together are refused" {
	run -2 mltrain "${COMMON[@]}" --min-ranks 2
	assert_output --partial "give --elastic too"
	run -2 mltrain "${COMMON[@]}" --elastic meet --min-ranks 5 --max-ranks 3
	assert_output --partial "--min-ranks 5 is more than --max-ranks 3"
	# The default for --max-ranks.
	run -1 mltrain "${COMMON[@]}" --elastic meet --min-ranks 5 --batch 3
	assert_output --partial "among up to 5 ranks"
	run -0 mltrain train --help
	assert_output --regexp "\(4, or +--min-ranks if that is more\)|\(4, or[[:space:]]+--min-ranks"
	run -1 mltrain "${COMMON[@]}" --elastic meet --batch 3
	assert_output --partial "a batch of 3 can't be divided among up to 4 ranks"
	[ ! -e meet ]
	run -1 mltrain "${COMMON[@]}" --elastic /no/such/dir/meet
	assert_output --partial "/no/such/dir"
}
