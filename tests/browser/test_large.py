"""A hundred thousand sets: the first page stays small, and the server does the searching."""

from __future__ import annotations

import numpy as np
import pytest

import sumwise as sw
from tests.browser.places import Place
from tests.browser.tools import expect, settled

SETS = 100_000


@pytest.mark.slow
def test_a_hundred_thousand_sets(serve, visit, shot, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(SETS, 2))
    ids = [f"plot {number:06d}" for number in range(SETS)]
    sets = sw.Sets.from_arrays([x[a : a + 1] for a in range(SETS)], ids=ids)
    with sw.create_study(
        tmp_path / "large.db", sets, model=sw.AggregateRegressor("fourier", n_basis=32)
    ) as study:
        for position in range(0, 50_000, 5_000):
            study.tell(ids[position], float(3 * x[position, 0] + rng.normal(0, 0.1)))
    server = serve(Place(tmp_path / "large.db", {}))
    page = visit(server, who="")
    page.locator(".part.proposed .card").nth(4).wait_for()
    answered = [each for each in page.watch.responses if "/events" not in each.url]
    loaded = {each.url: len(each.body()) for each in answered}
    assert sum(loaded.values()) < 500_000, loaded
    assert not any("vega" in url for url in loaded)
    shot(page, "large-next")

    page.get_by_role("link", name="Pool", exact=True).click()
    expect(page.get_by_text("1 to 50 of 100\u202f000")).to_be_visible()
    settled(page)
    page.get_by_label("Search").fill("plot 09999")
    expect(page.locator("tbody tr")).to_have_count(10)
    page.get_by_label("Search").fill("")
    expect(page.get_by_text("1 to 50 of 100\u202f000")).to_be_visible()
    page.get_by_role("button", name="Last").click()
    expect(page.get_by_text("99\u202f951 to 100\u202f000 of 100\u202f000")).to_be_visible()
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.locator("tbody tr th").first).to_have_text("plot 000000")
    shot(page, "large-pool")
    page.get_by_role("link", name="Individuals", exact=True).click()
    individuals = page.locator("section.individuals")
    expect(individuals.get_by_text("1 to 50 of 100\u202f000")).to_be_visible()
