"""Charts and pages: compute rows, then draw.

Numbers are worked out by pure functions that return plain lists of dicts, so that they can be
tested and printed; a chart only draws them. One Altair chart serves notebook, page, PNG and SVG,
and nothing is loaded from the network: an HTML file carries its own copy of Vega.
"""

from __future__ import annotations

from sumwise.report.curves import learning_curve_rows, learning_curves
from sumwise.report.page import check_folder, save

__all__ = ["check_folder", "learning_curve_rows", "learning_curves", "save"]
