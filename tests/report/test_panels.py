"""The panels of a study: rows that make sense as a table, and charts that draw them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from sumwise.learning.insight import Compared, Insight, Step
from sumwise.learning.propose import Ask
from sumwise.learning.status import Status
from sumwise.model.calibration import coverage
from sumwise.report import panels
from sumwise.report.page import save
from sumwise.report.panels import study_panels
from sumwise.util.text import as_given, figure, label

WICKED = "</script><img src=x onerror=alert(1)>\"'&{{datum.x}}"


def step(number, set_id="a", **changes):
    known = {"forecast": 9.0, "forecast_std": 2.0, "error": 1.0, "naive_error": 2.0,
             "typical_error": 5.0 / number, "typical_naive_error": 7.0}  # fmt: skip
    if number == 1:
        known = dict.fromkeys(known)
    rest = {"answer": 10.0, "information": 3.0 / number, "individual_std": 4.0, "noise_std": 1.5}
    return Step(number=number, set_id=set_id, **{**known, **rest, **changes})


def compared(number, z, set_id="a", weight=2.0):
    return Compared(number, set_id, 20.0 + 4.0 * z, 20.0, 4.0, 20.0 - 6.58, 20.0 + 6.58, weight)


def question(set_id, information, runner_up="r", second=0.5):
    score = 1.0 if second is None else information
    return Ask(
        set_id, score, 7.0, 2.0, "because", information, runner_up, second, 5, None, ""
    )  # fmt: skip


def insight(
    n=12, *, ids=None, strategy="AggMI", asked=2, zs=None, by_forecast="", unit=None, **status
):
    names = ids or [f"set {k}" for k in range(1, n + 1)]
    zs = [(-1) ** k * 0.2 * k for k in range(n)] if zs is None else zs
    rows = tuple(
        compared(k, z, name) for k, (z, name) in enumerate(zip(zs, names, strict=True), start=1)
    )
    counts = {"sets": 40, "answers": n, "open_claims": 1, "skipped": 2, **status}
    where = Status("s", strategy, counts["sets"], counts["answers"], counts["open_claims"],
                   counts["skipped"], n + 1, 6.5, 9.0, 4.0, asked, 2.0)  # fmt: skip
    return Insight(
        status=where,
        level=0.9,
        steps=tuple(step(k, name) for k, name in enumerate(names, start=1)),
        compared=rows if n >= 3 else (),
        typical_error=0.3,
        typical_naive_error=0.8,
        unit=unit,
        by_forecast=by_forecast,
        calibration=coverage([row.z for row in rows], 0.9) if n >= 3 else (),
        trust="The intervals are about right: 12 of 12 answers lie in intervals made for 90 %.",
        next_questions=tuple(question(f"next {k}", 0.9 - 0.1 * k) for k in range(asked)),
    )


def data_of(spec, name):
    """The rows of a layer by the name of its data."""
    found = [spec["data"]] if "data" in spec else []
    for layer in spec.get("layer", ()):
        found += [layer["data"]] if "data" in layer else []
    return next(data["values"] for data in found if data["name"] == name)


def without_values(part):
    """The chart without its data."""
    if isinstance(part, dict):
        return {key: without_values(value) for key, value in part.items() if key != "values"}
    return [without_values(value) for value in part] if isinstance(part, list) else part


# --- text -----------------------------------------------------------------------------------------


def test_labels_are_one_line_without_what_nobody_sees():
    assert label("a\nb\tc  d") == "a b c d"
    assert label("\u202eevil\u202c") == "evil"
    assert label("nul\x00 and \ud800 lone") == "nul and lone"
    assert label("👩‍👧") == "👩‍👧"  # its parts are joined by what is unseen
    assert label("שלום") == "שלום"
    assert label("\u202e") == label("") == "(blank)"


def test_long_labels_lose_their_middle_and_keep_their_length():
    one, other = label("x" * 500 + "1"), label("x" * 500 + "2")
    assert len(one) == len(other) == 30
    assert one != other
    assert label("y" * 30) == "y" * 30
    joined = label("👩‍👩‍👧‍👦" * 30)
    assert not any(f"{j}…" in joined or f"…{j}" in joined for j in "\u200c\u200d")


def test_numbers_are_written_for_people():
    assert [figure(v) for v in (1234567.0, 12.345, 0.5, 1e-9)] == [
        "1,234,567", "12.3", "0.500", "1.00e−9",
    ]  # fmt: skip
    assert [figure(v) for v in (float("inf"), -0.25, 0.0)] == ["inf", "−0.250", "0"]
    assert [as_given(v) for v in (8717.399999141693, -3.0, 1.5e-8)] == ["8,717.4", "−3", "1.5e−8"]


# --- rows -----------------------------------------------------------------------------------------


def test_progress_begins_with_the_second_answer():
    rows = panels.progress(insight(4)).rows
    assert [row["answer"] for row in rows] == [2, 3, 4]
    assert rows[0] == {
        "answer": 2, "set": "set 2",
        "uncertainty": 4.0, "forecast error": 2.5, "same for everyone": 7.0,
    }  # fmt: skip


def test_information_has_a_row_for_every_answer():
    rows = panels.information(insight(3)).rows
    assert rows == [{"answer": k, "set": f"set {k}", "information": 3.0 / k} for k in (1, 2, 3)]


def test_predictions_may_be_per_unit_of_weight():
    zs = [0.0, 1.0, -2.0]
    totals = panels.predicted(insight(3, zs=zs)).rows
    assert [row["answer"] for row in totals] == [20.0, 24.0, 12.0]
    assert [row["interval"] for row in totals] == ["inside", "inside", "outside"]
    each = panels.predicted(insight(3, zs=zs, unit="individual")).rows
    assert [row["answer"] for row in each] == [10.0, 12.0, 6.0]
    for name in ("predicted", "lower", "upper"):
        assert [2 * row[name] for row in each] == [row[name] for row in totals]
    assert [row["total"] for row in each] == [20.0, 24.0, 12.0]


def test_of_very_many_answers_those_far_off_are_all_drawn(monkeypatch):
    monkeypatch.setattr(panels, "MOST", 10)
    zs = [3.0 if k % 20 == 7 else 0.01 * k for k in range(100)]
    found = insight(100, zs=zs)
    rows = panels.predicted(found).rows
    assert len(rows) <= 10
    assert sum(row["z"] == 3.0 for row in rows) == 5
    names = [f"set {k}" for k in range(1, 101)]
    at = [names.index(row["set"]) for row in rows]
    assert at == sorted(at)
    assert at[0] < 10 < 80 < at[-1]
    assert "Of 100 answers 10 are drawn" in study_panels(found)[2].words[0]


def test_questions_say_who_came_second():
    rows = panels.questions(insight()).rows
    assert rows[1] == {
        "question": "2. next 1", "score": 0.8, "information": 0.8, "expected": 7.0, "std": 2.0,
        "runner-up": "r", "second": 0.5,
    }  # fmt: skip
    priced = replace(question("next", 0.8), cost=2.0, runner_up_cost=5.0)
    rows = panels.questions(replace(insight(), next_questions=(priced,))).rows
    assert (rows[0]["score"], rows[0]["second"]) == (0.4, 0.1)


@pytest.mark.parametrize(
    ("strategy", "what"),
    [
        ("AggMI", "expected to teach, in nats"),
        ("IVR", "taken off the mean variance of predictions"),
        ("MaxN", "score by MaxN"),
    ],
)
def test_the_chart_of_questions_draws_what_ranks_them(strategy, what):
    spec = panels.questions(insight(strategy=strategy)).charts[0].to_dict()
    assert spec["layer"][0]["encoding"]["x"]["field"] == "score"
    assert spec["layer"][0]["encoding"]["x"]["title"] == what


def test_calibration_rows_are_shares():
    row = panels.calibration(insight(3, zs=[0.0, 1.0, 3.0])).rows[2]
    assert (row["level"], row["share"], row["inside"], row["answers"]) == (0.9, 2 / 3, 2, 3)
    assert row["low"] < 0.5 < row["high"]


# --- panels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "have"), [(0, "there are none yet"), (1, "there is 1"), (2, "there are 2")]
)
def test_with_few_answers_panels_say_what_is_missing(n, have):
    shown = study_panels(insight(n))
    assert [not panel.charts for panel in shown] == [True, True, True, True, False]
    for panel in shown[:3]:
        assert f"from 3 answers on; {have}." in panel.words[0]
    assert "from 10 answers on" in shown[3].words[-1]
    assert all(panel.table is None for panel in shown[:4])
    guess = "only guesses" in shown[4].words[0]
    assert guess == (n == 0)
    assert (shown[4].table.rows[0][2] == "–") == (n == 0)


def test_intervals_are_not_drawn_from_fewer_than_ten():
    assert not study_panels(insight(9))[3].charts
    drawn = study_panels(insight(10))[3]
    assert len(drawn.charts) == 1
    assert drawn.words[0].startswith("The intervals are about right")
    few = "Nothing unusual, but too few totals to judge the intervals"
    assert drawn.charts[0].to_dict()["title"]["text"] == few
    many = study_panels(insight(40, zs=[0.5 + 0.6 * (k % 2) + 9 * (k < 4) for k in range(40)]))[3]
    assert many.charts[0].to_dict()["title"]["text"] == "The intervals are about right"


def test_every_panel_of_a_full_study_has_a_chart_and_a_title_with_the_finding():
    shown = study_panels(insight(12))
    titles = [panel.charts[0].to_dict()["title"]["text"] for panel in shown]
    assert titles[0] == "Half of the predictions are off by less than 0.300 in a set's mean"
    assert shown[0].charts[0].to_dict()["title"]["subtitle"] == [
        "By the current model, which predicts each answer from all the others.",
        "The same for everyone would be off by 0.800.",
    ]
    assert titles[2] == "9 of 12 answers lie in their 90 % interval"
    assert [panel.title for panel in shown] == [
        "Progress", "Information per answer", "Predicted and answered",
        "Are the intervals right?", "What to ask next",
    ]  # fmt: skip
    assert "1.50 by the latest estimate" in shown[0].words[2]


def test_what_is_left_to_gain_is_said_in_words():
    spec = study_panels(insight(12))[1].charts[0].to_dict()
    assert spec["title"]["subtitle"] == [
        "Measuring all 26 sets that are left would teach about 6.50 nats more."
    ]
    done = study_panels(insight(12, sets=14))[1].charts[0].to_dict()
    assert done["title"]["subtitle"] == ["Nothing is left to measure."]


def test_nothing_to_ask_is_said_in_words():
    shown = study_panels(insight(12, asked=0))[4]
    assert not shown.charts
    assert shown.table is None
    assert shown.words == [
        "Every set is measured, being measured or skipped; nothing is free to ask."
    ]


def test_a_network_says_that_forecasts_are_shown():
    words = study_panels(insight(12, by_forecast="The network remembers."))[2].words[0]
    assert words.startswith("The network remembers. Each answer is compared with the forecast")
    assert "from all the others" in study_panels(insight(12))[2].words[0]
    title = study_panels(insight(12, by_forecast="It remembers."))[0].charts[0].to_dict()["title"]
    assert title["text"] == "Forecasts are off by 0.300 per individual"
    assert title["subtitle"][0] == "Over the last 10 answers."
    assert "when less was known" in study_panels(insight(12))[0].words[0]


def test_tables_hold_the_figures_of_the_charts():
    shown = study_panels(insight(12))
    assert shown[0].table.columns == (
        "after answer", "forecast error", "same for everyone", "uncertainty",
    )  # fmt: skip
    assert shown[0].table.rows[0] == ("2", "2.50", "7.00", "4.00")
    assert shown[0].table.rows[-1] == ("12", "0.417", "7.00", "4.00")
    assert len(shown[0].table.rows) == 10
    assert shown[3].table.rows[2][:3] == ("90 %", "9 of 12", "75 %")
    assert shown[4].table.rows[0] == ("1", "next 0", "7.000 ± 2.00", "0.900", "r", "because")
    assert len(study_panels(insight(3))[0].table.rows) == 2


# --- charts ---------------------------------------------------------------------------------------


def test_charts_draw_the_rows():
    shown = study_panels(insight(12, unit="individual"))
    names = ("information", "predicted", "calibration", "questions")
    for panel, name in zip(shown[1:], names, strict=True):
        drawn = data_of(panel.charts[0].to_dict(), name)
        for row, point in zip(panel.rows, drawn, strict=True):
            assert row.items() <= point.items()
    lines = data_of(shown[0].charts[0].to_dict(), "progress")
    assert [p["mean"] for p in lines if p["strategy"] == "uncertainty"] == [4.0] * 11
    assert len(lines) == 33


def test_answers_outside_stand_out_in_colour_and_shape():
    spec = study_panels(insight(12, unit="individual"))[2].charts[0].to_dict()
    points = spec["layer"][-1]["encoding"]
    kinds = ["inside the 90 % interval", "outside the 90 % interval"]
    assert points["color"]["scale"]["domain"] == points["shape"]["scale"]["domain"] == kinds
    assert len(set(points["color"]["scale"]["range"])) == 2
    assert len(set(points["shape"]["scale"]["range"])) == 2
    sides = [row["side"] for row in data_of(spec, "predicted")]
    assert [side == kinds[1] for side in sides] == [row.outside for row in insight(12).compared]
    assert points["y"]["title"] == "predicted without knowing it per individual"
    (low, high) = points["x"]["scale"]["domain"]
    assert data_of(spec, "diagonal") == [{"at": low}, {"at": high}]
    drawn = data_of(spec, "predicted")
    reached = [row[name] for row in drawn for name in ("answer", "lower", "upper")]
    assert low < min(reached) < max(reached) < high


def test_answers_that_are_all_alike_can_be_drawn():
    same = insight(3, zs=[0.0, 0.0, 0.0])
    (low, high) = (
        study_panels(same)[2].charts[0].to_dict()["layer"][-1]["encoding"]["x"]["scale"]["domain"]
    )
    assert low < high


def test_runners_up_are_marked_where_there_are_any():
    assert len(study_panels(insight())[4].charts[0].to_dict()["layer"]) == 2
    alone = replace(insight(), next_questions=(question("next", 0.8, None, None),))
    assert len(study_panels(alone)[4].charts[0].to_dict()["layer"]) == 1


def test_lines_are_told_apart_without_colour():
    spec = study_panels(insight())[0].charts[0].to_dict()
    line = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "line")
    assert len({str(dash) for dash in line["encoding"]["strokeDash"]["scale"]["range"]}) == 3
    assert len(set(line["encoding"]["color"]["scale"]["range"])) == 3
    labels = data_of(spec, "labels")
    assert {row["strategy"] for row in labels} == set(panels.LINES)


def test_a_level_of_one_third_fits_its_chart():
    found = replace(insight(12), level=0.3, calibration=coverage([0.1] * 12, 0.3))
    spec = panels.calibration(found).charts[0].to_dict()
    assert data_of(spec, "diagonal")[0] == {"at": 0.0}


def test_ids_are_data_and_nothing_else():
    ids = [WICKED, WICKED + "2", "x" * 5000, *(f"plain {k}" for k in range(9))]
    found = insight(12, ids=ids)
    for panel in study_panels(found):
        spec = panel.charts[0].to_dict()
        rest = json.dumps(without_values(spec))
        assert "onerror" not in rest
        assert "xxxxx" not in rest
        assert len(json.dumps(spec)) < 20_000


def test_names_that_begin_alike_are_two_bars():
    found = insight(12)
    alike = tuple(question("same " * 50, 0.9) for _ in range(2))
    rows = panels.questions(replace(found, next_questions=alike)).rows
    assert len({row["question"] for row in rows}) == 2


def test_all_charts_can_be_drawn_to_files(tmp_path):
    for number, panel in enumerate(study_panels(insight(12, unit="individual"))):
        (path,) = save(panel.charts[0], tmp_path / str(number), [".svg"])
        text = path.read_text(encoding="utf-8")
        assert panel.charts[0].to_dict()["title"]["text"] in text
        assert "NaN" not in text


# --- costs ----------------------------------------------------------------------------------------


def test_what_was_spent_and_taught_is_added_up_answer_by_answer():
    rows = panels.spending(insight(3), np.array([2.0, 3.0, 0.5])).table.rows
    assert [row[:5] for row in rows] == [
        ("1", "set 1", "2.00", "2.00", "3.00"),
        ("2", "set 2", "3.00", "5.00", "4.50"),
        ("3", "set 3", "0.500", "5.50", "5.50"),
    ]


def test_answers_that_were_not_looked_at_again_are_still_paid_for():
    found = insight(6)
    some = replace(found, steps=found.steps[1::2])
    rows = panels.spending(some, np.full(6, 2.0)).table.rows
    assert [row[0] for row in rows] == ["2", "4", "6"]
    assert [row[3] for row in rows] == ["4.00", "8.00", "12.0"]
    assert {row[4] for row in rows} == {"–"}  # what the others taught is not known
