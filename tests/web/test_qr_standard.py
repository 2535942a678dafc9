"""Codes as ISO/IEC 18004 has them, in the parts that a reader forgives: masks, and their choice."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest

from sumwise.web import qr
from tests.web.test_qr import read


@pytest.mark.parametrize("mask", range(8))
@pytest.mark.parametrize("version", [1, 7])
def test_a_code_with_any_mask_is_read(mask, version):
    """Readers undo the mask that the code names, by the formulas of table 10."""
    text = "https://lab.example/#/next/set/0123456789" * 3
    text = text[: qr._capacity(version)]
    grid, fixed = qr._fixed(version)
    qr._place(grid, fixed, qr._words(text.encode(), version))
    masks = qr._masks(*np.ogrid[: len(grid), : len(grid)])
    assert read(qr._with_format(grid ^ (masks[mask] & ~fixed), mask)) == (text, "M")


def penalty(grid):
    """Table 11, word by word."""
    n, total = len(grid), 0
    for line in [*grid.tolist(), *grid.T.tolist()]:
        for _, run in groupby(line):
            length = len(list(run))
            total += 3 + length - 5 if length >= 5 else 0
        finder = [True, False, True, True, True, False, True]
        for at in range(n - 10):
            some = line[at : at + 11]
            total += 40 * (some == finder + [False] * 4) + 40 * (some == [False] * 4 + finder)
    for y in range(n - 1):
        for x in range(n - 1):
            total += 3 * (len(set(grid[y : y + 2, x : x + 2].ravel().tolist())) == 1)
    share = 100 * int(grid.sum()) / n**2
    return total + 10 * int(abs(share - 50) / 5)


@pytest.mark.parametrize("dark", [0.1, 0.3, 0.5, 0.7])
def test_penalties_are_those_of_the_standard(dark):
    rng = np.random.default_rng(0)
    for n in (21, 25):
        grid = rng.random((n, n)) < dark
        grid[3, 2:13] = [True, False, True, True, True, False, True, *[False] * 4]
        grid[5:16, 4] = [*[False] * 4, True, False, True, True, True, False, True]
        grid[18, :12] = grid[8:19, 20] = True
        assert qr._penalty(grid) == penalty(grid)


def test_the_mask_is_the_one_with_the_least_penalty():
    text = "set 7"
    grid, fixed = qr._fixed(1)
    qr._place(grid, fixed, qr._words(text.encode(), 1))
    masks = qr._masks(*np.ogrid[:21, :21])
    all_of_them = [qr._with_format(grid ^ (mask & ~fixed), n) for n, mask in enumerate(masks)]
    assert penalty(qr.encode(text)) == min(map(penalty, all_of_them))


def test_a_picture_of_a_code_has_each_dark_module_once_inside_its_margin():
    """The bars of the path, filled in one by one, are the code."""
    text, grid = qr.svg("set 7"), qr.encode("set 7")
    side = len(grid) + 8
    assert f'viewBox="0 0 {side} {side}"' in text
    drawn = np.zeros((side, side), dtype=int)
    for bar in text.rpartition('d="')[2].partition('"')[0].split("M")[1:]:
        at, width = bar.split("h")[0], int(bar.split("h")[1].split("v")[0])
        x, y = map(int, at.split())
        assert bar == f"{x} {y}h{width}v1h-{width}z"
        drawn[y, x : x + width] += 1
    assert np.array_equal(drawn, np.pad(grid.astype(int), 4))
