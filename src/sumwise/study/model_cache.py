"""The model after some answers, and the states that were learned on the way there.

Each answer is fitted from where the one before has left λ, β and the basis. That matters for
`"adam"` and for bases that learn: then the state after each answer is stored under a hash of the
answers so far, and only what is missing is fitted. `"evidence"` with a fixed basis depends on
nothing but the answers.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cached_property

import numpy as np

from sumwise.data.sets import Sets
from sumwise.data.targets import thinned
from sumwise.errors import StorageError
from sumwise.learning.algorithm import fit_answers, quick
from sumwise.learning.designed import pool_of
from sumwise.learning.propose import Answer
from sumwise.model.basis import Scaled
from sumwise.model.design import Pool, add_products
from sumwise.model.fit import Model
from sumwise.model.posterior import Hyperparameters
from sumwise.study.storage import model_states, records
from sumwise.study.storage.database import Database
from sumwise.study.storage.model_states import ModelState
from sumwise.study.storage.records import StudyRecord


def keys(answers: Sequence[Answer]) -> list[str]:
    """A hash of no answers, of the first, of the first two, and so on."""
    digest = hashlib.sha256(b"sumwise chain 1").hexdigest()
    out = [digest]
    for answer in answers:
        noise = "" if answer.noise_std is None else answer.noise_std.hex()
        link = f"{digest} {answer.position} {answer.y_bar.hex()} {noise}"
        link += "" if answer.of is None else f" {answer.of}"
        digest = hashlib.sha256(link.encode()).hexdigest()
        out.append(digest)
    return out


class ModelCache:
    """Models of one study; the latest is remembered. Safe to use from several threads."""

    def __init__(self, database: Database, record: StudyRecord) -> None:
        self._database = database
        self._record = record
        self._learns = record.prepared.looks_at_individuals
        self._lock = threading.Lock()
        self._latest: tuple[str, Model, Pool] | None = None

    @property
    def quick(self) -> bool:
        """Whether a model depends on nothing but the answers, and is fitted at once."""
        return quick(self._record.prepared)

    def after(self, answers: Sequence[Answer], *, locked: bool = False) -> tuple[Model, Pool]:
        """The model after these answers, and the sets as it sees them.

        Args:
            locked: Whether the caller holds the study's lock. Then nothing is stored, and other
                threads are not waited for, as one of them may be waiting for that lock.
        """
        names = keys(answers)
        with nullcontext() if locked else self._lock:
            latest = self._latest
            if latest is None or latest[0] != names[-1]:
                start = None
                if latest is not None and latest[0] in names:
                    start = names.index(latest[0]), latest[1]
                model = self._fold(answers, names, start, store=not locked)
                pool = self.seen_by(model, latest)
                latest = self._latest = names[-1], model, pool
        return latest[1], latest[2]

    def seen_by(self, model: Model, before: tuple[str, Model, Pool] | None = None) -> Pool:
        """The sets as a model of this study sees them."""
        if not self._learns:
            return self._drawn
        sets, phi = self._record.sets, None if before is None else before[2].phi
        return self._of_pool(sets.pool(model) if phi is None else model.pool(sets, phi))

    def extended(self, record: StudyRecord) -> ModelCache:
        """The same for the study with pools that were designed since."""
        more, known = ModelCache(self._database, record), vars(self)
        if self._learns or "_drawn" not in known:
            return more
        new = record.sets.take(range(len(self._record.sets), len(record.sets)))
        more.__dict__["_drawn"] = pool_of(
            self._drawn, record.sets, new.pool(record.prepared).design
        )
        if "_people_drawn" in known:
            more.__dict__["_people_drawn"] = self._people_drawn
        latest = self._latest
        more._latest = None if latest is None else (*latest[:2], more._drawn)
        return more

    def people(self, model: Model) -> Pool:
        """The individuals that pools are designed of, as the model sees them."""
        assert self._record.designing is not None
        return self._record.designing.candidates.pool(model) if self._learns else self._people_drawn

    @cached_property
    def _people_drawn(self) -> Pool:
        designing, pool = self._record.designing, self._drawn
        assert designing is not None
        if not designing.alone:
            return designing.candidates.pool(self._record.prepared)
        rows = pool.design.rows(slice(designing.n_begun))
        return replace(pool, sets=designing.candidates, design=rows)

    def along(self, answers: Sequence[Answer], lengths: Sequence[int]) -> Iterator[Model]:
        """The models after the first n of these answers, for each n of rising `lengths`.

        States that are not stored are learned again and not stored, so looking back changes
        nothing.
        """
        names, start = keys(answers), None
        for length in lengths:
            model = self._fold(answers[:length], names[: length + 1], start, store=False)
            start = length, model
            yield model

    @cached_property
    def _drawn(self) -> Pool:
        """The sets under the basis as it was drawn."""
        record = self._record
        if not record.blobs.names & {"design", "rounded"}:
            return self._of_pool((record.embedded or record.sets).pool(record.prepared))
        with self._database.read() as connection:
            known = record.sets, record.prepared, record.pool
            return record.blobs.pool(connection, self._database, *known)

    def _of_pool(self, pool: Pool) -> Pool:
        """The same, aimed at individuals of the pool: those of retired sets do not count."""
        if not self._record.pool.retired or self._record.embedded is not None:
            return pool  # a design on disk represents those who are in the files
        x = self._people.own_x
        moment = None
        if not self._learns:
            moment = np.zeros((pool.design.n_basis,) * 2)
            add_products(x, pool.basis, moment)
            moment /= len(x)
        return replace(pool, targets=replace(thinned(x), everyone=len(x)), moment=moment)

    @cached_property
    def _people(self) -> Sets:
        return self._record.pool.sets(self._record.sets)

    def _fold(
        self,
        answers: Sequence[Answer],
        names: Sequence[str],
        start: tuple[int, Model] | None,
        *,
        store: bool,
    ) -> Model:
        """The model after these answers, going on from a start or from the longest stored state."""
        if self.quick:
            return self._fit(answers)
        known = 0 if start is None else start[0]
        stored = self._stored(answers, names, known)
        done, model = stored or start or (0, self._fit(()))
        fresh: list[ModelState] = []
        saved = time.monotonic()
        for length in range(done + 1, len(answers) + 1):
            model = self._fit(answers[:length], model)
            if store:
                fresh.append(_state(model, length, names[length]))
            if fresh and (time.monotonic() - saved > 1.0 or length == len(answers)):
                self._save(fresh)
                fresh, saved = [], time.monotonic()
        return model

    def _fit(
        self,
        answers: Sequence[Answer],
        start: Model | None = None,
        learned: tuple[Scaled, Hyperparameters] | None = None,
    ) -> Model:
        record = self._record
        return fit_answers(
            record.prepared,
            record.sets,
            lambda at: self._drawn.design.rows(at),
            answers,
            start,
            learned,
        )

    def _stored(
        self, answers: Sequence[Answer], names: Sequence[str], beyond: int
    ) -> tuple[int, Model] | None:
        """The longest stored state of these answers: how many it knows, and the model."""
        with self._database.read() as connection:
            state = model_states.longest(connection, self._record.id, names, beyond)
        if state is None:
            return None
        hyper = Hyperparameters(state.prior_precision, state.noise_precision)
        learned = self._record.prepared.basis.restored(state.basis), hyper
        return state.length, self._fit(answers[: state.length], learned=learned)

    def _save(self, fresh: Sequence[ModelState]) -> None:
        with suppress(StorageError), self._database.write() as connection:  # can be learned again
            records.state(connection, self._record, lock=True)  # first, as all who write do
            model_states.save(connection, self._record.id, fresh)


def _state(model: Model, length: int, key: str) -> ModelState:
    hyper, learned = model.posterior.hyper, model.basis.state()
    return ModelState(length, key, hyper.prior_precision, hyper.noise_precision, learned)
