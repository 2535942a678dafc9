"""What is in a folder and does not make a study is refused in words, with its file and line."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import hashlib
import json
import os
import shutil
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import sumwise as sw
from sumwise.model.fit import ModelConfig
from sumwise.model.serialize import pack_config, unpack_config
from sumwise.study import import_
from tests.builders import random_sets
from tests.folders import FILES, edit, lived

# --- what is refused ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain_export(tmp_path_factory):
    place = tmp_path_factory.mktemp("plain")
    sets = random_sets([2] * 12, np.random.default_rng(0), ids=[f"s{a}" for a in range(12)])
    with sw.create_study(
        place / "a.db", sets, model=sw.AggregateRegressor("fourier", n_basis=8)
    ) as study:
        for a in (3, 1, 4, 2):
            study.tell(f"s{a}", a / 10, by="ann", noise_std=a / 100)
        study.retract("s1")
        study.ask(2)
        study.skip("s10")
        study.skip("s11")
        return study.export(place / "out")


@pytest.fixture
def plain(plain_export, tmp_path):
    """Answers for s3, s4 and s2, numbers 0, 2 and 3; claims 0 and 1; s10 and s11 are skipped."""
    return shutil.copytree(plain_export, tmp_path / "plain")


def refused(folder, tmp_path, words):
    """Importing is refused in these words, and nothing is made."""
    place = tmp_path / "none.db"
    with pytest.raises(sw.DataError, match=words) as refusal:
        sw.import_study(folder, place)
    assert str(folder) in str(refusal.value)
    assert not place.exists()


def cell(row, column, value):
    def change(rows):
        rows[row][rows[0].index(column)] = value

    return change


def swap(rows):
    rows[1], rows[2] = [rows[1][0], *rows[2][1:]], [rows[2][0], *rows[1][1:]]


BAD_ROWS = [
    ("answers.csv", cell(2, "position", "12"), 3, "no set at 12"),
    ("answers.csv", cell(2, "position", "-1"), 3, "'-1' is not a count"),
    ("answers.csv", cell(2, "position", ""), 3, "no set at None"),
    ("answers.csv", cell(2, "total", "many"), 3, "many"),
    ("answers.csv", cell(2, "total", "nan"), 3, "nan is not a total"),
    ("answers.csv", cell(2, "total", "1e999"), 3, "inf is not a total"),
    ("answers.csv", cell(2, "total", "1e151"), 3, "1e.151 is not a total"),
    ("answers.csv", cell(2, "total", ""), 3, "None is not a total"),
    ("answers.csv", cell(2, "noise_std", "?"), 3, "'\\?'"),
    ("answers.csv", cell(2, "number", "9" * 5000), 3, "4300 digits|no count"),
    ("answers.csv", lambda rows: rows[2].__delitem__(slice(2, None)), 3, "2 fields instead of 8"),
    ("skips.csv", lambda rows: rows[1].append("x"), 2, "6 fields instead of 5; give set,position"),
    ("answers.csv", cell(2, "at", "yesterday"), 3, "'yesterday' is not a time with a zone; give"),
    ("claims.csv", cell(1, "asked", ""), 2, "'' is not a time with a zone; give"),
    ("claims.csv", cell(2, "expires", "never T1"), 3, "'never T1' is not a time with a zone; give"),
    ("skips.csv", cell(1, "at", "2026-11-16T18:06:11"), 2, "18:06:11' is not a time with a zone"),
    ("history.csv", cell(2, "at", "29e99926-01-01T00:00:00Z"), 3, "'29e99926.* is not a time"),
    ("history.csv", cell(2, "at", "0001-01-01T00:00:00+05:00"), 3, "'0001-01-01.* is not a time"),
    ("history.csv", lambda rows: rows.insert(3, rows[2]), 4, "number is '2' instead of 3; give"),
    ("history.csv", lambda rows: rows.insert(3, rows.pop(2)), 3, "number is '3' instead of 2"),
    ("answers.csv", lambda rows: rows[0].pop(), 1, "the columns must be number,set,position,total"),
    ("answers.csv", list.clear, 0, "the columns must be number,set,position,total"),
    ("claims.csv", cell(1, "position", "12"), 2, "no set at 12"),
    ("skips.csv", cell(2, "position", "12"), 3, "no set at 12"),
    ("history.csv", cell(7, "position", "12"), 8, "no set at 12"),
    ("history.csv", cell(7, "question", "{}"), 8, "set_id"),
    ("history.csv", cell(7, "question", "[" * 200_000), 8, "recursion|Stack overflow"),
]


@pytest.mark.parametrize(("name", "change", "line", "words"), BAD_ROWS)
def test_a_line_that_does_not_fit_is_named(plain, tmp_path, name, change, line, words):
    edit(plain, name, change)
    rehash(plain, name)
    refused(plain, tmp_path, rf"{name} cannot be used: line {line}: .*{words}")


@pytest.mark.parametrize(
    "change", [cell(2, "total", "0.5"), cell(2, "by", "eve"), swap, lambda rows: rows.pop()]
)
def test_answers_that_contradict_history_are_refused(plain, tmp_path, change):
    edit(plain, "answers.csv", change)
    rehash(plain, "answers.csv")
    refused(plain, tmp_path, "does not have the answers that history.csv leaves")


@pytest.mark.parametrize("name", ["study.json", "claims.csv"])
def test_times_of_another_zone_are_stored_in_utc(plain, tmp_path, name):
    other, same = "2099-01-02T01:30:00+02:00", "2099-01-01T23:30:00.000000+00:00"
    if name == "study.json":
        change_head(plain, created=other)
    else:
        edit(plain, name, cell(1, "expires", other))
        rehash(plain, name)
    with sw.import_study(plain, tmp_path / "b.db") as copy:
        out = copy.export(tmp_path / "again")
    assert same in (out / name).read_text()


def test_rows_that_a_database_cannot_take_leave_no_study(plain, tmp_path):
    edit(plain, "skips.csv", lambda rows: rows.append(rows[1]))
    rehash(plain, "skips.csv")
    with pytest.raises(sw.StorageError, match="refused"):
        sw.import_study(plain, tmp_path / "b.db")
    with pytest.raises(sw.DataError, match="holds no studies"):
        sw.open_study(tmp_path / "b.db")


@pytest.mark.parametrize(
    "content", [b'set,position,by,at,note\r\n1,"open', b'set,position,by,at,note\r\n1,"a"b\r\n',
                b"set,position,by,at,note\r\n\xff\r\n", b"set;position;by;at;note\r\n", b""]
)  # fmt: skip
def test_text_that_is_no_csv_is_refused(plain, tmp_path, content):
    (plain / "skips.csv").write_bytes(content)
    rehash(plain, "skips.csv")
    refused(plain, tmp_path, "skips.csv cannot be used: ")


def test_fields_may_be_as_long_as_ids_may_be(tmp_path):
    sets = random_sets([1, 2], np.random.default_rng(0), ids=["x" * 200_000, "y"])
    usual = csv.field_size_limit()
    with sw.create_study(tmp_path / "a.db", sets) as study:
        study.ask(2)
        out = study.export(tmp_path / "out")
        with sw.import_study(out, tmp_path / "b.db") as copy:
            assert copy.history() == study.history()
    assert csv.field_size_limit() == usual


@pytest.mark.slow  # large
def test_one_bad_row_in_ten_thousand_is_named_and_all_are_read_quickly(tmp_path):
    sets = random_sets([1] * 10_000, np.random.default_rng(0))
    with sw.create_study(tmp_path / "a.db", sets, model=sw.AggregateRegressor("linear")) as study:
        study.tell_many(range(10_000), np.random.default_rng(1).normal(size=10_000))
        out = study.export(tmp_path / "out")
        begun = time.process_time()
        with sw.import_study(out, tmp_path / "b.db") as copy:
            assert time.process_time() - begun < 4.0  # 0.8 on a quiet machine
            assert copy.answers == study.answers
    edit(out, "answers.csv", cell(7653, "total", "O.5"))
    rehash(out, "answers.csv")
    refused(out, tmp_path, "answers.csv cannot be used: line 7654: .*'O.5'")


# --- study.json -----------------------------------------------------------------------------------


def change_head(folder, **changes):
    known = json.loads((folder / "study.json").read_text())
    known = {key: value for key, value in {**known, **changes}.items() if value != "gone"}
    (folder / "study.json").write_text(json.dumps(known))


BAD_HEADS = [
    ({"questions": 5.7}, "5.7 is not a count"),
    ({"changes": True}, "True is not a count"),
    ({"format": 2}, r"has format 2, and this sumwise knows 1.* pip install --upgrade"),
    ({"format": 0}, "has format 0, and this sumwise knows 1"),
    ({"format": "1"}, "has format '1', and this sumwise knows 1"),
    ({"format": True}, "has format True, and this sumwise knows 1"),
    ({"format": "gone"}, "'format' is missing"),
    ({"name": ""}, "name is ''; give a study a name that can be seen"),
    ({"name": 5}, "name is 5; give text"),
    ({"name": "gone"}, "'name' is missing"),
    ({"strategy": "Guess"}, "no strategy is called 'Guess'"),
    ({"strategy": ["Rand"]}, "study.json cannot be used"),
    ({"seed": -1}, "seed is -1; give a whole number"),
    ({"seed": 1.5}, "seed is 1.5; give a whole number"),
    ({"claim_days": 0}, "claim_days is 0; give a number of days"),
    ({"claim_days": 10**400}, "study.json cannot be used"),
    ({"questions": -1}, "-1 is not a count"),
    ({"arrivals": 2**31}, "2147483648 is not a count"),
    ({"inputs": ["a"]}, "sets.parquet cannot be used: 1 input names for 3 inputs"),
    ({"inputs": 5}, "inputs is 5; give a list of names, or null"),
    ({"inputs": "abc"}, "inputs is 'abc'; give a list of names, or null"),
    ({"inputs": ["a", "b", "c"]}, "sets.parquet .* must name its columns; give .*'x0'.*'a'"),
    ({"created": "yesterday"}, "'yesterday' is not a time with a zone; give"),
    ({"created": 5}, "study.json cannot be used: 5 is not a time with a zone; give"),
    ({"inputs": [["a"], "b", "c"]}, "not a list of stored ids"),
    ({"model": {}}, "model settings cannot be read"),
    ({"model": None}, "model settings cannot be read"),
    ({"sha256": {}}, "sets.parquet is not what was exported"),
    ({"sha256": None}, "study.json cannot be used"),
    ({"sha256": {"sets.parquet": "", "basis.parquet": ""}}, "sets.parquet is not what was expor"),
]


@pytest.mark.parametrize(("changes", "words"), BAD_HEADS)
def test_a_description_that_makes_no_sense_is_refused(plain, tmp_path, changes, words):
    change_head(plain, **changes)
    refused(plain, tmp_path, words)


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("basis", "splines", "no basis is called 'splines'"),
        ("basis", "linear", "not the basis of a model with the settings"),
        ("basis", {"neural": {"network": "os.system"}}, "network"),
        ("basis", {"pickle": "x"}, "model settings cannot be read"),
        ("n_basis", 9, "not the basis of a model with the settings"),
        ("n_basis", "many", "n_basis is 'many'; give a whole number"),
        ("hyperparameters", "guess", "hyperparameters is 'guess'"),
        ("colour", "red", "model settings cannot be read"),
        ("degree", "two", "degree is 'two'; give a whole number"),
        ("degree", True, "degree is True; give a whole number"),
        ("lengthscale", "wide", "lengthscale is 'wide'; give a number"),
        ("evidence_prior", "no", "evidence_prior is 'no'; give True or False"),
        ("standardize", 2, "standardize is 2; give True or False"),
    ],
)
def test_settings_that_do_not_fit_are_refused(plain, tmp_path, setting, value, words):
    model = json.loads((plain / "study.json").read_text())["model"]
    change_head(plain, model={**model, setting: value})
    refused(plain, tmp_path, words)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
SETTINGS = [field.name for field in dataclasses.fields(ModelConfig)]
OF_NETWORKS = [field.name for field in dataclasses.fields(sw.Neural)]


@given(st.sampled_from(["linear", "auto", "fourier"]), st.sampled_from(SETTINGS), JSON)
def test_any_setting_of_a_model_is_one_that_can_be_computed_with_or_refused(basis, name, value):
    sets = random_sets([2] * 3, np.random.default_rng(0))
    settings = {**json.loads(pack_config(ModelConfig(basis=basis, n_basis=4))), name: value}
    with contextlib.suppress(sw.SumwiseError):
        config = unpack_config(json.dumps(settings))
        assume(config.n_basis < 100 and config.degree < 10)
        fitted = sw.AggregateRegressor.from_config(config).fit(sets, [1.0, 2.0, 3.0])
        assert np.isfinite(fitted.predict(sets.x)).all()
        assert unpack_config(pack_config(config)) == config


@given(st.sampled_from(OF_NETWORKS), JSON)
def test_any_setting_of_a_network_is_one_that_can_be_kept_or_refused(name, value):
    with contextlib.suppress(sw.SumwiseError):
        config = unpack_config(json.dumps({"basis": {"neural": {name: value}}}))
        pack_config(config)


def test_settings_that_are_missing_are_refused(plain, tmp_path):
    model = json.loads((plain / "study.json").read_text())["model"]
    del model["hyperparameters"]
    change_head(plain, model=model)
    refused(plain, tmp_path, "study.json cannot be used: model has no hyperparameters; give")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cost": [1.0] * 11 + [0.0]}, "cost of set 's11' is 0; it must be above 0"),
        ({"cost": [1.0, 2.0]}, "give one for each of 12 sets"),
        ({"cost": "much"}, "cost must be an array of numbers"),
        ({"cost": ["2"] * 12}, "cost must be an array of numbers"),
        ({"cost": [1e308] * 12}, "between 1e-100 and 1e"),
        ({"enough": [0.5]}, "enough is .*; give a number"),
        ({"enough": "0.5"}, "enough is .*; give a number"),
        ({"target_weights": None}, "target_weights has shape"),
        ({"targets": None}, "targets has shape"),
        ({"noise_std": [-1.0] * 12}, "noise_std of set 's0' is -1; it must be at least 0"),
        ({"enough": -1}, "enough is -1; give a number of at least 0"),
        ({"targets": [[1.0]], "target_weights": [1.0]}, "targets has shape .*give"),
        ({"targets": [], "target_weights": []}, "targets has"),
        ({"target_weights": [1.0]}, "target_weights has shape"),
        ({"target_weights": [0.0, 0.0]}, "target_weights must be"),
    ],
)
def test_aims_that_do_not_fit_are_refused(tmp_path, changes, words):
    sets = random_sets([2] * 12, np.random.default_rng(0), ids=[f"s{a}" for a in range(12)])
    wishes = {"cost": 2.0, "noise_std": 1.0, "enough": 0.5, "targets": sets.x[:2]}
    model = sw.AggregateRegressor("linear")
    with sw.create_study(tmp_path / "a.db", sets, model=model, **wishes) as study:
        folder = study.export(tmp_path / "out")
    path = folder / "study.json"
    known = json.loads(path.read_text())
    path.write_text(json.dumps({**known, "aims": {**known["aims"], **changes}}))
    refused(folder, tmp_path, words)
    path.write_text(json.dumps({**known, "strategy": "MaxN"}))
    refused(folder, tmp_path, "use one of AggMI")
    path.write_text(json.dumps({**known, "aims": []}))
    refused(folder, tmp_path, "study.json cannot be used")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "5", "[" * 200_000, "\xff"])
def test_a_description_that_is_no_json_is_refused(plain, tmp_path, text):
    (plain / "study.json").write_bytes(text.encode("latin-1"))
    refused(plain, tmp_path, "study.json cannot be used")


def test_a_name_that_cannot_be_seen_is_refused(plain, tmp_path):
    for name in (" ", 5, "a\0"):
        with pytest.raises(sw.SettingError, match="name is"):
            sw.import_study(plain, tmp_path / "b.db", name=name)
    assert not (tmp_path / "b.db").exists()


# --- Parquet files --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sets.parquet", "basis.parquet"])
def test_files_whose_checksum_differs_are_refused(plain, tmp_path, name):
    content = bytearray((plain / name).read_bytes())
    content[len(content) // 2] ^= 1
    (plain / name).write_bytes(content)
    refused(plain, tmp_path, f"{name} is not what was exported: its checksum differs")


def forge(folder, name, change):
    """Another table in place of one, with the checksum put right."""
    pq.write_table(change(pq.read_table(folder / name)), folder / name)
    rehash(folder, name)


def rehash(folder, name):
    known = json.loads((folder / "study.json").read_text())
    known["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "study.json").write_text(json.dumps(known))


def column(index, values):
    return lambda table: table.set_column(index, table.column_names[index], pa.array(values))


FORGED = [
    ("sets.parquet", lambda t: t.select([0, 1, 2, 3])),
    ("sets.parquet", lambda t: t.select([1, 0, *range(2, 7)])),
    ("sets.parquet", lambda t: t.slice(0, 0)),
    ("sets.parquet", lambda t: t.slice(3)),
    ("sets.parquet", lambda t: pa.concat_tables([t, t])),
    ("sets.parquet", lambda t: t.slice(0, 20)),
    ("sets.parquet", column(0, [0] * 23 + [None])),
    ("sets.parquet", column(3, [1.0] * 23 + [None])),
    ("sets.parquet", column(3, [0.0] * 24)),
    ("sets.parquet", column(4, ["one"] * 24)),
    ("sets.parquet", column(4, [float("nan")] * 24)),
    ("sets.parquet", column(2, ["1"] * 24)),
    ("sets.parquet", column(2, ["[1]"] * 24)),
    ("sets.parquet", column(2, ["1,2"] * 24)),
    ("sets.parquet", column(2, [None] * 24)),
    ("basis.parquet", lambda t: t.slice(1)),
    ("basis.parquet", lambda t: t.select([0, 1, 3])),
    ("basis.parquet", column(1, ["float32"] * 5)),
    ("basis.parquet", column(1, ["object"] * 5)),
    ("basis.parquet", column(1, ["S999999999"] * 5)),  # would be a gigabyte each
    ("basis.parquet", column(2, [[5]] * 5)),
    ("basis.parquet", column(2, [[-1, -3]] * 5)),
    ("basis.parquet", column(2, [[3, 1], [3], [3], [7, 3], [7]])),
    ("basis.parquet", column(3, [None] * 5)),
    ("basis.parquet", column(3, [[None]] * 5)),
    ("basis.parquet", column(3, [1.0] * 5)),
    ("basis.parquet", column(3, ["ab"] * 5)),
    ("basis.parquet", column(2, [3] * 5)),
    ("basis.parquet", column(0, [["shift"]] * 5)),
]


@pytest.mark.parametrize(("name", "change"), FORGED)
def test_tables_that_were_forged_are_refused(plain, tmp_path, name, change):
    forge(plain, name, change)
    refused(plain, tmp_path, "cannot be used")


@pytest.mark.parametrize("name", ["sets.parquet", "basis.parquet"])
@pytest.mark.parametrize("content", [b"", b"PAR1" + bytes(100) + b"PAR1", b"number,set\n"])
def test_files_that_are_no_parquet_are_refused(plain, tmp_path, name, content):
    (plain / name).write_bytes(content)
    rehash(plain, name)
    refused(plain, tmp_path, f"{name} cannot be used")


@pytest.mark.slow  # without an export it is quick, in test_neural_edges
def test_weights_of_another_network_are_refused(tmp_path):
    with lived(tmp_path / "a.db", "neural", n=3) as study:
        out = study.export(tmp_path / "out")
    model = json.loads((out / "study.json").read_text())["model"]
    model["basis"]["neural"]["width"] = 5
    change_head(out, model=model)
    refused(out, tmp_path, "not the basis of a model with the settings")


@pytest.mark.parametrize(
    "settings",
    [
        {"width": 100_000, "depth": 3},
        {"width": 100_000, "depth": 2, "n_basis": 100_000},
        {"width": 1, "depth": 2, "n_basis": 4, "dropout": 0.1, "samples": 100_000},
    ],
)
def test_a_network_that_is_larger_than_the_one_in_the_file_is_not_drawn(
    plain, tmp_path, monkeypatch, settings
):
    monkeypatch.setattr(import_, "limit", lambda: 2**20)
    monkeypatch.setattr(sw.Neural, "require", lambda *_: pytest.fail("it is drawn"))
    model = json.loads((plain / "study.json").read_text())["model"]
    change_head(plain, model={**model, "basis": {"neural": settings}})
    refused(plain, tmp_path, "not the basis of a model with the settings")


# --- folders --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_missing_or_no_file_is_refused(plain, tmp_path, name):
    moved = tmp_path / "elsewhere"
    os.rename(plain / name, moved)
    refused(plain, tmp_path, f"There is no file {name} in it; export the study again")
    (plain / name).symlink_to(moved)
    refused(plain, tmp_path, f"{name} is not a plain file")
    (plain / name).unlink()
    os.mkfifo(plain / name)
    refused(plain, tmp_path, f"{name} is not a plain file")
    (plain / name).unlink()
    (plain / name).mkdir()
    refused(plain, tmp_path, f"{name} is not a plain file")


def test_other_files_in_the_folder_are_left_alone(plain, tmp_path):
    (plain / "../plain/basis.npz").write_bytes(b"x")
    (plain / "\u202e.py").write_text("raise SystemExit")
    (plain / "sets.parquet.lnk").symlink_to("/dev/zero")
    sw.import_study(plain, tmp_path / "b.db").close()


def test_a_place_that_is_no_folder_is_refused(plain, tmp_path):
    for place in (tmp_path / "nowhere", plain / "study.json"):
        with pytest.raises(sw.DataError, match="there is no folder"):
            sw.import_study(place, tmp_path / "b.db")
    for place in (5, None, "", "a\0b"):
        with pytest.raises(sw.SettingError, match="is not a folder"):
            sw.import_study(place, tmp_path / "b.db")
