"""`sumwise serve`: the labelling page, for the people who measure."""

from __future__ import annotations

import os
import secrets
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import rich_click as click

from sumwise.cli import options
from sumwise.cli.options import Address, option
from sumwise.cli.output import message, talk, visible
from sumwise.errors import StorageError, needs_extra

WARNING: Final = (
    "Other machines can reach this address. Traffic is not encrypted, the token gives read and "
    "write access, and names are verified only for people with tokens of their own. Use it only in "
    "a network you trust."
)
LINGER: Final = 60.0  # seconds that a browser has to start
REDIRECT: Final = """\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}">
<title>sumwise</title>
<p>The page opens by itself.</p>
</html>
"""


@options.command(
    options.url,
    options.study,
    option(
        "--host ADDRESS",
        "Address to listen on. The default can be reached from this machine only.",
        default="127.0.0.1",
    ),
    option(
        "--port NUMBER",
        "Port to listen on. Default: 8765, or the next that is free.",
        type=click.IntRange(1, 65535),
    ),
    option(
        "--map LON,LAT",
        "Two inputs that are coordinates, to draw individuals on a map.",
        into="places",
    ),
    option("--new-token", "Make a new token; the old one stops working."),
    option(
        "--require-token-for-reading",
        "Show the study to holders of a token only, also on this machine.",
        into="closed",
    ),
    option("--no-browser", "Print the address and do not open a browser."),
    options.cluster,
    options.gathered("address", Address),
)
def serve(
    address: Address,
    host: str,
    port: int | None,
    places: str | None,
    new_token: bool,
    closed: bool,
    no_browser: bool,
) -> None:
    """Serve a page in the browser for the people who measure.

    The page shows what to measure next and why, takes totals, and shows predictions. Several people
    can use it at once, and the command line too. The printed address contains a token, which gives
    read and write access; `sumwise token` gives single people their own. Ctrl-C ends the server;
    nothing is lost, and the address stays the same.

    \b
      sumwise serve schools.db
      sumwise serve schools.db --port 9000 --no-browser
      sumwise serve plots.db --map lon,lat
    """
    with needs_extra("the labelling page", "web"):
        from sumwise.web import server
    from sumwise.web.security import is_loopback
    from sumwise.web.session import PATIENCE

    columns = None if places is None else tuple(part.strip() for part in places.split(","))
    if columns is not None and (len(columns) != 2 or len({*columns, ""}) != 3):
        said = "name two inputs, longitude first: --map lon,lat"
        raise click.BadParameter(said, param_hint="'--map'")
    with address.open(patience=PATIENCE) as study:
        token = _token(study.location, new_token)
        listening = server.listen(host, port)
        with listening.socket:
            ready = server.prepare(
                study, listening, token, columns, require_token_for_reading=closed
            )
            link = listening.url(token)
            if listening.port != (port or server.PORT):
                talk(f"Port {server.PORT} is taken; this is port {listening.port}.")
            if not is_loopback(host):
                talk(WARNING)
            click.echo(f"Study {visible(study.name)!r} is served at", err=True)
            click.echo(link)
            click.echo("Ctrl-C ends the server.", err=True)
            with _browser(link, wanted=not no_browser):
                server.run(ready, listening)
    click.echo("\nThe server has ended.", err=True)


def _token(database: str, anew: bool) -> str:
    """The stored token, so that open pages keep working; a new one if it cannot be stored."""
    from sumwise.web.tokens import kept_token, new_token

    try:
        return kept_token(database, anew=anew)
    except StorageError as error:
        talk(message(f"{error}. This token will not work after a restart."))
        return new_token()


@contextmanager
def _browser(link: str, *, wanted: bool) -> Iterator[None]:
    """Open a graphical browser, if there is one; a text browser would take over the terminal.

    It is given a file that leads to the link: other users can read the arguments of a program.
    """
    import webbrowser

    screens = [os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")]
    if not wanted or not (sys.platform in ("darwin", "win32") or any(screens)):
        yield
        return
    try:
        path = _redirect(link)
    except OSError as error:
        talk(f"The browser is not opened: its file cannot be written ({error.strerror}).")
        yield
        return

    def remove() -> None:
        with suppress(OSError):  # it is removed already
            path.unlink()

    opening = threading.Thread(
        target=webbrowser.open, args=(path.as_uri(),), name="browser", daemon=True
    )
    later = threading.Timer(LINGER, remove)
    later.daemon = True
    opening.start()
    later.start()
    try:
        yield
    finally:
        later.cancel()
        remove()


def _redirect(link: str) -> Path:
    """A file for this user alone that leads to the link; those of servers that died are removed."""
    import time

    from sumwise.web.tokens import folder

    place = folder()
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    for old in place.glob("open-*.html"):
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > LINGER:
                old.unlink()
    path = place / f"open-{secrets.token_hex(8)}.html"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(REDIRECT.format(link=link))
    return path
