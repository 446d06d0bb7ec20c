#!/usr/bin/env bats
# Workers as jobs of a real Slurm, mpirun over them, and Cloudera's module: `tests/slurm/lab.sh run USER COMMAND` starts one.
# shellcheck disable=SC2016 # the shell inside expands

load ../cli/common
load mpi

setup_file() {
	local library

	[ -n "${TEST_SLURM_CONF:-}" ] || { skip_file "no Slurm cluster here; root starts one by tests/slurm/lab.sh run"; return; }
	[ "$(id -u)" != 0 ] || { skip_file "mpirun is for ordinary users"; return; }
	for program in mpicc mpirun orted python3; do
		command -v $program >/dev/null || { skip_file "$program is not installed"; return; }
	done
	export ROOT=$BATS_FILE_TMPDIR/root
	mpi_image "$ROOT"
	# Python, of which the standard library is mounted.
	cp /usr/bin/python3 "$ROOT/usr/bin"
	ldd /usr/bin/python3 | grep -o '/[^ ):]*\.so[^ ):]*' | while read -r library; do
		mkdir -p "$ROOT${library%/*}"
		cp -L "$library" "$ROOT$library"
	done
}

setup() {
	common_setup
	export SLURM_CONF=$TEST_SLURM_CONF
	# Where mpirun and the ranks meet has a limit on the length of its name.
	export TMPDIR=/tmp
	cd "$BATS_TEST_TMPDIR"
	IMG=rootfs:$ROOT
}
teardown() {
	mlrun workers stop --all 2>/dev/null || true
	common_teardown
}

# Slurm's commands wait long for what there is not.
workers() { timeout 120 mlrun workers "$@"; }

# field ID KEY: of the worker's JSON.
field() {
	mlrun workers list --all --json |
		python3 -c 'import json, sys; print(*[w[sys.argv[2]] for w in json.load(sys.stdin) if w["id"] == sys.argv[1]])' "$@"
}
is() { [ "$(field "$1" "$2")" = "$3" ]; }

@test "workers: they start, are listed, run commands and stop" {
	local -a ids

	mapfile -t ids < <(workers start -n 2 --cpus 2 --memory 500m "$IMG")
	assert_equal "${#ids[@]}" 2
	run -0 workers await --timeout 60
	assert_line --regexp "^${ids[0]} +$IMG +running +cpu[12] +2 +0 "
	# Another shell, with nothing but the store and Slurm.
	run -0 env -i PATH="$PATH" SLURM_CONF="$SLURM_CONF" MLRUN_STORE="$MLRUN_STORE" mlrun workers hosts
	assert_output "worker-${ids[0]}:2,worker-${ids[1]}:2"
	run -0 workers hosts --hostfile --slots 1 "${ids[1]}"
	assert_output "worker-${ids[1]} slots=1"
	run -0 squeue -h -o '%T %c %m'
	assert_output $'RUNNING 2 500M\nRUNNING 2 500M'
	run -0 mlrun-rsh "worker-${ids[0]}" hostname
	assert_output "$(field "${ids[0]}" node)"
	run -0 mlrun-rsh "$(field "${ids[1]}" ip_address)" hostname
	assert_output "$(field "${ids[1]}" node)"
	# Steps share the container, and its working directory is that of the start.
	mlrun-rsh "${ids[0]}" 'echo one >/root-file; pwd >/root-dir'
	run -0 mlrun-rsh "${ids[0]}" cat /root-file /root-dir
	assert_output $'one\n'"$PWD"
	run -1 mlrun-rsh "${ids[1]}" test -e /root-file
	run -7 mlrun-rsh -p 2222 -o StrictHostKeyChecking=no -x -n "$(id -un)@${ids[0]}" 'exit 7'
	run -0 workers stop --all
	run -0 workers list
	assert_output --regexp '^ID +NAME[^0-9]+$'
	run -0 squeue -h -t PD,R
	assert_output ""
	is "${ids[0]}" status stopped
	run -125 mlrun-rsh "${ids[0]}" true
	assert_line "mlrun: mlrun-rsh: worker '${ids[0]}' is stopped"
}

@test "workers: mpirun runs an MPI program on two nodes by mlrun-rsh" {
	local -a ids

	mapfile -t ids < <(workers start -n 2 --cpus 2 "$IMG")
	workers await --timeout 60
	run -0 timeout 120 mpirun -np 4 -H "$(workers hosts)" --mca plm_rsh_agent mlrun-rsh large
	assert_output --partial "large messages passed with 4 ranks"
	assert_equal "$(user_namespaces) $(mount_namespaces)" "2 2"
	# By addresses, and with the options of a tutorial for ssh.
	run -0 timeout 120 mpirun -np 2 -H "$(field "${ids[0]}" ip_address):1,$(field "${ids[1]}" ip_address):1" -bind-to none -map-by slot \
		-mca pml ob1 -mca btl ^openib -mca plm_rsh_args '-p 2222 -o StrictHostKeyChecking=no' \
		-mca btl_tcp_if_include eth0 -mca plm_rsh_agent mlrun-rsh large
	assert_output --partial "large messages passed with 2 ranks"
	# In a job of Slurm's, whose nodes mpirun would take otherwise.
	run -0 timeout 120 salloc -Q -p gpuq -n 1 mpirun -np 2 -H "$(workers hosts --slots 1)" --mca plm rsh --mca ras ^slurm \
		--mca plm_rsh_agent mlrun-rsh hostname
	assert_line cpu1
	assert_line cpu2
}

@test "workers: ranks of two workers on one node are apart, and each worker has its GPU" {
	local -a ids

	mapfile -t ids < <(workers start -n 2 --gpus 1 --cpus 2 -p gpuq --sbatch=--nodelist=gpu1 "$IMG")
	workers await --timeout 60
	run -0 timeout 120 mpirun -np 4 -H "$(workers hosts --slots 2)" --mca plm_rsh_agent mlrun-rsh large
	assert_output --partial "large messages passed with 4 ranks"
	assert_equal "$(mount_namespaces)" 2
	run -0 workers hosts
	assert_output "worker-${ids[0]}:1,worker-${ids[1]}:1"
	run -0 sort <(mlrun-rsh "${ids[0]}" 'echo $CUDA_VISIBLE_DEVICES') <(mlrun-rsh "${ids[1]}" 'echo $CUDA_VISIBLE_DEVICES')
	assert_output $'0\n1'
	run -125 mlrun-rsh gpu1 true
	assert_line "hint: name one: worker-${ids[0]}, worker-${ids[1]}"
}

@test "workers: a command's output and status are kept, and await tells a failure" {
	local id

	id=$(workers start --name 'a b|c' -e WORD='x y' "$IMG" -- sh -c 'echo "$WORD"; pwd; exit 3')
	run -1 workers await --timeout 60 --done "$id"
	assert_line --regexp "^$id +a b\|c +failed \(3\) "
	is "$id" exit_status 3
	run -0 workers logs "$id"
	assert_output $'x y\n'"$PWD"
	run -1 workers await --timeout 60 "$id"
	id=$(workers start "$IMG" /no/such)
	run -1 workers await --timeout 60 "$id"
	run -0 workers logs "$id"
	assert_output --partial "command '/no/such' not found in the image"
	id=$(workers start "$IMG" -- sh -c 'sleep 1; echo done')
	run -0 workers logs -f "$id"
	assert_output "done"
	run -0 workers await --done --timeout 60 "$id"
	is "$id" status succeeded
}

@test "workers: what Slurm refuses is said in its own words, and leaves nothing" {
	run -125 workers start -n 2 --partition nope "$IMG"
	assert_line --partial "sbatch: invalid partition specified: nope"
	run -125 workers start --memory 900g "$IMG"
	assert_line --partial "sbatch: Memory specification can not be satisfied"
	run -125 workers start --pull=never no-such-image
	assert_line --partial "'docker.io/library/no-such-image:latest' is not in store"
	run -0 squeue -h -t PD,R
	assert_output ""
	run -0 find "$MLRUN_STORE/workers" -mindepth 1
	assert_output ""
}

@test "workers: one that was cancelled behind mlrun's back, or is forgotten by Slurm, is no longer used" {
	local id other key

	id=$(workers start "$IMG")
	other=$(workers start "$IMG")
	workers await --timeout 60
	scancel "$id"
	until_true is "$id" status stopped
	is "$other" status running
	run -125 mlrun-rsh "$id" true
	# A record whose job there never was, and one whose job's number another has now.
	workers stop "$other"
	for key in "$MLRUN_STORE"/workers/*; do
		grep -q "\"id\": \"$other\"" "$key/worker.json" || continue
		cp -r "$key" "$MLRUN_STORE/workers/00000000000000aa"
		: >"$MLRUN_STORE/workers/00000000000000aa/run"
		sed -i 's/"id": ".*"/"id": "999999"/; s/"created": .*,/"created": '$(($(date +%s) - 60)),/ \
			"$MLRUN_STORE/workers/00000000000000aa/worker.json"
	done
	is 999999 status lost
	run -0 workers list
	refute_output --partial 999999
	run -125 mlrun-rsh worker-999999 true
	assert_line "mlrun: mlrun-rsh: worker 'worker-999999' is lost"
	run -0 workers stop 999999
}

@test "workers: a deadline ends them, whether they run or wait" {
	local id

	id=$(workers start --deadline 2s "$IMG")
	run -0 scontrol show job "$id"
	assert_output --partial TimeLimit=00:02:00
	assert_output --regexp 'Deadline=20'
	run -1 workers await --done --timeout 60 "$id"
	is "$id" status timedout
	# Nothing free: it waits.
	mapfile -t ids < <(workers start -n 3 --cpus 2 --deadline 1h "$IMG")
	workers await --timeout 60 "${ids[0]}"
	workers await --timeout 60 "${ids[1]}"
	run -124 workers await --timeout 1
	assert_line "mlrun: workers await: after 1 seconds 1 of 3 workers are not ready"
	run -125 mlrun-rsh "${ids[2]}" true
	assert_line "hint: mlrun workers await ${ids[2]} waits until it is ready"
	run -0 workers stop "${ids[2]}"
	is "${ids[2]}" status stopped
	# It never began, so only Slurm knows, and forgets.
	run -0 grep -h '"last"' "$MLRUN_STORE"/workers/*/worker.json
	assert_line --partial '"CANCELLED"'
}

@test "workers: two starters at once do not see each other's halves" {
	workers start -n 2 "$IMG" >a &
	workers start -n 2 "$IMG" >b &
	wait
	assert_equal "$(sort -u a b | wc -l)" 4
	run -0 workers await --timeout 60
	assert_equal "$(grep -c running <<<"$output")" 4
}

@test "workers: a waiting worker uses no processor time, and ends with its supervisor" {
	local id supervisor

	id=$(workers start "$IMG")
	workers await --timeout 60
	supervisor=$(grep -o '"process":"[^"]*' "$MLRUN_STORE"/workers/*/run | awk -F. '{ print $(NF - 1) }')
	# Once it waits; a tick may have fallen to its start.
	[ "$(awk '{ print $14 + $15 }' "/proc/$(field "$id" pid)/stat")" -le 2 ]
	kill -KILL "$supervisor"
	until_true is_gone "$(field "$id" pid)"
	until_true is "$id" status failed
}

@test "workers: without a cluster Slurm's words and the way out are told, and nothing is lost" {
	local id

	id=$(workers start "$IMG")
	workers await --timeout 60
	# A controller that is not there.
	sed "s/^SlurmctldHost=.*/SlurmctldHost=localhost/; s/^SlurmctldPort=.*/SlurmctldPort=1/; s/^MessageTimeout=.*/MessageTimeout=2/" "$SLURM_CONF" >down.conf
	run -125 env SLURM_CONF="$PWD/down.conf" mlrun workers start "$IMG"
	assert_line --regexp "sbatch: .*Unable to contact slurm controller|sbatch gave no answer"
	run -125 env SLURM_CONF="$PWD/down.conf" mlrun workers stop --all
	assert_line --regexp "squeue: .*Unable to contact slurm controller|squeue gave no answer"
	assert_line --partial "nothing is lost"
	is "$id" status running
	run -0 mlrun-rsh "$id" echo here
	assert_output here
}

@test "workers: Cloudera's module runs a script for its workers" {
	export PYTHONPATH=$top_srcdir/recipes/cloudera PYTHONDONTWRITEBYTECODE=1 MLRUN_WORKERS_IMAGE=$IMG MLRUN_WORKERS_OPTIONS
	MLRUN_WORKERS_OPTIONS="-v $(python3 -c 'import os; print(os.path.dirname(os.__file__))')"
	cat >train.py <<-'END'
		import os
		print("rank", os.environ["OMPI_COMM_WORLD_RANK"], "gpu", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
		os.execvp("large", ["large"])
	END
	cat >starter.py <<-'END'
		import os, sys
		import cdsw
		workers = cdsw.launch_workers(n=2, cpu=2, memory=4, nvidia_gpu=int(sys.argv[1]), code="import time; time.sleep(365*24*3600)")
		ids = [worker["id"] for worker in workers]
		running = cdsw.await_workers(ids, wait_for_completion=False, timeout_seconds=120)
		addresses = [worker["ip_address"] for worker in running["workers"]]
		assert len(running) == 2 and len(addresses) == 2, running
		print("addresses", *addresses, flush=True)
		sys.exit(os.system("mpirun -np 2 -H " + ",".join(a + ":1" for a in addresses) + " -mca plm_rsh_args '-p 2222' python3 train.py") >> 8)
	END
	cat >kill.py <<-'END'
		import cdsw
		cdsw.list_workers()
		cdsw.stop_workers()
	END
	run -0 timeout 120 python3 starter.py 0
	assert_line --regexp '^addresses 10\.77\.[0-9]+\.1[12] 10\.77\.[0-9]+\.1[12]$'
	assert_line "large messages passed with 2 ranks"
	run -0 timeout 60 python3 kill.py
	run -0 squeue -h -t PD,R
	assert_output ""
	# Two GPUs of one node: the address would not tell the workers apart.
	SBATCH_PARTITION=gpuq SBATCH_NODELIST=gpu1 MLRUN_WORKERS_OPTIONS="$MLRUN_WORKERS_OPTIONS --sbatch=--nodelist=gpu1" run -0 timeout 120 python3 starter.py 1
	assert_line --regexp '^addresses worker-[0-9]+ worker-[0-9]+$'
	assert_line --partial "gpu 0"
	assert_line --partial "gpu 1"
	assert_line "large messages passed with 2 ranks"
	timeout 60 python3 kill.py
	# A script, variables, CML's name for the module, failures.
	echo 'import os, sys; print(os.environ["WORD"]); sys.exit(int(os.environ["STATUS"]))' >script.py
	run -0 python3 -c 'if True:
		import cml.workers_v1 as workers
		some = workers.launch_workers(2, cpu=1, memory=0.5, script="script.py", env={"WORD": "a b", "STATUS": "0"})
		done = workers.await_workers([w["id"] for w in some])
		print([w["status"] for w in done["workers"]], done["failures"], open(some[0]["log"]).read().strip())
		some = workers.launch_workers(1, cpu=1, memory=0.5, script="script.py", env={"WORD": "a", "STATUS": "3"})
		done = workers.await_workers(some[0]["id"])
		print(done["workers"], [(w["status"], w["exit_status"]) for w in done["failures"]])
		try:
			workers.launch_workers(1, cpu=1, memory=9000)
		except RuntimeError as e:
			print(e)'
	assert_line "['succeeded', 'succeeded'] [] a b"
	assert_line "[] [('failed', 3)]"
	assert_line --partial "sbatch: Memory specification can not be satisfied"
}

# A script of a session's, in the container too: the standard library and what lies here are mounted.
cloudera() {
	export PYTHONPATH=$top_srcdir/recipes/cloudera PYTHONDONTWRITEBYTECODE=1 MLRUN_WORKERS_IMAGE=$IMG MLRUN_WORKERS_OPTIONS
	MLRUN_WORKERS_OPTIONS="-v $(python3 -c 'import os; print(os.path.dirname(os.__file__))')"
}

@test "workers: Cloudera's module takes what scripts for it pass" {
	cloudera
	echo 'import os; print("script of", os.environ["CDSW_MASTER_ID"])' >script.py
	cat >session.py <<-'END'
		import os, socket, sys
		import cml.workers_v1 as workers
		import cdsw
		assert workers.launch_workers is cdsw.launch_workers
		said = os.path.join(os.getcwd(), "said")
		!echo session {1 + 1} >&2

		# The numbers of a job's variables, of which some have no meaning here; a worker that calls its master.
		server = socket.create_server(("0.0.0.0", 0))
		code = f"""import os, socket
		to = socket.create_connection((os.environ["CDSW_MASTER_IP"], {server.getsockname()[1]}))
		to.sendall(to.getsockname()[0].encode() + b" " + os.environ["CDSW_IP_ADDRESS"].encode())
		!cat >/dev/null; sleep 600"""
		some = workers.launch_workers(n="1", cpu="0.2", memory="0.5", nvidia_gpu="0", code=code, resource_profile_id=3,
			accelerator_label_id=None, env={"A": 1})
		caller = server.accept()[0].recv(100).decode().split()
		running = workers.await_workers(some, wait_for_completion=False, timeout_seconds=0)
		assert caller[0] == caller[1] == running["workers"][0]["ip_address"], (caller, running)
		assert running["workers"][0]["app_url"].startswith(f"http://{caller[0]}:"), running
		assert [w["id"] for w in workers.list_workers()] == [some[0]["id"]], workers.list_workers()
		assert workers.stop_workers([]) == []
		assert [w["status"] for w in workers.stop_workers(some)] == ["stopped"]

		# The script counts where there is code, too; of a command only its output.
		some = workers.launch_workers(1, 1, 0.5, script="script.py", code="no Python")
		some += workers.launch_workers(1, 1, 0.5, code="if 1 != 2:\n  word = 'a b'\n  !echo {word} $word; exit 3\nprint(_exit_code)")
		some += workers.launch_workers(1, 1, 0.5, code="no Python")
		done = cdsw.await_workers([some[0], int(some[1]["id"]), some[2]["id"]], timeout_seconds=120)
		print("failed", *[w["id"] == some[2]["id"] for w in done["failures"]])
		assert cdsw.await_workers(some[0], False)["failures"][0]["status"] == "succeeded"
	END
	mlrun workers start "$IMG"
	run -0 timeout 300 python3 -m cdsw session.py
	assert_line "session 2"
	assert_line --partial "cdsw: launch_workers: resource_profile_id=3 is ignored: a worker gets cpu, memory and nvidia_gpu"
	assert_line --regexp '^\[[0-9]+\] script of .+-[0-9]+$'
	assert_line --regexp '^\[[0-9]+\] a b a b$'
	assert_line --regexp '^\[[0-9]+\] 3$'
	assert_line --regexp '^\[[0-9]+\] SyntaxError: '
	assert_line "failed True"
	run -0 grep -h '"deadline":' "$MLRUN_STORE"/workers/*/worker.json
	assert_equal "$(grep -vc ' 0,' <<<"$output") $(grep -c ' 0,' <<<"$output")" "4 1"
}

@test "workers: Cloudera's module runs a scheduler and workers that connect to it" {
	cloudera
	cat >pool.py <<-'END'
		import os, socket, sys
		if sys.argv[1] == "head":
		    server = socket.create_server(("0.0.0.0", int(sys.argv[2])))
		    pool = []
		    while True:
		        caller = server.accept()[0]
		        word = caller.recv(1)
		        if word == b"w":
		            pool.append(caller)
		        else:
		            for worker in pool:
		                worker.sendall(b"?")
		            caller.sendall(b" ".join(worker.recv(64) for worker in pool))
		            caller.close()
		else:
		    head = socket.create_connection(sys.argv[2].split(":"))
		    head.sendall(b"w")
		    print("connected", flush=True)
		    while head.recv(1):
		        head.sendall(socket.gethostname().encode())
	END
	cat >cluster.py <<-'END'
		import socket, sys, time
		import cdsw
		head = cdsw.launch_workers(n=1, cpu=1, memory=0.5, code="!python3 pool.py head 6379")
		details = cdsw.await_workers(head, wait_for_completion=False, timeout_seconds=90)
		address = details["workers"][0]["ip_address"] + ":6379"
		nodes = cdsw.launch_workers(n=2, cpu=1, memory=0.5, code=f"!until python3 pool.py worker {address}; do sleep 0.1; done")
		assert len(cdsw.await_workers(nodes, wait_for_completion=False)["workers"]) == 2
		answer = []
		while len(answer) < 2:
		    time.sleep(0.1)
		    with socket.create_connection(address.split(":")) as client:
		        client.sendall(b"c")
		        answer = client.recv(200).decode().split()
		print("nodes", *sorted(answer), flush=True)
		cdsw.stop_workers(*[worker["id"] for worker in head + nodes])
	END
	run -0 timeout 300 python3 cluster.py
	assert_line --regexp "^nodes cpu1 cpu[12]$"
	assert_line --regexp '^\[[0-9]+\] connected$'
	run -0 squeue -h -t PD,R
	assert_output ""
}

@test "workers: a Dask cluster by Cloudera's module" {
	[ "${CHECK_ALL:-no}" = yes ] || skip "./quickstart check --all fetches Dask and runs it"
	cloudera
	python3 -m venv dask && dask/bin/pip install -q distributed==2024.12.1 || skip "PyPI gives no Dask"
	MLRUN_WORKERS_OPTIONS+=" -v $PWD -v /usr/lib -e PATH=$PWD/dask/bin:/usr/bin:/bin"
	run -0 timeout 400 dask/bin/python3 "$top_srcdir/recipes/cloudera/dask_sum.py"
	assert_line "sum of squares 332833500 on 2 workers"
}
