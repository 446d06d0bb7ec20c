#!/usr/bin/env python3
"""A Dask cluster of Cloudera's workers: a scheduler, workers that connect to it, a computation, and their end.

    PYTHONPATH=recipes/cloudera MLRUN_WORKERS_IMAGE=lab/dask python3 recipes/cloudera/dask_sum.py [WORKERS]
"""
import sys

import cdsw
from dask.distributed import Client

PORT = 8786


def launch(cluster, n, command):
    """Add n workers to the cluster that run a command until they are stopped. Returns them when they run."""
    started = cdsw.launch_workers(n=n, cpu=1, memory=1, code=f"!{command}")
    cluster += started
    found = cdsw.await_workers(started, wait_for_completion=False, timeout_seconds=300)
    if found["failures"]:
        raise RuntimeError(f"{command}: {found['failures']}")
    return found["workers"]


def main(n):
    cluster = []
    try:
        scheduler = launch(cluster, 1, f"dask scheduler --port {PORT} --no-dashboard")
        address = f"tcp://{scheduler[0]['ip_address']}:{PORT}"
        launch(cluster, n, f"dask worker --nthreads 1 --no-dashboard --no-nanny {address}")
        with Client(address, timeout=60) as client:
            client.wait_for_workers(n, timeout=60)
            total = sum(client.gather(client.map(lambda i: i * i, range(1000))))
            print(f"sum of squares {total} on {len(client.scheduler_info()['workers'])} workers", flush=True)
    finally:
        cdsw.stop_workers(cluster)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
