# shellcheck shell=bash
# Slurm's plugin in a lab: `load spank` beside `load ../cli/common`.
#
#   plugged                             in setup_file: is there a cluster and a plugin? Else 1, with the file skipped
#   plug [required|optional] [ARGUMENT...]   write the plugin's line of plugstack.conf
#   unplug                              in teardown_file
#   as_user                             in setup
#   step [SRUN-OPTION...] COMMAND...    Slurm's commands, which otherwise wait for ever for what there is not
#   submit [SBATCH-OPTION...] SCRIPT...

plugged() {
	if [ -z "${TEST_SLURM_CONF:-}" ]; then
		skip_file "no Slurm cluster here; root starts one by tests/slurm/lab.sh run"
	elif [ ! -e "$top_builddir/bin/spank_mlrun.so" ]; then
		skip_file "the plugin was not built: no libslurm-dev"
	else
		plug
		return
	fi
	return 1
}

# shellcheck disable=SC2120
plug() {
	echo "${1:-required} $top_builddir/bin/spank_mlrun.so mlrun=$top_builddir/bin/mlrun ${*:2}" \
		>"${TEST_SLURM_CONF%/*}/site/plugstack.d/mlrun.conf"
}
unplug() { rm -f "${TEST_SLURM_CONF%/*}/site/plugstack.d/mlrun.conf"; }

as_user() {
	export MLRUN_STORE=$BATS_FILE_TMPDIR/store SLURM_CONF=$TEST_SLURM_CONF
	unset "${!PYXIS@}" "${!SHIFTER@}"
}

step() { timeout 300 srun -Q "$@"; } # without "job 7 queued and waiting for resources"
submit() { timeout 600 sbatch --wait --output=job.out "$@"; }
