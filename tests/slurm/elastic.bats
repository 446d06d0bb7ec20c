#!/usr/bin/env bats
# Elastic runs of three users on four nodes of a real Slurm. Root's, since several users are needed, and a lab of its own.
#
#   ELASTIC_DATA=DIR   train LeNet-5 on the first 21,000 images of Fashion-MNIST there, rather than on noise
#   ELASTIC_KEEP=DIR   keep the logs of the trainings there
#   ELASTIC_TORCH=1    test PyTorch's agents, too, which takes a minute
# shellcheck disable=SC2016 # the shell inside expands

load ../cli/common
load ../cli/ranks

# What a training of a minute goes through several times.
fashion() {
	local name header size

	mkdir "$1"
	cp "$ELASTIC_DATA"/t10k-* "$1"
	for name in images-idx3:16:784 labels-idx1:8:1; do
		IFS=: read -r name header size <<<"$name"
		zcat "$ELASTIC_DATA/train-$name-ubyte.gz" | head -c $((header + 21000 * size)) >"$1/train-$name-ubyte"
		# The count of images, big-endian.
		printf '\0\0\x52\x08' | dd of="$1/train-$name-ubyte" bs=1 seek=4 conv=notrunc status=none
	done
}

setup_file() {
	local said status=0 library net=reference

	[ "$(id -u)" = 0 ] || { skip_file "a Slurm cluster with several users takes root to start"; return; }
	runuser -u nobody -- test -x "$top_builddir/bin/mlrun" || { skip_file "other users may not read $top_builddir"; return; }
	export LAB_NUMBER=$((100 + $$ % 100))
	export LAB_CONF=/run/mlrun-lab$LAB_NUMBER/slurm.conf
	export LAB_SPANK= # Slurm's programs do not load what sanitizers made
	export DIR=/tmp/mlrun-elastic-$LAB_NUMBER
	said=$(env -u TMPDIR "$top_srcdir/tests/slurm/lab.sh" up 2>&1) || status=$?
	[ "$status" != 77 ] || { skip_file "$said"; return; }
	[ "$status" = 0 ] || { echo "$said"; return 1; }
	install -d -m 755 "$DIR"
	if [ -n "${ELASTIC_DATA:-}" ]; then fashion "$DIR/data"; else ranks_data "$DIR/data"; fi
	chmod -R a+rX "$DIR/data"
	tiny_root "$DIR/root"
	ldd "$top_builddir/bin/mltrain" | grep -o '/[^ ):]*\.so[^ ):]*' | while read -r library; do
		mkdir -p "$DIR/root${library%/*}"
		cp -L "$library" "$DIR/root$library"
	done
	cp "$top_builddir/bin/mltrain" "$DIR/root/bin"
	[ -z "${ELASTIC_DATA:-}" ] || net=lenet-5
	install -m 644 "$top_srcdir/src/mltrain/nets/$net.json" "$DIR/net.json"
}

teardown_file() {
	[ -z "${DIR:-}" ] || { env -u TMPDIR "$top_srcdir/tests/slurm/lab.sh" down; rm -rf "$DIR"; }
}

setup() {
	common_setup
	unset TMPDIR MLRUN_STORE
	export SLURM_CONF=$LAB_CONF
	ALICE=lab$LAB_NUMBER-user2
	BOB=lab$LAB_NUMBER-user3
	CAROL=lab$LAB_NUMBER-user4
	WORK=$(mktemp -d "$DIR/work.XXXXXX")
	chmod 777 "$WORK"
	cd "$WORK"
	IMG=rootfs:$DIR/root
	SHARE=(--partition elastq --cpus 2 --hold 2)
	TRAIN=(--net "$DIR/net.json" --data "$DIR/data" --threads 1 --load-every 0 --epochs 100000)
	if [ -n "${ELASTIC_DATA:-}" ]; then TRAIN+=(--validation 1000 --batch 256 --lr 0.003 --log-every 5); else TRAIN+=(--validation 100 --batch 16 --lr 0.001 --log-every 1); fi
	# What runs until it is told to end, as a trainer does.
	STEPS='trap "exit 0" TERM; echo $$ >>commands; while :; do sleep 0.1; done'
}

teardown() {
	squeue -h -o %A | xargs -r scancel
	until_true no_jobs
	common_teardown
}

# as USER COMMAND...
as() { timeout 120 runuser -u "$1" -- env HOME="/home/$1" PATH="$top_builddir/bin:$PATH" "${@:2}"; }
no_jobs() { [ -z "$(squeue -h)" ]; }
# have USER COUNT [USER COUNT]: so many jobs run, and none waits or is about to end.
have() { [ "$(squeue -h -p elastq -o '%u %T' | sort | uniq -c | xargs)" = "$(while [ $# -gt 0 ]; do echo "$2 $1 RUNNING"; shift 2; done | xargs)" ]; }
# within SECONDS COMMAND...: wait for it, and note how long it took; a busy machine may take longer than is wished.
within() {
	local begin=${EPOCHREALTIME/./}

	until_true "${@:2}"
	begin=$(((${EPOCHREALTIME/./} - begin) / 1000))
	echo "# ${*:2} after $begin ms, $1 s wished" | tee -a "${ELASTIC_KEEP:-.}/times"
}
# begun COUNT: so many commands have begun.
begun() { [ -e commands ] && [ "$(wc -l <commands)" = "$1" ]; }
# The job of a run's coordinator; supervisors are the processes of a job, oldest first: it, and its coordinator.
coordinator() { as "$1" mlrun elastic list --json | grep -o '"coordinator": "[0-9]*"' | grep -o '[0-9]*'; }
# coordinates_after USER JOB: a younger job does.
coordinates_after() { [ "$(coordinator "$1")" -gt "$2" ] 2>/dev/null; }
supervisors() {
	local pid

	for pid in $(pgrep -u "$1" -f 'workers hold'); do
		! grep -qz "^SLURM_JOB_ID=$2\$" "/proc/$pid/environ" || echo "$pid"
	done
}
told_ranks() { grep -s '"event":"ranks"' "$1.jsonl" | grep -o '"ranks":[0-9]*' | cut -d: -f2 | xargs; }
ranks_are() { [[ " $(told_ranks "$1")" == *" $2" ]]; }
# has_again NAME RANKS-UNTIL-NOW COUNT: the number has changed since then, and is this.
has_again() { [[ "$(told_ranks "$1")" == "$2 "*" $3" ]]; }
digests() { grep '"event":"epoch"' "$1" | grep -o '"epochs_done":[0-9]*\|"samples_digest":"[^"]*"'; }
# end_training USER ID NAME: once an epoch is whole, since only that has a digest.
end_training() {
	until_true grep -q '"event":"epoch"' "$3.jsonl"
	as "$1" mlrun elastic stop "$2"
}
# begin_training USER NAME: prints the run's id.
begin_training() {
	as "$1" mlrun elastic run "${SHARE[@]}" "$IMG" -- \
		sh -c 'exec mltrain train -q --elastic "$MLRUN_ELASTIC" --log "$0.jsonl" --checkpoint "$0.safetensors" "$@"' "$2" "${TRAIN[@]}"
}
# Of a training that was stopped: each epoch used the images that one of a single rank uses, and it has learned the same.
is_as_alone() {
	local steps

	[ -z "${ELASTIC_KEEP:-}" ] || cp "$1.jsonl" "$ELASTIC_KEEP"
	grep '"event":"interrupted"' "$1.jsonl" >stopped || { echo "nothing tells of the stop:"; tail -n 5 "$1.jsonl"; return 1; }
	steps=$(tail -n 1 stopped | grep -o '"step":[0-9]*' | cut -d: -f2)
	mltrain train -q "${TRAIN[@]}" --steps "$steps" --log alone.jsonl --checkpoint alone.safetensors
	# Of the last epoch, which is not whole, only one of them tells.
	digests "$1.jsonl" >"$1.digests"
	[ "$(wc -l <"$1.digests")" -ge 2 ]
	digests alone.jsonl | head -n "$(wc -l <"$1.digests")" | diff - "$1.digests"
	for name in "$1" alone; do
		mltrain eval -q --data "$DIR/data" --threads 1 --checkpoint "$name.safetensors" | grep -o '[0-9.]* %' | head -n 1 >"$name.accuracy"
	done
	echo "# after $steps steps $1 has $(cat "$1.accuracy"), one rank $(cat alone.accuracy)" | tee -a "${ELASTIC_KEEP:-.}/times"
	# In another order of summing one image may change sides; the small set has a hundred.
	python3 -c 'import sys; a, b = (float(open(n + ".accuracy").read().split()[0]) for n in sys.argv[2:]); assert abs(a - b) <= float(sys.argv[1])' \
		"$([ -n "${ELASTIC_DATA:-}" ] && echo 0.3 || echo 1)" "$1" alone
	rm alone.*
}
# trainers USER: the processes; writer NAME: the one that is rank 0.
trainers() { pgrep -u "$1" -x mltrain; }
writer() { for pid in $(trainers "$1"); do ! readlink "/proc/$pid/fd/"* | grep -q "/$2.jsonl\$" || echo "$pid"; done; }

@test "elastic: four nodes become two and two for a second user's training, and four again, without a restart" {
	local a b changes

	a=$(begin_training "$ALICE" alice)
	until_true have "$ALICE" 4
	until_true ranks_are alice 4
	b=$(begin_training "$BOB" bob)
	within 10 have "$ALICE" 2 "$BOB" 2
	until_true ranks_are alice 2
	until_true ranks_are bob 2
	# What is due is kept: in four seconds neither changes.
	changes="$(told_ranks alice), $(told_ranks bob)"
	sleep 4
	assert_equal "$(told_ranks alice), $(told_ranks bob)" "$changes"
	until_true have "$ALICE" 2 "$BOB" 2
	run -0 as "$BOB" mlrun elastic top --once
	assert_line "elastq: 4 GPUs, 0 free, 2 runs"
	assert_line --regexp "^$a +$ALICE +- +2 of 4 +1 +4 +1 +runs +- +- +\|"
	assert_line --regexp "^$b +$BOB +$IMG +2 of 4 +1 +4 +1 +runs +[0-9]+ +[0-9]+ +\|"
	end_training "$BOB" "$b" bob
	within 10 have "$ALICE" 4
	until_true ranks_are alice 4
	# Slurm remembers jobs that have ended, so there is a past at the first look.
	run -0 as "$ALICE" mlrun elastic top --json
	assert_equal "$(jq -c '.runs[] | [.held, .state, (.past | add > 0)]' <<<"$output")" '[4,"runs",true]'
	run -0 as "$ALICE" mlrun elastic list
	assert_line --regexp "^$a +$IMG +running +4 +0 +1 +4 +1 "
	end_training "$ALICE" "$a" alice
	run -0 as "$ALICE" mlrun elastic list --all
	assert_line --regexp "^$a .* stopped "
	told_ranks alice
	told_ranks bob
	is_as_alone alice
	# The same data, seed and batch: the same digests.
	[ "$(digests bob.jsonl | wc -l)" -ge 2 ]
	if [ -z "${ELASTIC_DATA:-}" ]; then cmp <(digests bob.jsonl) <(digests alice.jsonl | head -n "$(digests bob.jsonl | wc -l)"); else is_as_alone bob; fi
	# Each step once, in order: nothing began anew.
	grep '"event":"step"' alice.jsonl | grep -o '"step":[0-9]*' | cut -d: -f2 >steps
	sort -nu steps | cmp - steps
	[ -n "${ELASTIC_DATA:-}" ] || seq "$(wc -l <steps)" | cmp - steps
}

@test "elastic: a third user, one who has a plain job, and ranks, a coordinator and a job that are killed" {
	local a b c job changes

	a=$(begin_training "$ALICE" third)
	until_true ranks_are third 4
	b=$(as "$BOB" mlrun elastic run "${SHARE[@]}" "$IMG" -- sh -c "$STEPS")
	within 10 have "$ALICE" 2 "$BOB" 2
	c=$(as "$CAROL" mlrun elastic run "${SHARE[@]}" "$IMG" -- sh -c "$STEPS")
	within 10 have "$ALICE" 2 "$BOB" 1 "$CAROL" 1
	as "$CAROL" mlrun elastic stop "$c"
	within 10 have "$ALICE" 2 "$BOB" 2
	# A job that is no run's waits for a node, and is the next to have one.
	job=$(as "$CAROL" sbatch --parsable --output=/dev/null --partition=elastq --gres=gpu:1 --cpus-per-task=2 --wrap='sleep 300')
	until_true eval '[[ $(squeue -h -t PD -o %A) == "$job" ]]'
	as "$BOB" mlrun elastic stop "$b"
	within 10 have "$ALICE" 3 "$CAROL" 1
	as "$CAROL" scancel "$job"
	within 10 have "$ALICE" 4
	until_true ranks_are third 4
	# A rank, then rank 0, then a worker's job, then the supervisor of the one that coordinates.
	changes=$(told_ranks third)
	kill -KILL "$(trainers "$ALICE" | grep -vx "$(writer "$ALICE" third)" | head -1)"
	within 20 has_again third "$changes" 4
	changes=$(told_ranks third)
	kill -KILL "$(writer "$ALICE" third)"
	within 20 has_again third "$changes" 4
	until_true have "$ALICE" 4
	changes=$(told_ranks third)
	as "$ALICE" scancel "$(squeue -h -o %A | sort -n | tail -1)"
	within 20 has_again third "$changes" 4
	changes=$(told_ranks third)
	job=$(coordinator "$ALICE")
	kill -KILL "$(supervisors "$ALICE" "$job" | head -1)"
	within 20 has_again third "$changes" 4
	until_true coordinates_after "$ALICE" "$job"
	end_training "$ALICE" "$a" third
	# What was killed was lost; who had the time to leave has left.
	grep -o '"joined":.*"lost":[0-9]*' third.jsonl
	[ "$(grep -c '"lost":[1-9]' third.jsonl)" -ge 3 ]
	is_as_alone third
}

@test "elastic: the run goes on when a command, the coordinator or its job is killed" {
	local a job processes

	a=$(as "$ALICE" mlrun elastic run "${SHARE[@]}" "$IMG" -- sh -c "$STEPS")
	until_true have "$ALICE" 4
	until_true begun 4
	# A command: another worker takes its place.
	kill -KILL "$(tail -1 commands)"
	within 10 begun 5
	until_true have "$ALICE" 4
	job=$(coordinator "$ALICE")
	# The coordinator: its job starts it again, as is seen when somebody comes.
	mapfile -t processes < <(supervisors "$ALICE" "$job")
	assert_equal "${#processes[@]}" 2
	kill -KILL "${processes[1]}"
	as "$BOB" mlrun elastic run "${SHARE[@]}" "$IMG" -- sh -c 'sleep 8'
	within 10 have "$ALICE" 2 "$BOB" 2
	within 30 have "$ALICE" 4
	assert_equal "$(coordinator "$ALICE")" "$job"
	# Its job: the next one coordinates.
	kill -KILL "${processes[0]}"
	within 20 begun 8
	until_true have "$ALICE" 4
	until_true coordinates_after "$ALICE" "$job"
	run -0 as "$ALICE" mlrun elastic stop "$a"
	until_true have
	run -0 as "$BOB" mlrun elastic list --all
	assert_line --partial succeeded
}

@test "elastic: a command that cannot change begins again with another count, from its last step" {
	local a b

	# Rank 0 counts steps, and saves the count when it is told to: later than the next one.
	a=$(as "$ALICE" mlrun elastic run "${SHARE[@]}" --mode requeue --grace 20 "$IMG" -- sh -c '
		[ "$SLURM_PROCID" = 0 ] || { trap "exit 0" USR1; while :; do sleep 0.1; done; }
		save() { sleep 1; echo "$n" >saved; exit 0; }
		trap save USR1
		n=$(cat saved || echo 0)
		echo "$MLRUN_ELASTIC_NODES $SLURM_NTASKS" >>starts
		while :; do n=$((n + 1)); echo "$n" >>counted; sleep 0.1; done')
	until_true test -e counted
	until_true have "$ALICE" 1
	until_true eval '[ "$(squeue -h -t R -o %D)" = 4 ]'
	b=$(as "$BOB" mlrun elastic run "${SHARE[@]}" "$IMG" -- sh -c "$STEPS")
	within 15 eval '[ "$(tail -n 1 starts) $(squeue -h -t R -u "$ALICE" -o %D)" = "2 2 2" ]'
	until_true have "$ALICE" 1 "$BOB" 2
	run -0 as "$BOB" mlrun elastic top --once
	assert_line --regexp "^$a +$ALICE +- +2 of 4 .* runs "
	run -0 as "$ALICE" mlrun elastic list
	assert_line --regexp "^$a .* running +2 +0 "
	as "$BOB" mlrun elastic stop "$b"
	within 20 eval '[ "$(tail -n 1 starts) $(squeue -h -t R -u "$ALICE" -o %D)" = "4 4 4" ]'
	as "$ALICE" mlrun elastic stop "$a"
	until_true no_jobs
	# No step was lost, and none was counted twice.
	seq "$(cat saved)" | cmp - counted
	assert_equal "$(xargs <starts)" "4 4 2 2 4 4"
}

@test "elastic: of a command that cannot change, one that does not heed the warning is ended, and a failure begins again" {
	local a

	a=$(as "$ALICE" mlrun elastic run "${SHARE[@]}" --mode requeue --signal USR2 --grace 2 "$IMG" -- \
		sh -c 'trap "echo warned >>warned" USR2; echo $$ >>commands; while :; do sleep 0.1; done')
	until_true begun 4
	kill -KILL "$(tail -n 1 commands)"
	until_true begun 8
	run -0 as "$ALICE" mlrun elastic stop "$a"
	until_true no_jobs
	assert_equal "$(sort -u warned)" warned
}

@test "elastic: the last worker's command is killed, and another takes its place" {
	as "$ALICE" mlrun elastic run "${SHARE[@]}" --max 1 "$IMG" -- sh -c "$STEPS"
	until_true begun 1
	kill -KILL "$(cat commands)"
	within 10 begun 2
	until_true have "$ALICE" 1
}

@test "elastic: weights, a least number, a time between changes, and a job that is no run's" {
	local a

	as "$BOB" sbatch --quiet --output=/dev/null --partition=gpuq --nodelist=gpu2 --gres=gpu:1 --wrap='sleep 300'
	until_true eval '[ -n "$(squeue -h -p gpuq -t R)" ]'
	a=$(as "$ALICE" mlrun elastic run "${SHARE[@]}" --hold 6 --weight 3 "$IMG" -- sh -c "$STEPS")
	until_true have "$ALICE" 3
	as "$BOB" scancel --user="$BOB"
	until_true have "$ALICE" 4
	as "$BOB" mlrun elastic run "${SHARE[@]}" "$IMG" -- sh -c "$STEPS"
	until_true have "$ALICE" 3 "$BOB" 1
	# It had grown a moment ago, and kept that for --hold.
	python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); assert r["shrank"] - r["grew"] >= 6 and r["grew"] > 0, r' \
		"/home/$ALICE/.local/share/mlrun/elastic/$a/round"
	as "$BOB" mlrun elastic run "${SHARE[@]}" --min 2 --max 2 "$IMG" -- sh -c "$STEPS"
	until_true have "$ALICE" 1 "$BOB" 3
}

@test "elastic: a job that Slurm has suspended has left its training, is named, and comes back when it goes on" {
	local a job node

	a=$(begin_training "$ALICE" paused)
	until_true ranks_are paused 4
	job=$(squeue -h -o %A | sort -n | tail -1)
	node=$(squeue -h -j "$job" -o %N)
	# Nobody else is to have its place.
	scontrol update PartitionName=elastq State=DOWN
	scontrol suspend "$job"
	within 20 ranks_are paused 3
	run -0 as "$ALICE" mlrun elastic list
	assert_line --regexp "^$a .* running +3 .* job $job on $node is suspended"
	run -0 as "$BOB" mlrun elastic top --once
	assert_line --regexp "^$a +$ALICE .* job $job on $node is suspended"
	run -0 as "$ALICE" mlrun workers list
	assert_line --regexp "^$job .* $a .* suspended "
	scontrol resume "$job"
	within 20 ranks_are paused 4
	assert_equal "$(squeue -h -j "$job" -o %T)" RUNNING
	scontrol update PartitionName=elastq State=UP
	run -0 as "$ALICE" mlrun elastic logs "$a"
	assert_output --partial "==> worker $job on $node, running <=="
	assert_output --partial "counts as lost: its job is suspended"
	# What is suspended can be stopped.
	scontrol suspend "$job"
	until_true eval '[[ $(squeue -h -j "$job" -o %T) == SUSPENDED ]]'
	run -0 as "$ALICE" mlrun elastic stop --all
	until_true no_jobs
}

@test "elastic: what a run has printed, why it failed or was lost, and a run that can never begin" {
	local a b

	a=$(as "$ALICE" mlrun elastic run "${SHARE[@]}" --max 1 "$IMG" -- sh -c 'echo "no such data"; exit 4')
	until_true eval 'as "$ALICE" mlrun elastic list --all | grep -q "^$a .* failed .* worker"'
	run -0 as "$ALICE" mlrun elastic list --all
	assert_line --regexp "^$a .* failed .* worker [0-9]+ failed \(4\): no such data"
	run -0 as "$ALICE" mlrun elastic logs "$a"
	assert_line --regexp "^==> worker [0-9]+ on gpu[1-4], failed \(4\) <==$"
	assert_line "no such data"
	b=$(as "$ALICE" mlrun elastic run "${SHARE[@]}" --max 2 "$IMG" -- sh -c 'echo "I am here"; '"$STEPS")
	until_true have "$ALICE" 2
	as "$ALICE" timeout 60 mlrun elastic logs --follow "$b" >followed 3>&- &
	until_true eval '[ "$(grep -c "I am here" followed)" = 2 ]'
	as "$ALICE" scancel --user "$ALICE"
	wait $!
	until_true eval '[[ $(as "$ALICE" mlrun elastic list --all) == *"$b "*" lost "*"worker "*" stopped"* ]]'
	run -125 as "$ALICE" mlrun elastic run "${SHARE[@]}" --min 8 --max 9 "$IMG" -- true
	assert_line --partial "--min=8: all nodes of partition elastq have room for 4 such workers"
	until_true no_jobs
	run -125 as "$ALICE" mlrun elastic run --cpus 2 --gpus-per-worker 0 --min 3 "$IMG" -- true
	assert_line --partial "--min=3: all nodes of the default partition have room for 2 such workers"
	until_true no_jobs
	run -125 as "$ALICE" mlrun elastic logs nothing
	assert_line --partial "no run of yours is 'nothing'"
}

@test "elastic: a command that takes its time to leave is waited for" {
	local a

	a=$(as "$ALICE" mlrun elastic run "${SHARE[@]}" --max 1 "$IMG" -- \
		sh -c 'trap "sleep 7; echo left >left; exit 0" TERM; echo >begun; while :; do sleep 0.1; done')
	until_true test -e begun
	run -0 as "$ALICE" mlrun elastic stop "$a"
	[ -e left ]
}

@test "elastic: a command that fails at once ends the run, and others can neither see nor stop it" {
	local a job

	a=$(as "$ALICE" mlrun elastic run "${SHARE[@]}" "$IMG" -- sh -c 'exit 4')
	until_true eval '[[ $(as "$ALICE" mlrun elastic list --all) == *" failed "* ]]'
	until_true no_jobs # else four may be some of each run's
	a=$(as "$ALICE" mlrun elastic run "${SHARE[@]}" "$IMG" -- sh -c 'echo word >"$MLRUN_ELASTIC"; '"$STEPS")
	until_true have "$ALICE" 4
	run -125 as "$BOB" mlrun elastic stop "$a"
	assert_line --partial "no run of yours is '$a'"
	run -1 as "$BOB" cat "/home/$ALICE/.local/share/mlrun/elastic/$a/shared/meet"
	job=$(coordinator "$ALICE")
	assert [ -n "$job" ]
	run ! as "$BOB" scancel "$job"
	assert_output --partial "Access/permission denied"
	until_true have "$ALICE" 4
	run -0 as "$ALICE" cat "/home/$ALICE/.local/share/mlrun/elastic/$a/shared/meet"
	assert_output word
	run -125 as "$ALICE" mlrun elastic run -p nope "$IMG" -- true
	assert_line --partial "sbatch: invalid partition specified: nope"
}

@test "elastic: PyTorch's elastic agents meet at the oldest worker, and begin again from a checkpoint when a worker comes" {
	local a

	[ -n "${ELASTIC_TORCH:-}" ] || skip "ELASTIC_TORCH is not set"
	/usr/bin/python3 -c 'import torch' 2>/dev/null || skip "python3-torch is not installed"
	mkdir -p root/usr/bin root/usr/lib root/etc root/tmp
	ln -s usr/bin usr/lib usr/lib64 root
	cp -rL /usr/lib64 root/usr
	cp -L /usr/bin/python3 root/usr/bin
	cp -L /usr/bin/dash root/usr/bin/sh
	cp "$top_srcdir"/recipes/pytorch/{train,elastic}.py .
	for name in train t10k; do
		for kind in images-idx3 labels-idx1; do gzip <"$DIR/data/$name-$kind-ubyte" >"$name-$kind-ubyte.gz"; done
	done
	sed -i 's/64 \* 7 \* 7/64 * 4 * 4/' train.py # noise of 16x16
	as "$CAROL" sbatch --quiet --output=/dev/null --partition=gpuq --exclude=gpu4 --nodes=3 --gres=gpu:1 --exclusive --wrap='sleep 300'
	until_true eval '[ -n "$(squeue -h -t R)" ]'
	a=$(as "$ALICE" mlrun elastic run --partition elastq --cpus 2 --hold 0 --max 2 -v /usr/lib:/usr/lib:ro -v /etc/alternatives:/etc/alternatives:ro "rootfs:$PWD/root" -- \
		sh -c 'exec python3 -m torch.distributed.run --nnodes=1:2 --nproc_per_node=1 --max_restarts=9 --rdzv_backend=c10d \
			--rdzv_endpoint=$MLRUN_ELASTIC_HOST:29400 --rdzv_id=$MLRUN_ELASTIC --rdzv_conf last_call_timeout=1 --redirects=2 --tee=2 --monitor_interval=0.2 \
			elastic.py --data . --steps 100000 --every 5 --batch 16 >>out 2>>errors')
	until_true grep -qs '^step .* on 1 ranks' out
	as "$CAROL" scancel --user "$CAROL"
	until_true grep -q '^step .* on 2 ranks' out
	run -0 as "$ALICE" mlrun elastic stop "$a"
	grep ranks out
	# From a checkpoint, and not from the start.
	[ "$(grep '^2 ranks from' out | grep -o '[0-9]*$' | head -n 1)" -ge 5 ]
}

@test "elastic: a store that the nodes do not see is told" {
	mkdir hidden
	cat >try <<-'END'
	mount -t tmpfs none hidden
	chmod 777 hidden
	export MLRUN_STORE=$PWD/hidden/store
	runuser -u "$1" -- mlrun elastic run "${@:2}"
	until runuser -u "$1" -- mlrun elastic list --all | grep 'lost.*worker [0-9]* failed (it did not begin: does its node see the store?)'; do sleep 0.2; done
	runuser -u "$1" -- mlrun workers list --all
	END
	PATH=$top_builddir/bin:$PATH run -0 timeout 60 unshare -m bash try "$ALICE" "${SHARE[@]}" --max 1 "$IMG" -- true
	assert_output --partial " failed (it did not begin: does its node see the store?) "
}
