"""Charts and pages to files: PNG, SVG, and HTML that needs no network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sumwise.errors import SettingError
from sumwise.report.page import chart_page
from sumwise.util.files import write_file

FORMATS: Final = (".png", ".svg", ".html")


def save(chart: Any, stem: str | Path, formats: Sequence[str] = (".png", ".html")) -> list[Path]:
    """Write the chart to `stem` + each suffix (.png, .svg, .html), and say where."""
    for suffix in formats:
        if suffix not in FORMATS:
            raise SettingError(f"no chart format is called {suffix!r}; give {', '.join(FORMATS)}")
    check_folder(Path(stem).parent)
    drawn = [(Path(f"{stem}{suffix}"), _drawn(chart, suffix)) for suffix in formats]
    return [save_page(content, path) for path, content in drawn]


def _drawn(chart: Any, suffix: str) -> bytes | str:
    import vl_convert

    if suffix == ".html":
        return chart_page(chart)
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
            f"the report cannot be written to {path} ({error.strerror}). "
            "Choose another folder, or make room on the disk."
        ) from error
    return path


def check_folder(folder: str | Path) -> Path:
    """Refuse early a folder that cannot be written to; nothing is created yet."""
    place = Path(folder).absolute()
    try:
        while not place.exists() and place != place.parent:
            place = place.parent
    except OSError as error:  # a name too long to be one
        raise SettingError(f"{folder} cannot be a folder ({error.strerror})") from error
    if not place.is_dir():
        raise SettingError(f"{place} is a file, so nothing can be put in {folder}; name a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise SettingError(f"{place} may not be written to; choose another folder than {folder}")
    return Path(folder)
