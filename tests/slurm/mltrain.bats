#!/usr/bin/env bats
# mltrain on several ranks, started by srun.
# shellcheck disable=SC2016 # the inner shell expands

load ../cli/common
load ../cli/ranks
load mpi

setup_file() {
	[ -n "$TEST_SLURM_CONF" ] || { skip_file "no Slurm cluster here; root starts one by tests/slurm/lab.sh run"; return; }
	[ -e "$top_builddir/bin/mltrain-mpi.so" ] || { skip_file "built without Open MPI"; return; }
	[ "$(id -u)" != 0 ] || { skip_file "ranks are for ordinary users"; return; }
	export DATA=$BATS_FILE_TMPDIR/data
	ranks_data "$DATA"
}

setup() {
	common_setup
	cd "$BATS_TEST_TMPDIR"
	ranks_setup
	export SLURM_CONF=${TEST_SLURM_CONF:-}
	TRAIN=(train -q --threads 1 --data "$DATA" --validation 100 --batch 16 --lr 0.002 --log-every 1)
}

pmix() { timeout 300 srun --quiet --mpi=pmix --overcommit "$@"; }

@test "mltrain: srun's ranks on one node and on two train as one does" {
	mltrain "${TRAIN[@]}" --steps 8 --log one.jsonl --checkpoint one.safetensors
	for where in "-N1 -n2" "-N2 -n2" "-N2 -n4"; do
		rm -f many.*
		# shellcheck disable=SC2086 # two words
		pmix $where mltrain "${TRAIN[@]}" --steps 8 --log many.jsonl --checkpoint many.safetensors >out 2>err
		cat out err
		assert_equal "$(grep -c '^test accuracy' out)" 1
		assert_same_losses many.jsonl one.jsonl
		assert_same_tensors many.safetensors one.safetensors
		# Nothing frightens.
		assert_equal "$(cat err)" ""
	done
}

@test "mltrain: tasks that srun --mpi=none started are refused" {
	run srun --quiet --mpi=none -n2 mltrain "${TRAIN[@]}" --steps 2 --checkpoint c.safetensors
	[ "$status" != 0 ]
	assert_output --partial "mltrain: one of 2 tasks of srun, which can't find each other"
	[ ! -e c.safetensors ]
}

@test "mltrain: a rank that is killed ends srun's others within seconds, though srun itself would let them wait" {
	for where in "-N1 -n3" "-N2 -n2"; do
		rm -f pids run.jsonl
		# shellcheck disable=SC2086 # two words
		srun --quiet --mpi=pmix --overcommit --kill-on-bad-exit=0 $where \
			sh -c 'echo "$SLURM_PROCID $$" >>pids; exec mltrain "$@"' sh "${TRAIN[@]}" --batch 12 \
			--epochs 100000 --log run.jsonl --checkpoint c.safetensors --checkpoint-every 2 2>err 3>&- &
		srun=$!
		until_true has_steps run.jsonl 5
		assert_equal "$(wc -l <pids)" "${where#*n}"
		SECONDS=0
		kill -KILL "$(sed -n "s/^1 //p" pids)"
		assert_ends $srun
		((SECONDS < 100)) # it takes some
		cat err
		[ "$status" != 0 ]
		for pid in $(cut -d' ' -f2 pids); do until_true is_gone "$pid"; done
		mltrain eval --checkpoint c.safetensors --data "$DATA"
	done
}

# An image with mltrain, its plugin for MPI and what both need.
trainer_image() {
	root=$BATS_FILE_TMPDIR/root
	[ ! -d "$root" ] || return 0
	mpi_image "$root"
	cp "$top_builddir"/bin/mltrain{,-mpi.so} "$root/bin"
	cp -r --no-preserve=mode "$top_srcdir/src/mltrain/nets" "$root"
	ldd "$top_builddir"/bin/mltrain{,-mpi.so} | grep -o '/[^ ):]*\.so[^ ):]*' | sort -u | while read -r lib; do
		case $lib in "$top_builddir"*) continue ;; esac
		mkdir -p "$root${lib%/*}"
		[ -e "$root$lib" ] || cp -L "$lib" "$root$lib"
	done
}

# trains_as_one COMMAND...: the ranks that it starts in containers find the losses and the weights of one outside.
trains_as_one() {
	rm -f many.*
	"$@" mlrun exec -e MLTRAIN_NETS=/nets -v "$DATA" -v "$PWD" -w "$PWD" "rootfs:$root" mltrain "${TRAIN[@]}" --steps 8 \
		--log many.jsonl --checkpoint many.safetensors >out 2>err
	cat out err
	assert_same_losses many.jsonl one.jsonl
	assert_same_tensors many.safetensors one.safetensors
}

@test "mltrain: srun's ranks train in containers as one does outside" {
	trainer_image
	mltrain "${TRAIN[@]}" --steps 8 --log one.jsonl --checkpoint one.safetensors
	for where in "-N1 -n2" "-N2 -n2" "-N2 -n4"; do
		# shellcheck disable=SC2086 # two words
		trains_as_one pmix $where
	done
}

@test "mltrain: mpirun's ranks in a job of two nodes train in containers as one does outside" {
	trainer_image
	mltrain "${TRAIN[@]}" --steps 8 --log one.jsonl --checkpoint one.safetensors
	trains_as_one timeout 300 salloc --quiet -N2 -n4 --overcommit mpirun -np 4 --map-by node
}
