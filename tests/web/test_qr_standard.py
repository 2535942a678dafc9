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


FORMATS = [  # table C.1 for error correction M
    "101010000010010", "101000100100101", "101111001111100", "101101101001011",
    "100010111111001", "100000011001110", "100111110010111", "100101010100000",
]  # fmt: skip
VERSIONS = {  # table D.1
    7: "000111110010010100", 8: "001000010110111100", 9: "001001101010011001",
    10: "001010010011010011",
}  # fmt: skip


def bits(modules):
    return "".join(str(int(each)) for each in modules)


@pytest.mark.parametrize("mask", range(8))
@pytest.mark.parametrize("n", [21, 45])
def test_the_format_is_written_twice_as_the_standard_has_it(mask, n):
    """A reader needs one of the two only, and mends three wrong bits of it."""
    grid = qr._with_format(np.zeros((n, n), dtype=bool), mask)
    beside = [*grid[8, [0, 1, 2, 3, 4, 5, 7, 8]], *grid[[7, 5, 4, 3, 2, 1, 0], 8]]
    apart = [*grid[range(n - 1, n - 8, -1), 8], *grid[8, n - 8 :]]
    assert bits(beside) == bits(apart) == FORMATS[mask]
    assert grid[n - 8, 8]  # the module that is always dark
    assert grid.sum() == 2 * FORMATS[mask].count("1") + 1


@pytest.mark.parametrize("version", range(1, 11))
def test_fixed_modules_are_where_the_standard_has_them(version):
    grid, fixed = qr._fixed(version)
    n = 17 + 4 * version
    assert grid.shape == fixed.shape == (n, n)
    if version >= 7:
        below = bits(grid[n - 11 : n - 8, :6].T.ravel()[::-1])
        assert below == bits(grid[:6, n - 11 : n - 8].ravel()[::-1]) == VERSIONS[version]
    corners = np.zeros((n, n), dtype=bool)
    corners[:9, :9] = corners[:9, n - 8 :] = corners[n - 8 :, :9] = True
    corners[6] = corners[:, 6] = True
    if version >= 7:
        corners[:6, n - 11 : n - 8] = corners[n - 11 : n - 8, :6] = True
    first = qr.MIDDLES[version - 1]
    middles = [6, first, *([n - 7] if first and first != n - 7 else [])] if first else []
    for y in middles:
        for x in middles:
            if (y, x) not in ((6, 6), (6, n - 7), (n - 7, 6)):
                corners[y - 2 : y + 3, x - 2 : x + 3] = True
                pattern = np.ones((5, 5), dtype=bool)
                pattern[1:4, 1:4], pattern[2, 2] = False, True
                assert np.array_equal(grid[y - 2 : y + 3, x - 2 : x + 3], pattern)
    assert np.array_equal(fixed, corners)
    assert not (grid & ~fixed).any()
    assert bits(grid[6, 8 : n - 8]) == bits(grid[8 : n - 8, 6])[: n - 16]
    assert bits(grid[6, 8 : n - 8]) == ("10" * n)[: n - 16]
