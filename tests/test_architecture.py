"""The plan of the source: few packages, few layers, short functions, and not too much of it.

Which package may import which, and that SQLAlchemy stays in storage, is in pyproject.toml and
checked by `make lint`.
"""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

from tests.mutants import MUTANTS

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "sumwise"
FILES = sorted(SOURCE.rglob("*.py"))
MOST_ENTRIES = 14  # at the top of the package, beside the two files that tools look for
FOR_TOOLS = {"__main__.py", "py.typed", "__pycache__"}
MOST_LAYERS = 10
MOST_LINES = 51_400  # of Python: remove something before adding
LONGEST = 60  # lines of a function
MOST_PARAMETERS = 10  # outside the command line, where each is an option


def functions():
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield file.relative_to(SOURCE), node


def test_the_top_of_the_package_shows_the_program():
    entries = [entry.name for entry in SOURCE.iterdir() if entry.name not in FOR_TOOLS]
    assert len(entries) <= MOST_ENTRIES, sorted(entries)


def test_there_are_few_layers():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layered = next(each for each in settings["contracts"] if each["type"] == "layers")
    assert len(layered["layers"]) <= MOST_LAYERS


def test_functions_are_short():
    long = {
        f"{file}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for file, node in functions()
    }
    assert {name: lines for name, lines in long.items() if lines > LONGEST} == {}


def test_functions_have_few_parameters():
    many = {
        f"{file}:{node.lineno} {node.name}": len(parameters(node.args))
        for file, node in functions()
        if file.parts[0] != "cli"
    }
    assert {name: count for name, count in many.items() if count > MOST_PARAMETERS} == {}


def parameters(arguments: ast.arguments) -> list[str]:
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [each.arg for each in named if each.arg not in ("self", "cls")]


def test_there_is_not_too_much_of_it():
    lines = sum(file.read_text().count("\n") for file in FILES)
    assert lines <= MOST_LINES, f"{lines:,} lines"


def test_every_mutant_breaks_a_line_that_is_there():
    found = {name: (SOURCE / file).read_text().count(line) for name, file, line, _ in MUTANTS}
    assert {name: count for name, count in found.items() if count != 1} == {}
