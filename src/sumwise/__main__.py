"""`python -m sumwise` is the command line."""

from __future__ import annotations

from sumwise.cli import main

main(prog_name="sumwise")
