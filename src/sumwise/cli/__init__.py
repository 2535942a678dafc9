"""The command line: parse, call one function, print.

Results go to stdout and talk to stderr; exit code 0 is done, 1 refused, 2 misused. `common.Main` is
the one place that turns our errors into messages.
"""

from __future__ import annotations

import rich_click as click

from sumwise import __version__
from sumwise.cli.common import SETTINGS, Main
from sumwise.cli.demo import demo
from sumwise.cli.reproduce import reproduce
from sumwise.cli.simulate import simulate

__all__ = ["main"]


@click.group(cls=Main, context_settings=SETTINGS)
@click.version_option(__version__, prog_name="sumwise")
def main() -> None:
    """Choose which totals to measure; learn every part.

    Things come in groups, and only a group's total can be measured: the exam result of a district,
    the power drawn behind a meter. sumwise says which group to measure next, and
    predicts every member from the totals.

    See it at work on 1,692 schools, in about ten seconds:

    \b
      sumwise demo
      sumwise demo --questions 10 --seeds 3 --out charts
    """


main.add_command(demo)
main.add_command(simulate)
main.add_command(reproduce)
