"""What scikit-learn may route to methods of an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

T = TypeVar("T")
REQUESTS: Final = {  # what scikit-learn may route to a method
    "fit": ("groups", "sample_weight", "weights", "pool", "noise_std"),
    "predict": ("groups", "return_std", "return_cov", "include_noise"),
    "score": ("groups", "sample_weight", "weights"),
}


def requests_of(model: Any) -> Any:
    """What an estimator asks scikit-learn to route to it, as a `MetadataRequest`."""
    from copy import deepcopy

    from sklearn.utils.metadata_routing import MetadataRequest

    if "_metadata_request" in vars(model):
        return deepcopy(vars(model)["_metadata_request"])
    made = MetadataRequest(owner=type(model).__name__)
    for method, names in REQUESTS.items():
        for name in names:
            getattr(made, method).add_request(param=name, alias=None)
    return made


def request(model: T, method: str, wanted: Mapping[str, Any]) -> T:
    """The estimator, which asks from now on that these arguments are routed to a method."""
    from sklearn import get_config

    if not get_config()["enable_metadata_routing"]:
        raise RuntimeError(
            "scikit-learn routes nothing yet; call "
            "sklearn.set_config(enable_metadata_routing=True) first"
        )
    for name in wanted:
        if name not in REQUESTS[method]:
            raise TypeError(
                f"{method} has no argument {name!r} to route; it has {', '.join(REQUESTS[method])}"
            )
    requests = requests_of(model)
    for name, alias in wanted.items():
        getattr(requests, method).add_request(param=name, alias=alias)
    vars(model)["_metadata_request"] = requests
    return model
