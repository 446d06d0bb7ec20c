# shellcheck shell=bash
# The library of all command-line tests: `load common` (or `load ../cli/common`) at the top of a
# .bats file brings assertions, the programs just built on PATH, a store and a home of the test's
# own, a registry on loopback and makers of images. Nothing here needs root.
#
#   setup_file() { registry_start; image_tiny tiny; }
#   teardown_file() { registry_stop; }
#
#   @test "exec: a command that is not in the image exits 127 and is named" {
#           mlrun pull -q "$REGISTRY/tiny"
#           run -127 mlrun exec "$REGISTRY/tiny" /no/such
#           assert_output --partial "/no/such"
#   }
#
# A file that defines setup() or teardown() calls common_setup and common_teardown in them.
#
#   skip_file REASON                    in setup_file: skip every test of the file
#   needs_ordinary_user                 in a test: skip it for root
#   skip_if_sanitized                   for tests that measure memory or time
#   registry_start [DIR]                sets and exports $REGISTRY, $REGISTRY_LOG, $REGISTRY_PID
#   registry_stop                       both are registry.bash's
#   registry_requests [REGEX]           the request lines so far ("GET /v2/tiny/manifests/latest")
#   registry_blob NAME FILE             upload bytes; prints their digest
#   registry_manifest NAME REF FILE [TYPE]   upload a manifest as it is; prints its digest
#   layer_tar OUT DIR                   a layer of DIR's contents, owned by root, in sorted order
#   image_layout DIR LAYER...           an OCI layout of these layer tars, tag "latest"
#   image_config DIR ARG...             umoci config's options, e.g. --config.env A=b
#   image_push DIR NAME [oci|v2s2]      to $REGISTRY/NAME (":latest" when NAME has no tag)
#   image_push_tar [-f oci|v2s2] [-c UMOCI_CONFIG_ARG]... NAME LAYER...
#   image_tiny NAME [oci|v2s2]          busybox with every applet, passwd, an Env and a Cmd
#   base_image [COMMAND...]             in setup_file: bring image mlrun/base of images/, or skip the file
#   python_with PACKAGE[==VERSION]...   sets $PYTHON to one with PyPI's packages, or skips; in a test
#   store_hold_of PID [HOST]            make a hold of that process in $MLRUN_STORE; prints its name
#   sha256_of FILE                      "sha256:<hex>"
#   without_certificates                unset the variables whose files exec mounts, SSL_CERT_FILE and kin
#   until_true COMMAND...               wait until it succeeds; after two minutes the test fails
#   wait_while COMMAND...               the same until it fails
#   is_state PID STATE                  is the process in this state (ps(1): S, T...)?
#   $PIDS                               processes that end with the test, as those added by PIDS+=($!)
#   services_end                        in teardown: end and forget every service
#   is_gone PID                         it has ended; whoever inherits it may let it lie as a zombie
#   runs PID WORD...                    it executes these words now, which are all of its command line
#   has_moved PID rchar|wchar BYTES     it has read or written so many bytes (proc(5), io), or has ended
#   $NAP                                seconds to sleep for, a number that no other test sleeps: for pgrep
#   in_all                              in a test: a variant of a promise, which `check --all` tries, a daily check does not
#   rounds N                            how often to try what chance decides: N times in `check --all`, N / 4 times daily
#   every DAILY WORD...                 all these words in `check --all`, the first daily
#   ends_early                          in a subshell, before a program that is killed at any moment
#
# A process may stand still for seconds at any point, and several files run at once. So no test sleeps for a
# time and takes for granted what came about meanwhile: it waits for that itself.

bats_require_minimum_version 1.5.0
# Their parts, not their load.bash, which starts fifteen processes; each test loads this file.
for part in "${BATS_LIB_PATH:-/usr/lib/bats}"/bats-{support,assert}/src/*.bash; do
	# shellcheck source=/dev/null
	. "$part"
done

if [[ ${top_srcdir-} != /* || ${top_builddir-} != /* ]]; then
	top_srcdir=$(cd "${top_srcdir:-$BATS_TEST_DIRNAME/../..}" && pwd)
	top_builddir=$(cd "${top_builddir:-$top_srcdir}" && pwd)
	export top_srcdir top_builddir
fi

# shellcheck source=tests/cli/registry.bash
. "$top_srcdir/tests/cli/registry.bash"

# What a user may have set must not change what the tests see.
unset "${!MLRUN_@}" "${!XDG_@}" "${!SLURM_@}" REGISTRY_AUTH_FILE DOCKER_CONFIG CDPATH
unset http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
# Servers of tests in Python say their port at once.
export PYTHONUNBUFFERED=1
export LC_ALL=C.UTF-8 PATH="$top_builddir/bin:$PATH:/usr/sbin:/sbin"

# A sanitizer's report fails the test that caused it, whatever the test expected.
sanitizer_reports() { echo "${BATS_TEST_TMPDIR:-$BATS_FILE_TMPDIR}/sanitizer"; }

without_certificates() {
	unset SSL_CERT_FILE CURL_CA_BUNDLE REQUESTS_CA_BUNDLE PIP_CERT GIT_SSL_CAINFO NODE_EXTRA_CA_CERTS AWS_CA_BUNDLE
}

# bats before 1.9 takes a skip in setup_file for a failure.
skip_file() { export SKIP_FILE=$1; }

skip_if_sanitized() {
	[ "${sanitizers:-no}" != yes ] || skip "measured on the plain build"
}

# To be asked after "if": a version line that says neither is told, and taken for a no.
has_squashfs() {
	local version

	version=$(mlrun --version) || fail "mlrun --version failed"
	case " $version " in
	*" +squashfs "*) return 0 ;;
	*" -squashfs "*) return 1 ;;
	*) fail "mlrun --version tells nothing of squashfs: $version" ;;
	esac
}

# needs_part PART LIBRARY: of what mlrun was built with. Not after "||", where a failure would not count.
needs_part() {
	case " $(mlrun --version) " in
	*" +$1 "*) ;;
	*" -$1 "*) skip "mlrun was built without $2" ;;
	*) fail "mlrun --version does not tell of $1: $(mlrun --version)" ;;
	esac
}

needs_squashfs() { needs_part squashfs libsquashfs; }
needs_squashfuse() { needs_part squashfuse libsquashfuse; }

# This user can run squashfs images.
needs_fuse() {
	needs_squashfuse
	[ -r /dev/fuse ] && [ -w /dev/fuse ] || skip "this user may not open /dev/fuse"
}

# without_fuse COMMAND...: where /dev/fuse cannot be opened
without_fuse() {
	# shellcheck disable=SC2016 # the inner shell's
	unshare --user --map-current-user --keep-caps --mount sh -c '
		mount --bind /dev/fuse /dev/fuse && mount -o remount,bind,nodev /dev/fuse && exec "$@"' sh "$@"
}

needs_closable_fuse() {
	without_fuse true 2>/dev/null || skip "/dev/fuse cannot be closed here"
	# shellcheck disable=SC2016
	without_fuse sh -c '! (: <>/dev/fuse) 2>/dev/null' || skip "/dev/fuse stays open"
}

# Kept for the build directory's next tests. In setup_file, call tests/cli/python-env itself, and skip_file.
python_with() {
	local said

	if said=$("$top_srcdir/tests/cli/python-env" "$@" 2>&1); then
		export PYTHON=$said
	else
		skip "$said"
	fi
}

# Made for the first file that asks, and kept for the build directory's others; by COMMAND if there is one.
base_image() {
	local kept=$top_builddir/tests/base.oci log=$BATS_FILE_TMPDIR/base.log

	if ! command -v mmdebstrap >/dev/null || ! command -v fakechroot >/dev/null; then
		skip_file "mmdebstrap or fakechroot is not installed"
	elif (flock 9 && make_base "$@") 9>"$kept.lock" >"$log" 2>&1; then
		mlrun import -q - mlrun/base <"$kept"
	else
		grep -q -e 'apt-get update' -e 'Could not resolve' "$log" || { cat "$log" >&2; return 1; }
		skip_file "Debian's packages can't be had: $(grep -m 1 '^E: ' "$log")"
	fi
}

make_base() {
	[ -e "$kept" ] || {
		(cd "${TMPDIR:-/tmp}" && MLRUN=$top_builddir/bin/mlrun "$@" "$top_srcdir/images/build" base mlrun/base) &&
			mlrun export -q mlrun/base - >"$kept.new" && mv "$kept.new" "$kept"
	}
}

# Root's HOME inside is /root, modes do not bind root, and root owns the host's files.
needs_ordinary_user() { [ "$(id -u)" != 0 ] || skip "a test for an ordinary user"; }

common_setup() {
	[ -z "${SKIP_FILE:-}" ] || skip "$SKIP_FILE"
	export HOME="$BATS_TEST_TMPDIR/home" TMPDIR="$BATS_TEST_TMPDIR/tmp"
	export MLRUN_STORE="$BATS_TEST_TMPDIR/store"
	mkdir -p "$HOME" "$TMPDIR"
	PIDS=()
	ASAN_OPTIONS=log_path=$(sanitizer_reports)
	UBSAN_OPTIONS=print_stacktrace=1:log_path=$(sanitizer_reports)
	export ASAN_OPTIONS UBSAN_OPTIONS
	cd "$TMPDIR" || return
}

services_end() {
	local name

	for name in $(mlrun ps --all --json | jq -r '.[].name // empty'); do
		mlrun stop -t 0 --rm "$name" >/dev/null || true
	done
}

common_teardown() {
	local pid report failed=0

	for pid in ${PIDS+"${PIDS[@]}"}; do kill -KILL "$pid" 2>/dev/null || true; done
	for report in "$(sanitizer_reports)".*; do
		[ -e "$report" ] || continue
		cat "$report"
		failed=1
	done
	# Trees keep their modes; bats must be able to remove them.
	chmod -R u+rwX "$BATS_TEST_TMPDIR" 2>/dev/null
	return "$failed"
}

setup() { common_setup; }
teardown() { common_teardown; }

# --- waiting --------------------------------------------------------------------

NAP=1000.$$

until_true() {
	local i

	for ((i = 0; i < 2400; i++)); do
		"$@" && return
		sleep 0.05
	done
	echo "never: $*"
	! declare -F screen >/dev/null || screen
	return 1
}

is_not() { ! "$@"; }
wait_while() { until_true is_not "$@"; }

is_state() { [[ $(ps -o state= -p "$1" 2>/dev/null) == "$2" ]]; }

is_gone() { [[ $(ps -o state= -p "$1" 2>/dev/null) == ?(Z) ]]; }

runs() {
	local pid=$1

	shift
	printf '%s\0' "$@" | cmp -s - "/proc/$pid/cmdline"
}

has_moved() {
	local n

	n=$(sed -n "s/^$2: //p" "/proc/$1/io" 2>/dev/null)
	if [ -n "$n" ]; then [ "$n" -ge "$3" ]; else is_gone "$1"; fi
}

in_all() { [ "${CHECK_ALL:-no}" = yes ] || skip "run by check --all"; }

rounds() { if [ "${CHECK_ALL:-no}" = yes ]; then echo "$1"; else echo $((($1 + 3) / 4)); fi; }

every() { if [ "${CHECK_ALL:-no}" = yes ]; then echo "$*"; else echo "$1"; fi; }

# One that is killed in the middle of its own look for leaks leaves a complaint of the sanitizer's behind.
ends_early() { export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0; }

sha256_of() { echo "sha256:$(sha256sum <"$1" | cut -d' ' -f1)"; }

# As src/mlrun/store/hold.h and process.h name it.
store_hold_of() {
	local stat start name

	stat=$(cat "/proc/$1/stat")
	start=$(cut -d' ' -f20 <<<"${stat##*) }")
	name=a-$(printf '%016x' "$RANDOM$1").${2:-$(uname -n)}.$(cat /proc/sys/kernel/random/boot_id)
	name=$name.$(stat -Lc %i /proc/self/ns/pid).$1.$start
	printf '%016x\n' 0 >"$MLRUN_STORE/holds/$name"
	echo "$name"
}

# --- the registry -------------------------------------------------------------

registry_requests() {
	sed -n 's/^[^"]*"\([A-Z]* [^ ]*\) HTTP.*/\1/p' "$REGISTRY_LOG" | grep -E -- "${1:-.}" || true
}

registry_blob() {
	local digest location sep='?'

	digest=$(sha256_of "$2")
	location=$(curl -fsS -o /dev/null -D - -X POST "http://$REGISTRY/v2/$1/blobs/uploads/" |
		tr -d '\r' | sed -n 's/^Location: //Ip')
	case $location in *\?*) sep='&' ;; esac
	curl -fsS -o /dev/null -X PUT -H 'Content-Type: application/octet-stream' \
		-T "$2" "$location${sep}digest=$digest"
	echo "$digest"
}

registry_manifest() {
	curl -fsS -o /dev/null -X PUT -T "$3" "http://$REGISTRY/v2/$1/manifests/$2" \
		-H "Content-Type: ${4:-application/vnd.oci.image.manifest.v1+json}"
	sha256_of "$3"
}

# --- images -------------------------------------------------------------------

layer_tar() {
	tar -C "$2" --sort=name --owner=0 --group=0 --numeric-owner --format=pax \
		--pax-option=delete=atime,delete=ctime -cf "$1" .
}

image_layout() {
	local dir=$1 layer

	shift
	umoci init --layout "$dir"
	umoci new --image "$dir:latest"
	for layer; do
		umoci raw add-layer --image "$dir:latest" "$layer"
	done
}

image_config() {
	local dir=$1

	shift
	umoci config --image "$dir:latest" "$@"
}

# It asks /run/containers, which is closed where root has used podman, for passwords unless the session has a directory.
skopeo() { XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR-$BATS_RUN_TMPDIR} command skopeo "$@"; }

image_push() {
	local name=$2

	case $name in *:*) ;; *) name=$name:latest ;; esac
	skopeo --insecure-policy copy -q --format "${3:-oci}" --dest-tls-verify=false \
		"oci:$1:latest" "docker://$REGISTRY/$name"
}

image_push_tar() {
	local OPTIND=1 opt format=oci dir name
	local -a config=()

	while getopts f:c: opt; do
		case $opt in
		f) format=$OPTARG ;;
		c) config+=("$OPTARG") ;;
		*) return 1 ;;
		esac
	done
	shift $((OPTIND - 1))
	name=$1
	shift
	dir=$(mktemp -d "${BATS_TEST_TMPDIR:-$BATS_FILE_TMPDIR}/layout.XXXXXX")/oci
	image_layout "$dir" "$@"
	[ ${#config[@]} -eq 0 ] || image_config "$dir" "${config[@]}"
	image_push "$dir" "$name" "$format"
}

# A root directory with busybox under every name it answers to, as hard links.
tiny_root() {
	mkdir -p "$1"/{bin,etc,root,tmp,usr/bin,home}
	cp "$(command -v busybox)" "$1/bin/busybox"
	"$1/bin/busybox" --install "$1/bin"
	ln -s ../../bin/env "$1/usr/bin/env"
	echo 'root:x:0:0:root:/root:/bin/sh' >"$1/etc/passwd"
	echo 'root:x:0:' >"$1/etc/group"
	echo 'NAME=tiny' >"$1/etc/os-release"
	chmod 1777 "$1/tmp"
}

image_tiny() {
	local tar=$BATS_FILE_TMPDIR/tiny.tar

	if [ ! -e "$tar" ]; then
		tiny_root "$BATS_FILE_TMPDIR/tiny"
		layer_tar "$tar" "$BATS_FILE_TMPDIR/tiny"
	fi
	image_push_tar -f "${2:-oci}" -c --config.env -c PATH=/bin:/usr/bin -c --config.env -c TINY=yes \
		-c --config.cmd -c /bin/sh -c --config.cmd -c -c -c --config.cmd -c 'echo tiny' \
		-c --config.workingdir -c /root "$1" "$tar"
}
