"""Answers that cover a part of their set: some of its members by name, or a share of it.

The total of some members is that of a set with θ = 0 for all others, and is treated as just that;
of sets whose means are measured, it is the mean of these members, and θ is 1 over their number:
the design of such an answer is not that of its set (`design_of`), its other members are individuals
of a measured set whom its total does not contain.

Of a share c, nobody knows which members it covers. With these a random sample, total / c measures
the total of the set (and their mean the mean of it), with the noise of sampling without replacement

    (1 − c) / c · ‖θ‖² · S²

where S² is the variance of outputs within the set. The model knows no outputs, so S² is what it
expects it to be (`spread_within`), with members' features φ less their mean φ̄ over the set:

    E[S²] = Σ_n ((φ_n − φ̄)·m)² + (φ_n − φ̄)ᵀ S (φ_n − φ̄) over N − 1, plus 1/β
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sumwise.data.about import About
from sumwise.data.sets import Sets
from sumwise.data.validate import as_list, share
from sumwise.errors import DataError, LabelError, SettingError
from sumwise.learning.propose import Answer
from sumwise.model.basis import Scaled
from sumwise.model.design import Design, embed
from sumwise.model.fit import Model
from sumwise.model.predict import features_of
from sumwise.util.shapes import Bool, Float, Int
from sumwise.util.text import count, shown


def rows_of(sets: Sets, position: int, of: Any) -> tuple[int, ...] | None:
    """Numbers, from 1, of the members of a set that are named; None if these are all of them.

    Args:
        of: Ids of rows where the sets have them, otherwise numbers within the set from 1.
    """
    if isinstance(of, str | bytes):
        raise LabelError(f"of is {of!r:.60}; give a list of members, such as [{of!r:.60}]")
    own, wanted = sets.ids[position], as_list(of, "of")
    first, end = sets.starts[position : position + 2].tolist()
    if sets.row_ids is None:
        known: dict[Any, int] = {str(n): n for n in range(1, end - first + 1)}
        kind = f"row numbers from 1 to {end - first}"
    else:
        names = [shown(name) for name in sets.row_ids[first:end]]
        known = {name: n for n, name in enumerate(names, start=1)}
        if len(known) < len(names):
            raise LabelError(
                f"rows of set {own!r} have the same id more than once, so ids do not say which of "
                "them a total covers. Make a study with ids that differ."
            )
        kind = f"ids of its rows, such as {', '.join(names[:3])}"
    found = list[int]()
    for n, name in enumerate(wanted, start=1):
        text = shown(name.item() if isinstance(name, np.generic) else name)
        if text not in known:
            raise LabelError(
                f"of: {text!r:.60}, number {n} of those named, is not a member of set {own!r}; "
                f"give {kind}"
            )
        found.append(known[text])
    if not found:
        raise LabelError(f"of: no member of set {own!r} is named; give {kind}")
    if len(set(found)) < len(found):
        twice = next(name for n, name in zip(found, wanted, strict=True) if found.count(n) > 1)
        raise LabelError(f"of: {shown(twice)!r:.60} is named twice; name each member once")
    if not sets.theta[first + np.array(found) - 1].any():
        raise LabelError(f"of: the members of set {own!r} that are named have no weight in it")
    return None if len(found) == end - first else tuple(sorted(found))


def share_of(covers: Any, size: int, set_id: Hashable) -> float | None:
    """The share of a set that was measured; None for all of it."""
    found = share(covers, "covers")
    if found < 1 and size == 1:
        raise SettingError(
            f"set {set_id!r} has one individual, so no part of it was measured; leave covers out"
        )
    return None if found == 1 else found


def some_members(sets: Sets, answers: Sequence[Answer]) -> Sets:
    """The sets of these answers, with θ = 0 for members that an answer does not cover."""
    taken = sets.take([answer.position for answer in answers])
    if all(answer.of is None for answer in answers):
        return taken
    theta = taken.theta.copy()
    for a, answer in enumerate(answers):
        if answer.of is not None:
            own = theta[taken.starts[a] : taken.starts[a + 1]]
            if answer.of[-1] > len(own):
                raise DataError(
                    f"the answer of set {answer.set_id!r} covers row {answer.of[-1]}, and the set "
                    f"has {count(len(own), 'row')}; restore the study from a copy"
                )
            mean = (own == 1 / len(own)).all()
            own[np.setdiff1d(np.arange(len(own)), np.array(answer.of) - 1)] = 0.0
            if mean:  # what was measured is the mean of those whom it covers
                own[own != 0] = 1 / len(answer.of)
    return replace(taken, theta=theta)


def rows_with(sets: Sets, kept: Bool[np.ndarray, " N"]) -> Sets:
    """The sets with some of their rows, of which each has one."""
    if kept.all():
        return sets
    starts = np.concatenate([[0], np.cumsum(kept)])[sets.starts]
    return Sets(sets.ids, sets.x[kept], sets.theta[kept], starts, sets.input_names)


def covered(sets: Sets) -> Sets:
    """Sets of `some_members` without those whom answers do not cover."""
    return rows_with(sets, sets.theta != 0)


def not_covered(sets: Sets, answers: Sequence[Answer]) -> tuple[Int[np.ndarray, " r"], Sets]:
    """Numbers of the answers that cover a part of their set, and the other members of these."""
    at = np.array([a for a, answer in enumerate(answers) if answer.of is not None])
    some = [answers[a] for a in at]
    whole = sets.take([answer.position for answer in some])
    return at, rows_with(whole, some_members(sets, some).theta == 0)


def in_whole_sets(sets: Sets, answers: Sequence[Answer]) -> Float[np.ndarray, " t"]:
    """Σ θ_set θ_answer over the members that each answer covers."""
    some, whole = some_members(sets, answers), sets.take([a.position for a in answers])
    return np.asarray(np.add.reduceat(some.theta * whole.theta, some.starts[:-1]))


def weights_in_totals(
    sets: Sets,
    answers: Sequence[Answer],
    which: Int[np.ndarray, " n"],
    theta: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """θ of some rows, each in the total of its own set; 0 where that does not cover it.

    Args:
        theta: Of these rows.
    """
    partial = [answer for answer in answers if answer.of is not None]
    if not partial:
        return theta
    theta, some = theta.copy(), some_members(sets, partial)
    for a, answer in enumerate(partial):
        first, end = sets.starts[answer.position : answer.position + 2]
        mine = (which >= first) & (which < end)
        theta[mine] = some.theta[some.starts[a] + which[mine] - first]
    return theta


def design_of(
    rows: Callable[[list[int]], Design], sets: Sets, basis: Scaled, answers: Sequence[Answer]
) -> Design:
    """The design of answers, each of the members that it covers.

    Args:
        rows: Gives the design of whole sets by their positions.
    """
    design = rows([answer.position for answer in answers])
    at = [a for a, answer in enumerate(answers) if answer.of is not None]
    if not at:
        return design
    own = embed(some_members(sets, [answers[a] for a in at]), basis)

    def put(name: str) -> Any:
        values = getattr(design, name)
        if values is not None:
            values = np.array(values, dtype=np.float64)
            values[at] = getattr(own, name)
        return values

    return Design(put("u"), put("noise_scale"), put("theta_sum"), put("effect"))


def spread_within(model: Model, x: Float[np.ndarray, "N D"]) -> float:
    """The variance within a set that the model expects of its members' outputs."""
    phi, posterior = features_of(model, x), model.posterior
    phi = phi - phi.mean(axis=0)
    known = ((phi @ posterior.mean[:, 0]) ** 2).sum() + posterior.variance_along(phi).sum()
    own = 1 / posterior.noise_precision
    return float(posterior.output_scale[0] ** 2 * (known / (len(x) - 1) + own))


def sampling_noise(model: Model, one: Sets, covers: float) -> float:
    """Standard deviation of a set's total that is scaled up from a random share of its members."""
    squares = float(one.theta @ one.theta)
    return math.sqrt((1 - covers) / covers * squares * spread_within(model, one.x))


def part_in_words(of: Sequence[int] | None, covers: float | None, size: int) -> str | None:
    """What an answer covers, where it does not cover the whole set.

    >>> part_in_words((1, 3), None, 5), part_in_words(None, 0.8, 5)
    ('2 of 5 individuals', 'from 80 % of the set')
    """
    if of is not None:
        return f"{len(of)} of {count(size, 'individual')}"
    return None if covers is None else f"from {100 * covers:.4g} % of the set"


def as_told(answer: Answer, sets: Sets, about: About) -> dict[str, Any]:
    """Columns of an answer as `tell` takes them: not scaled up, and without the noise of that."""
    told: dict[str, Any] = {"covers": answer.covers, "of": None}
    if answer.of is not None:
        first, own = int(sets.starts[answer.position]), sets.row_ids
        names = (shown(n if own is None else own[first + n - 1]) for n in answer.of)
        told["of"] = ";".join(names)
    elif answer.covers is not None:
        up = 1.0 if about.weights == "mean" else answer.covers
        told |= {"total": float(f"{answer.y_bar * up:.15g}"), "noise_std": None}
    return told
