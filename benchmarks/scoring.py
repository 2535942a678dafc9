"""One more question on a large pool: a label comes in, λ and β change, every set is scored.

One-instance sets under the linear basis make u without a cosine, so the pool is quickly built;
what follows from u is the same for any basis.
"""

from __future__ import annotations

import numpy as np

import sumwise as sw
from benchmarks.peers import fit_ridge
from benchmarks.pools import rows_for_ridge
from benchmarks.report import Row, at_most, faster
from benchmarks.timing import in_turns, say
from sumwise.learning import algorithm

SIZES = (2000, 20_000, 200_000)
ROUNDS = 9
LABELS, N_BASIS = 30, 128
PEER = "BayesianRidge.predict"


def run(full: bool) -> list[Row]:
    del full
    rows, ours = [], []
    for n_sets in SIZES:
        row, seconds = _query(n_sets)
        rows.append(row)
        ours.append(seconds)
    slope = float(np.polyfit(np.log(SIZES), np.log(ours), 1)[0])
    size = f"{SIZES[0]:,} to {SIZES[-1]:,} sets"
    note = "Time grows as sets to this power; fixed costs make it less than 1 while sets are few."
    return [*rows, at_most("one query, growth", size, slope, 1.1, "sets^{:.2f}", note)]


def _query(n_sets: int) -> tuple[Row, float]:
    say(f"scoring: {n_sets:,} sets, {LABELS} labels, K = {N_BASIS}")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n_sets, N_BASIS - 1))  # the linear basis adds the bias
    theta = rng.uniform(0.5, 2.0, n_sets)
    y_bar = theta * (x @ rng.standard_normal(N_BASIS - 1) + rng.standard_normal(n_sets))
    sets = sw.Sets(tuple(range(n_sets)), x, theta, np.arange(n_sets + 1))
    model = sw.AggregateRegressor(basis="linear", standardize=False)
    progress = algorithm.begin(model.config(), sets)
    for _ in range(LABELS - 1):
        asked = sets.position(algorithm.ask(progress, "AggMI", 0, runner_up=True).open[0].set_id)
        progress = algorithm.tell(progress, asked, y_bar[asked])
    last = sets.position(algorithm.ask(progress, "AggMI", 0, runner_up=True).open[0].set_id)

    def query() -> sw.Ask:
        told = algorithm.tell(progress, last, y_bar[last])
        return algorithm.ask(told, "AggMI", 0, runner_up=True).open[0]

    rows, targets = rows_for_ridge(progress.pool.design, y_bar)
    ridge = fit_ridge(rows, targets, [*progress.labels, last])
    _check(algorithm.tell(progress, last, y_bar[last]), query(), rows)
    times = in_turns({"sumwise": query, PEER: lambda: ridge.predict(rows, return_std=True)}, ROUNDS)
    row = faster(
        "one query, 30 labels",
        f"{n_sets:,} sets",
        times.median("sumwise"),
        PEER,
        times.median(PEER),
        times.ratio(PEER, "sumwise"),
        at_least=4 if n_sets == SIZES[-1] else None,
        note="Ours adds the label, finds λ and β, scores and picks; the peer only predicts.",
    )
    return row, times.median("sumwise")


def _check(progress: algorithm.Progress, ask: sw.Ask, rows: np.ndarray) -> None:
    """Eq. 21 with S inverted outright, on 60 sets; and the set asked for is the best of all."""
    hyper, known = progress.model.posterior.hyper, rows[list(progress.labels)]
    precision = hyper.prior_precision * np.eye(N_BASIS) + hyper.noise_precision * known.T @ known
    covariance = np.linalg.inv(precision)
    kept: list[np.ndarray] = []
    algorithm.ask(progress, _keeping(kept), 0, runner_up=False)
    some = np.linspace(0, len(rows) - 1, 60).astype(int)
    signal = np.einsum("ak,kl,al->a", rows[some], covariance, rows[some])
    expected = 0.5 * np.log1p(hyper.noise_precision * signal)
    np.testing.assert_allclose(kept[0][some], expected, rtol=1e-8)
    kept[0][list(progress.labels)] = -np.inf
    np.testing.assert_equal(ask.set_id, int(np.argmax(kept[0])))


def _keeping(kept: list[np.ndarray]) -> sw.Acquisition:
    """AggMI that leaves a copy of its scores: what a question computes, not a second route."""

    def strategy(pool, posterior, rng):  # type: ignore[no-untyped-def]
        scores = sw.ACQUISITIONS["AggMI"](pool, posterior, rng)
        kept.append(scores.copy())
        return scores

    return strategy
