"""Predictions of all individuals as a file: the one that `sumwise predict -o` writes."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from fastapi.responses import StreamingResponse

from sumwise.data.tables import write_table
from sumwise.model.predict import Predictions, individuals
from sumwise.web.pages import predict
from sumwise.web.session import LEVEL, Session

PIECE: Final = 2**18  # bytes sent at once
# what spreadsheets take for a formula; numbers are not
_FORMULA: Final = re.compile(r"(?![+-]?[0-9.]+([eE][+-]?[0-9]+)?\Z)[=+\-@\t\r\n]")


def respond(session: Session, suffix: str, media_type: str) -> StreamingResponse:
    """The file as a download; it is written to a temporary folder first, so it is complete."""
    folder = tempfile.TemporaryDirectory(prefix="sumwise-")
    with ExitStack() as undo:
        undo.callback(folder.cleanup)
        found = table(session)
        found = tame(found) if suffix == ".csv" else found
        path = write_table(found, Path(folder.name) / f"individuals{suffix}")
        headers = {
            "Content-Disposition": f'attachment; filename="{_plain(session.record.name)}{suffix}"',
            "Content-Length": str(path.stat().st_size),
        }
        undo.pop_all()
    return StreamingResponse(_pieces(path, folder), headers=headers, media_type=media_type)


def _pieces(path: Path, folder: tempfile.TemporaryDirectory[str]) -> Iterator[bytes]:
    with folder, path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def tame(found: Any) -> Any:
    """The table with an apostrophe before text that a spreadsheet would take for a formula.

    >>> import pyarrow as pa
    >>> tame(pa.table({"=a": ["@b", "-5", "c"], "d": [-1.5, 2.0, 3.0]})).to_pydict()
    {"'=a": ["'@b", '-5', 'c'], 'd': [-1.5, 2.0, 3.0]}
    """
    import pyarrow as pa

    columns = [
        pa.array([_tamed(text) for text in column.to_pylist()])
        if pa.types.is_string(column.type)
        else column
        for column in found.columns
    ]
    return pa.table(columns, names=[_tamed(name) for name in found.column_names])


def _tamed(text: str) -> str:
    return f"'{text}" if _FORMULA.match(text) else text


def _plain(name: str) -> str:
    """A study's name in characters that every file system takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:60].strip("-.") or "study"


def table(session: Session) -> Any:
    """An Arrow table: set, row, inputs, mean, std, lower and upper."""
    sets = session.sets
    mean, std = predict(session.state.fitted().model, sets.x)
    return Predictions.of(mean, std, LEVEL, **individuals(sets)).to_arrow()
