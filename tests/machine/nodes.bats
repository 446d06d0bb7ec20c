#!/usr/bin/env bats
# Nodes as clusters have them: machine 1 runs on its initramfs, whose root nothing can be pivoted onto; machine 2 has control
# groups of version 1 and SELinux enforcing, as Red Hat's version 8 has them.
# shellcheck disable=SC2016 # the machine's shell expands

load ../cli/common
load machine

setup_file() {
	machines_start bookworm 2 rdinit=/scripts/memory "groups=1 security=selinux selinux=1"
}
teardown_file() { machines_stop; }

@test "nodes: on one that runs on its initramfs all works, and doctor finds no failure" {
	run -0 on 1 root 'findmnt -n -o FSTYPE /; ! unshare -m pivot_root . . 2>&1'
	assert_line --index 0 rootfs
	assert_line --partial 'Invalid argument'
	# A home in memory, which keeps no attributes here: squashfs files run, and a build names the way.
	run -0 on 1 ada 'export MLRUN_STORE=$HOME/store
		mlrun import -q /srv/tiny.tar tiny
		mlrun exec tiny cat /etc/os-release
		printf "FROM tiny\nRUN echo made >/made\n" >Dockerfile
		mlrun build -q -t mine . 2>&1 && exit 1
		mlrun import -q --format=layers /srv/tiny.tar tiny
		mlrun build -q -t mine .
		mlrun exec mine cat /made
		rm -r store Dockerfile'
	assert_line NAME=tiny
	assert_line --partial 'hint: import it again, or pull it by the name it had, with --format=layers'
	assert_line made
	# As usual, a disk for what is large.
	on 1 root 'mkdir /scratch && mount /dev/vda /scratch && mkdir /scratch/ada && chown ada /scratch/ada'
	on 1 ada 'mkdir -p .config/mlrun && echo store = /scratch/ada/store >.config/mlrun/mlrun.conf'
	works 1
	run -0 on 1 ada 'mlrun doctor; mlrun import -q /srv/tiny.tar tiny'
	assert_output --partial ', 0 failures'
	# Nothing leads out, though the host's root lies beneath the container's.
	run -0 on 1 ada 'mlrun exec -w / tiny sh -c "cd ..; cd ../..; ls; ls -d /disk /usr/local 2>/dev/null; cat /etc/os-release"'
	assert_line NAME=tiny
	refute_line --regexp '^(boot|disk|scripts|/disk|/usr/local)$'
	run -0 on 1 root 'mlrun import -q /srv/tiny.tar tiny; mlrun exec tiny cat /etc/os-release; mlrun oci --help >/dev/null'
	assert_line NAME=tiny
}

@test "nodes: with SELinux and control groups of version 1 all works, and what needs version 2 says so" {
	run -0 on 2 ada 'ls /sys/fs/cgroup; cat /sys/fs/selinux/enforce; echo; id -Z'
	assert_line memory
	assert_line 1
	assert_line 'unconfined_u:unconfined_r:unconfined_t:s0'
	works 2
	run -0 on 2 ada 'mlrun doctor; mlrun import -q /srv/tiny.tar tiny; mlrun exec tiny true'
	assert_output --partial ', 0 failures'
	run -125 on 2 ada 'mlrun exec --memory=64m tiny true'
	assert_line --partial 'this machine has no unified hierarchy of them (cgroup v2)'
	assert_line --partial 'hint: the batch system limits a job'
	run -0 on 2 ada 'mlrun import -q --format=squashfs /srv/tiny.tar file; mlrun exec file cat /etc/os-release'
	assert_line NAME=tiny
	run on 2 root 'dmesg | grep "avc: *denied.*mlrun"'
	assert_output ''
}
