"""The fixed problems as `sumwise` sees them."""

from __future__ import annotations

import numpy as np

from sumwise.data.sets import Sets
from sumwise.model import posterior
from sumwise.model.basis import Linear
from sumwise.model.design import Pool
from sumwise.model.generalised.averaging import Generalised
from sumwise.model.generalised.laplace import Posteriors, Priors, solve
from sumwise.model.generalised.likelihoods import LIKELIHOODS, Measured
from sumwise.model.generalised.tangent import Tangent, linearised, usual_noise
from tests.builders import unscaled
from tests.model.generalised.truth import Problem


def measured_of(known: Problem) -> Measured:
    return Measured(known.phi, known.exposure, known.starts, known.totals)


def solved(known: Problem) -> Posteriors:
    """The posterior under the problem's own hypothesis."""
    one = np.ones(1)
    priors = Priors(known.variances[None], known.alpha * one, known.kappa * one)
    return solve(LIKELIHOODS[known.kind], measured_of(known), known.level, priors)


def model_of(known: Problem) -> Generalised:
    measured, likelihood = measured_of(known), LIKELIHOODS[known.kind]
    return Generalised(likelihood, known.level, np.ones(1), solved(known), 0.0, measured)


def sets_of(known: Problem) -> Sets:
    parts = [slice(*ends) for ends in zip(known.starts[:-1], known.starts[1:], strict=True)]
    x = [known.phi[part, :-1] for part in parts]
    return Sets.from_arrays(x, [known.exposure[part] for part in parts])


def pool_of(known: Problem, asked: Problem) -> tuple[Pool, posterior.Posterior]:
    """Sets that might be measured next, and the posterior that strategies see."""
    model = model_of(known)
    tangent = Tangent(unscaled(Linear(), known.phi.shape[1] - 1), model)
    found = posterior.from_covariance(
        model.mean[:, None], model.covariance, (usual_noise(model), 0.0), np.ones(1)
    )
    sets = sets_of(asked)
    design = linearised(sets, tangent, found.noise_precision)
    return Pool(sets, tangent.as_basis, design), found
