#!/usr/bin/env bats
# mlrun profile: what it records, and that it is written whole.
load common
load gpu

@test "profile: a machine with all its keys" {
	driver_tree debian
	run -0 --separate-stderr mlrun profile
	assert_equal "$(jq -c keys <<<"$output")" \
		'["architecture","date","doctor","fabric","format","glibc","gpu","host","kernel","mlrun"]'
	assert_equal "$(jq .format <<<"$output")" 1
	assert_equal "$(jq -r '.host + " " + .kernel + " " + .architecture' <<<"$output")" "$(uname -nrm)"
	assert_equal "$(jq -c '.gpu | keys' <<<"$output")" \
		'["cuda","driver","driver_root","driver_text","driver_version","fabric","files","gpus","has_caps","missing","nodes","open","refused","warnings"]'
	assert_equal "$(jq -r '.gpu.driver' <<<"$output")" nvidia
	assert_equal "$(jq '.gpu.gpus | length' <<<"$output")" 2
	[ "$(jq '[.gpu.files[] | select(.soname == "libcuda.so.1")] | length' <<<"$output")" -ge 1 ]
	assert_equal "$(jq '.doctor.findings | length > 5' <<<"$output")" true
}

@test "profile: this machine's C library is told by its version" {
	[ -r /etc/ld.so.cache ] || skip "there is no linker cache"
	run -0 --separate-stderr mlrun profile
	assert_equal "$(jq -r .glibc <<<"$output")" "$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)"
}

@test "profile: ROCm's libraries are AMD's, with what they need" {
	driver_tree amd
	run -0 --separate-stderr mlrun profile
	assert_equal "$(jq -c '[.gpu.files[] | .vendor] | unique' <<<"$output")" '["amd"]'
	run -0 jq -c '.gpu.files[] | select(.soname == "libamdhip64.so.6") | [.kind, .capabilities, .dev_link, .bits]' <<<"$output"
	assert_output '["library",["compute"],"libamdhip64.so",64]'
}

@test "profile: a file is written whole or not at all" {
	driver_tree amd
	run -0 mlrun profile -o here.json
	assert_output ''
	assert_equal "$(jq -r .gpu.gpus[1].vendor here.json)" amd
	mkdir closed
	run -125 mlrun profile --output=closed/no/such.json
	assert_output --partial "mlrun: profile: "
	assert_output --partial "closed/no/such.json"
	assert_equal "$(find closed | wc -l)" 1
	mkfifo pipe
	timeout 300 cat pipe >through.json 3>&- &
	run -0 mlrun profile -o pipe
	wait $!
	[ -p pipe ]
	assert_equal "$(jq .format through.json)" 1
	run -0 --separate-stderr mlrun profile -o -
	assert_equal "$(jq .format <<<"$output")" 1
	run -125 mlrun profile extra
	assert_output --partial "expected no argument"
}

@test "profile: mlrun gpu check reads it where there is no GPU" {
	driver_tree debian
	mlrun profile -o debian.json
	tiny_root image
	driver_tree none
	run mlrun gpu check --profile debian.json --json rootfs:image
	assert_equal "$(jq -r .profile <<<"$output")" debian.json
	[[ $(jq -r '.findings[].text' <<<"$output") == *"535."* ]] || fail "nothing of the recorded driver: $output"
	echo '{"format":2,"mlrun":"9.0"}' >newer.json
	run -125 mlrun gpu check --profile newer.json rootfs:image
	assert_output --partial "'newer.json': this profile has format 2, this mlrun knows 1"
	echo '{}' >other.json
	run -125 mlrun gpu check --profile other.json rootfs:image
	assert_output --partial "'other.json': not a machine's profile"
	assert_output --partial "hint: mlrun profile -o FILE writes one"
	echo '{' >broken.json
	run -125 mlrun gpu check --profile broken.json rootfs:image
	assert_output --partial "'broken.json': line "
	jq 'del(.gpu.nodes[0].mode)' debian.json >cut.json
	run -125 mlrun gpu check --profile cut.json rootfs:image
	assert_output --partial "'cut.json': gpu: nodes: [0]: mode: missing"
}
