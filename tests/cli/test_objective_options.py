"""Costs, budgets, known noise, targets and when to stop, from the shell."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet as pq

import sumwise as sw
from sumwise.cli import main
from sumwise.data.targets import thinned
from tests import parquet
from tests.builders import random_sets


def run(*arguments):
    return CliRunner(env={"COLUMNS": "80"}).invoke(main, [str(a) for a in arguments])


def done(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def data_of(*arguments):
    return json.loads(done(*arguments, "--json").stdout)


def refusal(*arguments, code=1):
    result = run(*arguments)
    assert result.exit_code == code, result.output
    return one_line(result.stderr)


def one_line(text):
    return " ".join(text.replace("│", " ").split())


def write(path, change=lambda row: row):
    """20 fields, their rows mixed, with hours and blur of each field and care of each row."""
    rng = np.random.default_rng(0)
    rows = []
    for group in range(20):
        hours, blur = 1 + group % 4, 0.5 * (group % 3)
        for _ in range(int(rng.integers(1, 5))):
            rain, soil = rng.normal(size=2).round(3)
            row = {"field": f"F{group:02}", "rain": rain, "soil": soil, "hours": hours}
            rows.append(change({**row, "blur": blur, "care": int(rain > 0.5)}))
    rng.shuffle(rows)
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def data(tmp_path):
    return write(tmp_path / "fields.csv")


def begin(tmp_path, data, *words):
    url = str(tmp_path / "f.db")
    return url, done("init", url, data, "--by", "field", "--basis", "linear", *words)


# --- init -----------------------------------------------------------------------------------------


def test_columns_of_costs_noise_and_weights_are_kept_and_are_no_inputs(tmp_path, data):
    url, made = begin(
        tmp_path, data, "--strategy", "ivr", "--cost", "hours", "--noise-std", "blur",
        "--target-weights", "care", "--enough", "0.5",
    )  # fmt: skip
    assert "inputs rain, soil." in one_line(made.stderr)
    assert "use them" not in one_line(made.stderr)
    text = one_line(made.stdout)
    assert "Measuring a set costs 1 to 4." in text
    assert "known noise of ± 0 to 1;" in text
    assert "You may stop when improvements fall below 0.5." in text
    with sw.open_study(url) as study:
        numbers = [int(name[1:]) for name in study.ids]
        assert study.aims.cost.tolist() == [1 + g % 4 for g in numbers]
        assert study.aims.noise_std.tolist() == [0.5 * (g % 3) for g in numbers]
        assert study.aims.enough == 0.5
        x = study.sets.x
        assert study.sets.input_names == ("rain", "soil")
        expected = thinned(x, (x[:, 0] > 0.5).astype(float))
        np.testing.assert_array_equal(study.aims.targets.x, expected.x)
        np.testing.assert_allclose(study.aims.targets.weight, expected.weight)


def test_one_number_is_for_all_sets_unless_a_column_is_called_so(tmp_path, data):
    url, made = begin(tmp_path, data, "--x", "rain", "--cost", "2.5", "--noise-std", 0, "--json")
    found = json.loads(made.stdout)
    assert (found["cost"], found["noise_std"], found["enough"]) == (2.5, 0.0, None)
    with sw.open_study(url) as study:
        assert set(study.aims.cost.tolist()) == {2.5}
        assert not study.aims.noise_std.any()
    text = data.read_text().replace("hours", "7", 1)
    data.write_text(text)
    url = tmp_path / "other.db"
    found = data_of("init", url, data, "--by", "field", "--cost", "7")
    assert found["cost"] == "7"
    assert found["inputs"] == ["rain", "soil", "blur", "care"]
    with sw.open_study(url) as study:
        assert sorted(set(study.aims.cost.tolist())) == [1, 2, 3, 4]


def test_a_column_that_is_named_as_an_input_is_one_too(tmp_path, data):
    url, _ = begin(tmp_path, data, "--x", "rain", "--x", "hours", "--cost", "hours")
    with sw.open_study(url) as study:
        assert study.sets.input_names == ("rain", "hours")
        assert study.aims.cost is not None


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_targets_come_from_a_table_of_their_own(tmp_path, data, suffix):
    path = tmp_path / f"targets{suffix}"
    columns = {"care": [1, 0, 3], "soil": [0.5, 1.0, 2.0], "rain": [1, 2, 3], "who": list("abc")}
    if suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    else:
        rows = zip(*columns.values(), strict=True)
        path.write_text("\n".join(",".join(map(str, r)) for r in [columns, *rows]) + "\n")
    said = ("--targets", path, "--target-weights", "care")
    given = ("--cost", "hours", "--noise-std", "blur", "--strategy", "AggMI")
    url, made = begin(tmp_path, data, *given, *said)
    assert "Predictions count for 3 targets." in one_line(made.stdout)
    assert "AggMI ignores targets" in one_line(made.stderr)
    with sw.open_study(url) as study:
        assert study.sets.input_names == ("rain", "soil")
        assert study.aims.targets.x.tolist() == [[1, 0.5], [2, 1], [3, 2]]
        assert study.aims.targets.weight.tolist() == [0.25, 0, 0.75]


@pytest.mark.parametrize(
    ("column", "value", "option", "words"),
    [
        ("hours", 0, "--cost", "'hours' is 0; it must be above 0"),
        ("hours", -2, "--cost", "'hours' is -2; it must be above 0"),
        ("hours", "", "--cost", "'hours' is missing. Fill it in, or drop the row."),
        ("hours", "two", "--cost", "'hours' is 'two', not a number"),
        ("hours", "inf", "--cost", "'hours' is inf; give a finite number"),
        ("blur", -0.5, "--noise-std", "'blur' is -0.5; it must be at least 0"),
        ("care", "", "--target-weights", "'care' is missing"),
        ("care", -1, "--target-weights", "'care' is -1; it must be at least 0"),
    ],
)
def test_what_a_column_cannot_hold_is_refused_with_line_and_set(
    tmp_path, column, value, option, words
):
    def change(row):
        return {**row, column: value} if row["field"] == "F07" else row

    data = write(tmp_path / "fields.csv", change)
    said = refusal("init", tmp_path / "f.db", data, "--by", "field", option, column)
    assert words in said
    assert "fields.csv,line" in said.replace(" ", "")  # a long path is cut where a line ends
    assert "set 'F07'" in said
    assert not (tmp_path / "f.db").exists()


def test_a_cost_that_differs_within_a_set_is_refused_with_line_and_set(tmp_path):
    seen = []

    def change(row):
        seen.append(row["field"])
        return {**row, "hours": 9} if seen.count("F02") == 2 and row["field"] == "F02" else row

    data = write(tmp_path / "fields.csv", change)
    said = refusal("init", tmp_path / "f.db", data, "--by", "field", "--cost", "hours")
    assert "set 'F02'" in said
    assert "in another row of the set. --cost is of the whole set; give all its rows" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--cost", "hour"), "has no column 'hour' (given as --cost, or give a number)"),
        (("--cost", "0"), "--cost is 0; it must be above 0"),
        (("--cost", "-3"), "--cost is -3; it must be above 0"),
        (("--cost", "1,234.5"), "has no column '1,234.5'"),
        (("--noise-std", "-1"), "--noise-std is -1; it must be at least 0"),
        (("--enough", "-1"), "--enough is -1; it must be at least 0"),
        (("--enough", "much"), "--enough: 'much' is not a number here"),
        (("--target-weights", "7"), "has no column '7' (given as --target-weights)"),
        (("--targets", "nowhere.csv"), "there is no file nowhere.csv"),
        (("--cost", "hours", "--strategy", "MaxN"), "use one of AggMI"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, data, words, said):
    assert said in refusal("init", tmp_path / "f.db", data, "--by", "field", *words)
    assert not (tmp_path / "f.db").exists()


@pytest.mark.parametrize(
    ("content", "weights", "said"),
    [
        ("rain\n1\n", None, "has no column 'soil' (an input of the study)"),
        ("rain,soil\n", None, "has a heading and no rows"),
        ("rain,soil\n1,\n", None, "line 2: 'soil' is missing"),
        ("rain,soil,w\n1,2,-1\n", "w", "line 2: 'w' is -1; it must be at least 0"),
        ("rain,soil,w\n1,2,0\n", "w", "not all 0"),
        ("rain,soil\n1,2\n", "w", "has no column 'w' (given as --target-weights)"),
    ],
)
def test_targets_that_cannot_be_used_are_refused(tmp_path, data, content, weights, said):
    path = tmp_path / "targets.csv"
    path.write_text(content)
    words = ("--x", "rain", "--x", "soil", "--targets", path)
    more = () if weights is None else ("--target-weights", weights)
    assert said in refusal("init", tmp_path / "f.db", data, "--by", "field", *words, *more)


# --- beyond memory --------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(2)
    sets = random_sets(rng.integers(1, 9, 30).tolist(), rng, ids=[f"m{a}" for a in range(30)])
    return parquet.write(parquet.table_of(sets), tmp_path / "devices", cuts=[40, 41])


def test_beyond_memory_costs_are_numbers_and_targets_files(tmp_path, folder):
    targets = tmp_path / "targets.csv"
    targets.write_text("x0,x1,x2,care\n1,2,3,1\n0,0,0,2\n")
    url = tmp_path / "m.db"
    words = ("--by", "set", "--weights", "theta", "--strategy", "EPIG", "--cost", "2")
    more = ("--noise-std", "0.5", "--targets", targets, "--target-weights", "care")
    found = data_of("init", url, folder, *words, *more, "--enough", "1")
    assert (found["cost"], found["noise_std"], found["enough"]) == (2.0, 0.5, 1.0)
    assert len(data_of("ask", url, "--budget", "7")["questions"]) == 3
    with sw.open_study(url) as study:
        assert study.aims.targets.x.tolist() == [[1, 2, 3], [0, 0, 0]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--cost", "hours"), "--cost is 'hours', and these individuals are beyond memory"),
        (("--noise-std", "blur"), "--noise-std is 'blur', and these individuals are beyond"),
        (("--target-weights", "theta"), "name it with --targets"),
        (("--cost", "0"), "--cost is 0; it must be above 0"),
    ],
)
def test_beyond_memory_columns_of_sets_are_refused_before_anything_is_embedded(
    tmp_path, folder, words, said
):
    assert said in refusal("init", tmp_path / "m.db", folder, "--by", "set", *words)
    assert not (tmp_path / "m.design").exists()


# --- ask, tell, status ----------------------------------------------------------------------------


def test_a_budget_buys_questions_and_status_counts_what_was_spent(tmp_path, data):
    url, _ = begin(tmp_path, data, "--strategy", "IVR", "--cost", "hours", "--enough", "0.01")
    asked = done("ask", url, "--budget", "6", "--by", "ann")
    text = one_line(asked.stdout)
    assert "gain per unit of cost" in text
    assert " of the budget of 6." in text
    claims = data_of("status", url)["claims"]
    price = {f"F{g:02}": 1 + g % 4 for g in range(20)}
    paid = sum(price[claim["set"]] for claim in claims)
    assert f"Together they cost {paid} of the budget of 6." in text
    assert paid <= 6
    for claim in claims:
        done("tell", url, claim["set"], "10.5")
    found = data_of("status", url)
    assert found["spent"] == paid
    assert found["enough"] == 0.01
    assert found["stop"] in (True, False)
    assert found["advice"] in found["words"]
    assert found["next_cost"] > 0
    assert found["improvement"] >= 0
    status = one_line(done("status", url).stdout)
    assert f"Answers so far have cost {paid}; the next 5 answers will cost" in status
    assert found["advice"] in status


def test_a_number_of_questions_caps_what_a_budget_buys(tmp_path, data):
    url, _ = begin(tmp_path, data, "--cost", "hours")
    (question,) = data_of("ask", url, "--budget", "100", "-n", "1")["questions"]
    assert question["score_per_cost"] == question["score"] / question["cost"]
    assert question["runner_up_cost"] >= 1
    text = one_line(done("ask", url, "--budget", "100", "-n", "2").stdout)
    assert "Together they cost" in text
    found = data_of("ask", url, "-n", "2")
    assert found["cost"] == sum(question["cost"] for question in found["questions"])
    one = one_line(done("ask", url, "--budget", "4", "-n", "1").stdout)
    assert "of the budget of 4." in one
    assert "It costs" in one_line(done("claim", url, "F19").stdout)


def test_budgets_that_cannot_be_used_are_refused_and_nothing_is_claimed(tmp_path, data):
    url, _ = begin(tmp_path, data, "--cost", "hours")
    assert "give a number above 0" in refusal("ask", url, "--budget", "0")
    assert "give a number above 0" in refusal("ask", url, "--budget", "-5")
    assert "--budget: '5 EUR' is not a number here" in refusal("ask", url, "--budget", "5 EUR")
    said = refusal("ask", url, "--budget", "0.5")
    assert "the budget of 0.5 pays for no set: the cheapest that is free costs 1" in said
    assert data_of("status", url)["claims"] == []
    plain = tmp_path / "plain.db"
    done("init", plain, data, "--by", "field", "--basis", "linear")
    assert "sumwise init --cost" in refusal("ask", plain, "--budget", "5")
    found = data_of("ask", plain)
    assert found["cost"] is None
    assert found["questions"][0]["score_per_cost"] is None
    status = data_of("status", plain)
    assert (status["spent"], status["stop"], status["advice"]) == (None, None, None)


def test_a_total_without_the_noise_that_was_planned_comes_with_a_hint(tmp_path, data):
    url, _ = begin(tmp_path, data, "--noise-std", "blur")
    told = done("tell", url, "F02", "12")
    assert "± 1 was planned" in told.stderr
    hint = f"sumwise amend {url} F02 12 --noise-std 1"
    assert hint in told.stderr
    done(*hint.split()[1:])
    with sw.open_study(url) as study:
        assert study.answers[0].noise_std == 1
    assert "planned" not in done("tell", url, "F03", "12").stderr  # whose noise is 0
    assert "planned" not in done("tell", url, "F04", "12", "--noise-std", "0.5").stderr
    assert "planned" not in done("tell", url, "F02", "12", "--noise-std", "1").stderr


def test_status_says_when_to_stop_and_what_to_do_then(tmp_path, data):
    url, _ = begin(tmp_path, data, "--enough", "1e6")
    done("tell", url, "F03", "10")
    done("tell", url, "F04", "12")
    status = done("status", url)
    assert "You may stop: " in one_line(status.stdout)
    assert "sumwise predict" in status.stderr.splitlines()[-2]


def test_wishes_are_exported_and_imported(tmp_path, data):
    url, _ = begin(
        tmp_path, data, "--strategy", "IVR", "--cost", "hours", "--noise-std", "blur",
        "--target-weights", "care", "--enough", "0.5",
    )  # fmt: skip
    done("ask", url, "--budget", "5")
    done("export", url, tmp_path / "out")
    other = tmp_path / "other.db"
    done("import", tmp_path / "out", other)
    here, there = (data_of("ask", where, "--budget", "7") for where in (url, other))
    strip = [{**q, "expires": None} for q in here["questions"]]
    assert strip == [{**q, "expires": None} for q in there["questions"]]
    assert data_of("status", other)["enough"] == 0.5
