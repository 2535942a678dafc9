"""`sumwise predict`: outputs of individuals and totals of sets, with their uncertainty."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import rich_click as click

from sumwise.cli import options, output, predict_table
from sumwise.cli.options import Address, option
from sumwise.cli.output import visible
from sumwise.cli.predict_table import is_large
from sumwise.data.about import About
from sumwise.data.dialect import Reading
from sumwise.data.geo import Geometry
from sumwise.data.geo_write import ENDINGS
from sumwise.data.individuals import read_inputs
from sumwise.data.maps import INDIVIDUALS, SETS
from sumwise.data.parquet import Scan, batches
from sumwise.data.recipe import Encoded
from sumwise.data.tables import TABLES, check_output, read_table, write_table
from sumwise.errors import DataError, SettingError
from sumwise.learning.individuals import groups_in, own_ids
from sumwise.model.predict import check_level, individuals
from sumwise.outofcore import predict_parquet as streams
from sumwise.outofcore.build import in_threads
from sumwise.util.text import count, json_ready, plain

if TYPE_CHECKING:
    from sumwise.study.study import Study

FEW: Final = 10  # rows on the screen


@options.study_command(
    click.argument("data", required=False, type=options.PATH),
    option("--sets", "Predict the totals of sets instead.", into="of_sets"),
    option("--by COLUMN", "Column of DATA that names the set of each row, if not those of init."),
    option(
        "--level SHARE", "Share of values that should lie between lower and upper.", default=0.9
    ),
    options.reading(),
    options.cluster,
    options.out("all rows", ".csv, .parquet, .geojson or .geoparquet"),
)
def predict(
    address: Address,
    data: Path | None,
    of_sets: bool,
    by: str | None,
    level: float,
    out: Path | None,
    force: bool,
    reading: Reading,
) -> None:
    """Predict every individual's output, with its uncertainty.

    Without DATA, it predicts the individuals of the study: set, row (its number within the set, in
    the order of the table), inputs, mean, standard deviation and interval. DATA is a table (CSV,
    Parquet, Excel, GeoJSON or GeoPackage) with the study's input columns; the result is its rows
    with the last four columns added. Members of a measured set are predicted given its total, and
    add up to it. This holds for rows of DATA if it has the columns that name the study's sets, or
    if --by names such a column. Otherwise the totals of their own sets are not used for them.

    Counts, shares and amounts also have the columns rate (or share) and extrapolates. If DATA has
    the column of exposures (or trials), counts are predicted for its rows; otherwise, rates are.
    Files that end in .geojson or .geoparquet have shapes as well, where the study or DATA has any.

    \b
      sumwise predict schools.db -o predictions.parquet
      sumwise predict schools.db newcomers.csv --level 0.5 -o predicted.csv
      sumwise predict schools.db --sets -o totals.geojson
    """
    if of_sets and data is not None:
        raise click.UsageError("--sets predicts the sets of the study; leave DATA out")
    if by is not None and data is None:
        raise click.UsageError("--by names a column of DATA; name a file as well")
    has_shapes = out is not None and out.suffix.lower() in ENDINGS
    if out is not None:
        check_output(out, force, (*TABLES, *ENDINGS))
    with address.open() as study:
        scan = study.scan if data is None and not of_sets else None
        shapes = _shapes(study, data, of_sets, reading) if has_shapes else None
        asked = study, scan, data, by, of_sets, level
        table, head, rows = _found(*asked, out, force, reading)
        measured, about = len(study.answers), _about(study, head, data)
    if not measured:
        output.talk("Nothing is measured yet, so these predictions are those of the prior.")
    if out is not None:
        if table is not None:
            write_table(table, out, force, shapes)
        output.show_file(out, rows, "row", level=level)
    elif output.wants_json():
        output.show_json({"level": level, "rows": json_ready(table.to_pylist())})
    else:
        _show(table, rows, measured, level, about)
        given = () if data is None else (str(data), *reading.typed)
        given += ("--sets",) if of_sets else ()
        target = "predictions.csv" if scan is None else "predictions.parquet"
        output.suggest(f"All {rows} rows, in full:", address.typed("predict", *given, "-o", target))


def _found(
    study: Study,
    scan: Scan | None,
    data: Path | None,
    by: str | None,
    of_sets: bool,
    level: float,
    out: Path | None,
    force: bool,
    reading: Reading,
) -> tuple[Any, Any, int]:
    """A table of predictions, or None where they are written already; one that has its columns; and
    the number of rows."""
    if data is not None and out is not None and is_large(study, data, out, reading):
        head, rows, far, inside = predict_table.write(study, data, by, level, out, force)
        _warn_of_extrapolation(far, rows)
        if inside and by is None:
            _say_whose(study)
        return None, head, rows
    if scan is not None and out is not None:
        return None, None, _write_scan(study, scan, out, level, force)
    few = None if out is not None or output.wants_json() else FEW
    table, rows = _table(study, scan, data, by, of_sets, level, few, reading)
    if not of_sets and table.column_names[-1].endswith("extrapolates"):
        _warn_of_extrapolation(sum(table.column(table.column_names[-1]).to_pylist()), len(table))
    return table, table, rows


def _table(
    study: Study,
    scan: Scan | None,
    data: Path | None,
    by: str | None,
    of_sets: bool,
    level: float,
    few: int | None,
    reading: Reading,
) -> tuple[Any, int]:
    """Predictions of the first few rows, or of all; and the number of all rows."""
    exposure = None
    if of_sets:
        found = study.predict_sets(level)
        return found.to_arrow(), len(found)
    if data is not None:
        kept = study.state.record.sets  # study.sets would read individuals
        names = kept.input_names
        if names is None:
            raise DataError(
                "the inputs of this study have no names; predict in Python, from arrays"
            )
        column = None if study.about.outputs == "numbers" else kept.origin.weights
        beside = {} if column is None else {str(column): None}
        table, known = read_inputs(data, tuple(map(str, names)), beside, kept.recipe, reading)
        if column in table.frame.columns:
            exposure = table.numbers(str(column))[:few]
        x: Any = known.x
        native = table.frame.to_native()
        few = None if study.about.bounded else few  # members of a set move together
        columns = {name: native.column(name).slice(0, few) for name in native.column_names}
        about: dict[str, Any] = {"inputs": columns}
        named = None if by is None else own_ids(kept, table.keys([by], "given as --by"))
        groups = named or groups_in(kept, native)
        if groups and named is None and {*groups} & {a.set_id for a in study.answers}:
            _say_whose(study)
    elif scan is not None and few is not None:
        x, columns, theta = _first_rows(scan, few)
        about, groups = {"inputs": columns}, None
        exposure = None if study.about.outputs == "numbers" else theta
    else:
        x, groups = study.sets.own_x, None
        few = None if few is None else min(few, len(x))  # rows of pools come after them
        about = individuals(study.sets, few)
        if study.about.outputs != "numbers":
            exposure = study.sets.theta[: len(x)][:few]
    if groups is None:
        groups = about.get("ids")
    elif few is not None:
        groups = groups[:few]
    if study.about.bounded and data is None and scan is None:  # members of a set move together
        found = study.predict(level=level)
        return found.to_arrow().slice(0, few), len(x)
    rows = x[:few] if data is None else Encoded(known.x[:few], known.unknown[:few])
    found = replace(study.predict(rows, level, groups=groups, exposure=exposure), **about)
    return found.to_arrow(), len(x) if scan is None else scan.rows


def _shapes(study: Study, data: Path | None, of_sets: bool, reading: Reading) -> Geometry:
    """The geometry of each row of predictions."""
    if data is not None:
        found = read_table(data, lambda name: True, reading).geometry
        if found is None:
            raise SettingError(
                f"{data} has no geometries; write a file that ends in .csv or .parquet"
            )
        return found
    wanted, known = SETS if of_sets else INDIVIDUALS, study.map
    if known is None or known.of != wanted:
        found = None if of_sets else study.shapes
        if found is not None:
            return found
        hint = "add a map: sumwise map STUDY --map FILE --map-id COLUMN"
        if known is not None:
            hint = "leave --sets out" if of_sets else "predict --sets"
        raise SettingError(
            f"the study has no shapes of {wanted}. Write a .csv or .parquet file, or {hint}."
        )
    rows = study.sets.row_ids
    ids = study.ids if of_sets or rows is None else rows[: study.sets.n_rows].tolist()
    own = dict(zip(known.ids, known.geometry.wkb, strict=True))
    return replace(known.geometry, wkb=[own.get(each) for each in ids])


def _about(study: Study, table: Any, data: Path | None) -> About:
    """What is predicted. Where a table lacks the exposures these are rates; says so."""
    column, outputs = study.state.record.sets.origin.weights, study.about.outputs
    if data is None or outputs == "numbers" or column in (None, *table.column_names):
        return study.about
    named = visible(str(column), 40)
    what = "shares, not counts" if outputs == "shares" else f"per unit of {named}, not {outputs}"
    output.talk(
        f"{visible(data.name)} has no column {named}, so mean, std, lower and upper are {what}."
    )
    return replace(study.about, outcome=None)


def _first_rows(scan: Scan, few: int) -> tuple[Any, dict[Any, Any], Any]:
    """Inputs of a part, and columns and weights of its first rows."""
    first = next(batches(scan, scan.parts()[0]))
    x = np.ascontiguousarray(first.inputs.T, dtype=np.float64)
    columns = {name: key.slice(0, few) for name, key in zip(scan.by, first.keys, strict=True)}
    inputs: dict[Any, Any] = dict(zip(scan.x, x[:few].T, strict=False))
    if scan.recipe is not None:
        inputs = scan.recipe.decode(x[:few])
    columns |= {name: values for name, values in inputs.items() if name not in columns}
    return x, columns, (np.ones(len(x)) if first.theta is None else first.theta)[:few]


def _say_whose(study: Study) -> None:
    said = ", ".join(visible(str(name), 40) for name in study.state.record.sets.origin.by)
    output.talk(f"Members of measured sets are predicted given their totals, by {said}.")


def _warn_of_extrapolation(far: int, rows: int) -> None:
    """Say how many rows have rates that are far from all measured ones."""
    if far:
        output.talk(
            f"{count(far, 'row')} of {rows} {'has' if far == 1 else 'have'} a rate more "
            "than 10 times above or below all that were measured (column extrapolates): the "
            "model extrapolates there, and may be far off."
        )


def _write_scan(study: Study, scan: Scan, out: Path, level: float, force: bool) -> int:
    """Write group columns and predictions of every row of the study's files; gives how many."""
    model, share = study.model.fitted(), check_level(level)
    ends = study.about.ends
    return streams.predict(model, scan, str(out), share, in_threads, overwrite=force, ends=ends)


def _show(table: Any, rows: int, measured: int, level: float, about: About) -> None:
    """Print the first rows; a narrow terminal leaves out columns in the middle."""
    lines = table.slice(0, FEW).to_pylist()
    names = table.column_names
    whole = ("measured", "lower", "upper") if about.is_whole else ()
    cells = {name: [_cell(line[name], name in whole) for line in lines] for name in names}
    needed = {name: max(map(len, (visible(name, 16), *cells[name]))) + 3 for name in names}
    kept, room = list(names), output.width()
    last = 6 if names[-1].endswith("extrapolates") else 4
    for name in reversed(names[1:-last]):
        if sum(needed[n] for n in kept) - 3 > room:
            kept.remove(name)
    heads = {name: visible(name, 16) for name in kept}
    right = {heads[n] for n in kept if not isinstance(lines[0][n], str)}
    rows_shown = [[cells[name][row] for name in kept] for row in range(len(lines))]
    output.show_table(list(heads.values()), rows_shown, right)
    hidden = [visible(name, 40) for name in names if name not in kept]
    some = f" Not shown: {', '.join(hidden)}." if hidden else ""
    what = "" if about.outcome is None else f"Predicted {about.outcome}{about.in_unit}. "
    cut = " and is cut at the bounds" if about.bounded else ""
    output.show(
        f"{what}The first {len(lines)} of {rows}; lower to upper should hold {100 * level:g} % of "
        f"values{cut}. {count(measured, 'set')} measured.{some}"
    )


def _cell(value: Any, whole: bool = False) -> str:
    if value is None:
        return ""
    if whole and value == round(value):
        return f"{value:.0f}"
    return plain(value) if isinstance(value, float) else visible(str(value), 30)
