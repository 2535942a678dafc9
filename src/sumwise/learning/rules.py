"""What a learner and a study refuse, in the same words."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from sumwise.errors import LabelError, SettingError
from sumwise.learning.propose import Answer
from sumwise.util.text import moment


def total(known: Answer) -> tuple[Any, ...]:
    """What makes two answers the same.

    Noise of a share that was measured follows from the answers at that time.
    """
    noise = known.noise_std if known.covers is None else None
    return known.y_bar, known.of, known.covers, noise


def noise_of(known: Answer, new: Answer, *, keep: bool) -> float | None:
    """Noise of a corrected answer: if it is kept, what it had, unless that was of a share."""
    return known.noise_std if keep and known.covers is None else new.noise_std


def another_total(known: Answer, new: Answer) -> LabelError:
    return LabelError(
        f"set {new.set_id!r} is measured already ({said(known)}), and this is another answer "
        f"({value(new)}). To correct it use amend, to withdraw it retract."
    )


def not_measured(set_id: Hashable, former: Sequence[Hashable] = ()) -> LabelError:
    """Refuse to change an answer that is not there; `former` sets of that name may have one."""
    was = f"; {former[-1]!r}, as it was before the pool changed, is" if former else ""
    return LabelError(f"set {set_id!r} is not measured yet{was}; record its total with tell")


def nothing_to_skip(set_id: Hashable) -> LabelError:
    return LabelError(
        f"set {set_id!r} is measured already, so there is nothing to skip; to take the answer back "
        "use retract"
    )


def not_skipped(set_id: Hashable) -> SettingError:
    return SettingError(f"set {set_id!r} is not skipped; there is nothing to undo")


def said(known: Answer) -> str:
    """A total, and in a study by whom and when."""
    return f"{value(known)}{signed(known)}"


def signed(known: Any) -> str:
    by = "" if known.by is None else f" by {known.by!r}"
    return f"{by} at {moment(known.at)}" if known.at else by


def value(known: Answer) -> str:
    noise = "" if known.noise_std is None else f" ± {known.noise_std:.12g}"
    some = "" if known.of is None else f" for {len(known.of)} of its individuals"
    return f"{known.y_bar:.12g}{noise}{some}"
