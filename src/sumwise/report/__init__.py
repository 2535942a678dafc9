"""Charts: compute rows, then draw.

Numbers are worked out by pure functions that return plain lists of dicts, so that they can be
tested and printed; a chart only draws them. One Altair chart serves notebook, page, PNG and SVG,
and nothing is loaded from the network: the HTML file carries its own copy of Vega.
"""

from __future__ import annotations

from sumwise.report.chart_files import check_folder, save
from sumwise.report.curves import label_rows, learning_curve_rows, learning_curves
from sumwise.report.study import Panel, panels

__all__ = [
    "Panel",
    "check_folder",
    "label_rows",
    "learning_curve_rows",
    "learning_curves",
    "panels",
    "save",
]
