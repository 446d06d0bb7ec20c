# The images we ship, built by images/build.
load common

setup() {
	common_setup
	export MLRUN=$top_builddir/bin/mlrun
	build=$top_srcdir/images/build
}

@test "images: trainer-cpu has a shell and mltrain, and is the same image twice" {
	local first

	run -0 "$build" trainer-cpu mlrun/trainer-cpu "$top_builddir/bin/mltrain"
	first=$output
	run -0 mlrun exec mlrun/trainer-cpu sh -c 'mltrain --version && ls -ld /tmp /usr/local/share/mltrain/nets/lenet-5.json'
	assert_output --regexp '^mltrain [0-9]'
	assert_line --regexp '^drwxrwxrwt .* /tmp$'
	run -0 mlrun inspect mlrun/trainer-cpu
	assert_output --partial org.opencontainers.image.title=mlrun/trainer-cpu

	MLRUN_STORE=$PWD/another run -0 "$build" trainer-cpu again "$top_builddir/bin/mltrain"
	assert_output "$first"
	run -0 find . -maxdepth 1 -name 'tmp.*'
	assert_output ''
}

@test "images: trainer-gpu has what the backend cuda needs, except the driver" {
	[ -e "$top_builddir/bin/mltrain-cuda.so" ] || skip "this build has no backend cuda"
	"$build" trainer-gpu mlrun/trainer-gpu "$top_builddir/bin/mltrain"
	run -0 mlrun exec mlrun/trainer-gpu mltrain --version
	assert_output --partial cuda
	run -0 mlrun exec mlrun/trainer-gpu sh -c 'cd /usr/lib/*-linux-gnu && ls'
	assert_line --regexp '^libcudnn_ops\.so\.'
	assert_line --regexp '^libcublasLt\.so\.'
	refute_line --regexp '^libcuda\.so'
}

@test "images: what is missing is named" {
	run -2 "$build"
	assert_line --regexp '^usage: '
	run -1 "$build" trainer-tpu x
	assert_output "images/build: there is no image 'trainer-tpu': base, trainer-cpu and trainer-gpu"
	run -1 "$build" trainer-cpu x /no/such
	assert_output "images/build: no program '/no/such'; build it first"
	MLRUN=/no/such run -1 "$build" trainer-cpu x
	assert_output "images/build: no program '/no/such'; build it first"
	cp "$top_builddir/bin/mltrain" mltrain
	run -1 "$build" trainer-gpu x ./mltrain
	assert_line --partial "has no backend cuda"
	run -0 mlrun images
	refute_output --partial x
}

@test "images: of a name, whole or its end, with or without a tag" {
	tiny_root root
	layer_tar root.tar root
	for name in tiny lab/tiny:2 nottiny; do mlrun import -q root.tar "$name"; done
	names() { mlrun images "$@" --json | jq -r '.[].name' | sort | tr '\n' ' '; }
	assert_equal "$(names tiny)" 'localhost/lab/tiny:2 localhost/tiny:latest '
	assert_equal "$(names lab/tiny)" 'localhost/lab/tiny:2 '
	assert_equal "$(names tiny:latest)" 'localhost/tiny:latest '
	assert_equal "$(names localhost/nottiny)" 'localhost/nottiny:latest '
	assert_equal "$(names none)" ''
	run -125 mlrun images one two
}
