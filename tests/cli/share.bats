# mlrun exec: processes that share one container on a node (--join-tag, --mpi, --join).
# shellcheck disable=SC2016 # the inner shell expands
load common
load share

needs_foreign_memory() {
	local scope=/proc/sys/kernel/yama/ptrace_scope

	[ ! -e "$scope" ] || [ "$(cat "$scope")" -lt 2 ] || skip "kernel.yama.ptrace_scope is $(cat "$scope")"
}

@test "share: one tag is one container, no tag or another is another" {
	hold first --join-tag "$TAG"
	run -0 tagged "$IMG" sh -c "$NAMESPACES"
	assert_output "$(cat first)"
	run -0 mlrun exec --join-tag "$TAG.other" "$IMG" sh -c "$NAMESPACES"
	refute_output --partial "$(cut -d' ' -f1 first)"
	run -0 mlrun exec "$IMG" sh -c "$NAMESPACES"
	refute_output --partial "$(cut -d' ' -f1 first)"
}

@test "share: what one writes into the root the other sees, and it is forgotten with the last" {
	hold first --join-tag "$TAG"
	tagged "$IMG" sh -c 'echo shared >/new'
	run -0 tagged "$IMG" cat /new
	assert_output shared
	kill -KILL "$HELD"
	wait "$HELD" || true
	run -1 tagged "$IMG" cat /new
}

@test "share: other mounts are another root with the same memory rights" {
	mkdir data
	hold first --join-tag "$TAG"
	run -0 tagged -v ./data:/mnt/data "$IMG" sh -c "$NAMESPACES; ls -d /mnt/data"
	assert_line --index 0 --partial "$(cut -d' ' -f1 first)"
	refute_line --index 0 --partial "$(cut -d' ' -f2 first)"
	assert_line --index 1 /mnt/data
	run -0 tagged --fakeroot "$IMG" sh -c "$NAMESPACES"
	refute_output --partial "$(cut -d' ' -f1 first)"
}

@test "share: joiners are in the other namespaces of the container as well" {
	local -a isolated=(--hostname inner --ipc private --net none)

	hold first --join-tag "$TAG" "${isolated[@]}"
	run -0 tagged "${isolated[@]}" "$IMG" sh -c 'for n in ipc net uts; do echo $(readlink /proc/self/ns/$n); done; hostname'
	assert_line --index 0 "$(readlink "/proc/$HELD/ns/ipc")"
	assert_line --index 1 "$(readlink "/proc/$HELD/ns/net")"
	assert_line --index 2 "$(readlink "/proc/$HELD/ns/uts")"
	assert_line --index 3 inner
	run -0 mlrun exec --join "$HELD" hostname
	assert_output inner
	hold pids --join-tag "$TAG.pid" --pid
	until_true runs "$(pgrep -P "$HELD")" sleep 1000
	run -0 mlrun exec --join-tag "$TAG.pid" --pid "$IMG" sh -c 'cat /proc/1/cmdline | tr "\0" " "; kill -9 1; echo alive'
	assert_output "sleep 1000 alive"
}

@test "share: 128 joiners at once are in one user and one mount namespace" {
	local i

	# The container is there as long as one of them is.
	for ((i = 0; i < 128; i++)); do
		tagged "$IMG" sh -c "$NAMESPACES; until [ -e '$PWD/all-in' ]; do sleep 0.5; done" >>all 2>&1 3>&- &
		PIDS+=("$!")
	done
	until_true lines_are all 128
	touch all-in
	for i in "${PIDS[@]}"; do wait "$i"; done
	[ "$(wc -l <all)" -eq 128 ]
	run -0 sort -u all
	[ "${#lines[@]}" -eq 1 ]
}

@test "share: joiners read each other's memory, others do not" {
	local pid address

	needs_foreign_memory
	mkfifo end
	tagged "$IMG" peek show secret-word <end >shown 3>&- &
	PIDS+=("$!")
	exec 8>end
	until [ -s shown ]; do sleep 0.05; done
	read -r pid address <shown
	run -0 tagged "$IMG" peek read "$pid" "$address"
	assert_output secret-word
	run -0 tagged -v /usr:/mnt/usr "$IMG" peek read "$pid" "$address"
	assert_output secret-word
	run -1 mlrun exec "$IMG" peek read "$pid" "$address"
	assert_output --partial "Operation not permitted"
	exec 8>&-
}

@test "share: joiners have no capabilities, no new privileges and no descriptor of ours" {
	hold first --join-tag "$TAG"
	run -0 tagged "$IMG" sh -c 'grep -E "^(Cap|NoNewPrivs)" /proc/self/status; ls /proc/self/fd'
	assert_line --regexp 'CapEff:.0000000000000000'
	assert_line --regexp 'CapBnd:.0000000000000000'
	assert_line --regexp 'NoNewPrivs:.1'
	# 3 is the directory that ls reads.
	refute_line 4
}

@test "share: a joiner has its own command, environment and working directory" {
	hold first --join-tag "$TAG"
	run -0 tagged -w /somewhere/new -e A=mine "$IMG" sh -c 'pwd; echo $A'
	assert_line --index 0 /somewhere/new
	assert_line --index 1 mine
	run -7 tagged "$IMG" sh -c 'exit 7'
	run -127 tagged "$IMG" no-such-command
}

@test "share: whoever of the processes lives is the way in" {
	local first

	hold first --join-tag "$TAG"
	first=$HELD
	hold second --join-tag "$TAG"
	kill -KILL "$first"
	wait "$first" || true
	run -0 tagged "$IMG" sh -c "$NAMESPACES"
	assert_output "$(cat second)"
	cmp first second
}

@test "share: a first rank killed at any moment leaves all others running" {
	local round i first pids

	for ((round = 0; round < 50; round++)); do
		mlrun exec --join-tag "$TAG.$round" "$IMG" sleep 1000 >/dev/null 2>&1 3>&- &
		first=$!
		pids=()
		for ((i = 0; i < 8; i++)); do
			mlrun exec --join-tag "$TAG.$round" "$IMG" sh -c 'echo ran' >>"ran.$round" 2>&1 3>&- &
			pids+=("$!")
		done
		sleep "0.00$((RANDOM % 10))$((RANDOM % 10))"
		kill -KILL "$first"
		wait "$first" || true
		for i in "${pids[@]}"; do wait "$i" || { cat "ran.$round"; fail "round $round: a joiner failed"; }; done
		run -0 cat "ran.$round"
		assert_equal "$output" "$(printf 'ran\n%.0s' {1..8})"
	done
}

@test "share: a first process that fails to start lets the next one make the container" {
	run -127 tagged "$IMG" no-such-command
	run -0 tagged "$IMG" echo made
	assert_output made
	run -125 tagged -v /etc/passwd:/etc "$IMG" true
	run -0 tagged "$IMG" echo made
}

@test "share: a program that may not be read is a way in as well" {
	needs_ordinary_user
	cp "$ROOT/bin/busybox" ./sleep
	chmod 0111 sleep
	mlrun exec --join-tag "$TAG" "$IMG" ./sleep 1000 3>&- &
	PIDS+=("$!")
	until_true runs $! ./sleep 1000
	run -0 tagged "$IMG" sh -c 'readlink /proc/self/ns/mnt'
	assert_output "$(readlink "/proc/${PIDS[0]}/ns/mnt")"
}

@test "share: files that name nobody alive are removed by a later start" {
	# In a /dev/shm that no other test uses meanwhile.
	run -0 unshare -Urm sh -c 'mount -t tmpfs tmpfs /dev/shm || exit
		for i in 1 2 3; do
			mlrun exec --join-tag "$0.$i" "$1" true || exit
			grep -lr . /dev/shm/mlrun-0 >>seen || exit
		done
		ls /dev/shm/mlrun-0' "$TAG" "$IMG"
	[ "${#lines[@]}" -le 2 ]
	[ "$(sort -u seen | wc -l)" -eq 3 ]
}

@test "share: a list that was tampered with leads nobody astray" {
	local dir file
	dir=/dev/shm/mlrun-$(id -u)

	hold first --join-tag "$TAG"
	file=$(grep -ls "^$HELD " "$dir"/* || true) # others' files come and go
	[ -n "$file" ]
	# The test's own shell as the way in: right pid and start time, but no container.
	sed -i "s/^[0-9]* [0-9]* /$BASHPID $(sed 's/.*) //' "/proc/$BASHPID/stat" | cut -d' ' -f20) /" "$file"
	run -0 tagged "$IMG" sh -c "$NAMESPACES"
	refute_output "$(cat first)"
	refute_output --partial "$(readlink /proc/self/ns/mnt)"
	# Another container of the user's, which would like the newcomer's command and environment.
	hold other
	hold third --join-tag "$TAG"
	sed -i "s/^$HELD [0-9]* /${PIDS[1]} $(sed 's/.*) //' "/proc/${PIDS[1]}/stat" | cut -d' ' -f20) /" "$file"
	run -0 grep "^${PIDS[1]} " "$file"
	run -0 tagged "$IMG" sh -c "$NAMESPACES"
	refute_output --partial "$(cut -d' ' -f1 other)"
	refute_output --partial "$(cut -d' ' -f2 other)"
	printf 'garbage\n1 x\n-1 1 1\n' >"$file"
	run -0 tagged "$IMG" echo fine
	assert_output fine
}

# with_shm COMMANDS MLRUN-EXEC-ARGUMENT...: where /dev/shm is what the commands make of an empty one. The
# caller is root there, of a user namespace without anybody else.
with_shm() {
	local commands=$1

	shift
	unshare -Urm sh -c "mount -t tmpfs tmpfs /dev/shm && $commands; shift; exec \"\$@\"" sh sh \
		mlrun exec --join-tag x "$@"
}

@test "share: a directory that is open to others is refused" {
	run -125 with_shm "mkdir -m 755 /dev/shm/mlrun-0" "$IMG" true
	assert_output --partial "'/dev/shm/mlrun-0'"
	assert_output --partial "is open to others"
	assert_output --partial "hint: chmod 0700"
}

@test "share: an empty tag is none" {
	run -125 mlrun exec --join-tag "" "$IMG" true
	assert_output --partial "--join-tag: the word is empty"
}

@test "share: names that others have taken are passed over" {
	# A link may lead anywhere.
	run -0 with_shm "ln -s /tmp /dev/shm/mlrun-0; : >/dev/shm/mlrun-0.1" "$IMG" ls /dev/shm
	assert_line mlrun-0.2
	run -0 with_shm "mkdir -m 700 /dev/shm/mlrun-0.1" "$IMG" ls /dev/shm
	assert_output mlrun-0.1
	# One that is open to others, and another's.
	run -0 with_shm 'mkdir /dev/shm/mlrun-0 && mount --rbind /usr /dev/shm/mlrun-0' "$IMG" ls /dev/shm
	assert_output $'mlrun-0\nmlrun-0.1'
}

TAKEN='for i in "" .1 .2 .3 .4 .5 .6 .7; do : >/dev/shm/mlrun-0$i; done'

@test "share: where others have taken every name that can be guessed, all meet in one that cannot, and one line says so" {
	cat >ranks <<-'EOF'
		for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
			mlrun exec --join-tag x "$1" sh -c 'readlink /proc/self/ns/mnt >>'"$PWD"'/seen
				until [ "$(wc -l <'"$PWD"'/seen)" -ge 12 ]; do sleep 0.1; done' 2>>said &
		done
		wait
		mlrun exec --join-tag x "$1" true 2>>said
	EOF
	run -0 with_shm "$TAKEN; sh ./ranks '$IMG'" "$IMG" ls /dev/shm
	assert_equal "$(wc -l <seen)" 12
	assert_equal "$(sort -u seen | wc -l)" 1
	assert_equal "$(cat said)" "mlrun: warning: others have made all of '/dev/shm/mlrun-0*', where processes that share a container meet; an administrator should remove them"
	# Of what was made at once one directory is left, and the link that tells of it.
	assert_equal "$(grep -cE '^mlrun-0[.@][0-9a-f]{16}$' <<<"$output")" 2
	refute_output --partial warning
}

@test "share: a directory that cannot be guessed is made anew when it was removed, and another's links lead nowhere" {
	run -0 with_shm "$TAKEN; mlrun exec --join-tag x '$IMG' true && rm -r /dev/shm/mlrun-0.*[0-9a-f][0-9a-f][0-9a-f]; ln -s /tmp /dev/shm/mlrun-0@x" \
		"$IMG" ls /dev/shm
	assert_equal "$(grep -cE '^mlrun-0[.@][0-9a-f]{16}$' <<<"$output")" 2
}

# The servers of an image.
servers_of() {
	local pid

	for pid in $(pgrep -u "$(id -u)" -x mlrun-squashfus); do
		[ "$(readlink "/proc/$pid/fd/4")" != "$1" ] || echo "$pid"
	done
}

@test "share: joiners of a squashfs image use the first one's server" {
	local server

	needs_fuse
	command -v mksquashfs >/dev/null || skip "mksquashfs is not installed"
	mksquashfs "$ROOT" image.sqfs -quiet -no-progress >/dev/null
	IMG=squashfs:$PWD/image.sqfs
	hold first --join-tag "$TAG"
	server=$(servers_of "$PWD/image.sqfs")
	assert [ -n "$server" ]
	hold second --join-tag "$TAG"
	cmp first second
	assert_equal "$(servers_of "$PWD/image.sqfs")" "$server"
	# The server stays as long as anybody does.
	kill -KILL "${PIDS[0]}"
	run -0 tagged "$IMG" cat /etc/os-release
	assert_output NAME=tiny
}

# --- ranks ---------------------------------------------------------------------------------------

@test "share: ranks of a job step share, those of another step and --mpi=none do not" {
	export PMIX_NAMESPACE=test.$TAG PMIX_RANK=0

	hold first
	PMIX_RANK=1 run -0 mlrun exec "$IMG" sh -c "$NAMESPACES; env"
	assert_line --index 0 "$(cat first)"
	refute_output --partial vader
	PMIX_NAMESPACE=other.$TAG run -0 mlrun exec "$IMG" sh -c "$NAMESPACES"
	refute_output "$(cat first)"
	run -0 mlrun exec --mpi=none "$IMG" sh -c "$NAMESPACES; env"
	refute_line --index 0 "$(cat first)"
	assert_line OMPI_MCA_btl_vader_single_copy_mechanism=none
	run -0 mlrun exec --pid "$IMG" sh -c "$NAMESPACES; env"
	refute_line --index 0 "$(cat first)"
	assert_line OMPI_MCA_btl=^vader
}

@test "share: the directories of a rank's PMIx server are there, whole system directories are not" {
	mkdir -p spool/pmix.1.0
	echo here >spool/pmix.1.0/file
	run -0 unshare -Urm sh -c "mount --bind '$PWD/spool' /mnt && cd / &&
		PMIX_RANK=0 PMIX_SERVER_TMPDIR=/mnt/pmix.1.0/ $(command -v mlrun) exec --mpi=none '$IMG' \
		sh -c 'cat /mnt/pmix.1.0/file'"
	assert_output here
	PMIX_RANK=0 PMIX_SERVER_TMPDIR=/usr run -0 mlrun exec --mpi=none --explain "$IMG" true
	refute_output --partial '/usr -> /usr'
}

@test "share: --mpi takes its words only" {
	run -125 mlrun exec --mpi=huh "$IMG" true
	assert_output --partial "--mpi takes auto, none, host"
}

# --- joining by pid ----------------------------------------------------------------------------------

@test "share: --join enters a container by the pid of a process in it" {
	hold first -e A=its -w /its
	run -0 mlrun exec --join "$HELD" -e B=mine -- sh -c "$NAMESPACES; echo \$A \$B; pwd"
	assert_line --index 0 "$(cat first)"
	assert_line --index 1 "its mine"
	assert_line --index 2 /its
	run -0 mlrun exec --join "$HELD" -w /tmp pwd
	assert_output /tmp
	run -125 mlrun exec --join "$HELD" -w relative pwd
	assert_output --partial "-w 'relative': expected an absolute path inside the container"
	run -7 mlrun exec --join "$HELD" sh -c 'exit 7'
	run -127 mlrun exec --join "$HELD" no-such-command
}

@test "share: mlrun shell --join is a shell in there" {
	hold first
	run -0 mlrun shell --join "$HELD" <<<"$NAMESPACES"
	assert_output --partial "$(cat first)"
}

@test "share: --join keeps a fake root and gives no capabilities to others" {
	hold first --fakeroot
	run -0 mlrun exec --join "$HELD" sh -c 'id -u; grep CapEff /proc/self/status'
	assert_line --index 0 0
	refute_line --index 1 --partial 0000000000000000
	hold second
	run -0 mlrun exec --join "$HELD" grep -E 'Cap(Eff|Bnd)' /proc/self/status
	assert_line --index 0 --partial 0000000000000000
	assert_line --index 1 --partial 0000000000000000
}

@test "share: --join enters a container's PID namespace, seen from outside" {
	hold first --pid
	# The process outside has been told; its child is in the container.
	run -0 mlrun exec --join "$(pgrep -P "$HELD")" sh -c 'ls -d /proc/[0-9]* | head -n 3; echo $$'
	assert_line --index 0 /proc/1
	refute_line --partial "/proc/$HELD"
}

@test "share: a command that joined a PID namespace stops, continues and ends as others do" {
	local outer inner

	hold first --pid
	mlrun exec --join "$(pgrep -P "$HELD")" sleep "$NAP" 3>&- &
	outer=$!
	PIDS+=("$outer")
	until_true pgrep -P "$outer" -x -f "sleep $NAP"
	inner=$(pgrep -P "$outer")
	kill -STOP "$inner"
	until_true is_state "$outer" T
	kill -CONT "$outer"
	until_true is_state "$inner" S
	until_true is_state "$outer" S
	kill -TERM "$outer"
	status=0
	wait "$outer" || status=$?
	assert_equal "$status" 143
}

@test "share: --join of what is no container of mlrun's is refused" {
	run -125 mlrun exec --join "$$" true
	assert_output --partial "process $$ is in no container of mlrun's"
	assert_output --partial "hint: mlrun ps"
	run -125 mlrun exec --join 4194305 true
	assert_output --partial "no process 4194305"
	run -125 mlrun exec --join 0 true
	assert_output --partial "takes a process id"
	hold first
	run -125 mlrun exec --join "$HELD"
	assert_output --partial "a command is missing"
	run -125 mlrun exec --join "$HELD" -v /usr:/x true
	assert_output --partial "-v: the container exists already"
	run -125 mlrun exec --join 1 true
	assert_output --partial "process 1"
}
