"""`Study`: ask and tell over weeks, by several people, kept in a database.

What changes over time lives in the database alone: a `Study` object can be thrown away at any
moment, and any number of them may work on the same study. Questions are worked out without a lock
and claimed in a short transaction, if nothing has changed meanwhile; whoever is overtaken twice
works them out while holding the lock.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import Any

import numpy as np
import sqlalchemy as sa

from sumwise import model as core
from sumwise.errors import SettingError
from sumwise.estimator import AggregateRegressor
from sumwise.loop import settle
from sumwise.predictions import Predictions, check_level
from sumwise.questions import Question, Status, outlook, propose
from sumwise.sets import Sets
from sumwise.storage import arguments, chain, packing, records, rules
from sumwise.storage.database import Database
from sumwise.storage.records import Claim, Event, Kept, Snapshot, Told

OVERTAKEN = 2  # how often before the lock is held while thinking


def create_study(
    url: Any,
    sets: Sets,
    *,
    name: str | None = None,
    model: AggregateRegressor | None = None,
    strategy: str = "AggMI",
    seed: int = 0,
    preset: str | None = None,
    claim_days: float = 7.0,
) -> Study:
    """Begin a study and keep it: the sets, the settings, and what the basis has drawn.

    Args:
        url: The path of an SQLite file, which is made if it is not there, or
            `postgresql://user@host/database`. A database may hold several studies.
        name: Of the study; "study" if left out.
        model: An `AggregateRegressor`, whose settings are used.
        strategy: A name; see `sumwise.score`.
        seed: Of the strategy's draws, and of the basis if no model is given.
        preset: `"paper"` takes the paper's model and AggMI in one word.
        claim_days: How long a set stays with whoever asked for it.
    """
    named = "study" if name is None else arguments.text(name, "name")
    if not named or not named.strip():
        raise SettingError(f"name is {name!r}; give a study a name that can be seen")
    wanted = None if preset is not None and strategy == "AggMI" else strategy
    estimator, chosen = settle(sets, model, wanted, seed, preset)
    if not isinstance(chosen, str):
        raise SettingError(
            f"the strategy {chosen!r:.60} is code of yours, and a study is opened by people who do "
            "not have it. Use a strategy with a name; ActiveLearner takes any."
        )
    if not len(sets):
        raise SettingError("there are no sets; a study needs some to choose from")
    days = arguments.days(claim_days, "claim_days")
    config = estimator.config()
    settings = packing.pack_config(config)
    prepared = core.prepare(config, sets)
    packed = {"sets": packing.pack_sets(sets), "basis": packing.pack_prepared(prepared)}
    database = Database(url)
    try:
        database.ensure()
        with database.write() as connection:
            records.create(connection, named, packed, settings, chosen, seed, days)
        return _opened(database, named)
    except BaseException:
        database.close()
        raise


def open_study(url: Any, name: str | None = None) -> Study:
    """A study that was made before; the name may be left out if there is only one."""
    named = arguments.text(name, "name")
    database = Database(url)
    try:
        database.require()
        return _opened(database, named)
    except BaseException:
        database.close()
        raise


def _opened(database: Database, name: str | None) -> Study:
    with database.read() as connection:
        return Study(database, records.load(connection, name, database.shown))


class Study:
    """A study in a database; make one with `create_study` or `open_study`.

    The same answers in the same order give the same questions, whatever was restarted in between.

    >>> import tempfile, numpy as np, sumwise as sw
    >>> rng = np.random.default_rng(1)
    >>> sets = sw.Sets.from_arrays([rng.normal(size=(n, 2)) for n in (2, 5, 1, 3)])
    >>> path = tempfile.mkdtemp() + "/schools.db"
    >>> study = sw.create_study(path, sets, seed=0)
    >>> study.ask(by="ann").set_id
    1
    >>> study.tell(1, 12.5, by="ann")
    >>> study.close()
    >>> sw.open_study(path)
    Study 'study': 1 of 4 sets measured, 0 open questions, strategy 'AggMI'
    """

    def __init__(self, database: Database, kept: Kept) -> None:
        self._database = database
        self._kept = kept
        self._models = chain.Models(database, kept)

    # --- asking and telling -------------------------------------------------------------------

    def ask(self, n: int = 1, by: str | None = None) -> Any:
        """The set to measure next, or a list of `n` that are good together.

        Each is claimed by whoever asked until it is told, released, or expires. Questions are
        chosen as if all open ones were answered, so nobody is asked the same thing twice.
        """
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise SettingError(f"n is {n!r}; give a whole number of at least 1")
        owner = arguments.text(by, "by")
        claimed = None
        for _ in range(OVERTAKEN):
            seen = self._snapshot()
            questions = self._propose(seen, int(n))
            with self._database.write() as connection:
                claimed = rules.ask(connection, self._kept, seen, questions, owner)
            if claimed is not None:
                break
        else:
            with self._database.write() as connection:
                seen = records.snapshot(connection, self._kept, lock=True)
                questions = self._propose(seen, int(n), connection)
                claimed = rules.ask(connection, self._kept, seen, questions, owner)
        assert claimed is not None  # nobody can change what is locked
        return claimed[0] if n == 1 else claimed

    def tell(
        self,
        set_id: Hashable,
        y_bar: float,
        by: str | None = None,
        note: str | None = None,
        noise_std: float | None = None,
    ) -> None:
        """The measured total of a set, asked for or not; kept for good when this returns.

        Args:
            noise_std: Standard deviation of noise that this measurement is known to have beside
                that of its individuals, such as noise added for privacy.
        """
        own, value, noise = self._checked(set_id, y_bar, noise_std)
        who, why = arguments.text(by, "by"), arguments.text(note, "note")
        with self._database.write() as connection:
            rules.tell(connection, self._kept, own, value, noise, who, why)

    def amend(
        self,
        set_id: Hashable,
        y_bar: float,
        by: str | None = None,
        note: str | None = None,
        noise_std: float | None = None,
    ) -> None:
        """Correct an answer; without `noise_std` it keeps the noise it had, and 0 takes it away."""
        own, value, noise = self._checked(set_id, y_bar, noise_std)
        who, why = arguments.text(by, "by"), arguments.text(note, "note")
        with self._database.write() as connection:
            rules.amend(connection, self._kept, own, value, noise, noise_std is None, who, why)

    def retract(self, set_id: Hashable, by: str | None = None, note: str | None = None) -> None:
        """Take an answer back: its set may be asked for again, and history keeps what was said."""
        own, who, why = self._own(set_id), arguments.text(by, "by"), arguments.text(note, "note")
        with self._database.write() as connection:
            rules.retract(connection, self._kept, own, who, why)

    def release(self, set_id: Hashable, by: str | None = None) -> None:
        """Give a claimed set back, so that others may be asked for it."""
        own, who = self._own(set_id), arguments.text(by, "by")
        with self._database.write() as connection:
            rules.release(connection, self._kept, own, who)

    def renew(self, set_id: Hashable, days: float | None = None, by: str | None = None) -> str:
        """Hold a claimed set for some more days from now; gives the new time it expires."""
        own, who = self._own(set_id), arguments.text(by, "by")
        longer = self._kept.claim_days if days is None else arguments.days(days, "days")
        with self._database.write() as connection:
            return rules.renew(connection, self._kept, own, longer, who)

    # --- looking ------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._kept.name

    @property
    def sets(self) -> Sets:
        return self._kept.sets

    @property
    def answers(self) -> tuple[Told, ...]:
        """Answers as they stand, in order of arrival."""
        return self._snapshot().answers

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Open questions, in order of asking."""
        return self._snapshot().claims

    def history(self) -> tuple[Event, ...]:
        """Everything that ever happened, in order."""
        with self._database.read() as connection:
            return records.history(connection, self._kept)

    @property
    def model(self) -> AggregateRegressor:
        """The model after all answers so far; before the first, the prior."""
        fitted, _ = self._models.after(self._snapshot().answers)
        names = [field.name for field in dataclasses.fields(self._kept.config)]
        settings = {name: getattr(self._kept.config, name) for name in names}
        return AggregateRegressor(**settings).adopt(fitted, self.sets)

    def predict(self, frame: Any = None, level: float = 0.9) -> Predictions:
        """Outputs of individuals: of all in the study, set by set, or of the rows of a table.

        Args:
            frame: A data frame with the study's input columns, or an (n, D) array.
            level: Of the interval from `lower` to `upper`.
        """
        share, model = check_level(level), self.model
        owners = np.repeat(np.arange(len(self.sets)), self.sets.sizes)
        ids = None if frame is not None else tuple(self.sets.ids[a] for a in owners)
        if frame is None:
            fitted, x = model.fitted(), self.sets.x
            mean = core.predict_mean(fitted, x)[:, 0]
            std = core.predict_std(fitted, x, include_noise=True)[:, 0]
        else:
            mean, std = model.predict(frame, return_std=True)
        return Predictions.of(ids, mean, std, share)

    def predict_sets(self, level: float = 0.9) -> Predictions:
        """What measuring each set is expected to give, sets that are measured included."""
        share = check_level(level)
        fitted, pool = self._models.after(self._snapshot().answers)
        mean, std = core.predict_sets(fitted, pool.design, include_noise=True)
        return Predictions.of(self.sets.ids, mean[:, 0], std[:, 0], share)

    def status(self) -> Status:
        """Where the study stands, and how much there is still to learn."""
        seen, kept = self._snapshot(), self._kept
        fitted, pool = self._models.after(seen.answers)
        left = outlook(pool, fitted, kept.strategy, **self._asking(seen))
        counts = (len(self.sets), len(seen.answers), len(seen.claims), seen.questions)
        return Status(kept.name, kept.strategy, *counts, **left)

    def close(self) -> None:
        """Let go of the database; the study stays as it is."""
        self._database.close()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        seen = self._snapshot()
        return (
            f"Study {self.name!r}: {len(seen.answers)} of {len(self.sets)} sets measured, "
            f"{len(seen.claims)} open questions, strategy {self._kept.strategy!r}"
        )

    # --- helpers ------------------------------------------------------------------------------

    def _snapshot(self) -> Snapshot:
        with self._database.read() as connection:
            return records.snapshot(connection, self._kept)

    def _asking(self, seen: Snapshot) -> dict[str, Any]:
        return {
            "seed": self._kept.seed,
            "first": seen.questions,
            "answered": [answer.position for answer in seen.answers],
            "claimed": [claim.position for claim in seen.claims],
        }

    def _propose(
        self, seen: Snapshot, n: int, connection: sa.Connection | None = None
    ) -> list[Question]:
        fitted, pool = self._models.after(seen.answers, connection)
        return propose(pool, fitted, self._kept.strategy, n=n, **self._asking(seen))

    def _own(self, set_id: Hashable) -> Hashable:
        return self.sets.ids[self.sets.position(set_id)]  # 4.0 finds the set 4

    def _checked(
        self, set_id: Hashable, y_bar: Any, noise_std: Any
    ) -> tuple[Hashable, float, float | None]:
        own = self._own(set_id)
        value = arguments.total(y_bar, own)
        noise = None if noise_std is None else arguments.noise(noise_std, own)
        if noise and chain.learns(self._kept):
            raise SettingError(
                "known measurement noise (noise_std) works with a fixed basis, and this study has "
                "a neural one; leave it out"
            )
        return own, value, noise or None
