"""The benchmark's exact Gaussian process against dense conditioning on all individuals."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm

import sumwise as sw
from sumwise.cli import main
from sumwise.experiments.protocol import EXACT


@pytest.fixture(scope="module", autouse=True)
def exact_gp():
    """The module; benchmarks must not choose the number of threads for other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUMWISE_BENCH_FREE_THREADS", "1")
        from benchmarks import exact_gp

    return exact_gp


LOG = np.log([0.7, 0.2, 0.9, 0.3, 0.4, 1.1, 0.6])  # c, g, v, σ², τ², ℓ₁, ℓ₂


def made_up():
    """Sets of several sizes with θ of both signs, their totals, and other individuals."""
    rng = np.random.default_rng(3)
    sizes = (1, 4, 7, 2, 5, 1, 3, 6, 2, 8)
    sets = sw.Sets.from_arrays(
        [rng.normal(2, 3, size=(n, 2)) for n in sizes],
        weights=[rng.normal(size=n) for n in sizes],
    )
    return sets, rng.normal(size=len(sizes)) * 5, rng.normal(2, 3, size=(6, 2))


def joint(sets, others):
    """Covariance of the outputs of all individuals, the others each of a set of their own."""
    every = np.concatenate([sets.x, others])
    x = (every - sets.x.mean(axis=0)) / sets.x.std(axis=0)
    owner = [a for a, n in enumerate(sets.sizes) for _ in range(n)]
    owner += range(len(sets), len(sets) + len(others))
    c, g, v, noise, effect, *lengths = np.exp(LOG)
    out = np.empty((len(x), len(x)))
    for i in range(len(x)):
        for j in range(len(x)):
            far = sum(((x[i, d] - x[j, d]) / lengths[d]) ** 2 for d in range(2))
            out[i, j] = c + g * x[i] @ x[j] + v * np.exp(-far / 2)
            out[i, j] += effect * (owner[i] == owner[j]) + noise * (i == j)
    sums = np.zeros((len(sets), len(x)))
    for n, theta in enumerate(sets.theta):
        sums[owner[n], n] = theta
    return out, sums


def test_predictions_are_those_of_dense_conditioning(exact_gp):
    sets, y_bar, others = made_up()
    covariance, sums = joint(sets, others)
    totals = exact_gp.measured(sets, y_bar, sets)
    mean, std = exact_gp.predict(LOG, totals, exact_gp.standardized(others, sets))
    gain = covariance @ sums.T @ np.linalg.inv(sums @ covariance @ sums.T)
    after = covariance - gain @ sums @ covariance
    assert_allclose(mean, (gain @ y_bar)[-6:], rtol=1e-9)
    assert_allclose(std, totals.unit * np.sqrt(np.diag(after)[-6:]), rtol=1e-9)


def test_the_posterior_is_that_of_the_totals_and_a_weak_prior_and_fitting_raises_it(exact_gp):
    sets, _, others = made_up()
    covariance, sums = joint(sets, others)
    normal = multivariate_normal(cov=sums @ covariance @ sums.T)
    totals = exact_gp.measured(sets, normal.rvs(random_state=0), sets)
    centre = np.array([0.0, *np.log([0.01, 0.1, 0.1, 0.01]), *[2**0.5 + np.log(2) / 2] * 2])
    prior = norm(centre, [2.0] * 5 + [3**0.5] * 2)
    density = normal.logpdf(totals.y_bar[: len(sets)])
    expected = density + np.sum(prior.logpdf(LOG) - prior.logpdf(centre))
    assert exact_gp.log_posterior(LOG, totals) == pytest.approx(expected, rel=1e-9)
    best = exact_gp.fit(totals)
    assert exact_gp.log_posterior(best, totals) > expected
    for parameter in range(len(best)):  # no step helps but one over a bound
        for step in (-0.1, 0.1):
            tried = best.copy()
            tried[parameter] += step
            low, high = np.log(exact_gp.VARIANCES if parameter < 5 else exact_gp.LENGTHS)
            if low <= tried[parameter] <= high:
                change = exact_gp.log_posterior(tried, totals)
                assert change <= exact_gp.log_posterior(best, totals) + 1e-5


@pytest.mark.slow  # its maths is quick
def test_it_becomes_a_column_of_the_table(tmp_path, monkeypatch, capsys):
    from benchmarks import wild

    out, few = tmp_path / "out", ["--datasets", "radon", "--splits", "1", "--queries", "2"]
    given = ["wild", *few, "--jobs", "1", "--out", str(out)]
    monkeypatch.setattr("sys.argv", given)
    wild.main()
    assert f"| fourier | {EXACT} |" in capsys.readouterr().out
    written = [(out / name).read_text() for name in ("runs.csv", "table.md")]
    assert written[0].count(f"radon,{EXACT},0,") == 1
    wild.main()
    again = CliRunner().invoke(main, ["reproduce", *given])
    assert again.exit_code == 0, again.output
    assert [(out / name).read_text() for name in ("runs.csv", "table.md")] == written
