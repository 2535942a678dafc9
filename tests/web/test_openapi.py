"""The API does what its OpenAPI document says, whatever it is sent."""

from __future__ import annotations

import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode

import sumwise as sw
from sumwise.web import create_app
from tests.builders import random_sets
from tests.marks import slow
from tests.web.designs import measure, sera

IDS = [
    "a/b",
    "<script>alert(1)</script>",
    'quote"s',
    "emoji 🐟",
    "\u202ertl",
    "a\nb",
    "7",
    " ",
    "x",
]
OPERATIONS = (
    "amend", "ask", "changePool", "claim", "downloadCsv", "downloadParquet", "downloadPlate",
    "getAnswers", "getChart", "getCode", "getEvents", "getHistory", "getIndividuals", "getNext",
    "getPicture", "getProof", "getSet", "getSets", "getSkips", "getStatus", "getStudy", "release",
    "renew", "retract", "skip", "tell", "unskip",
)  # fmt: skip


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """A small study with hostile ids, partly answered."""
    rng = np.random.default_rng(0)
    sets = random_sets([2, 1, 3, 2, 1, 2, 2, 1, 1], rng, ids=IDS)
    path = tmp_path_factory.mktemp("fuzz") / "a.db"
    with sw.create_study(path, sets, model=sw.AggregateRegressor("linear")) as study:
        for set_id in IDS[:4]:
            study.tell(set_id, float(rng.normal()))
        yield create_app(study)


@pytest.fixture(scope="module")
def pools(tmp_path_factory):
    """A study that designs its sets, with an answer, an open pool, and one that was given back."""
    study, level = sera(tmp_path_factory.mktemp("fuzz") / "b.db", n=60, design={"size": (1, 2)})
    with study:
        measure(study, level)
        study.release([study.ask(), study.ask()][0].set_id)
        yield create_app(study)


def operations_of(app):
    document = schemathesis.openapi.from_dict(app.openapi())
    document.app = app
    found = [result.ok() for result in document.get_all_operations()]
    return {operation.definition.raw["operationId"]: operation for operation in found}


@pytest.fixture(scope="module")
def operations(app):
    return operations_of(app)


def test_all_operations_are_tried(operations):
    assert sorted(operations) == sorted(OPERATIONS)


WITHOUT_ARGUMENTS = {"downloadCsv", "downloadParquet", "getSkips", "getStatus", "getStudy"}
QUICK = {"ask", "tell"}  # whose nonsense is tried before every merge
TRIED = [
    pytest.param(
        name,
        mode,
        marks=() if mode == GenerationMode.POSITIVE or name in QUICK else pytest.mark.slow,
    )
    for name in OPERATIONS
    for mode in GenerationMode
    if name != "getEvents"  # it never ends, and is looked at elsewhere
    and not (mode == GenerationMode.NEGATIVE and name in WITHOUT_ARGUMENTS)
]


@pytest.mark.parametrize(("name", "mode"), TRIED)
def test_everything_it_answers_is_documented(name, mode, app, operations):
    try_out(operations[name], mode, app)


OF_POOLS = (
    "ask", "downloadPlate", "getCode", "getHistory", "getIndividuals", "getPicture", "getSets",
    "getSkips", "getStatus", "getStudy", "release", "retract", "skip", "tell",
)  # fmt: skip


@pytest.mark.parametrize("name", ["claim", "getNext", "getSet", *slow(*OF_POOLS)])
def test_what_it_answers_of_pools_is_documented(name, pools):
    try_out(operations_of(pools)[name], GenerationMode.POSITIVE, pools)


def try_out(operation, mode, app):
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=min(25, settings.default.max_examples // 2),
        suppress_health_check=list(HealthCheck),
        deadline=None,
        derandomize=True,
    )
    def send(case):
        case.call_and_validate(
            base_url="http://127.0.0.1:8765",
            headers={"Authorization": f"Bearer {app.state.token}"},
        )

    send()
