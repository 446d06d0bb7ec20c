#!/usr/bin/env bats
# mltrain on several ranks, under mpirun. tests/slurm/mltrain.bats has what srun does.

load common
load ranks

setup_file() {
	[ -e "$top_builddir/bin/mltrain-mpi.so" ] || { skip_file "built without Open MPI"; return; }
	command -v mpirun >/dev/null || { skip_file "mpirun is not installed"; return; }
	[ "$(id -u)" != 0 ] || { skip_file "mpirun is for ordinary users"; return; }
	export DATA=$BATS_FILE_TMPDIR/data BACKENDS=reference
	case $("$top_builddir/bin/mltrain" --version) in *onednn*) BACKENDS="onednn reference" ;; esac
	ranks_data "$DATA"
}

setup() {
	common_setup
	cd "$BATS_TEST_TMPDIR"
	ranks_setup
}

# ranks N ARGUMENT...: mltrain on N ranks of one thread each
ranks() { timeout 600 mpirun -n "$1" mltrain "${@:2}"; }

# rank_pids PID-OF-MPIRUN: a line "RANK PID" for each of its ranks
rank_pids() {
	local pid

	for pid in $(pgrep -P "$1"); do
		echo "$(tr '\0' '\n' <"/proc/$pid/environ" | sed -n 's/^OMPI_COMM_WORLD_RANK=//p') $pid"
	done | sort -n
}

@test "ranks: one to four of them sum, tell and train as one does" {
	[ -x "$top_builddir/tests/unit/test_trainer_dist" ] || skip "the unit tests are not built"
	export CMOCKA_MESSAGE_OUTPUT=STDOUT MLTRAIN_PLUGINS=$top_builddir/bin
	for n in $(every 2 1 3 4); do
		run -0 timeout 600 mpirun -n "$n" "$top_builddir/tests/unit/test_trainer_dist"
		assert_equal "$(grep -c 'PASSED' <<<"$output")" "$n"
	done
	# and where a node's ranks can share no memory
	MLTRAIN_NO_SHARED_MEMORY=1 run -0 timeout 600 mpirun -n 3 "$top_builddir/tests/unit/test_trainer_dist"
	assert_equal "$(grep -c 'PASSED' <<<"$output")" 3
}

# elastic_pair LOG ARGUMENT...: the same on two elastic ranks
elastic_pair() {
	local pids=()

	for _ in 1 2; do
		mltrain "${@:2}" --elastic meet --min-ranks 2 --log "$1" 2>>err 3>&- >>out &
		pids+=($!)
		PIDS+=($!)
	done
	for p in "${pids[@]}"; do assert_ends "$p"; assert_equal "$status" 0; done
}

@test "ranks: batch norm of 2 x 64 images is that of 1 x 128; with sync false each rank normalises its own rows" {
	COMMON=(train -q --threads 1 --data "$DATA" --validation 100 --batch 128 --steps 8 --lr 0.01 --log-every 1 --load-every 0)
	for b in $BACKENDS; do
		for sync in true false; do
			rm -f ./*.jsonl ./*.safetensors
			ranks_norm_net $sync >net.json
			for how in alone mpi elastic; do
				options=("${COMMON[@]}" --net net.json --backend "$b" --checkpoint "$how.safetensors")
				case $how in
				alone) mltrain "${options[@]}" --log alone.jsonl ;;
				mpi) ranks 2 "${options[@]}" --log mpi.jsonl ;;
				elastic) elastic_pair elastic.jsonl "${options[@]}" ;;
				esac
			done
			assert_same_losses elastic.jsonl mpi.jsonl
			assert_same_tensors elastic.safetensors mpi.safetensors
			if [ $sync = true ]; then
				assert_same_losses mpi.jsonl alone.jsonl
				assert_same_tensors mpi.safetensors alone.safetensors
			else
				run ! assert_same_losses mpi.jsonl alone.jsonl
				# All ranks have tested with the running statistics that the checkpoint has.
				mltrain eval -q --json --checkpoint mpi.safetensors --data "$DATA" --threads 1 --backend "$b" >eval.json
				python3 - <<-'END'
				import json
				trained = [r for r in map(json.loads, open("mpi.jsonl")) if r["event"] == "test"][0]
				tested = json.load(open("eval.json"))
				assert trained["confusion"] == tested["confusion"], (trained["confusion"], tested["confusion"])
				a, b = trained["cross_entropy"], tested["cross_entropy"]
				assert abs(a - b) <= 1e-5 * b, (a, b)
				END
			fi
		done
	done
}

@test "ranks: the backend cuda refuses batch norm of each rank's rows, by the layer's name" {
	ranks_norm_net false >net.json
	run ranks 2 train --data "$DATA" --net net.json --backend cuda --steps 2
	assert_failure
	assert_output --partial "layer 'batchnorm1': backend cuda normalises over all ranks alone"
}

@test "ranks: losses and weights of two and four are those of one" {
	local counts

	for b in $BACKENDS; do
		counts=$(every 2 4)
		[ "$b" != "${BACKENDS%% *}" ] || counts="2 4"
		for n in 1 $counts; do
			ranks $n train -q --threads 1 --data "$DATA" --validation 100 --batch 16 --steps 8 --lr 0.002 \
				--log-every 1 --backend "$b" --log "$b-$n.jsonl" --checkpoint "$b-$n.safetensors" >out 2>err
			# rank 0 alone prints
			assert_equal "$(grep -c '^test accuracy' out)" 1
		done
		for n in $counts; do
			assert_same_losses "$b-$n.jsonl" "$b-1.jsonl"
			assert_same_tensors "$b-$n.safetensors" "$b-1.safetensors"
		done
	done
}

@test "ranks: training goes on with another number of them as if there had been one throughout" {
	common=(-q --threads 1 --data "$DATA" --validation 100 --batch 16 --lr 0.002 --log-every 1)
	ranks 1 train "${common[@]}" --steps 8 --log one.jsonl --checkpoint one.safetensors
	ranks 4 train "${common[@]}" --steps 3 --log many.jsonl --checkpoint c.safetensors
	ranks 2 train "${common[@]}" --steps 6 --log many.jsonl --checkpoint c.safetensors --resume
	ranks 1 train "${common[@]}" --steps 8 --log many.jsonl --checkpoint c.safetensors --resume
	assert_same_losses many.jsonl one.jsonl
	assert_same_tensors c.safetensors one.safetensors
}

@test "ranks: one that is killed ends all of them within seconds, and the checkpoint is whole" {
	for victim in 0 1 2; do
		rm -f run.jsonl c.safetensors
		mpirun -n 3 mltrain train -q --threads 1 --data "$DATA" --validation 100 --batch 12 --epochs 100000 \
			--log run.jsonl --log-every 1 --checkpoint c.safetensors --checkpoint-every 2 2>err 3>&- &
		mpirun=$!
		until_true has_steps run.jsonl 5
		rank_pids $mpirun >pids
		assert_equal "$(wc -l <pids)" 3
		SECONDS=0
		kill -KILL "$(sed -n "s/^$victim //p" pids)"
		assert_ends $mpirun
		((SECONDS < 100)) # it takes one or two
		[ "$status" != 0 ]
		for pid in $(cut -d' ' -f2 pids); do until_true is_gone "$pid"; done
		cat err
		grep -q "rank $victim" err
		mltrain eval --checkpoint c.safetensors --data "$DATA"
	done
}

@test "ranks: one that is stopped is named once by one of the others, and training goes on with it" {
	mpirun -n 3 mltrain train -q --threads 1 --data "$DATA" --validation 100 --batch 12 --epochs 100000 \
		--log run.jsonl --log-every 1 2>err 3>&- &
	mpirun=$!
	until_true has_steps run.jsonl 5
	rank_pids $mpirun >pids
	pid=$(sed -n "s/^1 //p" pids)
	kill -STOP "$pid"
	until_true grep -q "which is stopped" err
	sleep 3
	steps=$(grep -c '"event":"step"' run.jsonl)
	kill -CONT "$pid"
	until_true has_steps run.jsonl $((steps + 6))
	kill -TERM $mpirun
	assert_ends $mpirun
	cat err
	# Beside other work a rank that runs may be late as well.
	assert_equal "$(grep "which is stopped" err)" \
		"mltrain: warning: waiting for rank 1 on '$(hostname)' (process $pid), which is stopped (kill -CONT lets it go on)"
}

# unequal_ranks OPTIONS OF-RANK-0 OF-RANK-1, not by mpirun's ":", at which that of Debian 13 crashes.
unequal_ranks() {
	# shellcheck disable=SC2016
	timeout 300 mpirun -n 2 bash -c 'of=("$2" "$3"); exec mltrain train $1 ${of[OMPI_COMM_WORLD_RANK]}' bash "$@"
}

@test "ranks: a rank that fails ends all of them, and says why" {
	# Rank 1 alone has other data
	cp -r "$DATA" other
	head -c 5000 "$DATA/train-images-idx3-ubyte" >other/train-images-idx3-ubyte
	run unequal_ranks "--threads 1 --data $DATA" '' '--data other'
	[ "$status" != 0 ] && [ "$status" != 124 ]
	assert_output --partial "mltrain: rank 1: "
	assert_output --partial "train-images-idx3-ubyte"
}

@test "ranks: options that would have one wait for the others for ever are refused" {
	for o in "--keep-best b" "--target-accuracy 99" "--checkpoint-every 3 --checkpoint c" "--momentum 0.5" "--log-format tf"; do
		run unequal_ranks "-q --threads 1 --data $DATA --validation 0 --epochs 1" '' "$o"
		[ "$status" != 0 ] && [ "$status" != 124 ]
		assert_output --partial "ranks differ in options: rank 1"
	done
}

@test "ranks: what all of them find wrong is said once" {
	run timeout 300 mpirun -n 3 mltrain train --threads 1 --data /no/such/dir
	[ "$status" != 0 ] && [ "$status" != 124 ]
	assert_equal "$(grep -c '/no/such/dir' <<<"$output")" 1
	run timeout 300 mpirun -n 2 mltrain train --threads 1 --data "$DATA" --validation 100 --batch 15
	[ "$status" != 0 ] && [ "$status" != 124 ]
	assert_equal "$(grep -c 'batch of 15' <<<"$output")" 1
}

@test "ranks: processes that could not find each other are refused" {
	SLURM_STEP_NUM_TASKS=2 run -1 mltrain train --data "$DATA"
	assert_line "mltrain: one of 2 tasks of srun, which can't find each other: each would train the whole by itself"
	assert_line --partial "hint: srun --mpi=pmix"
	PMI_SIZE=2 PMI_RANK=0 run -1 mltrain train --data "$DATA"
	assert_output --partial "for another MPI than Open MPI"
	# One task of srun is alone, and so is what a batch script starts.
	for env in SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=2 OMPI_COMM_WORLD_SIZE=1; do
		env $env mltrain train -q --threads 1 --data "$DATA" --validation 100 --steps 1
	done
}

@test "ranks: without the plugin, or the library it needs, one trains and several are told what is missing" {
	cc --version >/dev/null || skip "no C compiler"
	mkdir plugins
	export MLTRAIN_PLUGINS=$PWD/plugins
	train=(train -q --threads 1 --data "$DATA" --validation 100 --steps 1)
	alone_yes_many_no() {
		mltrain "${train[@]}"
		run -1 env OMPI_COMM_WORLD_SIZE=2 mltrain "${train[@]}"
		assert_output --partial "$1"
		assert_output --partial "hint: "
	}

	alone_yes_many_no "mltrain-mpi.so is not installed in '$MLTRAIN_PLUGINS'"
	run -0 mltrain --version
	assert_output --partial "-mpi"
	MLTRAIN_PLUGINS='' run -0 mltrain --version
	assert_output --partial "+mpi"

	echo 'int gone(void) { return 0; }' | cc -shared -fPIC -x c - -o libgone.so.40
	echo 'int gone(void); int use(void) { return gone(); }' >use.c
	cc -shared -fPIC use.c -o plugins/mltrain-mpi.so ./libgone.so.40
	rm libgone.so.40
	alone_yes_many_no "libgone.so.40: cannot open shared object file"
	assert_output --partial "hint: install the library ./libgone.so.40"

	echo 'const char *mltrain_mpi[] = { "0.0.1", 0 };' | cc -shared -fPIC -x c - -o plugins/mltrain-mpi.so
	alone_yes_many_no "belongs to mltrain 0.0.1"
	echo 'int nothing;' | cc -shared -fPIC -x c - -o plugins/mltrain-mpi.so
	alone_yes_many_no "is not a plugin of mltrain"
	echo text >plugins/mltrain-mpi.so
	alone_yes_many_no "load plugin '"
}
