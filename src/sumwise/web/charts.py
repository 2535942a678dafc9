"""The report's panels as JSON: the same charts, words and numbers, worked out once a change."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from sumwise.learning.insight import Insight
from sumwise.learning.status import Status
from sumwise.report import study as panels
from sumwise.report.study import Panel
from sumwise.web.session import Inside, Seen
from sumwise.web.single_flight import Latest

PANELS: Final[Mapping[str, Callable[[Insight], Panel]]] = {
    "progress": panels.progress,
    "information": panels.information,
    "predicted": panels.predicted,
    "calibration": panels.calibration,
    "next": panels.questions,
}


class Insights:
    """What is known of a study as a whole; each at the cost of a look at every answer."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self._statuses: Latest[Seen, Status] = Latest()
        self._insights: Latest[Seen, Insight] = Latest()
        self._panels = {kind: Latest[Seen, dict[str, Any]]() for kind in PANELS}

    def status(self) -> Status:
        return self._statuses.get(self._inside.seen, lambda seen: self._inside.study.status())

    def panel(self, kind: str) -> dict[str, Any]:
        def draw(seen: Seen) -> dict[str, Any]:
            return as_json(PANELS[kind](self._insight()))

        return self._panels[kind].get(self._inside.seen, draw)

    def _insight(self) -> Insight:
        return self._insights.get(self._inside.seen, lambda seen: self._inside.study.insight())


def as_json(panel: Panel) -> dict[str, Any]:
    columns = list(panel.rows[0]) if panel.rows else []
    rows = [[row[column] for column in columns] for row in panel.rows]
    return {
        "title": panel.title,
        "chart": None if panel.chart is None else clean(panel.chart.to_dict()),
        "words": list(panel.words),
        "table": {"columns": columns, "rows": clean(rows)},
    }


def clean(value: Any) -> Any:
    """Without numbers that JSON cannot hold.

    >>> clean({"a": [1.5, float("nan")], "b": "text"})
    {'a': [1.5, None], 'b': 'text'}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: clean(part) for name, part in value.items()}
    return [clean(part) for part in value] if isinstance(value, list | tuple) else value
