"""Instances to embeddings under 128 random Fourier features: time, and memory beside the result."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import numpy as np

import sumwise as sw
from benchmarks.pools import equal
from benchmarks.report import Row, at_most, faster
from benchmarks.timing import in_turns, say
from sumwise.model.basis import Basis
from sumwise.model.design import embed

SIZES = (100_000, 300_000, 1_000_000)
SET_SIZE = 10
ROUNDS = {100_000: 7, 300_000: 5, 1_000_000: 3}
SLACK_MB = 4.0  # what memory beside the result may vary by, from 100,000 instances to 1,000,000
PATHS = {"NumPy": False, "numba": True}


def run(full: bool) -> list[Row]:
    del full
    if find_spec("numba") is None:
        note = "numba is not installed: pip install 'sumwise[fast]'"
        rows = [Row("embedding", f"{SIZES[-1]:,}", "", "NumPy path", note=note)]
        return rows + _memory_rows("NumPy")
    rows = [_time_row(n) for n in SIZES]
    return [*rows, *_memory_rows("NumPy"), *_memory_rows("numba")]


def _time_row(n_instances: int) -> Row:
    say(f"embedding: {n_instances:,} instances, both paths")
    sets = equal(n_instances, SET_SIZE)
    basis = drawn_basis(sets)
    compiled, plain = embed(sets, basis, compiled=True), embed(sets, basis, compiled=False)
    np.testing.assert_allclose(compiled.u, plain.u, rtol=0, atol=1e-12)
    times = in_turns(
        {name: _job(sets, basis, compiled) for name, compiled in PATHS.items()},
        ROUNDS[n_instances],
        warm=False,  # the check was that
    )
    return faster(
        "embedding, numba",
        f"{n_instances:,}",
        times.median("numba"),
        "NumPy path",
        times.median("NumPy"),
        times.ratio("NumPy", "numba"),
        at_least=8 if n_instances == SIZES[-1] else None,
    )


def drawn_basis(sets: sw.Sets) -> Basis:
    """The default basis: K = 128, random state 0."""
    return sw.AggregateRegressor("fourier").fit(sets[:2], [0.0, 0.0]).fitted().basis


def _job(sets: sw.Sets, basis: Basis, compiled: bool):  # type: ignore[no-untyped-def]
    return lambda: embed(sets, basis, compiled=compiled)


# --- memory ---------------------------------------------------------------------------------------


def _memory_rows(path: str) -> list[Row]:
    """Memory of the process beyond input and result, each size in a fresh process."""
    what = f"embedding, {path}, extra memory"
    if not sys.platform.startswith("linux"):
        return [Row(what, "", "", note="Memory is measured on Linux only.")]
    megabytes = []
    for n in SIZES:
        say(f"embedding: memory of the {path} path, {n:,} instances")
        command = [sys.executable, "-m", "benchmarks.embedding", path, str(n)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        megabytes.append(float(done.stdout))
    rows = [Row(what, f"{n:,}", f"{mb:.1f} MB") for n, mb in zip(SIZES, megabytes, strict=True)]
    size = f"{SIZES[0]:,} to {SIZES[-1]:,}"
    growth = megabytes[-1] - megabytes[0]
    note = "Beyond input and result; below 0 where the result took memory freed before."
    return [*rows, at_most(f"{what}, growth", size, growth, SLACK_MB, "{:.1f} MB", note)]


def extra_memory(path: str, n_instances: int) -> float:
    """Peak of this process during `embed`, less what it held before and the result, in MB."""
    warm = equal(100, SET_SIZE)
    embed(warm, drawn_basis(warm), compiled=PATHS[path])
    sets = equal(n_instances, SET_SIZE)
    basis = drawn_basis(sets)
    earlier_peak, before = _status("VmHWM"), _status("VmRSS")
    design = embed(sets, basis, compiled=PATHS[path])
    result = design.u.nbytes + design.noise_scale.nbytes + design.theta_sum.nbytes
    if earlier_peak > before + result:
        raise RuntimeError("making the input took more memory than the result; its peak would hide")
    return (_status("VmHWM") - before - result) / 1e6


def _status(field: str) -> int:
    """Bytes, from the kernel. Not `ru_maxrss`: that is inherited from a larger parent process."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(field))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    print(extra_memory(sys.argv[1], int(sys.argv[2])))
