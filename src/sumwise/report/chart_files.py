"""Charts to files: PNG, SVG, and HTML that carries its own copy of Vega."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sumwise.errors import SettingError
from sumwise.util.files import write_file


def save(chart: Any, stem: str | Path, formats: Sequence[str] = (".png", ".html")) -> list[Path]:
    """Write the chart to `stem` + each suffix (.png, .svg, .html), and say where."""
    for suffix in formats:
        if suffix not in FORMATS:
            raise SettingError(f"no chart format is called {suffix!r}; give {', '.join(FORMATS)}")
    folder = check_folder(Path(stem).parent)
    spec = chart.to_dict()
    drawn = {Path(f"{stem}{suffix}"): FORMATS[suffix](spec) for suffix in formats}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in drawn.items():
            write_file(path, content)
    except OSError as error:
        raise SettingError(
            f"the chart cannot be written to {folder} ({error.strerror}). "
            "Choose another folder, or make room on the disk."
        ) from error
    return list(drawn)


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


def _png(spec: dict[str, Any]) -> bytes:
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(spec, scale=2))


def _svg(spec: dict[str, Any]) -> bytes:
    import vl_convert

    return str(vl_convert.vegalite_to_svg(spec)).encode()


def _html(spec: dict[str, Any]) -> bytes:
    import vl_convert

    # the converter would write text such as "</script>" as it is, so we put the chart in ourselves
    blank = {"description": "blank"}
    page = str(vl_convert.vegalite_to_html(blank, bundle=True))
    before, _, after = page.rpartition(json.dumps(blank, separators=(",", ":")))
    safe = json.dumps(spec).replace("<", "\\u003c")
    title = html.escape(spec.get("description", "Chart"))
    head = f'<title>{title}</title><meta name="viewport" content="width=device-width">'
    return (before.replace("<title>Chart</title>", head, 1) + safe + after).encode()


FORMATS: Final[Mapping[str, Callable[[dict[str, Any]], bytes]]] = {
    ".png": _png,
    ".svg": _svg,
    ".html": _html,
}
