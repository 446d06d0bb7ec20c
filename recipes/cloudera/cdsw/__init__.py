"""Cloudera's Workers API over `mlrun workers`, for scripts that were written for CDSW, CML and Cloudera AI.

    PYTHONPATH=recipes/cloudera python3 dist-torch-starter.py
    PYTHONPATH=recipes/cloudera python3 -m cdsw script-with-lines-that-begin-with-!.py

A worker is a container of $MLRUN_WORKERS_IMAGE (lab/horovod), with the options of `mlrun workers start` in
$MLRUN_WORKERS_OPTIONS: "--partition gpuq --deadline 2h -v /data". Where Slurm is, it is a job of Slurm's, elsewhere a
process on this machine. mpirun, started by the script, reaches workers by mlrun-rsh: importing this module sets the
variables for that, and those that CDSW sets in a session, unless they are set.
"""
import atexit
import json
import math
import os
import shlex
import socket
import subprocess
import sys
import threading

from . import cell

__all__ = ["await_workers", "launch_workers", "list_workers", "stop_workers"]

_MPIRUN = {
    "OMPI_MCA_plm": "rsh",  # in a job of Slurm's, too, where mpirun would see the job's nodes alone
    "OMPI_MCA_ras": "^slurm",
    "OMPI_MCA_plm_rsh_agent": "mlrun-rsh",
    "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
}

# mlrun's words for a worker's status, where CDSW has others.
_STATUS = {"pending": "scheduling", "lost": "unknown"}

# How the kernels of CDSW's engines take code and a script; Python 3 is run by cell.py.
_KERNELS = {"r": ["Rscript", "-e"], "python2": ["python2", "-c"], "scala": ["scala", "-e"]}

# Arguments that mean something on Cloudera's clusters only, and what decides it here.
_IGNORED = {
    "accelerator_label_id": "'--partition' or '--sbatch=--gres=gpu:KIND:1' in $MLRUN_WORKERS_OPTIONS chooses the kind of GPU",
    "resource_profile_id": "a worker gets cpu, memory and nvidia_gpu",
    "resource_group_id": "'--partition' in $MLRUN_WORKERS_OPTIONS, or $SBATCH_PARTITION, chooses the nodes",
}

# The deadline of workers that $MLRUN_WORKERS_OPTIONS has none for: nothing else ends those of a script that died.
_DEADLINE = "12h"

# How many were launched together with each worker of this session's, by ids.
_launched = {}


def _master():
    """The address at which Slurm's nodes reach this machine."""
    try:
        nodes = subprocess.run(["sinfo", "-h", "-o", "%o"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True, timeout=5, check=False).stdout.split()
    except (OSError, subprocess.TimeoutExpired):
        nodes = []
    found = cell.address(nodes[0]) if nodes else "127.0.0.1"
    return found if not found.startswith("127.") else cell.address("192.0.2.1")  # TEST-NET-1: the default route


def _free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("", 0))
    ports = [str(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _session():
    """The variables of a session, as CDSW has them."""
    for name, value in _MPIRUN.items():
        os.environ.setdefault(name, value)
    if "CDSW_IP_ADDRESS" not in os.environ:
        os.environ["CDSW_IP_ADDRESS"] = _master()
    os.environ.setdefault("CDSW_ENGINE_ID", f"{socket.gethostname()}-{os.getpid()}")
    os.environ.setdefault("CDSW_DOMAIN", socket.getfqdn())
    names = ["CDSW_APP_PORT", "CDSW_READONLY_PORT", "CDSW_PUBLIC_PORT"]
    for name, port in zip(names, _free_ports(len(names))):
        os.environ.setdefault(name, port)


class _Console:
    """Prints what workers print, line by line and with their ids, where the session prints."""

    def __init__(self):
        self.files = {}
        self.lock = threading.Lock()

    def add(self, workers):
        if os.environ.get("MLRUN_WORKERS_OUTPUT") == "no":
            return
        with self.lock:
            if not self.files:
                threading.Thread(target=self._follow, daemon=True).start()
                atexit.register(self.show, ends=True)
            for worker in workers:
                self.files[worker["id"]] = [worker["log"], 0]

    def show(self, ends=False):
        """Print the lines that are new, at the end also one that has none. The file is opened each time, as NFS shows new ones to who does so."""
        with self.lock:
            for key, at in self.files.items():
                try:
                    with open(at[0], "rb") as log:
                        log.seek(at[1])
                        new = log.read()
                except OSError:  # not there yet
                    continue
                whole = new if ends else new[:new.rfind(b"\n") + 1]
                at[1] += len(whole)
                for line in whole.decode(errors="replace").splitlines():
                    print(f"[{key}] {line}", flush=True)

    def _follow(self):
        while not threading.Event().wait(0.2):
            self.show()


_console = _Console()


def _mlrun(*words, statuses=(0,)):
    """The JSON that `mlrun workers` prints. An exit status that is not in statuses raises RuntimeError."""
    done = subprocess.run(["mlrun", "workers", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode not in statuses:
        raise RuntimeError(done.stderr.strip() or f"mlrun workers ended with status {done.returncode}")
    return json.loads(done.stdout)


def _workers(found):
    """Entries as CDSW has them: what mlrun tells of a worker, with the status in CDSW's words.

    ip_address names one worker: of several on one node each has its host's name there, which mpirun takes as well. One
    that was launched alone keeps its address, for servers that others connect to.
    """
    addresses = [worker["ip_address"] for worker in _mlrun("list", "--json")]
    for worker in found:
        address = worker["ip_address"] or "unknown"
        worker["status"] = _STATUS.get(worker["status"], worker["status"])
        worker["app_url"] = f"http://{address}:{os.environ['CDSW_APP_PORT']}/"
        if addresses.count(address) > 1 and _launched.get(worker["id"]) != 1:
            address = worker["host"]
        worker["ip_address"] = address
        if worker["command"][1:2] == ["-uc"]:  # of cell.py only what it runs
            del worker["command"][1:4]
    return found


def _ids(workers):
    """The ids in what a caller passes: an id, an entry, or a list of these."""
    if isinstance(workers, dict):
        return [str(workers["id"])]
    if isinstance(workers, (list, tuple, set)):
        return [key for worker in workers for key in _ids(worker)]
    return [str(workers)]


def _command(kernel, script, code):
    if kernel in ("python", "python3"):
        with open(cell.__file__, encoding="utf-8") as source:
            return ["--", "python3", "-uc", source.read(), "script" if script else "code", script or code]
    command = _KERNELS.get(kernel, [kernel, "-c"])
    return ["--", command[0], script] if script else ["--", *command, code]


def _environment(env):
    """The variables of a worker: those of CDSW's, of which the caller's own go before."""
    master = os.environ["CDSW_IP_ADDRESS"]
    names = ["CDSW_APP_PORT", "CDSW_READONLY_PORT", "CDSW_PUBLIC_PORT", "CDSW_DOMAIN"]
    return {**{name: os.environ[name] for name in names}, "CDSW_MASTER_IP": master, "CML_MASTER_IP": master,
            "CDSW_MASTER_ID": os.environ["CDSW_ENGINE_ID"], **(env or {})}


def launch_workers(n, cpu, memory, nvidia_gpu=0, kernel="python3", script="", code="", accelerator_label_id=None,
                   resource_profile_id=None, resource_group_id=None, env=None, name=""):
    """Start n workers, each with cpu processors, memory GiB and nvidia_gpu GPUs. Numbers may be strings.

    They run a script of Python, or else code, whose lines that begin with ! are the shell's; with neither they wait to be
    used. Returns a list of entries.
    """
    for key, value in (("accelerator_label_id", accelerator_label_id), ("resource_profile_id", resource_profile_id),
                       ("resource_group_id", resource_group_id)):
        if value is not None:
            print(f"cdsw: launch_workers: {key}={value} is ignored: {_IGNORED[key]}", file=sys.stderr)
    n, options = int(n), shlex.split(os.environ.get("MLRUN_WORKERS_OPTIONS", ""))
    words = ["start", "--json", f"--number={n}", f"--cpus={max(1, math.ceil(float(cpu)))}",
             f"--memory={int(float(memory) * 1024)}m", f"--gpus={int(nvidia_gpu or 0)}"]
    if not any(word.split("=")[0] == "--deadline" for word in options):
        words.append(f"--deadline={_DEADLINE}")
    if name:
        words.append(f"--name={name}")
    words += [f"--env={key}={value}" for key, value in _environment(env).items()]
    words += [*options, os.environ.get("MLRUN_WORKERS_IMAGE", "lab/horovod")]
    if script or code:
        words += _command(kernel, script, code)
    started = _mlrun(*words)
    _launched.update((worker["id"], n) for worker in started)
    _console.add(started)
    return _workers(started)


def await_workers(ids=None, wait_for_completion=True, timeout_seconds=60):
    """Wait until workers have succeeded or, with wait_for_completion=False, run; timeout_seconds=0 is without limit.

    ids are ids, entries, or one of them; without them all workers of the session. Returns {"workers": those that did,
    "failures": the others}, with two keys and no more: scripts take its length for the number of workers.
    """
    good = "succeeded" if wait_for_completion else "running"
    ids = list(_launched) if ids is None else _ids(ids)
    words = ["await", "--json"] + ["--done"] * bool(wait_for_completion)
    if float(timeout_seconds or 0):
        words.append(f"--timeout={timeout_seconds}")
    found = _workers(_mlrun(*words, *ids, statuses=(0, 1, 124))) if ids else []
    _console.show()
    return {"workers": [worker for worker in found if worker["status"] == good],
            "failures": [worker for worker in found if worker["status"] != good]}


def list_workers():
    """Entries of the session's workers; in a script that launched none those of all workers of a week."""
    return _workers(_mlrun("list", "--json", *(_launched or ("--all",))))


def stop_workers(*worker_id):
    """End these workers, ids or entries, and wait until they are gone. Returns their entries.

    Without any all of the session's end; in a script that launched none all workers.
    """
    ids = _ids(worker_id) if worker_id else list(_launched) or ["--all"]
    gone = _workers(_mlrun("stop", "--json", *ids)) if ids else []
    _console.show()
    return gone


_session()
