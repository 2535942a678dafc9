"""The error per query of many methods: rows as numbers, the chart for what a reader needs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sumwise.report import grid, page

SMALL = {
    "north": {"AggMI": np.array([[4.0, 2.0], [6.0, 2.0]]), "Rand": np.array([[5.0, 3.0]])},
    "south": {"AggMI": np.array([[0.4, 0.2], [0.6, 0.2]]), "Rand": np.array([[0.5, 0.3]])},
}


def made_up(n_datasets=1, methods=tuple(grid.LOOKS), n_queries=30, n_splits=3):
    rng = np.random.default_rng(0)
    fall = np.exp(-np.arange(n_queries) / 10)
    return {
        f"data {d}": {m: fall * rng.uniform(0.5, 1.5, (n_splits, n_queries)) for m in methods}
        for d in range(n_datasets)
    }


def panels_of(curves):
    return grid.curve_grid(curves, "a finding").to_dict()["concat"]


def values_of(spec, place):
    """What a panel draws; a single panel's rows are moved to the top."""
    return (spec["concat"][place].get("data") or spec["data"])["values"]


def scale_of(panel, channel):
    """Of the lines, which are drawn above the bars."""
    return panel["layer"][-1]["encoding"][channel]["scale"]


# --- rows ---------------------------------------------------------------------------------------


def test_a_row_holds_the_mean_and_standard_error_of_its_data_set_method_and_query():
    rows = grid.grid_rows(SMALL)
    assert len(rows) == 8
    first = rows[0]
    assert (first["dataset"], first["strategy"], first["question"]) == ("north", "AggMI", 1)
    assert first["mean"] == pytest.approx(5.0)
    assert first["standard_error"] == pytest.approx(1.0)  # of 4 and 6
    assert (first["low"], first["high"]) == pytest.approx((4.0, 6.0))
    assert rows[4]["dataset"] == "south"
    assert rows[4]["mean"] == pytest.approx(0.5)


def test_every_method_has_a_bar_at_every_fifth_of_thirty_queries():
    bars = [row for row in grid.grid_rows(made_up()) if row["bar"]]
    for method in grid.LOOKS:
        queries = [row["question"] for row in bars if row["strategy"] == method]
        assert len(queries) == 6
        assert set(np.diff(queries)) == {5}


def test_methods_take_turns_so_that_few_bars_stand_at_one_query():
    bars = [row["question"] for row in grid.grid_rows(made_up()) if row["bar"]]
    assert {bars.count(query) for query in range(1, 31)} == {2, 3}  # twelve in turns of five


def test_a_short_run_has_a_bar_at_every_query():
    assert all(row["bar"] for row in grid.grid_rows(made_up(n_queries=4)))


def test_one_split_has_no_bars():
    assert not any(row["bar"] for row in grid.grid_rows(made_up(n_splits=1)))


def test_rows_are_plain_values_that_json_can_hold():
    rows = grid.grid_rows(SMALL)
    assert json.loads(json.dumps(rows)) == rows


# --- the error axis -----------------------------------------------------------------------------


def row(mean, error=0.0, bar=True):
    return {"mean": mean, "low": mean - error, "high": mean + error, "bar": bar}


def test_the_axis_covers_all_lines_and_the_bars_that_are_drawn():
    low, high = grid.error_axis([row(0.2, 0.1), row(0.5, 0.1), row(0.4, 0.3, bar=False)])
    assert 0.05 < low < 0.1
    assert 0.6 < high < 0.8


def test_a_bar_that_reaches_zero_does_not_stretch_the_axis_for_ever():
    low, _ = grid.error_axis([row(0.2, 0.2), row(0.4)])
    assert 0.05 < low <= 0.1


def test_a_flat_curve_still_has_an_axis():
    low, high = grid.error_axis([row(0.3), row(0.3)])
    assert low < 0.3 < high


# --- chart --------------------------------------------------------------------------------------


def test_there_is_a_panel_per_data_set_with_its_name_and_its_own_numbers():
    spec = grid.curve_grid(SMALL, "a finding").to_dict()
    assert [panel["title"] for panel in spec["concat"]] == ["north", "south"]
    for place, name in enumerate(SMALL):
        assert {row["dataset"] for row in values_of(spec, place)} == {name}


def test_panels_have_scales_of_their_own():
    north, south = panels_of(SMALL)
    assert scale_of(north, "y")["domain"][0] > scale_of(south, "y")["domain"][1]


def test_axes_are_named_once_per_row_and_column():
    panels = panels_of(made_up(5))
    lines = [panel["layer"][-1]["encoding"] for panel in panels]
    named = [i for i, line in enumerate(lines) if line["y"]["title"] == "mean squared error"]
    assert named == [0, 3]
    assert [i for i, line in enumerate(lines) if line["x"]["title"] == "queries"] == [2, 3, 4]


def test_every_method_looks_different_from_every_other():
    (panel,) = panels_of(made_up())
    colours, dashes = scale_of(panel, "color"), scale_of(panel, "strokeDash")
    assert colours["domain"] == dashes["domain"] == list(grid.LOOKS)
    assert len(set(colours["range"])) == 12


def test_aggmi_and_rand_are_thick_and_drawn_on_top():
    spec = grid.curve_grid(made_up(), "a finding").to_dict()
    scale = scale_of(spec["concat"][0], "strokeWidth")
    widths = dict(zip(scale["domain"], scale["range"], strict=True))
    assert widths["AggMI"] == widths["Rand"] > 1.5 * widths["QBC"]
    drawn = list(dict.fromkeys(row["strategy"] for row in values_of(spec, 0)))
    assert drawn[-2:] == ["Rand", "AggMI"]


def test_methods_that_the_paper_does_not_have_are_grey():
    names = ("AggMI", *(f"mine {i}" for i in range(8)))
    (panel,) = panels_of(made_up(methods=names))
    assert scale_of(panel, "color")["domain"] == list(names)
    assert scale_of(panel, "color")["range"] == ["#0072B2", *["#555555"] * 8]


def test_one_click_in_the_legend_serves_all_panels():
    spec = grid.curve_grid(made_up(3), "a finding").to_dict()
    (param,) = spec["params"]
    assert (param["bind"], param["select"]["fields"]) == ("legend", ["strategy"])
    for panel in spec["concat"]:
        for layer in panel["layer"]:
            (condition,) = layer["encoding"]["opacity"]["condition"]
            assert condition["param"] == param["name"]


def test_the_subtitle_says_how_many_splits_were_averaged():
    def subtitle(curves):
        return grid.curve_grid(curves, "a finding").to_dict()["title"]["subtitle"][0]

    assert subtitle(made_up(n_splits=50)).startswith("Mean of 50 splits, bars ± 1 standard error")
    assert subtitle(SMALL).startswith("Mean of 1 to 2 splits")
    assert subtitle(made_up(n_splits=1)).startswith("One split")


@pytest.mark.parametrize("n_datasets", [1, 2, 4])
def test_any_number_of_data_sets_is_drawn_with_one_legend(n_datasets, tmp_path):
    curves = made_up(n_datasets, methods=("AggMI", "Var", "Rand"))
    chart = grid.curve_grid(curves, "a finding")
    (path,) = page.save(chart, tmp_path / "curves", (".svg",))
    text = path.read_text()
    assert text.count(">Var<") == 1
    for d in range(n_datasets):
        assert f">data {d}<" in text
