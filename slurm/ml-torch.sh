#!/bin/bash
# A PyTorch program on several nodes and GPUs: a process for each task, which find each other by themselves.
#
#   mlrun pull IMAGE                                       once, on a login node
#   IMAGE=lab/pytorch sbatch slurm/ml-torch.sh             whether they find each other: the sum of all ranks
#   IMAGE=... sbatch --nodes=4 --ntasks-per-node=4 --gres=gpu:4 slurm/ml-torch.sh python3 train.py --epochs 3
#
# `mlrun exec` sets what torch.distributed.init_process_group() reads by default: MASTER_ADDR and MASTER_PORT of the
# first node, RANK, WORLD_SIZE and LOCAL_RANK. Set them yourself, and yours count. Neither torchrun nor MPI is needed.
# A program takes its GPU by torch.cuda.set_device(int(os.environ["LOCAL_RANK"])).
#
# What can be set in the environment, and what holds otherwise:
#   IMAGE   lab/pytorch                        the image; it has to be in the store ($MLRUN_STORE). recipes/pytorch
#                                              makes one
#   DATA    nothing                            a directory that is seen as /data
#   OUT     where sbatch was called            seen as /out
#
# The site's, for a network that is not the first one: NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME, as ib0.
#
#SBATCH --job-name=ml-torch
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=2
#SBATCH --time=00:30:00
#SBATCH --output=ml-%j.out

set -eu

# srun would tell it once a node, after the job has waited and begun its work.
if ! command -v mlrun >/dev/null; then
	echo "ml-torch.sh: mlrun is not on PATH ($PATH): load its module, or export PATH, before sbatch" >&2
	exit 127
fi

image=${IMAGE:-lab/pytorch}
out=${OUT:-$SLURM_SUBMIT_DIR}
mounts=(-v "$out:/out")
[ -z "${DATA:-}" ] || mounts+=(-v "$DATA:/data:ro")
cpus=${SLURM_CPUS_PER_TASK:-1}

if [ $# = 0 ]; then
	set -- python3 -c '
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor(float(dist.get_rank()))
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: the ranks sum to {total.item():g}", flush=True)'
fi

# Each rank with as many threads as it has CPUs: PyTorch would take all of the node.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$cpus}"
# --kill-on-bad-exit: the others would wait for a rank that failed until the time limit.
# Since Slurm 22.05 srun no longer takes --cpus-per-task from sbatch by itself.
exec srun --kill-on-bad-exit=1 --cpus-per-task="$cpus" \
	mlrun exec --pull=never "${mounts[@]}" "$image" "$@"
