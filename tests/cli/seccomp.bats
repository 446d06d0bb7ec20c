# mlrun exec: system calls that a container cannot make. TIOCSTI is in escape.bats.
# shellcheck disable=SC2016 # the inner shell expands
load common

setup() {
	common_setup
	tiny_root root
}

with_profile() {
	echo "$1" >profile.json
	shift
	run mlrun exec --seccomp profile.json rootfs:root "$@"
}

needs_seccomp() { needs_part seccomp libseccomp; }

rule() { echo '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": ['"$1"']}'; }

@test "seccomp: every container has one filter" {
	run -0 mlrun exec rootfs:root grep Seccomp /proc/self/status
	assert_line --regexp '^Seccomp:[[:space:]]+2$'
	assert_line --regexp '^Seccomp_filters:[[:space:]]+1$'
}

@test "seccomp: a profile's forbidden call fails with the profile's error, others work" {
	needs_seccomp
	with_profile "$(rule '{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}')" mkdir /d
	assert_failure 1
	assert_output --partial "Operation not permitted"
	with_profile "$(rule '{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 30}')" mkdir /d
	assert_output --partial "Read-only file system"
	# The number counts, whatever the name beside it.
	with_profile "$(rule '{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errno": "ENOPE", "errnoRet": 30}')" mkdir /d
	assert_output --partial "Read-only file system"
	with_profile "$(rule '{"name": "mkdir", "action": "SCMP_ACT_ERRNO", "errno": "ENOSYS"}')" mkdir /d
	assert_output --partial "Function not implemented"
	with_profile "$(rule '{"names": ["mkdir"], "action": "SCMP_ACT_ERRNO"}')" sh -c 'echo >/f && cat /f'
	assert_success
}

# The tests' mlrun is the caller's own file (runtime/runtime.c).
@test "seccomp: a profile needs only one of execve and execveat" {
	needs_seccomp
	[ -O "$(command -v mlrun)" ] || skip "mlrun is another user's file"
	with_profile "$(rule '{"names": ["execveat"], "action": "SCMP_ACT_ERRNO"}')" true
	assert_success
	with_profile "$(rule '{"names": ["execve"], "action": "SCMP_ACT_ERRNO"}')" true
	assert_failure 126
}

@test "seccomp: a profile may come from a pipe, as a shell's <(...) gives it" {
	needs_seccomp
	run -1 mlrun exec --seccomp <(rule '{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}') rootfs:root mkdir /d
	assert_output --partial "Operation not permitted"
	run -1 mlrun exec --seccomp /dev/stdin rootfs:root mkdir /d < <(rule '{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}')
	assert_output --partial "Operation not permitted"
}

@test "seccomp: a call is judged by its arguments" {
	needs_seccomp
	local kill='{"names": ["kill"], "action": "SCMP_ACT_ERRNO", "args": [{"index": 1, "value": 10, "op": "SCMP_CMP_EQ"}]}'

	with_profile "$(rule "$kill")" sh -c 'kill -0 $$ && echo may; kill -USR1 $$ || echo may not'
	assert_line may
	assert_line "may not"
}

@test "seccomp: includes and excludes are judged by capabilities, architecture and kernel" {
	needs_seccomp
	local arch no='"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"' with

	case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) skip "no Go name known" ;; esac
	for with in '"includes": {"caps": ["CAP_SYS_ADMIN"]}' '"includes": {"arches": ["s390"]}' \
		'"includes": {"minKernel": "99.1"}' '"excludes": {"minKernel": "4.8"}' \
		"\"excludes\": {\"arches\": [\"$arch\"]}"; do
		with_profile "$(rule "{$no, $with}")" mkdir /d
		assert_success
	done
	for with in '"excludes": {"caps": ["CAP_SYS_ADMIN"]}' "\"includes\": {\"arches\": [\"$arch\"]}" \
		'"includes": {"minKernel": "4.8"}' '"includes": {}'; do
		with_profile "$(rule "{$no, $with}")" mkdir /d
		assert_failure 1
	done
	# A fake root has CAP_CHOWN.
	rule "{$no, \"includes\": {\"caps\": [\"CAP_CHOWN\"]}}" >caps.json
	run -1 mlrun exec --fakeroot --seccomp caps.json rootfs:root mkdir /d
	run -0 mlrun exec --fakeroot --cap-drop CHOWN --seccomp caps.json rootfs:root mkdir /d
}

@test "seccomp: Docker's and podman's own profiles load, and programs run" {
	needs_seccomp
	local profile=/usr/share/containers/seccomp.json

	[ -r $profile ] || skip "podman's profile is not installed"
	run -0 mlrun exec --seccomp $profile rootfs:root sh -c 'ls / | grep bin; mkdir /d && echo made'
	assert_line made
	run -0 mlrun exec --fakeroot --seccomp $profile rootfs:root id -u
	assert_output 0
}

@test "seccomp: what a profile's flags ask for, the kernel is asked for" {
	needs_seccomp
	command -v strace >/dev/null || skip "strace is not installed"
	strace -o /dev/null true || skip "nothing may be traced here"
	local -x ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 # which traces as well
	echo '{"defaultAction": "SCMP_ACT_ALLOW", "flags": ["SECCOMP_FILTER_FLAG_LOG"], "syscalls": [
		{"names": ["mkdir"], "action": "SCMP_ACT_ERRNO"}]}' >log.json
	run -0 strace -e trace=seccomp -o calls mlrun exec --seccomp log.json rootfs:root true
	assert_equal "$(grep -c SECCOMP_FILTER_FLAG_LOG calls)" 1
}

@test "seccomp: a profile of more instructions than the kernel takes is refused, and named" {
	needs_seccomp
	jq -n '{defaultAction: "SCMP_ACT_ALLOW", syscalls: [range(7000) | {names: ["kill"], action: "SCMP_ACT_ERRNO",
		args: [{index: 0, value: (1000000 + .), op: "SCMP_CMP_EQ"}]}]}' | tr -d ' \n' >long.json
	run -125 mlrun exec --seccomp long.json rootfs:root true
	assert_output --partial "--seccomp: 'long.json' makes a filter of more than the kernel's 4096 instructions"
}

@test "seccomp: what is wrong is told to a caller who ignores his children, too" {
	needs_seccomp
	echo '{"defaultAction": "no"}' >profile.json
	run -125 python3 -c 'import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execvp("mlrun", ["mlrun"] + sys.argv[1:])' exec --seccomp profile.json rootfs:root true
	assert_output --partial "defaultAction: unknown action 'no'"
}

@test "seccomp: a profile that is wrong is refused, and what is wrong is named" {
	needs_seccomp
	local kept='"names": ["mkdir"], "action": "SCMP_ACT_ERRNO"'

	with_profile "$(rule '{"names": ["mkdir"], "action": "SCMP_ACT_FORBID"}')" true
	assert_failure 125
	assert_output --partial "--seccomp: 'profile.json': syscalls: [0]: action: unknown action 'SCMP_ACT_FORBID'"
	with_profile '{"defaultAction": "no"}' true
	assert_output --partial "defaultAction: unknown action 'no'"
	with_profile '{"syscalls": []}' true
	assert_output --partial "defaultAction: missing"
	with_profile '{' true
	assert_output --partial "'profile.json': line 2: "
	with_profile "$(rule "{$kept}, {$kept, \"args\": [{\"index\": 9, \"op\": \"SCMP_CMP_EQ\"}]}")" true
	assert_output --partial "syscalls: [1]: args: [0]: index: expected a whole number from 0 to 5, found 9"
	with_profile "$(rule "{$kept, \"args\": [{\"index\": 1, \"op\": \"=\"}]}")" true
	assert_output --partial "unknown operator '='"
	with_profile "$(rule "{$kept, \"errno\": \"ENOTHING\"}")" true
	assert_output --partial "'ENOTHING' is the name of no error"
	with_profile "$(rule "{$kept, \"includes\": {\"minKernel\": \"new\"}}")" true
	assert_output --partial "invalid minKernel"
	with_profile "$(rule '{"names": ["mkdir"], "action": "SCMP_ACT_NOTIFY"}')" true
	assert_output --partial "SCMP_ACT_NOTIFY needs a supervisor"
	local one='"args": [{"index": 0, "value": 1, "op": "SCMP_CMP_EQ"}]'
	with_profile "$(rule "{\"names\": [\"mkdir\"], \"action\": \"SCMP_ACT_LOG\", $one}, {$kept, $one}")" true
	assert_failure 125
	assert_output --partial "syscalls: [1]: an earlier rule has another action for the same arguments"
	with_profile '{"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["VAX"]}' true
	assert_output --partial "unknown architecture 'VAX'"
	run -125 mlrun exec --seccomp no/such rootfs:root true
	assert_output --partial "--seccomp: open 'no/such': No such file or directory"
}
