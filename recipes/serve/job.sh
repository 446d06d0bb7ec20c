#!/bin/sh
# The pipeline of README.md as a job: serve a checkpoint, put load on it, keep the results.
#   sbatch --export=ALL,CHECKPOINT=$PWD/f.safetensors job.sh
#SBATCH --nodes=1 --ntasks=1 --cpus-per-task=4 --time=10
set -eu
here=${SERVE_RECIPE:-$SLURM_SUBMIT_DIR}
: "${CHECKPOINT:?the file that mltrain train has written}"
# Other users' jobs may be on the node: ports of this job's own, and a password.
PORT=$((20000 + SLURM_JOB_ID % 4000 * 10))
REDIS_PORT=$((PORT + 9))
REDISCLI_AUTH=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export CHECKPOINT PORT REDIS_PORT REDISCLI_AUTH
export COMPOSE_PROJECT_NAME="serve-$SLURM_JOB_ID"

mlrun up -d "$here/compose.yaml"
mltrain load "http://127.0.0.1:$PORT/predict" --images "${IMAGES:-fashion-mnist}" --stages "${STAGES:-30s:20,1m:20,30s:0}" \
	--cache-rate 0.95 --threshold 'p(99)<2000ms' --threshold 'http_req_failed:rate<1%' \
	--json "serve-$SLURM_JOB_ID.json" -o "serve-$SLURM_JOB_ID.html" && status=0 || status=$?
mlrun down "$here/compose.yaml"
exit "$status"
