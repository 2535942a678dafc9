"""Routes: sets and individuals, with what is predicted for them, page by page and as files."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import IO, Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from sumwise.data.individuals import read_changes
from sumwise.data.pool_tables import Columns
from sumwise.data.tables import write_rows
from sumwise.errors import StorageError, SumwiseError
from sumwise.outofcore import predict_parquet as streams
from sumwise.outofcore.build import in_threads
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
PART: Final = 256 * 1024  # bytes that are read at once


class WholeFile(StreamingResponse):
    """A file without a name, which is gone with its request, however that ends.

    It is sent as a whole: each request makes its own, and parts of two do not fit.
    """

    def __init__(self, file: IO[bytes], name: str, media_type: str) -> None:
        headers = {
            "Content-Length": str(file.seek(0, os.SEEK_END)),
            "Content-Disposition": f'attachment; filename="{name}"',
            "Accept-Ranges": "none",
        }
        file.seek(0)
        parts = iter(lambda: file.read(PART), b"")
        super().__init__(parts, headers=headers, media_type=media_type)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await super().__call__(scope, receive, send)


def _file(media_type: str) -> dict[str, Any]:
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    described = {200: {"description": "A file.", "content": content}}
    return {"response_class": StreamingResponse, "responses": described}


@route(router, "GET /individuals.csv", None, 409, **_file(CSV))
@computing
def download_csv(here: Here) -> WholeFile:
    """Predictions of all individuals, as CSV."""
    return _download(here.session, ".csv", CSV)


@route(router, "GET /individuals.parquet", None, 409, **_file(PARQUET))
@computing
def download_parquet(here: Here) -> WholeFile:
    """Predictions of all individuals, as Parquet."""
    return _download(here.session, ".parquet", PARQUET)


def _download(session: Session, suffix: str, media_type: str) -> WholeFile:
    """The file that `sumwise predict -o` writes."""
    study, scan = session.study, session.study.scan
    if scan is None:
        table = study.predict(level=LEVEL).to_arrow()
        return _sent(session, table, "individuals", suffix, media_type)
    with tempfile.TemporaryDirectory(prefix="sumwise-") as folder:
        path, ends = os.path.join(folder, f"individuals{suffix}"), study.about.ends
        try:
            streams.predict(study.model.fitted(), scan, path, LEVEL, in_threads, ends=ends)
            file = open(path, "rb")  # noqa: SIM115 (the response closes it)
        except OSError as error:
            raise _no_room(error) from error
    return _whole(session, file, "individuals", suffix, media_type)


@route(router, "GET /plate.csv", None, **_file(CSV))
@computing
def download_plate(
    here: Here,
    by: Annotated[
        requests.Text | None,
        Query(description="Pools claimed under this name; empty for those without a name."),
    ] = None,
) -> WholeFile:
    """A plate layout of designed pools that are being measured, as CSV.

    A row for each member, in the order of asking: wells A1 to H12 are filled column by column, on
    as many plates as it takes. Of all open pools, if no name is given.
    """
    import pyarrow as pa

    table = pa.table(plate(here.session.open_pools(by)))
    return _sent(here.session, table, "plate", ".csv", CSV)


def _sent(session: Session, table: Any, what: str, suffix: str, media_type: str) -> WholeFile:
    """A table as a file, which is complete before the first byte is sent."""
    file = tempfile.TemporaryFile(prefix="sumwise-")  # noqa: SIM115 (the response closes it)
    try:
        write_rows(table, file, suffix)
    except OSError as error:
        file.close()
        raise _no_room(error) from error
    return _whole(session, file, what, suffix, media_type)


def _whole(session: Session, file: IO[bytes], what: str, suffix: str, media_type: str) -> WholeFile:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", session.record.name)[:60].strip("-.") or "study"
    named = f"{name}{suffix}" if what == "individuals" else f"{name}-{what}{suffix}"
    return WholeFile(file, named, media_type)


def _no_room(error: OSError) -> StorageError:
    reason = error.strerror or error
    return StorageError(f"the file cannot be written ({reason}); make room on the disk")
