#!/usr/bin/env bats
# mlrun.conf: what the section [exec] does to a start, and what mlrun config says of it.
# shellcheck disable=SC2016 # the inner shell expands
load common

setup_file() {
	export FILE_ROOT=$BATS_FILE_TMPDIR/root
	tiny_root "$FILE_ROOT"
}

setup() {
	common_setup
	IMG=rootfs:$FILE_ROOT
	mkdir -p "$HOME/.config/mlrun"
	CONF=$HOME/.config/mlrun/mlrun.conf
}

# Run in a machine whose /etc has the site's file $1, and the user database.
at_site() {
	local conf=$1 etc=$BATS_TEST_TMPDIR/etc

	shift
	mkdir -p "$etc/mlrun"
	getent passwd "$(id -u)" >"$etc/passwd"
	getent group "$(id -g)" >"$etc/group"
	printf '%s\n' "$conf" >"$etc/mlrun/mlrun.conf"
	unshare -Urm sh -c 'mount --bind "$0" /etc && exec "$@"' "$etc" "$@"
}

# origin and place of a KEY in $output's JSON
said() { jq -c --arg k "$1" '[.settings[] | select(.key == $k) | .values[] | [.value, .origin, .where]]' <<<"$output"; }

@test "config: volumes are mounted, those of the site first, and the user's options cover them" {
	mkdir -p "$BATS_TEST_TMPDIR"/{site,mine,typed}
	for d in site mine typed; do echo "$d" >"$BATS_TEST_TMPDIR/$d/name"; done
	printf '[exec]\nvolume = %s/mine:/b:ro\n' "$BATS_TEST_TMPDIR" >"$CONF"
	run -0 at_site "[exec]
volume = $BATS_TEST_TMPDIR/site:/a
volume = $BATS_TEST_TMPDIR/site:/b" mlrun exec -w / "$IMG" sh -c 'cat /a/name /b/name; touch /b/x 2>&1 || true'
	assert_line --index 0 site
	assert_line --index 1 mine
	assert_line --index 2 --partial "Read-only file system"
	run -0 mlrun exec -v "$BATS_TEST_TMPDIR/typed:/b" -w / "$IMG" cat /b/name
	assert_output typed
	run -0 at_site "[exec]
volume = $BATS_TEST_TMPDIR/site:/a" mlrun exec --explain -w / "$IMG" true
	assert_line --regexp "^  site +bind +$BATS_TEST_TMPDIR/site -> /a"
	assert_line --regexp "^  config +bind +$BATS_TEST_TMPDIR/mine -> /b ro"
}

@test "config: a volume that is not there is an error by file and line, unless it is optional" {
	printf '[exec]\nvolume = /no/such:/x\n' >"$CONF"
	run -125 mlrun exec "$IMG" true
	assert_output --partial "$CONF:2: volume '/no/such:/x': source '/no/such': No such file or directory"
	printf '[exec]\nvolume = /no/such:/x:optional\nvolume = /no/such2:/x:ro,optional,nosuid\nvolume = /${NOT_SET_HERE}/x:/x:optional\nvolume = %s:/there:optional,ro\n' "$PWD" >"$CONF"
	run -0 --separate-stderr mlrun exec -w / "$IMG" sh -c 'ls -d /x 2>&1; touch /there/x 2>&1; true'
	assert_line --index 0 --partial "No such file"
	assert_line --index 1 --partial "Read-only file system"
	[ -z "$stderr" ]
	run -0 mlrun exec --verbose "$IMG" true
	assert_output --partial "volume '/no/such:/x:optional': source '/no/such': No such file or directory"
	printf '[exec]\nvolume = %s:/x:bogus\n' "$PWD" >"$CONF"
	run -125 mlrun exec "$IMG" true
	assert_output --partial "$CONF:2: volume '$PWD:/x:bogus': invalid volume flag 'bogus'"
}

@test "config: variables come after the image's and before the user's" {
	printf '[exec]\nenv = A=configured\nenv = B=configured\nenv = LD_LIBRARY_PATH\nenv = EMPTY=\nunset_env = SECRET_*\n' >"$CONF"
	printf 'B=file\n' >env
	A=caller B=caller SECRET_KEY=x LD_LIBRARY_PATH=/host run -0 mlrun exec --env-file env "$IMG" env
	assert_line A=configured
	assert_line B=file
	assert_line LD_LIBRARY_PATH=/host
	assert_line EMPTY=
	refute_output --partial SECRET_KEY
	SECRET_KEY=x run -0 mlrun exec -e SECRET_KEY -e A=typed "$IMG" env
	assert_line SECRET_KEY=x
	assert_line A=typed
	A=caller run -0 mlrun exec --explain "$IMG" true
	assert_line --regexp "^  config +A=configured   \(instead of caller's 'caller'\)"
}

@test "config: home, by file, by environment variable, by option; later wins" {
	needs_ordinary_user
	echo x >"$HOME/mine"
	in_home() { mlrun exec -w / "$@" "$IMG" sh -c 'ls $HOME'; }
	run -0 in_home
	assert_output ''
	printf '[exec]\nhome = true\n' >"$CONF"
	run -0 in_home
	assert_output mine
	HOME_ELSEWHERE=$HOME/none
	HOME=$HOME_ELSEWHERE XDG_CONFIG_HOME=${CONF%/mlrun/*} run -0 in_home
	assert_output "mlrun: the home directory '$HOME_ELSEWHERE' is not on this node: an empty one takes its place"
	HOME=$HOME_ELSEWHERE run -125 in_home --home
	run -0 in_home --no-home
	assert_output ''
	MLRUN_HOME=no run -0 in_home
	assert_output ''
	MLRUN_HOME=no run -0 in_home --home
	assert_output mine
	MLRUN_HOME=maybe run -125 in_home
	assert_output --partial "environment variable MLRUN_HOME: 'maybe' is neither true nor false"
	run -0 mlrun exec --explain "$IMG" true
	assert_line --regexp "^  config +bind +$HOME -> $HOME"
}

@test "config: pull = never does not ask a registry, and --pull wins" {
	printf '[exec]\npull = never\n' >"$CONF"
	run -125 mlrun exec 127.0.0.1:1/none true
	assert_output --partial "hint: mlrun pull 127.0.0.1:1/none"
	refute_output --partial "is pulled"
	run -125 mlrun exec --pull=missing 127.0.0.1:1/none true
	assert_output --partial "is pulled"
	MLRUN_PULL=missing run -125 mlrun exec 127.0.0.1:1/none true
	assert_output --partial "is pulled"
}

@test "config: mlrun config tells every value with its file and line, variable or default" {
	printf 'additional_stores = /x:/y\n\n[exec]\npull = never\nenv = A=b\nvolume = $HOME/d:/d\n[registry quay.io]\nmirror = m1\nmirror = m2\n' >"$CONF"
	unset MLRUN_STORE
	MLRUN_HOME=yes run -0 at_site "store = /site/store
[exec]
pull = always
env = S=1" mlrun config --json
	assert_equal "$(said store)" '[["/site/store","site","/etc/mlrun/mlrun.conf:1"]]'
	assert_equal "$(said additional_stores)" "[[\"/x\",\"config\",\"$CONF:1\"],[\"/y\",\"config\",\"$CONF:1\"]]"
	assert_equal "$(said pull)" "[[\"never\",\"config\",\"$CONF:4\"]]"
	assert_equal "$(said env)" "[[\"S=1\",\"site\",\"/etc/mlrun/mlrun.conf:4\"],[\"A=b\",\"config\",\"$CONF:5\"]]"
	assert_equal "$(said volume)" "[[\"$HOME/d:/d\",\"config\",\"$CONF:6\"]]"
	assert_equal "$(said home)" '[["true","environment","MLRUN_HOME"]]'
	assert_equal "$(said mpi)" '[["auto","default",null]]'
	assert_equal "$(said mirror)" "[[\"m1\",\"config\",\"$CONF:8\"],[\"m2\",\"config\",\"$CONF:9\"]]"
	assert_equal "$(said timeout)" '[["30","default",null]]'
	assert_equal "$(jq -c '[.settings[] | keys] | unique' <<<"$output")" '[["key","list","section","values","variable"]]'
	assert_equal "$(jq -c '.files' <<<"$output")" \
		"[{\"path\":\"/etc/mlrun/mlrun.conf\",\"exists\":true},{\"path\":\"$CONF\",\"exists\":true}]"
	MLRUN_STORE=/e MLRUN_STORES='' run -0 mlrun config --json
	assert_equal "$(said store)" '[["/e","environment","MLRUN_STORE"]]'
	assert_equal "$(said additional_stores)" '[]'
}

@test "config: what mlrun config prints is a configuration that says the same" {
	printf 'store = /s\n[exec]\nenv = A=b\nvolume = /d:/e:optional\nhome = on\n[registry quay.io]\nmirror = m1\ninsecure = 1\n' >"$CONF"
	unset MLRUN_STORE
	mlrun config >printed
	grep -q "^env = A=b  *; $CONF:3\$" printed
	cut -d';' -f1 printed >first
	MLRUN_CONFIG=$PWD/printed mlrun config | cut -d';' -f1 >second
	diff first second
}

@test "config: one value for scripts" {
	printf '[exec]\nenv = A=b\nenv = C=d\n[registry quay.io:443]\nmirror = m1\n' >"$CONF"
	run -0 mlrun config store
	assert_output "$MLRUN_STORE"
	run -0 mlrun config exec.pull
	assert_output missing
	run -0 mlrun config pull
	assert_output missing
	run -0 mlrun config env
	assert_output "A=b"$'\n'"C=d"
	run -0 mlrun config registry.quay.io:443.mirror
	assert_output m1
	run -1 mlrun config registry.quay.io:443.ca
	assert_output ''
	run -1 mlrun config registry.docker.io.ca
	run -1 mlrun config volume
	run -125 mlrun config nonsense
	assert_output --partial "mlrun knows no setting 'nonsense'"
	run -125 mlrun config --json pull
	assert_output --partial "--json prints all settings, a KEY one value"
	MLRUN_PULL=sometimes run -125 mlrun config pull
	assert_output --partial "environment variable MLRUN_PULL: 'sometimes' is invalid: use one of missing, always, never"
}

@test "config: GPUs that are none, and registries that no name can have, are told with file and line" {
	local value

	for value in 'frob x' frob '0 1' '0,frob' '$(id)'; do
		printf '[exec]\ngpu = %s\n' "$value" >"$CONF"
		run -125 mlrun config
		assert_output --partial "mlrun.conf:2: "
		assert_output --partial "use auto, all, none, or indices"
	done
	for value in auto all none 0 '0, 1' GPU-8932f937 0000:3b:00.0 af:00.0 0:1 MIG-GPU-8932f937/1/0 nvidia.com/gpu=0; do
		printf '[exec]\ngpu = %s\n' "$value" >"$CONF"
		run -0 mlrun config
	done
	for value in bad/name 'https://registry.lab' 'two hosts' 'user@host'; do
		printf '[registry %s]\ntimeout = 3\n' "$value" >"$CONF"
		run -125 mlrun config
		assert_output --partial "mlrun.conf:1: unknown section 'registry $value'"
	done
	for value in docker.io registry.lab:5000 '[::1]:5000' a_b; do
		printf '[registry %s]\ntimeout = 3\n' "$value" >"$CONF"
		run -0 mlrun config
	done
}
