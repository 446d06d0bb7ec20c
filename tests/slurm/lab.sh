#!/usr/bin/env bash
# A real Slurm cluster on one machine, without systemd and without touching the machine's own
# Slurm or munge: every file lies under $LAB, which `down` removes.
#
#   lab.sh run USER COMMAND...   up, COMMAND as USER with $TEST_SLURM_CONF set, down
#   lab.sh up | down | status
#
# The partition gpuq has a node with four GPUs, which are clones of /dev/null.
#
# Each node has a network, a hostname and a mount namespace of its own with a private /dev/shm, as
# MPI on several nodes needs it; /home, /tmp and the rest are shared, like a cluster's scratch.
# Needs root. Exits 77 with a reason where a cluster can't be started at all.
set -euo pipefail

LAB=/run/mlrun-lab
LOCK=/run/mlrun-lab.lock
NODES=(cpu1 cpu2 gpu1)
GPUS=4 # of each node whose name begins with gpu
NET=10.77.0
BRIDGE=mlrunlab0
export SLURM_CONF=$LAB/slurm.conf
PATH=$PATH:/usr/sbin:/sbin

# cpu1 is 10.77.0.11, gpu1 10.77.0.21.
address() {
	case $1 in
	cpu*) echo "$NET.1${1#cpu}" ;;
	gpu*) echo "$NET.2${1#gpu}" ;;
	esac
}
namespace() { echo "mlrunlab-$1"; }

# The reason why there can be no cluster here, if there is one.
obstacle() {
	local program

	[ "$(id -u)" = 0 ] || { echo "needs root"; return; }
	for program in slurmctld slurmd sbatch srun munged ip nsenter unshare; do
		command -v "$program" >/dev/null || { echo "$program is not installed"; return; }
	done
	if ! unshare --net --mount --uts true 2>/dev/null; then
		echo "this machine forbids root to make network, mount and UTS namespaces"
	elif ! ip link add "$BRIDGE" type bridge 2>/dev/null; then
		echo "this machine can't make a network bridge"
	else
		ip link del "$BRIDGE"
	fi
}

# The names of nodes that begin with a word, as Slurm takes lists.
nodes_named() {
	local node list=

	for node in "${NODES[@]}"; do
		case $node in "$1"*) list+=${list:+,}$node ;; esac
	done
	echo "$list"
}

# Slurm wants character devices, and takes a GPU's number from the end of its name. Not in /dev, so that nobody
# takes this machine for one with a driver.
make_gpus() {
	local i

	mkdir "$LAB/dev"
	for ((i = 0; i < GPUS; i++)); do mknod -m 666 "$LAB/dev/nvidia$i" c 1 3; done
	echo "NodeName=$(nodes_named gpu) Name=gpu File=$LAB/dev/nvidia[0-$((GPUS - 1))]" >"$LAB/gres.conf"
}

write_configuration() {
	local node

	{
		cat <<-END
			ClusterName=mlrunlab
			SlurmctldHost=$(hostname -s)($NET.254)
			SlurmUser=root
			SlurmdUser=root
			AuthType=auth/munge
			AuthInfo=socket=$LAB/munge.socket
			MessageTimeout=60
			CredType=cred/munge
			SlurmctldPort=6827
			SlurmdPort=6828
			StateSaveLocation=$LAB/state
			SlurmdSpoolDir=$LAB/spool-%n
			TmpFS=$LAB/tmp-%n
			SlurmctldPidFile=$LAB/slurmctld.pid
			SlurmdPidFile=$LAB/slurmd-%n.pid
			SlurmctldLogFile=$LAB/slurmctld.log
			SlurmdLogFile=$LAB/slurmd-%n.log
			MailProg=/bin/true
			ProctrackType=proctrack/linuxproc
			TaskPlugin=task/none
			JobAcctGatherType=jobacct_gather/none
			AccountingStorageType=accounting_storage/none
			SelectType=select/cons_tres
			SelectTypeParameters=CR_Core
			MpiDefault=none
			ReturnToService=2
			SlurmdParameters=config_overrides
			PlugStackConfig=$LAB/plugstack.conf
			SchedulerParameters=bf_interval=2,sched_interval=2
			KillWait=5
			GresTypes=gpu
		END
		for node in "${NODES[@]}"; do
			case $node in
			gpu*) echo "NodeName=$node NodeAddr=$(address "$node") CPUs=4 RealMemory=1000 Gres=gpu:$GPUS" ;;
			*) echo "NodeName=$node NodeAddr=$(address "$node") CPUs=2 RealMemory=1000" ;;
			esac
		done
		echo "PartitionName=workq Nodes=$(nodes_named cpu) Default=YES DefaultTime=10" \
			"MaxTime=INFINITE State=UP"
		echo "PartitionName=gpuq Nodes=$(nodes_named gpu) DefaultTime=10 MaxTime=INFINITE State=UP"
	} >"$LAB/slurm.conf"
	: >"$LAB/plugstack.conf"
	{
		echo "127.0.0.1 localhost"
		echo "$NET.254 $(hostname -s)"
		for node in "${NODES[@]}"; do echo "$(address "$node") $node"; done
	} >"$LAB/hosts"
}

start_munge() {
	(umask 077 && head -c 128 /dev/urandom >"$LAB/munge.key")
	munged --key-file="$LAB/munge.key" --socket="$LAB/munge.socket" --pid-file="$LAB/munged.pid" \
		--log-file="$LAB/munged.log" --seed-file="$LAB/munge.seed"
}

start_network() {
	local node ns

	ip link add "$BRIDGE" type bridge
	ip addr add "$NET.254/24" dev "$BRIDGE"
	ip link set "$BRIDGE" up
	for node in "${NODES[@]}"; do
		ns=$(namespace "$node")
		ip netns add "$ns"
		ip link add "ml-$node" type veth peer name eth0 netns "$ns"
		ip link set "ml-$node" master "$BRIDGE" up
		ip -n "$ns" addr add "$(address "$node")/24" dev eth0
		ip -n "$ns" link set eth0 up
		ip -n "$ns" link set lo up
	done
}

# nsenter and not `ip netns exec`, which mounts a new /sys and so hides the control groups.
start_node() {
	install -d "$LAB/spool-$1"
	install -d -m 1777 "$LAB/tmp-$1"
	# shellcheck disable=SC2016 # the inner shell expands these
	nsenter --net="/run/netns/$(namespace "$1")" \
		unshare --mount --uts --propagation private sh -ec '
			hostname "$1"
			mount -t tmpfs -o mode=1777 shm /dev/shm
			mount --bind "$2/hosts" /etc/hosts
			exec slurmd -N "$1"' sh "$1" "$LAB"
}

up() {
	local node i reason

	reason=$(obstacle)
	if [ -n "$reason" ]; then
		echo "no Slurm cluster: $reason" >&2
		exit 77
	fi
	install -d -m 755 "$LAB" "$LAB/state"
	make_gpus
	write_configuration
	start_munge
	start_network
	slurmctld
	for node in "${NODES[@]}"; do start_node "$node"; done
	for ((i = 0; i < 1200; i++)); do
		[ "$(sinfo -h -N -o %T 2>/dev/null | grep -c '^idle$')" != "${#NODES[@]}" ] || return 0
		sleep 0.1
	done
	echo "lab.sh: the nodes did not become idle in two minutes:" >&2
	tail -n 20 "$LAB"/*.log >&2
	return 1
}

# End the process that a daemon of ours wrote down, and no other.
stop_daemon() {
	local pid i

	[ -s "$1" ] || return 0
	pid=$(cat "$1")
	kill "$pid" 2>/dev/null || return 0
	for ((i = 0; i < 50; i++)); do
		kill -0 "$pid" 2>/dev/null || return 0
		sleep 0.1
	done
	kill -KILL "$pid" 2>/dev/null || true
}

down() {
	local node

	[ -d "$LAB" ] || return 0
	if [ -s "$LAB/slurmctld.pid" ]; then
		timeout 10 scancel --state=RUNNING,PENDING --partition=workq,gpuq 2>/dev/null || true
		sleep 0.5
	fi
	for node in "${NODES[@]}"; do stop_daemon "$LAB/slurmd-$node.pid"; done
	stop_daemon "$LAB/slurmctld.pid"
	stop_daemon "$LAB/munged.pid"
	for node in "${NODES[@]}"; do ip netns del "$(namespace "$node")" 2>/dev/null || true; done
	ip link del "$BRIDGE" 2>/dev/null || true
	rm -rf "$LAB"
}

# One lab at a time: another checkout's run waits here for its turn.
run() {
	local user=$1

	shift
	exec 9>"$LOCK"
	flock 9
	down
	# Once begun, taking down is not broken off.
	trap 'trap "" INT TERM HUP; down' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	up 9>&-
	# A child in the background, so that a signal to this script is seen at once.
	runuser -u "$user" -- env TEST_SLURM_CONF="$SLURM_CONF" "$@" 9>&- &
	wait "$!"
}

case ${1:-} in
run) shift && run "$@" ;;
up | down) "$1" ;;
status) sinfo && squeue && sinfo -R ;;
*)
	sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2
	exit 2
	;;
esac
