#!/bin/bash
# A shell inside an image on a node, with a terminal. Not for sbatch: call it on a login node.
#
#   mlrun pull IMAGE                                       once, on a login node
#   IMAGE=... slurm/interactive.sh
#   IMAGE=... slurm/interactive.sh --partition=gpuq --gres=gpu:1 --time=04:00:00
#
# The arguments are salloc's options. The job ends with the shell.
#
# What can be set in the environment, and what holds otherwise:
#   IMAGE   mlrun/trainer-cpu                  the image; it has to be in the store ($MLRUN_STORE)

set -eu

if ! command -v mlrun >/dev/null; then
	echo "interactive.sh: mlrun is not on PATH ($PATH): load its module" >&2
	exit 127
fi

# An image that is missing is told now, not after the job has waited.
image=${IMAGE:-mlrun/trainer-cpu}
mlrun inspect "$image" >/dev/null

# --overlap: a salloc that starts its own step (use_interactive_step) has the CPUs already.
exec salloc --quiet --job-name=interactive --nodes=1 --ntasks=1 --time=01:00:00 "$@" \
	srun --overlap --pty mlrun shell --pull=never "$image"
