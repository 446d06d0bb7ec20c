#!/usr/bin/env bats
# mlrun build of Apptainer's definition files.
# shellcheck disable=SC2016 # the sections' variables are theirs
load common
load build

# The definition file is standard input.
definition() { sed "s|BASE|$BASE|" >x.def; }

# Print the instructions of standard input, a line each.
planned() { mlrun build --check --json "$@" -f - . | jq -c '[.instruction, .line, .flags, .args, (.heredocs | map(.name, .content))]'; }

# refused ERROR HINT [OPTION...]: of the file on standard input
refused() {
	local error=$1 hint=$2

	shift 2
	run -125 mlrun build --check "$@" -f - .
	assert_line --index 0 "mlrun: standard input:$error"
	[ -z "$hint" ] || assert_line --index 1 "hint: $hint"
	[ "${#lines[@]}" = $((1 + (${#hint} > 0))) ]
}

# The 100 files in the proportions of those that people write: one a file, and its number and verdict in list.
field() {
	awk '/^===/ { f = "f" $2 ".def"; print $2, $3 >"list"; next } { print >f }' "$top_srcdir/tests/data/definitions/field"
}

@test "definition: sections become one layer, an entry point, labels and the files below /.singularity.d" {
	mkdir -p d/deep "$HOME/h"
	echo A >'a b.txt'
	echo D >d/deep/d
	ln -s d/deep link
	ln -s deep/d d/in
	echo H >"$HOME/h/x"
	definition <<-'X'
		# A comment.
		BootStrap:docker     # so is this
		From: \
		   BASE

		%help
		    Read me.
		%labels
		    org.one  a "$value" # all of it
		    two
		%environment
		    export WHO="me $TINY"
		%files
		    "a b.txt" /opt/a
		    d /opt/new/
		    d /opt/copy
		    link /opt/
		    d/*
		    ~/h/x /opt/new
		    d/deep/. /opt/copy
		  %post
		    echo $0 $TINY "[$APPTAINER_ROOTFS]" $(id -u) $PWD >/out
		    echo 'export MADE=yes' >>$APPTAINER_ENVIRONMENT
		    test -z "$WHO"
		%runscript
		    echo "run $@"
		%startscript
		    #!/bin/ash
		    echo start
		%test
		    test "$WHO" = 'me yes' && test "$MADE" = yes && test -e /opt/a
	X
	run -0 mlrun build -t mine -f x.def .
	assert_line --partial 'line 21: %post'
	inside() { (cd / && mlrun exec --entrypoint '' mine "$@"); }
	run -0 inside cat /out /opt/a /opt/new/d/deep/d /opt/copy/in /opt/link/d /d/deep/d /d/in /opt/new/x /opt/new/d/in /opt/copy/d
	assert_output "/.post.script yes [] 0 /"$'\nA\nD\nD\nD\nD\nD\nH\nD\nD'
	run -0 inside find /opt -type l
	assert_output ""
	run -0 inside sh -c 'ls -a / | grep post; cd /.singularity.d && tail *script runscript.help env/9*'
	refute_output --partial .post.script
	assert_line --index 1 '#!/bin/sh'
	assert_line --index 2 '    echo "run $@"'
	assert_line '#!/bin/ash'
	assert_line '    export WHO="me $TINY"'
	assert_line 'export MADE=yes'
	assert_line 'Read me.'
	assert_equal "$(inside cat /.singularity.d/labels.json | jq -c .)" '{"org.one":"a \"$value\" # all of it","two":""}'
	assert_equal "$(inside cat /.singularity.d/Singularity)" "$(<x.def)"
	mlrun export -q localhost/mine x.oci
	assert_equal "$(skopeo inspect --config oci-archive:x.oci | jq -c '[.config.Entrypoint, .config.Cmd, .config.Labels, (.rootfs.diff_ids | length)]')" \
		'[["/.singularity.d/runscript"],null,{"org.one":"a \"$value\" # all of it","two":""},2]'
	run -0 mlrun exec mine a 'b c'
	assert_output 'run a b c'
	# All is in the cache, by contents and modes.
	touch 'a b.txt'
	run -0 mlrun build -t mine -f x.def .
	assert_output --partial '5 of 5 steps from the cache'
	chmod 600 d/deep/d
	run -0 mlrun build -T -t mine -f x.def .
	assert_output --partial '0 of 4 steps from the cache'
}

@test "definition: stages give files to later ones; links stay links there" {
	definition <<-'X'
		Bootstrap: docker
		From: BASE
		Stage: one
		%post
		    mkdir /made && echo x >/made/x && ln -s x /made/link
		Bootstrap: docker
		From: BASE
		%files
		    here /here
		%files from one
		    /made/* /got/
		    /made
		%files
		    here
	X
	echo H >here
	mlrun build -q -t mine -f x.def .
	run -0 inside ls -l /got/x /got/link /made /here
	assert_output --partial ' link -> x'
	run -0 mlrun build -q --target one -t one -f x.def .
	run -0 planned <x.def
	assert_line --index 5 '["COPY",10,["--from=one"],["/made/*","/got/","/made",""],[]]'
	assert_line --index 6 '["COPY",8,[],["here","/here"],[]]'
}

@test "definition: a file is known by its first key or by its name, and taken if it is the only one" {
	for name in Singularity.app Apptainer any.def; do
		printf 'Bootstrap: scratch\n' >"$name"
		run -0 mlrun build --check --json .
		assert_line --index 0 --partial '"scratch"'
		printf 'FROM x\n' >"$name"
		run -125 mlrun build --check .
		assert_line --index 0 "mlrun: $name:1: unknown key 'FROM x'"
		rm "$name"
	done
	printf '\n# From a friend\n  registry : x\nbootstrap:docker\nFrom: y\n' >any
	run -0 mlrun build --check --json -f any .
	assert_line --index 0 --partial '["x/y"]'
	mkdir Singularity.d
	echo 'Bootstrap: scratch' >a.def
	run -0 mlrun build --check .
	cp a.def b.def
	run -125 mlrun build --check .
	assert_line "mlrun: there is no Dockerfile in '.'"
	echo 'FROM docker' >Dockerfile
	run -0 mlrun build --check --json .
	assert_line --index 0 --partial '["docker"]'
}

@test "definition: {{ NAME }} is a default's value or --build-arg's; none, or one that nothing uses, is an error" {
	definition <<-'X'
		Bootstrap: docker
		From: python:{{ VERSION }}
		%arguments
		    # numbers
		    VERSION = 3.11
		    N=4
		%post
		    echo {{N}} "{{ two words }}" f"{{{x}}}" {{
	X
	run -0 planned <x.def
	assert_line --index 0 '["FROM",1,[],["python:3.11"],[]]'
	assert_output --partial 'echo 4 \"{{ two words }}\" f\"{{{x}}}\" {{\n'
	printf '# a file\nVERSION=3.12\n' >args
	run -0 planned --build-arg-file args --build-arg N=5 <x.def
	assert_line --index 0 --partial 'python:3.12'
	assert_output --partial 'echo 5 '
	run -125 mlrun build --check --build-arg M=1 -f x.def .
	assert_output 'mlrun: x.def: --build-arg M: there is no {{ M }} in it'
	refused '4: {{ M }} has no value' '--build-arg M=VALUE gives it one, or a line in %arguments' <<<$'Bootstrap: docker\nFrom: x\n%post\n{{ M }}'
	refused "3: '{{ M' has no '}}'" "" <<<$'Bootstrap: docker\n\nFrom: {{ M'
}

@test "definition: what is not done is refused by its name and line, with the way out" {
	local docker=$'Bootstrap: docker\nFrom: x\n'

	refused '3: %setup is refused' 'it would run on this machine: move its commands to %post, files to %files' <<<"$docker%setup"
	refused '3: %pre is refused' 'it would run on this machine: run its commands before mlrun build' <<<"$docker%pre"
	refused '4: %appinstall is refused' 'move what installs to %post, and let %runscript choose by its first word' <<<"$docker"$'\n %appinstall foo'
	refused "1: 'Bootstrap: shub' is not supported" "write 'Bootstrap: docker' and 'From: IMAGE'" <<<$'Bootstrap: shub\nFrom: a/b'
	refused "1: 'Bootstrap: yum' is not supported" "write 'Bootstrap: docker' and 'From: rockylinux:9'" <<<$'Bootstrap: yum\nMirrorURL: http://x\nInclude: yum'
	refused "2: unknown key 'Fingerprints'" 'mlrun checks no signatures; From may have a digest' <<<$'Bootstrap: docker\nFingerprints: x'
	refused "1: 'Bootstrap: library' is not supported" "write 'Bootstrap: docker' and 'From: lolcow', or set library=PREFIX in the section [apptainer] of mlrun.conf" <<<$'Bootstrap: library\nFrom: library://lolcow'
	mkdir -p "$HOME/.config/mlrun"
	printf '[apptainer]\nlibrary = reg.example.org/lib\n' >"$HOME/.config/mlrun/mlrun.conf"
	run -0 planned <<<$'Bootstrap: library\nFrom: library://lolcow'
	assert_line --index 0 '["FROM",1,[],["reg.example.org/lib/lolcow"],[]]'
}

@test "definition: bad input is refused in one line" {
	local docker=$'Bootstrap: docker\nFrom: x\n'

	: >x.def
	run -125 mlrun build --check -f x.def .
	assert_line --index 0 'mlrun: x.def:1: no Bootstrap in the header'
	printf '# a\n\n# b\n' >x.def
	run -125 mlrun build --check -f x.def .
	assert_line --index 1 --partial "hint: write 'Bootstrap: docker' and 'From: IMAGE'"
	refused '1: no Bootstrap in the header' "write 'Bootstrap: docker' and 'From: IMAGE'" <<<$'From: x\n%post\ntrue'
	refused "1: 'Bootstrap: dokcer' is not supported" "write 'Bootstrap: docker' and 'From: IMAGE'" <<<$'Bootstrap: dokcer\nFrom: x'
	refused "1: 'From: --platform=x y': expected the name of an image" "" <<<$'Bootstrap: docker\nFrom: --platform=x y'
	refused "1: 'From: -x': expected the name of an image" "" <<<$'Bootstrap: docker\nFrom: -x'
	refused "1: 'From: ': expected the name of an image" "" <<<$'Bootstrap: docker'
	refused "2: unknown key 'Form'" 'known are Bootstrap, From, Registry, Namespace and Stage' <<<$'Bootstrap: docker\nForm: x'
	refused "3: unknown section '%pots'" 'is %post meant?' <<<"$docker%pots"
	refused "3: %post -x: expected nothing, or -c SHELL" "" <<<"$docker%post -x # y"
	refused "3: %files form one: expected 'from STAGE', an earlier one" "" <<<"$docker%files form one"
	refused "3: %files from one: expected 'from STAGE', an earlier one" "" <<<"$docker%files from one"
	refused "4: 'a b c': expected SOURCE [DESTINATION]; quotes hold blanks" "" <<<"$docker"$'%files\na b c'
	refused "4: '../a' needs a destination" "" <<<"$docker"$'%files\n../a'
	refused "4: 'A': expected NAME=VALUE" "" <<<"$docker"$'%arguments\nA'
	refused "4: a label is not UTF-8" "" <<<"$docker"$'%labels\na \xff'
	{ printf '%s%%files\n' "$docker"; seq 100000; } >x.def
	run -125 mlrun build --check -f x.def .
	assert_output 'mlrun: x.def:10004: more than 10000 lines: name a directory, or use patterns'
	printf '%s%%post\n\0' "$docker" >x.def
	run -125 mlrun build --check -f x.def .
	assert_output 'mlrun: x.def: this is not a text file'
	{ printf '%s%%post\n' "$docker"; head -c 10M /dev/zero | tr '\0' x; } >x.def
	run -125 mlrun build --check -f x.def .
	assert_output 'mlrun: x.def: it has more than 1048576 bytes'
}

@test "definition: what fails in a build is named: a command, a file, a loop of links, a localimage" {
	definition <<<$'Bootstrap: docker\nFrom: BASE\n%post\n  false\n  echo on'
	run -125 mlrun build -t mine -f x.def .
	assert_line 'mlrun: x.def:3: %post ended with status 1'
	assert_line '+ false'
	definition <<<$'Bootstrap: docker\nFrom: BASE\n%test -c /bin/ash -x\n  exit 7'
	run -125 mlrun build -f x.def .
	assert_line 'mlrun: x.def:3: %test ended with status 7'
	assert_line '+ exit 7'
	definition <<<$'Bootstrap: docker\nFrom: BASE\n%files\n  none /x'
	run -125 mlrun build -f x.def .
	assert_line --partial "x.def:3: '$PWD/./none' is not in the caller's file system"
	definition <<<$'Bootstrap: docker\nFrom: BASE\n%files\n  *.none /x'
	run -125 mlrun build -f x.def .
	assert_line "mlrun: x.def:3: '*.none' matches nothing"
	mkdir -p loop/a
	ln -s ../../loop loop/a/up
	definition <<<$'Bootstrap: docker\nFrom: BASE\n%files\n  loop /x'
	run -125 mlrun build -f x.def .
	assert_line --partial "loop/a/up' in the caller's file system: Too many levels of symbolic links"
	definition <<<$'Bootstrap: localimage\nFrom: x.sif'
	touch x.sif
	run -125 mlrun build -f x.def .
	assert_line "mlrun: x.def:1: unsquashfs ended with status 1"
	run -0 mlrun images
	refute_output --partial mine
}

@test "definition: localimage, archives, scratch; a script of 200 KB; another interpreter; Windows' line ends" {
	mlrun pull -q "$BASE"
	mlrun export -q "$BASE" base.oci
	definition <<<$'Bootstrap: oci-archive\nFrom: base.oci\n%environment\n  export ONE=1\n'
	mlrun build -q -o dir -t one -f x.def .
	definition <<-'X'
		Bootstrap: localimage
		From: dir
		%post -c /bin/ash -e
		    echo "$ONE $0" >/out
	X
	seq -f '# %99.0f' 2000 >>x.def
	sed -i 's/$/\r/' x.def
	mlrun build -q -t mine -f x.def .
	run -0 inside cat /out
	assert_output '1 /.post.script'
	echo S >s
	definition <<<$'Bootstrap: scratch\n%files\n s'
	mlrun build -q -o s.d -f x.def .
	assert_equal "$(<s.d/s)" S
}

@test "definition: a definition file that was fetched, or that -f does not name, reads its context only" {
	mkdir ctx
	echo secret >"$HOME/secret"
	printf 'Bootstrap: docker\nFrom: %s\n%%files\n  %s /got\n' "$BASE" "$HOME/secret" >ctx/x.def
	tar -C ctx -cf ctx.tar .
	run -125 mlrun build -f x.def ctx.tar
	assert_output --partial "'$HOME/secret' is not in the build context"
	# Nobody named the file of a directory either.
	run -125 mlrun build ctx
	assert_output --partial "'$HOME/secret' is not in the build context"
	assert_output --partial "hint: -f FILE lets"
	printf 'Bootstrap: oci-archive\nFrom: %s/x\n' "$HOME" >ctx/x.def
	tar -C ctx -cf ctx.tar .
	run -125 mlrun build -f x.def ctx.tar
	assert_output --partial "is a place on this machine"
	printf 'Bootstrap: localimage\nFrom: %s\n' "$HOME" >ctx/x.def
	tar -C ctx -cf ctx.tar .
	run -125 mlrun build -f x.def ctx.tar
	refute_output --partial built
}

@test "definition: of 100 files as people write them at least 88 are planned, 95 with a library" {
	local planned=0 n verdict

	field
	while read -r n verdict; do
		run mlrun build --check -f "f$n.def" .
		case $verdict in
		parses) [ "$status" = 0 ] || fail "$n: $output"; assert_output "" ;;
		library) assert_output --partial "'Bootstrap: library' is not supported" ;;
		refused) assert_output --regexp "is refused|'Bootstrap: shub' is not supported" ;;
		esac
	done <list
	mkdir -p "$HOME/.config/mlrun"
	printf '[apptainer]\nlibrary = reg.example.org/lib\n' >"$HOME/.config/mlrun/mlrun.conf"
	while read -r n verdict; do
		! mlrun build --check -f "f$n.def" . 2>/dev/null || ((++planned))
	done <list
	assert [ "$planned" -ge 88 ]
}

# A base of busybox, in which what installs and compiles only says so, and bash is sh.
stub_base() {
	local name

	tiny_root stub
	for name in apt-get apt dnf yum microdnf apk pip pip3 conda mamba micromamba git curl wget make cmake ninja gcc g++ gfortran python python3 R Rscript julia npm cargo go \
		locale-gen ldconfig update-alternatives dpkg-reconfigure add-apt-repository mpicc gpg rpm bash; do
		rm -f "stub/bin/$name"
		printf '#!/bin/sh\n[ "${0##*/}" != bash ] || exec sh "$@"\necho "${0##*/}" "$@" >>/ran\n' >"stub/bin/$name"
		chmod 755 "stub/bin/$name"
	done
	layer_tar stub.tar stub
	image_push_tar field stub.tar
}

@test "definition: of these at least 40 are built from a registry, with a base in which nothing is installed" {
	local built=0 n path verdict

	in_all
	in_all
	field
	stub_base
	while read -r n verdict; do
		[ "$verdict" = parses ] || continue
		sed -Ei "s#^ *from *:.*#From: $REGISTRY/field#I; /^ *(registry|namespace) *:/Id" "f$n.def"
		sed -n '/^%files/,/^%[^f]/{/^%/d;s/^ *//;p}' "f$n.def" | while read -r path _; do
			[[ -z $path || $path == /* || $path == *[\*\?]* || -e $path ]] || { mkdir -p "$(dirname "$path")"; echo "$path" >"$path"; }
		done
		if mlrun build -q --tls-verify=false -T -t made -f "f$n.def" . >said 2>&1; then
			built=$((built + 1))
			mlrun inspect made >/dev/null
		else
			echo "$n: $(tail -n 2 said)"
		fi
	done <list
	echo "$built built"
	[ "$built" -ge 40 ]
}

@test "definition: spython reads 20 of them as mlrun does" {
	local n

	python_with spython==0.3.14
	field
	grep parses list | while read -r n _; do
		grep -qiE '^stage|{{ [A-Z]|^registry|^%test|^bootstrap: *(local|scratch|oci|docker-)' "f$n.def" || echo "$n"
	done | head -n 20 >some
	assert_equal "$(wc -l <some)" 20
	while read -r n; do
		mlrun build --check --json -f "f$n.def" . >json
		"$PYTHON" "$top_srcdir/tests/cli/definition_check.py" "f$n.def" <json 2>&1 || fail "$n"
	done <some
}
