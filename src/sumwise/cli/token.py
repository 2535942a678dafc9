"""`sumwise token`: tokens of single people for the labelling page."""

from __future__ import annotations

import rich_click as click

from sumwise.cli import SETTINGS, Main, options
from sumwise.cli.options import Address, option, to_number
from sumwise.cli.output import show, show_json, show_table, talk, visible
from sumwise.errors import SettingError
from sumwise.util.text import moment
from sumwise.web import tokens
from sumwise.web.tokens import Holder


@click.group(cls=Main, context_settings=SETTINGS)
def token() -> None:
    """Give people tokens of their own for the page, list and revoke them.

    The token of `sumwise serve` lets its holder write under any name. A token of a person writes
    under this person's name only, or not at all. Tokens are kept for you on this machine, in
    ~/.local/state/sumwise, and a running server notices changes at once.

    \b
      sumwise token add schools.db --for ann --days 90
      sumwise token add schools.db --for carol --read-only
      sumwise token list schools.db
      sumwise token revoke schools.db ann
    """


@options.study_command(
    option("--for NAME", "Who gets it, and the name of all they do.", into="person", required=True),
    option("--read-only", "It does not allow to write."),
    option("--days NUMBER", "Days until it expires. Default: it does not."),
)
def add(address: Address, person: str, read_only: bool, days: str | None) -> None:
    """Make a token for a person, and print it.

    It is shown now only. Give it by a way that you would use for a password: alone, or behind the
    address of the page as http://127.0.0.1:8765/#token=TOKEN.

    \b
      sumwise token add schools.db --for ann --days 90
      sumwise token add schools.db --for carol --read-only
    """
    many = None if days is None else to_number(days, "--days")
    if many is not None and not 0 < many <= 36_500:
        raise SettingError("--days: give a number above 0, up to 36500")
    text, made = tokens.add_person(_database(address), person, writes=not read_only, days=many)
    show_json({"token": text, **_row(made)})
    show(text, wrap=False)
    until = f" until {moment(made.expires)}" if made.expires else ""
    talk(
        f"A token for {visible(person)} ({made.id}), to {_may(made)}{until}. It is not shown again."
    )


@options.study_command(name="list")
def list_(address: Address) -> None:
    """List the tokens of people, without the tokens themselves.

    \b
      sumwise token list schools.db
      sumwise token list schools.db --json
    """
    found = tokens.people(tokens.people_file(_database(address)))
    show_json([_row(each) for each in found])
    rows = [
        (
            each.id,
            visible(each.name or ""),
            _may(each),
            moment(each.made),
            ("expired " if each.expired() else "") + moment(each.expires) if each.expires else "–",
        )
        for each in found
    ]
    show_table(("id", "for", "may", "made", "expires"), rows)


@options.study_command(click.argument("which", metavar="ID|NAME"))
def revoke(address: Address, which: str) -> None:
    """Take back a token by its id, or all tokens of a person.

    A server that runs refuses them at once. To take back the token of the server itself, start it
    with --new-token.

    \b
      sumwise token revoke schools.db ann
      sumwise token revoke schools.db 1f0c2a9be37d4415
    """
    gone = tokens.revoke(_database(address), which)
    show_json([_row(each) for each in gone])
    for each in gone:
        show(f"Revoked: {each.id}, for {visible(each.name or '')}.")


def _database(address: Address) -> str:
    """What tokens are kept under; there has to be a study."""
    with address.open() as study:
        return study.location


def _may(holder: Holder) -> str:
    return "read and write" if holder.writes else "read"


def _row(holder: Holder) -> dict[str, object]:
    """What may be shown of a token."""
    return {
        "id": holder.id,
        "for": holder.name,
        "writes": holder.writes,
        "made": holder.made,
        "expires": holder.expires or None,
        "expired": holder.expired(),
    }


token.add_command(add)
token.add_command(list_)
token.add_command(revoke)
