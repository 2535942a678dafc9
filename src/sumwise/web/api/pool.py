"""Routes: sets and individuals, with what is predicted for them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from sumwise.web import downloads, responses, rows
from sumwise.web.dependencies import Here, thinking
from sumwise.web.pages import Sheet
from sumwise.web.problems import READING, documented
from sumwise.web.requests import Order, Page, Position, Search, Size

router = APIRouter(prefix="/api", tags=["pool"], responses=documented(*READING, 409))


@router.get(
    "/sets",
    summary="All sets, a page at a time",
    operation_id="getSets",
    response_model=responses.SetRows,
)
@thinking
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
    return here.pages.sets(Sheet(page, size, sort, order == "desc", search), state)


@router.get(
    "/sets/{position}",
    summary="All about one set",
    operation_id="getSet",
    response_model=responses.OneSet,
    responses=documented(404),
)
@thinking
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
@thinking
def individuals(
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
    return here.pages.individuals(Sheet(page, size, sort, order == "desc", search))


FILE = {"schema": {"type": "string", "format": "binary"}}


@router.get(
    "/individuals.csv",
    summary="Predictions of all individuals, as CSV",
    operation_id="downloadCsv",
    response_class=StreamingResponse,
    responses={200: {"description": "A file.", "content": {"text/csv": FILE}}},
)
@thinking
def as_csv(here: Here) -> StreamingResponse:
    return downloads.respond(here.session, ".csv", "text/csv; charset=utf-8")


@router.get(
    "/individuals.parquet",
    summary="Predictions of all individuals, as Parquet",
    operation_id="downloadParquet",
    response_class=StreamingResponse,
    responses={
        200: {"description": "A file.", "content": {"application/vnd.apache.parquet": FILE}}
    },
)
@thinking
def as_parquet(here: Here) -> StreamingResponse:
    return downloads.respond(here.session, ".parquet", "application/vnd.apache.parquet")
