"""Runs a script that was written for a session: `python3 -m cdsw SCRIPT [ARGUMENT...]`. Its lines may begin with !."""
import sys

from . import cell

if len(sys.argv) < 2:
    sys.exit("usage: python3 -m cdsw SCRIPT [ARGUMENT...]")
cell.run_file(sys.argv[1], sys.argv[2:])
