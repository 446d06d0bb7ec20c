# shellcheck shell=bash disable=SC2154
# Made-up machines with GPUs for command-line tests: `load gpu` beside `load common`.
#
#   driver_tree LAYOUT [OPTION...]      the machine is tests/cli/driver-tree's LAYOUT from now on: sets
#                                       and exports $MLRUN_GPU_ROOT; made once a file for the same words
#   gpu_library FILE [OPTION...]        a library, as driver-tree --library makes it

unset "${!CUDA_@}" "${!NVIDIA_@}" "${!HIP_@}" "${!ROCR_@}" GPU_DEVICE_ORDINAL LD_LIBRARY_PATH

driver_tree() {
	local name

	name=$(printf '%s' "$*" | tr -c 'A-Za-z0-9.=-' _)
	MLRUN_GPU_ROOT=$BATS_FILE_TMPDIR/machine-$name
	export MLRUN_GPU_ROOT
	[ ! -d "$MLRUN_GPU_ROOT" ] || return 0
	"$top_srcdir/tests/cli/driver-tree" "$@" "$MLRUN_GPU_ROOT.new" || fail "driver-tree $*"
	mv "$MLRUN_GPU_ROOT.new" "$MLRUN_GPU_ROOT"
}

gpu_library() {
	"$top_srcdir/tests/cli/driver-tree" --library "$@" || fail "driver-tree --library $*"
}
