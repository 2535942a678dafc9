"""`sumwise ask`, `claim`, `renew`, `release`, `skip` and `unskip`: which set is measured next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from sumwise.cli import options
from sumwise.cli.options import Address, option, to_number
from sumwise.cli.output import named, placeholder, show, show_json, suggest, visible, with_error
from sumwise.data.about import About
from sumwise.learning.propose import Ask, NewPool
from sumwise.util.text import by_text, find, moment, shown
from sumwise.util.threads import one_thread


@options.study_command(
    options.count(
        "-n", "Number of sets, chosen jointly. Default: 1, or with --budget as many as it pays for."
    ),
    option("--budget NUMBER", "Spend at most this, in the unit of the costs given to init."),
    option("--preview", "Show what would be asked, and claim nothing."),
    options.by("Who will measure."),
    options.cluster,
)
def ask(address: Address, n: int | None, budget: str | None, preview: bool, by: str | None) -> None:
    """Choose the set to measure next, and say why.

    In a study that designs its sets (init --design), say whom to measure together.

    The set is reserved for you until you tell its total, release it, or the claim expires. Others
    are asked for different sets, chosen as if yours were already measured.

    \b
      sumwise ask schools.db
      sumwise ask schools.db -n 3 --by ann
      sumwise ask schools.db --budget 40
      sumwise ask schools.db --preview -n 5
      sumwise ask schools.db --json | python -m json.tool
    """
    with one_thread(), address.open() as study:  # threads would mostly wait for one another
        money = None if budget is None else to_number(budget, "--budget")
        if preview:
            asked = study.propose(n or (1 if budget is None else len(study.ids)), budget=money)
        else:
            asked = study.ask(n, by=by, budget=money)
        known, about = bool(study.answers), study.about
    questions = asked if isinstance(asked, list) else [asked]
    _show_questions(address, questions, known, about, money, by)


@options.set_command(options.by("Who will measure."), options.cluster)
def claim(address: Address, set_text: str, by: str | None) -> None:
    """Reserve a set of your own choice.

    The claim works like a question: the expected total is printed, and others are not asked for
    the set. If sets are designed, SET may be a pool that ask --preview -n 5 shows.

    \b
      sumwise claim schools.db "Ann Arbor" --by ann
      sumwise claim schools.db 82010 --json
    """
    with one_thread(), address.open() as study:
        kept = study.state.record
        proposed = [] if kept.designing is None else [ask.set_id for ask in study.propose()]
        asked = study.claim(find(by_text([*kept.sets.ids, *proposed]), set_text), by=by)
        known, about = bool(study.answers), study.about
    _show_questions(address, [asked], known, about)


def _show_questions(
    address: Address,
    questions: Sequence[Ask],
    known: bool,
    about: About,
    budget: float | None = None,
    by: str | None = None,
) -> None:
    """Print questions and how to answer them; before the first answer nothing is expected."""
    prices = [question.cost for question in questions if question.cost is not None]
    cost = sum(prices) if prices else None
    show_json({"questions": [_as_json(question) for question in questions], "cost": cost})
    several = len(questions) > 1
    for place, question in enumerate(questions, start=1):
        if place > 1:
            show()
        _show_question(question, f"{place}. " if several else "", known, about)
    if cost is not None and (several or budget is not None):
        show()
        whole = "" if budget is None else f" of the budget of {budget:.9g}"
        show(f"{'Together they cost' if several else 'It costs'} {cost:.9g}{whole}.")
    if not questions:
        show("No set is free; nothing would be asked.")
        return
    designs = any(question.pool is not None for question in questions)
    if not questions[0].expires:
        changes = " Pools may have other members once totals have come in." if designs else ""
        show(f"Nothing is claimed: this is a preview.{changes}")
        suggest("To ask and claim:", address.typed("ask", by=by))
        return
    suggest(
        "When one is measured, for example:" if several else "When it is measured:",
        address.typed("tell", shown(questions[0].set_id), placeholder(about), by=questions[0].by),
    )


def _show_question(question: Ask, numbered: str, known: bool, about: About) -> None:
    indent, expected = " " * len(numbered), ""
    if known:
        value = about.quantity(with_error(question.expected, question.std))
        expected = f"   expected {about.title} {value}"
    show(f"{numbered}{named(question.set_id)}{expected}", wrap=False)
    if question.pool is not None:
        show(f"Together: {_members(question.pool)}.", indent)
    show(question.why, indent)
    if question.runner_up is not None:
        show(f"Next best: {named(question.runner_up)}.", indent)
    if not question.expires:
        return
    holder = "Held" if question.by is None else f"Held by {visible(question.by, 40)}"
    show(f"{holder} until {moment(question.expires)}.", indent)


def _members(pool: NewPool) -> str:
    """Who is in a pool, with weights where they differ."""
    names = [named(name) for name in pool.members]
    if len({*pool.theta}) > 1:
        parts = zip(names, pool.theta, strict=True)
        names = [f"{name} (weight {weight:.6g})" for name, weight in parts]
    return ", ".join(names)


def _as_json(question: Ask) -> dict[str, Any]:
    values, pool = asdict(replace(question, pool=None)), question.pool
    del values["pool"]
    if pool is not None:
        members = zip(map(shown, pool.members), pool.theta, strict=True)
        values["members"] = [{"id": name, "weight": weight} for name, weight in members]
        values["bound"] = pool.bound
    own, second = values.pop("set_id"), values["runner_up"]
    values["runner_up"] = None if second is None else shown(second)
    return {"set": shown(own), **values, "score_per_cost": question.score_per_cost}


@options.set_command(options.by("Who releases it."))
def release(address: Address, set_text: str, by: str | None) -> None:
    """Give up a claim, so that others may be asked for the set.

    \b
      sumwise release schools.db "Ann Arbor"
      sumwise release schools.db 82010 --by ann
    """
    with address.find(set_text) as (study, own):
        study.release(own, by=by)
    show_json({"released": shown(own)})
    show(f"{named(own)} is free again.")


@options.set_command(options.by("Who skips it."), options.note)
def skip(address: Address, set_text: str, by: str | None, note: str | None) -> None:
    """Exclude a set that cannot be measured.

    It is not asked for again until it is told, claimed or unskipped.

    \b
      sumwise skip schools.db "Ann Arbor" --note "they do not answer"
      sumwise skip schools.db 82010 --by ann
    """
    with address.find(set_text) as (study, own):
        held = [claim for claim in study.claims if claim.set_id == own and claim.by != by]
        inside = [c.set_id for c in study.claims if own in study.pools.get(c.set_id, ())]
        study.skip(own, by=by, note=note)
    more = {"open_pools": [*map(shown, inside)]} if inside else {}
    show_json({"skipped": shown(own), **more})
    show(f"{named(own)} is skipped.")
    for name in inside:
        show(f"It is a member of {named(name)}, which is being measured: release that, or say who")
        show("was measured (tell --of).")
    for claim in held:
        holder = "without a name" if claim.by is None else f"by {visible(claim.by, 40)}"
        show(f"It was claimed {holder}; inform the person who may be measuring it.")


@options.set_command(options.by("Who brings it back."))
def unskip(address: Address, set_text: str, by: str | None) -> None:
    """Allow a skipped set to be asked for again.

    It is asked for when it is the best choice, which may be later.

    \b
      sumwise unskip schools.db "Ann Arbor"
      sumwise unskip schools.db 82010 --by ann
    """
    with address.find(set_text) as (study, own):
        study.unskip(own, by=by)
    show_json({"unskipped": shown(own)})
    show(f"{named(own)} may be asked for again.")


@options.set_command(
    option("--days NUMBER", "Days from now. Default: --claim-days as given to init."),
    options.by("Who needs more time."),
)
def renew(address: Address, set_text: str, days: str | None, by: str | None) -> None:
    """Extend a claim.

    \b
      sumwise renew schools.db "Ann Arbor"
      sumwise renew schools.db 82010 --days 30
    """
    with address.find(set_text) as (study, own):
        longer = None if days is None else to_number(days, "--days")
        expires = study.renew(own, days=longer, by=by)
    show_json({"set": shown(own), "expires": expires})
    show(f"{named(own)} is held until {moment(expires)}.")
