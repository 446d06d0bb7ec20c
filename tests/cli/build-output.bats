#!/usr/bin/env bats
# mlrun build: what becomes of the image. --output, --squash.
# shellcheck disable=SC2016 # the recipes' variables are theirs
load common
load build

# Names, types, modes, owners, links and contents of an image's root, a line each.
listing() {
	mlrun export -q --format=tar "$1" - | python3 -c '
import hashlib, sys, tarfile
t = tarfile.open(fileobj=sys.stdin.buffer, mode="r|")
seen = {}
for m in t:
    data = t.extractfile(m).read() if m.isreg() else b""
    seen[m.name] = data if not m.islnk() else seen[m.linkname]
    sort = "f" if m.islnk() or m.isreg() else m.type.decode()
    print(m.name, sort, oct(m.mode), m.uid, m.gid, m.linkname if m.issym() else "", hashlib.md5(seen[m.name]).hexdigest())
' | LC_ALL=C sort
}

@test "build: --output writes files, a tar, an OCI or a Docker archive" {
	recipe <<-'X'
		FROM BASE AS make
		RUN mkdir -p /out/sub && echo x >/out/sub/file && ln /out/sub/file /out/hard && ln -s sub/file /out/soft && chmod 640 /out/sub/file && chown 7:8 /out/hard
		FROM scratch
		COPY --from=make /out /
		CMD ["none"]
	X
	mkdir -p there/sub
	echo mine >there/own
	echo old >there/sub/file
	for to in new/deep there type=local,dest=third; do
		mlrun build -q -o "$to" .
	done
	for dir in new/deep there third; do
		run -0 cat $dir/sub/file $dir/hard $dir/soft
		assert_output $'x\nx\nx'
		assert_equal "$(stat -c '%a %h %U' $dir/hard)" "640 2 $(id -un)"
		assert_equal "$(readlink $dir/soft)" sub/file
	done
	assert_equal "$(cat there/own)" mine

	mlrun build -q -o - . | tar -tv >list
	run -0 awk '{ print $1, $2, $6, $7, $8 }' list
	assert_line '-rw-r----- 7/8 hard  '
	mlrun build -q -o type=tar,dest=out.tar -o type=oci,dest=out.oci -t mine .
	tar -tf out.tar sub/file
	assert_equal "$(skopeo inspect --config oci-archive:out.oci | jq -c .config.Cmd)" '["none"]'
	mlrun build -q -t lab/mine:2 -o type=docker,dest=out.docker -o type=oci,tar=false,dest=layout,name=lab/other:3 .
	run -0 tar -xOf out.docker manifest.json
	assert_output --partial '"localhost/lab/mine:2"'
	assert_equal "$(jq -r '.manifests[0].annotations["org.opencontainers.image.ref.name"]' layout/index.json)" lab/other:3
	mlrun export -q --format=rootfs mine root
	run -0 cat root/soft
	assert_output x
}

@test "build: an --output that makes no sense is refused before anything is built" {
	recipe <<<'FROM BASE'
	while IFS='|' read -r to want; do
		run -125 mlrun build -o "$to" .
		assert_output --partial "$want"
	done <<-'X'
		type=registry,name=x|type=registry: use local, tar, oci, docker or sif
		type=local|lacks dest=DIRECTORY
		dest=x|lacks type=
		type=tar,dst=x|'dst=x': use type=, dest=, name= and tar=false
		type=tar,tar=false,dest=x|tar=false is for type=oci
	X
	mlrun build -q -t mine .
	ln -s / there
	run -125 mlrun build -q -o there/none/x .
	assert_output --partial "there/none"
	mkdir shut
	chmod 500 shut
	needs_ordinary_user
	run -125 mlrun build -q -o shut .
	assert_output --partial "export"
	run -0 ls -A shut
	assert_output ""
}

@test "build: files go through no link that is in the way, and a file is old or new" {
	recipe <<-'X'
		FROM scratch
		COPY Dockerfile /sub/file
		COPY Dockerfile /link
	X
	mkdir to outside
	ln -s "$PWD/outside" to/sub
	echo victim >victim
	ln -s "$PWD/victim" to/link
	mlrun build -q -o to .
	assert_equal "$(ls -A outside)" ""
	assert_equal "$(cat victim)" victim
	cmp to/link Dockerfile
	cmp to/sub/file Dockerfile
}

@test "build: files come into a directory at the end, from one that is closed to others; what a killed build left is gone" {
	recipe <<-'X'
		FROM BASE
		RUN mkdir -p /n /r/s && chmod 555 /r /r/s && touch /n/a && ln /n/a /n/b && seq 20000 | sed s,^,/n/, | xargs touch
		FROM scratch
		COPY --from=0 /n /n
		COPY --from=0 /r /r
	X
	mkdir to to/.mlrun-dead
	mlrun build -q -t mine .
	mlrun export -q --format=rootfs mine to 3>&- &
	until_true sh -c 'ls -d to/.*.mlrun-*.0'
	kill -STOP $!
	run -0 sh -c 'stat -c %a to/.*.mlrun-*.0; ls to'
	assert_output 700
	kill -KILL $!
	wait $! || true
	touch -d '-2 minutes' to/.*.mlrun-*.0
	mlrun export -q --format=rootfs mine to
	run -0 ls -A to
	assert_output $'.mlrun-dead\nn\nr'
	run -0 stat -c '%a %h' to/r to/n/a to/n/b
	assert_output $'555 3\n644 2\n644 2'
	mlrun export -q --format=rootfs mine to # once more, over it
}

@test "build: --output replaces files by directories and fifos" {
	recipe <<<$'FROM BASE\nRUN mkdir -p /t/empty /t/full && touch /t/full/x && mkfifo /t/pipe'
	mkdir -p to/t
	for name in empty full pipe; do echo old >to/t/$name; done
	mlrun build -q -o to .
	[ -d to/t/empty ] && [ -f to/t/full/x ] && [ -p to/t/pipe ]
}

@test "build: --squash makes one layer of what the recipe adds" {
	mkdir tree
	echo 1 >tree/one
	ln tree/one tree/two
	tar -cf add.tar -C tree .
	recipe <<-'X'
		FROM BASE
		RUN mkdir -p /d/e /gone /kept && echo a >/d/a && echo b >/d/e/b && echo c >/gone/c && ln /d/a /kept/hard && chown 7:8 /d/e/b && chmod 2755 /kept
		ADD add.tar /added/
		RUN rm -r /gone /bin/false; rm /d/a; echo b2 >/d/e/b; rm -r /etc && mkdir /etc && echo new >/etc/new
		RUN rm /added/one && ln -s kept /link && rm -r /d/e && echo file >/d/e
		COPY Dockerfile /d/
		USER 1000
		LABEL a=b
	X
	mlrun build -q -t plain .
	run -0 mlrun build --squash -t mine .
	assert_output --partial "5 of 5 steps from the cache"
	listing plain >want
	listing mine >have
	diff want have
	local under
	under=$(mlrun inspect --json "$BASE" | jq '.layers | length')
	assert_equal "$(mlrun inspect --json mine | jq '.layers | length')" $((under + 1))
	mlrun export -q --format=oci mine layout
	assert_equal "$(skopeo inspect --config oci:layout:localhost/mine:latest | jq -c '[.config.User, .config.Labels.a, ([.history[] | select(.empty_layer | not)] | length)]')" \
		"[\"1000\",\"b\",$((under + 1))]"
	# What another program makes of it.
	umoci unpack --rootless --image layout:localhost/mine:latest bundle
	run -0 sh -c 'cd bundle/rootfs && ls etc; cat d/e kept/hard added/two; ls -d gone bin/false added/one 2>/dev/null; ls d'
	assert_output $'new\nfile\na\n1\nDockerfile\ne'
	run -0 mlrun build -q --squash -t mine .
	assert_output "$(mlrun build -q --squash .)"
}

@test "build: --squash gives the tree that the layers give, whatever they do to each other" {
	local i k p q
	local -a at=(a b c a/a a/b b/a b/b c/a a/a/a a/b/b b/a/c c/a/b)

	RANDOM=7
	recipe <<-'X'
		FROM BASE
		RUN mkdir -p a/a b/a c && touch a/b a/a/a b/a/c && ln -s b c/a
	X
	mlrun build -q -t under .
	for i in $(seq "$(rounds 8)"); do
		echo 'FROM under' >Dockerfile
		for k in 1 2 3 4 5; do
			printf 'RUN cd /'
			for _ in 1 2 3; do
				p=${at[RANDOM % 12]} q=${at[RANDOM % 12]}
				case $((RANDOM % 8)) in
				0) printf '; mkdir -p %s' "$p" ;;
				1 | 2) printf '; echo %s >%s' "$RANDOM" "$p" ;;
				3) printf '; rm -rf %s; mkdir %s; touch %s/new' "$p" "$p" "$p" ;;
				4) printf '; rm -rf %s' "$p" ;;
				5) printf '; ln -f %s %s' "$p" "$q" ;;
				6) printf '; ln -sfn %s %s' "${p##*/}" "$q" ;;
				7) printf '; mv %s %s' "$p" "$q" ;;
				esac
			done
			echo ' 2>/dev/null; true'
		done >>Dockerfile
		mlrun build -q -t plain .
		mlrun build -q --squash -t mine .
		listing plain >want
		listing mine >have
		diff want have || { cat Dockerfile; return 1; }
		mlrun export -q --format=oci mine "layout$i"
		umoci unpack --rootless --image "layout$i:localhost/mine:latest" "bundle$i" 2>/dev/null
		(cd "bundle$i/rootfs" && find . -type f -o -type l -o -type d | sed 's|^\./||; /^\.$/d' | LC_ALL=C sort) >names
		diff <(cut -d' ' -f1 want | sed 's|^\./||; s|/$||; /^\.*$/d' | LC_ALL=C sort) names
	done
}

@test "build: steps go to a registry and are taken from there, on another machine" {
	local cache=$REGISTRY/lab/cache

	echo 1 >file
	recipe <<-'X'
		FROM BASE AS make
		RUN mkdir /out && echo $((6 * 7)) >/out/made
		FROM BASE
		RUN true
		COPY file /
		COPY --from=make /out /
		RUN echo last >/last
	X
	run -0 mlrun build -t mine --cache-to "type=registry,ref=$cache:1,mode=max" .
	assert_line --partial '0 of 5 steps from the cache'
	digest=$(mlrun build -q .)
	export MLRUN_STORE=$TMPDIR/other
	run -0 mlrun build -t mine --cache-from "$cache:1" .
	assert_line --partial '5 of 5 steps from the cache'
	assert_equal "$(mlrun build -q .)" "$digest"
	run -0 sh -c 'cd / && mlrun exec mine cat /file /made /last'
	assert_output $'1\n42\nlast'

	export MLRUN_STORE=$TMPDIR/third
	echo 2 >file
	run -0 mlrun build -t mine --cache-from "type=registry,ref=$cache:1" --cache-to "$cache:1" .
	assert_line --partial '2 of 5 steps from the cache'
	run -0 mlrun build --no-cache --cache-from "$cache:1" .
	assert_line --partial '0 of 5 steps from the cache'
	mlrun prune
	assert_equal "$(find "$MLRUN_STORE/blobs/sha256" -type f | wc -l)" 4 # the base, the image: nothing of what was pushed
	run -0 skopeo inspect --tls-verify=false "docker://$cache:1" # other programs can copy it
}

@test "build: a cache that is not there, is none or breaks is done without" {
	recipe <<<$'FROM BASE\nRUN true'
	run -0 mlrun build -q --cache-from "$REGISTRY/lab/none:1" .
	refute_output --partial warning
	rm -r "$MLRUN_STORE/cache"
	run -0 mlrun build --cache-from "$BASE" --cache-from "127.0.0.1:1/none" .
	assert_line "mlrun: warning: --cache-from '$BASE' is not used: it is not what --cache-to makes"
	assert_line --partial "--cache-from '127.0.0.1:1/none' is not used: "
	assert_line --partial '0 of 1 steps from the cache'
	for text in type=gha type=registry localhost/x "$BASE@sha256:$(printf 0%.0s {1..64})"; do
		run -125 mlrun build --cache-to "$text" .
		assert_line --partial "--cache-to '$text'"
	done
	run -125 mlrun build --cache-to "127.0.0.1:1/none" .
	assert_line --partial "--cache-to '127.0.0.1:1/none': push"
}
