#!/usr/bin/env bats
# Apptainer's command line. Most images are directories, which start where /dev/fuse is closed.

load common
load fake

setup_file() {
	local applet d=$BATS_FILE_TMPDIR/img

	mkdir -p "$d"/{bin,etc,tmp,opt,.singularity.d/env}
	cp "$(command -v busybox)" "$d/bin/busybox"
	for applet in sh cat echo env id ls mkdir ps pwd readlink sleep stat test touch tty kill; do ln -s busybox "$d/bin/$applet"; done
	echo '{"org.x.a": "b"}' >"$d/.singularity.d/labels.json"
	echo 'Bootstrap: docker' >"$d/.singularity.d/Singularity"
	echo 'help of it' >"$d/.singularity.d/runscript.help"
	echo 'export A=image ONLY=1 PATH="/opt/image:$PATH"' >"$d/.singularity.d/env/90-environment.sh"
	printf '#!/bin/sh\necho "runscript $A" "$@"\n' >"$d/.singularity.d/runscript"
	printf '#!/bin/sh\necho started "$@"; exec sleep 1000\n' >"$d/.singularity.d/startscript"
	printf '#!/bin/sh\necho tested; exit 3\n' >"$d/.singularity.d/test"
	chmod +x "$d"/.singularity.d/{runscript,startscript,test}
	fake_layout
}

setup() {
	common_setup
	PATH=$top_builddir/bin/apptainer:$PATH
	mkdir "$BATS_TEST_TMPDIR/work"
	cd "$BATS_TEST_TMPDIR/work" || return
	cp -r "$BATS_FILE_TMPDIR/img" img
	printf 'x\ny\n' >file
}

@test "apptainer: exec, run, shell and test start what the image has; its status is the command's" {
	run -0 apptainer exec img echo a 'b c'
	assert_output "a b c"
	run -0 apptainer run img 1 '2 3'
	assert_output "runscript image 1 2 3"
	run -3 apptainer test img
	assert_output tested
	run -0 apptainer shell img -c 'echo $0 $PS1; readlink /proc/$$/exe'
	assert_line --index 0 "/bin/sh Apptainer>"
	run -7 apptainer exec img sh -c 'exit 7'
	run -137 apptainer exec img sh -c 'kill -9 $$'
	run -127 apptainer exec img /nothere
	# A runscript that names no shell is sh's.
	rm -r img/.singularity.d/env
	echo 'echo "plain $0" "$@"' >img/.singularity.d/runscript
	run -0 apptainer run img a
	assert_output "plain /.singularity.d/runscript a"
	echo 'echo plain test' >img/.singularity.d/test
	run -0 apptainer test img
	assert_output "plain test"
	run -0 singularity exec img echo same
	assert_output same
	run -0 mlrun apptainer exec img echo same
	assert_output same
	# Words after the image are the command's, whatever they look like.
	run -0 apptainer exec img echo --nv -B -- x
	assert_output -- "--nv -B -- x"
}

@test "apptainer: where mlrun fails the status is 255, with one line and the way that works; 1 for a line that cannot be read" {
	local want command

	while read -r want command; do
		run --separate-stderr bash -c "$command"
		assert_equal "$command:$status" "$command:$want"
		assert_equal "$command:$output" "$command:"
		[[ ${stderr_lines[0]} == @(mlrun|apptainer)*:* && ${stderr_lines[1]} == @(hint:|Try )* ]] || fail "$command: $stderr"
	done <<-'END'
		255 apptainer exec nothere.sif ls
		255 apptainer exec library://x/y ls
		255 apptainer exec -B /nothere img ls
		255 apptainer exec --fusemount x img ls
		255 apptainer exec --network bridge img ls
		255 apptainer exec --overlay nothere img ls
		1 apptainer exec --nonsense img ls
		255 apptainer nonsense
		255 apptainer verify x.sif
		255 apptainer push x.sif oras://a/b
		1 apptainer instance start img
		1 apptainer instance stop nothere
		1 apptainer instance stop
		255 apptainer pull file docker://debian
		255 apptainer build file docker://debian
		255 apptainer build --remote new.sif x.def
		1 apptainer exec img
		1 apptainer exec
		1 apptainer exec instance://x
		255 apptainer exec instance://nothere true
		1 apptainer pull
		1 apptainer build one two three
		1 apptainer inspect --nonsense img
		255 apptainer exec --no-mount nonsense img ls
		255 apptainer exec -B img:/x:bad img ls
	END
	assert_equal "$(cat file)" $'x\ny'
	run -255 apptainer exec --writable img/bin/busybox ls
	for command in "--overlay file" "--overlay nothere:ro"; do
		run -255 apptainer exec $command img ls
		command=${command%:ro}
		assert_line --partial "--overlay '${command#* }'"
		assert_line --regexp '^hint: (debugfs|it takes a directory)'
	done
	run -125 mlrun exec --expand-env nonsense nothere ls
	run -255 apptainer exec --bind img:/x:image-src=/ img ls
	assert_output --partial "use ro or rw"
}

@test "apptainer: the root is read-only; home, working directory and /tmp are the caller's, /dev the host's" {
	mkdir dir
	cd dir
	run ! apptainer exec ../img touch /new
	assert_output --partial "Read-only file system"
	run -0 apptainer exec ../img sh -c 'pwd; echo $HOME; touch $HOME/a here; ls /dev | grep -c . ; ls /etc/passwd'
	assert_line "$PWD"
	assert_line "$HOME"
	[ -e "$HOME/a" ] && [ -e here ]
	run -0 apptainer exec --writable-tmpfs ../img touch /new
	[ ! -e ../img/new ]
	run -0 apptainer exec -w ../img touch /new
	[ -e ../img/new ]
	mkdir ov
	apptainer exec --overlay ov ../img touch /kept
	run -0 apptainer exec --overlay ov ../img ls /kept
	run ! apptainer exec ../img ls /kept
	# Overlays to be read: a later one lies above, and below the one that is written to.
	mkdir -p two plain
	touch plain/plain
	apptainer exec --overlay two ../img sh -c 'echo 2 >/kept; echo 2 >/second'
	run -0 apptainer exec --overlay ov:ro,two:ro -o plain:ro ../img sh -c 'cat /kept /second; ls /plain; ! touch /n'
	assert_output --partial $'2\n2\n/plain'
	assert_output --partial "Read-only"
	run -0 apptainer exec -o ov -o two:ro ../img sh -c 'cat /kept /second; touch /n'
	assert_output 2
	[ -e ov/upper/n ] && [ ! -e two/upper/n ]
	run -255 apptainer exec -o ov -o two ../img true
	assert_line --partial "--overlay two:ro"
	# A directory that the container lacks gives way to home.
	run -0 apptainer exec --pwd /nothere ../img pwd
	assert_output "$HOME"
	run -0 apptainer exec --pwd /etc ../img pwd
	assert_output /etc
	run -0 bash -c 'cd /opt && apptainer exec "$1" pwd' sh "$PWD/../img"
	assert_output /opt
	# Open descriptors are passed on, and scripts do not move the command.
	run -0 bash -c 'apptainer exec ../img cat <(echo from here)'
	assert_output "from here"
	echo 'cd /etc' >../img/.singularity.d/env/95-cd.sh
	run -0 apptainer exec ../img pwd
	assert_output "$PWD"
	cd /usr/share
	run -0 apptainer exec "$BATS_TEST_TMPDIR/work/img" pwd
	assert_output "$HOME"
	# The root of a fake root has the caller's home.
	run -0 apptainer exec -f "$BATS_TEST_TMPDIR/work/img" sh -c 'id -u; echo $HOME; ls -a /root'
	assert_line 0
	assert_line /root
	assert_line a
}

@test "apptainer: --writable leaves no mount point and no file of the machine's in the directory" {
	local was

	mkdir -p img/{proc,sys,dev,home,srv,var/tmp} data
	echo 'x:x:5:5:::' | tee img/etc/passwd >img/etc/hosts
	touch data/d
	was=$(find img | sort; cat img/etc/*)
	# The caller's home is over an empty directory, others are not there.
	run -0 env HOME="$PWD/data" apptainer exec -w -B data:/srv/deep/er img sh -c 'ls /srv/deep/er; id -un; pwd'
	assert_line d
	assert_line "$(id -un)"
	assert_line "$PWD"
	run -0 env HOME=/usr/share/doc apptainer exec -w --pwd /nothere img sh -c 'pwd; cat /etc/hosts'
	assert_line /
	assert_line --partial "$(head -n 1 /etc/hosts)"
	assert_equal "$(find img | sort; cat img/etc/*)" "$was"
	touch img/srv/full
	run -255 apptainer exec -w -B data:/srv/x img true
	assert_line --regexp "^hint: mkdir -p '.*/img/srv/x'"
	[ ! -e img/srv/x ]
}

@test "apptainer: --bind takes a path, several, ro, escapes; relative sources; a missing target is made" {
	mkdir -p src 'a,b' 'c:d'
	touch src/here 'a,b/comma' 'c:d/colon'
	run -0 apptainer exec -B src:/one,"$PWD/src":/two/three:ro img sh -c 'ls /one /two/three; touch /one/new; touch /two/three/no || true'
	assert_line --partial "Read-only"
	[ -e src/new ] && [ ! -e src/no ]
	run -0 apptainer exec --bind 'a\,b:/x,c\:d:/y' img ls /x /y
	assert_line comma
	assert_line colon
	run -0 apptainer exec -B ",src:/x,," -B '' img ls /x
	# A working directory below a bind is looked for where it comes from.
	mkdir -p src/sub
	run -0 apptainer exec -B src:/elsewhere --pwd /elsewhere/sub img pwd
	assert_output /elsewhere/sub
	run -0 apptainer exec -B src:/elsewhere --pwd /elsewhere/nothere img pwd
	assert_output "$HOME"
	run -0 apptainer exec -B"$PWD/src:/x" --mount "type=bind,src=$PWD/src,dst=/z,ro" img ls /x /z
	assert_line /z:
	run -0 env APPTAINER_BIND="$PWD/src:/v" SINGULARITY_BIND=/nothere apptainer exec -B src:/w img ls -d /v /w
	assert_line /v
	# Of two with one target the first counts; a variable's is a later one, as is that of --mount.
	mkdir other
	run -0 env APPTAINER_BIND="$PWD/other:/v" apptainer exec --mount "type=bind,src=$PWD/other,dst=/v" -B src:/v,other:/v img ls /v
	assert_line here
	assert_line --partial "'/v' is mounted already: '$PWD/other' is left out"
	run -0 env SINGULARITY_BINDPATH="$PWD/src:/v" apptainer exec img sh -c 'ls -d /v; echo $APPTAINER_BIND'
	assert_line "$PWD/src:/v"
}

@test "apptainer: variables: the caller's, the image's, APPTAINERENV_, --env-file and --env, in this order" {
	export A=caller MINE=caller LD_LIBRARY_PATH=/host PYTHONPATH=/etc CONDA_PREFIX=/nothere APPTAINER_FOO=1
	show() { apptainer exec "$@" img sh -c 'echo "$A|$MINE|$LD_LIBRARY_PATH|$PYTHONPATH|$CONDA_PREFIX$APPTAINER_FOO"'; }
	assert_equal "$(show)" "image|caller||/etc|"
	assert_equal "$(SINGULARITYENV_A=s show)" "s|caller||/etc|"
	run -0 env SINGULARITYENV_A=s APPTAINERENV_A=a apptainer exec img sh -c 'echo $A'
	assert_line a
	assert_line --partial "SINGULARITYENV_A differs"
	printf '# c\nH=host\nexport A="file $H"\nMINE='"'"'$x'"'"' # note\nLINES="a\nb" X=1; Y=2\ntouch made; Z="$(touch made)`touch made`"\n' >vars
	assert_equal "$(APPTAINERENV_A=a show --env-file vars)" 'file host|$x||/etc|'
	run -0 apptainer exec --env-file vars img sh -c 'echo "$LINES|$X$Y|$Z"'
	assert_line --index 1 'b|12|$(touch made)`touch made`'
	[ ! -e made ]
	# Of a stranger's file nothing is run, whatever it is hidden in.
	cat >stranger <<-'END'
		A=\$(touch made) B=\\$(touch made) C="\`touch made`" D=${A:-$(touch made)} E=${ touch made; } F='\'$(touch made) G=$ONLY'$(touch made)'
		H="x\"$ONLY;touch made" I="a\b" J=\\$ONLY
	END
	run -0 apptainer exec --env-file stranger img sh -c 'echo "$G|$H|$I|$J"'
	assert_line --index 0 '1$(touch made)|x"1;touch made|a\b|\1'
	[ ! -e made ]
	assert_equal "$(show --env-file vars --env A=env,MINE=1,2)" "env|1,2||/etc|"
	assert_equal "$(APPTAINERENV_LD_LIBRARY_PATH=/l show)" "image|caller|/l:/.singularity.d/libs|/etc|"
	assert_equal "$(apptainer exec --env 'A=$ONLY-"x"-`echo q`' img sh -c 'echo "$A"')" '1-"x"-q'
	assert_equal "$(apptainer exec --no-eval --env 'A=$ONLY' img sh -c 'echo "$A"')" '$ONLY'
	assert_equal "$(APPTAINERENV_PREPEND_PATH=/pre APPTAINERENV_APPEND_PATH=/post apptainer exec img sh -c 'echo "$PATH"')" \
		"/pre:/opt/image:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/post"
	assert_equal "$(APPTAINERENV_PATH=/bin:/own apptainer exec img sh -c 'echo "$PATH"')" /bin:/own
	run -0 env APPTAINERENV_HOME=/x apptainer exec img sh -c 'echo $HOME'
	assert_line "$HOME"
	assert_line --partial "--home DIR"
	# What is no name for shells passes them by; what bash exports is a function's.
	run -0 env 'a.b=x $ONLY "q"' 'BASH_FUNC_f%%=() { echo f; }' 'c;touch /tmp/made=1' apptainer exec img env
	assert_line 'a.b=x $ONLY "q"'
	assert_line 'BASH_FUNC_f%%=() { echo f; }'
	assert_line 'c;touch /tmp/made=1'
	refute_line --partial _mlrun_
	[ ! -e /tmp/made ]
	# A name that no shell has does not reach one.
	run -0 env 'APPTAINERENV_A;touch /tmp/made=$ONLY' apptainer exec img sh -c 'echo $A; ls /tmp'
	refute_line made
	# Nothing of the way is left.
	run -0 apptainer exec --env 'A=$ONLY' img env
	refute_line --partial _mlrun_
	assert_line A=1
	assert_line APPTAINER_CONTAINER="$PWD/img"
	assert_line SINGULARITY_NAME=img
	assert_line APPTAINER_COMMAND=exec
	run -0 apptainer exec img/ sh -c 'echo $APPTAINER_NAME'
	assert_output img
}

@test "apptainer: --cleanenv keeps the job's, proxies and TERM; every option has a variable" {
	export MINE=1 SLURM_JOB_ID=77 http_proxy=http://p TERM=vt100
	run -0 apptainer exec -e --env B=2 img env
	refute_line MINE=1
	for line in SLURM_JOB_ID=77 http_proxy=http://p TERM=vt100 LANG=C B=2 A=image; do assert_line $line; done
	run -0 env SINGULARITY_CLEANENV=1 APPTAINER_WRITABLE_TMPFS=yes APPTAINER_NV=false apptainer exec img sh -c 'touch /x; env'
	refute_line MINE=1
	refute_line --partial GPU
	run -0 env APPTAINER_PWD=/etc apptainer exec --pwd /opt img pwd
	assert_output /opt
	# A switch may be taken back, on the command line and from a variable.
	touch "$HOME/mine"
	run -0 --separate-stderr env APPTAINER_CONTAIN=1 apptainer exec --contain=false --nv=false --fakeroot=FALSE --writable-tmpfs=true img \
		sh -c 'ls -A $HOME; touch /x; id -u'
	assert_line mine
	assert_line "$(id -u)"
	assert_equal "$stderr" ""
	run -0 env APPTAINER_PWD=/etc apptainer exec img pwd
	assert_output /etc
}

@test "apptainer: --contain has an empty home, /tmp and few devices; --containall its own PIDs; --workdir keeps them" {
	touch "$HOME/mine"
	run -0 apptainer exec -c img sh -c 'ls -A $HOME /tmp; ls /dev | grep -c sd; echo $MINE; pwd'
	refute_line mine
	run -0 env MINE=1 apptainer exec -C img sh -c 'echo "[$MINE]"; ps | grep -c "sh -c"; ls -d /proc/[0-9]* | wc -l'
	assert_line "[]"
	run -0 apptainer exec -c -W "$PWD" -S /scratch/s,/scratch/t img sh -c 'touch $HOME/h /tmp/t /var/tmp/v /scratch/s/s /scratch/t/t'
	[ ! -e home ] && [ -e tmp/t ] && [ -e var_tmp/v ] && [ -e scratch/s/s ]
	run -0 apptainer exec -H "$PWD:/myhome" img sh -c 'echo $HOME; grep -c :/myhome: /etc/passwd; cat /myhome/file'
	assert_line --index 0 /myhome
	assert_line x
	run -0 apptainer exec --no-home img sh -c 'ls -A $HOME'
	assert_output ""
	touch /tmp/host-$$
	run -0 apptainer exec --no-mount tmp,home img ls -A /tmp "$HOME"
	refute_line mine
	refute_line host-$$
	rm /tmp/host-$$
	run -0 apptainer exec --no-mount sys,bind-paths --no-mount hostfs,devpts img sh -c 'ls /sys /etc/hosts; ls -d /dev/null /proc/1'
	assert_output --partial $'/dev/null\n/proc/1'
	assert_line --partial /sys:
	assert_line --partial /etc/hosts:
	run ! apptainer exec --no-mount proc,dev img ls -d /dev/null /proc/1
	assert_line --partial /dev/null:
	assert_line --partial /proc/1:
	mkdir /tmp/elsewhere-$$
	cd /tmp/elsewhere-$$
	run -0 apptainer exec --no-mount cwd,tmp "$BATS_TEST_TMPDIR/work/img" sh -c 'pwd'
	assert_output "$HOME"
	rmdir /tmp/elsewhere-$$
}

@test "apptainer: --nv without a GPU says so in a line and runs; without --nv there is none" {
	run -0 --separate-stderr apptainer exec --nv img echo ran
	assert_output ran
	assert_equal "$stderr" "mlrun: this machine or job has no GPU: the command starts without"
	run -0 apptainer exec --explain --rocm img true
}

@test "apptainer: pull writes a SIF file of an image in a registry; exec of docker:// runs it, its Entrypoint on run" {
	registry_start
	rm -r img/.singularity.d
	layer_tar tiny.tar img/bin/..
	image_push_tar -c --config.entrypoint -c /bin/echo -c --config.entrypoint -c entry -c --config.cmd -c cmd \
		-c --config.env -c A=oci -c --config.workingdir -c /etc tiny tiny.tar
	export APPTAINER_NOHTTPS=1
	run -0 apptainer pull "docker://$REGISTRY/tiny:latest"
	[ -x tiny_latest.sif ]
	run -255 apptainer pull "docker://$REGISTRY/tiny"
	assert_line --partial "tiny_latest.sif' exists"
	run -0 apptainer pull -F --dir img other.sif "docker://$REGISTRY/tiny"
	cmp tiny_latest.sif img/other.sif
	run -0 apptainer exec "docker://$REGISTRY/tiny" /bin/busybox sh -c 'pwd; echo $A'
	assert_output "$PWD"$'\noci'
	run -0 apptainer run "docker://$REGISTRY/tiny"
	assert_output "entry cmd"
	run -0 apptainer run "docker://$REGISTRY/tiny" a b
	assert_output "entry a b"
	run -0 apptainer build --sandbox box "docker://$REGISTRY/tiny"
	[ -e box/bin/busybox ]
	run -255 apptainer pull "docker://$REGISTRY/nothere"
	# library:// is where the setting says.
	mkdir -p "$HOME/.config/mlrun"
	printf '[apptainer]\nlibrary = %s\n' "$REGISTRY" >>"$HOME/.config/mlrun/mlrun.conf"
	run -0 apptainer pull lib.sif library://tiny:latest
	cmp tiny_latest.sif lib.sif
	run -0 apptainer exec library://tiny /bin/busybox echo lib
	assert_output lib
	[ ! -e nothere_latest.sif ]
	registry_stop
}

@test "apptainer: pull logs in by APPTAINER_DOCKER_USERNAME, which no other registry and no argument gets" {
	fake --auth bearer --user 'ann:se cret'
	export APPTAINER_NOHTTPS=1
	run -255 apptainer pull x.sif "docker://$registry/x:v1"
	APPTAINER_DOCKER_USERNAME=ann APPTAINER_DOCKER_PASSWORD=wrong run -255 apptainer pull x.sif "docker://$registry/x:v1"
	APPTAINER_DOCKER_USERNAME=ann APPTAINER_DOCKER_PASSWORD=$'\xff' run -255 apptainer pull x.sif "docker://$registry/x:v1"
	assert_line --partial "APPTAINER_DOCKER_USERNAME and _PASSWORD"
	export SINGULARITY_DOCKER_USERNAME=ann SINGULARITY_DOCKER_PASSWORD='se cret'
	run -0 strace -f -e trace=execve -e signal=none -s 2000 -o calls apptainer pull x.sif "docker://$registry/x:v1"
	[ -e x.sif ]
	refute_output --partial "se cret"
	run ! grep -q 'execve(.*"[^"]*se cret' <(sed 's/, 0x.*//' calls)
	grep -q "account=ann auth=Basic_" "$log"
}

@test "apptainer: instances start, are listed, entered and stopped; a second start of a name fails" {
	run -0 apptainer instance start --bind file:/f img web one
	until_true eval 'mlrun logs web | grep -q "started one"'
	run -255 apptainer instance start img web
	# It would not be found again.
	run -255 apptainer instance start -w img changed
	assert_line --partial "--writable: a container in the background"
	run -0 apptainer instance list
	assert_line --regexp "^INSTANCE NAME +PID +IP +IMAGE$"
	assert_line --regexp "^web +[0-9]+ .*img$"
	run -0 bash -c 'apptainer instance list --json | jq -r ".instances[] | .instance, .img"'
	assert_line --index 0 web
	mkdir sub && cd sub
	run -0 env MINE=2 A=3 apptainer exec --env 'Q=$ONLY-"q"' instance://web sh -c 'cat /f; echo "$Q $MINE $A $PATH"; pwd; ps; set'
	assert_line x
	assert_line '1-"q" 2 image /opt/image:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
	assert_line "$PWD"
	refute_output --partial _mlrun_Q
	cd ..
	assert_line --partial "sleep 1000"
	run -0 env MINE=2 apptainer exec -e --pwd /etc instance://web sh -c 'echo "[$MINE] $A"; pwd'
	assert_output '[] image'$'\n/etc'
	run -0 apptainer exec --pwd /nothere instance://web pwd
	assert_output "$HOME"
	run -0 apptainer run instance://web again
	assert_output "runscript image again"
	run -0 --separate-stderr apptainer instance.start img two
	assert_output ''
	run -0 apptainer exec instance://two sh -c 'echo $APPTAINER_INSTANCE'
	assert_output two
	run -0 apptainer instance stop 'w*'
	run -0 apptainer instance list
	refute_line --partial web
	assert_line --partial two
	run -0 apptainer instance stop -a
	run -0 apptainer instance list
	refute_line --partial two
	until_true eval '! mlrun ps -a | grep -qE " (web|two) "'
}

@test "apptainer: inspect prints labels, definition, scripts and JSON; run-help the help" {
	run -0 apptainer inspect img
	assert_output "org.x.a: b"
	run -0 apptainer inspect -d img
	assert_output "Bootstrap: docker"
	run -0 apptainer inspect -r -e img
	assert_line --partial "runscript"
	assert_line "=== /.singularity.d/env/90-environment.sh ==="
	assert_line --partial "export A=image"
	run -0 bash -c 'apptainer inspect -e -j img | jq -r ".data.attributes.environment[\"/.singularity.d/env/90-environment.sh\"]"'
	assert_line --partial "export A=image"
	run -255 apptainer inspect file
	run -0 bash -c 'apptainer inspect --all img | jq -r .data.attributes.test'
	assert_line --index 1 'echo tested; exit 3'
	run -0 bash -c 'apptainer inspect --json -l -H img | jq -c .data.attributes'
	assert_output '{"labels":{"org.x.a":"b"},"helpfile":"help of it\n"}'
	run -0 apptainer run-help img
	assert_output "help of it"
	run -0 apptainer --version
	assert_output "mlrun's apptainer version 1.3.0"
	run -0 apptainer --help
	assert_line --partial "instance"
}

@test "apptainer: build makes a SIF file or a directory by a definition file; --build-arg, -B; an old file stays without -F" {
	printf 'Bootstrap: localimage\nFrom: img\n%%post\necho {{ V }} >/v; cat /b/file >>/v\n%%runscript\ncat /v\n' >x.def
	run -0 apptainer build --build-arg V=5 -B "$PWD:/b" x.sif x.def
	run -0 apptainer inspect -r x.sif
	run -255 apptainer build --build-arg V=6 -B "$PWD:/b" x.sif x.def
	run -0 apptainer build -F --fakeroot --build-arg V=6 -B "$PWD:/b" x.sif x.def
	run -0 apptainer build --sandbox --build-arg V=7 -B "$PWD:/b" box x.def
	run -0 apptainer run box
	assert_output $'7\nx\ny'
	run -255 apptainer build --sandbox --build-arg V=7 box x.def
	# A directory becomes a file, a file a directory, an archive both.
	touch box/changed
	run -0 apptainer build y.sif box
	run -0 apptainer build --sandbox again y.sif
	[ -e again/changed ]
	assert_equal "$(apptainer run again)" $'7\nx\ny'
	run -255 apptainer build z.sif y.sif
	# An image's file is what another begins with.
	printf 'Bootstrap: localimage\nFrom: y.sif\n%%post\necho more >>/v\n' >more.def
	run -0 apptainer build --sandbox more more.def
	assert_equal "$(apptainer run more)" $'7\nx\ny\nmore'
	run ! ls "$MLRUN_STORE"/tmp/*image*
	# What is not whole does not appear.
	truncate -s $(($(stat -c %s y.sif) - 3000)) y.sif
	run -255 apptainer build --sandbox part y.sif
	[ ! -e part ]
	mkdir stub
	printf '#!/bin/sh\nmkdir -p "$6/half"; touch began; [ ! -e wait ] || exec sleep 100; exit 2\n' >stub/unsquashfs
	chmod 755 stub/unsquashfs
	apptainer build y2.sif box
	PATH=$PWD/stub:$PATH run -255 apptainer build --sandbox part y2.sif
	assert_line --partial "build 'part': unsquashfs ended with status 2"
	touch wait
	rm began
	PATH=$PWD/stub:$PATH apptainer build --sandbox part y2.sif &
	until_true test -e began
	kill $!
	status=0
	wait $! || status=$?
	assert_equal "$status" 143
	assert_equal "$(find . -maxdepth 1 -name '*part*')" ""
	run -255 apptainer build -u new.sif x.def
	assert_line --partial "a build begins anew"
	run -0 apptainer build -F --tmpdir /tmp --build-arg V=6 -B ",$PWD:/b," x.sif x.def
	run -255 apptainer build z.sif docker-archive:nothere.tar
	[ ! -e z.sif ]
	needs_fuse
	run -0 apptainer run x.sif
	assert_output $'6\nx\ny'
	# A SIF file starts by its first line.
	run -0 env PATH="$top_builddir/bin/apptainer:$PATH" ./x.sif
	assert_output $'6\nx\ny'
}

# Scripts' lines, in which both names of the command stand.
@test "apptainer: of 100 command lines as scripts have them, each runs or is refused" {
	local want line n=0 bad=0

	registry_start
	cp -r img image.sif
	printf '#!/bin/sh\necho python\n' >image.sif/bin/python
	printf '#!/bin/sh\nexec sh "$@"\n' >image.sif/bin/bash
	for applet in cp hostname true; do ln -sf busybox image.sif/bin/$applet; done
	chmod 755 image.sif/bin/python image.sif/bin/bash
	rm -r img/.singularity.d
	layer_tar tiny.tar img
	image_push_tar -c --config.cmd -c /bin/echo tiny tiny.tar
	mkdir data out tmp 'with blank'
	echo a >data/a.csv
	echo in >in.txt
	printf 'GREETING="hello world"\nexport N=1\n' >vars.env
	printf '#!/bin/sh\necho "$@"\n' >script.sh
	chmod 755 script.sh
	printf 'Bootstrap: localimage\nFrom: img\n%%post\necho 1 >/made\n' >simple.def
	export APPTAINER_NOHTTPS=1 R=$REGISTRY
	while read -r want line; do
		[ "$want" != '#' ] || continue
		n=$((n + 1))
		status=0
		output=$(bash -c "$line" </dev/null 2>&1) || status=$?
		[ "$status" = "$want" ] || { bad=$((bad + 1)); echo "$status instead of $want: $line: $output"; }
	done <"$top_srcdir/tests/data/apptainer/lines"
	registry_stop
	[ "$n" -ge 100 ]
	[ "$bad" -eq 0 ]
}
