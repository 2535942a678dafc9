"""Everything public has its place in the reference, with its arguments and a description."""

from __future__ import annotations

import inspect
from types import FunctionType

import click
import pytest
from bs4 import BeautifulSoup, SoupStrainer

import sumwise as sw
from sumwise import distributed, web
from sumwise.cli import main as program

MODULES = (sw, distributed, web)
WRAPPED = (classmethod, staticmethod)


@pytest.fixture(scope="module")
def entries(site):
    """Heads of the entries of all pages of the reference, by the name that they describe."""
    heads = SoupStrainer("dl")
    pages = [site / "reference.html", *(site / "reference").glob("sumwise.*.html")]
    return {
        head["id"]: head
        for page in pages
        for head in BeautifulSoup(page.read_text(), "html.parser", parse_only=heads)("dt", id=True)
    }


def public() -> dict[str, object]:
    """Public names, and those of members of public classes that are ours, with what they are."""
    found = {
        f"{module.__name__}.{name}": getattr(module, name)
        for module in MODULES
        for name in module.__all__
    }
    for name, kind in list(found.items()):
        if inspect.isclass(kind):
            found |= {f"{name}.{each}": value for each, value in members(kind).items()}
    return found


def members(kind: type) -> dict[str, object]:
    """Methods, properties and fields that the class itself defines."""
    fields = dict.fromkeys(vars(kind).get("__annotations__", {}))
    return {name: value for name, value in (fields | dict(vars(kind))).items() if name[0] != "_"}


def test_every_public_name_and_member_is_in_the_reference(entries):
    arguments = {
        f"{name}.{each.text.partition('=')[0]}"
        for name, head in entries.items()
        for each in head(class_="sig-param")
    }
    missing = sorted(set(public()) - set(entries) - arguments)
    assert missing == [], "add names to docs/reference.md"


def test_every_entry_has_a_description(entries):
    described = {name: head.find_next_sibling("dd").text.strip() for name, head in entries.items()}
    empty = sorted(name for name in set(public()) & set(entries) if not described[name])
    assert empty == [], "write a docstring, or a comment behind a field"


def test_functions_and_methods_show_their_arguments(entries):
    called = [
        name for name, value in public().items() if isinstance(value, (FunctionType, *WRAPPED))
    ]
    assert len(called) > 80
    for name in called:
        shown = [each.text for each in entries[name](class_="sig-param")]
        function = public()[name]
        function = getattr(function, "__func__", function)
        wanted = [
            each for each in inspect.signature(function).parameters if each not in ("self", "cls")
        ]
        assert all(any(word in each for each in shown) for word in wanted), name


def options(command: click.Command, words: tuple[str, ...] = ("sumwise",)) -> set[str]:
    """`sumwise tell --by`, for all options of a command and of the commands below it."""
    context = click.Context(command)
    if not isinstance(command, click.Group):
        shown = (each for each in command.params if not getattr(each, "hidden", True))
        return {f"{' '.join(words)} {name}" for each in shown for name in each.opts}
    below = (command.resolve_command(context, [name])[1] for name in command.list_commands(context))
    return {
        name for each in below if not each.hidden for name in options(each, (*words, each.name))
    }


def test_every_option_of_every_command_is_in_the_reference(site):
    page = BeautifulSoup((site / "reference" / "commands.html").read_text(), "html.parser")
    described = {
        f"{section.find('h3').text.rstrip('#')} {name.text}"
        for section in page("section")
        if section.find("h3") and not section.find("section")
        for name in section(class_="descname")
    }
    wanted = options(program)
    assert len(wanted) > 100
    assert wanted - described == set()
