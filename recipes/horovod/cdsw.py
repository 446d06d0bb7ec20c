"""Cloudera's Workers API over `mlrun workers`, for scripts that were written for CDSW and CML.

    PYTHONPATH=recipes/horovod python3 dist-torch-starter.py

A worker is a container of $MLRUN_WORKERS_IMAGE (lab/horovod), with the options of `mlrun workers start` in
$MLRUN_WORKERS_OPTIONS: "--partition gpuq --deadline 2h -v /data". Where Slurm is, it is a job of Slurm's, elsewhere a
process on this machine. mpirun, started by the script, reaches workers by mlrun-rsh: importing this module sets the
variables for that, unless they are set.
"""
import json
import os
import shlex
import subprocess

_MPIRUN = {
    "OMPI_MCA_plm": "rsh",  # in a job of Slurm's, too, where mpirun would see the job's nodes alone
    "OMPI_MCA_ras": "^slurm",
    "OMPI_MCA_plm_rsh_agent": "mlrun-rsh",
    "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
}
for _name, _value in _MPIRUN.items():
    os.environ.setdefault(_name, _value)

# mlrun's words for a worker's status, where CDSW has others.
_STATUS = {"pending": "scheduling", "lost": "unknown"}


def _mlrun(*words, statuses=(0,)):
    """The JSON that `mlrun workers` prints. An exit status that is not in statuses raises RuntimeError."""
    done = subprocess.run(["mlrun", "workers", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode not in statuses:
        raise RuntimeError(done.stderr.strip() or f"mlrun workers ended with status {done.returncode}")
    return json.loads(done.stdout)


def _workers(found):
    """Entries as CDSW has them: what mlrun tells of a worker, with the status in CDSW's words.

    ip_address names one worker: of several on one node each has its host's name there, which mpirun takes as well.
    """
    addresses = [worker["ip_address"] for worker in _mlrun("list", "--json")]
    for worker in found:
        worker["status"] = _STATUS.get(worker["status"], worker["status"])
        if worker["ip_address"] and addresses.count(worker["ip_address"]) > 1:
            worker["ip_address"] = worker["host"]
    return found


def launch_workers(n, cpu, memory, nvidia_gpu=0, kernel="python3", script="", code="", env=None, name=""):
    """Start n workers, each with cpu processors, memory GiB and nvidia_gpu GPUs.

    They run a script of Python or code; with neither they wait to be used. Returns a list of entries.
    """
    if script and code:
        raise ValueError("launch_workers: script or code, not both")
    words = ["start", "--json", f"--number={n}", f"--cpus={cpu}", f"--memory={int(memory * 1024)}m",
             f"--gpus={nvidia_gpu}"]
    if name:
        words.append(f"--name={name}")
    words += [f"--env={key}={value}" for key, value in (env or {}).items()]
    words += shlex.split(os.environ.get("MLRUN_WORKERS_OPTIONS", ""))
    words += [os.environ.get("MLRUN_WORKERS_IMAGE", "lab/horovod")]
    if script:
        words += ["--", kernel, script]
    elif code:
        words += ["--", kernel, "-c", code]
    return _workers(_mlrun(*words))


def await_workers(ids, wait_for_completion=True, timeout_seconds=60):
    """Wait until workers have ended or, with wait_for_completion=False, can be used.

    ids are entries' "id", or one of them. Returns {"workers": those that did, "failures": the others}, with two keys and no
    more: scripts take its length for the number of workers.
    """
    ids = [ids] if isinstance(ids, str) else list(ids)
    good = ("succeeded",) if wait_for_completion else ("succeeded", "running")
    words = ["await", "--json", f"--timeout={timeout_seconds}"] + ["--done"] * bool(wait_for_completion)
    found = _workers(_mlrun(*words, *ids, statuses=(0, 1, 124))) if ids else []
    return {"workers": [worker for worker in found if worker["status"] in good],
            "failures": [worker for worker in found if worker["status"] not in good]}


def list_workers():
    """Entries of all workers, those included that ended within a week."""
    return _workers(_mlrun("list", "--json", "--all"))


def stop_workers(*worker_id):
    """End these workers, or all, and wait until they are gone. Returns their entries."""
    return _workers(_mlrun("stop", "--json", *(worker_id or ("--all",))))
