#!/bin/bash
# An MPI program in containers on several nodes, its ranks started by srun: mltrain, or a command of yours.
#
#   mlrun pull IMAGE                                       once, on a login node
#   IMAGE=... sbatch slurm/ml-mpi.sh
#   IMAGE=... sbatch --nodes=8 --ntasks-per-node=4 slurm/ml-mpi.sh ./solver input
#
# The image has an MPI that knows PMIx (Open MPI 4 and newer); `srun --mpi=list` says whether this Slurm has it.
# The ranks of a node share one container.
#
# What can be set in the environment, and what holds otherwise:
#   IMAGE   mlrun/trainer-cpu                  the image; it has to be in the store ($MLRUN_STORE). mltrain needs
#                                              its plugin mltrain-mpi.so there
#   DATA    /usr/share/datasets/fashion-mnist  a directory that is seen as /data; nothing with a command of yours
#   OUT     where sbatch was called            seen as /out; gets ml-JOBID.safetensors and ml-JOBID.jsonl
#   EPOCHS  10                                 without a command of yours
#
# The site's:
#   MPI     pmix                               what `srun --mpi` is told
#
#SBATCH --job-name=ml-mpi
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=2
#SBATCH --time=00:30:00
#SBATCH --signal=TERM@60
#SBATCH --output=ml-%j.out

set -eu

# srun would tell it once a node, after the job has waited and begun its work.
if ! command -v mlrun >/dev/null; then
	echo "ml-mpi.sh: mlrun is not on PATH ($PATH): load its module, or export PATH, before sbatch" >&2
	exit 127
fi

image=${IMAGE:-mlrun/trainer-cpu}
out=${OUT:-$SLURM_SUBMIT_DIR}
mounts=(-v "$out:/out")
cpus=${SLURM_CPUS_PER_TASK:-1}

if [ $# = 0 ]; then
	DATA=${DATA:-/usr/share/datasets/fashion-mnist}
	set -- mltrain train --data /data --epochs "${EPOCHS:-10}" --threads "$cpus" \
		--checkpoint "/out/ml-$SLURM_JOB_ID.safetensors" --log "/out/ml-$SLURM_JOB_ID.jsonl"
fi
[ -z "${DATA:-}" ] || mounts+=(-v "$DATA:/data:ro")

# Since Slurm 22.05 srun no longer takes --cpus-per-task from sbatch by itself.
exec srun --mpi="${MPI:-pmix}" --cpus-per-task="$cpus" \
	mlrun exec --pull=never "${mounts[@]}" "$image" "$@"
