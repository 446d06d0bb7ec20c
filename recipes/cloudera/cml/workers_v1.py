"""The same as cdsw, under the name that CML has for it."""
from cdsw import await_workers, launch_workers, list_workers, stop_workers

__all__ = ["await_workers", "launch_workers", "list_workers", "stop_workers"]
