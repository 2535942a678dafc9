"""Routes: sets and individuals, with what is predicted for them, page by page and as files."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from sumwise.data.tables import write_table
from sumwise.model.predict import Predictions, individuals
from sumwise.web import responses, rows
from sumwise.web.dependencies import Here, computing
from sumwise.web.pages import PageQuery, predict
from sumwise.web.problems import READING, documented
from sumwise.web.requests import Order, Page, Position, Search, Size
from sumwise.web.session import LEVEL, Session

router = APIRouter(prefix="/api", tags=["pool"], responses=documented(*READING, 409))


@router.get(
    "/sets",
    summary="All sets, a page at a time",
    operation_id="getSets",
    response_model=responses.SetRows,
)
@computing
def sets(
    here: Here,
    page: Page = 1,
    size: Size = 50,
    sort: Literal[
        "id", "size", "state", "answer", "expected", "std", "information"
    ] = "information",
    order: Order = "desc",
    search: Search = "",
    state: Annotated[
        Literal["", "free", "open", "answered", "skipped"], Query(description="All if left out.")
    ] = "",
) -> Any:
    return here.pages.sets(PageQuery(page, size, sort, order == "desc", search), state)


@router.get(
    "/sets/{position}",
    summary="All about one set",
    operation_id="getSet",
    response_model=responses.OneSet,
    responses=documented(404),
)
@computing
def one_set(here: Here, position: Position, page: Page = 1, size: Size = 50) -> Any:
    """With a page of its individuals."""
    session, pages = here.session, here.pages
    position = session.position(position)
    view = pages.pool()
    row, about = pages.set_row(view, position), rows.about(session, view.seen, position)
    return {**row, **about, "individuals": pages.of_set(position, page, size)}


@router.get(
    "/individuals",
    summary="What is predicted for each individual, a page at a time",
    operation_id="getIndividuals",
    response_model=responses.Individuals,
)
@computing
def individual_rows(
    here: Here,
    page: Page = 1,
    size: Size = 50,
    sort: Annotated[
        Literal["row", "set", "mean", "std"],
        Query(description="`row` is the study's own order; `set` by the id of the set."),
    ] = "row",
    order: Order = "asc",
    search: Search = "",
) -> Any:
    return here.pages.individuals(PageQuery(page, size, sort, order == "desc", search))


# --- files ----------------------------------------------------------------------------------------

FILE: Final = {"schema": {"type": "string", "format": "binary"}}


@router.get(
    "/individuals.csv",
    summary="Predictions of all individuals, as CSV",
    operation_id="downloadCsv",
    response_class=FileResponse,
    responses={200: {"description": "A file.", "content": {"text/csv": FILE}}},
)
@computing
def as_csv(here: Here) -> FileResponse:
    return _download(here.session, ".csv", "text/csv; charset=utf-8")


@router.get(
    "/individuals.parquet",
    summary="Predictions of all individuals, as Parquet",
    operation_id="downloadParquet",
    response_class=FileResponse,
    responses={
        200: {"description": "A file.", "content": {"application/vnd.apache.parquet": FILE}}
    },
)
@computing
def as_parquet(here: Here) -> FileResponse:
    return _download(here.session, ".parquet", "application/vnd.apache.parquet")


def _download(session: Session, suffix: str, media_type: str) -> FileResponse:
    """The file that `sumwise predict -o` writes; it is complete before the first byte is sent."""
    sets = session.sets
    mean, std = predict(session.state.fitted().model, sets.x)
    table = Predictions.of(mean, std, LEVEL, **individuals(sets)).to_arrow()
    folder = tempfile.TemporaryDirectory(prefix="sumwise-")
    path = write_table(
        escape_formulas(table) if suffix == ".csv" else table,
        Path(folder.name) / f"individuals{suffix}",
    )
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", session.record.name)[:60].strip("-.") or "study"
    done = BackgroundTask(folder.cleanup)
    return FileResponse(path, media_type=media_type, filename=f"{name}{suffix}", background=done)


# what spreadsheets take for a formula; numbers are not
_FORMULA: Final = re.compile(r"(?![+-]?[0-9.]+([eE][+-]?[0-9]+)?\Z)[=+\-@\t\r\n]")


def escape_formulas(found: Any) -> Any:
    """The table with an apostrophe before text that a spreadsheet would take for a formula.

    >>> import pyarrow as pa
    >>> escape_formulas(pa.table({"=a": ["@b", "-5", "c"], "d": [-1.5, 2.0, 3.0]})).to_pydict()
    {"'=a": ["'@b", '-5', 'c'], 'd': [-1.5, 2.0, 3.0]}
    """
    import pyarrow as pa

    columns = [
        pa.array([_escaped(text) for text in column.to_pylist()])
        if pa.types.is_string(column.type)
        else column
        for column in found.columns
    ]
    return pa.table(columns, names=[_escaped(name) for name in found.column_names])


def _escaped(text: str) -> str:
    return f"'{text}" if _FORMULA.match(text) else text
