#!/usr/bin/env bats
# Debian 13, whose kernel is newer than the one that runs the other tests, and what an administrator or a lean kernel may
# take away there. The tests follow each other.
# shellcheck disable=SC2016 # the machine's shell expands

load ../cli/common
load machine

setup_file() {
	machines_start trixie 1
	[ -z "${SKIP_FILE:-}" ] || return 0
	on 1 root 'mkdir /srv/shared && chown ada: /srv/shared'
}
teardown_file() { machines_stop; }

@test "Debian 13: containers, RUN and services work, and doctor finds no failure" {
	works 1
	run -0 on 1 ada 'uname -r; mlrun doctor'
	assert_line --regexp '^6\.12\.'
	assert_line --regexp '^pass +overlay'
	assert_line --regexp '^pass +tmpfs'
	assert_output --partial ', 0 failures'
}

# A bundle's container of ada's is created, started, entered and deleted.
bundle() {
	run -0 on 1 ada 'mkdir -p bundle/rootfs && cd bundle
		tar -C rootfs -xf /srv/tiny.tar
		mlrun oci spec
		sed -i "s/\"terminal\": true/\"terminal\": false/; s/^\( *\)\"sh\"/\1\"sh\", \"-c\", \"echo inside; sleep 600\"/" config.json
		mlrun oci create one >../created 2>&1 || { cat ../created; exit 1; }
		mlrun oci state one | grep status
		mlrun oci start one
		mlrun oci state one | grep status
		for i in $(seq 50); do grep inside ../created && break; sleep 0.1; done
		mlrun oci kill one KILL
		for i in $(seq 50); do mlrun oci state one | grep -q stopped && break; sleep 0.1; done
		mlrun oci delete one
		mlrun oci list; rm -rf ~/bundle'
	assert_line --regexp 'status.*created'
	assert_line --regexp 'status.*running'
	assert_line inside
	assert_line '[]'
}

@test "Debian 13: mlrun oci makes, starts and deletes a bundle's container" { bundle; }

# Another user's container keeps an image of a shared store.
spares() {
	run -0 on 1 ada 'export MLRUN_STORE=/srv/shared/store
		mlrun import -q /srv/tiny.tar tiny
		chmod 755 $MLRUN_STORE && chmod 1777 $MLRUN_STORE/leases'
	on 1 bob 'MLRUN_STORES=/srv/shared/store mlrun exec tiny sleep 7654' 3>&- &
	PIDS+=($!)
	until_on 1 root 'pgrep -u bob -x sleep'
	run -125 on 1 ada 'MLRUN_STORE=/srv/shared/store mlrun rm tiny'
	assert_output --partial 'in use'
	run -0 on 1 ada 'MLRUN_STORE=/srv/shared/store mlrun prune'
	run -0 on 1 root 'pkill -u bob -x sleep; while pgrep -u bob -x sleep >/dev/null; do sleep 0.1; done'
	run -0 on 1 ada 'MLRUN_STORE=/srv/shared/store mlrun rm tiny'
}

@test "Debian 13: with /proc mounted hidepid=2 all of it works, and rm spares what another user runs" {
	spares
	on 1 root 'mount -o remount,hidepid=2 /proc'
	run -0 on 1 ada 'ls -d /proc/1 2>&1 || true'
	assert_output --partial 'No such file'
	works 1
	bundle
	run -0 on 1 ada 'mlrun doctor'
	assert_output --partial ', 0 failures'
	spares
	on 1 root 'mount -o remount,hidepid=0 /proc'
}

@test "Debian 13: where /dev/fuse is closed trees start, and a squashfs file names the way out" {
	on 1 root 'chmod 600 /dev/fuse'
	run -0 on 1 ada 'mlrun import -q /srv/tiny.tar tiny; mlrun images; mlrun exec tiny cat /etc/os-release; mlrun doctor'
	assert_line --regexp '^localhost/tiny:.* layers '
	assert_line NAME=tiny
	assert_line --regexp '^warning +fuse'
	assert_output --partial ', 0 failures'
	on 1 ada 'mlrun rm tiny; mlrun import -q --format=squashfs /srv/tiny.tar file'
	run -125 on 1 ada 'mlrun exec file true'
	assert_output --partial '/dev/fuse'
	assert_output --partial 'hint: an administrator can allow it: chmod 0666 /dev/fuse'
	on 1 root 'chmod 666 /dev/fuse'
	run -0 on 1 ada 'mlrun exec file cat /etc/os-release; mlrun rm file'
	assert_line NAME=tiny
}

@test "Debian 13: a kernel without overlayfs runs one tree as it is, and names the way out for more" {
	on 1 ada 'mlrun import -q /srv/tiny.tar tiny; mlrun build -q -t mine work'
	on 1 root 'rmmod overlay; echo "install overlay /bin/false" >/etc/modprobe.d/no-overlay.conf'
	run -0 on 1 ada 'mlrun exec tiny cat /etc/os-release'
	assert_line NAME=tiny
	assert_line --partial "cannot be changed, as there can be no overlay here: No such device"
	run -125 on 1 ada 'mlrun exec mine true'
	assert_output --partial 'modprobe overlay'
	run on 1 ada 'mlrun doctor'
	assert_output --partial 'modprobe overlay'
	on 1 root 'rm /etc/modprobe.d/no-overlay.conf; modprobe overlay'
	run -0 on 1 ada 'mlrun exec mine cat /made'
	assert_output made
}

@test "Debian 13: where no user namespace may be made, exec and doctor name the setting" {
	on 1 root 'sysctl -q user.max_user_namespaces=0'
	run -125 on 1 ada 'mlrun exec tiny true'
	assert_output --partial 'hint: user.max_user_namespaces is 0'
	run -1 on 1 ada 'mlrun doctor'
	assert_line --partial 'user.max_user_namespaces is 0'
	run -0 on 1 root "$(on 1 ada 'mlrun exec tiny true' 2>&1 | sed -n 's/.*an administrator can allow user namespaces: //p')"
	run -0 on 1 ada 'mlrun exec tiny cat /etc/os-release'
	assert_output NAME=tiny
}
