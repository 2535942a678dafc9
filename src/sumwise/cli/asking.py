"""`sumwise ask` and its kin: which set to measure, who is measuring it, and which to leave out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rich_click as click

from sumwise.cli.common import SETTINGS
from sumwise.cli.options import (
    Signed,
    by_option,
    find_set,
    note_option,
    opened,
    option_number,
    repeated,
    set_argument,
    study_options,
    url_argument,
)
from sumwise.cli.output import named, show, show_json, suggest, typed, visible, with_error
from sumwise.learning.propose import Question
from sumwise.util.text import figure, moment, shown
from sumwise.util.threads import one_thread


@click.command(context_settings=SETTINGS)
@url_argument
@click.option(
    "-n",
    "n",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="How many sets, chosen to be good together; 1 if left out, or with --budget as many as it "
    "pays for.",
)
@click.option(
    "--budget",
    metavar="NUMBER",
    help="Ask only for what this pays for, in the unit of the costs that init was given.",
)
@by_option("Who will measure.")
@study_options
def ask(
    url: str, name: str | None, n: int | None, budget: str | None, by: str | None, as_json: bool
) -> None:
    """Which set to measure next, and why.

    The set is yours until you tell its total, release it, or the time is up: nobody else is asked
    for it meanwhile, and their questions are chosen as if yours were answered.

    \b
      sumwise ask schools.db
      sumwise ask schools.db -n 3 --by ann
      sumwise ask schools.db --budget 40
      sumwise ask schools.db --json | python -m json.tool
    """
    with one_thread(), opened(url, name) as study:  # threads would mostly wait for one another
        money = None if budget is None else option_number("--budget", budget)
        asked = study.ask(n, by=by, budget=money)
        known = bool(study.answers)
    questions = asked if isinstance(asked, list) else [asked]
    _show_questions(questions, known, repeated(url, name), by, as_json, money)


@click.command(cls=Signed, context_settings=SETTINGS)
@url_argument
@set_argument()
@by_option("Who will measure.")
@study_options
def claim(url: str, name: str | None, set_text: str, by: str | None, as_json: bool) -> None:
    """Hold a set of your own choice, as if it had been asked for.

    What is expected of it is said as for any question, and nobody else is asked for it.

    \b
      sumwise claim schools.db "Ann Arbor" --by ann
      sumwise claim schools.db 82010 --json
    """
    with opened(url, name) as study:
        asked = study.claim(find_set(study, set_text), by=by)
        known = bool(study.answers)
    _show_questions([asked], known, repeated(url, name), by, as_json)


def _show_questions(
    questions: Sequence[Question],
    known: bool,
    again: Sequence[str],
    by: str | None,
    as_json: bool,
    budget: float | None = None,
) -> None:
    """Questions and how to answer; `known` says whether anything can be expected yet."""
    prices = [question.cost for question in questions if question.cost is not None]
    if as_json:
        rows = [_as_json(question) for question in questions]
        show_json({"questions": rows, "cost": sum(prices) if prices else None})
        return
    several = len(questions) > 1
    for place, question in enumerate(questions, start=1):
        if place > 1:
            click.echo()
        _show_question(question, f"{place}. " if several else "", known)
    if prices and (several or budget is not None):
        click.echo()
        whole = "" if budget is None else f" of the budget of {budget:.9g}"
        show(f"{'Together they cost' if several else 'It costs'} {sum(prices):.9g}{whole}.")
    who = () if by is None else ("--by", by)
    suggest(
        "When one is measured, for example:" if several else "When it is measured:",
        typed("tell", *again, shown(questions[0].set_id), "TOTAL", *who),
    )


def _show_question(question: Question, numbered: str, known: bool) -> None:
    indent = " " * len(numbered)
    expected = f"   expected total {with_error(question.expected, question.std)}" if known else ""
    click.echo(f"{numbered}{named(question.set_id)}{expected}")
    if f"{question.score:.3g}" != f"{question.information:.3g}":  # the sentence has another score
        show(f"Its total would teach {figure(question.information)} nats.", indent)
    show(question.why, indent)
    if question.runner_up is not None and question.runner_up_score is not None:
        each = question.runner_up_score_per_cost
        score = f"{question.runner_up_score:.3g}" if each is None else f"{each:.3g} for each unit"
        show(f"Next best: {named(question.runner_up)} ({score}).", indent)
    holder = "Held" if question.by is None else f"Held by {visible(question.by, 40)}"
    show(f"{holder} until {moment(question.expires)}.", indent)


def _as_json(question: Question) -> dict[str, Any]:
    second = question.runner_up
    return {
        "set": shown(question.set_id),
        "expected": question.expected,
        "std": question.std,
        "information": question.information,
        "score": question.score,
        "why": question.why,
        "runner_up": None if second is None else shown(second),
        "runner_up_score": question.runner_up_score,
        "cost": question.cost,
        "score_per_cost": question.score_per_cost,
        "runner_up_cost": question.runner_up_cost,
        "number": question.number,
        "by": question.by,
        "expires": question.expires,
    }


@click.command(cls=Signed, context_settings=SETTINGS)
@url_argument
@set_argument()
@by_option("Who gives it back.")
@study_options
def release(url: str, name: str | None, set_text: str, by: str | None, as_json: bool) -> None:
    """Give a set back that was asked for.

    Others may be asked for it then.

    \b
      sumwise release schools.db "Ann Arbor"
      sumwise release schools.db 82010 --by ann
    """
    with opened(url, name) as study:
        own = find_set(study, set_text)
        study.release(own, by=by)
    if as_json:
        show_json({"released": shown(own)})
    else:
        show(f"{named(own)} is free again.")


@click.command(cls=Signed, context_settings=SETTINGS)
@url_argument
@set_argument()
@by_option("Who sets it aside.")
@note_option
@study_options
def skip(
    url: str, name: str | None, set_text: str, by: str | None, note: str | None, as_json: bool
) -> None:
    """Set a set aside that cannot be measured.

    Nobody is asked for it any more, until it is told, claimed or unskipped.

    \b
      sumwise skip schools.db "Ann Arbor" --note "they do not answer"
      sumwise skip schools.db 82010 --by ann
    """
    with opened(url, name) as study:
        own = find_set(study, set_text)
        held = [claim for claim in study.claims if claim.set_id == own and claim.by != by]
        study.skip(own, by=by, note=note)
    if as_json:
        show_json({"skipped": shown(own)})
        return
    show(f"{named(own)} is set aside.")
    for claim in held:
        who = "somebody" if claim.by is None else visible(claim.by, 40)
        show(f"It was with {who}, who may be measuring it: tell them.")


@click.command(cls=Signed, context_settings=SETTINGS)
@url_argument
@set_argument()
@by_option("Who brings it back.")
@study_options
def unskip(url: str, name: str | None, set_text: str, by: str | None, as_json: bool) -> None:
    """Let a set that was skipped be asked for again.

    It comes when it is worth a question, which need not be at once.

    \b
      sumwise unskip schools.db "Ann Arbor"
      sumwise unskip schools.db 82010 --by ann
    """
    with opened(url, name) as study:
        own = find_set(study, set_text)
        study.unskip(own, by=by)
    if as_json:
        show_json({"unskipped": shown(own)})
    else:
        show(f"{named(own)} may be asked for again.")


@click.command(cls=Signed, context_settings=SETTINGS)
@url_argument
@set_argument()
@click.option("--days", metavar="NUMBER", help="From now on; the study's own time if left out.")
@by_option("Who needs more time.")
@study_options
def renew(
    url: str, name: str | None, set_text: str, days: str | None, by: str | None, as_json: bool
) -> None:
    """Keep a set for longer that was asked for.

    \b
      sumwise renew schools.db "Ann Arbor"
      sumwise renew schools.db 82010 --days 30
    """
    with opened(url, name) as study:
        own = find_set(study, set_text)
        longer = None if days is None else option_number("--days", days)
        expires = study.renew(own, days=longer, by=by)
    if as_json:
        show_json({"set": shown(own), "expires": expires})
    else:
        show(f"{named(own)} is held until {moment(expires)}.")
