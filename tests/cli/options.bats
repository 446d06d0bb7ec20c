# mlrun exec: its options, those of other programs, and mlrun shell; what asks for a list of commands.
# shellcheck disable=SC2016 # the inner shell expands
load common

setup_file() {
	export FILE_STORE=$BATS_FILE_TMPDIR/store
	registry_start
	image_tiny tiny
	tiny_root "$BATS_FILE_TMPDIR/top"
	rm -r "$BATS_FILE_TMPDIR"/top/{bin,usr,root,tmp}
	mkdir -p "$BATS_FILE_TMPDIR/top/home/jo"
	echo mine >"$BATS_FILE_TMPDIR/top/home/jo/file"
	printf 'root:x:0:0:root:/root:/bin/sh\njo:x:4321:100:Jo:/home/jo:/bin/sh\n' >"$BATS_FILE_TMPDIR/top/etc/passwd"
	printf 'root:x:0:\nusers:x:100:\nstaff:x:50:\n' >"$BATS_FILE_TMPDIR/top/etc/group"
	layer_tar "$BATS_FILE_TMPDIR/top.tar" "$BATS_FILE_TMPDIR/top"
	image_push_tar -c --config.env -c PATH=/bin -c --config.env -c PS1='image> ' \
		users "$BATS_FILE_TMPDIR/tiny.tar" "$BATS_FILE_TMPDIR/top.tar"
	image_push_tar -c --architecture -c s390x -c --config.env -c PATH=/bin foreign "$BATS_FILE_TMPDIR/tiny.tar"
	MLRUN_STORE=$BATS_FILE_TMPDIR/store mlrun pull -q "$REGISTRY/tiny" "$REGISTRY/users"
	MLRUN_STORE=$BATS_FILE_TMPDIR/store mlrun pull -q --platform linux/s390x "$REGISTRY/foreign"
}

teardown_file() { registry_stop; }

setup() {
	common_setup
	export MLRUN_STORE=$FILE_STORE
	IMG=$REGISTRY/tiny
}

# --- files ------------------------------------------------------------------------------------------

@test "options: whoever asks mlrun or a command of commands for help gets the list, whatever the word" {
	local word group

	for group in "" gpu; do
		for word in --help -h '-?' help --usage; do
			# shellcheck disable=SC2086 # no word for mlrun itself
			run -0 --separate-stderr mlrun $group "$word"
			assert_line --index 0 "Usage: mlrun ${group:+$group }COMMAND [OPTION...] [ARG...]"
		done
		# shellcheck disable=SC2086
		run -125 --separate-stderr mlrun $group
		assert_output ""
		# shellcheck disable=SC2154 # bats sets it
		[ "${stderr_lines[0]}" = "Usage: mlrun ${group:+$group }COMMAND [OPTION...] [ARG...]" ]
		# shellcheck disable=SC2086
		run -125 mlrun $group nope
		assert_line "mlrun: ${group:+$group: }'nope' is not a command"
		assert_line "hint: mlrun ${group:+$group }--help lists them"
	done
}

@test "options: mlrun help COMMAND is the command's own help, and run is listed" {
	assert_equal "$(mlrun help pull)" "$(mlrun pull --help)"
	assert_equal "$(mlrun help run)" "$(mlrun run --help)"
	assert_equal "$(mlrun help gpu list)" "$(mlrun help gpu)"
	assert_equal "$(mlrun gpu help list)" "$(mlrun gpu list --help)"
	assert_equal "$(mlrun help --help)" "$(mlrun --help)"
	run -0 mlrun --help
	assert_line --regexp '^  run +the same as exec'
	run -125 mlrun help nope
	assert_line "mlrun: 'nope' is not a command"
}

@test "options: an option before the command is told to follow it" {
	run -125 mlrun -v pull "$IMG"
	assert_line "mlrun: option '-v' must follow the command"
	assert_line "hint: options follow the command: mlrun pull OPTION...; --verbose shows every step"
	run -125 mlrun --store x images
	assert_line "hint: options follow the command: mlrun images OPTION...; --verbose shows every step"
}

@test "options: a misspelt command names the nearest one" {
	run -125 mlrun pul x
	assert_line "mlrun: 'pul' is not a command"
	assert_line "hint: is pull meant? mlrun --help lists them"
	run -125 mlrun isnpect x
	assert_line "hint: is inspect meant? mlrun --help lists them"
	run -125 mlrun gpu lits
	assert_line "hint: is gpu list meant? mlrun gpu --help lists them"
}

@test "options: commands of Docker, podman, Apptainer and Enroot name the counterpart" {
	local words want

	while IFS='|' read -r words want; do
		# shellcheck disable=SC2086 # several words
		run -125 mlrun $words
		assert_output --partial "$want"
		refute_output --partial Usage:
	done <<-'END'
		save -o x.tar debian:12|hint: mlrun export IMAGE FILE
		load -i x.tar|hint: mlrun import FILE
		buildx build .|mlrun build -t NAME DIRECTORY
		image push x|hint: mlrun push IMAGE
		info|mlrun doctor
		start x|mlrun restart NAME
		create x|mlrun run IMAGE starts one
		pause x|mlrun kill -s STOP NAME
		container logs x|mlrun logs
		attach x|mlrun shell --join PID
		cp a b|mlrun exec -v DIR:/mnt
		top x|mlrun ps lists containers
		stats|mlrun gpu top
		history x|mlrun inspect IMAGE
		search x|mlrun tags NAME
		list|mlrun images lists the images
		ls|mlrun images lists the images
		image ls|mlrun images lists the images
		image prune|mlrun prune
		image rm x|mlrun rm IMAGE
		container ls|mlrun ps
		container rm x|mlrun containers
		system prune -a|mlrun prune
		system df|mlrun images
		volume create x|volumes are directories
		network ls|the host's network
		sif list x|mlrun inspect FILE.sif
		cache clean|mlrun prune
		remove x|mlrun rm IMAGE
		login -p secret x|mlrun: login: mlrun has no -p
		login --password=secret x|--password-stdin
		images -q|mlrun images --json | jq -r '.[].digest'
		images -aq|all images are listed anyway
		ps -l|mlrun ps --all lists
		ps -q|--json prints all
		prune -a|--older-than AGE
		prune -af|--older-than AGE
		inspect --format={{.Id}} x|--json prints all
		pull -a x|mlrun tags IMAGE
		pull --arch arm64 x|--platform OS/ARCH
		export -o x y|mlrun export IMAGE FILE
		import -i x|mlrun import FILE
	END
}

@test "options: rmi is rm" {
	mlrun tag "$IMG" lab/gone:1
	run -0 mlrun rmi lab/gone:1
	assert_output "mlrun: removed 'localhost/lab/gone:1'"
}

@test "options: -V, --version and version tell mlrun's and mltrain's, as a command's own does" {
	local program words

	for program in mlrun mltrain; do
		run -0 "$program" --version
		assert_output --regexp "^$program [0-9]+\.[0-9]+"
		for words in -V version "$([ $program = mlrun ] && echo images || echo net) -V"; do
			assert_equal "$($program $words)" "$output"
		done
	done
}

@test "options: the version tells parts that this program has, and no other's" {
	run -0 mlrun --version
	assert_output --regexp '^mlrun [0-9.]+ [+-]isal [+-]squashfs [+-]squashfuse [+-]seccomp$'
	run -0 mlrun pull --help
	assert_line "Report bugs to the issue tracker of this project."
}

@test "options: --mount takes Docker's words for a bind mount" {
	mkdir -p data && echo hello >data/f
	run -0 mlrun exec --mount type=bind,source="$PWD/data",target=/mnt/d "$IMG" sh -c 'cat /mnt/d/f; echo x >/mnt/d/g'
	assert_output hello
	[ "$(cat data/g)" = x ]
	run -1 mlrun exec --mount type=bind,src=./data,dst=/mnt/d,readonly "$IMG" touch /mnt/d/h
	assert_output --partial "Read-only file system"
	run -125 mlrun exec --mount type=volume,src=data,dst=/d "$IMG" true
	assert_output --partial "--mount 'type=volume,src=data,dst=/d': type 'volume' is not supported: mlrun has no named volumes"
	assert_line "hint: type=bind,src=DIR,dst=DST mounts a directory"
	run -125 mlrun exec --mount type=bind,dst=/d "$IMG" true
	assert_output --partial "source=SRC is missing"
}

@test "options: --tmpfs is a directory in memory of the size and mode that were asked for" {
	run -0 mlrun exec --tmpfs /scratch:size=1m,mode=750 "$IMG" sh -c \
		'stat -c %a /scratch; df -k /scratch | tail -1; dd if=/dev/zero of=/scratch/f bs=64k count=32 2>&1 | tail -1; ls -l /scratch/f'
	assert_line --index 0 750
	assert_line --index 1 --regexp ' 1024 '
	assert_output --partial " 1048576 "
	run -0 mlrun exec --mount type=tmpfs,dst=/x "$IMG" sh -c 'stat -c %a /x; grep " /x tmpfs" /proc/mounts'
	assert_line --index 0 1777
	run -126 mlrun exec --tmpfs /x:noexec "$IMG" sh -c 'cp /bin/busybox /x/echo; exec /x/echo no'
	run -125 mlrun exec --tmpfs /x:size=lots "$IMG" true
	assert_output --partial "--tmpfs '/x:size=lots': size takes a size such as 512m, 2g or 50%, not 'lots'"
}

@test "options: an overlay over a host directory can be written to and leaves it as it is" {
	mkdir -p data && echo old >data/f
	run -0 mlrun exec --mount type=overlay,src=data,dst=/d "$IMG" sh -c 'echo new >/d/f; cat /d/f; touch /d/g; ls /d'
	assert_output $'new\nf\ng'
	run -0 mlrun exec -v ./data:/d:O "$IMG" sh -c 'rm /d/f; ls /d'
	assert_output ""
	[ "$(ls data)" = f ] && [ "$(cat data/f)" = old ]
}

@test "options: a directory is mounted before what lies in it, in whatever order they stand" {
	mkdir -p outer inner && echo outer >outer/f && echo inner >inner/f && mkdir outer/sub
	run -0 mlrun exec -v ./inner:/d/sub -v ./outer:/d --tmpfs /d/sub/deep "$IMG" sh -c \
		'cat /d/f /d/sub/f; grep -c " /d/sub/deep tmpfs" /proc/mounts'
	assert_output $'outer\ninner\n1'
}

@test "options: an empty /tmp leaves the caller's directory where it is" {
	case $PWD in /tmp/*) ;; *) skip "the tests do not run below /tmp" ;; esac
	echo here >f
	touch "/tmp/mlrun-test-$$"
	run -0 mlrun exec --tmpfs /tmp "$IMG" sh -c 'cat f; ls /tmp'
	rm "/tmp/mlrun-test-$$"
	assert_line --index 0 here
	refute_output --partial "mlrun-test-$$"
	run -0 mlrun exec --tmpfs "$PWD" "$IMG" ls -A
	assert_output ""
}

@test "options: a volume's flags are obeyed, or refused with the reason" {
	mkdir -p data
	run -0 mlrun exec -v ./data:/d:nosuid,nodev,noexec,z,rslave,cached "$IMG" grep ' /d ' /proc/mounts
	assert_output --partial nosuid,nodev,noexec
	run -125 mlrun exec -v ./data:/d:rshared "$IMG" true
	assert_output --partial "'rshared' is not supported: mounts made in a container cannot reach the host without root"
	run -125 mlrun exec -v ./data:/d:U "$IMG" true
	assert_output --partial "'U' is not supported"
}

@test "options: --device brings a node, and one that may not be opened names its group" {
	run -0 mlrun exec --device /dev/zero:/dev/nought:rw "$IMG" sh -c 'head -c 3 /dev/nought | wc -c'
	assert_output 3
	run -125 mlrun exec --device no-such.com/gpu=all "$IMG" true
	assert_output --partial "describes it"
	needs_ordinary_user
	for node in /dev/kmsg /dev/mem /dev/fuse /dev/vda; do
		{ [ -b "$node" ] || [ -c "$node" ]; } && [ ! -r "$node" ] && [ ! -w "$node" ] && break
		node=
	done
	[ -n "$node" ] || skip "this user may open every device that this test knows"
	run -125 mlrun exec --device "$node" "$IMG" true
	assert_output --partial "you may not open '$node': it belongs to user $(stat -c '%U and group %G' "$node")"
	assert_output --partial "hint: an administrator can"
}

# --- environment ----------------------------------------------------------------------------------------

@test "options: --unset-env leaves out the caller's and the image's variables, and -e wins" {
	printf 'FROM_FILE=yes\n' >env
	AB=1 AC=2 BB=3 run -0 mlrun exec --unset-env 'A*' --unset-env '@(TINY|FROM_*)' --env-file env -e AC=mine "$IMG" env
	refute_output --partial AB=
	refute_output --partial TINY=
	assert_line AC=mine
	assert_line BB=3
	assert_line FROM_FILE=yes
	run -0 mlrun exec --unset-env '*' "$IMG" env
	assert_line --regexp '^HOME=/'
	assert_line --regexp '^PATH=/'
	refute_output --partial MLRUN_STORE
}

@test "options: a TMPDIR that is not in the container is left out in silence, --explain and --verbose tell" {
	mkdir -p "$HOME/scratch"
	export TMPDIR=/nowhere/tmp
	run -0 --separate-stderr mlrun exec "$IMG" sh -c 'echo "[$TMPDIR]"'
	assert_output "[]"
	[ -z "$stderr" ]
	run -0 mlrun exec --explain "$IMG" true
	assert_line --regexp "^  default +omitted TMPDIR: '/nowhere/tmp' is not in the container; -v /nowhere/tmp mounts it$"
	run -0 mlrun exec --verbose "$IMG" true
	assert_line "mlrun: debug: omitted TMPDIR: '/nowhere/tmp' is not in the container; -v /nowhere/tmp mounts it"
	run -0 --separate-stderr mlrun exec -v "$BATS_TEST_TMPDIR:/nowhere/tmp" "$IMG" sh -c 'echo "[$TMPDIR]"'
	assert_output "[/nowhere/tmp]"
	[ -z "$stderr" ]
	run -0 --separate-stderr mlrun exec --tmpfs /nowhere/tmp "$IMG" sh -c 'echo x >$TMPDIR/f; cat /nowhere/tmp/f'
	assert_output x
	[ -z "$stderr" ]
	unset TMPDIR
	for dir in "/run/user/$(id -u)" /nowhere/run; do # a session's own, and another's after su(1)
		XDG_RUNTIME_DIR=$dir run -0 --separate-stderr mlrun exec "$IMG" sh -c 'echo "[$XDG_RUNTIME_DIR]"'
		assert_output "[]"
		[ -z "$stderr" ]
	done
}

# --- identity, limits, isolation ------------------------------------------------------------------------------

@test "options: --user is a number or a name of the image's, and files stay the caller's" {
	needs_ordinary_user
	run -0 mlrun exec --user 77:88 "$IMG" sh -c 'id -u; id -g; id -un; touch made; echo $HOME'
	assert_line --index 0 77
	assert_line --index 1 88
	assert_line --index 2 "$(id -un)"
	assert_line --index 3 "$HOME"
	[ "$(stat -c %u:%g made)" = "$(id -u):$(id -g)" ]
	run -0 mlrun exec --user jo "$REGISTRY/users" sh -c 'id -u; id -gn; id -un; echo $HOME; cat $HOME/file; touch $HOME/new && stat -c %U $HOME/new'
	assert_output $'4321\nusers\njo\n/home/jo\nmine\njo'
	run -0 mlrun exec --user 4321 "$REGISTRY/users" id -un
	assert_output jo
	run -0 mlrun exec -u jo:staff "$REGISTRY/users" id -g
	assert_output 50
	run -0 mlrun exec --user 0 "$IMG" sh -c 'id -u; id -g; echo $HOME'
	assert_output $'0\n0\n/root'
	run -125 mlrun exec --user nobody-here "$IMG" true
	assert_output --partial "--user 'nobody-here': the image's /etc/passwd knows no user 'nobody-here'"
	run -125 mlrun exec --user 1:no-group "$IMG" true
	assert_output --partial "knows no group 'no-group'"
	run -125 mlrun exec --user : "$IMG" true
	assert_output --partial "expected UID[:GID]"
}

@test "options: too few open files are told with how many are enough, and so many are" {
	local enough

	run -125 bash -c 'ulimit -n 12; mlrun exec "$0" true' "$IMG"
	assert_output --partial "Too many open files"
	[[ $output =~ ([0-9]+)' are enough for this container' ]]
	enough=${BASH_REMATCH[1]}
	run -0 bash -c 'ulimit -n "$1"; mlrun exec "$0" true' "$IMG" "$enough"
}

@test "options: --ulimit sets soft and hard limits" {
	run -0 mlrun exec --ulimit nofile=100:200 --ulimit core=0 "$IMG" sh -c 'ulimit -Sn; ulimit -Hn; ulimit -c'
	assert_output $'100\n200\n0'
	run -125 mlrun exec --ulimit files=1 "$IMG" true
	assert_output --partial "--ulimit 'files=1': unknown limit 'files': use as, core"
	needs_ordinary_user
	hard=$(ulimit -Hn)
	[ "$hard" != unlimited ] || skip "nofile is not limited here"
	run -125 mlrun exec --ulimit nofile=$((hard + 1)) "$IMG" true
	assert_output --partial "your own hard limit of nofile is $hard and may not be raised"
	run -0 mlrun exec --ulimit nofile=-1 "$IMG" sh -c 'ulimit -Hn'
	assert_output "mlrun: nofile is $hard, your own hard limit, instead of unlimited"$'\n'"$hard"
	run -125 mlrun exec --volume='~/x:/x' "$IMG" true
	assert_output --partial "hint: the shell does not expand '~' there; write \$HOME"
}

@test "options: --cap-drop leaves a fake root without a capability" {
	needs_ordinary_user
	run -0 mlrun exec --fakeroot "$IMG" sh -c 'grep CapEff /proc/self/status; touch f; chown 0:0 f'
	refute_output --partial 0000000000000000
	run -0 mlrun exec --fakeroot --cap-drop ALL "$IMG" grep -E 'Cap(Eff|Prm|Bnd)' /proc/self/status
	assert_output - <<-END
		CapPrm:	0000000000000000
		CapEff:	0000000000000000
		CapBnd:	0000000000000000
	END
	run -0 mlrun exec --fakeroot --cap-drop chown,CAP_KILL "$IMG" sh -c 'echo $((0x$(grep CapEff /proc/self/status | cut -f2) & 0x21))'
	assert_output 0
	run -125 mlrun exec --cap-drop NO_SUCH "$IMG" true
	assert_output --partial "--cap-drop: unknown capability 'NO_SUCH'"
}

@test "options: --hostname is seen inside and nowhere else" {
	before=$(uname -n)
	run -0 mlrun exec --hostname node-7.example "$IMG" uname -n
	assert_output node-7.example
	[ "$(uname -n)" = "$before" ]
	run -125 mlrun exec --hostname 'no good' "$IMG" true
	assert_output --partial "--hostname 'no good': expected 1 to 64 letters"
}

@test "options: --net=none has a loopback that is up and nothing else" {
	run -0 mlrun exec --net=none "$IMG" sh -c 'tail -n +3 /proc/net/dev | cut -d: -f1; ls /sys/class/net; ping -c 1 -W 2 127.0.0.1 >/dev/null 2>&1; nc -lp 7777 -e echo yes & for i in $(seq 1000); do nc 127.0.0.1 7777 2>/dev/null && break; sleep 0.1; done'
	assert_output --regexp '^ *lo'$'\n''lo'$'\n''yes$'
	run -0 mlrun exec --network=host "$IMG" readlink /proc/self/ns/net
	assert_output "$(readlink /proc/self/ns/net)"
	run -125 mlrun exec --net=bridge "$IMG" true
	assert_output --partial "--net takes host or none, not 'bridge': a network of its own with a way out needs root"
}

@test "options: --ipc=private has a /dev/shm and queues of its own" {
	mark=/dev/shm/mlrun-test-$$
	touch "$mark"
	run -0 mlrun exec --ipc=private "$IMG" sh -c 'ls -A /dev/shm; stat -c %a /dev/shm; touch /dev/shm/x; grep -c " /dev/mqueue mqueue" /proc/mounts; readlink /proc/self/ns/ipc'
	rm "$mark"
	assert_line --index 0 1777
	assert_line --index 1 1
	[ "${lines[2]}" != "$(readlink /proc/self/ns/ipc)" ]
	[ ! -e /dev/shm/x ]
	run -0 mlrun exec --ipc=host "$IMG" readlink /proc/self/ns/ipc
	assert_output "$(readlink /proc/self/ns/ipc)"
	run -125 mlrun exec --ipc=shareable "$IMG" true
	assert_output --partial "--ipc takes host or private, not 'shareable'"
}

@test "options: --preserve-fds counts from 3, --preserve-fd names numbers, others stay closed" {
	open='for f in 3 4 5 9; do (: <&$f) 2>/dev/null && cat <&$f; done; true'
	run -0 bash -c 'exec 3<<<three 4<<<four 5<<<five 9<<<nine; mlrun exec --preserve-fds 2 "$0" sh -c "$1"' "$IMG" "$open"
	assert_output $'three\nfour'
	run -0 bash -c 'exec 3<<<three 4<<<four 5<<<five 9<<<nine; mlrun exec --preserve-fd 5,9 "$0" sh -c "$1"' "$IMG" "$open"
	assert_output $'five\nnine'
	run -125 mlrun exec --preserve-fd 77 "$IMG" true
	assert_output --partial "--preserve-fd 77: descriptor 77 is not open"
	run -125 bash -c 'exec 3<&- ; mlrun exec --preserve-fds 1 "$0" true' "$IMG"
	assert_output --partial "--preserve-fds 1: descriptor 3 is not open"
	run -125 mlrun exec --preserve-fd a "$IMG" true
	assert_output --partial "expected numbers"
}

@test "options: --cpus and --memory are obeyed in a cgroup of the user's own, or refused with the way out" {
	run mlrun exec --cpus 1.5 --memory 64m "$IMG" sh -c 'cat "/sys/fs/cgroup$(sed -n "s/^0:://p" /proc/self/cgroup)"/cpu.max'
	if [ "$status" -eq 0 ]; then
		assert_output "150000 100000"
	else
		[ "$status" -eq 125 ]
		assert_output --partial "--cpus and --memory need a control group of your own, and"
		assert_output --partial "hint: the batch system limits a job: sbatch --mem=4G"
		assert_output --partial "systemd-run --user --scope"
	fi
	run -125 mlrun exec --cpus none "$IMG" true
	assert_output --partial "--cpus takes a number from 0.01 on, not 'none'"
	run -125 mlrun exec -m much "$IMG" true
	assert_output --partial "--memory takes a size such as 512m or 4g, not 'much'"
}

# --- the image -------------------------------------------------------------------------------------------------

@test "pull first: a missing image is fetched, a store that is not there is made" {
	export MLRUN_STORE=$BATS_TEST_TMPDIR/new/store
	run -0 --separate-stderr mlrun exec "$IMG" echo ran
	assert_output ran
	[[ $stderr == *"'$IMG' is not in the store and is pulled"* ]]
	before=$(registry_requests | wc -l)
	run -0 --separate-stderr mlrun exec "$IMG" echo again
	assert_output again
	[ -z "$stderr" ]
	assert_equal "$(registry_requests | wc -l)" "$before"
}

@test "pull first: of many ranks one describes it, and all have the image" {
	export MLRUN_STORE=$BATS_TEST_TMPDIR/new
	local i
	for i in 0 1 2 3; do
		PMIX_RANK=$i mlrun exec --mpi=none "$IMG" echo "rank $i" >"out$i" 2>"err$i" 3>&- &
	done
	wait
	run -0 cat out0 out1 out2 out3
	assert_output $'rank 0\nrank 1\nrank 2\nrank 3'
	run -0 cat err1 err2 err3
	assert_output ""
}

@test "pull first: the command's input and output are its own" {
	export MLRUN_STORE=$BATS_TEST_TMPDIR/new
	echo input >in
	run -0 --separate-stderr bash -c 'mlrun exec "$0" cat <in' "$IMG"
	assert_output input
}

@test "pull first: always asks the registry, never does not" {
	export MLRUN_STORE=$BATS_TEST_TMPDIR/new
	image_push_tar -c --config.env -c V=1 -c --config.env -c PATH=/bin moving "$BATS_FILE_TMPDIR/tiny.tar"
	run -0 --separate-stderr mlrun exec --pull=always "$REGISTRY/moving" sh -c 'echo $V'
	assert_output 1
	image_push_tar -c --config.env -c V=2 -c --config.env -c PATH=/bin moving "$BATS_FILE_TMPDIR/tiny.tar"
	run -0 --separate-stderr mlrun exec --pull=missing "$REGISTRY/moving" sh -c 'echo $V'
	assert_output 1
	run -0 --separate-stderr mlrun exec --pull=always "$REGISTRY/moving" sh -c 'echo $V'
	assert_output 2
	before=$(registry_requests | wc -l)
	run -125 mlrun exec --pull=never "$REGISTRY/other" true
	assert_output --partial "not in the store '$MLRUN_STORE'"
	assert_output --partial "hint: mlrun pull $REGISTRY/other"
	run -125 mlrun exec --explain "$REGISTRY/other" true
	assert_output --partial "not in the store"
	assert_equal "$(registry_requests | wc -l)" "$before"
	run -125 mlrun exec --pull=perhaps "$IMG" true
	assert_output --partial "--pull takes missing, always or never, not 'perhaps'"
}

@test "pull first: an image that the registry has not is pull's failure, told once" {
	run -125 mlrun exec "$REGISTRY/no-such-image" true
	assert_output --partial "mlrun: pull '$REGISTRY/no-such-image:latest'"
	refute_output --partial "exec '"
	run -125 mlrun exec --pull=always rootfs:/no/such true
	assert_output --partial "root directory '/no/such'"
}

@test "pull first: what is wrong whatever the image is, is told before it is fetched" {
	export MLRUN_STORE=$BATS_TEST_TMPDIR/new
	before=$(registry_requests | wc -l)
	run -125 mlrun exec -v /no/such/dir "$IMG" true
	assert_output --partial "source '/no/such/dir'"
	run -125 mlrun exec --ulimit files=1 "$IMG" true
	assert_output --partial "unknown limit 'files'"
	run -125 mlrun exec --write=a/b "$IMG" true
	assert_output --partial "exec '$IMG': invalid container name 'a/b'"
	run -125 mlrun exec -w relative "$IMG" true
	assert_output --partial "exec '$IMG': -w 'relative': expected an absolute path inside the container"
	run -125 mlrun exec --write=c --read-only "$IMG" true
	assert_output --partial "exec '$IMG': --write and --read-only exclude each other"
	mkdir -p "$HOME/.config/mlrun"
	printf '[exec]\nvolume = /no/such:/x\n' >"$HOME/.config/mlrun/mlrun.conf"
	run -125 mlrun exec "$IMG" true
	assert_output --partial "mlrun.conf:2: volume '/no/such:/x': source '/no/such': No such file or directory"
	assert_equal "$(registry_requests | wc -l)" "$before"
	[ ! -e "$MLRUN_STORE" ]
}

# A registry that takes connections and never answers.
deaf_registry() {
	python3 -c 'import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
print(s.getsockname()[1], flush=True); time.sleep(600)' >port 3>&- &
	DEAF=$!
	until_true test -s port
	DEAF_IMG=127.0.0.1:$(cat port)/some/image
}

pulls_left() { pgrep -u "$(id -u)" -f "pull.* -- $DEAF_IMG"; }

@test "pull first: an interrupt ends the pull, and a killed exec leaves none behind" {
	deaf_registry
	run -130 timeout --preserve-status -s INT 1 mlrun exec "$DEAF_IMG" true
	wait_while pulls_left
	mlrun exec "$DEAF_IMG" true 3>&- &
	local pid=$!
	until_true pulls_left
	kill -KILL "$pid"
	wait_while pulls_left
	kill "$DEAF"
}

@test "architecture: an image for another machine is refused by name" {
	[ "$(uname -m)" != s390x ] || skip "the foreign image is this machine's"
	! grep -qs '^enabled' /proc/sys/fs/binfmt_misc/qemu-s390x || skip "this machine emulates s390x"
	run -125 mlrun exec "$REGISTRY/foreign" true
	assert_output --partial "the image is for linux/s390x, this machine is linux/"
	assert_output --partial "hint: mlrun pull --platform linux/"
}

@test "architecture: a program for another machine is told by its ELF header" {
	tiny_root root
	# e_machine is s390 in big-endian order, or ppc64 where that is this machine's own.
	python3 - root/bin/foreign "$(uname -m)" <<-'END'
		import sys
		head = bytearray(4096)
		head[:7] = b"\x7fELF\x02\x02\x01"
		head[16:20] = b"\x00\x02\x00" + (b"\x15" if sys.argv[2] == "s390x" else b"\x16")
		open(sys.argv[1], "wb").write(head)
	END
	chmod +x root/bin/foreign
	run -126 mlrun exec rootfs:root foreign
	assert_output --regexp "'/.*foreign' is a program for (s390x|ppc64), this machine is $(uname -m)"
	run -126 mlrun exec rootfs:root /bin/foreign
	assert_output --partial "is a program for"
}

# --- options of others ------------------------------------------------------------------------------------

@test "options: what Docker has and mlrun has not names the counterpart" {
	local option want
	while IFS='|' read -r option want; do
		# shellcheck disable=SC2086 # several words
		run -125 mlrun exec $option "$IMG" true
		assert_output --partial "$want"
		refute_output --partial "Usage:"
	done <<-'END'
		-p 80:8080|mlrun has no -p: the container uses the host's network, so a port that the command opens is open there, under its own number
		--publish=80:8080|mlrun has no --publish: the container uses the host's network
		-p 127.0.0.1:80:80|mlrun has no -p
		-itp 80:81|mlrun has no -p
		--net bridge|--net takes host or none, not 'bridge'
		--network=mine|--net takes host or none, not 'mine'
		--rm=false|--rm is a switch, and off unless it is given
		-d|mlrun has no -d: there is no daemon
		-itd|mlrun has no -d: there is no daemon
		--detach|hint: mlrun run -d --name NAME
		--privileged|--fakeroot
		--cap-add SYS_ADMIN|reaches no further than the caller's one id
		--shm-size 900t|hint: --tmpfs /dev/shm:size=SIZE
		--shm-size much|hint: --tmpfs /dev/shm:size=SIZE
		--restart always|mlrun run -d --restart WHEN
		--name x|--write=NAME
		--platform linux/arm64|mlrun pull --platform
		--userns nomap|a container of mlrun's knows one uid
		--security-opt seccomp=x|no_new_privs is always on
		--volumes-from x|-v SRC:DST mounts a directory
		--link x|containers on one host meet at localhost
		--env-host=false|passed on already
		--cgroupns private|the command stays in the caller's cgroup
		-h host|--hostname NAME
		--bind /a:/b|-v SRC:DST
		--cpuset-cpus 0-3|taskset
		--health-start-period=1s|nothing watches over
		--memory-swap 1g|--memory SIZE
		--pid=container:x|--join PID
	END
}

@test "options: what Docker's users ask for and is so already passes in silence" {
	local option
	while read -r option; do
		# shellcheck disable=SC2086 # several words
		run -0 mlrun run $option "$IMG" echo ran
		assert_output ran
	done <<-END
		-p 8888:8888
		-p8888:8888 -p 0.0.0.0:80:80/tcp --publish 7000-7009:7000-7009 --publish=6006
		-itp 8888:8888 --rm
		-P --expose 80
		--shm-size=1k
		--shm-size 4k
		--name box --rm
		--rm --name=box
		--rm=true --init=true
		--network host
		--network=host --net host
		--ipc=host
		--ipc host
		--pid=host
		--pid host
		--uts host --cgroupns=host --userns=keep-id --userns host
		--security-opt seccomp=unconfined --security-opt=no-new-privileges
		-a stdin -a stdout --attach=stderr
		--env-host --writable-tmpfs --restart no --runtime=nvidia --group-add keep-groups
		--platform linux/$(skopeo --override-os linux inspect --raw --config --tls-verify=false "docker://$IMG" | python3 -c 'import json, sys; print(json.load(sys.stdin)["architecture"])')
		-q
		-u $(id -u):$(id -g) --hostname box --init --ulimit core=0
	END
	run -0 mlrun run --pid private "$IMG" sh -c 'echo $$'
	assert_output 1
	run -0 mlrun images --json=true
	run -125 mlrun images --json=false
	assert_output "mlrun: images: --json is a switch, and off unless it is given"
}

@test "options: an unknown option names the nearest one" {
	run -125 mlrun exec --mont x "$IMG" true
	assert_output "mlrun: exec: unknown option '--mont'"$'\n'"hint: is --mount meant? mlrun exec --help lists the options"
	run -125 mlrun exec --read_only "$IMG" true
	assert_output --partial "is --read-only meant?"
	run -125 mlrun exec --volmue=/a "$IMG" true
	assert_output --partial "is --volume meant?"
	run -125 mlrun run --quite-something-else "$IMG" true
	assert_output --partial "unknown option '--quite-something-else'"
	refute_output --partial meant
	run -125 mlrun exec -X "$IMG" true
	assert_output --partial "unknown option '-X'"
	run -125 mlrun shell --hoem "$IMG"
	assert_output --partial "is --home meant? mlrun shell --help"
}

@test "options: every option stands before the image, an option's value is no option" {
	run -0 mlrun exec "$IMG" echo --privileged -p --mont
	assert_output -- "--privileged -p --mont"
	run -0 mlrun exec -e --privileged=1 --env -p=2 "$IMG" env
	assert_line -- --privileged=1
	assert_line -- -p=2
	run -0 mlrun exec --entryp /bin/echo "$IMG" by-a-prefix
	assert_output by-a-prefix
	run -0 mlrun run -it --rm -e A=1 -w/ -v/etc:/x:ro "$IMG" pwd
	assert_output /
}

@test "options: --help names them all, and what an image may be" {
	run -0 mlrun exec --help
	for word in --mount --tmpfs --device --user --hostname --net --ipc --ulimit --cap-drop --cpus --memory \
		--preserve-fds --unset-env --pull squashfs:FILE oci:DIR rootfs:PATH; do
		assert_output --partial -- "$word"
	done
}

# --- shell -------------------------------------------------------------------------------------------------

@test "shell: the caller's own shell where the image has it, else bash, else sh" {
	run -0 bash -c 'echo "echo from \$0" | SHELL=/usr/bin/ash mlrun shell "$0"' "$IMG"
	assert_output "from ash"
	run -0 bash -c 'echo "echo from \$0" | SHELL=/bin/zsh mlrun shell "$0"' "$IMG"
	assert_output "from sh"
	tiny_root root
	printf '#!/bin/sh\necho from bash\n' >root/bin/bash
	chmod +x root/bin/bash
	SHELL=/bin/zsh run -0 mlrun shell rootfs:root
	assert_output "from bash"
	rm root/bin/*sh
	run -127 mlrun shell rootfs:root
	assert_output --partial "the image has no shell"
}

@test "shell: exec's options and statuses, the image's Entrypoint left alone" {
	run -7 mlrun shell -e A=b "$IMG" -c 'echo $A; exit 7'
	assert_output b
	run -125 mlrun shell --pull=never never/pulled
	run -0 mlrun shell --explain --read-only "$IMG"
	assert_output --partial read-only
	run -0 mlrun shell --help
	assert_output --partial "mlrun shell [OPTION...] IMAGE"
}

@test "shell: --join looks into a container that runs" {
	tiny_root root
	mlrun exec -e WHO=first rootfs:root sleep 100 3>&- &
	local pid=$!
	until_true runs "$pid" sleep 100
	run bash -c 'echo "echo \$WHO" | SHELL=/bin/sh mlrun shell --join "$0"' "$pid"
	kill "$pid"
	assert_success
	assert_output first
}

@test "shell: the prompt names the image, unless the image has one" {
	run -0 bash -c 'SHELL=/bin/sh mlrun shell "$0" -c "echo \"\$PS1\"; echo \"\$debian_chroot\""' "$IMG"
	assert_line --index 0 '[tiny] ${PWD} $ '
	assert_line --index 1 tiny
	PS1='mine ' run -0 mlrun shell "$IMG" -c 'echo "$PS1"'
	assert_output '[tiny] ${PWD} $ '
	run -0 mlrun shell "$REGISTRY/users" -c 'echo "$PS1"'
	assert_output 'image> '
	run -0 mlrun shell -e PS1='me> ' "$IMG" -c 'echo "$PS1"'
	assert_output 'me> '
	mkdir -p "$HOME/.config/mlrun"
	printf '[exec]\nenv = PS1=configured>\n' >"$HOME/.config/mlrun/mlrun.conf"
	run -0 mlrun shell "$IMG" -c 'echo "$PS1"'
	assert_output 'configured>'
}

@test "shell: on a terminal it is interactive and shows its prompt" {
	cd /
	run -3 script -qec "SHELL=/bin/ash mlrun shell $IMG" /dev/null < <(sleep 0.5; echo 'echo on $((6 * 7)); exit 3'; sleep 0.5)
	assert_output --partial "[tiny]"
	assert_output --partial "on 42"
}

@test "options: what Docker's, Apptainer's and Enroot's users type is answered with the way that works" {
	local typed want

	while IFS='|' read -r typed want; do
		# shellcheck disable=SC2086 # words
		run -125 mlrun $typed
		assert_output --partial "$want"
	done <<-'X'
		ps -aq|mlrun has no -q
		images -aq|mlrun has no -a
		logs --details x|mlrun has no --details
		config set store /x|a setting is a line of ~/.config/mlrun/mlrun.conf
		run --mount /a:/b tiny true|hint: -v /a:/b mounts so
		pull x.sif docker://alpine|hint: mlrun pull docker://alpine
	X
}

@test "options: --help lists every command in a group" {
	run -0 mlrun --help
	assert_equal "$(grep -E '^[A-Z][a-z]+:$' <<<"$output")" $'Images:\nContainers:\nServices:\nCluster:\nMachine:'
	assert_equal "$(sed '/^Images:/,$d' <<<"$output" | grep -c '^  ')" 0
}
