#!/bin/bash
# Train one network many times, with every learning rate and every seed, as an array of jobs; then compare.
#
#   mlrun pull IMAGE                                       once, on a login node
#   IMAGE=... sbatch slurm/ml-array.sh                     six trainings: three rates, two seeds
#   IMAGE=... RATES="0.1 0.01" SEEDS="1 2 3 4" sbatch --array=0-7%4 slurm/ml-array.sh
#   sort -rnk3 ml-JOBID.tsv | head                         the best, while others still run
#   slurm/ml-array.sh JOBID                                make the table again; JOBID is what sbatch said
#
# Every job that ends writes the table anew, so the last one's has all of them.
#
# What can be set in the environment, and what holds otherwise:
#   IMAGE   mlrun/trainer-cpu                  the image; it has to be in the store ($MLRUN_STORE)
#   DATA    /usr/share/datasets/fashion-mnist  a directory that is seen as /data
#   OUT     where sbatch was called            gets ml-JOBID-N.jsonl, ml-JOBID-N.out and ml-JOBID.tsv
#   RATES   0.003 0.01 0.03
#   SEEDS   1 2                                rates times seeds is the number of jobs for --array
#   EPOCHS  10
#
#SBATCH --array=0-5
#SBATCH --job-name=ml-array
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --time=00:30:00
#SBATCH --output=ml-%A-%a.out

set -eu

# The value of a key in the last record of a kind: value FILE EVENT KEY
value() { sed -n "s/.*\"event\":\"$2\".*\"$3\":\([^,}]*\).*/\1/p" "$1" | tail -n 1; }

# A row for each training that has ended: table JOBID
table() {
	local log accuracy

	printf 'rate\tseed\taccuracy\tlog\n'
	for log in "$out/ml-$1"-*.jsonl; do
		accuracy=$(value "$log" end test_accuracy)
		[ -z "$accuracy" ] ||
			printf '%s\t%s\t%s\t%s\n' "$(value "$log" run lr)" "$(value "$log" run seed)" "$accuracy" "${log##*/}"
	done
}

out=${OUT:-${SLURM_SUBMIT_DIR:-.}}
if [ $# = 1 ]; then
	table "$1" >"$out/ml-$1.tsv"
	exit
fi

# srun would tell it once a node, after the job has waited and begun its work.
if ! command -v mlrun >/dev/null; then
	echo "ml-array.sh: mlrun is not on PATH ($PATH): load its module, or export PATH, before sbatch" >&2
	exit 127
fi

image=${IMAGE:-mlrun/trainer-cpu}
data=${DATA:-/usr/share/datasets/fashion-mnist}
read -ra rates <<<"${RATES:-0.003 0.01 0.03}"
read -ra seeds <<<"${SEEDS:-1 2}"
cpus=${SLURM_CPUS_PER_TASK:-1}
job=$SLURM_ARRAY_JOB_ID
i=$SLURM_ARRAY_TASK_ID

if [ "$i" -ge $((${#rates[@]} * ${#seeds[@]})) ]; then
	echo "ml-array.sh: there is no training $i: ${#rates[@]} rates, ${#seeds[@]} seeds; --array=0-$((${#rates[@]} * ${#seeds[@]} - 1))" >&2
	exit 1
fi
rate=${rates[i / ${#seeds[@]}]}
seed=${seeds[i % ${#seeds[@]}]}

# Since Slurm 22.05 srun no longer takes --cpus-per-task from sbatch by itself.
srun --cpus-per-task="$cpus" \
	mlrun exec --pull=never -v "$data:/data:ro" -v "$out:/out" "$image" \
	mltrain train --data /data --epochs "${EPOCHS:-10}" --lr "$rate" --seed "$seed" --threads "$cpus" \
	--log "/out/ml-$job-$i.jsonl"

# One after the other: a table of fewer never replaces one of more, and whoever looks finds a whole one.
exec 9>>"$out/.ml-array.lock"
flock 9
table "$job" >"$out/ml-$job.tsv.new"
mv "$out/ml-$job.tsv.new" "$out/ml-$job.tsv"
