"""Parameters that commands share, and the address of the study that a command works on."""

from __future__ import annotations

import functools
import os
import re
import shlex
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import rich_click as click

from sumwise.cli import SETTINGS
from sumwise.cli.output import choose_json, talk, typed, visible
from sumwise.errors import SettingError, SumwiseError
from sumwise.util.text import by_text, find, shown

if TYPE_CHECKING:
    from sumwise.study.study import Study

Function = Callable[..., Any]
Parameter = Callable[[Function], Function]

ON_CLUSTER: Final = ("ask", "claim", "predict", "serve", "status")  # commands with --dask
MOST_OFFERED: Final = 50  # ids that a shell is given to complete from
_LIKE_A_NUMBER: Final = re.compile(r"-[0-9.]")
_GUARD: Final = "\0"  # no argument can contain it


# --- commands -------------------------------------------------------------------------------------


def command(
    *parameters: Parameter, name: str | None = None, cls: type[click.RichCommand] | None = None
) -> Callable[[Function], click.Command]:
    """A command with these parameters, which its help lists in this order."""

    def decorate(function: Function) -> click.Command:
        for parameter in reversed(parameters):
            function = parameter(function)
        kind = cls or click.RichCommand
        return click.command(name, cls=kind, context_settings=SETTINGS)(function)

    return decorate


def study_command(
    *parameters: Parameter, name: str | None = None, cls: type[click.RichCommand] | None = None
) -> Callable[[Function], click.Command]:
    """A command on a study, whose `Address` it is given: URL, these parameters, --study, --json."""
    shared = study, as_json, gathered("address", Address)
    return command(url, *parameters, *shared, name=name, cls=cls)


def set_command(
    *parameters: Parameter, required: bool = True
) -> Callable[[Function], click.Command]:
    """A command on one set of a study; its parameters are text, so -5 is not an option."""
    metavar = "SET" if required else "[SET]"
    of_set = click.argument(
        "set_text", metavar=metavar, required=required, shell_complete=_complete_set
    )
    return study_command(of_set, *parameters, cls=Signed)


def gathered(name: str, kind: Any) -> Parameter:
    """Values that a command is given as one value of a dataclass with fields of their names."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(**given: Any) -> Any:
            named = (field.name for field in fields(kind) if field.name in given)
            own = {each: given.pop(each) for each in [*named]}
            return function(**{name: kind(**own)}, **given)

        return call

    return decorate


class Signed(click.RichCommand):
    """A command that reads -5 as a number, or as a set of that name, and not as an option.

    Its parameters must be text; the function converts them.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        guarded = [f"{_GUARD}{arg}" if _LIKE_A_NUMBER.match(arg) else arg for arg in args]
        try:
            rest = super().parse_args(ctx, guarded)
        except click.UsageError as error:
            plain = error.format_message().replace(_GUARD, "")
            raise click.UsageError(plain, error.ctx) from error
        for name, value in ctx.params.items():
            if isinstance(value, str):
                ctx.params[name] = value.removeprefix(_GUARD)
        return rest


# --- the study ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Address:
    """Where a study is; the name may be left out if its database holds only one."""

    url: str
    name: str | None
    cluster: str | None = None  # the Dask scheduler of one that works on all sets

    @contextmanager
    def open(self, **more: Any) -> Iterator[Study]:
        """The study, for as long as it is used; `more` as in `open_study`."""
        from sumwise.study.create import open_study

        with ExitStack() as opened:
            if self.cluster is not None:
                from sumwise.distributed import connect, on

                more["run"] = on(opened.enter_context(connect(self.cluster)))
            yield opened.enter_context(open_study(self.url, self.name, **more))

    @contextmanager
    def find(self, set_text: str) -> Iterator[tuple[Study, Hashable]]:
        """The study, and the id of the set that is shown as this text."""
        with self.open() as study:
            yield study, find(by_text(study.state.record.sets.ids), set_text)

    def typed(self, command: str, *words: str, by: str | None = None) -> str:
        """A command on this study as it is typed in a shell."""
        named = () if self.name is None else ("--study", self.name)
        who = () if by is None else ("--by", by)
        where = ("--dask", self.cluster) if self.cluster and command in ON_CLUSTER else ()
        return typed(command, self.url, *named, *words, *who, *where)


def theta_column(weights: str, exposure: str | None, trials: str | None) -> tuple[str, str | None]:
    """What weighs individuals, and the option that named a column of exposures or trials."""
    given = {"--exposure": exposure, "--trials": trials}
    named = [(name, option) for option, name in given.items() if name is not None]
    if len(named) + (weights != "sum") > 1:
        raise click.UsageError("--weights, --exposure and --trials mean the same; give one of them")
    for name, option in named:
        if name in ("sum", "mean"):
            raise click.UsageError(f"{option} {name} could also mean --weights; rename it")
        return name, option
    return weights, None


def to_number(text: str, what: str) -> float:
    """The number that was typed for an option or argument, which a refusal names."""
    from sumwise.data.totals import number

    try:
        return number(text)
    except SumwiseError as error:
        raise SettingError(f"{what}: {error}") from None


# --- parameters -----------------------------------------------------------------------------------


def option(usage: str, help: str, *, into: str | None = None, **settings: Any) -> Parameter:
    """An option as its help shows it, such as "-o --out FILE"; without a value it is a flag.

    Args:
        into: Name of the function's parameter, if it is not that of the option.
        settings: Of `click.option`.
    """
    words = usage.split()
    names = [word for word in words if word.startswith("-")]
    value = {"metavar": words[-1]} if words[len(names) :] else {"is_flag": True}
    return click.option(*names, *([into] if into else []), help=help, **value, **settings)


PATH: Final = click.Path(path_type=Path)
FILE: Final = click.Path(path_type=Path, dir_okay=False)
FOLDER: Final = click.Path(path_type=Path, file_okay=False)

url: Final = click.argument("url")
study: Final = option(
    "--study NAME", "Name of the study, if the database holds several.", into="name"
)
as_json: Final = option(
    "--json", "Print one JSON document.", expose_value=False, callback=choose_json
)
note: Final = option("--note TEXT", "A note for people to read.")
noise: Final = option(
    "--noise-std NUMBER",
    "Standard deviation of known noise in this measurement, beyond the noise of its individuals; "
    "for example noise added for privacy.",
)
part: Final = (
    option(
        "--of FILE",
        "A CSV or Parquet file that lists the members that the total covers: their ids (init --id) "
        "or, without ids, their row numbers within the set.",
        type=FILE,
    ),
    option("--covers SHARE", "The share of the set that the total covers, such as 0.8."),
)
_MAP: Final = "GeoJSON, GeoPackage or GeoParquet with shapes of the sets or of the individuals."
_MAP_ID: Final = "Its column with their ids; may be repeated. Default: as in the study's table."
map_options: Final = (
    option("--map FILE", _MAP, into="map_file", type=FILE),
    option("--map-id COLUMN", _MAP_ID, multiple=True),
)
force: Final = option("--force", "Overwrite the file if it exists.")
sets_file: Final = option(
    "--sets-file FILE",
    "Keep the individuals in this Parquet file instead of in the database.",
    type=FILE,
)
jobs: Final = option(
    "--jobs NUMBER",
    "Number of runs at the same time; the figures do not depend on it.",
    type=click.IntRange(1),
    default=os.cpu_count() or 1,
    show_default="all cores",
)
dask: Final = option(
    "--dask ADDRESS",
    "Work on the cluster of this Dask scheduler, such as tcp://host:8786. Its workers must see the "
    "same files.",
)
cluster: Final = option(
    "--dask ADDRESS",
    "Work on all sets on the cluster of this Dask scheduler, for a study on Parquet files. Its "
    "workers must see the folder of the design.",
    into="cluster",
)
by_columns: Final = option(
    "--by COLUMN", "Column that names the set; may be repeated.", multiple=True, required=True
)
x: Final = option(
    "--x COLUMN",
    "Input columns, separated by commas; * and ? stand for any characters. Text is encoded, gaps "
    "are filled. May be repeated. Default: all other columns.",
    multiple=True,
)
exposure: Final = (
    option(
        "--exposure COLUMN",
        "For counts and amounts: the column they are proportional to, such as a population.",
    ),
    option("--trials COLUMN", "For shares: the number of trials of each individual."),
)
outputs: Final = option(
    "--outputs KIND",
    "Kind of outputs: numbers; counts of events; shares, whose totals are successes among trials; "
    "or amounts above 0.",
    type=click.Choice(("numbers", "counts", "shares", "amounts")),
    default="numbers",
)
without: Final = option(
    "--not COLUMN",
    "A column that is not an input; * and ? stand for any characters. May be repeated.",
    into="without",
    multiple=True,
)


def reading(centroids: bool = True) -> Parameter:
    """How tables are read, which the function is given as one `Reading`.

    Args:
        centroids: Whether geometries may be of use.
    """
    parameters = {
        "sep": option("--sep MARK", "Separator of columns in CSV files. Default: detected."),
        "decimal": option("--decimal MARK", "Decimal mark in CSV files. Default: detected."),
        "encoding": option("--encoding NAME", "CSV encoding, such as cp1252. Default: detected."),
        "sheet": option("--sheet NAME", "Sheet of an Excel file, or layer of a GeoPackage."),
    }
    if centroids:
        words = "Add the centroids of geometries as columns: longitude and latitude, or x and y."
        parameters["centroid"] = option("--centroid", words)

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(**given: Any) -> Any:
            from sumwise.data.dialect import Reading  # which completion does without

            own = {name: given.pop(name) for name in parameters}
            how = Reading(**own, say=lambda words: talk(visible(words, 200)))
            return function(reading=how, **given)

        decorated: Function = call
        for parameter in reversed(parameters.values()):
            decorated = parameter(decorated)
        return decorated

    return decorate


def count(name: str, help: str, default: int | None = None) -> Parameter:
    """An option for a whole number of at least 1."""
    return option(f"{name} NUMBER", help, type=click.IntRange(1), default=default)


def folder(default: str, help: str) -> Parameter:
    """--out for a folder of results."""
    return option("--out FOLDER", help, type=FOLDER, default=default)


def by(help: str) -> Parameter:
    more = "Default: the environment variable SUMWISE_USER."
    return option("--by NAME", f"{help} {more}", envvar="SUMWISE_USER")


def out(what: str, endings: str = ".csv or .parquet") -> Parameter:
    """-o, --out and --force for a table in a file."""
    said = f"Write {what} to a file that ends in {endings}."
    file = option("-o --out FILE", said, type=PATH)
    return lambda function: file(force(function))


# --- completion -----------------------------------------------------------------------------------


def _complete_set(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Ids that begin with what was typed, claimed sets first."""
    del param
    from click.shell_completion import CompletionItem

    try:
        with Address(ctx.params["url"], ctx.params.get("name")).open() as study:
            ids = [*(claim.set_id for claim in study.claims), *study.ids]
    except (SumwiseError, OSError, KeyError):  # a shell cannot show messages here
        return []
    texts = dict.fromkeys(text for text in map(shown, ids) if text.startswith(incomplete))
    offered = [text for text in texts if _can_be_offered(text)][:MOST_OFFERED]
    bash = os.environ.get("_SUMWISE_COMPLETE", "").startswith("bash")  # others quote by themselves
    return [CompletionItem(shlex.quote(text) if bash else text) for text in offered]


def _can_be_offered(text: str) -> bool:
    """Whether no shell would interpret a character of this id, or end the id at it."""
    return text.isprintable() and len(text) <= 100 and not set(text) & set(",*?[]\\")
