"""`sumwise report`, `export`, `import` and `storage`: studies as pages, folders and databases."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from sumwise.cli.common import SETTINGS, Main, waiting
from sumwise.cli.options import (
    force_option,
    json_option,
    opened,
    repeated,
    study_options,
    url_argument,
)
from sumwise.cli.output import (
    message,
    new_table,
    show,
    show_json,
    show_table,
    suggest,
    typed,
    visible,
)
from sumwise.errors import SettingError
from sumwise.util.text import count, moment


@click.command(context_settings=SETTINGS)
@url_argument
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default="report.html",
    show_default=True,
    help="The page.",
)
@force_option
@study_options
def report(url: str, name: str | None, out: Path, force: bool, as_json: bool) -> None:
    """The study as a page that opens in any browser, offline.

    What was measured, what is known of each individual, and what to measure next.

    \b
      sumwise report schools.db
      sumwise report schools.db -o week-3.html --force
    """
    from sumwise.report.study_page import write

    if out.suffix.lower() not in (".html", ".htm"):
        raise SettingError(f"{out} does not end in .html; name a file that does")
    if out.exists() and not force:
        raise SettingError(f"{out} exists; name another file with -o, or pass --force")
    with opened(url, name) as study, waiting("writing the report"):
        path = write(study, out)
    if as_json:
        show_json({"file": str(path)})
    else:
        click.echo(f"Report: {visible(str(path), 500)}")


@click.command(context_settings=SETTINGS)
@url_argument
@click.argument("folder", type=click.Path(path_type=Path))
@study_options
def export(url: str, name: str | None, folder: Path, as_json: bool) -> None:
    """Write the whole study to a folder of open formats.

    Everything is in there, history included: import makes the same study of it, in another
    database or on another machine.

    \b
      sumwise export schools.db schools-2026
      sumwise export postgresql://ann@host/lab soil --study soil
    """
    with opened(url, name) as study, waiting("exporting"):
        study.export(folder)
        kept = study.name
    if as_json:
        show_json({"study": kept, "folder": str(folder)})
        return
    show(f"Study '{visible(kept)}' written to {visible(str(folder), 500)}.")
    suggest("To bring it back, here or elsewhere:", typed("import", str(folder), "NEW.db"))


@click.command("import", context_settings=SETTINGS)
@click.argument("folder", type=click.Path(path_type=Path))
@url_argument
@click.option("--name", metavar="NAME", help="Another name than the study had.")
@click.option(
    "--sets-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the individuals in this Parquet file instead of inside the database.",
)
@json_option
def import_(
    folder: Path, url: str, name: str | None, sets_file: Path | None, as_json: bool
) -> None:
    """Make a study of a folder that was exported.

    It has the same answers, open questions and history, and asks the same next.

    \b
      sumwise import schools-2026 schools.db
      sumwise import soil postgresql://ann@host/lab --name soil-copy
    """
    from sumwise import import_study

    with waiting("importing"), import_study(folder, url, name, sets_file=sets_file) as study:
        kept, sets, measured = study.name, len(study.ids), len(study.answers)
    if as_json:
        show_json({"study": kept, "sets": sets, "measured": measured})
        return
    show(f"Study '{visible(kept)}' in {message(url)}: {measured} of {count(sets, 'set')} measured.")
    suggest("Next:", typed("status", *repeated(url, name)))


@click.group(cls=Main, context_settings=SETTINGS)
def storage() -> None:
    """Databases: which studies are there, and newer schemas.

    A database may hold several studies, whose names tell them apart.

    \b
      sumwise storage studies lab.db
      sumwise storage upgrade lab.db
    """


@storage.command(context_settings=SETTINGS)
@url_argument
@json_option
def studies(url: str, as_json: bool) -> None:
    """The studies that a database holds.

    Commands on one of several take its name with --study.

    \b
      sumwise storage studies lab.db
      sumwise storage studies postgresql://ann@host/lab --json
    """
    from sumwise.study.storage.records import overview

    found = overview(url)
    if as_json:
        show_json([line._asdict() for line in found])
        return
    numbers = ("measured", "being measured", "asked")
    table = new_table(("study", "strategy", *numbers, "made"), right=numbers)
    for line in found:
        counts = map(str, (line.measured, line.being_measured, line.asked))
        table.add_row(visible(line.study), line.strategy, *counts, moment(line.made))
    show_table(table)


@storage.command(context_settings=SETTINGS)
@url_argument
@json_option
def upgrade(url: str, as_json: bool) -> None:
    """Bring a database that an older sumwise made to the present schema.

    Make a copy first: an older sumwise cannot open it afterwards.

    \b
      cp lab.db lab-before.db && sumwise storage upgrade lab.db
      sumwise storage upgrade postgresql://ann@host/lab
    """
    from sumwise.study.storage.database import upgrade as bring_up
    from sumwise.study.storage.schema import VERSION

    with waiting("upgrading"):
        bring_up(url)
    if as_json:
        show_json({"schema": VERSION})
    else:
        show(f"{message(url)} has the present schema, {VERSION}.")
