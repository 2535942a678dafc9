"""`sumwise pools`: who is in the pools that a study has designed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from sumwise.cli import options
from sumwise.cli.options import Address, option
from sumwise.cli.output import show, show_file, show_json, show_table, suggest, visible
from sumwise.data.tables import check_output, write_table
from sumwise.errors import SettingError
from sumwise.util.text import shown

FEW: Final = 20  # pools on the screen
COLUMNS: Final = ("set", "member", "weight", "state", "by", "total")


@options.study_command(
    option("--open", "Only pools that are being measured.", into="held"),
    options.out("a row for each member of each pool"),
)
def pools(address: Address, held: bool, out: Path | None, force: bool) -> None:
    """List the pools that were designed, and who is in them.

    A file has a row for each member: the pool (set), the member, its weight, whether the pool is
    open, measured, skipped or free, by whom, and its total.

    \b
      sumwise pools assays.db
      sumwise pools assays.db --open -o to-mix.csv
    """
    if out is not None:
        check_output(out, force)
    with address.open() as study:
        if study.state.record.designing is None:
            raise SettingError(
                "the sets of this study were given; only sumwise init --design makes pools"
            )
        found, states = study.pools, _states(study)
        sets = study.sets
    rows = []
    for name, members in found.items():
        state = states.get(name, {"state": "free", "by": None, "total": None})
        if not held or state["state"] == "open":
            theta = sets[name].theta.tolist()
            each = [{"id": shown(m), "weight": w} for m, w in zip(members, theta, strict=True)]
            rows.append({"set": shown(name), **state, "members": each})
    if out is not None:
        _write(rows, out, force)
        return
    show_json({"pools": rows})
    cells = []
    for row in rows[-FEW:]:
        who = visible(", ".join(each["id"] for each in row["members"]), 200)
        total = "" if row["total"] is None else f"{row['total']:.9g}"
        cells.append([row["set"], row["state"], who, total])
    show_table(("pool", "state", "members", "total"), cells, right=("total",))
    if len(rows) > FEW:
        show(f"The last {FEW} of {len(rows)}; -o FILE or --json lists all.")
    if not rows:
        suggest("No pool is open." if held else "No pool yet; ask for one:", address.typed("ask"))


def _states(study: Any) -> dict[Any, dict[str, Any]]:
    """Whether a set is skipped, open or measured, by whom, and its total."""
    groups = (("skipped", study.skips), ("open", study.claims), ("measured", study.answers))
    return {
        each.set_id: {"state": state, "by": each.by, "total": getattr(each, "y_bar", None)}
        for state, group in groups
        for each in group
    }


def _write(rows: list[dict[str, Any]], out: Path, force: bool) -> None:
    import pyarrow as pa

    lines = [
        {name: {**row, "member": each["id"], **each}[name] for name in COLUMNS}
        for row in rows
        for each in row["members"]
    ]
    kinds = {"weight": pa.float64(), "total": pa.float64()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])
    write_table(
        pa.Table.from_pylist([{n: line[n] for n in COLUMNS} for line in lines], schema), out, force
    )
    show_file(out, len(lines), "member")
