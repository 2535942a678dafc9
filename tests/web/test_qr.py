"""QR codes, read by a decoder that shares nothing with the encoder."""

from __future__ import annotations

import re

import numpy as np
import pytest
import zxingcpp
from hypothesis import given
from hypothesis import strategies as st

import sumwise as sw
from sumwise.web import create_app, qr
from tests.web.apps import client_of, got
from tests.web.designs import sera

MOST = {
    1: 14,
    2: 26,
    3: 42,
    4: 62,
    5: 84,
    6: 106,
    7: 122,
    8: 152,
    9: 180,
    10: 213,
}  # the standard's


def read(grid):
    """What a code says: its text, and the level of error correction."""
    with_margin = np.pad(~grid, 4, constant_values=True)
    picture = np.kron(with_margin, np.ones((4, 4))).astype(np.uint8) * 255
    (found,) = zxingcpp.read_barcodes(picture, formats=zxingcpp.BarcodeFormat.QRCode)
    return found.text, found.ec_level


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=100))
def test_any_text_is_read_back(text):
    if len(text.encode()) <= qr.MOST:
        assert read(qr.encode(text)) == (text, "M")


@pytest.mark.parametrize("version", MOST)
def test_each_version_holds_as_much_as_it_should(version):
    for size in (MOST.get(version - 1, 0) + 1, MOST[version]):
        text = ("https://lab.example/#/next/set/" + "0123456789" * 20)[:size]
        grid = qr.encode(text)
        assert len(grid) == 17 + 4 * version
        assert read(grid) == (text, "M")


def test_a_code_of_the_standard_has_these_words():
    """Annex I of ISO/IEC 18004: data words of 01234567 in version 1-M, and their check words."""
    data = [0x10, 0x20, 0x0C, 0x56, 0x61, 0x80, *[0xEC, 0x11] * 5]
    checks = [0xA5, 0x24, 0xD4, 0xC1, 0xED, 0x36, 0xC7, 0x87, 0x2C, 0x55]
    assert qr.check_words(data, 10) == checks


@pytest.mark.parametrize("size", [20, 100, 200])
def test_a_stained_code_is_still_read(size):
    text = ("https://lab.example/#/next/set/" + "0123456789" * 20)[:size]
    grid = qr.encode(text)
    middle = len(grid) // 2 + 1
    reach = max(1, len(grid) // 12)
    grid[middle - reach : middle + reach + 1, middle - reach : middle + reach + 1] = True
    assert read(grid) == (text, "M")


def test_what_is_too_long_is_refused():
    with pytest.raises(sw.SettingError, match="too long for a code; give up to 213 bytes"):
        qr.encode("x" * 214)


def grid_of(text):
    """The modules of a picture."""
    side = int(re.search(r'viewBox="0 0 (\d+) ', text)[1])
    grid = np.zeros((side, side), dtype=bool)
    for x, y, width in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\d+z", text):
        grid[int(y), int(x) : int(x) + int(width)] = True
    assert not grid[[*range(4), *range(-4, 0)]].any()
    assert not grid[:, [*range(4), *range(-4, 0)]].any()
    return grid[4:-4, 4:-4]


def test_the_page_gives_the_address_of_the_answer_without_the_token(tmp_path):
    study, _ = sera(tmp_path / "sera.db")
    with study:
        app = create_app(study)
        web = client_of(app)
        name = study.ask().set_id
        at = study.sets.position(name)
        answer = web.get(f"/api/sets/{at}/code.svg")
        assert answer.headers["content-type"].startswith("image/svg+xml")
        assert read(grid_of(answer.text))[0] == f"http://127.0.0.1:8765/#/next/set/{at}"
        other = web.get(f"/api/sets/{at}/code.svg?origin=https://lab.example:8000")
        assert read(grid_of(other.text))[0] == f"https://lab.example:8000/#/next/set/{at}"
        for bad in ("javascript:alert(1)", "https://a.example/x", "https://a b", "//a"):
            refused = web.get(f"/api/sets/{at}/code.svg", params={"origin": bad})
            assert got(refused, 422)["code"] == "invalid"
        assert got(web.get("/api/sets/999/code.svg"), 404)["code"] == "unknown_set"
