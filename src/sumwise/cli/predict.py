"""`sumwise predict`: outputs of individuals and totals of sets, with their uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import rich_click as click

from sumwise.cli.common import SETTINGS
from sumwise.cli.options import force_option, opened, repeated, study_options, url_argument
from sumwise.cli.output import (
    new_table,
    show,
    show_json,
    show_table,
    suggest,
    talk,
    typed,
    visible,
    width,
)
from sumwise.cli.streaming import first_rows, to_file
from sumwise.data.tables import check_output, column_names, numbers, place, read_table, require
from sumwise.data.tables import write_table as write
from sumwise.errors import DataError
from sumwise.model.prediction_table import Predictions, check_level, individuals
from sumwise.util.progress import Slow
from sumwise.util.shapes import Float
from sumwise.util.text import count, figure

if TYPE_CHECKING:
    from sumwise.study.study import Study

FEW: Final = 10  # rows on the screen
BLOCK: Final = 100_000  # individuals between two looks at the clock


@click.command(context_settings=SETTINGS)
@url_argument
@click.argument("data", required=False, type=click.Path(path_type=Path))
@click.option("--sets", "of_sets", is_flag=True, help="Totals of sets instead of individuals.")
@click.option(
    "--level",
    type=float,
    metavar="SHARE",
    default=0.9,
    show_default=True,
    help="Share of values that should lie between lower and upper.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Write all rows to a file that ends in .csv or .parquet.",
)
@force_option
@study_options
def predict(
    url: str,
    name: str | None,
    data: Path | None,
    of_sets: bool,
    level: float,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Every individual's output, with its uncertainty.

    Without DATA, the individuals of the study: set, row (its number within the set, in the order
    of the table), inputs, mean, standard deviation and interval. With DATA, a CSV or Parquet file
    that has the study's input columns, its rows with these four columns added.

    \b
      sumwise predict schools.db
      sumwise predict schools.db -o predictions.parquet
      sumwise predict schools.db newcomers.csv --level 0.5 -o predicted.csv
      sumwise predict schools.db --sets -o totals.csv
    """
    if of_sets and data is not None:
        raise click.UsageError("--sets are those of the study; leave DATA out")
    check_level(level)
    if out is not None:
        check_output(out, force)
    few = None if out is not None or as_json else FEW
    with opened(url, name) as study:
        table: Any = None
        streams = study.scan if data is None and not of_sets else None
        if streams is not None and out is not None:
            rows = to_file(study, streams, out, level, force)
        elif streams is not None and few is not None:
            table, rows = first_rows(study, streams, few, level)
        elif of_sets:
            table, rows = _of_sets(study, level)
        elif data is not None:
            table, rows = _of_file(study, data, level, few)
        else:
            table, rows = _of_pool(study, level, few)
        measured = len(study.answers)
    if not measured:
        talk("Nothing is measured yet, so these are the guesses of a model that knows nothing.")
    if out is not None:
        if table is not None:
            write(table, out, force)
        if as_json:
            show_json({"file": str(out), "rows": rows, "level": level})
        else:
            show(f"{count(rows, 'row')} written to {visible(str(out), 500)}.")
    elif as_json:
        show_json({"level": level, "rows": list(map(_plain, table.to_pylist()))})
    else:
        _show(table, rows, measured, level)
        given = () if data is None else (str(data),)
        kind = ("--sets",) if of_sets else ()
        target = "predictions.csv" if streams is None else "predictions.parquet"
        again = typed("predict", *repeated(url, name), *given, *kind, "-o", target)
        suggest(f"All {rows} rows, in full:", again)


# --- tables ---------------------------------------------------------------------------------------


def _of_pool(study: Study, level: float, few: int | None) -> tuple[Any, int]:
    """Individuals of the study; the first few, or all."""
    sets = study.sets
    mean, std = _predicted(study, sets.x[:few])
    return Predictions.of(mean, std, level, **individuals(sets, few)).to_arrow(), len(sets.x)


def _of_file(study: Study, data: Path, level: float, few: int | None) -> tuple[Any, int]:
    """The rows of a file as they are, with predictions; what is no input stays text."""
    names = getattr(study.model, "feature_names_in_", None)  # study.sets would read individuals
    if names is None:
        raise DataError("the inputs of this study have no names; predict from Python, with arrays")
    wanted = tuple(map(str, names))
    table = read_table(data, text=lambda name: name not in wanted)
    require(column_names(table, data), wanted, "an input of the study", data)
    if not table.num_rows:
        raise DataError(f"{data} has a heading and no rows; there is nothing to predict")
    where = place(data)
    x = np.column_stack([numbers(table, name, where) for name in wanted])
    mean, std = _predicted(study, x[:few])
    theirs = {name: table.column(name).slice(0, len(mean)) for name in table.column_names}
    return Predictions.of(mean, std, level, inputs=theirs).to_arrow(), len(x)


def _of_sets(study: Study, level: float) -> tuple[Any, int]:
    """Totals of sets, beside those that were measured."""
    found = study.predict_sets(level)
    return found.to_arrow(), len(found)


def _predicted(
    study: Study, x: Float[np.ndarray, "n D"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Of many individuals, block by block, all by the same model."""
    model = study.model
    mean, std = np.empty(len(x)), np.empty(len(x))
    with Slow("predicting", len(x)) as progress:
        for low in range(0, len(x), BLOCK):
            block = slice(low, low + BLOCK)
            mean[block], std[block] = model.predict(x[block], return_std=True)
            progress.at(min(low + BLOCK, len(x)))
    return mean, std


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row for JSON, which knows no NaN; dates and the like become text."""
    gone = {name for name, value in row.items() if isinstance(value, float) and not isfinite(value)}
    return {
        name: None if name in gone else value if isinstance(value, _OF_JSON) else str(value)
        for name, value in row.items()
    }


_OF_JSON: Final = (str, int, float, bool, type(None))


# --- the screen -----------------------------------------------------------------------------------


def _show(table: Any, rows: int, measured: int, level: float) -> None:
    """The first rows; columns in the middle give way where the terminal is narrow."""
    lines = table.slice(0, FEW).to_pylist()
    names = table.column_names
    cells = {name: [_cell(line[name]) for line in lines] for name in names}
    needed = {name: max(map(len, (visible(name, 16), *cells[name]))) + 3 for name in names}
    kept, room = list(names), width()
    for name in reversed(names[1:-4]):
        if sum(needed[n] for n in kept) - 3 > room:
            kept.remove(name)
    heads = {name: visible(name, 16) for name in kept}
    right = {heads[n] for n in kept if not isinstance(lines[0][n], str)}
    shown_table = new_table(list(heads.values()), right=right)
    for number in range(len(lines)):
        shown_table.add_row(*(cells[name][number] for name in kept))
    show_table(shown_table)
    hidden = [visible(name, 40) for name in names if name not in kept]
    some = f" Not shown: {', '.join(hidden)}." if hidden else ""
    show(
        f"The first {len(lines)} of {rows}; lower to upper should hold {100 * level:g} % of values."
        f" {count(measured, 'set')} measured.{some}"
    )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return figure(value) if isinstance(value, float) else visible(str(value), 30)
