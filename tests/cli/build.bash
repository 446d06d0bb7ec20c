# shellcheck shell=bash
# For tests of mlrun build: a registry with the image $BASE, and a context in the current directory.

setup_file() {
	registry_start
	image_tiny tiny
}

teardown_file() { registry_stop; }

setup() {
	common_setup
	export BASE=$REGISTRY/tiny
	mkdir "$TMPDIR/ctx"
	cd "$TMPDIR/ctx" || return
	umask 022
}

# The recipe is standard input.
recipe() {
	sed "s|BASE|$BASE|" >Dockerfile
}

# inside COMMAND...: in the image "mine".
inside() {
	(cd / && mlrun exec mine "$@")
}
