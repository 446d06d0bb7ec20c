# Names of users and groups that are not in /etc/passwd and /etc/group: LDAP's, SSSD's.
load common

setup() {
	common_setup
	tiny_root root
}

@test "account: mlrun-account tells what the name service switch knows" {
	run -0 mlrun-account 0 0
	assert_output "$(getent passwd 0 | cut -d: -f1,6 | tr : '\n')"$'\n'"$(getent group 0 | cut -d: -f1)"
	run -0 mlrun-account 4294967 4294967
	assert_output ""
}

@test "account: who is not in /etc/passwd is asked of mlrun-account, once and with an empty environment" {
	needs_ordinary_user
	mkdir bin
	cp "$(command -v mlrun)" bin/mlrun
	cat >bin/mlrun-account <<-'END'
		#!/bin/sh
		/usr/bin/env >"${0%/*}/env"
		echo "$@" >>"${0%/*}/asked"
		printf 'ldap-user\n/home/ldap-user\nldap-group\n'
	END
	chmod +x bin/mlrun-account
	: >empty
	run -0 unshare -Urm bash -c 'mount --bind empty /etc/passwd && mount --bind empty /etc/group &&
		exec unshare -U --map-user='"$(id -u)"' --map-group='"$(id -g)"' \
			bin/mlrun exec rootfs:root sh -c "id -un; id -gn"'
	assert_output $'ldap-user\nldap-group'
	assert_equal "$(cat bin/asked)" "$(id -u) $(id -g)"
	refute grep -q '^\(HOME\|PATH\|USER\)=' bin/env
	# One that is there is not asked.
	rm bin/asked
	run -0 bin/mlrun exec rootfs:root id -un
	assert_output "$(id -un)"
	assert [ ! -e bin/asked ]
}

@test "account: without mlrun-account an unknown user has a name of mlrun's own" {
	needs_ordinary_user
	mkdir bin
	cp "$(command -v mlrun)" bin/mlrun
	: >empty
	run -0 unshare -Urm bash -c 'mount --bind empty /etc/passwd && mount --bind empty /etc/group &&
		exec unshare -U --map-user='"$(id -u)"' --map-group='"$(id -g)"' bin/mlrun exec rootfs:root id -un'
	assert_output user
}

@test "account: mlrun itself asks no name service, which a static program cannot" {
	local name

	command -v nm >/dev/null || skip "no nm"
	for name in getpwuid getpwnam getgrgid getgrnam getaddrinfo gethostbyname dlopen iconv_open; do
		run nm -A "$top_builddir/libmlr.a"
		if grep -E "lib(mlr)?_a-[a-z_]*\.o: +U $name(_r)?\$" <<<"$output" | grep -vE '_a-(http|netrc|plugin)\.o'; then
			fail "$name is called"
		fi
	done
}

@test "account: a static mlrun is at another address each time" {
	command -v readelf >/dev/null || skip "no readelf"
	run -0 readelf -Wlh "$top_builddir/bin/mlrun"
	[[ $output != *INTERP* ]] || skip "it is linked as usual"
	assert_output --regexp 'Type: +DYN'
}
