"""Rows of the benchmark table, as text and as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HEAD = ("what", "size", "sumwise", "peer", "peer's", "ratio", "target", "met")
PACKAGES = (
    "sumwise",
    "numpy",
    "scikit-learn",
    "numba",
    "torch",
    "sqlalchemy",
    "optuna",
    "distributed",
    "bmdal_reg",
    "statsmodels",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line: what sumwise took, what a peer took, and whether that is good enough."""

    what: str
    size: str
    ours: str
    peer: str = ""
    theirs: str = ""
    ratio: float | None = None
    target: str = ""
    met: bool | None = None  # None where there is no target
    note: str = ""


def seconds(value: float) -> str:
    """Three digits and a unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e6:.3g} µs"


def faster(
    what: str, size: str, ours: float, peer: str, theirs: float, ratio: float,
    at_least: float | None = None, note: str = "",
) -> Row:  # fmt: skip
    """A row that compares times; with `at_least` it has a target to meet."""
    target = "" if at_least is None else f"≥ {at_least:,g}×"
    met = None if at_least is None else ratio >= at_least
    return Row(what, size, seconds(ours), peer, seconds(theirs), ratio, target, met, note)


def at_most(what: str, size: str, value: float, limit: float, shown: str, note: str = "") -> Row:
    """A row whose own value has a target; `shown` formats both, such as "{:.2f} s"."""
    target = "≤ " + shown.format(limit)
    return Row(what, size, shown.format(value), target=target, met=value <= limit, note=note)


def table(rows: Sequence[Row]) -> str:
    """Aligned columns, notes underneath."""
    lines, notes = [list(HEAD)], []
    for row in rows:
        what = row.what
        if row.note:
            if row.note not in notes:
                notes.append(row.note)
            what += f" [{notes.index(row.note) + 1}]"
        ratio = "" if row.ratio is None else _times(row.ratio)
        met = {True: "yes", False: "no", None: ""}[row.met]
        lines.append([what, row.size, row.ours, row.peer, row.theirs, ratio, row.target, met])
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    text = [
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) for line in lines
    ]
    text.insert(1, "  ".join("─" * width for width in widths))
    text += [f"[{number}] {note}" for number, note in enumerate(notes, start=1)]
    targets = [row.met for row in rows if row.met is not None]
    text.append(f"{sum(targets)} of {len(targets)} targets met.")
    return "\n".join(line.rstrip() for line in text)


def save(rows: Sequence[Row], path: Path) -> None:
    """Everything in the table and what it was measured with."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"environment": _environment(), "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}×" if ratio >= 100 else f"{ratio:.3g}×"


def _environment() -> dict[str, str]:
    found = {"python": platform.python_version(), "machine": platform.machine()}
    found["cores"] = str(os.cpu_count())
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
