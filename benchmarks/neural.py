"""A neural basis: its training beside the paper's in PyTorch, and a study of 30 questions.

Everything is measured in fresh processes where XLA has one thread as well. Training is timed after
compilation, which the study counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.stats import multivariate_normal

import sumwise as sw
from benchmarks.pools import ABALONE, ragged
from benchmarks.report import Row, at_most, faster, seconds
from benchmarks.timing import in_turns, say, timed
from sumwise.model.design import embed

SIZES = (10, 30, 100)  # labelled sets
ROUNDS = 3
EPOCHS = 1000
START = (1.0, 10.0)  # λ and β
POOL_SETS, QUERIES = 300, 30
SEED = 7  # of the pool: its first 30 sets have 334 instances
NEEDED = ("jax", "equinox", "optax")
OURS = (f"{EPOCHS:,} epochs, fit", f"{EPOCHS:,} epochs, in a study")
LITERAL, SINGLE = "PyTorch, literal", "PyTorch, float32"
NOTES = {
    OURS[0]: "Both train the same network in float32 and work out the evidence in float64.",
    OURS[1]: f"The same, with room for more sets to come from a pool of {POOL_SETS}.",
    SINGLE: "All in float32, which trains, but gives the evidence to 1e-5 only, not 1e-6.",
}
COMPILING = ("jaxpr_trace", "jaxpr_to_mlir_module", "backend_compile")  # JAX's names for its steps
ONE_THREAD = {"NPROC": "1", "JAX_PLATFORMS": "cpu", "JAX_ENABLE_COMPILATION_CACHE": "false"}


def run(full: bool) -> list[Row]:
    del full
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        note = f"{missing[0]} is not installed: pip install 'sumwise[neural]'"
        return [Row(OURS[0], _size(_labelled(30)[0]), "", LITERAL, note=note)]
    rows = [row for n_sets in SIZES for row in _training_rows(n_sets)]
    return [*rows, *_study_rows()]


def _in_a_fresh_process(*arguments: str) -> Any:
    """What `main` prints there; what it says, and why it stopped if it did, is on our stderr."""
    command = [sys.executable, "-m", "benchmarks.neural", *arguments]
    env = {**os.environ, **ONE_THREAD}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def _pool() -> tuple[sw.Sets, np.ndarray]:
    sets, y_bar = ragged(ABALONE, SEED)
    return sets[:POOL_SETS], y_bar[:POOL_SETS]


def _labelled(n_sets: int) -> tuple[sw.Sets, np.ndarray]:
    sets, y_bar = _pool()
    return sets[:n_sets], y_bar[:n_sets]


def _size(sets: sw.Sets) -> str:
    return f"{len(sets.x):,} in {len(sets)} sets"


# --- training -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Training:
    """CPU seconds by who was timed, each peer's time over each of ours, log evidence at the end."""

    spent: dict[str, float]
    ratios: dict[str, dict[str, float]]  # peer -> ours -> ratio
    reached: dict[str, float]


def _training_rows(n_sets: int) -> list[Row]:
    size = _size(_labelled(n_sets)[0])
    found = Training(**_in_a_fresh_process("training", str(n_sets)))
    if not found.ratios:
        note = "torch is not installed: pip install 'sumwise[bench]'"
        spent = {ours: seconds(found.spent[ours]) for ours in OURS}
        return [Row(ours, size, spent[ours], LITERAL, note=note) for ours in OURS]
    return [
        faster(
            ours,
            size,
            found.spent[ours],
            peer,
            found.spent[peer],
            ratio,
            at_least=12 if n_sets == 30 and peer == LITERAL and ours == OURS[0] else None,
            note=NOTES[ours] if peer == LITERAL else NOTES[peer],
        )
        for peer, ratios in found.ratios.items()
        for ours, ratio in ratios.items()
        if peer == LITERAL or ours == OURS[0]
    ]


def time_training(n_sets: int) -> Training:
    """Ours and, if PyTorch is there, the peer, from the same weights, λ and β."""
    say(f"neural: {EPOCHS} epochs, {n_sets} labelled sets")
    labelled = _labelled(n_sets)
    pools = dict(zip(OURS, (labelled[0], _pool()[0]), strict=True))
    jobs: dict[str, Callable[[], object]] = {
        ours: partial(_train, *labelled, pool, EPOCHS) for ours, pool in pools.items()
    }
    reached = {ours: _evidence(*labelled, job()) for ours, job in jobs.items()}  # compiles
    if find_spec("torch") is not None:
        from benchmarks import peers_neural

        for pool in pools.values():
            _check_training(*labelled, pool)
        kinds = {LITERAL: np.float64, SINGLE: np.float32} if n_sets == 30 else {LITERAL: np.float64}
        for peer, kind in kinds.items():
            start = _layers("float32"), np.log(START).astype(kind)
            jobs[peer] = partial(peers_neural.train, *start, *labelled, EPOCHS)
            reached[peer] = jobs[peer]()
    ends = ", ".join(f"{name} {value:.2f}" for name, value in reached.items())
    say(f"neural: log evidence in the end: {ends}")
    times = in_turns(jobs, ROUNDS, warm=False)  # all have run once
    ratios = {
        peer: {ours: times.ratio(peer, ours) for ours in OURS} for peer in jobs if peer not in OURS
    }
    return Training({name: times.median(name) for name in jobs}, ratios, reached)


def _train(sets: sw.Sets, y_bar: np.ndarray, pool: sw.Sets, epochs: int, dtype: str = "float32"):  # type: ignore[no-untyped-def]
    """What is timed: λ and β are learned along, with no prior on them, as in the paper."""
    basis = sw.Neural(epochs=epochs, dtype=dtype).draw(pool, np.random.default_rng(0))
    return basis.train(sets, y_bar[:, None], np.log(START), pull=None, fixed=False)


def _layers(dtype: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases that `_train` begins with."""
    basis = sw.Neural(dtype=dtype).draw(_pool()[0], np.random.default_rng(0))
    pairs = zip(basis.network.weights, basis.network.biases, strict=True)
    return [(np.array(weight), np.array(bias)) for weight, bias in pairs]


def _evidence(sets: sw.Sets, y_bar: np.ndarray, trained: Any) -> float:
    """Eq. 22 by the function that training climbs."""
    import jax

    from sumwise.model.basis.neural import log_evidence
    from sumwise.model.basis.training import flat

    basis, log_precisions = trained
    with jax.enable_x64(True):
        data = flat(sets, y_bar[:, None], basis.settings.dtype, basis.pool)
        return float(log_evidence(basis.network, jax.numpy.asarray(log_precisions), data))


def _check_training(sets: sw.Sets, y_bar: np.ndarray, pool: sw.Sets) -> None:
    """Eq. 22 is the same number by both routes, at the start and after 20 epochs.

    In double precision what is left is rounding. It grows with every epoch, and over hundreds the
    two part ways (by 0.1 % of the evidence after 1,000 epochs with 30 sets), so 20 it is.
    """
    from benchmarks.peers_neural import train

    for dtype, matrices, epochs, rtol in (
        ("float64", np.float64, 0, 1e-10),
        ("float64", np.float64, 20, 1e-9),
        ("float32", np.float64, 0, 1e-6),
        ("float32", np.float64, 20, 1e-6),
        ("float32", np.float32, 0, 1e-5),
    ):
        ours = _evidence(sets, y_bar, _train(sets, y_bar, pool, epochs, dtype))
        start = _layers(dtype), np.log(START).astype(matrices)
        np.testing.assert_allclose(train(*start, sets, y_bar, epochs), ours, rtol=rtol)


# --- a study --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compiled:
    """What JAX reported while a question was asked and its answer learned from."""

    programs: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Study:
    """CPU seconds of the first run, and of a second that found everything compiled."""

    first: float
    second: float
    compiled: tuple[Compiled, ...]  # in the first run: before any question, then by question


def _study_rows() -> list[Row]:
    found = _in_a_fresh_process("study")
    compiled = [Compiled(**each) for each in found["compiled"]]
    at = [number for number, each in enumerate(compiled) if each.programs]
    spent, size = sum(each.seconds for each in compiled), _size(_pool()[0])
    beginning = f"{compiled[0].programs} programs ({seconds(compiled[0].seconds)}) before the first"
    later = ", ".join(
        f"{compiled[number].programs} ({seconds(compiled[number].seconds)}) at {number}"
        for number in at
        if number
    )
    what = f"{QUERIES} questions, neural"
    note = f"The whole second run in a process; the first took {seconds(found['first'])} of CPU."
    told = f"As JAX reports it. Compiled: {beginning} question, {later}."
    return [
        at_most(f"{what}, compiled", size, found["second"], 10, "{:.2f} s", note),
        at_most(f"{what}, compiling", size, spent, 15, "{:.2f} s", told),
        at_most(f"{what}, last to compile", size, max(at, default=0), 6, "question {:.0f}", told),
    ]


def time_study() -> Study:
    """A study twice: the first time everything has to be compiled, the second time nothing."""
    import jax

    events: list[tuple[str, float]] = []

    def listen(event: str, duration: float, **about: Any) -> None:
        del about
        step = event.rpartition("/")[2].removesuffix("_duration")
        if step in COMPILING:
            events.append((step, duration))

    jax.monitoring.register_event_duration_secs_listener(listen)
    sets, y_bar = _pool()
    marks: list[int] = []

    def mark() -> None:
        marks.append(len(events))

    say(f"neural: {QUERIES} questions, {_size(sets)}, compiling")
    learner, first = timed(lambda: _learn(sets, y_bar, mark))
    by_question = [events[a:b] for a, b in zip([0, *marks], marks, strict=False)]
    _check_study(learner, sets)
    del events[:]
    say(f"neural: {QUERIES} questions, {_size(sets)}, compiled")
    again, second = timed(lambda: _learn(sets, y_bar, mark))
    np.testing.assert_equal([step for step, _ in events if step == "backend_compile"], [])
    np.testing.assert_equal(again.history, learner.history)
    return Study(first, second, tuple(map(_compiled, by_question)))


def _compiled(events: list[tuple[str, float]]) -> Compiled:
    programs = sum(step == "backend_compile" for step, _ in events)
    return Compiled(programs, sum(duration for _, duration in events))


def _learn(sets: sw.Sets, y_bar: np.ndarray, mark: Callable[[], None]) -> sw.ActiveLearner:
    """The run that is timed; `mark` is called before the first question and after each answer."""
    learner = sw.ActiveLearner(sets, sw.AggregateRegressor("neural"), strategy="AggMI", seed=0)
    mark()
    for _ in range(QUERIES):
        ask = learner.ask()
        learner.tell(ask.set_id, y_bar[ask.set_id])
        mark()
    return learner


def _check_study(learner: sw.ActiveLearner, sets: sw.Sets) -> None:
    """Eq. 22 is the density of the totals under their joint Gaussian, of the learned features."""
    model = learner.model
    known = sets.take([answer.set_id for answer in learner.history])
    design = embed(known, model.fitted().basis)
    joint = design.u @ design.u.T / model.prior_precision_
    joint += np.diag(design.noise_scale / model.noise_precision_)
    level = design.theta_sum * model.fitted().offset
    totals = [answer.y_bar for answer in learner.history]
    expected = multivariate_normal(level, joint).logpdf(totals)
    np.testing.assert_allclose(model.log_evidence_, expected, rtol=1e-8)


def main(which: str, *arguments: str) -> None:
    result = time_study() if which == "study" else time_training(*map(int, arguments))
    print(json.dumps(asdict(result)))


if __name__ == "__main__":
    main(*sys.argv[1:])
