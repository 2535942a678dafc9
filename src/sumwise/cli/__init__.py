"""The command line: parse, call one function, print.

Results go to stdout and talk to stderr; exit code 0 is done, 1 refused, 2 misused. `common.Main` is
the one place that turns our errors into messages. Commands are imported when they are called: the
help of the group needs no more than their first lines, which stand here.
"""

from __future__ import annotations

import os

# before NumPy is there: BLAS threads with nothing to do sleep at once instead of waiting busily,
# which would cost a short command a tenth of its time
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

import rich_click as click

from sumwise import __version__
from sumwise.cli.common import SETTINGS, Lazy, Main

__all__ = ["main"]


@click.group(cls=Main, context_settings=SETTINGS)
@click.version_option(__version__, prog_name="sumwise")
def main() -> None:
    """Choose which totals to measure; learn every part.

    Things come in groups, and only a group's total can be measured: the exam result of a district,
    the power drawn behind a meter. sumwise says which group to measure next, and
    predicts every member from the totals.

    \b
      sumwise init schools.db schools.csv --by district --x lunch --x enroll
      sumwise ask schools.db
      sumwise tell schools.db "Ann Arbor" 843
      sumwise predict schools.db -o predictions.csv
    \b
      sumwise demo                    # at work on 1,692 schools, in seconds
      sumwise demo --questions 10 --seeds 3 --out charts
    """


_COMMANDS = {
    "A study": {
        "init:init": "Begin a study from a table of individuals.",
        "asking:ask": "Which set to measure next, and why.",
        "telling:tell": "The measured total of a set, or of many from a file.",
        "telling:amend": "Correct a total that was told.",
        "telling:retract": "Take a total back that was told.",
        "asking:claim": "Hold a set of your own choice, as if it had been asked for.",
        "asking:renew": "Keep a set for longer that was asked for.",
        "asking:release": "Give a set back that was asked for.",
        "asking:skip": "Set a set aside that cannot be measured.",
        "asking:unskip": "Let a set that was skipped be asked for again.",
        "serve:serve": "A page for the people who measure, in the browser.",
    },
    "Looking": {
        "status:status": "Where the study stands, and how much there is still to learn.",
        "predict:predict": "Every individual's output, with its uncertainty.",
        "export:report": "The study as a page that opens in any browser, offline.",
        "status:answers": "Totals as they stand, in the order in which they came.",
        "status:history": "Who asked, told, corrected and took back what, and when.",
    },
    "Moving": {
        "export:export": "Write the whole study to a folder of open formats.",
        "export:import_": "Make a study of a folder that was exported.",
        "export:storage": "Databases: which studies are there, and newer schemas.",
    },
    "Trying it out": {
        "demo:demo": "Learn Michigan's schools from totals of districts.",
        "simulate:simulate": "Which strategy wins on data like mine?",
        "reproduce:reproduce": "Run the paper's experiments, beside the published figures.",
        "completion:completion": "A script with which a shell completes what you type.",
    },
}

for _panel, _lines in _COMMANDS.items():
    for _where, _help in _lines.items():
        _name = _where.partition(":")[2].removesuffix("_")
        main.add_command(Lazy(_name, f"sumwise.cli.{_where}", _help, _panel))
