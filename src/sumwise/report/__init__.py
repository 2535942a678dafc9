"""Charts and pages: compute rows, then draw.

Numbers are worked out by pure functions that return plain lists of dicts, so that they can be
tested and printed; a chart only draws them. One Altair chart serves notebook, page, PNG and SVG,
and nothing is loaded from the network: an HTML file carries its own copy of Vega.
"""
