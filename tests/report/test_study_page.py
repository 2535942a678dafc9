"""The page of a study, as a browser's parser sees it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import sumwise as sw
from sumwise.report import individuals, study_page
from tests.builders import random_sets
from tests.report.test_page import Elements, charts_in
from tests.studies import change, play, with_wrong_total

WICKED = "</script><img src=x onerror=alert(1)>\"'&<!--"


def sections_of(text):
    """Headings and what stands below each, as text."""
    first = re.findall(r"<section>\n<h2>(.*?)</h2>(.*?)</section>", text, re.DOTALL)
    folded = re.findall(
        r"<details>\n<summary><h3>(.*?)</h3></summary>(.*?)</details>", text, re.DOTALL
    )
    assert (len(first), len(folded)) == (text.count("<section>"), text.count("<details>"))
    return dict([*first, *folded])


def cells_of(section):
    rows = re.findall(r"<tr>(.*?)</tr>", section.partition("<tbody>")[2], re.DOTALL)
    return [Elements(row).texts["td"] for row in rows]


def lead_of(text):
    return re.search(r'<p class="lead">(.*?)</p>', text, re.DOTALL)[1]


@pytest.fixture(scope="module")
def lively(problem, tmp_path_factory):
    """A study in which everything has happened, and its page."""
    path = tmp_path_factory.mktemp("secret") / "place.db"
    model = sw.AggregateRegressor("fourier", n_basis=24)
    with sw.create_study(path, problem[0], name="Michigan", model=model, seed=3) as study:
        for k in range(24):
            question = study.ask(by="ann" if k % 3 else "bob")
            study.tell(question.set_id, problem[1][question.set_id], by=question.by)
        study.retract(study.answers[3].set_id, by="cem", note="private note")
        study.amend(study.answers[0].set_id, 1.5, by="cem")
        study.tell(study.ask().set_id, 2.0, noise_std=0.25)
        study.ask(by="ann")
        study.skip(study.ask(by="bob").set_id, by="bob", note="closed <down>")
        yield study, study_page.page_of(study)


# --- what it says ---------------------------------------------------------------------------------


def test_the_page_has_its_sections_in_order(lively):
    _, text = lively
    assert list(sections_of(text)) == [
        "At a glance", "Sets", "Progress", "Information per answer", "Predicted and answered",
        "Are the intervals right?", "What to ask next", "Open questions", "Skipped sets",
        "The model", "Every set", "Every answer", "History", "What was done", "Individuals",
    ]  # fmt: skip
    assert Elements(text).texts["h1"][0].startswith("Michigan: 24 of 40 sets measured")
    assert len(charts_in(text)) == 6
    assert text.count("<section>") == 2  # the others are folded away


def test_the_lead_says_what_was_found(lively):
    study, text = lively
    assert lead_of(text) == (
        f"From 24 weighted sums the outputs of {len(study.sets.x)} individuals are predicted."
    )


def test_the_first_part_is_in_the_words_of_the_status(lively):
    study, text = lively
    rows, status = dict(cells_of(sections_of(text)["At a glance"])), study.status()
    assert rows["What is known now"] == " ".join(status.known_now)
    assert rows["What more answers buy"] == status.next_buys
    assert rows["Is it worth going on?"] == status.going_on
    assert {*status.known_now, status.next_buys, status.going_on} <= {*status.words}
    assert rows["Measure next"].startswith(f"{study.insight().next_questions[0].set_id}, ")


def test_information_and_scores_are_in_the_appendix_alone(lively):
    _, text = lively
    first = re.sub(r"<script.*?</script>|<style.*?</style>", "", text, flags=re.DOTALL)
    first = first.partition("<details>")[0]
    assert not re.search(r"\bnats?\b|varianc|score|θ|entropy", first)
    assert "in nats" in sections_of(text)["Information per answer"]


def test_an_answer_to_check_stands_on_top(tmp_path):
    with with_wrong_total(tmp_path / "a.db") as study:
        text, status = study_page.page_of(study), study.status()
    assert Elements(text).texts["h1"] == ["study: 3 of 6 sets measured; check set 1 first"]
    assert lead_of(text).startswith(status.to_check)


def test_a_model_that_does_not_beat_the_mean_is_called_that_on_top(tmp_path):
    rng = np.random.default_rng(0)
    sets = sw.Sets.from_arrays([rng.normal(size=(2, 8)) for _ in range(12)])
    model = sw.AggregateRegressor("linear", hyperparameters=(1e-6, 1e6))
    with sw.create_study(tmp_path / "a.db", sets, model=model) as study:
        study.tell_many(sets.ids, rng.normal(50, 1, len(sets)))
        text = study_page.page_of(study)
    title = Elements(text).texts["h1"][0]
    assert title.startswith("study: 12 of 12 sets measured; ")
    assert title.endswith("; no better than guessing the mean")
    assert "So far the model does not beat guessing the mean" in lead_of(text)


def test_what_to_ask_next_is_a_table_with_reasons(lively):
    study, text = lively
    rows = cells_of(sections_of(text)["What to ask next"])
    proposed = study.insight().next_questions
    assert [row[1] for row in rows] == [question.set_id for question in proposed]
    assert [row[-1] for row in rows] == [question.why for question in proposed]
    assert len(study.claims) == 1


def test_open_questions_and_skipped_sets_are_listed(lively):
    study, text = lively
    claimed = cells_of(sections_of(text)["Open questions"])
    assert [row[:2] for row in claimed] == [[study.claims[0].set_id, "ann"]]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", claimed[0][2])
    skipped = cells_of(sections_of(text)["Skipped sets"])
    assert skipped == [[study.skips[0].set_id, "bob", skipped[0][2], "closed <down>"]]


def test_every_answer_is_there_with_what_was_predicted(lively):
    study, text = lively
    found = study.insight()
    rows = cells_of(sections_of(text)["Every answer"])
    assert [row[1] for row in rows] == [told.set_id for told in study.answers]
    assert rows[0][2:4] == ["1.5", "–"]
    assert rows[-1][2] == "2 (± 0.250)"
    assert rows[-1][7] == "someone"
    for row, step, compared in zip(rows, found.steps, found.compared, strict=True):
        assert row[5] == f"{compared.z:.1f}".replace("-", "−")
        assert float(row[6]) == pytest.approx(step.information, rel=1e-2)
    bold = len(re.findall("<strong>", sections_of(text)["Every answer"]))
    assert bold == sum(compared.outside for compared in found.compared)


def test_history_says_who_did_how_much(lively):
    study, text = lively
    rows = {row[0]: row[1:] for row in cells_of(sections_of(text)["History"])}
    assert '<th scope="col">released</th>' not in text  # nobody did
    assert rows["ann"] == ["16", "17", "16", "–", "–", "–"]
    assert rows["bob"] == ["6", "9", "8", "–", "–", "1"]  # one taken back, one corrected
    assert rows["cem"] == ["1", "–", "–", "1", "1", "–"]
    assert rows["someone"][0] == "1"
    assert sum(int(row[0]) for row in rows.values()) == len(study.answers)


def test_individuals_have_their_set_number_inputs_and_interval(lively):
    study, text = lively
    rows = cells_of(sections_of(text)["Individuals"])
    expected = study.predict()
    assert len(rows) == len(expected)
    assert [row[0] for row in rows] == list(expected.ids)
    number, before = 0, None
    for row, mean, lower, upper, x in zip(
        rows, expected.mean, expected.lower, expected.upper, study.sets.x, strict=True
    ):
        number = number + 1 if row[0] == before else 1
        before = row[0]
        assert row[1] == str(number)
        plain = [cell.replace("−", "-") for cell in row]
        assert [float(cell) for cell in plain[2:5]] == pytest.approx(x.tolist(), rel=1e-4)
        assert float(plain[5]) == pytest.approx(mean, rel=1e-3)
        ends = [float(end) for end in plain[6].split(" to ")]
        assert ends == pytest.approx([lower, upper], rel=1e-3)


def test_it_says_what_was_done(lively):
    rows = dict(cells_of(sections_of(lively[1])["What was done"]))
    assert rows["strategy"] == "IVR, seed 3"
    assert rows["model"].startswith("24 random Fourier features, length-scale 1; inputs and")
    assert rows["a measurement tells"] == "a weighted sum over a set"
    assert f"sumwise {sw.__version__}" in rows["versions"]


# --- what it does not say -------------------------------------------------------------------------


def test_the_page_holds_no_path_address_or_private_note(place, problem):
    with sw.create_study(place, problem[0], model=sw.AggregateRegressor("linear")) as study:
        play(study, problem[1], 4)
        study.retract(study.answers[0].set_id, note="private note")
        text = study_page.page_of(study)
    for secret in (str(place), "study.db", "postgresql", "sqlite", "private note", "/tmp"):
        outside = text.replace("window.vegaEmbed", "")
        assert secret not in "".join(sections_of(outside).values())
        assert secret not in lead_of(outside)


def test_the_same_study_gives_the_same_page(lively):
    study, text = lively
    with sw.open_study(study._database.path) as again:
        assert study_page.page_of(again) == text


def test_wicked_names_stay_text(tmp_path):
    rng = np.random.default_rng(0)
    ids = [
        WICKED,
        "a" * 3000,
        "a" * 2999 + "b",
        "שלום",
        "\u202eevil",
        "👩‍👩‍👧‍👦" * 30,
        "x\ny",
        " ",
        ("MI", 7),
    ]
    sets = random_sets([1, 2, 3, 1, 2, 3, 1, 2, 3], rng, ids=ids)
    frame_names = (WICKED, "\u202e", "b" * 500)
    sets = type(sets)(sets.ids, sets.x, sets.theta, sets.starts, frame_names)
    model = sw.AggregateRegressor("linear")
    with sw.create_study(tmp_path / "a.db", sets, name=WICKED + "\u202e", model=model) as study:
        for set_id in ids[:6]:
            study.tell(set_id, 3.0, by=WICKED, note=WICKED)
        study.ask(by="y" * 500)
        study.skip(study.ask().set_id, note="z" * 5000)
        text = study_page.page_of(study)
    found = Elements(text)
    assert not [tag for tag, _ in found.tags if tag in ("img", "iframe", "link")]
    assert not [a for _, a in found.tags if any(name.startswith("on") for name in a)]
    assert found.texts["h1"][0].startswith("</script><img src=x")
    assert "\u202e" not in text
    assert "a" * 50 not in text
    assert "y" * 50 not in text
    assert "z" * 300 not in text
    assert len(charts_in(text)) == 5


def test_a_page_weighs_little(lively):
    assert len(lively[1].encode()) < 1_500_000


# --- little, and much -----------------------------------------------------------------------------


def test_an_upgrade_is_nobodys_work(tmp_path, problem):
    model, path = sw.AggregateRegressor("linear"), tmp_path / "a.db"
    with sw.create_study(path, problem[0], model=model) as study:
        line = "INSERT INTO sumwise_events (study_id, at, what) SELECT study_id, at, 'upgraded'"
        change(path, f"{line} FROM sumwise_events")
        assert "nothing else yet" in sections_of(study_page.page_of(study))["History"]


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_a_study_with_few_answers_has_a_page_that_says_so(tmp_path, problem, n):
    model = sw.AggregateRegressor("linear")
    with sw.create_study(tmp_path / "a.db", problem[0], model=model) as study:
        play(study, problem[1], n)
        text = study_page.page_of(study)
    lead = lead_of(text)
    if n == 0:
        assert lead.startswith("Nothing is measured yet: 40 sets hold ")
        assert "no unit before the first answer" in sections_of(text)["Individuals"]
        assert "There are none yet." in sections_of(text)["Every answer"]
        assert "nothing else yet" in sections_of(text)["History"]
    elif n < 3:
        assert lead.startswith("From one weighted sum" if n == 1 else "From 2 weighted sums")
        assert lead.endswith("How well shows from 3 answers on.")
    else:
        assert "3 are too few to notice" in sections_of(text)["Are the intervals right?"]
    assert len(charts_in(text)) == {0: 1, 3: 5}.get(n, 2)
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b", "".join(sections_of(text).values()))


def test_of_many_individuals_those_that_stand_out_are_shown(lively, monkeypatch):
    study, _ = lively
    for module in (individuals, study_page):
        monkeypatch.setattr(module, "MOST", 10)
    text = study_page.page_of(study)
    expected = study.predict()
    rows = cells_of(sections_of(text)["Individuals"])
    order = np.argsort(-expected.mean, kind="stable")
    chosen = [*order[:5], *order[-5:]]
    assert [row[0] for row in rows] == [expected.ids[i] for i in chosen]
    shown = [float(row[5].replace("−", "-")) for row in rows]
    assert shown == pytest.approx(expected.mean[chosen].tolist(), rel=1e-3)
    words = Elements(sections_of(text)["Individuals"]).texts["p"][0]
    assert "the 5 with the highest and the 5 with the lowest predictions" in words
    assert "sumwise predict … -o" in words


def test_of_many_answers_the_last_are_shown(lively, monkeypatch):
    study, _ = lively
    monkeypatch.setattr(study_page, "MOST", 10)
    section = sections_of(study_page.page_of(study))["Every answer"]
    rows = cells_of(section)
    assert [row[1] for row in rows] == [told.set_id for told in study.answers[-10:]]
    assert rows[0][0] == "15"
    assert "The last 10 of 24." in section
    outside = [row.number for row in study.insight().compared if row.outside]
    bold = [int(row[0]) for row, raw in zip(rows, section.split("<tr>")[2:], strict=True)
            if "<strong>" in raw]  # fmt: skip
    assert bold == [number for number in outside if number > 14]


def test_a_network_is_compared_with_its_forecasts(tmp_path, problem):
    model = sw.AggregateRegressor(sw.Neural(width=3, depth=2, n_basis=4, epochs=5))
    with sw.create_study(tmp_path / "a.db", problem[0], model=model) as study:
        play(study, problem[1], 4)
        parts = sections_of(study_page.page_of(study))
    assert "has learned from all answers" in parts["Predicted and answered"]
    assert [row[4] for row in cells_of(parts["Every answer"])] == ["–"] * 4
    assert [row[5] == "–" for row in cells_of(parts["Every answer"])] == [True] + [False] * 3
    assert "Neural(" in dict(cells_of(parts["What was done"]))["model"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"basis": "linear"}, "linear in the inputs; inputs and outputs standardised; λ and β by"),
        ({"basis": "polynomial", "degree": 3}, "polynomial features of degree 3"),
        ({"basis": "linear", "standardize": False}, "inputs and outputs as they are"),
        ({"basis": "linear", "hyperparameters": (0.5, 4.0)}, "λ = 0.5, β = 4"),
        (
            {"basis": "fourier", "hyperparameters": "adam"},
            "by the paper's Adam, basis drawn with seed 0",
        ),
    ],
)
def test_models_are_described(tmp_path, problem, settings, words):
    model = sw.AggregateRegressor(**settings)
    with sw.create_study(tmp_path / "a.db", problem[0], model=model) as study:
        rows = dict(cells_of(sections_of(study_page.page_of(study))["What was done"]))
    assert words in rows["model"]


@pytest.mark.parametrize(
    ("weights", "told", "per"),
    [
        (None, "the sum over a set", " per individual"),
        ("mean", "the mean over a set", ""),
        ([2.0, 3.0], "a weighted sum over a set", " per unit of weight"),
        ([2.0, -3.0], "a weighted sum over a set", ""),
    ],
)
def test_totals_are_compared_per_unit_where_there_is_one(tmp_path, weights, told, per):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(2 * n, 2)) for n in (1, 2, 3, 1, 2)]
    if weights == "mean":
        weights = [np.full(len(a), 1 / len(a)) for a in arrays]
    elif weights is not None:
        weights = [np.array(weights * (len(a) // 2)) for a in arrays]
    sets = sw.Sets.from_arrays(arrays, weights)
    with sw.create_study(tmp_path / "a.db", sets, model=sw.AggregateRegressor("linear")) as study:
        for set_id in range(4):
            study.tell(set_id, 3.0 + set_id)
        text = study_page.page_of(study)
    assert dict(cells_of(sections_of(text)["What was done"]))["a measurement tells"] == told
    chart = next(c for c in charts_in(text) if "90 % interval" in c["title"]["text"])
    assert chart["layer"][-1]["encoding"]["x"]["title"] == f"answered{per}"


def test_individuals_and_sizes_of_sets_are_named_without_a_slip_of_grammar(tmp_path):
    rng = np.random.default_rng(0)
    sets = sw.Sets.from_arrays([rng.normal(size=(n, 2)) for n in (4, 3, 5, 1, 1, 1, 1)])
    settings = {"model": sw.AggregateRegressor("linear"), "individual": "animal"}
    with sw.create_study(tmp_path / "a.db", sets, **settings) as study:
        study.tell_many([0, 1, 2], [4.0, 5.0, 6.5])
        rows = dict(cells_of(sections_of(study_page.page_of(study))["At a glance"]))
    assert "There are 16 individuals (each is one animal); 3 sets" in rows["What is measured"]
    assert "Measured sets are larger (4 individuals; usual: 1)," in rows["Checked on answers"]


def test_a_model_that_is_no_better_than_the_mean_is_called_so(tmp_path):
    """Outputs that have nothing to do with the inputs."""
    rng = np.random.default_rng(2)
    sets = sw.Sets.from_arrays([rng.normal(size=(1, 6)) for _ in range(30)])
    model = sw.AggregateRegressor("linear", hyperparameters=(1e-3, 1e3))
    with sw.create_study(tmp_path / "a.db", sets, model=model, strategy="Rand") as study:
        play(study, dict(enumerate(rng.normal(50, 1, 30).tolist())), 12)
        lead = lead_of(study_page.page_of(study))
    assert "So far the model does not beat guessing the mean" in lead


# --- files, and others at work --------------------------------------------------------------------


def test_it_is_written_to_a_file(lively, tmp_path):
    study, text = lively
    path = study_page.write(study, str(tmp_path / "new" / "report.html"))
    assert path == tmp_path / "new" / "report.html"
    assert path.read_text(encoding="utf-8") == text


def test_a_place_that_cannot_be_written_is_refused_before_the_work(lively, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(study_page, "page_of", lambda study: pytest.fail("this is work"))
    with pytest.raises(sw.SettingError, match="is a file, so nothing can be put in"):
        study_page.write(lively[0], tmp_path / "file" / "report.html")


def test_an_answer_that_comes_in_meanwhile_is_in_all_of_the_page(tmp_path, problem, monkeypatch):
    model = sw.AggregateRegressor("linear")
    with sw.create_study(tmp_path / "a.db", problem[0], model=model) as study:
        play(study, problem[1], 4)
        plain, late = type(study).insight, ["set 7"]

        def slow(self, level=0.9):
            found = plain(self, level)
            if late:
                study.tell(late.pop(), 1.0)
            return found

        monkeypatch.setattr(type(study), "insight", slow)
        text = study_page.page_of(study)
    assert Elements(text).texts["h1"] == ["study: 5 of 40 sets measured"]
    assert len(cells_of(sections_of(text)["Every answer"])) == 5


def test_names_from_right_to_left_leave_what_stands_beside_them_in_place(tmp_path):
    """Otherwise "حلب: 12 where 10" is drawn with the number before the name."""
    names = ["حلب", "דן", "غزة 5", "north", "south", "east", "west"]
    sets = random_sets([2] * 7, np.random.default_rng(0), ids=names)
    model = sw.AggregateRegressor("linear")
    with sw.create_study(tmp_path / "a.db", sets, model=model) as study:
        for number, name in enumerate(names[2:6]):
            study.tell(name, 3.0 + number)
        text = study_page.page_of(study)
    rows = re.findall(r"<tr><td><strong>(.*?)</strong></td><td>(.*?)</td>", text)
    following = dict(rows)["Measure next"]
    assert sorted(following.rstrip(".").split(", ")) == sorted(
        ["\u2068حلب\u2069", "\u2068דן\u2069", "west"]
    )
