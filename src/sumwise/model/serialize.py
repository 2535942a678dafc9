"""A model's settings as JSON, and what its basis has drawn as NumPy archives; never pickle.

Everything that was drawn at random is stored as numbers, so that a study asks the same questions
even if NumPy changes its generators.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from sumwise.data.sets import Sets
from sumwise.data.targets import Inputs
from sumwise.errors import DataError, SettingError
from sumwise.model.basis import Neural, Scaled, draw
from sumwise.model.design import freeze
from sumwise.model.fit import ModelConfig, Prepared
from sumwise.model.posterior import Hyperparameters

UNSAID: Final = {"outputs": "numbers", "spatial": "auto"}  # settings of later versions, by default

# --- settings -------------------------------------------------------------------------------------


def pack_config(config: ModelConfig) -> str:
    """The model's settings as JSON; an error if the basis exists only in the user's program."""
    basis: Any = config.basis
    if isinstance(basis, Neural) and basis.network is None:
        plain = dataclasses.asdict(basis)
        basis = {"neural": {name: value for name, value in plain.items() if value is not None}}
    elif not isinstance(basis, str):
        raise SettingError(
            f"the basis {basis!r:.60} is your own code, and others who open the study do not "
            "have it. Use a basis with a name, or Neural without a network of your own; "
            "ActiveLearner takes any."
        )
    plain = dataclasses.asdict(dataclasses.replace(config, basis="", spatial=None))
    settings = {**plain, "basis": basis, "spatial": config.spatial}
    same = {name for name, usual in UNSAID.items() if settings[name] == usual}
    return json.dumps({name: value for name, value in settings.items() if name not in same})


def unpack_config(text: str) -> ModelConfig:
    try:
        settings = json.loads(text)
        if isinstance(settings["basis"], dict):
            settings["basis"] = Neural(**settings["basis"]["neural"])
        if (settings["basis"], settings.get("hyperparameters")) == ("auto", "adam"):
            settings["hyperparameters"] = "evidence"  # former versions could search with Adam
        return ModelConfig(**settings)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(f"the study's model settings cannot be read ({error})") from error


# --- what was drawn -------------------------------------------------------------------------------


def pack_prepared(prepared: Prepared) -> bytes:
    """The basis as drawn, with the scaling of inputs and where Adam begins."""
    if not prepared.basis.built_in:
        raise SettingError(f"the basis {prepared.basis.basis!r:.60} cannot be kept in a study")
    start = prepared.start
    numbers = np.array([prepared.power, start.prior_precision, start.noise_precision])
    arrays = prepared.basis.arrays()
    scaling = {"shift": arrays.pop("shift"), "scale": arrays.pop("scale")}
    return to_bytes({**scaling, "numbers": numbers, **arrays})


def unpack_prepared(packed: bytes, config: ModelConfig, sets: Sets) -> Prepared:
    """The basis that `pack_prepared` packed, of a model with these settings on these sets."""
    arrays = from_bytes(packed, "the study's basis")
    try:
        power, *start = arrays["numbers"].tolist()
        freeze(*arrays.values())
        inputs = Inputs.of(np.zeros((1, sets.n_inputs)))  # only the kind of the basis matters here
        if sets.recipe is not None:
            inputs = replace(inputs, source=sets.recipe.source_of)
        blank = draw(config, sets, inputs, np.random.default_rng(config.random_state or 0))
        scaled = Scaled(blank, inputs.shift, inputs.scale).with_arrays(arrays)
        return Prepared(config, scaled, power, Hyperparameters(*start), sets.input_names)
    except (ValueError, TypeError, KeyError, OSError, EOFError) as error:
        raise DataError(f"the study's basis cannot be read ({error})") from error


# --- arrays ---------------------------------------------------------------------------------------


def to_bytes(arrays: Mapping[str, Any]) -> bytes:
    """A NumPy archive of these arrays, without pickle."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **{name: np.asarray(a) for name, a in arrays.items()})
    return file.getvalue()


def from_bytes(packed: bytes, what: str) -> dict[str, np.ndarray]:
    """The arrays that `to_bytes` packed; an error about `what` if they cannot be read."""
    try:
        with np.load(io.BytesIO(packed), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:  # NumPy and zipfile raise a dozen kinds on damaged bytes
        raise DataError(f"{what} cannot be read ({error})") from error
