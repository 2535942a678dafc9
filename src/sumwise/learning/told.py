"""Answers as users tell them, checked in the same way for a learner and for a study."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sumwise.data import validate
from sumwise.data.about import About
from sumwise.data.known import Known
from sumwise.data.matching import by_id
from sumwise.data.sets import Sets
from sumwise.errors import LabelError, SettingError, SumwiseError
from sumwise.learning import rules
from sumwise.learning.parts import rows_of, sampling_noise, share_of, some_members
from sumwise.learning.propose import Answer
from sumwise.model.fit import Model
from sumwise.model.generalised.likelihoods import LIKELIHOODS
from sumwise.model.generalised.refusals import check_total, refuse_noise
from sumwise.util.shapes import PerSet
from sumwise.util.text import sentence

Place = Callable[[int], str]  # where an answer of many comes from, in words


class Told(NamedTuple):
    """An answer as it was told."""

    set_id: Hashable
    y_bar: Any
    noise_std: Any = None
    of: Any = None  # names of members
    covers: Any = None  # a share of the set
    by: Any = None
    note: Any = None

    @property
    def keeps_noise(self) -> bool:
        """Whether a corrected answer has the noise that it had."""
        return self.noise_std is None and self.covers is None


class Measured(NamedTuple):
    """What is measured, of which sets."""

    sets: Sets
    about: About
    in_files: bool = False  # whether the individuals stay in their files
    planned: PerSet | None = None  # known noise of answers of which none is said

    def checked(self, told: Told, former: Callable[[int], Answer | None] | None = None) -> Answer:
        """The answer, if it can be; one for a share of a set is scaled up.

        Args:
            former: Gives the answer of a set by its position, if that is to be corrected.
        """
        position = self.sets.position(told.set_id)
        own = self.sets.ids[position]  # 4.0 finds the set 4, and is not its name
        noise = None if told.noise_std is None else validate.noise(told.noise_std, own)
        if noise is None and former is None and self.planned is not None:
            noise = float(self.planned[position])
        new = Answer(
            number=0,
            set_id=own,
            y_bar=validate.total(told.y_bar, own),
            noise_std=noise or None,
            by=validate.text(told.by, "by"),
            note=validate.text(told.note, "note"),
            position=position,
        )
        new = self._covering(new, told, former)
        if self.about.bounded:
            one = some_members(self.sets, [new])
            self.about.check(new.y_bar, new.noise_std, one, new.of is None)
        self.refuse_odd(new)
        return new

    def refuse_odd(self, new: Answer) -> None:
        """Refuse what no counts, shares or amounts add up to, and noise of plain numbers."""
        outputs = self.about.outputs
        if outputs == "numbers":
            return
        if new.noise_std:
            refuse_noise(outputs)
        if new.covers is not None:
            raise SettingError(
                f"covers scales a total up, and {outputs} are counted: name the members that were "
                "(of, --of in the shell), which have exposures of their own"
            )
        exposure = float(some_members(self.sets, [new]).theta.sum())
        check_total(LIKELIHOODS[outputs], new.set_id, new.y_bar, exposure)

    def all_checked(self, many: Sequence[Told], where: Place) -> list[Answer]:
        """Many answers; a refusal says where it is."""
        found = []
        for number, told in enumerate(many):
            try:
                found.append(self.checked(told))
            except SumwiseError as error:
                raise refusal(error, where(number)) from None
        return found

    def _covering(
        self, new: Answer, told: Told, former: Callable[[int], Answer | None] | None
    ) -> Answer:
        """The answer with the part of its set that it covers; a share is scaled up."""
        if told.of is not None and told.covers is not None:
            raise SettingError("give `of`, members by name, or `covers`, a share; not both")
        if told.of is not None:
            if self.in_files:
                raise SettingError(
                    "the individuals of these sets stay in their files, where members have no "
                    "numbers; give the share that was measured (covers)"
                )
            return replace(new, of=rows_of(self.sets, new.position, told.of))
        if told.covers is None:
            known = None if former is None else former(new.position)
            if known is None or known.covers is None:
                return new if known is None else replace(new, of=known.of)
            raise SettingError(
                f"the answer of set {new.set_id!r} was scaled up from a share of {known.covers:g}. "
                f"Say what the new total covers (covers, --covers in the shell): {known.covers:g}, "
                "or 1 if it is that of the whole set"
            )
        part = share_of(told.covers, int(self.sets.sizes[new.position]), new.set_id)
        if part is None:
            return new
        up = 1.0 if self.about.weights == "mean" else part  # a mean is not scaled
        noise = None if new.noise_std is None else new.noise_std / up
        total = validate.total(new.y_bar / up, new.set_id)
        return replace(new, y_bar=total, noise_std=noise, covers=part)


def check_known(sets: Sets, known: Sequence[Known], about: About) -> None:
    """Refuse totals known from the start that could not be told."""
    for each in known if about.outputs != "numbers" else ():
        at = sets.position(each.set_id)
        new = Answer(0, each.set_id, each.y_bar, noise_std=each.noise_std, position=at)
        Measured(sets, about).refuse_odd(new)


def with_sampling_noise(
    new: Sequence[Answer], sets: Sets, model: Callable[[], Model]
) -> list[Answer]:
    """New answers; those that were scaled up from a share get the noise of that.

    Args:
        model: Gives the model after the answers so far and the new ones (`together`).
    """
    if all(each.covers is None for each in new):
        return list(new)
    fitted = model()

    def noisy(each: Answer) -> Answer:
        if each.covers is None:
            return each
        noise = sampling_noise(fitted, sets.take([each.position]), each.covers)
        return replace(each, noise_std=math.hypot(noise, each.noise_std or 0.0))

    return [noisy(each) for each in new]


def together(answers: Sequence[Answer], new: Sequence[Answer]) -> tuple[Answer, ...]:
    """Answers so far, and new ones in place of those of the same sets."""
    last = {each.position: each for each in new}
    return (*(each for each in answers if each.position not in last), *last.values())


def listed(sets: Sets, set_ids: Any, y_bar: Any, **columns: Any) -> list[Told]:
    """Many answers of their columns: totals by id, or ids and totals in the same order."""
    if y_bar is None:
        named = by_id(set_ids, sets, "totals", LabelError)
        if named is None:
            raise SettingError("totals are missing; give y_bar, or a dict of totals by id")
        set_ids, y_bar = named
        if y_bar.ndim != 1:
            raise LabelError(
                f"the table of totals has {y_bar.shape[1]} columns beside ids; select one"
            )
    ids = validate.as_list(set_ids, "set_ids")
    if not ids:
        raise SettingError("no answers were given; give at least one set id and its total")
    totals = y_bar.tolist() if isinstance(y_bar, np.ndarray) and y_bar.ndim else y_bar
    known = {"y_bar": validate.as_list(totals, "y_bar"), **columns}
    every = [_column(name, values, len(ids)) for name, values in known.items()]
    return [
        Told(own, **dict(zip(known, row, strict=True)))
        for own, *row in zip(ids, *every, strict=True)
    ]


def not_yet_known(
    many: Sequence[Answer], answers: Sequence[Answer], where: Place
) -> Mapping[int, Answer]:
    """Those of many answers that are new, by the number of each; others than known are refused."""
    known = {answer.position: answer for answer in answers}
    fresh: dict[int, tuple[int, Answer]] = {}
    for number, new in enumerate(many):
        before = known.get(new.position)
        _, twice = fresh.setdefault(new.position, (number, new)) if before is None else (0, before)
        if rules.total(twice) != rules.total(new):
            error = rules.another_total(twice, new)
            if before is None:
                both = f"{rules.value(twice)} and with {rules.value(new)}"
                error = LabelError(f"set {new.set_id!r} is there twice, with {both}; keep one")
            raise refusal(error, where(number))
    return dict(fresh.values())


def refusal(error: SumwiseError, place: str) -> SumwiseError:
    """The error with where in many answers it is."""
    return type(error)(f"{place}: {sentence(error)} Nothing was stored.")


def _column(name: str, values: Any, length: int) -> list[Any]:
    """One value for each answer; a single one stands for all."""
    if values is None or np.isscalar(values) or getattr(values, "ndim", 1) == 0:
        return [values] * length
    column = validate.as_list(values, name)
    if len(column) != length:
        raise SettingError(f"{name} has {len(column)} values for {length} sets; give one for each")
    return column
