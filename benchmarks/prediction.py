"""Asking for better predictions: IVR against the same in scikit-activeml and BoTorch, and what
`basis="auto"` costs beside a fixed basis.

scikit-activeml fits its regressor anew for each candidate, BoTorch conditions on all of them in
one batch. With a Gaussian process of linear kernel and fixed λ and β both are after the same number
as IVR, and all must choose the same set.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import sumwise as sw
from benchmarks.report import Row, at_most, faster
from benchmarks.timing import in_turns, say
from sumwise.learning import algorithm
from sumwise.model.fit import ModelConfig
from sumwise.util.text import count

N_SETS, N_INPUTS, LABELS, TARGETS = 2000, 15, 10, 50
LAM, BETA = 1.0, 4.0
ROUNDS, QUESTIONS = 9, 20


def run(full: bool) -> list[Row]:
    del full
    return [*_against_peers(), *(_auto(strategy) for strategy in ("AggMI", "IVR"))]


def _against_peers() -> list[Row]:
    say(f"prediction: IVR on {N_SETS:,} sets, and the same by peers")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N_SETS, N_INPUTS))
    sets = sw.Sets(tuple(range(N_SETS)), x, np.ones(N_SETS), np.arange(N_SETS + 1))
    y = x @ rng.standard_normal(N_INPUTS) + rng.standard_normal(N_SETS) / BETA**0.5
    model = sw.AggregateRegressor("linear", hyperparameters=(LAM, BETA), standardize=False)
    model.fit(sets[:LABELS], y[:LABELS], pool=sets)
    free, targets = sets[LABELS:], x[-TARGETS:]

    def ours() -> object:
        return sw.select(free, model, "IVR", targets=targets)[0]

    rows = []
    seconds = in_turns({"sumwise": ours}, ROUNDS).median("sumwise")
    for name, peer, rounds, target in (
        ("skactiveml ExpectedModelVarianceReduction", _skactiveml, 1, 100),
        ("BoTorch qNegIntegratedPosteriorVariance", _botorch, 5, None),
    ):
        if ours() != LABELS + peer(x, y, targets):
            raise AssertionError(f"IVR and {name} choose different sets")
        slow = in_turns({name: partial(peer, x, y, targets)}, rounds).median(name)
        rows.append(
            faster(
                "expected drop of variance",
                f"{N_SETS:,} sets",
                seconds,
                name,
                slow,
                slow / seconds,
                at_least=target,
                note=f"All choose the same set; {count(rounds, 'run')} of the peer.",
            )
        )
    return rows


def _skactiveml(x: np.ndarray, y: np.ndarray, targets: np.ndarray) -> int:
    from skactiveml.pool import ExpectedModelVarianceReduction
    from skactiveml.regressor import SklearnNormalRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct

    kernel = ConstantKernel(1 / LAM, "fixed") * DotProduct(1.0, "fixed")  # 1 is the bias
    process = GaussianProcessRegressor(kernel, alpha=1 / BETA, optimizer=None)
    known = np.full(len(y), np.nan)
    known[:LABELS] = y[:LABELS]
    strategy = ExpectedModelVarianceReduction(random_state=0)
    regressor = SklearnNormalRegressor(process)
    return int(strategy.query(x, known, regressor, X_eval=targets)[0]) - LABELS


def _botorch(x: np.ndarray, y: np.ndarray, targets: np.ndarray) -> int:
    import torch
    from botorch.acquisition.active_learning import qNegIntegratedPosteriorVariance
    from botorch.models import SingleTaskGP
    from gpytorch.kernels import ConstantKernel, LinearKernel
    from gpytorch.means import ZeroMean

    torch.set_num_threads(1)
    every, labels = torch.from_numpy(x), torch.from_numpy(y[:LABELS, None])
    linear, bias = LinearKernel(), ConstantKernel()
    linear.variance, bias.constant = 1 / LAM, torch.tensor(1 / LAM)
    process = SingleTaskGP(
        every[:LABELS],
        labels,
        torch.full_like(labels, 1 / BETA),
        covar_module=linear + bias,
        mean_module=ZeroMean(),
        outcome_transform=None,
    )
    left = qNegIntegratedPosteriorVariance(process, torch.from_numpy(targets))
    with torch.no_grad():
        return int(left(every[LABELS:, None, :]).argmax())


def _auto(strategy: str) -> Row:
    """Milliseconds of a question with basis="auto", as a multiple of the fixed basis's."""
    n_sets = 10_000
    say(f"prediction: {QUESTIONS} questions by {strategy} on {n_sets:,} sets, fixed and auto basis")
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 20, n_sets)
    sets = sw.Sets.from_arrays([rng.standard_normal((n, 8)) for n in sizes])
    y = np.sin(sets.x[:, 0]) + sets.x[:, 1]
    y_bar = np.add.reduceat(y, sets.starts[:-1])
    begun = {b: algorithm.begin(ModelConfig(basis=b), sets) for b in ("fourier", "auto")}

    def questions(basis: str) -> algorithm.Progress:
        progress = begun[basis]
        for _ in range(QUESTIONS):
            at = sets.position(algorithm.ask(progress, strategy, 1, runner_up=True).open[0].set_id)
            progress = algorithm.tell(progress, at, float(y_bar[at]))
        return progress

    times = in_turns({b: lambda b=b: questions(b) for b in begun}, 3)
    ratio = times.ratio("auto", "fourier")
    shown = f"{1e3 * times.median('auto') / QUESTIONS:.0f} ms"
    note = f"A question by {strategy} with basis='auto' took {shown}; 10,000 sets, 20 labels."
    return at_most(
        f"auto against fixed basis, {strategy}", f"{n_sets:,} sets", ratio, 10, "{:.1f}×", note
    )
