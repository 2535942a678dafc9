"""What a hypothesis of a model of counts divides an individual's variance into."""

from __future__ import annotations

import numpy as np
import pytest

from sumwise.model.fit import ModelConfig
from sumwise.model.generalised.averaging import Hypothetical
from tests.builders import random_sets


@pytest.mark.parametrize("basis", ["linear", "fourier"])
@pytest.mark.parametrize("kind", ["counts", "amounts", "shares"])
def test_signal_noise_and_effects_are_all_of_the_variance(basis, kind):
    sets = random_sets([3, 2, 4], np.random.default_rng(0))
    prepared = ModelConfig(basis=basis, n_basis=16, random_state=0).prepare(sets)
    known = Hypothetical.of(prepared, kind)
    signal = known.variances[:, 0] * prepared.power
    np.testing.assert_allclose(signal + known.dispersion + known.effect, 1.0)
    for part in (signal, known.dispersion, known.effect):
        assert ((part > 0) & (part < 1)).all()
