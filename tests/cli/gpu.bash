# shellcheck shell=bash disable=SC2154
# Made-up machines with GPUs for command-line tests: `load gpu` beside `load common`.
#
#   driver_tree LAYOUT [OPTION...]      the machine is tests/cli/driver-tree's LAYOUT from now on: sets
#                                       and exports $MLRUN_GPU_ROOT; made once a file for the same words
#   own_tree LAYOUT [OPTION...]         the same as a copy in ./machine, which the test may change
#   fake_nvml [FAKE]                    ./machine's management library is tests/gpu/FAKE.so, fake_nvml for short,
#                                       which answers what the file $FACTS says
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

own_tree() {
	driver_tree "$@"
	cp -a "$MLRUN_GPU_ROOT" machine
	export MLRUN_GPU_ROOT=$PWD/machine
}

fake_nvml() {
	local library

	library=$(find machine/usr/lib -type f '(' -path '*64-linux-gnu/libnvidia-ml.so.*' -o -path '*/wsl/lib/libnvidia-ml.so.1' ')')
	cp "$top_builddir/tests/gpu/${1:-fake_nvml}.so" "$library.new"
	mv "$library.new" "$library"
	FACTS=$(dirname "$library")/fake-nvml
}

gpu_library() {
	"$top_srcdir/tests/cli/driver-tree" --library "$@" || fail "driver-tree --library $*"
}
