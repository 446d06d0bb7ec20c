#!/usr/bin/env bats
# How others' scripts for Pyxis launch: MLPerf's run.sub, NeMo's and NeMo-RL's launchers, SGLang's multi-node servers, DFKI's
# task prolog. Each is written anew with the options and variables that those have.
# shellcheck disable=SC2016 # the scripts' shells expand

load ../cli/common
load spank
load mpi

setup_file() {
	local lib

	plugged || return 0
	cd "$BATS_FILE_TMPDIR" || return
	export MLRUN_STORE=$PWD/store
	if command -v mpicc >/dev/null; then mpi_image root; else tiny_root root; fi
	mkdir -p root/opt/NeMo root/workspace root/usr/local/bin
	rm root/bin/bash 2>/dev/null || true
	cp "$(command -v bash)" root/bin/bash
	ldd root/bin/bash | grep -o '/[^ )]*' | while read -r lib; do
		[ -e "root$lib" ] || { mkdir -p "root${lib%/*}" && cp -L "$lib" "root$lib"; }
	done
	echo 25.11 >root/etc/version
	cat >root/workspace/run_and_time.sh <<-'END'
		#!/bin/bash
		set -e
		echo "$SLURM_PROCID/$SLURM_NTASKS $SLURM_LOCALID $MASTER_ADDR:$MASTER_PORT $PWD $(</data/f) $(</cleared)"
		[ "$SLURM_LOCALID" != 0 ] || echo "node $SLURM_NODEID" >"/results/$SLURM_NODEID"
	END
	chmod 755 root/workspace/run_and_time.sh
	tar -C root -cf - . | mlrun import -q - base
	mlrun exec -q --write=c base true
	mlrun commit -q --change 'WORKDIR /workspace' c site/trainer:25.11
	mlrun containers rm c
}
teardown_file() { unplug; }

setup() {
	common_setup
	as_user
	export IMG=site/trainer:25.11 LC_ALL=C
}
teardown() {
	[ -n "${BATS_TEST_COMPLETED:-}" ] || tail -n 20 job.* logs/* 2>/dev/null || true
	scancel --user="$(id -un)" 2>/dev/null || true
	common_teardown
}

# Nothing of mlrun's own in these.
refute_said() { run -1 grep -H 'mlrun:' "$@"; }

@test "launchers: MLPerf's: one srun makes the containers, the next ones run in them" {
	mkdir data
	echo images >data/f
	cat >run.sub <<-'END'
		#!/bin/bash
		#SBATCH --job-name single_stage_detector
		#SBATCH --nodes=2
		set -euo pipefail
		: "${CONT:?CONT not set}" "${DATADIR:?DATADIR not set}" "${LOGDIR:=./results}" "${DGXNGPU:=2}"
		MASTER_ADDR=$(scontrol show hostnames "${SLURM_JOB_NODELIST-}" | head -n1)
		export MASTER_ADDR MASTER_PORT=29500
		readonly _cont_name="single_stage_detector_$SLURM_JOB_ID"
		_cont_mounts="$DATADIR:/data:ro,$LOGDIR:/results"
		(umask 0002; mkdir -p "$LOGDIR")
		srun --ntasks="$SLURM_JOB_NUM_NODES" mkdir -p "$LOGDIR"
		srun --ntasks="$SLURM_JOB_NUM_NODES" --container-image="$CONT" --container-name="$_cont_name" true
		srun -N1 -n1 --container-name="$_cont_name" cat /etc/version
		srun --ntasks="$SLURM_JOB_NUM_NODES" --container-name="$_cont_name" bash -c "
		echo cleared >/cleared"
		(
			srun -l --ntasks="$((SLURM_JOB_NUM_NODES * DGXNGPU))" --ntasks-per-node="$DGXNGPU" \
				--container-name="$_cont_name" --container-mounts="$_cont_mounts" --container-workdir=/workspace \
				--container-env=MASTER_ADDR,MASTER_PORT --no-container-mount-home --container-writable ./run_and_time.sh
		) |& tee "$LOGDIR/1.log"
		srun --ntasks=1 --nodes=1 --container-name="$_cont_name" --container-mounts="$(realpath "$LOGDIR"):/results" \
			--container-workdir=/results bash -c 'cat 0 1'
	END
	CONT=$IMG DATADIR=$PWD/data run -0 submit --exclusive --error=job.err run.sub
	run -0 sort results/1.log
	assert_output "0: 0/4 0 cpu1:29500 /workspace images cleared
1: 1/4 1 cpu1:29500 /workspace images cleared
2: 2/4 0 cpu1:29500 /workspace images cleared
3: 3/4 1 cpu1:29500 /workspace images cleared"
	run -0 grep -v '^[0-3]: ' job.out
	assert_output $'25.11\nnode 0\nnode 1'
	refute_said job.out job.err
}

@test "launchers: MLPerf's: ranks of srun --mpi=pmix in a named container" {
	command -v mpicc >/dev/null || skip "mpicc is not installed"
	export OMPI_MCA_rmaps_base_oversubscribe=1 TMPDIR=/tmp
	cat >run.sub <<-'END'
		#!/bin/bash
		#SBATCH --nodes=2
		srun --ntasks="$SLURM_JOB_NUM_NODES" --container-image="$IMG" --container-name=detector true
		srun --mpi="${SLURM_MPI_TYPE:-pmix}" --ntasks="$((SLURM_JOB_NUM_NODES * 2))" --ntasks-per-node=2 \
			--container-name=detector large
	END
	run -0 submit --exclusive --error=job.err run.sub
	run -0 cat job.out
	assert_output --partial "large messages passed with 4 ranks"
	assert_equal "$(user_namespaces) $(mount_namespaces)" "2 2"
	refute_said job.out job.err
}

@test "launchers: NeMo's: an srun for each group of commands, files of each task, the root saved for the next job" {
	mkdir code data results
	echo "echo \"rank \$SLURM_PROCID of \$SLURM_NTASKS on \$(hostname) \$PYTHONPATH \$(cat /data/f) \$(cat /opt/NeMo/patched)\"" >code/train.sh
	echo tokens >data/f
	cat >megatron.sh <<-'END'
		#!/bin/bash

		# Parameters
		#SBATCH --job-name=nemo-megatron
		#SBATCH --nodes=2
		#SBATCH --ntasks-per-node=2
		#SBATCH --open-mode=append

		# setup
		export TRANSFORMERS_OFFLINE=1
		export PYTHONPATH=/workspace

		# command 1
		srun --output results/log-nemo_%j_%t.out --error results/log-nemo_%j_%t.err --container-image "$IMG" --container-mounts "$PWD/code:$PWD/code,$PWD/data:/data,$PWD/results:$PWD/results" --no-container-mount-home bash -c "
		  cd /opt/NeMo;
		  [ \$SLURM_LOCALID != 0 ] || echo patched\$TRANSFORMERS_OFFLINE >patched;
		  until [ -e patched ]; do sleep 0.1; done;
		  export PYTHONPATH=/opt/NeMo:\${PYTHONPATH};
		  bash $PWD/code/train.sh; pwd >$PWD/results/where "
	END
	run -0 submit --error=job.err megatron.sh
	run -0 bash -c 'cat results/log-nemo_*_[0-3].out'
	assert_output "rank 0 of 4 on cpu1 /opt/NeMo:/workspace tokens patched1
rank 1 of 4 on cpu1 /opt/NeMo:/workspace tokens patched1
rank 2 of 4 on cpu2 /opt/NeMo:/workspace tokens patched1
rank 3 of 4 on cpu2 /opt/NeMo:/workspace tokens patched1"
	assert_equal "$(<results/where)" /opt/NeMo
	run -0 bash -c 'cat results/log-nemo_*_[0-3].err job.out job.err'
	assert_output ""
	has_squashfs || skip "mlrun was built without libsquashfs"
	[ -w /dev/fuse ] || skip "/dev/fuse is closed to this user"
	run -0 step --container-image="$IMG" --container-save="$PWD/nemo.sqsh" bash -c 'echo saved >/opt/NeMo/saved'
	run -0 --separate-stderr step --container-image="$PWD/nemo.sqsh" bash -c 'cat /opt/NeMo/saved; pwd'
	assert_output $'saved\n/workspace'
	assert_equal "$stderr" ""
}

@test "launchers: NeMo's: components of a heterogeneous job with an image each" {
	mlrun tag "$IMG" site/critic:1
	cat >ppo.sh <<-'END'
		#!/bin/bash
		#SBATCH --nodes=1 --ntasks-per-node=1
		#SBATCH hetjob
		#SBATCH --nodes=1 --ntasks-per-node=2
		export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST_HET_GROUP_0" | head -n1)
		srun --output=critic_%t.out --container-image site/critic:1 --no-container-mount-home --het-group=0 bash -c "
		  echo critic \$SLURM_PROCID of \$SLURM_NTASKS \$(cat /etc/version); until [ -e $PWD/acted ]; do sleep 0.1; done " &

		srun --output=actor_%t.out --container-image "$IMG" --container-mounts "$PWD:$PWD" --no-container-mount-home --het-group=1 bash -c "
		  echo actor \$SLURM_PROCID of \$SLURM_NTASKS with \$MASTER_ADDR; [ \$SLURM_PROCID != 0 ] || touch $PWD/acted " &

		wait
	END
	run -0 submit --error=job.err ppo.sh
	run -0 cat critic_0.out actor_0.out actor_1.out
	assert_output $'critic 0 of 1 25.11\nactor 0 of 2 with cpu1\nactor 1 of 2 with cpu1'
	run -0 cat job.out job.err
	assert_output ""
}

@test "launchers: NeMo-RL's: a head and workers in the background, a driver in the head's container, a shell from outside" {
	cat >ray.sub <<-'END'
		#!/bin/bash
		#SBATCH --nodes=2 --output=job.out
		set -eo pipefail
		nodes_array=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
		head_node=${nodes_array[0]}
		LOG_DIR=$SLURM_SUBMIT_DIR/$SLURM_JOB_ID-logs
		mkdir -p "$LOG_DIR"
		COMMON_SRUN_ARGS="--no-container-mount-home --container-mounts=$PWD:$PWD --container-image=$IMG"
		COMMON_SRUN_ARGS+=" --container-workdir=$SLURM_SUBMIT_DIR"
		head_cmd=$(cat <<EOF
		touch $LOG_DIR/STARTED_RAY_HEAD
		cat <<EOFINNER | tee /launch-head.sh
		echo 1 >/status
		until [ -e $LOG_DIR/ENDED ]; do sleep 0.1; done
		EOFINNER
		chmod +x /launch-head.sh
		bash /launch-head.sh
		EOF
		)
		srun --overlap $COMMON_SRUN_ARGS --container-name=ray-head --nodes=1 --ntasks=1 -w "$head_node" -o "$LOG_DIR/ray-head.log" bash -x -c "$head_cmd" &
		for ((i = 1; i < SLURM_JOB_NUM_NODES; i++)); do
			srun --overlap $COMMON_SRUN_ARGS --container-name=ray-worker-$i --exact --nodes=1 --ntasks=1 -w "${nodes_array[i]}" \
				-o "$LOG_DIR/ray-worker-$i.log" bash -c "hostname >$LOG_DIR/worker; until [ -e $LOG_DIR/ENDED ]; do sleep 0.1; done" &
		done
		until srun --overlap --nodes=1 --ntasks=1 -w $head_node test -f $LOG_DIR/STARTED_RAY_HEAD -a -f $LOG_DIR/worker; do sleep 0.1; done
		until [ "$(srun --overlap --container-name=ray-head --nodes=1 --ntasks=1 -w "$head_node" cat /status)" = 1 ]; do sleep 0.1; done
		CONTAINER_CWD=$(scontrol show job $SLURM_JOB_ID | grep -oP 'WorkDir=\K[^ ]+' | head -1)
		srun --no-container-mount-home --overlap --container-name=ray-head --container-workdir=$CONTAINER_CWD --nodes=1 --ntasks=1 \
			-w "$head_node" -o $LOG_DIR/ray-driver.log bash -c 'pwd; cat /launch-head.sh | head -n 1'
		cat >attach.sh <<EOF
		srun --no-container-mount-home --overlap --container-name=ray-head --container-workdir=$CONTAINER_CWD --nodes=1 --ntasks=1 -w "$head_node" --jobid $SLURM_JOB_ID bash -c "\$COMMAND"
		EOF
		touch idle
		wait
	END
	id=$(sbatch --parsable ray.sub)
	until_true [ -e idle ]
	run -0 cat "$id-logs/ray-driver.log"
	assert_output "$PWD"$'\necho 1 >/status'
	COMMAND='hostname; cat /status; touch $PWD/$SLURM_JOB_ID-logs/ENDED' run -0 --separate-stderr timeout 120 bash attach.sh
	assert_output $'cpu1\n1'
	assert_equal "$stderr" ""
	assert_equal "$(<"$id-logs/worker")" cpu2
	until_true eval '[ -z "$(squeue -h -j '"$id"')" ]'
	refute_said job.out "$id-logs"/*.log
}

@test "launchers: SGLang's: servers on nodes by name, the leader found by its address, the first end is the job's" {
	cat >disagg.sub <<-'END'
		#!/bin/bash
		#SBATCH --nodes=2
		#SBATCH --ntasks=2
		#SBATCH --ntasks-per-node=1
		LOG_DIR="${SLURM_SUBMIT_DIR}/logs"
		SCRIPT_DIR="${SLURM_SUBMIT_DIR}/scripts"
		mkdir -p "$LOG_DIR"
		nodes=($(scontrol show hostnames $SLURM_NODELIST))
		LEADER_IP=$(srun --nodes=1 --ntasks=1 --nodelist=${nodes[0]} hostname -I | awk '{print $1}')
		[ -n "$LEADER_IP" ] || exit 1
		ENROOT_ARGS="\
		    --container-image=${IMG} \
		    --no-container-entrypoint \
		    --no-container-mount-home \
		    --container-mounts=${SCRIPT_DIR}:/scripts/,${LOG_DIR}:/logs/ \
		"
		for local_rank in 0 1; do
			node=${nodes[$local_rank]}
			cmd="srun --overlap $ENROOT_ARGS --nodes=1 --ntasks=1 --nodelist=$node --output=${LOG_DIR}/${node}_prefill_w0.out --error=${LOG_DIR}/${node}_prefill_w0.err bash /scripts/worker_setup.sh --dist-init-addr ${LEADER_IP}:29500 --nnodes $SLURM_NNODES --node-rank $local_rank"
			$cmd &
		done
		srun --nodes=1 --ntasks=1 $ENROOT_ARGS --jobid $SLURM_JOB_ID -w ${nodes[0]} --output=${LOG_DIR}/bench.out --error=${LOG_DIR}/bench.err --overlap bash -c 'until [ -e /logs/joined ]; do sleep 0.1; done; cat /logs/joined; exit 3' &
		wait -n
		exit $?
	END
	mkdir scripts
	cat >scripts/worker_setup.sh <<-'END'
		set -e
		addr=${2%:*} port=${2#*:}
		echo "rank $6 in $PWD" >"/logs/$6"
		if [ "$6" = 0 ]; then
			nc -l -p "$port" < <(sleep 600) >/logs/joining # at the end of its input it would end the worker's
			mv /logs/joining /logs/joined
		else
			until echo "rank $6 of $4 on $(hostname)" | nc "$addr" "$port"; do sleep 0.1; done 2>/dev/null
		fi
		exec sleep 600
	END
	run -3 submit --error=job.err disagg.sub
	run -0 cat logs/bench.out logs/0 logs/1
	assert_output $'rank 1 of 2 on cpu2\nrank 0 in /workspace\nrank 1 in /workspace'
	refute_said job.out job.err logs/*.err
}

@test "launchers: DFKI's: a task prolog installs packages, once for all tasks of a node" {
	cat >install.sh <<-'END'
		#!/bin/bash

		# make sure only the first task per node installs stuff, others wait
		DONEFILE="/dev/shm/install_done_${SLURM_JOBID}"
		if [[ $SLURM_LOCALID == 0 ]]; then
			echo "Reading package lists..."
			printf '#!/bin/sh\necho installed\n' >/usr/local/bin/package
			chmod 755 /usr/local/bin/package
			chown root:root /usr/local/bin/package
			touch "${DONEFILE}"
		else
			while [[ ! -f "${DONEFILE}" ]]; do sleep 0.1; done
		fi
	END
	chmod 755 install.sh
	run -0 --separate-stderr step -N2 --ntasks-per-node=2 -l --container-remap-root --task-prolog="$PWD/install.sh" \
		--container-image="$IMG" --container-mounts="$PWD":"$PWD" --container-workdir="$PWD" package
	assert_equal "$(sort <<<"$output")" $'0: installed\n1: installed\n2: installed\n3: installed'
	assert_equal "$stderr" ""
	run -0 step -N2 -n2 sh -c 'rm /dev/shm/install_done_*'
}
