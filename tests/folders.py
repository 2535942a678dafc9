"""Studies to export, and what is in a folder or a database, for tests."""

from __future__ import annotations

import csv
import datetime
import itertools
import os
import resource
import signal

import numpy as np
import sqlalchemy as sa

import sumwise as sw
from sumwise.study.storage.database import Database
from sumwise.study.storage.schema import answers, claims, events, files, skips, studies
from tests.builders import random_sets

FILES = ("study.json", "sets.parquet", "basis.parquet", "answers.csv", "claims.csv")
FILES += ("skips.csv", "history.csv")
NOTES = ["", None, "\\", "=1+1", 'say "so", twice', "a\nb\r\nc\rd", "😀 \u202eabc\u202c ü", "  "]
IDS = ["=1+1", 'a,"b"', "two\nlines", "", "\\", "ü‍", "nul\0", 7, 2.5, True, ("MI", 81010)]
IDS += [datetime.date(2025, 1, 2), datetime.datetime(2025, 1, 2, 3, 4), np.datetime64("2025-03")]
MODELS = {  # what random_state=None has drawn can only be kept, and never be drawn again
    "evidence": (sw.AggregateRegressor("fourier", n_basis=16), "EMCM"),
    "anew": (sw.AggregateRegressor("fourier", n_basis=16, random_state=None), "AggEnt"),
    "adam": (sw.AggregateRegressor("fourier", n_basis=16, hyperparameters="adam"), "AggMI"),
    "linear": (sw.AggregateRegressor("linear", hyperparameters=(0.1, 3.0)), "QBC"),
    "polynomial": (sw.AggregateRegressor("polynomial", standardize=False), "Rand"),
    "neural": (
        sw.AggregateRegressor(sw.Neural(width=3, depth=2, n_basis=4, epochs=5), random_state=None),
        "AggMI",
    ),
    "dropout": (
        sw.AggregateRegressor(sw.Neural(width=3, depth=2, dropout=0.2, epochs=5, samples=8)),
        "DAMI",
    ),
}


def many_sets(n=30):
    rng = np.random.default_rng(0)
    ids = [*IDS, *(f"set {a}" for a in range(len(IDS), n))]
    return random_sets(rng.integers(1, 6, n).tolist(), rng, n_inputs=2, ids=ids)


def lived(place, kind="evidence", n=8, **options):
    """A study in which everything that can happen has happened."""
    model, strategy = MODELS[kind]
    options = {"name": "Müll, 'x'", "seed": 2**70 + 1, "claim_days": 2.5, **options}
    study = sw.create_study(place, many_sets(), model=model, strategy=strategy, **options)
    rng = np.random.default_rng(1)
    for number in range(n):
        asked = study.ask(by=NOTES[-number % len(NOTES)])
        total, note = float(rng.normal() * 10.0**number), NOTES[number % len(NOTES)]
        study.tell(asked.set_id, total, by=asked.by, note=note, noise_std=0.1 * (number % 2))
    first, second, *_, last = (told.set_id for told in study.answers)
    study.amend(first, 1 / 3, by="bob", note="mistyped")
    study.retract(second, note="wrong meter")
    study.retract(last)
    study.tell(second, 5e-324)
    claimed = study.ask(4, by="ann")
    study.release(claimed[1].set_id, by="bob")
    study.renew(claimed[2].set_id, days=30)
    aside = [set_id for set_id in study.ids if set_id not in told_or_claimed(study)]
    for set_id, note in zip(aside, NOTES, strict=False):
        study.skip(set_id, by=note, note=note)
    study.unskip(aside[0], by="ann")
    return study


def told_or_claimed(study):
    return {known.set_id for known in (*study.answers, *study.claims)}


def tables_of(place, name):
    """Everything that a database keeps of a study but its numbers in there."""
    database = Database(place)
    with database.read() as connection:
        query = sa.select(studies).where(studies.c.name == name)
        row = dict(connection.execute(query).mappings().one())
        mine, kept = row.pop("id"), {"study": row}
        for table, order in (
            (files, files.c.name),
            (answers, answers.c.arrival),
            (claims, claims.c.number),
            (skips, skips.c.position),
            (events, events.c.id),
        ):
            query = sa.select(table).where(table.c.study_id == mine).order_by(order)
            skip = ("study_id", "id")
            kept[table.name] = [
                {key: value for key, value in row._mapping.items() if key not in skip}
                for row in connection.execute(query)
            ]
    database.close()
    return kept


def contents(folder):
    assert sorted(os.listdir(folder)) == sorted(FILES)
    return {name: (folder / name).read_bytes() for name in FILES}


def asked_next(study, n=3):
    asked = [study.ask(by="eve") for _ in range(n)]
    return [(q.set_id, q.score, q.expected, q.std, q.why, q.runner_up, q.number) for q in asked]


def edit(folder, name, change):
    """Let `change` do something to the rows of a CSV file, header first."""
    with open(folder / name, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    change(rows)
    with open(folder / name, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


# --- what other processes do ----------------------------------------------------------------------


def export_without_room(place, folder, said):
    """Export while no file may be larger than 2 kB: a disk that is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with sw.open_study(place) as study:
        assert study.claims  # the database's own files are there by now
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        try:
            study.export(folder)
            said.put("done")
        except sw.StorageError as error:
            said.put(str(error))


def export_until_killed(place, folder):
    with sw.open_study(place) as study:
        for number in itertools.count():
            study.export(f"{folder}/{os.getpid()}-{number}")


def import_until_killed(folder, place):
    for number in itertools.count():
        sw.import_study(folder, place, name=f"{os.getpid()}-{number}").close()
