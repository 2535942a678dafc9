"""All edits of a file that should change what it does: the mutants that are drawn from.

Not edited, because no test can or should see it: annotations, decorators, docstrings, `__all__`,
numbers that are constants of a module (BLOCK, LARGEST: they tune), words (text with a space,
f-strings, what is raised, warned of or logged), arguments of functions that take them either way,
`strict=` of zip.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

OTHERS = {  # of an operator
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt), ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,), ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult,), ast.Pow: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,), ast.Mod: (ast.Mult,), ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,), ast.And: (ast.Or,), ast.Or: (ast.And,),
}  # fmt: skip
TALK = {"warn", "debug", "info", "warning", "error", "exception", "cast", "getLogger", "TypeVar"}
EITHER_WAY = {"max", "min", "maximum", "minimum", "union1d", "intersect1d", "isclose", "hypot"}
SOURCE = Path(__file__).resolve().parents[1] / "src" / "sumwise"
Place = tuple[Path, int]  # a line
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Edit:
    """Bytes of a file, and what to put in their place."""

    file: Path
    start: int
    end: int
    new: str
    line: int
    lines: frozenset[Place]  # tests that run none of these cannot notice it


def replacements(node: ast.AST) -> Iterator[str]:
    """Other code for one expression or statement."""
    match node:
        case ast.Compare(left, [op], right):
            for other in OTHERS[type(op)]:
                yield f"({ast.unparse(ast.Compare(left, [other()], right))})"
        case ast.BinOp(_, ast.BitOr(), ast.Constant(None)):
            return  # a type
        case ast.BinOp(left, op, right) if type(op) in OTHERS:
            yield f"({ast.unparse(ast.BinOp(left, OTHERS[type(op)][0](), right))})"
        case ast.BoolOp(op, values):
            yield f"({ast.unparse(ast.BoolOp(OTHERS[type(op)][0](), values))})"
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield f"({ast.unparse(operand)})"
        case ast.Constant(bool(value)):
            yield str(not value)
        case ast.Constant(int(value) | float(value)):
            yield from (f"({value + 1!r})", f"({value - 1!r})")
        case ast.Constant(str(value)) if value.strip() and " " not in value:
            yield repr(value + "X")
        case ast.Call(function, [first, second, *rest], named) if not (
            any(isinstance(each, ast.Starred) for each in node.args)
            or ast.dump(first) == ast.dump(second)
            or ast.unparse(function).rpartition(".")[2] in EITHER_WAY
        ):
            yield ast.unparse(ast.Call(function, [second, first, *rest], named))
        case ast.If(test) | ast.While(test) | ast.IfExp(test) if isinstance(
            test, ast.Name | ast.Attribute | ast.Call
        ):
            yield f"(not {ast.unparse(test)})"
        case ast.Expr(ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise():
            yield "pass"
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield "pass"
        case ast.Return(value) if not isinstance(value, ast.Constant | None):
            yield "return None"


def parts(node: ast.AST, top: bool) -> Iterator[ast.AST]:
    """Children that are edited."""
    left_out: list[ast.AST | None] = []
    match node:
        case ast.arg() | ast.JoinedStr() | ast.Raise() | ast.Assert() | ast.Import():
            return
        case ast.ImportFrom() | ast.Global() | ast.keyword("stacklevel" | "strict"):
            return
        case ast.Call(ast.Attribute(attr=name) | ast.Name(name)) if name in TALK:
            return
        case ast.If(ast.Name("TYPE_CHECKING")):
            return
        case ast.Assign([ast.Name("__all__")]):
            return
        case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), value=value):
            if top and name.isupper() and not named_things(value):
                return
    for field in ("annotation", "returns"):
        left_out.append(getattr(node, field, None))
    left_out += getattr(node, "decorator_list", [])
    if isinstance(node, Function | ast.ClassDef | ast.Module) and ast.get_docstring(node, False):
        left_out.append(node.body[0])
    yield from (child for child in ast.iter_child_nodes(node) if child not in left_out)


def named_things(value: ast.AST | None) -> bool:
    """Whether a constant of a module is more than a number: a table, or a name."""
    return value is not None and any(
        isinstance(each, ast.Constant) and isinstance(each.value, str) for each in ast.walk(value)
    )


@cache
def uses() -> dict[str, set[Place]]:
    """The lines that read each name, in all files."""
    found: dict[str, set[Place]] = {}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            name = getattr(node, "id", getattr(node, "attr", None))
            if name and isinstance(node.ctx, ast.Load):
                found.setdefault(name, set()).add((file, node.lineno))
    return found


def edits_of(file: Path) -> Iterator[Edit]:
    """All edits of a file."""
    text = file.read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def lines(first: int, last: int) -> set[Place]:
        return {(file, n) for n in range(first, last + 1)}

    def runs(node: ast.stmt, inside: bool) -> set[Place]:
        """The lines that a test must run; what an import runs is seen where it is used."""
        body = getattr(node, "body", None)
        if inside:
            end = body[0].lineno - 1 if isinstance(body, list) else node.end_lineno
            return lines(node.lineno, max(node.lineno, end)) | compiled
        if isinstance(node, Function):
            return lines(node.body[0].lineno, node.end_lineno) | compiled
        names = [node.name] if isinstance(node, ast.ClassDef) else []
        names += [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
        return lines(node.lineno, node.end_lineno) | uses().get((*names, "")[0], set())

    def visit(node: ast.AST, where: set[Place], inside: bool, owner: bool) -> Iterator[Edit]:
        if isinstance(node, ast.stmt) and not (
            owner and not inside and not isinstance(node, Function)
        ):
            where = runs(node, inside)
        at = node.test if isinstance(node, ast.If | ast.While | ast.IfExp) else node
        for new in replacements(node):
            start = starts[at.lineno - 1] + at.col_offset
            end = starts[at.end_lineno - 1] + at.end_col_offset
            yield Edit(file, start, end, new, at.lineno, frozenset(where))
        for child in parts(node, top=not inside):
            within = inside or (isinstance(node, Function) and child in node.body)
            yield from visit(child, where, within, owner or isinstance(node, ast.ClassDef))

    compiled = uses()["kernels"] if file.stem == "kernels" else set()  # which shows no lines
    yield from visit(ast.parse(text), set(), False, False)
