"""A report as one HTML page: words, tables and charts that answer to the pointer, all offline.

Vega is in the page once, however many charts there are; a page without charts goes without it.
Text comes from files and column names, so it is never trusted: the template escapes words, a chart
is inert JSON that one script of ours draws, and the page's own content policy runs that script and
Vega's and nothing else. It also keeps the page from asking the network for anything.
"""

from __future__ import annotations

import os
import platform
import re
from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy

import sumwise
from sumwise.errors import SettingError
from sumwise.util.files import write_file

FORMATS: Final = (".png", ".svg", ".html")  # of charts
NUMBER: Final = re.compile(r"(more than |less than )?[-−+±<>≤≥≈(]*\s*\.?\d")


@dataclass(frozen=True, slots=True)
class TextTable:
    """Cells as they are shown; `bold` holds (row, column), both from 0."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    bold: Collection[tuple[int, int]] = ()

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold mostly numbers; they are aligned to the right."""
        columns = [[row[at] for row in self.rows] for at in range(len(self.columns))]
        filled = [[cell for cell in cells if cell.strip(" –—")] for cells in columns]
        return [
            2 * sum(bool(NUMBER.match(cell)) for cell in cells) > len(cells) for cells in filled
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """A heading, then words, charts (Altair) and a table, in this order."""

    title: str
    words: Sequence[str] = ()
    charts: Sequence[Any] = ()
    table: TextTable | None = None
    rows: Sequence[Mapping[str, Any]] = ()  # the numbers that the charts draw; not shown
    appendix: bool = False  # whether it is folded away until a reader opens it


def versions() -> tuple[str, str]:
    """A row of a table: what the page was made with."""
    made_with = f"sumwise {sumwise.__version__}, NumPy {numpy.__version__}"
    return "versions", f"{made_with}, Python {platform.python_version()}"


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The whole page.

    Args:
        lead: The finding, which stands below the title. A page without one shows no title either.
    """
    templates = _templates()
    drawn = any(section.charts for section in sections)
    scripts = [_vega(), templates.get_template("draw.js").render()] if drawn else []
    digests = [b64encode(sha256(script.encode()).digest()).decode() for script in scripts]
    policy = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    first = [section for section in sections if not section.appendix]
    rest = [section for section in sections if section.appendix]
    return templates.get_template("page.html").render(
        title=title, lead=lead, sections=first, appendix=rest, scripts=scripts, policy=policy
    )


@cache
def _templates() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("sumwise.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.policies["json.dumps_kwargs"] = {}  # keep the order of keys, which Vega-Lite minds
    return templates


@cache
def _vega() -> str:
    import vl_convert

    bundle = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
    return bundle.replace("</script", "<\\/script")


# --- files ----------------------------------------------------------------------------------------


def save(chart: Any, stem: Path, formats: Sequence[str] = (".png", ".html")) -> list[Path]:
    """Write the chart to `stem` + each suffix of `FORMATS`, and return the files."""
    drawn = [(Path(f"{stem}{suffix}"), _drawn(chart, suffix)) for suffix in formats]
    return [save_page(content, path) for path, content in drawn]


def _drawn(chart: Any, suffix: str) -> bytes | str:
    import vl_convert

    if suffix == ".html":
        return page(chart.description, "", [Section("", charts=[chart])])
    if suffix == ".png":
        return vl_convert.vegalite_to_png(chart.to_dict(), scale=2)
    return vl_convert.vegalite_to_svg(chart.to_dict())


def save_page(content: bytes | str, path: Path) -> Path:
    """Write a page or a picture whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)
    except OSError as error:
        raise SettingError(
            f"{path} cannot be written ({error.strerror}). "
            "Choose another folder, or make room on the disk."
        ) from error
    return path


def check_folder(folder: str | Path) -> None:
    """Refuse early a folder that cannot be written to; nothing is created yet."""
    place = Path(folder).absolute()
    while not os.path.exists(place) and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise SettingError(f"{place} is a file, so nothing can be put in {folder}; name a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise SettingError(f"{place} may not be written to; choose another folder than {folder}")
