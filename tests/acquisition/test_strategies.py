"""One record says everything of a strategy; tables elsewhere follow from it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sumwise as sw
from sumwise.acquisition.strategies import ACQUISITIONS, DEFAULT, Strategy, named
from sumwise.experiments import protocol, simulate

TABLE_3 = ("AggMI", "AggEnt", "MI", "Ent", "QBC", "EMCM", "Var", "MaxN", "MinN", "Rand")


@pytest.fixture
def one_more(monkeypatch):
    """A strategy of ours beside the others."""
    largest = ACQUISITIONS["MaxN"].score
    mine = Strategy("Mine", largest, "the group I like", "I like it")
    monkeypatch.setitem(ACQUISITIONS, "Mine", mine)  # type: ignore[arg-type]


def test_the_paper_compares_ten_strategies():
    assert protocol.STRATEGIES == TABLE_3
    assert list(simulate.STRATEGIES) == [*TABLE_3, "IVR", "EPIG"]


NEW = """
from types import SimpleNamespace
from sumwise.acquisition.strategies import ACQUISITIONS, Strategy
largest = ACQUISITIONS["MaxN"].score
ACQUISITIONS["Mine"] = Strategy("Mine", largest, "the group I like", "I like it")
from sumwise.experiments import protocol, simulate, simulation_page
print(*(method.name for method in protocol.RFF.methods))
print(*sorted(method.name for method in protocol.NEURAL.methods))
print(*simulate.STRATEGIES)
mine = SimpleNamespace(n_groups=30, file="f", data=SimpleNamespace(exposure=None, cost=None))
print(*simulate.experiment(mine, ["Mine"]).columns)
print(simulation_page.ACQUISITIONS["Mine"].asks_for)
"""


def test_a_new_strategy_stays_out_of_the_papers_table_and_can_be_simulated():
    """In a process of its own, since experiments read the table when they are imported."""
    done = subprocess.run([sys.executable, "-c", NEW], capture_output=True, text=True, check=True)
    paper, neural, simulated, planned, asks_for = done.stdout.splitlines()
    assert tuple(paper.split()) == TABLE_3
    assert neural.split() == sorted((*TABLE_3, "DAMI", "DAEnt"))
    assert simulated.split() == [*TABLE_3, "IVR", "EPIG", "Mine"]
    assert planned.split() == ["Rand", "Mine"]
    assert asks_for == "the group I like"


def test_a_new_strategy_asks_and_says_why(one_more):
    sets = sw.Sets.from_arrays([[[0.0]], [[1.0], [2.0]], [[3.0]]], ids="abc")
    ask = sw.ActiveLearner(sets, strategy="Mine").ask()
    assert ask.set_id == "b"
    assert "I like it." in ask.why


def test_records_can_be_indexed_called_and_passed_on():
    assert list(sw.ACQUISITIONS) == [*TABLE_3, "DAMI", "DAEnt", "IVR", "EPIG"]
    assert all(isinstance(strategy, sw.Acquisition) for strategy in sw.ACQUISITIONS.values())
    assert all(name == strategy.name for name, strategy in sw.ACQUISITIONS.items())
    assert named(sw.ACQUISITIONS["AggMI"]) is named("AggMI")
    assert DEFAULT in sw.ACQUISITIONS
    sets = sw.Sets.from_arrays([[[0.0]], [[1.0], [2.0]], [[3.0]]], ids="abc")
    by_name = sw.ActiveLearner(sets, strategy="AggMI").ask()
    assert sw.ActiveLearner(sets, strategy=sw.ACQUISITIONS["AggMI"]).ask() == by_name
