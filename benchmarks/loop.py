"""A whole run of 30 questions by AggMI, λ and β estimated anew after each answer.

Timed from `ActiveLearner(sets, …)` on, embedding included; the peers are given the embedding.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

import numpy as np

import sumwise as sw
from benchmarks import FREE_THREADS, THREADS, peers
from benchmarks.pools import ABALONE, ragged, rows_for_ridge
from benchmarks.report import Row, faster, seconds
from benchmarks.timing import in_turns, say, timed
from sumwise.model.design import Design, embed

SIZES = (1000, ABALONE, 10_000)
ROUNDS = 9
TIMED_AT = (1, 10, 20, 30)  # labels at which the literal search is run
RIDGE, LITERAL = "BayesianRidge", "PyTorch, literal"


def run(full: bool) -> list[Row]:
    rows = [_against_ridge(n) for n in SIZES]
    rows.append(_with_free_threads())
    if find_spec("numba") is None:
        missing = "numba is not installed: pip install 'sumwise[fast]'"
        return [
            *rows,
            Row("30 queries, adam", _size(ragged(ABALONE)[0]), "", LITERAL, note=missing),
        ]
    note = f"numba compiles its search once per machine: {seconds(_compile_time())}, not counted."
    for n in SIZES:
        if n == ABALONE:
            rows.append(_against_literal(n, full, note))
        else:
            rows.append(_adam_alone(n))
    return rows


def _learn(sets: sw.Sets, y_bar: np.ndarray, hyperparameters: str) -> sw.ActiveLearner:
    """The run that is timed. Inputs and totals stay as they are, so peers see the same numbers."""
    model = sw.AggregateRegressor("fourier", hyperparameters=hyperparameters, standardize=False)
    learner = sw.ActiveLearner(sets, model=model, strategy="AggMI", seed=0)
    for _ in range(peers.QUERIES):
        ask = learner.ask()
        learner.tell(ask.set_id, y_bar[ask.set_id])
    return learner


def _design(sets: sw.Sets) -> Design:
    learner = sw.ActiveLearner(
        sets, model=sw.AggregateRegressor("fourier", standardize=False), strategy="AggMI"
    )
    return embed(sets, learner.model.fitted().basis)


# --- scikit-learn ---------------------------------------------------------------------------------


def _against_ridge(n_instances: int) -> Row:
    sets, y_bar = ragged(n_instances)
    say(f"loop: 30 queries by evidence, {_size(sets)}")
    ours, theirs, ratio = _time_ridge(sets, y_bar)
    limit = 30 if n_instances == ABALONE else None
    what = "30 queries, evidence"
    return faster(what, _size(sets), ours, RIDGE, theirs, ratio, at_least=limit)


def _time_ridge(sets: sw.Sets, y_bar: np.ndarray) -> tuple[float, float, float]:
    """CPU seconds of our run and of theirs, and the ratio."""
    design = _design(sets)
    rows, targets = rows_for_ridge(design, y_bar)
    first = peers.first_question(design)
    _check_ridge(sets, y_bar, rows, targets, peers.ridge_loop(rows, targets, first))
    times = in_turns(
        {
            "sumwise": lambda: _learn(sets, y_bar, "evidence"),
            RIDGE: lambda: peers.ridge_loop(rows, targets, first),
        },
        ROUNDS,
    )
    return times.median("sumwise"), times.median(RIDGE), times.ratio(RIDGE, "sumwise")


def _with_free_threads() -> Row:
    """The same with as many BLAS threads as the machine has cores: what a user sees by default."""
    say("loop: 30 queries by evidence, BLAS threads left alone")
    env = {name: value for name, value in os.environ.items() if name not in THREADS}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.loop"],
        env={**env, FREE_THREADS: "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    ours, theirs, ratio = json.loads(done.stdout)
    note = "BLAS threads as the machine sets them. Most of this CPU time is threads waiting."
    what = "30 queries, evidence"
    return faster(what, _size(ragged(ABALONE)[0]), ours, RIDGE, theirs, ratio, note=note)


def _check_ridge(
    sets: sw.Sets, y_bar: np.ndarray, rows: np.ndarray, targets: np.ndarray, asked: list[int]
) -> None:
    """At the λ and β it found, BayesianRidge and we agree; at ours the evidence is no lower."""
    for t in (1, 10, 30):
        ridge = peers.fit_ridge(rows, targets, asked[:t])
        known, totals = sets.take(asked[:t]), y_bar[asked[:t]]
        found = (float(ridge.lambda_), float(ridge.alpha_))
        at = sw.AggregateRegressor("fourier", hyperparameters=found, standardize=False)
        at.fit(known, totals, pool=sets)
        expected = peers.ridge_information(ridge, rows)
        np.testing.assert_allclose(sw.score(sets, at, "AggMI"), expected, rtol=1e-8, atol=1e-10)
        best = sw.AggregateRegressor("fourier", evidence_prior=False, standardize=False)
        best.fit(known, totals, pool=sets)
        np.testing.assert_array_less(at.log_evidence_, best.log_evidence_ + 1e-9)


# --- the paper's procedure ------------------------------------------------------------------------


def _adam_alone(n_instances: int) -> Row:
    sets, y_bar = ragged(n_instances)
    say(f"loop: 30 queries by adam, {_size(sets)}")
    times = in_turns({"sumwise": lambda: _learn(sets, y_bar, "adam")}, ROUNDS)
    ours = times.median("sumwise")
    return Row("30 queries, adam", _size(sets), seconds(ours))


def _against_literal(n_instances: int, full: bool, note: str) -> Row:
    sets, y_bar = ragged(n_instances)
    if find_spec("torch") is None:
        ours = _adam_alone(n_instances).ours
        missing = "torch is not installed: pip install 'sumwise[bench]'"
        return Row("30 queries, adam", _size(sets), ours, LITERAL, note=missing)
    theirs, rounds = _literal_time(_design(sets), sets, y_bar)
    how = f"extrapolated from whole searches with {_listed(TIMED_AT)} labels; --full runs all 30"
    if full:
        theirs, rounds = _whole_literal_time(_design(sets), sets, y_bar)
        how = "of all 30 searches, which asked the same 30 questions"
    ours = statistics.median(rounds)
    return faster(
        "30 queries, adam",
        _size(sets),
        ours,
        LITERAL,
        theirs,
        theirs / ours,
        at_least=2000,
        note=f"PyTorch's time: {how}. {note}",
    )


def _literal_time(design: Design, sets: sw.Sets, y_bar: np.ndarray) -> tuple[float, list[float]]:
    """CPU seconds of the literal run, from a few of its searches, and of ours in between."""
    import torch

    torch.set_num_threads(1)
    path = _path(sets, y_bar)
    peers.literal_search(design.rows([0]), y_bar[:1], path[0].before, epochs=20)  # warms up
    ours, theirs = [], []
    for t in TIMED_AT:
        say(f"loop: the paper's search in PyTorch, {peers.EPOCHS} epochs, labels: {t}")
        step = path[t - 1]
        search = partial(
            peers.literal_search, design.rows(step.asked), y_bar[step.asked], step.before
        )
        found, spent = timed(search)
        np.testing.assert_allclose(found, step.after, rtol=1e-6)
        theirs.append(spent)
        ours += [timed(partial(_learn, sets, y_bar, "adam"))[1] for _ in range(3)]
    every = np.interp(np.arange(1, peers.QUERIES + 1), TIMED_AT, theirs)
    return float(every.sum()), ours


def _whole_literal_time(
    design: Design, sets: sw.Sets, y_bar: np.ndarray
) -> tuple[float, list[float]]:
    """CPU seconds of the literal run, which must ask what we ask, and of ours in between."""
    path = _path(sets, y_bar)
    ours: list[float] = []

    def between(t: int) -> None:
        say(f"loop: the paper's whole run in PyTorch, {t} of {peers.QUERIES}")
        ours.append(timed(lambda: _learn(sets, y_bar, "adam"))[1])

    asked, spent = timed(lambda: peers.literal_loop(design, y_bar, path[0].before, between))
    np.testing.assert_array_equal(asked, path[-1].asked)
    return spent - sum(ours), ours


@dataclass(frozen=True, slots=True)
class _Step:
    """One answer of our run: (λ, β) before it, the sets labelled with it, (λ, β) after it."""

    before: tuple[float, float]
    asked: list[int]
    after: tuple[float, float]


def _path(sets: sw.Sets, y_bar: np.ndarray) -> list[_Step]:
    model = sw.AggregateRegressor("fourier", hyperparameters="adam", standardize=False)
    learner = sw.ActiveLearner(sets, model=model, strategy="AggMI", seed=0)
    steps = []
    for _ in range(peers.QUERIES):
        before, ask = _precisions(learner), learner.ask()
        learner.tell(ask.set_id, y_bar[ask.set_id])
        steps.append(_Step(before, list(learner.labels), _precisions(learner)))
    return steps


def _precisions(learner: sw.ActiveLearner) -> tuple[float, float]:
    return learner.model.prior_precision_, learner.model.noise_precision_


def _compile_time() -> float:
    """CPU seconds of the first search when nothing is cached."""
    say("loop: compiling the search from nothing")
    program = (
        "import time, numpy as np\n"
        "from sumwise.model import kernels\n"
        "one, start = np.ones(1), time.process_time()\n"
        "kernels.adam(one, one, one, np.zeros(2), 1, 1e-3)\n"
        "print(time.process_time() - start)"
    )
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "NUMBA_CACHE_DIR": empty},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout)


def _size(sets: sw.Sets) -> str:
    return f"{len(sets.x):,} in {len(sets)} sets"


def _listed(numbers: tuple[int, ...]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


if __name__ == "__main__":
    print(json.dumps(_time_ridge(*ragged(ABALONE))))
