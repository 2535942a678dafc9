"""`sumwise report`, `export`, `import` and `storage`: studies as pages, folders and databases."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from sumwise.cli import SETTINGS, Main, options
from sumwise.cli.options import Address, option
from sumwise.cli.output import message, show, show_json, show_table, suggest, typed, visible
from sumwise.util.progress import waiting
from sumwise.util.text import count, moment


@options.study_command(
    option("-o --out FILE", "File for the page.", type=options.FILE, default="report.html"),
    options.force,
)
def report(address: Address, out: Path, force: bool) -> None:
    """Write the study as a page that opens in any browser, offline.

    It shows what was measured, what is predicted for each individual, and what to measure next.

    \b
      sumwise report schools.db
      sumwise report schools.db -o week-3.html --force
    """
    from sumwise.data.tables import check_output
    from sumwise.report.study_page import write

    check_output(out, force, (".html", ".htm"))
    with address.open() as study, waiting("writing the report"):
        path = write(study, out)
    show_json({"file": path})
    show(f"Report: {path}", wrap=False)


@options.study_command(click.argument("folder", type=options.PATH))
def export(address: Address, folder: Path) -> None:
    """Write the whole study to a folder of open formats.

    The folder contains everything, history included; import makes the same study from it, in
    another database or on another machine.

    \b
      sumwise export schools.db schools-2026
      sumwise export postgresql://ann@host/lab soil --study soil
    """
    with address.open() as study, waiting("exporting"):
        study.export(folder)
        kept = study.name
    show_json({"study": kept, "folder": folder})
    show(f"Study '{visible(kept)}' written to {folder}.")
    suggest("To import it, here or elsewhere:", typed("import", str(folder), "NEW.db"))


@options.command(
    click.argument("folder", type=options.PATH),
    options.url,
    option("--name NAME", "New name of the study. Default: its former name."),
    options.sets_file,
    options.as_json,
    name="import",
)
def import_(folder: Path, url: str, name: str | None, sets_file: Path | None) -> None:
    """Make a study from an exported folder.

    It has the same answers, open questions and history, and asks the same next question.

    \b
      sumwise import schools-2026 schools.db
      sumwise import soil postgresql://ann@host/lab --name soil-copy
    """
    from sumwise import import_study

    with waiting("importing"), import_study(folder, url, name, sets_file=sets_file) as study:
        kept, sets, measured = study.name, len(study.ids), len(study.answers)
        designing = study.state.record.designing
        alone = designing is not None and designing.alone
    show_json({"study": kept, "sets": sets, "measured": measured})
    told = f"{measured} of {count(sets, 'set')} measured" if not alone else count(measured, "pool")
    told += " measured" if alone else ""
    show(f"Study '{visible(kept)}' in {message(url)}: {told}.")
    suggest("Next:", Address(url, name).typed("status"))


@click.group(cls=Main, context_settings=SETTINGS)
def storage() -> None:
    """Copy a database, restore it, list its studies, or upgrade its schema.

    A database may hold several studies, each with its own name.

    \b
      sumwise storage studies lab.db
      sumwise storage backup lab.db lab-2026-11-19.db
      sumwise storage restore lab.db lab-2026-11-19.db
      sumwise storage upgrade lab.db
    """


@options.command(options.url, options.as_json)
def studies(url: str) -> None:
    """List the studies in a database.

    If there are several, commands take the name of one with --study.

    \b
      sumwise storage studies lab.db
      sumwise storage studies postgresql://ann@host/lab --json
    """
    from sumwise.study.storage.records import overview

    found = overview(url)
    show_json([line._asdict() for line in found])
    numbers = ("measured", "being measured", "asked")
    rows = [
        (
            visible(line.study),
            line.strategy,
            *map(str, (line.measured, line.being_measured, line.asked)),
            moment(line.made),
        )
        for line in found
    ]
    show_table(("study", "strategy", *numbers, "made"), rows, right=numbers)


@options.command(options.url, options.as_json)
def upgrade(url: str) -> None:
    """Upgrade a database from an older version of sumwise.

    Make a copy first: the older version cannot open it afterwards. Studies made with the former
    auto get the present model, and a line in their history.

    \b
      sumwise storage backup lab.db lab-before.db && sumwise storage upgrade lab.db
      sumwise storage upgrade postgresql://ann@host/lab
    """
    from sumwise.study.storage.database import upgrade as bring_up
    from sumwise.study.storage.schema import VERSION

    with waiting("upgrading"):
        bring_up(url)
    show_json({"schema": VERSION})
    show(f"{message(url)} has the current schema, version {VERSION}.")


@options.command(
    options.url, click.argument("copy", type=options.FILE), options.force, options.as_json
)
def backup(url: str, copy: Path, force: bool) -> None:
    """Copy a database of studies, while others may work with it.

    The copy is of one moment, checked, and one file. Only databases that are SQLite files are
    copied in this way; for PostgreSQL use pg_dump.

    \b
      sumwise storage backup lab.db lab-2026-11-19.db
      sumwise storage backup lab.db latest.db --force
    """
    from sumwise.study.storage.backup import backup as write

    with waiting("copying"):
        found = write(url, copy, overwrite=force)
    show_json({"file": copy, "studies": found})
    show(f"{message(url)} copied to {copy}.", wrap=False)
    suggest("To put it back:", typed("storage restore", url, str(copy)))


@options.command(options.url, click.argument("copy", type=options.FILE), options.as_json)
def restore(url: str, copy: Path) -> None:
    """Put a copy in the place of a database.

    The copy is checked first. What was in the place is kept beside it, under another name.
    Programs that have the database open are refused from then on, until they open it again.

    \b
      sumwise storage restore lab.db lab-2026-11-19.db
      sumwise storage restore lab.db latest.db --json
    """
    from sumwise.study.storage.backup import restore as put_back

    with waiting("restoring"):
        kept, found = put_back(url, copy)
    show_json({"studies": found, "former": kept})
    show(f"{message(url)} is what {copy} is now.", wrap=False)
    if kept is not None:
        show(f"What was there before is in {kept}.", wrap=False)
    suggest("Programs that had it open must open it again. Next:", typed("status", url))


storage.add_command(backup)
storage.add_command(restore)
storage.add_command(studies)
storage.add_command(upgrade)
