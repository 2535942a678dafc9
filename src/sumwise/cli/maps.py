"""`sumwise map`: a study as a map, and a map for a study."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from sumwise.cli import options
from sumwise.cli.options import Address, option
from sumwise.cli.output import message, show, show_json
from sumwise.util.progress import waiting

ENDINGS = (".png", ".svg", ".html")


@options.study_command(
    *options.map_options,
    option(
        "--show KIND",
        "Colour by prediction, by uncertainty, or by status: what is measured, what comes next.",
        into="kind",
        type=click.Choice(("prediction", "uncertainty", "status")),
        default="prediction",
    ),
    option("-o --out FILE", "File for the picture: .png, .svg or .html.", type=options.FILE),
    options.force,
    options.by("Who adds the map."),
    name="map",
)
def map_(
    address: Address,
    map_file: Path | None,
    map_id: tuple[str, ...],
    kind: str,
    out: Path | None,
    force: bool,
    by: str | None,
) -> None:
    """Draw the study as a map, or give it one.

    With --map, the shapes are stored in the study: of its sets or of its individuals, found out by
    the ids in the column --map-id. The page and the report show them, too, and export keeps them.

    \b
      sumwise map schools.db --map districts.geojson --map-id code
      sumwise map schools.db -o predicted.png
      sumwise map schools.db --show status -o next.svg
    """
    from sumwise.data.tables import check_output
    from sumwise.report.maps import map_chart, map_of
    from sumwise.report.notebook import fixed
    from sumwise.report.page import save

    if map_file is None and out is None:
        raise click.UsageError("give -o picture.png to draw the map, or --map FILE to add one")
    if out is not None:
        check_output(out, force, ENDINGS)
    with address.open() as study, waiting("drawing the map"):
        if out is not None:  # first: what is refused is not stored
            chart = fixed(map_chart(map_of(study, map_file, map_id), kind))
        said = None if map_file is None else study.add_map(map_file, map_id, by)
        if out is not None:
            save(chart, out.with_suffix(""), [out.suffix.lower()])
    show_json({"file": out, "map": said})
    if said is not None:
        show(message(said))
    if out is not None:
        show(f"Map: {out}", wrap=False)
