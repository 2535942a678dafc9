"""The application: a study as a page and a JSON API, behind a guard."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response
from fastapi.staticfiles import StaticFiles

from sumwise import __version__
from sumwise.errors import SettingError, SumwiseError
from sumwise.study.create import open_study
from sumwise.study.study import Study
from sumwise.web import problems, session
from sumwise.web.api import Served, answers, asking, pool
from sumwise.web.api import study as api_study
from sumwise.web.ask_queue import AskQueue
from sumwise.web.live import Live
from sumwise.web.pages import PageQuery, Pages
from sumwise.web.picture import PROPOSED, Pictures
from sumwise.web.security import Guard, names_of
from sumwise.web.tokens import Tokens, new_token, people_file

STATIC: Final = Path(__file__).parent / "static"
DESCRIPTION: Final = """\
Ask which set to measure next, tell its total, look at what is predicted. A set is named by its
`position` in the study; its `id` is text to show. Times are UTC, numbers are in the units of the
answers.

Every write takes the token that `sumwise serve` prints, as `Authorization: Bearer …`; so does
every read if the server can be reached from other machines or was told so. `by` is a label that is
stored with each change, not a login: everyone who has the server's token may write any name. Who
has a token of their own writes under their own name.
"""


def create_app(
    study: Any,
    *,
    name: str | None = None,
    token: str | None = None,
    host: str = "127.0.0.1",
    places: tuple[str, str] | None = None,
    stopping: Callable[[], bool] = lambda: False,
    require_token_for_reading: bool = False,
) -> FastAPI:
    """The labelling page of a study, as an ASGI application, to run in one process.

    Args:
        study: A `Study`, the path of an SQLite file, or `postgresql://user@host/database`.
        name: The name of the study, if the database holds several.
        token: The token that writes need; if left out, a new one, which is `app.state.token`. It
            should be random: pages compute with it, and what is short can be guessed from that.
            Tokens of `sumwise token add` are accepted as well.
        host: The address that the server listens on. If that is not this machine alone, reading
            needs the token too.
        places: Two inputs that are longitude and latitude, for a map.
        stopping: Whether the server is about to stop: then the streams of open pages end.
        require_token_for_reading: Also if only this machine can reach the server.
    """
    if token is not None and len(token) < 16:
        raise SettingError("the token is too short; leave it out, and sumwise makes one")
    if not isinstance(study, Study):
        study = open_study(study, name, patience=session.PATIENCE)
    app = FastAPI(
        title="sumwise",
        version=__version__,
        summary="Choose which totals to measure; learn every part.",
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        separate_input_output_schemas=False,
        exception_handlers=problems.HANDLERS,
    )
    app.state.token = new_token() if token is None else token
    app.state.tokens = Tokens(app.state.token, people_file(study.location))
    live = Live(lambda: study.state.changes(), stopping)
    app.state.served = _served(study, places, live)
    serving = threading.Lock()

    def serve() -> Served:
        with serving, suppress(SumwiseError):  # a route that cannot read the study says so
            if app.state.served.session.state is not study.state:  # the pool has changed
                app.state.served = _served(study, places, live)
        return app.state.served

    app.state.serve = serve
    for part in (api_study, pool, asking, answers):
        app.include_router(part.router)
    _add_pages(app)
    names, closed = names_of(host), require_token_for_reading
    app.add_middleware(Guard, tokens=app.state.tokens, host=host, names=names, closed=closed)
    return app


def _served(study: Study, places: tuple[str, str] | None, live: Live) -> Served:
    here = session.Session(study)
    pages = Pages(here)
    pictures = Pictures(pages, places)
    return Served(here, AskQueue(here.state), pages, pictures, live)


def _add_pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse((STATIC / "page.html").read_text("utf-8"))

    @app.get("/static/vega.js", include_in_schema=False)
    def vega() -> Response:
        headers = {"Cache-Control": "max-age=86400"}
        return Response(_vega(), media_type="text/javascript", headers=headers)

    app.mount("/static", StaticFiles(directory=STATIC, check_dir=False))


@cache
def _vega() -> str:
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def warm_up(served: Served) -> threading.Thread:
    """Compute in a thread what the first page will ask for."""

    def work() -> None:
        try:
            state = served.session.state
            state.propose(state.snapshot(), PROPOSED)
            served.pages.sets(PageQuery(1, 1, "id"))
            _vega()
        except SumwiseError:
            return  # the page will say it
        finally:  # what is loaded by now stays; looking through it for garbage stopped every answer
            gc.freeze()  # for up to 0.2 seconds

    thread = threading.Thread(target=work, name="warming up", daemon=True)
    thread.start()
    return thread
