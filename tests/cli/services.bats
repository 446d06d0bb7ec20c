#!/usr/bin/env bats
# Services: mlrun run -d, logs, stop, restart, wait, and ps and exec --join by their names.
# shellcheck disable=SC2016 # the shell inside expands

load common

setup_file() {
	tiny_root "$BATS_FILE_TMPDIR/root"
}

setup() {
	common_setup
	IMG=rootfs:$BATS_FILE_TMPDIR/root
}

teardown() {
	services_end
	common_teardown
}

field() { mlrun ps --all --json | jq -rc --arg name "$1" ".[] | select(.name == \$name) | .$2"; }
is() { [ "$(field "$1" "$2")" = "$3" ]; }
supervisor() { pgrep -u "$(id -u)" -f "service-hold --store=$MLRUN_STORE $1\$"; }
has_log() { mlrun logs "$1" 2>&1 | grep -qxF "$2"; }
prints() { [ "$(mlrun logs "$1" | grep -cxF "$3")" = "$2" ]; }
dir() { echo "$MLRUN_STORE/services/$(hostname)/$1"; }

@test "services: one starts, prints into its log, is joined by its name, and stops" {
	run -0 mlrun run -d --name web "$IMG" sh -c "echo out; echo err >&2; sleep 0.1; echo -n open; exec sleep $NAP"
	assert_output web
	until_true has_log web open
	run -0 --separate-stderr mlrun logs web
	assert_output "$(printf 'out\nopen')"
	assert_equal "$stderr" err
	run -0 mlrun logs --tail 1 web
	assert_output open
	run -0 mlrun logs --timestamps --tail 3 web
	assert_line --regexp '^20[0-9]{2}-[0-9-]{5}T[0-9:]{8}\.[0-9]{9}Z err$'
	run -0 mlrun exec --join web sh -c 'echo here >/file; cat /file'
	assert_output here
	run -0 mlrun ps
	assert_line --regexp "^ *$(field web pid) +1 +web +running +$IMG "
	local pid holder

	pid=$(field web pid)
	holder=$(supervisor web)
	run -0 mlrun stop web
	assert_output web
	until_true is_gone "$pid"
	until_true is_gone "$holder"
	run -0 mlrun wait web
	assert_output 143
	run -0 mlrun ps
	refute_output --partial web
	run -0 mlrun ps --all
	assert_line --regexp '^ +- +0 +web +exited \(143\) '
	run -0 mlrun stop --rm web
	run -125 mlrun logs web
	assert_line "mlrun: logs: there is no service 'web' on this node"
}

@test "services: exec, which takes images, tells the way to a service of that name" {
	mlrun run -d --name web "$IMG" sleep "$NAP"
	run mlrun exec web true
	assert_line "mlrun: mlrun exec --join web is the way into the service of that name"
	run mlrun exec other true
	refute_output --partial "--join"
}

@test "services: rm removes one that has ended, and with -f one that runs" {
	mlrun run -d --name web "$IMG" sh -c "trap '' TERM; sleep $NAP"
	run -125 mlrun rm web
	assert_line "mlrun: rm 'web': the service is running"
	assert_line "hint: mlrun rm --force web ends and removes it"
	is web status running
	run -0 mlrun rm -f web
	wait_while pgrep -f "sleep $NAP"
	assert_equal "$(ls "$(dir .)")" ""
	mlrun run -d --name web "$IMG" true
	run -0 mlrun wait web
	run -0 mlrun rm web
	assert_output "mlrun: removed the service 'web'"
	run -125 mlrun rm web
	assert_line --partial "is not in store"
}

@test "services: one whose record is damaged is not replaced, and rm ends and removes it" {
	local pid file

	for file in state.json service.json; do
		mlrun run -d --name web "$IMG" sleep "$NAP"
		pid=$(field web pid)
		echo nonsense >"$(dir web)/$file"
		for how in "run -d --name web $IMG true" "stop web" "logs web" "exec --join web true" "inspect web"; do
			# shellcheck disable=SC2086 # several words
			run -125 mlrun $how
			assert_line --partial "$file' is damaged"
			assert_line "hint: mlrun rm web ends and removes the service"
		done
		until_true is_state "$pid" S
		run -0 mlrun rm web
		until_true is_gone "$pid"
		assert_equal "$(ls "$(dir .)")" ""
	done
	wait_while pgrep -f "service-hold --store=$MLRUN_STORE"
}

@test "services: kill ends one at once, or sends its command a signal" {
	mlrun run -d --name web --restart always "$IMG" sh -c "trap 'echo usr' USR1; trap '' TERM; echo ready; while :; do sleep 0.1; done"
	until_true has_log web ready
	run -0 mlrun kill -s SIGUSR1 web
	assert_output web
	until_true has_log web usr
	is web restarts 0
	run -0 mlrun kill web
	is web status exited
	is web exit_status 137
	run -125 mlrun kill -s USR1 web
	assert_line "mlrun: kill 'web': it does not run: it is exited"
	run -125 mlrun kill -s NONSENSE web
	assert_line --partial "--signal takes a signal such as INT or 2, not 'NONSENSE'"
	run -125 mlrun kill other
	assert_line --partial "there is no service 'other'"
	# As the hint to pause says.
	mlrun run -d --name web "$IMG" sleep "$NAP"
	mlrun kill -s STOP web
	until_true is_state "$(field web pid)" T
	mlrun kill -s CONT web
	until_true is_state "$(field web pid)" S
}

@test "services: inspect prints all that is known of one as JSON, but no value of a variable" {
	mlrun run -d --name web -e "SECRET=hush$NAP" --restart always "$IMG" sleep "$NAP"
	run -0 mlrun inspect web
	assert_equal "$(jq -c '[.name, .status, .restart, .command, .pid]' <<<"$output")" \
		"[\"web\",\"running\",\"always\",[\"sleep\",\"$NAP\"],$(field web pid)]"
	refute_output --partial "hush$NAP"
}

@test "services: values of -e stand in no command line, and win over files of variables" {
	echo A=file >vars
	# With --init a process of mlrun's stays.
	B="hush$NAP" mlrun run -d --name web --init -e "A=hush$NAP" -e B --env-file vars "$IMG" sh -c "echo \$A \$B; exec sleep $NAP"
	until_true has_log web "hush$NAP hush$NAP"
	run -1 pgrep -fa "hush$NAP"
	run -0 mlrun exec --join web sh -c 'echo $A'
	assert_output "hush$NAP"
	mlrun stop web
	B=other mlrun restart web
	until_true has_log web "hush$NAP other"
}

@test "services: -dit starts a shell that waits, and exec --join is the way into it" {
	mlrun run -dit --name web "$IMG" sh
	run -0 mlrun exec -it --join web echo here
	assert_output here
	is web status running
	mlrun stop -t 1 web
	is web status exited
	mlrun run -d --name web "$IMG" sh
	run -0 mlrun wait web
	assert_output 0
}

@test "services: logs of a time, by a date, seconds or a span" {
	local times

	# Each line when the one before it stands in the log: what is read at once has one time.
	mlrun run -d --name web -v "$PWD:/here" "$IMG" sh -c 'for i in 1 2 3; do echo $i; while [ ! -e /here/$i ]; do sleep 0.05; done; done; printf 4'
	for i in 1 2 3; do until_true has_log web $i; touch $i; done
	mlrun wait web
	mapfile -t times < <(mlrun logs -t web | cut -d' ' -f1)
	run -0 mlrun logs --since "${times[1]}" web
	assert_output "$(printf '2\n3\n4')"
	run -0 mlrun logs --until "${times[1]}" web
	assert_output "$(printf '1\n2')"
	run -0 mlrun logs --since "${times[1]}" --until "${times[2]%Z}+00:00" web
	assert_output "$(printf '2\n3')"
	run -0 mlrun logs --since "$(date -d "${times[1]}" +%s.%N)" --tail 1 web
	assert_output 4
	run -0 env TZ=UTC mlrun logs --until "${times[0]%Z}" --tail 1 web
	assert_output 1
	run -0 mlrun logs --since 1h --until 0s web
	assert_output "$(printf '1\n2\n3\n4')"
	run -0 mlrun logs --until 1h web
	assert_output ''
	run -0 mlrun logs --since 2000-01-01 --until 2000-01-01T12:30 web
	assert_output ''
	run -125 mlrun logs --since yesterday web
	assert_line --partial "--since takes a time such as 2026-11-29T10:00:00, 10m (ago) or seconds since 1970, not 'yesterday'"
	# What is followed until then ends then.
	mlrun run -d --name web "$IMG" sleep "$NAP"
	run -0 timeout 60 mlrun logs -f --until "$(date -d '+1 sec' +%s.%N)" web
}

@test "services: files are the owner's alone, and a supervisor has little memory of its own" {
	mlrun run -d --name web "$IMG" sleep "$NAP"
	assert_equal "$(stat -c %a "$MLRUN_STORE/services" "$(dir .)" "$(dir web)" | sort -u)" 700
	assert_equal "$(stat -c %a "$(dir web)"/{log,service.json,state.json} | sort -u)" 600
	skip_if_sanitized
	# What is not shared with other processes of mlrun.
	[ "$(sed -n 's/^RssAnon:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$(supervisor web)/status")" -lt 400 ]
}

@test "services: who joins one has its variables, though its command hides them, as redis does" {
	mlrun run -d --name web -e A=b --health-cmd '[ "$A" = b ]' --health-interval 20ms "$IMG" env -i sleep "$NAP"
	until_true is web command '["sleep","'"$NAP"'"]'
	run -0 mlrun exec --join web sh -c 'echo $A'
	assert_output b
	until_true is web health healthy
}

@test "services: what does not start says so as exec does, and leaves nothing" {
	run -127 mlrun run -d --name web "$IMG" no-such-command
	assert_output --partial "command 'no-such-command' not found in the image"
	run -126 mlrun run -d --name web "$IMG" /etc
	run -125 mlrun run -d --name web -v /no/such:/x "$IMG" true
	assert_output --partial "/no/such"
	run -125 mlrun run -d --name web rootfs:/no/such true
	assert_equal "$(ls "$(dir .)")" ""
	# One that starts, and ends at once, did start.
	run -0 mlrun run -d --name web "$IMG" sh -c 'exit 3'
	run -0 mlrun wait web
	assert_output 3
	run -0 mlrun run -d --rm --name once "$IMG" true
	until_true test ! -e "$(dir once)"
}

@test "services: without a name one gets the image's, and an odd name is refused" {
	run -0 mlrun run -d "$IMG" sleep "$NAP"
	assert_output --regexp '^root-[0-9a-f]{6}$'
	local name
	for name in ../x .x a/b $'a\nb' '' 123 "$(printf 'x%.0s' {1..141})" -x 'a b'; do
		run -125 mlrun run -d --name="$name" "$IMG" true
		assert_output --partial "invalid name"
		[ "${#lines[@]}" = 1 ]
		run -125 mlrun logs -- "$name"
		run -125 mlrun stop -- "$name"
	done
	assert_equal "$(ls "$(dir .)" | wc -l)" 1
	run -125 mlrun stop rot-xx
	run -125 mlrun exec --join nobody true
	assert_line --partial "there is no service 'nobody' on this node"
}

@test "services: of two at once with one name one starts, and the other is told the way out" {
	local i failed=0

	for i in 1 2 3 4; do
		mlrun run -d --name web "$IMG" sleep "$NAP" >"out$i" 2>&1 &
		pids[i]=$!
	done
	for i in 1 2 3 4; do wait "${pids[i]}" || failed=$((failed + 1)); done
	assert_equal "$failed" 3
	assert_equal "$(cat out? | grep -cxF web)" 1
	assert_equal "$(cat out? | grep -cE "^mlrun: run 'web': a service of that name is there already, (starting|running)")" 3
	assert_equal "$(cat out? | grep -cF 'hint: mlrun stop web ends it')" 3
	assert_equal "$(supervisor web | wc -l)" 1
	# One that has ended gives way.
	mlrun stop web
	run -0 mlrun run -d --name web "$IMG" sleep "$NAP"
}

@test "services: one outlives its terminal and the shell that started it" {
	run timeout 60 script -qec "mlrun run -d --name web $IMG sh -c 'echo begun; exec sleep $NAP'; kill -HUP 0; kill -HUP \$\$" /dev/null
	is web status running
	run -0 ps -o tty= -p "$(field web pid),$(supervisor web)"
	assert_equal "$(sort -u <<<"$output")" '?'
	kill -HUP "$(supervisor web)"
	until_true has_log web begun
	is web status running
	mlrun stop web
}

@test "services: the image's or a given signal ends one, then SIGKILL all of its container" {
	mlrun run -d --name web --stop-signal USR1 "$IMG" sh -c 'trap "echo got it; exit 5" USR1; echo ready; while :; do sleep 0.1; done'
	until_true has_log web ready
	mlrun stop web
	run -0 mlrun wait web
	assert_output 5
	has_log web "got it"
	mlrun run -d --name web "$IMG" sh -c "trap '' TERM; sleep $NAP & echo ready; sleep $NAP; sleep $NAP"
	until_true has_log web ready
	run -0 mlrun stop --timeout 1 web
	run -0 mlrun wait web
	assert_output 137
	wait_while pgrep -f "^sleep $NAP"
	# What came in by its name ends with it.
	mlrun run -d --name web "$IMG" sleep 1000
	mlrun exec --join web sleep "$NAP" &
	PIDS+=("$!")
	until_true pgrep -f "^sleep $NAP"
	mlrun stop web
	wait_while pgrep -f "^sleep $NAP"
}

@test "services: restart starts one again, with its supervisor or without" {
	local was

	mlrun run -d --name web -e A=b -w /tmp "$IMG" sh -c "echo \$A \$PWD; exec sleep $NAP"
	was=$(field web pid)
	run -0 mlrun restart web
	assert_output web
	is web status running
	[ "$(field web pid)" != "$was" ]
	mlrun stop web
	run -0 mlrun restart web
	is web status running
	until_true prints web 3 'b /tmp'
	rm -r "$BATS_FILE_TMPDIR/gone" 2>/dev/null || true
	cp -r "${IMG#rootfs:}" "$BATS_FILE_TMPDIR/gone"
	mlrun run -d --name gone "rootfs:$BATS_FILE_TMPDIR/gone" sleep "$NAP"
	mlrun stop gone
	rm -r "$BATS_FILE_TMPDIR/gone"
	run -125 mlrun restart gone
	assert_line "hint: mlrun logs --tail 10 gone shows why"
	run -0 mlrun logs gone
	assert_output --partial "$BATS_FILE_TMPDIR/gone"
}

@test "services: the policy restarts one with longer and longer pauses, so often and no more" {
	mlrun run -d --name web --restart on-failure:3 "$IMG" sh -c 'echo try; exit 7'
	run -0 mlrun wait web
	assert_output 7
	is web restarts 3
	assert_equal "$(mlrun logs web | grep -cx try)" 4
	# 0.1, 0.2 and 0.4 s
	run -0 python3 -c 'import datetime, sys
t = [datetime.datetime.fromisoformat(l.split()[0][:26]) for l in sys.stdin]
d = [(b - a).total_seconds() for a, b in zip(t, t[1:])]
sys.exit(not all(x >= y for x, y in zip(d, (0.1, 0.2, 0.4))))' < <(mlrun logs -t web)
	# Nobody restarts what succeeds, or was stopped.
	mlrun run -d --name web --restart on-failure "$IMG" true
	run -0 mlrun wait web
	is web restarts 0
	mlrun run -d --name web --restart always "$IMG" sh -c 'exit 0'
	until_true eval '[ "$(field web restarts)" -ge 2 ]' # it may pass by between two looks
	mlrun stop web
	is web status exited
	run -125 mlrun run -d --restart sometimes "$IMG" true
	assert_output --partial "--restart takes no, on-failure, on-failure:TIMES or always, not 'sometimes'"
	run -125 mlrun run -d --restart always --rm "$IMG" true
	assert_output --partial "--rm and --restart exclude each other"
}

@test "services: a killed command is seen and restarted" {
	local pid

	mlrun run -d --name web --restart on-failure "$IMG" sleep "$NAP"
	pid=$(field web pid)
	kill -KILL "$pid"
	until_true is web restarts 1
	until_true is web status running
	[ "$(field web pid)" != "$pid" ]
}

@test "services: a killed supervisor is seen, and what it left is ended" {
	local pid

	for how in "stop web" "run -d --name web $IMG sleep 1000" "restart web"; do
		mlrun run -d --name web "$IMG" sleep "$NAP"
		pid=$(field web pid)
		kill -KILL "$(supervisor web)"
		until_true is web status lost
		[ "$(field web pid)" = "$pid" ]
		run -125 mlrun wait web
		assert_line --partial "its supervisor was killed"
		# shellcheck disable=SC2086 # several words
		run -0 mlrun $how
		until_true is_gone "$pid"
		mlrun stop web
	done
	# A number that another process has now is not taken for the supervisor's.
	mlrun run -d --name web "$IMG" sleep "$NAP"
	kill -KILL "$(supervisor web)"
	until_true is web status lost
	pid=$(field web pid)
	sed -i "s/\.[0-9]*\.[0-9]*\"/.$$.1\"/; s/\"start\": [0-9]*/\"start\": 1/" "$(dir web)/state.json"
	mlrun stop web
	is web status lost
	until_true is_state "$pid" S
	kill -0 $$
	kill -KILL "$pid"
	# Another boot.
	mlrun run -d --name web "$IMG" sleep "$NAP"
	pid=$(field web pid)
	kill -KILL "$(supervisor web)" "$pid"
	sed -i "s/$(cat /proc/sys/kernel/random/boot_id)/00000000-0000-4000-8000-000000000000/" "$(dir web)/state.json"
	is web status lost
	mlrun run -d --name web "$IMG" sleep "$NAP"
	is web status running
}

@test "services: checks make one healthy, unhealthy and healthy again" {
	mkdir shared
	mlrun run -d --name web -v "$PWD/shared:/shared" --health-cmd 'cat /shared/ok' --health-interval 50ms \
		--health-retries 2 "$IMG" sleep 1000
	until_true is web health unhealthy
	run -0 field web health_output
	assert_output --partial "can't open '/shared/ok'"
	touch shared/ok
	until_true is web health healthy
	run -0 mlrun ps
	assert_output --partial "running (healthy)"
	rm shared/ok
	until_true is web health unhealthy
	mlrun run -d --name slow --health-cmd "sleep $NAP" --health-interval 10ms --health-timeout 50ms --health-retries 1 \
		"$IMG" sleep 1000
	until_true is slow health unhealthy
	run -0 field slow health_output
	assert_output "it took longer than 50 ms"
	mlrun stop slow
	wait_while pgrep -f "^sleep $NAP\$"
	# Failures do not count in the beginning.
	mlrun run -d --name early --health-cmd 'false' --health-interval 10ms --health-start-interval 10ms \
		--health-start-period 1h --health-retries 1 "$IMG" sleep 1000
	until_true is early health_output ''
	is early health starting
	mlrun run -d --name none --health-cmd true --health-interval 1h "$IMG" sleep 1000
	is none health starting
}

@test "services: the image's HEALTHCHECK and STOPSIGNAL hold" {
	tar -C "$BATS_FILE_TMPDIR/root" -cf root.tar .
	mlrun import -q root.tar tiny
	cat >Dockerfile <<-'END'
		FROM tiny
		HEALTHCHECK --interval=50ms CMD test -e /tmp/ok
		STOPSIGNAL USR2
		CMD trap "exit 6" USR2; touch /tmp/ok; while :; do sleep 0.1; done
	END
	mlrun build -q -t checked .
	mlrun run -d --name web --tmpfs /tmp checked
	until_true is web health healthy
	mlrun stop web
	run -0 mlrun wait web
	assert_output 6
	mlrun run -d --name web --no-healthcheck checked
	is web health null
}

@test "services: the log is bounded, whatever is printed, and followed across its files" {
	mlrun run -d --name web --log-size 40k "$IMG" sh -c 'i=0; while [ $i -lt 3000 ]; do echo "line $i of those that are printed"; i=$((i + 1)); done'
	mlrun wait web
	[ "$(du -bc "$(dir web)"/log{,.1} | tail -n 1 | cut -f1)" -le 40000 ]
	run -0 mlrun logs --tail 2 web
	assert_output "$(printf 'line %d of those that are printed\n' 2998 2999)"
	[ "$(mlrun logs web | wc -l)" -gt 200 ]
	mlrun logs web | awk 'NR > 1 && $2 != last + 1 { exit 1 } { last = $2 }'
	mlrun run -d --name web "$IMG" sh -c 'for i in 1 2 3; do echo $i; sleep 0.2; done; exit 4'
	run -0 timeout 60 mlrun logs -f web
	assert_output "$(printf '1\n2\n3')"
	# Long lines and bytes that are no text stay as they are.
	mlrun run -d --name web "$IMG" sh -c 'head -c 300000 /dev/zero | tr "\0" x; echo; printf "\000\377\n"'
	mlrun wait web
	assert_equal "$(mlrun logs web | sha256sum)" \
		"$({ head -c 300000 /dev/zero | tr '\0' x; echo; printf '\000\377\n'; } | sha256sum)"
	run -125 mlrun run -d --log-size 10 "$IMG" true
	assert_output --partial "--log-size takes a size"
}

@test "services: --log-file gets what is printed as it is, behind what it had" {
	echo before >out.txt
	mlrun run -d --name web --log-file out.txt "$IMG" sh -c 'echo one; printf "\377half"'
	mlrun wait web
	assert_equal "$(od -c out.txt)" "$(printf 'before\none\n\377half' | od -c)"
	mlrun run -d --name web --log-file out.txt "$IMG" sh -c 'echo two >&2'
	mlrun wait web
	run -0 tail -c 4 out.txt
	assert_output two
	# A full device does not stop the command; a file that cannot be is an error of the start.
	mlrun run -d --name web --log-file /dev/full "$IMG" sh -c 'echo one; exit 3'
	run -0 mlrun wait web
	assert_output 3
	run -0 mlrun logs web
	assert_output one
	run -125 mlrun run -d --name web --log-file no/out.txt "$IMG" true
	assert_output --partial "no/out.txt': No such file or directory"
	# A link that the command has put in place of its log is not followed when it starts again.
	mkdir own
	echo mine >target
	mlrun run -d --name linked --log-file own/log -v "$PWD/own:/own" "$IMG" sh -c "rm -f /own/log; ln -s $PWD/target /own/log; echo evil"
	mlrun wait linked
	run -125 mlrun restart linked
	assert_output --partial "own/log': Too many levels of symbolic links"
	assert_equal "$(cat target)" mine
	run -125 mlrun run --log-file out.txt "$IMG" true
	assert_line --partial "--log-file is a service's"
}

@test "services: a full disk loses lines of the log, and says how many, but does not stop the command" {
	mkdir small
	export IMG
	run -0 unshare -rm sh -ec '
		mount -t tmpfs -o size=1m t small
		export MLRUN_STORE=$PWD/small/store
		mlrun run -d --name web -v "$PWD:/here" "$IMG" sh -c "
			echo first; while [ ! -e /here/full ]; do sleep 0.05; done
			seq 1000; touch /here/printed; while [ ! -e /here/free ]; do sleep 0.05; done
			echo last; exec sleep '"$NAP"'"
		while ! mlrun logs web | grep -q first; do sleep 0.05; done
		dd if=/dev/zero of=small/filler bs=4k 2>/dev/null || true
		dd if=/dev/zero of=small/filler2 bs=1 2>/dev/null || true
		touch full
		while [ ! -e printed ]; do sleep 0.05; done
		# What is printed may still lie in the pipe, and would find room.
		python3 -c "
import fcntl, os, sys, termios, time
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK)
while int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder):
    time.sleep(0.05)
" "/proc/$(mlrun ps --json | jq ".[0].pid")/fd/1"
		rm small/filler small/filler2
		touch free
		while ! mlrun logs web | grep -q last; do sleep 0.05; done
		mlrun logs web 2>&1
		mlrun stop -t 0 web >/dev/null'
	assert_line first
	assert_line last
	assert_line --regexp '^mlrun: [0-9]+ lines of output were lost here: No space left on device$'
	refute_line 999
}

@test "services: the exit status of one that ends on a full disk is kept" {
	mkdir small
	export IMG
	run -0 unshare -rm sh -ec '
		mount -t tmpfs -o size=1m t small
		export MLRUN_STORE=$PWD/small/store
		mlrun run -d --name web -v "$PWD:/here" "$IMG" sh -c "
			while [ ! -e /here/full ]; do sleep 0.05; done; exit 7"
		dd if=/dev/zero of=small/filler bs=4k 2>/dev/null || true
		touch full
		mlrun wait web
		mlrun ps --all | grep -o "web *exited (7)"'
	assert_output --partial "$(printf '\n7\nweb')"
}

@test "services: a start that fails early says why, and leaves nothing" {
	local n

	mlrun run -d --name first "$IMG" sleep "$NAP"
	# Files that may not grow at all, or enough only for the record of what is wanted.
	for n in 0 2; do
		run -125 timeout -k 1 200 bash -c "ulimit -f $n; exec mlrun run -d --name web $IMG sleep $NAP"
		assert_line --regexp '^mlrun: run .web.: .*File too large'
		assert_equal "$(ls "$(dir .)")" first
	done
	for n in 4 10 40 87 88; do
		run timeout -k 1 200 bash -c "ulimit -n $n; exec mlrun run -d --name web $IMG sleep $NAP"
		[ "$status" = 0 ] || [ "$status" = 125 ]
		[ "$status" = 125 ] || mlrun stop -t 0 web
	done
	mlrun run -d --name web "$IMG" sleep "$NAP" >/dev/null || true
	mlrun stop -t 0 --rm web
	if [ "$(id -u)" != 0 ]; then
		mkdir -p closed/here
		cd closed/here
		chmod 0 ..
		run timeout -k 1 200 mlrun run -d --name web "$IMG" sleep "$NAP"
		chmod 700 ..
		assert_equal "$status" 125
		assert_output "mlrun: run 'web': enter '$PWD': Permission denied"
		assert_equal "$(ls "$(dir .)")" first
	fi
	pgrep -u "$(id -u)" -f "service-hold --store=$MLRUN_STORE web\$" && false
	mkdir "$BATS_TEST_TMPDIR/small"
	cd "$BATS_TEST_TMPDIR"
	export IMG
	run -125 unshare -rm sh -ec '
		mount -t tmpfs -o size=1m t small
		export MLRUN_STORE=$PWD/small/store
		mlrun run -d --name first "$IMG" sleep 1000 >/dev/null
		dd if=/dev/zero of=small/filler bs=4k 2>/dev/null || true
		status=0
		timeout -k 1 200 mlrun run -d --name web "$IMG" sleep 1000 || status=$?
		ls small/store/services/*
		mlrun stop -t 0 first >/dev/null
		exit $status'
	assert_line --regexp "^mlrun: run 'web': .*No space left on device"
	refute_line web
}

@test "services: a starter that is killed while its supervisor begins leaves one service, which is listed" {
	local caught=0 i hog starter second holder words core

	core=$(taskset -cp $$)
	core=${core##*: } core=${core%%[-,]*}
	for i in $(seq "$(rounds 20)"); do
		# The supervisor begins in a millisecond. Beside another on one core it takes a second of the idle class.
		taskset -c "$core" sh -c 'while :; do :; done' 3>&- &
		hog=$!
		PIDS+=("$hog")
		taskset -c "$core" chrt --idle 0 "$(command -v mlrun)" run -d --name web "$IMG" sleep "$NAP" &
		starter=$!
		holder="" words=()
		while [ -e "/proc/$starter/task" ] && [ "${words[1]:-}" != service-hold ]; do
			read -r holder <"/proc/$starter/task/$starter/children" || true # a line without an end
			[ -z "$holder" ] || mapfile -d '' -t words <"/proc/$holder/cmdline" || true
		done 2>/dev/null
		[ -z "$holder" ] || kill -STOP "$holder" || true # either may have ended
		kill -KILL "$hog"
		kill -KILL "$starter" || true
		[ -z "$holder" ] || [ -e "$(dir web)/state.json" ] || caught=$((caught + 1))
		mlrun run -d --name web "$IMG" sleep "$NAP" &
		second=$!
		sleep 0.2
		[ -z "$holder" ] || kill -CONT "$holder" || true
		wait "$second" || [ "$?" = 125 ]
		until_true is web status running
		[ "$(supervisor web | wc -l)" = 1 ]
		mlrun stop -t 0 --rm web
		[ "$caught" -lt 3 ] || break
	done
	[ "$caught" -gt 0 ] || skip "the supervisor was never caught before it had written its state; service-faults.bats kills starters, too"
}

@test "services: no other user sees or ends one" {
	mlrun run -d --name web "$IMG" sleep "$NAP"
	if [ "$(id -u)" = 0 ]; then
		chmod 0755 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "$BATS_TEST_TMPDIR"
		run -125 setpriv --reuid 65534 --regid 65534 --clear-groups mlrun stop web
		is web status running
	fi
	# With a store of one's own there are no services but one's own.
	run -125 env MLRUN_STORE="$BATS_TEST_TMPDIR/other" mlrun stop web
	assert_line --partial "there is no store"
	run -0 env MLRUN_STORE="$BATS_TEST_TMPDIR/other" mlrun ps --all --json
	assert_equal "$(jq -r '.[] | select(.name == "web") | .name' <<<"$output")" ""
	is web status running
}

@test "services: JSON has every key that the page lists, always" {
	local page=$top_srcdir/src/mlrun/cli/mlrun-services.1 name

	mlrun run -d --name web "$IMG" sleep "$NAP"
	mlrun run -d --name ended "$IMG" true
	mlrun exec "$IMG" sleep "$NAP" &
	PIDS+=("$!")
	until_true runs "$!" sleep "$NAP"
	run -0 mlrun ps --all --json
	assert_equal "$(jq -r '[.[] | keys | join(" ")] | unique | .[]' <<<"$output")" \
		"$(sed -n '/^\.Ss JSON output/,/^\.El/s/^\.It Li //p' "$page" | tr -d ' ' | tr , '\n' | sort | xargs)"
}

@test "services: run without -d is exec, and says what a service's options need" {
	run -0 mlrun run "$IMG" echo ran
	assert_output ran
	run -125 mlrun run --log-size 1m "$IMG" true
	assert_line "mlrun: run: --log-size is a service's: mlrun run without -d becomes the command"
	assert_line "hint: -d --name NAME starts a service"
	run -125 mlrun run -d --explain "$IMG" true
	run -125 mlrun run -d --preserve-fd 3 "$IMG" true
	run -125 mlrun run -d --join 1 true
	run -125 mlrun run -d --health-interval soon "$IMG" true
	assert_output --partial "--health-interval takes a time such as 500ms, 30s or 1m30s, not 'soon'"
}

@test "services: what a command leaves in its process group ends with it, however early that is" {
	local i

	for i in 1 2 3; do
		mlrun run -d --name quick "$IMG" sh -c "sleep $NAP & exit 0"
		until_true is quick status exited
		mlrun stop --rm quick
	done
	wait_while pgrep -u "$(id -u)" -f "sleep $NAP"
}

@test "services: a new one keeps its record when an older one of its name is forgotten, or stopped and restarted at once" {
	local i pid

	for i in 1 2 3 4 5 6 7 8; do
		mlrun run -d --rm --name again "$IMG" sleep 0.02
		if mlrun run -d --name again "$IMG" sleep "$NAP" 2>said; then
			sleep 0.03
			is again status running
		else
			grep -q 'there already' said
		fi
		mlrun stop -t 0 --rm again || true
		mlrun run -d --name both "$IMG" sleep "$NAP"
		mlrun restart -t 0 both >/dev/null 2>&1 3>&- &
		pid=$!
		timeout 100 "$top_builddir/bin/mlrun" stop -t 0 both
		wait "$pid" || true
		mlrun stop -t 0 --rm both
	done
	wait_while pgrep -u "$(id -u)" -f "sleep $NAP"
}

@test "services: a restart that does not come up says so" {
	mkdir bound
	mlrun run -d --name web -v "$PWD/bound:/mnt" "$IMG" sleep "$NAP"
	rmdir bound
	run -125 mlrun restart -t 0 web
	assert_line "mlrun: restart 'web': it has ended"
}

@test "services: rmi takes no image that a service needs, running or ended; stop ends those that are there" {
	tar -C "${IMG#rootfs:}" -cf tiny.tar .
	mlrun import -q tiny.tar web
	mlrun run -d --name web web sleep "$NAP"
	mlrun run -d --name two web sleep "$NAP"
	run -125 mlrun rmi web
	assert_output --partial "needs the image"
	run -125 mlrun stop web nothere two
	assert_line web
	assert_line two
	assert_line --partial "there is no service 'nothere'"
	run -125 mlrun rmi web
	assert_line --partial "hint: mlrun rm -f two"
	run -0 mlrun exec web true
	mlrun stop --rm web two
	run -0 mlrun rm web
}

# The kernel gives a container that has ended's device number to the next one. The supervisor, which comes to know of the end
# late, killed that.
short_has_ended() { [ "$(field short pid)" = null ] || [ "$(field short pid)" = 0 ]; }

@test "services: the end of one kills no container that started just then" {
	local supervisor device i

	mlrun run -d --name short "$IMG" sleep "$NAP"
	supervisor=$(ps -o ppid= -p "$(field short pid)")
	device=$(stat -Lc %d "/proc/$(field short pid)/root")
	kill -STOP $supervisor
	kill -KILL "$(field short pid)"
	for ((i = 0; i < 60; i++)); do
		mlrun exec "$IMG" sleep "$NAP" 3>&- &
		PIDS+=($!)
	done
	for pid in "${PIDS[@]}"; do until_true grep -qx sleep "/proc/$pid/comm"; done
	for pid in "${PIDS[@]}"; do [ "$(stat -Lc %d "/proc/$pid/root")" != "$device" ] || fail "$pid has $device"; done
	kill -CONT $supervisor
	until_true short_has_ended
	sleep 0.3
	for pid in "${PIDS[@]}"; do kill -0 "$pid"; done
}
