"""A million sets: from Parquet to a design on disk, questions, batches, and two Dask workers.

Without `--full` the largest pool has 100,000 sets; the targets are for a million. Times are CPU
seconds on both sides, threads together, except for Dask, where processes are compared by the clock.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import sumwise as sw
from benchmarks.embedding import _status
from benchmarks.peers import fit_ridge
from benchmarks.report import Row, at_most, faster, table
from benchmarks.studies import _cpu_of, peak_of
from benchmarks.timing import Times, in_turns, say
from sumwise.acquisition import batches
from sumwise.learning import algorithm
from sumwise.model.design import Design, Pool
from sumwise.model.posterior import Hyperparameters, condition, decompose

N_INPUTS, SET_SIZE, N_BASIS = 8, 10, 128
SIZES = (10_000, 100_000, 1_000_000)  # sets; ten times as many instances
LABELS = (30, 60, 100)
STRETCH = 10  # questions; about one in seven looks at all sets
BATCH, BATCH_SETS = 100, 200_000
PEAK_GB, STREAMED_GB = 2.5, 1.0
ANSWERS, FURTHER = 200, 5  # of a study with the defaults
KINDS = (("the defaults", "auto", "IVR"), ("fixed basis, AggMI", "fourier", "AggMI"))


def run(full: bool) -> list[Row]:
    sizes = SIZES if full else SIZES[:2]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for n_sets in sizes:
            write_files(folder, n_sets)
            rows += _embedding(folder, n_sets)
            rows.append(_embedding_auto(folder, n_sets))
        rows.append(_peak(folder, sizes[-1]))
        rows += [_to_the_end(folder, n_sets) for n_sets in sizes]
        rows += _questions(folder, sizes)
        rows += _defaults(folder, sizes)
        rows.append(_batch(BATCH_SETS if full else BATCH_SETS // 10))
        if find_spec("distributed") is None:
            note = "Dask is not installed: pip install 'sumwise[dask]'"
            return [*rows, Row("two Dask workers", "", "", note=note)]
        rows += _two_workers(folder, sizes[-1])
    return rows


# --- embedding ------------------------------------------------------------------------------------


def write_files(folder: Path, n_sets: int) -> None:
    """Sets of ten in row groups of about a million rows, in single precision."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    place = folder / f"{n_sets}.parquet"
    schema = pa.schema([("set", pa.int64()), *((f"x{d}", pa.float32()) for d in range(N_INPUTS))])
    with parquet.ParquetWriter(place, schema) as writer:
        for low in range(0, n_sets, 100_000):
            ids = np.repeat(np.arange(low, min(low + 100_000, n_sets)), SET_SIZE)
            x = rng.random((N_INPUTS, len(ids)), dtype=np.float32)
            writer.write_table(pa.table([ids, *x], schema=schema))


def scan_of(folder: Path, n_sets: int) -> sw.Scan:
    inputs = [f"x{d}" for d in range(N_INPUTS)]
    return sw.Sets.scan_parquet(folder / f"{n_sets}.parquet", by="set", x=inputs)


def prepared_model() -> sw.AggregateRegressor:
    """With a basis that is drawn already: embedding is then one pass."""
    rng = np.random.default_rng(1)
    sets = sw.Sets.from_arrays([rng.random((5, N_INPUTS))])
    return sw.AggregateRegressor("fourier").fit(sets, [1.0])


def _embedding(folder: Path, n_sets: int) -> list[Row]:
    say(f"scale: embedding {n_sets * SET_SIZE:,} instances from Parquet")
    scan, model, out = scan_of(folder, n_sets), prepared_model(), folder / f"design-{n_sets}"
    held: list[np.ndarray] = []

    def ours() -> None:
        shutil.rmtree(out, ignore_errors=True)
        model.embed(scan, out, dtype="float32")

    def plain() -> None:
        held[:] = [read_and_sum(scan, model)]

    ours()
    plain()
    made = sw.Embedded.open(out).own_pool.design.u
    np.testing.assert_allclose(made, held[0], rtol=0, atol=2e-6 * SET_SIZE)
    held.clear()
    times = in_turns({"ours": ours, "plain": plain, "least": partial(_least, scan, model)}, 3)
    least = Row(
        "the same against the least that can be",
        f"{n_sets * SET_SIZE:,} instances",
        f"{times.median('ours'):.3g} s",
        "decoding, and the kernel on one batch again and again",
        f"{times.median('least'):.3g} s",
        times.ratio("least", "ours"),
        note="Nothing that is read is kept, looked at or written.",
    )
    return [least, _row_of_embedding(times, n_sets)]


def _embedding_auto(folder: Path, n_sets: int) -> Row:
    """The default basis, against its products and cosines alone, of one batch again and again."""
    from sumwise.model.kernels import sum_runs

    say(f"scale: embedding {n_sets * SET_SIZE:,} instances with the default basis")
    scan, out, rng = (
        scan_of(folder, n_sets),
        folder / f"auto-design-{n_sets}",
        np.random.default_rng(1),
    )
    few = sw.Sets.from_arrays([rng.random((5, N_INPUTS)) for _ in range(9)])
    model = sw.AggregateRegressor("auto").fit(few, rng.random(9))
    basis, single = model.fitted().basis, np.dtype(np.float32)
    inputs = rng.random((N_INPUTS, 2**17), dtype=np.float32)
    starts = np.append(np.arange(0, 2**17, SET_SIZE), 2**17)

    def ours() -> None:
        shutil.rmtree(out, ignore_errors=True)
        model.embed(scan, out, dtype="float32")

    def kernel() -> None:
        for _ in range(max(1, scan.rows // 2**17)):
            sum_runs(inputs, np.ones(2**17), starts, basis, single)

    ours()
    kernel()
    _check_embedding(folder, n_sets, sw.Embedded.open(out), basis)
    times = in_turns({"ours": ours, "kernel": kernel}, 3)
    shutil.rmtree(out)
    return faster(
        'Parquet to a design on disk, float32, basis="auto"',
        f"{n_sets * SET_SIZE:,} instances",
        times.median("ours"),
        "its products and cosines alone",
        times.median("kernel"),
        times.ratio("kernel", "ours"),
        at_least=round(1 / 1.5, 2) if n_sets == SIZES[-1] else None,
        note="The target is 1.5 times the peer's time. The peer reads, checks and writes nothing.",
    )


def _check_embedding(folder: Path, n_sets: int, made: sw.Embedded, basis: Any) -> None:
    """Features of the first sets, added up one by one."""
    n = 100 * SET_SIZE
    x = np.stack([column[:n] for column in _columns(folder, n_sets)], axis=1).astype(float)
    sums = basis(x).reshape(100, SET_SIZE, -1).sum(axis=1)
    np.testing.assert_allclose(made.own_pool.design.u[:100], sums, rtol=0, atol=2e-5 * SET_SIZE)


def _least(scan: sw.Scan, model: sw.AggregateRegressor) -> None:
    """Reading that throws away, and the kernel where everything is in cache."""
    from pyarrow import parquet

    for _ in parquet.ParquetFile(scan.files[0].path).iter_batches(2**17, use_threads=False):
        pass
    inputs = np.zeros((N_INPUTS, 2**17), np.float32)
    u = np.empty((-(-(2**17) // SET_SIZE), N_BASIS), np.float32)
    for _ in range(max(1, scan.rows // 2**17)):
        _kernel(model, inputs, u)


def _row_of_embedding(times: Times, n_sets: int) -> Row:
    return faster(
        "Parquet to a design on disk, float32",
        f"{n_sets * SET_SIZE:,} instances",
        times.median("ours"),
        "reading and the kernel alone",
        times.median("plain"),
        times.ratio("plain", "ours"),
        at_least=round(1 / 1.5, 2) if n_sets == SIZES[-1] else None,
        note="Ours also finds the sets, checks every number and keeps checksums. The target is 1.5 "
        "times the peer's time.",
    )


def read_and_sum(scan: sw.Scan, model: sw.AggregateRegressor) -> np.ndarray:
    """The peer: the table as Arrow reads it, and the compiled kernel on all of it."""
    from pyarrow import parquet

    table = parquet.ParquetFile(scan.files[0].path).read()
    basis = model.fitted().basis
    inputs = np.empty((N_INPUTS, table.num_rows), np.float32)
    for d, name in enumerate(scan.x):
        inputs[d] = (table[name].to_numpy() - basis.shift[d]) / basis.scale[d]
    u = np.empty((table.num_rows // SET_SIZE, N_BASIS), np.float32)
    _kernel(model, inputs, u)
    return u


def _kernel(model: sw.AggregateRegressor, inputs: np.ndarray, u: np.ndarray) -> None:
    from sumwise.model.kernels import sum_waves

    fourier: Any = model.fitted().basis.basis
    (waves,) = fourier.waves
    n = inputs.shape[1]
    sum_waves(
        inputs,
        np.ones(n),
        np.append(np.arange(0, n, SET_SIZE), n),
        np.ascontiguousarray(waves.frequencies.T / (2 * np.pi), dtype=np.float32),
        (waves.phases / (2 * np.pi)).astype(np.float32),
        waves.amplitude.astype(np.float32),
        waves.centre,
        64,
        u,
        0,
    )


def _peak(folder: Path, n_sets: int) -> Row:
    what = "peak memory while embedding, float32"
    if not sys.platform.startswith("linux"):
        return Row(what, "", "", note="Memory is measured on Linux only.")
    return at_most(what, f"{n_sets:,} sets", _alone("embed", folder, n_sets), PEAK_GB, "{:.2f} GB")


def _alone(what: str, folder: Path, n_sets: int) -> float:
    """GB that a process of its own took at most."""
    command = [sys.executable, "-m", "benchmarks.scale", what, str(folder), str(n_sets)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def _to_the_end(folder: Path, n_sets: int) -> Row:
    """A report, an export and an import of a study with 30 answers."""
    what = "peak memory of a report, an export and its import, float32"
    if not sys.platform.startswith("linux"):
        return Row(what, "", "", note="Memory is measured on Linux only.")
    say(f"scale: report, export and import of {n_sets:,} sets")
    peak, size = _alone("report", folder, n_sets), f"{n_sets:,} sets"
    return at_most(what, size, peak, STREAMED_GB, "{:.2f} GB")


def _report(folder: Path, n_sets: int) -> None:
    place = folder / f"end-{n_sets}"
    place.mkdir()
    design = sw.Embedded.open(folder / f"design-{n_sets}")
    with sw.create_study(place / "a.db", design, strategy="AggMI") as study:
        some = study.ids[:: n_sets // 30][:30]
        totals = np.random.default_rng(2).normal(50, 5, len(some))
        study.tell_many(dict(zip(some, totals.tolist(), strict=True)))
        study.report(place / "a.html")
        study.export(place / "export")
    sw.import_study(place / "export", place / "b.db").close()
    shutil.rmtree(place)


# --- questions ------------------------------------------------------------------------------------


def _questions(folder: Path, sizes: tuple[int, ...]) -> list[Row]:
    rows, spent = [], []
    for n_sets in sizes:
        found, first = _question(folder, n_sets, LABELS if n_sets == sizes[-1] else LABELS[:1])
        rows += found
        spent.append(first)
    slope = float(np.polyfit(np.log(sizes), np.log(spent), 1)[0])
    size = f"{sizes[0]:,} to {sizes[-1]:,} sets"
    return [*rows, at_most("one question, growth", size, slope, 1.1, "sets^{:.2f}")]


def _question(folder: Path, n_sets: int, labels: tuple[int, ...]) -> tuple[list[Row], float]:
    """A label comes in, λ and β change, and the best of all sets is found.

    A learner that is open keeps bounds from question to question; a process that has just been
    started has none.
    """
    say(f"scale: a question on {n_sets:,} sets")
    made = sw.Embedded.open(folder / f"design-{n_sets}")
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(N_BASIS)
    whole = made.own_pool.design.u.astype(np.float64)
    root = rng.standard_normal((N_BASIS, N_BASIS))
    progress = algorithm.begin(made.config, made)
    rows: list[Row] = []
    first = 0.0
    for goal in labels:
        while len(progress.labels) < goal:
            progress = _next(progress, truth)
        _check(progress, _asked(progress).open[0])
        ridge = fit_ridge(whole, np.zeros(n_sets), list(progress.labels))
        jobs: dict[str, Callable[[], object]] = {
            "ours": partial(_stretch, progress, truth),
            "anew": partial(_asked, replace(progress, ceiling=None)),
            "dense": lambda: ((whole @ root) ** 2).sum(axis=1),
            "ridge": partial(ridge.predict, whole, return_std=True),
        }
        times = in_turns(jobs, 3)
        first = first or times.median("anew")
        large = n_sets == SIZES[-1]
        for job, what, share in (
            ("ours", f"a question of {STRETCH} in a row, {goal} labels", STRETCH),
            ("anew", f"the first question of a process, {goal} labels", 1),
        ):
            for peer, name, target in (
                ("dense", "((U @ L)**2).sum(1)", 4 if goal == 30 else 1),
                ("ridge", "BayesianRidge.predict", 8 if goal == 30 and job == "ours" else None),
            ):
                rows.append(
                    faster(
                        what,
                        f"{n_sets:,} sets",
                        times.median(job) / share,
                        name,
                        times.median(peer),
                        share * times.ratio(peer, job),
                        at_least=target if large else None,
                    )
                )
    return rows, first


def _asked(progress: algorithm.Progress) -> algorithm.Progress:
    return algorithm.ask(progress, "AggMI", 0, runner_up=True)


def _stretch(progress: algorithm.Progress, truth: np.ndarray) -> None:
    for _ in range(STRETCH):
        progress = _next(progress, truth)


def _next(progress: algorithm.Progress, truth: np.ndarray) -> algorithm.Progress:
    """Ask, be told, find λ and β anew."""
    rng = np.random.default_rng(len(progress.labels))
    progress = _asked(progress)
    at = progress.pool.sets.position(progress.open[0].set_id)
    total = progress.pool.design.u[at] @ truth + rng.standard_normal()
    return algorithm.tell(progress, at, float(total))


def _check(progress: algorithm.Progress, ask: sw.Ask) -> None:
    """The set asked for and its score are those of scoring every set in double precision."""
    scores = sw.ACQUISITIONS["AggMI"](
        progress.pool, progress.model.posterior, np.random.default_rng(0)
    )
    scores[list(progress.labels)] = -np.inf
    best = int(np.argmax(scores))
    np.testing.assert_equal(ask.set_id, progress.pool.sets.ids[best])
    np.testing.assert_allclose(ask.score, scores[best], rtol=1e-8)


# --- batches --------------------------------------------------------------------------------------


def _defaults(folder: Path, sizes: tuple[int, ...]) -> list[Row]:
    """Studies on files with the default model and strategy beside the fixed basis: the first
    question of a process, and the next."""
    rows: list[Row] = []
    for n_sets in sizes:
        for name, basis, strategy in KINDS:
            say(f"scale: a study of {n_sets:,} sets, {name}")
            place, ids, totals = folder / f"{n_sets}-{basis}.db", *_totals(folder, n_sets)
            design = _design_of(folder, n_sets, basis)
            place.unlink(missing_ok=True)
            with sw.create_study(place, design, strategy=strategy) as made:
                made.tell_many(ids[:ANSWERS], totals[:ANSWERS])
                if n_sets < sizes[-1]:
                    _check_first(made, design, strategy)
            rows += _asking(place, ids, totals, f"{n_sets:,} sets, {name}", n_sets == SIZES[-1])
    return rows


def _design_of(folder: Path, n_sets: int, basis: str) -> sw.Embedded:
    """The design of the files with this basis; the one that is there, if there is one."""
    where, model = folder / f"{basis}-{n_sets}", sw.AggregateRegressor(basis)
    return model.embed(scan_of(folder, n_sets), where, dtype="float32")


def _asking(place: Path, ids: list[int], totals: list[float], size: str, large: bool) -> list[Row]:
    """What `sumwise ask` takes, and further questions of an open study."""
    command = [sys.executable, "-m", "sumwise", "ask", str(place), "--preview"]
    bare = statistics.median(_cpu_of([sys.executable, "-c", "pass"])[0] for _ in range(3))
    first = statistics.median(_cpu_of(command)[0] for _ in range(3)) - bare
    spent, waited = [], []
    with sw.open_study(place) as study:
        for at in range(ANSWERS, len(ids)):
            study.tell(ids[at], totals[at])
            cpu, clock = time.process_time(), time.perf_counter()
            study.propose(1)
            spent.append(time.process_time() - cpu)
            waited.append(time.perf_counter() - clock)
    wait, busy = statistics.median(waited), os.getloadavg()[0]
    bare_note = "CPU time less that of an interpreter that does nothing."
    note = f"By the clock, at a load of {busy:.1f}; {statistics.median(spent):.2f} s of CPU time."
    values = (
        ("sumwise ask", first, 4.0, "{:.2f} s", bare_note),
        ("its peak memory", peak_of(place), 1.5, "{:.2f} GB", "The mapped design included."),
        ("a further question", wait, 0.5, "{:.2f} s", note),
    )
    return [
        at_most(what, size, value, limit, shown, note)
        if large
        else Row(what, size, shown.format(value), note=note)
        for what, value, limit, shown, note in values
    ]


def _totals(folder: Path, n_sets: int) -> tuple[list[int], list[float]]:
    """Sets at random, and totals that the inputs explain in part."""
    rng = np.random.default_rng(2)
    ids = rng.permutation(n_sets)[: ANSWERS + FURTHER]
    x = (
        np.stack(_columns(folder, n_sets), axis=1)
        .reshape(n_sets, SET_SIZE, N_INPUTS)[ids]
        .astype(float)
    )
    own = 3 * x[..., 0] + np.sin(6 * x[..., 1]) + x[..., 2] * x[..., 3]
    totals = (10 + own + rng.normal(0, 0.5, own.shape)).sum(axis=1)
    return ids.tolist(), totals.tolist()


def _columns(folder: Path, n_sets: int) -> list[np.ndarray]:
    from pyarrow import parquet

    table = parquet.read_table(folder / f"{n_sets}.parquet")
    return [table[f"x{d}"].to_numpy() for d in range(N_INPUTS)]


def _check_first(study: sw.Study, design: sw.Embedded, strategy: str) -> None:
    """The set that is asked for has the highest score of all, each in double precision."""
    (asked,) = study.propose(1)
    scores = sw.score(design, study.model, strategy)
    scores[[answer.set_id for answer in study.answers]] = -np.inf
    assert abs(asked.score - scores.max()) <= 1e-9 * scores.max(), (asked.score, scores.max())


def _batch(n_sets: int) -> Row:
    say(f"scale: a joint batch of {BATCH} from {n_sets:,} sets")
    rng = np.random.default_rng(0)
    u = rng.standard_normal((n_sets, N_BASIS)) @ np.diag(np.linspace(1, 0.2, N_BASIS))
    s = rng.uniform(1, 20, n_sets)
    sets = sw.Sets.from_arrays(np.zeros((n_sets, 1, 1)))
    pool = Pool(sets, prepared_model().fitted().basis, Design(u, s, s))
    hyper = Hyperparameters(1.0, 10.0)
    prior = condition(decompose(pool.design.rows([]), np.empty((0, 1))), hyper)
    free = np.ones(n_sets, dtype=bool)

    def ours() -> list[int]:
        return batches.joint(sw.ACQUISITIONS["AggMI"], pool, prior, free, BATCH)

    if find_spec("bmdal_reg") is None or find_spec("torch") is None:
        note = "bmdal_reg is not installed: pip install bmdal_reg"
        spent = in_turns({"ours": ours}, 3).median("ours")
        return Row(f"joint batch of {BATCH}", f"{n_sets:,} sets", f"{spent:.2f} s", note=note)
    theirs = _maxdet(u * np.sqrt(10.0 / s)[:, None])
    np.testing.assert_equal(ours(), theirs())
    times = in_turns({"ours": ours, "maxdet": theirs}, 3)
    return faster(
        f"joint batch of {BATCH}",
        f"{n_sets:,} sets",
        times.median("ours"),
        "bmdal_reg's maxdet",
        times.median("maxdet"),
        times.ratio("maxdet", "ours"),
        at_least=1,
        note="The same sets are picked, in the same order.",
    )


def _maxdet(rows: np.ndarray) -> Callable[[], list[int]]:
    """bmdal_reg on rows √(β/λs) u: the determinant that it maximises is that of our batch."""
    vars(np)["Inf"] = np.inf  # which it still uses, and NumPy 2 has not
    import torch
    from bmdal_reg.bmdal.feature_data import TensorFeatureData
    from bmdal_reg.bmdal.feature_maps import IdentityFeatureMap
    from bmdal_reg.bmdal.features import Features
    from bmdal_reg.bmdal.selection import MaxDetSelectionMethod

    torch.set_num_threads(1)
    held = torch.from_numpy(rows)

    def features(data: Any) -> Any:
        return Features(IdentityFeatureMap(N_BASIS), TensorFeatureData(data))

    def select() -> list[int]:
        method = MaxDetSelectionMethod(
            features(held), features(held[:0]), sel_with_train=False, noise_sigma=1.0, verbosity=0
        )
        return method.select(BATCH).tolist()

    return select


# --- a cluster ------------------------------------------------------------------------------------


def _two_workers(folder: Path, n_sets: int) -> list[Row]:
    with _cluster() as client:
        return [_embedding_on(client, folder, n_sets), *_asking_on(client, folder, n_sets)]


@contextmanager
def _cluster() -> Iterator[Any]:
    """Two workers of a thread each."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def alone(folder: Path, n_sets: int) -> list[Row]:
    """The rows of the defaults and of two workers that ask, and no others; files are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / f"{n_sets}.parquet").exists():
        write_files(folder, n_sets)
    rows = _defaults(folder, (n_sets,))
    with _cluster() as client:
        return rows + _asking_on(client, folder, n_sets)


def _asking_on(client: Any, folder: Path, n_sets: int) -> list[Row]:
    """A question with the defaults, and the status, on two workers with a core each, and here on
    one core; by the clock, since processes wait for one another."""
    from sumwise import distributed

    say(f"scale: questions on {n_sets:,} sets, on one core and on two Dask workers")
    cores = sorted(os.sched_getaffinity(0))
    for core, worker in zip(cores, client.scheduler_info()["workers"], strict=False):
        client.run(_use_only, [core], workers=[worker])
    (ids, totals), made = _totals(folder, n_sets), _design_of(folder, n_sets, "auto")
    learners = [sw.ActiveLearner(made), sw.ActiveLearner(made, run=distributed.on(client))]
    asked, looked = list[list[float]](), list[list[float]]()
    for learner in learners:
        learner.tell_many(ids[:ANSWERS], totals[:ANSWERS])
    for at in range(ANSWERS, len(ids)):
        for learner in learners:
            learner.tell(ids[at], totals[at])
        times, asks = _clocked(learners, cores, lambda learner: learner.propose(1)[0])
        np.testing.assert_equal(asks[1].set_id, asks[0].set_id)
        np.testing.assert_allclose(asks[1].score, asks[0].score, rtol=1e-9)
        asked.append(times)
    for _ in range(3):
        times, found = _clocked(learners, cores, lambda learner: learner.status())
        left = [status.information_left for status in found]
        np.testing.assert_allclose(left[1], left[0], rtol=1e-9)
        looked.append(times)
    load = (
        "By the clock. A worker has a core and a thread, and the one process a core and a thread, "
        f"too. Load {os.getloadavg()[0]:.1f} at the end."
    )
    return [
        faster(
            f"{what} on two Dask workers, the defaults",
            f"{n_sets:,} sets, {ANSWERS} answers",
            float(np.median(times[1:], axis=0)[1]),  # files are in no cache at first
            "one process on one core",
            float(np.median(times[1:], axis=0)[0]),
            float(np.median([here / there for here, there in times[1:]])),
            at_least=1.6 if n_sets == SIZES[-1] else None,
            note=load,
        )
        for what, times in (("a further question", asked), ("status", looked))
    ]


def _clocked(
    learners: list[sw.ActiveLearner], cores: list[int], look: Callable[[Any], Any]
) -> tuple[list[float], list[Any]]:
    """Seconds for a look at each learner, the first with one core, and what was seen."""
    times, seen = [], []
    for learner, own in zip(learners, (cores[:1], cores), strict=True):
        _use_only(own)
        start = time.perf_counter()
        seen.append(look(learner))
        times.append(time.perf_counter() - start)
    return times, seen


def _use_only(cores: list[int]) -> None:
    os.sched_setaffinity(0, cores)


def _embedding_on(client: Any, folder: Path, n_sets: int) -> Row:
    """Reading and embedding on two processes against one, one thread each, by the clock."""
    from sumwise import distributed

    say(f"scale: {n_sets:,} sets on one process and on two Dask workers")
    scan, model = scan_of(folder, n_sets), prepared_model()
    alone, spread = [], []
    far = near = None
    for number in range(4):
        for times, where in ((alone, lambda job, jobs: map(job, jobs)), (spread, None)):
            out = folder / f"out-{'near' if where else 'far'}"
            shutil.rmtree(out, ignore_errors=True)
            start = time.perf_counter()
            made = model.embed(scan, out, run=where or distributed.on(client))
            times.append(time.perf_counter() - start)
            near, far = (made, far) if where else (near, made)
        if number == 0:  # compiling, and caches of files
            alone.clear()
            spread.clear()
    assert near is not None
    assert far is not None
    np.testing.assert_allclose(far.own_pool.design.u, near.own_pool.design.u, rtol=0, atol=1e-10)
    ratio = float(np.median(np.array(alone) / np.array(spread)))
    return faster(
        "reading and embedding on two Dask workers, float64",
        f"{n_sets * SET_SIZE:,} instances",
        float(np.median(spread)),
        "one process",
        float(np.median(alone)),
        ratio,
        at_least=1.4,
        note=f"By the clock, on {os.cpu_count()} cores; load {os.getloadavg()[0]:.1f} at the end.",
    )


if __name__ == "__main__":
    place, count = Path(sys.argv[2]), int(sys.argv[3])
    if sys.argv[1] == "questions":
        print(table(alone(place, count)))
        sys.exit()
    if sys.argv[1] == "report":
        _report(place, count)
    else:
        prepared_model().embed(scan_of(place, count), place / "peak", dtype="float32")
    print(_status("VmHWM") / 1e9)
