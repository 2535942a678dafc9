"""An experiment: methods on splits of data sets, query by query (§5.1–5.3).

All of `reproduce`, `simulate` and `demo` are values of `Experiment` and share what is here: splits,
seeds, the loop, and workers. Within a split every method sees the same sets, and methods with the
same model start from the same basis and hyperparameters. All randomness comes from the names
involved, so any run can be repeated alone, in any process, and gives the same figures. Where the
paper is silent, docs/reproduction.md says what we chose.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from sumwise.acquisition.objective import Objective
from sumwise.acquisition.strategies import Strategy, named
from sumwise.data.pool_rules import PoolRules
from sumwise.data.sets import Sets
from sumwise.errors import SettingError, SumwiseError
from sumwise.experiments import counted_data, designed, grouped_data, scores
from sumwise.experiments import datasets as paper_data
from sumwise.experiments.datasets import LIBSVM, NAMES, Dataset
from sumwise.experiments.readings import READINGS
from sumwise.learning import algorithm
from sumwise.model.basis import Neural, with_dropout
from sumwise.model.design import features
from sumwise.model.fit import ModelConfig
from sumwise.model.posterior import Hyperparameters
from sumwise.model.predict import predict_individuals, predict_mean
from sumwise.util.progress import quiet
from sumwise.util.shapes import Float, Int

QUERIES: Final = 30
SPLITS: Final = 50
TRAINING_SHARE: Final = 0.8
LARGEST_SET: Final = 20
INTERVAL: Final = NormalDist().inv_cdf(0.95)  # of 90 %: so many standard deviations either way

RunKey = tuple[str, str, int]  # data set, method, split


def seed_of(*names: object) -> int:
    """A seed that depends on the names alone."""
    text = "/".join(map(str, names)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big")


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Sets with totals to learn from, individuals to be tested on."""

    sets: Sets
    y_bar: Float[np.ndarray, " A"]
    x_test: Float[np.ndarray, "N D"]
    y_test: Float[np.ndarray, " N"]
    exposure: Float[np.ndarray, " N"] | None = None  # of the individuals of the test
    y: Float[np.ndarray, " N"] | None = None  # of those in sets, for measuring them otherwise
    natural: bool = False  # whether the sets exist in the world, and were not drawn
    group: Int[np.ndarray, " N"] | None = None  # of individuals of the test, where sets are natural
    cost: Float[np.ndarray, " A"] | None = None  # of measuring each set

    @property
    def guess_mse(self) -> float:
        """Of the training individuals' mean as every prediction; totals are sums."""
        if self.exposure is not None:
            rate = self.y_bar.sum() / self.sets.theta.sum()
            return float(np.mean((rate * self.exposure - self.y_test) ** 2))
        mean = self.y_bar.sum() / len(self.sets.x)
        return float(np.mean((mean - self.y_test) ** 2))


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One run: a method on a split of a data set, query by query."""

    dataset: str
    method: str
    split: int
    mse: Float[np.ndarray, " T"]
    seconds: Float[np.ndarray, " T"]  # to choose the set and learn from its total
    inside: Float[np.ndarray, " C"] = field(default_factory=lambda: np.empty(0))  # see `counted`
    chosen: tuple[int, ...] = ()  # positions of the sets, in order
    guess_mse: float = float("nan")  # as `Split` has it
    group_mse: Float[np.ndarray, " T"] = field(default_factory=lambda: np.empty(0))  # of means
    covered: tuple[float, ...] = ()  # in the end: shares of individuals and group means in 90 %
    paid: Float[np.ndarray, " T"] = field(default_factory=lambda: np.empty(0))  # so far

    @property
    def key(self) -> RunKey:
        return self.dataset, self.method, self.split


@dataclass(frozen=True, slots=True)
class Method:
    """A strategy that chooses sets for a model."""

    name: str  # at the head of its column
    strategy: str | Strategy
    model: Callable[[str, int], ModelConfig]  # of a data set and split
    start: Callable[[str, int], Hyperparameters] | None = None  # of Adam; None: as it is drawn
    measures: str = "sets"  # or "individuals", "pools" that it designs, or "random" pools


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is run: each method on each split of each data set."""

    name: str
    methods: tuple[Method, ...]
    datasets: tuple[str, ...] = NAMES
    splits: int = SPLITS
    queries: int = QUERIES
    weights: str = "sum"  # what a query tells of a set: its "sum" or "mean"
    seed: Callable[[str, str, int], int] = seed_of  # of a strategy's draws on a data set's split
    first: int = 0  # number of the first split
    checked: tuple[int, ...] = ()  # queries after which 90 % intervals are counted
    counted: tuple[str, ...] = ("inside",)  # what is found out after them, one after the other
    kind: Callable[[str], str] = lambda dataset: "numbers"  # of outputs; see `scores`
    load: Callable[[str, Path | None], Dataset] = paper_data.load
    split: Callable[[Dataset, int], Split] = field(default_factory=lambda: make_split)
    rules: PoolRules = designed.RULES  # of pools, where methods make them
    in_groups: bool = False  # means of groups and what intervals cover are found out as well
    budget: float | None = None  # to spend on measurements, in place of `queries`
    stops_early: bool = False  # with one set left, where there are fewer sets than queries
    beside: tuple[str, ...] = ()  # columns that the benchmarks may add to the results
    title: str = ""
    published: str = ""  # file with the paper's figures

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(method.name for method in self.methods)

    @property
    def numbers(self) -> range:
        """Of splits."""
        return range(self.first, self.first + self.splits)

    def only(self, names: Sequence[str]) -> Experiment:
        """The same with these of its methods, in its own order."""
        return replace(self, methods=tuple(m for m in self.methods if m.name in names))


# --- splits ---------------------------------------------------------------------------------------


def make_split(dataset: Dataset, number: int, largest_set: int = LARGEST_SET) -> Split:
    """Four fifths to learn from: of the groups where there are groups, else of the individuals."""
    rng = np.random.default_rng(seed_of(dataset.name, "split", number))
    if dataset.group is None:
        order = rng.permutation(len(dataset.y))
        n_train = round(TRAINING_SHARE * len(order))
        ends = np.cumsum(rng.integers(1, largest_set + 1, size=n_train))
        members = np.split(order[:n_train], ends[ends < n_train])  # the last is what is left
        test = order[n_train:]
    else:
        groups = rng.permutation(dataset.group.max() + 1)
        n_train = round(TRAINING_SHARE * len(groups))
        rows = np.argsort(dataset.group, kind="stable")
        bounds = np.searchsorted(dataset.group[rows], np.arange(len(groups) + 1))
        members = [rows[bounds[g] : bounds[g + 1]] for g in groups[:n_train]]
        test = np.flatnonzero(np.isin(dataset.group, groups[n_train:]))
    return _split(dataset, members, test)


def split_natural(dataset: Dataset, number: int) -> Split:
    """Four fifths of the groups to learn from, in the order in which the table has them."""
    assert dataset.group is not None
    groups = np.random.default_rng(number).permutation(dataset.group.max() + 1)
    known = np.isin(dataset.group, groups[: round(TRAINING_SHARE * len(groups))])
    in_order = dict.fromkeys(dataset.group[known].tolist())
    members = [np.flatnonzero(dataset.group == group) for group in in_order]
    return _split(dataset, members, np.flatnonzero(~known))


def _split(
    dataset: Dataset, members: Sequence[Int[np.ndarray, " n"]], test: Int[np.ndarray, " M"]
) -> Split:
    y_bar = np.array([dataset.y[rows].sum() for rows in members])
    e = dataset.exposure
    theta = None if e is None else [e[rows] for rows in members]
    sets = replace(Sets.from_members(dataset.x, members, theta), recipe=dataset.recipe)
    exposure = None if e is None else e[test]
    own = dataset.y[np.concatenate(members)]
    natural = dataset.group is not None
    there = None if dataset.group is None else dataset.group[test]
    cost = None
    if dataset.cost is not None and dataset.group is not None:
        cost = dataset.cost[dataset.group[[rows[0] for rows in members]]]
    tested = dataset.x[test], dataset.y[test], exposure
    return Split(sets, y_bar, *tested, own, natural, there, cost)


def averaged(split: Split) -> Split:
    """The split with the mean of each set as its output in place of the sum."""
    sizes = split.sets.sizes
    sets = replace(split.sets, theta=split.sets.theta / np.repeat(sizes, sizes))
    return replace(split, sets=sets, y_bar=split.y_bar / sizes)


# --- runs -----------------------------------------------------------------------------------------


def check_queries(queries: int, most: int, name: str) -> None:
    """Refuse more queries than there are sets to learn from."""
    if queries > most:
        raise SettingError(
            f"{queries} queries were wanted; give 1 to {most}, the sets of {name} to learn from"
        )


def run_all(
    experiment: Experiment,
    split_of: Callable[[str, int], Split],
    jobs: int = 1,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    have: Collection[RunKey] = (),
) -> Iterator[list[Curve]]:
    """Run every method on every split, in the order in which splits finish.

    The figures do not depend on `jobs`: each run is seeded by its names and keeps to one BLAS
    thread.

    Args:
        split_of: The split of a data set with a number; called in the process that runs it.
        on_progress: Called with (runs done, runs in all).
        have: Runs to leave out, because their results are known.
    """
    from joblib import Parallel, delayed

    tasks = []
    for number in experiment.numbers:
        for name in experiment.datasets:
            missing = [m for m in experiment.columns if (name, m, number) not in have]
            if missing:
                tasks.append((experiment.only(missing), name, number, split_of))
    total = len(experiment.datasets) * len(experiment.methods) * experiment.splits
    done = total - sum(len(task[0].methods) for task in tasks)
    on_progress(done, total)
    n_jobs = max(1, min(jobs, len(tasks)))
    workers: Any = Parallel(n_jobs, return_as="generator_unordered")
    try:
        for curves in workers(delayed(_run_task)(*task) for task in tasks):
            yield curves
            done += len(curves)
            on_progress(done, total)
    except BrokenProcessPool as error:
        raise SumwiseError(
            "a worker process died, perhaps for lack of memory. Finished runs are kept; repeat "
            "the command to continue, with fewer --jobs if needed."
        ) from error


def _run_task(
    experiment: Experiment, name: str, number: int, split_of: Callable[[str, int], Split]
) -> list[Curve]:
    from threadpoolctl import threadpool_limits

    if experiment.name == NEURAL.name:
        os.environ.setdefault("NPROC", "1")  # XLA's threads, counted when JAX is loaded
        Neural.require()  # loads the linear algebra that the next line limits
    with threadpool_limits(1), quiet():  # the last bit of a product depends on threads
        return run_split(experiment, name, number, split_of(name, number))


def run_split(experiment: Experiment, name: str, number: int, split: Split) -> list[Curve]:
    """Every method on one split; errors equal those of `ActiveLearner`, and are cheaper.

    Methods with the same model share the embedded sets and, where the basis does not learn, its
    values at the test inputs.
    """
    guess_mse, nothing = split.guess_mse, np.empty(0)
    split = averaged(split) if experiment.weights == "mean" else split
    begun: dict[ModelConfig, tuple[algorithm.Progress, Float[np.ndarray, "N K"]]] = {}
    curves = []
    for method in experiment.methods:
        strategy, config = named(method.strategy), method.model(name, number)
        if method.measures != "sets":
            curve = _measured_otherwise(experiment, method, name, number, split)
            curves.append(replace(curve, guess_mse=guess_mse))
            continue
        if strategy.needs_dropout:
            config = replace(config, basis=with_dropout(config.basis, config.n_basis))
        if config not in begun:
            first = algorithm.begin(config, split.sets)
            begun[config] = first, features(first.prepared.basis, split.x_test)
        progress, phi = begun[config]
        if split.cost is not None and strategy.is_gain:
            progress = replace(progress, objective=Objective(cost=split.cost))
        if method.start is not None:
            progress = _from_start(progress, method.start(name, number))
        seed = experiment.seed(name, strategy.name, number)
        given = experiment, Curve(name, method.name, number, nothing, nothing, guess_mse=guess_mse)
        curves.append(_one_by_one(*given, split, progress, phi, strategy, seed))
    return curves


def _one_by_one(
    experiment: Experiment,
    of: Curve,
    split: Split,
    progress: algorithm.Progress,
    phi: Float[np.ndarray, "N K"],
    strategy: Strategy,
    seed: int,
) -> Curve:
    """A strategy that asks for sets, learns from their totals, and is tested after each.

    Args:
        of: Names the run.
        phi: Features of the individuals of the test.
    """
    kind, queries = experiment.kind(of.dataset), experiment.queries
    if experiment.stops_early:
        queries = min(queries, len(split.sets) - 1)
    if experiment.budget is not None:
        queries = len(split.sets)
    checked = [min(query, queries) for query in experiment.checked]
    mse, seconds, group_mse, paid = np.empty((4, queries))
    inside: dict[int, tuple[float, ...]] = {}
    made = 0
    for query in range(queries):
        start = time.perf_counter()
        progress = algorithm.ask(progress, strategy, seed, runner_up=False)
        index = split.sets.position(progress.open[0].set_id)
        if split.cost is not None:
            paid[query] = split.cost[index] + (paid[query - 1] if query else 0.0)
            if experiment.budget is not None and paid[query] > experiment.budget:
                break
        made = query + 1
        progress = algorithm.tell(progress, index, float(split.y_bar[index]))
        seconds[query] = time.perf_counter() - start
        if kind != "numbers":
            mse[query] = scores.deviance(progress.model, split, kind)
            if made in checked:
                inside[made] = scores.checked(progress.model, split, kind)
            continue
        error = _predict(progress, split, phi) - split.y_test
        mse[query] = np.mean(error**2)
        if experiment.in_groups:
            group_mse[query] = np.mean(scores.by_group(error, split.group) ** 2)
        if made in checked:
            std = predict_individuals(progress.model, split.x_test)[1][:, 0]
            inside[made] = (float(np.mean(abs(error) <= INTERVAL * std)),)
    shares = np.array([inside[query] for query in checked]).T.ravel()
    chosen = tuple(progress.labels)
    curve = replace(of, mse=mse[:made], seconds=seconds[:made], inside=shares, chosen=chosen)
    if experiment.in_groups:
        covered = scores.covered(progress.model, split)
        curve = replace(curve, group_mse=group_mse[:made], covered=covered)
    return curve if split.cost is None else replace(curve, paid=paid[:made])


def _measured_otherwise(
    experiment: Experiment, method: Method, name: str, number: int, split: Split
) -> Curve:
    """A method that measures individuals, each once, or makes pools of them."""
    assert split.y is not None
    people = designed.singles(split.sets, natural=split.natural)
    if method.measures == "individuals":
        alone = replace(split, sets=people, y_bar=split.y)
        given = replace(method, measures="sets")
        (curve,) = run_split(replace(experiment, methods=(given,)), name, number, alone)
        return replace(curve, chosen=())
    config = method.model(name, number)
    strategy = None if method.measures == "random" else named(method.strategy).name
    rng = np.random.default_rng(experiment.seed(name, "pools", number))
    settings = strategy, experiment.queries, experiment.rules, rng
    told, model = designed.errors_of_pools(config, people, split.y, split, *settings)
    curve = Curve(name, method.name, number, *told[:2])
    if experiment.in_groups:
        curve = replace(curve, group_mse=told[2], covered=scores.covered(model, split))
    return curve


def _from_start(progress: algorithm.Progress, start: Hyperparameters) -> algorithm.Progress:
    """The same before any answer, with λ and β beginning here."""
    prepared, pool = replace(progress.prepared, start=start), progress.pool
    model = algorithm.fit_answers(prepared, pool.sets, pool.design.rows, ())
    return replace(progress, prepared=prepared, model=model)


def _predict(
    progress: algorithm.Progress, split: Split, phi: Float[np.ndarray, "N K"]
) -> Float[np.ndarray, " N"]:
    model = progress.model
    if model.basis is not progress.prepared.basis:
        return predict_mean(model, split.x_test, exposure=split.exposure)[:, 0]
    return model.offset[0] + model.posterior.output_scale[0] * (phi @ model.posterior.mean[:, 0])


# --- the paper's experiments, and ours beside them ------------------------------------------------


def paper_model(dataset: str, number: int) -> ModelConfig:
    """K = 128 Fourier features of length-scale 1, Adam from a random start; no scaling of ours."""
    seed = seed_of(dataset, "basis", number)
    return ModelConfig("fourier", hyperparameters="adam", standardize=False, random_state=seed)


def neural_model(dataset: str, number: int) -> ModelConfig:
    """A network of four layers, 32 hidden units and 128 outputs, trained along with λ and β."""
    return replace(paper_model(dataset, number), basis="neural")


def auto_model(dataset: str, number: int, outputs: str = "numbers") -> ModelConfig:
    """The library's default, drawn with the seed of the paper's basis."""
    seed = seed_of(dataset, "basis", number)
    return ModelConfig(basis="auto", random_state=seed, outputs=outputs)


def seeded_model(**settings: Any) -> Callable[[str, int], ModelConfig]:
    """A model as `ActiveLearner` makes it with the number of the split as its seed."""
    return lambda dataset, number: ModelConfig(random_state=number, **settings)


def wide_model(dataset: str, number: int) -> ModelConfig:
    """Fourier features whose length-scale grows with the number of inputs."""
    inputs = grouped_data.load(dataset).x.shape[1]
    return ModelConfig("fourier", lengthscale=2 * math.sqrt(inputs), random_state=number)


def model_of_kind(dataset: str, number: int) -> ModelConfig:
    """The default for counts, shares or amounts."""
    return ModelConfig(random_state=number, outputs=counted_data.KINDS[dataset])


def ones(dataset: str, number: int) -> Hyperparameters:
    """λ = β = 1."""
    return Hyperparameters(1.0, 1.0)


def uniform(dataset: str, number: int) -> Hyperparameters:
    """λ and β drawn uniformly between 0 and 1."""
    rng = np.random.default_rng(seed_of(dataset, "start", number))
    return Hyperparameters(*rng.uniform(size=2).tolist())


def methods_with(
    model: Callable[[str, int], ModelConfig], strategies: Sequence[str]
) -> tuple[Method, ...]:
    """Strategies with one model, each under its own name."""
    return tuple(Method(strategy, strategy, model) for strategy in strategies)


# Table 3's, in its order
STRATEGIES: Final = ("AggMI", "AggEnt", "MI", "Ent", "QBC", "EMCM", "Var", "MaxN", "MinN", "Rand")
RFF: Final = Experiment(
    "rff",
    methods_with(paper_model, STRATEGIES),
    title="The paper's table, run again",
    published="published_mse_rff.csv",
)
NEURAL: Final = Experiment(
    "neural",
    methods_with(neural_model, ("AggMI", "DAMI", "AggEnt", "DAEnt", *STRATEGIES[2:])),
    title="The paper's table with neural networks, run again",
    published="published_mse_neural.csv",
)
PAPER, OURS, RANDOM = "paper", "auto IVR", "auto Rand"
BEYOND: Final = Experiment(
    "beyond",
    (
        Method(PAPER, "AggMI", paper_model),
        Method(OURS, "IVR", auto_model),
        Method("auto EPIG", "EPIG", auto_model),
        Method("auto AggMI", "AggMI", auto_model),
        Method(RANDOM, "Rand", auto_model),
    ),
    splits=10,
    checked=(10, 20, 30),
    title="Beside the paper",
)
DESIGNED, GIVEN, ALONE = "designed IVR", "given IVR", "individual IVR"
POOLS: Final = Experiment(
    "pools",
    (
        Method(DESIGNED, "IVR", auto_model, measures="pools"),
        Method("designed AggMI", "AggMI", auto_model, measures="pools"),
        Method(GIVEN, "IVR", auto_model),
        Method("given AggMI", "AggMI", auto_model),
        Method("given Rand", "Rand", auto_model),
        Method(ALONE, "IVR", auto_model, measures="individuals"),
    ),
    datasets=tuple(LIBSVM),
    splits=10,
    title="Pools by design",
)
STARTS: Final = {"drawn": None, "ones": ones, "uniform": uniform}
FACTORIAL: Final = Experiment(
    "factorial",
    tuple(
        Method(f"{reading} {start}", strategy, paper_model, begin)
        for start, begin in STARTS.items()
        for reading, strategy in READINGS.items()
    ),
    datasets=tuple(LIBSVM),
    title="Readings of MI, Ent and Var, and of where Adam begins",
    published=RFF.published,
)
EXACT = "exact GP"
WILD: Final = Experiment(
    "wild",
    (
        Method(OURS, "IVR", seeded_model()),
        Method(RANDOM, "Rand", seeded_model()),
        Method("auto AggMI", "AggMI", seeded_model()),
        Method(PAPER, "AggMI", seeded_model(basis="fourier", hyperparameters="adam")),
        Method("linear", "IVR", seeded_model(basis="linear")),
        Method("fourier", "IVR", wide_model),
    ),
    datasets=grouped_data.NAMES,
    splits=10,
    seed=lambda dataset, strategy, number: number,
    checked=(5, 10, 20, 30),
    load=grouped_data.load,
    split=split_natural,
    stops_early=True,
    beside=(EXACT,),
    title="Natural groups",
)
NUMBERS = "numbers IVR"
COUNTS: Final = replace(
    WILD,
    name="counts",
    methods=(
        Method(NUMBERS, "IVR", seeded_model()),
        *methods_with(model_of_kind, ("IVR", "AggMI", "MaxN", "Rand")),
    ),
    datasets=counted_data.NAMES,
    first=10,  # others were used to choose the prior
    counted=("inside", "even", "loss"),
    kind=counted_data.KINDS.__getitem__,
    load=counted_data.load,
    beside=(),
    title="Counts, shares and amounts",
)
REPRODUCTIONS: Final = {
    each.name: each for each in (RFF, NEURAL, FACTORIAL, BEYOND, WILD, COUNTS, POOLS)
}
