"""The report's panels as JSON: the same charts, words and numbers, computed once per change."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from sumwise.learning.insight import Insight
from sumwise.learning.status import Status
from sumwise.report import panels
from sumwise.report.panels import Panel
from sumwise.study.storage.records import Snapshot
from sumwise.web.session import Session
from sumwise.web.single_flight import SingleFlight

PANELS: Final[Mapping[str, Callable[[Insight], Panel]]] = {
    "progress": panels.progress,
    "information": panels.information,
    "predicted": panels.predicted,
    "calibration": panels.calibration,
    "next": panels.questions,
}


class Charts:
    """Charts of a study as a whole; each costs a look at every answer."""

    def __init__(self, session: Session) -> None:
        self._study, self._now = session.study, session.state.snapshot
        self._status = SingleFlight[Snapshot, Status]()
        self._insight = SingleFlight[Snapshot, Insight]()
        self._panels = {kind: SingleFlight[Snapshot, dict[str, Any]]() for kind in PANELS}

    def status(self) -> Status:
        return self._status.get(self._now, lambda _: self._study.status())

    def panel(self, kind: str) -> dict[str, Any]:
        def draw(_: Snapshot) -> dict[str, Any]:
            insight = self._insight.get(self._now, lambda _: self._study.insight())
            return as_json(PANELS[kind](insight))

        return self._panels[kind].get(self._now, draw)


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
    """The value with None for numbers that JSON cannot hold.

    >>> clean({"a": [1.5, float("nan")], "b": "text"})
    {'a': [1.5, None], 'b': 'text'}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: clean(part) for name, part in value.items()}
    return [clean(part) for part in value] if isinstance(value, list | tuple) else value
