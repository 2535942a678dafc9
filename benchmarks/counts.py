"""A question and its answer for counts, shares and amounts, with the defaults, at 30 answers.

Sets of 1 to 19 individuals with 8 inputs and exposures of their own. Timed are `ask` with 29
answers and `tell` of the 30th: the fit, and the sets as the new model sees them. The peer is
statsmodels: a generalised linear model of totals on the mean inputs of sets (9 coefficients, where
ours has about 400), refitted for each set that may be asked for as if its expected total were
known, to see by how much predictions of 512 individuals get less variable. Its time is that of a
few sets, times their number.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import sumwise as sw
from benchmarks.embedding import _status
from benchmarks.report import Row, at_most, faster, seconds
from benchmarks.timing import in_turns, say, timed
from sumwise.model.nonlinear import NODES

KINDS = ("counts", "shares", "amounts")
SIZES = (100, 1000, 10_000)
LIMITS = {1000: 0.25, 10_000: 0.5}  # CPU seconds
ANSWERS, ROUNDS = 30, 7
N_INPUTS, LARGEST_SET = 8, 19
FEW, TARGETS = 20, 512  # sets that the peer refits for, and individuals that it predicts
PEER = "statsmodels GLM, refitted for each set"


def run(full: bool) -> list[Row]:
    del full
    return [row for kind in KINDS for row in _questions(kind)] + _memory() + [_on_disk()]


def drawn(kind: str, n_sets: int) -> tuple[sw.Sets, np.ndarray]:
    """Sets, and the total of each."""
    rng = np.random.default_rng(n_sets)
    sizes = rng.integers(1, LARGEST_SET + 1, n_sets)
    starts, n = np.concatenate([[0], np.cumsum(sizes)]), int(sizes.sum())
    x, e = rng.standard_normal((n, N_INPUTS)), rng.integers(1, 30, n).astype(float)
    eta = np.tanh(x @ rng.standard_normal(N_INPUTS) / 2) - 1
    if kind == "shares":
        y = rng.binomial(e.astype(int), 1 / (1 + np.exp(-eta))).astype(float)
    elif kind == "counts":
        y = rng.poisson(e * np.exp(eta) * rng.gamma(4, 0.25, n)).astype(float)
    else:
        y = e * np.exp(eta) * rng.gamma(4, 0.25, n)
    return sw.Sets(tuple(range(n_sets)), x, e, starts), np.add.reduceat(y, starts[:-1])


def learner_of(kind: str, sets: sw.Sets | sw.Embedded, totals: np.ndarray) -> sw.ActiveLearner:
    """With all answers but one."""
    model = None if isinstance(sets, sw.Embedded) else sw.AggregateRegressor(outputs=kind)
    learner = sw.ActiveLearner(sets, model)
    some = np.random.default_rng(0).permutation(len(totals))[: ANSWERS - 1].tolist()
    learner.tell_many({a: float(totals[a]) for a in some})
    return learner


def question(learner: sw.ActiveLearner, totals: np.ndarray) -> Callable[[], sw.Ask]:
    """Asks the same question each time, tells the answer, and forgets it."""
    before = learner._progress

    def ask_and_tell() -> sw.Ask:
        learner._progress = before
        asked = learner.ask()
        learner.tell(asked.set_id, float(totals[asked.set_id]))
        return asked

    return ask_and_tell


# --- times ----------------------------------------------------------------------------------------


def _questions(kind: str) -> list[Row]:
    rows, spent = [], []
    what = f"a question and its answer, {kind}, {ANSWERS} answers"
    for n_sets in SIZES:
        say(f"counts: {kind}, {n_sets:,} sets")
        sets, totals = drawn(kind, n_sets)
        size = f"{len(sets.x):,} in {n_sets:,} sets"
        ours = _checked(kind, sets, totals)
        if find_spec("statsmodels") is None:
            times, note = in_turns({"sumwise": ours}, ROUNDS), "statsmodels is not installed"
            rows.append(Row(what, size, seconds(times.median("sumwise")), PEER, note=note))
        else:
            few = partial(refitted, kind, sets, totals)
            times = in_turns({"sumwise": ours, PEER: few}, ROUNDS)
            theirs = times.median(PEER) * n_sets / FEW, times.ratio(PEER, "sumwise") * n_sets / FEW
            note = f"The peer's time is that of {FEW} sets, times their number."
            found = times.median("sumwise"), PEER, *theirs
            rows.append(faster(what, size, *found, note=note))
        spent.append(times.median("sumwise"))
        if n_sets in LIMITS:
            rows.append(at_most(what, size, spent[-1], LIMITS[n_sets], "{:.3f} s"))
    slope = float(np.polyfit(np.log(SIZES), np.log(spent), 1)[0])
    size = f"{SIZES[0]:,} to {SIZES[-1]:,} sets"
    return [*rows, at_most(f"{what}, growth", size, slope, 1.0, "sets^{:.2f}")]


def _checked(kind: str, sets: sw.Sets, totals: np.ndarray) -> Callable[[], sw.Ask]:
    """The question, after its answer was found right and the same to the bit."""
    learner = learner_of(kind, sets, totals)
    ours, again = (question(one, totals) for one in (learner, learner_of(kind, sets, totals)))
    model = learner.model
    scores = sw.score(sets, model, "IVR")
    scores[list(learner.labels)] = -np.inf
    some = np.argsort(-scores)[:10].tolist()
    found = sw.score(sets, model, "AggMI")[some]
    np.testing.assert_allclose(found, [information(model, sets, a) for a in some], rtol=1e-8)
    asked, second = ours(), again()
    if (asked.set_id, asked.score) != (second.set_id, second.score) or asked.set_id != some[0]:
        raise AssertionError(f"asked {asked} and then {second}; {some[0]} is the best")
    return ours


def information(model: sw.AggregateRegressor, sets: sw.Sets, a: int) -> float:
    """AggMI of one set, from its individuals and the covariance of w."""
    fitted = model.fitted()
    known, own = fitted.generalised, slice(sets.starts[a], sets.starts[a + 1])
    assert known is not None
    phi, e = fitted.basis.tangent.scaled(sets.x[own]), sets.theta[own]
    eta = known.level + phi @ known.mean
    if known.likelihood.capped:
        rate = 1 / (1 + np.exp(-eta))
        slopes, mean = e * rate * (1 - rate), e @ rate
        single, squares = 1 / slopes.sum(), slopes**2 @ (1 - 1 / e)
    else:
        slopes = e * np.exp(eta)
        mean, squares = slopes.sum(), slopes @ slopes
        single = 1 / mean if known.likelihood.whole else 0.0
    slope, u = slopes.sum(), slopes @ phi
    spread = known.dispersion * squares / slope**2
    rest = known.effect + (spread if known.likelihood.whole else np.log1p(spread))
    off = np.sqrt(u @ known.covariance @ u) / slope
    centre = known.likelihood.link(mean / e.sum())
    value = 0.0
    for node, weight in NODES:
        grown = float(known.likelihood.growth(np.array(node * off), np.array(centre)))
        value += weight * 0.5 * np.log1p(off**2 / (single * grown + rest))
    return value


# --- the peer -------------------------------------------------------------------------------------


def refitted(kind: str, sets: sw.Sets, totals: np.ndarray) -> np.ndarray:
    """How variable predictions are after each of a few sets."""
    import statsmodels.api as sm

    exposure = np.add.reduceat(sets.theta, sets.starts[:-1])
    means = np.add.reduceat(sets.theta[:, None] * sets.x, sets.starts[:-1]) / exposure[:, None]
    rows, targets = (sm.add_constant(x, has_constant="add") for x in (means, sets.x[:TARGETS]))
    order = np.random.default_rng(0).permutation(len(totals))
    asked, free = order[: ANSWERS - 1], order[ANSWERS - 1 :][:FEW]

    def fit(at: np.ndarray, y: np.ndarray) -> object:
        if kind == "shares":
            two = np.column_stack([y, exposure[at] - y])
            return sm.GLM(two, rows[at], family=sm.families.Binomial()).fit()
        log = sm.families.links.Log()
        family = sm.families.Poisson() if kind == "counts" else sm.families.Gamma(log)
        return sm.GLM(y, rows[at], family=family, offset=np.log(exposure[at])).fit()

    now, left = fit(asked, totals[asked]), []
    for a in free:
        rate = now.predict(rows[[a]])  # type: ignore[attr-defined]
        more = fit(np.append(asked, a), np.append(totals[asked], exposure[a] * rate))
        half = targets @ np.linalg.cholesky(more.cov_params())  # type: ignore[attr-defined]
        left.append(float((half**2).sum(axis=1).mean()))
    return np.array(left)


# --- memory and disk ------------------------------------------------------------------------------


def _memory() -> list[Row]:
    what = "peak memory of a learner beyond its sets, counts, 3 questions"
    if not sys.platform.startswith("linux"):
        return [Row(what, "", "", note="Memory is measured on Linux only.")]
    found = []
    for n_sets in SIZES[1:]:
        command = [sys.executable, "-m", "benchmarks.counts", str(n_sets)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append(float(done.stdout))
    rows = [
        Row(what, f"{n:,} sets", f"{mb:.0f} MB") for n, mb in zip(SIZES[1:], found, strict=True)
    ]
    slope = float(np.polyfit(np.log(SIZES[1:]), np.log(found), 1)[0])
    size = f"{SIZES[1]:,} to {SIZES[-1]:,} sets"
    return [*rows, at_most(f"{what}, growth", size, slope, 1.0, "sets^{:.2f}")]


def peak(n_sets: int) -> float:
    """Of this process during three questions, beyond what it held before them, in MB."""
    small = drawn("counts", 100)
    question(learner_of("counts", *small), small[1])()  # loads what is needed
    if find_spec("numba") is not None:
        from sumwise.model import kernels

        del kernels
    sets, totals = drawn("counts", n_sets)
    before = _status("VmRSS")
    learner = learner_of("counts", sets, totals)
    for _ in range(3):
        asked = learner.ask()
        learner.tell(asked.set_id, float(totals[asked.set_id]))
    return (_status("VmHWM") - before) / 1e6


def _on_disk() -> Row:
    """The same questions of individuals on disk, which must be those of sets in memory."""
    import pyarrow as pa
    from pyarrow import parquet

    say("counts: individuals on disk")
    sets, totals = drawn("counts", SIZES[-1])
    with tempfile.TemporaryDirectory() as place:
        names = [f"x{d}" for d in range(N_INPUTS)]
        columns = dict(zip(names, sets.x.T, strict=True))
        owner = np.repeat(np.arange(len(sets)), sets.sizes)
        parquet.write_table(
            pa.table({"set": owner, "e": sets.theta, **columns}), f"{place}/x.parquet"
        )
        scan = sw.Sets.scan_parquet(f"{place}/x.parquet", by="set", x=names, weights="e")
        model = sw.AggregateRegressor(outputs="counts")
        made, spent = timed(lambda: model.embed(scan, Path(place) / "design"))
        learners = (learner_of("counts", where, totals) for where in (made, sets))
        disk, memory = (question(learner, totals) for learner in learners)
        ours, theirs = disk(), memory()
        np.testing.assert_allclose(ours.score, theirs.score, rtol=1e-8)
        if ours.set_id != theirs.set_id:
            raise AssertionError(f"asked {ours} on disk and {theirs} in memory")
        times = in_turns({"disk": disk, "memory": memory}, ROUNDS)
    note = f"Writing them to disk took {seconds(spent)}. CPU time of all threads."
    size = f"{len(sets.x):,} in {len(sets):,} sets"
    found = times.median("disk"), "in memory", times.median("memory"), times.ratio("memory", "disk")
    return faster("the same, counts, individuals on disk", size, *found, note=note)


if __name__ == "__main__":
    print(peak(int(sys.argv[1])))
