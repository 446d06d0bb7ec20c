#!/bin/bash
# A training that is longer than a job may be, or that gives way to others: it saves itself when it is warned, is queued
# again and goes on where it was, until it is done.
#
#   mlrun pull IMAGE                                       once, on a login node
#   IMAGE=... EPOCHS=500 sbatch slurm/ml-requeue.sh
#   IMAGE=... sbatch --partition=scav slurm/ml-requeue.sh  in a partition whose jobs are preempted
#   scancel --signal=USR1 JOBID                            have it saved and queued again now
#   scancel JOBID                                          the end
#
# Two minutes before the time limit Slurm sends SIGUSR1 to the training (not to this script), before a preemption
# SIGTERM. mltrain then writes its checkpoint and ends with status 0. Losses and weights are those of a training that was
# never interrupted. A job that is lost with its node is queued again by Slurm, and goes on from the last epoch.
#
# What can be set in the environment, and what holds otherwise:
#   IMAGE   mlrun/trainer-cpu                  the image; it has to be in the store ($MLRUN_STORE)
#   DATA    /usr/share/datasets/fashion-mnist  a directory that is seen as /data
#   OUT     where sbatch was called            gets ml-JOBID.safetensors and ml-JOBID.jsonl
#   EPOCHS  100
#   SEED    1
#   STARTS  50                                 not more often than that, whatever happens
#
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@120
#SBATCH --job-name=ml-requeue
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
#SBATCH --time=00:30:00
#SBATCH --output=ml-%j.out

set -eu

# srun would tell it once a node, after the job has waited and begun its work.
if ! command -v mlrun >/dev/null; then
	echo "ml-requeue.sh: mlrun is not on PATH ($PATH): load its module, or export PATH, before sbatch" >&2
	exit 127
fi

image=${IMAGE:-mlrun/trainer-cpu}
data=${DATA:-/usr/share/datasets/fashion-mnist}
out=${OUT:-$SLURM_SUBMIT_DIR}
cpus=${SLURM_CPUS_PER_TASK:-2}
log=$out/ml-$SLURM_JOB_ID.jsonl
starts=$((${SLURM_RESTART_COUNT:-0} + 1))

# --resume starts a new training where there is no checkpoint yet.
# Since Slurm 22.05 srun no longer takes --cpus-per-task from sbatch by itself.
srun --cpus-per-task="$cpus" \
	mlrun exec --pull=never -v "$data:/data:ro" -v "$out:/out" "$image" \
	mltrain train --data /data --epochs "${EPOCHS:-100}" --seed "${SEED:-1}" --threads "$cpus" \
	--checkpoint "/out/ml-$SLURM_JOB_ID.safetensors" --resume --log "/out/ml-$SLURM_JOB_ID.jsonl"

# The log says why it ended: a program of yours needs another sign.
case $(grep -oE '"event":"(interrupted|end)"' "$log" | tail -n 1) in
*end*) exit ;;
*interrupted*) ;;
*) echo "ml-requeue.sh: $log does not say how the training ended" >&2; exit 1 ;;
esac
if [ "$starts" -ge "${STARTS:-50}" ]; then
	echo "ml-requeue.sh: interrupted at the ${starts}th start, the last of STARTS" >&2
	exit 1
fi
scontrol requeue "$SLURM_JOB_ID"
# A script that ends now would end the job for good where a preemption is under way.
sleep 600
