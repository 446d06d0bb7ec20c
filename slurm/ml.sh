#!/bin/bash
# Train a network inside an image, as one Slurm job on one node.
#
#   mlrun pull IMAGE                       once, on a login node
#   IMAGE=... EPOCHS=5 sbatch slurm/ml.sh
#   IMAGE=... sbatch --gres=gpu:1 slurm/ml.sh     on a GPU: mltrain of an image that is built for CUDA
#                                          takes it, others leave it idle
#
# The partition is the cluster's default; sbatch --partition=NAME or $SBATCH_PARTITION is another.
#
# What can be set in the environment, and what holds otherwise:
#   IMAGE   mlrun/trainer-cpu                  the image; it has to be in the store ($MLRUN_STORE)
#   DATA    /usr/share/datasets/fashion-mnist  a directory with the four IDX files, seen as /data
#   EPOCHS  10
#   SEED    1
#   OUT     where sbatch was called            gets ml-JOBID.safetensors and ml-JOBID.jsonl
#   USAGE                                      a file that gets what the node's GPUs and processors do, as
#                                              CSV, a line every 10 seconds
#
# A minute before the time limit (and on `scancel --signal=TERM JOBID`) mltrain gets SIGTERM; it
# writes its checkpoint and ends.
#
#SBATCH --job-name=ml
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
#SBATCH --time=00:30:00
#SBATCH --signal=TERM@60
#SBATCH --output=ml-%j.out

set -eu

# srun would tell it once a node, after the job has waited and begun its work.
if ! command -v mlrun >/dev/null; then
	echo "ml.sh: mlrun is not on PATH ($PATH): load its module, or export PATH, before sbatch" >&2
	exit 127
fi

image=${IMAGE:-mlrun/trainer-cpu}
data=${DATA:-/usr/share/datasets/fashion-mnist}
out=${OUT:-$SLURM_SUBMIT_DIR}
cpus=${SLURM_CPUS_PER_TASK:-2}

# A job that has a GPU does not begin without, and its output says which.
if [ -n "${SLURM_JOB_GPUS:-}" ]; then
	srun --ntasks=1 mlrun exec --pull=never --gpu=all "$image" nvidia-smi -L
fi
# It ends with the job.
if [ -n "${USAGE:-}" ]; then
	mlrun gpu top --interval 10 --log "$USAGE" &
fi

# Since Slurm 22.05 srun no longer takes --cpus-per-task from sbatch by itself.
exec srun --cpus-per-task="$cpus" \
	mlrun exec --pull=never -v "$data:/data:ro" -v "$out:/out" "$image" \
	mltrain train --data /data --epochs "${EPOCHS:-10}" --seed "${SEED:-1}" --threads "$cpus" \
	--checkpoint "/out/ml-$SLURM_JOB_ID.safetensors" --log "/out/ml-$SLURM_JOB_ID.jsonl"
