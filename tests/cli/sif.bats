#!/usr/bin/env bats
# SIF files and what Apptainer keeps in its images. Some are made by siftool(1), those of strangers by sif-file.

load common

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	command -v mksquashfs >/dev/null || {
		skip_file "mksquashfs is not installed"
		return
	}
	root_with_scripts root
	mksquashfs root r.sqfs -quiet -no-progress >/dev/null
	"$top_srcdir/tests/cli/sif-file" made.sif part:type=0x4001,file=root/.singularity.d/Singularity part:file=r.sqfs
}

setup() {
	common_setup
	cd "$BATS_TEST_TMPDIR" || return
	F=$BATS_FILE_TMPDIR
}

# Busybox with scripts of Apptainer's in DIR.
root_with_scripts() {
	mkdir -p "$1"/{bin,etc,tmp,.singularity.d/env}
	cp "$(command -v busybox)" "$1/bin/busybox"
	for applet in sh cat env echo true sleep kill; do ln -s busybox "$1/bin/$applet"; done
	echo 'Bootstrap: docker' >"$1/.singularity.d/Singularity"
	echo '{"org.x.a": "b", "n": 1}' >"$1/.singularity.d/labels.json"
	# Not in this order: the names', by their bytes.
	echo 'export LAST=99 PATH="/opt/x:$PATH"' >"$1/.singularity.d/env/99-base.sh"
	cat >"$1/.singularity.d/env/90-environment.sh" <<-'END'
		# a comment
		export PLAIN='one two' LAST=90
		export FROM_HOME="$HOME/x"
		source /etc/more
	END
	echo 'export LAST=10' >"$1/.singularity.d/env/10-docker.sh"
	echo 'export NO_SCRIPT=1' >"$1/.singularity.d/env/20-other.txt"
	echo 'export MORE=more' >"$1/etc/more"
	printf '#!/bin/sh\necho "runscript $PLAIN" "$@"\n' >"$1/.singularity.d/runscript"
	chmod +x "$1/.singularity.d/runscript"
}

sif_file() { "$top_srcdir/tests/cli/sif-file" "$@"; }

# siftool_made FILE: as Apptainer writes: a definition file and the squashfs.
siftool_made() {
	command -v siftool >/dev/null || skip "siftool is not installed"
	siftool new "$1"
	siftool add "$1" "$F/root/.singularity.d/Singularity" --datatype 1
	siftool add "$1" "$F/r.sqfs" --datatype 4 --partfs 1 --parttype 2 --partarch 2 --groupid 1
}

# --- which file ---------------------------------------------------------------------------

@test "sif: a file runs by its name, by a path, by sif: and squashfs:; its contents decide" {
	needs_fuse
	cp "$F/made.sif" x.sif
	cp "$F/made.sif" image.img
	cp "$F/r.sqfs" plain.sif
	{ printf '#!/usr/bin/env run-singularity\n' && cat "$F/r.sqfs"; } >old.simg
	for name in x.sif ./x.sif "$PWD/x.sif" sif:x.sif squashfs:x.sif ./image.img plain.sif old.simg; do
		run -0 mlrun exec "$name" sh -c 'echo $PLAIN'
		assert_output "one two"
	done
	run -0 mlrun exec --write=c x.sif sh -c 'echo written >/etc/w'
	run -0 mlrun exec --write=c x.sif cat /etc/w
	assert_output written
}

@test "sif: what siftool writes runs, also at any byte, and inspect shows its parts" {
	needs_fuse
	siftool_made x.sif
	run -0 mlrun exec x.sif sh -c 'echo $PLAIN'
	assert_output "one two"
	run -0 mlrun inspect x.sif
	assert_line --regexp '^name +x.sif$'
	assert_line --regexp '^platform +linux/amd64$'
	assert_line --regexp '^label +org.x.a="b"$'
	assert_line --regexp '1  definition file +32176'
	assert_line --regexp '2  primary partition, squashfs +32768'
	run -0 sh -c 'mlrun inspect --json x.sif | jq -c "[.platform, .labels, (.parts[] | .id, .offset)]"'
	assert_output '["linux/amd64",{"org.x.a":"b","n":1},1,32176,2,32768]'
	run -0 mlrun inspect --pin x.sif
	assert_output x.sif
	for at in 32177 40001; do
		sif_file odd.sif part:file="$F/r.sqfs",at=$at
		run -0 mlrun exec odd.sif sh -c 'echo $PLAIN'
		assert_output "one two"
	done
}

@test "sif: a signature is not checked, and only --verbose and --explain speak of it" {
	needs_fuse
	siftool_made x.sif
	echo nonsense >signature
	siftool add x.sif signature --datatype 5 --signentity 433FE984155206BD962725E20E8713472A879943 --signhash 1
	run -0 mlrun exec x.sif echo ran
	assert_output ran
	run -0 mlrun exec --verbose x.sif true
	assert_output --partial "signatures in 'x.sif' are not checked"
	run -0 mlrun exec --explain x.sif true
	assert_output --partial "signatures in 'x.sif' are not checked"
}

@test "sif: without /dev/fuse the hint's command makes a tree that runs" {
	needs_closable_fuse
	cp "$F/made.sif" x.sif
	run -125 without_fuse mlrun exec x.sif true
	assert_output --regexp 'unsquashfs -o [0-9]+ -d DIR x.sif && mlrun exec rootfs:DIR'
	# shellcheck disable=SC2091 # the command that the hint names
	$(sed -n 's/.*: \(unsquashfs .*\) && .*/\1/p' <<<"$output") >/dev/null
	run -0 mlrun exec rootfs:DIR sh -c 'echo $PLAIN'
	assert_output "one two"
}

# --- files of strangers -------------------------------------------------------------------

@test "sif: damaged files are refused in one line, before anything starts" {
	root=part:file=$F/r.sqfs
	size=$(stat -c %s "$F/r.sqfs")
	while IFS='|' read -r message words; do
		# shellcheck disable=SC2086 # several words
		sif_file bad.sif $words
		run -125 timeout -s KILL 60 mlrun exec bad.sif true
		assert_line --index 0 "mlrun: exec 'sif:bad.sif': $message"
		[ "${#lines[@]}" -le 2 ]
		run -125 timeout -s KILL 60 mlrun inspect bad.sif
		assert_line --index 0 "mlrun: inspect 'bad.sif': $message"
	done <<-END
		a damaged SIF file: it is cut off|$root cut:100
		a damaged SIF file: it is cut off|$root cut:64
		a damaged SIF file: the descriptors lie outside of it|$root cut:500
		a damaged SIF file: a part lies outside of it|$root cut:5000
		a damaged SIF file: its number of descriptors|$root header:total=-1
		a damaged SIF file: its number of descriptors|$root header:total=0x10000000000
		a damaged SIF file: its number of descriptors|$root header:total=0x10000000000,size=0x2490000000000
		a damaged SIF file: the descriptors' size|$root header:size=-585
		a damaged SIF file: the descriptors' size|$root header:size=1171
		a damaged SIF file: the descriptors lie outside of it|$root header:at=-1
		a damaged SIF file: the descriptors lie outside of it|$root header:at=0x7fffffffffffffff
		a damaged SIF file: the descriptors lie outside of it|$root header:at=127
		a damaged SIF file: a part lies outside of it|$root,size=-1
		a damaged SIF file: a part lies outside of it|$root,at=-1
		a damaged SIF file: a part lies outside of it|$root,at=0x7fffffffffffffff,size=0x7fffffffffffffff
		a damaged SIF file: a part lies outside of it|$root,size=$((size * 2))
		a damaged SIF file: a part lies outside of it|$root part:type=0x4003,at=0x4000000000000000,size=1
		a damaged SIF file: a part lies outside of it|$root,at=64
		a damaged SIF file: a partition is empty|$root,size=0
		a damaged SIF file: a partition overlaps the descriptors|$root part:at=1000,size=4,kind=3
		a damaged SIF file: partitions overlap|$root part:at=4097,size=4,kind=3
		a damaged SIF file: it has two primary partitions|$root $root
		a damaged SIF file: it has no primary partition|part:type=0x4003
		a damaged SIF file: it has no primary partition|$root,used=0
		a SIF file of another version than 01|$root header:version=02
		an OCI-SIF, which has an OCI image in place of a file system|part:type=0x400a part:type=0x400b
		the image is encrypted, and mlrun decrypts nothing|$root,fs=5
		its image has another file system than squashfs|$root,fs=4
		an ext3 image of Singularity 2|$root,fs=2
		part 2 is an overlay, which changes what is in the image|$root part:file=$F/made.sif,fs=2,kind=4
	END
}

@test "sif: a squashfs is read in its part of the file only" {
	needs_fuse
	size=$(stat -c %s "$F/r.sqfs")
	# Each byte that the file lacks is in the file, behind the partition.
	sif_file bad.sif part:file="$F/r.sqfs",size=$((size / 2))
	run -125 timeout -s KILL 60 mlrun exec bad.sif true
	assert_line --index 0 --regexp "^mlrun: exec 'sif:bad.sif': '.*/bad.sif': a damaged squashfs image$"
	# So is that of the tables, if the superblock says that it takes less.
	cp "$F/r.sqfs" liar.sqfs
	printf '\0\020\0\0\0\0\0\0' | dd of=liar.sqfs bs=1 seek=40 conv=notrunc status=none
	sif_file bad.sif part:file=liar.sqfs,size=$((size / 2))
	run -125 timeout -s KILL 60 mlrun exec bad.sif true
	assert_line --index 0 --regexp "^mlrun: exec 'sif:bad.sif': '.*/bad.sif': a damaged squashfs image$"
	sif_file bad.sif part:file="$F/made.sif"
	run -125 mlrun exec bad.sif true
	assert_line --index 0 --regexp "^mlrun: exec 'sif:bad.sif': '.*/bad.sif': not a squashfs image$"
	sif_file bad.sif part:file="$F/r.sqfs" header:magic=SIF_MAGIE
	run -125 mlrun exec bad.sif true
	assert_line --index 0 --regexp "^mlrun: exec 'sif:bad.sif': '.*/bad.sif': not a squashfs image$"
	# It is no SIF file, so there are no parts to list either.
	run -125 mlrun inspect bad.sif
	assert_output --regexp "^mlrun: inspect 'bad.sif': '.*/bad.sif' is not a squashfs image$"
}

@test "sif: ext3 images of Singularity 2 and another machine's are refused" {
	head -c 4096 /dev/zero >ext3.img
	printf '\123\357' | dd of=ext3.img bs=1 seek=1080 conv=notrunc status=none
	{ printf '#!/usr/bin/env run-singularity\n' && cat ext3.img; } >old.simg
	for name in ./ext3.img old.simg; do
		run -125 mlrun exec "$name" true
		assert_line --index 0 "mlrun: exec 'sif:$name': an ext3 image of Singularity 2"
		assert_line "hint: apptainer build NEW.sif $name makes a file that mlrun runs"
	done
	ls /proc/sys/fs/binfmt_misc/*s390x* >/dev/null 2>&1 && skip "this machine runs programs for s390x"
	sif_file far.sif part:file="$F/r.sqfs",arch=11
	run -125 mlrun exec far.sif true
	assert_output --regexp "^mlrun: exec 'sif:far.sif': the image is for linux/s390x, this machine is linux/[a-z0-9]+$"
}

@test "sif: a fifo, a device, a directory and nothing are no image" {
	mkfifo fifo.sif
	ln -s /dev/zero device.sif
	mkdir directory.sif
	while IFS='|' read -r name message; do
		run -125 timeout -s KILL 60 mlrun exec "$name" true
		assert_line --index 0 "mlrun: exec 'sif:$name': $message"
	done <<-END
		fifo.sif|'fifo.sif' is not a file
		device.sif|'device.sif' is not a file
		directory.sif|'directory.sif' is not a file
		./none.sif|squashfs image './none.sif': No such file or directory
	END
}

@test "sif: names of parts cannot control a terminal, whatever they lack" {
	sif_file x.sif part:file="$F/r.sqfs",name='\x1b[2J\nx' "part:type=0x4007,name=$(printf 'n%.0s' {1..128})"
	run -0 mlrun inspect x.sif
	refute_output --partial $'\e'
	assert_output --partial '\x1b[2J\x0ax'
	assert_line --regexp 'raw data .* n{128}$'
}

@test "sif: a file that shrinks while it is mounted is an error to its readers" {
	needs_fuse
	cp "$F/made.sif" x.sif
	mkfifo go
	mlrun exec x.sif sh -c 'echo up >up; read -r line <go; cat /bin/busybox >/dev/null' 3>&- 2>err &
	pid=$!
	PIDS+=("$pid")
	until_true test -e up
	truncate -s 40000 x.sif
	echo go >go
	wait "$pid" || true
	run -125 mlrun exec x.sif true
	assert_line --index 0 "mlrun: exec 'sif:x.sif': a damaged SIF file: a part lies outside of it"
}

# --- environment and runscript -------------------------------------------------------------

@test "scripts: a SIF's are read in their names' order, and what the caller asks for wins" {
	needs_fuse
	cp "$F/made.sif" x.sif
	run -0 env PLAIN=callers OTHER=callers mlrun exec x.sif sh -c 'echo "$PLAIN|$LAST|$MORE|$NO_SCRIPT|$PATH|$OTHER"'
	assert_output --regexp '^one two\|99\|more\|\|/opt/x:/.*\|callers$'
	echo 'MORE=$LAST' >file
	run -0 mlrun exec --env-file=file -e PLAIN=$'a "b\n$c' -e PATH=/bin x.sif sh -c 'echo "$PLAIN|$MORE|$PATH|$LAST"'
	assert_output $'a "b\n$c|$LAST|/bin|99'
	run -0 mlrun exec x.sif env
	refute_output --partial _mlrun
	run -0 mlrun exec --explain x.sif true
	assert_output --partial "/bin/sh reads 3 scripts of /.singularity.d/env before the command"
}

@test "scripts: the shell becomes the command: process, signals and status are its own" {
	needs_fuse
	cp "$F/made.sif" x.sif
	mlrun exec x.sif sh -c 'echo $$ >pid; exec sleep 1000' 3>&- &
	pid=$!
	PIDS+=("$pid")
	until_true test -s pid
	assert_equal "$(cat pid)" "$pid"
	until_true runs "$pid" sleep 1000
	kill -TERM "$pid"
	status=0
	wait "$pid" || status=$?
	assert_equal "$status" 143
	run -7 mlrun exec x.sif sh -c 'exit 7'
	run -127 mlrun exec x.sif no-such
	assert_output --partial "mlrun: exec 'sif:x.sif'"
	assert_output --partial "no-such"
	run -126 mlrun exec x.sif /etc/more
	run -0 mlrun exec x.sif echo 'a  b' '*' ''
	assert_output 'a  b * '
}

@test "scripts: run without a command runs the runscript, shell has the variables" {
	needs_fuse
	cp "$F/made.sif" x.sif
	run -0 mlrun run x.sif
	assert_output "runscript one two"
	run -0 mlrun run x.sif echo word
	assert_output word
	run -0 mlrun shell x.sif -c 'echo $PLAIN'
	assert_output "one two"
}

@test "scripts: bash is taken before sh, as scripts may use its words" {
	cp -r "$F/root" root
	printf '#!/bin/sh\nexport BY=bash\nexec /bin/sh "$@"\n' >root/bin/bash
	chmod +x root/bin/bash
	run -0 mlrun exec rootfs:root sh -c 'echo $BY $PLAIN'
	assert_output "bash one two"
}

@test "scripts: dash gets the word source, and other shells keep theirs" {
	command -v dash >/dev/null || skip "dash is not installed"
	cp -r "$F/root" root
	rm root/bin/sh
	cp "$(command -v dash)" root/bin/sh
	options=()
	for d in /lib /lib64 /usr/lib; do [ ! -d "$d" ] || options+=(-v "$d:$d:ro"); done
	run -0 mlrun exec "${options[@]}" rootfs:root sh -c 'echo $MORE $LAST'
	assert_output "more 99"
}

@test "scripts: an image without a shell has what they assign in plain words" {
	cp -r "$F/root" root
	rm root/bin/sh
	run -0 mlrun exec rootfs:root env
	assert_line "PLAIN=one two"
	assert_line LAST=99
	refute_output --partial FROM_HOME
	refute_output --partial MORE
}

@test "scripts: an image in the store that has them gets the same, in every format" {
	tar -C "$F/root" -cf - . | mlrun import -q - lab/tool
	run -0 mlrun run lab/tool
	assert_output "runscript one two"
	run -0 mlrun exec lab/tool sh -c 'echo $LAST'
	assert_output 99
	run -0 mlrun exec --clearenv lab/tool sh -c 'echo $LAST'
	assert_output 99
}

@test "scripts: a step of a build reads none" {
	tar -C "$F/root" -cf - . | mlrun import -q - lab/tool
	printf 'FROM lab/tool\nRUN echo "<$LAST>"\n' >Dockerfile
	run -0 mlrun build -t lab/built .
	assert_output --partial "<>"
}

@test "scripts: who joins a service of such an image has the variables, too" {
	needs_fuse
	cp "$F/made.sif" x.sif
	mlrun run -d --name joined x.sif sh -c 'echo up >up; exec sleep 1000' 3>&-
	until_true test -e up
	run -0 mlrun exec --join joined sh -c 'echo $PLAIN $LAST'
	assert_output "one two 99"
	mlrun stop joined
}

# --- writing --------------------------------------------------------------------------------

# An image of the store, lab/app, with entrypoint, command, and values that a shell could misread.
lab_app() {
	needs_squashfs
	mkdir root
	cp -a "$F/root"/{bin,etc,tmp} root/
	cat >Dockerfile <<-'END'
		FROM scratch
		COPY root /
		ENV PLAIN=one PATH=/opt/x:/bin EMPTY= a.b=dot
		ENV QUOTES="a \"b\" 'c' \$HOME `id` \\ *"
		LABEL org.x.a="b c"
		WORKDIR /etc
		ENTRYPOINT ["echo", "it's"]
		CMD ["a  b", "$c"]
	END
	mlrun build -q -t lab/app "$@" . >/dev/null
}

@test "sif: what export writes siftool reads, and its image is the image's tree and /.singularity.d" {
	command -v siftool >/dev/null || skip "siftool is not installed"
	lab_app
	mlrun export -q lab/app x.sif
	assert_equal "$(head -n 1 x.sif)" "#!/usr/bin/env run-singularity"
	assert_equal "$(stat -c %a x.sif)" 755
	run -0 siftool header x.sif
	assert_line --regexp '^Primary Architecture: +amd64$'
	assert_line --regexp '^Descriptors Free: +45$'
	assert_line --regexp '^Descriptors Total: +48$'
	assert_line --regexp '^Created At: +1970-'
	run -0 siftool list x.sif
	assert_line --regexp '^1 .*\|1 .*\|NONE .*Def.FILE$'
	assert_line --regexp '^2 .*\|1 .*\|3 .*JSON.Generic$'
	assert_line --regexp '^3 .*\|1 .*\|NONE .*\|32768-.*Squashfs/\*System/amd64'
	run -0 siftool dump 1 x.sif
	assert_output $'Bootstrap: docker\nFrom: localhost/lab/app:latest'
	run -0 jq -c '[.Env[0], .Entrypoint, .Cmd, .WorkingDir, .Labels, .User]' <(siftool dump 2 x.sif)
	assert_output '["PATH=/opt/x:/bin",["echo","it'"'"'s"],["a  b","$c"],"/etc",{"org.x.a":"b c"},null]'
	siftool dump 3 x.sif >r.sqfs
	run -0 unsquashfs -s r.sqfs
	assert_line "Compression gzip"
	unsquashfs -q -n -d tree r.sqfs >/dev/null
	run -0 sh -c 'cd tree/.singularity.d && find . -type f | LC_ALL=C sort | xargs'
	assert_output "./Singularity ./actions/exec ./actions/run ./actions/shell ./actions/start ./actions/test ./env/01-base.sh ./env/10-docker2singularity.sh ./env/90-environment.sh ./env/99-base.sh ./labels.json ./runscript ./startscript"
	run -0 cat tree/.singularity.d/labels.json
	assert_output --partial '"org.x.a": "b c"'
	rm -r tree/.singularity.d
	mlrun export -q --format=rootfs lab/app plain
	run -0 diff -r --no-dereference plain tree
}

@test "sif: two exports are equal, another image's has another UUID, zstd and build write one, too" {
	lab_app -o type=sif,dest=built.sif
	mlrun export -q lab/app x.sif
	touch y.sif
	mlrun export -q --format=sif lab/app y.sif
	cmp x.sif y.sif
	cmp x.sif built.sif
	run -1 cmp -s <(dd if=x.sif bs=1 skip=48 count=16 status=none) <(head -c 16 /dev/zero)
	echo 'COPY Dockerfile /etc/new' >>Dockerfile
	mlrun build -q -o type=sif,dest=z.sif . >/dev/null
	run -1 cmp -s <(dd if=x.sif bs=1 skip=48 count=16 status=none) <(dd if=z.sif bs=1 skip=48 count=16 status=none)
	mlrun export -q --compression=zstd lab/app sif:zstd
	assert_equal "$(dd if=zstd bs=1 skip=$((32768 + 20)) count=1 status=none | od -An -tu1 | tr -d ' ')" 6
	run -125 mlrun export --compression=none lab/app n.sif
	assert_line --partial "--format=sif is gzip or zstd"
	run -125 mlrun export lab/app --format=sif -
	assert_output --partial "'standard output' is no regular file"
	run -125 mlrun build -o type=sif .
	assert_line --partial "'type=sif' lacks dest=FILE"
}

@test "sif: what export writes runs as the image itself: entrypoint, command, variables, directory" {
	needs_fuse
	lab_app
	mlrun export -q lab/app x.sif
	for image in lab/app x.sif; do
		run -0 mlrun run $image
		assert_output "it's a  b \$c"
		run -0 mlrun run $image word
		assert_output "it's word"
		run -0 env PLAIN=callers mlrun exec --entrypoint= $image sh -c 'echo "$PLAIN|$QUOTES|$PATH|${EMPTY-none}"'
		assert_output "one|a \"b\" 'c' \$HOME \`id\` \\ *|/opt/x:/bin|"
	done
	run -0 mlrun exec --entrypoint= x.sif /.singularity.d/actions/run
	assert_output "it's a  b \$c"
	run -0 mlrun inspect x.sif
	assert_line --regexp '^label +org.x.a="b c"$'
	mlrun exec -q --write=c --entrypoint= lab/app sh -c 'echo more >/etc/more'
	mlrun commit -q --change $'ENV TWO="1\n2\'"' c lab/two
	mlrun export -q lab/two two.sif
	mlrun export -q container:c c.sif
	run -0 mlrun exec --entrypoint= two.sif sh -c 'echo "$TWO"; cat /etc/more'
	assert_output $'1\n2\'\nmore'
	run -0 mlrun exec --entrypoint= two.sif sh -c 'unset TWO; . /.singularity.d/env/10-docker2singularity.sh; echo "$TWO"'
	assert_output $'1\n2\''
	run -0 mlrun run c.sif word
	assert_output "it's word"
	# What the image has stays as it is.
	mkdir -p root/.singularity.d/env
	echo 'export OWN=yes' >root/.singularity.d/env/90-environment.sh
	echo 'Bootstrap: own' >root/.singularity.d/Singularity
	mlrun build -q -t lab/app . >/dev/null
	mlrun export -q lab/app y.sif
	run -0 mlrun exec --entrypoint= y.sif sh -c 'echo $OWN; cat /.singularity.d/Singularity'
	assert_output $'yes\nBootstrap: own'
}

@test "sif: an image without a shell runs by its configuration" {
	needs_fuse
	lab_app
	rm root/bin/sh
	mlrun build -q -t lab/app . >/dev/null
	mlrun export -q lab/app x.sif
	run -0 mlrun run x.sif word
	assert_output "it's word"
	run -0 mlrun exec --entrypoint= x.sif env
	assert_line 'PLAIN=one'
	assert_line 'a.b=dot'
}

@test "sif: an export that is stopped or finds the disk full leaves what was there" {
	lab_app
	head -c 64M /dev/urandom >root/large
	mlrun build -q -t lab/app . >/dev/null
	mkdir out
	echo old >out/x.sif
	(ulimit -f 20000 && trap '' XFSZ && exec mlrun export -q lab/app out/x.sif) 2>err && false
	assert_equal "$(ls -A out) $(cat out/x.sif)" "x.sif old"
	grep "export 'lab/app': .*File too large" err
	mlrun export -q lab/app out/x.sif 3>&- &
	pid=$!
	PIDS+=("$pid")
	until_true sh -c 'ls -A out | grep -q mlrun-'
	kill -TERM "$pid"
	status=0
	wait "$pid" || status=$?
	assert_equal "$status" 143
	assert_equal "$(ls -A out) $(cat out/x.sif)" "x.sif old"
}
