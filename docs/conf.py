"""The documentation site: `make docs` builds it, offline, with warnings as errors."""

from __future__ import annotations

import sys
from pathlib import Path

import sumwise

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from values import ARGUMENTS

project = "sumwise"
author = "The sumwise authors"
copyright = "The sumwise authors"
version = release = sumwise.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "commands",
    "values",
    "links",
    "dashes",
]
HERE = Path(__file__).parent
STORIES = [each.stem for each in (HERE / "stories").glob("*.rst") if each.stem != "index"]
GONE = [each for each in STORIES if not (HERE / "gallery" / f"{each}.py").exists()]
exclude_patterns = ["_ext", "gallery", "stories/*.ipynb", "stories/*.py"]
exclude_patterns += [f"stories/{each}.rst" for each in GONE]  # of an earlier build
templates_path = ["_templates"]

# --- Markdown: what is in docs/ reads well without the site, and is not changed for it ------------

myst_heading_anchors = 4

# --- the reference, from docstrings ---------------------------------------------------------------

highlight_language = "none"  # what is code says so
smartquotes = False  # --option is no dash
default_role = "py:obj"  # `ask` is a link where there is such a name, and code where there is not
autosummary_generate = True
autosummary_context = {"arguments": ARGUMENTS}
autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    "special-members": "__call__, __getitem__",
    "member-order": "bysource",
}
autodoc_preserve_defaults = True  # as they are written
autodoc_typehints = "description"  # beside what is said of a parameter
autodoc_typehints_description_target = "documented_params"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
toc_object_entries_show_parents = "hide"

# --- the gallery: stories that were run -----------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "stories",
    "filename_pattern": r"\.py$",  # all of them
    "image_scrapers": ("charts.scraper",),
    "reset_modules": (),
    "capture_repr": ("_repr_html_", "__str__"),
    "ignore_repr_types": r"altair\.",  # they are pictures
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,  # that page asks other hosts for its table
}

# --- how it looks ---------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = f"sumwise {release}"
html_favicon = "../src/sumwise/web/static/icon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_context = {"default_mode": "auto"}  # light or dark, as the reader's machine is
html_theme_options = {
    "logo": {"text": "sumwise"},
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
