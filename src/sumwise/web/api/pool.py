"""Routes: sets and individuals, with what is predicted for them, page by page and as files."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask
from starlette.types import Receive, Scope, Send

from sumwise.data.individuals import read_changes
from sumwise.data.pool_tables import Columns
from sumwise.data.tables import write_table
from sumwise.errors import StorageError, SumwiseError
from sumwise.web import requests, responses
from sumwise.web.api import Here, computing, route, writing
from sumwise.web.members import plate
from sumwise.web.pages import PageQuery
from sumwise.web.problems import Refused
from sumwise.web.qr import svg
from sumwise.web.requests import Order, Page, Position, Search, Size
from sumwise.web.session import LEVEL, Session

router = APIRouter(tags=["pool"])


@route(router, "POST /pool", responses.PoolChanged)
@writing
def change_pool(here: Here, body: requests.PoolChange) -> Any:
    """Let individuals join, leave or be corrected, all of them or none.

    An answer stays that of the members its set had when it was measured.
    """
    study = here.session.study
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "table.csv")
        file.write_bytes(body.csv.encode("utf-8", "surrogatepass"))
        try:
            group = [body.set] if isinstance(body.set, str) else body.set
            sets, own = study.state.record.sets, study.state.record.sets.origin
            texts = *(group or (*own.by, "set")), body.id or "id"
            table = read_changes(file, sets, Columns(texts, body.id or own.id or "id"))
            told: dict[str, Any] = {body.change: table, "by": body.by, "note": body.note}
            return {"words": study.change_pool(group=group, id=body.id, **told)}
        except SumwiseError as error:
            said = str(error).replace(str(file), "the table")
            status = 503 if isinstance(error, StorageError) else 409
            raise Refused(status, "pool", said) from None


@route(router, "GET /sets", responses.SetRows, 409)
@computing
def get_sets(
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
    """All sets, a page at a time."""
    return here.pages.sets(PageQuery(page, size, sort, order == "desc", search), state)


@route(router, "GET /sets/{position}", responses.OneSet, 404, 409)
@computing
def get_set(here: Here, position: Position, page: Page = 1, size: Size = 50) -> Any:
    """Everything about one set.

    With a page of its individuals.
    """
    session, pages = here.session, here.pages
    position = session.position(position)
    view = pages.pool.get()
    (row,), about = pages.set_rows(view, [position]), session.about(view.seen, position)
    return {**row, **about, "individuals": pages.of_set(position, page, size)}


ORIGIN: Final = r"^https?://[A-Za-z0-9.:_\[\]-]{1,160}$"
SVG: Final = "image/svg+xml"


@route(
    router,
    "GET /sets/{position}/code.svg",
    None,
    404,
    response_class=Response,
    responses={
        200: {"description": "A picture.", "content": {SVG: {"schema": {"type": "string"}}}}
    },
)
@computing
def get_code(
    here: Here,
    request: Request,
    position: Position,
    origin: Annotated[
        str | None,
        Query(
            pattern=ORIGIN,
            description="Address of the page, if it differs from that of this request.",
            examples=["https://lab.example"],
        ),
    ] = None,
) -> Response:
    """A QR code of the address where a set is answered on the page, as SVG.

    The token is not in it.
    """
    at = here.session.position(position)
    reached = origin or f"{request.url.scheme}://{request.url.netloc}"
    return Response(svg(f"{reached}/#/next/set/{at}"), media_type=SVG)


@route(router, "GET /individuals", responses.Individuals, 409)
@computing
def get_individuals(
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
    """The prediction for each individual, a page at a time."""
    return here.pages.individuals(PageQuery(page, size, sort, order == "desc", search))


# --- files ----------------------------------------------------------------------------------------

CSV: Final = "text/csv"
PARQUET: Final = "application/vnd.apache.parquet"


class WholeFile(FileResponse):
    """A file that is sent as a whole: each request makes its own, and parts of two do not fit."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.headers["accept-ranges"] = "none"
        headers = [pair for pair in scope["headers"] if pair[0] != b"range"]
        await super().__call__({**scope, "headers": headers}, receive, send)


def _file(media_type: str) -> dict[str, Any]:
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    described = {200: {"description": "A file.", "content": content}}
    return {"response_class": WholeFile, "responses": described}


@route(router, "GET /individuals.csv", None, 409, **_file(CSV))
@computing
def download_csv(here: Here) -> FileResponse:
    """Predictions of all individuals, as CSV."""
    return _download(here.session, ".csv", CSV)


@route(router, "GET /individuals.parquet", None, 409, **_file(PARQUET))
@computing
def download_parquet(here: Here) -> FileResponse:
    """Predictions of all individuals, as Parquet."""
    return _download(here.session, ".parquet", PARQUET)


def _download(session: Session, suffix: str, media_type: str) -> FileResponse:
    """The file that `sumwise predict -o` writes."""
    table = session.study.predict(level=LEVEL).to_arrow()
    return _sent(session, table, "individuals", suffix, media_type)


@route(router, "GET /plate.csv", None, **_file(CSV))
@computing
def download_plate(
    here: Here,
    by: Annotated[
        requests.Text | None,
        Query(description="Pools claimed under this name; empty for those without a name."),
    ] = None,
) -> FileResponse:
    """A plate layout of designed pools that are being measured, as CSV.

    A row for each member, in the order of asking: wells A1 to H12 are filled column by column, on
    as many plates as it takes. Of all open pools, if no name is given.
    """
    import pyarrow as pa

    table = pa.table(plate(here.session.open_pools(by)))
    return _sent(here.session, table, "plate", ".csv", CSV)


def _sent(session: Session, table: Any, what: str, suffix: str, media_type: str) -> FileResponse:
    """A table as a file, which is complete before the first byte is sent."""
    folder = tempfile.TemporaryDirectory(prefix="sumwise-")
    path = write_table(table, Path(folder.name) / f"{what}{suffix}")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", session.record.name)[:60].strip("-.") or "study"
    named = f"{name}{suffix}" if what == "individuals" else f"{name}-{what}{suffix}"
    done = BackgroundTask(folder.cleanup)
    return WholeFile(path, media_type=media_type, filename=named, background=done)
