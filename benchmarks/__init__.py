"""How fast sumwise is, as ratios to named peers: `python -m benchmarks`.

Every figure is CPU time on one thread, and every ratio is taken between things timed in turns in
the same run, so a busy machine slows both sides alike. An answer is checked before its time is
reported; a wrong one stops the run.
"""

from __future__ import annotations

import os

THREADS = tuple(f"{library}_NUM_THREADS" for library in ("OPENBLAS", "OMP", "MKL"))
FREE_THREADS = "SUMWISE_BENCH_FREE_THREADS"  # set for the one measurement that leaves BLAS alone

# BLAS reads these when it is loaded, so they stand before the first import of NumPy. On small
# matrices a second thread only spins, and its spinning counts as CPU time of whoever called.
if FREE_THREADS not in os.environ:
    os.environ.update(dict.fromkeys(THREADS, "1"))
