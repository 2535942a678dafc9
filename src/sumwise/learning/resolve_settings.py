"""The model and strategy that a learner or a study works with."""

from __future__ import annotations

from dataclasses import fields

from sumwise.acquisition.strategies import DEFAULT, Acquisition, named
from sumwise.data.sets import Sets
from sumwise.errors import SettingError
from sumwise.learning.estimator import AggregateRegressor
from sumwise.model import fit as core
from sumwise.model.basis import with_dropout
from sumwise.outofcore.design_store import Embedded, no_sets


def settle(
    sets: Sets | Embedded,
    model: AggregateRegressor | None,
    strategy: str | Acquisition | None,
    seed: int,
    preset: str | None,
) -> tuple[AggregateRegressor, str | Acquisition]:
    """The model and strategy that these arguments mean; what makes no sense is refused."""
    if isinstance(sets, Embedded):
        model, preset = _as_embedded(sets, model, preset), None
    elif not isinstance(sets, Sets):
        raise no_sets(sets)
    if preset is not None:
        if preset != "paper":
            raise SettingError(f"no preset is called {preset!r}; there is 'paper'")
        if model is not None or strategy is not None:
            raise SettingError("a preset brings its own model and strategy; give one or the other")
        core.check_seed(seed, "seed")
        model = AggregateRegressor("fourier", hyperparameters="adam", random_state=int(seed))
        strategy = "AggMI"
    core.check_seed(seed, "seed")
    if model is None:
        model = AggregateRegressor(random_state=int(seed))
    elif not isinstance(model, AggregateRegressor):
        raise SettingError(
            f"model is {model!r}; give an AggregateRegressor, for example "
            "AggregateRegressor('linear')"
        )
    model = AggregateRegressor(**model.get_params())  # the caller's stays theirs
    strategy = DEFAULT if strategy is None else strategy
    if named(strategy).needs_dropout:
        model.set_params(basis=with_dropout(model.basis, model.n_basis))
    return model, strategy


def _as_embedded(
    sets: Embedded, model: AggregateRegressor | None, preset: str | None
) -> AggregateRegressor:
    """The model that the sets were embedded with: its basis is settled."""
    own = AggregateRegressor(
        **{field.name: getattr(sets.config, field.name) for field in fields(sets.config)}
    )
    same = model is None or (
        isinstance(model, AggregateRegressor) and model.get_params() == own.get_params()
    )
    if preset is not None or not same:
        raise SettingError(
            f"these sets are embedded with {own!r}; leave model and preset out, or embed them anew "
            "with another model"
        )
    return own
