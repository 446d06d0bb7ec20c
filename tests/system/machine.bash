# shellcheck shell=bash
# Machines for the tests of this directory: root directories of other systems, which tests/system/enter enters.

# make_machine SUITE MMDEBSTRAP-OPTION...: a new one in $MACHINE, with a user ada.
make_machine() {
	MACHINE=$(mktemp -d /var/tmp/mlrun-machine.XXXXXX)
	export MACHINE
	chmod 755 "$MACHINE"
	"$top_srcdir/tests/system/root" "$MACHINE" "$@"
	cp -L /etc/resolv.conf /etc/hosts "$MACHINE/etc"
	in_machine root 'useradd -m -s /bin/bash ada'
}

# in_machine [-t] USER SCRIPT: SCRIPT in a login shell of USER's on the machine; with -t, what it changes is forgotten.
in_machine() {
	local -a options=()

	if [ "$1" = -t ]; then options+=("$1"); shift; fi
	"$top_srcdir/tests/system/enter" "${options[@]}" "$MACHINE" "$1" bash -eu -o pipefail -c "$2" </dev/null
}

# need_machines: skip the file where none can be made.
need_machines() {
	if [ "$(id -u)" != 0 ]; then
		skip_file "needs root, to make a root directory of Debian's"
	elif ! command -v mmdebstrap >/dev/null; then
		skip_file "mmdebstrap is not installed"
	elif ! grep -q '^VERSION_CODENAME=bookworm' /etc/os-release; then
		skip_file "this machine's package sources are not Debian 12's"
	else
		return 0
	fi
	return 1
}
