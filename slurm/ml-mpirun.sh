#!/bin/bash
# An MPI program in containers on several nodes, its ranks started by the host's mpirun: where srun has no PMIx.
#
#   mlrun pull IMAGE                                       once, on a login node
#   module load openmpi; IMAGE=... sbatch slurm/ml-mpirun.sh
#   IMAGE=... sbatch --nodes=8 --ntasks-per-node=4 slurm/ml-mpirun.sh ./solver input
#
# mpirun is outside, `mlrun exec` inside: mpirun asks Slurm for the nodes and starts its daemons there. The Open MPI
# in the image should be of the same major version as the host's.
#
# What can be set in the environment, and what holds otherwise:
#   IMAGE   mlrun/trainer-cpu                  the image; it has to be in the store ($MLRUN_STORE). mltrain needs
#                                              its plugin mltrain-mpi.so there
#   DATA    /usr/share/datasets/fashion-mnist  a directory that is seen as /data; nothing with a command of yours
#   OUT     where sbatch was called            seen as /out; gets ml-JOBID.safetensors and ml-JOBID.jsonl
#   EPOCHS  10                                 without a command of yours
#
# The site's:
#   MPIRUN  mpirun                             with its options: "mpirun --map-by ppr:1:socket"
#
#SBATCH --job-name=ml-mpirun
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --time=00:30:00
#SBATCH --signal=TERM@60
#SBATCH --output=ml-%j.out

set -eu

# srun would tell it once a node, after the job has waited and begun its work.
if ! command -v mlrun >/dev/null; then
	echo "ml-mpirun.sh: mlrun is not on PATH ($PATH): load its module, or export PATH, before sbatch" >&2
	exit 127
fi

image=${IMAGE:-mlrun/trainer-cpu}
out=${OUT:-$SLURM_SUBMIT_DIR}
mounts=(-v "$out:/out")

if [ $# = 0 ]; then
	DATA=${DATA:-/usr/share/datasets/fashion-mnist}
	set -- mltrain train --data /data --epochs "${EPOCHS:-10}" \
		--checkpoint "/out/ml-$SLURM_JOB_ID.safetensors" --log "/out/ml-$SLURM_JOB_ID.jsonl"
fi
[ -z "${DATA:-}" ] || mounts+=(-v "$DATA:/data:ro")

# shellcheck disable=SC2086 # words
exec ${MPIRUN:-mpirun} -np "$SLURM_NTASKS" \
	mlrun exec --pull=never "${mounts[@]}" "$image" "$@"
