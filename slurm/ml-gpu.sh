#!/bin/bash
# Train a network inside an image on a GPU, or run a command of yours there.
#
#   mlrun pull IMAGE                                       once, on a login node
#   IMAGE=... sbatch slurm/ml-gpu.sh
#   IMAGE=... sbatch --gres=gpu:2 slurm/ml-gpu.sh python train.py --epochs 3
#
# What can be set in the environment, and what holds otherwise:
#   IMAGE   mlrun/trainer-gpu                  the image; it has to be in the store ($MLRUN_STORE)
#   DATA    /usr/share/datasets/fashion-mnist  a directory that is seen as /data; nothing with a command of yours
#   OUT     where sbatch was called            seen as /out; gets ml-JOBID.safetensors and ml-JOBID.jsonl
#   EPOCHS  10                                 without a command of yours
#
# The site's: partition and GPU. sbatch's options, and $SBATCH_PARTITION, override them.
#SBATCH --partition=gpuq
#SBATCH --gres=gpu:1
#
#SBATCH --job-name=ml-gpu
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
#SBATCH --time=00:30:00
#SBATCH --signal=TERM@60
#SBATCH --output=ml-%j.out

set -eu

# srun would tell it once a node, after the job has waited and begun its work.
if ! command -v mlrun >/dev/null; then
	echo "ml-gpu.sh: mlrun is not on PATH ($PATH): load its module, or export PATH, before sbatch" >&2
	exit 127
fi

image=${IMAGE:-mlrun/trainer-gpu}
out=${OUT:-$SLURM_SUBMIT_DIR}
mounts=(-v "$out:/out")
cpus=${SLURM_CPUS_PER_TASK:-2}

if [ $# = 0 ]; then
	DATA=${DATA:-/usr/share/datasets/fashion-mnist}
	set -- mltrain train --data /data --epochs "${EPOCHS:-10}" --threads "$cpus" \
		--checkpoint "/out/ml-$SLURM_JOB_ID.safetensors" --log "/out/ml-$SLURM_JOB_ID.jsonl"
fi
[ -z "${DATA:-}" ] || mounts+=(-v "$DATA:/data:ro")

# The job does not begin without its GPU, and its output says which it is. Without --gpu=all a GPU that is
# missing is only noticed by the program, which may be content with the CPU.
# AMD's machines have no nvidia-smi: take this line out.
srun --ntasks=1 mlrun exec --pull=never --gpu=all "$image" nvidia-smi -L

# Since Slurm 22.05 srun no longer takes --cpus-per-task from sbatch by itself.
exec srun --cpus-per-task="$cpus" \
	mlrun exec --pull=never --gpu=all "${mounts[@]}" "$image" "$@"
