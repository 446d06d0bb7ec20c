#!/usr/bin/env bats
# mlrun build: images by a recipe.
# shellcheck disable=SC2016 # the recipes' variables are theirs
load common
load build

@test "build: stages, variables, files and commands become an image" {
	echo A >a.txt
	mkdir -p sub/d
	echo D >sub/d/d
	recipe <<-'X'
		ARG WHERE=in
		FROM scratch AS files
		ARG WHERE
		COPY a.txt sub /$WHERE/
		FROM BASE
		ARG WHO=world
		ENV GREETING="hello $WHO"
		WORKDIR /work/x
		COPY --from=files /in/ ./
		RUN echo "$GREETING, $WHO" >out; id -u >id; pwd >dir
		RUN <<EOF
		set -e
		cat out >second
		EOF
		COPY <<'L' <<E /here/
		literal $WHO
		L
		expanded $WHO
		E
		LABEL org.one=1
		CMD ["cat", "out"]
	X
	run -0 mlrun build -t mine .
	assert_line --partial "RUN echo"
	assert_line --partial "built 'localhost/mine:latest': sha256:"
	run -0 inside cat out id dir second a.txt d/d /here/L /here/E
	assert_output "$(printf '%s\n' 'hello world, world' 0 /work/x 'hello world, world' A D 'literal $WHO' 'expanded world')"
	run -0 inside
	assert_output 'hello world, world'
	mlrun export -q localhost/mine x.oci
	assert_equal "$(skopeo inspect --config oci-archive:x.oci | jq -r '.config.Labels["org.one"]')" 1
	run -0 mlrun build -q --build-arg WHO=you -t mine .
	run -0 inside cat out
	assert_output 'hello you, you'
}

@test "build: a stage has a PATH, also if its base names none" {
	recipe <<-'X'
		FROM BASE AS tools
		FROM scratch
		COPY --from=tools /bin /bin
		ENV PATH=/opt/bin:$PATH
		RUN mkdir -p /opt/bin && echo 'echo "$PATH"' >/opt/bin/own && chmod +x /opt/bin/own && own >/path
	X
	mlrun build -q -t mine .
	run -0 inside cat /path
	assert_output /opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	run -0 mlrun inspect mine
	assert_output --partial "PATH=$(inside cat /path)"
}

@test "build: a second build runs nothing and is the same image" {
	echo 1 >a
	echo 1 >b
	recipe <<-'X'
		FROM BASE
		COPY a /
		RUN cat /proc/sys/kernel/random/uuid >/first
		COPY b /
		RUN cat /proc/sys/kernel/random/uuid >/second
	X
	run -0 mlrun build -q -t mine .
	first=$output
	sleep 1.1
	run -0 mlrun build -t mine .
	assert_output --partial "4 of 4 steps from the cache"
	refute_line --regexp ': RUN'
	assert_output --partial "$first"
	# Times do not count; contents and modes do.
	was=$(inside cat /first) now=$(inside cat /second)
	touch b
	run -0 mlrun build -t mine .
	assert_output --partial "4 of 4 steps from the cache"
	chmod 600 b
	run -0 mlrun build -t mine .
	assert_output --partial "2 of 4 steps from the cache"
	assert_equal "$(inside cat /first)" "$was"
	assert_not_equal "$(inside cat /second)" "$now"
	run -0 mlrun build --no-cache -t mine .
	assert_output --partial "0 of 4 steps from the cache"
	# The cache survives its image, and prune.
	mlrun rm mine
	mlrun prune
	run -0 mlrun build -t mine .
	assert_output --partial "4 of 4 steps from the cache"
}

@test "build: a variable that a step does not see changes nothing; one that it sees does" {
	recipe <<-'X'
		FROM BASE
		ARG A=1
		RUN echo $A >/a
		ARG B=1
		RUN echo $B >/b
	X
	mlrun build -q -t mine .
	run -0 mlrun build --build-arg B=2 -t mine .
	assert_output --partial "1 of 2 steps from the cache"
	run -0 inside cat /a /b
	assert_output $'1\n2'
	run -0 mlrun build --build-arg C=2 -t mine .
	assert_line "mlrun: warning: --build-arg C: the recipe declares no such ARG"
}

@test "build: a failed RUN names its line and status, and leaves no image" {
	recipe <<-'X'
		FROM BASE
		RUN touch /made
		RUN echo before; exit 7
	X
	run -125 mlrun build -t mine .
	assert_line before
	assert_line "mlrun: Dockerfile:3: RUN ended with status 7: echo before; exit 7"
	assert_line --partial "hint: a shell at that point: mlrun shell --fakeroot --store"
	run -125 mlrun inspect mine
	assert_equal "$(mlrun containers --json | jq length)" 0
	# The shell is at that point, and the image is one of no name.
	id=$(mlrun build -q . 2>&1 | grep -oE 'sha256:[0-9a-f]{64}$')
	cd /
	run -0 mlrun exec "$id" ls /made
	run -125 mlrun build -q "$TMPDIR/ctx"
	assert_line before
}

@test "build: files of the context are taken as Docker takes them" {
	mkdir -p src/deep tree .hidden
	echo 5 >.hidden/file
	echo 1 >one.txt
	echo 2 >two.txt
	echo 3 >src/deep/three
	echo 4 >'a b'
	ln -s one.txt link
	ln -s ../one.txt src/inner
	chmod 640 two.txt
	recipe <<-'X'
		FROM BASE
		RUN mkdir /real && ln -s real /alias
		COPY *.txt /txt/
		COPY one.txt /file
		COPY one.txt /alias/
		COPY link /followed
		COPY src /src
		COPY ["a b", "/names/"]
		COPY "a b" /names/second
		COPY --chmod=711 --chown=12:34 one.txt /own
		COPY --parents src/deep/three ./.hidden/file */./deep/three /parents/
		COPY --exclude=deep src /less
		COPY --exclude=*.txt . /all
	X
	mlrun build -q -t mine .
	run -0 inside sh -c 'cd /; cat txt/one.txt txt/two.txt file real/one.txt followed src/deep/three "names/a b" names/second parents/src/deep/three parents/.hidden/file parents/deep/three'
	assert_output "$(printf '%s\n' 1 2 1 1 1 3 4 4 3 5 3)"
	run -0 inside sh -c 'cd /; test -L alias && test ! -L followed && readlink src/inner && ls less && ls -A all && stat -c %a txt/two.txt own'
	assert_output "$(printf '%s\n' ../one.txt inner .hidden Dockerfile 'a b' link src tree 640 711)"
	mlrun export -q localhost/mine mine.oci
	skopeo copy -q oci-archive:mine.oci oci:layout:x
	umoci unpack --rootless --image layout:x bundle
	run -0 jq -r '.history[-1].created_by' <(skopeo inspect --config oci:layout:x)
	assert_output 'COPY --exclude=*.txt . /all'
	# Owners are in the layer.
	layer=$(skopeo inspect --raw oci:layout:x | jq -r '.layers[-4].digest')
	run -0 sh -c "zcat layout/blobs/sha256/${layer#sha256:} | tar -tvf - --numeric-owner"
	assert_output --regexp '^-rwx--x--x 12/34 .* own$'
}

@test "build: what is wrong with a copy is told with its line" {
	echo 1 >one.txt
	echo 2 >two.txt
	mkdir sub
	touch sub/.wh.one
	echo 'two*' >.dockerignore
	while IFS='|' read -r instruction want; do
		recipe <<<"FROM BASE"$'\n'"$instruction"
		run -125 mlrun build -q .
		assert_output --partial "Dockerfile:2: $want"
	done <<-'X'
		COPY none /x|'none' is not in the build context
		COPY two.txt /x|'two.txt' is not in the build context
		COPY ../../../etc/passwd /x|'../../../etc/passwd' is not in the build context
		COPY sub /x|'/x/.wh.one': no layer can hold a name that begins with '.wh.'
		COPY one.txt Dockerfile /x|with several sources the destination '/x' must be a directory
		COPY --chown=nobodyknows one.txt /x|--chown: 'nobodyknows' is not in the image's /etc/passwd
		COPY --chmod=u+x one.txt /x|--chmod=u+x: use an octal mode
		COPY --from=none one.txt /x|image 'none'
		ADD https://localhost:1/x /x|fetch 'https://localhost:1/x':
		COPY https://localhost/x /x|'https://localhost/x' is not in the build context
	X
	recipe <<<$'FROM BASE\nCOPY *.txt /x/'
	mlrun build -q -t mine .
	run -0 inside ls /x
	assert_output one.txt
	# A pattern may match nothing, as in Docker; if nothing at all is copied, that is said.
	recipe <<<$'FROM BASE\nCOPY one.txt *.none two.tx* /x/\nRUN ls /x >/listed'
	run -0 mlrun build -q -t mine .
	assert_output --regexp '^sha256:[0-9a-f]+$'
	run -0 inside cat /listed
	assert_output one.txt
	recipe <<<$'FROM BASE\nCOPY *.none /none\nRUN ! ls /none'
	run -0 mlrun build .
	assert_line --partial "line 2: nothing is there to copy: COPY *.none /none"
	recipe <<<$'FROM BASE\nRUN --mount=type=bind,source=*.none,target=/m true'
	run -125 mlrun build .
	assert_output --partial "*.none"
	# What the image has stays what it is.
	mkdir -p tree/kept tree/made/below
	touch tree/kept/f tree/made/below/f
	while IFS='|' read -r instruction want; do
		recipe <<<$'FROM BASE\nRUN mkdir -p /a/kept /a/d; echo x >/a/file; ln -s kept /a/made; touch /plain\n'"$instruction"
		run -125 mlrun build -q .
		assert_output --partial "Dockerfile:3: $want"
	done <<-'X'
		COPY tree/kept /a/file|'/a/file' is a directory, and in the image a file
		COPY tree/kept /a/file/|the destination '/a/file/' is a file of the image
		COPY one.txt /plain/b|the destination '/plain/b' is below a file of the image
		COPY tree /a|'/a/made' is a directory, and in the image a link
		COPY --parents one.txt /plain|the destination '/plain' is a file of the image
		COPY one.txt tree/kept /a/file/|the destination '/a/file/' is a file of the image
		WORKDIR /plain/w|'/plain/w' is below a file of the image
		ADD --checksum=sha256:0000000000000000000000000000000000000000000000000000000000000000 one.txt /x|--checksum=sha256:0000000000000000000000000000000000000000000000000000000000000000: 'one.txt' is sha256:
		ADD --checksum=md5:1 one.txt /x|--checksum: 
		ADD --checksum=sha256:4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865 tree /x|--checksum is for one file
	X
	mv one.txt d
	recipe <<<$'FROM BASE\nRUN mkdir /a /a/d\nCOPY d tree/kept/ /a/'
	run -125 mlrun build -q .
	assert_output --partial "'/a/d' is a file, and in the image a directory"
	mv d one.txt
	recipe <<<$'FROM BASE\nADD --checksum=sha256:4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865 one.txt /x'
	mlrun build -q .
	recipe <<<$'FROM BASE\nCOPY two.txt /x'
	run -125 mlrun build -q .
	assert_line "hint: the ignore file leaves it out"
}

@test "build: no link leads out of the context" {
	echo secret >"$TMPDIR/outside"
	ln -s "$TMPDIR/outside" absolute
	ln -s ../outside relative
	ln -s .. up
	for what in absolute relative up/outside; do
		recipe <<<$'FROM BASE\nCOPY '"$what /x"
		run -125 mlrun build -q .
		assert_output --partial "is not in the build context"
	done
}

@test "build: files of another stage or image keep owners, modes and hard links" {
	recipe <<-'X'
		FROM BASE AS make
		RUN mkdir /out && touch /out/a /out/b && ln /out/b /out/c && chown 7:8 /out/a && chmod 4755 /out/a && chown 9:9 /out && chmod 2775 /out
		FROM BASE
		COPY --from=make /out /kept
		COPY --from=make /out/a /one
		COPY --from=make --chown=5 --chmod=600 /out /given
		RUN stat -c '%u:%g %a %h %n' /kept /kept/* /one /given /given/* >/list
	X
	mlrun build -q -t mine .
	run -0 inside cat /list
	assert_output - <<-'X'
		9:9 2775 2 /kept
		7:8 4755 1 /kept/a
		0:0 644 2 /kept/b
		0:0 644 2 /kept/c
		7:8 4755 1 /one
		5:5 600 2 /given
		5:5 600 1 /given/a
		5:5 600 2 /given/b
		5:5 600 2 /given/c
	X
}

@test "build: an owner that is given is another step than the files' own" {
	mkdir in
	echo x >in/f
	tar --owner=777 --group=777 -cf x.tar -C in f
	recipe <<<$'FROM BASE\nADD x.tar /d/\nRUN stat -c %u:%g /d/f >/owner'
	mlrun build -q -t mine .
	run -0 inside cat /owner
	assert_output 777:777
	sed -i 's/ADD /ADD --chown=0:0 /' Dockerfile
	mlrun build -q -t mine .
	run -0 inside cat /owner
	assert_output 0:0
}

@test "build: a step of the cache with an absurd time is none" {
	recipe <<<$'FROM BASE\nRUN touch /one'
	mlrun build -q .
	for file in "$MLRUN_STORE"/cache/*.json; do
		jq -c '.created |= 4611686018427387904' "$file" >new
		cat new >"$file"
	done
	run -0 mlrun build .
	assert_line --partial '0 of 1 steps from the cache'
}

@test "build: a signal to mlrun alone ends the build" {
	recipe <<<$'FROM BASE\nRUN --mount=type=secret,id=s exec sleep '"$NAP"
	echo word >secret
	local pid status=0

	mlrun build -q --secret id=s,src=secret . 2>/dev/null 3>&- &
	pid=$!
	until_true runs_somewhere "$NAP"
	kill -TERM $pid
	wait $pid || status=$?
	assert_equal $status 143
	assert_equal "$(mlrun containers --json | jq length)" 0
}

runs_somewhere() { pgrep -f "^sleep $1" >/dev/null; }

@test "build: the ignore file leaves files out, and takes some in again" {
	mkdir -p keep/deep drop/deep
	touch a.o b.c keep/a.o keep/deep/x drop/one drop/deep/two
	printf '# comment\n**/*.o\ndrop\n!drop/deep\n/b.c\nDockerfile\n.dockerignore\n' >.dockerignore
	recipe <<<$'FROM BASE\nCOPY . /all'
	mlrun build -q -t mine .
	run -0 inside sh -c 'cd /all && find . | sort'
	assert_output "$(printf '%s\n' . ./drop ./drop/deep ./drop/deep/two ./keep ./keep/deep ./keep/deep/x)"
	# A recipe's own ignore file wins.
	cp Dockerfile other
	echo keep >other.dockerignore
	mlrun build -q -f other -t mine .
	run -0 inside sh -c 'ls /all'
	assert_output "$(printf '%s\n' Dockerfile a.o b.c drop other other.dockerignore)"
}

@test "build: directories that COPY --chown makes are the owner's, and --link follows no links of the image" {
	mkdir d
	echo x | tee f d/f >/dev/null
	recipe <<-'X'
		FROM BASE
		RUN mkdir -m 1777 /target /old; ln -s target /link; echo file >/file; chown 3:3 /old
		COPY --chown=5:6 --chmod=640 f /old/made/below/
		COPY --chown=5:6 d /made/too
		COPY --link f /link/sub/
		COPY --link f d/f /old/
		COPY --link f /file/
		COPY --link f /target
		RUN stat -c '%u:%g %a %F %n' /old /old/made /old/made/below /old/made/below/f /made /made/too /link /link/sub/f /old/f /file /file/f /target /target/* >/seen
	X
	mlrun build -q -t mine .
	run -0 inside cat /seen
	assert_output - <<-'END'
		3:3 1777 directory /old
		5:6 755 directory /old/made
		5:6 755 directory /old/made/below
		5:6 640 regular file /old/made/below/f
		5:6 755 directory /made
		5:6 755 directory /made/too
		0:0 755 directory /link
		0:0 644 regular file /link/sub/f
		0:0 644 regular file /old/f
		0:0 755 directory /file
		0:0 644 regular file /file/f
		0:0 1777 directory /target
		0:0 644 regular file /target/f
	END
	run -0 mlrun build -t mine .
	refute_line --regexp '^mlrun: line [0-9]*: [A-Z]'
}

@test "build: COPY into a directory of the image leaves its mode and owner" {
	mkdir d
	touch d/f
	recipe <<<$'FROM BASE\nRUN mkdir -p /o /q && chown 7:8 /o && chmod 2770 /o && chmod 1777 /q\nCOPY d /o/\nADD --chown=5:6 --chmod=604 d /q\nCOPY d /new/'
	chmod 711 d
	mlrun build -q -t mine .
	run -0 mlrun exec --fakeroot --entrypoint= mine stat -c '%a %u %g %n' /o /o/f /q /q/f /new
	assert_output $'2770 7 8 /o\n644 0 0 /o/f\n1777 0 0 /q\n604 5 6 /q/f\n711 0 0 /new'
}

@test "build: a cache begins with what from= and source= name, and has the mode that is asked for" {
	recipe <<-'X'
		FROM BASE AS one
		RUN mkdir -p /seed/sub && echo first >/seed/f && ln -s f /seed/l
		FROM BASE
		RUN --mount=type=cache,id=seeded,target=/c,from=one,source=/seed,mode=1777 stat -c %a /c; ls /c; cat /c/l; echo second >/c/f
	X
	run -0 mlrun build --no-cache .
	assert_line 'stage 1 | 1777'
	assert_line 'stage 1 | sub'
	assert_line 'stage 1 | first'
	run -0 mlrun build --no-cache .
	assert_line 'stage 1 | second'
	refute_line 'stage 1 | first'
	sed -i 's/source=.seed/source=\/none/; s/id=seeded/id=other/' Dockerfile
	run -125 mlrun build --no-cache .
	assert_output --partial "'/none' in"
	sed -i 's/source=.none/source=\/seed\/f/' Dockerfile
	run -125 mlrun build --no-cache .
	assert_output --partial "'/seed/f' in one is no directory"
	# Of the context what the ignore file leaves out stays outside, and what cannot be read leaves no half of a cache.
	mkdir own
	touch own/seen own/hidden
	echo own/hidden >.dockerignore
	recipe <<<$'FROM BASE\nRUN --mount=type=cache,id=own,target=/c,source=own ls /c'
	run -0 mlrun build --no-cache .
	assert_line seen
	refute_output --partial hidden
	rm .dockerignore
	chmod 0 own/hidden
	sed -i 's/id=own/id=half/' Dockerfile
	if [ "$(id -u)" != 0 ]; then
		run -125 mlrun build --no-cache .
		assert_output --partial "'own/hidden' in the build context: Permission denied"
		chmod 644 own/hidden
		run -0 mlrun build --no-cache .
		assert_line hidden
	fi
	assert_equal "$(find "$MLRUN_STORE/cache/mounts" -name '*.*' | wc -l)" 0
}

@test "build: RUN's mounts come and go" {
	echo token >tok
	mkdir dir
	echo context >dir/file
	recipe <<-'X'
		FROM BASE AS other
		RUN mkdir /made && echo stage >/made/file
		FROM BASE
		ARG T=/bound
		RUN --mount=type=bind,source=dir,target=$T cat /bound/file >/out && ! touch /bound/x
		RUN --mount=type=bind,from=other,source=/made,target=/m,rw cat /m/file >>/out && touch /m/new
		RUN --mount=type=cache,target=/cache,id=one echo run >>/cache/log; cp /cache/log /log
		RUN --mount=type=tmpfs,target=/mem,size=1m grep -q ' /mem tmpfs' /proc/mounts && touch /mem/x
		RUN --mount=type=secret,id=tok,required cat /run/secrets/tok >>/out
		RUN --mount=type=secret,id=tok,env=TOK echo "$TOK" >>/out
		RUN --mount=type=secret,id=none,target=/s ! test -e /s
		RUN --network=none ! grep -qv lo: /proc/net/dev || grep -c : /proc/net/dev >/interfaces
	X
	mlrun build -q --secret id=tok,src=tok -t mine .
	run -0 inside cat /out /log /interfaces
	assert_output "$(printf '%s\n' context stage token token '' run 1)"
	# The places of the mounts are in no layer.
	run -1 inside ls -d /bound /m /cache /mem /run/secrets /s
	refute_line --regexp '^/'
	mlrun build -q --no-cache --secret id=tok,src=tok -t mine .
	run -0 inside cat /log
	assert_output $'run\nrun'
	# A secret is in no layer, no configuration and no cache.
	run -1 grep -r token "$MLRUN_STORE/blobs" "$MLRUN_STORE/cache"
	run -125 mlrun build -q --no-cache .
	assert_output --partial "Dockerfile:9: RUN --mount=type=secret,id=tok,required: the secret 'tok' is required"
	assert_output --partial "hint: --secret id=tok,src=FILE gives it"
}

@test "build: a short option's value may follow it at once, whatever letters it has" {
	recipe <<<'FROM BASE'
	mlrun build -q -tmvmine .
	run -0 mlrun images mvmine
	assert_line --partial mvmine
}

@test "build: a mount without a target is at WORKDIR, and none may hide the whole image" {
	mkdir dir && echo one >dir/file
	recipe <<-'X'
		FROM BASE
		WORKDIR /w
		RUN --mount=source=dir cat file >/out
		RUN --mount=type=cache touch kept
		RUN --mount=type=cache cp kept /there
	X
	mlrun build -q -t mine .
	run -0 mlrun exec mine sh -c 'cat /out; ls /there /w'
	assert_output $'one\n/there\n\n/w:'
	recipe <<<$'FROM BASE\nRUN --mount=source=dir,target=/ ls'
	run -125 mlrun build .
	assert_output --partial 'its target is /'
}

@test "build: an image of the store's own that is there as a squashfs file only is not looked for in a registry" {
	needs_squashfs
	image_push_tar library/own "$BATS_FILE_TMPDIR/tiny.tar"
	mkdir -p "$HOME/.config/mlrun"
	printf '[registry docker.io]\nmirror = %s\n' "$REGISTRY" >"$HOME/.config/mlrun/mlrun.conf"
	mlrun import -q --format=squashfs "$BATS_FILE_TMPDIR/tiny.tar" own
	printf 'FROM own\nRUN true\n' >Dockerfile
	run -125 mlrun build -q -t mine .
	assert_output --partial "image 'own': the store has 'localhost/own:latest' as a squashfs file, on which nothing can be built"
	assert_line --partial "hint: import it again"
	run -0 registry_requests library/own/manifests
	refute_output --partial GET
	mlrun import -q --format=layers "$BATS_FILE_TMPDIR/tiny.tar" own
	run -0 mlrun build -q -t mine .
}

@test "build: only the stages that the target needs are built" {
	recipe <<-'X'
		FROM BASE AS one
		RUN touch /one
		FROM BASE AS broken
		RUN false
		FROM one AS two
		RUN touch /two
		FROM two
		RUN touch /three
	X
	mlrun build -q --target two -t mine .
	run -0 inside sh -c 'ls -d /one /two /three 2>/dev/null || true'
	assert_output $'/one\n/two'
	mlrun build -q -t mine .
	run -125 mlrun build -q --target none .
	assert_output --partial "--target: 'Dockerfile' has no stage 'none'"
}

@test "build: stages that do not need each other are built side by side" {
	# Each command waits for the other.
	recipe <<-'X'
		FROM BASE AS one
		RUN --mount=type=cache,id=meet,target=/c touch /c/one; while [ ! -e /c/two ]; do sleep 0.1; done; echo uno; touch /one
		FROM BASE AS two
		RUN --mount=type=cache,id=meet,target=/c touch /c/two; while [ ! -e /c/one ]; do sleep 0.1; done; echo due; touch /two
		FROM BASE
		RUN --mount=type=cache,id=meet,target=/c while [ ! -e /c/one ]; do sleep 0.1; done; touch /three
		COPY --from=one /one /
		COPY --from=two /two /
	X
	run -0 mlrun build --jobs 3 -t mine .
	assert_line 'one | uno'
	assert_line 'two | due'
	run -0 inside ls /one /two /three
	run -0 mlrun build --jobs 1 -t mine .
	assert_line --partial '5 of 5 steps from the cache'
	refute_line --partial 'one | '
}

@test "build: --jobs 1 runs one command at a time, and a locked cache is one command's" {
	local jobs sharing

	for jobs in '1 shared' '2 locked'; do
		read -r jobs sharing <<<"$jobs"
		recipe <<-X
			FROM BASE AS one
			RUN --mount=type=cache,id=$sharing,sharing=$sharing,target=/c mkdir /c/busy && sleep 0.5 && rmdir /c/busy
			FROM BASE AS two
			RUN --mount=type=cache,id=$sharing,sharing=$sharing,target=/c mkdir /c/busy && sleep 0.5 && rmdir /c/busy && : two
			FROM BASE
			RUN --mount=type=bind,from=one,target=/1 --mount=type=bind,from=two,target=/2 true
		X
		mlrun build -q --no-cache --jobs "$jobs" .
	done
}

@test "build: a command that fails ends those of other stages" {
	recipe <<-X
		FROM BASE AS one
		RUN --mount=type=cache,id=go,target=/c touch /c/go; exec sleep $NAP
		FROM BASE AS two
		RUN --mount=type=cache,id=go,target=/c while [ ! -e /c/go ]; do sleep 0.1; done; echo why; exit 3
		FROM BASE
		COPY --from=one / /
		COPY --from=two / /
	X
	run -125 mlrun build -q --jobs 2 -t mine .
	assert_line why
	assert_line --partial 'Dockerfile:4: RUN ended with status 3'
	wait_while pgrep -f "^sleep $NAP"
	run -125 mlrun exec --pull=never mine true
	assert_equal "$(mlrun containers --json | jq length)" 0
	assert_equal "$(ls "$MLRUN_STORE/tmp")" ""
}

@test "build: --ssh passes on an agent, by its id" {
	command -v ssh-agent >/dev/null || skip "ssh-agent is not installed"
	ssh-agent -D -a "$TMPDIR/one" >/dev/null 3>&- &
	PIDS+=($!)
	ssh-agent -D -a "$TMPDIR/two" >/dev/null 3>&- &
	PIDS+=($!)
	until_true test -S "$TMPDIR/one" -a -S "$TMPDIR/two"
	recipe <<-'X'
		FROM BASE
		RUN --mount=type=ssh test -S "$SSH_AUTH_SOCK"
		RUN --mount=type=ssh,id=other,required,target=/agent [ "$SSH_AUTH_SOCK" = /agent ] && test -S /agent
		RUN --mount=type=ssh,id=none [ -z "$SSH_AUTH_SOCK" ]
	X
	SSH_AUTH_SOCK=$TMPDIR/one run -0 mlrun build -q --ssh default --ssh "other=$TMPDIR/two" .
	SSH_AUTH_SOCK=$TMPDIR/one run -125 mlrun build -q --no-cache --ssh default .
	assert_output --partial "Dockerfile:3: RUN --mount=type=ssh,id=other,required,target=/agent: the SSH agent 'other' is required"
	SSH_AUTH_SOCK='' run -125 mlrun build --ssh default .
	assert_output --partial "SSH_AUTH_SOCK is not set"
	run -125 mlrun build --ssh "default=$PWD/Dockerfile" .
	assert_output --partial "is no agent's socket"
}

@test "build: options of docker and podman that ask for what is so pass, others name the counterpart" {
	recipe <<<'FROM BASE'
	run -0 mlrun build -q --rm --load --provenance=false --sbom=false --pull=missing --progress=plain .
	run -0 mlrun build -q --pull=always .
	run -0 mlrun build -q --pull .
	while IFS='|' read -r option want; do
		run -125 mlrun build "$option" .
		assert_output --partial "$want"
	done <<-'X'
		--push|mlrun push NAME
		--pull=x|--pull takes always or missing, not 'x'
		--provenance=true|mlrun makes no attestations
		--memory=1g|ulimit(1)
		--isolation=chroot|leave it out
		--squash-all|--squash makes one layer
		--security-opt=x|the caller's own rights
	X
}

@test "build: -v mounts a directory of the caller's in every RUN, in no layer and in no key" {
	mkdir host
	echo one >host/f
	recipe <<-'X'
		FROM BASE
		RUN cat /in/f >/copy && ! touch /in/new
	X
	run -0 mlrun build -v "$PWD/host:/in:ro" -t mine .
	run -0 inside cat /copy
	assert_output one
	run ! inside ls -d /in
	echo two >host/f
	run -0 mlrun build -v "$PWD/host:/in:ro" -t mine .
	assert_line --partial '1 of 1 steps from the cache'
	run -125 mlrun build --no-cache .
}

@test "build: a trigger makes stages necessary, whose commands run one after another" {
	recipe <<-'X'
		FROM BASE
		ONBUILD RUN --mount=type=bind,from=o1,target=/a --mount=type=bind,from=o2,target=/b cat /a/one /b/two >/both
	X
	mlrun build -q -t triggers .
	recipe <<-'X'
		FROM BASE AS o1
		RUN echo one >/one
		FROM BASE AS o2
		RUN echo two >/two
		FROM triggers
	X
	mlrun build -q --jobs 2 -t mine .
	run -0 inside cat /both
	assert_output $'one\ntwo'
}

@test "build: labels that mlrun exec cannot follow are ignored, and --explain tells" {
	recipe <<<$'FROM BASE\nLABEL org.mlrun.gpu=7 org.mlrun.mpi=every'
	mlrun build -q -t wrong .
	# tests/cli/gpu-choice.bats has labels that mean something.
	run -0 mlrun exec --explain wrong
	assert_line --partial "ignored the label org.mlrun.gpu: '7' is not auto, all or none"
	assert_line --partial "ignored the label org.mlrun.mpi: 'every' is not auto, none or host"
	run -0 mlrun exec wrong true
	assert_output ""
}

@test "build: triggers of an image run where it is used" {
	recipe <<-'X'
		FROM BASE
		ONBUILD COPY app /app
		ONBUILD RUN cat /app >/ran
	X
	mlrun build -q -t parent .
	echo app >app
	printf 'FROM localhost/parent\nRUN test -e /ran\n' >Dockerfile
	mlrun build -q -t mine .
	run -0 inside cat /ran
	assert_output app
	mlrun export -q localhost/mine x.oci
	assert_equal "$(skopeo inspect --raw --config oci-archive:x.oci | jq -c .config.OnBuild)" null
}

@test "build: names, labels and the digest's file" {
	recipe <<<"FROM BASE"
	run -0 mlrun build --progress=quiet --rm -t one -t team/two:3 --label 'a=b c' --label 'd=$E' --iidfile id --metadata-file meta .
	assert_equal "$output" "$(cat id)"
	assert_equal "$(jq -r '."containerimage.digest"' meta)" "$output"
	assert_equal "$(mlrun images --json | jq -r 'map(.name) | map(select(startswith("localhost")))[]')" $'localhost/one:latest\nlocalhost/team/two:3'
	mlrun export -q localhost/one x.oci
	assert_equal "$(skopeo inspect --config oci-archive:x.oci | jq -c '.config.Labels | [.a, .d]')" '["b c","$E"]'
	run -125 mlrun build -q -t 'Bad Name' .
	run -125 mlrun build -q missing
	assert_output "mlrun: open the context 'missing': No such file or directory"
}

@test "build: with SOURCE_DATE_EPOCH two stores get the same image" {
	echo 1 >a
	recipe <<-'X'
		FROM BASE
		COPY a /
		RUN mkdir /d && date >/d/when && rm /d/when && touch /d/x
	X
	export SOURCE_DATE_EPOCH=1700000000
	one=$(mlrun build -q .)
	touch a
	sleep 1.1
	assert_equal "$(mlrun build -q --store "$TMPDIR/second" .)" "$one"
	run -0 mlrun exec "$one" stat -c %Y /a /d/x
	assert_output $'1700000000\n1700000000'
}

@test "build: a build that is killed leaves nothing behind" {
	recipe <<-'X'
		FROM BASE
		RUN touch /one
		RUN --mount=type=secret,id=s exec sleep 300
	X
	echo word >secret
	mlrun build -q --secret id=s,src=secret . 2>/dev/null &
	PIDS+=($!)
	until_true sh -c "mlrun containers --json | jq -e 'length == 1' >/dev/null"
	until_true pgrep -f '^sleep 300'
	pkill -9 -f 'build -q --secret id=s' || true
	wait_while pgrep -f '^sleep 300'
	sed -i 's/exec sleep 300/true/' Dockerfile
	run -0 mlrun build -t mine .
	assert_output --partial "1 of 2 steps from the cache"
	assert_equal "$(mlrun containers --json | jq length)" 0
	assert_equal "$(ls "$MLRUN_STORE/tmp")" ""
}

@test "build: a base image that the store lacks is fetched, once" {
	recipe <<<"FROM BASE"
	mlrun build -q -t mine .
	before=$(registry_requests | wc -l)
	mlrun build -q -t mine .
	assert_equal "$(registry_requests | wc -l)" "$before"
	mlrun build -q --pull -t mine .
	assert [ "$(registry_requests | wc -l)" -gt "$before" ]
	printf 'FROM %s/none\n' "$REGISTRY" >Dockerfile
	run -125 mlrun build -q .
	assert_output --partial "Dockerfile:1: image '$REGISTRY/none'"
}

@test "build: commands see nothing of the caller's but the network" {
	recipe <<-'X'
		FROM BASE
		RUN env | sort >/env; ls -A /tmp >/tmps; pwd >/dir; cat /etc/passwd >/accounts
	X
	CALLERS=1 mlrun build -q -t mine .
	run -0 inside cat /env /tmps /dir
	refute_output --partial CALLERS
	refute_output --partial TMPDIR
	assert_line HOME=/root
	assert_equal "$(inside cat /dir)" /root # the image's
	assert_equal "$(inside cat /tmps)" ""
}

@test "build: what the site's configuration gives is in neither the image nor the key" {
	echo pipconf >pip.conf
	printf '[build]\nenv = SITE=1\nvolume = %s:/etc/pip.conf:ro\nvolume = /none:/none:ro:optional\n' "$PWD/pip.conf" >conf
	recipe <<-'X'
		FROM BASE
		RUN echo "$SITE" >/site; cat /etc/pip.conf >/pip; test -s "$SSL_CERT_FILE" && echo "$PIP_CERT" >/ca || echo none >/ca
	X
	MLRUN_CONFIG=$PWD/conf run -0 mlrun build -q -t mine .
	run -0 inside cat /site /pip /ca
	assert_line --index 0 1
	assert_line --index 1 pipconf
	assert_line --index 2 --regexp '^(none|/run/mlrun/ca-certificates.crt)$'
	run -1 inside ls /etc/pip.conf /run/mlrun
	run -0 mlrun build -t mine .
	assert_output --partial "1 of 1 steps from the cache"
}

@test "build: ADD unpacks archives, and nothing of them outside" {
	mkdir -p tree/sub
	echo 1 >tree/sub/file
	chmod 4755 tree/sub/file
	ln tree/sub/file tree/hard
	ln -s sub/file tree/soft
	tar -C tree --owner=5 --group=6 --numeric-owner -czf x.tar.gz .
	tar -C tree -cJf y.tar.xz .
	echo plain >plain.tar
	gzip -k plain.tar
	python3 -c 'import tarfile; t = tarfile.open("evil.tar", "w"); i = tarfile.TarInfo("../../evil"); t.addfile(i)'
	recipe <<-'X'
		FROM BASE
		ADD x.tar.gz y.tar.xz /in/
		ADD plain.tar plain.tar.gz /plain/
		ADD --unpack=false x.tar.gz /kept/
		ADD --chown=7:8 x.tar.gz /owned
	X
	mlrun build -q -t mine .
	run -0 inside sh -c 'cd /; cat in/sub/file in/hard in/soft plain/plain.tar; ls plain kept; test in/hard -ef in/sub/file'
	assert_output "$(printf '%s\n' 1 1 1 plain kept: x.tar.gz '' plain: plain.tar plain.tar.gz)"
	run -0 sh -c 'cd /; mlrun exec --fakeroot mine stat -c "%u:%g %a" /owned/sub/file /owned'
	assert_line --index 0 '7:8 4755'
	recipe <<<$'FROM BASE\nADD evil.tar /x/'
	run -125 mlrun build -q .
	assert_output --partial "Dockerfile:2: archive 'evil.tar': '../../evil'"
}

@test "build: ADD fetches a URL and checks its digest" {
	mkdir served
	echo served >served/file.txt
	tar -C served -cf served/x.tar file.txt
	python3 -u -m http.server -d served --bind 127.0.0.1 0 >log 2>&1 &
	PIDS+=($!)
	until_true grep -q 'port' log
	port=$(sed -n 's/.* port \([0-9]*\).*/\1/p' log)
	sum=$(sha256sum <served/file.txt | cut -d' ' -f1)
	recipe <<-X
		FROM BASE
		ADD --checksum=sha256:$sum http://127.0.0.1:$port/file.txt?a=b /dir/
		ADD --chmod=644 http://127.0.0.1:$port/file.txt /named
		ADD http://127.0.0.1:$port/x.tar /dir/
		ADD --unpack http://127.0.0.1:$port/x.tar /unpacked/
	X
	mlrun build -q -t mine .
	run -0 inside sh -c 'cd /; cat dir/file.txt named unpacked/file.txt; stat -c %a dir/file.txt named; ls dir'
	assert_output "$(printf '%s\n' served served served 600 644 file.txt x.tar)"
	run -0 mlrun build -t mine .
	assert_output --partial "4 of 4 steps from the cache"
	recipe <<<$'FROM BASE\nADD --checksum=sha256:'"${sum//[0-9]/0} http://127.0.0.1:$port/file.txt /x"
	run -125 mlrun build -q .
	assert_output --partial "the file is sha256:$sum"
	recipe <<<$'FROM BASE\nADD '"http://127.0.0.1:$port/none /x"
	run -125 mlrun build -q .
	assert_output --partial "fetch 'http://127.0.0.1:$port/none': the server has no such file (404)"
}

@test "build: a shell where a command failed, on a terminal" {
	recipe <<<$'FROM BASE\nRUN touch /left && false'
	run -0 python3 - <<-'P'
		import os, pty, sys
		pid, fd = pty.fork()
		if pid == 0:
		    os.execvp("mlrun", ["mlrun", "build", "--shell-on-failure", "."])
		text = b""
		sent = False
		while True:
		    try:
		        more = os.read(fd, 4096)
		    except OSError:
		        break
		    if not more:
		        break
		    text += more
		    if b"this is a shell" in text and not sent:
		        os.write(fd, b"ls /left; exit\n")
		        sent = True
		print(text.decode())
		print("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
	P
	assert_line --regexp '^/left'
	assert_line "status 125"
}

@test "build: a USER's commands run as it, and its files are its own" {
	recipe <<-'X'
		FROM BASE
		RUN printf '%s\n' 'me:x:12:34::/home/me:/bin/sh' >>/etc/passwd; printf '%s\n' us:x:34: more:x:56:me >>/etc/group
		RUN mkdir /home/me /open; chown 12:34 /home/me; touch /old /open/roots; chmod 1777 /open
		USER me
		RUN (id -u; id -g; id -G; id -un; echo "$HOME"; stat -c %u:%g /old ~) >/home/me/ids; mkdir -p /home/me/deep
		RUN cd; ln -s x link; (umask 0; mkfifo pipe); touch mine; chgrp 56 mine; chgrp 7 mine 2>refused || true; umask 077; touch tight; (umask 0; touch loose)
		RUN chmod 000 ~/tight; touch ~/writable; chmod 200 ~/writable; touch ~/sgid; chmod 2111 ~/sgid
		RUN ! touch /new; ! echo x >>/old; ! rm /old; ! mv /old /open; ! mkdir /d; ! ln -s a /l; ! chmod 777 /old; ! [ -w /old ]; ! [ -w / ]; ! rm -f /open/roots
		RUN [ -w ~ ]; touch /open/mine; mv /open/mine /open/own; rm /open/own
		USER 12:77
		RUN id -G >/open/groups
		USER 54321
		RUN (id -u; id -g; echo "$HOME"; id -un >/dev/null 2>&1 || echo nobody) >/open/unknown
		USER root
		RUN touch /root-file
		RUN cd /home/me; stat -c '%u:%g %a %n' [!lp]* lo* >/seen
		FROM BASE
		COPY --from=0 /home/me /copy
		COPY --from=0 /open /seen /root-file /old /
		USER nobodyknows
		CMD ["id"]
	X
	mlrun build -q -t mine .
	run -0 inside cat /copy/ids /groups /unknown
	assert_output "$(printf '%s\n' 12 34 '34 56' me /home/me 0:0 12:34 77 54321 0 / nobody)"
	run -0 inside cat /seen
	assert_output - <<-'END'
		12:34 755 deep
		12:34 644 ids
		12:56 644 mine
		12:34 644 refused
		12:34 2111 sgid
		12:34 0 tight
		12:34 200 writable
		12:34 666 loose
	END
	mlrun export -q --format=tar localhost/mine "$TMPDIR/mine.tar"
	run -0 sh -c 'tar -tvf "$1" --numeric-owner | sed -E "s/ +[0-9]+ [-0-9]+ [:0-9]+ / /" | grep -e " copy/" -e " unknown" -e root-file -e " old"' - "$TMPDIR/mine.tar"
	assert_output - <<-'END'
		drwxr-xr-x 12/34 copy/
		drwxr-xr-x 12/34 copy/deep/
		-rw-r--r-- 12/34 copy/ids
		lrwxrwxrwx 12/34 copy/link -> x
		-rw-rw-rw- 12/34 copy/loose
		-rw-r--r-- 12/56 copy/mine
		prw-rw-rw- 12/34 copy/pipe
		-rw-r--r-- 12/34 copy/refused
		---x--s--x 12/34 copy/sgid
		---------- 12/34 copy/tight
		--w------- 12/34 copy/writable
		-rw-r--r-- 0/0 old
		-rw-r--r-- 0/0 root-file
		-rw-r--r-- 54321/0 unknown
	END
	printf 'FROM localhost/mine\nRUN true\n' >Dockerfile
	run -125 mlrun build -q .
	assert_output --partial "Dockerfile:2:"
	assert_output --partial "'nobodyknows' is not in the image's /etc/passwd"
}

@test "build: a USER that is a number has its account's group, or root's; directories of WORKDIR are the USER's" {
	recipe <<-'X'
		FROM BASE
		RUN printf '%s\n' 'me:x:12:34::/home/me:/bin/sh' >>/etc/passwd; mkdir /d; chmod 777 /d
		USER 12
		RUN id -g >/d/me; echo "$HOME" >>/d/me
		USER 77
		RUN id -g >/d/nobody
		WORKDIR /d/work/here
		USER root
		WORKDIR deep
	X
	mlrun build -q -t mine .
	run -0 inside cat /d/me /d/nobody
	assert_output "$(printf '%s\n' 34 /home/me 0)"
	run -0 sh -c 'mlrun export -q --format=tar localhost/mine - | tar -tv --numeric-owner'
	assert_line --regexp ' 12/34 .* (\./)?d/me$'
	assert_line --regexp ' 77/0 .* (\./)?d/nobody$'
	assert_line --regexp '^drwxr-xr-x 77/77 .* (\./)?d/work/$'
	assert_line --regexp '^drwxr-xr-x 77/77 .* (\./)?d/work/here/$'
	assert_line --regexp '^drwxr-xr-x 0/0 .* (\./)?d/work/here/deep/$'
}

@test "build: a USER writes to caches that are its own, and to what is in memory" {
	needs_ordinary_user
	recipe <<-'X'
		FROM BASE
		USER 7:8
		RUN --mount=type=cache,id=own,target=/c,uid=7,gid=8 --mount=type=tmpfs,target=/t touch /c/f /t/f /dev/shm/f; stat -c '%u:%g %n' /c /c/f; [ -e /c/f ]
		RUN --mount=type=cache,id=roots,target=/c ! touch /c/f
	X
	run -0 mlrun build -t mine .
	assert_line --partial "7:8 /c"
	assert_line --partial "7:8 /c/f"
	assert_line --partial "touch: /c/f: Permission denied"
}

@test "build: a RUN cannot truncate the log that the build writes" {
	recipe <<-'X'
		FROM BASE
		RUN echo one >/dev/stderr; echo two >/dev/stdout; echo three >/proc/self/fd/2; : >/dev/stderr
		USER 7
		RUN echo four >/dev/stderr
	X
	echo before >"$TMPDIR/log"
	mlrun build -t mine . >>"$TMPDIR/log" 2>&1
	mlrun build --no-cache --progress=plain -t mine . 2>"$TMPDIR/other"
	for line in before one two three four; do grep "$line\$" "$TMPDIR/log"; done
	grep -e one "$TMPDIR/other"
}

@test "build: directories keep their owners and modes below a working directory, a home and a mount" {
	needs_ordinary_user # root has no fake root
	recipe <<-'X'
		FROM BASE
		RUN mkdir -p /w/a/b /open /m; chmod 2770 /w; chmod 1777 /open; chown -R 7:8 /w /open /m
		WORKDIR /w/a/b
		RUN --mount=type=tmpfs,target=/m/n touch file
		USER 7:8
		RUN touch mine
	X
	mlrun build -q -t mine .
	run -0 sh -c 'mlrun export -q --format=tar localhost/mine - | tar -tv --numeric-owner | grep ^d'
	for line in 'drwxrws--- 7/8 .* w/' 'drwxr-xr-x 7/8 .* w/a/' 'drwxr-xr-x 7/8 .* w/a/b/' 'drwxrwxrwt 7/8 .* open/' 'drwxr-xr-x 7/8 .* m/'; do
		assert_line --regexp "^${line% *} (\\./)?${line##* }\$"
	done
}

# A row of the tables of recipes, asked for in lines of a recipe that fail where it has no effect; nothing for a row whose
# effect another test has.
effect() {
	local type=${1#RUN --mount=type=} key=${1##*,} flag=${1#* } id=

	type=${type%%,*}
	[[ $type != secret ]] || id=,id=s
	case $1 in
	*,type) echo "RUN --mount=type=$type,target=/t$id [ -e /t ]" ;;
	*,target | *,dst | *,destination) echo "RUN --mount=type=$type,$key=/t$id [ -e /t ]" ;;
	*bind,source | *bind,src) echo "RUN --mount=$key=sub,target=/t [ -e /t/file ]" ;;
	*bind,from) echo "RUN --mount=from=made,target=/t [ -e /t/made/one ]" ;;
	*cache,source | *cache,src) echo "RUN --mount=type=cache,id=$key,$key=sub,target=/t [ -e /t/file ]" ;;
	*cache,from) echo "RUN --mount=type=cache,id=from,from=made,source=made,target=/t [ -e /t/one ]" ;;
	*,readonly | *,ro)
		echo "RUN --mount=type=$type,target=/t,$key ! touch /t/x 2>/dev/null"
		echo "RUN --mount=type=$type,target=/t,$key=false touch /t/x"
		;;
	*,readwrite | *,rw)
		echo "RUN --mount=type=$type,target=/t,$key touch /t/x"
		echo "RUN --mount=type=$type,target=/t,$key=false ! touch /t/y 2>/dev/null"
		;;
	*cache,id)
		echo "RUN --mount=type=cache,id=one,target=/t touch /t/id"
		echo "RUN --mount=type=cache,id=one,target=/u [ -e /u/id ]"
		echo "RUN --mount=type=cache,id=two,target=/t [ ! -e /t/id ]"
		;;
	*,mode) echo "RUN --mount=type=$type,id=s,target=/t,mode=0510 [ \"\$(stat -c %a /t)\" = 510 ]" ;;
	*,uid) echo "RUN --mount=type=$type,id=s,target=/t,uid=7,gid=8 [ \"\$(stat -c %u:%g /t)\" = 7:8 ]" ;;
	*,gid) echo "RUN --mount=type=$type,id=s,target=/t,gid=8 [ \"\$(stat -c %u:%g /t)\" = 0:8 ]" ;;
	*tmpfs,size) echo 'RUN --mount=type=tmpfs,target=/t,size=1m ! dd if=/dev/zero of=/t/x bs=1k count=2000 2>/dev/null' ;;
	*secret,source | *secret,src | *secret,id) echo "RUN --mount=type=secret,$key=s,target=/t grep -qx word /t" ;;
	*secret,env) echo 'RUN --mount=type=secret,id=s,env=S [ "$S" = word ]' ;;
	*ssh,id) echo 'RUN --mount=type=ssh,id=s,target=/t [ "$SSH_AUTH_SOCK" = /t ]' ;;
	*,required) echo "! is required: RUN --mount=type=$type,id=none,required true" ;;
	*sharing) echo '! expected shared: RUN --mount=type=cache,target=/t,sharing=odd true' ;; # and "a locked cache is one command's"
	"RUN --network") echo 'RUN --network=none [ "$(ls /sys/class/net)" = lo ]' ;;
	"RUN --device") echo '! has not allowed it: RUN --device=vendor.com/class=name true' ;;
	"RUN --security") echo '! is refused: RUN --security=insecure true' ;;
	"COPY --from") printf '%s\n' 'COPY --from=made /made/one /f' 'RUN [ -e /f ]' ;;
	*--chown) printf '%s\n' "$1=7:8 sub/file /$flag" "RUN [ \"\$(stat -c %u:%g /$flag)\" = 7:8 ]" ;;
	*--chmod) printf '%s\n' "$1=0604 sub/file /$flag" "RUN [ \"\$(stat -c %a /$flag)\" = 604 ]" ;;
	*--link) printf '%s\n' "RUN mkdir /$flag; touch /$flag/sub" "$1 . /$flag/" "RUN [ -e /$flag/sub/file ]; rm -r /$flag" ;; # an error without it
	*--exclude) printf '%s\n' "$1=file sub /$flag/" "RUN [ ! -e /$flag/file ] && [ -e /$flag/other ]" ;;
	*--parents) printf '%s\n' 'COPY --parents sub/file /p/' 'RUN [ -e /p/sub/file ]' ;;
	*--checksum) echo "! --checksum: ADD --checksum=sha256:$(printf %064d 0) sub/file /x" ;;
	*--unpack) printf '%s\n' 'ADD --unpack=false x.tar /u/' 'RUN [ -e /u/x.tar ]' ;;
	"FROM --platform") echo '! linux/riscv64: FROM --platform=linux/riscv64 BASE' ;;
	HEALTHCHECK\ *) echo "! $flag=odd': $1=odd CMD true" ;;
	"ADD --keep-git-dir") grep -q -- "${1#* }" "$top_srcdir/tests/cli/build-context.bats" ;;
	*\ *) [[ $flag == --mount || $flag == --mount=type=* && $flag != *,* ]] || fail "a row without an effect: $1" ;;
	esac
}

@test "build: every flag of an instruction and every key of a mount has its effect, or is refused" {
	local row line why refused=()

	mkdir sub
	touch sub/file sub/other
	tar -cf x.tar sub
	printf word >"$TMPDIR/s"
	python3 -c 'import signal, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); signal.pause()' \
		"$TMPDIR/agent" 3>&- &
	PIDS+=($!)
	until_true test -S "$TMPDIR/agent"
	printf '%s\n' 'FROM BASE AS made' 'RUN mkdir /made; touch /made/one' 'FROM BASE' >rows
	while read -r row; do
		[[ $row != *ssh,mode && $row != *ssh,uid && $row != *ssh,gid ]] || continue # every USER may use the socket
		effect "$row" >lines
		while read -r line; do
			if [[ $line == "! "* ]]; then
				refused+=("${line#! }")
			else
				echo "$line"
			fi
		done <lines >>rows
	done < <("$top_builddir/tests/cli/reach" recipe | cut -f1)
	recipe <rows
	run mlrun build -t mine --secret "id=s,src=$TMPDIR/s" --ssh "s=$TMPDIR/agent" --ssh "default=$TMPDIR/agent" .
	assert_success
	for line in "${refused[@]}"; do
		why=${line%%: *}
		printf '%s\n' 'FROM BASE' "${line#*: }" | recipe
		run -125 mlrun build .
		assert_output --partial "$why"
	done
}

@test "build: a hole of a file stays one, in a later step, a copy and on another machine" {
	recipe <<-'X'
		FROM BASE AS one
		RUN echo begin >/holes && dd if=/dev/zero of=/holes bs=1 count=1 seek=33554431 conv=notrunc && echo end >>/holes
		FROM BASE
		COPY --from=one /holes /copy
		RUN sha256sum </copy >/sum; stat -c %b /copy >/blocks
	X
	mlrun build -q -t "$REGISTRY/holes" .
	run -0 sh -c 'cd / && mlrun exec "$1" cat /blocks' sh "$REGISTRY/holes"
	assert [ "$output" -lt 4096 ] # of 512 bytes
	mlrun push -q "$REGISTRY/holes"
	MLRUN_STORE=$TMPDIR/other mlrun pull -q "$REGISTRY/holes"
	run -0 find "$TMPDIR/other" -name copy -printf '%b\n'
	assert [ "$output" -lt 4096 ]
	MLRUN_STORE=$TMPDIR/other run -0 sh -c 'cd / && mlrun exec "$1" sh -c "sha256sum </copy; cat /sum"' sh "$REGISTRY/holes"
	assert_equal "${lines[0]}" "${lines[1]}"
	assert_equal "${lines[0]%% *}" "$({ echo begin; head -c 33554426 /dev/zero; echo end; } | sha256sum | cut -d" " -f1)"
}

@test "build: what a RUN mounts decides whether it runs again" {
	mkdir dir other
	echo 1 >dir/file
	recipe <<-'X'
		FROM BASE AS stage
		ARG S=1
		RUN echo $S >/made
		FROM BASE
		RUN --mount=source=dir,target=/m cp /m/file /one
		RUN --mount=from=named,target=/n cp /n/file /two
		RUN --mount=from=stage,source=/made,target=/s cp /s /three
	X
	echo a >other/file
	mlrun build -q -t mine --build-context named=other .
	run -0 mlrun build -t mine --build-context named=other .
	assert_output --partial "4 of 4 steps from the cache"
	echo b >other/file
	run -0 mlrun build -t mine --build-context named=other .
	assert_output --partial "2 of 4 steps from the cache"
	echo 2 >dir/file
	run -0 mlrun build -t mine --build-arg S=2 --build-context named=other .
	assert_output --partial "0 of 4 steps from the cache"
	run -0 inside cat /one /two /three
	assert_output $'2\nb\n2'
}

@test "build: files that are as they were are not read again, and any change is seen" {
	mkdir dir
	echo one >dir/a
	recipe <<<$'FROM BASE\nCOPY dir /dir'
	sleep 3.1 # what has changed just now is always read
	mlrun build -q -t mine .
	run -0 mlrun build -t mine .
	assert_output --partial "1 of 1 steps from the cache"
	# The same size and time of modification.
	touch -r dir/a before
	echo two >dir/a
	touch -r before dir/a
	run -0 mlrun build -t mine .
	assert_output --partial "0 of 1 steps from the cache"
	run -0 inside cat /dir/a
	assert_output two
	sleep 3.1
	mlrun build -q -t mine .
	mv dir/a dir/b
	run -0 mlrun build -t mine .
	assert_output --partial "0 of 1 steps from the cache"
	run -0 inside ls /dir
	assert_output b
}

# --- a store on a network's file system ------------------------------------------------------------

# As NFS and Lustre, FUSE cannot hold an overlay's upper layer; bindfs shows a directory so.
on_fuse() {
	unshare -Urm bash -c '
		bindfs -f "$0" "$1" 3>&- 4>&- &
		for ((i = 0; i < 100; i++)); do ! mountpoint -q "$1" || break; sleep 0.05; done
		mountpoint -q "$1" || exit 77
		shift
		"$@"
		status=$?
		kill %1
		exit $status' "$PWD/real" "$PWD/shown" "$@"
}

@test "build: where the store's file system cannot hold what a container writes, RUN writes to TMPDIR and exec --write is refused" {
	mkdir real shown scratch
	on_fuse test -d shown || skip "no bindfs here, or no /dev/fuse"
	export MLRUN_STORE=$PWD/shown TMPDIR=$PWD/scratch
	printf 'FROM %s\nRUN echo kept >/kept; echo gone >/gone; mkdir /d; echo old >/d/f\nRUN rm -r /gone /d; mkdir /d; echo new >/d/g\n' "$BASE" >Dockerfile
	run -0 on_fuse mlrun build -q -t mine .
	run -0 on_fuse mlrun exec mine sh -c 'cat /kept /d/*; ls /gone 2>/dev/null || echo no'
	assert_output $'kept\nnew\nno'
	run -0 on_fuse mlrun build -t mine .
	assert_output --partial "2 of 2 steps from the cache"
	assert_equal "$(ls scratch real/tmp)" $'real/tmp:\n\nscratch:'
	# What a build that is killed leaves, the next one removes.
	printf 'FROM %s\nRUN echo x >/x; exec sleep %s\n' "$BASE" "$NAP" >slow
	on_fuse mlrun build -q -f slow . 3>&- &
	until_true pgrep -x -f "sleep $NAP"
	pkill -KILL -x -f "mlrun build -q -f slow ."
	wait_while pgrep -x -f "sleep $NAP"
	[ "$(ls scratch)" != "" ]
	run -0 on_fuse mlrun build -q --no-cache -t mine .
	assert_equal "$(ls scratch)" ""
	run -125 on_fuse mlrun exec --write=mine mine true
	assert_output --partial "cannot hold what a container writes"
	assert_output --partial "hint: MLRUN_STORE or --store names a store on a local disk"
	run -0 on_fuse mlrun containers
	refute_output --partial mine
	run on_fuse mlrun doctor
	assert_line --regexp '^warning +store-writing '
}
