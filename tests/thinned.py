"""Dropout networks by hand: what the tests of them share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import sumwise as sw
from sumwise import Neural
from tests.networks import layers_of, problem, run

THINNED = Neural(width=4, depth=2, n_basis=6, epochs=30, dropout=0.2, samples=8)
EXACT = replace(THINNED, dtype="float64", activation="tanh")
SETS, Y_BAR = problem()


def fit(settings=THINNED, y_bar=Y_BAR, **options):
    return sw.AggregateRegressor(settings, **options).fit(SETS, y_bar)


def parts_of(basis):
    """Layers, readout and level in double precision."""
    readout = np.array(basis.network.readout, dtype=float)
    return layers_of(basis.network.network), readout, float(basis.network.level)


def member(parts, row, activation, masks):
    """ŷ of one row by one thinned network: `masks`, one per layer, multiply its units."""
    layers, readout, level = parts
    return readout @ run(layers, row, activation, masks) + level


def members_by_hand(basis, x):
    """ŷ of every row (N) by every member (L)."""
    parts, activation = parts_of(basis), basis.settings.activation
    rows = []
    for row in x:
        each = []
        for number in range(basis.settings.samples):
            masks = [mask[number] for mask in basis.masks]
            each.append(member(parts, row, activation, masks))
        rows.append(each)
    return np.array(rows)


def outputs_by_hand(model, x):
    """The members' outputs in the user's units, for inputs standardised by hand."""
    fitted = model.fitted()
    inside = members_by_hand(fitted.basis.basis, (x - SETS.x.mean(axis=0)) / SETS.x.std(axis=0))
    return fitted.offset[0] + fitted.posterior.output_scale[0] * inside


def summed(sets, rows):
    """Σ_n θ_an of each row, a row per set."""
    out = []
    for a in range(len(sets)):
        here = range(sets.starts[a], sets.starts[a + 1])
        out.append(sum(sets.theta[n] * rows[n] for n in here))
    return np.array(out)
