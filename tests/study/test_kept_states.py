"""What stays in a database: states of models, logs that were left behind, shapes of individuals."""

from __future__ import annotations

import shutil

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

import sumwise as sw
from sumwise.study.storage import main_file, model_states
from sumwise.study.storage.model_states import EVERY, ModelState
from sumwise.study.storage.schema import metadata, studies
from tests.builders import random_sets
from tests.studies import change

LINEAR = sw.AggregateRegressor("linear")


def state(length: int, learned: bool = True) -> ModelState:
    known = {"key": f"k{length}", "length": length, "prior_precision": 1.0 + length}
    known |= {"noise_precision": 2.0, "basis": b"b" if learned else None}
    return ModelState(**known)


def begun():
    engine = sa.create_engine("sqlite://")
    metadata.create_all(engine, tables=[model_states.chain, studies])
    return engine


def kept(connection, study_id):
    chain = model_states.chain
    found = sa.select(chain.c.length).where(chain.c.study_id == study_id)
    return sorted(connection.execute(found).scalars())


@given(st.sets(st.integers(1, 3 * EVERY), min_size=2, max_size=12), st.booleans())
def test_of_learned_states_the_last_two_and_every_so_many_are_kept(lengths, learned):
    lengths = sorted(lengths)
    with begun().begin() as connection:
        for study_id in (1, 2):
            model_states.save(connection, study_id, [state(2, learned)])
            model_states.save(connection, study_id, [state(each, learned) for each in lengths])
        last = lengths[-1]
        stays = [n for n in lengths if not learned or n >= last - 1 or n % EVERY == 0]
        stays += [2] * (2 not in lengths and (not learned or last - 1 <= 2))
        assert kept(connection, 1) == kept(connection, 2) == sorted(stays)


@given(st.sets(st.integers(0, 9), max_size=6), st.integers(0, 9), st.integers(0, 9))
def test_the_longest_state_of_the_same_answers_is_found(stored, told, beyond):
    keys = [f"k{n}" for n in range(told + 1)]
    with begun().begin() as connection:
        for length in stored:
            model_states.save(connection, 1, [state(length, False)])
            model_states.save(connection, 2, [state(9, False)])
        found = model_states.longest(connection, 1, keys, beyond)
        fit = [n for n in stored if beyond < n <= told]
        assert found == (state(max(fit), False) if fit else None)
        other = [*keys[:-1], "another answer"]
        found = model_states.longest(connection, 1, other, beyond)
        fit = [n for n in fit if n < told]
        assert found == (state(max(fit), False) if fit else None)


def test_a_copy_of_a_file_with_its_log_has_every_answer(tmp_path):
    sets = random_sets([2, 2, 2], np.random.default_rng(0), ids=[0, 1, 2])
    with sw.create_study(tmp_path / "a.db", sets, model=LINEAR) as study:
        study.tell(1, 5.0)
        (tmp_path / "copy").mkdir()
        for name in ("a.db", "a.db-wal"):
            if (tmp_path / name).exists():
                shutil.copy(tmp_path / name, tmp_path / "copy" / name)
        assert (tmp_path / "copy" / "a.db-wal").exists()
    with sw.open_study(tmp_path / "copy" / "a.db") as study:
        assert [(each.set_id, each.y_bar) for each in study.answers] == [(1, 5.0)]
        study.tell(2, 6.0)


POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")


@pytest.mark.parametrize("given_shapes", [[POINT] * 5, [POINT] * 7, [POINT] * 5 + ["x"], []])
def test_shapes_are_refused_unless_each_individual_has_one_in_bytes(tmp_path, given_shapes):
    sets = random_sets([2, 4], np.random.default_rng(0))
    with pytest.raises(sw.SettingError, match="one for each of 6 individuals"):
        sw.create_study(tmp_path / "a.db", sets, model=LINEAR, geometry=given_shapes)
    shapes = [POINT, None] * 3
    with sw.create_study(tmp_path / "b.db", sets, model=LINEAR, geometry=shapes) as study:
        assert study.geometry == tuple(shapes)


def test_members_add_up_to_the_total_of_the_group_that_was_named(tmp_path):
    """With `groups=`, with the columns that name sets, and with neither."""
    frame = pd.DataFrame({"g": np.repeat([*"abcd"], 3), "x": np.arange(12.0) ** 2 % 7})
    sets = sw.Sets.from_frame(frame, by="g", x=["x"])
    with sw.create_study(tmp_path / "a.db", sets, model=LINEAR) as study:
        for name, total in (("a", 5.0), ("b", -4.0), ("c", 9.0)):
            study.tell(name, total)
        mixed = frame.sample(frac=1, random_state=0)

        def totals(table, **more):
            return np.bincount(mixed.g.map("abcd".index), study.predict(table, **more).mean)[:3]

        told = [5.0, -4.0, 9.0]
        np.testing.assert_allclose(totals(mixed[["x"]], groups=mixed.g), told)
        np.testing.assert_allclose(totals(mixed), told)
        wrong = mixed.assign(g="d")  # what is said counts, not the column
        np.testing.assert_allclose(totals(wrong, groups=mixed.g), told)
        assert not np.allclose(totals(mixed[["x"]]), told)


@pytest.mark.parametrize("column", ["changes", "questions", "arrivals"])
@pytest.mark.parametrize("value", [-1, 2**53, 1.5, "x"])
def test_a_counter_that_is_none_is_refused(tmp_path, column, value):
    sets = random_sets([2, 2], np.random.default_rng(0), ids=[0, 1])
    sw.create_study(tmp_path / "a.db", sets, model=LINEAR).close()
    change(tmp_path / "a.db", f"UPDATE sumwise_studies SET {column} = ?", value)
    with pytest.raises(sw.DataError), sw.open_study(tmp_path / "a.db") as study:
        study.tell(1, 5.0)


def test_the_head_of_a_file_is_read_even_if_the_file_is_too_short(tmp_path):
    sets = random_sets([200] * 20, np.random.default_rng(0))
    sw.create_study(tmp_path / "a.db", sets, model=LINEAR).close()
    whole = main_file.on_disk(str(tmp_path / "a.db"))
    content = (tmp_path / "a.db").read_bytes()
    (tmp_path / "short.db").write_bytes(content[: len(content) // 2])
    assert whole.file > 0
    assert main_file.on_disk(str(tmp_path / "short.db")) == whole
