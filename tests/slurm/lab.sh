#!/usr/bin/env bash
# A real Slurm cluster on one machine, without systemd and without touching the machine's own
# Slurm or munge: every file lies under $LAB, which `down` removes.
#
#   lab.sh run USER COMMAND...   up, COMMAND as USER with $TEST_SLURM_CONF set, down
#   lab.sh up | down | status
#
# Partitions: workq (cpu1 cpu2), gpuq (gpu1 with four GPUs; gpu2, gpu3 and gpu4 with one each; they are clones of
# /dev/null), elastq, the same with two processors of each, so that a job of two has a node for itself, and scav, all
# nodes, whose jobs give way to those of the others and are queued again.
#
# Each node has a network, a hostname and a mount namespace of its own with a private /dev/shm, as
# MPI on several nodes needs it; /home, /tmp and the rest are shared, like a cluster's scratch.
# For what needs several users there are lab-user2, lab-user3 and lab-user4: `up` makes them, `down` removes them.
#
#   LAB_NUMBER=3   another lab beside the first, which is number 0, with lab3-user2 and so on
#   LAB_DBD=1      accounting by slurmdbd and a MariaDB of its own, where they are installed
#   LAB_SPANK=...  a line for plugstack.conf: "required /path/spank_mlrun.so key=value". Default: the plugin in
#                  $top_builddir, if that has one; LAB_SPANK= is none. It is site/plugstack.d/mlrun.conf
#
# What a site sets up is for tests to write, into the directory of $TEST_SLURM_CONF: site/plugstack.d/*.conf of Slurm's
# plugins, site/oci.conf of srun --container, and site/wgetrc and site/modulespath, which are /etc/wgetrc and
# /etc/environment-modules/modulespath of the nodes.
#
# Runs wait for each other. A lab that `up` started stays until `down`, and no `run` or `up` disturbs it.
# Needs root. Exits 77 with a reason where a cluster can't be started at all.
set -euo pipefail

NUMBER=${LAB_NUMBER:-0}
NAME=lab${NUMBER#0}
LAB=/run/mlrun-$NAME
LOCK=$LAB.lock
NODES=(cpu1 cpu2 gpu1 gpu2 gpu3 gpu4)
USERS=("$NAME-user2" "$NAME-user3" "$NAME-user4")
NET=10.77.$NUMBER
BRIDGE=mlrunlab$NUMBER
PORT=$((6827 + 10 * NUMBER))
SOCKET=$LAB/db/socket # MariaDB's
PLUGIN=${top_builddir:+$top_builddir/bin/spank_mlrun.so}
command= # the process of `run`
export SLURM_CONF=$LAB/slurm.conf
PATH=$PATH:/usr/sbin:/sbin

# cpu1 is 10.77.0.11, gpu1 10.77.0.21.
address() {
	case $1 in
	cpu*) echo "$NET.1${1#cpu}" ;;
	gpu*) echo "$NET.2${1#gpu}" ;;
	esac
}
fail() { echo "lab.sh: $*" >&2; exit 1; }
namespace() { echo "mlrun$NAME-$1"; }
has_dbd() { [ "${LAB_DBD:-0}" = 1 ]; }

no_cluster() { echo "no Slurm cluster: $*" >&2; exit 77; }

# The reason why there can be no cluster here, if there is one.
obstacle() {
	local program
	local -a programs=(slurmctld slurmd sbatch srun munged ip nsenter unshare setsid)

	! has_dbd || programs+=(slurmdbd sacctmgr mariadbd mariadb mariadb-install-db)
	for program in "${programs[@]}"; do
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
	for i in 0 1 2 3; do mknod -m 666 "$LAB/dev/nvidia$i" c 1 3; done
	echo "NodeName=gpu1 Name=gpu File=$LAB/dev/nvidia[0-3]"
	echo "NodeName=gpu[2-4] Name=gpu File=$LAB/dev/nvidia0"
} >"$LAB/gres.conf"

# A job that is queued again waits until its credentials have expired: cred_expire, two minutes by default. A batch job
# is considered within a second: batch_sched_delay, three by default.
write_configuration() {
	local node names storage=none

	! has_dbd || storage=slurmdbd
	{
		cat <<-END
			ClusterName=mlrunlab
			SlurmctldHost=$(hostname -s)($NET.254)
			SlurmUser=root
			SlurmdUser=root
			AuthType=auth/munge
			AuthInfo=socket=$LAB/munge.socket,cred_expire=5
			MessageTimeout=60
			CredType=cred/munge
			SlurmctldPort=$PORT
			SlurmdPort=$((PORT + 1))
			StateSaveLocation=$LAB/state
			SlurmdSpoolDir=$LAB/spool-%n
			TmpFS=$LAB/tmp-%n
			SlurmctldPidFile=$LAB/slurmctld.own-pid
			SlurmdPidFile=$LAB/slurmd-%n.own-pid
			SlurmctldLogFile=$LAB/slurmctld.log
			SlurmdLogFile=$LAB/slurmd-%n.log
			MailProg=/bin/true
			ProctrackType=proctrack/linuxproc
			TaskPlugin=task/none
			JobAcctGatherType=jobacct_gather/none
			AccountingStorageType=accounting_storage/$storage
			AccountingStorageHost=$NET.254
			AccountingStoragePass=$LAB/munge.socket
			AccountingStoragePort=$((PORT + 2))
			SelectType=select/cons_tres
			SelectTypeParameters=CR_Core
			MpiDefault=none
			ReturnToService=2
			SlurmdParameters=config_overrides
			PlugStackConfig=$LAB/plugstack.conf
			PreemptType=preempt/partition_prio
			PreemptMode=REQUEUE
			SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=0
			KillWait=5
			GresTypes=gpu
		END
		for node in "${NODES[@]}"; do
			names="NodeName=$node NodeHostname=$(uname -n) NodeAddr=$(address "$node")"
			case $node in
			gpu1) echo "$names CPUs=4 RealMemory=8000 Gres=gpu:4" ;;
			gpu*) echo "$names CPUs=2 RealMemory=8000 Gres=gpu:1" ;;
			*) echo "$names CPUs=2 RealMemory=8000" ;;
			esac
		done
		echo "PartitionName=workq Nodes=$(nodes_named cpu) Default=YES DefaultTime=10" \
			"MaxTime=INFINITE PriorityTier=10 State=UP"
		echo "PartitionName=gpuq Nodes=$(nodes_named gpu) DefaultTime=10 MaxTime=INFINITE PriorityTier=10 State=UP"
		echo "PartitionName=elastq Nodes=$(nodes_named gpu) MaxCPUsPerNode=2 DefaultTime=10 MaxTime=INFINITE" \
			"PriorityTier=10 State=UP"
		echo "PartitionName=scav Nodes=$(nodes_named '') DefaultTime=10 MaxTime=INFINITE PriorityTier=1" \
			"PreemptMode=REQUEUE GraceTime=3 State=UP"
	} >"$LAB/slurm.conf"
	echo "include $LAB/site/plugstack.d/*.conf" >"$LAB/plugstack.conf"
	{
		echo "127.0.0.1 localhost"
		echo "$NET.254 $(hostname -s)"
		for node in "${NODES[@]}"; do echo "$(address "$node") $node"; done
	} >"$LAB/hosts"
}

# make_site [USER]
make_site() {
	mkdir -p "$LAB/site/plugstack.d"
	[ ! -e "$PLUGIN" ] || : "${LAB_SPANK=required $PLUGIN mlrun=$top_builddir/bin/mlrun}"
	echo "${LAB_SPANK:-}" >"$LAB/site/plugstack.d/mlrun.conf"
	touch "$LAB/site/wgetrc" "$LAB/site/modulespath"
	ln -s site/oci.conf "$LAB/oci.conf"
	[ -z "${1:-}" ] || chown -R "$1" "$LAB/site"
}

# Without subordinate ids, as those for whom mlrun is. The list comes first: `down` shall know them whatever happens.
make_users() {
	local user

	for user in "${USERS[@]}"; do
		! id "$user" >/dev/null 2>&1 || continue
		echo "$user" >>"$LAB/users"
		# Another useradd on this machine may have locked the passwords.
		wait_for 60 flock "$LAB/users" \
			useradd --create-home --shell /bin/bash --key SUB_UID_COUNT=0 --key SUB_GID_COUNT=0 "$user" ||
			fail "cannot make the user $user"
	done
}

# daemon NAME COMMAND...: in the background, in a session of its own, and in no other process than the one whose number
# is written down: `down` finds it at any moment. The shell's background ignores signals, which tasks would inherit.
daemon() {
	# shellcheck disable=SC2016 # It writes its number itself: nobody needs to live on for that.
	setsid sh -ec 'echo $$ >"$0"; exec env --default-signal "$@"' "$LAB/$1.pid" "${@:2}" </dev/null >"$LAB/$1.out" 2>&1 &
	disown
}

# wait_for SECONDS COMMAND...
wait_for() {
	local i

	for ((i = 0; i < 10 * $1; i++)); do
		! "${@:2}" >/dev/null 2>&1 || return 0
		sleep 0.1
	done
	return 1
}

start_munge() {
	(umask 077 && head -c 128 /dev/urandom >"$LAB/munge.key")
	daemon munged munged --foreground --key-file="$LAB/munge.key" --socket="$LAB/munge.socket" \
		--pid-file="$LAB/munged.own-pid" --log-file="$LAB/munged.log" --seed-file="$LAB/munge.seed"
	wait_for 60 munge --no-input --socket="$LAB/munge.socket"
}

start_database() {
	install -d -m 755 -o mysql "$LAB/db"
	mariadb-install-db --no-defaults --user=mysql --datadir="$LAB/db/data" --skip-test-db \
		--auth-root-authentication-method=socket >"$LAB/mariadb-install.log" 2>&1
	daemon mariadb mariadbd --no-defaults --user=mysql --datadir="$LAB/db/data" --socket="$SOCKET" --skip-networking \
		--pid-file="$LAB/db/own-pid" --innodb-buffer-pool-size=64M --innodb-lock-wait-timeout=900
	wait_for 60 mariadb --no-defaults --socket="$SOCKET" -e 'select 1'
	mariadb --no-defaults --socket="$SOCKET" -e "create database slurm_acct_db;
		create user slurm@localhost identified by 'lab'; grant all on slurm_acct_db.* to slurm@localhost"
	(umask 077 && cat >"$LAB/slurmdbd.conf" <<-END
		AuthType=auth/munge
		AuthInfo=socket=$LAB/munge.socket
		DbdHost=$(hostname -s)
		DbdAddr=$NET.254
		DbdPort=$((PORT + 2))
		SlurmUser=root
		PidFile=$LAB/slurmdbd.own-pid
		LogFile=$LAB/slurmdbd.log
		StorageType=accounting_storage/mysql
		StorageHost=localhost
		StorageUser=slurm
		StoragePass=lab
		StorageLoc=slurm_acct_db
	END
	)
}

# Every user of the lab, and the one whom `run` names, has an account.
start_accounting() {
	local user

	start_database
	daemon slurmdbd env MYSQL_UNIX_PORT="$SOCKET" slurmdbd -D
	wait_for 60 timeout 5 sacctmgr --noheader show cluster
	sacctmgr --quiet --immediate add cluster mlrunlab
	sacctmgr --quiet --immediate add account lab
	for user in "${USERS[@]}" ${1:+"$1"}; do sacctmgr --quiet --immediate add user "$user" account=lab; done
} >>"$LAB/sacctmgr.log" 2>&1

start_network() {
	local node ns

	[ -d /run/netns ] || touch "$LAB/made-netns"
	ip link add "$BRIDGE" type bridge
	ip addr add "$NET.254/24" dev "$BRIDGE"
	ip link set "$BRIDGE" up
	for node in "${NODES[@]}"; do
		ns=$(namespace "$node")
		ip netns add "$ns"
		ip link add "ml$NUMBER-$node" type veth peer name eth0 netns "$ns"
		ip link set "ml$NUMBER-$node" master "$BRIDGE" up
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
	daemon "slurmd-$1" nsenter --net="/run/netns/$(namespace "$1")" \
		unshare --mount --uts --propagation private sh -ec '
			hostname "$1"
			mount -t tmpfs -o mode=1777 shm /dev/shm
			mount --bind "$2/hosts" /etc/hosts
			for file in /etc/wgetrc /etc/environment-modules/modulespath; do
				[ ! -e "$file" ] || mount --bind "$2/site/${file##*/}" "$file"
			done
			exec slurmd -D -N "$1"' sh "$1" "$LAB"
}

all_idle() { [ "$(sinfo -h -N -p scav -o %T | grep -c '^idle$')" = "${#NODES[@]}" ]; }

# up [USER]
up() {
	local node reason

	[ ! -e "$LAB" ] || fail "there is a lab already; 'lab.sh down' takes it down"
	reason=$(obstacle)
	[ -z "$reason" ] || no_cluster "$reason"
	mkdir -m 755 "$LAB"
	trap 'down_at_last' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	mkdir "$LAB/state"
	make_gpus
	write_configuration
	make_users
	make_site "${1:-}"
	start_munge
	start_network
	! has_dbd || start_accounting "${1:-}"
	daemon slurmctld slurmctld -D
	for node in "${NODES[@]}"; do start_node "$node"; done
	if ! wait_for 120 all_idle; then
		echo "lab.sh: the nodes did not become idle in two minutes:" >&2
		tail -n 20 "$LAB"/*.log "$LAB"/*.out >&2
		return 1
	fi
}

# End the process that `daemon` wrote down, and no other.
stop_daemon() {
	local pid

	[ -s "$LAB/$1.pid" ] || return 0
	pid=$(cat "$LAB/$1.pid")
	kill "$pid" 2>/dev/null || return 0
	wait_for 10 has_ended "$pid" || kill -KILL "$pid" 2>/dev/null || true
}
has_ended() { case $(ps -o stat= -p "$1") in '' | Z*) ;; *) return 1 ;; esac; }

# slurmstepd outlives slurmd: all of a node's processes end.
stop_node() {
	local ns

	ns=$(namespace "$1")
	[ ! -s "$LAB/slurmd-$1.pid" ] || kill -KILL "$(cat "$LAB/slurmd-$1.pid")" 2>/dev/null || true
	# With its namespace it would go, too, but only some time later.
	ip link del "ml$NUMBER-$1" 2>/dev/null || true
	[ -e "/run/netns/$ns" ] || return 0
	ip netns pids "$ns" | xargs -r kill -KILL 2>/dev/null || true
	ip netns del "$ns"
}

remove_user() {
	! id "$1" || { pkill -KILL -u "$1"; userdel --force --remove "$1"; ! id "$1"; }
}

# A useradd may outlive the `up` that was killed: its lock is waited for.
remove_users() {
	local user

	[ -e "$LAB/users" ] || return 0
	flock "$LAB/users" true
	while read -r user; do wait_for 60 remove_user "$user" || true; done <"$LAB/users"
}

no_jobs() { [ -z "$(squeue -h)" ]; }

down() {
	local node daemon

	ip link del "$BRIDGE" 2>/dev/null || true
	[ -d "$LAB" ] || return 0
	if is_up; then
		timeout 10 squeue -h -o %A 2>/dev/null | xargs -r timeout 10 scancel 2>/dev/null || true
		timeout 15 bash -c "$(declare -f no_jobs); until no_jobs 2>/dev/null; do sleep 0.1; done" || true
	fi
	for node in "${NODES[@]}"; do stop_node "$node"; done
	for daemon in slurmctld slurmdbd mariadb munged; do stop_daemon "$daemon"; done
	ip link del "$BRIDGE" 2>/dev/null || true
	# `ip netns` makes it, and mounts it on itself.
	if [ -e "$LAB/made-netns" ] && [ -z "$(ls -A /run/netns 2>/dev/null)" ]; then
		umount /run/netns 2>/dev/null || true
		rmdir /run/netns 2>/dev/null || true
	fi
	remove_users
	rm -rf "$LAB"
}

# Once begun, taking down is not broken off.
down_at_last() {
	trap '' INT TERM HUP
	if [ -n "$command" ] && kill "$command" 2>/dev/null; then wait "$command" || true; fi 2>/dev/null
	down
	rm -f "$LOCK"
}

# take_lock [FLOCK-OPTIONS]: whoever has it may start a lab and take one down. Who ends removes the file, so another
# may be there. What a killed `up` had begun keeps it for a moment.
take_lock() {
	[ "$(id -u)" = 0 ] || no_cluster "needs root"
	until exec 9>>"$LOCK" && [ "$LOCK" -ef /proc/self/fd/9 ]; do :; done
	flock "$@" 9 || fail "the lab is another's: a 'lab.sh run' or 'up' is under way"
	if [ "$LOCK" -ef /proc/self/fd/9 ]; then trap 'rm -f "$LOCK"' EXIT; else take_lock "$@"; fi
}

is_up() { [ -s "$LAB/slurmctld.pid" ] && ! has_ended "$(cat "$LAB/slurmctld.pid")"; }

# One lab at a time: another checkout's run waits here for its turn. What a killed one left is removed first.
run() {
	local user=$1

	shift
	! is_up || fail "a lab is up that no 'run' started; 'lab.sh down' takes it down"
	down
	up "$user" 9>&-
	# A child in the background, so that a signal to this script is seen at once; otherwise as in the foreground.
	runuser -u "$user" -- env --default-signal TEST_SLURM_CONF="$SLURM_CONF" "$@" <&0 9>&- &
	command=$!
	wait "$command"
}

case ${1:-} in
run)
	shift
	take_lock
	run "$@"
	;;
up)
	take_lock --timeout 3
	up 9>&-
	trap 'rm -f "$LOCK"' EXIT
	;;
down)
	take_lock --timeout 3
	down_at_last
	;;
status) sinfo && squeue && sinfo -R ;;
*)
	sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2
	exit 2
	;;
esac
