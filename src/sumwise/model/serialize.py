"""A model's settings and what its basis has drawn, as JSON and NumPy archives, and never pickle.

Everything that was drawn at random is kept as numbers, so that the same questions are asked after
NumPy has changed its generators.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np

from sumwise.data.sets import Sets
from sumwise.errors import DataError, SettingError
from sumwise.model import archives
from sumwise.model.basis import (
    Auto,
    Linear,
    Neural,
    Polynomial,
    RandomFourierFeatures,
    Scaled,
    Trainable,
    draw,
)
from sumwise.model.design import freeze
from sumwise.model.fit import ModelConfig, Prepared
from sumwise.model.posterior import Hyperparameters

# --- settings -------------------------------------------------------------------------------------


def pack_config(config: ModelConfig) -> str:
    """The model's settings as JSON; what only exists in somebody's program is refused."""
    settings = dataclasses.asdict(dataclasses.replace(config, basis=""))
    settings["basis"] = _basis_settings(config.basis)
    return json.dumps(settings)


def _basis_settings(basis: Any) -> Any:
    if isinstance(basis, Neural) and basis.network is None:
        plain = {f.name: getattr(basis, f.name) for f in dataclasses.fields(basis)}
        return {"neural": {name: value for name, value in plain.items() if value is not None}}
    if isinstance(basis, str):
        return basis
    raise SettingError(
        f"the basis {basis!r:.60} is code of yours, and a study is opened by people who do not "
        "have it. Use a basis with a name, or Neural without a network of your own; ActiveLearner "
        "takes any."
    )


def unpack_config(text: str) -> ModelConfig:
    try:
        settings = json.loads(text)
        if isinstance(settings["basis"], dict):
            settings["basis"] = Neural(**settings["basis"]["neural"])
        if isinstance(settings["hyperparameters"], list):
            settings["hyperparameters"] = tuple(settings["hyperparameters"])
        return ModelConfig(**settings)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(f"the study's model settings cannot be read ({error})") from error


# --- what was drawn -------------------------------------------------------------------------------


def pack_prepared(prepared: Prepared) -> bytes:
    """The basis as drawn, with the scaling of inputs and where Adam begins."""
    basis = prepared.basis.basis
    arrays = {
        "shift": prepared.basis.shift,
        "scale": prepared.basis.scale,
        "numbers": np.array(
            [prepared.power, prepared.start.prior_precision, prepared.start.noise_precision]
        ),
    }
    if isinstance(basis, RandomFourierFeatures):
        arrays |= {"frequencies": basis.frequencies, "phases": basis.phases}
    elif isinstance(basis, Auto):
        arrays |= {f"auto_{name}": values for name, values in basis.arrays().items()}
    elif isinstance(basis, Trainable):
        arrays["state"] = np.frombuffer(basis.state(), dtype=np.uint8)
    elif not isinstance(basis, Linear | Polynomial):
        raise SettingError(f"the basis {basis!r:.60} cannot be kept in a study")
    return archives.to_bytes(arrays)


def unpack_prepared(kept: bytes, config: ModelConfig, sets: Sets) -> Prepared:
    """What `pack_prepared` kept of a model with these settings on these sets."""
    arrays = archives.from_bytes(kept, "the study's basis")
    try:
        power, *start = arrays["numbers"].tolist()
        if "frequencies" in arrays:
            freeze(arrays["frequencies"], arrays["phases"])
            basis: Any = RandomFourierFeatures(arrays["frequencies"], arrays["phases"])
        elif "auto_frequencies" in arrays:
            auto = {key.removeprefix("auto_"): values for key, values in arrays.items()}
            basis = Auto.restored(auto)
        else:
            basis = draw(
                config.basis,
                sets,
                n_basis=config.n_basis,
                lengthscale=config.lengthscale,
                degree=config.degree,
                rng=np.random.default_rng(config.random_state),
            )
        if isinstance(basis, Trainable):
            basis = basis.restored(arrays["state"].tobytes())
        scaled = Scaled(basis, arrays["shift"], arrays["scale"])
        return Prepared(scaled, power, Hyperparameters(*start), sets.input_names)
    except (ValueError, TypeError, KeyError, OSError, EOFError) as error:
        raise DataError(f"the study's basis cannot be read ({error})") from error
