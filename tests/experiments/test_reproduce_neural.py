"""`sumwise reproduce neural`, as a user runs it, and the runs it is made of."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.cli import main
from sumwise.experiments import protocol, reproduction_page
from sumwise.experiments.datasets import CLIMATE, Dataset
from sumwise.experiments.protocol import NEURAL, RFF

TWELVE = "AggMI, DAMI, AggEnt, DAEnt, MI, Ent, QBC, EMCM, Var, MaxN, MinN, Rand"


def reproduce(table, data, out, *options):
    arguments = ["reproduce", table, "--data", str(data), "--out", str(out), "--jobs", "1"]
    return CliRunner().invoke(main, [*arguments, *options])


def run(data, out, methods, *options):
    small = ("--datasets", "MAT", "--methods", methods, "--splits", "1", "--queries", "2")
    return reproduce("neural", data, out, *small, "--no-figures", *options)


def rows(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def words(result):
    return " ".join(result.output.replace("│", "").split())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Twelve states with one to three places each, and what is published about them."""
    folder = tmp_path_factory.mktemp("made-up")
    rng = np.random.default_rng(0)
    lines = [["lon", "lat", "elev", "state", *(name.replace("-", "_") for name in CLIMATE)]]
    for state in range(12):
        for _ in range(rng.integers(1, 4)):
            x = rng.normal(size=29).round(3).tolist()
            lines.append([*x[:3], f"state {state}", *x[3:]])
    (folder / "climate").mkdir()
    text = "\n".join(",".join(map(str, line)) for line in lines) + "\n"
    (folder / "climate" / "na_3deg.csv").write_text(text)
    published = ["dataset,method,mse,bold", "MAT,AggMI,0.035,0", "MAT,DAMI,0.047,0"]
    (folder / "published_mse_neural.csv").write_text("\n".join(published) + "\n")
    (folder / "published_mse_rff.csv").write_text("dataset,method,mse,bold\nMAT,AggMI,9.875,1\n")
    return folder


@pytest.fixture(scope="module")
def small(data, tmp_path_factory):
    """One method, then that and two more: the second call goes on with the first."""
    out = tmp_path_factory.mktemp("small") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NPROC", "1")  # a run sets it if nobody has, for all that comes after
        first = run(data, out, "AggMI")
        before = (out / "runs.csv").read_text()
        second = run(data, out, "AggMI,DAMI,Rand")
    assert first.exit_code == 0, first.output
    assert second.exit_code == 0, second.output
    return second, out, before


def test_it_writes_runs_tables_and_a_report(small):
    result, out, _ = small
    found = rows(out / "runs.csv")
    cells = [(run["dataset"], run["method"], run["split"], run["query"]) for run in found]
    assert cells == [("MAT", m, "0", q) for m in ("AggMI", "DAMI", "Rand") for q in "12"]
    assert json.loads((out / "settings.json").read_text())["table"] == "neural"
    for row in rows(out / "table.csv"):
        errors = [float(run["mse"]) for run in found if run["method"] == row["method"]]
        assert float(row["mean"]) == pytest.approx(sum(errors) / 2, rel=1e-5)
    assert "Best, or not significantly worse than the best" in result.output


def test_the_report_says_which_table_it_is(small):
    _, out, _ = small
    title = "The paper's table with neural networks, run again"
    assert (out / "table.md").read_text().startswith(f"# {title}\n")
    html = (out / "report.html").read_text()
    assert f"<title>{title}</title>" in html.replace("&#39;", "'").replace("&#x27;", "'")
    assert "Training time" not in html  # which is of Abalone


def test_published_figures_of_this_table_stand_beside_ours(small):
    _, out, _ = small
    published = {row["method"]: row["published"] for row in rows(out / "table.csv")}
    assert published == {"AggMI": "0.035", "DAMI": "0.047", "Rand": ""}
    text = (out / "table.md").read_text()
    assert "| MAT | 0.035 | 0.047 |  |" in text.split("## Published")[1]
    assert "## Ours less published" in text
    assert "9.875" not in text  # of the other table


def test_published_figures_are_found_beside_the_data_and_seconds_are_not_of_this_table(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "paper").mkdir()
    figures = "dataset,method,mse,bold\nMAT,DAMI,0.047,1\n"
    (tmp_path / "paper" / "published_mse_neural.csv").write_text(figures)
    (tmp_path / "paper" / "published_seconds_abalone.csv").write_text("method,seconds\nAggMI,9\n")
    found = reproduction_page.find_published(NEURAL, None, tmp_path / "data")
    assert found.errors == {("MAT", "DAMI"): (0.047, True)}
    assert found.seconds == {}
    assert reproduction_page.find_published(RFF, None, tmp_path / "data").seconds == {"AggMI": 9}


def test_a_second_call_runs_only_what_is_missing(small, data):
    _, out, before = small
    after = (out / "runs.csv").read_text()
    assert after.startswith(before)
    assert len(before.splitlines()) == 1 + 2
    assert len(after.splitlines()) == 1 + 3 * 2
    again = run(data, out, "DAMI,AggMI", "--json")  # would time anew, were it run again
    assert again.exit_code == 0, again.output
    assert (out / "runs.csv").read_text() == after
    table = json.loads(again.stdout)
    assert [(cell["method"], cell["published"]) for cell in table] == [
        ("AggMI", 0.035),
        ("DAMI", 0.047),
        ("Rand", None),
    ]


def test_a_cell_alone_has_the_figures_it_has_among_others(small, data, tmp_path):
    _, out, _ = small
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NPROC", "1")
        assert run(data, tmp_path / "alone", "rand,dami").exit_code == 0
    together = {(r["method"], r["query"]): r["mse"] for r in rows(out / "runs.csv")}
    alone = {(r["method"], r["query"]): r["mse"] for r in rows(tmp_path / "alone" / "runs.csv")}
    assert len(alone) == 4
    assert alone.items() <= together.items()


def test_results_of_the_other_table_are_left_alone(small, data, tmp_path):
    _, out, _ = small
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    options = ("--datasets", "MAT", "--methods", "AggMI", "--splits", "1", "--queries", "2")
    result = reproduce("rff", data, copy, *options, "--no-figures")
    assert result.exit_code == 1
    assert "are of table 'neural', not 'rff'. Choose another --out" in words(result)
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


@pytest.mark.parametrize(
    ("table", "methods", "known"),
    [
        ("neural", "AggMI,XYZ", TWELVE),
        ("neural", "XYZ", TWELVE),
        ("rff", "DAMI", "AggMI, AggEnt, MI, Ent, QBC, EMCM, Var, MaxN, MinN, Rand"),
        ("rff", "AggMI,DAEnt", "AggMI, AggEnt, MI, Ent, QBC, EMCM, Var, MaxN, MinN, Rand"),
    ],
)
def test_an_unknown_method_is_refused_and_the_known_are_listed(
    table, methods, known, data, tmp_path
):
    options = ("--datasets", "MAT", "--methods", methods, "--splits", "1", "--queries", "2")
    result = reproduce(table, data, tmp_path / "out", *options)
    assert result.exit_code == 1
    unknown = methods.split(",")[-1]
    assert f"no method is called '{unknown}'; there are {known}" in words(result)
    assert not (tmp_path / "out").exists()


def test_all_twelve_are_run_if_none_is_named():
    assert ", ".join(NEURAL.columns) == TWELVE
    told = words(CliRunner().invoke(main, ["reproduce", "neural", "--help"]))
    assert "all 12" in told
    assert "reproduction-neural" in told  # another folder than that of `rff`


# --- runs -----------------------------------------------------------------------------------------


def made_up():
    """Thirty groups of ten."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(300, 3))
    return Dataset("made-up", x, np.sin(3 * x[:, 0]) * x[:, 1], np.repeat(np.arange(30), 10))


def test_the_model_is_the_papers():
    config = protocol.neural_model("made-up", 3)
    assert (config.hyperparameters, config.standardize) == ("adam", False)
    assert config.random_state == protocol.paper_model("made-up", 3).random_state
    assert config.random_state != protocol.neural_model("made-up", 4).random_state
    sets = protocol.make_split(made_up(), 3).sets
    model = sw.AggregateRegressor(**{f: getattr(config, f) for f in config.__slots__})
    network = model.fit(sets[:0], []).fitted().basis.basis
    layers = [weight.shape for weight in network.network.weights]
    assert layers == [(32, 3), (32, 32), (32, 32), (128, 32)]  # four, 32 hidden units, 128 outputs
    assert (network.settings.epochs, network.settings.learning_rate) == (1000, 1e-3)
    assert (network.settings.activation, network.settings.dropout) == ("relu", 0.0)


@pytest.mark.slow  # with Fourier features it is quick, in test_protocol
def test_runs_give_the_errors_of_the_plain_learner():
    """Of AggMI and DAMI in one go, though only one of them has a dropout network."""
    tiny = sw.Neural(width=4, depth=2, n_basis=6, epochs=200, samples=8, learning_rate=0.01)
    split = protocol.make_split(made_up(), 2)
    config = replace(protocol.neural_model("made-up", 2), basis=tiny)
    methods = ["AggMI", "DAMI", "Rand"]
    columns = protocol.methods_with(lambda *names: config, methods)
    curves = protocol.run_split(replace(NEURAL, methods=columns, queries=3), "made-up", 2, split)
    assert [curve.method for curve in curves] == methods
    for curve in curves:
        model = sw.AggregateRegressor(
            tiny, hyperparameters="adam", standardize=False, random_state=config.random_state
        )
        seed = protocol.seed_of("made-up", curve.method, 2)
        learner = sw.ActiveLearner(split.sets, model=model, strategy=curve.method, seed=seed)
        for query in range(3):
            ask = learner.ask()
            learner.tell(ask.set_id, split.y_bar[ask.set_id])
            mse = np.mean((learner.model.predict(split.x_test) - split.y_test) ** 2)
            assert_allclose(curve.mse[query], mse, rtol=1e-9)
        assert learner.model.basis.dropout == (0.1 if curve.method == "DAMI" else 0.0)
    final = [curve.mse[-1] for curve in curves]
    assert len(set(final)) == 3
