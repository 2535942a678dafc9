"""One more pool by design: against products with all candidates, and a greedy loop over `sw.score`.

Candidates have 8 standard normal inputs, the model knows 20 totals. A search starts from 12
directions (6 eigenvectors, both signs); the yardstick is four products ΦSΦᵀ-times-a-vector for each
of them, all vectors of a product together, which is the least that four such steps could take. The
greedy loop grows a pool by the candidate with which `sw.score` is largest, among all sets "the pool
and one more", until it has as many members as ours.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import sumwise as sw
from benchmarks.report import Row, at_most, faster
from benchmarks.timing import in_turns, say, timed
from sumwise.acquisition.pool_search import STARTS
from sumwise.model.design import features

SIZES = (1000, 10_000, 100_000)
ON_DISK = (10_000, 100_000, 1_000_000)  # the last with --full
ROUNDS = 5
N_INPUTS, N_BASIS, N_TARGETS = 8, 128, 100
MOST = 20  # members
LIMIT = 0.5  # CPU seconds for a pool of 10,000 candidates
PEAK_GB = 1.0
STRATEGIES = ("IVR", "AggMI", "EPIG")
GREEDY = "greedy loop over sw.score"


def run(full: bool) -> list[Row]:
    model = model_of("fourier")
    rows = [*_growth(model), *_limits(model), *_rules(model)]
    rows += [_greedy(model, n, check=n == SIZES[1]) for n in (SIZES[:2] if full else SIZES[:1])]
    return rows + _on_disk(ON_DISK if full else ON_DISK[:2])


def drawn(n: int) -> np.ndarray:
    return np.random.default_rng(n).standard_normal((n, N_INPUTS))


def model_of(basis: str) -> sw.AggregateRegressor:
    """After 20 totals of other individuals."""
    rng = np.random.default_rng(1)
    x = [rng.standard_normal((size, N_INPUTS)) for size in rng.integers(1, 20, 20)]
    y_bar = [float(np.sum(np.sin(each[:, 0]) + each[:, 1])) for each in x]
    return sw.AggregateRegressor(basis, n_basis=N_BASIS).fit(sw.Sets.from_arrays(x), y_bar)


def design(model: sw.AggregateRegressor, x: np.ndarray, n: int = 1, **rules: Any) -> sw.Pools:
    return sw.design_pools(x, model, n, (1, MOST), **rules)


# --- time -----------------------------------------------------------------------------------------


def _growth(model: sw.AggregateRegressor) -> list[Row]:
    """A pool and its features, and one more of a batch, against products with all candidates."""
    rows, spent = [], []
    for n in SIZES:
        say(f"designed pools: {n:,} candidates")
        x = drawn(n)
        _check(model, x)
        jobs = {
            "one": partial(design, model, x),
            "five": partial(design, model, x, 5),
            "products": _products(model, x),
        }
        times = in_turns(jobs, ROUNDS)
        one, four = times.median("one"), times.median("products")
        more = (times.median("five") - one) / 4
        peer, note = f"4 products for each of {2 * STARTS} starts", "All vectors at once."
        size, known = f"{n:,} candidates", (peer, four)
        rows.append(faster("a pool by IVR, its features included", size, one, *known, four / one))
        target = 1.0 if n == SIZES[1] else None
        rows.append(faster("one more of a batch", size, more, *known, four / more, target, note))
        spent.append(more)
    slope = float(np.polyfit(np.log(SIZES), np.log(spent), 1)[0])
    size = f"{SIZES[0]:,} to {SIZES[-1]:,} candidates"
    return [*rows, at_most("one more of a batch, growth", size, slope, 1.1, "candidates^{:.2f}")]


def _products(model: sw.AggregateRegressor, x: np.ndarray) -> Any:
    """Four times ΦSΦᵀ times a vector for each start."""
    fitted = model.fitted()
    phi, rng = features(fitted.basis, x), np.random.default_rng(0)
    covariance = fitted.posterior.covariance_along(np.eye(phi.shape[1]))

    def products() -> np.ndarray:
        vectors = rng.standard_normal((len(x), 2 * STARTS))
        for _ in range(4):
            vectors = phi @ (covariance @ (phi.T @ vectors))
        return vectors

    return products


def _check(model: sw.AggregateRegressor, x: np.ndarray) -> None:
    """What a pool is said to be worth is what S, inverted outright, says; no pool is above the
    bound; the second is worth what it adds to the first."""
    aims = drawn(N_TARGETS)
    pools = design(model, x, 2, targets=aims)
    fitted = model.fitted()
    phi, beta = features(fitted.basis, aims), fitted.posterior.noise_precision
    precision = np.linalg.inv(fitted.posterior.covariance_along(np.eye(N_BASIS)))
    unit = float(fitted.posterior.output_scale[0]) ** 2
    before = np.mean(np.einsum("jk,kl,jl->j", phi, np.linalg.inv(precision), phi))
    for rows, said in zip(pools.rows, pools.certificates, strict=True):
        u = features(fitted.basis, x[rows]).sum(axis=0)
        noise = len(rows) * (1 + fitted.posterior.effect) / beta
        precision = precision + np.outer(u, u) / noise
        after = np.mean(np.einsum("jk,kl,jl->j", phi, np.linalg.inv(precision), phi))
        np.testing.assert_allclose(said.value, unit * (before - after), rtol=1e-6)
        if not said.bound >= said.value:
            raise AssertionError(f"{said} is above its bound")
        before = after
    if np.isin(*pools.rows).any():
        raise AssertionError("the pools share members, which the dense formula does not know of")


def _limits(model: sw.AggregateRegressor) -> list[Row]:
    """All strategies and both models at 10,000 candidates."""
    rows, x = [], drawn(SIZES[1])
    for name, each in (("K = 128", model), ("the default model", model_of("auto"))):
        jobs = {strategy: partial(design, each, x, strategy=strategy) for strategy in STRATEGIES}
        times = in_turns(jobs, ROUNDS)
        for strategy in STRATEGIES:
            what = f"a pool by {strategy}, {name}"
            spent = times.median(strategy)
            rows.append(at_most(what, f"{SIZES[1]:,} candidates", spent, LIMIT, "{:.3f} s"))
    return rows


def _rules(model: sw.AggregateRegressor) -> list[Row]:
    x = drawn(SIZES[1])
    jobs = {name: partial(design, model, x, **rules) for name, rules in _ruled(len(x)).items()}
    times, size = in_turns(jobs, ROUNDS), f"{SIZES[1]:,} candidates"
    spent = [(name, times.median(name)) for name in jobs]
    return [at_most(f"the same: {name}", size, value, LIMIT, "{:.3f} s") for name, value in spent]


def _ruled(n: int) -> Mapping[str, Mapping[str, Any]]:
    rng, side = np.random.default_rng(0), round(n**0.5)
    at = np.arange(n).reshape(side, side)
    pairs = [np.stack([at[:, :-1], at[:, 1:]], axis=-1), np.stack([at[:-1], at[1:]], axis=-1)]
    return {
        "each once": {"uses": 1},
        "within one of 200 blocks": {"within": rng.integers(0, n // 50, n)},
        "households together": {"together": rng.integers(0, n // 3, n)},
        "households apart": {"apart": rng.integers(0, n // 3, n)},
        "one of each of 5 strata": {"strata": rng.integers(0, 5, n)},
        "connected on a grid": {"neighbours": np.concatenate([p.reshape(-1, 2) for p in pairs])},
        "free weights": {"weights": (-np.inf, np.inf)},
        "an effect of its own": {"effect": True},
    }


# --- the greedy loop ------------------------------------------------------------------------------


def _greedy(model: sw.AggregateRegressor, n: int, *, check: bool) -> Row:
    say(f"designed pools: greedy loop over {n:,} candidates")
    x, aims = drawn(n), drawn(N_TARGETS)
    ours = partial(design, model, x, targets=aims)
    times = in_turns({"ours": ours}, ROUNDS)
    members = len(ours().rows[0])
    theirs, spent = timed(partial(greedy, model, x, aims, members))
    value, score = ours().certificates[0].value, float(theirs)
    if not value >= 0.999 * score:
        raise AssertionError(f"ours is worth {value}, and the greedy pool {score}")
    note = f"Values for {n:,}: ours {value:.6g}, greedy {score:.6g} ({members} members each)."
    one = times.median("ours")
    what, size = "a pool of the same value", f"{n:,} candidates"
    return faster(
        what, size, one, GREEDY, spent, spent / one, 100 if check or n < 10_000 else None, note
    )


def greedy(model: sw.AggregateRegressor, x: np.ndarray, aims: np.ndarray, members: int) -> float:
    """The score of a pool that grows one by one."""
    pool: list[int] = []
    best = 0.0
    for _ in range(members):
        rest = np.setdiff1d(np.arange(len(x)), pool)
        rows = np.column_stack([np.tile(pool, (len(rest), 1)).astype(int), rest])
        flat, starts = rows.ravel(), np.arange(0, rows.size + 1, rows.shape[1])
        ids, theta = tuple(range(len(rest))), np.ones(len(flat))
        sets = sw.Sets(ids, x[flat], theta, starts, None, flat, flat.copy())
        scores = sw.score(sets, model, "IVR", targets=aims)
        best = float(scores.max())
        pool.append(int(rest[np.argmax(scores)]))
    return best


# --- on disk --------------------------------------------------------------------------------------


def _on_disk(sizes: tuple[int, ...]) -> list[Row]:
    """A pool from Parquet files, in a process of its own, and the same from memory."""
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for n in sizes:
            say(f"designed pools: {n:,} candidates on disk")
            write_file(Path(place), n)
            command = [sys.executable, "-m", "benchmarks.designed_pools", place, str(n)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            spent, value, peak, members = done.stdout.split()
            model, x = model_of("fourier"), read_file(Path(place), n)
            pools, memory = timed(partial(design, model, x))
            if members != ",".join(map(str, pools.rows[0])):
                raise AssertionError(f"{members} on disk, {pools.rows[0]} in memory")
            np.testing.assert_allclose(float(value), pools.certificates[0].value, rtol=1e-9)
            size = f"{n:,} candidates"
            known = float(spent), "in memory", memory, memory / float(spent)
            rows.append(faster("a pool of candidates on disk", size, *known))
            what = "peak memory of the process"
            rows.append(at_most(what, size, float(peak), PEAK_GB, "{:.2f} GB"))
    return rows


def write_file(folder: Path, n: int) -> None:
    """Candidates in row groups of a tenth, in single precision."""
    import pyarrow as pa
    from pyarrow import parquet

    columns = drawn(n).astype(np.float32).T
    names = ["id", *(f"x{d}" for d in range(N_INPUTS))]
    table = pa.table([np.arange(n), *columns], names=names)
    parquet.write_table(table, folder / f"{n}.parquet", row_group_size=n // 10)


def read_file(folder: Path, n: int) -> np.ndarray:
    from pyarrow import parquet

    table = parquet.read_table(folder / f"{n}.parquet").drop_columns("id")
    return np.column_stack([column.to_numpy() for column in table.columns]).astype(np.float64)


def child(folder: Path, n: int) -> None:
    """CPU seconds, value, peak memory and members of a pool from a file."""
    scan = sw.Sets.scan_parquet(
        folder / f"{n}.parquet", by="id", x=[f"x{d}" for d in range(N_INPUTS)]
    )
    model = model_of("fourier")
    pools, spent = timed(partial(sw.design_pools, scan, model, 1, (1, MOST)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )
    members = ",".join(map(str, pools.rows[0]))
    print(spent, repr(pools.certificates[0].value), peak / 1e9, members)


if __name__ == "__main__":
    child(Path(sys.argv[1]), int(sys.argv[2]))
