"""How classes are shown: fields with the comments behind them, arguments only where readers call.

score: float  # higher is asked sooner
"""

from __future__ import annotations

import ast
import inspect
from functools import cache
from importlib import import_module
from typing import Any

import sumwise as sw

ARGUMENTS = {  # of classes that readers call; functions and methods give instances of the others
    f"sumwise.{kind.__name__}": list(inspect.signature(kind).parameters)
    for kind in (sw.ActiveLearner, sw.AggregateRegressor, sw.Neural)
}


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-signature", without_call)
    app.connect("autodoc-process-docstring", with_comment, priority=400)  # before Napoleon
    return {"parallel_read_safe": True}


def without_call(app: Any, what: str, name: str, *_: Any) -> tuple[str, str] | None:
    """No arguments of classes that no reader calls."""
    del app
    return ("", "") if what == "class" and name not in ARGUMENTS else None


def with_comment(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    del app, obj, options
    if what not in ("attribute", "property"):
        return
    owner, _, field = name.rpartition(".")
    if said := comments(owner).get(field):
        lines[:] = [f"{said[0].upper()}{said[1:]}."]
    if lines:  # an empty comment, or Napoleon takes words before a colon for a type
        lines[:0] = ["..", ""]


@cache
def comments(owner: str) -> dict[str, str]:
    """Fields of a class with the comments behind them."""
    module, _, name = owner.rpartition(".")
    source = inspect.getsource(getattr(import_module(module), name))
    lines = source.splitlines()
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            own = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            found[node.target.id] = own.partition("  # ")[2].partition("\n")[0].strip()
    return found
