# mlrun exec: what a command finds inside, and what it cannot do.
# shellcheck disable=SC2016 # the inner shell expands
load common

setup_file() {
	export FILE_STORE=$BATS_FILE_TMPDIR/store
	registry_start
	image_tiny tiny
	image_push_tar -c --config.entrypoint -c /bin/echo -c --config.entrypoint -c entry \
		-c --config.cmd -c cmd -c --config.user -c 1234 -c --config.workingdir -c /made/here \
		entry "$BATS_FILE_TMPDIR/tiny.tar"
	image_push_tar -c --config.entrypoint -c '' -c --config.cmd -c /bin/echo -c --config.cmd -c ran \
		hollow "$BATS_FILE_TMPDIR/tiny.tar"
	MLRUN_STORE=$BATS_FILE_TMPDIR/store mlrun pull -q "$REGISTRY/tiny" "$REGISTRY/entry" "$REGISTRY/hollow"
	registry_stop # exec must not need it
}


setup() {
	common_setup
	export MLRUN_STORE=$FILE_STORE
	IMG=$REGISTRY/tiny
}

in_tiny() { mlrun exec "$IMG" "$@"; }

# --- the command and its status ---------------------------------------------------

@test "exec: the exit status is the command's own" {
	run -0 in_tiny true
	run -7 in_tiny sh -c 'exit 7'
	run -143 in_tiny sh -c 'kill -TERM $$'
}

@test "exec: a command that is not in the image exits 127 and is named" {
	run -127 in_tiny no-such-command
	assert_output --partial "command 'no-such-command' not found in the image (PATH is /bin:/usr/bin)"
	run -127 in_tiny -- /no/such
	assert_output --partial "'/no/such'"
}

@test "exec: what cannot be executed exits 126 and says why" {
	run -126 in_tiny /etc/passwd
	assert_output --partial "'/etc/passwd': Permission denied"
	run -126 in_tiny /etc
	assert_output --partial "'/etc' is a directory"
	printf '#!/no/interpreter\n' >script
	chmod +x script
	run -126 in_tiny ./script
	assert_output --partial "the interpreter it names"
}

@test "exec: mlrun's own failures exit 125 and say the way out" {
	run -125 mlrun exec
	assert_output --partial "mlrun exec: an image is missing"
	run -125 mlrun exec --no-such-option "$IMG" true
	assert_output --partial "unknown option '--no-such-option'"
	run -125 mlrun exec --pull=never never/pulled:1 true
	assert_output --partial "hint: mlrun pull never/pulled:1"
	run -125 mlrun exec 'Bad Name' true
	assert_output --partial "Bad Name"
	MLRUN_STORE=$BATS_TEST_TMPDIR/none run -125 mlrun exec --pull=never "$IMG" true
	assert_output --partial "hint: mlrun pull $IMG"
}

@test "exec: options after the image are the command's, and -- is swallowed once" {
	run -0 in_tiny echo -v -- --help
	assert_output -- "-v -- --help"
	run -0 mlrun run --rm -it "$IMG" -- echo x
	assert_output x
}

@test "exec: the image's Cmd, Entrypoint, WorkingDir and Env are used as docker-run uses them" {
	cd /
	run -0 mlrun exec "$IMG"
	assert_output tiny
	run -0 mlrun exec "$REGISTRY/entry"
	assert_output "entry cmd"
	run -0 mlrun exec "$REGISTRY/entry" mine
	assert_output "entry mine"
	run -0 mlrun exec --entrypoint /bin/pwd "$REGISTRY/entry"
	assert_output /made/here
	run -0 mlrun exec --entrypoint '' "$REGISTRY/entry" /bin/echo alone
	assert_output alone
	run -125 mlrun exec --entrypoint '' "$REGISTRY/entry"
	assert_output --partial "no command was given"
	run -0 in_tiny sh -c 'echo $TINY $PATH; pwd'
	assert_line --index 0 "yes /bin:/usr/bin"
	assert_line --index 1 /root
}

@test "exec: mlrun becomes the command: same process, nothing stays behind" {
	mlrun exec "$IMG" sh -c "echo \$\$ >pid; exec sleep $NAP" 3>&- &
	local pid=$!
	until_true test -s pid
	[ "$(cat pid)" = "$pid" ]
	run -1 pgrep -P "$pid"
	kill -TERM "$pid"
	wait "$pid" || status=$?
	[ "$status" -eq 143 ]
	run -1 pgrep -u "$(id -u)" -x -f "sleep $NAP"
}

# --- files -----------------------------------------------------------------------------

@test "exec: the caller's directory and /tmp are there, the home directory is not" {
	needs_ordinary_user
	echo secret >"$HOME/secret"
	mkdir -p "$HOME/project"
	cd "$HOME/project"
	run -1 in_tiny sh -c 'pwd; echo inside >made; ls $HOME; cat $HOME/secret'
	assert_line --index 0 "$HOME/project"
	assert_line --index 1 project
	refute_output --partial secret$'\n'
	[ "$(cat made)" = inside ]
}

@test "exec: HOME exists and can be written to, and is forgotten" {
	needs_ordinary_user
	cd /
	run -0 in_tiny sh -c 'echo x >$HOME/new && cat $HOME/new && echo $HOME'
	assert_line --index 0 x
	assert_line --index 1 "$HOME"
	[ ! -e "$HOME/new" ]
}

in_tiny_with_home() { mlrun exec -v "$HOME" "$IMG" "$@"; }

@test "exec: in the bare home directory the command starts in the image's, and only --explain says so" {
	cd "$HOME"
	run -0 --separate-stderr in_tiny pwd
	assert_output /root
	[ -z "$stderr" ]
	run -0 mlrun exec --explain "$IMG" true
	assert_line --partial "the home directory is not in the container; --home brings it, -v DIR a part of it"
	run -0 in_tiny_with_home pwd
	assert_output "$HOME"
	touch here
	run -127 in_tiny ./here
	assert_line --partial "command './here' not found in the image"
	assert_line "hint: the command starts in '/root', the image's directory; -w DIR and --home choose another"
	run -0 --separate-stderr mlrun exec --home "$IMG" ls
	assert_output here
	[ -z "$stderr" ]
}

@test "exec: the root can be written to and forgets" {
	run -0 in_tiny sh -c 'echo x >/new && rm /etc/os-release && mkdir /dir && mv /etc/group /dir && ls /dir'
	assert_output group
	run -0 in_tiny sh -c 'ls /new /dir 2>&1; cat /etc/os-release'
	assert_output --partial "NAME=tiny"
	assert_output --partial "/new: No such file"
}

@test "exec: --read-only leaves HOME and /tmp writable and nothing else" {
	run -1 mlrun exec --read-only "$IMG" touch /new
	assert_output --partial "Read-only file system"
	run -1 mlrun exec --read-only "$IMG" sh -c 'echo x >>/etc/passwd'
	run -0 mlrun exec --read-only "$IMG" sh -c 'touch $HOME/x && cd /tmp && echo ok >$$.x && rm $$.x'
}

@test "exec: volumes are mounted where they were asked for, with their flags" {
	mkdir -p data && echo hello >data/f
	run -0 mlrun exec -v "$PWD/data:/mnt/deep/data:ro" "$IMG" cat /mnt/deep/data/f
	assert_output hello
	run -1 mlrun exec -v "./data:/mnt/d:ro" "$IMG" touch /mnt/d/x
	assert_output --partial "Read-only file system"
	run -0 mlrun exec -v ./data:/mnt/d "$IMG" sh -c 'echo back >/mnt/d/g'
	[ "$(cat data/g)" = back ]
	run -0 mlrun exec -v ./data/f:/etc/os-release "$IMG" cat /etc/os-release
	assert_output hello
	printf '#!/bin/sh\necho ran\n' >data/s
	chmod +x data/s
	run -0 mlrun exec -v ./data:/mnt/d "$IMG" /mnt/d/s
	assert_output ran
	run -126 mlrun exec -v ./data:/mnt/d:noexec "$IMG" /mnt/d/s
	assert_output --partial "Permission denied"
}

@test "exec: a read-only volume is read-only all the way down" {
	mkdir -p data/sub
	run -0 unshare -Urm sh -c "mount -t tmpfs none data/sub && $(command -v mlrun) exec -v ./data:/d:ro '$IMG' \
		sh -c 'touch /d/sub/x 2>&1 || echo refused'"
	assert_output --partial refused
}

@test "exec: a volume that cannot be mounted is an error that names it" {
	run -125 mlrun exec -v /no/such:/x "$IMG" true
	assert_output --partial "-v '/no/such:/x': source '/no/such': No such file or directory"
	assert_output --partial "hint: make it first: mkdir -p '/no/such'"
	run -125 mlrun exec -v /etc/passwd:/etc "$IMG" true
	assert_output --partial "'/etc' in the image is a directory"
	run -125 mlrun exec -v /etc:/x:bogus "$IMG" true
	assert_output --partial "invalid volume flag 'bogus'"
}

@test "exec: in a directory that the caller may not enter it starts in the image's, and one line says so" {
	needs_ordinary_user
	mkdir -p shut/in
	cd shut/in
	chmod 0 .
	run -0 --separate-stderr mlrun exec "$REGISTRY/tiny" pwd
	assert_output /root
	assert_equal "$stderr" "mlrun: you may not enter the working directory '$PWD', so the command starts in the image's; -w DIR starts it elsewhere"
	run -0 mlrun exec -w /tmp "$REGISTRY/tiny" pwd
	assert_output /tmp
	# Below a directory that is shut, outside of what every container has.
	chmod 755 "$PWD"
	chmod 0 "${PWD%/*}"
	run -0 mlrun exec --tmpfs /tmp "$REGISTRY/tiny" pwd
	assert_line /root
	chmod 755 "${PWD%/*}"
}

@test "exec: a host name of the container's own resolves in it" {
	run -0 mlrun exec --hostname box.lab "$REGISTRY/tiny" sh -c 'hostname; grep -c . /etc/hosts; grep box.lab /etc/hosts'
	assert_line --index 0 box.lab
	assert_line --index 1 "$(($(grep -c . /etc/hosts) + 1))"
	assert_line --index 2 $'127.0.1.1\tbox.lab'
	run -0 mlrun exec --hostname box --net=none "$REGISTRY/tiny" hostname -i
	assert_output 127.0.1.1
	run -0 mlrun exec "$REGISTRY/tiny" cat /etc/hosts
	assert_output "$(cat /etc/hosts)"
	echo '127.0.0.9 mine' >mine
	run -0 mlrun exec --hostname box -v ./mine:/etc/hosts "$REGISTRY/tiny" cat /etc/hosts
	assert_output '127.0.0.9 mine'
}

@test "exec: -w starts there and makes the directory" {
	run -0 mlrun exec -w /new/place "$IMG" pwd
	assert_output /new/place
	run -125 mlrun exec -w /etc/passwd "$IMG" pwd
	assert_output --partial "working directory: '/etc/passwd' in the image: Not a directory"
	assert_output --partial "hint: -w DIR"
	run -125 mlrun exec -w relative "$IMG" pwd
	assert_output --partial "-w 'relative': expected an absolute path"
}

@test "exec: standard devices work and no others are there" {
	run -0 in_tiny sh -c 'head -c 4 /dev/zero | wc -c; echo x >/dev/null; head -c 1 /dev/urandom | wc -c; ls /dev'
	assert_line --index 0 4
	assert_line --index 1 1
	assert_line null
	assert_line pts
	refute_line vda
	refute_line mem
	refute_line kmsg
}

@test "exec: a HOME that the container cannot have is replaced by one that it can" {
	needs_ordinary_user
	local bad
	for bad in / // /bin /usr/sbin /proc /dev/null /tmp "/tmp/not-$BATS_TEST_NUMBER/there" relative; do
		HOME=$bad run -0 mlrun exec -w / "$IMG" sh -c 'echo x >$HOME/new && echo $HOME && ls /bin/sh'
		assert_line --index 0 --regexp '^/(home/.+|root)$|^'"$(getent passwd "$(id -u)" | cut -d: -f6)"'$'
	done
	[ ! -e "/tmp/not-$BATS_TEST_NUMBER" ]
	HOME=/nowhere/./yet/ run -0 in_tiny sh -c 'echo x >$HOME/new && echo $HOME'
	assert_output /nowhere/yet
}

@test "exec: the home directory is not mounted by another of its names" {
	mkdir -p "$HOME/sub"
	cd "$HOME"
	# Outside of /tmp, which is mounted anyway.
	home=$(mktemp -d /var/tmp/mlrun-home.XXXXXX)
	ln -s "$home" "$home-link"
	touch "$home/secret"
	cd "$home"
	HOME=$home-link run -0 mlrun exec "$IMG" sh -c 'ls; ls $HOME'
	refute_output --partial secret
	HOME=$home/ run -0 mlrun exec "$IMG" sh -c 'ls; ls $HOME'
	refute_output --partial secret
	HOME=$home-link run -0 mlrun exec --home "$IMG" sh -c 'ls; pwd'
	assert_line --index 0 secret
	rm -r "$home" "$home-link"
}

@test "exec: a working directory that the shell knows by a link has both names inside" {
	local dir
	dir=$(mktemp -d /var/tmp/mlrun-dir.XXXXXX)
	mkdir "$dir/real"
	ln -s real "$dir/link"
	cd "$dir/link"
	echo here >file
	run -0 mlrun exec "$IMG" sh -c "pwd; cat \$PWD/file $dir/real/file"
	assert_output "$dir/link"$'\n'here$'\n'here
	# Where the user mounts it, or PWD is another's, it has the name that it always has.
	run -0 mlrun exec -v "$PWD" "$IMG" pwd
	assert_output "$dir/real"
	PWD=$dir run -0 mlrun exec "$IMG" pwd
	assert_output "$dir/real"
	rm -r "$dir"
}

@test "exec: pseudo-terminals can be had, and the caller's terminal has a name" {
	python='import os, pty; m, s = pty.openpty(); os.write(s, b"from a pty"); print(os.read(m, 99), os.ttyname(s))'
	run -0 script -qec "mlrun exec -v /usr -v /lib -v /lib64 $IMG sh -c 'tty; /usr/bin/python3 -c \"\$0\"' '$python'" /dev/null
	assert_line --index 0 --regexp '^/dev/(console|pts/[0-9]+)'
	assert_line --index 1 --regexp "^b'from a pty' /dev/pts/[0-9]+"
}

@test "exec: with standard descriptors closed no file takes their place" {
	mlrun exec -w / "$IMG" sh -c 'ls -l /proc/self/fd/0 /proc/self/fd/1 >/tmp/'"$$"'.fds' <&- >&- 2>&-
	run -0 cat /tmp/$$.fds
	rm /tmp/$$.fds
	assert_line --index 0 --partial "/dev/null"
}

@test "exec: an image of another owner can be run, its files cannot be changed" {
	needs_ordinary_user
	# Files of root, whom the container does not know.
	run -0 mlrun exec -w / rootfs:/usr busybox sh -c 'id -u; busybox head -n 1 /etc/passwd; busybox touch $HOME/x'
	assert_line --index 0 "$(id -u)"
	assert_line --index 1 --regexp "^$(id -un):"
	run -0 mlrun exec --read-only -w / rootfs:/usr busybox true
	run -1 mlrun exec -w / rootfs:/usr busybox sh -c 'echo x >>/bin/busybox'
}

# --- who ---------------------------------------------------------------------------------

@test "exec: the caller keeps his ids and passwd knows him" {
	run -0 in_tiny sh -c 'id -u; id -g; id -un; touch mine'
	assert_line --index 0 "$(id -u)"
	assert_line --index 1 "$(id -g)"
	assert_line --index 2 "$(id -un)"
	[ "$(stat -c %u:%g mine)" = "$(id -u):$(id -g)" ]
	run -0 in_tiny grep -c . /etc/passwd
	[ "$output" -ge 1 ]
}

@test "exec: a volume of the user's own takes the place of the files that mlrun makes" {
	echo 'me:x:1:1::/:' >passwd
	run -0 mlrun exec -v ./passwd:/etc/passwd -v ./passwd:/etc/hosts "$IMG" cat /etc/passwd /etc/hosts
	assert_output "$(cat passwd passwd)"
}

@test "exec: --fakeroot appears as root and files are the caller's" {
	run -0 mlrun exec --fakeroot "$IMG" sh -c 'id -u; id -g; echo $HOME; touch made; chmod 700 made; chown 0:0 made'
	assert_line --index 0 0
	assert_line --index 1 0
	assert_line --index 2 /root
	[ "$(stat -c %u:%g made)" = "$(id -u):$(id -g)" ]
}

@test "exec: no capabilities, no new privileges, an empty bounding set" {
	run -0 in_tiny grep -E '^(CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs)' /proc/self/status
	assert_output - <<-END
		CapPrm:	0000000000000000
		CapEff:	0000000000000000
		CapBnd:	0000000000000000
		CapAmb:	0000000000000000
		NoNewPrivs:	1
	END
	run in_tiny mount -t tmpfs none /mnt
	[ "$status" -ne 0 ]
}

@test "exec: no descriptor of the caller's or of mlrun's is inherited" {
	exec 9</etc/passwd 33<"$HOME"
	run -0 in_tiny sh -c 'for f in /proc/self/fd/*; do echo "${f##*/}"; done'
	exec 9<&- 33<&-
	refute_line 9
	refute_line 33
	run -0 in_tiny sh -c 'exec ls /proc/self/fd | sort -n | tail -1'
	[ "$output" -le 3 ]
}

@test "exec: PMI_FD is inherited, and its neighbours are not" {
	PMI_FD=11 run -0 bash -c 'exec 11</etc/passwd 12</etc/passwd
		exec mlrun exec "$0" sh -c "head -c 4 <&11; echo; ls /proc/self/fd"' "$IMG"
	assert_line --index 0 --regexp '^root'
	refute_line 12
	PMI_FD=77 run -0 in_tiny true # another job's, not open here
}

@test "exec: mlrun and its squashfs server start without glibc's questions to the processor" {
	local chosen="$top_builddir/config.log" programs=mlrun program
	grep -q "^OWN_START_TRUE=''$" "$chosen" || skip "configure chose glibc's start"
	! grep -q "^STATIC_SQUASHFUSE_TRUE=''$" "$chosen" || programs+=" mlrun-squashfuse"
	for program in $programs; do
		run -0 nm "$top_builddir/bin/$program"
		assert_line --regexp ' __libc_start_main$'
		refute_line --regexp ' (handle_amd|handle_intel|update_active)'
	done
}

@test "exec: a container may do without /proc" {
	# The leak checker itself wants /proc.
	ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 run -0 mlrun exec --tmpfs /proc "$IMG" ls /proc
	assert_output ""
}

@test "exec: an image's own PMI_FD brings it no descriptor of the caller's, nor of mlrun's" {
	local n

	tiny_root root
	layer_tar root.tar root
	image_layout layout root.tar
	image_config layout --config.env PMI_FD=11
	mlrun import -q oci:layout pmi
	run -0 bash -c 'exec 11</etc/passwd; mlrun exec pmi sh -c "echo \$PMI_FD; ls /proc/self/fd/"'
	assert_line --index 0 11
	refute_output --regexp $'\n11'
	for n in 3 4 5 6 7 8 9; do
		PMI_FD=$n run -0 bash -c "exec $n<&-; mlrun exec --unset-env NONE -e PMI_FD=$n pmi sh -c 'ls -l /proc/self/fd'"
		refute_output --regexp "$MLRUN_STORE"
	done
}

# --- environment ---------------------------------------------------------------------------

@test "exec: the environment is caller's, then image's, then files', then options'" {
	printf '# c\nA=file\nB=file\n' >env
	A=caller B=caller C=caller TINY=caller PYTHONPATH=/x LD_LIBRARY_PATH=/y \
		run -0 mlrun exec --env-file env -e B=option -e C "$IMG" env
	assert_line A=file
	assert_line B=option
	assert_line C=caller
	assert_line TINY=yes
	assert_line PATH=/bin:/usr/bin
	assert_line PYTHONNOUSERSITE=1
	refute_output --partial PYTHONPATH
	refute_output --partial LD_LIBRARY_PATH=/y
	printf 'A=#one\ntwo\0B=\0' >raw # as env -0 prints
	run -0 mlrun exec --env-file raw "$IMG" sh -c 'echo "$A.$B."'
	assert_output $'#one\ntwo..'
}

@test "exec: certificates that the caller's variables name are in the container, and the site's" {
	# Any file that no mount brings.
	local file=/etc/os-release other=/etc/debian_version

	[ -r "$other" ] || skip "no $other here"
	without_certificates
	SSL_CERT_FILE=$file PIP_CERT=$other run -0 in_tiny sh -c 'cat $SSL_CERT_FILE $PIP_CERT; echo ${CURL_CA_BUNDLE-none}'
	assert_output "$(cat "$file" "$other")"$'\nnone'
	SSL_CERT_FILE=$file run -0 mlrun exec --read-only "$IMG" sh -c 'cat $SSL_CERT_FILE'
	assert_output "$(cat "$file")"
	# What is mounted, missing, or given for the inside stays as it is.
	cp "$file" own.pem
	SSL_CERT_FILE=$PWD/own.pem PIP_CERT=/none/x run -0 mlrun exec -e GIT_SSL_CAINFO=$other "$IMG" \
		sh -c 'echo $SSL_CERT_FILE $PIP_CERT $GIT_SSL_CAINFO; cat $SSL_CERT_FILE >/dev/null'
	assert_output "$PWD/own.pem /none/x $other"

	printf '[exec]\nca = %s\n' "$file" >conf
	MLRUN_CONFIG=$PWD/conf PIP_CERT=$other run -0 in_tiny sh -c 'cat $REQUESTS_CA_BUNDLE $PIP_CERT'
	assert_output "$(cat "$file" "$other")"
	printf '[exec]\nca = /none.pem\n' >conf
	MLRUN_CONFIG=$PWD/conf run -0 in_tiny sh -c 'echo ${SSL_CERT_FILE-none}'
	assert_output none
	MLRUN_CONFIG=$PWD/conf run -0 mlrun exec --explain "$IMG"
	assert_output --partial "no certificates: '/none.pem' cannot be read"
}

@test "exec: an Entrypoint of one empty string is none" {
	run -0 mlrun exec "$REGISTRY/hollow"
	assert_output ran
}

@test "exec: --clearenv drops the caller's variables, but the batch system's and MPI's" {
	needs_ordinary_user
	SECRET=x SLURM_PROCID=3 PBS_JOBID=7 PMIX_RANK=3 run -0 mlrun exec --clearenv "$IMG" env
	refute_output --partial SECRET
	assert_line SLURM_PROCID=3
	assert_line PBS_JOBID=7
	assert_line PMIX_RANK=3
	assert_line TINY=yes
	assert_line "HOME=$HOME"
}

@test "exec: a TMPDIR that is not mounted is not passed on" {
	mkdir -p "$HOME/scratch"
	TMPDIR=/proc run -0 in_tiny sh -c 'echo "[$TMPDIR]"'
	assert_output "[/proc]"
	TMPDIR=$HOME/scratch run -0 in_tiny sh -c 'echo "[$TMPDIR]"'
	case $HOME in /tmp/*) ;; *) assert_output "[]" ;; esac
}

@test "exec: a rank of an MPI job does not use cross-memory attach" {
	PMIX_RANK=0 run -0 in_tiny sh -c 'echo $OMPI_MCA_btl_vader_single_copy_mechanism'
	assert_output none
	run -0 in_tiny sh -c 'echo "[$OMPI_MCA_btl_vader_single_copy_mechanism]"'
	assert_output "[]"
}

# --- telling -----------------------------------------------------------------------------------

@test "exec: a prefix or search path of the host's that leads nowhere in the image is not passed on" {
	local -a host=(OPAL_PREFIX=/opt/hpcx OMPI_MCA_mca_base_component_path=/opt/a:/opt/b CUDA_HOME=/usr/local/cuda-99
		FI_PROVIDER_PATH=/opt/libfabric PROJ_LIB=/opt/proj MKLROOT=/opt/mkl)
	local name
	run -0 env "${host[@]}" mlrun exec "$IMG" env
	for name in "${host[@]}"; do refute_line "$name"; done
	run -0 env "${host[@]}" mlrun exec --explain "$IMG" env
	for name in "${host[@]}"; do assert_output --partial "${name%%=*}"; refute_line "$name"; done
	# In the image, mounted, given, relative, or of no known kind.
	mkdir hpcx
	run -0 env OPAL_PREFIX="$PWD/hpcx" CUDA_HOME=/bin FI_PROVIDER_PATH=/opt/none:/etc PROJ_LIB=lib MY_DATA=/opt/mine \
		mlrun exec -v "$PWD/hpcx" -e MKLROOT=/opt/mkl "$IMG" env
	for name in OPAL_PREFIX="$PWD/hpcx" CUDA_HOME=/bin FI_PROVIDER_PATH=/opt/none:/etc PROJ_LIB=lib MY_DATA=/opt/mine MKLROOT=/opt/mkl; do
		assert_line "$name"
	done
	HF_HOME=/scratch/hf run -0 mlrun exec --verbose "$IMG" true
	assert_output --partial "HF_HOME: '/scratch/hf' is not mounted"
	touch "$HOME/.Xauthority"
	DISPLAY=:0 XAUTHORITY='' run -0 mlrun exec --explain "$IMG" true
	assert_output --partial "DISPLAY: the X server's cookie '$HOME/.Xauthority' is not mounted"
	DISPLAY=:0 run -0 mlrun exec --explain -v "$HOME/.Xauthority" "$IMG" true
	refute_output --partial cookie
	DISPLAY=:0 XAUTHORITY=/nowhere/cookie run -0 mlrun exec "$IMG" sh -c 'echo "$DISPLAY${XAUTHORITY-unset}"'
	assert_output :0unset
}

@test "exec: a locale that the image lacks becomes C.UTF-8, of which no rank's shell complains" {
	local -a given=(LANG=de_DE.UTF-8 LC_ALL=en_US LC_TIME=POSIX LC_COLLATE=C LC_NUMERIC=C.utf8 LC_MINE=de_DE.UTF-8)
	run -0 env "${given[@]}" mlrun exec "$IMG" env
	assert_line LANG=C.UTF-8
	assert_line LC_ALL=C.UTF-8
	for name in "${given[@]:2}"; do assert_line "$name"; done
	run -0 env "${given[@]}" mlrun exec --explain "$IMG" env
	assert_line --partial "LANG=C.UTF-8   (instead of caller's 'de_DE.UTF-8'"
	# Given by hand, in a directory of its own, in the archive.
	run -0 env "${given[@]}" mlrun exec -e LANG=de_DE.UTF-8 "$IMG" env
	assert_line LANG=de_DE.UTF-8
	mkdir -p locale/de_DE.utf8 archive
	run -0 env "${given[@]}" mlrun exec -v ./locale:/usr/lib/locale "$IMG" env
	assert_line LANG=de_DE.UTF-8
	assert_line LC_ALL=C.UTF-8
	touch archive/locale-archive
	run -0 env "${given[@]}" mlrun exec -v ./archive:/usr/lib/locale "$IMG" env
	for name in "${given[@]}"; do assert_line "$name"; done
}

@test "exec: --explain tells every mount and variable with its origin and runs nothing" {
	mkdir data
	TINY=mine run -0 mlrun exec --explain -v ./data:/d:ro -e X=1 "$REGISTRY/tiny" touch ran
	[ ! -e ran ]
	assert_line --regexp '^  user +bind +.*/data -> /d ro   \(made\)$'
	assert_line --regexp '^  default +bind +/proc -> /proc   '
	assert_line --regexp "^  image +TINY=yes   \(instead of caller's 'mine'\)$"
	assert_line --regexp '^  user +X=1$'
	assert_line --regexp 'linux/'
	assert_line --regexp 'layers/[0-9a-f]{64}/tree'
	run -0 mlrun exec --explain "$REGISTRY/entry"
	assert_line --regexp "User '1234' is not obeyed"
	assert_line --regexp '^command +\(image\) /bin/echo entry cmd$'
}

@test "exec: where user namespaces are forbidden, the setting and the way out are named" {
	run -125 unshare -Ur sh -c "echo 0 >/proc/sys/user/max_user_namespaces; exec $(command -v mlrun) exec '$IMG' true"
	assert_output --partial "create user and mount namespaces: No space left on device"
	assert_output --partial "hint: user.max_user_namespaces is 0"
	assert_output --partial "sysctl -w user.max_user_namespaces="
}

@test "exec: a plain directory is an image by rootfs:PATH" {
	tiny_root root
	run -0 mlrun exec rootfs:root sh -c 'echo from $0'
	assert_output "from sh"
	run -125 mlrun exec rootfs:no/such true
	assert_output --partial "root directory 'no/such': No such file or directory"
	run -125 mlrun exec rootfs:/etc/passwd true
	assert_output --partial "is not a directory"
}

@test "exec: links of the image do not lead the set-up outside" {
	tiny_root root
	rm -rf root/etc/hosts root/etc/resolv.conf
	ln -s "$BATS_TEST_TMPDIR/outside" root/etc/resolv.conf
	ln -s "../../../../../../../../../$BATS_TEST_TMPDIR/outside2" root/etc/hosts
	ln -sf "$BATS_TEST_TMPDIR/outside4" root/etc/passwd
	run -0 mlrun exec -w / rootfs:root true
	run -2 ls "$BATS_TEST_TMPDIR"/outside*
}

@test "exec: 64 containers start at once" {
	local i
	for ((i = 0; i < 64; i++)); do in_tiny sh -c 'echo ok' & done >all
	wait
	[ "$(grep -c ok all)" -eq 64 ]
}
