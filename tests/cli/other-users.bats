#!/usr/bin/env bats
# What a second user of the machine can do to the store of the first: nothing. Each attack is tried by that user where
# the tests run as root; the modes that stop it are looked at by everybody.
# shellcheck disable=SC2016 # the inner shell expands
load common

setup_file() {
	tiny_root "$BATS_FILE_TMPDIR/open"
	cd "$BATS_FILE_TMPDIR/open" || return
	mkdir -p var/tmp run/lock free shared usr/lib
	printf '#!/bin/sh\necho mine\n' >bin/tool
	echo plain >free/file
	mkfifo free/fifo
	ln -s usr/lib lib
	echo shown >usr/lib/data
	chmod 1777 var/tmp run/lock
	chmod 0777 bin/tool free bin
	chmod 0666 free/file free/fifo usr/lib/data
	chmod 2775 shared
	cp bin/busybox bin/raise && chmod 6755 bin/raise
	cd ..
	# Through a link, and under two names: what the tar calls a thing is not what the tree calls it.
	mkdir -p linked/lib twice
	echo deep >linked/lib/deep
	chmod 0666 linked/lib/deep
	tar -C open --sort=name --owner=0 --group=0 -cf open.tar .
	tar -C linked --owner=0 --group=0 -rf open.tar lib/deep
	echo two >twice/a
	ln twice/a twice/b
	chmod 0664 twice/a
	tar -C twice --owner=0 --group=0 -rf open.tar ./b ./a
}

setup() {
	common_setup
	without_certificates
	umask 022
	OPEN=$BATS_FILE_TMPDIR/open.tar
	# A second user comes as far as the store.
	chmod 0755 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "$BATS_TEST_TMPDIR" "$TMPDIR" 2>/dev/null || true
}

needs_two_users() {
	[ "$(id -u)" = 0 ] || skip "only root can be two users"
	run -0 runuser -u nobody -- true || skip "there is no user nobody"
}

# The second user: no store and no home directory of the first's.
as_other() {
	(cd / && exec runuser -u nobody -- env HOME=/ MLRUN_STORE=/nonexistent/store "$@")
}

trees() { find "$MLRUN_STORE"/{layers,dir,cover}/*/tree "$@" 2>/dev/null || true; }
loose() { trees '!' -type l -perm /6022; }

modes='cd / && stat -c "%a %n" var/tmp run/lock free'

# As mlrun 0.1 left a store: the image's modes on disk, directories that anybody enters, format 2.
age_store() {
	local tree

	for tree in "$MLRUN_STORE"/layers/*/tree "$MLRUN_STORE"/dir/*/tree; do
		[ -e "$tree/free" ] || continue
		chmod 1777 "$tree"/var/tmp "$tree"/run/lock
		chmod 0777 "$tree"/free "$tree"/bin "$tree"/bin/tool
		chmod 0666 "$tree"/free/*
		chmod 0775 "$tree"/shared
	done
	rm -f "$MLRUN_STORE"/layers/*/open
	for tree in "$MLRUN_STORE"/dir/*/listing; do
		[ ! -e "$tree" ] || printf '%064d' 1 >"$tree" # of the modes that were
	done
	sed -i '/"open"/,/\]/d; s/\("squashfs": null\),/\1/' "$MLRUN_STORE"/facts/*
	chmod 0755 "$MLRUN_STORE" "$MLRUN_STORE/containers"
	echo 2 >"$MLRUN_STORE/version"
}

# --- trees ----------------------------------------------------------------------

@test "others: no tree lets others write, in whatever format, nor has set-ID bits" {
	mlrun import -q "$OPEN" open
	mlrun import -q --format=dir "$OPEN" flat
	run -0 loose
	assert_output ""
	assert [ "$(trees -name tool | wc -l)" = 2 ]
	run -0 mlrun store verify
	assert_output --partial "as they should be"
}

@test "others: a container shows the directories that anybody may write to as the image means them" {
	local how

	mlrun import -q "$OPEN" open
	mlrun import -q --format=dir "$OPEN" flat
	for how in open flat "--read-only open" "--write=kept open" "--write=kept open"; do
		# shellcheck disable=SC2086 # options and image
		run -0 --separate-stderr mlrun exec $how sh -c "$modes"
		assert_output $'1777 var/tmp\n1777 run/lock\n777 free'
	done
	mkdir volume
	run -0 --separate-stderr mlrun exec --tmpfs /run -v ./volume:/free open sh -c 'ls -A /run; stat -c %a /free /var/tmp'
	assert_output $'755\n1777'
}

@test "others: an image whose upper layer closes, removes or uses such a directory is obeyed" {
	mkdir -p close/free remove/run use/var/tmp/made
	chmod 0700 close/free
	: >remove/run/.wh.lock
	layer_tar close.tar close
	layer_tar remove.tar remove
	tar -C use --owner=0 --group=0 -cf use.tar var/tmp/made
	image_layout lay "$OPEN" close.tar remove.tar use.tar
	mlrun import -q oci:lay layered
	run -0 mlrun exec layered sh -c 'cd / && stat -c "%a %n" var/tmp free; ls run'
	assert_output $'1777 var/tmp\n700 free'
}

@test "others: export gives the modes that the image means" {
	mlrun import -q "$OPEN" open
	mlrun import -q --format=dir "$OPEN" flat
	mlrun export -q open oci.tar
	MLRUN_STORE=$PWD/back mlrun import -q oci.tar back
	assert [ -d "$PWD/back/layers/$(sha256sum <"$OPEN" | cut -d' ' -f1)" ]
	for image in open flat; do
		mlrun export -q --format=tar "$image" "$image.tar"
		run -0 tar -tvf "$image.tar"
		assert_line --regexp '^drwxrwxrwt .* var/tmp/$'
		assert_line --regexp '^-rwxrwxrwx .* bin/tool$'
		assert_line --regexp '^-rwsr-sr-x .* bin/raise$'
		assert_line --regexp '^prw-rw-rw- .* free/fifo$'
		assert_line --regexp '^drwxrwsr-x .* shared/$'
		assert_line --regexp '^-rw-rw-rw- .* usr/lib/deep$'
		assert_line --regexp '^-rw-rw-r-- .* a$'
	done
}

@test "others: commit keeps the image's modes of what was written to, and nothing that was only shown" {
	mlrun import -q "$OPEN" open
	run -0 mlrun exec --write=w open sh -c \
		'echo more >>/free/file; echo x >/shared/x; chmod 0640 /usr/lib/data; echo new >/new; chmod 0666 /new'
	mlrun commit -q w open:2
	mlrun export -q --format=tar open:2 two.tar
	run -0 tar -tvf two.tar
	assert_line --regexp '^-rw-rw-rw- .* free/file$'
	assert_line --regexp '^drwxrwxrwx .* free/$'
	assert_line --regexp '^drwxrwsr-x .* shared/$'
	assert_line --regexp '^-rw-r----- .* usr/lib/data$'
	assert_line --regexp '^-rw-rw-rw- .* new$'
	mlrun export -q open:2 oci.tar
	mkdir oci && tar -C oci -xf oci.tar
	run -0 sh -c 'tar -xOf oci.tar "$(jq -r ".manifests[0].digest" oci/index.json | sed "s,:,/,; s,^,blobs/,")" | jq -r ".layers[-1].digest"'
	run -0 tar -tf "oci/blobs/${output/://}"
	refute_line --regexp 'var/tmp|run/lock'
	run -0 loose
	assert_output ""
}

@test "others: a second user writes into no tree" {
	needs_two_users
	mlrun import -q "$OPEN" open
	mlrun import -q --format=dir "$OPEN" flat
	chmod 0755 "$MLRUN_STORE"
	run --separate-stderr as_other find "$MLRUN_STORE" '!' -type l -writable -print
	assert_output ""
	for tool in "$MLRUN_STORE"/{layers,dir}/*/tree/bin/tool; do
		run ! as_other sh -c 'echo "echo theirs" >"$1"' - "$tool"
		run ! as_other sh -c 'rm -f "$1"' - "$tool"
	done
	run -0 mlrun exec open tool
	assert_output mine
}

@test "others: an older store's trees are closed by the first change, and its images show what they did" {
	mlrun import -q "$OPEN" open
	mlrun import -q --format=dir "$OPEN" flat
	mlrun exec --write=w open true 2>/dev/null
	age_store
	run -0 --separate-stderr mlrun exec open sh -c "$modes"
	assert_output $'1777 var/tmp\n1777 run/lock\n777 free'
	touch -d '3 days ago' "$MLRUN_STORE"/facts/*
	used=$(stat -c %Y "$MLRUN_STORE"/facts/*)
	run -0 mlrun tag open other
	assert_equal "$(cat "$MLRUN_STORE/version")" 3
	assert_equal "$(stat -c %Y "$MLRUN_STORE"/facts/*)" "$used"
	assert_equal "$(stat -c %a "$MLRUN_STORE/containers")" 700
	assert_equal "$(stat -c %a "$MLRUN_STORE")" 755
	run -0 loose
	assert_output ""
	for image in open flat; do
		run -0 --separate-stderr mlrun exec "$image" sh -c "$modes"
		assert_output $'1777 var/tmp\n1777 run/lock\n777 free'
	done
	run -0 mlrun store verify
}

@test "others: an upgrade that was cut short goes on" {
	mlrun import -q "$OPEN" open
	age_store
	# As killed after the note and some of the modes.
	printf '1777 var/tmp\0001777 run/lock\000777 free\0' >"$(echo "$MLRUN_STORE"/layers/*)/open"
	chmod 1755 "$MLRUN_STORE"/layers/*/tree/{var/tmp,run/lock}
	run -0 mlrun tag open other
	run -0 loose
	assert_output ""
	run -0 --separate-stderr mlrun exec open sh -c "$modes"
	assert_output $'1777 var/tmp\n1777 run/lock\n777 free'
}

@test "others: store verify finds what lets others write, and repairs it without a registry" {
	cp "$OPEN" open.tar
	mlrun import -q open.tar open
	mlrun import -q --format=dir open.tar flat
	rm open.tar
	chmod g+w "$(echo "$MLRUN_STORE"/layers/*)/tree/usr"
	chmod o+w "$(echo "$MLRUN_STORE"/layers/*)/tree/free/file"
	chmod u+s "$(echo "$MLRUN_STORE"/layers/*)/tree/bin/raise"
	chmod o+w "$(echo "$MLRUN_STORE"/dir/*)/tree"
	run -125 mlrun store verify
	assert_output --partial "open: others than its owner may write there"
	assert_output --partial "usr: has mode 775"
	assert_output --partial "free/file: has mode 646"
	assert_output --partial "bin/raise: has mode 4755"
	assert_output --partial ".: has mode 757"
	run -0 --separate-stderr mlrun store verify --repair --json
	assert_equal "$(jq -c '[.ok, .repaired]' <<<"$output")" '[true,true]'
	run -0 loose
	assert_output ""
}

# --- what is kept, and who may enter --------------------------------------------

@test "others: a new store is closed to others, whatever the umask, and one that is opened can be read" {
	local mask

	for mask in 000 002 022 027 077; do
		(umask "$mask" && mlrun import -q --store "new/$mask/store" "$OPEN" open)
		assert_equal "$(stat -c %a "new/$mask/store")" 700
		assert_equal "$(stat -c %a "new/$mask/store/containers")" 700
		run -0 find "new/$mask/store" '!' -type l -perm /022
		assert_output ""
		run -0 find "new/$mask/store" -mindepth 1 '!' -path '*/tree/*' '!' -name containers '!' -path '*/mark/gone' \
			'(' -type d '!' -perm -055 -o '!' -type d '!' -perm -044 ')'
		assert_output ""
		(umask "$mask" && mkdir "given$mask" && mlrun import -q --store "given$mask" "$OPEN" open)
		run -0 mlrun exec --store "given$mask" open true
	done
}

@test "others: what is kept is read by nobody else, and no set-ID program is run from it" {
	mlrun import -q "$OPEN" open
	mlrun exec --write=w open sh -c 'echo secret >/secret; cp /bin/busybox /su; chmod 6755 /su' 2>/dev/null
	assert_equal "$(stat -c %a "$MLRUN_STORE/containers")" 700
	chmod 0755 "$MLRUN_STORE" "$MLRUN_STORE/containers"
	mlrun exec --write=w open true 2>/dev/null
	assert_equal "$(stat -c %a "$MLRUN_STORE/containers")" 700
	needs_two_users
	run ! as_other cat "$MLRUN_STORE/containers/w/upper/secret"
	run ! as_other "$MLRUN_STORE/containers/w/upper/su" id
}

@test "others: users of an administrator's store write to /var/tmp inside, and to nothing of it outside" {
	needs_two_users
	(umask 077 && mlrun import -q "$OPEN" open && mlrun import -q --format=dir "$OPEN" flat)
	chmod 0755 "$MLRUN_STORE"
	for image in open flat; do
		run -0 --separate-stderr as_other MLRUN_STORES="$MLRUN_STORE" "$(command -v mlrun)" exec "$image" \
			sh -c "$modes; echo x >/var/tmp/x && echo x >/run/lock/x && echo x >/free/x && cat /var/tmp/x"
		assert_output $'1777 var/tmp\n1777 run/lock\n777 free\nx'
	done
	assert_equal "$(trees -name x)" ""
}

# --- stores that others may write to ---------------------------------------------

@test "others: a store of one's own that others may write to is refused with the command that mends it" {
	local part mode

	mlrun import -q "$OPEN" open
	chmod 0755 "$MLRUN_STORE"
	mkdir "$MLRUN_STORE/services"
	for part in . layers facts images blobs blobs/sha256 tmp holds cover dir squash services; do
		for mode in g+w o+w; do
			chmod "$mode" "$MLRUN_STORE/$part"
			run -125 mlrun exec open true
			assert_output --partial "others may write to store '$MLRUN_STORE'"
			assert_line --regexp "^hint: chmod (-R )?go-w '$MLRUN_STORE(/$part)?'$"
			run -125 mlrun images
			run -125 mlrun import -q "$OPEN" again
			run mlrun doctor
			assert_output --partial "others may write to store"
			run -0 sh -c "$(mlrun images 2>&1 | sed -n 's/^hint: //p')"
			run -0 mlrun exec open true
		done
	done
}

@test "others: files of a service that others may write to, or another user's, are not read" {
	mlrun import -q "$OPEN" open
	mlrun run -d --name s open sleep 600
	mlrun stop s
	chmod 0755 "$MLRUN_STORE"
	file=$(echo "$MLRUN_STORE"/services/*/s/service.json)
	chmod 0664 "$file"
	run -125 mlrun restart s
	assert_output --partial "others may write to '$file'"
	run -0 sh -c "$(mlrun restart s 2>&1 | sed -n 's/^hint: //p')"
	run -0 mlrun restart s
	run -0 mlrun stop --rm s
}

@test "others: users may be let leave leases" {
	mlrun import -q "$OPEN" open
	chmod 0755 "$MLRUN_STORE"
	chmod 1777 "$MLRUN_STORE/leases"
	run -0 mlrun exec open true
	run -0 mlrun rm open
}

@test "others: a second user's store that others may write to is passed over with the command that mends it" {
	needs_two_users
	mlrun import -q "$OPEN" open
	chmod 0755 "$MLRUN_STORE"
	for part in . layers facts images; do
		chmod g+w "$MLRUN_STORE/$part"
		run as_other MLRUN_STORES="$MLRUN_STORE" "$(command -v mlrun)" images
		assert_output --partial "store '$MLRUN_STORE' belongs to user 0 and others may write to it"
		assert_output --partial "ignoring this additional store"
		run as_other MLRUN_STORES="$MLRUN_STORE" "$(command -v mlrun)" doctor
		assert_output --regexp "chmod (-R )?go-w '$MLRUN_STORE"
		chmod g-w "$MLRUN_STORE/$part"
	done
}

@test "others: root runs nothing of another user's store" {
	needs_two_users
	mkdir theirs
	mlrun import -q "$OPEN" open
	mv "$MLRUN_STORE" theirs/store
	chown -R nobody theirs
	for command in "exec open true" images "import -q $OPEN again" "rm open"; do
		# shellcheck disable=SC2086 # words
		MLRUN_STORE=$PWD/theirs/store run -125 mlrun $command
		assert_output --partial "store '$PWD/theirs/store' belongs to user nobody"
		assert_output --partial "hint: sudo -u 'nobody' mlrun does so; or choose another with --store or MLRUN_STORE"
	done
	MLRUN_STORES=$PWD/theirs/store run -125 mlrun exec --pull=never open true
	assert_output --partial "root runs no image of another user's, ignoring this additional store"
	MLRUN_STORE=$PWD/theirs/store run mlrun doctor
	assert_output --partial "belongs to user nobody"
	# Root of a user namespace is its maker, who may choose.
	chmod 0755 theirs theirs/store
	run -0 unshare --map-root-user env MLRUN_STORE="$PWD/theirs/store" mlrun images
	assert_output --partial open
}

# --- leases -----------------------------------------------------------------------

# made_up PID [HOST]: what a second user leaves who claims that this process runs in the image.
made_up() {
	local stat facts

	stat=$(cat "/proc/$1/stat")
	facts=$(basename "$MLRUN_STORE"/facts/*.json .json)
	echo "$MLRUN_STORE/leases/$facts.${2:-$(uname -n)}.$(cat /proc/sys/kernel/random/boot_id).$(
		stat -Lc %i /proc/self/ns/pid).$1.$(cut -d' ' -f20 <<<"${stat##*) }")"
}

# daemon's store; nobody's container; /proc as clusters mount it.
@test "others: with hidepid=2, rm sees the containers of users whom /proc hides" {
	needs_two_users
	unshare -m mount -t proc -o hidepid=2 proc /proc 2>/dev/null || skip "no /proc can be mounted here"
	local rm=(unshare -m sh -c 'mount -t proc -o hidepid=2 proc /proc && exec runuser -u daemon -- env MLRUN_STORE="$0" HOME=/ "$@"'
		"$MLRUN_STORE" "$(command -v mlrun)" rm open)

	mlrun import -q "$OPEN" open
	chown -R daemon: "$MLRUN_STORE"
	chmod 0755 "$MLRUN_STORE"
	chmod 1777 "$MLRUN_STORE/leases"
	as_other MLRUN_STORES="$MLRUN_STORE" "$(command -v mlrun)" exec open sleep "$NAP" 3>&- &
	until_true pgrep -u nobody -x -f "sleep $NAP"
	run -125 "${rm[@]}"
	assert_output --partial "in use"
	kill "$(pgrep -u nobody -x -f "sleep $NAP")"
	wait_while pgrep -u nobody -x -f "sleep $NAP"
	run -0 "${rm[@]}"
}

@test "others: leases that a second user makes up stop no rm; those of his processes do" {
	local lease pid

	needs_two_users
	mlrun import -q "$OPEN" open
	chmod 0755 "$MLRUN_STORE"
	chmod 1777 "$MLRUN_STORE/leases"
	# Of a process that is another's, however long it runs: the owner's own, and init.
	for pid in $$ 1; do
		as_other touch "$(made_up "$pid")"
		run -0 mlrun rm open
		mlrun import -q "$OPEN" open
	done
	# Of a host that is not there and a job that runs for ever, to the end of time.
	lease=$(made_up $$ elsewhere)
	as_other sh -c 'echo "1.0 -" >"$1" && touch -d 2400-01-01 "$1"' - "$lease"
	mkdir bin && printf '#!/bin/sh\necho RUNNING\n' >bin/squeue && chmod 0755 bin/squeue
	PATH=$PWD/bin:$PATH run -125 mlrun rm open
	assert_output --partial "mlrun rm --force"
	PATH=$PWD/bin:$PATH run -0 mlrun rm --force open
	mlrun import -q "$OPEN" open
	as_other MLRUN_STORES="$MLRUN_STORE" "$(command -v mlrun)" exec open sleep "$NAP" 3>&- &
	until_true pgrep -u nobody -x -f "sleep $NAP"
	run -125 mlrun rm open
	assert_output --partial "in use"
	run -125 mlrun rm --force open
	kill "$(pgrep -u nobody -x -f "sleep $NAP")"
	wait_while pgrep -u nobody -x -f "sleep $NAP"
	run -0 mlrun rm open
}
