#!/bin/bash
# JupyterLab inside an image on a node, for the browser of your own machine.
#
#   mlrun pull IMAGE                                       once, on a login node; recipes/jupyter makes one
#   IMAGE=lab/jupyter sbatch slurm/jupyter.sh
#   cat jupyter-JOBID.out                                  the ssh command to type on your machine
#   cat jupyter-JOBID.url                                  the address for its browser, with a secret
#   scancel JOBID                                          the end; so is "Shut Down" in its menu
#
# Other options of JupyterLab's may follow; GPUs by sbatch's options, as --partition=gpuq --gres=gpu:1.
#
# What can be set in the environment, and what holds otherwise:
#   IMAGE   lab/jupyter                        the image; it has to be in the store ($MLRUN_STORE)
#   DATA    nothing                            a directory that is seen as /data
#   OUT     where sbatch was called            the directory of the notebooks; gets jupyter-JOBID.url
#
# The site's:
#   LOGIN   the machine where sbatch was called, as ssh from outside names it
#
#SBATCH --job-name=jupyter
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
#SBATCH --time=04:00:00
#SBATCH --output=jupyter-%j.out

set -eu

# srun would tell it once a node, after the job has waited and begun its work.
if ! command -v mlrun >/dev/null; then
	echo "jupyter.sh: mlrun is not on PATH ($PATH): load its module, or export PATH, before sbatch" >&2
	exit 127
fi

image=${IMAGE:-lab/jupyter}
out=${OUT:-$SLURM_SUBMIT_DIR}
mounts=(-v "$out")
[ -z "${DATA:-}" ] || mounts+=(-v "$DATA:/data:ro")
url=$out/jupyter-$SLURM_JOB_ID.url
node=$(hostname)

# A port where nobody answers; several users' servers may share the node.
is_taken() { (exec 3<>"/dev/tcp/$node/$1") 2>/dev/null; }
port=$((15000 + RANDOM % 15000))
while is_taken "$port"; do port=$((15000 + RANDOM % 15000)); done

# The secret is in no command line and no file that others may read.
JUPYTER_TOKEN=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
export JUPYTER_TOKEN
rm -f "$url"
(umask 077 && set -o noclobber && echo "http://localhost:$port/lab?token=$JUPYTER_TOKEN" >"$url")
trap 'rm -f "$url"' EXIT

cat <<END
On your machine:        ssh -N -L $port:$node:$port $(id -un)@${LOGIN:-$SLURM_SUBMIT_HOST}
Then, in its browser:   the address in $url
END

srun --cpus-per-task="${SLURM_CPUS_PER_TASK:-2}" \
	mlrun exec --pull=never "${mounts[@]}" -w "$out" "$image" \
	jupyter lab --no-browser --ip="$node" --port="$port" --ServerApp.port_retries=0 "$@"
