"""Promises of a study on SQLite and on PostgreSQL: the same questions, and nothing lost."""

from __future__ import annotations

import time

import numpy as np
import pytest
import sqlalchemy as sa

import sumwise as sw
from sumwise.study.storage.database import Database
from sumwise.study.storage.schema import chain
from tests.builders import random_sets
from tests.marks import slow
from tests.workers import ask_and_tell, processes, tell_until_killed, value_of

MODELS = {
    "evidence": sw.AggregateRegressor("fourier", n_basis=16),
    "adam": sw.AggregateRegressor("fourier", n_basis=16, hyperparameters="adam"),
    "neural": sw.AggregateRegressor(sw.Neural(width=3, depth=2, n_basis=4, epochs=5)),
    "dropout": sw.AggregateRegressor(sw.Neural(width=3, depth=2, dropout=0.2, epochs=5, samples=8)),
}


def problem(n=40):
    rng = np.random.default_rng(0)
    sets = random_sets(rng.integers(1, 6, n).tolist(), rng, n_inputs=2)
    y = np.sin(2 * sets.x[:, 0]) + sets.x[:, 1]
    return sets, np.add.reduceat(sets.theta * y, sets.starts[:-1])


def play(study, y_bar, n):
    asked = []
    for _ in range(n):
        question = study.ask()
        study.tell(question.set_id, y_bar[question.set_id])
        asked.append(question.set_id)
    return asked


def rows_of_chain(place):
    database = Database(place)
    with database.read() as connection:
        lengths = connection.execute(sa.select(chain.c.length).order_by(chain.c.length)).scalars()
        found = lengths.all()
    database.close()
    return found


# --- the same after a restart ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["evidence", *slow("neural", "adam", "dropout")])
def test_fifteen_questions_a_restart_and_fifteen_more_are_thirty(place, kind):
    sets, y_bar = problem()
    strategy = "DAMI" if kind == "dropout" else "EMCM" if kind == "evidence" else "AggMI"
    settings = {"model": MODELS[kind], "strategy": strategy, "seed": 9}
    with sw.create_study(place, sets, name="in one go", **settings) as study:
        expected = play(study, y_bar, 30)
        model = study.model
    with sw.create_study(place, sets, name="restarted", **settings) as study:
        asked = play(study, y_bar, 15)
    for more in (7, 8):
        with sw.open_study(place, "restarted") as study:
            asked += play(study, y_bar, more)
    assert asked == expected
    with sw.open_study(place, "restarted") as study:
        assert (study.model.predict(sets.x) == model.predict(sets.x)).all()


def test_the_questions_do_not_depend_on_the_database(tmp_path, postgres_url):
    sets, y_bar = problem()
    asked = []
    for place in (tmp_path / "a.db", postgres_url):
        with sw.create_study(place, sets, model=MODELS["adam"], strategy="QBC") as study:
            asked.append(play(study, y_bar, 8))
            asked[-1] += [question.set_id for question in study.ask(4)]
    assert asked[0] == asked[1]


@pytest.mark.parametrize("kind", ["adam", "neural"])
def test_the_chain_is_kept_and_only_what_is_missing_is_fitted(place, kind, monkeypatch):
    sets, y_bar = problem(14)
    with sw.create_study(place, sets, model=MODELS[kind]) as study:
        play(study, y_bar, 13)
        expected = study.predict().mean
    sparse = [10, 12, 13] if kind == "neural" else list(range(1, 14))
    assert rows_of_chain(place) == sparse
    from sumwise.model import fit as core

    fitted, plain = [], core.fit

    def fit(prepared, labelled, design, *args, learned=None, **options):
        fitted.append((len(design), learned is not None))
        return plain(prepared, labelled, design, *args, learned=learned, **options)

    monkeypatch.setattr(core, "fit", fit)
    with sw.open_study(place) as study:
        assert (study.predict().mean == expected).all()
    assert fitted == [(13, True)]


@pytest.mark.parametrize("kind", ["evidence", "adam", "neural"])
def test_after_a_change_the_model_is_that_of_the_answers_that_remain(place, kind):
    """The fold begins where the first changed answer is."""
    sets, y_bar = problem(12)
    order = [4, 1, 7, 9, 0]
    with sw.create_study(place, sets, name="changed", model=MODELS[kind]) as study:
        for a in order:
            study.tell(a, y_bar[a])
            study.status()
        study.amend(7, 99.0)
        study.retract(1)
        study.retract(0)
        study.tell(0, 5.0)
        changed = study.predict().mean
    with sw.open_study(place, "changed") as study:
        assert (study.predict().mean == changed).all()
    with sw.create_study(place, sets, name="plain", model=MODELS[kind]) as study:
        for a, value in ((4, y_bar[4]), (7, 99.0), (9, y_bar[9]), (0, 5.0)):
            study.tell(a, value)
        assert (study.predict().mean == changed).all()


def test_two_objects_of_one_study_see_the_same(place):
    sets, y_bar = problem(8)
    with sw.create_study(place, sets) as one, sw.open_study(place) as two:
        first = one.ask(by="ann")
        assert two.claims == one.claims
        assert two.ask(by="bob").set_id != first.set_id
        two.tell(first.set_id, y_bar[first.set_id], noise_std=0.25)
        assert one.answers == two.answers
        assert one.answers[0].y_bar == y_bar[first.set_id]  # to the bit
        assert one.history() == two.history()
        assert repr(one) == repr(two)


def test_numbers_and_seeds_of_any_size_are_kept_to_the_bit(place):
    sets, _ = problem(6)
    values = [0.1, 1e-300, -1.7976931348623157e100, 5e-324, 1 / 3]
    with sw.create_study(place, sets, seed=2**200 + 1, strategy="Rand") as study:
        for a, value in enumerate(values):
            study.tell(a, value, noise_std=value if 0 < value < 1 else None)
    with sw.open_study(place) as study:
        assert [told.y_bar for told in study.answers] == values
        assert study.answers[0].noise_std == 0.1
        assert study.state.record.seed == 2**200 + 1


# --- many at once ---------------------------------------------------------------------------------


def test_four_processes_at_once_claim_no_set_twice_and_lose_no_answer(database):
    n_workers, each = 4, 20  # of each: a question and an answer
    sets = random_sets([1, 2] * 60, np.random.default_rng(0), n_inputs=2)
    sw.create_study(database, sets, model=sw.AggregateRegressor("linear")).close()
    out = processes.Queue()
    names = [f"worker {i}" for i in range(n_workers)]
    workers = [
        processes.Process(target=ask_and_tell, args=(database, name, each, out)) for name in names
    ]
    for worker in workers:
        worker.start()
    results = dict(out.get(timeout=500) for _ in workers)
    for worker in workers:
        worker.join()
    assert not [result for result in results.values() if isinstance(result, str)]
    claimed = [pair for result in results.values() for pair in result]
    assert sorted(number for number, _ in claimed) == list(range(n_workers * each))
    assert len({set_id for _, set_id in claimed}) == n_workers * each
    with sw.open_study(database) as study:
        told = {answer.set_id: (answer.y_bar, answer.by) for answer in study.answers}
        whose = {set_id: name for name, result in results.items() for _, set_id in result}
        assert told == {set_id: (value_of(set_id), whose[set_id]) for set_id in whose}
        assert study.claims == ()
        assert len(study.history()) == 1 + 2 * n_workers * each


def test_several_may_make_studies_in_one_new_database(place):
    """The tables are made once, whoever comes first."""
    from concurrent.futures import ThreadPoolExecutor

    sets, _ = problem(3)

    def make(name):
        sw.create_study(place, sets, name=name, model=sw.AggregateRegressor("linear")).close()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(make, "abcd"))
    with pytest.raises(sw.DataError, match="holds 4 studies"):
        sw.open_study(place)


# --- kill -9 --------------------------------------------------------------------------------------


def acknowledged(log):
    lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    told = [int(line[1]) for line in lines if line[0] == "told"]
    return len(lines), told


@pytest.mark.parametrize("kills", [4, *slow(20)])
def test_what_was_acknowledged_survives_kills(place, tmp_path, kills):
    sets = random_sets([1] * 2000, np.random.default_rng(0), n_inputs=2)
    sw.create_study(place, sets, model=sw.AggregateRegressor("linear")).close()
    log, rng = tmp_path / "acknowledged", np.random.default_rng(1)
    for _ in range(kills):
        before, _ = acknowledged(log)
        worker = processes.Process(target=tell_until_killed, args=(place, str(log)))
        worker.start()
        enough, deadline = before + rng.integers(1, 7), time.monotonic() + 120
        while acknowledged(log)[0] < enough and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(rng.uniform(0.0, 0.02))
        worker.kill()
        worker.join()
        assert worker.exitcode == -9
        with sw.open_study(place) as study:
            told = {answer.set_id: answer.y_bar for answer in study.answers}
            claimed = {claim.set_id for claim in study.claims}
            happened = [event.what for event in study.history()]
        assert set(acknowledged(log)[1]) <= told.keys()
        assert all(value == value_of(set_id) for set_id, value in told.items())
        assert not claimed & told.keys()
        assert happened.count("told") == len(told)  # nothing is half-stored
        assert happened.count("asked") == len(told) + len(claimed)
    assert len(acknowledged(log)[1]) >= kills // 2
    with sw.open_study(place) as study:
        question = study.ask()
        study.tell(question.set_id, 1.0)
        assert study.answers[-1].set_id == question.set_id


# --- a server -------------------------------------------------------------------------------------


def test_a_lock_that_is_held_for_long_ends_in_words(postgres_url):
    sets, _ = problem(3)
    with sw.create_study(postgres_url, sets) as study:
        impatient = Database(postgres_url, patience=0.2)
        with study._database.write() as connection:
            connection.exec_driver_sql("SELECT * FROM sumwise_studies FOR UPDATE")
            with (
                pytest.raises(sw.StorageError, match="in use by others"),
                impatient.write() as other,
            ):
                other.exec_driver_sql("SELECT * FROM sumwise_studies FOR UPDATE")
        impatient.close()


def test_an_empty_or_missing_database_on_a_server_is_refused(postgres_url):
    with pytest.raises(sw.DataError, match=r"sumwise:\*\*\*@127.* holds no studies"):
        sw.open_study(postgres_url)
    with pytest.raises(sw.StorageError, match='"nowhere" does not exist'):
        sw.open_study(postgres_url.rpartition("/")[0] + "/nowhere")


def test_studies_live_beside_the_tables_of_others_on_a_server(postgres_url):
    database = Database(postgres_url)
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE answers (x int)")
    database.close()
    sets, _ = problem(3)
    with sw.create_study(postgres_url, sets) as study:
        study.tell(0, 1.0)
    with sw.open_study(postgres_url) as study:
        assert len(study.answers) == 1
