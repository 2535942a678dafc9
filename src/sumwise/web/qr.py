"""QR codes of addresses (ISO/IEC 18004): bytes, error correction M, versions 1 to 10.

The text becomes code words, each block of them gets check words (Reed-Solomon over GF(256)), and
their bits go up and down pairs of columns around what is fixed. Of eight masks the one is taken
that leaves the fewest patterns by which readers are misled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import cycle, groupby, islice, pairwise, product, zip_longest
from typing import Final, TypeAlias

import numpy as np

from sumwise.errors import SettingError

Grid: TypeAlias = np.ndarray  # of booleans, n × n

# by version from 1 on, with error correction M
WORDS: Final = (26, 44, 70, 100, 134, 172, 196, 242, 292, 346)
BLOCKS: Final = (1, 1, 1, 2, 2, 4, 4, 4, 5, 5)
CHECKS: Final = (10, 16, 26, 18, 24, 16, 18, 22, 22, 26)  # check words of each block
MIDDLES: Final = (0, 18, 22, 26, 30, 34, 22, 24, 26, 28)  # first alignment pattern beside row 6
MOST: Final = 213  # bytes
QUIET: Final = 4  # modules of margin that readers need
PADDING: Final = (0xEC, 0x11)


def encode(text: str) -> Grid:
    """The modules of a code, True for dark, without a margin."""
    content = text.encode()
    if len(content) > MOST:
        raise SettingError(f"{text:.40}… is too long for a code; give up to {MOST} bytes")
    version = next(v for v in range(1, 11) if len(content) <= _capacity(v))
    grid, fixed = _fixed(version)
    _place(grid, fixed, _words(content, version))
    masks = enumerate(_masks(*np.ogrid[: len(grid), : len(grid)]))
    return min((_with_format(grid ^ (mask & ~fixed), n) for n, mask in masks), key=_penalty)


def svg(text: str) -> str:
    """The same as a picture, with its margin."""
    grid = encode(text)
    bars = []
    for y, row in enumerate(grid.tolist()):
        x = 0
        for dark, run in groupby(row):
            width = len(list(run))
            bars += [f"M{x + QUIET} {y + QUIET}h{width}v1h-{width}z"] * dark
            x += width
    side = len(grid) + 2 * QUIET
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side} {side}" '
        f'shape-rendering="crispEdges"><path fill="#fff" d="M0 0h{side}v{side}H0z"/>'
        f'<path d="{"".join(bars)}"/></svg>'
    )


# --- words ----------------------------------------------------------------------------------------


def _n_data(version: int) -> int:
    return WORDS[version - 1] - BLOCKS[version - 1] * CHECKS[version - 1]


def _count_bits(version: int) -> int:
    return 8 if version < 10 else 16


def _capacity(version: int) -> int:
    """Bytes that fit beside the mode and their number."""
    return (8 * _n_data(version) - 4 - _count_bits(version)) // 8


def _words(content: bytes, version: int) -> list[int]:
    """Data and check words in the order in which they are placed: the blocks take turns."""
    n_data, blocks = _n_data(version), BLOCKS[version - 1]
    bits = f"0100{len(content):0{_count_bits(version)}b}" + "".join(f"{b:08b}" for b in content)
    bits += "0" * min(4, 8 * n_data - len(bits))
    bits += "0" * (-len(bits) % 8)
    words = [int(bits[at : at + 8], 2) for at in range(0, len(bits), 8)]
    words += islice(cycle(PADDING), n_data - len(words))
    size, longer = divmod(n_data, blocks)  # the last blocks have a word more
    ends = [size * n + max(0, n - (blocks - longer)) for n in range(blocks + 1)]
    parts = [words[a:b] for a, b in pairwise(ends)]
    checks = [check_words(part, CHECKS[version - 1]) for part in parts]
    return [*_in_turn(parts), *_in_turn(checks)]


def _in_turn(parts: Sequence[Sequence[int]]) -> Iterator[int]:
    return (word for column in zip_longest(*parts) for word in column if word is not None)


def _powers() -> list[int]:
    """Powers of 2 in GF(256), modulo x⁸ + x⁴ + x³ + x² + 1."""
    found = [1]
    while len(found) < 255:
        twice = found[-1] << 1
        found.append(twice ^ 0x11D if twice > 255 else twice)
    return found


POWERS: Final = _powers()
LOGS: Final = {value: n for n, value in enumerate(POWERS)}


def _times(a: int, b: int) -> int:
    return POWERS[(LOGS[a] + LOGS[b]) % 255] if a and b else 0


def check_words(data: Sequence[int], n: int) -> list[int]:
    """The remainder of the data after division by Π (x + 2ⁱ), i < n."""
    divisor = [1]
    for root in POWERS[:n]:
        higher, lower = [*divisor, 0], [0, *divisor]
        divisor = [a ^ _times(b, root) for a, b in zip(higher, lower, strict=True)]
    rest = [0] * n
    for word in data:
        factor = word ^ rest[0]
        shifted = zip([*rest[1:], 0], divisor[1:], strict=True)
        rest = [a ^ _times(b, factor) for a, b in shifted]
    return rest


# --- modules --------------------------------------------------------------------------------------


def _fixed(version: int) -> tuple[Grid, Grid]:
    """What is the same in all codes of a version, and where that is."""
    n = 17 + 4 * version
    grid, fixed = np.zeros((n, n), dtype=bool), np.zeros((n, n), dtype=bool)

    def square(middle: tuple[int, int], reach: int, light: tuple[int, ...]) -> None:
        for i, j in product(range(-reach, reach + 1), repeat=2):
            y, x = middle[0] + i, middle[1] + j
            if 0 <= y < n and 0 <= x < n:
                grid[y, x], fixed[y, x] = max(abs(i), abs(j)) not in light, True

    line = np.arange(n) % 2 == 0
    grid[6], grid[:, 6], fixed[6], fixed[:, 6] = line, line, True, True
    corners = ((3, 3), (3, n - 4), (n - 4, 3))
    for corner in corners:
        square(corner, 4, (2, 4))
    first = MIDDLES[version - 1]
    middles = (6, *range(first, n, n - 7 - first or n)) if first else ()
    for middle in product(middles, repeat=2):
        if middle not in ((6, 6), (6, n - 7), (n - 7, 6)):
            square(middle, 2, (1,))
    fixed[8, :9] = fixed[:9, 8] = fixed[8, n - 8 :] = fixed[n - 8 :, 8] = True  # the format
    if version >= 7:
        bits = _with_checks(version, 0x1F25)
        own = np.array([bits >> i & 1 for i in range(18)], dtype=bool).reshape(6, 3)
        grid[:6, n - 11 : n - 8], grid[n - 11 : n - 8, :6] = own, own.T
        fixed[:6, n - 11 : n - 8] = fixed[n - 11 : n - 8, :6] = True
    return grid, fixed


def _place(grid: Grid, fixed: Grid, words: Sequence[int]) -> None:
    """Write the bits of the words, in pairs of columns from the right, up and down in turn."""
    n = len(grid)
    bits = (bool(word >> i & 1) for word in words for i in range(7, -1, -1))
    rights = [*range(n - 1, 6, -2), *range(5, 0, -2)]  # column 6 is fixed
    for turn, right in enumerate(rights):
        for y in range(n) if turn % 2 else range(n - 1, -1, -1):
            for x in (right, right - 1):
                if not fixed[y, x]:
                    grid[y, x] = next(bits, False)


def _masks(y: np.ndarray, x: np.ndarray) -> list[Grid]:
    both = x * y
    return [
        (x + y) % 2 == 0,
        y % 2 == 0,
        x % 3 == 0,
        (x + y) % 3 == 0,
        (x // 3 + y // 2) % 2 == 0,
        both % 2 + both % 3 == 0,
        (both % 2 + both % 3) % 2 == 0,
        ((x + y) % 2 + both % 3) % 2 == 0,
    ]


def _with_format(grid: Grid, mask: int) -> Grid:
    """The grid with the level of error correction (M: 00) and its mask, twice."""
    n, bits = len(grid), _with_checks(mask, 0x537) ^ 0x5412
    own = [bool(bits >> i & 1) for i in range(15)]
    grid[[0, 1, 2, 3, 4, 5, 7, 8], 8] = own[:8]
    grid[8, [7, 5, 4, 3, 2, 1, 0]] = own[8:]
    grid[8, range(n - 1, n - 9, -1)] = own[:8]
    grid[range(n - 7, n), 8] = own[8:]
    grid[n - 8, 8] = True
    return grid


def _with_checks(value: int, divisor: int) -> int:
    """A value with the bits of a BCH code behind it."""
    degree = divisor.bit_length() - 1
    rest = value
    for _ in range(degree):
        rest = rest << 1 ^ (rest >> (degree - 1)) * divisor
    return value << degree | rest


_RUN: Final = re.compile("0{5,}|1{5,}")
_CORNER: Final = re.compile("(?=10111010000|00001011101)")  # looks like that of a corner


def _penalty(grid: Grid) -> int:
    lines = ["".join(map(str, line)) for line in (*grid.astype(int), *grid.T.astype(int))]
    runs = sum(len(run) - 2 for line in lines for run in _RUN.findall(line))
    corners = sum(40 for line in lines for _ in _CORNER.finditer(line))
    a, b, c, d = grid[1:, 1:], grid[1:, :-1], grid[:-1, 1:], grid[:-1, :-1]
    squares = 3 * int(((a == b) & (c == d) & (a == c)).sum())
    balance = 10 * int(abs(100 * grid.mean() - 50) // 5)
    return runs + corners + squares + balance
