"""Pages say what is so: words of the glossary are used, quoted messages are in the code, figures
come out, and modules are where they are said to be."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pytest

import sumwise as sw
from scripts import when_it_works

ROOT = Path(__file__).resolve().parents[1]
DOCS, SOURCE = ROOT / "docs", ROOT / "src" / "sumwise"


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def sections(text: str, level: str) -> dict[str, str]:
    """Texts below headings of a level, by heading."""
    parts = re.split(rf"^{level} (.+)$", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


# --- glossary -------------------------------------------------------------------------------------


def test_the_glossary_has_every_strategy():
    named = {word for head in sections(page("glossary.md"), "###") for word in head.split(", ")}
    assert set(sw.ACQUISITIONS) <= named


def test_the_glossary_names_every_basis():
    text = sections(page("glossary.md"), "###")["Basis"]
    assert set(re.findall(r"`(\w+)`", text)) == set(sw.BASES)


@pytest.mark.parametrize(
    ("head", "text"), sections(page("glossary.md"), "###").items(), ids=lambda part: part[:20]
)
def test_a_word_of_the_glossary_is_used_where_it_links_to(head, text):
    links = set(re.findall(r"\]\(([\w-]+\.md)", text))
    assert links, f"{head} links to no page"
    words = re.split(r", | and ", head)
    for link in links:
        said = page(link).casefold()
        assert any(stem(word) in said for word in words), f"{link} does not say {head}"
    code = " ".join(re.findall(r"`([^`]+)`", text))
    for name in re.findall(r"\b[a-z]+_[a-z_]+\b", code):
        assert any(name in source for source in sources()), f"{head}: {name} is not in the code"


def stem(word: str) -> str:
    """Without an ending, so that claims and claimed are found as well."""
    return re.sub(r"(ion|s|e|y)$", "", word.casefold())


@cache
def sources() -> tuple[str, ...]:
    return tuple(file.read_text("utf-8") for file in sorted(SOURCE.rglob("*.py")))


# --- messages -------------------------------------------------------------------------------------


@cache
def messages() -> tuple[str, ...]:
    """Every text in the code, with … in place of values; a docstring is one, too. Scripts of the
    page are taken as they are."""
    texts = [file.read_text("utf-8") for file in SOURCE.glob("web/static/*.js")]
    for source in sources():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
                texts.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return tuple(texts)


def not_said(quoted: str) -> list[str]:
    """Parts of a quoted message, between values (…), that no text of the code has."""
    parts = [part.strip() for part in quoted.split("…")]
    return [part for part in parts if len(part) > 3 and not any(part in m for m in messages())]


@pytest.mark.parametrize("quoted", re.findall(r"^> (.+)$", page("faq.md"), re.MULTILINE))
def test_a_message_in_the_questions_is_one_of_the_code(quoted):
    assert not_said(quoted) == []


def test_every_question_by_message_has_one():
    text = page("faq.md").split("## Questions without")[0]
    assert [head for head, said in sections(text, "###").items() if "\n> " not in said] == []


def test_messages_among_the_symptoms_are_those_of_the_code():
    table = page("when-it-works.md").split("## Symptoms")[1].split("\n## ")[0]
    quoted = re.findall(r"^\| `([^`]+)`", table, flags=re.MULTILINE)
    assert len(quoted) >= 10
    assert [part for each in quoted for part in not_said(each)] == []


# --- figures --------------------------------------------------------------------------------------


def told() -> dict[str, tuple[float, float]]:
    """Error and share held that the page tells of each world."""
    rows = re.findall(r"^\| (.+) \| (\d\.\d\d) \| (\d+) % \|$", page("when-it-works.md"), re.M)
    return {name: (float(error), int(held) / 100) for name, error, held in rows}


def test_the_page_tells_of_every_world():
    assert list(told()) == list(when_it_works.CASES)


@pytest.mark.parametrize("case", ["means are told as sums", "the same, with 40 known individuals"])
def test_a_world_is_as_told_at_first_sight(case):
    found = when_it_works.figures(case, 1)
    assert (found["error"] > 1) == (told()[case][0] > 1)


@pytest.mark.slow
@pytest.mark.parametrize("case", when_it_works.CASES)
def test_a_world_is_as_told(case):
    found = when_it_works.figures(case, 20)
    assert (found["error"], found["held"]) == pytest.approx(told()[case], abs=0.0151)
    also = {
        "relation between sets is another than within": ("correlation within sets", "**−0.91**"),
        "the same, with 40 known individuals": ("correlation within sets", "sets 0.91"),
        "predictions beyond what was measured": ("too high by", "low by 3.95"),
        "the upper half of each set answers": ("too high by", "too high by 0.66 on average"),
        "rare counts as numbers": ("below 0", "10 % of predictions are below 0"),
    }
    if case in also:
        name, words = also[case]
        assert words in page("when-it-works.md")
        figure = float(re.search(r"[−\d.]+", words)[0].replace("−", "-"))
        figure *= (0.01 if "%" in words else 1) * (-1 if words.startswith("low by") else 1)
        assert found[name] == pytest.approx(figure, abs=0.01)


def learner_of(kind: str, seed: int) -> sw.ActiveLearner:
    """A world of the script, measured in a learner, which says what it makes of it."""
    rng = np.random.default_rng(seed)
    blocks, own = when_it_works.world(rng, rng.integers(2, 20, 80))
    x, noise = np.vstack(blocks), rng.normal(size=len(own))
    place = (np.bincount(own, x[:, 0]) / np.bincount(own))[own]
    y = {
        "noise": noise,
        "means": 5 + when_it_works.signal(x) + noise * 0.5,
        "ecological": 3 * place - x[:, 0] + noise * 0.3,
    }[kind]
    told = np.bincount(own, y) / (np.bincount(own) if kind == "means" else 1)
    learner = sw.ActiveLearner(sw.Sets.from_arrays(blocks), seed=0)
    learner.tell_many(list(range(30)), told[:30])
    return learner


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "worlds"), [("noise", 14), ("means", 18)])
def test_a_model_of_no_use_is_noticed_as_often_as_told(kind, worlds):
    headlines = [learner_of(kind, seed).status().headline for seed in range(20)]
    noticed = sum("does not beat guessing" in " ".join(said) for said in headlines)
    assert noticed == pytest.approx(worlds, abs=1)
    assert f"n {worlds} of the 20 worlds `status`" in page("when-it-works.md")


@pytest.mark.slow
def test_nothing_warns_of_the_ecological_fallacy():
    learner = learner_of("ecological", 0)
    assert learner.status().headline == ()
    explained = re.search(r"(\d+) % is explained by the inputs", learner.model.summary())[1]
    assert f"inputs explain {explained} % of the variance" in page("when-it-works.md")
    assert learner.insight().trust.startswith("Nothing unusual")


# --- architecture ---------------------------------------------------------------------------------


def walk() -> str:
    return page("architecture.md").split("## From a click")[1].split("\n## ")[0]


def test_functions_of_the_walk_are_where_it_says():
    names = re.findall(r"`((?:\w+\.){2,}\w+)`", walk())
    assert len(names) > 15
    missing = []
    for name in names:
        try:
            resolve_name(f"sumwise.{name}")
        except (ImportError, AttributeError) as error:
            missing.append(str(error))
    assert missing == []


def test_the_picture_numbers_the_packages_that_the_walk_names():
    picture = (DOCS / "images" / "architecture.svg").read_text("utf-8")
    shown, last = set(), ""
    for kind, text in re.findall(r'class="(name|number)"[^>]*>([^<]+)<', picture):
        last = text if kind == "name" else last
        shown |= {(int(text), last)} if kind == "number" else set()
    told = set()
    for number, step in re.findall(r"^(\d+)\. (.+?)(?=^\d+\. |\Z)", walk(), re.M | re.S):
        found = re.findall(r"`(\w+)\.\w+\.\w+|sumwise/(\w+)/static", step)
        told |= {(int(number), first or second) for first, second in found}
    assert shown == told


def test_the_picture_shows_every_package():
    picture = (DOCS / "images" / "architecture.svg").read_text("utf-8")
    shown = set(re.findall(r'class="name"[^>]*>(\w+)<', picture))
    here = {each.stem for each in SOURCE.iterdir() if each.suffix in ("", ".py")}
    assert shown == here - {"__init__", "__main__", "__pycache__"}


def test_every_module_in_the_architecture_exists():
    named = re.findall(r"\]\(\.\./(src/[\w./]+)\)", page("architecture.md"))
    assert [path for path in named if not (ROOT / path).exists()] == []


# --- links ----------------------------------------------------------------------------------------


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@cache
def anchors(file: Path) -> set[str]:
    return {slug(head) for head in re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)}


@pytest.mark.parametrize("file", sorted(DOCS.glob("*.md")), ids=lambda file: file.name)
def test_links_to_sections_lead_to_a_section(file):
    missing = []
    for name, anchor in re.findall(r"\]\(([\w./-]*)#([^)\s]+)\)", file.read_text("utf-8")):
        target = (file.parent / name) if name else file
        if target.suffix == ".md" and anchor not in anchors(target):
            missing.append(f"{name}#{anchor}")
    assert missing == []
