"""The model after some answers, and what was learned on the way there.

A model is a fold: each answer is fitted from where the one before has left λ, β and the basis.
That matters for `"adam"` and for bases that learn; then the state after each answer is kept under a
hash of the answers so far, and only what is missing is fitted. `"evidence"` with a fixed basis
depends on nothing but the answers.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import sqlalchemy as sa

from sumwise.data.sets import Sets
from sumwise.errors import StorageError
from sumwise.learning.propose import Answer
from sumwise.model import fit as core
from sumwise.model.basis import Scaled, Trainable
from sumwise.model.design import Pool, embed
from sumwise.model.fit import Model
from sumwise.model.posterior import Hyperparameters
from sumwise.study.storage import blobs, records
from sumwise.study.storage.database import Database
from sumwise.study.storage.records import StudyRecord
from sumwise.study.storage.schema import chain

SPARSELY = 10  # of what a basis has learned, every tenth state is kept, and the newest two


def keys(answers: Sequence[Answer]) -> list[str]:
    """A hash for no answers, for the first, the first two, and so on."""
    digest = hashlib.sha256(b"sumwise chain 1").hexdigest()
    out = [digest]
    for answer in answers:
        noise = "" if answer.noise_std is None else answer.noise_std.hex()
        link = f"{digest} {answer.position} {answer.y_bar.hex()} {noise}"
        digest = hashlib.sha256(link.encode()).hexdigest()
        out.append(digest)
    return out


def learns(kept: StudyRecord) -> bool:
    """Whether the basis changes with the answers."""
    return isinstance(kept.prepared.basis.basis, Trainable)


def quick(kept: StudyRecord) -> bool:
    """Whether a model depends on nothing but the answers, and is fitted at once."""
    return not learns(kept) and kept.config.hyperparameters != "adam"


class Models:
    """Models of one study; the latest one is remembered."""

    def __init__(self, database: Database, kept: StudyRecord) -> None:
        self._database = database
        self._kept = kept
        self._drawn: Pool | None = None
        self._latest: tuple[str, Model, Pool] | None = None

    def after(
        self, answers: Sequence[Answer], connection: sa.Connection | None = None
    ) -> tuple[Model, Pool]:
        """The model after these answers, and the sets as it sees them.

        Args:
            connection: A transaction that writes already, if there is one.
        """
        names, latest = keys(answers), self._latest
        if latest is None or latest[0] != names[-1]:
            begun = None
            if latest is not None and latest[0] in names:
                begun = names.index(latest[0]), latest[1]
            model = self._model(answers, names, begun, connection)
            pool = self._under(model) if learns(self._kept) else self.as_drawn()
            latest = self._latest = (names[-1], model, pool)
        return latest[1], latest[2]

    def along(self, answers: Sequence[Answer], lengths: Sequence[int]) -> Iterator[Model]:
        """The model after the first so many of these answers, for each of rising `lengths`.

        What a basis has learned is kept of every tenth answer only; it is learned again in between
        and not kept, so looking back changes nothing.
        """
        names, begun = keys(answers), None
        for length in lengths:
            seen = answers[:length], names[: length + 1]
            model = self._model(*seen, begun, None, keep=False)
            begun = length, model
            yield model

    def as_drawn(self) -> Pool:
        """The sets under the basis as it was drawn."""
        if self._drawn is None:
            kept = self._kept
            if kept.has_design:
                with self._database.read() as connection:
                    self._drawn = records.pool_of(connection, kept)
            else:
                design = blobs.embed_drawn(kept.sets, kept.config, kept.prepared)
                self._drawn = Pool(kept.sets, kept.prepared.basis, design)
        return self._drawn

    def _under(self, model: Model) -> Pool:
        return Pool(self._kept.sets, model.basis, embed(self._kept.sets, model.basis))

    def _model(
        self,
        answers: Sequence[Answer],
        names: Sequence[str],
        begun: tuple[int, Model] | None,
        connection: sa.Connection | None,
        *,
        keep: bool = True,
    ) -> Model:
        """The model after these answers, folded on from one after so many of them if need be."""
        if quick(self._kept):
            return self._fit(answers, None)
        done, model = (0, None) if begun is None else begun
        stored, learned = _longest(self._kept, names, done, self._database, connection)
        if learned is not None:
            done, model = stored, self._fit(answers[:stored], None, learned)
        if model is None:
            model = self._fit((), None)
        fresh: list[tuple[int, str, Model]] = []
        flushed = time.monotonic()
        for length in range(done + 1, len(answers) + 1):
            model = self._fit(answers[:length], model)
            fresh.append((length, names[length], model))
            if keep and (time.monotonic() - flushed > 1.0 or length == len(answers)):
                _save(self._kept, fresh, self._database, connection)
                fresh, flushed = [], time.monotonic()
        return model

    def _fit(
        self,
        answers: Sequence[Answer],
        start: Model | None,
        learned: tuple[Scaled, Hyperparameters] | None = None,
    ) -> Model:
        kept, at = self._kept, [answer.position for answer in answers]
        labelled: Sets | None = None
        if learns(kept):
            labelled = kept.sets.take(at)
            design = embed(labelled, kept.prepared.basis)
        else:
            design = self.as_drawn().design.rows(at)
        totals = np.array([answer.y_bar for answer in answers]).reshape(len(at), 1)
        noise = np.array([answer.noise_std or 0.0 for answer in answers])
        return core.fit(
            kept.config,
            kept.prepared,
            labelled,
            design,
            totals,
            start,
            noise_std=noise if noise.any() else None,
            learned=learned,
        )


def _longest(
    kept: StudyRecord,
    names: Sequence[str],
    beyond: int,
    database: Database,
    connection: sa.Connection | None,
) -> tuple[int, tuple[Scaled, Hyperparameters] | None]:
    """What was kept of the longest part of these answers, if it is longer than `beyond`."""
    if beyond == len(names) - 1:
        return beyond, None
    if connection is None:
        with database.read() as connection:
            return _longest(kept, names, beyond, database, connection)
    mine = (chain.c.study_id == kept.id) & (chain.c.length > beyond)
    known = sa.select(chain.c.key, chain.c.length).where(mine).order_by(chain.c.length.desc())
    for key, length in connection.execute(known).all():
        if length < len(names) and names[length] == key:
            here = (chain.c.study_id == kept.id) & (chain.c.key == key)
            row = connection.execute(sa.select(chain).where(here)).one()
            scaled = kept.prepared.basis
            if isinstance(scaled.basis, Trainable):
                scaled = replace(scaled, basis=scaled.basis.restored(bytes(row.basis)))
            return length, (scaled, Hyperparameters(row.prior_precision, row.noise_precision))
    return beyond, None


def _save(
    kept: StudyRecord,
    fresh: Sequence[tuple[int, str, Model]],
    database: Database,
    connection: sa.Connection | None,
) -> None:
    if connection is None:
        with suppress(StorageError), database.write() as connection:  # it can be worked out again
            records.state(connection, kept, lock=True)  # before rows that the lock's holder wants
            _save(kept, fresh, database, connection)
        return
    for length, key, model in fresh:
        basis, hyper = model.basis.basis, model.posterior.hyper
        row = {
            "study_id": kept.id,
            "key": key,
            "length": length,
            "prior_precision": hyper.prior_precision,
            "noise_precision": hyper.noise_precision,
            "basis": basis.state() if isinstance(basis, Trainable) else None,
        }
        # somebody else may have been as quick; both are the same
        connection.execute(_insert(connection)(chain).values(row).on_conflict_do_nothing())
    old = (chain.c.length < fresh[-1][0] - 1) & (chain.c.length % SPARSELY != 0)
    learned = chain.c.basis.is_not(None)
    connection.execute(chain.delete().where((chain.c.study_id == kept.id) & old & learned))


def _insert(connection: sa.Connection) -> Any:
    """The dialect's own insert; only the one that is in use is imported."""
    return import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert
