"""Pools by design from candidates in Parquet files that need not fit in memory.

Features are never stored. The search looks at all rows a few times for each pool (one product with
all directions at once), and keeps the best few hundred of each look; what follows is in memory, and
the same as for candidates that are. Members of pools that are measured, or being measured, are read
once, because what is known of their noise enters. Beside that, a few bytes for each row are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from sumwise.acquisition.objective import read
from sumwise.acquisition.pool_rows import Candidates
from sumwise.data import validate
from sumwise.data.parquet import Scan
from sumwise.data.pool_rules import LABELS, PoolRules, read_rules
from sumwise.data.sets import Sets
from sumwise.data.targets import Targets, subsample
from sumwise.errors import SettingError
from sumwise.learning.estimator import AggregateRegressor, scan_for
from sumwise.learning.pools import (
    Among,
    Pools,
    Taken,
    Weighted,
    as_pools,
    design_from,
    earlier_sets,
    fitted_of,
    measured_in,
    money_in,
    people_of,
    refuse_model,
    rows_in,
    uses_in,
)
from sumwise.model.fit import Model
from sumwise.outofcore.candidates import Scanned
from sumwise.util.progress import Slow
from sumwise.util.shapes import Int

IN_MEMORY: Final = (*LABELS, "neighbours")  # rules that need a label of every candidate
LARGEST: Final = 10_000  # members of a pool
LOOKS: Final = 8  # at all rows, that a pool takes at most as a rule


def design_scanned(
    scan: Scan,
    model: AggregateRegressor,
    rules: Mapping[str, Any],
    *,
    n: int,
    strategy: str,
    pending: Sets | None,
    targets: Any,
    target_weights: Any,
    budget: float | None,
) -> Pools:
    """What `design_pools` does with rows of files; the size is among the rules."""
    fitted = fitted_of(model)
    scan, read_in, n = (
        scan_for(model, scan, fitted),
        _rules(scan.rows, rules),
        validate.count(n, "n"),
    )
    money, earlier = money_in(budget, read_in), earlier_sets(fitted, pending)
    refuse_model(strategy, fitted, read_in)
    with Slow("designing pools", n * LOOKS * scan.rows) as slow:
        done = [0, 0]  # pools, and rows that were read for the next

        def looked(rows: int) -> None:
            done[1] += rows
            slow.at(done[0] * LOOKS * scan.rows + min(done[1], LOOKS * scan.rows - 1))

        def made(pools: int) -> None:
            done[:] = pools, 0
            looked(0)

        source = Scanned(scan, fitted.basis, len(fitted.posterior.mean), looked)
        known = _members(scan.rows, earlier)
        people = _people(source, known)
        aims = _targets(source, people, targets, target_weights)
        waiting = [] if pending is None else _numbered(known, rows_in(people, pending))
        told = _numbered(known, measured_in(people, fitted))
        taken = Taken(uses_in(len(source), [*told, *waiting]), np.ones(len(source), bool), waiting)
        among = _among(source, people, known, fitted, aims)
        found = design_from(among, fitted, strategy, read_in, taken, n=n, budget=money, told=made)
        rows = [np.array(pool.rows) for pool in found]
        known = np.unique(np.concatenate([*rows, [len(source) - 1]]))
        return as_pools(_people(source, known), found, earlier, read_in, known)


def _rules(n: int, rules: Mapping[str, Any]) -> PoolRules:
    for name in IN_MEMORY:
        if rules.get(name) is not None:
            raise SettingError(
                f"{name} needs every candidate at once, and these are on disk; read "
                "them into memory (a data frame or a Sets), or leave it out"
            )
    found = read_rules(n, None, rules)
    if found.size[1] > LARGEST:
        raise SettingError(
            f"size is {found.size}, and pools of candidates on disk have at most {LARGEST:,} "
            "members; name a smaller size, or read the candidates into memory"
        )
    return found


def _members(n: int, earlier: Sequence[Sets]) -> Int[np.ndarray, " k"]:
    """Numbers of those in earlier pools, and the last, from whom on numbers are free."""
    found = [each.members for each in earlier if getattr(each, "members", None) is not None]
    numbers = np.unique(np.concatenate([*found, [n - 1]]))
    return numbers[numbers < n]


def _people(source: Scanned, rows: Int[np.ndarray, " k"]) -> Sets:
    """Some candidates as one-instance sets."""
    x, names = source.individuals(rows)
    starts, ids = np.arange(len(rows) + 1), tuple(range(len(rows)))
    known = ids, x, np.ones(len(rows)), starts, source.scan.input_names
    return Sets(*known, rows.copy(), rows.copy(), source.scan.recipe, names)


def _numbered(known: Int[np.ndarray, " k"], pools: Sequence[Weighted]) -> list[Weighted]:
    return [(known[at], theta) for at, theta in pools]


def _targets(source: Scanned, people: Sets, targets: Any, weights: Any) -> Targets:
    """Those that are given; otherwise those that stand for all candidates."""
    if targets is None and weights is not None:
        raise SettingError(
            "target_weights without targets would be one for each candidate, and these are on "
            "disk; give the targets as well"
        )
    given = read(people, {"targets": targets, "target_weights": weights}, "design_pools").targets
    if given is not None:
        return given
    rows, share = subsample(len(source))
    return Targets(source.individuals(rows)[0], share, len(source))


def _among(
    source: Scanned,
    people: Sets,
    known: Int[np.ndarray, " k"],
    model: Model,
    targets: Targets,
) -> Among:
    """Candidates after the answers that the model knows."""
    pool = replace(people.pool(model), targets=targets)
    some = people_of(pool, model).some(np.arange(len(known)))
    held = Candidates.of(source, replace(some, rows=known, effects=known), None, source.n_basis)
    return Among(held, pool, lambda rows: _people(source, rows))
